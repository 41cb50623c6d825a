"""GTID persistence in InnoDB (WL#9211): undo log header, persister, purge, recovery, the table."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

import pytest

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.innodb import gtid_persistence, purge, undo_recovery
from tallystick.producers.simulator.innodb.gtid_info import (
    GTID_INFO_SIZE,
    GTID_VERSION,
    GTID_VERSION_TAGGED,
    GtidDesc,
    serialise,
)
from tallystick.producers.simulator.innodb.gtid_persistence import CrashPoint, GtidPersistence
from tallystick.producers.simulator.innodb.gtid_persister import GtidPersister
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.innodb.rollback_segments import TrxSys
from tallystick.producers.simulator.innodb.session_gtid import SessionGtid, get_gtid_info
from tallystick.producers.simulator.innodb.transaction_end import is_insert_only
from tallystick.producers.simulator.innodb.undo_log import (
    UndoLogHeader,
    UndoState,
    trx_undo_gtid_read,
    trx_undo_gtid_write,
)
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server import (
    administration,
    clients,
    commit,
    gtid_state,
    lifecycle,
    workload,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.persistence_world import UUID, world
from tests.support.simulated_journal import bodies_of, records

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance

MINUTE = 60_000_000


def fleet(**options: object) -> tuple[Fleet, Instance]:
    """A fleet of one server, where nothing happens by itself."""
    scenario = {"topology": "single", "acts": False, "writes_per_second": 1e-9, **options}
    made = Fleet(Scenario(seed=3, **scenario))
    server = made.instances["source-a"]
    server[GtidPersistence].is_recorded = True
    return made, server


def steps(server: Instance) -> list[dict]:
    return bodies_of(records(server.journal.build()), RecordType.GTID_PERSISTER)


def group(kind: GroupKind = GroupKind.INNODB, gno: int = 1, **options: object) -> Group:
    made = workload.make_group(Random(gno), kind, 1, 0, **options)
    made.sid, made.gno = UUID, gno
    return made


class TestUndoLogHeader:
    """Format-1."""

    def test_flags_version_and_64_bytes(self) -> None:
        """The number at 8, the flags at 20, after the XID version and GTID: 65 more bytes."""
        header = UndoLogHeader()
        header.trx_no = 259
        trx_undo_gtid_write(header, serialise(UUID, 7))
        expected = bytearray(186 + 65)
        expected[8:16] = bytes((0, 0, 0, 0, 0, 0, 1, 3))
        expected[20] = 0x02
        expected[186] = 1
        expected[187 : 187 + 38] = f"{UUID}:7".encode("ascii")
        assert header.content == expected
        assert trx_undo_gtid_read(header) == serialise(UUID, 7)

    def test_an_xid_is_the_last_bit_of_the_flags(self) -> None:
        """XA PREPARE has both bits, whichever is set first; without a GTID it has the last one."""
        headers = [UndoLogHeader() for _ in range(3)]
        headers[0].write_xid()
        headers[1].write_xid()
        trx_undo_gtid_write(headers[1], serialise(UUID, 7))
        trx_undo_gtid_write(headers[2], serialise(UUID, 7))
        headers[2].write_xid()
        assert [header.content[20] for header in headers] == [0x01, 0x03, 0x03]

    def test_a_prepared_transaction_has_an_xid(self) -> None:
        """The header that XA PREPARE leaves in its slot."""
        made, server = fleet()
        clients.write(made, server, GroupKind.XA_PREPARE)
        made.run(made.now + MINUTE)
        slots = [header for s in server[Innodb].transactions.segments for header, _ in s.slots]
        assert [header.content[20] for header in slots] == [0x03]

    @pytest.mark.parametrize("flags", [0, 1])
    def test_an_old_database_has_no_gtid(self, flags: int) -> None:
        """Where TRX_UNDO_XID_EXISTS was 0 or 1, no GTID is read, whatever follows."""
        header = UndoLogHeader()
        trx_undo_gtid_write(header, serialise(UUID, 7))
        header.content[20] = flags
        assert trx_undo_gtid_read(header) is None

    @pytest.mark.parametrize(
        ("sid", "version"),
        [(UUID, GTID_VERSION), (f"{UUID}:{'t' * 32}", GTID_VERSION_TAGGED)],
    )
    def test_every_gtid_fits(self, sid: str, version: int) -> None:
        """The greatest GNO, and the longest tag, are read back from 64 bytes."""
        desc = serialise(sid, 2**63 - 2)
        assert (len(desc.info), desc.version) == (GTID_INFO_SIZE, version)
        assert desc.gtid() == (sid, 2**63 - 2)

    def test_another_version_is_refused(self) -> None:
        """Bytes of a format that is not known are not guessed at."""
        with pytest.raises(ValueError, match="got 9"):
            GtidDesc(bytes(GTID_INFO_SIZE), 9).gtid()


class TestSession:
    """What THD passes to InnoDB."""

    @pytest.mark.parametrize(
        "kind", [GroupKind.XA_PREPARE, GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK]
    )
    def test_a_pinned_gtid_outlives_the_binary_logs_part(self, kind: GroupKind) -> None:
        """External XA: freed by the binary log, still there for the engine, gone after unpin."""
        session = SessionGtid(group(kind))
        assert session.is_external_xa()
        session.pin_gtid()
        session.free_owned_gtid()
        assert get_gtid_info(session) == serialise(UUID, 1)
        session.unpin_gtid()
        assert get_gtid_info(session) is None

    def test_without_a_pin_it_is_gone(self) -> None:
        """That is why the pin exists."""
        session = SessionGtid(group(GroupKind.XA_PREPARE))
        session.free_owned_gtid()
        assert get_gtid_info(session) is None

    def test_one_phase_is_a_commit(self) -> None:
        """XA COMMIT ... ONE PHASE leaves nothing prepared and needs no pin."""
        session = SessionGtid(group(GroupKind.XA_ONE_PHASE))
        assert session.is_one_phase_commit()
        assert not session.is_external_xa()
        made, server = fleet()
        clients.write(made, server, GroupKind.XA_ONE_PHASE)
        made.run(made.now + MINUTE)
        assert server[CommitQueue].prepared_xa == server[Innodb].transactions.prepared() == []
        assert [step["step"] for step in steps(server)][:1] == ["commit"]


class TestTransactionEnd:
    """Key point 1."""

    def test_an_insert_only_transaction_gets_an_update_undo_log_for_its_gtid(self) -> None:
        """And without a GTID it gets none, as its insert undo is freed at its commit."""
        inserts = next(g for g in (group(gno=n) for n in itertools.count(1)) if is_insert_only(g))
        for has_gtid in (True, False):
            made, server = fleet()
            inserts.sid = UUID if has_gtid else None
            gtid_persistence.end_transaction(made, server, inserts)
            history = [h for s in server[Innodb].transactions.segments for h in s.history]
            assert [h.is_insert_only for h in history] == ([True] if has_gtid else [])

    def test_gtid_and_number_are_written_together(self) -> None:
        """The header in the history has the GTID and the number that the journal says."""
        made, server = fleet()
        gtid_persistence.end_transaction(made, server, group())
        (reported,) = steps(server)
        (header,) = (h for s in server[Innodb].transactions.segments for h in s.history)
        assert (header.trx_no, header.state) == (reported["trx_no"], UndoState.TO_PURGE)
        assert trx_undo_gtid_read(header) == serialise(UUID, 1)
        assert reported["gtid"] == f"{UUID}:1"

    def test_adding_needs_the_mutex(self) -> None:
        """Under trx_sys_mutex only, which nobody takes twice."""
        trx_sys, persister = TrxSys(), GtidPersister()
        with pytest.raises(AssertionError, match="trx_sys_mutex"):
            persister.add(trx_sys, serialise(UUID, 1))
        with trx_sys.mutex, pytest.raises(AssertionError, match="taken already"):
            persister.switch(trx_sys)

    @pytest.mark.parametrize("kind", [GroupKind.NON_TRANSACTIONAL, GroupKind.EMPTY])
    def test_what_does_not_touch_innodb_passes_it_by(self, kind: GroupKind) -> None:
        """InnoDB does not promise to persist such a GTID."""
        made, server = fleet()
        assert not gtid_persistence.end_transaction(made, server, group(kind))
        assert steps(server) == []
        assert gtid_persistence.end_transaction(made, server, group())


class TestPersister:
    """Key point 2."""

    def test_it_writes_within_a_second(self) -> None:
        """A lone commit is in the table at most a second later, and then the number moves."""
        made, server = fleet()
        clients.write(made, server)
        made.run(made.now + 1_100_000)
        reported = steps(server)
        assert [step["step"] for step in reported] == ["commit", "write", "number", "purge"][
            : len(reported)
        ]
        assert len(reported) >= 3
        assert server[GtidState].table == server[GtidState].executed

    def test_it_wakes_up_once_a_second(self) -> None:
        """While commits go on, a write begins each second, whenever they came."""
        made, server = fleet()
        for number in range(40):
            made.clock.schedule(made.now + number * 100_000, server, clients.write, made, server)
        made.run(made.now + 5_000_000)
        journal = records(server.journal.build())
        written = [
            record.ts
            for record in journal
            if record.is_fact(RecordType.GTID_PERSISTER) and record.body["step"] == "write"
        ]
        assert [after - at for at, after in itertools.pairwise(written)] == [1_000_000] * 4

    def test_it_writes_after_1024_transactions(self) -> None:
        """A burst does not wait for the second."""
        made, server = fleet(profile="wl9452", max_binlog_size=1 << 30)
        started = made.now
        for _ in range(1_024):
            assert not server[GtidState].table
            clients.write(made, server, GroupKind.COMPRESSED)
        made.run(started + 10_000)
        (write,) = (step for step in steps(server) if step["step"] == "write")
        assert write["gtids"] == f"{server.server_uuid}:1-1024"

    def test_lists_are_switched(self) -> None:
        """What is added during a write comes with the next one, and the number stays below it."""
        start = world(GroupKind.INNODB, GroupKind.INNODB)
        start.serialise(1)
        start.write_undo(1)
        start.add(1)
        start.serialise(2)
        start.switch()
        start.write_undo(2)
        start.add(2)
        start.write()
        start.number()
        assert start.table.text() == f"{UUID}:1"
        assert start.persister.get_oldest_trx_no() == start.ends[2].trx_no
        assert [desc.gtid()[1] for desc in start.persister.active] == [2]

    def test_a_clone_lets_it_write(self) -> None:
        """When a clone ends, the donor's table has all that the donor has executed."""
        made = Fleet(Scenario(seed=1, negatives=("clone",), writes_per_second=20.0))
        donor = made.instances["source-a"]
        donor[GtidPersistence].is_recorded = True
        made.run(made.load_ends_at)
        journal = records(donor.journal.build())
        at = next(
            r.index
            for r in journal
            if r.is_fact(RecordType.CLONE) and r.body["step"] == "donor_released"
        )
        unsaved: set[str] = set()
        for record in journal[:at]:
            if record.is_fact(RecordType.GTID_PERSISTER):
                if record.body["step"] == "commit":
                    unsaved.add(record.body["gtid"])
                elif record.body["step"] == "write":
                    written = GtidSet.parse(record.body["gtids"])
                    unsaved = {gtid for gtid in unsaved if gtid not in written}
        assert not unsaved


class TestPurge:
    """Key point 3."""

    def prepared(self) -> tuple[TrxSys, GtidPersister]:
        start = world(*(GroupKind.INNODB,) * 6)
        for gno in range(1, 7):
            start.serialise(gno)
            start.write_undo(gno)
            start.add(gno)
        return start.trx_sys, start.persister

    def test_it_chooses_the_oldest_log_of_all_segments(self) -> None:
        """In the order of numbers, whatever the segment."""
        trx_sys, _ = self.prepared()
        order = []
        while (segment := purge.trx_purge_choose_next_log(trx_sys, 5)) is not None:
            order.append(segment.history.popleft().trx_no)
        assert order == [1, 2, 3, 4]

    def test_it_waits_for_the_persister(self) -> None:
        """Nothing goes before the number has moved, all goes afterwards."""
        trx_sys, persister = self.prepared()
        assert purge.purge(trx_sys, purge.oldest_read_view(trx_sys, persister)) == 0
        persister.switch(trx_sys)
        assert purge.purge(trx_sys, purge.oldest_read_view(trx_sys, persister)) == 0
        persister.update_oldest_trx_no(trx_sys)
        assert purge.purge(trx_sys, purge.oldest_read_view(trx_sys, persister)) == 6

    def test_an_open_read_view_holds_it_back_as_well(self) -> None:
        """The lower of both limits counts, and undo piles up."""
        trx_sys, persister = self.prepared()
        persister.switch(trx_sys)
        persister.update_oldest_trx_no(trx_sys)
        trx_sys.read_views.append(3)
        assert purge.purge(trx_sys, purge.oldest_read_view(trx_sys, persister)) == 2
        assert trx_sys.history_length() == 4

    def test_it_runs_by_itself(self) -> None:
        """On a server left alone all undo logs go, but those of prepared transactions."""
        made, server = fleet()
        for kind in (GroupKind.INNODB, GroupKind.XA_PREPARE, GroupKind.DDL):
            clients.write(made, server, kind)
        made.run(made.now + MINUTE)
        assert server[Innodb].transactions.history_length() == 0
        assert len(server[Innodb].transactions.prepared()) == 1


class TestRecovery:
    """Key point 4."""

    def test_it_skips_segments_and_stops_inside_one(self) -> None:
        """Segments below the stored number are not looked at; the others are read from the end."""
        start = world(*(GroupKind.INNODB,) * 12)
        for gno in range(1, 13):
            start.serialise(gno)
            start.write_undo(gno)
        greatest = [segment.max_trx_no for segment in start.trx_sys.segments]
        assert greatest == [9, 10, 11, 12]
        scan = undo_recovery.scan_undo_logs(start.trx_sys, 11)
        assert (scan.segments_skipped, scan.headers_read) == (2, 4)
        assert scan.gtids().text() == f"{UUID}:11-12"
        everything = undo_recovery.scan_undo_logs(start.trx_sys, 0)
        assert everything.gtids().text() == f"{UUID}:1-12"

    def test_history_is_in_the_order_of_numbers(self) -> None:
        """A log that would come out of order is refused."""
        start = world(GroupKind.INNODB, GroupKind.INNODB, segments=1)
        start.serialise(1)
        start.serialise(2)
        start.write_undo(2)
        with pytest.raises(AssertionError, match="order"):
            start.write_undo(1)

    @pytest.mark.parametrize("point", CrashPoint)
    @pytest.mark.parametrize("log_bin", [True, False])
    def test_a_crash_at_any_step_loses_nothing(self, point: CrashPoint, log_bin: bool) -> None:
        """F-7: the table has every committed and every prepared transaction after the start."""
        made, server = fleet()
        server[BinaryLog].is_open = server.variables["log_bin"] = log_bin
        kinds = (GroupKind.INNODB, GroupKind.XA_PREPARE, GroupKind.DDL, GroupKind.NON_TRANSACTIONAL)
        if not log_bin:
            server[BinaryLog].files = []
        first = server[GtidState].logged.next_free(server[GtidState].automatic_sid)

        def write(gno: int) -> None:
            made_group = workload.make_group(made.rng, kinds[gno % 4], 1, made.now)
            made_group.sid, made_group.gno = server[GtidState].automatic_sid, first + gno
            if server.is_running:
                commit.commit(made, server, made_group)

        for gno in range(24):
            made.clock.schedule(made.now + 1 + gno * 100_000, server, write, gno)
        made.run(made.now + 1_250_000)
        server[GtidPersistence].crash_at = point
        if point in (CrashPoint.RECOVERY_WRITE, CrashPoint.RECOVERY_NUMBER):
            lifecycle.crash(made, server)
        made.run(made.now + MINUTE)
        assert server.is_running
        assert server[GtidPersistence].crash_at is None, "the server was to crash there"
        committed = {step["gtid"] for step in steps(server) if "gtid" in step}
        assert committed
        for gtid in committed:
            sid, _, gno = gtid.rpartition(":")
            assert (sid, int(gno)) in server[GtidState].table
            assert (sid, int(gno)) in server[GtidState].executed
        prepared = server[Innodb].transactions.prepared()
        assert sorted(map(id, server[CommitQueue].prepared_xa)) == sorted(map(id, prepared))

    @pytest.mark.parametrize(
        ("in_history", "named", "next_one"), [(7, 9, 9), (9, 9, 10), (0, 0, 1)]
    )
    def test_numbers_go_on_after_all_that_pages_name(self, in_history, named, next_one) -> None:
        """A transaction below TRX_SYS_TRX_NUM_GTID would not be read by the next start."""
        trx_sys = TrxSys(trx_num_gtid=named, next_trx_no=20)
        trx_sys.segments[1].max_trx_no = in_history
        trx_sys.forget_memory()
        assert next_one == trx_sys.next_trx_no


class TestTable:
    """Gtid_state and Gtid_table_persistor."""

    def test_a_rotation_saves_what_innodb_does_not(self) -> None:
        """Of a closed file nothing is missing, and what the persister wrote is not saved again."""
        made, server = fleet(profile="wl9452")
        clients.write(made, server)
        made.run(made.now + 2_000_000)
        empty = clients.write(made, server, GroupKind.EMPTY)
        plain = clients.write(made, server, GroupKind.NON_TRANSACTIONAL)
        assert empty is not None
        assert plain is not None
        before = server[GtidState].table.copy()
        assert (empty.group.sid, empty.group.gno) not in before
        saved = gtid_state.save_gtids_of_last_binlog_into_table(server)
        assert saved.text() == f"{server.server_uuid}:2-3"
        assert server[GtidState].executed.is_subset(server[GtidState].table)
        administration.flush_binary_logs(made, server)
        assert server[BinaryLog].active.previous_gtids.is_subset(server[GtidState].table)

    def test_a_start_takes_the_rest_from_the_binary_log(self) -> None:
        """Empty and non-transactional groups of the last file are in the table after a crash."""
        made, server = fleet(profile="wl9452")
        for kind in (GroupKind.EMPTY, GroupKind.NON_TRANSACTIONAL, GroupKind.INNODB):
            clients.write(made, server, kind)
        executed = server[GtidState].executed.copy()
        lifecycle.crash(made, server)
        made.run(made.now + MINUTE)
        start = bodies_of(records(server.journal.build()), RecordType.START)[-1]
        assert start["undo_gtids"] == f"{server.server_uuid}:3"
        assert executed.is_subset(server[GtidState].executed)
        assert executed.is_subset(server[GtidState].table)

    def test_reset_lets_the_persister_write_first(self) -> None:
        """After RESET and a crash nothing from before is in the table, and nothing comes later."""
        made, server = fleet(profile="wl9452")
        for _ in range(5):
            clients.write(made, server)
        administration.reset_binary_logs(made, server)
        assert not server[GtidState].table
        made.run(made.now + 5_000_000)
        assert not server[GtidState].table
        lifecycle.crash(made, server, torn=False)
        made.run(made.now + MINUTE)
        assert not server[GtidState].executed


@pytest.mark.parametrize("kind", [GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK])
def test_the_gtid_of_a_prepare_is_saved_before_it_is_overwritten(kind: GroupKind) -> None:
    """The undo header has room for one: that of XA PREPARE goes into the table first."""
    made, server = fleet(profile="wl9452")
    prepared = clients.write(made, server, GroupKind.XA_PREPARE)
    commit.finish_all(made, server)
    assert prepared is not None
    assert not server[GtidState].table
    clients.write(made, server, kind, xa_of=prepared.group)
    commit.finish_all(made, server)
    assert server[GtidState].table.text() == f"{server.server_uuid}:1"
    assert [step["step"] for step in steps(server)] == ["prepare", "write", "number", "commit"]


def test_xa_outlives_a_crash() -> None:
    """A prepared transaction is prepared again after the start, and can be ended."""
    for kind in (GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK):
        made, server = fleet(profile="wl9452")
        prepared = clients.write(made, server, GroupKind.XA_PREPARE)
        assert prepared is not None
        lifecycle.crash(made, server)
        made.run(made.now + MINUTE)
        assert server[CommitQueue].prepared_xa == [prepared.group]
        clients.write(made, server, kind, xa_of=prepared.group)
        lifecycle.crash(made, server)
        made.run(made.now + MINUTE)
        assert server[CommitQueue].prepared_xa == []
        assert server[GtidState].table.text() == f"{server.server_uuid}:1-2"


@pytest.mark.parametrize("kind", [GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK])
def test_recovery_ends_xa_without_a_gtid(kind: GroupKind) -> None:
    """The GTID of what it ends is in the binary log alone; the undo header keeps that of PREPARE.

    PREPARE itself, when recovery makes it again, leaves none.
    """
    made, server = fleet()
    trx_sys = server[Innodb].transactions
    prepared = clients.write(made, server, GroupKind.XA_PREPARE)
    assert prepared is not None
    commit.finish_all(made, server)
    another = clients.write(made, server, GroupKind.XA_PREPARE)
    assert another is not None
    clients.write(made, server, kind, xa_of=prepared.group)
    assert len(server[CommitQueue].in_commit) == 2
    lifecycle.crash(made, server, torn=False)
    assert undo_recovery.scan_undo_logs(trx_sys).gtids().text() == f"{server.server_uuid}:1"
    assert trx_sys.prepared() == [another.group]
    (ended,) = (header for segment in trx_sys.segments for header in segment.history)
    assert (ended.state, ended.trx_no) == (UndoState.TO_PURGE, trx_sys.next_trx_no - 1)


@pytest.mark.parametrize("goes_down", [lifecycle.crash, lifecycle.shut_down])
def test_a_server_that_is_down_goes_down_once(goes_down) -> None:
    """It neither writes half a group nor says a second time that it stops."""
    made, server = fleet(profile="wl9452")
    clients.write(made, server, GroupKind.INNODB)
    lifecycle.crash(made, server)
    size, calls = server[BinaryLog].active.end, len(made.clock._calls)
    goes_down(made, server)
    assert (size, calls) == (server[BinaryLog].active.end, len(made.clock._calls))
    assert not server.is_running
    made.run(made.now + MINUTE)
    assert server.is_running
