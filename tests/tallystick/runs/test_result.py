"""What a run has to say: every doubt counts, and each contradiction is there once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.replay import AuditResult
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.coordinates.rules.observations import JOURNAL_NOT_READ
from tallystick.errors import ExitCode
from tallystick.expectations.validation import CollectionValidation
from tallystick.runs.replay import result_of_audit
from tallystick.runs.result import TABLES, Edge, RunResult, doubt
from tallystick.runs.tables import read_run
from tallystick.streaming.table_sink import TableSink
from tests.support.fleet_journals import A, C, Journal, audit, fleet_of_two
from tests.support.results import finding

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
CONSISTENT, UNDECIDED, INCONSISTENT = (
    Verdict.CONSISTENT,
    Verdict.UNDECIDED,
    Verdict.INCONSISTENT,
)


def cut(collection: str, ts: int, instance: str = "a", **values) -> Cut:
    return Cut(
        collection_id=collection, instance_id=instance, scope="instance", ts=ts,
        **{"verdict": "CONSISTENT", **values},
    )  # fmt: skip


def validation(collection: str, verdict: Verdict, ts: int) -> dict:
    return {
        "collection_id": collection, "verdict": verdict.value, "reason": "", "instances": 1,
        "missing": 0, "is_late": False, "ts": ts,
    }  # fmt: skip


def result(cuts: list[Cut]) -> RunResult:
    return result_of_audit(AuditResult(cuts=cuts), command="replay", title="t", begun_at=NOW)


def read(directory: Path, **more) -> RunResult:
    return read_run(directory, command="report", title="t", begun_at=NOW, **more)


@pytest.mark.parametrize(
    ("verdicts", "expected", "shown"),
    [
        ((CONSISTENT, CONSISTENT), CONSISTENT, "c2"),
        ((UNDECIDED, CONSISTENT), UNDECIDED, "c1"),
        ((INCONSISTENT, UNDECIDED), INCONSISTENT, "c1"),
        ((UNDECIDED, UNDECIDED), UNDECIDED, "c2"),
    ],
)
def test_every_validation_counts(tmp_path, verdicts, expected, shown):
    """The gravest answer of Great Expectations decides, and is the one that is shown."""
    names = ("c1", "c2")
    rows = [validation(n, v, ts) for ts, (n, v) in enumerate(zip(names, verdicts, strict=True))]
    sink = TableSink(tmp_path / TABLES, "run")
    sink.write(0, cuts=[cut(n, ts) for ts, n in enumerate(names)], validations=rows)
    asked = []
    assert expected is read(tmp_path, validate=asked.append).verdict
    assert [shown] == [cuts[0].collection_id for cuts in asked]


def test_a_validation_that_failed_says_why(tmp_path):
    """Beside the verdict, which is undecided."""
    rows = [validation("c1", UNDECIDED, 1) | {"reason": "OSError: no space left"}]
    TableSink(tmp_path / TABLES, "run").write(0, cuts=[cut("c1", 1)], validations=rows)
    made = read(tmp_path)
    assert UNDECIDED is made.verdict
    [seen] = made.observations
    assert "validation_failed" == seen.reason
    assert "no space left" in observation_text(seen)


def test_the_newest_collection_of_an_inconsistent_fleet_is_validated_with_all_findings(tmp_path):
    """Also with one that came to light after it, and where an earlier one was undecided."""
    from tallystick.expectations.validate import CollectionValidator

    sink = TableSink(tmp_path / TABLES, "run")
    cuts = [cut(name, ts, server_uuid=A) for ts, name in ((1, "c1"), (2, "c2"))]
    answers = [validation("c1", UNDECIDED, 1), validation("c2", CONSISTENT, 2)]
    found = finding(rule="no_errant_gtids", instance_id="b", channel="", ts=9)
    sink.write(0, cuts=cuts, validations=answers, findings=[found])
    made = read(tmp_path, validate=CollectionValidator().validate)
    assert made.validation.collection_id == "c2"
    assert made.validation.verdict is INCONSISTENT
    assert [one.rule for one in made.validation.failed] == ["no_errant_gtids"]
    assert made.rule_results["b"][0].findings == (found,)


def test_the_job_and_replay_have_the_same_findings(tmp_path):
    """However they came into the tables: two transactions under one GTID, a state that stays."""
    source, replica = fleet_of_two()
    third = Journal(source.clock, "t", C, 3)
    third.boot()
    third.open_file()
    for journal in (replica, third):
        journal.commit_times = {f"{A}:2": 5}
        journal.log(f"{A}:2", server_id=2)
        journal.status(f"{A}:2")
    source.status(f"{A}:1-3")
    pairs = audit(source, replica, third).findings
    assert len(pairs) == 2
    states = [
        replace(pairs[0], rule="lsn_order", at=name, collection_id=name, ts=ts)
        for ts, name in enumerate(("c1", "c2"), start=pairs[1].ts + 1)
    ]
    found = [*pairs, *states]
    sink = TableSink(tmp_path / TABLES, "run")
    for number, one in enumerate(reversed(found)):
        sink.write(number, findings=[one])
    by_job = read(tmp_path)
    by_replay = result_of_audit(
        AuditResult(findings=found), command="replay", title="t", begun_at=NOW
    )
    assert [pairs[0], states[0]] == by_replay.findings == by_job.findings
    assert by_replay.deduplicated == by_job.deduplicated
    broken = {
        (name, one.rule)
        for name, results in by_job.rule_results.items()
        for one in results
        if one.verdict is INCONSISTENT
    }
    assert {(name, "gtid_origin_agreement") for name in "rst"} <= broken


def test_no_evidence_is_undecided(tmp_path):
    """A run without a single collection is not consistent."""
    assert UNDECIDED is read(tmp_path).verdict


def test_a_run_that_was_cut_short_is_doubted(tmp_path):
    """Consistent so far becomes undecided; a finding stays a finding."""
    sink = TableSink(tmp_path / TABLES, "run")
    sink.write(0, cuts=[cut("c", 1)])
    assert UNDECIDED is read(tmp_path).verdict is read(tmp_path).verdict_now  # it is still open
    sink.write(1, validations=[validation("c", CONSISTENT, 1)])
    assert CONSISTENT is read(tmp_path).verdict
    doubted = read(tmp_path, observations=[doubt(JOURNAL_NOT_READ)])
    assert UNDECIDED is doubted.verdict
    assert INCONSISTENT is replace(doubted, found=[finding()]).verdict


def test_a_validation_that_is_undecided_leaves_the_verdict_open():
    """Great Expectations' whole answer counts like its row."""
    undecided = CollectionValidation("c", UNDECIDED, (), ("why",), "", "")
    made = result([cut("c", 1)])
    assert CONSISTENT is made.verdict
    assert UNDECIDED is replace(made, validation=undecided).verdict


def test_a_collection_that_is_still_open_says_nothing_of_now():
    """Who has not answered the last one may be the one who did not answer the one before."""

    def validation(name: str, verdict: Verdict, ts: int) -> dict[str, object]:
        return {"collection_id": name, "verdict": verdict.value, "ts": ts, "is_late": False}

    hole = replace(cut("c", 5, "b"), verdict=UNDECIDED.value, answer="missing")
    rows = [cut("c", 5), hole, cut("open", 9)]
    validations = [validation("c", UNDECIDED, 5)]
    assert UNDECIDED is replace(result(rows), validations=validations).verdict_now
    validations.append(validation("open", CONSISTENT, 9))
    assert CONSISTENT is replace(result(rows), validations=validations).verdict_now
    # Of one that nobody answered there is no row.
    validations.append(validation("nobody", UNDECIDED, 12))
    assert UNDECIDED is replace(result(rows), validations=validations).verdict_now


def test_the_verdict_holds_since_its_first_evidence():
    """Since the first finding; since the first collection when all is well."""
    made = result([cut("c", 5), cut("d", 9)])
    assert 5 == made.since
    assert 3 == replace(made, found=[finding(ts=3)]).since
    doubted = doubt(JOURNAL_NOT_READ, ts=7)
    seen = replace(doubted, is_undecided=False, ts=6)
    assert 7 == replace(made, observations=[seen, doubted]).since
    assert 5 == replace(made, observations=[replace(doubted, ts=0)]).since
    assert result([]).since is None


def test_of_the_newest_collection_is_what_names_it_or_came_since_the_one_before():
    """What names one before is over."""
    of_older = doubt(JOURNAL_NOT_READ, collection_id="c", ts=4)
    of_newest = doubt(JOURNAL_NOT_READ, collection_id="d", ts=4)
    before, since = doubt(JOURNAL_NOT_READ, ts=5), doubt(JOURNAL_NOT_READ, ts=6)
    made = result([cut("c", 5), cut("d", 9)])
    made = replace(made, observations=[of_older, of_newest, before, since])
    assert [of_newest, since] == made.newest_observations


def test_collections_come_in_the_order_of_time():
    """By when they were, whatever they are called."""
    made = result([cut("z", 1), cut("a", 5), cut("z", 2, "b")])
    assert [["z", "z"], ["a"]] == [
        [c.collection_id for c in collection] for collection in made.collections
    ]


def test_the_topology_is_that_of_the_newest_rows():
    """A channel with another source is drawn with the new one; strangers by their UUID."""

    def channel(ts: int, name: str, source: str) -> Cut:
        return Cut(
            collection_id="c", instance_id="r", scope="channel", channel=name, ts=ts,
            source_uuid=source,
        )  # fmt: skip

    rows = [
        cut("c", 1, "a", server_uuid="uuid-a"),
        cut("c", 1, "twin", server_uuid="uuid-a"),
        cut("c", 1, "b", server_uuid="uuid-b"),
        channel(2, "", "uuid-b"),
        channel(1, "", "uuid-a"),
        channel(1, "x", "uuid-x"),
        channel(1, "y", "uuid-a"),
    ]
    assert [Edge("b", "r", ""), Edge("uuid-x", "r", "x"), Edge("a", "r", "y")] == (
        result(rows).topology
    )


def test_each_verdict_has_its_exit_code():
    """What scripts rely on."""
    assert [0, 1, 3] == [ExitCode.of(v) for v in (CONSISTENT, INCONSISTENT, UNDECIDED)]
