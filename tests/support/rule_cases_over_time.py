"""Cases of the rules of one instance over time."""

from __future__ import annotations

from tests.support.journals import UUID_A, UUID_C, Journal
from tests.support.rule_cases import (
    apply,
    case,
    channel,
    files,
    innodb,
    local,
    purging,
    replica,
    source,
)
from tests.support.rule_cases_of_channels import status_before_end

# Tier 3


@case()
def snapshot_position_monotone(breaks: bool) -> Journal:
    journal = source()
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-2"
    row = local(journal.row())
    row["gtid_executed"] = f"{UUID_A}:1-2"
    row["binary_log_position"] -= 300 if breaks else 0
    return journal


@case()
def snapshot_position_monotone__old_row(breaks: bool) -> Journal:
    """A row that was read before the log went on, and comes after that; or that is shown again."""
    journal = source()
    row, received_at = journal.row()["row"], journal.ts
    journal.groups(1)
    journal.row(received_at=journal.ts if breaks else received_at)["row"] = row
    return journal


@case()
def executed_monotone(breaks: bool) -> Journal:
    journal = source()
    journal.row()
    journal.groups(1)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-{2 if breaks else 3}"
    return journal


@case("purged_matches_oldest_file")
def purged_monotone(breaks: bool) -> Journal:
    journal = purging()
    for last in (3, 2 if breaks else 3):
        journal.row(
            binary_logs=files(2, 3),
            binary_logs_again=files(2, 3),
            gtid_purged=f"{UUID_A}:1-{last}",
        )
    return journal


def leave_out_channel(journal: Journal) -> None:
    """A row without its channel, which the status has."""
    row = journal.row(replica_status=journal.replica_status())
    row["row"]["REPLICATION"]["channels"].clear()


@case()
def executed_as_shown_before(breaks: bool) -> Journal:
    """What is read before the row is in the row; of the first row nobody knows."""
    journal = source()
    journal.row(gtid_executed_first=f"{UUID_A}:1-9")
    journal.groups(1).row(gtid_executed_first=f"{UUID_A}:1-{5 if breaks else 4}")
    return journal


@case()
def executed_as_shown_before__in_status(breaks: bool) -> Journal:
    """So is what SHOW REPLICA STATUS shows."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    executed = f"{UUID_C}:1-{5 if breaks else 4}"
    journal.row(replica_status=journal.replica_status(Executed_Gtid_Set=executed))
    return journal


@case()
def executed_as_shown_before__assigned(breaks: bool) -> Journal:
    """What SET gtid_purged adds is executed at once; a RESET would be after it."""
    journal = source()
    added = f"{UUID_C}:1-{8 if breaks else 7}"
    journal.record("gtid_purged", added=added)
    local(journal.row(gtid_purged=f"{UUID_C}:1-7"))["gtid_executed"] += f",\n{UUID_C}:1-7"
    return journal


@case()
def configured_channels_listed(breaks: bool) -> Journal:
    """RESET REPLICA ALL may have been between the status and the row."""
    journal, _relay, _ = replica()
    leave_out_channel(journal)
    if not breaks:
        journal.record("channel", channel="", action="reset_all")
        del journal.relays[""]
    journal.row(replica_status=journal.replica_status())
    return journal


@case()
def configured_channels_listed__made_anew(breaks: bool) -> Journal:
    """Nor is it held against a row that a later channel has the same name."""
    journal, _relay, _ = replica()
    leave_out_channel(journal)
    if not breaks:
        journal.record("channel", channel="", action="reset_all")
        journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
        journal.relay().connect()
    journal.row(replica_status=journal.replica_status())
    return journal


@case()
def logged_eventually_executed(breaks: bool) -> Journal:
    journal = source(5, binlog_order_commits=False)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3:5"
    journal.wait(9.999 if breaks else 9.998)
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-3:5"
    return journal


@case()
def executed_growth_explained(breaks: bool) -> Journal:
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    if not breaks:
        relay.copy(more[0])
    journal.binlog.group(more[0][0]["gtid"], server_id=3)
    journal.row(replica_status=journal.replica_status())
    return journal


@case("executed_within_logged")
def executed_growth_explained__not_logged(breaks: bool) -> Journal:
    """A channel that came and went unseen would have left the group in the binary log."""
    journal, _, _ = replica()
    journal.row(replica_status=journal.replica_status())
    if breaks:
        journal.executed.add(f"{UUID_A}:1")
    else:
        journal.binlog.group(f"{UUID_A}:1", server_id=1)
    journal.row(replica_status=journal.replica_status())
    return journal


@case()
def channel_positions_monotone(breaks: bool) -> Journal:
    journal, _relay, _ = replica()
    journal.row()
    channel(journal.row())["relay_log_position"] -= 300 if breaks else 0
    return journal


@case()
def channel_positions_monotone__executed(breaks: bool) -> Journal:
    journal, relay, more = replica()
    for group in more[:2]:
        journal.row(replica_status=journal.replica_status())
        apply(journal, relay, group)
    journal.row(replica_status=status_before_end(journal, relay, 600 if breaks else 300))
    return journal


@case()
def lsn_monotone(breaks: bool) -> Journal:
    journal = Journal().begin()
    journal.lsn += 5120
    row = innodb(journal.row())
    row["LSN_checkpoint"] -= 1024
    again = innodb(journal.row())
    again.update(row, LSN=row["LSN"] - (512 if breaks else 0))
    return journal


@case()
def lsn_monotone__restart(breaks: bool) -> Journal:
    """A clean restart loses nothing; a crash may lose what was not flushed."""
    journal = Journal().begin()
    journal.lsn += 5120
    innodb(journal.row())["LSN_checkpoint"] -= 1024
    if breaks:
        journal.record("stop")
    journal.start(crashed=not breaks)
    journal.binlog.open(2)
    journal.lsn -= 1536
    row = innodb(journal.row())
    row["LSN_checkpoint"] = row["LSN"]
    return journal


@case()
def lsn_monotone__crash(breaks: bool) -> Journal:
    """Not even a crash takes what was flushed."""
    journal = Journal().begin()
    journal.lsn += 5120
    row = innodb(journal.row())
    row["LSN_checkpoint"] -= 1024
    bound = row["LSN_checkpoint"]
    journal.start(crashed=True)
    journal.binlog.open(2)
    below = 512 if breaks else 0
    innodb(journal.row()).update(LSN=bound - below, LSN_checkpoint=bound - below)
    return journal


@case()
def lsn_grows_with_commits(breaks: bool) -> Journal:
    journal = source()
    first = innodb(journal.row())
    journal.groups(1, "rows" if breaks else "myisam")
    innodb(journal.row()).update(first)
    return journal


@case()
def binlog_files_form_range(breaks: bool) -> Journal:
    journal = purging()
    journal.binlog.rotate()
    numbers = (1, 2, 4) if breaks else (1, 2, 3, 4)
    journal.row(binary_logs=files(*numbers))
    return journal


@case()
def binlog_files_form_range__not_there(breaks: bool) -> Journal:
    """A file that was removed by hand is listed without any length."""
    journal = purging()
    logs = files(1, 2, 3)
    logs[1 if breaks else 2]["size"] = 0
    journal.row(binary_logs=logs, binary_logs_again=logs)
    return journal


@case()
def binlog_files_form_range__appended(breaks: bool) -> Journal:
    """A start opens the next file."""
    journal = source()
    journal.record("stop")
    journal.start()
    if not breaks:
        journal.binlog.open(2)
    return journal.groups(1)


@case()
def binlog_files_form_range__skipped(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.event("ROTATE", 44, next_file="binlog.000002")
    journal.binlog.open(3 if breaks else 2)
    return journal


@case()
def binlog_files_form_range__active_file_purged(breaks: bool) -> Journal:
    journal = purging()
    journal.record("binlog_purge", to_file=f"binlog.00000{4 if breaks else 3}")
    return journal


@case()
def recovered_gtids_complete(breaks: bool) -> Journal:
    """The hole that recovery left is reported under its own name alone."""
    journal = source()
    journal.record("stop")
    journal.start()
    journal.binlog.open(2)
    journal.groups(1)
    text = f"{UUID_A}:1-2:4" if breaks else f"{UUID_A}:1-3"
    local(journal.row())["gtid_executed"] = text
    return journal


@case()
def recovered_gtids_complete__undo(breaks: bool) -> Journal:
    """What recovery found in undo logs counts from the first row on."""
    journal = source()
    journal.row()
    journal.executed.add(f"{UUID_C}:4")
    journal.purged = f"{UUID_C}:4"
    journal.start(
        crashed=True,
        recovered={"file": "binlog.000001", "position": journal.binlog.end},
        undo_gtids=f"{UUID_C}:{5 if breaks else 4}",
    )
    journal.binlog.open(2)
    journal.row()
    return journal


@case()
def recovered_gtids_complete__recover_step(breaks: bool) -> Journal:
    """The record of recovery tells what was in the undo logs, too."""
    journal = source()
    journal.row()
    at = {"file": "binlog.000001", "position": journal.binlog.end}
    journal.start(crashed=True, recovered=at)
    gtids = f"{UUID_C}:4" if breaks else f"{UUID_A}:3"
    journal.record("gtid_persister", step="recover", gtids=gtids, trx_num_gtid=4)
    journal.binlog.open(2)
    journal.row()
    return journal
