"""What several outputs show of a result, and the report's drawings."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from cuts import START
from reports import HOSTILE, broken, finding, healthy

from tallystick.coordinates.results import Severity, Verdict
from tallystick.coordinates.rules.explanation import moment
from tallystick.outputs._groups import broken_rules
from tallystick.outputs._view import summaries
from tallystick.outputs.html.drawing import (
    STRIP_COLUMNS_MAX,
    draw_timeline,
    draw_topology,
    shorten,
)
from tallystick.runs.result import Edge

GOOD, BAD = Verdict.CONSISTENT, Verdict.INCONSISTENT


@pytest.mark.parametrize(
    ("found_in", "verdicts"), [(2, [GOOD, BAD, BAD]), (9, [GOOD, GOOD, BAD])], ids=["in", "after"]
)
def test_a_collection_is_inconsistent_from_the_first_finding_on(found_in, verdicts):
    """Its cuts alone do not know it; the newest one has what was found after it, too."""
    rows = healthy(found_in).newest_cuts
    result = replace(healthy(3), found=(finding(channel="", ts=rows[0].ts),))
    shown = summaries(result)
    assert verdicts == [summary.verdict for summary in shown]
    assert verdicts == [summary.by_channel["replica-2", ""] for summary in shown]
    assert shown[-1].by_instance["replica-1"] is GOOD


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


def test_the_timeline_keeps_the_newest_and_shows_trouble_first():
    """Columns and lines are bounded; what is left out is counted."""
    data = healthy(60, 40)
    cuts = list(data.cuts)
    cuts[-77] = replace(cuts[-77], verdict="UNDECIDED")
    timeline = draw_timeline(summaries(replace(data, cuts=cuts)))
    assert timeline.columns == STRIP_COLUMNS_MAX
    assert timeline.collections_left_out == 60 - STRIP_COLUMNS_MAX
    assert [strip.name for strip in timeline.strips[:3]] == ["Fleet", "replica-2", "replica-1"]
    assert timeline.instances_left_out == 41 - 24
    assert draw_timeline([]).strips == ()


def test_names_are_cut_in_the_middle():
    """They differ at both ends."""
    assert shorten("short", 10) == "short"
    assert shorten("db-frankfurt-0001", 9) == "db-fra…01"
    assert len(shorten(HOSTILE[-1], 9)) == 9
