"""Legal histories of real servers that look wrong: nothing may be found in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.explanation import explain
from tallystick.coordinates.values.binlog import WRAP
from tests.support.journals import (
    FORMS,
    UUID_A,
    UUID_B,
    UUID_C,
    Binlog,
    Gtids,
    Journal,
    Record,
    RelayLog,
    audit,
    read_gtids,
)
from tests.support.rule_cases import apply, channel, files, innodb, local, purging, replica, source
from tests.support.rule_cases_of_channels import relay_info, store
from tests.support.rule_cases_of_gtid_persistence import crash, persisted
from tests.support.rule_cases_of_images import image, positions
from tests.support.rule_cases_of_online_backup import sequence
from tests.support.rule_cases_of_protocols import (
    COLLECTS,
    LOCKS,
    SOURCE_COLLECTS,
    SOURCE_LOCKS,
    SOURCE_UNLOCKS,
    UNLOCKS,
    collecting,
)

Build = Callable[[], Journal]
LEGAL: dict[str, Build] = {}
GROUP = "dddddddd-0000-0000-0000-000000000009"


def legal(build: Build) -> Build:
    LEGAL[build.__name__] = build
    return build


@legal
def observation_begins_at_a_later_file() -> Journal:
    """How many files are older, and what was purged, the journal cannot know."""
    journal = Journal()
    journal.start()
    journal.executed = read_gtids(f"{UUID_A}:1-100")
    journal.used, journal.binlog.gtids = journal.executed.copy(), journal.executed.copy()
    journal.binlog.open(5)
    journal.groups(2).row()
    return journal


@legal
def observation_begins_inside_a_group() -> Journal:
    journal = source(5)
    del journal.records[1:10]
    journal.row()
    journal.groups(2).binlog.rotate()
    journal.groups(2).row()
    return journal


@legal
def starts_show_repositories_whose_writes_nobody_records() -> Journal:
    """What a start reads was written since the one before."""
    journal, _, _ = replica()
    row = {"Master_log_name": "binlog.000001"}
    for position in (500, 900):
        journal.record("stop")
        read = {"repository": "slave_master_info", "table": True, "file": False, "started": True,
                "channel": "", "row": row | {"Master_log_pos": position}}  # fmt: skip
        journal.start(repositories=[read])
    return journal


@legal
def reset_while_a_clone_forces_the_order_of_commits() -> Journal:
    """The page of the clone names another log after it."""
    journal = source()
    journal.record("clone", role="donor", step="begin")
    journal.record("clone", role="donor", step="prepared_awaited")
    at = {"binlog_file": "binlog.000001", "binlog_position": journal.binlog.end}
    journal.record("clone", role="donor", step="commit", **at)
    journal.record("binlog_reset")
    at["binlog_position"] = 157
    journal.record("clone", role="donor", step="commit", **at)
    return journal


@legal
def image_of_a_replica_beyond_4_gib() -> Journal:
    """Its relay log names the source's positions modulo 2^32: what is not executed looks passed."""
    journal, relay, more = replica()
    applied = relay.coordinates
    relay.copy(more[0])
    executed = {
        "exec_source_log_file": "binlog.000001",
        "exec_source_log_pos": WRAP + more[0][0]["start"],
    }
    return image(journal, channels=[positions(applied, applied, **executed)])


def _row_of_age(journal: Journal, age: int) -> None:
    row = innodb(journal.row())
    row["LSN"] = row["LSN"] // 512 * 512 + 100 * 512 + 12
    row["LSN_checkpoint"] = row["LSN"] - age // 512 * 512
    journal.lsn = row["LSN"]


@legal
def rows_while_the_redo_log_shrinks() -> Journal:
    """Its files hold what they held until a checkpoint is near enough."""
    journal = source(innodb_redo_log_capacity=100_000)
    _row_of_age(journal, 50_000)
    journal.record("variables", variables={"innodb_redo_log_capacity": 8_192})
    _row_of_age(journal, 50_000)
    journal.record("stop")
    journal.start()
    _row_of_age(journal, 50_000)
    _row_of_age(journal, 4_096)
    return journal


@legal
def observation_begins_while_the_redo_log_shrinks() -> Journal:
    journal = source(innodb_redo_log_capacity=8_192)
    _row_of_age(journal, 50_000)
    return journal


@legal
def a_checkpoint_is_read_before_any_write_of_a_redo_log_that_shrinks() -> Journal:
    journal = source(innodb_redo_log_capacity=8_192)
    at = 1_000 * 512 + 12
    journal.record("redo", type="CHECKPOINT", lsn=at)
    journal.record("redo", type="WRITE", start_lsn=at + 40_960, lsn=at + 41_472)
    return journal


@legal
def undo_is_purged_up_to_less_than_the_persister_allows() -> Journal:
    """A read view may hold it back."""
    journal = source()
    journal.record("gtid_persister", step="number", trx_num_gtid=11)
    journal.record("gtid_persister", step="purge", trx_no=5)
    return journal


def _table_read(journal: Journal, gtids: str, taken_us: int = 0) -> Record:
    row = journal.row(gtid_executed_table=gtids, gtid_owned="", prepared_xa="")
    row["requested_at"] = row["received_at"] = row["ts"] - taken_us
    return row


def _persisted(**settings: object) -> Journal:
    """The persister has written what was executed; the clocks are known."""
    journal = persisted(3, source(**settings))
    _table_read(journal, f"{UUID_A}:1-3")
    return journal


@legal
def reset_empties_the_table_of_what_was_persisted() -> Journal:
    journal = _persisted()
    journal.record("binlog_reset")
    journal.executed, journal.used, journal.binlog = Gtids(), Gtids(), Binlog(journal)
    journal.binlog.open()
    journal.groups(1)
    _table_read(journal, "")
    return journal


@legal
def restored_data_have_another_table() -> Journal:
    journal = _persisted()
    journal.start(data_lineage="restored", gtid_executed_table="", undo_gtids="")
    journal.executed, journal.used, journal.binlog = Gtids(), Gtids(), Binlog(journal)
    journal.binlog.open()
    _table_read(journal, "")
    return journal


@legal
def the_table_is_read_before_the_persister_writes() -> Journal:
    """The row comes after the write, and was asked for before it."""
    journal = _persisted()
    journal.groups(1)
    journal.record("gtid_persister", step="commit", trx_no=9, gtid=f"{UUID_A}:4")
    journal.record("gtid_persister", step="write", gtids=f"{UUID_A}:4", oldest_trx_no=10)
    _table_read(journal, f"{UUID_A}:1-3", taken_us=1_000)
    return journal


@legal
def the_table_is_read_by_request_of_a_clock_that_is_ahead() -> Journal:
    """When the server had the request is not known."""
    journal = _persisted()
    journal.groups(1)
    journal.record("gtid_persister", step="commit", trx_no=9, gtid=f"{UUID_A}:4")
    journal.record("gtid_persister", step="write", gtids=f"{UUID_A}:4", oldest_trx_no=10)
    del _table_read(journal, f"{UUID_A}:1-3")["received_at"]
    return journal


@legal
def a_crash_takes_back_what_was_committed_while_the_log_was_not_flushed() -> Journal:
    """The start has the setting that was changed meanwhile; what counts is that from before."""
    journal = source(innodb_flush_log_at_trx_commit=2)
    journal.variables = journal.variables | {"innodb_flush_log_at_trx_commit": 1}
    return _lost_by_a_crash(journal)


@legal
def a_crash_takes_back_what_was_committed_while_the_log_was_not_flushed_for_a_while() -> Journal:
    journal = source(innodb_flush_log_at_trx_commit=1)
    for policy in (2, 1):
        journal.record("variables", variables={"innodb_flush_log_at_trx_commit": policy})
    return _lost_by_a_crash(journal)


@legal
def a_crash_takes_back_what_was_committed_while_there_was_no_redo() -> Journal:
    return _lost_by_a_crash(source(innodb_redo_log_enabled=False))


@legal
def a_crash_takes_files_of_the_log_and_their_numbers_are_given_out_again() -> Journal:
    journal = source()
    recovered = {"file": journal.binlog.file, "position": journal.binlog.end}
    for _ in range(2):
        journal.binlog.rotate()
    journal.start(crashed=True, recovered=recovered)
    journal.binlog.open(2)
    journal.groups(1).row()
    return journal


def _lost_by_a_crash(journal: Journal) -> Journal:
    """Three GTIDs were written and one is still to be; the crash leaves one in InnoDB."""
    persisted(3, journal)
    journal.groups(1)
    journal.record("gtid_persister", step="commit", trx_no=9, gtid=f"{UUID_A}:4")
    at = {"file": "binlog.000001", "position": journal.binlog.end}
    journal.start(crashed=True, recovered=at, gtid_executed_table=f"{UUID_A}:1", undo_gtids="")
    return journal


@legal
def a_crash_whose_undo_logs_nobody_read() -> Journal:
    """What is not in the table yet may be in them."""
    journal = persisted()
    journal.record("gtid_persister", step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    return crash(journal, gtid_executed_table=f"{UUID_A}:1-2")


@legal
def undo_is_purged_less_far_than_the_persister_allows() -> Journal:
    """A read view holds it back, too."""
    journal = persisted(4)
    journal.record("gtid_persister", step="purge", trx_no=3)
    return journal


@legal
def a_crash_between_a_write_of_the_persister_and_its_number() -> Journal:
    """What it was about to do then it need not do any more."""
    journal = persisted(1)
    for trx_no in (2, 3):
        gtid = f"{UUID_A}:{trx_no}"
        journal.record("gtid_persister", step="commit", trx_no=trx_no, gtid=gtid)
    journal.record("gtid_persister", step="write", gtids=f"{UUID_A}:2", oldest_trx_no=3)
    crash(journal, gtid_executed_table=f"{UUID_A}:1-2", undo_gtids=f"{UUID_A}:3")
    journal.record("gtid_persister", step="write", gtids=f"{UUID_A}:3", oldest_trx_no=4)
    return journal


@legal
def transaction_numbers_that_come_again_after_a_crash() -> Journal:
    """What a crash takes back of the redo log takes the numbers back, too."""
    journal = crash(persisted(), gtid_executed_table=f"{UUID_A}:1-2", undo_gtids="")
    journal.record("gtid_persister", step="commit", trx_no=2, gtid=f"{UUID_A}:3")
    return journal


@legal
def a_thread_outside_a_zone_that_commits_what_it_does_not_log() -> Journal:
    """With sql_log_bin=0 no validity point comes between its logging and its unlocking."""
    return sequence("commit 5@:shop.a", "close", "wait", "validity_point", "open")


@legal
def relay_log_recovery_and_nobody_connects() -> Journal:
    """The receiver goes on from the executed position later; its relay log has only a head."""
    journal, relay, more = replica(sync_source_info=1)
    executed = relay.source
    relay.copy(more[0])
    store(journal, relay)
    journal.record("channel", channel="", action="relay_log_recovery")
    relay.open(relay.number + 1, previous="")
    relay.source = executed
    store(journal, relay)
    journal.row()
    return journal


@legal
def relay_log_observed_from_the_middle() -> Journal:
    journal, relay, more = replica()
    relays = [r for r in journal.records if r["kind"] == "relay"]
    for record in relays[:6]:
        journal.records.remove(record)
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status())
    return journal


@legal
def relay_log_not_observed_at_all() -> Journal:
    """By GTID set the receiver may begin further back: Rd behind Ex for a moment."""
    journal, relay, more = replica()
    for number in range(3):
        journal.row(replica_status=journal.replica_status(Read_Source_Log_Pos=4))
        apply(journal, relay, more[number])
    journal.records = [r for r in journal.records if r["kind"] != "relay"]
    return journal


@legal
def rows_without_anything_beside() -> Journal:
    journal = Journal()
    for _ in range(3):
        del journal.row()["gtid_purged"]
    return journal


@legal
def binlog_switched_off_and_on() -> Journal:
    journal = source()
    journal.row()
    journal.binlog.stop()
    journal.record("stop")
    journal.variables["log_bin"] = False
    journal.start(variables=dict(journal.variables))
    journal.purged = str(journal.executed)
    journal.row()
    journal.row()
    journal.record("stop")
    journal.variables["log_bin"] = True
    journal.start(variables=dict(journal.variables))
    for gno in (4, 5, 6):
        journal.executed.add(f"{UUID_A}:{gno}")
    journal.used = journal.executed.copy()
    journal.binlog.open(2)
    journal.purged = f"{UUID_A}:4-6"
    journal.groups(2).row()
    return journal


@legal
def collection_asked_again_after_an_error() -> Journal:
    """The row is of the second session, which had memory for all."""
    journal = collecting(f"{SOURCE_LOCKS} !binlog error {SOURCE_UNLOCKS}")
    collecting(f"{SOURCE_LOCKS} {SOURCE_COLLECTS} {SOURCE_UNLOCKS}", journal=journal)
    journal.row()
    return journal


@legal
def collection_gives_back_its_plugins_at_the_end() -> Journal:
    """Deleting a wrapper takes LOCK_plugin once more, for the reference to its engine."""
    releases = UNLOCKS.replace("-channel_map", "+LOCK_plugin -LOCK_plugin -channel_map")
    return collecting(f"{LOCKS} {COLLECTS} {releases}")


@legal
def gtid_mode_off() -> Journal:
    journal = Journal(gtid_mode="OFF").begin()
    for _ in range(2):
        for _ in range(60):
            journal.binlog.group(None)
        journal.row()
    return journal


@legal
def tags_of_8_4() -> Journal:
    journal = Journal(version="8.4.0").begin()
    for gtid in (f"{UUID_A}:batch:1", "", f"{UUID_A}:batch:2", f"{UUID_A}:zeta:7", ""):
        journal.binlog.group(gtid)
    journal.row()
    journal.binlog.rotate()
    journal.binlog.group(f"{UUID_A}:batch:3")
    journal.row()
    return journal


@legal
def replica_assigns_gtids_to_anonymous_groups() -> Journal:
    """ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS may name any UUID."""
    origin = Journal("s", UUID_C, 3).begin()
    for _ in range(4):
        origin.binlog.group(None)
    journal, relay = of_replica()
    journal.row(replica_status=journal.replica_status())
    for number, group in enumerate(origin.binlog.groups, 1):
        relay.copy(group)
        journal.binlog.group(f"{GROUP}:{number}", server_id=3)
    journal.row(replica_status=journal.replica_status())
    return journal


def of_replica(**settings: Any) -> tuple[Journal, RelayLog]:
    journal, relay, _ = replica(0, **settings)
    return journal, relay


def part(relay: RelayLog, events: list[Record]) -> None:
    """Receive some events of a group."""
    for event in events:
        kept = ("kind", "instance", "ts", "file", "start", "length", "type")
        fields = {key: value for key, value in event.items() if key not in kept}
        relay.event(event["type"], event["length"], **fields)
    relay.source = events[-1]["file"], events[-1]["start"] + events[-1]["length"]
    relay.flush()


@legal
def file_position_reconnect_inside_a_group() -> Journal:
    """Without auto-position the group goes on where it was interrupted."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    part(relay, more[0][:3])
    journal.record("channel", channel="", action="reconnect")
    assert relay.source is not None
    relay.connect(*relay.source)
    part(relay, more[0][3:])
    relay.gtids.add(more[0][0]["gtid"])
    journal.binlog.group(more[0][0]["gtid"], server_id=3)
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[1])
    journal.row(replica_status=journal.replica_status())
    return journal


@legal
def gtid_reconnect_inside_a_group() -> Journal:
    """With auto-position the group comes again from its beginning, after a ROTATE to 4."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    part(relay, more[0][:3])
    applied, executed = relay.coordinates, relay.source
    journal.record("channel", channel="", action="reconnect")
    relay.connect("binlog.000001", 4)
    assert executed is not None
    behind = {"Relay_Log_Pos": applied[1], "Exec_Source_Log_Pos": executed[1] - 204}
    journal.row(replica_status=journal.replica_status(**behind))
    apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status())
    return journal


@legal
def replica_that_does_not_log() -> Journal:
    journal, relay, more = replica(0, log_replica_updates=False)
    end = journal.binlog.coordinates
    for _ in range(2):
        for group in more[:2]:
            relay.copy(group)
            journal.executed.add(group[0]["gtid"])
        more = more[2:]
        journal.purged = str(journal.executed)
        journal.row(replica_status=journal.replica_status())
    assert end == journal.binlog.coordinates
    return journal


@legal
def several_channels_with_names_in_any_case() -> Journal:
    journal, _, more = replica()
    east = journal.relay("east", "relay-east")
    east.connect("other.000001", 4)
    row = journal.row(replica_status=journal.replica_status())
    row["row"]["REPLICATION"]["channels"].reverse()
    row["row"]["REPLICATION"]["channels"][0]["channel_name"] = "EAST"
    apply(journal, east, more[0])
    journal.row(replica_status=journal.replica_status())
    return journal


@legal
def the_same_gtid_on_two_channels() -> Journal:
    journal, first, more = replica()
    second = journal.relay("second", "relay-second")
    second.connect()
    journal.row(replica_status=journal.replica_status())
    apply(journal, first, more[0])
    second.copy(more[0])
    journal.row(replica_status=journal.replica_status())
    return journal


@legal
def reset_replica() -> Journal:
    journal, relay, _ = replica()
    journal.row(replica_status=journal.replica_status())
    journal.record("channel", channel="", action="reset")
    relay.flushed = None
    journal.row(replica_status=[{"Channel_Name": "", "Retrieved_Gtid_Set": ""}])
    return journal


@legal
def reset_of_the_binary_log() -> Journal:
    journal = source()
    journal.binlog.rotate()
    journal.groups(2).row()
    journal.record("binlog_reset")
    journal.used, journal.executed, journal.binlog.gtids = Gtids(), Gtids(), Gtids()
    journal.binlog.open(1)
    journal.row()
    journal.groups(2).row()
    return journal


@legal
def gtid_purged_assigned() -> Journal:
    journal = source()
    journal.row()
    journal.record("gtid_purged", added=f"+{UUID_C}:1-50")
    journal.executed = read_gtids(f"{UUID_A}:1-3,{UUID_C}:1-50")
    journal.purged = f"{UUID_C}:1-50"
    journal.row()
    journal.binlog.gtids = journal.executed.copy()
    journal.binlog.rotate()
    journal.groups(1).row()
    return journal


@legal
def clone_replaces_the_data() -> Journal:
    journal = source()
    journal.row()
    journal.lsn = 8_000_012
    journal.executed = read_gtids(f"{UUID_C}:1-70")
    journal.binlog.gtids, journal.purged = journal.executed.copy(), f"{UUID_C}:1-70"
    journal.used = Gtids()
    journal.start(data_lineage="cloned")
    journal.binlog.open(1)
    journal.row()
    journal.groups(2).row()
    return journal


@legal
def group_replication() -> Journal:
    """View changes and other members' groups come through the applier channel, in blocks."""
    journal = Journal(group_replication_group_name=GROUP).begin()
    relay = journal.relay("group_replication_applier", "relay-gr")
    journal.row()
    relay.event("FORMAT_DESCRIPTION", 122, log_pos=0)
    for gno in (1, 1_000_001, 2):
        position = 90
        for event in Journal("b", UUID_B, 2).begin().groups(1).binlog.groups[0]:
            fields = {key: event[key] for key in ("gtid", "query", "server_id") if key in event}
            if "gtid" in fields:
                fields["gtid"] = f"{GROUP}:{gno}"
            relay.event(event["type"], event["length"], **fields | {"log_pos": position})
            position += 20
        relay.flush()
        journal.binlog.group(f"{GROUP}:{gno}", server_id=2)
    journal.binlog.group(f"{GROUP}:3", server_id=1)
    journal.row()
    return journal


@legal
def source_that_waits_for_a_semisync_replica() -> Journal:
    """rpl_semi_sync_source_timeout may be hours: what nothing overtook is still in flight."""
    journal = source()
    journal.row()
    before = str(journal.executed)
    journal.groups(4)
    for _ in range(4):
        local(journal.row())["gtid_executed"] = before
        journal.wait(30)
    journal.row()
    return journal


@legal
def lag_of_a_server_whose_sessions_are_not_counted() -> Journal:
    journal = source()
    before = str(journal.executed)
    journal.groups(400)
    local(journal.row())["gtid_executed"] = before
    return journal


@legal
def crash_loses_redo_that_was_not_flushed() -> Journal:
    journal = source()
    journal.lsn += 512_000
    row = innodb(journal.row())
    row["LSN_checkpoint"] -= 400 * 512
    journal.start(
        crashed=True, recovered={"file": journal.binlog.file, "position": journal.binlog.end}
    )
    journal.lsn -= 300 * 512
    journal.binlog.open(2)
    journal.row()
    return journal


@legal
def crash_without_a_word() -> Journal:
    """Neither a stop nor `crashed` nor a STOP event: the last groups may be gone."""
    journal = source(5)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3"
    journal.start()
    journal.executed = read_gtids(f"{UUID_A}:1-3")
    journal.used, journal.binlog.gtids = journal.executed.copy(), journal.executed.copy()
    journal.binlog.open(2)
    journal.row()
    journal.groups(2).row()
    return journal


@legal
def crash_that_tears_the_last_group() -> Journal:
    journal = source(3)
    end = journal.binlog.end
    group = journal.binlog.group()
    journal.records.pop()
    journal.executed.remove(group[0]["gtid"])
    journal.used.remove(group[0]["gtid"])
    journal.binlog.gtids.remove(group[0]["gtid"])
    journal.start(crashed=True, recovered={"file": "binlog.000001", "position": end})
    journal.binlog.open(2)
    journal.groups(2).row()
    return journal


@legal
def crash_that_leaves_nothing_of_a_new_file() -> Journal:
    """A power cut just after a rotation: the file is listed, and none of its events is there."""
    journal = source(3)
    journal.row()
    journal.binlog.rotate()
    del journal.records[-2:]
    journal.start(crashed=True, recovered={"file": "binlog.000002", "position": 4})
    journal.binlog.open(3)
    journal.groups(2).row()
    return journal


@legal
def purge_between_two_readings() -> Journal:
    journal = purging()
    journal.row(binary_logs=files(1, 2, 3), gtid_purged=f"{UUID_A}:1-3")
    return journal


@legal
def purge_behind_the_reading_of_gtid_purged() -> Journal:
    journal = purging()
    journal.record("binlog_purge", to_file="binlog.000002")
    journal.row()
    journal.purged = f"{UUID_A}:1-3"
    journal.row()
    return journal


@legal
def purge_at_a_start_before_the_head_of_the_new_file_was_read() -> Journal:
    """What has expired goes as soon as the new file is there, and the file before is not active."""
    journal = source()
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.record("binlog_purge", to_file="binlog.000002")
    journal.purged = str(journal.executed)
    journal.binlog.open(2)
    journal.row()
    journal.row()
    return journal


@legal
def commits_of_another_engine() -> Journal:
    """MyRocks ends its groups with XID and writes nothing to InnoDB's redo log."""
    journal = source()
    rows = []
    for _ in range(2):
        row = journal.row()
        row["row"]["STORAGE_ENGINES"]["RocksDB"] = {"wal_files": []}
        rows.append(innodb(row))
        journal.groups(2)
    rows[1].update(rows[0])
    return journal


@legal
def own_gtids_come_back_through_a_channel() -> Journal:
    """An old source gets its own groups from the new one, in the order of several workers."""
    journal, relay, _ = replica(0, replica_parallel_workers=4, replica_preserve_commit_order=False)
    for gno in (1, 2, 5):
        journal.binlog.group(f"{UUID_B}:{gno}")
    lost = Journal("s", UUID_B, 2).begin().groups(7).binlog.groups
    relay.copy(lost[2])
    journal.row(gtid_owned="", replica_status=journal.replica_status(Relay_Log_Pos=4))
    for group in (lost[3], lost[5]):
        relay.copy(group)
    for gno in (6, 3, 4):
        journal.binlog.group(f"{UUID_B}:{gno}")
    journal.row(
        gtid_owned="", replica_status=journal.replica_status(Retrieved_Gtid_Set=str(relay.gtids))
    )
    return journal


@legal
def incidents_of_the_source_in_a_relay_log() -> Journal:
    """Where the source has lost events its replica stops, with GTIDs and without."""
    journal, relay, more = replica()
    applied = journal.replica_status()[0]
    names = ("Relay_Log_File", "Relay_Log_Pos", "Relay_Source_Log_File", "Exec_Source_Log_Pos")
    opener, incident = more[0][0], {**more[0][1], "type": "INCIDENT"}
    del incident["query"]
    opener["transaction_length"] = opener["length"] + incident["length"]
    relay.copy([opener, incident])
    relay.event("INCIDENT", 59)
    relay.flush()
    journal.row(replica_status=journal.replica_status(**{name: applied[name] for name in names}))
    return journal


@legal
def percona_row() -> Journal:
    journal, _, _ = replica()
    row = journal.row(replica_status=journal.replica_status())
    row["row"]["REPLICATION"]["channels"][0].update(
        relay_master_log_file="binlog.000001", exec_master_log_position=157
    )
    row["row"]["LOCAL"]["future_key"] = {"x": 1}
    return journal


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_history_breaks_nothing(name: str):
    """Real servers do this; whoever is woken up by it stops listening."""
    result = audit(LEGAL[name]())
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_history_breaks_nothing_when_the_state_is_saved_between_records(name: str):
    """The same one record at a time."""
    assert [] == audit(LEGAL[name](), block_size=1).broken


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [2, 60])
def test_every_form_of_a_group_is_legal(form: str, count: int):
    """Few groups are read one by one, many in whole columns; all are consistent."""
    journal = Journal().begin()
    for _ in range(2):
        for _ in range(count):
            journal.binlog.group(form=form)
        journal.row()
    result = audit(journal)
    assert ([], ["CONSISTENT"] * 2) == (result.broken, result.verdicts)


@pytest.mark.parametrize(("retrieved", "is_broken"), [("", False), ("1-3", False), ("1-2", True)])
def test_a_start_after_a_clone_gives_up_what_the_head_of_its_relay_log_names(
    retrieved: str, is_broken: bool
):
    """Files older than the clone were still listed when the head was written; a part is wrong."""
    journal, relay, more = replica()
    journal.records = [record for record in journal.records if record["kind"] != "relay"]
    relay.open(relay.number + 1)
    given_up, relay.gtids = relay.gtids, read_gtids(f"{UUID_C}:{retrieved}" if retrieved else "")
    for group in more[:2]:
        journal.row(replica_status=journal.replica_status())
        relay.connect()
        apply(journal, relay, group)
    relay.open(relay.number + 1, previous=f"{given_up},{relay.gtids}")
    journal.row(replica_status=journal.replica_status())
    assert ["retrieved_matches_relay"] * is_broken == sorted(set(audit(journal).broken))


@pytest.mark.parametrize("seen", ["all", "not what was read", "not the files before"])
@pytest.mark.parametrize("action", ["relay_log_recovery", "reconnect"])
def test_an_applier_may_be_ahead_of_a_receiver_that_connects_by_gtid_set(action: str, seen: str):
    """The dump begins at the head of a file; what was executed had been read before."""
    journal, relay, _ = replica()
    assert relay.source is not None
    executed = relay.source[1]
    read = [record["kind"] == "relay" for record in journal.records]
    if seen == "not what was read":
        first = read.index(True)
        journal.records[first:] = [r for r in journal.records[first:] if r["kind"] != "relay"]
        journal.record("gap")
    elif seen == "not the files before":
        journal.records = [r for r in journal.records if r["kind"] != "relay"]
    else:
        journal.row(replica_status=journal.replica_status())
    journal.record("channel", channel="", action="stop_applier")
    journal.record("channel", channel="", action=action)
    previous = "" if action == "relay_log_recovery" and seen == "all" else None
    relay.open(relay.number + 1, previous=previous)
    relay.connect()
    stored = [{"Channel_name": "", "Master_log_name": "binlog.000001", "Master_log_pos": executed}]
    status = journal.replica_status(Exec_Source_Log_Pos=executed)
    journal.row(replica_status=status, slave_master_info=stored)
    broken = {"exec_source_pos_within_read", "master_info_not_ahead_of_relay"}
    assert not broken & {*audit(journal).broken}


@pytest.mark.parametrize("is_hidden", [True, False])
def test_what_a_relay_log_has_named_before_a_gap_was_read(is_hidden: bool):
    """The receiver connects further back; what it had read in the gap, nobody knows."""
    journal, relay, more = replica()
    apply(journal, relay, more[0])
    journal.row(replica_status=journal.replica_status())
    seen = len(journal.records)
    if is_hidden:
        relay.copy(more[1])
        del journal.records[seen:]
    journal.record("gap", channel="")
    if is_hidden:
        journal.binlog.group(more[1][0]["gtid"], server_id=3)
    executed = more[is_hidden][-1]["start"] + more[is_hidden][-1]["length"]
    relay.rotate()
    relay.connect(position=more[0][0]["start"])
    journal.row(replica_status=journal.replica_status(Exec_Source_Log_Pos=executed))
    checks = [check for cut in audit(journal).cuts for check in cut.checks]
    made = [one.outcome.name for one in checks if one.rule == "exec_source_pos_within_read"]
    assert made == ["HOLDS", "UNDECIDED" if is_hidden else "HOLDS"]


@pytest.mark.parametrize("rows_before", [1, 2])
@pytest.mark.parametrize("comes_there", [True, False])
def test_an_applier_goes_back_when_it_comes_to_a_connection(rows_before, comes_there):
    """It may be far behind the receiver, as with SOURCE_DELAY: a row shows that in between."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    lagging = journal.replica_status()
    journal.row(replica_status=lagging)
    relay.connect(position=4)
    relay.event("ROTATE", 46, log_pos=0, next_file="binlog.000001", next_position=157)
    for _ in range(rows_before):
        journal.row(replica_status=lagging)
    applied = {"Relay_Log_Pos": relay.end} if comes_there else {}
    journal.row(replica_status=[lagging[0] | {"Exec_Source_Log_Pos": 157} | applied])
    fallen = ["applied_coordinates_paired", "channel_positions_monotone"]
    assert audit(journal).broken == ([] if comes_there else fallen)


@pytest.mark.parametrize("by_set", [True, False, None])
def test_an_applier_goes_back_with_a_receiver_that_connects_by_gtid_set(by_set: bool | None):
    """As where relay logs are not read: only one that asks by position never goes back.

    Measured on 8.0.31: Exec_Source_Log_Pos follows the ROTATE that such a connection begins with.
    """
    journal = Journal().begin()
    change = {} if by_set is None else {"auto_position": by_set}
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C, **change)
    for executed in (6300, 6377, 6359, 6400):
        status = {
            "Channel_Name": "",
            "Source_UUID": UUID_C,
            "Source_Log_File": "binlog.000001",
            "Read_Source_Log_Pos": 6400,
            "Relay_Source_Log_File": "binlog.000001",
            "Exec_Source_Log_Pos": executed,
            "Relay_Log_File": "relay.000001",
            "Relay_Log_Pos": 7000,
        }
        row = journal.row(replica_status=[status])
        channel = {"relay_log_file": "relay.000001", "relay_log_position": 7000}
        row["row"]["REPLICATION"]["channels"] = [{"channel_name": "", **channel}]
    checks = [
        (check.outcome.value, check.reason)
        for cut in audit(journal).cuts
        for check in cut.checks
        if check.rule == "channel_positions_monotone"
    ]
    fell = ("broken", "fell") if by_set is False else ("undecided", "by_gtid_set")
    assert [*[("holds", "")] * 2, fell, ("holds", "")] == checks


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("has_relay_log", [True, False])
def test_an_applier_is_behind_a_receiver_that_was_pointed_elsewhere(
    has_relay_log: bool, is_told: bool
):
    """CHANGE REPLICATION SOURCE of the receiver alone, or another server behind the address.

    The relay log goes on: until the applier has passed what was in it, what it executes is of the
    source before, and then it goes back, or forward, to where the present one has begun.
    """
    journal, relay, _ = replica()
    journal.row(replica_status=journal.replica_status(Source_UUID=UUID_B))
    left, executed = relay.coordinates, relay.source
    assert executed is not None
    relay.connect("binlog.000001")
    if is_told:
        change = {"channel": "", "action": "change_source", "auto_position": False}
        journal.record("channel", source_uuid=UUID_C, **change)
    read = {"Source_UUID": UUID_C, "Source_Log_File": "binlog.000001", "Read_Source_Log_Pos": 157}
    applied = {"Relay_Log_File": left[0], "Relay_Log_Pos": left[1]}
    relay.flush()
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(**read, **applied, **at(executed)))
    passed = {"Relay_Log_File": relay.file, "Relay_Log_Pos": relay.end}
    for _ in range(2):
        behind = at(("binlog.000001", 157))
        journal.row(replica_status=journal.replica_status(**read, **passed, **behind))
    if not has_relay_log:
        journal.records = [one for one in journal.records if one["kind"] != "relay"]
    result = audit(journal)
    assert [] == result.broken
    rule = "exec_source_pos_within_read"
    checks = [check for cut in result.cuts for check in cut.checks if check.rule == rule]
    reasons = ["coordinates_of_former_source"] * 2
    assert reasons == [one.reason for one in checks if one.reason == reasons[0]]
    assert "" == checks[-1].reason


@pytest.mark.parametrize("opens_next", [True, False])
def test_an_applier_that_has_gone_on_in_a_file_executes_the_present_source(opens_next: bool):
    """A start passes to the next file without executing anything."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status(Source_UUID=UUID_B))
    executed, left = relay.source, relay.coordinates
    assert executed is not None
    relay.connect("binlog.000001")
    relay.flush()
    read = {"Source_UUID": UUID_C, "Source_Log_File": "binlog.000001", "Read_Source_Log_Pos": 157}
    read["Auto_Position"] = 0
    applied = {"Relay_Log_File": left[0], "Relay_Log_Pos": left[1]}
    journal.row(replica_status=journal.replica_status(**read, **applied, **at(executed)))
    if opens_next:
        relay.open(relay.number + 1)
    relay.copy(more[0])
    passed = {"Relay_Log_File": relay.file, "Relay_Log_Pos": relay.end}
    beyond = at(("binlog.000001", 158))
    journal.row(replica_status=journal.replica_status(**read, **passed, **beyond))
    journal.records = [one for one in journal.records if one["kind"] != "relay"]
    expected = [] if opens_next else ["exec_source_pos_within_read"]
    assert audit(journal).broken == expected


@pytest.mark.parametrize("by_set", [True, False])
@pytest.mark.parametrize("has_relay_log", [True, False])
@pytest.mark.parametrize("way", ["recovery", "start", "journal begins", "all was executed"])
def test_an_applier_passes_the_former_source_by_the_number_of_a_relay_file(
    way: str, has_relay_log: bool, by_set: bool
):
    """A start opens the next one, and relay log recovery goes on there: nothing was executed.

    Exec_Source_Log_Pos names the former source until something of the present one is executed.
    """
    journal, relay, more = replica()
    if way != "journal begins":
        journal.row(replica_status=journal.replica_status(Source_UUID=UUID_B))
    executed, left = relay.source, relay.coordinates
    assert executed is not None
    if way != "all was executed":
        relay.copy(more[0])
    change = {"channel": "", "action": "change_source", "auto_position": by_set}
    journal.record("channel", source_uuid=UUID_C, **change)
    read = {"Source_UUID": UUID_C, "Source_Log_File": "binlog.000001", "Read_Source_Log_Pos": 157}
    read["Auto_Position"] = int(by_set)
    applied = {"Relay_Log_File": left[0], "Relay_Log_Pos": left[1]}
    if way != "journal begins":
        journal.row(replica_status=journal.replica_status(**read, **applied, **at(executed)))
    if way != "all was executed":
        journal.record("stop", clean=way == "start")
        journal.start()
    if way in ("recovery", "journal begins"):
        journal.record("channel", channel="", action="relay_log_recovery")
    if way != "all was executed":
        relay.open(relay.number + 1)
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(**read, **at(executed)))
    relay.connect("binlog.000001")
    status = journal.replica_status(**read, **at(("binlog.000001", 4)))
    for _ in range(2):
        journal.row(replica_status=status)
    if not has_relay_log:
        journal.records = [one for one in journal.records if one["kind"] != "relay"]
    legal = audit(journal)
    assert [] == legal.broken
    said = [
        channel["executes_former"] or channel["may_execute_former"]
        for event in legal.fleet_events
        if event.kind is FleetEventKind.STATUS
        for channel in event.body["channels"]
    ]
    assert [True, True, False, False] == said[-4:]
    journal.row(replica_status=[status[0] | at(("binlog.000001", 158))])
    if not has_relay_log and not by_set:
        assert ["exec_source_pos_within_read"] == audit(journal).broken


@pytest.mark.parametrize("has_connected", [True, False])
def test_a_journal_begins_when_a_receiver_was_pointed_elsewhere(has_connected: bool):
    """What the applier executes may be of an earlier source; once it has passed that, it is not.

    Only what would be broken is left undecided: what is right is so of either source.
    """
    journal, relay, _ = replica()
    executed, read = relay.source, {"Source_UUID": UUID_C, "Auto_Position": 0}
    assert executed is not None
    applied = {"Relay_Log_File": relay.file, "Relay_Log_Pos": relay.end, **at(executed)}
    journal.record("channel", channel="", action="change_source", auto_position=False)
    if not has_connected:
        nothing = {"Source_UUID": "", "Source_Log_File": "", "Read_Source_Log_Pos": 4}
        journal.row(replica_status=journal.replica_status(**read | nothing | applied))
    relay.connect("binlog.000001")
    relay.flush()
    read |= {"Source_Log_File": "binlog.000001", "Read_Source_Log_Pos": 157}
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(**read, **applied))
    passed = journal.replica_status(**read, **at(("binlog.000001", 157)))
    for _ in range(2):
        journal.row(replica_status=passed)
    journal.records = [one for one in journal.records if one["kind"] != "relay"]
    legal = audit(journal)
    assert [] == legal.broken
    reason = "coordinates_of_former_source"
    undecided = [c.rule for cut in legal.cuts for c in cut.checks if c.reason == reason]
    within_read = "exec_source_pos_within_read"
    assert [within_read, within_read, "channel_positions_monotone"] == undecided
    journal.row(replica_status=[passed[0] | at(("binlog.000001", 158))])
    assert [within_read] == audit(journal).broken


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("sender", [3, 4])
def test_a_first_relay_log_that_one_server_has_sent_is_of_the_present_source(
    sender: int, number: int
):
    """Of a later file, or where another server has sent, the applier may be in a former one's."""
    journal, relay, _ = replica(0)
    connections = [one for one in journal.records if one.get("next_file")]
    relay.open(2)
    relay.connect()
    connections += [one for one in journal.records[-3:] if one.get("next_file")]
    for one, server_id in zip(connections, (3, sender), strict=True):
        one["server_id"] = server_id
    if number == 2:
        journal.records = [one for one in journal.records if one.get("file") != "relay.000001"]
    beyond = at(("binlog.000001", 158))
    journal.row(replica_status=journal.replica_status(Auto_Position=0, **beyond))
    is_sure = (sender, number) == (3, 1)
    assert ["exec_source_pos_within_read"] * is_sure == audit(journal).broken


def test_a_change_of_source_that_a_row_alone_shows_leaves_a_first_relay_log_doubtful():
    """The new one has sent nothing yet."""
    journal, _, _ = replica(0)
    status = {"Auto_Position": 0}
    journal.row(replica_status=journal.replica_status(Source_UUID=UUID_B, **status))
    status |= {"Source_UUID": UUID_C} | at(("binlog.000001", 158))
    journal.row(replica_status=journal.replica_status(**status))
    assert [] == audit(journal).broken


def at(executed: tuple[str, int]) -> dict[str, Any]:
    """Columns of SHOW REPLICA STATUS."""
    return {"Relay_Source_Log_File": executed[0], "Exec_Source_Log_Pos": executed[1]}


def test_an_applier_goes_back_later_than_the_receiver_that_connects_by_gtid_set():
    """With SOURCE_DELAY rows lie between the new connection and the applier's coming to it."""
    journal, relay, _ = replica()
    journal.row(replica_status=journal.replica_status())
    left, executed = relay.coordinates, relay.source
    assert executed is not None
    relay.open(relay.number + 1)
    relay.connect("binlog.000001")
    applied = {"Relay_Log_File": left[0], "Relay_Log_Pos": left[1]}
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(**applied, **at(executed)))
    journal.row(replica_status=journal.replica_status(**at(("binlog.000001", 4))))
    assert [] == audit(journal).broken


@pytest.mark.parametrize("has_passed", [False, True])
def test_an_applier_does_not_go_back_where_it_stands(has_passed: bool):
    """It has passed one new connection by GTID set, and has not come to the next one."""
    journal, relay, _ = replica()
    executed = relay.source
    assert executed is not None
    for _ in range(2):
        relay.open(relay.number + 1)
        relay.connect()
        place = relay.coordinates
        if relay.number == 2:
            passed = dict(zip(("Relay_Log_File", "Relay_Log_Pos"), place, strict=True))
            journal.row(replica_status=journal.replica_status(**passed, **at(executed)))
    stands = passed if has_passed else {}
    journal.row(replica_status=journal.replica_status(**stands, **at(("binlog.000001", 4))))
    assert ["channel_positions_monotone"] * has_passed == audit(journal).broken


@pytest.mark.parametrize("uuid", [UUID_C, UUID_A])
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_group_that_is_committed_while_a_row_is_read_may_not_be_stored_yet(is_committed, uuid):
    """slave_relay_log_info may have been read before it, and what was applied after it."""
    journal, relay, more = replica(replica_parallel_workers=0)
    stored, before = relay_info(relay), str(journal.executed)
    opener, *events = more[0]
    gtid = opener["gtid"].replace(UUID_C, uuid)
    apply(journal, relay, [opener | {"gtid": gtid}, *events])
    journal.row(
        gtid_executed_first=str(journal.executed) if is_committed else before,
        slave_relay_log_info=stored,
        replica_status=journal.replica_status(Auto_Position=1),
    )
    found = [(one.rule, one.case) for one in audit(journal).findings]
    assert found == ([("relay_info_updated_with_commit", "too_old")] if is_committed else [])


@pytest.mark.parametrize("is_same", [False, True])
def test_a_group_that_two_channels_received_may_be_committed_by_the_other(is_same):
    """Then the row of one of them does not move; by a group of its own it does."""
    journal, relay, more = replica(replica_parallel_workers=0)
    other = journal.relay("x", "relay-x")
    other.connect()
    stored = relay_info(relay)
    apply(journal, relay, more[0])
    if is_same:
        other.copy(more[0])
    else:
        apply(journal, other, more[1])
    journal.row(
        gtid_executed_first=str(journal.executed),
        slave_relay_log_info=[*stored, relay_info(other)[0] | {"Channel_name": "x"}],
        replica_status=journal.replica_status(),
    )
    found = [(one.rule, one.case) for one in audit(journal).findings]
    assert found == ([] if is_same else [("relay_info_updated_with_commit", "too_old")])


NOT_STARTED = {
    "Relay_Log_File": "relay.000001",
    "Relay_Log_Pos": 4,
    "Retrieved_Gtid_Set": "",
    "Source_Log_File": "",
    "Replica_IO_Running": "No",
}
"""What SHOW REPLICA STATUS shows between CHANGE REPLICATION SOURCE and START REPLICA."""


def names_former(journal: Journal, relay: RelayLog, **shown: object) -> None:
    """A row that names a relay log that is gone; what SHOW REPLICA STATUS shows beside it."""
    status = journal.wait(2).replica_status(**shown)
    columns = zip(("relay_log_file", "relay_log_position"), relay.flushed or (), strict=True)
    channel(journal.row(replica_status=status, requested_at=journal.ts)).update(columns)


def pointed_again() -> tuple[Journal, RelayLog, RelayLog, list[list[Record]]]:
    """CHANGE REPLICATION SOURCE, and two rows before START REPLICA; the relay logs, and groups."""
    journal, relay, more = replica()
    journal.wait(2).row(replica_status=journal.replica_status(), requested_at=journal.ts)
    journal.wait(2).record("channel", channel="", action="stop_receiver")
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    new = journal.relay()
    for _ in range(2):
        names_former(journal, relay, **NOT_STARTED)
    return journal, relay, new, more


@pytest.mark.parametrize("is_seen", [True, False])
def test_until_the_receiver_begins_a_row_names_the_relay_log_that_a_change_of_source_removed(
    is_seen: bool,
) -> None:
    """As real servers do; whether the relay log is read or not, and the new one is shorter.

    Where it is not read, that a row shows the receiver connected is known of the next one.
    """
    journal, relay, new, more = pointed_again()
    new.connect(position=more[0][0]["start"])
    apply(journal, new, more[0])
    assert (new.flushed or ()) < (relay.flushed or ())
    for back in (0, 0, 300):
        row = journal.wait(2).row(replica_status=journal.replica_status(), requested_at=journal.ts)
        channel(row)["relay_log_position"] -= back
    journal.groups(1)
    if not is_seen:
        journal.records = [one for one in journal.records if one["kind"] != "relay"]
    result = audit(journal)
    assert "channel_positions_monotone" in result.broken
    assert {finding.collection_id for finding in result.findings} == {"c6"}
    rows = [cut for cut in result.cuts if cut.scope == "channel"]
    rule = "relay_position_on_written_boundary"
    reasons = [{check.rule: check.reason for check in cut.undecided}.get(rule) for cut in rows]
    seen = [None, "relay_log_of_before", "relay_log_of_before", None, None, None]
    assert reasons == (seen if is_seen else ["no_relay"] * 6)
    assert ObservationCode.LOG_STATUS_EARLY not in result.codes


def test_what_a_waiting_row_may_name_is_saved_with_it() -> None:
    """It waits for the binary log."""
    journal, relay, _, _ = pointed_again()
    names_former(journal, relay, **NOT_STARTED)
    local(journal.records[-1])["binary_log_position"] += 100
    (block,) = blocks_from_lines(journal.lines())
    before = InstanceAudit(block.instance_id)
    before.absorb(block)
    after = InstanceAudit.from_bytes(before.to_bytes(), block.instance_id)
    for one in (before, after):
        [waiting] = one.waiting
        assert waiting.state is not None
        assert waiting.state.channels[""].may_name_former


def test_behind_a_gap_such_a_row_is_no_bound_either() -> None:
    """What was configured before it still holds."""
    journal, relay, new, more = pointed_again()
    journal.record("gap")
    names_former(journal, relay, **NOT_STARTED)
    new.connect(position=more[0][0]["start"])
    apply(journal, new, more[0])
    assert (new.flushed or ()) < (relay.flushed or ())
    journal.wait(2).row(replica_status=journal.replica_status(), requested_at=journal.ts)
    assert audit(journal).broken == []
    assert audit(one for one in journal.records if one["kind"] != "relay").broken == []


@pytest.mark.parametrize("is_seen", [True, False])
@pytest.mark.parametrize(
    "receiver",
    [
        {"Replica_IO_Running": "Connecting", "Last_IO_Errno": 2003},
        {"Replica_IO_Running": "No", "Last_IO_Errno": 13117},
        {"Replica_IO_Running": "Yes"},
    ],
)
def test_until_the_receiver_has_received_something_a_start_changes_nothing(
    receiver: Record, is_seen: bool
) -> None:
    """It looks for the source, has failed, or nothing of the source has arrived yet."""
    journal, relay, new, more = pointed_again()
    journal.record("channel", channel="", action="start_receiver")
    names_former(journal, relay, **NOT_STARTED | receiver)
    if receiver["Replica_IO_Running"] == "No":
        journal.record("channel", channel="", action="stop_receiver")
        names_former(journal, relay, **NOT_STARTED | receiver)
    new.connect(position=more[0][0]["start"])
    apply(journal, new, more[0])
    journal.wait(2).row(replica_status=journal.replica_status(), requested_at=journal.ts)
    journal.wait(2).record("heartbeat")
    if not is_seen:
        journal.records = [one for one in journal.records if one["kind"] != "relay"]
    assert {"receiver_not_failed"} >= set(audit(journal).broken)


@pytest.mark.parametrize("begins", ["start", "reset"])
def test_once_the_relay_log_begins_in_another_way_a_row_names_that_of_now(begins: str) -> None:
    """A start of the server flushes the coordinates of a new file; RESET REPLICA leaves none."""
    journal, relay, new, _ = pointed_again()
    if begins == "start":
        journal.start()
        new.open(2)
    else:
        journal.record("channel", channel="", action="reset")
        journal.relay()
    names_former(journal, relay, **NOT_STARTED)
    journal.wait(2).record("heartbeat")
    assert audit(journal).broken == ["relay_position_on_written_boundary"]


@pytest.mark.parametrize("gap", [{}, {"channel": ""}, None])
def test_a_change_of_source_may_be_among_records_that_are_missing(gap: Record | None) -> None:
    """Those of a gap, or all before the first record; a row that names an event's end holds."""
    journal, relay, more = replica()
    if gap is None:
        journal = Journal("a", UUID_B, 2).begin()
    else:
        journal.wait(2).row(replica_status=journal.replica_status(), requested_at=journal.ts)
        journal.record("gap", **gap)
    new = journal.relay()
    names_former(journal, relay, **NOT_STARTED)
    new.flush()
    journal.wait(2).row(requested_at=journal.ts)
    new.connect(position=more[0][0]["start"])
    channel(journal.wait(2).row(requested_at=journal.ts))["relay_log_position"] += 100
    journal.wait(2).record("heartbeat")
    result = audit(journal)
    rule = "relay_position_on_written_boundary"
    rows = [cut for cut in result.cuts if cut.scope == "channel"]
    reasons = [{check.rule: check.reason for check in cut.undecided}.get(rule) for cut in rows]
    assert reasons[-3:] == ["relay_log_of_before", None, None]
    assert [f"c{len(rows)}"] == [one.collection_id for one in result.findings if one.rule == rule]


@pytest.mark.parametrize("without", ["gtid_purged", "LOCAL", "log_bin", ""])
def test_what_was_executed_while_the_log_was_off_is_purged(without: str):
    """Also where one thing that shows it was not read: what is missing accuses nobody."""
    journal = binlog_switched_off_and_on()
    for record in journal.records:
        if record["kind"] == "start":
            record["variables"].pop(without, None)
        elif record["kind"] == "log_status":
            record.pop(without, None)
            record["row"].pop(without, None)
    result = audit(journal)
    assert set(result.broken) == ({"log_status_row_complete"} if without == "LOCAL" else set())
    if without == "gtid_purged":
        assert result.verdicts[-1] == "UNDECIDED"
        assert "gtid_purged was not read" in result.undecided()["executed_within_logged"]
