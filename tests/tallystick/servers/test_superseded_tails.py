"""Tails side by side, where somebody else writes one of the journals."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tallystick.coordinates.values.errors import AuditError
from tallystick.producers.kafka_clients.errors import SupersededError
from tallystick.servers.tailing import Tails


class Following:
    """A tail that follows until it is to stop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_ended = threading.Event()

    def ask(self, request: object) -> None:
        pass

    def run(self, stop: threading.Event) -> None:
        stop.wait()
        self.has_ended.set()


def claims(*names: str) -> Iterator[dict[str, SupersededError]]:
    for name in names:
        yield {name: SupersededError(name, 8, 7)}
    while True:
        yield {}


def run(tails: list[Any], names: tuple[str, ...], shown: list[str], *, stops: bool) -> None:
    """Run them, with claims of others one after the other; what is shown goes into the list."""
    stop = threading.Event()
    claimed, polls = claims(*names), 0

    def requests(_timeout_s: float) -> list[Any]:
        nonlocal polls
        polls += 1
        if polls > len(names):
            for tail in tails:
                if tail.name in names:
                    assert tail.has_ended.wait(30)
            if stops:
                assert [tail.has_ended.is_set() for tail in tails] == [
                    t.name in names for t in tails
                ]
                stop.set()
        return []

    Tails(tails, requests, shown.append, lambda: next(claimed)).run(stop)


def test_a_journal_that_somebody_else_writes_is_given_up_alone() -> None:
    """The others are followed until they are to stop; it is said once."""
    shown: list[str] = []
    run([Following("a"), Following("b")], ("a",), shown, stops=True)
    assert shown == [
        "a: another producer writes its journal now (epoch 8, ours is 7): this one ends"
    ]


def test_a_state_that_cannot_be_saved_ends_it_with_the_systems_reason() -> None:
    class Full(Following):
        def run(self, stop: threading.Event) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", "state")

    with pytest.raises(
        AuditError, match=r"^a: its state cannot be saved: No space left on device$"
    ):
        Tails([Full("a")], lambda _: [], print).run(threading.Event())


@pytest.mark.parametrize("names", [("a",), ("a", "b")])
def test_when_all_journals_are_somebody_elses_it_ends(names: tuple[str, ...]) -> None:
    """Each is said once: the last one is the error."""
    shown: list[str] = []
    with pytest.raises(SupersededError, match=f"^{names[-1]}: another producer"):
        run([Following(name) for name in names], names, shown, stops=False)
    assert [f"{name}:" for name in names[:-1]] == [line.split()[0] for line in shown]
