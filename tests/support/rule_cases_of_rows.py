"""Cases of the rules of one row's binary log half and its InnoDB half."""

from __future__ import annotations

from tests.support.journals import UUID_A, UUID_C, Journal, Record, read_gtids
from tests.support.rule_cases import apply, case, files, innodb, local, purging, replica, source

# Tier 2: the binary log coordinate and the sets


@case()
def snapshot_position_within_file(breaks: bool) -> Journal:
    journal = source()
    local(journal.row())["binary_log_position"] += 10_000 if breaks else 0
    journal.record("heartbeat")
    return journal


@case()
def snapshot_position_within_file__magic(breaks: bool) -> Journal:
    journal = Journal(log_bin=True).begin()
    local(journal.row())["binary_log_position"] = 3 if breaks else 157
    return journal


@case()
def snapshot_position_within_file__of_relay_log(breaks: bool) -> Journal:
    """A base name that was not seen may be new; one of a relay log is not the binary log's."""
    journal, relay, _ = replica()
    row = local(journal.row())
    row["binary_log_file"] = relay.file if breaks else "newbin.000001"
    return journal


@case()
def snapshot_position_within_file__file_before(breaks: bool) -> Journal:
    """An older file ends where it ended."""
    journal = source()
    end = journal.binlog.end + 44
    journal.binlog.rotate()
    row = local(journal.row())
    row["binary_log_file"], row["binary_log_position"] = "binlog.000001", end + breaks
    return journal


@case()
def snapshot_position_on_group_boundary(breaks: bool) -> Journal:
    journal = source()
    row = local(journal.row())
    row["binary_log_position"] -= 31 if breaks else 300
    row["gtid_executed"] = f"{UUID_A}:1-2"
    return journal


@case()
def snapshot_position_on_group_boundary__inside_event(breaks: bool) -> Journal:
    journal = source()
    row = local(journal.row())
    row["binary_log_position"] -= 300 - (7 if breaks else 0)
    row["gtid_executed"] = f"{UUID_A}:1-2"
    return journal


@case()
def executed_within_logged(breaks: bool) -> Journal:
    journal = source()
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-{4 if breaks else 3}"
    return journal


@case()
def executed_within_logged__ahead_of_position(breaks: bool) -> Journal:
    journal = source()
    row = local(journal.row())
    row["binary_log_position"] -= 300 if breaks else 0
    return journal


@case()
def executed_within_logged__of_no_moment(breaks: bool) -> Journal:
    """No row of any moment has this position with this set: it is not called an old one."""
    journal = source()
    row = local(journal.row(received_at=journal.ts))
    row["binary_log_position"] -= 300 if breaks else 0
    return journal


@case()
def snapshot_position_on_group_boundary__of_no_moment(breaks: bool) -> Journal:
    journal = source()
    row = local(journal.row(received_at=journal.ts))
    row["binary_log_position"] -= 293 if breaks else 0
    row["gtid_executed"] = f"{UUID_A}:1-{2 if breaks else 3}"
    return journal


@case()
def commit_lag_bounded(breaks: bool) -> Journal:
    journal = source(20, commit_lag_max=10)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-{9 if breaks else 10}"
    return journal


@case()
def commit_lag_bounded__one_instant(breaks: bool) -> Journal:
    """WL#9452 reads position and set at one instant: nothing is between the two."""
    journal = source(3, profile="wl9452" if breaks else "mysql-8.0")
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-2"
    return journal


@case()
def commit_lag_is_suffix(breaks: bool) -> Journal:
    journal = source(5, binlog_order_commits=breaks)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3:5"
    return journal


@case()
def commit_lag_is_suffix__workers(breaks: bool) -> Journal:
    """Several workers that need not keep the order may leave holes."""
    journal = source(5, replica_parallel_workers=4, replica_preserve_commit_order=breaks)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3:5"
    return journal


@case()
def purged_within_executed(breaks: bool) -> Journal:
    journal = source()
    journal.executed = read_gtids(f"{UUID_A}:1-3,{UUID_C}:1-4")
    purged = f"{UUID_C}:1-{5 if breaks else 4}"
    journal.row(gtid_purged=purged, binary_logs=files(1))
    return journal


@case()
def purged_matches_oldest_file(breaks: bool) -> Journal:
    journal = purging()
    journal.row(
        binary_logs=files(2, 3),
        binary_logs_again=files(2, 3),
        gtid_purged=f"{UUID_A}:1-{2 if breaks else 3}",
    )
    return journal


@case()
def purged_matches_oldest_file__still_there(breaks: bool) -> Journal:
    journal = purging()
    journal.row(
        binary_logs=files(2, 3),
        binary_logs_again=files(2, 3),
        gtid_purged=f"{UUID_A}:1-{4 if breaks else 3}",
    )
    return journal


@case()
def purged_matches_oldest_file__lost_from_the_log(breaks: bool) -> Journal:
    """A log that lost its end: what InnoDB had committed counts as purged after the start."""
    journal = source()
    journal.row(gtid_purged="")
    journal.binlog.group(f"{UUID_A}:{6 if breaks else 4}")
    if breaks:
        for gno in (4, 5):
            journal.executed.add(f"{UUID_A}:{gno}")
    journal.row(gtid_purged=f"{UUID_A}:4-5" if breaks else "")
    return journal


@case()
def purged_matches_oldest_file__lost_by_a_replica(breaks: bool) -> Journal:
    """It fetches again what InnoDB has lost, too; what InnoDB has kept is in no file any more."""
    journal, relay, more = replica()
    journal.row()
    file, end = journal.binlog.coordinates
    apply(journal, relay, more[0])
    journal.start(crashed=True, recovered={"file": file, "position": end})
    journal.binlog.gtids.remove(more[0][0]["gtid"])
    journal.binlog.open(2)
    if not breaks:
        journal.executed.remove(more[0][0]["gtid"])
    journal.row(gtid_purged=more[0][0]["gtid"] if breaks else "")
    if not breaks:
        journal.binlog.group(more[0][0]["gtid"], server_id=3)
    apply(journal, relay, more[1])
    journal.row(gtid_purged=more[0][0]["gtid"] if breaks else "")
    return journal


@case()
def purged_matches_oldest_file__restored_with_a_hole(breaks: bool) -> Journal:
    """A server numbers on in a hole of its image; what comes after that into the set was lost."""
    journal = Journal()
    journal.start(data_lineage="restored")
    journal.binlog.open()
    for gno in (1, 2, 5):
        journal.executed.add(f"{UUID_A}:{gno}")
    journal.binlog.group(f"{UUID_A}:3")
    journal.row(gtid_purged=f"{UUID_A}:1-2:5")
    if breaks:
        journal.executed.add(f"{UUID_A}:6")
    journal.row(gtid_purged=f"{UUID_A}:1-2:5{'-6' if breaks else ''}")
    return journal


@case()
def purged_matches_oldest_file__told_by_the_journal(breaks: bool) -> Journal:
    """Without a list the purge itself is known, from the second row on."""
    journal = purging()
    journal.record("binlog_purge", to_file="binlog.000002")
    for _ in range(2):
        journal.row(gtid_purged="" if breaks else f"{UUID_A}:1-3")
    return journal


@case()
def purged_matches_oldest_file__without_a_log(breaks: bool) -> Journal:
    """With log_bin off the two sets are one, which may grow while it is read twice."""
    journal = Journal(log_bin=False)
    journal.start()
    journal.executed = read_gtids(f"{UUID_C}:1-9")
    purged = f"{UUID_C}:1-{6 if breaks else 7}"
    journal.row(gtid_executed_first=f"{UUID_C}:1-7", gtid_purged=purged)
    return journal


def lengths(journal: Journal) -> list[Record]:
    """SHOW BINARY LOGS of all files of the journal."""
    ends: dict[str, int] = {}
    for record in journal.records:
        if record["kind"] == "binlog":
            ends[record["file"]] = record["start"] + record["length"]
    return [{"name": name, "size": end} for name, end in ends.items()]


@case()
def closed_file_length_agrees(breaks: bool) -> Journal:
    journal = purging()
    logs = lengths(journal)
    logs[1]["size"] -= breaks
    journal.row(binary_logs=logs)
    return journal


@case()
def closed_file_length_agrees__of_an_encrypted_log(breaks: bool) -> Journal:
    journal = purging()
    logs = lengths(journal)
    for one in logs:
        one["size"] += 513 if breaks else 512
    journal.row(binary_logs=logs)
    return journal


@case()
def closed_file_length_agrees__of_the_open_one(breaks: bool) -> Journal:
    """It may be an encrypted one, too."""
    journal = source()
    journal.row(binary_logs=lengths(journal))
    logs = lengths(journal.groups(1))
    logs[-1]["size"] += 513 if breaks else 512
    journal.row(binary_logs=logs)
    return journal


@case()
def owned_disjoint_from_executed(breaks: bool) -> Journal:
    journal = source()
    journal.row(gtid_owned=f"{UUID_A}:{3 if breaks else 4}#17")
    return journal


# Tier 2: InnoDB


@case()
def lsn_order(breaks: bool) -> Journal:
    journal = source()
    row = innodb(journal.row())
    row["LSN_checkpoint"] = row["LSN"] + (1 if breaks else 0)
    return journal


@case()
def lsn_order__status_variables(breaks: bool) -> Journal:
    """They are read one after another while the log goes on, so flushed may be beyond current."""
    journal = source()
    lsn = journal.lsn + 9_000_000
    flushed = 8191 if breaks else lsn + 1043
    journal.row(innodb={"checkpoint": lsn, "flushed": flushed, "current": lsn + 512})
    return journal


@case()
def lsn_order__first(breaks: bool) -> Journal:
    journal = source()
    innodb(journal.row()).update(LSN=8204, LSN_checkpoint=8191 if breaks else 8204)
    return journal


@case()
def lsn_block_offset(breaks: bool) -> Journal:
    journal = source()
    row = innodb(journal.row())
    row["LSN"] += 507 - row["LSN"] % 512 + (1 if breaks else 0)
    return journal


@case()
def lsn_block_offset__header(breaks: bool) -> Journal:
    journal = source()
    row = innodb(journal.row())
    row["LSN_checkpoint"] += 12 - row["LSN_checkpoint"] % 512 - (1 if breaks else 0)
    return journal


@case()
def checkpoint_age_within_capacity(breaks: bool) -> Journal:
    journal = source(innodb_redo_log_capacity=1024)
    journal.row()
    row = innodb(journal.row())
    row["LSN_checkpoint"] = row["LSN"] - 1023 - (1 if breaks else 0)
    if row["LSN_checkpoint"] % 512 < 12:
        row["LSN"] += 12
        row["LSN_checkpoint"] += 12
    return journal
