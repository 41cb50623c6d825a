"""The report as one page of HTML: no script, no request, readable on paper and on a phone."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import IncidentState, Verdict
from tallystick.coordinates.rules.describe import written_in
from tallystick.coordinates.rules.explanation import moment, observation_text
from tallystick.expectations.neutral import reveal
from tallystick.outputs import document
from tallystick.outputs._groups import broken_rules
from tallystick.outputs._view import (
    channel_name,
    singular,
    summaries,
    undecided_rules,
)
from tallystick.outputs.html import drawing
from tallystick.runs.result import DATA_DOCS, RunResult
from tallystick.runs.scenario import times

_FOLDED_FROM = 160
_CASES_MAX = 25
_ROWS_MAX = 200


def write(result: RunResult, target: str) -> None:
    """Write the page; its link to the Data Docs is relative, so that both can be moved together."""
    docs = result.paths.get(DATA_DOCS)
    link = None if docs is None else os.path.relpath(docs, Path(target).parent)
    document(lambda of: render(of, link))(result, target)


def render(result: RunResult, data_docs: str | None = None) -> str:
    """The page.

    Args:
        result: What it shows.
        data_docs: Where the Data Docs are, from the page.
    """
    collections = summaries(result)
    newest = collections[-1] if collections else None
    cuts = result.newest_cuts
    topology = drawing.draw_topology(
        newest.by_instance if newest else {},
        result.topology,
        newest.by_channel if newest else {},
        {cut.instance_id: _position(cut) for cut in cuts if cut.scope == "instance"},
    )
    style = resources.files("tallystick.outputs.html").joinpath("report.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    page = _environment().get_template("report.html.j2")
    return page.render(
        result=result,
        style=Markup(style),  # noqa: S704  # our own file
        style_hash=digest,
        Verdict=Verdict,
        verdict=result.verdict,
        open_incidents=sum(one.state is IncidentState.OPEN for one in result.incidents),
        since=None if result.since is None else moment(result.since),
        generated_at=result.ended_at.strftime("%Y-%m-%d %H:%M:%S %Z").strip(),
        data_docs=data_docs,
        newest=newest,
        quiet_since_last=_quiet_since_last(result),
        broken=broken_rules(result),
        cases_max=_CASES_MAX,
        rows_max=_ROWS_MAX,
        topology=topology,
        timeline=drawing.draw_timeline(collections)
        if result.history is None
        else drawing.draw_history(result.history, result.found),
        width=drawing.WIDTH,
        fleet=_fleet(cuts, [node.name for node in topology.nodes]),
        undecided=undecided_rules(result),
    )


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tallystick.outputs.html", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["moment"] = moment
    environment.filters["written_in"] = written_in
    environment.filters["seconds"] = lambda after_us: f"{after_us / 1_000_000:.3f} s"
    environment.filters["times"] = times
    environment.filters["singular"] = singular
    environment.filters["observation_text"] = observation_text
    environment.filters["channel_name"] = channel_name
    environment.filters["grouped"] = lambda number: f"{number:,}".replace(",", "\u202f")
    environment.filters["duration"] = _duration
    environment.tests["long"] = lambda text: len(text) > _FOLDED_FROM
    environment.filters["shorten"] = drawing.shorten
    return environment


def _shown(value: Any) -> Any:
    """Show what a reader could not see, whatever part of the template writes it."""
    if isinstance(value, Markup):
        return value
    text = value.value if isinstance(value, Verdict) else value
    return escape(reveal(text)) if isinstance(text, str) else text


def _duration(us: int) -> str:
    """A length of time in its largest unit."""
    for unit, length in (("days", 86_400e6), ("hours", 3600e6)):
        if us >= length:
            return f"{us / length:.1f} {unit}"
    return f"{us / 60e6:.1f} minutes"


def _position(cut: Cut) -> str:
    if cut.answer != "row":
        return f"no row: {cut.answer}"
    if cut.binary_log_file is None or cut.binary_log_position is None:
        return "no binary log coordinates"
    return f"{cut.binary_log_file}:{cut.binary_log_position}"


def _fleet(cuts: Sequence[Cut], order: Sequence[str]) -> list[dict[str, Any]]:
    """Put each instance's row and those of its channels together, sources before replicas."""
    made: dict[str, dict[str, Any]] = {}
    for cut in cuts:
        entry = made.setdefault(
            cut.instance_id, {"name": cut.instance_id, "cut": None, "channels": []}
        )
        if cut.channel is None:
            entry["cut"] = cut
        else:
            entry["channels"].append(cut)
    return [made[name] for name in order if name in made]


def _quiet_since_last(result: RunResult) -> int:
    """Count the collections since the newest finding."""
    last = max((finding.ts for finding in result.found), default=None)
    return 0 if last is None else sum(c[0].ts > last for c in result.collections)
