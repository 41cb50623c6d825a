"""A receiver that is connected, and to which nothing comes that its source logs."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.coordinates.results import Outcome
from tests.support.fleet_journals import A, B, Clock, Journal, audit, end_of, fleet_of_two

RULE = "receiver_not_silent"
SECOND_US = 1_000_000
TWO_MINUTES_US = 120 * SECOND_US


def row(source: Journal, replica: Journal, up_to: int, **changes: Any) -> None:
    """A row of a replica that has received and executed so many groups; and one of the source."""
    shown = {
        "retrieved": f"{A}:1-{up_to}",
        "executed": f"{A}:1-{up_to}",
        "is_connected": True,
        "read_source_log_file": "s-bin.000001",
        "read_source_log_pos": end_of(up_to),
        "relay_log_file": "r-relay.000002",
        "relay_log_pos": 1_000 + up_to,
    } | changes
    executed, retrieved = shown.pop("executed"), shown.pop("retrieved")
    replica.status(executed, replica.says(source, retrieved, **shown))
    source.time()


def silent(
    waits_us: int = TWO_MINUTES_US, *, logs: bool = True, **changes: Any
) -> tuple[Journal, Journal]:
    """A row, what the source logs, a row that shows it, and one so much later."""
    source, replica = fleet_of_two()
    row(source, replica, 3)
    if logs:
        source.log(f"{A}:4", f"{A}:5")
    row(source, replica, 3)
    # The second row's moment comes before that at which the source is known to have logged it.
    replica.clock.advance(waits_us - 1)
    row(source, replica, 3, **changes)
    return source, replica


def broken(*journals: Journal) -> list[str]:
    return [str(one.witness) for one in audit(*journals).findings if one.rule == RULE]


def outcomes(*journals: Journal) -> list[str]:
    """Of each row."""
    checks = [one.check for one in audit(*journals).checks if one.check.rule == RULE]
    return [check.outcome.name for check in checks]


@pytest.mark.parametrize("less_us", [0, 1])
def test_it_is_silent_after_two_minutes(less_us):
    assert broken(*silent(TWO_MINUTES_US - less_us)) == [f"{A}:4-5"] * (not less_us)


def test_a_receiver_is_sent_what_filters_of_the_applier_leave_out():
    shown = {"filtered": True, "ignores_servers": False}
    assert broken(*silent(**shown)) == [f"{A}:4-5"]


@pytest.mark.parametrize(("took_s", "found"), [(0, [f"{A}:4-5"]), (20, [])])
def test_a_row_may_be_as_old_as_its_request(took_s, found):
    """How long the replica has taken to answer is no part of the two minutes."""
    source, replica = silent(TWO_MINUTES_US + 10 * SECOND_US)
    for status in (replica.fleet_events[-1], source.status(f"{A}:1-5")):
        received_at = replica.fleet_events[-1].ts - took_s * SECOND_US
        status.body.update(requested_at=received_at, received_at=received_at)
    assert broken(source, replica) == found


def test_what_the_source_had_then_may_be_forgotten(monkeypatch):
    """Of a replica that is compared long after; what it had later proves nothing."""
    monkeypatch.setattr("tallystick.coordinates.audit.timeline_snapshot.SNAPSHOTS_MAX", 4)
    source, replica = silent()
    for gno in range(6, 12):
        source.log(f"{A}:{gno}")
        source.time()
    checks = [one.check for one in audit(source, replica).checks if one.check.rule == RULE]
    assert {(one.outcome, one.reason) for one in checks} == {
        (Outcome.UNDECIDED, "replica_too_far_behind")
    }


def test_a_source_that_is_seen_later_has_forgotten_nothing():
    """Its journal begins after the replica's row."""
    clock = Clock()
    source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
    replica.boot()
    replica.follow(source)
    row(source, replica, 3)
    assert outcomes(source, replica) == ["HOLDS"]


@pytest.mark.parametrize(
    "changes",
    [
        {"logs": False},
        {"is_connected": False},
        {"is_connected": None},
        {"is_held_back": True},
        {"read_source_log_pos": end_of(3) + 10},
        {"read_source_log_file": None},
        {"relay_log_pos": 2_000},
        {"relay_log_file": "r-relay.000003"},
        {"relay_log_pos": None},
        {"executed": f"{A}:1-2"},
        {"executed": None},
        {"retrieved": None},
        {"executed": f"{A}:1-5"},
        {"filtered": True},
    ],
)
def test_what_shows_that_it_is_not(changes):
    """It received something, waits for space, is not connected; or the replica has all."""
    assert outcomes(*silent(**changes)) == ["HOLDS"] * 3


def test_what_was_never_read_is_compared_with_nothing():
    """A right is missing: no row has the coordinates that were read."""
    source, replica = fleet_of_two()
    for _ in range(3):
        row(source, replica, 3, read_source_log_file=None)
        source.log(f"{A}:{4 + len(replica.fleet_events)}")
        replica.clock.advance(TWO_MINUTES_US)
    assert outcomes(source, replica) == ["HOLDS"] * 3


def test_what_was_left_behind_before_is_not_owed():
    """A replica that begins at a position never receives what was logged before."""
    source, replica = fleet_of_two(auto_position=False)
    for _ in range(4):
        row(source, replica, 1)
        replica.clock.advance(TWO_MINUTES_US)
    assert broken(source, replica) == []


@pytest.mark.parametrize("log", ["binary log", "relay log"])
def test_a_row_that_the_replicas_logs_have_passed_is_an_old_one(log):
    source, replica = fleet_of_two()
    row(source, replica, 3)
    source.log(f"{A}:4")
    row(source, replica, 3)
    if log == "binary log":
        replica.log(f"{A}:4", server_id=1)
    else:
        replica.receive(source, (4, f"{A}:4"))
    replica.clock.advance(TWO_MINUTES_US)
    row(source, replica, 3)
    assert broken(source, replica) == []


def test_what_comes_later_has_two_minutes_of_its_own():
    """And what came from elsewhere meanwhile makes no other finding of the rest."""
    source, replica = silent(TWO_MINUTES_US - SECOND_US)
    source.log(f"{A}:6")
    replica.clock.advance(SECOND_US)
    row(source, replica, 3)
    assert broken(source, replica) == [f"{A}:4-5"]
    row(source, replica, 3, executed=f"{A}:1-4")
    assert broken(source, replica) == [f"{A}:4-5"]
    assert outcomes(source, replica)[-1] == "BROKEN"


def test_another_log_of_the_source_begins_anew():
    source, replica = fleet_of_two()
    row(source, replica, 3)
    source.log(f"{A}:4")
    row(source, replica, 3)
    source.reset()
    replica.clock.advance(TWO_MINUTES_US)
    row(source, replica, 3)
    assert broken(source, replica) == []


def test_it_is_found_once_and_stays():
    """Until something comes; what it misses again is another finding."""
    source, replica = silent()
    for received, found in ((3, 1), (5, 1)):
        replica.clock.advance(SECOND_US)
        row(source, replica, received)
        assert len(broken(source, replica)) == found
    assert outcomes(source, replica) == ["HOLDS"] * 2 + ["BROKEN"] * 2 + ["HOLDS"]
    source.log(f"{A}:6")
    row(source, replica, 5)
    replica.clock.advance(TWO_MINUTES_US)
    row(source, replica, 5)
    assert broken(source, replica) == [f"{A}:4-5", f"{A}:6"]


def test_groups_of_the_same_names_in_another_log_are_missed_anew():
    """After RESET BINARY LOGS AND GTIDS a source gives its GTIDs out again."""
    source, replica = silent()
    source.reset()
    row(source, replica, 3)
    source.log(*(f"{A}:{gno}" for gno in range(1, 6)))
    row(source, replica, 3)
    replica.clock.advance(TWO_MINUTES_US)
    row(source, replica, 3)
    assert broken(source, replica) == [f"{A}:4-5"] * 2


def row_without_gtids(source: Journal, replica: Journal, up_to: int, **changes: Any) -> None:
    """As ``row``, of a channel that goes by positions."""
    executed = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(up_to)}
    sets = {"retrieved": "", "executed": ""}
    row(source, replica, up_to, **{**executed, **sets, "auto_position": False, **changes})


def silent_without_gtids(
    waits_us: int = TWO_MINUTES_US,
    *,
    logged: tuple[str, ...] = ("", ""),
    always: dict[str, Any] | None = None,
    **changes: Any,
) -> tuple[Journal, Journal]:
    """As ``silent``, where the source logs groups without GTIDs; all rows show what is always."""
    always = always or {}
    source, replica = fleet_of_two(groups=0, auto_position=always.get("auto_position", False))
    source.log("", "", "")
    row_without_gtids(source, replica, 3, **always)
    source.log(*logged)
    row_without_gtids(source, replica, 3, **always)
    replica.clock.advance(waits_us - 1)
    row_without_gtids(source, replica, 3, **always | changes)
    return source, replica


@pytest.mark.parametrize("less_us", [0, 1])
def test_it_is_silent_without_gtids(less_us):
    """Groups follow in the source's log, after what was read, and all of that is executed."""
    found = audit(*silent_without_gtids(TWO_MINUTES_US - less_us)).findings
    assert [(one.case, one.witness) for one in found] == [
        ("silent_without_gtids", f"s-bin.000001:{end_of(5)}")
    ] * (not less_us)


@pytest.mark.parametrize("read", [("s-bin.000001", end_of(3)), ("s-bin.000002", 4)])
@pytest.mark.parametrize("logged", [(), ("",)])
def test_it_is_silent_behind_the_end_of_a_file(read, logged):
    """What follows is in the source's next file, as far as there is something."""
    places = (f"{what}_source_log" for what in ("read", "exec"))
    shown = {
        f"{place}_{name}": value
        for place in places
        for name, value in zip(("file", "pos"), read, strict=True)
    }
    source, replica = fleet_of_two(groups=0, auto_position=False)
    source.log("", "", "")
    source.rotate("")
    row_without_gtids(source, replica, 3, **shown)
    source.log(*logged)
    row_without_gtids(source, replica, 3, **shown)
    replica.clock.advance(TWO_MINUTES_US)
    row_without_gtids(source, replica, 3, **shown)
    assert broken(source, replica) == [f"s-bin.000002:{end_of(1)}"] * len(logged)
    assert outcomes(source, replica)[-1] == ("BROKEN" if logged else "HOLDS")


def test_groups_without_gtids_behind_some_with_gtids_are_missed():
    """As where gtid_mode has gone from ON to ON_PERMISSIVE."""
    source, replica = fleet_of_two(auto_position=False)
    at = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
    row(source, replica, 3, auto_position=False, **at)
    source.log("")
    row(source, replica, 3, auto_position=False, **at)
    replica.clock.advance(TWO_MINUTES_US)
    row(source, replica, 3, auto_position=False, **at)
    assert broken(source, replica) == [f"s-bin.000001:{end_of(4)}"]


@pytest.mark.parametrize(
    ("first", "then", "case"),
    [("", f"{A}:1", "silent_without_gtids"), (f"{A}:1", "", "silent")],
)
def test_what_is_missed_first_counts(first, then, case):
    """Where a source has groups of both kinds."""
    source, replica = silent_without_gtids(TWO_MINUTES_US - SECOND_US, logged=(first,))
    source.log(then)
    replica.clock.advance(SECOND_US)
    row_without_gtids(source, replica, 3)
    assert [one.case for one in audit(source, replica).findings] == [case]


def test_groups_without_gtids_in_another_log_are_missed():
    """Its receiver gets nothing of that."""
    source, replica = silent_without_gtids(0)
    source.reset()
    row_without_gtids(source, replica, 3)
    source.log("", "", "", "")
    row_without_gtids(source, replica, 3)
    replica.clock.advance(TWO_MINUTES_US)
    row_without_gtids(source, replica, 3)
    assert broken(source, replica) == [f"s-bin.000001:{end_of(4)}"]


def test_what_was_read_may_not_be_known_in_the_sources_log():
    files = dict.fromkeys(("read_source_log_file", "exec_source_log_file"), "other-bin.000001")
    journals = silent_without_gtids(always=files)
    assert outcomes(*journals) == ["HOLDS", "UNDECIDED", "UNDECIDED"]


def test_where_the_sources_log_ends_may_not_be_known():
    """Its journal has a gap, and then no event."""
    source, replica = silent_without_gtids(0)
    source.gap()
    for _ in range(3):
        row_without_gtids(source, replica, 3)
    assert outcomes(source, replica)[3:] == ["HOLDS", "UNDECIDED", "UNDECIDED"]


@pytest.mark.parametrize(
    "changes",
    [
        {"logged": ()},
        {"is_connected": False},
        {"is_held_back": True},
        {"read_source_log_pos": end_of(4)},
        {"read_source_log_pos": end_of(3) + 10},
        {"read_source_log_file": "other-bin.000001"},
        {"relay_log_pos": 2_000},
        {"exec_source_log_pos": end_of(2)},
        {"exec_source_log_file": None},
        {"retrieved": f"{A}:1"},
        {"executed": None},
        {"filtered": True},
        {"always": {"auto_position": True}},
        {"always": {"executes_former": True}},
        {"logged": (f"{A}:1",), "executed": f"{A}:1"},
    ],
)
def test_what_shows_without_gtids_that_it_is_not(changes):
    """Also where the coordinates are nothing in the source's log."""
    assert outcomes(*silent_without_gtids(**changes)) == ["HOLDS"] * 3


def test_a_relay_log_that_is_seen_to_grow_is_not_silent():
    """A row that shows it as it was before is an old one."""
    source, replica = fleet_of_two(groups=0, auto_position=False)
    source.log("", "", "")
    replica.receive(source, (3, ""))
    row_without_gtids(source, replica, 3)
    source.log("")
    row_without_gtids(source, replica, 3)
    replica.receive(source, (4, ""))
    replica.clock.advance(TWO_MINUTES_US)
    row_without_gtids(source, replica, 3)
    assert broken(source, replica) == []


def test_it_is_found_once_without_gtids_too():
    source, replica = silent_without_gtids()
    for received, outcome in ((3, "BROKEN"), (5, "HOLDS"), (5, "HOLDS")):
        replica.clock.advance(TWO_MINUTES_US)
        row_without_gtids(source, replica, received)
        checks = [one.check for one in audit(source, replica).checks if one.check.rule == RULE]
        assert checks[-1].outcome.name == outcome
        assert len(broken(source, replica)) == 1
