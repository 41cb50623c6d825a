"""Clones of one server that begin before another has ended: each has its own steps."""

from __future__ import annotations

import pytest

from tests.support.journals import Audited, Journal, audit
from tests.support.rule_cases_of_clones import step_fields

_DONOR = ("order_forced", "prepared_awaited", "donor_blocked", "position_read")
_RELEASED = ("donor_released", "order_released", "end")


def _steps(journal: Journal, peer: str | None, *steps: str, role: str = "donor") -> None:
    named = {} if peer is None else {"peer": peer}
    for step in steps:
        journal.record("clone", role=role, **named, **step_fields(journal, step))


def _unended(result: Audited) -> list[tuple[str, ...]]:
    return [one.rules for one in result.observations if one.reason == "steps_not_ended"]


@pytest.mark.parametrize(("peer", "ends"), [("b", False), ("c", False), ("c", True)])
def test_the_end_of_one_clone_is_not_that_of_another(peer: str, ends: bool) -> None:
    """The second takes all its steps: the first one's end accuses neither, and is missed."""
    journal = Journal().begin().groups(2)
    _steps(journal, "b", "begin")
    _steps(journal, peer, "begin", *_DONOR[:2])
    if ends:
        _steps(journal, "b", "end")
    _steps(journal, peer, *_DONOR[2:], *_RELEASED)
    result = audit(journal)
    assert result.broken == []
    assert _unended(result) == [("clone_donor_steps_complete",)] * (not ends)


def test_what_another_clone_leaves_out_is_found() -> None:
    """The end of the clone before comes after its begin."""
    journal = Journal().begin().groups(2)
    _steps(journal, "b", "begin")
    _steps(journal, "c", "begin", *_DONOR[:2])
    _steps(journal, "b", "end")
    _steps(journal, "c", *_DONOR[3:], *_RELEASED)
    assert audit(journal).broken == ["clone_donor_steps_complete"]


def test_xa_is_held_back_until_its_own_clone_lets_go() -> None:
    """The end of a clone that is over already does not open the gate of the next one."""
    journal = Journal().begin().groups(2)
    _steps(journal, "b", "begin")
    _steps(journal, "c", "begin", *_DONOR[:2])
    journal.record("clone", role="donor", peer="c", step="donor_blocked", blocks="xa")
    _steps(journal, "b", "end")
    journal.binlog.group(form="xa_prepare")
    assert audit(journal).broken == ["clone_blocks_xa"]


@pytest.mark.parametrize("names", [("b", "b"), ("b", None), (None, "b"), (None, None)])
def test_a_recipient_is_asked_for_its_own_stages(names: tuple[str | None, str | None]) -> None:
    """A second clone that begins, and ends, does not end the first, or take its stages."""
    journal = Journal().begin().groups(2)
    _steps(journal, "c", "begin", "FILE COPY", role="recipient")
    _steps(journal, names[0], "begin", role="recipient")
    _steps(journal, names[1], "FILE COPY", "REDO COPY", "end", role="recipient")
    result = audit(journal)
    assert result.broken == ["clone_recipient_steps_complete"]
    assert _unended(result) == [("clone_recipient_steps_complete",)]
    journal.start()
    assert _unended(audit(journal)) == []


@pytest.mark.parametrize(
    ("stages", "error", "is_judged"),
    [((), {}, False), (("FILE COPY",), {}, True), (("FILE COPY",), {"error": 3862}, False)],
)
def test_a_recipient_whose_clone_fails_owes_no_stage(
    stages: tuple[str, ...], error: dict[str, int], is_judged: bool
) -> None:
    """Nor does one of whose stages none was recorded."""
    journal = Journal().begin().groups(2)
    journal.record("clone", role="recipient", step="begin", destination="/backup/today")
    _steps(journal, None, *stages, "REDO COPY" if stages else "recovered", role="recipient")
    journal.record("clone", role="recipient", step="end", **error)
    assert audit(journal).broken == ["clone_recipient_steps_complete"] * is_judged


def test_a_donor_that_is_a_recipient() -> None:
    """The clone that a server gives does not change the stage of the one that it takes."""
    journal = Journal().begin().groups(2)
    _steps(journal, "c", "begin", "FILE COPY", "PAGE COPY", role="recipient")
    _steps(journal, "b", "begin", "end")
    _steps(journal, "c", "FILE COPY", role="recipient")
    assert audit(journal).broken == ["clone_protocol"]


def test_more_clones_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is forgotten leaves the rule undecided until the server starts."""
    monkeypatch.setattr("tallystick.coordinates.rules.clone_steps._CLONES_MAX", 1)
    journal = Journal().begin().groups(2)
    _steps(journal, "b", "begin")
    _steps(journal, "c", "begin", "end")
    journal.row()
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.binlog.open(2)
    journal.row()
    assert audit(journal).verdicts == ["UNDECIDED", "CONSISTENT"]


@pytest.mark.parametrize("error", [{}, {"error": 3862}])
def test_a_clone_that_goes_on_has_not_failed(error: dict[str, int]) -> None:
    """Its steps were seen: a row amid them is one of the same server."""
    journal = Journal().begin().groups(2)
    begin = {**step_fields(journal, "begin"), "destination": "LOCAL INSTANCE"}
    journal.record("clone", role="recipient", **begin)
    _steps(journal, None, "DROP DATA", "FILE COPY", role="recipient")
    if error:
        journal.record("clone", role="recipient", step="end", **error)
    journal.row()
    assert ("failed_clone_not_resumed" in audit(journal).undecided()) == bool(error)
