"""How a backup locks all engines within one budget (WL#3576, mail of 2006-10-30)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.journal import RecordType

if TYPE_CHECKING:
    from producers.simulator.engine import Fleet
    from producers.simulator.model import Instance

_LOCK_US = 4_000
_ENGINES = ("myisam", "innodb")
_TIMEOUT_US = 2_000_000
_PAUSE_US = 10_100_000


def lock_engines(fleet: Fleet, instance: Instance, round_number: int) -> None:
    """Lock all engines within their budget; the first round runs into its time-out."""
    if not instance.is_running:
        return
    first, second = _ENGINES
    _tell(instance, "begin" if round_number == 1 else "retry", round_number)
    instance.journal.tick(_LOCK_US)
    _tell(instance, "lock", round_number, first)
    if round_number == 1:
        fleet.schedule(fleet.now + _TIMEOUT_US, instance, _give_up, instance, round_number, second)
        return
    instance.journal.tick(_LOCK_US)
    _tell(instance, "lock", round_number, second)
    _tell(instance, "done", round_number)
    instance.blocked_until = instance.journal.tick(_LOCK_US)
    _tell(instance, "unlock_all", round_number)


def _give_up(fleet: Fleet, instance: Instance, round_number: int, engine: str) -> None:
    _tell(instance, "timeout", round_number, engine)
    _tell(instance, "unlock_all", round_number)
    fleet.schedule(fleet.now + _PAUSE_US, instance, lock_engines, instance, round_number + 1)


def _tell(instance: Instance, step: str, round_number: int, engine: str | None = None) -> None:
    body: dict[str, Any] = {"step": step, "round": round_number}
    if engine is not None:
        body["engine"] = engine
    instance.journal.fact(RecordType.ENGINE_LOCK, body)
