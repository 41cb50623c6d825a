"""A check of one thing that a deployment needs: tried with a deadline, whatever became of others.

Checks of one place (this machine, Kafka, a server) follow each other; one that needs another that
has failed is not tried. Places are tried side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, final

from tallystick.coordinates.values.errors import AuditError

DEADLINE_S = 20.0
"""How long a check may take; what it waits for has shorter limits where it can be given some."""
PLACES_MAX = 16
_TO_FIX = "To fix: "


class State(str, Enum):
    """What became of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a check has seen.

    Attributes:
        state: What became of it.
        text: What was seen, or why it was not tried; one sentence or a few words.
        fix: What makes it better: an action or a command; empty where nothing has to be done.
        value: For checks that follow.
    """

    state: State
    text: str
    fix: str = ""
    value: Any = field(default=None, compare=False)


def passed(text: str, value: Any = None) -> Answer:
    """It is as it should be."""
    return Answer(State.OK, text, "", value)


def warning(text: str, fix: str) -> Answer:
    """It works, and something is worse than it could be."""
    return Answer(State.WARNING, text, fix)


def failed(text: str, fix: str) -> Answer:
    """Something that is needed does not work."""
    return Answer(State.FAILED, text, fix)


def not_tried(text: str) -> Answer:
    """It could not be tried, or nothing needs it."""
    return Answer(State.NOT_TRIED, text)


def failure_of(error: AuditError, fix: str = "") -> Answer:
    """An error of ours, whose sentence may end with what fixes it; ``fix``: where it does not."""
    text, _, named = str(error).partition(_TO_FIX)
    return failed(text.strip(), named or fix)


@dataclass(frozen=True, slots=True)
class Check:
    """A check with its answer.

    Attributes:
        place: ``machine``, ``kafka``, ``server NAME``, ``servers``.
        name: What was checked.
        state: What became of it.
        text: What was seen.
        fix: What makes it better.
    """

    place: str
    name: str
    state: State
    text: str
    fix: str

    @property
    def line(self) -> str:
        """What was seen, with its fix."""
        text = self.text.rstrip(".")
        return f"{text}. {_TO_FIX}{self.fix}" if self.fix else text


@final
class Place:
    """Checks of one place, in the order in which they are tried.

    Args:
        name: Of the place.
        deadline_s: How long each of its checks may take.

    Attributes:
        checks: Those that have been tried, or could not be.
    """

    def __init__(self, name: str, deadline_s: float = DEADLINE_S) -> None:
        self.name = name
        self.checks: list[Check] = []
        self._deadline_s = deadline_s

    def try_(
        self, name: str, check: Callable[[], Answer], *, needs: str = "", fix: str = ""
    ) -> Any:
        """Try a check; whatever it raises is its answer.

        Args:
            name: What is checked.
            check: Checks it.
            needs: The name of an earlier check of this place, without which it is not tried.
            fix: Of an error that names none.

        Returns:
            The value of its answer.
        """
        if needs and self._state_of(needs) in {State.FAILED, State.NOT_TRIED}:
            return self.add(name, not_tried(f"needs what is checked as {needs!r}"))
        return self.add(name, _answer(check, fix, self._deadline_s))

    def add(self, name: str, answer: Answer) -> Any:
        """Note an answer; returns its value."""
        self.checks.append(Check(self.name, name, answer.state, answer.text, answer.fix))
        return answer.value

    def _state_of(self, name: str) -> State:
        return next(check.state for check in self.checks if check.name == name)


def _answer(check: Callable[[], Answer], fix: str, deadline_s: float) -> Answer:
    answers: list[Answer] = []

    def run() -> None:
        try:
            answers.append(check())
        except AuditError as error:
            answers.append(failure_of(error, fix))
        except Exception as error:  # noqa: BLE001  one check's mistake must not end the others
            answers.append(_mistake(error))

    # What waits for ever cannot be ended from here; it ends with the process.
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(deadline_s)
    if answers:
        return answers[0]
    return failed(f"no answer within {deadline_s:g} s", "see what holds it up, and try again")


def _mistake(error: Exception) -> Answer:
    text = f"internal error of tallystick: {type(error).__name__}: {error}"
    return failed(text, "report it, with this line")


def try_all(places: Sequence[tuple[Place, Callable[[Place], None]]]) -> None:
    """Try the checks of places side by side."""
    slots = threading.BoundedSemaphore(PLACES_MAX)

    def run(place: Place, checks: Callable[[Place], None]) -> None:
        with slots:
            try:
                checks(place)
            except Exception as error:  # noqa: BLE001  a place that is not tried must not pass
                place.add("all that follows", _mistake(error))

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in places]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def documents(checks: Iterable[Check]) -> list[dict[str, str]]:
    """Checks as JSON has them."""
    return [{**asdict(check), "state": check.state.value} for check in checks]
