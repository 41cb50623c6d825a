"""Backups of one server that begin before another has ended: each is judged by its own steps."""

from __future__ import annotations

import pytest

from tests.support.journals import Audited, Journal, Record, audit


def _backup(step: str, backup_id: str, **fields: object) -> Record:
    return {"kind": "backup", "step": step, "backup_id": backup_id, **fields}


def _lock(step: str, lock: str, session: int) -> Record:
    return {"kind": "backup_lock", "step": step, "lock": lock, "session": session}


def _image(journal: Journal, backup_id: str, engine: str = "InnoDB", **fields: object) -> Record:
    file, position = journal.binlog.coordinates
    table = {"name": "shop.a", "engine": engine, "rows": 0, "checksum": "0"}
    summary = {"binlog_file": file, "binlog_position": position, "tables": [table]}
    gtids = str(journal.executed).replace("\n", "")
    return _backup("image", backup_id, gtid_executed=gtids, **summary | fields)


def _reasons(result: Audited) -> set[tuple[str, str]]:
    noted = ((rule, one.reason) for one in result.observations for rule in one.rules)
    listed = ((one.rule, one.reason) for cut in result.cuts for one in cut.undecided)
    return {*noted, *listed}


def _zone(journal: Journal, *steps: str) -> None:
    for step in steps:
        journal.record("zone", step=step, **({"tables": ["shop.a"]} if step == "close" else {}))


def _is_in_doubt_after_its_point(journal: Journal, backup_id: str) -> None:
    """Its image is of later than the validity point, which may be another backup's."""
    _zone(journal, "close", "wait", "validity_point", "open")
    journal.groups(1)
    journal.record(**_image(journal, backup_id))
    journal.row()
    result = audit(journal)
    assert result.broken == []
    assert ("backup_image_names_one_state", "backups_overlap") in _reasons(result)


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("is_late", [True, False])
def test_an_image_is_compared_with_its_validity_point(is_alone: bool, is_late: bool) -> None:
    """Another backup that begins in between does not make the first one's image true."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "monday", tables=["shop.a"]))
    _zone(journal, "close", "wait", "validity_point")
    at_point = _image(journal, "monday")
    _zone(journal, "open")
    journal.groups(1)
    if not is_alone:
        journal.record(**_backup("begin", "tuesday", tables=["shop.a"]))
    journal.record(**(_image(journal, "monday") if is_late else at_point))
    journal.record(**_backup("end", "monday"))
    if not is_alone:
        journal.record(**_backup("end", "tuesday", error="killed"))
    journal.row()
    result = audit(journal)
    names_one_state = "backup_image_names_one_state"
    assert result.broken == [names_one_state] * (is_late and is_alone)
    is_named = (names_one_state, "backups_overlap") in _reasons(result)
    assert is_named == (is_late and not is_alone)
    if not is_late:
        assert result.verdicts == ["CONSISTENT"]


def test_the_second_backups_image_may_be_of_the_firsts_validity_point() -> None:
    """Which of the two closed the zone is not known, for neither of them."""
    journal = Journal().begin().groups(2)
    for backup_id in ("monday", "tuesday"):
        journal.record(**_backup("begin", backup_id, tables=["shop.a"]))
    _is_in_doubt_after_its_point(journal, "tuesday")


def test_after_too_many_backups_none_is_known_to_be_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are forgotten may go on, however many follow; one of them may close the zone."""
    monkeypatch.setattr("tallystick.coordinates.rules.backup_images._BACKUPS_MAX", 1)
    journal = Journal().begin().groups(2)
    for backup_id in ("monday", "tuesday", "wednesday"):
        journal.record(**_backup("begin", backup_id))
    journal.record(**_backup("end", "wednesday"))
    journal.record(**_backup("begin", "thursday"))
    journal.record(**_backup("end", "thursday"))
    journal.record(**_backup("begin", "friday", tables=["shop.a"]))
    _is_in_doubt_after_its_point(journal, "friday")


def test_a_forgotten_backup_that_ends_is_in_doubt_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it asks for was undecided until then."""
    module = "tallystick.coordinates.rules.online_backup_steps"
    monkeypatch.setattr(f"{module}._BACKUPS_MAX", 1)
    journal = Journal().begin().groups(2)
    for backup_id in ("monday", "tuesday"):
        journal.record(**_backup("begin", backup_id))
    journal.row()
    for backup_id in ("monday", "tuesday"):
        journal.record(**_backup("end", backup_id))
    journal.row()
    assert audit(journal).verdicts == ["UNDECIDED", "CONSISTENT"]


@pytest.mark.parametrize("closed", ["before", "at once", "after"])
def test_an_end_asks_for_the_zone_that_it_closed(closed: str) -> None:
    """What is closed since another backup goes on may be that one's, and is named as held."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "monday"))
    if closed != "after":
        _zone(journal, "close")
    if closed == "at once":
        journal.ts -= 1_000
    journal.record(**_backup("begin", "tuesday"))
    if closed == "after":
        _zone(journal, "close")
    journal.record(**_backup("end", "monday"))
    journal.wait(11)
    journal.row()
    result = audit(journal)
    assert result.broken == ["zone_steps_complete"] * (closed == "before")
    assert (("zone_steps_complete", "held_long") in _reasons(result)) == (closed != "before")


@pytest.mark.parametrize("locked", ["before", "at once"])
def test_an_end_asks_for_the_engines_that_were_locked_for_it(locked: str) -> None:
    """What is locked since another backup goes on may be locked for that one."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "monday"))
    journal.record("engine_lock", step="begin")
    journal.record("engine_lock", step="lock", engine="InnoDB")
    if locked == "at once":
        journal.ts -= 1_000
    journal.record(**_backup("begin", "tuesday"))
    journal.record(**_backup("end", "monday"))
    ends = [one for one in audit(journal).findings if one.at == "end of backup monday"]
    assert [one.rule for one in ends] == ["engine_lock_steps_complete"] * (locked == "before")


@pytest.mark.parametrize("locked", [["InnoDB"], ["MyISAM"], ["InnoDB", "MyISAM"]])
def test_engines_of_two_backups(locked: list[str]) -> None:
    """Engines are locked of one backup or the other: which one's is not locked is not known."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "monday"))
    journal.record("engine_lock", step="begin")
    journal.record("engine_lock", step="prelock", engine="InnoDB")
    journal.record(**_backup("begin", "tuesday"))
    journal.record("backup_lock", step="lock", lock="instance", session=7)
    for engine in locked:
        journal.record("engine_lock", step="lock", engine=engine)
    journal.record("engine_lock", step="done")
    _zone(journal, "close", "validity_point")
    journal.record("engine_lock", step="unlock_all")
    _zone(journal, "open")
    journal.record(**_image(journal, "monday"))
    journal.record(**_image(journal, "tuesday", "MyISAM"))
    for backup_id in ("monday", "tuesday"):
        journal.record(**_backup("end", backup_id))
    journal.row()
    result = audit(journal)
    assert result.broken == []
    is_named = ("engine_lock_steps_complete", "backups_overlap") in _reasons(result)
    assert is_named == (len(locked) == 1)


def test_what_was_mixed_stays_so_when_the_second_backup_has_ended() -> None:
    """The engine that is not locked may have been prelocked for it."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "monday"))
    journal.record("engine_lock", step="prelock", engine="InnoDB")
    journal.record(**_backup("begin", "tuesday"))
    journal.record("engine_lock", step="prelock", engine="MyISAM")
    journal.record(**_backup("end", "tuesday", error="killed"))
    for step in ("begin", "lock", "done", "unlock_all"):
        named = {"engine": "InnoDB"} if step == "lock" else {}
        journal.record("engine_lock", step=step, **named)
    result = audit(journal)
    assert result.broken == []
    assert ("engine_lock_steps_complete", "backups_overlap") in _reasons(result)


@pytest.mark.parametrize("tables_locked", [True, False])
def test_two_backups_of_one_session(tables_locked: bool) -> None:
    """What the session locked for the first serves the second, and none forgets the other's."""
    journal = Journal().begin().groups(2)
    journal.record(**_backup("begin", "monday", session=7))
    if tables_locked:
        journal.record(**_lock("lock", "tables", 7))
    journal.record(**_backup("begin", "tuesday", session=7))
    journal.record(**_lock("lock", "binlog", 7))
    journal.row()
    for backup_id in ("monday", "tuesday"):
        of_locks = {"coordinates_from": "source_status", "session": 7}
        journal.record(**_image(journal, backup_id, **of_locks))
        if backup_id == "monday":
            journal.record(**_backup("end", "monday", session=7))
    journal.record(**_lock("unlock", "binlog", 7))
    if tables_locked:
        journal.record(**_lock("unlock", "tables", 7))
    journal.record(**_backup("end", "tuesday", session=7))
    journal.row()
    result = audit(journal)
    assert result.broken == [] if tables_locked else ["backup_lock_steps_complete"] * 2


def test_locks_that_outlast_both_backups_of_a_session() -> None:
    """The last of them to end is held to give them up."""
    journal = Journal().begin().groups(2)
    for backup_id in ("monday", "tuesday"):
        journal.record(**_backup("begin", backup_id, session=7))
    journal.record(**_lock("lock", "tables", 7))
    for backup_id in ("tuesday", "monday"):
        journal.record(**_backup("end", backup_id, session=7))
    assert audit(journal).broken == ["backup_lock_protocol"]


@pytest.mark.parametrize("of_locks", [False, True])
def test_a_backup_that_begins_again_under_its_name(of_locks: bool) -> None:
    """The end is that of the second; the first is named until the server starts."""
    journal = Journal().begin().groups(2)
    session = {"session": 7} if of_locks else {}
    for step in ("begin", "begin", "end"):
        journal.record(**_backup(step, "monday", **session))
    journal.row()
    rule = "backup_lock_steps_complete" if of_locks else "zone_steps_complete"
    assert (rule, "steps_not_ended") in _reasons(audit(journal))
    journal.record("stop")
    journal.start()
    result = audit(journal)
    undecided = [one.reason for one in result.observations if one.is_undecided]
    assert undecided == ["image_not_recorded"] * of_locks
