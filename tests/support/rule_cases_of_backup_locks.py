"""Cases just inside and just outside the boundaries of the rules about backup locks."""

from __future__ import annotations

from tests.support.journals import UUID_A, UUID_B, UUID_C, Journal
from tests.support.rule_cases import apply, case, replica, source
from tests.support.rule_cases_of_channels import status_before_end

SESSION = {"session": 7}
SERIAL = {"replica_parallel_workers": 0}


def lock(journal: Journal, *locks: str) -> Journal:
    """Locks of one session, in order."""
    for name in locks:
        journal.record("backup_lock", step="lock", lock=name, **SESSION)
    return journal


def unlock(journal: Journal, *locks: str) -> Journal:
    """Unlocks of the session, in order."""
    for name in locks:
        journal.record("backup_lock", step="unlock", lock=name, **SESSION)
    return journal


def image(journal: Journal, **fields: object) -> Journal:
    """What a backup of everything logged so far says, and its end."""
    reported = {
        "binlog_file": journal.binlog.file,
        "binlog_position": journal.binlog.end,
        "coordinates_from": "source_status",
        "gtid_executed": str(journal.used).replace("\n", ""),
        **fields,
    }
    journal.record("backup", step="image", backup_id="b1", **SESSION, **reported)
    journal.record("backup", step="end", backup_id="b1", **SESSION)
    return journal


# What the locks freeze


@case()
def backup_locks_freeze_scope(breaks: bool) -> Journal:
    journal = source()
    journal.record("backup_lock", step="lock", lock="tables")
    journal.groups(1)
    journal.record("statement", engine="MyISAM" if breaks else "InnoDB", type="dml")
    journal.record("backup_lock", step="unlock", lock="tables")
    journal.record("statement", engine="MyISAM", type="dml")
    return journal


@case()
def backup_locks_freeze_scope__tables_without_content(breaks: bool) -> Journal:
    """The lock does not stop changes of their rows, but DDL of any table."""
    journal = lock(source(), "tables")
    for engine in ("BLACKHOLE", "FEDERATED", "ROCKSDB"):
        journal.record("statement", engine=engine, type="dml")
    if breaks:
        journal.record("statement", engine="BLACKHOLE", type="ddl")
    return journal


@case()
def backup_locks_freeze_scope__logged_rows(breaks: bool) -> Journal:
    journal = lock(source(), "tables")
    if not breaks:
        unlock(journal, "tables")
    journal.binlog.group(form="myisam")
    return journal


@case()
def backup_locks_freeze_scope__binlog(breaks: bool) -> Journal:
    journal = source()
    journal.record("backup_lock", step="lock", lock="binlog")
    if not breaks:
        journal.record("backup_lock", step="unlock", lock="binlog")
    return journal.groups(1)


@case()
def backup_locks_freeze_scope__another_session(breaks: bool) -> Journal:
    journal = source()
    for session in (1, 2):
        journal.record("backup_lock", step="lock", lock="binlog", session=session)
    for session in (1,) if breaks else (1, 2):
        journal.record("backup_lock", step="unlock", lock="binlog", session=session)
    return journal.groups(1)


@case()
def backup_locks_freeze_scope__global_read(breaks: bool) -> Journal:
    """A statement that changes no table, as FLUSH PRIVILEGES, is logged under the lock, too."""
    journal = lock(source(), "global_read")
    journal.binlog.group(form="rows" if breaks else "ddl")
    return journal


@case()
def backup_locks_freeze_scope__global_read_between_events(breaks: bool) -> Journal:
    """The lock waits for who is committing: of a group that has begun nothing is claimed."""
    journal = source()
    events = journal.binlog.group()
    taken = lock(journal, "global_read").records.pop()
    at = len(journal.records) - len(events) + (not breaks)
    journal.records.insert(at, {**taken, "ts": journal.records[at]["ts"]})
    return journal


@case()
def backup_locks_freeze_scope__received(breaks: bool) -> Journal:
    journal, relay, waiting = replica()
    lock(journal, "binlog")
    if not breaks:
        unlock(journal, "binlog")
    relay.copy(waiting[0])
    return journal


@case()
def backup_locks_freeze_scope__received_under_the_table_lock(breaks: bool) -> Journal:
    """Only the binlog lock keeps the receiver from reading on."""
    journal, relay, waiting = replica()
    lock(journal, "tables", *(["binlog"] if breaks else []))
    relay.copy(waiting[0])
    return journal


@case()
def backup_locks_freeze_scope__executed(breaks: bool) -> Journal:
    journal, _, _ = replica()
    lock(journal, "binlog")
    reason = "xid" if breaks else "applier_stop"
    row = {"Master_log_name": "binlog.000001", "Master_log_pos": 457}
    journal.record("info_write", table="slave_relay_log_info", channel="", reason=reason, row=row)
    return journal


@case()
def backup_locks_freeze_scope__rows(breaks: bool) -> Journal:
    """Two rows under the lock; the first one's statements may have begun before it."""
    journal, relay, _ = replica()
    asked = journal.ts
    lock(journal, "binlog")
    for length in (600, 300):
        status = status_before_end(journal, relay, length)
        journal.row(replica_status=status, requested_at=journal.ts if breaks else asked)
    return journal


# The header


@case()
def trx_sys_coords_fresh_under_lock(breaks: bool) -> Journal:
    journal = source(have_backup_safe_binlog_info=True)
    journal.record("backup_lock", step="lock", lock="tables")
    end = journal.binlog.end - (300 if breaks else 0)
    journal.row(trx_sys={"binary_log_file": "binlog.000001", "binary_log_position": end})
    return journal


@case()
def trx_sys_coords_fresh_under_lock__second(breaks: bool) -> Journal:
    """Each LOCK TABLES FOR BACKUP writes its coordinates, also where a session holds the lock."""
    journal = lock(source(have_backup_safe_binlog_info=True), "tables")
    first = journal.binlog.end
    journal.groups(1)
    journal.record("backup_lock", step="lock", lock="tables", session="9")
    end = first if breaks else journal.binlog.end
    journal.row(trx_sys={"binary_log_file": "binlog.000001", "binary_log_position": end})
    return journal


@case("backup_coordinates_match_data")
def trx_sys_coords_fresh_under_lock__backup(breaks: bool) -> Journal:
    journal = source(have_backup_safe_binlog_info=True)
    before = journal.binlog.end
    journal.binlog.group(form="myisam")
    unlock(lock(journal, "tables"), "tables")
    at = before if breaks else journal.binlog.end
    return image(journal, coordinates_from="innodb_header", binlog_position=at)


@case("backup_coordinates_match_data")
def trx_sys_coords_fresh_under_lock__of_a_server_that_keeps_it_fresh(breaks: bool) -> Journal:
    """Another server's header need not be: its coordinates are judged by the data alone."""
    journal = source(have_backup_safe_binlog_info=True)
    if not breaks:
        journal.record("variables", variables={"have_backup_safe_binlog_info": False})
    before, held = journal.binlog.end, str(journal.used)
    journal.groups(1)
    unlock(lock(journal, "tables"), "tables")
    held = str(journal.used) if breaks else held
    return image(
        journal, coordinates_from="innodb_header", binlog_position=before, gtid_executed=held
    )


# Order and release


@case()
def backup_lock_protocol(breaks: bool) -> Journal:
    locks = ("tables", "binlog")
    journal = lock(source(), *(reversed(locks) if breaks else locks))
    return unlock(journal, "binlog", "tables")


@case()
def backup_lock_protocol__unlock(breaks: bool) -> Journal:
    locks = ("binlog", "tables")
    return unlock(lock(source(), "tables", "binlog"), *(reversed(locks) if breaks else locks))


@case()
def backup_lock_protocol__left_behind(breaks: bool) -> Journal:
    journal = unlock(lock(source(), "tables", "binlog"), "binlog")
    return image(journal if breaks else unlock(journal, "tables"))


@case()
def backup_lock_protocol__killed(breaks: bool) -> Journal:
    journal = lock(source(), "tables")
    error = {} if breaks else {"error": "Lost connection to MySQL server during query"}
    journal.record("backup", step="end", backup_id="b1", **SESSION, **error)
    return journal


# What a backup says of itself


@case()
def backup_coordinates_match_data(breaks: bool) -> Journal:
    journal = source()
    before, held = journal.binlog.end, str(journal.used)
    journal.groups(1)
    return (
        image(journal, gtid_executed=held)
        if breaks
        else image(journal, gtid_executed=held, binlog_position=before)
    )


@case()
def backup_coordinates_match_data__beyond(breaks: bool) -> Journal:
    journal = source()
    before = journal.binlog.end
    journal.groups(1)
    return image(journal, **({"binlog_position": before} if breaks else {}))


@case()
def backup_coordinates_match_data__inside(breaks: bool) -> Journal:
    journal = source()
    return image(journal, binlog_position=journal.binlog.end - (31 if breaks else 0))


@case()
def backup_coordinates_match_data__inside_event(breaks: bool) -> Journal:
    journal = source()
    return image(journal, binlog_position=journal.binlog.end - breaks)


@case()
def backup_coordinates_match_data__other(breaks: bool) -> Journal:
    """The data lack a group from before the position and hold one from after it."""
    journal = source()
    before, held = journal.binlog.end, str(journal.used)
    journal.groups(1)
    if breaks:
        held = held.replace("1-3", "1-2:4")
    return image(journal, gtid_executed=held, binlog_position=before)


@case()
def backup_coordinates_match_data__not_reached(breaks: bool) -> Journal:
    journal = source()
    return image(journal, binlog_position=journal.binlog.end + breaks)


@case()
def backup_coordinates_match_data__more(breaks: bool) -> Journal:
    """What comes after the backup's end is not in its data."""
    journal = source()
    journal.row()
    if not breaks:
        journal.groups(1)
    image(journal, gtid_executed=f"{UUID_A}:1-4")
    return journal.groups(1) if breaks else journal


@case()
def backup_coordinates_match_data__without_changes(breaks: bool) -> Journal:
    """Before the lock, under it and after it, an empty group leaves no trace."""
    journal = source()
    held = str(journal.used)
    journal.binlog.group(form="empty")
    lock(journal, "tables").binlog.group(form="rows" if breaks else "empty")
    unlock(journal, "tables").binlog.group(form="empty")
    return image(journal, gtid_executed=held)


def replica_image(data: int, position: int, held: str | None = None, **settings: object) -> Journal:
    """A replica with four groups: its backup's data hold some, its position is after some."""
    journal, relay, waiting = replica(2, **settings)
    for group in waiting[:2]:
        apply(journal, relay, group)
    last = [record for record in journal.records if record.get("type") == "XID"]
    own = [record["log_pos"] for record in last if record["kind"] == "binlog"]
    copied = [record["log_pos"] for record in last if record["kind"] == "relay"]
    channel = {"exec_source_log_file": "binlog.000001", "exec_source_log_pos": copied[position - 1]}
    return image(
        journal,
        binlog_position=own[data - 1],
        gtid_executed=f"{UUID_C}:{held or f'1-{data}'}",
        channels=[{"channel": "", **channel}],
    )


@case()
def backup_replica_coordinates_match_data(breaks: bool) -> Journal:
    return replica_image(data=4, position=3 if breaks else 4, **SERIAL)


@case()
def backup_replica_coordinates_match_data__low_water_mark(breaks: bool) -> Journal:
    return replica_image(data=4, position=3, replica_parallel_workers=0 if breaks else 4)


@case("backup_coordinates_match_data")
def backup_replica_coordinates_match_data__both(breaks: bool) -> Journal:
    """A group is missing before the position, and one is held from after it."""
    held = "1-2:4" if breaks else None
    return replica_image(data=3, position=3, held=held, **SERIAL)


@case()
def backup_replica_coordinates_match_data__missing(breaks: bool) -> Journal:
    return replica_image(data=3, position=4 if breaks else 3)


def image_of_files(executed: str, *sources: str) -> Journal:
    """A replica with a binary log ``binlog``, its source's files as they were called in turn."""
    [group] = Journal("s", UUID_C, 3).begin().groups(1).binlog.groups
    journal = Journal("a", UUID_B, 2).begin()
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay()
    for file in sources:
        relay.connect(file)
    apply(journal, relay, group)
    status = {"exec_source_log_file": executed, "exec_source_log_pos": group[-1]["log_pos"]}
    return image(journal, channels=[{"channel": "", **status}])


@case()
def backup_replica_coordinates_match_data__own_log(breaks: bool) -> Journal:
    """The source's files may be called like the replica's own, then no name is wrong."""
    if breaks:
        return image_of_files("binlog.000001", "source.000001")
    return image_of_files("binlog.000001", "binlog.000001")


@case()
def backup_replica_coordinates_match_data__own_relay_log(breaks: bool) -> Journal:
    return image_of_files("relay.000001" if breaks else "source.000001", "source.000001")


@case()
def backup_binlog_copy_matches_data(breaks: bool) -> Journal:
    journal = source()
    end, held = journal.binlog.end, str(journal.used)
    journal.groups(1)
    copied = journal.binlog.end if breaks else end
    return image(
        journal,
        binlog_position=end,
        gtid_executed=held,
        binlog_copy={"file": "binlog.000001", "position": copied},
    )


def copied(at: int, data: str, into: int = 0, *, has_row: bool = False) -> Journal:
    """A backup reports no position, and a copy of the file.

    Args:
        at: How many groups the copy has.
        data: Numbers of the groups that the data hold.
        into: How many bytes more the copy has.
        has_row: Whether a row came before.
    """
    journal = source()
    if has_row:
        journal.row()
    last = journal.binlog.groups[at - 1][-1]
    end = last["start"] + last["length"] + into
    copy = {"file": "binlog.000001", "position": end}
    held = f"{UUID_A}:{data}"
    return image(
        journal, binlog_file=None, binlog_position=None, gtid_executed=held, binlog_copy=copy
    )


@case()
def backup_binlog_copy_matches_data__later(breaks: bool) -> Journal:
    return copied(2, "1-3" if breaks else "1-2")


@case()
def backup_binlog_copy_matches_data__both(breaks: bool) -> Journal:
    return copied(2, "1:3" if breaks else "1-2")


@case()
def backup_binlog_copy_matches_data__more(breaks: bool) -> Journal:
    """No group of that number was logged."""
    return copied(3, "1-4" if breaks else "1-3", has_row=True)


@case()
def backup_binlog_copy_matches_data__inside_event(breaks: bool) -> Journal:
    return copied(2, "1-2", into=int(breaks))


@case()
def backup_binlog_copy_matches_data__not_reached(breaks: bool) -> Journal:
    journal = source()
    end = journal.binlog.end + breaks
    return image(journal, binlog_copy={"file": "binlog.000001", "position": end})


@case()
def backup_binlog_copy_matches_data__torn(breaks: bool) -> Journal:
    journal = source()
    end = journal.binlog.end - (31 if breaks else 0)
    return image(journal, binlog_copy={"file": "binlog.000001", "position": end})


# Which locks a backup takes


def _backup(*locks: str, **fields: object) -> Journal:
    journal = source(have_backup_safe_binlog_info=True)
    journal.record("backup", step="begin", backup_id="b1", **SESSION)
    lock(journal, *locks)
    unlock(journal, *locks[::-1])
    return image(journal, **fields)


@case()
def backup_lock_steps_complete(breaks: bool) -> Journal:
    return _backup("tables", *([] if breaks else ["binlog"]))


@case()
def backup_lock_steps_complete__header(breaks: bool) -> Journal:
    return _backup(*([] if breaks else ["tables"]), coordinates_from="innodb_header")


@case()
def backup_lock_steps_complete__binlog_copy(breaks: bool) -> Journal:
    copy = {"file": "binlog.000001", "position": source().binlog.end}
    fields = {"binlog_copy": copy} if breaks else {}
    return _backup("tables", coordinates_from="innodb_header", **fields)


@case()
def backup_lock_steps_complete__read_after_the_lock_was_lost(breaks: bool) -> Journal:
    """The report may come late, but what it reports was read as long as the session had its lock.

    A session that is gone has lost its locks, and reads of another connection where it likes.
    """
    journal = source()
    journal.record("backup", step="begin", backup_id="b1", **SESSION)
    unlock(lock(journal, "tables", "binlog"), "binlog", "tables")
    read = {"binlog_position": journal.binlog.end, "gtid_executed": str(journal.used)}
    journal.groups(1)
    return image(journal, **({} if breaks else read))


@case()
def backup_lock_steps_complete__read_after_the_table_lock_was_lost(breaks: bool) -> Journal:
    """With LOCK TABLES FOR BACKUP the tables that are copied begin to change again."""
    journal = source(have_backup_safe_binlog_info=True)
    journal.record("backup", step="begin", backup_id="b1", **SESSION)
    lock(journal, "tables")
    if not breaks:
        journal.groups(1)
    unlock(journal, "tables")
    if breaks:
        journal.groups(1)
    return image(journal, coordinates_from="innodb_header")


@case()
def backup_lock_steps_complete__read_after_the_global_read_lock(breaks: bool) -> Journal:
    """Under FLUSH TABLES WITH READ LOCK the log may be flushed: it goes on in another file then."""
    journal = source()
    journal.record("backup", step="begin", backup_id="b1", **SESSION)
    lock(journal, "global_read")
    if not breaks:
        journal.binlog.rotate()
    unlock(journal, "global_read")
    return image(journal.groups(int(breaks)))
