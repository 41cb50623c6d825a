"""A source's log that began later, or unseen, is not held against what a replica showed before."""

import numpy as np
import pytest

from tallystick.coordinates.audit.comparison import QueuedRun
from tallystick.coordinates.audit.fleet_events import FleetEvent
from tallystick.coordinates.results import Outcome
from tests.support.fleet_journals import A, B, Clock, Journal, audit, end_of, fleet_of_two, names

SECOND_US = 1_000_000
UNKNOWN = "source_log_unknown_then"


def asked(row: FleetEvent) -> FleetEvent:
    """The row as an answer that took some time: so clocks may differ by more than a second."""
    row.body.update(requested_at=row.ts - 2, received_at=row.ts - 1)
    return row


def undecided(output, rule: str) -> list[str | None]:
    """Reasons of a rule's checks of the replica that are undecided."""
    return [
        one.check.reason
        for one in output.checks
        if one.check.rule == rule and one.check.outcome is Outcome.UNDECIDED
    ]


def lose_records(source: Journal, *gtids: str) -> None:
    """A gap in which the source was reset, and what it has logged since."""
    source.gap()
    source.file = 0
    source.open_file()
    source.log(*gtids)


@pytest.mark.parametrize("begins", ["reset", "gap", "restored"])
def test_what_was_retrieved_before_is_not_held_against_numbers_given_out_again(begins):
    """Nothing was known of the source until it was set up anew; the row may be a second later."""
    source, replica = fleet_of_two(groups=2, has_row=False)
    asked(replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2")))
    replica.administer("reset_all")
    replica.reset()
    if begins == "gap":
        lose_records(source, f"{A}:1")
    else:
        source.reset(begins)
        source.log(f"{A}:1")
    source.clock.advance(SECOND_US + 1)
    asked(replica.status())
    asked(source.status(f"{A}:1"))
    assert names(audit(source, replica)) == []


def test_numbers_given_out_again_are_found_as_soon_as_the_row_is_surely_later():
    """The replica keeps what it had retrieved of the log before."""
    source, replica = fleet_of_two(groups=2)
    source.reset()
    source.log(f"{A}:1")
    source.clock.advance(3 * SECOND_US)
    asked(replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2")))
    source.clock.advance(3 * SECOND_US)
    source.time()
    asked(source.status(f"{A}:1"))
    assert "received_within_source_logged" in names(audit(source, replica))


def late_source() -> tuple[Journal, Journal]:
    """A source that is observed from its RESET on, and a replica that is known from before."""
    clock = Clock()
    source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
    replica.boot()
    replica.open_file()
    replica.follow(source)
    return source, replica


@pytest.mark.parametrize("is_late", [False, True])
def test_groups_received_before_the_source_was_observed(is_late):
    """They may be of a log that nobody has seen; what is received later is not."""
    source, replica = late_source()
    if is_late:
        replica.receive(source, (5, f"{A}:5"))
    source.boot()
    source.open_file()
    source.log(f"{A}:1", f"{A}:2")
    replica.time()
    if not is_late:
        replica.receive(source, (5, f"{A}:5"))
    replica.status("", replica.says(source))
    source.status(f"{A}:1-2")
    output = audit(source, replica)
    assert names(output) == ([] if is_late else ["relay_mirrors_source"])
    assert undecided(output, "relay_mirrors_source") == ([UNKNOWN] if is_late else [])


def test_of_groups_in_one_batch_those_received_later_are_judged():
    """A heartbeat stands between them; the row comes after all."""
    source, replica = late_source()
    replica.receive(source, (7, f"{A}:7"))
    source.boot()
    source.open_file()
    source.log(*(f"{A}:{n}" for n in range(1, 5)))
    replica.time()
    replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"))
    replica.receive(source, (3, f"{A}:9"))
    replica.status("", replica.says(source))
    source.status(f"{A}:1-4")
    output = audit(source, replica)
    assert [(one.rule, one.witness) for one in output.findings] == [
        ("relay_mirrors_source", f"{A}:9")
    ]


@pytest.mark.parametrize("is_anonymous", [False, True])
def test_anonymous_groups_do_not_show_of_which_log_they_are(is_anonymous):
    """GTIDs show that the source's log goes back to before it was observed; ends do not."""
    groups = [("" if is_anonymous else f"{A}:{n}") for n in range(1, 4)]
    source, replica = late_source()
    replica.receive(source, (1, groups[0]))
    source.boot()
    source.open_file()
    source.log(*groups)
    replica.time()
    replica.receive(source, (3, groups[2]))
    replica.status("", replica.says(source))
    source.status("" if is_anonymous else f"{A}:1-3")
    found = [(one.case, one.witness) for one in audit(source, replica).findings]
    assert found == ([] if is_anonymous else [("omitted", f"{A}:2")])


@pytest.mark.parametrize("is_before", [True, False])
def test_groups_received_before_a_gap_that_may_hide_a_reset(is_before):
    """They are not held against the file of that name after it."""
    source, replica = fleet_of_two(groups=2, has_row=False)
    replica.time()
    if is_before:
        replica.receive(source, (3, f"{A}:3"))
    lose_records(source, f"{A}:1")
    replica.time()
    if not is_before:
        replica.receive(source, (3, f"{A}:3"))
    replica.status("", replica.says(source))
    source.status(f"{A}:1")
    output = audit(source, replica)
    assert names(output) == ([] if is_before else ["relay_mirrors_source"])
    assert undecided(output, "relay_mirrors_source") == ([UNKNOWN] if is_before else [])


@pytest.mark.parametrize("is_before", [True, False])
def test_coordinates_read_before_a_gap_that_may_hide_a_reset(is_before):
    """Of before it is, though by the source's clock it may be a second later."""
    source, replica = fleet_of_two(groups=3, has_row=False)
    if is_before:
        says = replica.says(
            source, exec_source_log_file="s-bin.000001", exec_source_log_pos=end_of(3)
        )
        asked(replica.status("", says))
    lose_records(source, f"{A}:1")
    source.clock.advance(3 * SECOND_US)
    if not is_before:
        says = replica.says(
            source, exec_source_log_file="s-bin.000001", exec_source_log_pos=end_of(3)
        )
        asked(replica.status("", says))
    source.clock.advance(3 * SECOND_US)
    source.time()
    asked(source.status(f"{A}:1"))
    output = audit(source, replica)
    assert names(output) == ([] if is_before else ["source_coordinate_valid"])
    if is_before:
        assert undecided(output, "source_coordinate_valid") == [UNKNOWN]


@pytest.mark.parametrize("is_before", [True, False])
def test_what_was_executed_before_the_source_was_observed(is_before):
    """The source may have had it in a log that ended before its journal begins."""
    source, replica = late_source()
    if is_before:
        replica.status(f"{A}:1-5", replica.says(source, ""))
    source.boot()
    source.open_file()
    source.log(f"{A}:1", f"{A}:2")
    if not is_before:
        replica.status(f"{A}:1-5", replica.says(source, ""))
    source.status(f"{A}:1-2")
    output = audit(source, replica)
    assert names(output) == ([] if is_before else ["no_errant_gtids"])
    assert undecided(output, "no_errant_gtids") == ([UNKNOWN] if is_before else [])


def test_parts_of_queued_groups_keep_the_times_after_which_they_were_queued():
    """A part begins with the time that counts for its first group."""
    ends, sid = np.arange(6, dtype=np.int64), np.zeros(6, dtype=np.int32)
    run = QueuedRun(
        "s-bin",
        1,
        ends,
        (A,),
        sid,
        ends,
        connects=True,
        begins=True,
        asks_anew=True,
        after=((0, -1), (2, 9), (4, 20)),
    )
    assert [run.count_until(ts) for ts in (-2, -1, 8, 9, 19, 20)] == [0, 2, 2, 4, 4, 6]
    later = run.part(3, 6)
    assert (later.after, later.connects, later.begins, later.asks_anew) == (
        ((0, 9), (1, 20)),
        False,
        False,
        False,
    )
    assert run.part(0, 2).after == ((0, -1),)
