"""Findings of one rule, subject and cause are shown as one."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from cuts import SOURCE_UUID, START
from reports import finding, healthy, incident

from tallystick.coordinates.results import IncidentState
from tallystick.coordinates.rules.explanation import explain
from tallystick.outputs import html, junit, text
from tallystick.outputs import json as json_output
from tallystick.outputs._groups import groups_of
from tallystick.runs.result import RunResult


def result_of(*found) -> RunResult:
    return replace(healthy(), found=found)


def errant(number: int, **changes):
    """A write on a replica that another collection shows."""
    return finding(
        **{
            "rule": "no_errant_gtids",
            "case": "not_of_source",
            "at": f"{SOURCE_UUID}:{number} against s",
            "witness": f"{SOURCE_UUID}:{number}",
            "data": {"sources": ["s"]},
            "ts": START + number * 1_000_000,
            **changes,
        }
    )


def test_errant_writes_in_twenty_collections_are_one_entry():
    """With the whole set, how often, and since when and until when; the statements have it too."""
    found = [errant(number) for number in range(1, 21)]
    (group,) = groups_of(result_of(*found), found)
    assert (group.count, group.witness) == (20, f"{SOURCE_UUID}:1-20")
    assert group.period == "20 times, from 2026-01-01 00:00:01 UTC to 2026-01-01 00:00:20 UTC"
    one, whole = f"{SOURCE_UUID}:1,", f"{SOURCE_UUID}:1-20,"
    assert group.texts.sentence == explain(found[0]).sentence.replace(one, whole)
    assert all(f"{SOURCE_UUID}:1-20" in statement for _, statement in group.texts.verify)
    assert group.positions.endswith(", 16 more")


def test_what_is_over_is_apart_from_what_goes_on(capsys):
    """Who reads at night what is broken shall not read of what was repaired, and not first."""
    over, known, now = errant(1), errant(3), errant(7)
    made = [
        incident(over, IncidentState.RESOLVED),
        incident(known, IncidentState.ACKNOWLEDGED),
        incident(now),
    ]
    result = replace(result_of(over, known, now), incidents=made)
    groups = groups_of(result, result.found)
    assert [(group.witness, group.state) for group in groups] == [
        (f"{SOURCE_UUID}:7", IncidentState.OPEN),
        (f"{SOURCE_UUID}:1", IncidentState.RESOLVED),
        (f"{SOURCE_UUID}:3", IncidentState.ACKNOWLEDGED),
    ]
    assert [group.period for group in groups] == [
        "2026-01-01 00:00:07 UTC",
        "2026-01-01 00:00:01 UTC, resolved",
        "2026-01-01 00:00:03 UTC, acknowledged",
    ]
    text.write(result, "-")
    assert f"executed {SOURCE_UUID}:7, which" in capsys.readouterr().out


def test_the_statements_are_of_all_where_the_sentence_is_of_one():
    """Who does what is advised shall not leave out what was found later."""
    found = [errant(n, data={"sources": ["s"], "row": f"of {n}"}) for n in (1, 2, 3)]
    (group,) = groups_of(result_of(*found), found)
    assert f"{SOURCE_UUID}:1, which" in group.texts.sentence
    for statements in (group.texts.verify, group.texts.cure):
        texts = [text for _, text in statements if SOURCE_UUID in text]
        assert texts
        assert all(f"{SOURCE_UUID}:1-3" in text for text in texts)


@pytest.mark.parametrize(
    ("times", "period", "elsewhere"),
    [
        ([1], "2026-01-01 00:00:01 UTC", 0),
        ([1, 1], "2 times, 2026-01-01 00:00:01 UTC", 1),
        ([1, 2, 3, 4], "4 times, from 2026-01-01 00:00:01 UTC to 2026-01-01 00:00:04 UTC", 3),
    ],
)
def test_where_and_when_a_few_were_found(times, period, elsewhere):
    """Three more are named one by one, and of four one is counted."""
    found = [
        errant(number, ts=START + second * 1_000_000) for number, second in enumerate(times, 1)
    ]
    (group,) = groups_of(result_of(*found), found)
    assert group.period == period
    assert elsewhere == len(list(filter(None, group.positions.split(", "))))
    assert "more" not in group.positions
    found += [errant(number) for number in range(len(found) + 1, 6)]
    (group,) = groups_of(result_of(*found), found)
    assert group.positions.endswith(", 1 more")


@pytest.mark.parametrize("output", [text._plain, html.render, junit._render])
def test_every_form_for_people_shows_them_once(output):
    """The same sentence is not read twenty times."""
    shown = output(result_of(*(errant(number) for number in range(1, 21))))
    sentence = f"The replica has executed {SOURCE_UUID}:1-20, which"
    assert shown.count("The replica has executed") == shown.count(sentence) > 0
    assert "20 times, from 2026-01-01 00:00:01 UTC" in shown


def test_json_has_every_finding_and_the_group():
    """Programs get all; the group names its findings."""
    document = json.loads(json_output._render(result_of(*(errant(n) for n in range(1, 21)))))
    (group,) = document["groups"]
    assert group["findings"] == [one["finding_id"] for one in document["findings"]]
    assert (len(group["findings"]), group["count"]) == (20, 20)
    assert (group["first"], group["last"]) == ("2026-01-01 00:00:01 UTC", "2026-01-01 00:00:20 UTC")


@pytest.mark.parametrize(
    "change",
    [
        {"instance_id": "another"},
        {"channel": "other"},
        {"case": "not_of_sources"},
        {"data": {"sources": ["t"]}},
    ],
)
def test_another_subject_or_cause_is_another_entry(change):
    """One entry never hides what has to be repaired elsewhere."""
    found = [errant(1), errant(2, **change)]
    assert len(groups_of(result_of(*found), found)) == 2


def test_a_sentence_about_one_position_stays_about_it():
    """Of a broken mirror each group is at its own position: only the witness is the whole set."""
    found = [
        finding(
            rule="relay_mirrors_source",
            case="foreign",
            at=f"binlog.000001:{n}",
            witness=f"{SOURCE_UUID}:{n}",
            data={
                "gtid": f"{SOURCE_UUID}:{n}", "file": "binlog.000001", "position": n, "source": "s",
            },
            ts=START + n,
        )
        for n in range(4, 10_004)
    ]  # fmt: skip
    (group,) = groups_of(result_of(*found), found)
    assert (group.count, group.witness) == (10_000, f"{SOURCE_UUID}:4-10003")
    assert f"holds {SOURCE_UUID}:4 as" in group.texts.sentence


def test_what_has_no_gtids_is_listed():
    """Coordinates are not merged; a long list says how many it leaves out."""
    found = [finding(case="x", at=f"c-{n}", witness=f"binlog.000001:{n}", ts=n) for n in range(20)]
    (group,) = groups_of(result_of(*found), found)
    assert group.witness.startswith("binlog.000001:0, binlog.000001:1, ")
    assert group.witness.endswith("binlog.000001:11 and 8 more")
