"""Whatever the clocks of observers show, the same is found, and nothing healthy is accused."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from random import Random

import pytest

from tallystick import campaign
from tallystick.coordinates.audit.journal_clock import JournalClock
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.audit.reporter import UNCONFIRMED_MAX, Reporter
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    RecordType,
    cut_into_blocks,
)
from tallystick.coordinates.results import ObservationCode, Verdict
from tallystick.coordinates.rules.collection import COLLECTION_WITHIN_BUDGET
from tallystick.coordinates.rules.online_backup import ENGINE_LOCK_BUDGET
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.producers.simulator.assemble import simulate
from tests.support.journals import UUID_A, Journal, audit
from tests.support.orders import content, interleaved
from tests.support.wrong_clocks import (
    HOUR_US,
    WRONG_CLOCKS,
    asked_otherwise,
    whole_journals,
)

SECOND_US = 1_000_000
START = 1_700_000_000 * SECOND_US
STEP_MAX_US = 60 * SECOND_US
LATEST_US = int(datetime(2100, 1, 1, tzinfo=timezone.utc).timestamp()) * SECOND_US
SEEDS = range(40)
"""Healthy fleets and faulty ones in turn; each meets some of the clocks."""
EACH_SEED = 3
MAY_STAY_OPEN = {
    "purged_not_needed",
    "collection_within_budget",
    "gtid_persisted_in_time",
    "isolated_within_cluster",
}
"""What was purged before a first row, or about when a row was read; how long something took; and
what the others did after their journals end, by the clock that all name."""


def journals(seed: int) -> dict[str, Block]:
    """The whole journals of a simulated fleet."""
    return whole_journals(simulate(campaign.scenario_of(seed)).blocks(4096))


def found(result: AuditResult) -> set[tuple[str, str, str | None, str]]:
    """What is broken, where, and by which GTIDs or values; without what names a time."""
    return {(f.rule, f.instance_id, f.channel, f.case) for f in result.findings}


def left_open(result: AuditResult) -> set[str]:
    """Rules that are undecided, or the rows that are, by their reason."""
    rules = {rule for one in result.observations if one.is_undecided for rule in one.rules}
    return rules | {cut.reason for cut in result.cuts if cut.verdict == Verdict.UNDECIDED.value}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_is_found_by_any_clock(seed: int) -> None:
    """One instance's clock is wrong: once, from some record on, or always."""
    right = journals(seed)
    expected = audit_history(right.values())
    clocks = list(WRONG_CLOCKS)
    for number in range(EACH_SEED):
        clock = clocks[(seed * EACH_SEED + number) % len(clocks)]
        rng = Random(f"{seed} {clock}")
        who = rng.choice(sorted(right))
        wrong = right | {who: WRONG_CLOCKS[clock](right[who], rng)}
        result = audit_history(wrong.values())
        assert found(result) == found(expected), f"{clock} at {who}"
        if result.verdict is not expected.verdict:
            assert left_open(result) - left_open(expected) <= MAY_STAY_OPEN, f"{clock} at {who}"


@pytest.mark.parametrize("ahead_us", [HOUR_US, -HOUR_US, 59_000_000, -3_000_000])
@pytest.mark.parametrize("seed", [4, 7])
def test_the_same_is_found_when_who_asks_sets_its_clock(seed: int, ahead_us: int) -> None:
    """All instances are asked by the one clock, whatever it shows."""
    right = journals(seed)
    second_collection = START + 2 * SECOND_US
    asked = [asked_otherwise(block, second_collection, ahead_us) for block in right.values()]
    assert found(audit_history(asked)) == found(audit_history(right.values()))


@pytest.mark.parametrize("clock", list(WRONG_CLOCKS)[::2])
def test_a_wrong_clock_does_not_depend_on_blocks(clock: str) -> None:
    """Steps are found, and answers take effect, wherever a journal is cut."""
    right = journals(4)
    rng = Random(clock)
    who = rng.choice(sorted(right))
    wrong = {name: [block] for name, block in right.items()}
    changed = WRONG_CLOCKS[clock](right[who], rng)
    whole = content(audit_history((right | {who: changed}).values()))
    for size in (1, 50):  # the others in 50: where they are cut is not what depends on this clock
        wrong[who] = cut_into_blocks(changed, size)
        assert content(audit_history(interleaved(wrong, 50, Random(size)))) == whole


@pytest.mark.parametrize("clock", ["an_hour_ahead_once", "zero_once", "set_back_an_hour"])
def test_an_implausible_time_is_named_once(clock: str) -> None:
    """With the time and the one before it; it leaves nothing undecided by itself."""
    right = journals(4)
    wrong = right | {"source-a": WRONG_CLOCKS[clock](right["source-a"], Random(clock))}
    result = audit_history(wrong.values())
    seen = [o for o in result.observations if o.code is ObservationCode.TIME_IMPLAUSIBLE]
    assert [(o.instance_id, o.is_undecided) for o in seen] == [("source-a", False)]
    assert abs(seen[0].data["shown"] - seen[0].data["before"]) > STEP_MAX_US


# How long something took


def collections(*clocks: int, spent_us: int = 1_200_000) -> AuditResult:
    """Collections, of which the third one takes too long by a clock that may be set meanwhile.

    Args:
        clocks: What it is ahead: when a request is received, and when the collection has ended.
        spent_us: How long the third one takes, as the clock shows it.
    """
    builder = BlockBuilder("a")
    builder.server_record(RecordType.OBSERVER, {"clock": "one"}, ts=START)
    for number, (received, ended) in enumerate(zip(clocks[::2], clocks[1::2], strict=True)):
        asked_at = START + number * 5 * SECOND_US
        received_at = asked_at + 1_000 + received
        name = {"collection_id": f"c{number}"}
        steps = name | {"session": 7}
        builder.server_record(RecordType.COLLECTION, steps | {"step": "enter"}, ts=received_at)
        left_at = received_at + spent_us if number == 2 else asked_at + 2_000 + ended
        builder.server_record(RecordType.COLLECTION, steps | {"step": "leave"}, ts=left_at)
        answer = name | {"requested_at": asked_at, "received_at": received_at, "row": {}}
        builder.server_record(RecordType.LOG_STATUS, answer, ts=left_at)
    return audit_history([builder.build()])


def durations(result: AuditResult) -> tuple[list[str], list[str]]:
    """The rule on budgets, where it is broken, and where it is undecided because of a clock."""
    noted = [o for o in result.observations if o.reason == "duration_unconfirmed"]
    return [f.rule for f in result.findings if f.rule in BUDGET], [
        rule for o in noted for rule in o.rules
    ]


RIGHT, SET = (0, 0), 1_200_000
BUDGET = ["collection_within_budget"]


@pytest.mark.parametrize(
    ("clocks", "expected"),
    [
        pytest.param(RIGHT * 4, (BUDGET, []), id="by a right clock"),
        pytest.param((SET, SET) * 4, (BUDGET, []), id="by one that is wrong all the time"),
        pytest.param(RIGHT * 2 + (0, SET) + (SET, SET) * 4, ([], BUDGET), id="it was set"),
        pytest.param(RIGHT * 2 + (0, SET) + (SET, SET) * 3, ([], BUDGET), id="the history ends"),
        pytest.param(RIGHT * 3, ([], BUDGET), id="no later answer"),
        pytest.param(RIGHT * 3 + (SET, SET) + RIGHT, (BUDGET, []), id="one late answer"),
    ],
)
def test_too_long_is_found_when_the_clock_is_known_not_to_have_been_set(clocks, expected):
    """By a later answer, which would come as much later after its request."""
    assert durations(collections(*clocks)) == expected


def test_a_journal_by_hand_is_believed_how_long_something_takes():
    """No answer will show what its clock is."""
    builder = BlockBuilder("a")
    steps = {"collection_id": "c", "session": 7}
    builder.server_record(RecordType.COLLECTION, steps | {"step": "enter"}, ts=START)
    builder.server_record(RecordType.COLLECTION, steps | {"step": "leave"}, ts=START + SET)
    assert durations(audit_history([builder.build()])) == (BUDGET, [])


@pytest.mark.parametrize("is_answered", [True, False])
def test_an_engine_that_is_locked_late_is_found_with_the_next_answer(is_answered: bool) -> None:
    """Until then the clock may have been set between the two steps."""
    builder = BlockBuilder("a")
    builder.server_record(RecordType.OBSERVER, {"clock": "one"}, ts=START)

    def answer(asked_at: int) -> None:
        times = {"requested_at": asked_at, "received_at": asked_at + 1_000}
        named = {"collection_id": f"c{asked_at}", "row": {}}
        builder.server_record(RecordType.LOG_STATUS, times | named, ts=asked_at + 2_000)

    answer(START)
    for seconds, step in ((1, {"step": "begin"}), (4, {"step": "lock", "engine": "InnoDB"})):
        builder.server_record(RecordType.ENGINE_LOCK, step, ts=START + seconds * SECOND_US)
    if is_answered:
        answer(START + 5 * SECOND_US)
    result = audit_history([builder.build()])
    late = [f.case for f in result.findings if f.rule == ENGINE_LOCK_BUDGET.name]
    assert late == ["lock_overtime"] * is_answered
    noted = [o.rules for o in result.observations if o.reason == "duration_unconfirmed"]
    assert noted == [(ENGINE_LOCK_BUDGET.name,)] * (not is_answered)


def test_durations_that_nothing_confirms_are_not_kept_for_ever():
    """Where no more answers come, the oldest ones stay unconfirmed; the state has a limit."""
    reporter = Reporter("a", is_timed=True, lag_us=0)
    for number in range(UNCONFIRMED_MAX + 3):
        broken = Broken("collection_too_long", witness="", at=f"c{number}")
        reporter.broken(COLLECTION_WITHIN_BUDGET, broken, excess_us=1)
    assert [one.finding.at for one in reporter.unconfirmed[:1]] == ["c3"]
    assert len(reporter.unconfirmed) == UNCONFIRMED_MAX
    assert [one.at for one in reporter.observations] == ["c0", "c1", "c2"]


@pytest.mark.parametrize("set_us", [0, 1])
def test_a_duration_that_four_answers_do_not_confirm_stays_unconfirmed(set_us: int) -> None:
    """It is too long by a microsecond, and the clock was set ahead by none, or by as much."""
    reporter = Reporter("a", is_timed=True, lag_us=0)
    broken = Broken("collection_too_long", witness="", at="c")
    reporter.broken(COLLECTION_WITHIN_BUDGET, broken, excess_us=1)
    for number in range(4):
        assert not reporter.observations
        assert bool(reporter.findings) is (number > 0 and not set_us)
        reporter.answered(0, set_us)
    assert [one.at for one in reporter.observations] == ["c"] * set_us
    assert reporter.unconfirmed == []


@pytest.mark.parametrize(
    ("short_us", "is_found"), [(1, False), (SECOND_US, False), (SECOND_US + 1, True)]
)
def test_too_short_is_found_beyond_what_a_clock_is_set_back_unseen(short_us: int, is_found: bool):
    """An answer may have taken a second longer than the one before."""
    reporter = Reporter("a", is_timed=True, lag_us=0)
    broken = Broken("retry_too_early", witness="", at="round 2")
    reporter.broken(ENGINE_LOCK_BUDGET, broken, excess_us=-short_us)
    reporter.answered(0, 0)
    assert bool(reporter.findings) is is_found


# The clock itself


def times(clock: JournalClock, *shown: int) -> list[int]:
    """The journal's times of heartbeats that have these."""
    return read(clock, *((RecordType.HEARTBEAT, ts) for ts in shown))


def read(
    clock: JournalClock,
    *records: tuple[RecordType, int],
    with_request: RecordType = RecordType.LOG_STATUS,
) -> list[int]:
    builder = BlockBuilder("a")
    for record_type, ts in records:
        body = {"requested_at": 0} if record_type is with_request else {}
        builder.server_record(record_type, body, ts=ts)
    made: list[int] = clock.read(builder.build())[0].columns["ts"].tolist()
    return made


def timed() -> JournalClock:
    """A clock that has answered a request."""
    clock = JournalClock(is_timed=True)
    times(clock, START)
    assert clock.answered(START, START) == 0
    return clock


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ((1, 2, 3), (1, 2, 3)),
        ((1, 3, 2, 4), (1, 3, 3, 4)),
        ((1, 9, 2, 3, 4), (1, 9, 9, 10, 11)),
        ((STEP_MAX_US,), (STEP_MAX_US,)),
        ((STEP_MAX_US + 1, 2), (0, 2)),
        ((1, HOUR_US, 2), (1, 1, 2)),
        ((1, -HOUR_US, 2), (1, 1, 2)),
        ((1, HOUR_US, HOUR_US + 5, HOUR_US + 6), (1, 1, 6, 7)),
        ((1, -HOUR_US, 5 - HOUR_US, 6 - HOUR_US), (1, 1, 6, 7)),
        ((1, LATEST_US, LATEST_US + 1, 2), (1, 1, 1, 2)),
        ((1, 2**63 - 1 - START, 2**63 - 1 - START, 2), (1, 1, 1, 2)),
        ((1, -START - 1, 3), (1, 1, 3)),
    ],
)
def test_steps_that_no_journal_makes_are_not_believed(shown, expected):
    """By one record they are skipped, by two the clock was set."""
    clock = timed()
    assert times(clock, *(START + ts for ts in shown)) == [START + ts for ts in expected]


@pytest.mark.parametrize(
    "shown", [(START,), (START + HOUR_US, START + HOUR_US + 5), (START + HOUR_US,)]
)
def test_a_block_begins_at_the_time_that_reading_it_gives(shown):
    """Whether its first record follows the last one, falls, or is of another hour."""
    clock = timed()
    times(clock, *shown)
    for ts in (START - 1, START, START + 7, START + HOUR_US + 5, START + HOUR_US + 9, -1):
        builder = BlockBuilder("a")
        builder.server_record(RecordType.HEARTBEAT, {}, ts=ts)
        block = builder.build()
        assert clock.first(block) == replace(clock).read(block)[0].columns["ts"][0]


def test_a_first_record_without_a_time_takes_the_next():
    """There is none before it."""
    assert times(JournalClock(), -1, START) == [START, START]


def test_the_last_time_there_is_goes_on_no_further():
    """Though the next record follows it at once."""
    clock = JournalClock()
    shown = [LATEST_US - 1, LATEST_US, LATEST_US + 1]
    assert times(clock, *shown) == [LATEST_US - 1, LATEST_US, LATEST_US]
    assert times(clock, LATEST_US + 2) == [LATEST_US]


def test_a_journal_by_hand_may_pause():
    """Neither answers nor an observer's name could show how long; only a return does."""
    clock = JournalClock()
    shown = [START, START + HOUR_US, START + 2 * HOUR_US]
    assert times(clock, *shown) == shown
    assert times(clock, shown[-1] + HOUR_US, shown[-1] + 1) == [shown[-1], shown[-1] + 1]


@pytest.mark.parametrize(
    ("with_request", "may_pause"),
    [(RecordType.VARIABLES, True), (RecordType.LOG_STATUS, False), (RecordType.HEARTBEAT, True)],
)
def test_requests_are_those_of_answers(with_request, may_pause):
    """What another record has under that name, as a variable of a server, was not asked for."""
    clock, last = JournalClock(), START + HOUR_US
    records = (RecordType.LOG_STATUS, START), (with_request, START), (RecordType.STOP, last)
    shown = read(clock, *records, with_request=with_request)
    assert shown == [START, START, last if may_pause else START]


def test_another_observer_begins_at_any_time():
    """It may have been away; after the one before, its clock goes on from there."""
    clock = timed()
    observer = RecordType.OBSERVER
    assert read(clock, (observer, START + HOUR_US)) == [START + HOUR_US]
    assert read(clock, (observer, START), (RecordType.HEARTBEAT, START + 7)) == [
        START + HOUR_US,
        START + HOUR_US + 7,
    ]


def test_an_answer_shows_how_much_time_has_passed():
    """After a step that was not believed, and where a clock stands still."""
    clock = timed()
    assert times(clock, START + HOUR_US) == [START]
    clock.doubt()
    assert clock.answered(START + 900 * SECOND_US, START) == 900 * SECOND_US
    assert times(clock, START + HOUR_US + 1) == [START + 900 * SECOND_US + 1]
    assert clock.answered(START + 903 * SECOND_US, START + 900 * SECOND_US) == 3 * SECOND_US
    assert clock.answered(START + 904 * SECOND_US, START + 903 * SECOND_US) == 0


def test_a_slow_answer_or_a_slow_clock_is_no_reason():
    """An answer may come late, and a clock may lose a little."""
    clock = timed()
    assert clock.answered(START + SECOND_US, START + 9 * SECOND_US) == 0
    assert clock.answered(START + 2 * SECOND_US, START + 2 * SECOND_US) == 0
    for second in range(10, 1_000, 10):
        at = START + second * SECOND_US
        assert clock.answered(at, at - second * SECOND_US // 60) == 0


def test_a_clock_that_was_set_ahead_is_known_after_four_answers():
    """As before the first one: what takes time counts from there."""
    clock = JournalClock(is_timed=True)
    times(clock, START)
    assert not clock.times_from_now(None)
    ahead_us = 2 * SECOND_US
    shown = []
    for number in range(6):
        before = clock.lag
        asked = START + number * SECOND_US
        assert clock.answered(asked, asked + (ahead_us if number else 0)) == 0
        shown.append(clock.times_from_now(before))
    assert shown == [True, False, False, False, True, False]


def test_requests_without_any_relation_to_the_journal_set_nothing():
    """Lines without times are numbered."""
    clock = JournalClock()
    times(clock, 1, 2)
    assert clock.answered(START, 2) == 0
    assert clock.lag is None


def test_an_answer_without_a_row_sets_nothing():
    """An observer's time stands still while the server is not there, and its clock does not."""
    journal = Journal("a", UUID_A, 1).begin()
    journal.ts = START

    def answer(at_s: int) -> None:
        received_at = START + at_s * SECOND_US
        times = {"requested_at": received_at - SECOND_US // 4, "received_at": received_at}
        if 10 < at_s < 30:
            name = f"c-{at_s}"
            journal.record("log_status", collection_id=name, error={"unreachable": True}, **times)
            return
        journal.ts = received_at
        journal.row(**times)

    for at_s in range(1, 60, 3):
        answer(at_s)
    result = audit(journal)
    assert set(result.codes) == {ObservationCode.LOG_STATUS_MISSING}
    shown = [cut.ts for cut in result.cuts if cut.answer == "row" and cut.scope == "instance"]
    assert (shown[0], shown[-1]) == (START + SECOND_US + 1_000, journal.ts)


def heartbeats(*shown: int, observer: bool = False) -> Block:
    """Records that show these times; ``observer``: the first one names who writes."""
    builder = BlockBuilder("a", epoch=1, first_sequence=0)
    for number, ts in enumerate(shown):
        is_observer = observer and not number
        record_type = RecordType.OBSERVER if is_observer else RecordType.HEARTBEAT
        builder.server_record(record_type, {"clock": "p"} if is_observer else {}, ts=ts)
    return builder.build()


def read_of(clock: JournalClock, *blocks: Block) -> tuple[list[int], int]:
    """The times of these blocks in the journal, and how many steps are not believed."""
    read = [clock.read(block) for block in blocks]
    times = [ts for block, _ in read for ts in block.columns["ts"].tolist()]
    return times, sum(len(breaks) for _, breaks in read)


def test_what_a_clock_that_was_set_shows_goes_on_from_its_last_record() -> None:
    """Not from the one before it; a record may come a minute after it."""
    clock = JournalClock(now=9_000, shown=5_000, offset=4_000)
    assert read_of(clock, heartbeats(5_000, 6_000, 9_000)) == ([9_000, 10_000, 13_000], 0)
    assert (clock.shown, clock.now) == (9_000, 13_000)
    assert read_of(clock, heartbeats(9_000 + STEP_MAX_US)) == ([13_000 + STEP_MAX_US], 0)


def test_a_journal_does_not_begin_in_1970() -> None:
    """A first record without a time has that of the next one; any other time may be the first."""
    assert read_of(JournalClock(), heartbeats(0, 5, 9)) == ([5, 5, 9], 0)
    for first in (1, LATEST_US - 1, LATEST_US):
        assert read_of(JournalClock(), heartbeats(first)) == ([first], 0)
    assert read_of(JournalClock(), heartbeats(LATEST_US + 1, START)) == ([START, START], 1)


@pytest.mark.parametrize("second", [START + 1, START + HOUR_US, LATEST_US + 1])
def test_a_journal_whose_second_time_is_wrong_may_be_cut_anywhere(second: int) -> None:
    """After an observer's name no step is believed by itself, the second one neither."""
    shown = [START, second, START + HOUR_US + 2, START + HOUR_US + 3]
    whole = heartbeats(*shown, observer=True)
    expected = read_of(JournalClock(), whole)
    for cut in range(1, len(shown)):
        times, breaks = read_of(JournalClock(), whole.take(0, cut), whole.take(cut, len(shown)))
        assert breaks == expected[1]
        assert times[-1] == expected[0][-1]


@pytest.mark.parametrize("first", [LATEST_US + 1, 2**63 - 1])
def test_a_journal_whose_first_time_is_wrong_may_be_cut_anywhere(first: int) -> None:
    """The first time that may be one is that of the journal, whoever was named before it."""
    shown = [first, START, START + 1, START + 2]
    whole = heartbeats(*shown, observer=True)
    expected = [START, START, START + 1, START + 2], 1
    assert read_of(JournalClock(), whole) == expected
    for cut in range(1, len(shown)):
        times, breaks = read_of(JournalClock(), whole.take(0, cut), whole.take(cut, len(shown)))
        assert (times[1:], breaks) == (expected[0][1:], 1)


def test_a_time_that_was_not_believed_is_forgotten_with_the_next_one_that_is() -> None:
    """The record after it shows that it was the wrong one, in whichever block it comes."""
    clock = JournalClock(now=START, shown=START, is_timed=True)
    for shown, expected in (
        (START + HOUR_US, START),
        (START + 5, START + 5),
        (START + HOUR_US + 7, START + 5),
        (START + 9, START + 9),
    ):
        assert read_of(clock, heartbeats(shown))[0] == [expected]


def test_a_block_begins_where_its_first_record_goes_on() -> None:
    """Where that shows a time that is not believed, it is the time of the journal."""
    clock = JournalClock(now=START, shown=START, is_timed=True)
    for shown, first in ((START + 7, START + 7), (START + HOUR_US, START), (START - 7, START)):
        assert first == clock.first(heartbeats(shown, shown + 2))
    assert (clock.now, clock.shown, clock.other) == (START, START, None)


@pytest.mark.parametrize(
    ("shown", "noted"),
    [
        ((START + HOUR_US, START + HOUR_US + 2), START + HOUR_US),
        ((START + HOUR_US, START + 5), START),
    ],
)
def test_a_gap_is_at_the_time_that_reading_its_block_gives(shown: tuple[int, int], noted: int):
    """Written by hand, a journal may pause, but not for one record alone."""
    after_gap = replace(heartbeats(*shown), first_sequence=9)
    seen = audit_history([heartbeats(START), after_gap]).observations
    assert [o.ts for o in seen if o.code is ObservationCode.JOURNAL_GAP] == [noted]
