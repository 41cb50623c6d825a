"""The driver's step, without Spark: micro-batches that come again, and what a validator may do."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from streaming_journals import history

from tallystick.coordinates.audit.culprits import culprits
from tallystick.coordinates.audit.finding_collector import FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.audit.instance import AuditOutput
from tallystick.coordinates.events.block_codec import encode_block
from tallystick.coordinates.events.collect_request import CollectRequest, encode_request
from tallystick.coordinates.events.incident_control import (
    ControlAction,
    IncidentControl,
    encode_control,
)
from tallystick.coordinates.events.journal import cut_into_blocks
from tallystick.coordinates.results import ObservationCode, Outcome, Verdict
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.coordinates.rules.observations import COMPARISONS_UNREADABLE
from tallystick.coordinates.state_codec import encode
from tallystick.runs.tables import TABLES, read_run
from tallystick.streaming import (
    delta_table,
    membership,
    table_reader,
    table_sink,
    tables,
)
from tallystick.streaming.answers import SILENT
from tallystick.streaming.auditor import rows_of_clusters, rows_of_results
from tallystick.streaming.batch import sort_out
from tallystick.streaming.bucket import Ends
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.doubts import doubt
from tallystick.streaming.errors import TableError
from tallystick.streaming.fleet import FleetStep
from tallystick.streaming.instance_step import BlockRow, DeadLetter, JournalKey, KeyResult
from tallystick.streaming.journal_holes import PlannedOffsets
from tallystick.streaming.message_limit import MessageLimit
from tallystick.streaming.progress import Metrics
from tallystick.streaming.rounds import Deadline
from tallystick.streaming.schema import (
    AUDIT_ROWS,
    CONTROL,
    NOT_LISTED,
    QUIET,
    READ,
    REQUEST,
    RESULT,
)
from tallystick.streaming.table_sink import TableSink
from tests.support.audit_steps import audit_rows
from tests.support.results import finding

INSTANCES = ("a", "b")
NOW_US = 1_700_000_000_000_000


def micro_batches(count: int, broken: frozenset[int] = frozenset({2, 5})) -> list[pa.Table]:
    """What the stateful operator gives for the histories of two instances."""
    states = dict.fromkeys(INSTANCES)
    blocks = {name: history(name, 6, broken=broken) for name in INSTANCES}
    size = -(-len(blocks["a"]) // count)
    pieces = {name: cut_into_blocks(block, size) for name, block in blocks.items()}
    tables = []
    for i in range(count):
        rows = []
        for name in reversed(INSTANCES):
            row = BlockRow(encode_block(pieces[name][i]), None, 0, i)
            states[name], result = audit_rows(states[name], name, [row])
            rows += rows_of_results({JournalKey("", name): result})
        tables.append(pa.Table.from_pylist(rows, schema=ARROW_AUDIT_ROWS))
    return tables


def _arrow_schema():
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(AUDIT_ROWS)


ARROW_AUDIT_ROWS = _arrow_schema()
BATCHES = micro_batches(4)
READ_ONE = pa.Table.from_pylist(
    [
        dict.fromkeys(ARROW_AUDIT_ROWS.names)
        | {"kind": READ, "instance_id": "", "partition": 0, "offset": 0, "blocks": 1, "bytes": 1}
    ],
    schema=ARROW_AUDIT_ROWS,
)
"""One message was read of the journal topic."""


@dataclass
class Answer:
    verdict: Verdict


class Recorder:
    """A Kafka sink and a validator that remember; either can be made to fail."""

    def __init__(self) -> None:
        self.findings, self.dead_letters, self.rounds, self.changes = [], [], [], []
        self.origins = []
        self.fails_at = ""

    def publish(self, findings, changes, origin) -> None:
        if self.fails_at == "findings":
            raise OSError("no broker")
        self.findings += findings
        self.changes += changes
        self.origins.append(origin)

    def publish_dead_letters(self, letters) -> None:
        if self.fails_at == "dead_letters":
            raise OSError("no broker")
        self.dead_letters += letters

    def validate(self, cuts):
        if self.fails_at == "validator":
            raise RuntimeError("boom")
        self.rounds.append(cuts)
        return Answer(Verdict.CONSISTENT)


def step(directory, recorder: Recorder, **settings) -> FleetStep:
    checkpoint = CheckpointLocation(directory / "checkpoint", Layout(2, "t"))
    return FleetStep(
        checkpoint=checkpoint,
        tables=TableSink(directory / "out", "run"),
        kafka=recorder,
        validate=recorder.validate,
        **{"instances": INSTANCES, "metrics": Metrics(), **settings},
    )


def limit_of(directory, messages: int) -> MessageLimit:
    """So many messages in each micro-batch."""
    with CheckpointLocation(directory / "checkpoint", Layout(2, "t")) as checkpoint:
        limit = MessageLimit(checkpoint, messages)
    limit.begin()
    return limit


def outputs(directory) -> dict[str, list[dict]]:
    """All rows, by table, without when they were written."""
    rows = {name: delta_table.read(directory / "out", kind) for name, kind in tables.TABLES.items()}
    return {
        name: sorted(tables.plain(found.drop_columns("written_at")).to_pylist(), key=repr)
        for name, found in rows.items()
    }


UNDISTURBED_CHANGES: set[str] = set()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed")
    recorder = Recorder()
    fleet = step(directory, recorder)
    for number, table in enumerate(BATCHES):
        fleet.absorb(table, number, NOW_US)
    UNDISTURBED_CHANGES.update(change.change_id for change in recorder.changes)
    return directory


def test_each_collection_is_validated_once(undisturbed):
    """Six collections of two instances are six validations; the broken ones are findings."""
    validations = table_reader.read_validations(undisturbed / "out")
    assert [f"c-{n:03d}" for n in range(6)] == [each["collection_id"] for each in validations]
    assert {"CONSISTENT"} == {each["verdict"] for each in validations}
    found = [
        (finding.instance_id, finding.collection_id)
        for finding in table_reader.read_findings(undisturbed / "out")
        if finding.rule == "executed_within_logged"
    ]
    assert [("a", "c-002"), ("b", "c-002"), ("a", "c-005"), ("b", "c-005")] == found
    assert len(table_reader.read_cuts(undisturbed / "out")) == 12


def test_a_watcher_is_shown_what_the_tables_have(tmp_path):
    """Findings, collections, who has answered, and both verdicts, also after a restart."""
    shown = []
    for batches in (range(2), range(2, len(BATCHES))):
        watcher = SimpleNamespace(stepped=shown.append)
        fleet = step(tmp_path, Recorder(), metrics=Metrics(watchers=[watcher]))
        for number in batches:
            fleet.absorb(BATCHES[number], number, NOW_US + number)
    found = table_reader.read_findings(tmp_path / "out")
    assert [f.finding_id for f in found] == [f.finding_id for r in shown for f in r.findings]
    closed = [each.collection_id for report in shown for each in report.rounds]
    assert [v["collection_id"] for v in table_reader.read_validations(tmp_path / "out")] == closed
    open_now = {
        one.incident_id for one in table_reader.read_incidents(tmp_path / "out") if one.is_open
    }
    assert open_now == {one.incident_id for one in shown[-1].incidents}
    first, last = shown[0], shown[-1]
    assert (Verdict.CONSISTENT, Verdict.CONSISTENT) == (first.verdict_now, first.verdict_period)
    assert Verdict.INCONSISTENT is last.verdict_period
    assert (Verdict.INCONSISTENT if open_now else Verdict.CONSISTENT) is last.verdict_now
    assert {name: NOW_US + len(BATCHES) - 1 for name in INSTANCES} == {
        name: member.answered_us for name, member in last.members.items()
    }


@pytest.mark.parametrize("together", [1, 3, 4])
def test_a_report_of_the_tables_has_the_verdict_that_a_watcher_is_shown(tmp_path, together):
    """A message that cannot be read has no time of its own, and leaves now undecided in both."""
    shown, told = [], []
    metrics = Metrics(watchers=[SimpleNamespace(stepped=shown.append)])
    fleet = step(tmp_path, Recorder(), metrics=metrics)
    (tmp_path / TABLES).symlink_to(tmp_path / "out")
    healthy = micro_batches(4, frozenset())
    steps = [*healthy[:2], without_a_key(), *healthy[2:]]
    steps[:together] = [pa.concat_tables(steps[:together])]
    for number, table in enumerate(steps):
        fleet.absorb(table, number, NOW_US + number)
        result = read_run(tmp_path, command="", title="", begun_at=datetime.now(timezone.utc))
        told.append((result.verdict_now, result.verdict))
    assert [(report.verdict_now, report.verdict_period) for report in shown] == told
    assert Verdict.UNDECIDED in [now for now, _ in told]
    [seen] = [one for one in result.observations if one.is_undecided]
    assert min(cut.ts for cut in result.cuts) < seen.ts < max(cut.ts for cut in result.cuts)


def test_while_too_many_messages_cannot_be_read_each_collection_is_undecided(tmp_path):
    """As the alert says that nobody knows: of whom they were, no gap need show."""
    shown, told, absent = [], [], []
    fleet = step(
        tmp_path,
        Recorder(),
        metrics=Metrics(watchers=[SimpleNamespace(stepped=shown.append)]),
        alert=lambda _, __, absences: absent.append(absences[""] is not None),
    )
    (tmp_path / TABLES).symlink_to(tmp_path / "out")
    first, *healthy = micro_batches(5, frozenset())
    seconds = [0, 1, 60, 300, 602, 660]
    many = pa.concat_tables([without_a_key()] * 11)
    for number, table in enumerate([first, many, *healthy]):
        fleet.absorb(table, number, NOW_US + seconds[number] * 1_000_000)
        result = read_run(tmp_path, command="", title="", begun_at=datetime.now(timezone.utc))
        told.append(result.verdict_now)
    assert [False, True, True, True, False, False] == absent
    assert [report.verdict_now for report in shown] == told
    assert [one is Verdict.UNDECIDED for one in told] == absent
    named = [one for one in result.observations if one.reason == "too_many_unreadable"]
    assert ["c-001", "c-002"] == [one.collection_id for one in named]
    assert "one of them: a message without a key" in observation_text(named[0])


@pytest.mark.parametrize("kind", [REQUEST, CONTROL])
def test_what_is_no_request_is_no_message_of_the_journal(tmp_path, kind):
    """It goes to the dead letters; no evidence is missing."""
    shown, absent = [], []
    fleet = step(
        tmp_path,
        Recorder(),
        metrics=Metrics(watchers=[SimpleNamespace(stepped=shown.append)]),
        alert=lambda _, __, absences: absent.append(absences[""]),
    )
    rubbish = pa.concat_tables([asked(b"rubbish", kind)] * 11)
    for number, table in enumerate([rubbish, *micro_batches(2, frozenset())]):
        fleet.absorb(table, number, NOW_US)
    assert Verdict.CONSISTENT is shown[-1].verdict_now is shown[-1].verdict_period
    assert [None] * 3 == absent


def test_what_a_watcher_raises_is_dropped(tmp_path):
    """Showing numbers is no reason to stop the audit."""
    fleet = step(tmp_path, Recorder(), metrics=Metrics(watchers=[None]))
    fleet.absorb(BATCHES[0], 0, NOW_US)
    assert table_reader.read_cuts(tmp_path / "out")


@pytest.mark.parametrize("at", range(len(BATCHES)))
@pytest.mark.parametrize("fails_at", ["findings", "dead_letters", "tables", "checks", "state", ""])
def test_a_micro_batch_that_comes_again_writes_the_same(
    tmp_path, undisturbed, monkeypatch, at, fails_at
):
    """A crash at any step of any micro-batch, then a restart: the same rows."""
    recorder = Recorder()
    fleet = step(tmp_path, recorder)
    for number in range(at):
        fleet.absorb(BATCHES[number], number, NOW_US)
    with monkeypatch.context() as patched:
        recorder.fails_at = fails_at
        broken = {"tables": (TableSink, "write"), "state": (FleetStep, "_save")}
        if fails_at in broken:
            patched.setattr(*broken[fails_at], lambda *_, **__: 1 / 0)
        if fails_at == "checks":  # between the commits of two tables

            def append(table, rows, run_id, batch, written_us):
                if rows.schema == tables.CHECKS.schema:
                    raise OSError("no room")
                delta_table.append(table, rows, run_id, batch, written_us)

            patched.setattr(table_sink, "append", append)
        if fails_at:
            with pytest.raises((OSError, ZeroDivisionError, TableError)):
                fleet.absorb(BATCHES[at], at, NOW_US)
        else:
            fleet.absorb(BATCHES[at], at, NOW_US)  # Done, but Spark never wrote that down.
    recorder.fails_at = ""
    again = step(tmp_path, recorder)
    for number in range(at, len(BATCHES)):
        again.absorb(BATCHES[number], number, NOW_US)
    assert outputs(undisturbed) == outputs(tmp_path)
    assert {f.finding_id for f in table_reader.read_findings(undisturbed / "out")} == {
        f.finding_id for f in recorder.findings
    }
    # At least once, and never another change than without the crash.
    assert {change.change_id for change in recorder.changes} == UNDISTURBED_CHANGES


def asked(value: bytes, kind: str = CONTROL) -> pa.Table:
    """A micro-batch of one message of the control topic, or another."""
    row = dict.fromkeys(AUDIT_ROWS.names) | {
        "kind": kind, "instance_id": "", "value": value, "partition": 0, "offset": 1,
    }  # fmt: skip
    return pa.Table.from_pylist([row], schema=ARROW_AUDIT_ROWS)


def test_incidents_are_acknowledged_by_the_control_topic(tmp_path):
    """Whoever sends it, and across restarts; what is no message of it is a dead letter."""
    recorder = Recorder()
    for number, table in enumerate(BATCHES):
        step(tmp_path, recorder).absorb(table, number, NOW_US)
    found = table_reader.read_incidents(tmp_path / "out")
    assert {(one.rule, one.instance_id) for one in found} >= {
        ("executed_within_logged", "a"),
        ("executed_within_logged", "b"),
    }
    assert {one.incident_id for one in found} <= {
        one.finding_id for one in table_reader.read_findings(tmp_path / "out")
    }
    one = next(one for one in found if one.is_open)
    known = IncidentControl(ControlAction.ACK, one.incident_id, "dba", "known", 10**18)
    recorder.changes.clear()
    step(tmp_path, recorder).absorb(asked(encode_control(known)), len(BATCHES), NOW_US)
    assert ["acknowledged"] == [change.kind.value for change in recorder.changes]
    [again] = [o for o in table_reader.read_incidents(tmp_path / "out") if o.finding == one.finding]
    assert ("acknowledged", "dba") == (again.state.value, again.acknowledgement.by)
    step(tmp_path, recorder).absorb(asked(b"nothing"), len(BATCHES) + 1, NOW_US)
    assert ["control topic: expected a JSON object"] == [
        letter.reason.partition(" (")[0] for letter in recorder.dead_letters
    ]
    codes = table_reader.read_observations(tmp_path / "out")["code"].to_pylist()
    assert ObservationCode.BLOCK_UNREADABLE.value not in codes


def broken_rules(cuts) -> set[str]:
    return {rule for cut in cuts for rule in cut.names(Outcome.BROKEN)}


def test_a_validator_is_given_the_checks_of_all_rules(tmp_path):
    """A breach is broken at its collection and at all later ones, across a restart too."""
    recorder = Recorder()
    for number, table in enumerate(BATCHES):
        step(tmp_path, recorder).absorb(table, number, NOW_US)
    broken = [broken_rules(cuts) for cuts in recorder.rounds]
    assert not any(broken[:2])
    for rules in broken[2:]:
        assert "executed_within_logged" in rules
    checked = {check.rule for check in recorder.rounds[0][0].checks}
    assert {"lsn_order", "gtid_logged_once"} <= checked


def test_what_two_buckets_report_of_no_cluster_is_kept(tmp_path):
    """Each has lost its log of comparisons; the one has the instances without a label."""
    seen = doubt(ObservationCode.STATE_UNREADABLE, "here", COMPARISONS_UNREADABLE, error="gone")
    lost = {"": FleetOutput(observations=[seen])}
    # As in the directory of an audit, so that the command has it.
    tmp_path = tmp_path / "my state" / "audit"
    (tmp_path / "checkpoint").mkdir(parents=True)
    rows = [*rows_of_clusters(0, lost, 0), *rows_of_clusters(1, lost, 0)]
    fleet = step(tmp_path, Recorder())
    fleet.absorb(pa.Table.from_pylist(rows, schema=ARROW_AUDIT_ROWS), 0, NOW_US)
    assert fleet._metrics.snapshot()["states_unreadable"] == 2
    [told] = {
        observation_text(one)
        for one in table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    }
    assert told == (
        "comparisons between instances begin anew: gone. To fix: tallystick rebuild --directory"
        f" '{tmp_path.parent}'"
    )
    ending = SimpleNamespace(finish=lambda *_, **__: Ends([], lost))
    fleet.finish([ending, ending])
    assert fleet._metrics.snapshot()["states_unreadable"] == 4


def bucket_that_ends(output: AuditOutput) -> SimpleNamespace:
    """One whose instances decide this at the end of their journals."""
    return SimpleNamespace(finish=lambda *_, **__: Ends([output], {}))


def test_what_comes_to_light_after_the_last_collection_is_validated_at_the_end(tmp_path):
    """The last collection once more, now with the breach."""
    recorder = Recorder()
    fleet = step(tmp_path, recorder)
    fleet.absorb(BATCHES[0], 0, NOW_US)
    count = len(recorder.rounds)
    late = AuditOutput(findings=[finding(rule="gtid_logged_once", instance_id="a", ts=10**18)])
    fleet.finish([bucket_that_ends(late)])
    assert len(recorder.rounds) == count + 1
    written = table_reader.read_checks(tmp_path / "out")
    assert {"executed_within_logged", "gtid_logged_once"} <= {one.check.rule for one in written}
    last = {(o.check.rule, o.check.outcome) for o in written if o.ts == written[-1].ts}
    assert ("gtid_logged_once", Outcome.BROKEN) in last
    assert "gtid_logged_once" in broken_rules(recorder.rounds[-1])
    assert recorder.rounds[-1][0].collection_id == recorder.rounds[-2][0].collection_id
    validations = table_reader.read_validations(tmp_path / "out")
    assert [each["is_late"] for each in validations][-1]


def test_a_validator_that_fails_is_undecided(tmp_path):
    """What it raises is kept as the reason, and the job goes on."""
    recorder = Recorder()
    recorder.fails_at = "validator"
    fleet = step(tmp_path, recorder)
    for number, table in enumerate(BATCHES):
        fleet.absorb(table, number, NOW_US)
    validations = table_reader.read_validations(tmp_path / "out")
    assert len(validations) == 6
    assert {("UNDECIDED", "the validator failed: RuntimeError('boom')")} == {
        (each["verdict"], each["reason"]) for each in validations
    }


@pytest.mark.parametrize(
    ("later_s", "is_history", "is_missing"),
    [(29, False, False), (30, False, True), (0, True, True)],
)
def test_a_run_that_ends_leaves_who_has_not_answered_undecided(
    tmp_path, later_s, is_history, is_missing
):
    """Past the deadline by the job's clock, or when others have answered what was read at once."""
    fleet = step(tmp_path, Recorder())
    only_a = BATCHES[0].filter(pc.equal(BATCHES[0]["instance_id"], "a"))
    fleet.absorb(only_a, 0, NOW_US)
    fleet.pause((), NOW_US + later_s * 1_000_000, is_history=is_history)
    missing = {cut.instance_id for cut in cuts_of(tmp_path) if cut.answer == "missing"}
    assert missing == ({"b"} if is_missing else set())


def test_the_end_of_a_history_closes_open_rounds(tmp_path):
    """If the history goes on after all, what was said at its end is taken back."""

    def only(instance_id: str) -> pa.Table:
        return BATCHES[0].filter(pc.equal(BATCHES[0]["instance_id"], instance_id))

    fleet = step(tmp_path, Recorder())
    fleet.absorb(only("a"), 0, NOW_US)
    assert table_reader.read_validations(tmp_path / "out") == []
    fleet.finish()
    assert {1} == {each["missing"] for each in table_reader.read_validations(tmp_path / "out")}
    missing = [cut for cut in table_reader.read_cuts(tmp_path / "out") if cut.answer == "missing"]
    assert {"b"} == {cut.instance_id for cut in missing}
    step(tmp_path, Recorder()).absorb(only("b"), 1, NOW_US)
    assert {0} == {each["missing"] for each in table_reader.read_validations(tmp_path / "out")}
    assert {"row"} == {cut.answer for cut in table_reader.read_cuts(tmp_path / "out")}


def retiring(instance_id: str, ts: int) -> dict[str, object]:
    control = IncidentControl(ControlAction.RETIRE, instance_id, "dba", "sold", ts)
    return dict.fromkeys(ARROW_AUDIT_ROWS.names) | {
        "kind": CONTROL, "instance_id": "", "value": encode_control(control),
    }  # fmt: skip


def test_a_retired_instance_is_not_judged_until_it_starts_anew(tmp_path):
    """Its incidents are over, collections do not wait for it, and nothing that it writes counts."""
    fleet = step(tmp_path, Recorder())
    for number in range(2):
        fleet.absorb(BATCHES[number], number, NOW_US)
    before = [cut for cut in cuts_of(tmp_path) if cut.instance_id == "a"]
    assert {"a", "b"} == {one.instance_id for one in read_incidents(tmp_path) if one.is_open}
    control = pa.Table.from_pylist([retiring("a", 10**17)], schema=ARROW_AUDIT_ROWS)
    fleet.absorb(pa.concat_tables([control, BATCHES[2]]), 2, NOW_US)
    assert fleet._homes.of.keys() == {"b"}
    # The operator takes it out of the comparisons with the next micro-batch.
    assert fleet.orders(3, ()).retired.keys() == {"a"}
    # By another job, that goes on from the state.
    step(tmp_path, Recorder()).absorb(BATCHES[3], 3, NOW_US)
    read = table_reader.read_validations(tmp_path / "out")
    assert {2, 1} == {each["instances"] for each in read}
    assert {0} == {each["missing"] for each in read}
    assert {"b"} == {one.instance_id for one in read_incidents(tmp_path) if one.is_open}
    assert before == [cut for cut in cuts_of(tmp_path) if cut.instance_id == "a"]
    shown = {
        one.collection_id
        for one in table_reader.read_checks(tmp_path / "out")
        if one.instance_id == "a"
    }
    assert shown == {cut.collection_id for cut in before}


def test_one_that_has_started_since_its_retirement_is_judged(tmp_path):
    """The first batch holds its start, which is later than the message."""
    control = pa.Table.from_pylist([retiring("a", 1)], schema=ARROW_AUDIT_ROWS)
    step(tmp_path, Recorder()).absorb(pa.concat_tables([control, BATCHES[0]]), 0, NOW_US)
    assert {"a", "b"} == {cut.instance_id for cut in cuts_of(tmp_path)}
    again = pa.Table.from_pylist([retiring("a", 10**17)], schema=ARROW_AUDIT_ROWS)
    step(tmp_path / "2", Recorder()).absorb(pa.concat_tables([again, BATCHES[0]]), 0, NOW_US)
    assert {"b"} == {cut.instance_id for cut in cuts_of(tmp_path / "2")}


@pytest.mark.parametrize("is_backlog", [False, True])
def test_a_start_that_is_read_after_a_retirement_is_later_by_whatever_clock(tmp_path, is_backlog):
    """That of who retires it is far ahead; only of a backlog the times decide."""
    limit = {"limit": limit_of(tmp_path, 1)} if is_backlog else {}
    control = pa.Table.from_pylist([retiring("a", 10**17)], schema=ARROW_AUDIT_ROWS)
    fleet = step(tmp_path, Recorder(), **limit)
    one = [PlannedOffsets("t", 0, 0, 1)]
    fleet.absorb(pa.concat_tables([control, READ_ONE]), 0, NOW_US, one)
    fleet.absorb(BATCHES[0], 1, NOW_US)
    assert ("a" in {cut.instance_id for cut in cuts_of(tmp_path)}) != is_backlog


def test_who_is_not_listed_is_named_once(tmp_path):
    """Its blocks are counted and nothing else."""
    row = {"kind": NOT_LISTED, "instance_id": "z", "blocks": 3}
    row = dict.fromkeys(ARROW_AUDIT_ROWS.names) | row
    table = pa.Table.from_pylist([row], schema=ARROW_AUDIT_ROWS)
    for number in range(2):
        step(tmp_path, Recorder()).absorb(table, number, NOW_US)
    [seen] = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    assert (ObservationCode.INSTANCE_NOT_LISTED, "z", False) == (
        seen.code, seen.instance_id, seen.is_undecided,
    )  # fmt: skip


def cuts_of(directory) -> list:
    return table_reader.read_cuts(directory / "out")


def read_incidents(directory) -> list:
    return table_reader.read_incidents(directory / "out")


def without_a_key() -> pa.Table:
    row = BlockRow(b"x", '[{"key":"h","value":"dg=="}]', 3, 14)
    letters = [DeadLetter(row, "a message without a key")]
    rows = rows_of_results({JournalKey("", ""): KeyResult(is_known=False, dead_letters=letters)})
    return pa.Table.from_pylist(rows, schema=ARROW_AUDIT_ROWS)


def test_a_message_without_a_key_is_told(tmp_path):
    """No instance's audit can tell of it, so the driver does; it leaves the verdict undecided."""
    recorder = Recorder()
    step(tmp_path, recorder).absorb(without_a_key(), 0, NOW_US)
    [letter] = recorder.dead_letters
    assert (b"x", [("h", b"v")], 3, 14) == (
        letter.value, letter.headers, letter.partition, letter.offset,
    )  # fmt: skip
    [observation] = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    assert ("partition 3, offset 14", True) == (observation.at, observation.is_undecided)


def test_what_is_published_has_the_time_of_this_machine(tmp_path):
    """When it was found, whatever the clocks of servers and of Spark's plan say."""
    recorder = Recorder()
    before = time.time()
    step(tmp_path, recorder).absorb(BATCHES[0], 0, NOW_US)
    [origin] = recorder.origins
    assert before - 1 <= origin.detected_us / 1_000_000 <= time.time()


def test_what_was_read_of_the_topic_is_counted():
    """Of all partitions; how large a micro-batch may be rests on it."""
    first = READ_ONE.to_pylist()
    second = [row | {"partition": 1, "blocks": 4, "bytes": 90} for row in first]
    content = sort_out(pa.Table.from_pylist(first + second, schema=ARROW_AUDIT_ROWS))
    assert (content.messages, content.message_bytes) == (5, 91)


def test_results_of_quiet_instances_are_one_row():
    """What is read of it is what rows of their own say, in the same order."""
    found = finding(instance_id="b")
    quiet = KeyResult(newest=(1, 7), blocks=2, records=3, journal_bytes=5)
    quiet.fleet_events = [FleetEvent(FleetEventKind.TIME, "", 4, 9, NOW_US, {})]
    told = KeyResult(newest=(0, 8), blocks=1, records=1, journal_bytes=1, findings=[found])
    for result in (quiet, told):
        result.encode()
    keys = [JournalKey(cluster, name) for cluster, name in (("y", "c"), ("x", "b"), ("x", "a"))]
    rows = rows_of_results(dict(zip(keys, (quiet, told, quiet), strict=True)))
    assert [row["kind"] for row in rows] == [RESULT, QUIET]
    content = sort_out(pa.Table.from_pylist(rows, schema=ARROW_AUDIT_ROWS))
    assert (content.blocks, content.records, content.bytes) == (5, 7, 11)
    assert content.journals == sorted(keys, key=lambda key: key.instance_id)
    assert content.findings == [found]
    assert [(e.kind, e.instance_id, e.epoch, e.sequence, e.ts) for e in content.fleet_events] == [
        (FleetEventKind.TIME, name, 4, 9, NOW_US) for name in ("a", "c")
    ]


def test_a_full_micro_batch_lets_no_deadline_pass(tmp_path):
    """One instance's answers are far ahead: missing only when the micro-batch was not full."""
    ahead = [
        pa.concat_tables([table.filter(pc.equal(table["instance_id"], "a")), READ_ONE])
        for table in BATCHES
    ]
    for messages, closed in ((1, 0), (100, 3)):
        deadline = Deadline(after_us=10**12, after_collections=3)
        directory = tmp_path / str(messages)
        limit = limit_of(directory, messages)
        fleet = step(directory, Recorder(), limit=limit, deadline=deadline)
        for number, table in enumerate(ahead):
            one = PlannedOffsets("t", 0, 0, 1)
            assert fleet.orders(number, [one]).is_caught_up == (closed > 0)
            fleet.absorb(table, number, NOW_US, [one])
        assert closed == len(table_reader.read_validations(directory / "out"))


@pytest.mark.parametrize("change", [lambda state: state[:-1], lambda _: encode(int, 1)])
def test_a_state_that_cannot_be_read_begins_anew(tmp_path, change):
    """Collections begin anew, reported once, and counted; incidents go on."""
    tmp_path /= "audit"
    before = step(tmp_path, Recorder())
    for number, table in enumerate(BATCHES[:2]):
        before.absorb(table, number, NOW_US)
    known = before._incidents.open
    assert known
    path = max((tmp_path / "checkpoint" / "fleet").glob("*.state"))
    path.write_bytes(change(path.read_bytes()))
    fleet = step(tmp_path, recorder := Recorder())
    for number, table in enumerate(BATCHES[2:], 2):
        fleet.absorb(table, number, NOW_US)
    assert known.keys() <= {one.incident_id for one in fleet._incidents.newest()}
    opened = {c.incident.incident_id for c in recorder.changes if c.kind.value == "opened"}
    assert not known.keys() & opened
    [reported] = [
        o
        for o in table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
        if o.code is ObservationCode.STATE_UNREADABLE
    ]
    assert ("", "micro-batch 2", True) == (reported.instance_id, reported.at, reported.is_undecided)
    assert observation_text(reported).endswith(
        f". To fix: tallystick rebuild --directory {tmp_path.parent}"
    )
    assert 1 == fleet._metrics.snapshot()["states_unreadable"]
    # What was written since does not go on from what is damaged.
    again = step(tmp_path, Recorder())
    again._load(len(BATCHES))
    assert not again._lost
    assert again._homes.to_bytes() == fleet._homes.to_bytes()


def damaged_after(directory, batches: int) -> None:
    """A bit of the fleet's state after so many micro-batches has changed."""
    path = directory / "checkpoint" / "fleet" / f"{batches - 1:012d}.state"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("end", [FleetStep.finish, lambda step: step.pause((), 1, is_history=True)])
def test_a_state_that_cannot_be_read_at_the_end_is_reported(tmp_path, end):
    """Although no micro-batch came; and nothing is decided by what is not there."""
    before = step(tmp_path, Recorder())
    for number, table in enumerate(BATCHES):
        before.absorb(table, number, NOW_US)
    damaged_after(tmp_path, len(BATCHES))
    end(step(tmp_path, Recorder()))
    rows = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    assert ObservationCode.STATE_UNREADABLE in {one.code for one in rows if one.is_undecided}


@pytest.mark.parametrize("when", ["running", "asked", "stopped", "ending"])
def test_a_topic_that_was_made_anew_leaves_the_run_undecided(tmp_path, when):
    """Under a running job with the next collection, under a stopped one at its start or end."""
    ids = ["one"]
    settings = {"journal_topic": "j", "topic_id": lambda: ids[-1]}
    fleet = step(tmp_path, Recorder(), **settings)
    fleet.absorb(BATCHES[0], 0, NOW_US)
    ids.append("other")
    request = encode_request(CollectRequest("c", NOW_US, None))
    if when in ("stopped", "ending"):
        fleet = step(tmp_path, Recorder(), **settings)
    if when == "ending":
        fleet.finish()
    else:
        table = asked(request, REQUEST) if when == "asked" else BATCHES[1]
        fleet.absorb(table, 1, NOW_US)
        fleet.absorb(asked(request, REQUEST), 2, NOW_US)
    rows = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    [named] = [one for one in rows if one.reason == "topic_made_anew"]
    assert named.is_undecided
    assert named.data == {"topic": "j", "expected": "one", "found": "other"}


def test_who_is_alerted_gets_changes_silence_and_clusters(tmp_path):
    """Again with a micro-batch that is done again; nothing of silence while a backlog is read."""
    taken = []
    recorder = Recorder()
    settings = {"alert": lambda *of: taken.append(of), "fleet": "f", "page_url": "https://p/"}
    fleet = step(tmp_path, recorder, **settings)
    fleet.absorb(BATCHES[0], 0, NOW_US)
    fleet.absorb(BATCHES[1], 1, NOW_US)
    ids = [change.change_id for changes, *_ in taken for change in changes]
    assert [change.change_id for change in recorder.changes] == ids
    assert ids
    (*_, (_, origin, absences)) = taken
    assert ("f", "https://p/") == (origin.fleet, origin.page_url)
    assert {"a": None, "b": None, "": None} == absences
    again = step(tmp_path, Recorder(), **settings)
    again.absorb(BATCHES[1], 1, NOW_US)
    assert {change.change_id for change in taken[-1][0]} <= set(ids)
    for number in range(2):
        request = CollectRequest(f"later-{number}", NOW_US, None)
        again.absorb(asked(encode_request(request), REQUEST), 2 + number, NOW_US)
    again.absorb(asked(b"no request"), 4, NOW_US + 6_000_000)
    silent = {name: one for name, one in taken[-1][2].items() if one is not None}
    assert {"a": SILENT, "b": SILENT} == {name: one.rule for name, one in silent.items()}
    name = silent["a"].incident_id
    control = IncidentControl(ControlAction.ACK, name, "me", "being moved", NOW_US)
    again.absorb(asked(encode_control(control), CONTROL), 5, NOW_US + 7_000_000)
    known = {name: one.acknowledgement for name, one in taken[-1][2].items() if one}
    assert {"a": "me", "b": None} == {n: k and k.by for n, k in known.items()}
    # Of an absence that is over nothing waits.
    assert not again._incidents.early


@pytest.mark.parametrize("bad", [{"a"}, {"b"}, {"a", "b"}])
@pytest.mark.usefixtures("mistakes_are_contained")
def test_evidence_that_raises_is_left_out(tmp_path, monkeypatch, bad):
    """The other instance has its findings; this one is undecided, in each micro-batch anew."""
    absorb = Incidents.absorb

    def raising(self, findings=(), cuts=(), *of, **options):
        if bad & {cut.instance_id for cut in cuts}:
            raise ZeroDivisionError("nobody thought of this")
        return absorb(self, findings, cuts, *of, **options)

    monkeypatch.setattr(Incidents, "absorb", raising)
    recorder = Recorder()
    for number, table in enumerate(BATCHES):
        step(tmp_path, recorder).absorb(table, number, NOW_US)
    good = set(INSTANCES) - bad
    assert {f.instance_id for f in recorder.findings} == good
    seen = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    refused = [one for one in seen if one.reason == "evidence_refused"]
    assert {one.instance_id for one in refused} == bad
    assert all(one.is_undecided for one in refused)
    assert len(refused) == len(bad) * len(BATCHES)
    assert "ZeroDivisionError: nobody thought of this (test_fleet.py:" in refused[0].data["error"]
    # Of the good one nothing is missing.
    cuts = [cut for cut in cuts_of(tmp_path) if cut.instance_id in good]
    assert len(cuts) == 6 * len(good)


@pytest.mark.usefixtures("mistakes_are_contained")
def test_culprits_are_found_among_many():
    """Those that raise by themselves; all, if none does, or if the others raise too."""
    names = [f"i{number:03d}" for number in range(100)]
    tried = []

    def raises_for(bad) -> None:
        if bad:
            raise ValueError(bad)

    def take(some) -> None:
        tried.append(some)
        raises_for({"i007", "i070"} & set(some))

    found = culprits(names, take)
    assert found.keys() == {"i007", "i070"}
    assert found["i007"].startswith("ValueError: {'i007'} (test_fleet.py:")
    assert len(tried) < 40
    assert culprits(names[:2], lambda some: raises_for(len(some) > 1)).keys() == {*names[:2]}
    assert culprits(
        names[:4], lambda some: raises_for("i000" in some or len(some) == 3)
    ).keys() == {*names[:4]}
    assert culprits([], raises_for) == {}


def test_instances_beyond_the_limit_are_named_and_not_waited_for(tmp_path, monkeypatch):
    """Whoever may write cannot make members without end: one has room, the other is undecided."""
    monkeypatch.setattr(membership, "INSTANCES_MAX", 1)
    recorder = Recorder()
    for number, table in enumerate(BATCHES):
        step(tmp_path, recorder, instances=()).absorb(table, number, NOW_US)
    assert {f.instance_id for f in recorder.findings} == {"a"}
    assert {cut.instance_id for cuts in recorder.rounds for cut in cuts} == {"a"}
    seen = table_reader.observations_of(table_reader.read_observations(tmp_path / "out"))
    [named] = [one for one in seen if one.reason == "instance_beyond"]
    assert ("b", True) == (named.instance_id, named.is_undecided)
    assert "'b' is one instance too many" in observation_text(named)
    closed = [(each.ts, each.collection_id) for each in seen if each.reason == "instances_beyond"]
    validated = table_reader.read_validations(
        tmp_path / "out", table_reader.newest_collections(tmp_path / "out", None)
    )
    assert sorted(closed) == sorted((row["ts"], row["collection_id"]) for row in validated)
