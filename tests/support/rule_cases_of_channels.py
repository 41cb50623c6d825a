"""Cases of the invariants of what a row says of a channel."""

from __future__ import annotations

from tests.support.journals import UUID_C, Journal, Record, RelayLog
from tests.support.rule_cases import apply, case, channel, replica

# Tier 2: channels


@case()
def relay_position_on_written_boundary(breaks: bool) -> Journal:
    journal, _relay, _ = replica()
    row = journal.row()
    channel(row)["relay_log_position"] += 1 if breaks else 0
    journal.record("heartbeat")
    return journal


@case()
def relay_position_on_written_boundary__inside(breaks: bool) -> Journal:
    """Inside a group is legal, inside an event is not."""
    journal, _relay, _ = replica()
    channel(journal.row())["relay_log_position"] -= 30 if breaks else 31
    return journal


@case()
def applied_within_flushed(breaks: bool) -> Journal:
    journal, relay, more = replica()
    flushed = relay.place
    events = relay.copy(more[0])
    relay.flushed = flushed
    end = events[1 if breaks else 0]
    journal.row(replica_status=journal.replica_status(Relay_Log_Pos=end["start"] + end["length"]))
    return journal


@case()
def exec_source_pos_within_read(breaks: bool) -> Journal:
    journal, relay, more = replica()
    end = more[0][-1]["start"] + more[0][-1]["length"] if breaks else relay.source[1]  # type: ignore[index]
    journal.row(replica_status=journal.replica_status(Exec_Source_Log_Pos=end))
    return journal


@case()
def applied_relay_gtids_executed(breaks: bool) -> Journal:
    journal, relay, more = replica()
    applied = relay.end
    relay.copy(more[0])
    journal.row(replica_status=journal.replica_status(Relay_Log_Pos=applied + 300 * breaks))
    return journal


@case()
def retrieved_matches_relay(breaks: bool) -> Journal:
    journal, _, _ = replica()
    text = f"{UUID_C}:1-{4 if breaks else 3}"
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=text))
    return journal


@case()
def retrieved_matches_relay__lacks(breaks: bool) -> Journal:
    """What was there at the row before must have been read by now."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[0])
    text = f"{UUID_C}:1-{2 if breaks else 3}"
    journal.row(replica_status=journal.replica_status(Retrieved_Gtid_Set=text))
    return journal


@case()
def master_info_not_ahead_of_relay(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    stored = master_info(relay)
    stored[0]["Master_log_pos"] += 1 if breaks else 0
    journal.row(replica_status=journal.replica_status(), slave_master_info=stored)
    return journal


def master_info(relay: RelayLog) -> list[Record]:
    """The row of slave_master_info, written just now."""
    assert relay.source is not None
    file, position = relay.source
    return [{"Channel_name": "", "Master_log_name": file, "Master_log_pos": position}]


def relay_info(relay: RelayLog) -> list[Record]:
    """The row of slave_relay_log_info with everything applied."""
    assert relay.source is not None
    file, position = relay.source
    return [
        {
            "Channel_name": "",
            "Relay_log_name": f"./{relay.file}",
            "Relay_log_pos": relay.end,
            "Master_log_name": file,
            "Master_log_pos": position,
        }
    ]


@case()
def relay_info_coordinates_paired(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    stored = relay_info(relay)
    stored[0]["Master_log_pos"] -= 300 if breaks else 0
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    return journal


@case()
def relay_info_updated_with_commit(breaks: bool) -> Journal:
    journal, relay, more = replica(replica_parallel_workers=0)
    stored = relay_info(relay)
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    apply(journal, relay, more[0])
    applied = relay.end
    journal.row(
        replica_status=journal.replica_status(Relay_Log_Pos=applied),
        slave_relay_log_info=relay_info(relay),
    )
    apply(journal, relay, more[1])
    journal.row(
        replica_status=journal.replica_status(),
        slave_relay_log_info=stored if breaks else relay_info(relay),
    )
    return journal


@case()
def master_info_flush_points(breaks: bool) -> Journal:
    journal, relay, _ = replica()
    stored = master_info(relay)
    stored[0]["Master_log_pos"] -= 300 if breaks else 0
    journal.record("channel", channel="", action="stop_receiver")
    journal.row(
        replica_status=journal.replica_status(Replica_IO_Running="No"), slave_master_info=stored
    )
    return journal


@case()
def info_repository_unambiguous(breaks: bool) -> Journal:
    journal = Journal()
    journal.start(
        repositories=[
            {
                "channel": "",
                "repository": "slave_master_info",
                "file": True,
                "table": True,
                "option": "TABLE",
                "started": breaks,
            }
        ]
    )
    return journal
