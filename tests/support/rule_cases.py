"""For each rule of one instance's audit: a history just inside its boundary, one just outside.

A case is a function that is named after its rule, or begins with it and a double underscore;
made to break it does the one thing more that no server may do.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.support.journals import (
    UUID_B,
    UUID_C,
    Audited,
    Journal,
    Record,
    RelayLog,
    audit,
)


class Build(Protocol):
    """Builds the history; ``breaks``: one step beyond the boundary."""

    __name__: str

    def __call__(self, breaks: bool) -> Journal: ...


@dataclass(frozen=True)
class Case:
    """A history of one rule; ``names``: what must be found in it when it is broken."""

    build: Build
    names: frozenset[str]


CASES: dict[str, Case] = {}


def case(*also: str) -> Callable[[Build], Build]:
    """Register a case; ``also``: what its breach breaks as well."""

    def register(build: Build) -> Build:
        name = build.__name__
        CASES[name] = Case(build, frozenset({name.partition("__")[0], *also}))
        return build

    return register


def all_cases() -> dict[str, Case]:
    """Those of all modules beside this one."""
    for path in sorted(Path(__file__).parent.glob("rule_cases_*.py")):
        importlib.import_module(f"tests.support.{path.stem}")
    return CASES


@functools.cache
def audited(name: str, *, breaks: bool) -> Audited:
    """What the audit makes of a case's history."""
    return audit(CASES[name].build(breaks=breaks))


def source(groups: int = 3, **settings: object) -> Journal:
    """A source with some groups."""
    return Journal(**settings).begin().groups(groups)  # type: ignore[arg-type]


def replica(groups: int = 3, **settings: object) -> tuple[Journal, RelayLog, list[list[Record]]]:
    """A replica that has received and applied some groups, and groups yet to come."""
    origin = Journal("s", UUID_C, 3).begin().groups(groups + 6)
    journal = Journal("a", UUID_B, 2, **settings).begin()  # type: ignore[arg-type]
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay()
    relay.connect()
    for group in origin.binlog.groups[:groups]:
        apply(journal, relay, group)
    return journal, relay, origin.binlog.groups[groups:]


def apply(journal: Journal, relay: RelayLog, group: list[Record]) -> None:
    """Receive and execute one group."""
    relay.copy(group)
    journal.binlog.group(group[0].get("gtid"), server_id=3)


def local(row: Record) -> Record:
    """The column LOCAL of a row."""
    found: Record = row["row"]["LOCAL"]
    return found


def innodb(row: Record) -> Record:
    """What the row says of InnoDB."""
    found: Record = row["row"]["STORAGE_ENGINES"]["InnoDB"]
    return found


def channel(row: Record) -> Record:
    """The row's only channel."""
    found: list[Record] = row["row"]["REPLICATION"]["channels"]
    return found[0]


def purging() -> Journal:
    """Three files with three, two and one groups."""
    journal = source()
    journal.binlog.rotate()
    journal.groups(2).binlog.rotate()
    return journal.groups(1)


def files(*numbers: int) -> list[Record]:
    """SHOW BINARY LOGS, but for the lengths."""
    return [{"name": f"binlog.{number:06d}"} for number in numbers]
