"""Clones (WL#9211): the copy takes its time, its end fixes one moment, crashes cut it off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.events.journal import QueryVerb, RecordType, Stream
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet, History, simulate
from tallystick.producers.simulator.clone import cloning, distributed_recovery
from tallystick.producers.simulator.clone.clone_status import (
    STAGES,
    CloneStatus,
    State,
)
from tallystick.producers.simulator.clone.cloning import CrashPoint
from tallystick.producers.simulator.clone.donor import END_STEPS, Donation
from tallystick.producers.simulator.clone.recipient import Clone
from tallystick.producers.simulator.innodb import trx_sys
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.server import administration, clients
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Channel, ChannelMap
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.simulated_journal import Record, bodies_of, records

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance

_COPIED = STAGES[: STAGES.index("RESTART")]
_PAIR: dict[str, Any] = {"topology": "pair", "acts": False, "writes_per_second": 15.0}


class Cloned:
    """A pair whose replica clones its source after 1 s."""

    def __init__(self, *crashes: CrashPoint, seed: int = 0, **options: Any) -> None:
        self.fleet = Fleet(Scenario(seed=seed, **{**_PAIR, **options}))
        self.recipient = self.fleet.instances["replica-a1"]
        self.donor = self.fleet.instances["source-a"]
        self.ended: list[Clone] = []
        self.statuses: list[CloneStatus] = []
        self.fleet.schedule(self.fleet.start_ts + 1_000_000, None, self._clone, crashes)

    @property
    def channel(self) -> Channel:
        return next(iter(self.recipient[ChannelMap].channels.values()))

    def _clone(self, fleet: Fleet, crashes: tuple[CrashPoint, ...]) -> None:
        cloning.clone(fleet, self.channel, crashes=crashes, step_4=self._step_4)

    def _step_4(self, fleet: Fleet, channel: Channel, clone: Clone) -> None:
        self.ended.append(clone)
        assert clone.status.gtid_executed == channel.replica[GtidState].executed.server_text()
        cloning.follow_donor(fleet, channel, clone)

    def run(self) -> dict[str, list[Record]]:
        blocks = self.fleet.advance(self.fleet.load_ends_at + 11_000_000)
        return {name: records(block) for name, block in blocks.items()}

    def steps(self, journal: list[Record]) -> list[str]:
        return [
            body.get("stage", body["step"])
            for body in bodies_of(journal, RecordType.CLONE)
            if body["role"] == "recipient"
        ]


def _logged_up_to(journal: list[Record], file: str, position: int) -> GtidSet:
    logged = GtidSet()
    for record in journal:
        if record.is_fact(RecordType.GTID_PURGED):
            logged |= GtidSet.parse(record.body["added"])
        is_before = (record.file or "", record.end or 0) <= (file, position)
        if record.stream is Stream.BINLOG and record.gtid and is_before:
            logged |= GtidSet([(record.gtid[0], record.gtid[1], record.gtid[1])])
    return logged


def _assert_equal_to_donor(cloned: Cloned, journals: dict[str, list[Record]]) -> None:
    """One completed clone: its coordinates and set are one state, and replication has gone on."""
    (clone,) = cloned.ended
    status = clone.status
    assert status.state is State.COMPLETED
    logged = _logged_up_to(journals["source-a"], status.binlog_file, status.binlog_position)
    assert GtidSet.parse(status.gtid_executed) == logged
    assert cloned.recipient[GtidState].executed == cloned.donor[GtidState].executed


def test_commits_go_on_while_the_copy_takes_its_time() -> None:
    """The donor logs groups between begin and end; the stages come in their order."""
    cloned = Cloned(writes_per_second=40.0)
    journals = cloned.run()
    _assert_equal_to_donor(cloned, journals)
    steps = cloned.steps(journals["replica-a1"])
    assert [step for step in steps if step in STAGES] == list(STAGES)
    donor = journals["source-a"]
    begin, end = (
        next(r.index for r in donor if r.is_fact(RecordType.CLONE) and r.body["step"] == step)
        for step in ("begin", "end")
    )
    assert any(r.gtid for r in donor[begin:end] if r.stream is Stream.BINLOG)


@pytest.mark.parametrize("stage", STAGES)
def test_a_crash_of_the_recipient(stage: str) -> None:
    """Up to FILE SYNC the clone has failed and is issued again, then recovery completes it."""
    cloned = Cloned(CrashPoint("recipient", stage))
    journals = cloned.run()
    _assert_equal_to_donor(cloned, journals)
    steps = cloned.steps(journals["replica-a1"])
    assert steps.count("begin") == (2 if stage in _COPIED else 1)
    assert steps.count("RECOVERY") == (2 if stage == "RECOVERY" else 1)


def test_a_recovery_that_is_cut_off_writes_what_undo_logs_hold_once() -> None:
    """The table has a part of them by then: the next start finds the rest, and no number more."""
    cloned = Cloned(CrashPoint("recipient", "RECOVERY"), writes_per_second=100.0)
    journals = cloned.run()
    [clone] = cloned.ended
    assert clone.data is not None
    assert GtidSet(clone.data.undo).count() > 1
    _assert_equal_to_donor(cloned, journals)
    assert cloned.steps(journals["replica-a1"]).count("RECOVERY") == 2


@pytest.mark.parametrize("stage", _COPIED)
def test_what_a_crash_leaves_in_clone_status(stage: str) -> None:
    """The start finds Failed, the number of an interrupted statement, and no coordinates."""
    cloned = Cloned(CrashPoint("recipient", stage))
    while cloned.recipient.get(CloneStatus) is None or cloned.recipient.get(Clone) is not None:
        cloned.fleet.run(cloned.fleet.now + 1_000)
    status = cloned.recipient.get(CloneStatus)
    assert (status.state, status.error.number) == (State.FAILED, 1317)
    assert status.stages[stage].state is State.FAILED
    row = status.row()
    assert (row["BINLOG_FILE"], row["BINLOG_POSITION"], row["GTID_EXECUTED"]) == ("", 0, "")


@pytest.mark.parametrize("step", ["DROP DATA", "FILE COPY", "PAGE COPY", *END_STEPS])
def test_a_crash_of_the_donor_ends_the_clone(step: str) -> None:
    """The recipient reports it, with the error of a donor; the next attempt completes."""
    cloned = Cloned(CrashPoint("donor", step))
    journals = cloned.run()
    _assert_equal_to_donor(cloned, journals)
    bodies = bodies_of(journals["replica-a1"], RecordType.CLONE)
    assert [b["error"] for b in bodies if b["step"] == "end" and "error" in b] == [3862]


@pytest.mark.parametrize("stage", ["FILE SYNC", "RESTART"])
def test_a_donor_that_crashes_later_is_not_missed(stage: str) -> None:
    """Everything has been copied by then."""
    cloned = Cloned(CrashPoint("donor", stage))
    journals = cloned.run()
    _assert_equal_to_donor(cloned, journals)
    assert cloned.steps(journals["replica-a1"]).count("begin") == 1


def test_no_replication_between_a_failure_and_the_next_clone() -> None:
    """START REPLICA waits until a clone has completed."""
    cloned = Cloned(CrashPoint("recipient", "PAGE COPY"))
    journal = cloned.run()["replica-a1"]
    reported = [r for r in journal if r.is_fact(RecordType.CLONE) or r.is_fact(RecordType.CHANNEL)]
    begin = next(i for i, r in enumerate(reported) if r.body.get("step") == "begin")
    recovered = next(i for i, r in enumerate(reported) if r.body.get("step") == "recovered")
    actions = [r.body.get("action") for r in reported[begin:recovered]]
    assert "start_applier" not in actions
    assert "start_receiver" not in actions


def test_commits_are_ordered_while_a_clone_ends() -> None:
    """With binlog_order_commits=OFF the page never falls once prepared groups are awaited."""
    awaited = 0
    for seed in range(6):
        history = simulate(Scenario(seed=seed, negatives=("clone_under_load",)))
        order = [
            (body["binlog_file"], body["binlog_position"])
            for body in bodies_of(records(history.journals["source-a"]), RecordType.CLONE)
            if body["step"] in ("commit", "position_read")
        ]
        assert order == sorted(order)
        moments = _moments(history, "order_forced", "prepared_awaited")
        awaited += moments[0] < moments[1]
    assert awaited > 0


def _moments(history: History, *steps: str) -> list[int]:
    journal = records(history.journals["source-a"])
    return [
        next(r.ts for r in journal if r.is_fact(RecordType.CLONE) and r.body["step"] == step)
        for step in steps
    ]


def test_external_xa_waits_while_it_is_blocked() -> None:
    """No XA statement is logged in between, and the copy holds those that were prepared."""
    prepared = 0
    for seed in range(4):
        history = simulate(Scenario(seed=seed, negatives=("clone_xa",)))
        donor = records(history.journals["source-a"])
        begin, end = _moments(history, "donor_blocked", "donor_released")
        for record in donor:
            if begin < record.ts < end and record.stream is Stream.BINLOG:
                assert record.query not in (QueryVerb.XA_START, QueryVerb.XA_COMMIT)
        rows = bodies_of(records(history.journals["replica-a1"]), RecordType.LOG_STATUS)
        prepared += any(body.get("clone_status") and body.get("prepared_xa") for body in rows)
    assert prepared > 0


def test_the_page_is_written_while_a_clone_runs_and_not_before() -> None:
    """MySQL 8.0 leaves it alone at other times."""
    cloned = Cloned()
    cloned.fleet.run(cloned.fleet.start_ts + 999_000)
    assert cloned.donor[Innodb].trx_sys == ("", 0)
    journals = cloned.run()
    (clone,) = cloned.ended
    reported = next(
        body
        for body in bodies_of(journals["source-a"], RecordType.CLONE)
        if body["step"] == "position_read"
    )
    coordinates = (clone.status.binlog_file, clone.status.binlog_position)
    assert coordinates == (reported["binlog_file"], reported["binlog_position"])


def quiet_donation(**options: Any) -> tuple[Fleet, Instance, Donation, dict[str, Any]]:
    """A replica without load as donor; what it forces at each step."""
    scenario = Scenario(topology="pair", acts=False, writes_per_second=1e-6, **options)
    fleet = Fleet(scenario)
    donor = fleet.instances["replica-a1"]
    forced: dict[str, Any] = {}

    def on_step(step: str) -> None:
        forced[step] = (donation.order.is_forced, donation.order.blocks_xa)

    donation = Donation(fleet, donor, "source-a", lambda _: None, on_step, lambda: None)
    donation.begin()
    return fleet, donor, donation, forced


def test_order_and_xa_are_forced_until_the_position_is_read() -> None:
    """Each lock from its own step on, both until the position is read, none after it."""
    fleet, donor, donation, forced = quiet_donation()
    donation.synchronize()
    fleet.run(fleet.now + 1_000_000)
    assert forced == {
        "order_forced": (True, False),
        "prepared_awaited": (True, False),
        "donor_blocked": (True, True),
        "position_read": (True, True),
    }
    assert (donation.order.is_forced, donation.order.blocks_xa) == (False, False)
    reported = [
        body["step"] for body in bodies_of(records(donor.journal.build()), RecordType.CLONE)
    ]
    assert reported == ["begin", *forced, "donor_released", "order_released"]


@pytest.mark.parametrize("is_forced", [True, False])
@pytest.mark.parametrize("by_applier", [True, False])
def test_a_forced_order_is_that_of_clients_and_appliers(by_applier: bool, is_forced: bool) -> None:
    """A group that is through first commits those in front of it, whoever executes it."""
    fleet, donor, donation, _ = quiet_donation(applier_workers=4, preserve_commit_order=False)
    donor.variables["binlog_order_commits"] = False
    if is_forced:
        donation.synchronize()
    fleet.run(fleet.now + 1_000_000 if not is_forced else fleet.now + 1)
    for duration in (9_000, 1_000):
        fleet.pace.commit_stage_us = (duration, duration + 1)
        clients.write(fleet, donor)
    waiting = list(donor[CommitQueue].in_commit)
    assert len(waiting) == 2
    for pending in waiting:
        pending.channel = donor[ChannelMap].channels[""] if by_applier else None
    fleet.run(fleet.now + 2_000)
    assert donor[CommitQueue].in_commit == ([] if is_forced else waiting[:1])


def test_the_page_names_the_end_of_the_group_that_committed() -> None:
    """At a donor each InnoDB commit writes it."""
    fleet, donor, _, _ = quiet_donation()
    for _ in range(2):
        clients.write(fleet, donor)
        fleet.run(fleet.now + 100_000)
        assert donor[Innodb].trx_sys == donor[BinaryLog].position


def test_the_page_names_what_is_committed_where_no_commit_wrote_it() -> None:
    """The end of the log, or the first group between its stages."""
    fleet = Fleet(Scenario(topology="single", acts=False, writes_per_second=0.01))
    server = fleet.instances["source-a"]
    clients.write(fleet, server)
    fleet.run(fleet.now + 100_000)
    end = server[BinaryLog].position
    trx_sys.update_binlog_position(server)
    assert server[Innodb].trx_sys == end
    clients.write(fleet, server)
    trx_sys.update_binlog_position(server)
    assert server[Innodb].trx_sys == end != server[BinaryLog].position


def test_another_version_is_refused_and_nothing_is_lost() -> None:
    """3864; no stage is entered, and the replica goes on as before."""
    history = simulate(Scenario(seed=1, negatives=("clone_refused",)))
    journal = records(history.journals["replica-a1"])
    bodies = bodies_of(journal, RecordType.CLONE)
    assert [body["step"] for body in bodies] == ["begin", "version", "end"]
    assert bodies[-1]["error"] == 3864
    status = bodies_of(journal, RecordType.LOG_STATUS)[-1]["clone_status"]
    assert (status["STATE"], status["ERROR_NO"]) == ("Failed", 3864)
    assert status["ERROR_MESSAGE"] == (
        "Clone Donor MySQL version: 8.0.31 is different from Recipient MySQL version 8.4.3."
    )


def test_a_second_clone_of_one_recipient_is_refused() -> None:
    """3874, and the first one goes on."""
    cloned = Cloned()
    cloned.fleet.run(cloned.fleet.start_ts + 1_100_000)
    error = Clone(cloned.fleet, cloned.recipient, cloned.donor, lambda _: None).begin()
    assert error is not None
    assert error.number == 3874
    _assert_equal_to_donor(cloned, cloned.run())


def test_a_running_group_member_is_not_cloned() -> None:
    """3875."""
    cloned = Cloned()
    fleet, recipient = cloned.fleet, cloned.recipient
    administration.add_channel(
        fleet, recipient, distributed_recovery.RECOVERY_CHANNEL, cloned.donor
    )
    error = Clone(fleet, recipient, cloned.donor, lambda _: None).begin()
    assert error is not None
    assert error.number == 3875


def test_a_member_clones_only_where_logs_are_gone() -> None:
    """User story 2: nothing purged, nothing to clone."""
    fleet = Fleet(Scenario(topology="pair", acts=False, writes_per_second=15.0))
    member, donor = fleet.instances["replica-a1"], fleet.instances["source-a"]
    fleet.run(fleet.start_ts + 1_000_000)
    assert not distributed_recovery.needs_clone(member, donor)
    sid = donor.server_uuid
    donor[GtidState].purged.add(sid, donor[GtidState].executed.next_free(sid) + 7)
    assert distributed_recovery.needs_clone(member, donor)


def test_a_channel_without_auto_position_starts_at_the_cloned_place() -> None:
    """US-1.3: CHANGE SOURCE names it, and the first group received stands there or after it."""
    for seed in range(3):
        history = simulate(Scenario(seed=seed, negatives=("clone_by_position",)))
        journal = records(history.journals["replica-a1"])
        status = bodies_of(journal, RecordType.LOG_STATUS)[-1]["clone_status"]
        change = [
            body
            for body in bodies_of(journal, RecordType.CHANNEL)
            if body["action"] == "change_source"
        ][-1]
        coordinates = (status["BINLOG_FILE"], status["BINLOG_POSITION"])
        assert (change["source_log_file"], change["source_log_pos"]) == coordinates


def test_modes_may_differ() -> None:
    """F-6: the donor is permissive, the recipient is ON, both positions are set."""
    history = simulate(Scenario(seed=2, negatives=("clone_across_modes",)))
    last = {
        n: bodies_of(records(b), RecordType.LOG_STATUS)[-1] for n, b in history.journals.items()
    }
    status = last["replica-a1"]["clone_status"]
    assert status["STATE"] == "Completed"
    assert status["BINLOG_FILE"]
    assert status["GTID_EXECUTED"]
    donor = records(history.journals["source-a"])
    coordinates = (status["BINLOG_FILE"], status["BINLOG_POSITION"])
    events = [r for r in donor if r.stream is Stream.BINLOG and (r.file, r.end) <= coordinates]
    assert any(r.type == 34 for r in events), "anonymous groups in front of the position"


def test_the_same_scenario_gives_the_same_clone() -> None:
    """Crashes, retries and times too."""
    first, second = (
        simulate(Scenario(seed=5, negatives=("clone_recipient_crashes",))) for _ in range(2)
    )
    for name in first.journals:
        one, two = (records(h.journals[name]) for h in (first, second))
        assert bodies_of(one, RecordType.CLONE) == bodies_of(two, RecordType.CLONE)
