"""docs/journal.schema.json: it is that of the code, and accepts what the reader accepts."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tallystick.campaign import scenario_of
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.events.json_schema import journal_schema, page
from tallystick.producers.simulator.assemble import simulate
from tests.coordinates.test_json_lines import REFUSED
from tests.support.orders import STORED, TESTS

DOCS = TESTS.parent / "docs"
BEYOND = (
    *("found 1.0", "ends at most", "only once", "must not be collected"),
    *("a GTID, as ", "a GTID set ("),
)
"""What no schema says: of keys together, of their names, of GTIDs, and that 1.0 is no integer."""


@cache
def validator(kind: str) -> Draft202012Validator:
    """Of one kind of line, so that an error is about that kind."""
    schema = journal_schema()
    which = [{"$ref": f"#/$defs/{title}"} for title in schema["$defs"] if _is_of(title, kind)]
    return Draft202012Validator({**schema, "oneOf": which})


def _is_of(title: str, kind: str) -> bool:
    return title.partition(".")[0] == kind


def accepts(record: Any) -> bool:
    """Whether the schema does."""
    kind = record.get("kind") if isinstance(record, dict) else None
    return bool(validator(str(kind)).is_valid(record)) if kind else False


def shapes(lines: list[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """One record of each set of keys that lines have."""
    records = map(json.loads, lines)
    return {(one["kind"], one.get("type"), one.get("step"), *sorted(one)): one for one in records}


def test_the_page_is_that_of_the_code() -> None:
    """Else run ``python -m tests.support.catalogue_pages``."""
    assert (DOCS / "journal.schema.json").read_text("utf-8") == page()
    assert json.loads(page()) == journal_schema()
    Draft202012Validator.check_schema(journal_schema())


@pytest.mark.parametrize("history", [*STORED, *range(0, 260, 13)])
def test_journals_are_valid(history: str | int) -> None:
    """Those that are stored and simulated ones."""
    if isinstance(history, str):
        lines = (TESTS / history).read_text("utf-8").splitlines()
    else:
        blocks = simulate(scenario_of(history)).blocks(4096)
        lines = [line for block in blocks for line in block_to_lines(block)]
    for record in shapes(lines).values():
        assert accepts(record), record


def test_the_examples_of_the_documentation_are_valid() -> None:
    """All of their lines."""
    pages = [(DOCS / name).read_text("utf-8") for name in ("journal.md", "journal_examples.md")]
    blocks = [block for page in pages for block in page.split("```json\n")[1:]]
    for line in "".join(block.split("```")[0] for block in blocks).splitlines():
        assert accepts(json.loads(line)), line


@pytest.mark.parametrize(("record", "key", "message"), REFUSED)
def test_what_the_reader_refuses_is_not_valid(record: Any, key: str | None, message: str) -> None:
    """But for what relates keys or lines to each other."""
    if isinstance(record, str) or message in BEYOND:
        return
    assert not accepts(record), (key, message)
