"""What several outputs show of a result, and the report's drawings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from cuts import SOURCE_UUID, START
from reports import HOSTILE, broken, finding, healthy

from tallystick.coordinates.results import (
    Acknowledgement,
    Incident,
    IncidentState,
    Severity,
    Verdict,
)
from tallystick.coordinates.rules.explanation import moment
from tallystick.outputs._groups import broken_rules
from tallystick.outputs._view import summaries
from tallystick.outputs.html.drawing import (
    NODES_MAX,
    draw_topology,
    shorten,
)
from tallystick.outputs.html.timeline import FLEET, STRIPS_MAX, draw_timeline
from tallystick.outputs.html.trends import trends_of
from tallystick.runs.breaches import breaches_of, present
from tallystick.runs.result import Edge

GOOD, BAD = Verdict.CONSISTENT, Verdict.INCONSISTENT


def incident(found, closed_ts) -> Incident:
    return Incident(
        *(found.finding_id, found.rule, found.case, found.severity, found.instance_id, None, {}),
        IncidentState.OPEN if closed_ts is None else IncidentState.RESOLVED,
        *(found.ts, found.ts, closed_ts, 1, found.witness, found),
    )


@pytest.mark.parametrize(
    ("found_in", "verdicts"), [(2, [GOOD, BAD, BAD]), (9, [GOOD, GOOD, BAD])], ids=["in", "after"]
)
def test_a_collection_is_inconsistent_from_the_first_finding_on(found_in, verdicts):
    """Its cuts alone do not know it; the newest one has what was found after it, too."""
    rows = healthy(found_in).newest_cuts
    result = replace(healthy(3), found=(finding(channel="", ts=rows[0].ts),))
    shown = summaries(result)
    assert verdicts == [summary.verdict for summary in shown]


def test_a_collection_is_consistent_again_when_what_was_broken_is_over():
    """From the one on that showed it; a row that was contradicted counts no longer by itself."""
    result = healthy(4)
    times = [rows[0].ts for rows in result.collections]
    broken_row = replace(result.collections[1][0], verdict=BAD.value)
    cuts = [broken_row if cut == result.collections[1][0] else cut for cut in result.cuts]
    found = finding(ts=times[1])
    one = incident(found, max(cut.ts for cut in result.collections[2]))
    shown = summaries(replace(result, cuts=cuts, found=(found,), incidents=(one,)))
    assert [GOOD, BAD, GOOD, GOOD] == [summary.verdict for summary in shown]


def test_findings_are_grouped_by_rule_gravest_first():
    """With what the registry says; a name that it does not know is shown without."""
    found = (*reversed(broken().found), finding(rule="unheard_of"))
    groups = broken_rules(replace(broken(), found=found))
    assert [(group.name, len(group.groups)) for group in groups] == [
        ("unheard_of", 1),
        ("executed_within_logged", 1),
        ("relay_position_on_written_boundary", 1),
        ("gtid_text_canonical", 1),
    ]
    assert [group.severity for group in groups][-1] is Severity.WARNING
    assert groups[0].rule is None
    assert groups[1].rule is not None


def test_moments_are_in_utc_and_never_fail():
    """A hostile clock is shown as its number."""
    assert moment(START) == "2026-01-01 00:00:00 UTC"
    assert moment(2**63 - 1) == f"{2**63 - 1} µs"


# Drawings


def test_replicas_follow_their_source_and_circles_end():
    """Sources first; a circle is cut; every instance and channel is drawn once."""
    edges = [Edge("b", "c", ""), Edge("a", "b", ""), Edge("x", "y", ""), Edge("y", "x", "")]
    drawing = draw_topology(dict.fromkeys("abcxyz", GOOD), edges, {("c", ""): BAD}, {})
    assert [node.name for node in drawing.nodes] == ["a", "b", "c", "z", "x", "y"]
    assert [node.x for node in drawing.nodes][:3] == [12, 38, 64]
    assert len(drawing.arrows) == 4
    assert drawing.arrows[0].verdict is BAD
    assert all(node.y < drawing.height for node in drawing.nodes)


def test_a_source_that_is_not_observed_has_a_place_and_no_verdict():
    """The fleet is larger than what we watch."""
    drawing = draw_topology({"r": GOOD}, [Edge("elsewhere", "r", "")], {}, {})
    assert [(n.name, n.verdict) for n in drawing.nodes] == [("elsewhere", None), ("r", GOOD)]


def test_a_long_chain_stays_within_the_drawing():
    """Depth does not push names out of the picture."""
    names = [f"n{n:02}" for n in range(20)]
    edges = [Edge(a, b, "") for a, b in pairwise(names)]
    drawing = draw_topology(dict.fromkeys(names, GOOD), edges, {}, {})
    assert max(node.x for node in drawing.nodes) < 200
    assert len(drawing.arrows) == 19


def test_of_a_large_fleet_those_in_trouble_are_drawn_with_their_sources():
    """All others are counted."""
    names = [f"n{n:04}" for n in range(1000)]
    edges = [Edge("a", name, "") for name in names[:-1]] + [Edge(names[-2], names[-1], "")]
    verdicts = dict.fromkeys(["a", *names], GOOD) | {names[-1]: BAD}
    drawing = draw_topology(verdicts, edges, {}, {})
    shown = {node.name for node in drawing.nodes}
    assert len(shown) == NODES_MAX == 1001 - len(drawing.left_out)
    assert {"a", names[-2], names[-1]} <= shown


def timeline_of(result):
    breaches = breaches_of(result)
    return draw_timeline(
        result,
        breaches,
        present(result, breaches).instances,
        lambda one: f"finding-{one.finding_id}",
    )


def test_the_timeline_is_of_the_whole_period_and_shows_trouble_first():
    """Strips are bounded; what is left out is counted."""
    data = healthy(60, 40)
    cuts = list(data.cuts)
    at = next(n for n, cut in enumerate(cuts) if cut.instance_id == "replica-2")
    cuts[at] = replace(cuts[at], verdict="UNDECIDED")
    timeline = timeline_of(replace(data, cuts=cuts))
    assert (timeline.first, timeline.last) == (min(c.ts for c in cuts), max(c.ts for c in cuts))
    assert [strip.name for strip in timeline.strips[:3]] == [FLEET, "replica-2", "replica-1"]
    assert ["open", "good"] == [run.tone for run in timeline.strips[1].runs]
    assert 100 == sum(run.width for run in timeline.strips[1].runs)
    assert timeline.left_out == 41 - STRIPS_MAX
    assert timeline_of(replace(data, cuts=())) is None


def test_where_nobody_answered_is_no_bar_and_where_nothing_was_asked_a_gap():
    """Neither reads as consistent."""
    data = healthy(40, 1)
    kept = [cut for cut in data.cuts if not 10 <= int(cut.collection_id[2:]) < 20]
    cuts = [
        replace(cut, answer="missing", verdict="UNDECIDED")
        if 30 <= int(cut.collection_id[2:]) < 35
        else cut
        for cut in kept
    ]
    for strip in timeline_of(replace(data, cuts=cuts)).strips:
        before, after, silent, newest = strip.runs
        assert ["good", "good", "silent", "good"] == [run.tone for run in strip.runs]
        assert after.x - (before.x + before.width) > 15
        assert newest.x == silent.x + silent.width


def test_an_incident_is_on_the_timeline_until_its_end_and_leads_to_its_finding():
    """Then the strip, the instance and the fleet are consistent again."""
    data = healthy(40, 1)
    found = finding(ts=START + 100_000_000, instance_id="replica-1")
    made = replace(data, found=(found,), incidents=(incident(found, START + 200_000_000),))
    assert GOOD is made.verdict_now
    fleet, first, _other = timeline_of(made).strips
    for strip in (fleet, first):
        assert [GOOD, ["good", "bad", "good"]] == [strip.now, [run.tone for run in strip.runs]]
        assert f"#finding-{found.finding_id}" == strip.runs[1].href
    again = replace(made, incidents=(incident(found, None),))
    for strip in timeline_of(again).strips[:2]:
        assert [BAD, ["good", "bad"]] == [strip.now, [run.tone for run in strip.runs]]
    assert BAD is again.verdict_now


def test_the_fleet_is_never_better_than_an_instance():
    """Hero, node and card are one judgement."""
    for made in (healthy(), broken()):
        now = present(made, breaches_of(made))
        verdicts = {*now.instances.values(), *now.channels.values()}
        assert Verdict.merge((made.verdict_now, *verdicts)) is made.verdict_now


def test_an_acknowledged_incident_counts_until_it_was_acknowledged():
    """After that nobody is to be woken for it."""
    data = healthy(40, 1)
    found = finding(ts=START + 100_000_000, instance_id="replica-1")
    known = Acknowledgement("me", "known", START + 300_000_000)
    one = replace(
        incident(found, None),
        last_seen_ts=START + 400_000_000,
        state=IncidentState.ACKNOWLEDGED,
        acknowledgement=known,
    )
    made = replace(data, found=(found,), incidents=(one,))
    strip = timeline_of(made).strips[1]
    assert ["good", "bad", "good"] == [run.tone for run in strip.runs]
    assert 70 < strip.runs[2].x < 80
    assert GOOD is strip.now is made.verdict_now


def test_a_replica_is_compared_with_all_its_sources():
    """What it lacks, and what only it has, as pieces of the set; a lag over time."""
    data = healthy(3, 1)
    cuts = [
        replace(cut, gtid_executed=f"{SOURCE_UUID}:1-{90 if cut.channel is None else 0}")
        if cut.instance_id == "replica-1" and cut.scope == "instance"
        else replace(cut, gtid_executed=f"{SOURCE_UUID}:1-100")
        if cut.scope == "instance"
        else cut
        for cut in data.cuts
    ]
    trends = trends_of(replace(data, cuts=cuts), ["source-1", "replica-1"])
    difference = trends["replica-1"].difference
    assert (("source-1",), 10, 0) == (
        difference.sources, difference.missing, difference.surplus,
    )  # fmt: skip
    [(sid, pieces)] = difference.rows
    assert (SOURCE_UUID, [("both", "1-90"), ("there", "91-100")]) == (
        sid, [(piece.kind, piece.text) for piece in pieces],
    )  # fmt: skip
    assert [0.0, pieces[0].width] == [piece.x for piece in pieces]
    assert 100.0 == sum(piece.width for piece in pieces)
    [lag] = trends["replica-1"].lines
    assert (10, 10, ("0.0,2.0 50.0,2.0 100.0,2.0",)) == (lag.newest, lag.most, lag.lines)
    assert trends["source-1"].difference is None


def test_names_are_cut_in_the_middle():
    """They differ at both ends."""
    assert shorten("short", 10) == "short"
    assert shorten("db-frankfurt-0001", 9) == "db-fra…01"
    assert len(shorten(HOSTILE[-1], 9)) == 9
