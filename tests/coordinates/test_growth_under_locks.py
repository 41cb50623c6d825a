"""Where a log may not grow: a second delivery is no growth, and a server's end ends its locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.journals import UUID_C, Gtids, Journal, Record, audit
from tests.support.rule_cases import source
from tests.support.rule_cases_of_backup_locks import lock
from tests.support.rule_cases_of_protocols import COLLECTS, LOCKS

if TYPE_CHECKING:
    from collections.abc import Callable


def deliver_again(journal: Journal, events: list[Record]) -> None:
    journal.records += [event | {"ts": journal.ts} for event in events]


def xa_source() -> Journal:
    """A source whose last group was an XA PREPARE, which every holder here forbids."""
    return source().groups(1, "xa_prepare")


def under_binlog_lock() -> Journal:
    return lock(xa_source(), "binlog")


def under_a_collection() -> Journal:
    journal = xa_source()
    fields = {"collection_id": "c1", "session": 7}
    journal.record("collection", step="enter", **fields)
    for word in f"{LOCKS} {COLLECTS}".split():
        step = {"+": "lock", "!": "collect", "-": "unlock"}[word[0]]
        journal.record("collection", step=step, resource=word[1:], **fields)
    return journal


def under_a_locked_engine() -> Journal:
    journal = xa_source()
    journal.record("engine_lock", step="begin", round=1)
    journal.record("engine_lock", step="lock", engine="binlog")
    return journal


def under_a_clone() -> Journal:
    journal = xa_source()
    journal.record("clone", step="begin", role="donor", peer="b")
    journal.record("clone", step="donor_blocked", role="donor", peer="b", blocks="xa")
    return journal


def delivered_again(journal: Journal) -> None:
    deliver_again(journal, journal.binlog.groups[-1])


def ended(journal: Journal) -> None:
    """A shutdown ends the sessions before it writes STOP."""
    journal.binlog.stop()
    journal.binlog.open(2)
    journal.groups(1, "xa_prepare")


def crashed(journal: Journal) -> None:
    journal.binlog.open(2)
    journal.groups(1, "xa_prepare")


def begun_anew(journal: Journal) -> None:
    """RESET is not in the journal: no more is what may have been unlocked before it."""
    journal.binlog.gtids, journal.used, journal.executed = Gtids(), Gtids(), Gtids()
    journal.binlog.open(1)
    journal.groups(1, "xa_prepare")


HOLDERS = {
    "backup_locks_freeze_scope": under_binlog_lock,
    "no_progress_while_locked": under_a_collection,
    "locked_engines_stand_still": under_a_locked_engine,
    "clone_blocks_xa": under_a_clone,
}


@pytest.mark.parametrize("rule", HOLDERS)
def test_growth_is_found(rule: str) -> None:
    assert audit(HOLDERS[rule]().groups(1, "xa_prepare")).broken == [rule]


@pytest.mark.parametrize("rule", HOLDERS)
def test_growth_is_found_once(rule: str) -> None:
    """Each external XA statement of a clone is one that it should have blocked."""
    findings = audit(HOLDERS[rule]().groups(2, "xa_prepare")).findings
    assert len(findings) == (2 if rule == "clone_blocks_xa" else 1)


@pytest.mark.parametrize("happens", [delivered_again, ended, crashed, begun_anew])
@pytest.mark.parametrize("rule", HOLDERS)
def test_nothing_holds_beyond_the_server_nor_against_what_was_there(
    rule: str, happens: Callable[[Journal], None]
) -> None:
    journal = HOLDERS[rule]()
    happens(journal)
    assert audit(journal).broken == []


@pytest.mark.parametrize("happens", [ended, crashed])
def test_a_zone_ends_with_the_server(happens: Callable[[Journal], None]) -> None:
    journal = source()
    journal.record("zone", step="close", tables=["shop.items"])
    happens(journal)
    journal.record("zone", step="enter", ticket=1)
    assert audit(journal).broken == []


@pytest.mark.parametrize("is_again", [False, True])
def test_a_relay_log_may_be_delivered_again_under_the_binlog_lock(is_again: bool) -> None:
    origin = Journal("s", UUID_C, 3).begin().groups(2)
    journal = source()
    relay = journal.relay()
    relay.open(1)
    relay.connect()
    received = relay.copy(origin.binlog.groups[0])
    lock(journal, "binlog")
    if is_again:
        deliver_again(journal, received)
    else:
        relay.copy(origin.binlog.groups[1])
    assert ("backup_locks_freeze_scope" in audit(journal).broken) is not is_again
