"""A history put through producers, a topic and the steps of the job, in memory, with crashes.

Each may crash at each of its steps and goes on from what was saved. On the way messages are
dropped, doubled, delayed past others, cut short or get a bit flipped; saved states get one flipped.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.events.journal import Block, RecordType, Stream
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import (
    Finding,
    Incident,
    Observation,
    Verdict,
    verdict_of_run,
)
from tallystick.coordinates.rules.explanation import explain
from tallystick.producers.simulator.assemble import simulate
from tests.support.chaos_job import Disk, Job
from tests.support.chaos_journal import CANARY, LOSSES, Crashes, Producer, Topic
from tests.support.journals import Journal

CANARY_RULE = "executed_within_logged"
"""What the canary's last row breaks, in every run."""


def journals_of(seed: int) -> dict[str, Block]:
    """The journals of a seed's fleet, and beside them that of the canary."""
    journals = dict(simulate(scenario_of(seed)).journals)
    answered: dict[str, int] = {}
    for journal in journals.values():
        columns = journal.columns
        is_answer = (columns["stream"] == Stream.SERVER) & (
            columns["type"] == RecordType.LOG_STATUS
        )
        for index in np.flatnonzero(is_answer).tolist():
            name = journal.body(index)["collection_id"]
            answered.setdefault(name, int(columns["ts"][index]))
    canary = Journal(CANARY, "cacacaca-0000-0000-0000-00000000000c", 77)
    canary.ts = min(int(journal.columns["ts"][0]) for journal in journals.values())
    canary.begin()
    for name, ts in sorted(answered.items(), key=lambda item: item[1]):
        canary.ts = max(canary.ts, ts)
        canary.groups(2)
        row = canary.row()
        row["collection_id"] = name
    row["row"]["LOCAL"]["gtid_executed"] += f":{10**6}"
    [journals[CANARY]] = blocks_from_lines(canary.lines())
    return journals


@dataclass
class Outcome:
    """What a run has found, the canary left out.

    Attributes:
        canary: Whether the canary was found.
        doubled: Findings that have more than one row for a collection.
    """

    findings: dict[str, Finding]
    incidents: dict[str, Incident]
    verdict: Verdict
    canary: bool
    doubled: list[str]


def outcome_of(disk: Disk) -> Outcome:
    found: list[Finding] = disk.values("findings")
    observations: list[Observation] = disk.values("observations")
    cuts: list[Cut] = disk.values("cuts")
    own = [finding for finding in found if finding.instance_id != CANARY]
    counted = Counter((finding.finding_id, finding.collection_id) for finding in found)
    newest = {one.incident_id: one for one in disk.values("incidents")}
    return Outcome(
        findings={finding.finding_id: finding for finding in own},
        # Of one that only goes on it depends on the micro-batches which row was the last.
        incidents={
            name: replace(one, last_seen_ts=0)
            for name, one in newest.items()
            if one.finding.instance_id != CANARY
        },
        verdict=verdict_of_run(
            own,
            [one for one in observations if one.instance_id != CANARY],
            [Verdict(cut.verdict) for cut in cuts if cut.instance_id != CANARY],
        ),
        canary=any(f.instance_id == CANARY and f.rule == CANARY_RULE for f in found),
        doubled=sorted(name for (name, _), count in counted.items() if count > 1),
    )


@dataclass
class ChaosResult:
    """What one seed showed.

    Attributes:
        problems: Promises that were broken, one sentence each.
        crashes: How often processes were killed, by step.
        lost: How many blocks and states were lost, by what.
    """

    seed: int
    problems: list[str]
    crashes: Counter[str]
    lost: Counter[str]


def run_chaos(seed: int) -> ChaosResult:
    """A seed's history undisturbed, with chaos, and as this without crashes; then compared."""
    rng = Random(f"chaos {seed}")
    journals = journals_of(seed)
    is_lossy = rng.random() < 0.6
    rates = {"doubled": 0.05}
    if is_lossy:
        rates |= dict.fromkeys(rng.sample(LOSSES, rng.choice((1, 2, 3))), 0.03)
    with TemporaryDirectory(prefix="chaos-") as name:
        directory = Path(name) / "checkpoint"
        never = Crashes(Random(0), 0.0)
        calm = outcome_of(_calm(journals, directory, never).disk)
        crashes = Crashes(Random(rng.random()), rng.choice((0.0, 0.02, 0.1)))
        topic = Topic(rng, rates)
        shutil.rmtree(directory)
        job = Job(topic, Disk(directory), crashes)
        _disturb(job, [Producer(j, topic, crashes, rng) for j in journals.values()], rng, is_lossy)
        again = job
        if crashes.hit:
            shutil.rmtree(directory)
            again = Job(topic, Disk(directory), never)
            for plan in job.disk.plans:
                again.run(plan)
            again.finish(job.disk.end_damage)
    lost = topic.lost + Counter(
        f"state of {plan.damage[0]}" for plan in job.disk.plans if plan.damage is not None
    )
    lost["state at the end"] += job.disk.end_damage is not None
    problems = list(_problems(calm, job.disk, again.disk, lost))
    return ChaosResult(seed, problems, crashes.hit, lost)


def _calm(journals: dict[str, Block], directory: Path, never: Crashes) -> Job:
    topic = Topic(Random(0), {})
    job = Job(topic, Disk(directory), never)
    for journal in journals.values():
        topic.append(journal, may_vanish=False)
    job.run()
    job.finish()
    return job


def _disturb(job: Job, producers: list[Producer], rng: Random, is_lossy: bool) -> None:
    waiting = list(producers)
    batch_share = rng.choice((0.03, 0.1, 0.25))
    while waiting:
        producer = rng.choice(waiting)
        producer.step()
        waiting = [one for one in waiting if not one.is_done]
        if rng.random() < batch_share:
            number = len(job.disk.plans)
            plan = job.plan()
            if is_lossy and number and rng.random() < 0.05:
                names = job.known(number - 1)
                plan.damage = (rng.choice(["driver", "fleet", *names]), rng.randrange(2**31))
            job.run(plan)
    job.topic.release()
    job.run()
    job.finish(rng.randrange(2**31) if is_lossy and rng.random() < 0.1 else None)


def _problems(calm: Outcome, disk: Disk, again: Disk, lost: Counter[str]) -> Iterator[str]:
    found = outcome_of(disk)
    if not (calm.canary and found.canary):
        yield "the canary was not found"
    for name in disk.rows.keys() | again.rows.keys():
        if list(map(repr, disk.rows[name])) != list(map(repr, again.rows[name])):
            yield f"crashes have changed the table {name}"
    if disk.changes.keys() != again.changes.keys():
        yield "crashes have changed which changes of incidents are published"
    if not +lost:
        yield from _differences(calm, found)
        return
    # Where a history is faulty, a loss may show the same fault to another rule.
    faulty = {finding.instance_id for finding in calm.findings.values()}
    for finding in found.findings.values():
        if finding.instance_id not in faulty:
            yield f"false: {finding.instance_id}: {finding.rule}: {explain(finding).sentence}"
    if found.verdict is Verdict.CONSISTENT:
        yield f"CONSISTENT over a hole: {dict(lost)}"


def _differences(calm: Outcome, found: Outcome) -> Iterator[str]:
    """Nothing was lost, so everything is equal."""
    for name in calm.findings.keys() ^ found.findings.keys():
        where, one = (
            ("not found", calm.findings[name])
            if name in calm.findings
            else ("false", found.findings[name])
        )
        yield f"{where}: {one.instance_id}: {one.rule}: {explain(one).sentence}"
    for name in calm.incidents.keys() | found.incidents.keys():
        one, other = calm.incidents.get(name), found.incidents.get(name)
        if one != other:
            yield f"incident {name} is {other}, expected {one}"
    if calm.verdict is not found.verdict:
        yield f"the verdict is {found.verdict}, expected {calm.verdict}"
    if found.doubled != calm.doubled:
        yield f"findings with several rows: {found.doubled}, expected {calm.doubled}"
