"""What is done to the processes of a round: one entry an act, which is all there is of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from signal import SIGCONT, SIGKILL, SIGSTOP
from typing import Final

from tallystick.chaos.processes import Processes, send
from tallystick.producers.mysql_lab.layout import REPLICA_1, SOURCE_A

HOUR_US: Final = 3_600_000_000
Step = Callable[[Processes], None]


def _nothing(_: Processes) -> None:
    """What was done ends by itself, or is to stay."""


@dataclass(frozen=True, slots=True)
class Act:
    """One kind of disturbance.

    Attributes:
        name: In words.
        do: Disturbs.
        undo: Brings back what does not come back by itself.
        lasts: Whether some seconds pass in between.
        begins_epochs: Whether journals go on under higher epochs after it.
    """

    name: str
    do: Step
    undo: Step = _nothing
    lasts: bool = False
    begins_epochs: bool = False

    def __str__(self) -> str:
        """In words."""
        return self.name


def _stopped(name: str, pid: Callable[[Processes], int]) -> Act:
    return Act(
        f"SIGSTOP of {name}",
        lambda processes: send(pid(processes), SIGSTOP),
        lambda processes: send(pid(processes), SIGCONT),
        lasts=True,
    )


def _tail(name: str, clock_us: int) -> Act:
    return Act(
        name,
        Processes.kill_fleet,
        lambda processes: processes.start_fleet(clock_us=clock_us),
        lasts=True,
    )


def _kill_workers(processes: Processes) -> None:
    for pid in processes.workers():
        send(pid, SIGKILL)


def _server(name: str) -> tuple[Act, ...]:
    return (
        Act(
            f"kill -9 of {name}",
            lambda processes: processes.lab.kill(name),
            lambda processes: processes.lab.restart(name),
            lasts=True,
        ),
        Act(f"a restart of {name}", lambda processes: processes.lab.restart(name)),
    )


MACHINERY: Final = (
    Act("kill -9 of the audit", Processes.kill_audit, Processes.start_audit, lasts=True),
    Act("SIGTERM of the audit", Processes.end_audit, Processes.start_audit),
    _stopped("the audit", Processes.audit_pid),
    Act("kill -9 of its JVM", Processes.kill_jvm, Processes.start_audit),
    _stopped("its JVM", Processes.jvm_pid),
    Act("kill -9 of its Python workers", _kill_workers),
    Act("kill -9 of the broker", Processes.kill_broker, Processes.restart_broker, lasts=True),
    Act("a restart of the broker", Processes.restart_broker),
    Act("no space for the broker", Processes.fill_broker, Processes.restart_broker, lasts=True),
    _stopped("the broker", Processes.broker_pid),
    _stopped("the producer", Processes.fleet_pid),
)
SIMULATED: Final = (
    Act(
        "kill -9 of the producer",
        Processes.kill_fleet,
        Processes.start_fleet,
        lasts=True,
        begins_epochs=True,
    ),
    Act("a second producer beside the first", Processes.replace_fleet, begins_epochs=True),
)
LAB: Final = (
    _tail("kill -9 of tail", 0),
    _tail("kill -9 of tail, and a clock that is then an hour fast", HOUR_US),
    _tail("kill -9 of tail, and a clock that is then an hour slow", -HOUR_US),
    *_server(SOURCE_A),
    *_server(REPLICA_1),
)


def acts_of(*, is_lab: bool) -> tuple[Act, ...]:
    """All acts of a round, in no order: a seed draws from them."""
    return MACHINERY + (LAB if is_lab else SIMULATED)
