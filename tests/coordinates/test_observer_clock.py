"""Observers whose clocks differ: nothing healthy is accused, and faults are found all the same."""

import pytest

from tallystick.coordinates.audit.observer_clock import TOLERANCE_US, ObserverClock, ahead
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import ObservationCode, Verdict
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.producers.simulator.assemble import SETTLE_MS, Fleet, simulate
from tallystick.producers.simulator.kernel.journal_writer import WrongClock
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support import rule_cases_of_channels  # noqa: F401 - registers its cases
from tests.support.journals import audit
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
        instance.journal.observer = WrongClock(fleet.start_ts, ahead_us.get(name[:6], 0), 0.0)
    moments = range(fleet.start_ts + SECOND_US, fleet.load_ends_at + SETTLE_MS * 1_000, SECOND_US)
    for number, ts in enumerate(moments):
        fleet.schedule(ts, None, Fleet.collect, f"c{number}", ts)
    return audit_history(fleet.advance(moments[-1] + SECOND_US).values())


def test_clocks_are_compared_by_the_requests_that_both_answered():
    """The one ahead by 3 s, the other behind by 2 s: the tolerance is added."""
    early, late = clock(3_000_000, 3_050_000), clock(-2_000_000, -1_900_000)
    assert ahead(early, late, SECOND_US) == 5_050_000 + TOLERANCE_US
    assert ahead(late, early, SECOND_US) == TOLERANCE_US
    assert ahead(early, ObserverClock(), SECOND_US) == 0


def test_answers_to_later_requests_do_not_count():
    """Else the result would depend on which journal came first."""
    one, other = clock(0, 0, 0, 0, 0, 9_000_000), clock(0, 0, 0, 0, 0, 0)
    assert ahead(one, other, 4 * SECOND_US) == TOLERANCE_US
    assert ahead(one, other, 5 * SECOND_US) == TOLERANCE_US + 9_000_000
    assert one.has_answered(5 * SECOND_US)
    assert not one.has_answered(5 * SECOND_US + 1)
    assert [one.request_at(ts) for ts in (0, 1, 14 * SECOND_US, 15 * SECOND_US)] == [
        0,
        SECOND_US,
        5 * SECOND_US,
        5 * SECOND_US,
    ]


def test_a_journal_without_times_shows_no_clock():
    """Its records are numbered by their lines, its requests have times."""
    found = ObserverClock()
    found.answered(1_700_000_000 * SECOND_US, 17)
    assert found.answers == []
    found.answered(100 * HOUR_US, 90 * HOUR_US)
    assert found.answers == [(100 * HOUR_US, -10 * HOUR_US)]


@pytest.mark.parametrize(
    ("lags", "is_wrong"),
    [
        ((3_000_000,) * 4, True),
        ((-3_000_000,) * 4, True),
        ((3_000_000,) * 3, False),
        ((3_000_000, 3_000_000, 20_000, 3_000_000), False),
        ((TOLERANCE_US,) * 4, False),
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
    assert len(noted) == (abs(ahead_us) > TOLERANCE_US)
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


@pytest.mark.parametrize(("asked_later_us", "is_broken"), [(0, True), (3 * SECOND_US, False)])
def test_a_row_is_not_read_after_what_a_clock_behind_shows(asked_later_us, is_broken):
    """A request from after its answer says nothing of what happened between it and the answer."""
    journal = CASES["info_write_steps_complete"].build(breaks=True)
    journal.records[-1]["requested_at"] += asked_later_us
    assert audit(journal).broken == ["info_write_steps_complete"] * is_broken
