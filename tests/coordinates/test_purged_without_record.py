"""SET gtid_purged as a server shows it: no record, and a row whose gtid_purged has more."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tests.support.journals import UUID_A, UUID_C, Journal, audit
from tests.support.rule_cases import replica

NAMED = f"{UUID_C}:4"
"""What the source logs next."""


def named_at_rows(journal: Journal) -> list[str]:
    """What the rows hand to the comparison of the fleet."""
    events = audit(journal).fleet_events
    return [one.body["gtid_purged_named"] for one in events if one.kind is FleetEventKind.STATUS]


def show(journal: Journal, executed: str = NAMED, purged: str = NAMED) -> None:
    """A row in which more is executed, and counts as purged."""
    journal.executed.add(executed)
    journal.purged = purged
    journal.row(replica_status=journal.replica_status())


@pytest.mark.parametrize("logs_all", [True, False])
def test_what_no_record_explains_was_named(logs_all: bool) -> None:
    """Once: at the next row it is what it was."""
    journal, _, _ = replica(log_replica_updates=logs_all)
    journal.row(replica_status=journal.replica_status())
    show(journal)
    show(journal)
    assert named_at_rows(journal) == ["", NAMED, ""]


@pytest.mark.parametrize(
    "why",
    [
        "first row",
        "recorded",
        "logged",
        "received",
        "relay log unknown",
        "not executed",
        "gap",
        "reset",
        "log was off",
        "no log",
    ],
)
def test_what_may_count_as_purged_otherwise_is_not(why: str) -> None:
    """What a server logs is purged with its files; without a log all that it executes is."""
    journal, relay, more = replica(
        log_bin=why != "no log", log_replica_updates=why != "relay log unknown"
    )
    if why != "first row":
        journal.row(replica_status=journal.replica_status())
    if why == "recorded":
        journal.record("gtid_purged", added=NAMED)
    elif why in ("logged", "relay log unknown"):
        journal.relays.clear()
        journal.record("gap", channel="")
        if why == "logged":
            journal.binlog.group(NAMED, server_id=3)
            journal.binlog.rotate()
            journal.record("binlog_purge", to_file="binlog.000002")
    elif why == "received":
        relay.copy(more[0])
    elif why == "gap":
        journal.record("gap")
    elif why == "reset":
        journal.record("binlog_reset")
    elif why == "log was off":
        journal.binlog.stop()
        journal.record("stop")
        journal.variables = journal.variables | {"log_bin": False}
        journal.start()
        journal.row(replica_status=journal.replica_status())
        journal.record("stop")
        journal.variables = journal.variables | {"log_bin": True}
        journal.start()
        journal.binlog.open(2)
    purged = f"{UUID_C}:1-4" if why == "logged" else NAMED
    show(journal, f"{UUID_A}:9" if why == "not executed" else NAMED, purged)
    assert set(named_at_rows(journal)) == {""}
    if why == "log was off":
        show(journal, f"{UUID_C}:9", f"{UUID_C}:4:9")
        assert named_at_rows(journal)[-1] == f"{UUID_C}:9"
