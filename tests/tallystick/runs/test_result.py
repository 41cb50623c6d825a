"""What a run says in the end: every doubt counts, and the page agrees with the exit code."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.replay import AuditResult
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import explain
from tallystick.errors import ExitCode
from tallystick.outputs._view import Edge
from tallystick.runs import result as results
from tallystick.streaming.sinks import ParquetSink
from tests.support.fleet_journals import A, C, Journal, audit, fleet_of_two

CONSISTENT, UNDECIDED, INCONSISTENT = (
    Verdict.CONSISTENT,
    Verdict.UNDECIDED,
    Verdict.INCONSISTENT,
)


@dataclass(frozen=True)
class Validation:
    collection_id: str
    verdict: Verdict


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
    sink = ParquetSink(tmp_path, "run")
    names = ("c2", "c1")[::-1]
    rows = [validation(n, v, ts) for ts, (n, v) in enumerate(zip(names, verdicts, strict=True))]
    sink.write("0", cuts=[cut(n, ts) for ts, n in enumerate(names)], validations=rows)
    outcome = results.outcome_of_tables(tmp_path, title="t")
    assert expected is outcome.verdict
    assert shown == results.collection_to_show(tmp_path)
    if expected is UNDECIDED:  # the page has nothing but the data
        assert UNDECIDED is outcome.data.verdict
    telling = None
    for name, verdict in zip(names, verdicts, strict=True):
        telling = results.most_telling(telling, Validation(name, verdict))
    assert shown == telling.collection_id


def test_the_job_and_replay_tell_a_transaction_once_and_alike(tmp_path):
    """However the findings came into the tables; a state that stays is told once, too."""
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
    sink = ParquetSink(tmp_path, "run")
    for number, finding in enumerate(reversed(found)):
        sink.write(str(number), findings=[finding])
    by_job = results.outcome_of_tables(tmp_path, title="t")
    by_replay = results.outcome_of_replay(AuditResult(findings=found), "t")
    told, state = by_replay.data.findings
    assert [told, state] == by_job.data.findings
    assert ("c1", True) == (state.at, explain(state).sentence.endswith("in one more row, of c2."))
    assert {told.finding_id: ("r", "s", "t")} == by_replay.named == by_job.named


def test_no_evidence_is_undecided(tmp_path):
    """A run without a single collection is not consistent."""
    assert UNDECIDED is results.outcome_of_tables(tmp_path, title="t").verdict
    assert results.collection_to_show(tmp_path) is None


def test_a_run_that_was_cut_short_is_doubted(tmp_path):
    """Consistent so far becomes undecided, in the page too; a finding stays a finding."""
    ParquetSink(tmp_path, "run").write("0", cuts=[cut("c", 1)])
    outcome = results.outcome_of_tables(tmp_path, title="t")
    assert CONSISTENT is outcome.verdict
    doubted = results.doubted(outcome)
    assert (UNDECIDED, UNDECIDED) == (doubted.verdict, doubted.data.verdict)
    broken = results.Outcome(outcome.data, INCONSISTENT)
    assert INCONSISTENT is results.doubted(broken).verdict


def test_collections_come_in_the_order_of_time():
    """By when they were, whatever they are called."""
    rows = [cut("z", 1), cut("a", 5), cut("z", 2, "b")]
    assert [["z", "z"], ["a"]] == [
        [c.collection_id for c in collection] for collection in results.by_collection(rows)
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
    assert [Edge("b", "r", ""), Edge("uuid-x", "r", "x"), Edge("a", "r", "y")] == results.edges(
        rows
    )


def test_each_verdict_has_its_exit_code():
    """What scripts rely on."""
    assert [0, 1, 3] == [ExitCode.of(v) for v in (CONSISTENT, INCONSISTENT, UNDECIDED)]
