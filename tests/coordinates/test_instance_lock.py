"""The instance lock of a backup: DDL is judged while it is held, and no longer."""

from __future__ import annotations

import pytest

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
    assert audit(journal).broken == ["no_metadata_change_during_backup"] * lasts


def test_a_lock_that_is_never_given_up_is_named() -> None:
    """As every other lock of a backup."""
    journal = Journal().begin().groups(2)
    journal.record(**_instance_lock("lock", 7))
    journal.row()
    result = audit(journal)
    named = [check.reason for check in result.cuts[0].undecided if "lock" in check.rule]
    assert named == ["steps_not_ended"]


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
