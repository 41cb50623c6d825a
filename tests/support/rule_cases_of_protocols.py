"""Cases of the invariants of collections, backups and clones."""

from __future__ import annotations

from tests.support.journals import UUID_A, Journal
from tests.support.rule_cases import case, source

# Collection protocol


def collecting(steps: str, leave_after: int = 1_000) -> Journal:
    """One collection: ``+resource`` locks, ``-resource`` unlocks, ``!`` collects, ``b`` logs."""
    journal = source()
    fields = {"collection_id": "c1", "session": 7}
    journal.record("collection", step="enter", **fields)
    began = journal.ts
    for word in steps.split():
        if word == "b":
            journal.groups(1)
        elif "@" in word:  # an engine's step with where its log stands
            resource, _, lsn = word[1:].partition("@")
            step = {"+": "lock", "!": "collect", "-": "unlock"}[word[0]]
            journal.record("collection", step=step, resource=resource, lsn=int(lsn), **fields)
        elif word == "!":
            journal.record("collection", step="collect", resource="binlog", **fields)
        else:
            step = "lock" if word[0] == "+" else "unlock"
            journal.record("collection", step=step, resource=word[1:], **fields)
    journal.ts = max(journal.ts, began + leave_after - 1_000)
    journal.record("collection", step="leave", **fields)
    return journal


LOCKS = "+channel_map +channel: +binlog +gtid_state +engine:InnoDB"
UNLOCKS = "-engine:InnoDB -gtid_state -binlog -channel: -channel_map"


@case()
def collection_lock_order(breaks: bool) -> Journal:
    if breaks:
        swapped = "+channel_map +channel: +engine:InnoDB +binlog +gtid_state"
        return collecting(f"{swapped} ! -gtid_state -binlog -engine:InnoDB -channel: -channel_map")
    return collecting(f"{LOCKS} ! {UNLOCKS}")


@case()
def collection_lock_order__first(breaks: bool) -> Journal:
    first = "+binlog" if breaks else "+channel_map"
    return collecting(f"{first} ! {first.replace('+', '-')}")


@case()
def collection_lock_order__two(breaks: bool) -> Journal:
    journal = source()
    first, second = ({"collection_id": f"c{n}", "session": n} for n in (1, 2))
    for fields in (first, second):
        journal.record("collection", step="enter", **fields)
    journal.record("collection", step="lock", resource="channel_map", **first)
    if not breaks:
        journal.record("collection", step="unlock", resource="channel_map", **first)
    journal.record("collection", step="lock", resource="channel_map", **second)
    return journal


@case()
def collection_unlock_complete__not_held(breaks: bool) -> Journal:
    return collecting(f"{LOCKS} ! {UNLOCKS}" + (" -binlog" if breaks else ""))


@case()
def collection_unlock_complete(breaks: bool) -> Journal:
    unlocks = UNLOCKS.replace(" -channel_map", "") if breaks else UNLOCKS
    return collecting(f"{LOCKS} ! {unlocks}")


@case()
def collection_unlock_complete__order(breaks: bool) -> Journal:
    unlocks = UNLOCKS.replace("-gtid_state -binlog", "-binlog -gtid_state") if breaks else UNLOCKS
    return collecting(f"{LOCKS} ! {unlocks}")


@case()
def no_progress_while_locked(breaks: bool) -> Journal:
    return collecting(f"{LOCKS} ! b {UNLOCKS}" if breaks else f"b {LOCKS} ! {UNLOCKS} b")


@case()
def no_progress_while_locked__reset(breaks: bool) -> Journal:
    journal = source()
    fields = {"collection_id": "c1", "session": 7}
    journal.record("collection", step="enter", **fields)
    if breaks:
        journal.record("collection", step="lock", resource="channel_map", **fields)
    journal.record("binlog_reset")
    if breaks:
        journal.record("collection", step="collect", resource="binlog", **fields)
    return journal


@case()
def no_progress_while_locked__engine(breaks: bool) -> Journal:
    moved = 5_001 if breaks else 5_000
    locks, unlocks = (
        steps.replace("engine:InnoDB", f"engine:InnoDB@{lsn}")
        for steps, lsn in ((LOCKS, 5_000), (UNLOCKS, moved))
    )
    return collecting(f"{locks} !engine:InnoDB@5000 {unlocks}")


@case()
def collection_within_budget(breaks: bool) -> Journal:
    return collecting(f"{LOCKS} ! {UNLOCKS}", leave_after=1_000_000 + breaks)


# Commit zone and backup locks


def zone(*steps: str) -> Journal:
    """Steps of the commit zone; ``enter 1`` has a ticket."""
    journal = Journal()
    journal.start()
    for step in steps:
        word, _, ticket = step.partition(" ")
        journal.record("zone", step=word, **({"ticket": ticket} if ticket else {}))
    return journal


@case()
def zone_entry_protocol(breaks: bool) -> Journal:
    order = ("enter 2", "open") if breaks else ("open", "enter 2")
    return zone("enter 1", "close", "drop 1", "wait", "validity_point", *order, "drop 2")


@case()
def zone_entry_protocol__dropped_twice(breaks: bool) -> Journal:
    return zone("enter 1", "drop 1", *(["drop 1"] if breaks else []))


@case()
def zone_entry_protocol__closed_twice(breaks: bool) -> Journal:
    return zone("close", *([] if breaks else ["open"]), "close", "open")


@case()
def zone_entry_protocol__open_twice(breaks: bool) -> Journal:
    return zone("close", "open", *(["open"] if breaks else []))


@case()
def vp_only_in_empty_closed_zone(breaks: bool) -> Journal:
    order = ("validity_point", "drop 1") if breaks else ("drop 1", "validity_point")
    return zone("enter 1", "close", *order, "open")


@case()
def engine_lock_budget(breaks: bool) -> Journal:
    journal = Journal()
    journal.start()
    journal.record("engine_lock", step="begin", round=1)
    journal.ts += 2_000_000 - 1_000 + breaks
    journal.record("engine_lock", step="lock", engine="innodb", round=1)
    journal.record("engine_lock", step="done", round=1)
    if not breaks:
        del journal.records[-1]
    return journal


@case()
def engine_lock_budget__pause(breaks: bool) -> Journal:
    journal = Journal()
    journal.start()
    journal.record("engine_lock", step="begin", round=1)
    journal.record("engine_lock", step="timeout", round=1)
    journal.record("engine_lock", step="unlock_all", round=1)
    journal.ts += 10_000_000 - 1_000 - breaks
    journal.record("engine_lock", step="retry", round=2)
    return journal


# GTID persistence


@case()
def gtid_table_within_executed(breaks: bool) -> Journal:
    journal = source()
    journal.row(
        gtid_executed_table=f"{UUID_A}:1-4",
        gtid_owned="",
        prepared_xa="" if breaks else f"{UUID_A}:4",
    )
    return journal


@case()
def purge_waits_for_gtid_persist(breaks: bool) -> Journal:
    journal = source()
    persister = "gtid_persister"
    journal.record(persister, step="commit", trx_no=10, gtid=f"{UUID_A}:1")
    journal.record(persister, step="commit", trx_no=12, gtid=f"{UUID_A}:2")
    journal.record(persister, step="write", gtids=f"{UUID_A}:1", trx_num_gtid=11)
    journal.record(persister, step="purge", trx_no=13 if breaks else 12)
    return journal


@case()
def purge_waits_for_gtid_persist__number_falls(breaks: bool) -> Journal:
    journal = source()
    for number in (11, 10 if breaks else 11):
        journal.record("gtid_persister", step="write", gtids="", trx_num_gtid=number)
    return journal
