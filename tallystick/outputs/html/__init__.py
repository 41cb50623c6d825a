"""The report as one page of HTML: as a file without a script, or as a server sends it anew."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Incident, IncidentState, Verdict
from tallystick.coordinates.rules.describe import written_in
from tallystick.coordinates.rules.explanation import moment, observation_text
from tallystick.expectations.neutral import reveal
from tallystick.outputs import document
from tallystick.outputs._groups import BrokenRule, broken_rules
from tallystick.outputs._view import alike, channel_name, singular, undecided_rules
from tallystick.outputs.html import drawing
from tallystick.outputs.html.live import Live, Query, clusters_of, part_of
from tallystick.outputs.html.timeline import draw_timeline
from tallystick.outputs.html.trends import trends_of
from tallystick.runs.breaches import breaches_of, present
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
    """The page as one file.

    Args:
        result: What it shows.
        data_docs: Where the Data Docs are, from the page.
    """
    return _render(result, result, None, Query(), data_docs)


def render_live(result: RunResult, live: Live, query: Query) -> str:
    """The page as a server sends it: it has a script, which asks for it again.

    Args:
        result: What it shows, of the whole fleet.
        live: What is known of the run.
        query: Which part of it is asked for.
    """
    part = part_of(result, query, clusters_of(result)) if query.is_of_part else result
    return _render(part, result, live, query, None)


def _style() -> str:
    return resources.files("tallystick.outputs.html").joinpath("report.css").read_text("utf-8")


def source_of(style: str) -> str:
    """What a content security policy names a style sheet by."""
    digest = hashlib.sha256(style.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _policy(more: str = "form-action 'none'") -> str:
    own = f"default-src 'none'; style-src {source_of(_style())}; img-src data:; base-uri 'none'"
    return f"{own}; {more}"


LIVE_POLICY = _policy(
    "script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'"
)
"""The content security policy of the page that a server sends."""


def _render(
    result: RunResult, whole: RunResult, live: Live | None, query: Query, data_docs: str | None
) -> str:
    breaches = breaches_of(result)
    now = present(result, breaches)
    cuts = result.closed_cuts
    topology = drawing.draw_topology(
        now.instances,
        result.topology,
        now.channels,
        {cut.instance_id: _position(cut) for cut in cuts if cut.scope == "instance"},
    )
    broken = broken_rules(result)
    anchors = _Anchors(result, broken)
    is_stale = live is not None and live.is_stale and not live.is_earlier
    clusters = clusters_of(whole) if live is not None else {}
    fleet = _fleet(cuts, [*(node.name for node in topology.nodes), *topology.left_out])
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            result=result,
            whole=whole,
            live=live,
            query=query,
            is_stale=is_stale,
            style=Markup(_style()),  # noqa: S704  # our own file
            policy=_policy(),
            Verdict=Verdict,
            verdict=Verdict.UNDECIDED if is_stale else result.verdict_now,
            period=result.verdict,
            open_incidents=sum(one.state is IncidentState.OPEN for one in result.incidents),
            known_incidents=sum(
                one.state is IncidentState.ACKNOWLEDGED for one in result.incidents
            ),
            incidents=_incidents(result),
            anchors=anchors,
            clusters=sorted(set(clusters.values())),
            names=sorted(clusters),
            pages=_pages(whole, live, query),
            since=None if result.since is None else moment(result.since),
            generated_at=result.ended_at.strftime("%Y-%m-%d %H:%M:%S %Z").strip(),
            data_docs=data_docs,
            newest=cuts[0].collection_id if cuts else None,
            newest_at=max((cut.ts for cut in cuts), default=None),
            quiet_since_last=_quiet_since_last(result),
            broken=broken,
            cases_max=_CASES_MAX,
            rows_max=_ROWS_MAX,
            topology=topology,
            left_out=Counter(tone for tone in map(now.instances.get, topology.left_out)),
            now=now,
            timeline=draw_timeline(result, breaches, now.instances, anchors.of),
            trends=trends_of(result, [entry["name"] for entry in fleet[:_ROWS_MAX]]),
            width=drawing.WIDTH,
            fleet=fleet,
            undecided=undecided_rules(result),
            seen_alike=sorted(alike(result.observations), key=lambda of: -of[-1].ts),
        )
    )


class _Anchors:
    """Where the page shows a finding: of a rule that has many, only the first cases have a place.

    Args:
        result: What the page shows.
        broken: Its findings, by rule.
    """

    def __init__(self, result: RunResult, broken: Sequence[BrokenRule]) -> None:
        first = [group.first for one in broken for group in one.groups[:_CASES_MAX]]
        incidents = map(result.incident_of, first)
        self._shown = {
            finding.finding_id if incident is None else incident.finding.finding_id
            for finding, incident in zip(first, incidents, strict=True)
        }

    def of(self, finding: Finding) -> str:
        """Its own place, or that of its rule."""
        name = finding.finding_id
        return f"finding-{name}" if name in self._shown else f"rule-{finding.rule}"


def _incidents(result: RunResult) -> list[Incident]:
    """Those that go on first, then the newest."""
    order = list(IncidentState)
    return sorted(result.incidents, key=lambda one: (order.index(one.state), -one.last_seen_ts))


def _pages(whole: RunResult, live: Live | None, query: Query) -> dict[str, str]:
    """Addresses of the collection before, of the one after, and of now, where there are any."""
    if live is None or not whole.collections:
        return {}
    names = [rows[0].collection_id for rows in whole.collections]
    pages = {} if len(names) == 1 else {"earlier": query.address(collection=names[-2], at=None)}
    if live.later is not None:
        pages["later"] = query.address(collection=live.later, at=None)
    if live.is_earlier:
        pages["now"] = query.address(collection=None, at=None)
    return pages


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
