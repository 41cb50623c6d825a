"""Cases of the rules of online backups (WL#3576): zone, critical sequence, engine locks."""

from __future__ import annotations

from tests.support.journals import Journal
from tests.support.rule_cases import case, source


def engine_locks(*steps: tuple[str, int, dict[str, object]]) -> Journal:
    """Steps of engine locking: step, microseconds since the one before, more fields."""
    journal = Journal()
    journal.start()
    for step, after, fields in steps:
        journal.ts += after - 1_000
        journal.record("engine_lock", step=step, **fields)
    return journal


@case()
def engine_lock_budget__time_out_told(breaks: bool) -> Journal:
    return engine_locks(
        ("begin", 1_000, {"round": 1, "timeout": 5_000_000}),
        ("lock", 5_000_000 + breaks, {"engine": "innodb"}),
    )


@case()
def engine_lock_budget__handed_on(breaks: bool) -> Journal:
    given = 500_000 + 50_000 + breaks
    return engine_locks(
        ("begin", 1_000, {"round": 1}),
        ("lock", 1_500_000, {"engine": "myisam", "timeout": 2_000_000}),
        ("lock", 1_000, {"engine": "innodb", "timeout": given}),
    )


@case()
def engine_lock_budget__all_spent(breaks: bool) -> Journal:
    """The last engine gets no more than what clocks may differ by."""
    return engine_locks(
        ("begin", 1_000, {"round": 1}),
        ("lock", 2_000_000, {"engine": "myisam", "timeout": 2_000_000}),
        ("lock", 0, {"engine": "innodb", "timeout": 50_000 + breaks}),
    )


@case()
def engine_lock_budget__goes_on_after_bail_out(breaks: bool) -> Journal:
    steps = [
        ("begin", 1_000, {"round": 1}),
        ("timeout", 2_000_000, {"engine": "innodb"}),
        ("unlock_all", 1_000, {}),
        ("abort", 1_000, {}),
    ]
    new = ("lock", 1_000, {"engine": "innodb"}) if breaks else ("begin", 1_000, {"round": 1})
    return engine_locks(*steps, new)


@case()
def engine_lock_budget__retries_after_bail_out(breaks: bool) -> Journal:
    steps = [
        ("begin", 1_000, {"round": 1}),
        ("timeout", 2_000_000, {"engine": "innodb"}),
        ("unlock_all", 1_000, {}),
        *([("abort", 1_000, {})] if breaks else []),
    ]
    return engine_locks(*steps, ("retry", 10_000_000, {"round": 2}))


@case()
def engine_lock_budget__too_many_rounds(breaks: bool) -> Journal:
    return engine_locks(
        ("begin", 1_000, {"round": 1, "rounds_max": 2}),
        ("timeout", 2_000_000, {"engine": "innodb"}),
        ("unlock_all", 1_000, {}),
        ("retry", 10_000_000, {"round": 2 + breaks, "rounds_max": 2}),
    )


@case()
def engine_lock_budget__a_new_backup_need_not_wait(breaks: bool) -> Journal:
    done = [] if breaks else [("done", 1_000, {})]
    return engine_locks(
        ("begin", 1_000, {"round": 1}),
        ("lock", 1_000, {"engine": "innodb"}),
        *done,
        ("unlock_all", 1_000, {}),
        ("begin", 1_000_000, {"round": 2}),
    )


@case()
def locked_engines_stand_still(breaks: bool) -> Journal:
    journal = source()
    journal.record("engine_lock", step="begin", round=1)
    journal.record("engine_lock", step="lock", engine="binlog")
    if not breaks:
        journal.record("engine_lock", step="unlock_all")
    return journal.groups(1)


@case()
def locked_engines_stand_still__of_a_cluster(breaks: bool) -> Journal:
    journal = source()
    journal.record("engine_lock", step="begin", round=1)
    journal.record("statement", engine="ndb", type="dml")
    for engine in ("NDB", "InnoDB"):
        journal.record("engine_lock", step="lock", engine=engine)
    journal.record("statement", engine="innodb", type="dml")
    if not breaks:
        journal.record("engine_lock", step="unlock_all")
    journal.record("statement", engine="ndb", type="dml")
    return journal


def sequence(*steps: str) -> Journal:
    """Steps of a zone: ``log``, ``commit``, ``unlock`` have thread@ticket:table, as 5@1:shop.a."""
    words = {"log": "write_binlog", "commit": "commit", "unlock": "unlock_tables"}
    journal = Journal()
    journal.start()
    for step in steps:
        word, _, who = step.partition(" ")
        if word in words:
            thread, _, rest = who.partition("@")
            ticket, _, table = rest.partition(":")
            fields: dict[str, object] = {"thread": int(thread)}
            fields |= {"ticket": int(ticket)} if ticket else {}
            fields |= {"tables": [table]} if table else {}
            journal.record("zone", step=words[word], **fields)
        elif word == "metadata":
            journal.record("backup_lock", step="lock", lock="instance", session=9)
        elif word == "close":
            journal.record("zone", step=word, tables=["shop.a", "shop.b"])
        else:
            journal.record("zone", step=word, **({"ticket": int(who)} if who else {}))
    return journal


@case()
def critical_sequence_in_zone(breaks: bool) -> Journal:
    table = "shop.a" if breaks else "scratch.a"
    return sequence("close", "wait", f"log 5@:{table}", f"unlock 5@:{table}", "open")


@case()
def critical_sequence_in_zone__of_tables_that_are_not_named(breaks: bool) -> Journal:
    """They may be others than those of the backup."""
    return sequence("close", "wait", f"log 5@{':shop.a' if breaks else ''}", "open")


@case()
def critical_sequence_in_zone__of_the_backup_that_runs(breaks: bool) -> Journal:
    order = ("log 5@:shop.a", "open") if breaks else ("open", "log 5@:shop.a")
    return sequence("close", "wait", *order)


@case()
def critical_sequence_in_zone__between_logging_and_unlocking(breaks: bool) -> Journal:
    point, unlock = "validity_point", "unlock 5@:shop.a"
    order = (point, unlock) if breaks else (unlock, point)
    return sequence("log 5@:shop.a", "close", "wait", "commit 5@:shop.a", *order, "open")


@case()
def critical_sequence_in_zone__unlocked_behind_the_ticket(breaks: bool) -> Journal:
    order = ("drop 1", "unlock 5@1:shop.a") if breaks else ("unlock 5@1:shop.a", "drop 1")
    return sequence("enter 1", "log 5@1:shop.a", "commit 5@1:shop.a", *order)


@case()
def critical_sequence_in_zone__visible_before_logged(breaks: bool) -> Journal:
    order = ("unlock 5@1", "log 5@1") if breaks else ("log 5@1", "log 5@1", "unlock 5@1")
    return sequence("enter 1", *order, "drop 1")


@case("zone_entry_protocol")
def critical_sequence_in_zone__of_one_zone_of_several(breaks: bool) -> Journal:
    journal = sequence("enter 1")
    names = ("archive", "backup")
    for name in names:
        journal.record("zone", step="enter", ticket=1, zone=name)
        journal.record("zone", step="write_binlog", thread=1, ticket=1, zone=name)
    journal.record("zone", step="drop", ticket=1, zone=names[0])
    journal.record("zone", step="commit", thread=1, ticket=1, zone=names[not breaks])
    journal.record("zone", step="drop", ticket=1, zone=names[not breaks])
    return journal


@case()
def no_metadata_change_during_backup(breaks: bool) -> Journal:
    journal = source()
    journal.record("backup_lock", step="lock", lock="instance", session=9)
    if not breaks:
        journal.record("backup_lock", step="unlock", lock="instance", session=9)
    journal.record("statement", engine="InnoDB", type="ddl", binlogged=True)
    return journal


@case()
def no_metadata_change_during_backup__of_two(breaks: bool) -> Journal:
    journal = source()
    for session in (8, 9):
        journal.record("backup_lock", step="lock", lock="instance", session=session)
    journal.record("backup_lock", step="unlock", lock="instance", session=8)
    if not breaks:
        journal.record("backup_lock", step="unlock", lock="instance", session=9)
    journal.record("statement", engine="InnoDB", type="ddl")
    return journal


@case()
def no_metadata_change_during_backup__of_rows(breaks: bool) -> Journal:
    """The lock stops no change of rows."""
    journal = source()
    journal.record("backup_lock", step="lock", lock="instance", session=9)
    journal.record("statement", engine="InnoDB", type="ddl" if breaks else "dml")
    return journal


@case()
def zone_steps_complete(breaks: bool) -> Journal:
    wait = [] if breaks else ["wait"]
    steps = ("close", "wait", "open", "close", *wait, "validity_point", "open")
    return sequence("metadata", *steps)


@case()
def zone_steps_complete__sequence(breaks: bool) -> Journal:
    """A ticket is dropped between logging and making visible, and nothing follows."""
    rest = [] if breaks else ["commit 5@1:shop.a", "unlock 5@1:shop.a"]
    inside = ("enter 1", "log 5@1:shop.a", *rest, "drop 1")
    return sequence("metadata", *inside, "close", "wait", "validity_point", "open")


@case()
def zone_steps_complete__sequence_goes_on(breaks: bool) -> Journal:
    """What follows without a ticket ends what was begun with one, when nothing of it is left."""
    rest = ["commit 5@:shop.a", *([] if breaks else ["unlock 5@:shop.a"])]
    outside = ("enter 1", "log 5@1:shop.a", "drop 1", *rest)
    return sequence("metadata", *outside, "close", "wait", "validity_point", "open")


@case()
def metadata_lock_steps_complete__of_the_zone(breaks: bool) -> Journal:
    """Who records tickets and the backup's tables records that lock, too."""
    steps = ("enter 1", "close", "drop 1", "wait", "validity_point", "open")
    return sequence(*([] if breaks else ["metadata"]), *steps)


def backup(*steps: str, engine: str = "InnoDB") -> Journal:
    """A backup of one table: ``zone step``, ``engine step name``, ``metadata step``, or its own.

    ``sleep`` is the time between two rounds.
    """
    journal = Journal()
    journal.start()
    about = {"backup_id": "b1"}
    for step in steps:
        kind, _, rest = step.partition(" ")
        word, _, name = rest.partition(" ")
        if kind == "zone":
            journal.record("zone", step=word)
        elif kind == "engine":
            journal.record("engine_lock", step=word, **({"engine": name} if name else {}))
        elif kind == "metadata":
            journal.record("backup_lock", step=word, lock="instance", session=9)
        elif kind == "sleep":
            journal.ts += 10_000_000
        elif kind == "image":
            table = {"name": "shop.a", "engine": engine, "rows": 1, "checksum": "1"}
            journal.record("backup", step="image", tables=[table], **about)
        else:
            journal.record("backup", step=kind, **about)
    return journal


BACKUP = (
    "begin",
    "metadata lock",
    "engine prelock myisam",
    "engine prelock innodb",
    "zone close",
    "zone wait",
    "engine begin",
    "engine lock myisam",
    "engine lock innodb",
    "engine done",
    "zone validity_point",
    "image",
    "engine unlock_all",
    "zone open",
    "metadata unlock",
    "end",
)


def _without(step: str, *, breaks: bool) -> Journal:
    return backup(*(one for one in BACKUP if not (breaks and one == step)))


@case()
def zone_steps_complete__opened(breaks: bool) -> Journal:
    return _without("zone open", breaks=breaks)


@case()
def zone_steps_complete__of_one_zone_of_several(breaks: bool) -> Journal:
    """Another zone may stay closed when a backup ends, that of its validity point not."""
    journal = backup("begin", "metadata lock", "zone close", "zone wait", "zone validity_point")
    journal.record("zone", step="close", zone="archive")
    if breaks:
        journal.record("zone", step="wait", zone="archive")
        journal.record("zone", step="validity_point", zone="archive")
    journal.record("zone", step="open")
    journal.record("backup", step="end", backup_id="b1")
    return journal


@case()
def engine_lock_steps_complete(breaks: bool) -> Journal:
    return _without("engine lock myisam", breaks=breaks)


@case()
def engine_lock_steps_complete__unlocked_too_early(breaks: bool) -> Journal:
    steps = [step for step in BACKUP if step != "engine unlock_all"]
    steps.insert(10 if breaks else 12, "engine unlock_all")
    return backup(*steps)


@case()
def engine_lock_steps_complete__of_the_image(breaks: bool) -> Journal:
    return backup(*BACKUP, engine="NDB" if breaks else "MyISAM")


@case()
def engine_lock_steps_complete__unlocked(breaks: bool) -> Journal:
    return _without("engine unlock_all", breaks=breaks)


@case()
def engine_lock_steps_complete__after_a_time_out(breaks: bool) -> Journal:
    """Those that are locked are unlocked, and another round begins."""
    again = ("engine unlock_all", "sleep", "engine retry", "engine lock myisam")
    steps = ("engine begin", "engine lock myisam", "engine timeout ndb", *again[breaks * 4 :])
    return backup("engine prelock myisam", *steps, "engine lock ndb", "engine done")


@case()
def engine_lock_steps_complete__done_after_a_time_out(breaks: bool) -> Journal:
    last = "engine timeout binlog" if breaks else "engine lock binlog"
    prelocks = ("engine prelock myisam", "engine prelock binlog")
    steps = ("engine begin", "engine lock myisam", last, "engine done", "engine unlock_all")
    return backup(*prelocks, *steps)


@case()
def engine_lock_steps_complete__of_a_backup_before(breaks: bool) -> Journal:
    """One that failed leaves no engine that the next one has to lock."""
    journal = backup("begin", "engine prelock ndb")
    journal.record("backup", step="end", backup_id="b1", error="killed")
    more = backup(*BACKUP[:2], *(["engine prelock ndb"] if breaks else []), *BACKUP[2:])
    journal.records += [{**one, "ts": one["ts"] + journal.ts} for one in more.records[1:]]
    return journal


@case()
def engine_lock_steps_complete__another_round(breaks: bool) -> Journal:
    """The round is over also where nothing was locked in it."""
    again = [] if breaks else ["engine unlock_all", "sleep", "engine retry"]
    return backup("engine begin", "engine timeout myisam", *again, "engine lock myisam")


@case()
def engine_lock_steps_complete__without_another_round(breaks: bool) -> Journal:
    """The time for all engines begins with a round: nothing is locked between two of them."""
    again = [] if breaks else ["engine retry"]
    steps = ("begin", "engine begin", "engine timeout ndb", "engine unlock_all", "sleep", *again)
    return backup(*steps, "engine lock myisam", "engine lock ndb")


@case()
def engine_lock_steps_complete__prelocked_first(breaks: bool) -> Journal:
    """What takes long is done before anything is locked, or between two rounds."""
    unlock = [] if breaks else ["engine unlock_all"]
    steps = ("engine begin", "engine lock binlog", *unlock, "engine prelock ndb")
    return backup(*steps, "engine lock binlog", "engine lock ndb", "engine done")


@case()
def engine_lock_steps_complete__of_a_backup_that_failed(breaks: bool) -> Journal:
    """With its session the locks are gone."""
    journal = backup("begin", "engine begin", "engine lock myisam")
    error = {} if breaks else {"error": "Lost connection to MySQL server during query"}
    journal.record("backup", step="end", backup_id="b1", **error)
    journal.record("engine_lock", step="prelock", engine="myisam")
    return journal


@case()
def metadata_lock_steps_complete(breaks: bool) -> Journal:
    return backup(*(one for one in BACKUP if not (breaks and one.startswith("metadata"))))


@case()
def metadata_lock_steps_complete__begun_unseen(breaks: bool) -> Journal:
    """What was taken before the journal began is not known, unless the backup began after that."""
    journal = backup(*(one for one in BACKUP[2:-2] if one != "image"))
    if not breaks:
        del journal.records[0]
    return journal


@case()
def metadata_lock_steps_complete__released_too_early(breaks: bool) -> Journal:
    steps = [step for step in BACKUP if step != "metadata unlock"]
    steps.insert(10 if breaks else 14, "metadata unlock")
    return backup(*steps)
