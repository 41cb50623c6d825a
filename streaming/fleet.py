"""The driver's part of every micro-batch: rounds, incidents, verdicts, sinks and the validator.

Spark runs a micro-batch again, with the same number and the same blocks, when it was not committed.
So everything here starts from the state before that number, which is kept in the checkpoint
location, and writes the same rows under the same number.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from tallystick.coordinates.audit.collection_checks import CollectionChecks, rows_with_checks
from tallystick.coordinates.audit.culprits import culprits, evidence_refused
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.homes import Homes
from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.results import (
    Finding,
    Observation,
    ObservationCode,
    Outcome,
    Verdict,
    gravest,
)
from tallystick.coordinates.rules.observations import (
    BEGINNING_LOST,
    COMPARISONS_UNREADABLE,
    DEAD_LETTERS_LOST,
    FLEET_STATE_UNREADABLE,
)
from tallystick.coordinates.rules.topic_messages import Origin
from tallystick.coordinates.state_codec import split
from tallystick.coordinates.values.errors import StateError
from tallystick.coordinates.values.topics import FLEET
from tallystick.streaming.batch import BatchContent, sort_out
from tallystick.streaming.doubts import doubt
from tallystick.streaming.journal_holes import JournalTopic, holes
from tallystick.streaming.membership import (
    leave_out_beyond,
    leave_out_retired,
    name_strangers,
    retired_by,
)
from tallystick.streaming.orders import PROPERTY, Orders
from tallystick.streaming.rounds import Deadline, Round, Rounds
from tallystick.streaming.schema import DEAD_LETTER
from tallystick.streaming.table_sink import END_BATCH
from tallystick.streaming.to_fix import to_rebuild
from tallystick.streaming.verdicts import Verdicts
from tallystick.streaming.watch import StepReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.audit.fleet_events import FleetEvent
    from tallystick.coordinates.events.incident_control import IncidentControl
    from tallystick.coordinates.results import IncidentChange, SubjectCheck
    from tallystick.streaming.answers import Absence
    from tallystick.streaming.bucket import Bucket, Ends
    from tallystick.streaming.checkpoint import CheckpointLocation
    from tallystick.streaming.journal_holes import PlannedOffsets
    from tallystick.streaming.message_limit import MessageLimit
    from tallystick.streaming.progress import Metrics
    from tallystick.streaming.sinks import DeadLetterRow, KafkaSink
    from tallystick.streaming.table_sink import TableSink


_END = "the end of the run"


class ValidatorAnswer(Protocol):
    """What a validator returns: whatever it is, it has a verdict."""

    @property
    def verdict(self) -> Verdict:
        """The collection's verdict."""
        ...


class AlertTaker(Protocol):
    """Takes what people are alerted of; must neither raise nor take long."""

    def __call__(
        self,
        changes: Sequence[IncidentChange],
        origin: Origin,
        absences: Mapping[str, Absence | None],
        /,
    ) -> None:
        """Take changes of incidents.

        Args:
            changes: In their order; may be those of a micro-batch that is done again.
            origin: What messages have of the fleet.
            absences: Instances without a row, and with None those that are there, or need not be;
                of the others it is not known.
        """
        ...


@dataclass(slots=True)
class _Step:
    """What one micro-batch, or the end, has brought."""

    findings: list[Finding] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    dead_letters: list[DeadLetterRow] = field(default_factory=list)
    checks: list[SubjectCheck] = field(default_factory=list)
    fleet_events: list[FleetEvent] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    controls: Sequence[IncidentControl] = ()
    absences: Mapping[str, Absence | None] = field(default_factory=dict)
    changes: list[IncidentChange] = field(default_factory=list)


class FleetStep:
    """What is done with the auditor's rows of each micro-batch (``foreachBatch``).

    Args:
        checkpoint: Keeps the state between micro-batches and runs.
        tables: Takes the rows of all tables.
        kafka: Takes findings, changes of incidents and dead letters; None where there is no Kafka.
        validate: Called once for each round with its cuts, which have the checks of all rules
            (``CollectionChecks``); once more at the end where a check came to light since.
        metrics: Receives counters.
        instances: The only instances that are judged, and must answer from the first collection on.
            None: those that start or answer.
        deadline: When a round does not wait any longer.
        disabled: Names of rules that are switched off.
        alert: Takes what people are alerted of.
        fleet: The fleet's name, in messages.
        page_url: Where the audit's page is, for links in messages.
        limit: How many messages a micro-batch takes: one that is full was cut from a backlog, and
            shows nothing about what has not come yet. None: there never is a backlog.
        journal_topic: The journal topic's name.
        topic_id: Returns its id, None where that is not known; called with each collection, at the
            beginning and at the end. None: it is never known.
    """

    def __init__(
        self,
        *,
        checkpoint: CheckpointLocation,
        tables: TableSink,
        kafka: KafkaSink | None,
        validate: Callable[[list[Cut]], ValidatorAnswer] | None,
        metrics: Metrics,
        instances: Sequence[str] = (),
        deadline: Deadline | None = None,
        disabled: frozenset[str] = frozenset(),
        alert: AlertTaker | None = None,
        fleet: str = FLEET,
        page_url: str | None = None,
        limit: MessageLimit | None = None,
        journal_topic: str = "",
        topic_id: Callable[[], str | None] | None = None,
    ) -> None:
        self._limit = limit
        self._topic_name, self._topic_id = journal_topic, topic_id
        self._checkpoint = checkpoint
        self._tables = tables
        self._kafka = kafka
        self._validate = validate
        self._metrics = metrics
        self._instances = tuple(instances)
        self._deadline = deadline or Deadline()
        self._disabled = disabled
        self._alert = alert
        self._name = fleet
        self._page_url = page_url
        self._publisher = ThreadPoolExecutor(max_workers=1, thread_name_prefix="publisher")
        self._done_batch_id: int | None = None
        self._fleet_bytes: dict[int, int] = {}
        self._begin()
        self._lost: list[Observation] = []
        self.failure: Exception | None = None
        """What the last call raised; Spark only hands on its text."""

    def _begin(self) -> None:
        """The state before any micro-batch."""
        self._homes = Homes()
        self._rounds = Rounds(self._instances, self._deadline)
        self._checks = CollectionChecks(self._disabled)
        self._incidents = Incidents()
        self._verdicts = Verdicts()
        self._topic = JournalTopic()
        self._is_topic_compared = False

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Take one micro-batch."""
        try:
            now_us = self._checkpoint.batch_time_us(batch_id)
            planned = self._checkpoint.planned_offsets(batch_id)
            text = self.orders(batch_id, planned).to_text()
            frame.sparkSession.sparkContext.setLocalProperty(PROPERTY, text)
            # One action, so the operator runs once; Arrow, because the documents are bytes.
            self.absorb(frame.toArrow(), batch_id, now_us, planned)
        except Exception as error:
            self.failure = error
            raise

    def orders(self, batch_id: int, planned: Sequence[PlannedOffsets]) -> Orders:
        """What the operator must know of a micro-batch; the same when it is run again.

        Args:
            batch_id: Its number.
            planned: What it is to read of the journal topic.
        """
        if self._done_batch_id != batch_id - 1:
            self._load(batch_id)
        is_caught_up = self._is_caught_up(batch_id, planned)
        return self._orders(f"micro-batch {batch_id}", is_caught_up=is_caught_up)

    def _orders(self, at: str, *, is_caught_up: bool) -> Orders:
        retired = dict(self._rounds.answers.retired)
        return Orders(at, is_caught_up, retired, self._homes.away())

    def _is_caught_up(self, batch_id: int, planned: Sequence[PlannedOffsets]) -> bool:
        messages = sum(max(0, (one.end or 0) - (one.start or 0)) for one in planned)
        return self._limit is None or not self._limit.is_full(batch_id, messages)

    def absorb(
        self,
        table: pa.Table,
        batch_id: int,
        now_us: int,
        planned: Sequence[PlannedOffsets] = (),
    ) -> None:
        """Take the rows of a micro-batch, for the first time or again.

        Args:
            table: The rows.
            batch_id: Its number.
            now_us: When Spark planned it, on the job's clock.
            planned: What it was to read of the journal topic.
        """
        if self._done_batch_id != batch_id - 1:
            self._load(batch_id)
        is_caught_up = self._is_caught_up(batch_id, planned)
        # Until this one is saved, what is in memory is of no number.
        self._done_batch_id = None
        content = sort_out(table)
        step = self._contained(
            batch_id,
            f"micro-batch {batch_id}",
            content,
            lambda: sort_out(table),
            lambda shown: self._judge(shown, now_us, planned, is_caught_up=is_caught_up),
        )
        self._deliver(batch_id, step)
        self._fleet_bytes |= content.fleet_bytes
        self._save(batch_id)
        if self._limit is not None:
            self._limit.note(batch_id, content.messages, content.message_bytes)
        self._metrics.count(
            blocks=content.blocks,
            records=content.records,
            journal_bytes=content.bytes,
            micro_batches=1,
        )

    def _judge(
        self,
        content: BatchContent,
        now_us: int,
        planned: Sequence[PlannedOffsets],
        *,
        is_caught_up: bool,
    ) -> _Step:
        """Everything but what leaves the job: so it can be done again from the state before."""
        answers = self._rounds.answers
        for name, ts in retired_by(content.controls).items():
            answers.retire(name, ts)
            self._forget(name)
        leave_out_retired(content, answers)
        known = self._homes.of.keys() | answers.members.keys()
        content.observations += leave_out_beyond(content, known, answers)
        self._enter(content)
        reasons = [one.reason for one in content.dead_letters if one.kind == DEAD_LETTER]
        answers.note_unreadable(reasons, now_us, self._deadline.unreadable_max)
        controls = list(answers.obey(content.controls))
        content.observations += holes(planned, content.read)
        if content.requests or not self._is_topic_compared:
            content.observations += self._compare_topic()
        content.observations += name_strangers(content.strangers, answers)
        starts = _newest_times(e for e in content.fleet_events if e.kind is FleetEventKind.BOOT)
        rounds, missing = self._rounds.absorb(
            content.cuts,
            starts,
            content.requests,
            now_us=now_us,
            is_caught_up=is_caught_up,
            waiting=content.waiting,
        )
        if is_caught_up:
            answers.catch_up()
        step = self._step(content, rounds, missing)
        step.controls = controls
        step.absences = self._rounds.absences(now_us) if is_caught_up else {}
        return self._settle(step, now_us)

    def _enter(self, content: BatchContent) -> None:
        """Who instances are and where they belong; sources of other clusters are named."""
        for cluster, instance_id in content.journals:
            content.observations += self._homes.enter(instance_id, cluster)
        self._homes.identify_all(content.cuts, content.fleet_events)
        named = self._homes.name_sources(content.observations, content.checks)
        content.observations, content.checks = named

    def _step(
        self, content: BatchContent, rounds: list[Round], missing: Sequence[Observation]
    ) -> _Step:
        """What instances and clusters have shown."""
        return _Step(
            findings=content.findings,
            observations=[*self._lost, *map(self._with_command, content.observations), *missing],
            cuts=content.cuts,
            dead_letters=content.dead_letters,
            checks=content.checks,
            fleet_events=content.fleet_events,
            rounds=rounds,
        )

    def _with_command(self, seen: Observation) -> Observation:
        """An observation with the command that fixes it, which an executor cannot know."""
        if seen.reason != COMPARISONS_UNREADABLE.code:
            return seen
        error = f"{seen.data['error']}. To fix: {to_rebuild(self._checkpoint.directory)}"
        return replace(seen, data={**seen.data, "error": error})

    def _compare_topic(self) -> list[Observation]:
        """Name a journal topic that is another one than before."""
        if self._topic_id is None:
            return []
        self._is_topic_compared = True
        return list(self._topic.compare(self._topic_name, self._topic_id()))

    def _contained(
        self,
        batch_id: int,
        at: str,
        content: BatchContent,
        again: Callable[[], BatchContent],
        judge: Callable[[BatchContent], _Step],
    ) -> _Step:
        """A step; where what an instance shows or has shown raises, without it: it enters anew.

        Args:
            batch_id: The step begins with the state before this micro-batch.
            at: What the step is called.
            content: What instances show in it.
            again: Makes the same anew, as judging changes it.
            judge: Makes the step.
        """
        try:
            return judge(content)
        except Exception:  # noqa: BLE001  whose evidence it is, and what, is found out
            self._begin_at(batch_id)
        names = again().instances | self._homes.of.keys()

        def of(some: Iterable[str], refused: Mapping[str, str]) -> _Step:
            left_out = names.difference(some)
            self._begin_at(batch_id)
            for name in left_out:
                self._forget(name)
            shown = again()
            shown.leave_out(left_out)
            shown.observations += evidence_refused(refused, at)
            return judge(shown)

        refused = culprits(names, lambda some: of(some, {}))
        return of(names - refused.keys(), refused)

    def _forget(self, instance_id: str) -> None:
        """An instance is no member of the fleet any more."""
        self._homes.forget(instance_id)
        self._checks.retire(instance_id)

    def finish(self, buckets: Iterable[Bucket] = ()) -> None:
        """The history ends here: decide what waits, or report it as undecided.

        Args:
            buckets: The audits of all instances and clusters.

        Nothing of it is kept: if the job goes on from its checkpoint location after all, it goes on
        from the state before, and these rows are taken back.
        """
        of_topic = self._end_of_topic()
        # What is missing at the end of a journal may be in a block that could not be read.
        goes_on = self._verdicts.has_unread or bool(of_topic)
        orders = self._orders(_END, is_caught_up=True)
        ends = [bucket.finish(orders, goes_on=goes_on) for bucket in buckets]

        def judge(content: BatchContent) -> _Step:
            self._enter(content)
            rounds, missing = self._rounds.absorb(content.cuts, {}, now_us=0)
            closed, more_missing = self._rounds.finish()
            return self._settle(self._step(content, [*rounds, *closed], [*missing, *more_missing]))

        self._end(ends, of_topic, judge)

    def pause(self, buckets: Iterable[Bucket], now_us: int, *, is_history: bool) -> None:
        """The run ends, and the history goes on: what waits is undecided, and who has not answered.

        Nothing of it is kept, as with ``finish``.

        Args:
            buckets: The audits of all clusters.
            now_us: The job's clock.
            is_history: What was there has been read at one go, and the job asked for nothing.
        """
        of_topic = self._end_of_topic()
        orders = self._orders(_END, is_caught_up=True)
        ends = [bucket.pause(orders) for bucket in buckets]

        def judge(content: BatchContent) -> _Step:
            self._enter(content)
            rounds, missing = self._rounds.give_up(now_us, is_history=is_history)
            return self._settle(self._step(content, rounds, missing))

        self._end(ends, of_topic, judge)

    def _end_of_topic(self) -> list[Observation]:
        if self._done_batch_id is None:
            self._load(self._checkpoint.next_batch_id())  # this run had no micro-batch of its own
        return self._compare_topic()

    def _end(
        self,
        ends: Sequence[Ends],
        of_topic: Sequence[Observation],
        judge: Callable[[BatchContent], _Step],
    ) -> None:
        def content() -> BatchContent:
            instances = [output for end in ends for output in end.instances]
            shown = BatchContent(
                findings=[finding for each in instances for finding in each.findings],
                observations=[*of_topic, *(o for each in instances for o in each.observations)],
                cuts=[cut for each in instances for cut in each.cuts],
                fleet_events=[event for each in instances for event in each.fleet_events],
            )
            clusters = [each for end in ends for each in end.clusters.items()]
            for _, output in sorted(clusters, key=lambda each: each[0]):
                shown.add_cluster(output)
            return shown

        batch_id = self._checkpoint.next_batch_id()
        step = self._contained(batch_id, _END, content(), content, judge)
        self._deliver(END_BATCH, step, is_last=True)
        self._done_batch_id = None

    def _settle(self, step: _Step, now_us: int | None = None) -> _Step:
        """What becomes of incidents and of the checks of collections."""
        step.findings.sort(key=lambda finding: finding.order)
        self._checks.absorb(step.findings, step.observations, step.checks)
        step.changes = self._incidents.absorb(
            step.findings,
            step.cuts,
            step.checks,
            step.fleet_events,
            step.controls,
            clock_us=now_us,
        )
        return step

    def _deliver(self, batch: int | None, step: _Step, *, is_last: bool = False) -> None:
        findings, observations, rounds = step.findings, step.observations, step.rounds
        labels = self._homes.labels()
        origin = Origin(self._name, time.time_ns() // 1_000, self._page_url, labels)
        lost = 0
        # Who waits for an alert or a finding does not wait for the validator and the tables. An
        # alert is only put into its queue here; a finding is written by a job of Spark, beside
        # which the tables are written, as both mostly wait.
        if self._alert is not None:
            self._alert(step.changes, origin, step.absences)
        delivery = self._publisher.submit(self._publish, findings, step.changes, origin)
        try:
            if self._kafka is not None:
                error = self._kafka.publish_dead_letters(step.dead_letters)
                if error:
                    lost = len(step.dead_letters)
                    at = f"dead letters of micro-batch {batch}"
                    code = ObservationCode.DEAD_LETTERS_LOST
                    seen = doubt(code, at, DEAD_LETTERS_LOST, count=lost, error=error)
                    observations.append(replace(seen, is_undecided=False))
            # What no record shows has no time of its own: it was seen after the newest collection,
            # or with the newest of those that were closed in the same micro-batch.
            closed = (one.ts for one in rounds if not one.is_late)
            seen_ts = max((self._verdicts.newest_ts or 0) + 1, *closed, 0)
            observations = [one if one.ts else replace(one, ts=seen_ts) for one in observations]
            validations, of_collections = self._validations(rounds, is_last=is_last)
            missing = [cut for r in rounds for cut in r.cuts if cut.instance_id in r.missing]
            rows = [*step.cuts, *missing]
            self._tables.write(
                batch,
                findings=findings,
                incidents=list(self._incidents.touched.values()),
                observations=observations,
                cuts=rows,
                checks=of_collections,
                validations=validations,
            )
        finally:
            delivered_us = delivery.result()
        self._metrics.count(
            findings=len(findings),
            observations=len(observations),
            states_unreadable=sum(o.code is ObservationCode.STATE_UNREADABLE for o in observations),
            cuts=len(step.cuts),
            dead_letters=len(step.dead_letters),
            dead_letters_lost=lost,
            collections_closed=sum(not closed.is_late for closed in rounds),
            collections_late=sum(closed.is_late for closed in rounds),
        )
        self._metrics.set(collections_open=self._rounds.open_count)
        verdicts = [Verdict(row["verdict"]) for row in validations]
        self._verdicts.absorb(findings, observations, rows, rounds, verdicts)
        incidents = list(self._incidents.open.values())
        report = StepReport(
            delivered_us=delivered_us,
            findings=findings,
            incidents=incidents,
            rounds=rounds,
            validations=verdicts,
            members=dict(self._rounds.answers.members),
            verdict_now=self._verdicts.now(incidents),
            verdict_period=self._verdicts.period,
        )
        self._metrics.notify(lambda watcher: watcher.stepped(report))

    def _publish(
        self, findings: list[Finding], changes: list[IncidentChange], origin: Origin
    ) -> int:
        """Write findings and changes of incidents to Kafka; when that is done, microseconds."""
        if self._kafka is not None:
            self._kafka.publish(findings, changes, origin)
        return time.time_ns() // 1_000

    def _validations(
        self, rounds: list[Round], *, is_last: bool
    ) -> tuple[list[dict[str, Any]], list[SubjectCheck]]:
        """The validator's answer to each round, and the checks that it was given."""
        validations: list[dict[str, Any]] = []
        checks: list[SubjectCheck] = []
        last: tuple[list[Cut], list[SubjectCheck]] | None = None

        def validate(closed: Round, found: list[SubjectCheck]) -> None:
            checks.extend(found)
            validations.append(self._validated(closed, rows_with_checks(closed.cuts, found)))

        for closed in rounds:
            if closed.cuts:
                found = self._checks.of(closed.cuts)
                if closed.waiting:
                    found = gravest([*found, *closed.waiting])
                last = closed.cuts, found
                validate(closed, found)
            else:
                validations.append(_validation(closed, Verdict.UNDECIDED, "nobody has answered"))
        # What only holds, and later than the last collection, changes no answer to it.
        late = (one.check.outcome for one in self._checks.waiting)
        if is_last and any(outcome is not Outcome.HOLDS for outcome in late):
            cuts, known = last or self._tables.last_collection()
            found = gravest([*known, *self._checks.of(cuts, is_last=True)])
            name, ts = found[0].collection_id, found[0].ts
            validate(Round(name, cuts, missing=(), is_late=True, ts=ts), found)
        return validations, checks

    def _validated(self, closed: Round, cuts: list[Cut]) -> dict[str, Any]:
        verdict, reason = Verdict.UNDECIDED, "no validator"
        if self._validate is not None:
            try:
                verdict, reason = self._validate(cuts).verdict, ""
            except Exception as error:  # noqa: BLE001  what a validator cannot do is undecided
                reason = f"the validator failed: {error!r}"
        return _validation(closed, verdict, reason)

    def _load(self, batch_id: int) -> None:
        # The history goes on, so what an earlier run reported at its end is no longer true.
        self._tables.take_back_end()
        self._begin_at(batch_id)
        self._done_batch_id = batch_id - 1

    def _begin_at(self, batch_id: int) -> None:
        """The state before a micro-batch."""
        self._lost = []
        self._begin()
        saved = self._checkpoint.load_state(batch_id)
        if saved is None:
            self._lost = [
                doubt(
                    ObservationCode.JOURNAL_GAP,
                    f"partition {partition}, offset {offset}",
                    BEGINNING_LOST,
                    error=f"partition {partition} of the journal's topic begins at offset {offset}",
                )
                for partition, offset in self._checkpoint.beginnings_lost().items()
            ]
            return
        try:
            rounds, rest = split(saved, "the collections")
            homes, rest = split(rest, "the clusters")
            checks, rest = split(rest, "the checks")
            incidents, rest = split(rest, "the incidents")
            verdicts, topic = split(rest, "the verdicts")
            self._rounds.restore(rounds)
            self._homes.restore(homes)
            self._checks.restore(checks)
            self._incidents.restore(incidents)
            self._verdicts.restore(verdicts)
            self._topic.restore(topic)
            for name in self._homes.of.keys() - self._instances if self._instances else ():
                self._forget(name)
        except StateError as error:
            self._begin()
            self._verdicts.has_unread = True  # for all that is known
            # What is broken does not heal by that: the tables know the incidents.
            self._incidents = Incidents.of(self._tables.incidents(batch_id))
            code, at = ObservationCode.STATE_UNREADABLE, f"micro-batch {batch_id}"
            directory = self._checkpoint.directory / "fleet"
            why = f"{str(directory)!r}: {error}. To fix: {to_rebuild(directory)}"
            self._lost.append(doubt(code, at, FLEET_STATE_UNREADABLE, error=why))

    def _save(self, batch_id: int) -> None:
        parts = (
            self._rounds,
            self._homes,
            self._checks,
            self._incidents,
            self._verdicts,
            self._topic,
        )
        state = b"".join(part.to_bytes() for part in parts)
        self._checkpoint.save_state(batch_id, state)
        self._metrics.set(
            fleet_state_bytes=len(state) + sum(self._fleet_bytes.values()),
            state_instances=len(self._homes.of),
        )
        self._lost = []
        self._done_batch_id = batch_id


def _newest_times(events: Iterable[FleetEvent]) -> dict[str, int]:
    """The time of the newest of these events, by instance."""
    seen: dict[str, int] = {}
    for event in events:
        seen[event.instance_id] = max(seen.get(event.instance_id, 0), event.ts)
    return seen


def _validation(closed: Round, verdict: Verdict, reason: str) -> dict[str, Any]:
    return {
        "collection_id": closed.collection_id,
        "verdict": verdict.value,
        "reason": reason,
        "instances": len({cut.instance_id for cut in closed.cuts}),
        "missing": len(closed.missing),
        "is_late": closed.is_late,
        "ts": closed.ts,
    }
