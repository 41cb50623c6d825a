"""Rounds of disturbance: each is made, held against a replay of its journal, and reported."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tallystick.chaos.compare import violations, violations_after_damage
from tallystick.chaos.plan import Plan, draw
from tallystick.chaos.processes import Processes, StoppedError
from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.relay import HOLES
from tallystick.producers.simulator.faults import FAULTS
from tallystick.terminal import Progress

ROWS = 4
"""So many answers after an act show that all went on."""


@dataclass(frozen=True, slots=True)
class Round:
    """What became of a round.

    Attributes:
        plan: What was done.
        violations: What it has changed.
        findings: How many the audit has.
        rows: Answers to collections in its tables.
        seconds: How long it took.
    """

    plan: Plan
    violations: list[str]
    findings: int
    rows: int
    seconds: float


def rounds(
    directory: Path,
    *,
    seed: int,
    acts: int,
    is_lab: bool,
    seconds: float,
    progress: Progress,
    stop: threading.Event,
) -> Iterator[Round]:
    """One round a seed, from a seed on, until the time is over; at least one.

    Args:
        directory: Has a directory for each round; that of a round without violations is removed.
        seed: The first one.
        acts: How many in each round.
        is_lab: Whether the fleet is two real servers.
        seconds: No round begins after this time.
        progress: Where to report what is done.
        stop: Ends the round that is under way, and all.
    """
    end = time.monotonic() + seconds
    while not stop.is_set():
        try:
            plan = draw(seed, acts, is_lab=is_lab)
            yield _round(directory / f"seed-{seed}", plan, progress, stop)
        except StoppedError:
            return
        seed += 1
        if time.monotonic() >= end:
            return


def _round(directory: Path, plan: Plan, progress: Progress, stop: threading.Event) -> Round:
    begun = time.monotonic()
    fleet = "source and replica" if plan.is_lab else plan.topology
    progress.done(f"seed {plan.seed}: {fleet}, canary {plan.canary}")
    shutil.rmtree(directory, ignore_errors=True)
    findings = rows = 0
    try:
        with Processes(directory, plan, stop) as processes:
            _wait_for_rows(processes, "the beginning")
            for step in plan.steps:
                progress.done(f"  {step}")
                step.act.do(processes)
                processes.rest(step.seconds)
                step.act.undo(processes)
                _wait_for_rows(processes, str(step))
            rows = processes.rows()
            audited, replayed = processes.finish()
        must_fire = FAULTS[plan.canary].must_fire
        if plan.damage:
            damaged = {who for (kind, who) in processes.damage if kind in HOLES}
            wrong = violations_after_damage(audited, replayed, must_fire, damaged)
        else:
            wrong = violations(
                audited,
                replayed,
                must_fire,
                begins_epochs=plan.begins_epochs,
                is_lab=plan.is_lab,
            )
        for (kind, who), count in sorted(processes.damage.items(), key=str):
            progress.done(f"  {count} messages of {who} {kind.value}")
        findings = len(audited["findings"])
    except AuditError as error:
        wrong = [str(error)]
    if not wrong:
        shutil.rmtree(directory)
    return Round(plan, wrong, findings, rows, time.monotonic() - begun)


def _wait_for_rows(processes: Processes, after: str) -> None:
    wanted = processes.rows() + ROWS
    processes.wait(lambda: processes.rows() >= wanted, f"answers after {after}")
