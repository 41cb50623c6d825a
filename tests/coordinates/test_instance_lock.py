"""The instance lock of a backup: DDL is judged while it is held, and no longer."""

from __future__ import annotations

import pytest

from tallystick.coordinates.rules.explanation import explain
from tests.support.journals import Journal, Record, audit


def _instance_lock(step: str, session: int | None) -> Record:
    named = {} if session is None else {"session": session}
    return {"kind": "backup_lock", "step": step, "lock": "instance", **named}


def _end(*, session: int | None = 7, **fields: object) -> Record:
    named = {} if session is None else {"session": session}
    return {"kind": "backup", "step": "end", "backup_id": "monday", **named, **fields}


_STOP, _START = {"kind": "stop"}, {"kind": "start"}
ENDS: dict[str, tuple[Record, ...]] = {
    "unlock": (_instance_lock("unlock", 7),),
    "unlock of a session without a name": (_instance_lock("unlock", None),),
    "lost connection": (_end(error="Lost connection to MySQL server during query"),),
    "lost connection, named at its begin": (_end(session=None, error="Lost connection"),),
    "end of the server": (_STOP,),
    "start of the server": (_START,),
    "lost records": ({"kind": "gap"},),
}
GOES_ON: dict[str, tuple[Record, ...]] = {
    "nothing": (),
    "unlock of another session": (_instance_lock("unlock", 8),),
    "lost connection of another session": (_end(session=8, error="Lost connection"),),
}


def _journal(lock: Record, ends: tuple[Record, ...]) -> Journal:
    journal = Journal().begin().groups(2)
    journal.row()
    journal.record("backup", step="begin", backup_id="monday", session=7)
    journal.record(**lock)
    for record in ends:
        if record == _START:
            journal.start()
        else:
            journal.record(**record)
    journal.record("statement", engine="InnoDB", type="ddl", binlogged=False)
    return journal


@pytest.mark.parametrize("way", [*ENDS, *GOES_ON])
@pytest.mark.parametrize("session", [7, None])
def test_ddl_is_judged_while_the_lock_is_held(way: str, session: int | None) -> None:
    """A lock of a session that is not named may be that of any that gives one up."""
    of_another = way == "unlock of another session" and session is None
    lasts = way in GOES_ON and not of_another
    if session is None and way.startswith("lost connection"):
        lasts = False  # it may have been that session's
    journal = _journal(_instance_lock("lock", session), (ENDS | GOES_ON)[way])
    result = audit(journal)
    assert result.broken == ["no_metadata_change_during_backup"] * lasts
    sessions = [one.data["session"] for one in result.findings]
    assert sessions == ["unknown" if session is None else "7"] * lasts


def _backup(step: str, backup_id: str, **fields: object) -> Record:
    return {"kind": "backup", "step": step, "backup_id": backup_id, **fields}


_DDL: Record = {"kind": "statement", "engine": "InnoDB", "type": "ddl", "binlogged": False}
_VALIDITY_POINT: tuple[Record, ...] = (
    {"kind": "engine_lock", "step": "begin"},
    {"kind": "engine_lock", "step": "lock", "engine": "InnoDB"},
    {"kind": "zone", "step": "close"},
    {"kind": "zone", "step": "validity_point"},
    {"kind": "zone", "step": "open"},
    {"kind": "engine_lock", "step": "unlock_all"},
)


@pytest.mark.parametrize("other", [None, 7, 8])
def test_the_failure_of_a_backup_without_a_session_may_end_any_lock(other: int | None) -> None:
    """No unlock is recorded: the lock went with its session, unless it is another backup's."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "monday"))
    if other is not None:
        journal.record(**_backup("begin", "tuesday", session=other))
    journal.record(**_instance_lock("lock", 7))
    journal.record(**_backup("end", "monday", error="Lost connection"))
    journal.record(**_DDL)
    journal.row()
    result = audit(journal)
    assert result.broken == ["no_metadata_change_during_backup"] * (other == 7)
    named = [one.reason for one in result.cuts[0].undecided if one.rule == "backup_lock_protocol"]
    assert named == ["steps_not_ended"] * (other == 7)


@pytest.mark.parametrize("failed", [("monday",), ("sunday", "monday")])
@pytest.mark.parametrize("locked_by", [7, None])
@pytest.mark.parametrize("then", ["nothing", "unlock of another", "unlock", "lock", "start"])
def test_a_lock_in_doubt_leaves_a_validity_point_undecided(
    locked_by: int | None, then: str, failed: tuple[str, ...]
) -> None:
    """The lock may be the last backup's own, until it is known to be held or given up."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "tuesday"))
    for backup_id in failed:
        journal.record(**_instance_lock("lock", locked_by))
        journal.record(**_backup("begin", backup_id))
        journal.record(**_backup("end", backup_id, error="Lost connection"))
    if then in ("lock", "unlock"):
        journal.record(**_instance_lock(then, locked_by))
    elif then == "unlock of another":
        journal.record(**_instance_lock("unlock", locked_by) | {"lock": "tables"})
    elif then == "start":
        journal.record("stop")
        journal.start()
        journal.record(**_backup("begin", "tuesday"))
    for record in _VALIDITY_POINT:
        journal.record(**record)
    if then == "lock":
        journal.record(**_instance_lock("unlock", locked_by))
    journal.record(**_backup("end", "tuesday"))
    result = audit(journal)
    is_free = then in ("unlock", "start")
    assert result.broken == ["metadata_lock_steps_complete"] * is_free
    reasons = {one.reason for one in result.observations}
    assert ("instance_lock_in_doubt" in reasons) == (then in ("nothing", "unlock of another"))


def test_locks_of_two_sessions_are_in_doubt_until_each_is_given_up() -> None:
    """A backup that named none may have had either."""
    journal = Journal().begin().groups(2)
    for backup_id in ("monday", "tuesday"):
        journal.record(**_backup("begin", backup_id))
    for session in (7, 8):
        journal.record(**_instance_lock("lock", session))
    journal.record(**_backup("end", "monday", error="Lost connection"))
    journal.record(**_instance_lock("unlock", 8))
    for record in _VALIDITY_POINT:
        journal.record(**record)
    journal.record(**_backup("end", "tuesday"))
    result = audit(journal)
    assert result.broken == []
    assert "instance_lock_in_doubt" in {one.reason for one in result.observations}


def test_another_lock_of_a_failed_backup_is_no_instance_lock() -> None:
    """The second backup reaches its validity point without one that anybody had."""
    journal = Journal().begin().groups(2)
    journal.record(**{**_instance_lock("lock", 7), "lock": "tables"})
    for backup_id in ("monday", "tuesday"):
        journal.record(**_backup("begin", backup_id))
    journal.record(**_backup("end", "monday", error="Lost connection"))
    for record in _VALIDITY_POINT:
        journal.record(**record)
    assert audit(journal).broken == ["metadata_lock_steps_complete"]


@pytest.mark.parametrize("lock", ["instance", "tables", "global_read", "binlog"])
def test_a_lock_that_is_never_given_up_is_named(lock: str) -> None:
    """A copy takes long; where all commits wait for it, that is said, and for whose lock."""
    journal = Journal().begin().groups(2)
    journal.record(**{**_instance_lock("lock", 7), "lock": lock})
    journal.wait(11)
    journal.row()
    result = audit(journal)
    named = [check.reason for check in result.cuts[0].undecided if "lock" in check.rule]
    known = {"binlog": "held_long", "global_read": "read_lock_held_long"}
    assert named == [known.get(lock, "steps_not_ended")]
    assert result.verdicts == ["UNDECIDED" if lock == "binlog" else "CONSISTENT"]


def test_the_lock_that_commits_wait_for_is_named_before_one_that_was_taken_earlier() -> None:
    """A backup takes the instance lock first."""
    journal = Journal().begin().groups(2)
    for lock in ("instance", "global_read"):
        journal.record(**{**_instance_lock("lock", 7), "lock": lock})
        journal.wait(11)
        journal.row()
    named = [[one.reason for one in cut.undecided] for cut in audit(journal).cuts]
    assert ["read_lock_held_long" in reasons for reasons in named] == [False, True]


def test_sessions_that_are_forgotten_hide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds the lock is known of a limited number: beyond it DDL is undecided."""
    monkeypatch.setattr("tallystick.coordinates.rules.backup_locks._SESSIONS_MAX", 1)
    journal = Journal().begin().groups(2)
    journal.record(**_instance_lock("lock", 7))
    journal.record("backup_lock", step="lock", lock="tables", session=8)
    journal.record("statement", engine="InnoDB", type="ddl", binlogged=False)
    journal.row()
    result = audit(journal)
    named = {check.rule for check in result.cuts[0].undecided if check.reason == "steps_forgotten"}
    assert "no_metadata_change_during_backup" in named


@pytest.mark.parametrize(
    ("lock", "statement"),
    [
        ("global_read", "FLUSH TABLES WITH READ LOCK"),
        ("instance", "LOCK INSTANCE FOR BACKUP"),
    ],
)
def test_a_lock_is_named_by_its_statement(lock: str, statement: str) -> None:
    """Of a backup that says that it has ended while its session holds it."""
    journal = Journal().begin().groups(2)
    journal.record(**{**_instance_lock("lock", 7), "lock": lock})
    journal.record("backup", step="begin", backup_id="monday", session=7)
    journal.record(**_end())
    [finding] = audit(journal).findings
    assert explain(finding).sentence == (
        f"Backup monday ended while its session 7 held {statement}."
    )
