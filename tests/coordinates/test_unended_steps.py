"""What has begun and never ends: named in each collection, and undecided in the end."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tallystick.coordinates.events.journal import CLONE_STAGES
from tests.support.journals import Journal, Record, audit


class Unended(NamedTuple):
    """What a protocol holds, what gives it back, and the rule that asks for it."""

    rule: str
    holds: tuple[Record, ...]
    gives_back: Record
    stops_commits: bool


_BACKUP = {"kind": "backup", "backup_id": "monday"}
_ENGINE = {"kind": "engine_lock"}
_COLLECTION = {"kind": "collection", "collection_id": "of somebody", "session": 7}
UNENDED = {
    "binlog lock": Unended(
        "backup_lock_protocol",
        ({"kind": "backup_lock", "step": "lock", "lock": "binlog", "session": 7},),
        {"kind": "backup_lock", "step": "unlock", "lock": "binlog", "session": 7},
        stops_commits=True,
    ),
    "table lock": Unended(
        "backup_lock_protocol",
        ({"kind": "backup_lock", "step": "lock", "lock": "tables", "session": 7},),
        {"kind": "backup_lock", "step": "unlock", "lock": "tables", "session": 7},
        stops_commits=False,
    ),
    "zone": Unended(
        "zone_steps_complete",
        ({"kind": "zone", "step": "close", "tables": ["shop.a"]},),
        {"kind": "zone", "step": "open"},
        stops_commits=True,
    ),
    "engines": Unended(
        "engine_lock_steps_complete",
        ({**_ENGINE, "step": "begin"}, {**_ENGINE, "step": "lock", "engine": "InnoDB"}),
        {**_ENGINE, "step": "unlock_all"},
        stops_commits=True,
    ),
    "backup": Unended(
        "zone_steps_complete",
        ({**_BACKUP, "step": "begin", "tables": ["shop.a"]},),
        {**_BACKUP, "step": "end"},
        stops_commits=False,
    ),
    "backup under locks": Unended(
        "backup_lock_steps_complete",
        ({**_BACKUP, "step": "begin", "session": 7},),
        {**_BACKUP, "step": "end", "session": 7},
        stops_commits=False,
    ),
    "collection": Unended(
        "collection_steps_complete",
        (
            {**_COLLECTION, "step": "enter"},
            {**_COLLECTION, "step": "lock", "resource": "LOCK_collect_instance_log"},
        ),
        {**_COLLECTION, "step": "error"},
        stops_commits=True,
    ),
    "clone of a recipient": Unended(
        "clone_recipient_steps_complete",
        ({"kind": "clone", "role": "recipient", "step": "begin", "peer": "b"},),
        {"kind": "clone", "role": "recipient", "step": "end", "peer": "b"},
        stops_commits=False,
    ),
    "clone": Unended(
        "clone_donor_steps_complete",
        ({"kind": "clone", "role": "donor", "step": "begin", "peer": "b"},),
        {"kind": "clone", "role": "donor", "step": "end", "peer": "b"},
        stops_commits=False,
    ),
}


@pytest.mark.parametrize("ends", ["by itself", "with its server", "never"])
@pytest.mark.parametrize("name", UNENDED)
def test_what_does_not_end_is_named(name: str, ends: str) -> None:
    """Held for moments it is listed; for long, where commits wait, nothing is consistent."""
    rule, holds, gives_back, stops_commits = UNENDED[name]
    journal = Journal().begin().groups(2)
    for record in holds:
        journal.record(**record)
    journal.row()
    journal.wait(11)
    journal.row()
    if ends == "by itself":
        journal.record(**gives_back)
    elif ends == "with its server":
        file, position = journal.binlog.coordinates
        journal.start(crashed=True, recovered={"file": file, "position": position})
        journal.binlog.open(2)
    if ends != "never":
        journal.row()
    result = audit(journal)
    said = [{check.reason for check in cut.undecided if check.rule == rule} for cut in result.cuts]
    now = "held_long" if stops_commits else "steps_not_ended"
    assert said[:2] == [{"steps_not_ended"}, {now}]
    assert said[2:] == ([] if ends == "never" else [set()])
    later = "UNDECIDED" if stops_commits else "CONSISTENT"
    assert result.verdicts[:2] == ["CONSISTENT", later]
    assert result.verdicts[2:] in ([], ["CONSISTENT"])
    assert result.broken == []
    at_end = [one.rules for one in result.observations if one.reason == "steps_not_ended"]
    assert at_end == ([(rule,)] if ends == "never" else [])


def test_each_lock_is_held_since_it_was_taken() -> None:
    """A table lock may be held for hours: neither does it hide the binlog lock nor age it."""
    journal = Journal().begin().groups(2)
    lock = {"kind": "backup_lock", "step": "lock", "session": 7}
    journal.record(**lock, lock="tables")
    journal.wait(3_600)
    journal.record(**lock, lock="binlog")
    journal.row()
    journal.wait(11)
    journal.row()
    result = audit(journal)
    said = [[one.reason for one in cut.undecided if "lock" in one.rule] for cut in result.cuts]
    assert said == [["steps_not_ended"], ["held_long"]]


@pytest.mark.parametrize("step", ["end", "crash", None])
def test_a_clone_goes_on_in_the_start_over_the_cloned_data(step: str | None) -> None:
    """CLONE INSTANCE restarts its server; only what comes then ends the clone."""
    journal = Journal().begin().groups(2)
    of_clone = {"kind": "clone", "role": "recipient", "peer": "b"}
    journal.record(**of_clone, step="begin", destination="LOCAL INSTANCE")
    for stage in CLONE_STAGES[:-1]:
        journal.record(**of_clone, step="stage", stage=stage)
    journal.record("stop")
    for start in range(1 + (step == "crash")):
        file, position = journal.binlog.coordinates
        crash = {"crashed": True, "recovered": {"file": file, "position": position}}
        journal.start(**(crash if start else {"data_lineage": "cloned"}))
        journal.binlog.open(1 + start, "")
    journal.record(**of_clone, step="stage", stage="RECOVERY")
    if step == "end":
        journal.record(**of_clone, step="end")
    result = audit(journal)
    assert result.broken == []
    found = [one.rules for one in result.observations if one.reason == "steps_not_ended"]
    assert found == ([] if step else [("clone_recipient_steps_complete",)])
