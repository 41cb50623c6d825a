"""Rounds: when a collection is complete, when it is closed without, and what it says then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.incident_control import ControlAction, IncidentControl
from tallystick.coordinates.results import Acknowledgement, ObservationCode
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.coordinates.rules.observations import NOBODY_ANSWERED
from tallystick.streaming import membership
from tallystick.streaming.answers import ANSWER_US, SILENT, UNREADABLE
from tallystick.streaming.batch import BatchContent
from tallystick.streaming.membership import leave_out_beyond
from tallystick.streaming.rounds import Deadline, Rounds

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND
"""The job's clock."""


def cut(collection_id: str, instance_id: str, ts: int, channel: str | None = None) -> Cut:
    scope = "instance" if channel is None else "channel"
    return Cut(
        collection_id=collection_id, instance_id=instance_id, scope=scope, channel=channel, ts=ts
    )


def ask(collection_id: str, at_s: float, *instances: str) -> CollectRequest:
    return CollectRequest(collection_id, round(at_s * SECOND), frozenset(instances) or None)


class Job:
    """Rounds with a clock that the test sets, in seconds."""

    def __init__(self, *instances: str, **deadline: int | None) -> None:
        self.rounds = Rounds(instances, Deadline(**deadline))
        self.closed: dict[str, tuple[str, ...]] = {}
        self.seen = []

    def step(self, at_s: float, cuts=(), starts=(), requests=(), **more) -> list[str]:
        now_us = NOW + round(at_s * SECOND)
        starts = dict.fromkeys(starts, 0)
        closed, observations = self.rounds.absorb(cuts, starts, requests, now_us=now_us, **more)
        self.closed |= {each.collection_id: each.missing for each in closed}
        self.seen += observations
        return [each.collection_id for each in closed]

    def silent(self, at_s: float) -> set[str]:
        return self.rounds.answers.silent(NOW + round(at_s * SECOND))


def test_a_round_closes_when_every_started_instance_has_answered():
    """An instance that has started is waited for, one that never has is not."""
    job = Job()
    assert job.step(0, [cut("c1", "a", 1)], starts="ab") == []
    closed, observations = job.rounds.absorb([cut("c1", "b", 2)], {}, now_us=NOW)
    assert [["a", "b"]] == [[row.instance_id for row in each.cuts] for each in closed]
    assert ((), False, 2) == (closed[0].missing, closed[0].is_late, closed[0].ts)
    assert observations == []


def test_an_instance_that_starts_later_is_not_missed():
    """A server that is restored after a collection, in whatever steps the job learns of both."""
    for steps in (["start", "c1", "c2"], ["c1 start", "c2"], ["start c1 c2"], ["c1 start c2"]):
        rounds, missing = Rounds(), {}
        for step in steps:
            cuts = [
                cut(name, instance, ts)
                for name, ts, instances in (("c1", 10, "ab"), ("c2", 30, "bc"))
                for instance in instances
                if name in step
            ]
            closed, _ = rounds.absorb(cuts, {"c": 20} if "start" in step else {}, now_us=NOW)
            missing |= {each.collection_id: each.missing for each in closed}
        missing |= {each.collection_id: each.missing for each in rounds.finish()[0]}
        assert missing == {"c1": (), "c2": ("a",)}, steps


def test_who_has_answered_is_expected_even_if_its_clock_is_ahead():
    """From the first collection on that it has answered, by whatever clock that began."""
    rounds = Rounds()
    closed, _ = rounds.absorb(
        [cut("c1", "a", 10), cut("c1", "b", 9_000), cut("c2", "a", 20)], {"b": 8_000}, now_us=NOW
    )
    assert [each.collection_id for each in closed] == ["c1"]
    assert rounds.finish()[0][0].missing == ("b",)


def test_a_round_waits_for_the_instances_it_was_told_of():
    """The first collection is not complete only because one instance was the first to be seen."""
    job = Job("a", "b")
    assert job.step(0, [cut("c1", "a", 1)]) == []
    assert job.step(0, [cut("c1", "b", 1)]) == ["c1"]


def test_rows_come_by_instance_with_its_channels_behind_it():
    """The table's order does not depend on the order of arrival."""
    rows = [cut("c1", "b", 1), cut("c1", "a", 2, "x"), cut("c1", "a", 2), cut("c1", "a", 2, "")]
    [closed], _ = Rounds().absorb(rows, {}, now_us=NOW)
    assert [("a", None), ("a", ""), ("a", "x"), ("b", None)] == [
        (row.instance_id, row.channel) for row in closed.cuts
    ]


@pytest.mark.parametrize("requests", [(), (ask("c1", 5),)])
@pytest.mark.parametrize(("later_s", "is_closed"), [(29.9, False), (30, True)])
def test_the_deadline_is_measured_on_the_clock_of_the_job(requests, later_s, is_closed):
    """No journal has to go on, and none can close a collection: also one that is a year ahead."""
    job = Job("a", "b", after_us=30 * SECOND)
    ahead = 365 * 86_400 * SECOND
    assert job.step(0, [cut("c1", "a", ahead)], requests=requests) == []
    assert job.step(29, [cut("c2", "a", 2 * ahead)]) == []
    assert ["c1"] * is_closed == job.step(later_s)
    assert [("c1", "b")] * is_closed == [(o.collection_id, o.instance_id) for o in job.seen]


def test_later_collections_close_an_older_one():
    """A silent instance does not pile up open rounds."""
    job = Job("a", "b", after_collections=2)
    assert job.step(0, [cut("c1", "a", 1), cut("c2", "a", 2)]) == []
    assert job.step(0, [cut("c3", "a", 3)]) == ["c1"]


def test_no_deadline_passes_while_a_backlog_is_read():
    """An answer that still waits in Kafka is not missing, however long reading takes."""
    job = Job("a", "b", after_us=SECOND, after_collections=1)
    requests = [ask(f"c{n}", n) for n in range(5)]
    rows = [cut(f"c{n}", "a", n * SECOND) for n in range(5)]
    assert job.step(0, requests=requests, is_caught_up=False) == []
    assert job.step(90, rows, is_caught_up=False) == []
    assert job.step(180, [cut("c0", "b", 0)], is_caught_up=False) == ["c0"]
    assert job.seen == []
    assert job.step(181) == ["c1", "c2", "c3", "c4"]


def test_an_instance_is_silent_after_unanswered_requests():
    """Two by default; the second has had its time, too. An answer, even a late one, ends it."""
    job = Job("a", "b")
    job.step(0, [cut("c0", "a", 1), cut("c0", "b", 1)], requests=[ask("c0", 0)])
    job.step(10, [cut("c1", "a", 2)], requests=[ask("c1", 10)])
    assert job.silent(19.9) == set()
    job.step(20, [cut("c2", "a", 3)], requests=[ask("c2", 20)])
    answer_s = ANSWER_US / SECOND
    assert (set(), {"b"}) == (job.silent(20 + answer_s - 0.1), job.silent(20 + answer_s))
    # Nothing waits for it any longer, and the age of its last answer is shown.
    assert job.step(20 + answer_s) == ["c1", "c2"]
    assert {"c0": (), "c1": ("b",), "c2": ("b",)} == job.closed
    assert "last answer: 0.000 s into the journal" in observation_text(job.seen[0])
    assert job.step(30, [cut("c3", "a", 4)], requests=[ask("c3", 30)]) == []
    job.step(31, [cut("c1", "b", 5)])
    assert (set(), 1) == (job.silent(60), job.rounds.open_count)


def test_an_instance_that_answers_slowly_is_not_silent():
    """Each of its answers comes three requests late."""
    job = Job("a")
    for n in range(20):
        answers = [cut(f"c{n - 3}", "a", n)] if n >= 3 else []
        job.step(10 * n, answers, requests=[ask(f"c{n}", 10 * n)])
        if n >= 3:
            assert job.silent(10 * n + 9) == set()


def test_a_fleet_where_nobody_answers_is_undecided():
    """Requests are all that is left; each collection has a row for each instance, in its time."""
    job = Job()
    job.step(0, [cut("c0", "a", 1_000), cut("c0", "b", 1_000)], requests=[ask("c0", 0)])
    for n in range(1, 6):
        job.step(60 * n, requests=[ask(f"c{n}", 60 * n)])
    assert dict.fromkeys(("c1", "c2", "c3", "c4"), ("a", "b")) | {"c0": ()} == job.closed
    assert {o.ts for o in job.seen} == {60 * n * SECOND + 1_000 for n in range(1, 5)}


def test_requests_without_any_instance_are_undecided():
    """Nobody is known: the collection leaves an observation, and nothing stays open."""
    job = Job()
    job.step(0, requests=[ask("c1", 0), ask("only z", 0, "z")])
    assert job.step(30) == ["c1"]
    [seen] = job.seen
    assert (NOBODY_ANSWERED.code, "", True) == (seen.reason, seen.instance_id, seen.is_undecided)
    assert job.rounds.open_count == 0


def test_an_answer_may_come_before_its_request():
    """The two topics are read side by side; an answered collection is not opened again."""
    job = Job("a")
    assert job.step(0, [cut("c1", "a", 1)]) == ["c1"]
    assert job.step(1, requests=[ask("c1", 0), ask("c2", 1)]) == []
    assert job.rounds.open_count == 1
    # A request that is there twice counts once.
    job.step(2, requests=[ask("c2", 1)])
    assert job.silent(60) == set()


def test_only_who_is_asked_has_to_answer():
    """A request may name the instances that it is for."""
    job = Job("a", "b")
    requests = [ask(f"c{n}", n, "a") for n in range(3)]
    assert job.step(0, [cut("c0", "a", 1)], requests=requests) == ["c0"]
    assert job.seen == []
    assert job.silent(60) <= {"a"}


def test_a_missing_answer_is_undecided_never_silent():
    """Who did not answer has a row of its own, and an observation with the collection's id."""
    job = Job("a", "b")
    job.step(0, [cut("c1", "a", 5)])
    [closed], [observation] = job.rounds.finish()
    row = closed.cuts[1]
    assert ("b", "missing", "UNDECIDED", "c1") == (
        row.instance_id, row.answer, row.verdict, row.collection_id,
    )  # fmt: skip
    assert ("b",) == closed.missing
    assert (ObservationCode.LOG_STATUS_MISSING, "b", "c1", True) == (
        observation.code, observation.instance_id, observation.at, observation.is_undecided,
    )  # fmt: skip


def test_a_job_that_ends_leaves_out_only_what_may_still_come():
    """At its end: what is past the deadline, and what silent instances have not answered."""
    job = Job("a", "b", after_us=30 * SECOND)
    for n in range(3):
        job.step(10 * n, [cut(f"c{n}", "a", n + 1)], requests=[ask(f"c{n}", 10 * n)])
    job.rounds.answers.start("late", 1)
    assert {"c0": ("b",), "c1": ("b",)} == job.closed
    closed, _ = job.rounds.give_up(NOW + 21 * SECOND, is_history=False)
    assert [("c2", ("b",))] == [(each.collection_id, each.missing) for each in closed]
    job.step(40, [cut("c3", "a", 9)], requests=[ask("c3", 40)])
    closed, _ = job.rounds.give_up(NOW + 70 * SECOND, is_history=False)
    assert [("c3", ("b", "late"))] == [(each.collection_id, each.missing) for each in closed]
    alive = Job("a", "b")
    alive.step(0, [cut("c0", "a", 1)], requests=[ask("c0", 0)])
    assert alive.rounds.give_up(NOW + SECOND, is_history=False) == ([], [])


def test_a_history_that_ends_lacks_what_others_have_answered():
    """It was read at one go, so when the job learned of it shows nothing."""
    job = Job("a", "b")
    now_s = NOW / SECOND
    requests = [ask("c0", now_s - 90), ask("c1", now_s - 60), ask("c2", now_s - 1)]
    job.step(0, [cut("c0", "a", 1)], requests=requests)
    closed, _ = job.rounds.give_up(NOW + SECOND, is_history=True)
    assert [("c0", ("b",)), ("c1", ("a", "b"))] == [(r.collection_id, r.missing) for r in closed]


def test_an_answer_after_the_deadline_is_a_late_round_of_its_own():
    """It is judged too, and it does not open its collection again."""
    job = Job("a", "b")
    job.step(0, [cut("c1", "a", 5)])
    job.rounds.finish()
    [late], observations = job.rounds.absorb([cut("c1", "b", 9)], {}, now_us=NOW)
    assert ("c1", ["b"], True) == (
        late.collection_id, [row.instance_id for row in late.cuts], late.is_late,
    )  # fmt: skip
    assert (0, []) == (job.rounds.open_count, observations)


def test_late_answers_are_in_the_order_of_rows():
    """An instance, then its channels by name."""
    job = Job("a", "b")
    job.step(0, [cut("c1", "a", 5)])
    job.rounds.finish()
    rows = [cut("c1", "b", 9, channel) for channel in ("y", "x", None, "")]
    [late], _ = job.rounds.absorb(rows, {}, now_us=NOW)
    assert [None, "", "x", "y"] == [row.channel for row in late.cuts]
    assert 9 == late.ts


def test_an_absence_that_somebody_knows_of_is_one_until_that_runs_out_or_is_taken_back():
    """What is asked of incidents and of earlier absences is somebody else's."""
    job = Job("a", unanswered_max=1)
    job.step(0, [cut("c0", "a", 1)])
    job.step(1, requests=[ask("c1", 1)])
    answers, now_us = job.rounds.answers, NOW + 60 * SECOND
    one = job.rounds.absences(now_us)["a"]

    def control(action: ControlAction, target: str = "", until_ts: int | None = None):
        return IncidentControl(action, target or one.incident_id, "me", "known", 7, until_ts)

    def known(*controls: IncidentControl) -> Acknowledgement | None:
        assert [] == list(answers.obey(controls))
        return job.rounds.absences(now_us)["a"].acknowledgement

    acked = control(ControlAction.ACK)
    assert Acknowledgement("me", "known", 7, None) == known(acked)
    assert known() is not None
    assert known(control(ControlAction.UNACK)) is None
    assert known(acked, control(ControlAction.UNACK)) is None
    assert known(control(ControlAction.UNACK), acked) is not None
    assert known(control(ControlAction.ACK, until_ts=now_us)) is None
    assert known(control(ControlAction.ACK, until_ts=now_us + 1)) is not None
    others = [
        control(ControlAction.ACK, "another"),
        control(ControlAction.UNACK, "another"),
        control(ControlAction.RETIRE, "a"),
        control(ControlAction.RETIRE),
    ]
    assert others == list(answers.obey(others))
    job.step(61, [cut("c2", "a", 2)])
    assert [acked] == list(answers.obey([acked]))
    assert {} == answers.acknowledged


def test_answers_without_a_row_are_an_absence_until_there_is_one():
    """Beginning with the first of them; one alone is none, and one that is empty has its rule."""
    job = Job()
    refused = {"answer": "refused", "error_code": 1227, "error_text": "denied"}
    steps = [
        ({}, None),
        (refused, None),
        ({"answer": "missing"}, ("missing", 2)),
        (refused, ("denied, error 1227", 2)),
        ({}, None),
        ({"answer": "empty"}, None),
        (refused, None),
    ]
    for n, (values, expected) in enumerate(steps, start=1):
        job.step(n, [replace(cut(f"c{n}", "a", n), **values)], requests=[ask(f"c{n}", n)])
        absences = job.rounds.absences(NOW + n * SECOND)
        one = absences["a"]
        found = one and (one.problem, (one.since_us - NOW) // SECOND)
        assert (n, found) == (n, expected)
        assert one is None or (one.rule, one.last_ts) == (UNREADABLE, 1)


def test_a_silence_goes_on_until_there_is_a_row():
    """A tail says only after a while that its server is dead: that is not the silence's end."""
    job = Job(unanswered_max=2)
    job.step(0, [cut("c0", "a", 1)])
    for n in (1, 2):
        job.step(n, requests=[ask(f"c{n}", n)])
    silent = job.rounds.absences(NOW + 7 * SECOND)["a"]
    assert (silent.rule, silent.since_us) == (SILENT, NOW + SECOND)
    for n in (8, 9, 10):
        job.step(n, [replace(cut(f"c{n}", "a", n), answer="missing")])
        assert job.rounds.absences(NOW + n * SECOND)["a"].incident_id == silent.incident_id
    job.step(11, [cut("c11", "a", 11)])
    assert job.rounds.absences(NOW + 11 * SECOND) == {"a": None, "": None}


def test_a_retired_instance_comes_back_with_a_new_start():
    """Until then nobody waits for it, whatever it writes; an older start is no new one."""
    job = Job("a", "b")
    answers = job.rounds.answers
    answers.retire("b", NOW)
    assert job.step(1, [cut("c1", "a", 1)]) == ["c1"]
    answers.start("b", NOW - 1)
    answers.answer("b", NOW - 1, NOW)
    assert answers.members.keys() == {"a"}
    job.rounds.absorb([], {"b": NOW + 1}, now_us=NOW)
    assert job.step(3, [cut("c2", "a", NOW + 2)]) == []
    assert answers.members.keys() == {"a", "b"}


def test_instances_beyond_the_limit_leave_each_collection_undecided(monkeypatch):
    """Not only the one in which they were seen first; until they are retired, let in or listed."""
    monkeypatch.setattr(membership, "INSTANCES_MAX", 1)
    job = Job()
    answers = job.rounds.answers

    def collect(name: str, *instances: str) -> list[tuple[str | None, str, bool]]:
        content = BatchContent(cuts=[cut(name, each, 1) for each in instances])
        leave_out_beyond(content, answers.members.keys(), answers)
        job.seen.clear()
        assert [name] == job.step(0, content.cuts)
        return [
            (one.collection_id, observation_text(one).partition(" or")[0], one.is_undecided)
            for one in job.seen
        ]

    assert [("c1", "1 instance", True)] == collect("c1", "a", "b")
    assert [("c2", "1 instance", True)] == collect("c2", "a")
    assert [("c3", "2 instances", True)] == collect("c3", "a", "b", "c")
    answers.retire("b", 2)
    assert [("c4", "1 instance", True)] == collect("c4", "a")
    restored = Rounds(("a", "c"))
    restored.restore(job.rounds.to_bytes())
    assert {} == restored.answers.beyond
    answers.retire("a", 2)
    assert [] == collect("c5", "c")
    assert {"c"} == answers.members.keys()


@given(
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(("", "a", "b", "ab"))), max_size=30),
    st.integers(1, 4),
)
def test_whoever_leaves_requests_unanswered_is_named(steps, unanswered_max):
    """Of any fleet and any pauses: silent is exactly who has not answered the last requests."""
    job = Job("a", "b", unanswered_max=unanswered_max)
    asked_at: dict[str, list[int]] = {"a": [], "b": []}
    now_s = 0
    for n, (pause_s, answered_by) in enumerate(steps):
        now_s += pause_s
        for times in asked_at.values():
            times.append(now_s)
        rows = [cut(f"c{n}", name, n) for name in answered_by]
        job.step(now_s, rows, requests=[ask(f"c{n}", now_s)])
        for name in answered_by:
            asked_at[name].clear()
    for later_s in (0, 4, 5, 60):
        due_s = now_s + later_s - ANSWER_US // SECOND
        expected = {
            name
            for name, times in asked_at.items()
            if len(times) >= unanswered_max and times[unanswered_max - 1] <= due_s
        }
        assert job.silent(now_s + later_s) == expected


def test_state_survives_at_every_step():
    """A restart between any two micro-batches changes no round."""
    steps = [
        ([cut("c1", "a", 10), cut("c1", "a", 10, "x")], {"a": 10, "b": 9}),
        ([cut("c2", "a", 20)], {}),
        ([cut("c2", "b", 21)], {}),
        ([], {}),
        ([cut("c1", "b", 41)], {}),
        ([], {}),
    ]
    listed = ["a", "b", "z"]
    through, restarted = Rounds(listed), Rounds(listed)
    for n, (cuts, starts) in enumerate(steps):
        again = Rounds(listed)
        again.restore(restarted.to_bytes())
        restarted = again
        args = (cuts, starts, [ask(f"c{n}", n)])
        now_us = NOW + 20 * n * SECOND
        assert through.absorb(*args, now_us=now_us) == restarted.absorb(*args, now_us=now_us)
    through.answers.retire("z", 5)
    again = Rounds(listed)
    again.restore(through.to_bytes())
    assert through.to_bytes() == again.to_bytes()
    assert again.answers.members.keys() == {"a", "b"}
    # A list that is made shorter makes the fleet smaller.
    again = Rounds(["a"])
    again.restore(through.to_bytes())
    assert again.answers.members.keys() == {"a"}


def test_too_many_unreadable_messages_are_an_incident_until_none_come():
    """Counted on the job's clock; one now and then is none, and the end is not the first pause."""
    job = Job(unanswered_max=2)
    answers = job.rounds.answers

    def count(at_s: float, messages: int) -> str | None:
        now_us = NOW + round(at_s * SECOND)
        answers.note_unreadable(["why"] * messages, now_us, 10)
        answers.acknowledged = {}
        one = job.rounds.absences(now_us)[""]
        return None if one is None else one.incident_id

    assert [count(120 * n, 1) for n in range(50)] == [None] * 50
    assert count(10_000, 10) is None
    first = count(10_300, 1)
    assert first is not None
    assert [count(10_300 + n, 5) for n in range(0, 3_600, 240)] == [first] * 15
    assert count(10_300 + 3_600 + 240, 0) == first
    assert count(10_300 + 3_600 + 700, 0) is None
    assert count(20_000, 11) not in {None, first}
    again = Job()
    again.rounds.restore(job.rounds.to_bytes())
    assert again.rounds.answers.poison == "why"


def test_a_lower_limit_of_unreadable_messages_counts_from_the_next_one():
    """A job that begins anew with it: what it has counted is too many without any new one."""
    answers = Job().rounds.answers
    answers.note_unreadable(["why"] * 10, NOW, 10)
    answers.note_unreadable([], NOW + SECOND, 3)
    assert answers.poisoned_us is None
    answers.note_unreadable(["another"], NOW + 2 * SECOND, 3)
    assert (NOW + 2 * SECOND, "another") == (answers.poisoned_us, answers.poison)
