"""A journal that begins, or has a gap, at any place of any case of the rules: nobody is accused."""

from __future__ import annotations

import pytest

from tests.support.evidence_reduced import reduced
from tests.support.journals import Audited, audit
from tests.support.rule_cases import all_cases, apply, replica
from tests.support.rule_cases_of_online_backup import backup

CASES = all_cases()
PLACES = 16
"""In each history, or in all of a short one."""
ENGINES = "engine_lock_steps_complete"
POINT = ("zone close", "zone wait", "zone validity_point", "image")


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_accuses_nobody(name: str) -> None:
    """Rules are undecided whose evidence, or the settings that they depend on, came before."""
    records = CASES[name].build(breaks=False).records
    for place in range(1, len(records), -(-len(records) // PLACES)):
        assert audit(reduced(records, f"gap {place}")).broken == [], place
        assert audit(records[place:]).broken == [], place


@pytest.mark.parametrize(
    ("before", "round_of_locks"),
    [
        ((), ("engine begin", "engine lock innodb")),
        ((), ("engine retry", "engine lock innodb")),
        (("engine lock ndb", "engine unlock_all"), ("engine lock innodb",)),
        (("engine timeout ndb", "engine abort"), ("engine lock innodb",)),
        (None, ("engine lock innodb",)),
    ],
)
@pytest.mark.parametrize("engine", ["InnoDB", "NDB"])
def test_engines_that_were_seen_to_be_locked(
    before: tuple[str, ...] | None, round_of_locks: tuple[str, ...], engine: str
) -> None:
    """Since a round began, or another one ended, or the server started: no gap hides a lock."""
    steps = (*(before or ()), "begin", "metadata lock", *round_of_locks, *POINT)
    records = backup(*steps, engine=engine).records
    result = audit(records if before is None else reduced(records, "gap 1"))
    assert (ENGINES in result.broken) == (engine == "NDB")
    assert (ENGINES, "begin_unseen") not in _reasons(result)


@pytest.mark.parametrize("is_alone", [True, False])
def test_engines_that_may_have_been_locked_before_a_gap(is_alone: bool) -> None:
    """What is locked after it is not all; for a backup that goes on not after another round."""
    point = ("zone close", "zone wait", "zone validity_point", "zone open")
    another = ("engine unlock_all", "engine begin", "engine lock innodb", *point)
    steps = ("begin", "metadata lock", "engine lock innodb", *point, *another[is_alone * 7 :])
    records = backup("engine lock ndb", *steps, "image", engine="NDB").records
    if not is_alone:
        records.insert(3, records[2] | {"backup_id": "b2"})
    result = audit(reduced(records, "gap 2"))
    assert result.broken == []
    assert (ENGINES, "begin_unseen") in _reasons(result)


def _reasons(result: Audited) -> set[tuple[str, str]]:
    return {(rule, one.reason) for one in result.observations for rule in one.rules}


def test_a_retry_after_a_round_that_was_not_seen_is_not_timed() -> None:
    """When that gave up is not known; of one that was seen, it is."""
    steps = ("engine begin", "engine unlock_all", "engine retry")
    assert audit(backup(*steps)).broken == ["engine_lock_budget"]
    assert audit(reduced(backup(*steps[1:]).records, "gap 1")).broken == []


@pytest.mark.parametrize("has_locked", [True, False])
def test_a_gap_is_named_where_an_engine_is_locked(has_locked: bool) -> None:
    """Without one nothing can be missing beside it."""
    lock = ("engine lock innodb",) if has_locked else ()
    records = backup("begin", "metadata lock", *lock, *POINT).records
    seen = _reasons(audit(reduced(records, "gap 1")))
    assert ((ENGINES, "begin_unseen") in seen) == has_locked


@pytest.mark.parametrize("kind", ["binlog", "relay"])
def test_a_start_after_events_of_a_log_is_not_the_first(kind: str) -> None:
    """The journal begins after that one: the server has crashed, and with what redo log is open."""
    journal, relay, more = replica()
    apply(journal, relay, more[0])
    begun = len(journal.records)
    apply(journal, relay, more[1])
    before = [one for one in journal.records[begun:] if one["kind"] == kind]
    since = len(journal.records)
    position = {"file": "binlog.000001", "position": journal.binlog.end}
    journal.start(crashed=True, recovered=position)
    journal.binlog.open(2, str(journal.used))
    relay.open(relay.number + 1)
    relay.connect()
    journal.row(replica_status=journal.replica_status())
    result = audit(before + journal.records[since:])
    assert {one.reason for one in result.observations} == {"crashed_without_redo"}


@pytest.mark.parametrize(
    "name", [one for one in CASES if one.startswith("info_repository") and "reset" not in one]
)
def test_a_start_after_writes_to_a_repository_is_not_the_first(name: str) -> None:
    """What is read back then is what these have left."""
    records = CASES[name].build(breaks=False).records
    for place, record in enumerate(records):
        if record["kind"] == "start":
            before = [one for one in records[:place] if one["kind"] == "info_write"]
            assert audit(before + records[place:]).broken == [], place
