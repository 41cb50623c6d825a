"""Repositories of replication info: what is stored, where, and what a start reads back."""

from __future__ import annotations

from itertools import chain, cycle, pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.assemble import Fleet
from tallystick.producers.simulator.backup import backup_protocol
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.replication_info import (
    acts,
    crash_points,
    master_info,
    recovery,
    relay_log_info,
    rpl_info_factory,
    worker_info,
)
from tallystick.producers.simulator.replication_info.crash_points import CrashPlan
from tallystick.producers.simulator.replication_info.master_info import MasterInfo
from tallystick.producers.simulator.replication_info.relay_log_info import RelayLogInfo
from tallystick.producers.simulator.replication_info.rpl_info_fields import (
    RplInfoFields,
    TornInfoError,
)
from tallystick.producers.simulator.replication_info.rpl_info_file import InfoFile, RplInfoFile
from tallystick.producers.simulator.replication_info.rpl_info_table import RplInfoTable
from tallystick.producers.simulator.replication_info.rpl_info_table_access import (
    INNODB,
    MYISAM,
    InfoRepositories,
    SystemTable,
)
from tallystick.producers.simulator.server import administration, binary_log, commit, lifecycle
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import (
    Applier,
    ChannelMap,
    QueuedGroup,
    Receiver,
    RelayLog,
)
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.simulated_journal import records

if TYPE_CHECKING:
    from tallystick.producers.simulator.server.channels import Channel

COLUMNS = (("Number_of_lines", int), ("Name", str), ("Position", int))
SECOND = 1_000_000


def fields(name: str, position: int) -> RplInfoFields:
    return RplInfoFields(COLUMNS, {"Number_of_lines": 3, "Name": name, "Position": position})


def pair(**options: Any) -> tuple[Fleet, Channel]:
    fleet = Fleet(Scenario(topology="pair", acts=False, **options))
    fleet.run(fleet.start_ts + SECOND)
    return fleet, fleet.instances["replica-a1"][ChannelMap].channels[""]


def switch(channel: Channel, kind: str) -> None:
    channel.replica.variables["master_info_repository"] = kind
    channel.replica.variables["relay_log_info_repository"] = kind


def restart(fleet: Fleet, channel: Channel, **crash: Any) -> dict[str, Any]:
    """Restart the replica; the body of its start record."""
    if crash:
        lifecycle.crash(fleet, channel.replica, **crash)
    else:
        lifecycle.shut_down(fleet, channel.replica)
    fleet.run(fleet.now + SECOND)
    assert channel.replica.is_running
    journal = records(fleet.advance(fleet.now + 1)["replica-a1"])
    return [record for record in journal if record.is_fact(RecordType.START)][-1].body


def repositories(start: dict[str, Any]) -> list[tuple[bool, bool, str, bool]]:
    return [(r["table"], r["file"], r["option"], r["started"]) for r in start["repositories"]]


class TestFields:
    def test_lines_are_read_as_they_were_written(self):
        """A file holds one line a column and the first says how many."""
        lines = fields("binlog.000001", 157).lines()
        assert lines == ["3", "binlog.000001", "157"]
        assert RplInfoFields.of_lines(COLUMNS, lines) == fields("binlog.000001", 157)

    @pytest.mark.parametrize("lines", [[], ["binlog.000001", "4"], ["3", "x"], ["3", "x", "y"]])
    def test_a_torn_file_is_refused(self, lines: list[str]):
        """Fewer lines than promised, or a number that is none, are no repository."""
        with pytest.raises(TornInfoError):
            RplInfoFields.of_lines(COLUMNS, lines)

    def test_the_tables_have_the_columns_of_mysql(self):
        """slave_master_info has 33 columns, slave_relay_log_info 15."""
        assert (len(master_info.COLUMNS), len(relay_log_info.COLUMNS)) == (33, 15)


class TestHandlers:
    def test_a_table_is_not_written_before_the_period_ends(self):
        """No optimistic write: nothing is stored until the third of three events."""
        handler = RplInfoTable(SystemTable("t", COLUMNS, INNODB), ("",))
        written = [handler.flush_info(fields("a", n), force=False, sync_period=3) for n in range(4)]
        assert [w is not None for w in written] == [False, False, True, False]
        assert handler.init_info() == fields("a", 2)

    def test_a_file_is_written_at_once_and_synced_by_the_period(self):
        """A killed server leaves the last write, a power cut the last synced one."""
        handler = RplInfoFile(InfoFile("f"), COLUMNS)
        written = [handler.flush_info(fields("a", n), force=False, sync_period=3) for n in range(4)]
        assert [one.is_durable for one in written] == [False, False, True, False]
        assert handler.init_info() == fields("a", 3)
        handler.file.lose_power()
        assert handler.init_info() == fields("a", 2)
        assert handler.flush_info(fields("a", 4), force=True, sync_period=3).is_durable
        handler.flush_info(fields("a", 5), force=False, sync_period=3)
        handler.file.lose_power()
        assert handler.init_info() == fields("a", 4)
        handler.flush_info(fields("a", 5), force=False, sync_period=3)
        handler.end_info()
        handler.file.lose_power()
        assert handler.init_info() == fields("a", 5)

    @pytest.mark.parametrize(("engine", "survivor"), [(INNODB, 2), (MYISAM, 1)])
    def test_a_power_cut_takes_what_no_transaction_made_durable(self, engine: str, survivor: int):
        """A MyISAM table falls back to what was on disk, an InnoDB table does not."""
        table = SystemTable("t", COLUMNS, engine)
        handler = RplInfoTable(table, ("",))
        handler.flush_info(fields("a", 1), force=True, sync_period=0)
        handler.end_info()
        handler.flush_info(fields("a", 2), force=True, sync_period=0)
        table.lose_power()
        assert handler.init_info() == fields("a", survivor)

    def test_a_period_of_zero_forces_nothing(self):
        """sync_master_info = 0 leaves the row to the moments of REQ-3."""
        handler = RplInfoTable(SystemTable("t", COLUMNS, INNODB), ("",))
        assert handler.flush_info(fields("a", 1), force=False, sync_period=0, count=9) is None
        assert not handler.check_info()

    def test_one_channel_has_one_row(self):
        """The unique key leaves one row a channel, each with values of its own."""
        table = SystemTable("t", COLUMNS, INNODB)
        for channel in ("a", "b", "a"):
            RplInfoTable(table, (channel,)).flush_info(
                fields(channel, 1), force=True, sync_period=0
            )
        assert [("a",), ("b",)] == sorted(table.rows)
        RplInfoTable(table, ("a",)).reset_info()
        assert [("b",)] == sorted(table.rows)


class TestMatrix:
    """REQ-6, cell by cell."""

    def test_table_with_data_is_read(self):
        """T, !F, TABLE: read the table."""
        fleet, channel = pair()
        start = restart(fleet, channel)
        assert [(True, False, "TABLE", True)] * 2 == repositories(start)
        assert channel[Applier].is_running

    def test_a_file_is_filled_from_the_table(self):
        """T, !F, FILE: fill the file, delete the table's row; replication goes on after it."""
        fleet, channel = pair()
        switch(channel, "FILE")
        start = restart(fleet, channel)
        assert [(True, False, "FILE", True)] * 2 == repositories(start)
        assert not channel.replica[InfoRepositories].tables["slave_master_info"].rows
        assert not channel.replica[InfoRepositories].tables["slave_relay_log_info"].rows
        assert channel[RelayLogInfo].handler.kind == "FILE"
        fleet.run(fleet.load_ends_at + SECOND)
        assert channel[RelayLogInfo].stored() == channel[Applier].group_end
        assert (
            channel.replica[GtidState].executed.text() == channel.source[GtidState].executed.text()
        )

    def test_a_file_with_data_is_read(self):
        """!T, F, FILE: read the file."""
        fleet, channel = pair()
        switch(channel, "FILE")
        restart(fleet, channel)
        assert [(False, True, "FILE", True)] * 2 == repositories(restart(fleet, channel))

    def test_the_table_is_filled_from_the_file(self):
        """!T, F, TABLE: fill the table, delete the file."""
        fleet, channel = pair()
        switch(channel, "FILE")
        restart(fleet, channel)
        switch(channel, "TABLE")
        start = restart(fleet, channel)
        assert [(False, True, "TABLE", True)] * 2 == repositories(start)
        assert not any(file.lines for file in channel.replica[InfoRepositories].files.values())
        assert ("",) in channel.replica[InfoRepositories].tables["slave_relay_log_info"].rows

    @pytest.mark.parametrize("kind", ["TABLE", "FILE"])
    def test_without_data_the_chosen_one_is_filled(self, kind: str):
        """!T, !F: the repository of the option is created with the first position of all."""
        fleet, channel = pair()
        administration.reset_replica(fleet, channel)
        channel[MasterInfo].handler.reset_info()
        switch(channel, kind)
        start = restart(fleet, channel)
        assert [(False, False, kind, True)] * 2 == repositories(start)
        assert ("replica-a1-relay-bin.000001", 4, "", 0) == channel[RelayLogInfo].stored()

    @pytest.mark.parametrize("kind", ["TABLE", "FILE"])
    def test_two_with_data_are_refused(self, kind: str):
        """T, F: an error; replication of the channel stays down until one is gone."""
        fleet, channel = pair()
        switch(channel, kind)
        file = rpl_info_factory.file_handler(channel, rpl_info_factory.RELAY)
        file.flush_info(
            channel[RelayLogInfo].fields(channel, channel[Applier].group_end),
            force=True,
            sync_period=0,
        )
        start = restart(fleet, channel)
        assert (True, True, kind, False) in repositories(start)
        threads = channel[Receiver].is_running, channel[Applier].is_running
        assert (channel.is_configured, *threads) == (False, False, False)
        assert channel.init_error == 1872
        file.reset_info()
        restart(fleet, channel)
        assert channel.is_configured
        assert channel[Applier].is_running


class TestMasterInfo:
    def test_the_password_never_leaves_the_server(self):
        """No record of the journal has it, though the table does."""
        fleet, channel = pair()
        password = channel[MasterInfo].connection[master_info.PASSWORD]
        fleet.collect("c1", fleet.now)
        block = fleet.advance(fleet.now + SECOND)["replica-a1"]
        reported = "".join(text or "" for text in block.texts.values())
        assert "User_name" in reported
        assert password not in reported

    def test_each_channel_reaches_its_source_in_its_own_way(self):
        """Host, port, TLS and periods differ from channel to channel and are read back."""
        seen = set()
        for seed in range(12):
            fleet, channel = pair(seed=seed)
            connection = channel[MasterInfo].connection.items()
            shown = {k: v for k, v in connection if v is not None and k != master_info.PASSWORD}
            restart(fleet, channel)
            assert shown.items() <= channel[MasterInfo].connection.items()
            seen.add((shown["Port"], shown["Enabled_ssl"], shown["Heartbeat"]))
        assert len(seen) > 3

    def test_defaults_of_columns_count_only_for_a_row_inserted_by_hand(self):
        """CHANGE MASTER writes the server's own defaults, whatever ALTER TABLE has set."""
        fleet, channel = pair()
        table = channel.replica[InfoRepositories].tables["slave_master_info"]
        table.defaults |= {"Connect_retry": 7, "Retry_count": 3}
        administration.stop_replication(fleet, channel)
        administration.change_source(fleet, channel, channel.source)
        (row,) = table.rows.values()
        assert row["Connect_retry"] != 7
        assert row["Retry_count"] != 3
        left = {name: row[name] for name in row if name not in table.defaults}
        table.insert((channel.name,), left)
        restart(fleet, channel)
        assert channel[MasterInfo].connection["Connect_retry"] == 7
        assert channel[MasterInfo].connection["Retry_count"] == 3
        administration.start_replication(fleet, channel)
        assert channel[Receiver].is_connected


def writes(fleet: Fleet, table: str) -> list[dict[str, Any]]:
    """What was written to a repository of the replica since the last call."""
    journal = records(fleet.advance(fleet.now + 1)["replica-a1"])
    bodies = [record.body for record in journal if record.is_fact(RecordType.INFO_WRITE)]
    return [body for body in bodies if body["table"] == table]


class TestWhenMasterInfoIsWritten:
    """REQ-3."""

    def test_at_change_source_with_every_column(self):
        """(ii), and the server's own defaults fill every column."""
        fleet, channel = pair()
        administration.stop_replication(fleet, channel)
        writes(fleet, "slave_master_info")
        administration.change_source(fleet, channel, channel.source)
        assert ["change_source"] == [w["reason"] for w in writes(fleet, "slave_master_info")]
        row = channel.replica[InfoRepositories].tables["slave_master_info"].rows["",]
        assert set(row) == {name for name, _ in master_info.COLUMNS}
        assert [name for name, value in row.items() if value is None] == ["Tls_ciphersuites"]

    def test_where_the_sources_file_changes_and_not_where_the_relay_log_is_full(self):
        """(i), as MySQL 8.0 does it."""
        fleet, channel = pair()
        channel.replica.variables["sync_source_info"] = 0
        channel.replica[BinaryLog].max_size = 600
        fleet.run(fleet.now + SECOND)
        writes(fleet, "slave_master_info")
        relay_file = channel[RelayLog].files[-1].number
        channel.source[BinaryLog].max_size = 1 << 20
        fleet.run(fleet.now + SECOND)
        assert channel[RelayLog].files[-1].number > relay_file
        assert writes(fleet, "slave_master_info") == []
        administration.flush_binary_logs(fleet, channel.source)
        fleet.run(fleet.now + SECOND // 10)
        assert {"relay_rotate"} == {w["reason"] for w in writes(fleet, "slave_master_info")}

    def test_when_the_receiver_stops(self):
        """(iii)."""
        fleet, channel = pair()
        administration.stop_replication(fleet, channel)
        assert channel[MasterInfo].stored() == channel[Receiver].read

    def test_when_the_channel_forgets_its_position(self):
        """Else a restart would go on from the place that RESET REPLICA has forgotten."""
        fleet, channel = pair()
        administration.reset_replica(fleet, channel)
        assert ("", 4) == channel[MasterInfo].stored()

    def test_after_every_so_many_events(self):
        """sync_source_info counts events: the row is never that many behind."""
        fleet, channel = pair(writes_per_second=20.0)
        channel.replica.variables["sync_source_info"] = 12
        writes(fleet, "slave_master_info")
        fleet.run(fleet.now + 2 * SECOND)
        assert "sync" in {w["reason"] for w in writes(fleet, "slave_master_info")}
        assert channel[MasterInfo].handler.sync_counter < 12


class TestWhenRelayLogInfoIsWritten:
    """REQ-5."""

    @pytest.mark.parametrize("repository", ["TABLE", "FILE"])
    def test_at_each_moment_of_the_document(self, repository: str):
        """(i) rotation, (ii) stop, (iii) XID, (iv) COMMIT or ROLLBACK, (v) statements."""
        fleet, channel = pair(profile="wl9452", writes_per_second=20.0)
        switch(channel, repository)
        restart(fleet, channel)
        fleet.pace.kinds = (
            GroupKind.INNODB,
            GroupKind.MIXED,
            GroupKind.NON_TRANSACTIONAL,
            GroupKind.ROLLED_BACK,
            GroupKind.DDL,
        )
        fleet.run(fleet.load_ends_at)
        administration.flush_binary_logs(fleet, channel.source)
        fleet.run(fleet.now + SECOND)
        administration.stop_replication(fleet, channel)
        reasons = {w["reason"] for w in writes(fleet, "slave_relay_log_info")}
        assert {"relay_rotate", "applier_stop", "xid", "query", "statement"} <= reasons

    @pytest.mark.parametrize("period", [0, 10_000])
    def test_a_transactional_table_knows_no_period(self, period: int):
        """sync_relay_log_info has no effect on it."""
        fleet, channel = pair()
        fleet.pace.kinds = (GroupKind.INNODB,)
        channel.replica.variables["sync_relay_log_info"] = period
        fleet.run(fleet.load_ends_at + SECOND)
        assert channel[RelayLogInfo].stored() == channel[Applier].group_end

    def test_another_table_waits_for_the_period(self):
        """Without a transaction nothing is written before it ends."""
        fleet, channel = pair(writes_per_second=20.0)
        acts.alter_engine(channel.replica, MYISAM)
        fleet.pace.kinds = (GroupKind.INNODB,)
        fleet.run(fleet.now + SECOND)
        assert channel[RelayLogInfo].stored() != channel[Applier].group_end


def crash_by_position(
    fleet: Fleet, channel: Channel, point: crash_points.CrashPoint, **plan: Any
) -> tuple[list[Any], list[Any]]:
    """Crash at a step; the groups of the source, and those that the replica logged."""
    channel.replica[CrashPlan] = crash_points.CrashPlan(point, passes=2, **plan)
    fleet.run(fleet.load_ends_at + 2 * SECOND)
    assert channel.replica.get(CrashPlan) is None
    return sources_groups(channel), executed_groups(channel)


@pytest.mark.parametrize("repository", ["FILE", MYISAM])
def test_another_repository_repeats_what_was_committed(repository: str):
    """A crash between commit and position executes the transaction again."""
    fleet, channel = pair(gtid_mode="OFF", auto_position=False)
    if repository == MYISAM:
        acts.alter_engine(channel.replica, MYISAM)
        channel.replica.variables["sync_relay_log_info"] = 1
    else:
        switch(channel, "FILE")
        restart(fleet, channel)
    fleet.pace.kinds = (GroupKind.INNODB,)
    point = crash_points.CrashPoint.BETWEEN_COMMIT_AND_POSITION
    source, executed = crash_by_position(fleet, channel, point, kinds=(GroupKind.INNODB,))
    assert len(executed) == len(source) + 1
    assert set(executed) == set(source)


def test_a_torn_file_pairs_what_never_was_one_place():
    """A crash inside the write of a file leaves new relay and old source coordinates."""
    fleet, channel = pair(gtid_mode="OFF", auto_position=False)
    switch(channel, "FILE")
    restart(fleet, channel)
    channel.replica[CrashPlan] = crash_points.CrashPlan(crash_points.CrashPoint.INSIDE_FILE_WRITE)
    while channel.replica.is_running:
        before = channel[RelayLogInfo].stored()
        fleet.run(fleet.now + 100)
    torn = channel[RelayLogInfo].stored()
    assert before is not None
    assert torn is not None
    assert torn[1] != before[1]
    assert torn[2:] == before[2:]


def test_a_mixed_transaction_cannot_be_made_safe():
    """InnoDB's part is rolled back and executed again; MyISAM's part is there twice."""
    fleet, channel = pair(gtid_mode="OFF", auto_position=False)
    fleet.pace.kinds = (GroupKind.MIXED,)
    point = crash_points.CrashPoint.BETWEEN_EXECUTION_AND_BINARY_LOG
    channel.replica[CrashPlan] = crash_points.CrashPlan(point, kinds=(GroupKind.MIXED,))
    fleet.run(fleet.load_ends_at + 2 * SECOND)
    journal = records(fleet.advance(fleet.now + 1)["replica-a1"])
    left = [r.body for r in journal if r.is_fact(RecordType.STATEMENT)]
    assert [{"engine": "myisam", "type": "dml", "binlogged": False}] == left
    assert sources_groups(channel) == executed_groups(channel)


def test_a_crash_inside_a_migration_leaves_both_filled():
    """Filled and not yet deleted: the next start cannot know which is newer, and refuses."""
    fleet, channel = pair()
    switch(channel, "FILE")
    point = crash_points.CrashPoint.BETWEEN_FILL_AND_DELETE
    lifecycle.shut_down(fleet, channel.replica)
    channel.replica[CrashPlan] = crash_points.CrashPlan(point)
    fleet.run(fleet.now + 2 * SECOND)
    assert channel.replica.is_running
    assert channel.init_error == 1872


def test_without_recovery_a_stale_master_info_doubles_the_relay_log():
    """relay_log_recovery = OFF by position: what is received again is executed again."""
    fleet, channel = pair(gtid_mode="OFF", auto_position=False)
    channel.replica.variables.update(relay_log_recovery=False, sync_source_info=0)
    fleet.pace.kinds = (GroupKind.INNODB,)
    fleet.run(fleet.now + SECOND)
    lifecycle.crash(fleet, channel.replica, torn=False)
    fleet.run(fleet.load_ends_at + 2 * SECOND)
    assert len(executed_groups(channel)) > len(sources_groups(channel))
    assert set(executed_groups(channel)) == set(sources_groups(channel))


@pytest.mark.parametrize("repository", ["FILE", MYISAM, INNODB])
def test_a_power_cut_takes_what_repositories_had_only_cached(repository: str):
    """Files and MyISAM tables fall back to what was on disk; a clean stop puts them there."""
    fleet, channel = pair(writes_per_second=20.0)
    replica = channel.replica
    if repository == "FILE":
        switch(channel, "FILE")
        restart(fleet, channel)
    else:
        acts.alter_engine(replica, repository)
    fleet.pace.kinds = (GroupKind.INNODB,)
    # A file is cached at each group and never synced; a table is written at each group.
    replica.variables["sync_relay_log_info"] = 0 if repository == "FILE" else 1
    replica.variables["sync_source_info"] = 0 if repository == "FILE" else 1
    fleet.run(fleet.now + SECOND)
    cached = channel[RelayLogInfo].stored(), channel[MasterInfo].stored()
    assert cached[0] == channel[Applier].group_end
    reported = writes(fleet, "slave_relay_log_info")[-1]
    assert reported.get("durable") == (None if repository == INNODB else False)
    cached = channel[RelayLogInfo].stored(), channel[MasterInfo].stored()
    recovery.lose_power(replica)
    left = channel[RelayLogInfo].stored(), channel[MasterInfo].stored()
    assert (left == cached) == (repository == INNODB)
    fleet.run(fleet.now + SECOND)
    lifecycle.shut_down(fleet, replica)

    def on_disk() -> tuple[Any, ...]:
        files = [(file.name, file.end) for file in channel[RelayLog].files]
        return channel[RelayLogInfo].stored(), channel[MasterInfo].stored(), files

    stopped = on_disk()
    recovery.lose_power(replica)
    assert stopped == on_disk()


@pytest.mark.parametrize("kind", [rpl_info_factory.MASTER, rpl_info_factory.RELAY])
def test_a_start_refuses_a_torn_file(kind: Any):
    """1872 whichever of the two files is short; the threads of the channel stay down."""
    fleet, channel = pair()
    switch(channel, "FILE")
    restart(fleet, channel)
    lifecycle.shut_down(fleet, channel.replica)
    file = rpl_info_factory.file_handler(channel, kind).file
    file.lines = file.lines[:3]
    fleet.run(fleet.now + SECOND)
    assert channel.replica.is_running
    threads = channel[Receiver].is_running, channel[Applier].is_running
    assert (channel.is_configured, *threads) == (False, False, False)
    assert channel.init_error == 1872
    journal = records(fleet.advance(fleet.now + 1)["replica-a1"])
    start = [record for record in journal if record.is_fact(RecordType.START)][-1].body
    assert repositories(start) == [(False, True, "FILE", False)] * 2


def test_a_power_cut_takes_the_unsynced_end_of_the_relay_log():
    """With auto-position what is lost is received again, nothing twice."""
    fleet, channel = pair(writes_per_second=20.0)
    channel.replica.variables["relay_log_recovery"] = False
    received = channel[Receiver].retrieved.text()
    lifecycle.crash(fleet, channel.replica, torn=False, power_cut=True)
    while not channel.replica.is_running:
        fleet.run(fleet.now + 1_000)
    assert received != channel[Receiver].retrieved.text()
    fleet.run(fleet.load_ends_at + 2 * SECOND)
    assert channel.replica[GtidState].executed.text() == channel.source[GtidState].executed.text()


def test_the_relay_log_is_synced_after_each_period():
    """Of sync_relay_log events, here four: two statements with their GTIDs."""
    fleet, channel = pair(writes_per_second=20.0)
    fleet.pace.kinds = (GroupKind.DDL,)
    fleet.run(fleet.now + SECOND)
    channel.replica.variables["sync_relay_log"] = 4
    log = channel[RelayLog]
    file = log.files[-1]
    synced = set()
    while log.files[-1] is file and len(synced) < 20:
        fleet.run(fleet.now + 1_000)
        if log.synced != (file.number, file.end):
            synced.add(file.event_ends.index(log.synced[1]))
    assert {(after - before) % 4 for before, after in pairwise(sorted(synced)[1:])} == {0}


@pytest.mark.parametrize(
    ("kind", "moves"),
    [
        (GroupKind.INNODB, True),
        (GroupKind.DDL, True),
        (GroupKind.NON_TRANSACTIONAL, False),
        (GroupKind.XA_PREPARE, False),
    ],
)
def test_recovery_moves_the_position_with_the_transaction_that_holds_it(kind, moves):
    """A group that the crash found between its stages is committed, whatever it is."""
    fleet, channel = pair(writes_per_second=20.0)
    fleet.pace.kinds = (kind,)
    fleet.run(fleet.now + SECOND)
    in_commit = channel.replica[CommitQueue].in_commit
    while not in_commit:
        fleet.run(fleet.now + 100)
    [group] = [pending.logged.group for pending in in_commit]
    before = channel[RelayLogInfo].stored()
    lifecycle.crash(fleet, channel.replica, torn=False)
    assert (group.kind, moves) == (kind, channel[RelayLogInfo].stored() != before)


@pytest.mark.parametrize("repository", ["TABLE", "FILE"])
def test_rows_of_workers_go_when_the_applier_stops(repository: str):
    """Applying begins anew without gaps: nothing of what workers had done is left."""
    fleet, channel = pair(applier_workers=4, writes_per_second=20.0)
    switch(channel, repository)
    restart(fleet, channel)
    fleet.run(fleet.now + SECOND)
    assert worker_info.rows(channel)
    kept = channel.replica[InfoRepositories]
    administration.stop_replication(fleet, channel)
    assert not worker_info.shown_rows(channel.replica)
    assert not any(file.lines for name, file in kept.files.items() if "worker" in name)


def test_a_group_that_a_backup_keeps_back_keeps_back_those_after_it(monkeypatch):
    """Nothing more is applied of a gap that a stop cannot fill."""
    fleet, channel = pair(
        applier_workers=4, preserve_commit_order=False, writes_per_second=200.0, seed=2
    )
    gap: list[QueuedGroup] = []
    while len(gap) < 2:
        fleet.run(fleet.now + 500)
        commit.finish_all(fleet, channel.replica)
        groups = [one for one in channel.pending if isinstance(one, QueuedGroup)]
        last = max((n for n, one in enumerate(groups) if one.is_applied), default=0)
        gap = [one for one in groups[:last] if not one.is_applied]
    keeps_back = chain([True], cycle([False]))
    monkeypatch.setattr(backup_protocol, "blocks", lambda *_: next(keeps_back))
    administration.stop_replication(fleet, channel)
    assert not any(one.is_applied for one in gap)


def test_gaps_that_are_filled_are_stored():
    """A start without relay_log_recovery moves the stored position after what it has executed."""
    stored = 0
    for seed in range(4):
        fleet = Fleet(Scenario(seed=seed, negatives=("crash_with_gaps",), acts=False))
        channel = fleet.instances["replica-a1"][ChannelMap].channels[""]
        channel.replica.variables["relay_log_recovery"] = False
        while channel.replica.is_running and fleet.now < fleet.load_ends_at:
            fleet.run(fleet.now + 1_000)
        before = channel[RelayLogInfo].stored()
        while not channel.replica.is_running:
            fleet.run(fleet.now + 1_000)
        assert channel[RelayLogInfo].stored() == channel[Applier].group_end
        stored += before != channel[RelayLogInfo].stored()
    assert stored


@pytest.mark.parametrize(("cause", "errno"), [("purged", 13114), ("server_id", 13117)])
def test_a_receiver_stops_with_the_error_of_its_cause(cause: str, errno: int):
    """Last_IO_Errno: the source has purged what is asked for, or has the replica's server_id."""
    fleet, channel = pair()
    administration.stop_replication(fleet, channel)
    fleet.run(fleet.now + SECOND)
    if cause == "purged":
        administration.flush_binary_logs(fleet, channel.source)
        binary_log.purge(fleet, channel.source, channel.source[BinaryLog].active.number)
    else:
        channel.source.server_id = channel.replica.server_id
    administration.start_replication(fleet, channel)
    fleet.run(fleet.now + SECOND)
    assert (channel[Receiver].is_running, channel[Receiver].io_errno) == (False, errno)


@pytest.mark.parametrize("seed", range(4))
def test_workers_tell_the_gaps_that_a_crash_leaves(seed: int):
    """Each group is executed once, though workers had committed after a gap."""
    fleet = Fleet(Scenario(seed=seed, negatives=("crash_with_gaps",), acts=False))
    fleet.run(fleet.load_ends_at + 3 * SECOND)
    channel = fleet.instances["replica-a1"][ChannelMap].channels[""]
    assert fleet.instances["replica-a1"].get(CrashPlan) is None
    transactions = [g for g in executed_groups(channel) if g.kind is GroupKind.INNODB]
    assert len(transactions) == len(set(transactions))
    assert set(executed_groups(channel)) == set(sources_groups(channel))


@pytest.mark.parametrize("point", list(crash_points.CrashPoint)[:4])
def test_a_transactional_table_is_crash_safe_at_every_step(point: crash_points.CrashPoint):
    """By position, without GTIDs: every group of the source is executed exactly once."""
    fleet, channel = pair(gtid_mode="OFF", auto_position=False)
    fleet.pace.kinds = (GroupKind.INNODB,)
    source, executed = crash_by_position(fleet, channel, point, kinds=(GroupKind.INNODB,))
    assert source == executed


def sources_groups(channel: Channel) -> list[Any]:
    return [g.group for f in channel.source[BinaryLog].files for g in f.groups()]


def executed_groups(channel: Channel) -> list[Any]:
    return [g.group for f in channel.replica[BinaryLog].files for g in f.groups()]
