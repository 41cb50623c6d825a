"""Backups in the audit: what is missing is UNDECIDED, and state between blocks loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.logs.binlog_reader import EMPTY_INTERVALS_MAX
from tallystick.coordinates.results import ObservationCode
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.coordinates.values.binlog import WRAP
from tests.support import rule_cases_of_backup_locks as backups
from tests.support.journals import UUID_A, UUID_B, UUID_C, Gtids, Journal, audit, read_gtids
from tests.support.rule_cases import CASES, apply, replica, source
from tests.support.rule_cases_of_channels import status_before_end

OF_BACKUPS = [name for name, case in CASES.items() if case.build.__module__ == backups.__name__]


def without_gtids() -> Journal:
    journal = source()
    return backups.image(journal, gtid_executed=None)


def unreadable_gtids() -> Journal:
    return backups.image(source(), gtid_executed="no set")


def of_an_old_place() -> Journal:
    return backups.image(source(300), binlog_position=457)


def of_another_file() -> Journal:
    return backups.image(source(), binlog_file="other.000001")


def of_an_unknown_lock() -> Journal:
    journal = source(have_backup_safe_binlog_info=True)
    return backups.image(journal, coordinates_from="innodb_header")


def of_a_log_that_was_reset() -> Journal:
    journal = backups.lock(source(have_backup_safe_binlog_info=True), "tables")
    journal.record("binlog_reset")
    journal.binlog.gtids = Gtids()
    journal.used = Gtids()
    journal.binlog.open(1, "")
    backups.unlock(journal.groups(1), "tables")
    return backups.image(journal, coordinates_from="innodb_header")


def of_an_unseen_channel() -> Journal:
    journal, _, _ = replica()
    position = {"exec_source_log_file": "binlog.000001", "exec_source_log_pos": 157}
    channels = [{"channel": "other", **position}]
    gtids = f"{UUID_C}:1-3"
    return backups.image(journal, gtid_executed=gtids, channels=channels)


def of_a_name_of_before() -> Journal:
    """The source's files had the name of the replica's own before they were renamed."""
    return backups.image_of_files("binlog.000001", "binlog.000001", "source.000001")


def of_a_name_that_nobody_has() -> Journal:
    return backups.image_of_files("other.000001", "source.000001")


def of_a_former_source() -> Journal:
    """Its files had the name of the replica's own, and may still be what is executed."""
    journal = backups.image_of_files("binlog.000001", "source.000001")
    change = {"kind": "channel", "instance": "a", "channel": "", "action": "change_source"}
    at = next(n for n, one in enumerate(journal.records) if one["kind"] == "relay")
    journal.records.insert(at, {**change, "source_uuid": UUID_A})
    return journal


def of_a_file_beyond_4_gib() -> Journal:
    journal = backups.replica_image(data=3, position=3, **backups.SERIAL)
    [channel] = journal.records[-2]["channels"]
    channel["exec_source_log_pos"] += WRAP
    return journal


def of_groups_that_only_a_head_lists() -> Journal:
    """Whether they changed anything nobody has seen."""
    journal = Journal()
    journal.start()
    journal.executed = read_gtids(f"{UUID_A}:1-9")
    journal.used, journal.binlog.gtids = journal.executed.copy(), journal.executed.copy()
    journal.binlog.open(5)
    journal.groups(2)
    return backups.image(journal, gtid_executed=f"{UUID_A}:1-4:6-11")


def of_empty_groups_that_are_too_many() -> Journal:
    """As where a filter leaves nothing of every other group."""
    journal = source()
    for _ in range(EMPTY_INTERVALS_MAX + 1):
        journal.groups(1).groups(1, "empty")
    held = f"{UUID_A}:1-4:6-{2 * EMPTY_INTERVALS_MAX + 5}"
    return backups.image(journal, gtid_executed=held)


def of_a_received_group_without_changes() -> Journal:
    """The relay log shows as well as the binary log that nothing is missing."""
    origin = Journal("s", UUID_C, 3).begin().groups(2).groups(1, "empty")
    journal, relay, _ = replica(2, log_replica_updates=False, **backups.SERIAL)
    relay.copy(origin.binlog.groups[2])
    executed = origin.binlog.groups[2][-1]["log_pos"]
    channel = {"channel": "", "exec_source_log_file": "binlog.000001"}
    return backups.image(journal, channels=[{**channel, "exec_source_log_pos": executed}])


def of_a_channel_with_filters() -> Journal:
    """What it left out of a group that this server does not log is not known."""
    journal, relay, waiting = replica(2, log_replica_updates=False, **backups.SERIAL)
    [configured] = [record for record in journal.records if record["kind"] == "channel"]
    configured["filtered"] = True
    relay.copy(waiting[0])
    executed = waiting[0][-1]["log_pos"]
    channel = {"channel": "", "exec_source_log_file": "binlog.000001"}
    channels = [{**channel, "exec_source_log_pos": executed}]
    return backups.image(journal, channels=channels)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (of_groups_that_only_a_head_lists, "whether these changed anything is not known"),
        (of_empty_groups_that_are_too_many, "whether these changed anything is not known"),
        (of_a_channel_with_filters, "whether these changed anything is not known"),
        (of_a_file_beyond_4_gib, "names positions modulo 2^32"),
        (without_gtids, "the GTIDs of the data up to"),
        (unreadable_gtids, "the GTIDs of the data cannot be read"),
        (of_an_old_place, "older than the events remembered"),
        (of_another_file, "does not show the file of other.000001"),
        (of_an_unknown_lock, "where the table lock was taken is not known"),
        (of_a_log_that_was_reset, "where the table lock was taken is not known"),
        (of_a_name_of_before, "binlog.000001:457 is in none of the source's files"),
        (of_a_name_that_nobody_has, "other.000001:457 is in none of the source's files"),
        (of_a_former_source, "binlog.000001:457 is in none of the source's files"),
        (of_an_unseen_channel, "does not show what channel 'other' received"),
    ],
)
def test_a_backup_that_cannot_be_judged_is_undecided(
    build: Callable[[], Journal], reason: str
) -> None:
    """No finding, and an observation that says why; the fleet is not called consistent by it."""
    result = audit(build())
    assert [] == result.findings
    reported = [o for o in result.observations if o.code is ObservationCode.BACKUP_UNDECIDED]
    assert [True for one in reported if reason in observation_text(one)]
    assert all(one.is_undecided for one in reported)


@pytest.mark.parametrize(
    ("build", "logged"),
    [
        (lambda: backups.image(source(), gtid_executed=f"{UUID_A}:1-2"), f"{UUID_A}:1-3"),
        (lambda: backups.image(source(), binlog_file="other.000001"), None),
        (of_an_old_place, None),
    ],
)
def test_what_was_logged_at_an_image_is_told_to_the_fleet(
    build: Callable[[], Journal], logged: str | None
) -> None:
    """A server that is restored from it may have groups that were committing."""
    told = [one.body for one in audit(build()).fleet_events if one.kind is FleetEventKind.BACKUP]
    assert [one["logged"] for one in told] == [logged]


@pytest.mark.parametrize("name", OF_BACKUPS)
def test_state_that_is_written_and_read_at_every_record_finds_the_same(name: str) -> None:
    """A lock, a session or a half-read group is in the state bytes."""
    journal = CASES[name].build(breaks=True)
    expected = [(f.rule, f.at) for f in audit(journal).findings]
    found = []
    present = InstanceAudit(journal.instance)
    for block in blocks_from_lines(map(json.dumps, journal.records), block_size=1):
        present = InstanceAudit.from_bytes(present.to_bytes())
        found += [(f.rule, f.at) for f in present.absorb(block).findings]
    present = InstanceAudit.from_bytes(present.to_bytes())
    found += [(f.rule, f.at) for f in present.finish().findings]
    assert expected == found


def test_a_channel_that_has_received_nothing_anew_leaves_its_row_undecided() -> None:
    """Behind a relay log recovery the relay log shows no position of the source yet."""
    journal, _, _ = replica()
    journal.record("channel", channel="", action="relay_log_recovery")
    status = journal.replica_status(Read_Source_Log_Pos=157, Exec_Source_Log_Pos=157)
    stored = [{"Channel_name": "", "Master_log_name": "binlog.000001", "Master_log_pos": 457}]
    journal.row(replica_status=status, slave_master_info=stored)
    result = audit(journal)
    assert "master_info_not_ahead_of_relay" not in result.broken


@pytest.mark.parametrize("is_started", [False, True])
def test_a_server_whose_start_was_not_seen_may_be_backup_safe(is_started: bool) -> None:
    """Also where another variable of it was: the header's coordinates may suffice."""
    journal = Journal()
    if is_started:
        journal.start()
    journal.record("variables", variables={"gtid_mode": "ON"})
    journal.record("backup", step="begin", backup_id="b1", **backups.SESSION)
    backups.lock(journal, "tables")
    backups.image(journal, coordinates_from="innodb_header")
    broken = audit(journal).broken
    assert ("backup_lock_steps_complete" in broken) is is_started


def test_a_received_group_without_changes_is_not_missing() -> None:
    """Also where the replica does not log what it applies."""
    result = audit(of_a_received_group_without_changes())
    assert [] == result.findings
    assert [] == result.observations


@pytest.mark.parametrize("unread", ["Exec_Source_Log_Pos", "Read_Source_Log_Pos"])
def test_a_row_that_does_not_name_a_position_shows_no_move_under_the_lock(unread: str) -> None:
    """What one row lacks and the next one has did not change between them."""
    journal, _, _ = replica()
    backups.lock(journal, "binlog")
    for changes in ({unread: None}, {}, {unread: None}):
        status = journal.replica_status(**changes)
        journal.row(replica_status=status, requested_at=journal.ts)
    assert audit(journal).findings == []


@pytest.mark.parametrize("is_known", [True, False])
def test_what_was_executed_before_the_lock_is_not_held_too_early(is_known: bool) -> None:
    """It came another way: the applier will pass over it when it comes to it."""
    journal, relay, more = replica(**backups.SERIAL)
    at = {"exec_source_log_file": "binlog.000001", "exec_source_log_pos": relay.source[1]}
    apply(journal, relay, more[0])
    if is_known:
        journal.row()
    backups.unlock(backups.lock(journal, "tables"), "tables")
    backups.image(journal, channels=[{"channel": "", **at}])
    rules = [finding.rule for finding in audit(journal).findings]
    assert rules == ([] if is_known else ["backup_replica_coordinates_match_data"])


@pytest.mark.parametrize(
    ("locks", "is_found"),
    [
        (("tables", "binlog"), False),
        (("tables", "binlog", "tables"), False),  # LOCK TABLES FOR BACKUP again does nothing
        (("binlog", "instance"), False),
        (("binlog", "tables"), True),
    ],
)
def test_only_a_table_lock_that_is_taken_under_the_binlog_lock_is_out_of_order(locks, is_found):
    found = [one.case for one in audit(backups.lock(source(), *locks)).findings]
    assert found == ["table_lock_second"] * is_found


def found_in(journal: Journal) -> list[str]:
    """Cases of what is found."""
    return [finding.case for finding in audit(journal).findings]


def said_of(journal: Journal) -> set[str]:
    """Why the backup is undecided."""
    noted = audit(journal).observations
    return {one.reason for one in noted if one.code is ObservationCode.BACKUP_UNDECIDED}


def with_channel(journal: Journal, file: str, position: int | None, **told: object) -> Journal:
    """The image of a replica that is at these coordinates of its source."""
    channel = {"exec_source_log_file": file, "exec_source_log_pos": position}
    return backups.image(journal, channels=[{"channel": "", **channel}], **told)


STATUS, LOG_STATUS = "source_status", "log_status"
UNSTOPPED = {"backup_not_stopped"}


@pytest.mark.parametrize(
    ("locks", "read_from", "grows", "missing", "reasons"),
    [
        (["global_read"], STATUS, True, [], set()),
        (["instance", "global_read"], STATUS, True, [], set()),
        (["global_read"], "innodb_header", True, [], set()),
        (["instance"], STATUS, True, [], UNSTOPPED),
        (["instance"], STATUS, False, [], set()),
        (["instance"], LOG_STATUS, True, [], set()),
        (["tables"], LOG_STATUS, True, [], set()),
        ([], LOG_STATUS, True, [], UNSTOPPED),
        ([], LOG_STATUS, False, [], set()),
        (["tables"], STATUS, False, ["LOCK BINLOG FOR BACKUP"], set()),
        (["binlog"], STATUS, False, ["LOCK TABLES FOR BACKUP"], set()),
        ([], STATUS, False, ["LOCK TABLES FOR BACKUP", "LOCK BINLOG FOR BACKUP"], set()),
    ],
)
def test_which_locks_coordinates_need(
    locks: list[str], read_from: str, grows: bool, missing: list[str], reasons: set[str]
) -> None:
    """MySQL 8.0 has no LOCK BINLOG FOR BACKUP: what is logged meanwhile leaves it undecided."""
    journal = source()
    journal.record("backup", step="begin", backup_id="b1", **backups.SESSION)
    backups.lock(journal.groups(int(grows)), *locks)
    backups.unlock(journal, *locks[::-1])
    backups.image(journal, coordinates_from=read_from)
    found = [one.data["missing"] for one in audit(journal).findings]
    assert (found, said_of(journal)) == ([missing] * bool(missing), reasons)
    disabled = audit(journal, disabled=frozenset({"backup_lock_steps_complete"}))
    assert (disabled.findings, disabled.observations) == ([], [])


@pytest.mark.parametrize("is_from_locks", [True, False])
def test_a_restored_image_is_none_of_the_backup_that_goes_on(is_from_locks: bool) -> None:
    """It was taken on another server, whose backups may have the same names."""
    journal = source()
    journal.record("backup", step="begin", backup_id="b1", **backups.SESSION)
    of_image = {"gtid_executed": "", "binlog_file": "binlog.000007", "binlog_position": 200}
    of_locks = {"coordinates_from": "source_status"} if is_from_locks else {}
    recovery = {"backup_id": "b1", "peer": "s"}
    journal.record("backup", step="restore", **recovery, **of_image, **of_locks)
    start = {"from_file": "binlog.000007", "from_position": 200}
    journal.record("backup", step="replay", **recovery, **start)
    assert (found_in(journal), said_of(journal)) == ([], set())


@pytest.mark.parametrize("lock", ["instance", "tables"])
@pytest.mark.parametrize(
    ("is_late", "is_held_again"), [(True, False), (True, True), (False, False)]
)
def test_coordinates_of_log_status_are_read_while_the_lock_is_held(
    lock: str, is_late: bool, is_held_again: bool
) -> None:
    """A session that is gone has lost it; the backup may be reported when it is released."""
    journal = source()
    journal.record("backup", step="begin", backup_id="b1", **backups.SESSION)
    backups.unlock(backups.lock(journal, lock), lock)
    read = {"binlog_position": journal.binlog.end, "gtid_executed": str(journal.used)}
    if is_held_again:
        backups.lock(journal, lock)
    journal.groups(1)
    if is_held_again:
        backups.unlock(journal, lock)
    backups.image(journal, coordinates_from=LOG_STATUS, **({} if is_late else read))
    expected = UNSTOPPED if is_late and not is_held_again else set()
    assert (found_in(journal), said_of(journal)) == ([], expected)


def test_only_the_table_lock_has_to_outlive_the_binlog_lock() -> None:
    """The instance lock keeps DDL out, not writes: it may be released at any time."""
    journal = source()
    backups.lock(journal, "instance", "binlog")
    backups.unlock(journal, "instance", "binlog")
    assert found_in(journal) == []


@pytest.mark.parametrize(
    ("locks", "is_logged", "reasons"),
    [
        (["instance"], True, set()),
        (["instance"], False, UNSTOPPED),
        (["global_read"], False, set()),
    ],
)
def test_a_position_on_the_source_is_none_of_log_status(
    locks: list[str], is_logged: bool, reasons: set[str]
) -> None:
    """Where the server logs nothing of it, nobody sees whether the applier stood still."""
    journal, relay, _ = replica(2, log_replica_updates=is_logged, **backups.SERIAL)
    journal.record("backup", step="begin", backup_id="b1", **backups.SESSION)
    backups.unlock(backups.lock(journal, *locks), *locks)
    assert relay.source is not None
    held = f"{UUID_C}:1-2"
    with_channel(journal, *relay.source, coordinates_from=LOG_STATUS, gtid_executed=held)
    assert (found_in(journal), said_of(journal)) == ([], reasons)


@pytest.mark.parametrize(
    ("read_from", "settings", "found", "reasons"),
    [
        (LOG_STATUS, {"max_connections": 1}, [], {"backup_may_be_committing"}),
        (LOG_STATUS, {}, [], {"backup_may_be_committing"}),
        (LOG_STATUS, {"commit_lag_max": 1}, ["data_lack_earlier"], set()),
        (STATUS, {}, ["data_lack_earlier"], set()),
    ],
)
def test_the_set_of_log_status_may_lack_groups_that_are_committing(
    read_from: str, settings: dict[str, int], found: list[str], reasons: set[str]
) -> None:
    """The row names the end of the binary log, which is ahead of commits."""
    journal = source(4, replica_parallel_workers=1, **settings)
    backups.image(journal, coordinates_from=read_from, gtid_executed=f"{UUID_A}:1-2")
    assert (found_in(journal), said_of(journal)) == (found, reasons)


@pytest.mark.parametrize(("position", "reasons"), [(None, {"backup_channel_unseen"}), (157, set())])
def test_a_channel_without_a_position_is_undecided(position: int | None, reasons: set[str]) -> None:
    """Where the data hold what was received is not said."""
    journal, _, _ = replica(0, **backups.SERIAL)
    journal.relays[""].connect()
    assert (found_in(with_channel(journal, "binlog.000001", position)), said_of(journal)) == (
        [],
        reasons,
    )


@pytest.mark.parametrize("is_other", [True, False])
def test_what_several_channels_brought_may_be_executed_before_one_comes_to_it(
    is_other: bool,
) -> None:
    """Whichever of the others it was."""
    journal, relay, more = replica(2, **backups.SERIAL)
    at = relay.source
    assert at is not None
    relay.copy(more[0])
    for name in ("b", "c"):
        other = journal.relay(name, f"relay-{name}")
        other.connect()
        if name == "b" and is_other:
            apply(journal, other, more[0])
    if not is_other:
        journal.binlog.group(more[0][0]["gtid"], server_id=3)
    found = found_in(with_channel(journal, *at))
    assert found == ([] if is_other else ["data_hold_later"])


def test_of_a_log_whose_head_was_not_seen_the_data_are_not_judged() -> None:
    """What was logged up to the position is not known."""
    journal = backups.image(source())
    heads = ("FORMAT_DESCRIPTION", "PREVIOUS_GTIDS")
    journal.records = [one for one in journal.records if one.get("type") not in heads]
    assert (found_in(journal), said_of(journal)) == ([], {"backup_logged_unknown"})


def test_a_group_that_changed_nothing_need_not_be_in_the_data() -> None:
    """Nor on a replica, whose filters may have left nothing of it."""
    journal = source().groups(1, "empty")
    backups.image(journal, gtid_executed=f"{UUID_A}:1-3")
    assert (found_in(journal), said_of(journal)) == ([], set())
    journal, relay, more = replica(2, **backups.SERIAL)
    relay.copy(more[0])
    journal.binlog.group(more[0][0]["gtid"], "empty", server_id=3)
    assert relay.source is not None
    with_channel(journal, *relay.source, gtid_executed=f"{UUID_C}:1-2")
    assert (found_in(journal), said_of(journal)) == ([], set())


@pytest.mark.parametrize(("more", "found"), [(f"{UUID_B}:9", ["data_hold_more"]), ("", [])])
def test_without_its_replicas_updates_the_log_of_a_server_has_its_own_groups(
    more: str, found: list[str]
) -> None:
    """What it has received the data hold, and no other of its own."""
    journal, relay, _ = replica(2, log_replica_updates=False, **backups.SERIAL)
    journal.row()
    assert relay.source is not None
    held = ",".join(filter(None, (f"{UUID_C}:1-2", more)))
    assert found_in(with_channel(journal, *relay.source, gtid_executed=held)) == found


@pytest.mark.parametrize("of_locks", [True, False])
def test_of_a_server_that_is_not_known_no_group_must_be_in_its_log(of_locks: bool) -> None:
    """Neither its start nor a row shows its UUID, and what it has received it need not log."""
    journal = source(2, log_replica_updates=False)
    row = journal.row()
    del row["row"]["SERVER_UUID"]
    held = f"{UUID_A}:1-2,{UUID_C}:1-2"
    summary = {"binlog_file": journal.binlog.file, "binlog_position": journal.binlog.end}
    if of_locks:
        backups.image(journal, gtid_executed=held)
    else:
        journal.record("backup", step="image", backup_id="b1", gtid_executed=held, **summary)
    journal.records = [one for one in journal.records if one["kind"] != "start"]
    assert set(audit(journal).broken) == {"log_status_row_complete"}


@pytest.mark.parametrize(
    "form", ["rows", "statement", "myisam_statement", "ddl", "ddl_rows_query", "xa_prepare"]
)
def test_a_received_group_that_changes_something_is_missed(form: str) -> None:
    """However it is logged; the replica does not log what it applies."""
    origin = Journal("s", UUID_C, 3).begin().groups(2).groups(1, form)
    journal, relay, _ = replica(2, log_replica_updates=False, **backups.SERIAL)
    relay.copy(origin.binlog.groups[2])
    assert relay.source is not None
    with_channel(journal, *relay.source, gtid_executed=f"{UUID_C}:1-2")
    assert found_in(journal) == ["data_lack_earlier"]


@pytest.mark.parametrize("lock", ["tables", "instance"])
@pytest.mark.parametrize("form", ["ddl", "ddl_preamble", "ddl_rows_query", "statement"])
def test_a_group_of_one_statement_may_be_ddl(form: str, lock: str) -> None:
    """As it may be that of a temporary table, which the lock lets pass; more statements are DML."""
    journal = backups.lock(source(), lock)
    journal.binlog.group(form=form)
    backups.unlock(journal, lock)
    result = audit(journal)
    assert not result.broken
    is_doubtful = lock == "tables" and form != "statement"
    assert [one.reason for one in result.observations] == ["statement_may_be_ddl"] * is_doubtful


@pytest.mark.parametrize("held", ["1-2", "1-3"])
@pytest.mark.parametrize("file_number", [1, 2])
def test_positions_beyond_4_gib_are_judged_where_groups_tell_which(
    file_number: int, held: str
) -> None:
    """Where one ends there, or where all are of earlier files."""
    journal, relay, more = replica(2, **backups.SERIAL)
    start, end = more[0][0]["start"], more[0][-1]["log_pos"]
    relay.connect("binlog.000001", WRAP + start)
    apply(journal, relay, more[0])
    at = (f"binlog.00000{file_number}", WRAP + (end if file_number == 1 else 4))
    last = [record for record in journal.records if record.get("type") == "XID"]
    own = [record["log_pos"] for record in last if record["kind"] == "binlog"]
    place = {"binlog_position": own[int(held[-1]) - 1], "gtid_executed": f"{UUID_C}:{held}"}
    with_channel(journal, *at, **place)
    found = [] if held == "1-3" else ["data_lack_earlier"]
    assert (found_in(journal), said_of(journal)) == (found, set())


def test_rows_show_whether_receivers_were_held_back() -> None:
    """While the lock is held and at the first row after it, even if it came and went between."""
    journal, _, _ = replica(1)
    journal.row()
    backups.lock(journal, "binlog")
    journal.row()
    journal.row()
    backups.unlock(journal, "binlog")
    journal.row()
    journal.row()
    backups.unlock(backups.lock(journal, "binlog"), "binlog")
    journal.row()
    journal.row()
    shown = [
        event.body["channels"][0]["is_held_back"]
        for event in audit(journal).fleet_events
        if event.kind is FleetEventKind.STATUS
    ]
    assert shown == [False, True, True, True, False, True, False]


def test_a_second_lock_freezes_the_positions_that_are_then() -> None:
    """Between the two the channel went on."""
    journal, relay, _ = replica()
    for length in (600, 300):
        backups.lock(journal, "binlog")
        for _ in range(2):
            status = status_before_end(journal, relay, length)
            journal.row(replica_status=status, requested_at=journal.ts)
        backups.unlock(journal, "binlog")
    assert audit(journal).findings == []


def test_what_moves_under_a_second_lock_is_found_again() -> None:
    journal = source()
    for _ in range(2):
        backups.lock(journal, "binlog").groups(2)
        backups.unlock(journal, "binlog")
    assert found_in(journal) == ["binlog_grew_under_binlog_lock"] * 2


def test_what_was_logged_before_the_binlog_lock_is_before_the_coordinates() -> None:
    """Which are right also where the lock was released early, and nothing was logged since."""
    journal = source()
    journal.record("backup", step="begin", backup_id="b1", **backups.SESSION)
    backups.lock(backups.lock(journal, "tables").groups(1), "binlog")
    backups.image(backups.unlock(journal, "binlog"))
    assert "read_after_release" not in found_in(journal)


def test_a_receiver_may_end_a_group_that_it_had_begun_before_the_lock() -> None:
    journal, relay, waiting = replica()
    relay.copy(waiting[0][:2])
    backups.lock(journal, "binlog")
    relay.copy(waiting[0][2:])
    assert audit(journal).findings == []


@pytest.mark.parametrize(
    ("lock", "changes"), [("binlog", "commits"), ("tables", "changes of definitions")]
)
def test_what_show_master_status_says_is_read_under_both_locks(lock: str, changes: str) -> None:
    """What the lock that was released first had stopped may have come since."""
    journal = source()
    journal.record("backup", step="begin", backup_id="b1", **backups.SESSION)
    backups.lock(journal, "tables", "binlog")
    backups.unlock(journal, lock)
    if lock == "tables":
        backups.unlock(journal, "binlog").groups(1)
        backups.lock(journal, "binlog")
    journal.groups(1)
    backups.image(journal)
    found = [one for one in audit(journal).findings if one.case == "read_after_release"]
    assert [one.data["changes"] for one in found] == [changes]


def test_where_events_are_not_contiguous_no_position_is_inside_one() -> None:
    """That their offsets cannot be believed is found once, in the log."""
    journal = source()
    journal.binlog.end -= 10
    backups.image(journal.groups(2), binlog_position=journal.binlog.end - 5)
    assert (found_in(journal), said_of(journal)) == (
        ["events_not_contiguous"],
        {"backup_file_unseen"},
    )


@pytest.mark.parametrize(
    ("version", "is_serial"), [("8.0.26", True), ("8.0.27", False), ("8.4.0", False), ("", False)]
)
def test_an_applier_has_workers_by_default_from_8_0_27_on(version: str, is_serial: bool) -> None:
    """With workers its position is a low-water mark: the data may have more."""
    journal = backups.replica_image(data=4, position=3, version=version)
    assert found_in(journal) == ["data_hold_later"] * is_serial
