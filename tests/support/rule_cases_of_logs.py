"""Cases of the rules of readable data and of one log (1 to 18)."""

from __future__ import annotations

from tests.support.journals import UUID_A, Journal, read_gtids
from tests.support.rule_cases import case, innodb, local, replica, source

# Tier 0


@case()
def gtid_text_wellformed(breaks: bool) -> Journal:
    journal = source()
    row = journal.row()
    local(row)["gtid_executed"] = f"{UUID_A}:1-{'-' if breaks else ''}3"
    return journal


@case()
def gtid_text_wellformed__tag(breaks: bool) -> Journal:
    """Tags exist from 8.3 on."""
    journal = Journal(version="8.2.0" if breaks else "8.3.0").begin().groups(1)
    journal.row(gtid_purged=f"{UUID_A}:batch:1" if breaks else "")
    return journal


@case()
def gtid_text_wellformed__event(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.group(f"{UUID_A}:4")[0]["gtid"] = f"{UUID_A}:{0 if breaks else 4}"
    return journal


@case()
def gtid_text_wellformed__previous(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.rotate()
    journal.records[-1]["gtid_set"] = f"{UUID_A}:1{'--' if breaks else '-'}3"
    return journal


@case()
def gtid_text_canonical(breaks: bool) -> Journal:
    journal = source()
    local(journal.row())["gtid_executed"] = f"{UUID_A}:1-2:3" if breaks else f"{UUID_A}:1-3"
    return journal


@case()
def log_status_row_complete(breaks: bool) -> Journal:
    journal = source()
    row = local(journal.row())
    if breaks:
        del row["binary_log_position"]
    return journal


@case()
def log_status_row_complete__directory(breaks: bool) -> Journal:
    journal = source()
    local(journal.row())["binary_log_file"] = ("./" if breaks else "") + "binlog.000001"
    return journal


@case()
def log_status_row_complete__no_binlog(breaks: bool) -> Journal:
    journal = source()
    row = local(journal.row())
    if breaks:
        del row["binary_log_file"], row["binary_log_position"]
    return journal


@case()
def log_status_row_complete__number(breaks: bool) -> Journal:
    journal = source()
    innodb(journal.row())["LSN"] += 0.0 if breaks else 0
    return journal


@case()
def channel_rows_unique(breaks: bool) -> Journal:
    journal = source()
    row = journal.row()
    names = ("east", "EAST" if breaks else "west")
    row["row"]["REPLICATION"]["channels"] = [
        {"channel_name": name, "relay_log_file": "", "relay_log_position": 0} for name in names
    ]
    return journal


@case()
def channel_rows_unique__table(breaks: bool) -> Journal:
    journal = source()
    names = ("east", "EAST" if breaks else "west")
    journal.row(slave_master_info=[{"Channel_name": name} for name in names])
    return journal


@case()
def snapshot_never_silently_empty(breaks: bool) -> Journal:
    journal = source()
    error = {} if breaks else {"error": {"code": 1227, "message": "BACKUP_ADMIN"}}
    journal.record("log_status", collection_id="c1", **error)
    return journal


# Tier 1


@case()
def binlog_file_framing(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.stop()
    if breaks:
        journal.binlog.stop()
    return journal


@case()
def binlog_file_framing__format(breaks: bool) -> Journal:
    journal = source()
    if breaks:
        journal.records[1]["type"] = "IGNORABLE"
    return journal


@case()
def binlog_file_framing__previous(breaks: bool) -> Journal:
    journal = Journal().begin()
    if breaks:
        journal.records[2]["type"] = "STOP"
        del journal.records[2]["gtid_set"]
    return journal


@case()
def log_events_contiguous(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.end += 1 if breaks else 0
    return journal.groups(2)


@case()
def log_events_contiguous__lost_group(breaks: bool) -> Journal:
    journal = source(8)
    if breaks:
        del journal.records[3 + 5 * 3 : 3 + 5 * 4]
    return journal


@case()
def log_events_contiguous__relay(breaks: bool) -> Journal:
    journal, relay, more = replica()
    relay.end += 1 if breaks else 0
    relay.copy(more[0])
    return journal


@case()
def log_events_contiguous__beyond_4_gib(breaks: bool) -> Journal:
    """Beyond 4 GiB the header's field wraps; the offset, counted, does not."""
    journal = source()
    group = journal.binlog.group()
    group[3]["length"] += 2**32
    group[0]["transaction_length"] += 2**32
    group[4]["start"] += 2**32
    journal.binlog.end += 2**32
    for event in journal.binlog.group():
        event["start"] -= 2**32 if breaks else 0
    return journal


@case()
def binlog_log_pos_field_agrees(breaks: bool) -> Journal:
    journal = source()
    journal.records[-1]["log_pos"] += 19 if breaks else 0
    return journal


@case()
def log_redelivery_identical(breaks: bool) -> Journal:
    journal = source()
    journal.records[-1]["checksum"] = 7
    again = dict(journal.records[-1], checksum=8 if breaks else 7)
    journal.records.append(again)
    return journal


@case()
def log_redelivery_identical__gtid(breaks: bool) -> Journal:
    journal = source()
    again = dict(journal.records[-5], ts=journal.ts)
    again["gtid"] = f"{UUID_A}:{9 if breaks else 3}"
    journal.records.append(again)
    return journal


@case()
def log_redelivery_identical__relay(breaks: bool) -> Journal:
    journal, relay, more = replica()
    last = relay.copy(more[0])[-1]
    journal.records.append(dict(last, type="QUERY", query="COMMIT") if breaks else dict(last))
    return journal


@case()
def binlog_rotate_successor(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.rotate()["next_file"] = f"binlog.00000{3 if breaks else 2}"
    return journal


@case()
def binlog_rotate_successor__position(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.rotate()["next_position"] = 5 if breaks else 4
    return journal


@case()
def binlog_group_wellformed(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.group(form="ddl")
    if breaks:
        journal.binlog.event("TABLE_MAP", 50)
    return journal


@case()
def binlog_group_wellformed__begin_twice(breaks: bool) -> Journal:
    journal = source()
    group = journal.binlog.group(form="statement")
    group[3]["query"] = "BEGIN" if breaks else "STATEMENT"
    return journal


@case()
def binlog_group_wellformed__format_description(breaks: bool) -> Journal:
    journal = source()
    group = journal.binlog.group()
    if breaks:
        group[3].pop("query", None)
        group[3]["type"] = "FORMAT_DESCRIPTION"
    return journal


@case()
def binlog_group_wellformed__nested(breaks: bool) -> Journal:
    journal = source()
    group = journal.binlog.group()
    if breaks:
        for key in ("query", "gtid"):
            group[3].pop(key, None)
        group[3]["type"] = "ANONYMOUS_GTID"
        journal.variables["gtid_mode"] = "ON_PERMISSIVE"
        group[4].update(type="TABLE_MAP")
    return journal


@case()
def binlog_group_wellformed__rotate_inside(breaks: bool) -> Journal:
    journal = source()
    group = journal.binlog.group()
    if breaks:
        del journal.records[-1:]
        journal.binlog.end -= group[-1]["length"]
        journal.binlog.gtids.remove(group[0]["gtid"])
    journal.binlog.rotate()
    return journal


@case()
def binlog_group_wellformed__relay(breaks: bool) -> Journal:
    journal, relay, more = replica()
    relay.copy(more[0][:1] + more[0][2 if breaks else 1 :])
    return journal


@case()
def binlog_group_wellformed__events_lost(breaks: bool) -> Journal:
    """The server says so itself, in a group of its own, also where many are read at once."""
    journal = source().groups(20)
    group = journal.binlog.group(form="payload")
    if breaks:
        group[-1]["type"] = "INCIDENT"
    journal.groups(20).row()
    return journal


@case()
def binlog_group_wellformed__events_lost_behind(breaks: bool) -> Journal:
    """Or after the group of which it could not log all; the next events go to another file."""
    journal = source()
    if breaks:
        journal.binlog.event("INCIDENT", 59)
    journal.row()
    journal.binlog.rotate()
    journal.groups(1).row()
    return journal


@case()
def transaction_length_agrees(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.group()[0]["transaction_length"] += 1 if breaks else 0
    return journal


@case()
def transaction_length_agrees__relay(breaks: bool) -> Journal:
    journal, relay, more = replica()
    relay.copy(more[0])[0]["transaction_length"] -= 1 if breaks else 0
    return journal


@case()
def sequence_numbers_valid(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.sequence_number += 1 if breaks else 0
    journal.binlog.group()[0]["last_committed"] = 0
    return journal


@case()
def sequence_numbers_valid__parent(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.group()[0]["last_committed"] = 4 if breaks else 3
    return journal


@case()
def gtid_logged_once(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.group(f"{UUID_A}:{2 if breaks else 4}")
    return journal


@case()
def gtid_logged_once__in_an_older_file(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.rotate()
    journal.binlog.group(f"{UUID_A}:{2 if breaks else 4}")
    return journal


@case()
def previous_gtids_continuity(breaks: bool) -> Journal:
    journal = source()
    journal.binlog.rotate()
    journal.records[-1]["gtid_set"] = f"{UUID_A}:1-{2 if breaks else 3}"
    return journal


@case()
def previous_gtids_continuity__while_committing(breaks: bool) -> Journal:
    """XA COMMIT ends the file: a rotation does not wait for it."""
    journal = source()
    journal.binlog.group(form="xa_commit")
    journal.binlog.rotate()
    journal.records[-1]["gtid_set"] = f"{UUID_A}:1-{3 if breaks else 4}"
    return journal


@case()
def previous_gtids_continuity__unlogged(breaks: bool) -> Journal:
    """What only the table had must count as purged."""
    journal = source()
    journal.binlog.gtids = read_gtids(f"{UUID_A}:1-3:7")
    journal.executed.add(f"{UUID_A}:7")
    journal.binlog.rotate()
    journal.row(gtid_purged="" if breaks else f"{UUID_A}:7")
    return journal


@case()
def gtid_mode_respected(breaks: bool) -> Journal:
    journal = Journal(gtid_mode="ON" if breaks else "ON_PERMISSIVE").begin()
    journal.binlog.group()
    journal.binlog.group(None)
    return journal


@case()
def gtid_mode_respected__off(breaks: bool) -> Journal:
    journal = Journal(gtid_mode="OFF" if breaks else "OFF_PERMISSIVE").begin()
    journal.binlog.group(None)
    journal.binlog.group()
    return journal


@case()
def relay_source_pos_monotone(breaks: bool) -> Journal:
    journal, relay, more = replica()
    relay.copy(more[0])
    relay.copy(more[1])
    if not breaks:
        journal.record("channel", channel="", action="reconnect")
    relay.copy(more[0])
    return journal
