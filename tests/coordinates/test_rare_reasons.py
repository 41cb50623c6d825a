"""Reasons that no rule's case has: for each a history in which something is undecided for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.values.binlog import WRAP
from tallystick.coordinates.values.errors import StateDamagedError
from tests.support.evidence_reduced import reasons_in
from tests.support.journals import UUID_A, UUID_C, Journal, audit
from tests.support.rule_cases import all_cases, files, innodb, local, purging, replica, source
from tests.support.rule_cases_of_gtid_persistence import persisted
from tests.support.rule_cases_of_images import image, positions

Build = Callable[[], Journal]
HISTORIES: dict[str, Build] = {}


def history(build: Build) -> Build:
    """A history that is named after its reason, and maybe after two underscores."""
    HISTORIES[build.__name__] = build
    return build


def with_threads(**status: object) -> Journal:
    """A replica whose threads report something."""
    journal, _, _ = replica()
    journal.row(replica_status=journal.replica_status(**status))
    return journal


def changed_image(**changes: object) -> Journal:
    """A backup under backup locks whose image says something else."""
    journal = all_cases()["backup_coordinates_match_data__inside"].build(breaks=False)
    [made] = [r for r in journal.records if r["kind"] == "backup" and r["step"] == "image"]
    made |= changes
    return journal


def answered(**answer: object) -> Journal:
    """A source whose answer is no row."""
    journal = source()
    journal.record("log_status", collection_id="c1", **answer)
    return journal


def stopped_and_started(*, clean: bool, crashed: bool | None) -> Journal:
    """A start that finds GTIDs neither in the table nor in undo logs."""
    journal = persisted()
    journal.record("stop", clean=clean)
    said = {} if crashed is None else {"crashed": crashed}
    at = {"file": "binlog.000001", "position": journal.binlog.end}
    journal.start(**said, recovered=at, gtid_executed_table=f"{UUID_A}:1-2")
    journal.binlog.open(2)
    journal.row()
    return journal


@history
def clone_dropped_data() -> Journal:
    journal = all_cases()["failed_clone_not_resumed"].build(breaks=True)
    del journal.records[-1]
    journal.row()
    return journal


def failed_clone(stage: str, state: str) -> Journal:
    """A clone over the own data failed after a stage came to some state."""
    journal = source()
    status = {"STATE": "Failed", "DESTINATION": "LOCAL INSTANCE", "ERROR_NO": 3862}
    progress = [{"STAGE": stage, "STATE": state}]
    journal.row(clone_status=status, clone_progress=progress)
    return journal


@history
def clone_may_have_dropped_data() -> Journal:
    return failed_clone("DROP DATA", "Completed")


@history
def clone_may_have_dropped_data__of_another_stage() -> Journal:
    return failed_clone("FILE COPY", "Not Started")


@history
def applier_failing() -> Journal:
    """It reports an error and tries again."""
    return with_threads(Last_SQL_Errno=1205, Last_SQL_Error="Lock wait timeout exceeded")


@history
def applier_interrupted() -> Journal:
    """A deadlock stopped it: the same statements may well pass."""
    return with_threads(Replica_SQL_Running="No", Last_SQL_Errno=1213, Last_SQL_Error="Deadlock")


@history
def receiver_interrupted() -> Journal:
    """Somebody killed the query."""
    return with_threads(Replica_IO_Running="No", Last_IO_Errno=1317, Last_IO_Error="interrupted")


@history
def log_status_failed() -> Journal:
    """A lock could not be taken."""
    return answered(error={"code": 3722, "column": "LOCAL", "message": "memory"})


@history
def log_status_missing() -> Journal:
    """The query timed out."""
    return answered(error={"timed_out": True})


@history
def offsets_doubtful() -> Journal:
    """An event begins inside the one before it: no offset after it can be believed."""
    journal = source()
    journal.binlog.end -= 10
    journal.groups(2).row()
    return journal


@history
def other_engines() -> Journal:
    """A group was committed and InnoDB's log stayed: it may be another engine's."""
    journal = source()
    first = innodb(journal.row())["LSN"]
    row = journal.groups(1).row()
    innodb(row)["LSN"] = first
    row["row"]["STORAGE_ENGINES"]["RocksDB"] = {}
    return journal


@history
def redelivered_late() -> Journal:
    """An event comes that a file which was left does not have there."""
    journal = source()
    late = journal.records[-2]
    journal.binlog.rotate()
    fields = {key: late[key] for key in ("file", "length", "type")}
    journal.record("binlog", **fields, start=late["start"] + 1)
    return journal


@history
def image_other_files() -> Journal:
    """The image names another log's file, as a copy of somebody else's server does."""
    return image(source(), binlog_file="other.000001")


def crashed() -> Journal:
    """The data may have a group that a crash took out of the log."""
    journal = source()
    journal.row()
    end = {"file": journal.binlog.file, "position": journal.binlog.end}
    journal.groups(1)
    journal.start(crashed=True, recovered=end)
    journal.binlog.open(2, f"{UUID_A}:1-3")
    return journal


@history
def backup_purged_unknown() -> Journal:
    """No row of this start shows what the server has executed."""
    return image(crashed(), coordinates_from="source_status", gtid_executed=f"{UUID_A}:1-4")


@history
def image_purged_unknown() -> Journal:
    """No row of this start shows what the server has executed."""
    return image(crashed(), gtid_executed=f"{UUID_A}:1-4")


@history
def image_no_master_info() -> Journal:
    """The image of a replica has one of the two repositories."""
    journal, relay, _ = replica()
    stored = positions(relay.coordinates, relay.coordinates)
    return image(journal, channels=[{**stored, "slave_master_info": None}])


@history
def image_no_replication_state() -> Journal:
    """The image of a replica is like one of a source."""
    journal, _, _ = replica()
    return image(journal)


@history
def image_no_replication_state__behind_a_gap() -> Journal:
    """A channel may be gone that was there before the gap, so that its image may lack it."""
    journal, _, _ = replica()
    journal.record("gap")
    return image(journal, channels=[])


@history
def relay_missed() -> Journal:
    """Part of a channel's relay log is missing before the row."""
    journal, _, _ = replica()
    journal.record("gap", channel="")
    journal.row(replica_status=journal.replica_status())
    return journal


@history
def gtid_table_file_not_later() -> Journal:
    """A row names no file of the log that the previous one named."""
    journal = purging()
    journal.row(gtid_executed_table="")
    asked_at = journal.ts
    journal.wait(1)
    local(journal.row(requested_at=asked_at, gtid_executed_table=""))["binary_log_file"] = (
        "other.000001"
    )
    return journal


@history
def no_reset_seen() -> Journal:
    """The row names no relay log, though one is written."""
    journal, _, _ = replica()
    [channel] = journal.row(replica_status=journal.replica_status())["row"]["REPLICATION"][
        "channels"
    ]
    channel |= {"relay_log_file": "", "relay_log_position": 0}
    return journal


@history
def flushed_is_wrong() -> Journal:
    """The applier is after a flushed coordinate that is inside an event."""
    journal, _, _ = replica()
    [channel] = journal.row(replica_status=journal.replica_status())["row"]["REPLICATION"][
        "channels"
    ]
    channel["relay_log_position"] -= 1
    return journal


@history
def not_logged_yet() -> Journal:
    """A statement is applied, which the replica does not log, and its GTID may still come."""
    journal, relay, _ = replica(log_replica_updates="OFF")
    origin = Journal("s", UUID_C, 3).begin().groups(3)
    relay.copy(origin.binlog.group(form="ddl"))
    journal.row(replica_status=journal.replica_status())
    return journal


@history
def backup_data_unreadable() -> Journal:
    """What the backup says of its GTIDs is no GTID set."""
    return changed_image(gtid_executed="?")


@history
def backup_channel_wrapped() -> Journal:
    """An executed position beyond 4 GiB, where the relay log has the rest of a division."""
    name = "backup_replica_coordinates_match_data"
    journal = all_cases()[name].build(breaks=False)
    [made] = [r for r in journal.records if r["kind"] == "backup" and r["step"] == "image"]
    made["channels"][0]["exec_source_log_pos"] += WRAP
    return journal


def purged_and_listed(first: int, *, is_later: bool = True) -> Journal:
    """The list of binary logs after a purge to the second of three files."""
    journal = purging()
    ts = journal.record("binlog_purge", to_file="binlog.000002")["ts"]
    listed = {"binary_logs": files(*range(first, 4)), "gtid_purged": ""}
    row = journal.row(**listed)
    row["requested_at"] = row["received_at"] = ts + is_later
    return journal


@history
def purge_in_doubt() -> Journal:
    return purged_and_listed(1)


@history
def stop_in_doubt() -> Journal:
    return stopped_and_started(clean=True, crashed=True)


@history
def stop_in_doubt__crash() -> Journal:
    return stopped_and_started(clean=False, crashed=False)


@pytest.mark.parametrize("code", HISTORIES)
def test_a_history_leaves_something_undecided_for_it(code: str) -> None:
    """The reason is named, and nothing else is found in what is legal."""
    assert code.partition("__")[0] in reasons_in(HISTORIES[code]().records)


def test_a_clone_that_failed_before_it_dropped_data_has_left_them() -> None:
    records = failed_clone("DROP DATA", "Not Started").records
    assert "clone_may_have_dropped_data" not in reasons_in(records)


@pytest.mark.parametrize("code", HISTORIES)
def test_of_rules_that_are_disabled_nothing_is_undecided(code: str) -> None:
    result = audit(HISTORIES[code](), disabled=frozenset(RULES))
    assert not [one.rules for one in result.observations if one.rules]


def test_an_event_that_a_file_does_not_have_there_leaves_it_undecided() -> None:
    """It was dropped: what it would have broken is not known."""
    [found] = audit(redelivered_late()).observations
    assert (found.reason, found.is_undecided) == ("redelivered_late", True)


def test_an_empty_answer_is_undecided_where_its_rule_is_not_judged() -> None:
    """An answer without row and error is broken by itself, unless nobody asks about it."""
    journal = answered()
    [found] = audit(journal).cuts
    assert (found.verdict, found.reason) == ("INCONSISTENT", "")
    [left] = audit(journal, disabled=frozenset({"snapshot_never_silently_empty"})).cuts
    assert (left.verdict, left.reason) == ("UNDECIDED", "log_status_empty")


def test_nothing_is_judged_while_the_servers_settings_are_lost() -> None:
    """A state was damaged, the settings with it: only the next start has them again."""
    journal = source()
    journal.row()
    [block] = blocks_from_lines(journal.lines())
    audit_anew = InstanceAudit("a")
    audit_anew.lose_state(b"", StateDamagedError("damaged"), block)
    assert [] == audit_anew.absorb(block.take(1, len(block) - 1)).findings
    output = audit_anew.absorb(block.take(len(block) - 1, len(block)))
    output.cuts += audit_anew.finish().cuts
    assert [("UNDECIDED", "settings_lost")] == [(c.verdict, c.reason) for c in output.cuts]


@pytest.mark.parametrize(("clean", "crashed"), [(True, False), (False, True), (True, None)])
def test_a_stop_and_a_start_that_agree_are_not_doubted(clean: bool, crashed: bool | None) -> None:
    """A start may leave it to the stop before it, too."""
    journal = stopped_and_started(clean=clean, crashed=crashed)
    assert "stop_in_doubt" not in reasons_in(journal.records)
    assert not [seen for seen in audit(journal).observations if seen.is_undecided]


@pytest.mark.parametrize(("first", "is_later"), [(2, True), (1, False)])
def test_a_list_of_before_a_purge_is_not_doubted(first: int, is_later: bool) -> None:
    """Nor one that begins where the purge went."""
    records = purged_and_listed(first, is_later=is_later).records
    assert "purge_in_doubt" not in reasons_in(records)


def test_a_purge_in_doubt_is_named_by_the_file_that_is_listed_and_the_one_it_left() -> None:
    seen = [one for one in audit(purge_in_doubt()).observations if one.reason == "purge_in_doubt"]
    assert [one.data for one in seen] == [{"listed": "binlog.000001", "file": "binlog.000002"}]


def test_a_stop_that_may_have_been_a_crash_promises_nothing() -> None:
    """By the stop record GTIDs may wait in undo logs that nobody reports."""
    journal = persisted()
    journal.record("gtid_persister", step="commit", trx_no=3, gtid=f"{UUID_A}:3")
    journal.record("stop", clean=False)
    at = {"file": "binlog.000001", "position": journal.binlog.end}
    journal.start(crashed=False, recovered=at, gtid_executed_table=f"{UUID_A}:1-2")
    assert audit(journal).broken == []
