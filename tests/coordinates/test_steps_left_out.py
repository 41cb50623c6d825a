"""A step that a journal lacks without a gap: undecided where only it would have told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.journals import Audited, Journal, Record, audit

_CLONE = {"kind": "clone", "peer": "b"}
_BACKUP = {"kind": "backup", "backup_id": "monday"}
_RECOVERY = {"kind": "backup", "backup_id": "monday", "peer": "s"}
_COLLECTION = {"kind": "collection", "collection_id": "c1", "session": 7}
_RESTORED = {"binlog_file": "s-bin.000001", "binlog_position": 357, "gtid_executed": ""}
_REPLAYED = {"to_file": "s-bin.000001", "to_position": 557, "gtid_executed": ""}
BEGINNINGS: dict[str, tuple[list[Record], list[Record]]] = {
    "donor": (
        [{**_CLONE, "role": "donor", "step": "begin"}],
        [{**_CLONE, "role": "donor", "step": "end"}],
    ),
    "recipient": (
        [{**_CLONE, "role": "recipient", "step": "begin"}],
        [{**_CLONE, "role": "recipient", "step": "end"}],
    ),
    "backup": ([{**_BACKUP, "step": "begin"}], [{**_BACKUP, "step": "end"}]),
    "replay": (
        [
            {**_RECOVERY, "step": "restore", **_RESTORED},
            {**_RECOVERY, "step": "replay", "from_file": "s-bin.000001", "from_position": 357},
        ],
        [{**_RECOVERY, "step": "replayed", **_REPLAYED}],
    ),
    "engine locks": (
        [{"kind": "engine_lock", "step": "begin", "round": 1}],
        [
            {"kind": "engine_lock", "step": "lock", "engine": "innodb"},
            {"kind": "engine_lock", "step": "done"},
            {"kind": "engine_lock", "step": "unlock_all"},
        ],
    ),
    "second round": (
        [
            {"kind": "engine_lock", "step": "begin", "round": 1},
            {"kind": "engine_lock", "step": "unlock_all"},
            {"kind": "engine_lock", "step": "begin", "round": 1},
        ],
        [
            {"kind": "engine_lock", "step": "lock", "engine": "innodb"},
            {"kind": "engine_lock", "step": "unlock_all"},
        ],
    ),
    "recovery": (
        [{**_RECOVERY, "step": "restore", **_RESTORED}],
        [
            {**_RECOVERY, "step": "replay", "from_file": "s-bin.000001", "from_position": 357},
            {**_RECOVERY, "step": "replayed", **_REPLAYED},
        ],
    ),
    "recovery from an image of locks": (
        [{**_RECOVERY, "step": "restore", **_RESTORED, "coordinates_from": "source_status"}],
        [
            {**_RECOVERY, "step": "replay", "from_file": "s-bin.000001", "from_position": 357},
            {**_RECOVERY, "step": "replayed", **_REPLAYED},
        ],
    ),
}
"""What begins a run, and what cannot be without it."""


def _engine_locks(*steps: str) -> list[Record]:
    """Steps, with the engine after a blank."""
    split = [step.split() for step in steps]
    return [
        {"kind": "engine_lock", "step": step, **({"engine": engine[0]} if engine else {})}
        for step, *engine in split
    ]


def test_an_engine_that_is_prelocked_again_is_missing_once() -> None:
    journal = Journal().begin()
    for record in _engine_locks("begin", "prelock InnoDB", "prelock innodb", "done"):
        journal.record(**record)
    assert [one.data["missing"] for one in audit(journal).findings] == [["lock of innodb"]]


def test_an_engine_that_is_locked_again_is_held_once() -> None:
    journal = Journal().begin()
    for record in _engine_locks("begin", "lock InnoDB", "lock innodb"):
        journal.record(**record)
    journal.row()
    named = [one.data["what"] for one in audit(journal).cuts[0].undecided if "what" in one.data]
    assert named == ["the lock of innodb"]


@pytest.mark.parametrize("tables", [{}, {"tables": None}, {"tables": []}])
def test_an_image_that_names_no_tables_asks_for_no_engine(tables: Record) -> None:
    journal = Journal().begin()
    for record in [
        {**_BACKUP, "step": "begin"},
        {"kind": "backup_lock", "step": "lock", "lock": "instance"},
        *_engine_locks("begin", "lock InnoDB", "done"),
        {"kind": "zone", "step": "close"},
        {"kind": "zone", "step": "validity_point"},
        {**_BACKUP, "step": "image", **tables},
    ]:
        journal.record(**record)
    assert audit(journal).findings == []


def test_engines_that_were_not_locked_in_time_are_no_steps_of_a_backup_that_begins_then() -> None:
    journal = Journal().begin()
    for record in [
        *_engine_locks("begin", "lock InnoDB", "timeout InnoDB", "unlock_all"),
        {**_BACKUP, "step": "begin"},
        *_engine_locks("lock InnoDB", "done", "unlock_all"),
    ]:
        journal.record(**record)
    assert audit(journal).findings == []


def _reasons(result: Audited) -> list[str]:
    return [one.reason for one in result.observations if one.is_undecided]


@pytest.mark.parametrize("name", BEGINNINGS)
@pytest.mark.parametrize("begins", [True, False])
def test_a_run_that_ends_has_begun(name: str, begins: bool) -> None:
    """Else nothing was demanded of it, and nobody would know."""
    beginning, end = BEGINNINGS[name]
    journal = Journal().begin()
    for record in [*(beginning if begins else beginning[:-1]), *end]:
        journal.record(**record)
    journal.row()
    result = audit(journal)
    assert result.broken == []
    assert _reasons(result) == ["begin_unseen"] * (not begins)


@pytest.mark.parametrize("given", [("binlog_file", "binlog_position"), ("binlog_file",), ()])
@pytest.mark.parametrize("commits", [True, False])
def test_the_page_that_a_clone_has_copied_is_read(given: tuple[str, ...], commits: bool) -> None:
    """Where commits wrote it; a server without a binary log has nothing in it."""
    donor = {**_CLONE, "role": "donor"}
    journal = Journal().begin()
    steps = ["begin", "order_forced", "prepared_awaited", *["commit"] * commits, "donor_blocked"]
    page = {"binlog_file": journal.binlog.file, "binlog_position": journal.binlog.end}
    for step in steps:
        journal.record(**donor, step=step, **(page if step == "commit" else {}))
    read = {name: page[name] for name in given}
    journal.record(**donor, step="position_read", **read, lsn=9_000)
    for step in ("donor_released", "order_released", "end"):
        journal.record(**donor, step=step)
    assert _reasons(audit(journal)) == ["clone_page_unread"] * (commits and len(given) < 2)


@pytest.mark.parametrize("name", ["donor", "recipient", "backup"])
def test_a_run_that_fails_may_have_begun_before(name: str) -> None:
    """Nothing is made of what has failed."""
    *_, end = BEGINNINGS[name][1]
    journal = Journal().begin()
    journal.record(**end, error="1" if name == "backup" else 1)
    assert _reasons(audit(journal)) == []


def _collecting(enter: int, number: int) -> list[Record]:
    about = {**_COLLECTION, "collection_id": f"c{number}"}
    logs = ("channel_map", "binlog", "gtid_state", "engine:InnoDB")
    steps: list[Record] = [{**about, "step": "enter"}][:enter]
    steps += [{**about, "step": "lock", "resource": log} for log in logs]
    steps += [{**about, "step": "collect", "resource": log} for log in logs[1:]]
    steps += [{**about, "step": "unlock", "resource": log} for log in (*logs[:0:-1], logs[0])]
    return [*steps, {**about, "step": "leave"}]


@pytest.mark.parametrize("enters", [(1, 1), (0, 0), (1, 0)])
def test_a_row_that_was_collected_has_entered(enters: tuple[int, int]) -> None:
    """Who records that a collection enters records all its steps; others need not."""
    journal = Journal().begin()
    for number, enter in enumerate(enters, 1):
        for record in _collecting(enter, number):
            journal.record(**record)
        journal.row()
    result = audit(journal)
    assert result.broken == []
    assert _reasons(result) == ["begin_unseen"] * (enters == (1, 0))


def test_each_of_more_collections_that_have_not_entered_is_named() -> None:
    """Though others have taken all their locks in between."""
    journal = Journal().begin()
    for record in _collecting(1, 1):
        journal.record(**record)
    journal.row()
    numbers = range(2, 8)
    for number in numbers:
        for record in _collecting(0, number):
            journal.record(**record)
    for _ in numbers:
        journal.row()
    assert _reasons(audit(journal)) == ["begin_unseen"] * len(numbers)


def test_a_collection_may_have_taken_its_locks_before_the_journal_begins() -> None:
    """Another one enters then, before that one has given its locks back."""
    journal = Journal().begin()
    journal.record(**_collecting(1, 2)[0])
    for record in _collecting(0, 1)[-2:]:
        journal.record(**record)
    journal.row()
    assert "begin_unseen" not in _reasons(audit(journal))


def test_a_collection_that_its_client_gave_up_goes_on() -> None:
    """Its session takes the steps that are left, and there is no row."""
    journal = Journal().begin()
    steps = _collecting(1, 1)
    for record in steps[:2]:
        journal.record(**record)
    journal.record("log_status", collection_id="c1", error={"timed_out": True})
    for record in steps[2:]:
        journal.record(**record)
    assert "begin_unseen" not in _reasons(audit(journal))


@pytest.mark.parametrize(
    ("name", "number", "is_open"),
    [
        ("collect", 1, False),  # it goes on for a client that is gone
        ("error", 1, True),
        ("collect", 2, True),  # another one was answered
    ],
)
def test_a_collection_that_is_answered_with_an_error_ends(
    name: str, number: int, is_open: bool
) -> None:
    """One that has failed itself still has to leave, and so has every other."""
    journal = Journal().begin()
    for record in _collecting(1, 1)[:6]:
        journal.record(**record)
    if name == "error":
        journal.record(**_COLLECTION, step="error")
    journal.record("log_status", collection_id=f"c{number}", error={"timed_out": True})
    journal.wait(11)
    journal.row()["collection_id"] = "later"
    found = [finding.case for finding in audit(journal).findings]
    assert found == ["never_left"] * is_open


@pytest.mark.parametrize("has_row", [True, False])
def test_a_collection_that_has_failed_need_not_go_on_in_order(has_row: bool) -> None:
    """It only must not bring a row."""
    journal = Journal().begin()
    *steps, leave = _collecting(1, 1)
    for record in steps[:6]:
        journal.record(**record)
    journal.record(**_COLLECTION, step="error")
    journal.record(**_COLLECTION, step="unlock", resource="engine:InnoDB")
    for step in ("collect", "lock", "unlock"):
        journal.record(**_COLLECTION, step=step, resource="engine:InnoDB")
    for record in [*steps[9:], leave]:
        journal.record(**record)
    if has_row:
        journal.row()
    found = [finding.case for finding in audit(journal).findings]
    assert found == ["row_after_error"] * has_row


@pytest.mark.parametrize("end", [{}, {"error": "2013"}])
@pytest.mark.parametrize("has_image", [True, False])
def test_a_backup_under_locks_tells_what_it_holds(has_image: bool, end: dict[str, Any]) -> None:
    """One that has ended without an error, that is."""
    journal = Journal().begin()
    lock = {"kind": "backup_lock", "session": 7}
    journal.record(**_BACKUP, step="begin", session=7)
    for name in ("tables", "binlog"):
        journal.record(**lock, step="lock", lock=name)
    file, position = journal.binlog.coordinates
    if has_image:
        journal.record(
            **_BACKUP,
            step="image",
            session=7,
            coordinates_from="source_status",
            binlog_file=file,
            binlog_position=position,
            gtid_executed="",
        )
    for name in ("binlog", "tables"):
        journal.record(**lock, step="unlock", lock=name)
    journal.record(**_BACKUP, step="end", session=7, **end)
    result = audit(journal)
    assert result.broken == []
    assert ("image_not_recorded" in _reasons(result)) is not (has_image or bool(end))


def test_a_backup_under_locks_need_not_have_begun() -> None:
    """Its locks are its steps, whichever image another one makes before it ends."""
    journal = Journal().begin()
    file, position = journal.binlog.coordinates
    made = {"coordinates_from": "source_status", "gtid_executed": ""}
    for step, fields in (("image", made), ("end", {})):
        for backup_id in ("one", "other"):
            at = {"binlog_file": file, "binlog_position": position} if fields else {}
            journal.record("backup", step=step, backup_id=backup_id, session=7, **fields, **at)
    assert "begin_unseen" not in _reasons(audit(journal))


@pytest.mark.parametrize("ends", ["never", "by itself", "with its data"])
def test_a_replay_that_never_ends_is_undecided(ends: str) -> None:
    """A start does not end it: what was broken off may go on."""
    journal = Journal().begin()
    beginning, end = BEGINNINGS["replay"]
    for record in beginning:
        journal.record(**record)
    file, position = journal.binlog.coordinates
    data = {"data_lineage": "restored"} if ends == "with its data" else {}
    journal.start(crashed=True, recovered={"file": file, "position": position}, **data)
    if ends == "by itself":
        journal.record(**end[0])
    result = audit(journal)
    assert _reasons(result) == (["steps_not_ended"] if ends == "never" else [])
