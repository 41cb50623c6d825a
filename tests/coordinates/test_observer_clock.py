"""Observers whose clocks differ: nothing healthy is accused, and faults are found all the same."""

from dataclasses import replace

import pytest

from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.observer_clock import ObserverClock, ahead, is_one_clock
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import ObservationCode, Outcome, Verdict
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.producers.simulator.assemble import SETTLE_MS, Fleet, simulate
from tallystick.producers.simulator.kernel.journal_writer import WrongClock
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support import rule_cases_of_channels  # noqa: F401 - registers its cases
from tests.support.fleet_journals import A, B, Clock, Journal, fleet_of_two, names
from tests.support.fleet_journals import audit as audit_fleet
from tests.support.journals import UUID_A, Gtids, audit
from tests.support.journals import Journal as InstanceJournal
from tests.support.rule_cases import CASES

SECOND_US = 1_000_000
HOUR_US = 3_600 * SECOND_US


def clock(*lags: int, first: int = 0) -> ObserverClock:
    """One that answers a request a second."""
    found = ObserverClock()
    for number, lag in enumerate(lags, first):
        found.answered(number * SECOND_US, number * SECOND_US + lag)
    return found


def skewed(ahead_us: dict[str, int], seed: int = 4, **options: object) -> AuditResult:
    """The audit of a pair whose observers have other clocks."""
    fleet = Fleet(Scenario(seed=seed, topology="pair", writes_per_second=20.0, **options))
    for name, instance in fleet.instances.items():
        instance.journal.hand_over(WrongClock(fleet.start_ts, ahead_us.get(name[:6], 0), 0.0))
    moments = range(fleet.start_ts + SECOND_US, fleet.load_ends_at + SETTLE_MS * 1_000, SECOND_US)
    for number, ts in enumerate(moments):
        fleet.schedule(ts, None, Fleet.collect, f"c{number}", ts)
    return audit_history(fleet.advance(moments[-1] + SECOND_US).values())


@pytest.mark.parametrize("by", ["nobody", "answer", "clock", "before"])
def test_a_request_is_left_out_by_who_answers_requests(by):
    """A journal that answers, that names its clock, or that did so before it began anew."""
    clock = ObserverClock(has_observer=by == "before")
    if by == "answer":
        clock.answered(3 * SECOND_US, 4 * SECOND_US)
    if by == "clock":
        clock.change("c", 0, 0)
    asked = [2 * SECOND_US, 3 * SECOND_US, 5 * SECOND_US]
    left_out = {"nobody": [False] * 3, "answer": [False, False, True]}.get(by, [True] * 3)
    assert [clock.has_left_out(at) for at in asked] == left_out


def test_clocks_are_compared_by_the_requests_that_both_answered():
    """The one ahead by 3 s, the other behind by 2 s: the tolerance is added."""
    early, late = clock(3_000_000, 3_050_000), clock(-2_000_000, -1_900_000)
    assert ahead(early, late, SECOND_US) == 5_050_000 + SECOND_US
    assert ahead(late, early, SECOND_US) == SECOND_US
    assert ahead(early, ObserverClock(), SECOND_US) == 0


def test_answers_to_later_requests_do_not_count():
    """Else the result would depend on which journal came first."""
    one, other = clock(0, 0, 0, 0, 0, 9_000_000), clock(0, 0, 0, 0, 0, 0)
    assert ahead(one, other, 4 * SECOND_US) == SECOND_US
    assert ahead(one, other, 5 * SECOND_US) == SECOND_US + 9_000_000
    assert one.has_answered(5 * SECOND_US)
    assert not one.has_answered(5 * SECOND_US + 1)
    assert [one.request_at(ts) for ts in (0, 1, 14 * SECOND_US, 15 * SECOND_US)] == [
        0,
        SECOND_US,
        5 * SECOND_US,
        5 * SECOND_US,
    ]


@pytest.mark.parametrize(("request_number", "most"), [(2, 7), (4, 7), (5, 6), (7, 0), (9, 0)])
def test_a_clock_is_what_the_last_answers_show(request_number, most):
    """It may have been set: what it showed more than a few requests ago is no bound any more."""
    found = clock(0, 7, 6, 0, 0, 0, 0, 0)
    assert found.bounds(request_number * SECOND_US) == (0, most)


def test_an_answer_that_comes_late_does_not_make_a_clock_look_wrong():
    """The server had to start first; its observer had the request at once.

    But where it always comes so late, receipt may be by another clock than the records.
    """
    found = ObserverClock()
    for asked in range(4):
        found.answered(asked * SECOND_US, 10 * SECOND_US + asked, asked * SECOND_US + 5)
    assert found.bounds(3 * SECOND_US) == (5, 10 * SECOND_US)
    assert not found.is_found_wrong()
    assert found.request_at(10 * SECOND_US + 1) == SECOND_US


def test_a_journal_without_times_shows_no_clock():
    """Its records are numbered by their lines, its requests have times."""
    found = ObserverClock()
    found.answered(1_700_000_000 * SECOND_US, 17)
    assert found.answers == []
    found.answered(100 * HOUR_US, 90 * HOUR_US)
    assert found.answers == [(100 * HOUR_US, 90 * HOUR_US, -10 * HOUR_US, 0)]
    for apart, is_one in ((24 * HOUR_US, False), (24 * HOUR_US - 1, True)):
        found = ObserverClock()
        found.answered(100 * HOUR_US, 100 * HOUR_US - apart)
        assert bool(found.answers) is is_one


@pytest.mark.parametrize(
    ("lags", "is_wrong"),
    [
        ((3_000_000,) * 4, True),
        ((-3_000_000,) * 4, True),
        ((3_000_000,) * 3, False),
        ((3_000_000, 3_000_000, 20_000, 3_000_000), False),
        ((SECOND_US,) * 4, False),
        ((SECOND_US + 1,) * 4, True),
        ((-SECOND_US,) * 4, False),
        ((-SECOND_US - 1,) * 4, True),
    ],
)
def test_a_clock_is_found_wrong_once(lags, is_wrong):
    """By several answers that all are too late, or too early."""
    found = clock(*lags)
    assert found.is_found_wrong() == is_wrong
    assert not found.is_found_wrong()


@pytest.mark.parametrize("ahead_us", [300_000, 3_000_000, 90_000_000, -300_000, -3_000_000])
@pytest.mark.parametrize("name", ["source", "replic"])
def test_no_clock_makes_a_healthy_pair_look_wrong(name, ahead_us):
    """Each answer shows what the clock is; only what was purged before a first row stays open."""
    result = skewed({name: ahead_us})
    assert result.findings == []
    undecided = {rule for one in result.observations if one.is_undecided for rule in one.rules}
    assert undecided <= {"purged_not_needed"}
    noted = [o for o in result.observations if o.code is ObservationCode.CLOCKS_DIFFER]
    assert len(noted) == (abs(ahead_us) > SECOND_US)
    for observation in noted:
        assert observation.instance_id[:6] == name
        lag = int(observation_text(observation).split(" answers ")[1].split(" ms ")[0])
        assert lag * 1_000 == pytest.approx(ahead_us, abs=200_000)


@pytest.mark.parametrize(
    "fault",
    [
        "receiver_skips_group",
        "errant_write",
        "phantom_group_received",
        "relay_pos_saved_as_exec_pos",
    ],
)
def test_faults_are_found_by_wrong_clocks(fault):
    """They do not depend on which clock is right."""
    scenario = Scenario(
        seed=7, fault=fault, topology="pair", negatives=("skewed_clock",), duration_ms=6_000
    )
    assert audit_history(simulate(scenario).blocks(512)).verdict is Verdict.INCONSISTENT


@pytest.mark.parametrize(
    ("asked_later_us", "is_received", "is_broken"),
    [(0, False, True), (3 * SECOND_US, False, False), (3 * SECOND_US, True, True)],
)
def test_a_row_is_not_read_after_what_a_clock_behind_shows(asked_later_us, is_received, is_broken):
    """A request from after its answer says nothing of what happened between it and the answer.

    When it was received, by the clock of the journal, does.
    """
    journal = CASES["info_write_steps_complete"].build(breaks=True)
    row = journal.records[-1]
    if is_received:
        row["received_at"] = row["requested_at"]
    row["requested_at"] += asked_later_us
    assert audit(journal).broken == ["info_write_steps_complete"] * is_broken


@pytest.mark.parametrize("clock", ["is right", "stands still", "is set ahead"])
@pytest.mark.parametrize("is_asked_after", [False, True])
def test_what_was_read_before_a_reset_is_not_held_against_the_row_after_it(clock, is_asked_after):
    """Without a clock to rely on, it may always have been read before.

    Who asks is 2 ms ahead, so by that clock alone the request came after the RESET.
    """
    journal = InstanceJournal("a", UUID_A, 1).begin().groups(3)
    first = journal.row()
    first["requested_at"] = first["received_at"] = first["ts"]
    journal.wait(1)
    asked_at = journal.ts
    journal.record("binlog_reset")
    journal.executed, journal.used = Gtids(), Gtids()
    journal.binlog.open(1, "")
    if is_asked_after:
        asked_at = journal.ts
    row = journal.row(gtid_purged=f"{UUID_A}:1-2")
    row["requested_at"], row["received_at"] = asked_at + 2_000, asked_at
    if clock == "stands still":
        for record in journal.records[journal.records.index(first) + 1 :]:
            record["ts"] = row["received_at"] = first["ts"]
    if clock == "is set ahead":
        row["received_at"] += HOUR_US * is_asked_after
        for record in journal.records[-2:]:
            record["ts"] += HOUR_US
    is_found = clock == "is right" and is_asked_after
    assert audit(journal).broken == ["purged_within_executed"] * is_found


def test_a_clock_that_is_ahead_hides_nothing_of_its_own_instance():
    """What the observer knew when it had the request is in the table that it read then."""
    scenario = Scenario(seed=11, fault="gtid_table_misses_closed_file", negatives=("skewed_clock",))
    assert audit_history(simulate(scenario).blocks(512)).verdict is Verdict.INCONSISTENT


def answer(
    journal: Journal,
    executed: str,
    *channels: dict,
    purged: str = "",
    took_us: int = 0,
    ahead_us: int = 0,
    asked_us: int | None = None,
) -> int:
    """A row that took so long, by a clock that is so far ahead of who asked for it.

    Returns:
        When it was received: by that clock it was asked for then, or at ``asked_us``.
    """
    row = journal.status(executed, *channels, purged=purged)
    received_at = row.ts - took_us
    asked_us = received_at if asked_us is None else asked_us
    row.body.update(requested_at=asked_us - ahead_us, received_at=received_at)
    return received_at


def pair_of(source_clock: str, replica_clock: str) -> tuple[Journal, Journal]:
    """A source and its replica, whose journals name the clocks; "" is none."""
    source, replica = fleet_of_two()
    for journal, name in ((source, source_clock), (replica, replica_clock)):
        if name:
            journal.written_by(name)
    replica.follow(source)
    answer(source, f"{A}:1-3")
    return source, replica


@pytest.mark.parametrize(
    ("source_clock", "replica_clock", "is_found"),
    [("p", "p", True), ("p", "q", False), ("p", "", False), ("", "", False)],
)
def test_by_one_clock_an_answer_is_not_needed(source_clock, replica_clock, is_found):
    """What has come of the source's journal is later than the row, whatever it has answered.

    Its answer is waited for all the same: it may show that the clock was set.
    """
    source, replica = pair_of(source_clock, replica_clock)
    answer(replica, f"{A}:1-3,{B}:1", replica.says(source))
    source.time()
    fleet = FleetAudit()
    for journal in (source, replica):
        fleet.absorb(journal.fleet_events[:-1])
    output = fleet.absorb([replica.fleet_events[-1], source.fleet_events[-1]])
    assert names(output) == []
    output = fleet.give_up()
    assert names(output) == ["no_errant_gtids"] * is_found
    left = {c.check.rule for c in output.checks if c.check.outcome is Outcome.UNDECIDED}
    assert ("no_errant_gtids" in left) != is_found


@pytest.mark.parametrize("is_noted", [True, False])
def test_what_another_observer_goes_on_with_is_by_its_clock(is_noted):
    """It is an hour ahead: the journal looks known beyond the row, and has not come so far.

    Where nobody has noted that, its answers show it.
    """
    source, replica = pair_of("p", "p")
    source.clock = Clock()
    source.clock.advance(HOUR_US)
    if is_noted:
        source.written_by("q")
    source.time()
    answer(replica, f"{A}:1-4", replica.says(source, f"{A}:4"))
    source.log(f"{A}:4")
    answer(source, f"{A}:1-4", ahead_us=HOUR_US)
    source.time()
    assert names(audit_fleet(source, replica)) == []


@pytest.mark.parametrize(("took_us", "is_found"), [(0, True), (1, True), (2, False)])
def test_a_purge_is_held_against_what_was_read_after_it(took_us, is_found):
    """The replica may have got and executed it while it was read."""
    source, replica = pair_of("p", "p")
    answer(source, f"{A}:1-3", purged=f"{A}:1-2")
    answer(replica, f"{A}:1", replica.says(source), took_us=took_us)
    answer(source, f"{A}:1-3", purged=f"{A}:1-2")
    assert names(audit_fleet(source, replica)) == ["purged_not_needed"] * is_found


@pytest.mark.parametrize(
    ("clocks", "ahead_us", "reset_us", "is_found"),
    [
        ("pq", 0, None, True),
        ("pq", 0, -500_000, False),
        ("pq", 0, 500_000, False),
        ("pq", 0, 5 * SECOND_US, True),
        ("pq", 3 * SECOND_US, -500_000, False),
        ("pq", 3 * SECOND_US, -3_500_000, False),
        ("pp", 0, None, True),
        ("pp", 0, -500_000, False),
        ("pp", 0, 500_000, False),
        ("pp", 0, 5 * SECOND_US, True),
    ],
)
def test_what_was_purged_of_a_log_that_has_ended_is_not_needed(
    clocks, ahead_us, reset_us, is_found
):
    """A replica that was emptied with its source may have been read after that.

    By another clock, or because it is noticed later that a log began anew.
    """
    source, replica = pair_of(*clocks)

    def pass_time(elapsed_us: int) -> None:
        source.clock.advance(elapsed_us)
        source.time()

    def answers() -> None:
        asked_us = answer(source, f"{A}:1-3", purged=f"{A}:1-2")
        channel = replica.says(source)
        answer(replica, f"{A}:1-3", channel, ahead_us=ahead_us, asked_us=asked_us)

    answers()
    pass_time(10 * SECOND_US)
    answers()
    pass_time(10 * SECOND_US)
    if reset_us is not None and reset_us < 0:
        source.reset()
        pass_time(-reset_us)
    answer(replica, "", replica.says(source), ahead_us=ahead_us)
    if reset_us is not None and reset_us > 0:
        source.clock.advance(reset_us)
        if reset_us > SECOND_US:
            source.time()
        source.reset()
    pass_time(10 * SECOND_US)
    answer(source, f"{A}:1-3", purged=f"{A}:1-2")
    found = [name for name in names(audit_fleet(source, replica)) if name == "purged_not_needed"]
    assert len(found) == is_found


def test_an_observer_has_its_part_of_a_journal():
    """Times of its clock are later than the last one before it, and known before it ends."""
    found = clock()
    assert found.name(1, 2) is None
    found.change("p", 10, -1)
    assert [found.name(first, 20) for first in (10, 11)] == [None, "p"]
    found.lose(30)
    found.change("p", 40, 35)
    assert [found.name(first, last) for first, last in ((11, 30), (11, 31), (11, 50))] == [
        "p",
        None,
        None,
    ]
    assert [found.name(first, 50) for first in (40, 41)] == [None, "p"]
    found.change("q", 60, 55)
    assert [found.name(41, last) for last in (55, 56)] == ["p", None]
    assert is_one_clock(found, found, 61, 62)
    assert not is_one_clock(clock(), clock(), 61, 62)


@pytest.mark.parametrize("what", ["gap", "a time that no clock shows"])
def test_a_gap_leaves_the_clock_unknown(what):
    """What is missing may be that another observer goes on."""
    source, replica = pair_of("p", "p")
    if what == "gap":
        replica.gap()
    else:
        replica.fleet_event(FleetEventKind.OBSERVER, clock=None)
    fleet = FleetAudit()
    for journal in (source, replica):
        fleet.absorb(journal.fleet_events)
    ts = replica.fleet_events[-1].ts
    known = [one.clock.name(ts, ts) for one in fleet.reader.timelines.values()]
    assert known == ["p", None]


@pytest.mark.parametrize("kind", [FleetEventKind.STATUS, FleetEventKind.TIME])
def test_what_has_the_time_of_the_last_record_before_it_is_not_by_an_observers_clock(kind):
    """That record was written by another one, or by nobody knows whom."""
    source, _ = pair_of("", "")
    last = source.status() if kind is FleetEventKind.STATUS else source.fleet_event(kind)
    source.written_by("q")
    source.fleet_events[-1] = replace(source.fleet_events[-1], ts=last.ts)
    source.time()
    fleet = FleetAudit()
    fleet.absorb(source.fleet_events)
    shown = fleet.reader.timelines["s"].clock
    assert [shown.name(first, last.ts + 9) for first in (last.ts, last.ts + 1)] == [None, "q"]


def test_a_clock_that_is_wrong_is_told_by_how_much():
    """In whole milliseconds, as of the last answer."""
    source, replica = pair_of("", "")
    for ahead_us in (9 * SECOND_US, 7 * SECOND_US, 5 * SECOND_US, 3 * SECOND_US + 999):
        answer(source, f"{A}:1-3", ahead_us=ahead_us)
    [noted] = audit_fleet(source, replica).observations
    assert (noted.code, noted.data) == (ObservationCode.CLOCKS_DIFFER, {"lag_ms": 3_000})


def test_a_journal_that_goes_on_shows_what_contradicts():
    """A simulated fleet has one clock: nothing waits for an answer that is not in the file."""
    scenario = Scenario(seed=4, fault="errant_write", topology="pair")
    result = audit_history(simulate(scenario).blocks(512), goes_on=True)
    assert result.verdict is Verdict.INCONSISTENT


@pytest.mark.parametrize(
    ("source_clock", "replica_clock", "is_shared", "is_found"),
    [
        ("p", "q", True, True),
        ("p", "q", False, False),
        ("p", "p", False, True),
        ("p", "", False, True),
        ("", "", False, True),
    ],
)
def test_clocks_that_answer_requests_of_their_own_are_not_compared(
    source_clock: str, replica_clock: str, is_shared: bool, is_found: bool
):
    """As of two hosts whose observers ask for themselves: each by its own clock."""
    source, replica = pair_of(source_clock, replica_clock)
    for _ in range(4):
        asked_us = answer(source, f"{A}:1-3")
        shared = asked_us if is_shared else None
        answer(replica, f"{A}:1-3,{B}:1", replica.says(source), asked_us=shared)
        source.clock.advance(10 * SECOND_US)
    asked_us = answer(source, f"{A}:1-3")
    answer(replica, f"{A}:1-3", asked_us=asked_us if is_shared else None)
    result = audit_fleet(source, replica)
    assert names(result) == ["no_errant_gtids"] * is_found
    reasons = {one.reason for one in result.observations if "no_errant_gtids" in one.rules}
    assert ("clocks_not_compared" in reasons) is not is_found
