"""Reasons of rules between instances that no other test names: a history for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tallystick.coordinates.audit.fleet import FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tests.coordinates import test_fleet_rules
from tests.coordinates.test_recovery_rules import Recovery, gtids, tell
from tests.support.fleet_journals import (
    A,
    B,
    C,
    Clock,
    Journal,
    audit,
    end_of,
    fleet_of_two,
)

Journals = Iterable[Journal]
HISTORIES: dict[str, Callable[[], Journals]] = {}


def history(build: Callable[[], Journals]) -> Callable[[], Journals]:
    """A history that is named after its reason."""
    HISTORIES[build.__name__] = build
    return build


def reasons(output: FleetOutput) -> set[str]:
    """Of what is undecided."""
    return {one.reason for one in output.observations} | {c.check.reason for c in output.checks}


# Clones


def clone(**options: int) -> tuple[Journal, Journal]:
    """A clone of the third group's end."""
    return test_fleet_rules.TestClones().clone(end_of(3), f"{A}:1-3", **options)


def without_head(journal: Journal) -> Journal:
    """The beginning of its first file was not observed."""
    kinds = (FleetEventKind.LOGGED, FleetEventKind.PREVIOUS)
    of_head = [event for event in journal.fleet_events if event.kind in kinds][:3]
    journal.fleet_events = [event for event in journal.fleet_events if event not in of_head]
    return journal


@history
def donor_log_began_anew() -> Journals:
    """RESET BINARY LOGS AND GTIDS on the donor before the clone's first row."""
    donor, recipient = clone()
    row = recipient.fleet_events.pop()
    donor.fleet_events.pop()
    donor.reset()
    donor.status("")
    recipient.status(f"{A}:1-3", recipient.says(donor), clone_status=row.body["clone_status"])
    donor.status("")
    return donor, recipient


@history
def donor_file_in_part() -> Journals:
    """The cloned position is in a file whose head was not observed."""
    donor, recipient = clone()
    return without_head(donor), recipient


@history
def received_first_unknown() -> Journals:
    """An anonymous group, and no file of the source that it came from."""
    donor, recipient = clone()
    status = recipient.fleet_events[-1].body["clone_status"]
    recipient.receive(donor, (-1, ""), file=None)
    recipient.status(f"{A}:1-3", recipient.says(donor), clone_status=status)
    return donor, recipient


@history
def donor_first_group_unknown() -> Journals:
    """It has received a group, and the donor's log ends at the cloned position."""
    donor, recipient = test_fleet_rules.TestClones().clone(end_of(5), f"{A}:1-5", first=6)
    return donor, recipient


@history
def donor_groups_unknown() -> Journals:
    """The clone's position is before what was observed of its file."""
    donor, recipient = test_fleet_rules.TestClones().clone(150, "", first=1)
    return without_head(donor), recipient


# Recoveries


@history
def replayed_log_not_reached() -> Journals:
    """The replay ended in a file that the source's journal does not have."""
    recovery = Recovery()
    recovery.stop = ("s-bin.000002", end_of(5))
    recovery.run(*gtids(3, 4, 5))
    return recovery.source, recovery.server


@history
def stop_file_head_unseen() -> Journals:
    """Nor does it have that file's head."""
    return replayed_log_not_reached()


@history
def no_binlog_file() -> Journals:
    """The image names something else."""
    recovery = Recovery()
    recovery.run(*gtids(3, 4, 5), restored={"binlog_file": "backup.tar"})
    return recovery.source, recovery.server


@history
def image_without_channel() -> Journals:
    """The log of a server is replayed of which the image shows no channel."""
    recovery = Recovery()
    server, other = recovery.server, Journal(recovery.source.clock, "o", C, 3)
    other.boot()
    other.open_file()
    other.log(f"{C}:1")
    tell(server, "restore", peer="s", **recovery.summary)
    tell(server, "replay", peer="o", from_file="o-bin.000001", from_position=4)
    end = {"to_file": "o-bin.000001", "to_position": end_of(1)}
    tell(server, "replayed", peer="o", **end, gtid_executed=f"{A}:1-2,{C}:1", tables=[])
    for journal in (server, other, recovery.source):
        journal.time()
    return recovery.source, other, server


@history
def image_log_forgotten() -> Journals:
    """The source has begun another log since the image, and its states then are forgotten."""
    recovery = Recovery(same_server=False)
    recovery.source.reset()
    recovery.source.open_file()
    for _ in range(600):
        recovery.source.event()
        recovery.source.time()
    recovery.run(*gtids(3, 4, 5))
    return recovery.source, recovery.server


@history
def replayed_groups_unknown() -> Journals:
    """The image is of a position before what was observed of the source's log."""
    recovery = Recovery()
    events = recovery.source.fleet_events
    header = [event for event in events if event.kind is FleetEventKind.LOGGED][:2]
    recovery.source.fleet_events = [event for event in events if event not in header]
    recovery.run(*gtids(3, 4, 5), restored={"binlog_position": 150})
    return recovery.source, recovery.server


# Sources


@history
def source_uuid_unknown() -> Journals:
    """The source is known by its name alone."""
    clock = Clock()
    source, replica = Journal(clock, "s", "", 1), Journal(clock, "r", B, 2)
    for journal in (source, replica):
        journal.boot()
        journal.open_file()
    replica.follow(source)
    source.log(f"{A}:1")
    source.status(f"{A}:1")
    replica.status(f"{A}:1", replica.says(source, f"{A}:1", source_instance="s"))
    source.status(f"{A}:1")
    return source, replica


@history
def upstream_executed_unknown() -> Journals:
    """What the replica has may be its source's source's, whose journal has a gap."""
    clock = Clock()
    upstream = Journal(clock, "u", C, 3)
    source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
    for journal in (upstream, source, replica):
        journal.boot()
        journal.open_file()
    upstream.gap()
    source.follow(upstream)
    replica.follow(source)
    source.status("", source.says(upstream))
    replica.status(f"{C}:1", replica.says(source))
    for journal in (source, replica):
        journal.status("", journal.says(upstream if journal is source else source))
    return upstream, source, replica


@history
def source_journal_gap() -> Journals:
    """Coordinates beyond a log of which a part is missing."""
    source, replica = fleet_of_two()
    source.gap()
    source.log(f"{A}:4")
    read = {"read_source_log_file": "s-bin.000001", "read_source_log_pos": end_of(9)}
    executed = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(9)}
    replica.administer("reconnect")
    replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **read, **executed))
    source.time()
    return source, replica


@pytest.mark.parametrize("code", HISTORIES)
def test_a_history_leaves_something_undecided_for_it(code: str) -> None:
    """The reason is named."""
    assert code in reasons(audit(*HISTORIES[code]()))
