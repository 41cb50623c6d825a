"""The parts of docs that are made from the catalogues of rules, faults, negative cases and metrics.

``python -m tests.support.catalogue_pages`` writes them anew, the schema of a journal's lines, the
dashboard, and what ``recorded`` keeps.
"""

from __future__ import annotations

import sys
import textwrap
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.coordinates.events.json_schema import page as schema_page
from tallystick.coordinates.rules.describe import page as rules_page
from tallystick.producers.simulator.faults import FAULTS, Fault, FaultGroup
from tallystick.producers.simulator.negatives import NEGATIVES
from tests.support import recorded
from tests.support.monitoring_pages import DASHBOARD, dashboard, metrics_table
from tests.support.runbook_page import filled

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
MARK = "<!-- what follows is generated: python -m tests.support.catalogue_pages -->\n"


def faults() -> str:
    """A section for each group of faults."""
    lines: list[str] = []
    for group in FaultGroup:
        lines += ["", f"## {group.value.capitalize()}", ""]
        for fault in FAULTS.values():
            if fault.group is group:
                lines += _fault(fault)
    return "\n".join(lines) + "\n"


def negatives() -> str:
    """A section for each family of negative cases."""
    lines: list[str] = []
    for family, cases in groupby(NEGATIVES.values(), key=lambda case: case.__module__):
        about = (sys.modules[family].__doc__ or "").strip()
        lines += ["", f"## {family.rpartition('.')[2].replace('_', ' ').capitalize()}", ""]
        lines += [*_wrapped(about, ""), ""]
        for case in cases:
            lines += _wrapped(f"- `{case.name}`: {case.text}", "  ")
    return "\n".join(lines) + "\n"


PAGES = {"faults.md": faults, "negatives.md": negatives, "metrics.md": metrics_table}


def _fault(fault: type[Fault]) -> Iterator[str]:
    notes = [
        note
        for note, is_so in (("stays", not fault.heals), ("quiet", not fault.bears_acts))
        if is_so
    ]
    broken = ", ".join(f"`{name}`" for name in sorted(fault.must_fire))
    noted = f" ({', '.join(notes)})" if notes else ""
    base = fault.base.value
    yield from _wrapped(
        f"- F{fault.number} `{fault.name}`{noted}: {fault.text}. Breaks {broken}. Needs {base}.",
        "  ",
    )


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    (DOCS / "rules.md").write_text(rules_page(), "utf-8")
    for name, make in PAGES.items():
        page = DOCS / name
        written = page.read_text("utf-8").partition(MARK)[0]
        page.write_text(written + MARK + make(), "utf-8")
    runbook = DOCS / "runbook.md"
    runbook.write_text(filled(runbook.read_text("utf-8")), "utf-8")
    (DOCS / "journal.schema.json").write_text(schema_page(), "utf-8")
    DASHBOARD.write_text(dashboard(), "utf-8")
    recorded.write()
