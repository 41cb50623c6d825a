"""Cases of the rules of backup images (WL#3576)."""

from __future__ import annotations

from typing import Any

from tests.support.journals import UUID_A, UUID_C, Journal
from tests.support.rule_cases import case, replica, source


def image(journal: Journal, back: int = 0, **summary: Any) -> Journal:
    """An image of where the log stands, its position ``back`` bytes before."""
    coordinates = {"binlog_file": journal.binlog.file, "binlog_position": journal.binlog.end - back}
    body = {**coordinates, "gtid_executed": str(journal.binlog.gtids), **summary}
    journal.record("backup", step="image", backup_id="b1", **body)
    return journal


def begin(journal: Journal, *steps: str) -> Journal:
    """A backup begins; then steps of the zone, ``group`` for a group."""
    journal.record("backup", step="begin", backup_id="b1", tables=["shop.orders"])
    for step in steps:
        if step == "group":
            journal.groups(1)
        else:
            journal.record("zone", step=step)
    return journal


@case()
def backup_image_names_one_state(breaks: bool) -> Journal:
    """The set ends with the position, not a group later."""
    journal = source()
    return image(journal, gtid_executed=f"{UUID_A}:1-{2 if breaks else 3}")


@case()
def backup_image_names_one_state__ahead(breaks: bool) -> Journal:
    """The position of an older state with the set of that state, or with that of the last."""
    journal = source(3)
    length = journal.groups(1).binlog.end
    journal.groups(1)
    back = journal.binlog.end - length
    return image(journal, back, gtid_executed=f"{UUID_A}:1-{5 if breaks else 4}")


@case()
def backup_image_names_one_state__boundary(breaks: bool) -> Journal:
    """The position ends a group: the set alone does not tell."""
    journal = source()
    if breaks:
        return image(journal, 31, gtid_executed=f"{UUID_A}:1-2")
    return image(journal)


@case()
def backup_image_names_one_state__end(breaks: bool) -> Journal:
    """The position is in the log."""
    return image(source(), -1 if breaks else 0)


@case()
def backup_image_names_one_state__validity_point(breaks: bool) -> Journal:
    """The position is that of the validity point, whoever logged before the zone was empty."""
    journal = begin(source(), "close", "wait")
    early = journal.binlog.end, str(journal.binlog.gtids)
    journal.groups(1)
    journal.record("zone", step="validity_point")
    if breaks:
        return image(journal, journal.binlog.end - early[0], gtid_executed=early[1])
    return image(journal)


@case()
def backup_image_names_one_state__no_validity_point(breaks: bool) -> Journal:
    """A backup that closes the zone takes its validity point before its image."""
    return image(begin(source(), "close", *([] if breaks else ["validity_point"])))


@case()
def backup_image_names_one_state__of_one_zone_of_several(breaks: bool) -> Journal:
    """Another zone is closed and opened at any time; a validity point is of the backup's alone."""
    journal = begin(source(), "close", "wait", *([] if breaks else ["validity_point"]))
    for step in ("close", "wait", "open"):
        journal.record("zone", step=step, zone="archive")
    return image(journal)


@case()
def backup_image_names_one_state__of_a_named_zone(breaks: bool) -> Journal:
    """The zone of a backup is known by its tables, whatever its name."""
    journal = begin(source())
    tables = {"tables": ["shop.orders"]} if breaks else {}
    journal.record("zone", step="close", zone="archive", **tables)
    journal.record("zone", step="open", zone="archive")
    return image(journal)


@case()
def backup_image_names_one_state__event(breaks: bool) -> Journal:
    """The position ends an event."""
    return image(source(), 30 if breaks else 0)


@case()
def backup_image_names_one_state__event_of_a_backup_that_began(breaks: bool) -> Journal:
    """Whatever zones it has: that position is none of an image."""
    journal = begin(source())
    if breaks:
        return image(journal, 30, gtid_executed=f"{UUID_A}:1-2")
    return image(journal)


@case()
def backup_image_names_one_state__validity_point_of_a_named_zone(breaks: bool) -> Journal:
    """It tells whose zone that is, without its tables."""
    journal = begin(source())
    for step in ("close", "wait", "validity_point", "open"):
        journal.record("zone", step=step, zone="archive")
    return image(journal.groups(1) if breaks else journal)


@case()
def backup_image_names_one_state__of_a_zone_that_is_only_opened(breaks: bool) -> Journal:
    """What it was closed for, before the backup began, is not known."""
    journal = source()
    if not breaks:
        journal.record("zone", step="close")
    return image(begin(journal, *(["close"] if breaks else []), "open"))


@case()
def backup_image_names_one_state__opened(breaks: bool) -> Journal:
    """Entries of others may follow the validity point; after the opening it is too late."""
    journal = begin(source(), "close", "wait", "validity_point", "group")
    if breaks:
        journal.record("zone", step="open")
        journal.groups(1)
        return image(journal)
    image(journal)
    journal.record("zone", step="open")
    return journal


@case()
def backup_image_names_one_state__unlogged(breaks: bool) -> Journal:
    """What is neither logged nor purged is not in an image."""
    journal = source()
    journal.row()
    more = f",{UUID_C}:1" if breaks else ""
    return image(journal, gtid_executed=f"{UUID_A}:1-3{more}")


def positions(stored: tuple[str, int], applied: tuple[str, int], **more: Any) -> dict[str, Any]:
    """What an image has of the channel."""
    return {
        "channel": "",
        "relay_log_file": applied[0],
        "relay_log_pos": applied[1],
        "slave_relay_log_info": {
            "Relay_log_name": f"./{stored[0]}",
            "Relay_log_pos": stored[1],
            "Master_log_name": "binlog.000001",
            "Master_log_pos": 500,
        },
        "slave_master_info": {"Master_log_name": "", "Master_log_pos": 4},
        **more,
    }


@case()
def backup_replica_positions_agree(breaks: bool) -> Journal:
    """relay.info names the last transaction, not the one before."""
    journal, relay, more = replica(3, replica_parallel_workers=0)
    before = relay.coordinates
    relay.copy(more[0])
    journal.binlog.group(more[0][0]["gtid"], server_id=3)
    return image(
        journal, channels=[positions(before if breaks else relay.coordinates, relay.coordinates)]
    )


@case()
def backup_replica_positions_agree__workers(breaks: bool) -> Journal:
    """With several workers relay.info is a low-water mark."""
    journal, relay, more = replica(3, replica_parallel_workers=0 if breaks else 4)
    before = relay.coordinates
    relay.copy(more[0])
    journal.binlog.group(more[0][0]["gtid"], server_id=3)
    return image(journal, channels=[positions(before, relay.coordinates)])


@case()
def backup_replica_positions_agree__statement(breaks: bool) -> Journal:
    """Only a transaction of InnoDB writes relay.info with its commit."""
    form = "rows" if breaks else "myisam"
    [*_, group] = Journal("s", UUID_C, 3).begin().groups(3).groups(1, form).binlog.groups
    journal, relay, _ = replica(3, replica_parallel_workers=0)
    before = relay.coordinates
    relay.copy(group)
    journal.binlog.group(group[0]["gtid"], form, server_id=3)
    return image(journal, channels=[positions(before, relay.coordinates)])


@case()
def backup_replica_positions_agree__set(breaks: bool) -> Journal:
    """What relay.info has passed, the image holds."""
    journal, relay, more = replica(3)
    if breaks:
        relay.copy(more[0])
    return image(journal, channels=[positions(relay.coordinates, relay.coordinates)])


@case()
def backup_replica_positions_agree__executed(breaks: bool) -> Journal:
    """relay.info is not beyond the executed position."""
    journal, relay, _ = replica(3)
    executed = {
        "exec_source_log_file": "binlog.000001",
        "exec_source_log_pos": 499 if breaks else 500,
    }
    return image(journal, channels=[positions(relay.coordinates, relay.coordinates, **executed)])


@case()
def backup_replica_positions_agree__executed_set(breaks: bool) -> Journal:
    """What the executed position has passed, the image holds."""
    journal, relay, more = replica(3)
    applied = relay.coordinates
    relay.copy(more[0])
    executed = {
        "exec_source_log_file": "binlog.000001",
        "exec_source_log_pos": more[0][-1]["log_pos"] - (not breaks),
    }
    return image(journal, channels=[positions(applied, applied, **executed)])


@case()
def backup_replica_positions_agree__master_info(breaks: bool) -> Journal:
    """master.info is not beyond what was read."""
    journal, relay, _ = replica(3)
    read = {"read_source_log_file": "binlog.000001", "read_source_log_pos": 5_000}
    master = {"Master_log_name": "binlog.000001", "Master_log_pos": 5_000 + breaks}
    reported = positions(relay.coordinates, relay.coordinates, slave_master_info=master, **read)
    return image(journal, channels=[reported])


@case()
def backup_replica_positions_agree__read(breaks: bool) -> Journal:
    """The executed position is not beyond the one that was read.

    Behind what the relay log names the receiver may have passed groups that it need not queue.
    """
    journal, relay, _ = replica(3)
    reported = {
        "read_source_log_file": "binlog.000001",
        "read_source_log_pos": 5_000,
        "exec_source_log_file": "binlog.000001",
        "exec_source_log_pos": 5_000 + breaks,
    }
    return image(journal, channels=[positions(relay.coordinates, relay.coordinates, **reported)])


@case()
def backup_replica_positions_agree__own_log(breaks: bool) -> Journal:
    """Neither what was read nor what was executed of the source is in the replica's relay log."""
    journal, relay, _ = replica(3)
    at = relay.coordinates if breaks else ("binlog.000001", 5_000)
    read = {"read_source_log_file": at[0], "read_source_log_pos": at[1]}
    return image(journal, channels=[positions(relay.coordinates, relay.coordinates, **read)])


@case()
def backup_replica_positions_agree__of_each_channel(breaks: bool) -> Journal:
    """Each channel that the server has is in the image, and one that is gone is not."""
    journal, relay, _ = replica(3)
    journal.record("channel", channel="gone", action="change_source", source_uuid=UUID_A)
    journal.record("channel", channel="gone", action="reset_all")
    journal.record("channel", channel="group_replication_applier", action="start_applier")
    stored = [] if breaks else [positions(relay.coordinates, relay.coordinates)]
    return image(journal, channels=stored)
