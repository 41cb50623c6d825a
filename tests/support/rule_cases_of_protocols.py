"""Cases of the rules of collections, backups and clones."""

from __future__ import annotations

from tests.support.journals import UUID_A, UUID_C, Journal, read_gtids
from tests.support.rule_cases import case, innodb, source

# Collection protocol


def collecting(steps: str, leave_after: int = 1_000, journal: Journal | None = None) -> Journal:
    """One collection: ``+log`` locks, ``!log`` collects, ``-log`` unlocks, ``b`` logs a group.

    ``error`` is the step of that name.
    """
    journal = journal or source()
    fields = {"collection_id": "c1", "session": 7}
    journal.record("collection", step="enter", **fields)
    began = journal.ts
    for word in steps.split():
        if word == "b":
            journal.groups(1)
        elif word == "error":
            journal.record("collection", step="error", **fields)
        elif "@" in word:  # an engine's step with where its log stands
            resource, _, lsn = word[1:].partition("@")
            step = {"+": "lock", "!": "collect", "-": "unlock"}[word[0]]
            journal.record("collection", step=step, resource=resource, lsn=int(lsn), **fields)
        else:
            step = {"+": "lock", "!": "collect", "-": "unlock"}[word[0]]
            journal.record("collection", step=step, resource=word[1:], **fields)
    journal.ts = max(journal.ts, began + leave_after - 1_000)
    journal.record("collection", step="leave", **fields)
    return journal


TAKEN = "+LOCK_collect_instance_log +channel_map +LOCK_plugin -LOCK_plugin"
LOGS = ("channel:", "binlog", "gtid_state", "engine:InnoDB")
LOCKS = " ".join((TAKEN, *(f"+{log}" for log in LOGS)))
COLLECTS = " ".join(f"!{log}" for log in LOGS)
RELEASES = "-channel_map -LOCK_collect_instance_log"
UNLOCKS = " ".join((*(f"-{log}" for log in LOGS[::-1]), RELEASES))

SOURCE_LOCKS, SOURCE_COLLECTS, SOURCE_UNLOCKS = (
    " ".join(word for word in steps.split() if not word.endswith("channel:"))
    for steps in (LOCKS, COLLECTS, UNLOCKS)
)
"""Of a server without channels."""


def answered(journal: Journal) -> Journal:
    """With the row of the collection."""
    journal.row()
    return journal


@case()
def collection_lock_order(breaks: bool) -> Journal:
    if breaks:
        swapped = f"{TAKEN} +channel: +engine:InnoDB +binlog +gtid_state"
        return collecting(f"{swapped} {COLLECTS} {UNLOCKS}")
    return collecting(f"{LOCKS} {COLLECTS} {UNLOCKS}")


@case()
def collection_lock_order__first(breaks: bool) -> Journal:
    taken = f"+channel: {TAKEN}" if breaks else f"{TAKEN} +channel:"
    return collecting(f"{taken} +binlog +gtid_state +engine:InnoDB {COLLECTS} {UNLOCKS}")


@case()
def collection_lock_order__while_plugins_are_listed(breaks: bool) -> Journal:
    """A lock that comes before theirs is out of order, but does not show that theirs is kept."""
    channels, plugins = "+channel_map", "+LOCK_plugin"
    taken = f"{plugins} {channels}" if breaks else f"{channels} {plugins}"
    locks = LOCKS.replace(f"{channels} {plugins}", taken)
    return collecting(f"{locks} {COLLECTS} {UNLOCKS}")


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
    return collecting(f"{LOCKS} {COLLECTS} {UNLOCKS}" + (" -binlog" if breaks else ""))


@case()
def collection_unlock_complete(breaks: bool) -> Journal:
    unlocks = UNLOCKS.replace(" -channel_map", "") if breaks else UNLOCKS
    return collecting(f"{LOCKS} {COLLECTS} {unlocks}")


@case()
def collection_unlock_complete__left(breaks: bool) -> Journal:
    unlocks = UNLOCKS.replace(" -LOCK_collect_instance_log", "") if breaks else UNLOCKS
    return collecting(f"{LOCKS} {COLLECTS} {unlocks}")


@case()
def collection_unlock_complete__order(breaks: bool) -> Journal:
    logs = " ".join(f"-{log}" for log in LOGS)
    unlocks = f"-channel_map {logs} -LOCK_collect_instance_log" if breaks else f"{logs} {RELEASES}"
    return collecting(f"{LOCKS} {COLLECTS} {unlocks}")


@case()
def collection_unlock_complete__plugins_kept(breaks: bool) -> Journal:
    steps = f"{LOCKS} {COLLECTS} {UNLOCKS}"
    if breaks:
        steps = steps.replace(" -LOCK_plugin", "")
        steps = steps.replace("-channel_map", "-LOCK_plugin -channel_map")
    return collecting(steps)


@case()
def collection_unlock_complete__collector_first(breaks: bool) -> Journal:
    words = RELEASES.split()
    releases = " ".join(words[::-1] if breaks else words)
    return collecting(f"{LOCKS} {COLLECTS} {UNLOCKS.replace(RELEASES, releases)}")


@case()
def collection_steps_complete(breaks: bool) -> Journal:
    collects = COLLECTS.replace(" !gtid_state", "") if breaks else COLLECTS
    return collecting(f"{LOCKS} {collects} {UNLOCKS}")


@case()
def collection_steps_complete__not_locked(breaks: bool) -> Journal:
    steps = f"{LOCKS} {COLLECTS} {UNLOCKS}"
    if breaks:
        steps = steps.replace("+gtid_state ", "").replace("-gtid_state ", "")
    return collecting(steps)


@case()
def collection_steps_complete__without_plugins(breaks: bool) -> Journal:
    """Who has taken them before takes them again."""
    steps = f"{LOCKS} {COLLECTS} {UNLOCKS}"
    without = steps.replace("+LOCK_plugin -LOCK_plugin ", "")
    first, second = (steps, without) if breaks else (without, steps)
    journal = collecting(first)
    return collecting(second, journal=journal)


@case()
def collection_steps_complete__channel_of_the_row(breaks: bool) -> Journal:
    journal = collecting(f"{LOCKS} {COLLECTS} {UNLOCKS}")
    journal.relay("b" if breaks else "")
    journal.row()
    return journal


@case()
def collection_steps_complete__engine_of_the_row(breaks: bool) -> Journal:
    """Of a log that was neither locked nor collected the row can have nothing of its instant."""
    locks, collects, unlocks = SOURCE_LOCKS, SOURCE_COLLECTS, SOURCE_UNLOCKS
    if not breaks:
        locks, collects = f"{locks} +engine:rocksdb", f"{collects} !engine:rocksdb"
        unlocks = f"-engine:rocksdb {unlocks}"
    journal = collecting(f"{locks} {collects} {unlocks}")
    journal.row()["row"]["STORAGE_ENGINES"]["RocksDB"] = {"LSN": 5}
    return journal


@case()
def collection_steps_complete__piecewise(breaks: bool) -> Journal:
    """Each log is locked, collected and unlocked before the next: there is no common instant."""
    if breaks:
        logs = " ".join(f"+{log} !{log} -{log}" for log in LOGS)
        return collecting(f"{TAKEN} {logs} {RELEASES}")
    return collecting(f"{LOCKS} {COLLECTS} {UNLOCKS}")


@case()
def collection_steps_complete__unlocked_before_the_last_lock(breaks: bool) -> Journal:
    """The position is that from before the group, the set may be that of after it."""
    if breaks:
        first = "+channel: +binlog !channel: !binlog -binlog"
        then = "+gtid_state +engine:InnoDB !gtid_state !engine:InnoDB"
        return collecting(f"{TAKEN} {first} b {then} {UNLOCKS.replace('-binlog ', '')}")
    return collecting(f"b {LOCKS} {COLLECTS} {UNLOCKS}")


@case()
def collection_steps_complete__locked_after_a_collection(breaks: bool) -> Journal:
    early, late = ("!channel:", "") if breaks else ("", "!channel:")
    locks = f"{TAKEN} +channel: {early} +binlog +gtid_state +engine:InnoDB"
    return collecting(f"{locks} {late} !binlog !gtid_state !engine:InnoDB {UNLOCKS}")


@case()
def collection_steps_complete__collected_after_an_unlock(breaks: bool) -> Journal:
    if breaks:
        collects = COLLECTS.replace("!gtid_state", "-binlog !gtid_state")
        return collecting(f"{LOCKS} {collects} {UNLOCKS.replace('-binlog ', '')}")
    return collecting(f"{LOCKS} {COLLECTS} -binlog {UNLOCKS.replace('-binlog ', '')}")


@case()
def collection_steps_complete__map_released_in_between(breaks: bool) -> Journal:
    """Channels come and go between the two locks of the map."""
    taken = f"{TAKEN} -channel_map +channel_map" if breaks else TAKEN
    return collecting(f"{LOCKS.replace(TAKEN, taken)} {COLLECTS} {UNLOCKS}")


@case()
def collection_steps_complete__row_after_an_error(breaks: bool) -> Journal:
    collects = "!binlog error" if breaks else "!binlog !gtid_state !engine:InnoDB"
    return answered(collecting(f"{SOURCE_LOCKS} {collects} {SOURCE_UNLOCKS}"))


@case()
def collection_steps_complete__channel_left_out(breaks: bool) -> Journal:
    journal = collecting(f"{LOCKS} {COLLECTS} {UNLOCKS}")
    if not breaks:
        journal.relay("")
    return answered(journal)


@case("log_status_row_complete")
def collection_steps_complete__engine_left_out(breaks: bool) -> Journal:
    journal = collecting(f"{SOURCE_LOCKS} {SOURCE_COLLECTS} {SOURCE_UNLOCKS}")
    row = journal.row()
    if breaks:
        row["row"]["STORAGE_ENGINES"] = {}
    return journal


@case()
def collection_steps_complete__never_left(breaks: bool) -> Journal:
    journal = collecting(f"{SOURCE_LOCKS} {SOURCE_COLLECTS} {SOURCE_UNLOCKS}")
    del journal.records[-1]
    journal.ts = journal.records[-1]["ts"] + 10_000_000 - 1_000 + breaks
    journal.row()
    return journal


@case()
def row_lsn_as_collected(breaks: bool) -> Journal:
    steps = f"{SOURCE_LOCKS} {SOURCE_COLLECTS} {SOURCE_UNLOCKS}"
    lsn = source().lsn + 512
    journal = collecting(steps.replace("engine:InnoDB", f"engine:InnoDB@{lsn}"))
    innodb(journal.row())["LSN"] += 512 * breaks
    return journal


@case()
def no_progress_while_locked(breaks: bool) -> Journal:
    logged = f"{LOCKS} {COLLECTS} b {UNLOCKS}" if breaks else f"b {LOCKS} {COLLECTS} {UNLOCKS} b"
    return collecting(logged)


def moved(kind: str, *, is_locked: bool, **body: object) -> Journal:
    """Something moves while a collection goes on, before or after it has locked the logs."""
    journal = source()
    fields = {"collection_id": "c1", "session": 7}
    journal.record("collection", step="enter", **fields)
    resources = ("LOCK_collect_instance_log", "channel_map", "channel:", "binlog", "gtid_state")
    for resource in resources if is_locked else ():
        journal.record("collection", step="lock", resource=resource, **fields)
    journal.record(kind, **body)
    if is_locked:
        journal.record("collection", step="collect", resource="binlog", **fields)
    return journal


@case()
def no_progress_while_locked__failed(breaks: bool) -> Journal:
    """A collection that fails has no last lock; what it has locked stands still all the same."""
    journal = source()
    fields = {"collection_id": "c1", "session": 7}
    journal.record("collection", step="enter", **fields)
    resources = ["LOCK_collect_instance_log", "channel_map", "channel:", "binlog"]
    for resource in resources if breaks else resources[:-1]:
        journal.record("collection", step="lock", resource=resource, **fields)
    journal.groups(1)
    journal.record("collection", step="error", **fields)
    return journal


@case()
def no_progress_while_locked__after_an_error(breaks: bool) -> Journal:
    """Until it is unlocked."""
    journal = source()
    fields = {"collection_id": "c1", "session": 7}
    journal.record("collection", step="enter", **fields)
    for resource in ("LOCK_collect_instance_log", "channel_map"):
        journal.record("collection", step="lock", resource=resource, **fields)
    journal.record("collection", step="error", **fields)
    if not breaks:
        journal.record("collection", step="unlock", resource="channel_map", **fields)
    journal.groups(1)  # which another lock stops
    journal.record("channel", channel="", action="start_receiver")
    return journal


@case()
def no_progress_while_locked__while_it_unlocks(breaks: bool) -> Journal:
    """WL#9452 asks for no order among the logs: what is still locked stands still."""
    first = "gtid_state" if breaks else "binlog"
    rest = " ".join(f"-{log}" for log in LOGS if log != first)
    return collecting(f"{LOCKS} {COLLECTS} -{first} b {rest} {RELEASES}")


@case()
def no_progress_while_locked__reset(breaks: bool) -> Journal:
    return moved("binlog_reset", is_locked=breaks)


@case()
def no_progress_while_locked__gtid_purged(breaks: bool) -> Journal:
    return moved("gtid_purged", is_locked=breaks, added=f"{UUID_A}:9")


@case()
def no_progress_while_locked__channel(breaks: bool) -> Journal:
    return moved("channel", is_locked=breaks, channel="", action="start_receiver")


@case()
def no_progress_while_locked__flush(breaks: bool) -> Journal:
    table = "slave_master_info"
    return moved("info_write", is_locked=breaks, table=table, channel="", reason="sync", row={})


@case()
def no_progress_while_locked__engine(breaks: bool) -> Journal:
    moved = 5_001 if breaks else 5_000
    locks, unlocks = (
        steps.replace("engine:InnoDB", f"engine:InnoDB@{lsn}")
        for steps, lsn in ((LOCKS, 5_000), (UNLOCKS, moved))
    )
    return collecting(f"{locks} {COLLECTS}@5000 {unlocks}")


@case()
def collection_within_budget(breaks: bool) -> Journal:
    return collecting(f"{LOCKS} {COLLECTS} {UNLOCKS}", leave_after=1_000_000 + breaks)


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
    return zone("enter 1", "close", "wait", *order, "open")


@case()
def vp_only_in_empty_closed_zone__open(breaks: bool) -> Journal:
    """Empty, it is to be closed as well."""
    closed = ("wait",) if breaks else ("close", "wait")
    return zone("enter 1", "drop 1", *closed, "validity_point", *(() if breaks else ("open",)))


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
    journal.record("engine_lock", step="timeout", engine="innodb", round=1)
    journal.record("engine_lock", step="unlock_all", round=1)
    journal.ts += 10_000_000 - 1_000 - breaks
    journal.record("engine_lock", step="retry", round=2)
    return journal


# GTID persistence


@case()
def gtid_persister_steps_complete(breaks: bool) -> Journal:
    """The write that ends first had switched its list before the commit."""
    journal = source()
    persister = "gtid_persister"
    journal.record(persister, step="commit", trx_no=10, gtid=f"{UUID_A}:1")
    journal.record(persister, step="write", gtids="", oldest_trx_no=10)
    journal.record(persister, step="write", gtids="" if breaks else f"{UUID_A}:1", oldest_trx_no=11)
    return journal


@case()
def gtid_persister_steps_complete__number(breaks: bool) -> Journal:
    journal = source()
    persister = "gtid_persister"
    journal.record(persister, step="number", trx_num_gtid=10)
    for number in (11, 12):
        gtid = f"{UUID_A}:{number - 10}"
        journal.record(persister, step="commit", trx_no=number - 1, gtid=gtid)
        journal.record(persister, step="write", gtids=gtid, oldest_trx_no=number)
        if not breaks:
            journal.record(persister, step="number", trx_num_gtid=number)
    return journal


@case()
def gtid_persister_steps_complete__recovery(breaks: bool) -> Journal:
    journal = source()
    persister = "gtid_persister"
    journal.record(persister, step="write", gtids="")
    journal.start(crashed=False)
    if not breaks:
        journal.record(persister, step="recover", gtids="", trx_num_gtid=10)
    journal.record(persister, step="commit", trx_no=10, gtid=f"{UUID_A}:4")
    return journal


@case()
def gtid_persister_steps_complete__recovery_told_by_the_start(breaks: bool) -> Journal:
    """A start that names what it found in undo headers needs no step of its own."""
    journal = source()
    journal.record("gtid_persister", step="write", gtids="")
    undo = {} if breaks else {"undo_gtids": ""}
    journal.start(crashed=False, gtid_executed_table="", **undo)
    journal.record("gtid_persister", step="commit", trx_no=10, gtid=f"{UUID_A}:4")
    return journal


@case()
def gtid_persister_steps_complete__same_number(breaks: bool) -> Journal:
    """A write that collected no greater number leaves the page as it is."""
    journal = source()
    journal.record("gtid_persister", step="number", trx_num_gtid=10)
    for _ in range(2):
        journal.record("gtid_persister", step="write", gtids="", oldest_trx_no=10 + breaks)
    return journal


@case()
def undo_purge_steps_complete(breaks: bool) -> Journal:
    journal = source()
    journal.record("gtid_persister", step="number", trx_num_gtid=11)
    journal.record("gtid_persister", step="purge", trx_no=11 + breaks)
    return journal


@case()
def gtid_persisted_in_time__of_a_row(breaks: bool) -> Journal:
    """A persister that never writes, and a server without further commits."""
    journal = source()
    journal.record("gtid_persister", step="commit", trx_no=10, gtid=f"{UUID_A}:1")
    journal.ts += 10_000_000 - 1_000 + breaks
    journal.row()
    return journal


@case()
def purge_waits_for_gtid_persist__after_a_gap(breaks: bool) -> Journal:
    """Another data directory, with numbers of its own, may hide in a gap."""
    journal = source()
    journal.record("gtid_persister", step="number", trx_num_gtid=11)
    if not breaks:
        journal.record("gap")
    journal.record("gtid_persister", step="number", trx_num_gtid=5)
    return journal


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
def gtid_table_within_executed__owned(breaks: bool) -> Journal:
    """Its row is committed before the session gives the GTID up."""
    journal = source()
    owned = "" if breaks else f"{UUID_A}:4#17"
    journal.row(gtid_executed_table=f"{UUID_A}:1-4", gtid_owned=owned, prepared_xa="")
    return journal


@case()
def gtid_table_within_executed__purged(breaks: bool) -> Journal:
    """What is executed need not be in a file that is kept."""
    journal = source()
    journal.executed = read_gtids(f"{UUID_A}:1-3,{UUID_C}:1-4")
    table = f"{UUID_A}:1-3,{UUID_C}:1-{5 if breaks else 4}"
    purged = {"gtid_purged": f"{UUID_C}:1-4", "prepared_xa": ""}
    journal.row(gtid_executed_table=table, gtid_owned="", **purged)
    return journal


@case()
def purge_waits_for_gtid_persist(breaks: bool) -> Journal:
    journal = source()
    persister = "gtid_persister"
    journal.record(persister, step="commit", trx_no=10, gtid=f"{UUID_A}:1")
    journal.record(persister, step="commit", trx_no=12, gtid=f"{UUID_A}:2")
    journal.record(persister, step="write", gtids=f"{UUID_A}:1", trx_num_gtid=11)
    journal.record(persister, step="purge", trx_no=13 if breaks else 11)
    return journal


@case()
def purge_waits_for_gtid_persist__number(breaks: bool) -> Journal:
    """The number of the TRX_SYS page is not beyond a transaction whose GTID is not written."""
    journal = source()
    journal.record("gtid_persister", step="commit", trx_no=10, gtid=f"{UUID_A}:1")
    journal.record("gtid_persister", step="number", trx_num_gtid=10 + breaks)
    return journal


@case()
def purge_waits_for_gtid_persist__number_falls(breaks: bool) -> Journal:
    journal = source()
    for number in (11, 10 if breaks else 11):
        journal.record("gtid_persister", step="write", gtids="", trx_num_gtid=number)
    return journal
