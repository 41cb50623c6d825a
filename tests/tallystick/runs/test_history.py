"""Long runs: sums of hours beside the newest collections, and reports as of a time."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import chain
from pathlib import Path

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import (
    Check,
    Observation,
    ObservationCode,
    Outcome,
    SubjectCheck,
    Verdict,
)
from tallystick.coordinates.rules.explanation import moment
from tallystick.errors import MisuseError
from tallystick.outputs.html import render
from tallystick.outputs.html.timeline import draw_timeline
from tallystick.outputs.json import document_of
from tallystick.runs.breaches import breaches_of, present
from tallystick.runs.result import TABLES
from tallystick.runs.tables import read_run, report
from tallystick.streaming import table_sink
from tallystick.streaming.hours import read_hours
from tallystick.streaming.table_sink import END_BATCH, TableSink
from tallystick.streaming.table_upkeep import Retention
from tallystick.streaming.tables import plain
from tests.support.results import finding

MINUTE, HOUR = 60_000_000, 3_600_000_000
START = 490_000 * HOUR
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def rows(number: int) -> dict[str, list]:
    """A collection of an instance with a channel, a minute after the one before."""
    name, ts = f"c-{number:03d}", START + number * MINUTE
    verdict = "UNDECIDED" if 70 <= number < 75 else "CONSISTENT"
    cuts = [
        Cut(collection_id=name, instance_id="a", scope="instance", ts=ts, verdict=verdict),
        Cut(collection_id=name, instance_id="a", scope="channel", channel="", ts=ts,
            verdict="CONSISTENT"),
    ]  # fmt: skip
    outcome = Outcome.UNDECIDED if number % 10 == 0 else Outcome.HOLDS
    validation = {"collection_id": name, "verdict": verdict, "reason": "", "instances": 1,
                  "missing": 0, "is_late": False, "ts": ts}  # fmt: skip
    return {
        "cuts": cuts,
        "checks": [SubjectCheck("a", None, name, ts, Check("lsn_order", outcome))],
        "validations": [validation],
    }


def write(directory: Path, collections: int, run_id: str = "run") -> TableSink:
    """A job's micro-batches, each with ten collections: a commit takes long."""
    sink = TableSink(directory / TABLES, run_id, Retention(36_500, 36_500))
    for first in range(0, collections, 10):
        batch = [rows(number) for number in range(first, first + 10)]
        sink.write(
            first,
            **{name: list(chain.from_iterable(one[name] for one in batch)) for name in batch[0]},
        )
    sink.await_upkeep()
    return sink


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run of 130 collections, with some upkeep."""
    directory = tmp_path_factory.mktemp("long")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_sink, "UPKEEP_BATCHES", 4)
        write(directory, 130)
    return directory


@pytest.fixture
def long_run(written, tmp_path):
    """What goes on writing a copy of it."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return TableSink(tmp_path / TABLES, "run")


def read(directory: Path, **more):
    return read_run(directory, command="report", title="t", begun_at=NOW, **more)


def test_what_was_broken_was_checked(long_run, tmp_path):
    """In a run of which the newest collections alone are in detail, too."""
    before = read(tmp_path, collections=10).counts["checks"]
    broken = Check("lsn_order", Outcome.BROKEN, "checkpoint_beyond")
    long_run.write(130, checks=[SubjectCheck("a", None, "c-129", START + 129 * MINUTE, broken)])
    assert read(tmp_path, collections=10).counts["checks"] == before + 1


def test_what_is_undecided_of_no_instance_counts_none(long_run, tmp_path):
    """As after messages that nobody could read: no strip and no instance without a name."""
    before = read(tmp_path, collections=10).counts["instances"]
    doubted = Check("lsn_order", Outcome.UNDECIDED, "messages_unreadable")
    long_run.write(130, checks=[SubjectCheck("", None, "c-129", START + 129 * MINUTE, doubted)])
    assert 1 == before == read(tmp_path, collections=10).counts["instances"]


@pytest.mark.parametrize("upkeep", [1, 4, 1000])
def test_sums_are_those_of_the_rows(tmp_path, monkeypatch, upkeep):
    """However much upkeep has summed, and with what an end wrote that is taken back."""
    monkeypatch.setattr(table_sink, "UPKEEP_BATCHES", upkeep)
    sink = write(tmp_path, 130)
    sink.write(END_BATCH, **rows(130))
    for count in (131, 130):
        hours = plain(read_hours(tmp_path / TABLES)).to_pylist()
        own = [row for row in hours if (row["instance_id"], row["channel"]) == ("a", None)]
        assert [START, START + HOUR, START + 2 * HOUR] == sorted(row["hour"] for row in own)
        assert count == sum(row["collections"] for row in own)
        assert 5 == sum(row["undecided"] for row in own)
        assert -(-count // 10) == sum(row["checks_undecided"] for row in own)
        assert count - -(-count // 10) == sum(row["checks_held"] for row in own)
        whole = [row for row in hours if row["instance_id"] is None]
        assert count == sum(row["collections"] for row in whole)
        sink.take_back_end()


def test_a_long_run_has_its_newest_collections_in_detail(long_run, tmp_path):
    """Counts, verdict and timeline are those of the whole time."""
    whole, made = read(tmp_path), read(tmp_path, collections=10)
    assert whole.history is None
    assert made.history is not None
    assert [f"c-{n}" for n in range(120, 130)] == [
        each[0].collection_id for each in made.collections
    ]
    # Of a validation that is undecided the details have an observation.
    assert whole.counts | {"observations": 0} == made.counts
    assert (Verdict.UNDECIDED, whole.verdict) == (made.verdict, Verdict.UNDECIDED)
    assert made.since == START + 60 * MINUTE
    assert ["good", "open", "good"] == tones(made)
    assert {"a": {"collections": 130, "consistent": 125, "undecided": 5, "inconsistent": 0,
                  "unanswered": 0}} == document_of(made)["history"]["instances"]  # fmt: skip
    assert "by the hour before the newest 10 collections" in render(made)
    late = finding(ts=START + 128 * MINUTE)
    long_run.write(130, findings=[late])
    assert late.ts == read(tmp_path, collections=10).since
    assert ["good", "open", "good", "bad"] == tones(read(tmp_path, collections=10))


def tones(result) -> list[str]:
    breaches = breaches_of(result)
    timeline = draw_timeline(
        result,
        breaches,
        present(result, breaches).instances,
        lambda one: f"finding-{one.finding_id}",
    )
    fleet, of_instance = ([run.tone for run in strip.runs] for strip in timeline.strips)
    assert fleet == of_instance
    return fleet


@pytest.mark.parametrize("ts", [START, 0])
def test_an_old_observation_leaves_a_long_run_undecided(tmp_path, ts):
    """It is not in detail any more, and is counted; without a time it is of the begin."""
    sink = write(tmp_path, 30)
    assert read(tmp_path, collections=5).verdict is Verdict.CONSISTENT
    seen = Observation(
        ObservationCode.JOURNAL_GAP, "a", None, "1", "why", {}, (),
        is_undecided=True, collection_id=None, epoch=0, sequence=0, ts=ts,
    )  # fmt: skip
    sink.write(30, observations=[seen, replace(seen, is_undecided=False, ts=START + 29 * MINUTE)])
    made = read(tmp_path, collections=5)
    assert (Verdict.UNDECIDED, START) == (made.verdict, made.since)
    assert (1, 2) == (len(made.observations), made.counts["observations"])
    (text,) = document_of(made)["undecided"]
    begin = moment(START)
    assert text == f"1 observations leave checks undecided, from {begin} to {begin}"


def test_an_hour_with_one_undecided_row_is_named(tmp_path):
    """Though no other of its rows is, and none that is in detail."""
    sink = write(tmp_path, 10)
    for number in (70, 80):
        sink.write(number, **rows(number))
    made = read(tmp_path, collections=1)
    assert "rows or collections of 1 hours are undecided" in document_of(made)["undecided"]


def test_details_that_were_removed_stay_counted(tmp_path, monkeypatch):
    """Rows older than their retention are in the sums."""
    monkeypatch.setattr(table_sink, "UPKEEP_BATCHES", 2)
    write(tmp_path, 30)
    sink = TableSink(tmp_path / TABLES, "run", Retention(details_days=-1, history_days=9))
    sink.write(30, **rows(30))
    sink.await_upkeep()
    sink.write(31, **rows(31))
    made = read(tmp_path, collections=10)
    assert 1 == len(made.collections)
    assert 32 == made.counts["collections"]


def test_a_report_as_of_a_time_or_collection(long_run, tmp_path):
    """What came later is not in it; an unknown collection is misuse."""
    long_run.write(130, findings=[finding(ts=START + 100 * MINUTE)])
    at = datetime.fromtimestamp((START + 50 * MINUTE) / 1e6, timezone.utc)
    for as_of in ({"at": at}, {"collection_id": "c-050"}):
        made = report(tmp_path, lambda _: None, **as_of)
        assert (0, 51) == (made.counts["findings"], made.counts["collections"])
        assert "c-050" == made.newest_cuts[0].collection_id
    short = report(tmp_path, lambda _: None, collections=10, collection_id="c-119")
    assert (Verdict.INCONSISTENT, 10) == (short.verdict, len(short.collections))
    with pytest.raises(MisuseError, match="no-such"):
        report(tmp_path, lambda _: None, collection_id="no-such")


def test_the_command_takes_a_time_or_a_collection(tallystick, long_run, tmp_path):
    """Not both; what the report then has is of that time."""
    ran = tallystick("report", str(tmp_path), "--collection", "c-020", "--json")
    assert 21 == json.loads(ran.out)["counts"]["collections"]
    ran = tallystick("report", str(tmp_path), "--collection", "c-020", "--at", "2026-01-01")
    assert (2, True) == (ran.code, "--at and --collection" in ran.err)
    ran = tallystick("report", str(tmp_path), "--collection", "\udcff")  # no UTF-8
    assert (2, True) == (ran.code, "the tables have no row of it" in ran.err)


def test_a_time_is_taken_as_it_is_printed(tallystick, long_run, tmp_path):
    """And as ISO 8601 has it, with its zone."""
    newest = json.loads(tallystick("report", str(tmp_path), "--json").out)["collections"][-1]["at"]
    at = datetime.fromisoformat(newest.removesuffix(" UTC"))
    for text in (newest, f"{at:%Y-%m-%dT%H:%M:%S}Z", f"{at + timedelta(hours=2)}+02:00"):
        shown = json.loads(tallystick("report", str(tmp_path), "--at", text, "--json").out)
        assert newest == shown["collections"][-1]["at"], text
    before = f"{at - timedelta(seconds=1)}"
    shown = json.loads(tallystick("report", str(tmp_path), "--at", before, "--json").out)
    assert newest > shown["collections"][-1]["at"]
