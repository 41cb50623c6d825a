"""What SHOW REPLICA STATUS says of a channel's threads, and what follows of it."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.coordinates.events.log_status import ThreadState
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.explanation import explain
from tallystick.coordinates.rules.replication_threads import ThreadEvidence
from tests.support.journals import Audited, audit
from tests.support.rule_cases import replica

HELD = "held"
DUPLICATE_KEY, KEY_NOT_FOUND, PURGED = 1062, 1032, 13114
INTERRUPTED = {
    "ER_SERVER_SHUTDOWN": 1053,
    "ER_LOCK_WAIT_TIMEOUT": 1205,
    "ER_LOCK_DEADLOCK": 1213,
    "ER_QUERY_INTERRUPTED": 1317,
    "ER_MTA_INCONSISTENT_DATA": 1756,
}


def shown(**status: Any) -> Audited:
    """Of a replica whose status says this; one group is received and not executed."""
    journal, relay, more = replica()
    rows = journal.replica_status(**status)
    relay.copy(more[0])
    rows[0]["Retrieved_Gtid_Set"] = str(relay.gtids)
    journal.row(replica_status=rows)
    return audit(journal)


def said_of(result: Audited, rule: str) -> str:
    """Whether it holds, the reason why that is not known, or the case that is found."""
    [check] = [c for cut in result.cuts for c in cut.checks if c.rule == rule]
    if check.outcome is Outcome.BROKEN:
        return next(one.case for one in result.findings if one.rule == rule)
    return check.reason or HELD


@pytest.mark.parametrize(
    ("runs", "errno", "expected"),
    [
        ("Yes", 0, HELD),
        ("No", 0, HELD),
        ("Yes", DUPLICATE_KEY, "applier_failing"),
        ("Yes", 1205, "applier_failing"),
        ("No", DUPLICATE_KEY, "failed"),
        ("No", KEY_NOT_FOUND, "failed"),
        *(("No", errno, "applier_interrupted") for errno in INTERRUPTED.values()),
    ],
)
def test_an_applier_fails_when_it_stops_by_an_error(runs: str, errno: int, expected: str):
    """One that a lock or an administrator stopped may go on with the same statements."""
    result = shown(Replica_SQL_Running=runs, Last_SQL_Errno=errno)
    assert said_of(result, "applier_not_failed") == expected


@pytest.mark.parametrize(
    ("runs", "errno", "expected"),
    [
        ("Yes", 0, HELD),
        ("No", 0, HELD),
        ("Yes", PURGED, HELD),
        ("Connecting", 0, "receiver_not_connected"),
        ("Connecting", 2003, "receiver_not_connected"),
        ("No", PURGED, "failed"),
        *(("No", errno, "receiver_interrupted") for errno in INTERRUPTED.values()),
    ],
)
def test_a_receiver_fails_when_it_stops_by_an_error(runs: str, errno: int, expected: str):
    """One that connects again waits for its source; one that runs has left its error."""
    result = shown(Replica_IO_Running=runs, Last_IO_Errno=errno)
    assert said_of(result, "receiver_not_failed") == expected


@pytest.mark.parametrize(
    ("mode", "status", "said"),
    [
        ("ON", {"Auto_Position": 0}, "nothing"),
        ("OFF", {"Auto_Position": 1}, "nothing"),
        ("OFF", {"Auto_Position": 0}, "not known"),
        ("ON_PERMISSIVE", {}, "not known"),
    ],
)
def test_sets_do_not_show_which_groups_without_gtids_wait(mode: str, status: Any, said: str):
    """They are neither in Retrieved_Gtid_Set nor in gtid_executed."""
    journal, _, _ = replica()
    journal.record("variables", variables={"gtid_mode": mode})
    failed = {"Replica_SQL_Running": "No", "Last_SQL_Errno": DUPLICATE_KEY}
    rows = journal.replica_status(**failed, **status)
    if not status:
        rows[0].pop("Auto_Position", None)
    journal.row(replica_status=rows)
    [found] = [one for one in audit(journal).findings if one.rule == "applier_not_failed"]
    assert f"Received and not executed: {said}." in explain(found).sentence


@pytest.mark.parametrize("channel", ["", "group_replication_applier"])
def test_a_channel_of_a_group_needs_no_receiver(channel: str):
    """It receives from the group."""
    journal, _, _ = replica()
    journal.relays[channel] = journal.relays.pop("")
    journal.relays[channel].channel = channel
    journal.records = [r | {"channel": channel} if "channel" in r else r for r in journal.records]
    status = journal.replica_status(Replica_IO_Running="No", Last_IO_Errno=PURGED)
    journal.row(replica_status=status)
    checks = {check.rule for cut in audit(journal).cuts for check in cut.checks}
    assert ("receiver_not_failed" in checks) == (not channel)
    stopped = ThreadState(is_stopped=True)
    evidence = ThreadEvidence(channel=channel, receiver=stopped, applier=stopped)
    assert evidence.stopped() == ["receiver"] * (not channel) + ["applier"]


@pytest.mark.parametrize(
    ("receiver", "applier", "expected"),
    [
        (None, None, []),
        (ThreadState(), ThreadState(is_stopped=True), ["applier"]),
        (ThreadState(is_stopped=True), ThreadState(is_stopped=True, errno=1062), ["receiver"]),
        (ThreadState(is_connecting=True, errno=2003), ThreadState(errno=1205), []),
    ],
)
def test_a_thread_that_stopped_with_an_error_is_not_stopped_by_a_command(
    receiver: ThreadState | None, applier: ThreadState | None, expected: list[str]
):
    """Nor is one whose state is not known."""
    assert ThreadEvidence(receiver=receiver, applier=applier).stopped() == expected


@pytest.mark.parametrize(
    ("error", "shown_as"),
    [("", "no text"), ("e" * 300, "e" * 300), ("e" * 301, "e" * 300 + "…")],
)
def test_a_failed_applier_is_described(error: str, shown_as: str):
    """A long text is cut off; the whole is in the error log."""
    since = {"Last_SQL_Error_Timestamp": "261128 12:00:00"} if error else {}
    result = shown(
        Replica_SQL_Running="No", Last_SQL_Errno=DUPLICATE_KEY, Last_SQL_Error=error, **since
    )
    [finding] = result.findings
    position = finding.at
    assert explain(finding).sentence == (
        f"The applier has stopped at {position} with error 1062 ({shown_as}),"
        f" {'since 261128 12:00:00' if error else 'since when is not known'}. Group: not known."
        " Received and not executed: cccccccc-0000-0000-0000-000000000003:4."
    )
