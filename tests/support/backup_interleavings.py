"""Every interleaving of a backup with what a server does: is what it reports what it copied?

A state has the log, what each storage engine holds, the InnoDB header, a replica's position, and
how far each thread has come. A step is one moment; who must wait has a condition. All states that
any order of the steps reaches are visited, and at the end of each run the backup is compared with
its own copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

INNODB, OTHER, APPLIED = "InnoDB", "another engine", "applied"

Groups = frozenset[int]


@dataclass(frozen=True, slots=True)
class World:
    """A server, and a backup of it; a group is named by its thread's number."""

    log: tuple[int, ...] = ()
    in_commit: tuple[int, ...] = ()
    """Logged and not yet committed, in log order."""
    changing: Groups = frozenset()
    """Statements that hold a table of another engine."""
    innodb: Groups = frozenset()
    other: Groups = frozenset()
    header: int = 0
    """How many groups lie before the coordinates in the InnoDB header."""
    executed: int = 0
    """How many groups the applier has executed."""
    read: int = 0
    """How many groups the receiver has read."""
    tables_locked: bool = False
    binlog_locked: bool = False
    copied_innodb: Groups = frozenset()
    copied_other: Groups = frozenset()
    copied_header: int = -1
    copied_file: int = -1
    status: int = -1
    """What SHOW MASTER STATUS said."""
    positions: tuple[int, int] = (-1, -1)
    """What SHOW SLAVE STATUS said: executed and read."""
    positions_at_end: tuple[int, int] = (-1, -1)
    """Where replication stood when the copy of the redo ended."""

    @property
    def copied(self) -> Groups:
        """What a server restored from the backup holds."""
        return self.copied_innodb | self.copied_other

    def holds_exactly(self, groups: int) -> bool:
        """Whether the copy holds the first ``groups`` groups of the log and no others."""
        return self.copied == frozenset(self.log[:groups])


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a thread: what it changes, and when it need not wait."""

    change: Callable[[World], World]
    may: Callable[[World], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class Server:
    """Which of the things that make coordinates agree a server, or the utility, has."""

    tables_lock: bool = True
    binlog_lock: bool = True
    is_backup_safe: bool = True
    writes_header_at_each_update: bool = False
    awaits_commits_for_header: bool = True
    orders_commits: bool = True


@dataclass(slots=True)
class Verdicts:
    """Of all runs: how many there are of each, and in how many a coordinate agrees."""

    states: int = 0
    ends: int = 0
    is_stuck: bool = False
    wrong: set[str] = field(default_factory=set)
    """What disagrees with the copy in some run."""
    commits_under_tables_lock: bool = False


def backup(server: Server) -> list[Move]:
    """The utility, from the table lock to the unlocks."""
    moves: list[Move] = []
    if server.tables_lock:
        moves.append(
            Move(
                lambda w: replace(w, tables_locked=True),
                lambda w: (
                    not w.changing
                    and not (
                        server.is_backup_safe and server.awaits_commits_for_header and w.in_commit
                    )
                ),
            )
        )
        if server.is_backup_safe:
            # Nobody logs between the two: the server holds commits back while it writes.
            taken = moves.pop()
            moves.append(Move(lambda w: replace(taken.change(w), header=len(w.log)), taken.may))
    moves.append(Move(lambda w: replace(w, copied_other=w.other)))
    if server.binlog_lock:
        moves.append(Move(lambda w: replace(w, binlog_locked=True), lambda w: not w.in_commit))
    moves += [
        Move(lambda w: replace(w, status=len(w.log), positions=(w.executed, w.read))),
        Move(
            lambda w: replace(
                w,
                copied_innodb=w.innodb,
                copied_header=w.header,
                positions_at_end=(w.executed, w.read),
            )
        ),
        Move(lambda w: replace(w, copied_file=len(w.log))),
        Move(lambda w: replace(w, binlog_locked=False)),
        Move(lambda w: replace(w, tables_locked=False)),
    ]
    return moves


def transaction(group: int, server: Server, *, is_applied: bool = False) -> list[Move]:
    """An InnoDB transaction of a client or an applier: flush stage, commit stage."""

    def commit(world: World) -> World:
        return replace(
            world,
            in_commit=tuple(g for g in world.in_commit if g != group),
            innodb=world.innodb | {group},
            header=world.log.index(group) + 1,
            executed=world.executed + is_applied,
        )

    def may_commit(world: World) -> bool:
        return not server.orders_commits or world.in_commit[0] == group

    return [_flush(group), Move(commit, may_commit)]


def other_change(group: int, server: Server) -> list[Move]:
    """A change of another engine: visible at once, logged later; it holds its table meanwhile."""

    def end(world: World) -> World:
        ended = replace(
            world,
            in_commit=tuple(g for g in world.in_commit if g != group),
            changing=world.changing - {group},
        )
        if not server.writes_header_at_each_update:
            return ended
        return replace(ended, header=max(world.header, world.log.index(group) + 1))

    return [
        Move(
            lambda w: replace(w, other=w.other | {group}, changing=w.changing | {group}),
            lambda w: not w.tables_locked,
        ),
        _flush(group),
        Move(end, lambda w: not server.orders_commits or w.in_commit[0] == group),
    ]


def receiver() -> list[Move]:
    """The receiver reads a group."""
    return [Move(lambda w: replace(w, read=w.read + 1), lambda w: not w.binlog_locked)]


def _flush(group: int) -> Move:
    return Move(
        lambda w: replace(w, log=(*w.log, group), in_commit=(*w.in_commit, group)),
        lambda w: not w.binlog_locked,
    )


def threads_of(server: Server, kinds: tuple[str, ...]) -> list[list[Move]]:
    """The backup, a receiver, and a thread for each kind of change."""
    threads = [backup(server), receiver()]
    for group, kind in enumerate(kinds):
        if kind == OTHER:
            threads.append(other_change(group, server))
        else:
            threads.append(transaction(group, server, is_applied=kind == APPLIED))
    return threads


def explore(server: Server, *kinds: str) -> Verdicts:
    """Visit every state and judge the end of every run.

    Args:
        server: The server and the locks that the utility takes.
        kinds: Of the changes that are made beside the backup.
    """
    threads = threads_of(server, kinds)
    lengths = [len(thread) for thread in threads]
    start = (tuple(0 for _ in threads), World())
    seen = {start}
    waiting = [start]
    found = Verdicts()
    while waiting:
        at, world = waiting.pop()
        found.states += 1
        is_done = list(at) == lengths
        moved = False
        for number, thread in enumerate(threads):
            if at[number] == lengths[number] or not thread[at[number]].may(world):
                continue
            moved = True
            after = thread[at[number]].change(world)
            if world.tables_locked and len(after.innodb) > len(world.innodb):
                found.commits_under_tables_lock = True
            state = ((*at[:number], at[number] + 1, *at[number + 1 :]), after)
            if state not in seen:
                seen.add(state)
                waiting.append(state)
        if is_done:
            found.ends += 1
            found.wrong |= _disagreements(world)
        elif not moved:
            found.is_stuck = True
    return found


def _disagreements(world: World) -> set[str]:
    checks = {
        "header": world.holds_exactly(world.copied_header),
        "status": world.holds_exactly(world.status),
        "file": world.holds_exactly(world.copied_file),
        "executed": world.positions[0] == world.positions_at_end[0],
        "read": world.positions[1] == world.positions_at_end[1],
    }
    return {name for name, agrees in checks.items() if not agrees}
