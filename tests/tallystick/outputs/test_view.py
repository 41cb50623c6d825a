"""The report's data, its JSON and its text; the page is looked at in test_report_page."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from itertools import pairwise

import pytest
from cuts import START, collection_cuts
from reports import HOSTILE, NOW, broken, finding, healthy, hostile, observation

from tallystick.coordinates.results import ObservationCode, Severity, Verdict
from tallystick.expectations.validate import CollectionValidator
from tallystick.outputs._view import (
    Edge,
    ReportData,
    broken_invariants,
    counts,
    moment,
    report_json,
    report_text,
    summaries,
)
from tallystick.outputs.html.drawing import (
    STRIP_COLUMNS_MAX,
    draw_timeline,
    draw_topology,
    shorten,
)

GOOD, OPEN, BAD = Verdict.CONSISTENT, Verdict.UNDECIDED, Verdict.INCONSISTENT


def test_the_verdict_is_the_worst_that_the_evidence_supports():
    """A finding beats missing evidence, which beats agreement; nothing at all is UNDECIDED."""
    assert healthy().verdict is GOOD
    assert broken().verdict is BAD
    gap = observation(code=ObservationCode.JOURNAL_GAP, is_undecided=True)
    assert replace(healthy(), observations=(gap,)).verdict is OPEN
    assert ReportData(generated_at=NOW, title="", collections=[]).verdict is OPEN
    assert ReportData(generated_at=NOW, title="", collections=[[]]).verdict is OPEN


def test_a_validation_that_could_not_tell_leaves_the_verdict_open():
    """Great Expectations' answer counts."""
    validation = CollectionValidator().validate([replace(collection_cuts(1)[0], lsn=None)])
    assert replace(healthy(), validation=validation).verdict is OPEN


def test_since_is_the_first_evidence_of_the_verdict():
    """Since the first finding; since the first collection when all is well."""
    assert healthy().since == START + 10_000_000
    assert broken().since == START + 270_000_000
    gap = observation(is_undecided=True, ts=START + 5)
    assert replace(healthy(), observations=(gap,)).since == START + 5


def test_a_finding_of_the_fleet_counts_against_its_collection():
    """The cut alone does not know what another instance showed."""
    data = replace(healthy(3), findings=(finding(collection_id="c-000002"),))
    assert [summary.verdict for summary in summaries(data)] == [GOOD, BAD, GOOD]
    assert summaries(data)[1].by_instance["replica-2"] is BAD
    assert summaries(data)[1].by_instance["replica-1"] is GOOD


def test_findings_are_grouped_by_invariant_gravest_first():
    """With what the registry says; a name that it does not know is shown without."""
    groups = broken_invariants([*reversed(broken().findings), finding(rule="unheard_of")])
    assert [(group.name, len(group.findings)) for group in groups] == [
        ("unheard_of", 1),
        ("executed_within_logged", 2),
        ("relay_position_on_written_boundary", 1),
        ("gtid_text_canonical", 1),
    ]
    assert [group.severity for group in groups][-1] is Severity.WARNING
    assert groups[0].rule is None
    assert groups[1].rule is not None


@pytest.mark.parametrize("build", [healthy, broken, hostile])
def test_the_json_form_is_json_and_cuts_nothing(build):
    """All findings, observations and the newest cuts, as written."""
    data = build()
    document = json.loads(json.dumps(report_json(data)))
    assert document["verdict"] == data.verdict.value
    assert len(document["findings"]) == len(data.findings)
    assert [f["observed"] for f in document["findings"]] == [
        f.data["observed"] for f in data.findings
    ]
    assert len(document["newest_cuts"]) == len(data.collections[-1])
    assert document["totals"]["findings"] == counts(data)["findings"]


def test_the_text_names_verdict_findings_and_remedy():
    """What an operator reads first on a terminal."""
    text = report_text(broken())
    assert text.startswith("INCONSISTENT since 2026-01-01 00:04:30 UTC: Staging fleet under load\n")
    assert "CRITICAL executed_within_logged (2)" in text
    assert "What to do:" in text
    assert "replica-1: the server refused the collection" in text


def test_no_character_of_an_instance_moves_the_cursor():
    """Control, bidi and line characters are escaped; each line stays a line, and short."""
    text = report_text(hostile())
    assert all(c == "\n" or unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl") for c in text)
    text.encode("utf-8")
    assert max(map(len, text.splitlines())) < 500


def test_text_of_many_findings_is_cut_and_says_so():
    """A terminal is no archive."""
    many = tuple(finding(at=f"c-{n}") for n in range(100))
    text = report_text(replace(healthy(), findings=many))
    assert "and 80 more findings" in text


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
    data.collections[-1][4] = replace(data.collections[-1][4], verdict="UNDECIDED")
    timeline = draw_timeline(summaries(data))
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
