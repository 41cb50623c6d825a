"""Which instances a result's breaches concern, and for how long each counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tallystick.coordinates.results import Finding, Incident, IncidentState, Verdict
from tallystick.coordinates.rules.identity import instances_of
from tallystick.runs.result import RunResult


@dataclass(frozen=True, slots=True)
class Breach:
    """A time in which a rule was broken on some instances.

    Attributes:
        finding: The first one.
        incident: What became of it; None: not known, as in tables of an earlier version.
        begins: Time of that finding, microseconds.
        ends: When it was over, or was acknowledged; None: it counts now.
    """

    finding: Finding
    incident: Incident | None
    begins: int
    ends: int | None

    @property
    def instances(self) -> set[str]:
        """Those that it is about."""
        return instances_of(self.finding)


def breaches_of(result: RunResult) -> list[Breach]:
    """Every breach, the oldest first; without incidents each finding is one that goes on."""
    if not result.incidents:
        return [Breach(one, None, one.ts, None) for one in result.findings]
    return [Breach(one.finding, one, one.opened_ts, _end(one)) for one in result.incidents]


def _end(incident: Incident) -> int | None:
    if incident.state is IncidentState.OPEN:
        return None
    known = incident.acknowledgement
    ends = [] if known is None else [known.ts]
    if incident.closed_ts is not None:
        ends.append(incident.closed_ts)
    return max(incident.opened_ts, min(ends, default=incident.last_seen_ts))


@dataclass(frozen=True, slots=True)
class Present:
    """The verdicts now; the fleet's, ``RunResult.verdict_now``, is never better than one of these.

    Attributes:
        instances: By instance, its channels included.
        channels: By instance and channel.
    """

    instances: dict[str, Verdict]
    channels: dict[tuple[str, str], Verdict]


def present(result: RunResult, breaches: Iterable[Breach]) -> Present:
    """Judge each instance and channel as ``verdict_now`` judges the fleet."""
    instances: dict[str, list[Verdict]] = {}
    channels: dict[tuple[str, str], list[Verdict]] = {}
    for name, channel, verdict in _evidence(result, breaches):
        instances.setdefault(name, []).append(verdict)
        if channel is not None:
            channels.setdefault((name, channel), []).append(verdict)
    return Present(
        {name: Verdict.merge(of) for name, of in instances.items()},
        {key: Verdict.merge(of) for key, of in channels.items()},
    )


def _evidence(
    result: RunResult, breaches: Iterable[Breach]
) -> Iterator[tuple[str, str | None, Verdict]]:
    for cut in result.closed_cuts:
        is_open = cut.verdict == Verdict.UNDECIDED.value
        # What a row contradicts is a breach that counts, is over, or is acknowledged.
        verdict = Verdict.UNDECIDED if is_open else Verdict.CONSISTENT
        yield cut.instance_id, cut.channel, verdict
    for seen in result.newest_observations:
        if seen.is_undecided and seen.instance_id:
            yield seen.instance_id, seen.channel, Verdict.UNDECIDED
    for one in result.newest_doubts:
        yield one.instance_id, one.channel, Verdict.UNDECIDED
    for breach in breaches:
        if breach.ends is None:
            for name in breach.instances:
                yield name, breach.finding.channel, Verdict.INCONSISTENT
