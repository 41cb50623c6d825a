"""A receiver stopped within a group and goes on elsewhere: the applier keeps the file's name.

As MySQL 8.0.31 did it without workers; tests/lab/test_kept_file_names.py has real servers do it.
"""

from __future__ import annotations

import pytest

from tallystick.coordinates.results import ObservationCode
from tests.support.journals import Audited, Journal, Record, RelayLog, audit
from tests.support.rule_cases import apply, replica
from tests.support.rule_cases_of_channels import relay_info

PAIRS = "applied_coordinates_paired", "relay_info_coordinates_paired"
WITHIN = "exec_source_pos_within_read"
OF_NAMES = {*PAIRS, WITHIN, "channel_positions_monotone"}
NEW = 7


def pointed(former: int, events: int) -> tuple[Journal, RelayLog, list[list[Record]]]:
    """So many events of a group are received, then that group again, of another file."""
    journal, relay, more = replica(0)
    relay.rotate()
    relay.connect(name(former))
    apply(journal, relay, of_file(more[0], former))
    show(journal, relay, former)
    return journal, relay, point(journal, relay, more[1:], events, NEW)


def point(
    journal: Journal, relay: RelayLog, more: list[list[Record]], events: int, to: int
) -> list[list[Record]]:
    """The receiver goes on in another file; the groups after the one that came again."""
    assert relay.source is not None
    relay.copy({**event, "file": relay.source[0]} for event in more[0][:events])
    relay.rotate()
    relay.connect(name(to))
    relay.event("ROTATE", 44, log_pos=0, next_file=name(to), next_position=157)
    apply(journal, relay, of_file(more[0], to))
    return more[1:]


def name(number: int) -> str:
    """A file of the source."""
    return f"binlog.{number:06d}"


def of_file(events: list[Record], number: int) -> list[Record]:
    """The same events in a file of that number."""
    return [{**event, "file": name(number)} for event in events]


def show(journal: Journal, relay: RelayLog, shown: int) -> None:
    """The applier writes its repository, and a row has everything applied, under a file's name."""
    [stored] = relay_info(relay)
    stored["Master_log_name"] = name(shown)
    write = {"table": "slave_relay_log_info", "reason": "xid", "row": stored}
    journal.record("info_write", channel="", **write)
    journal.row(
        replica_status=journal.replica_status(Relay_Source_Log_File=name(shown)),
        slave_relay_log_info=[stored],
    )


def kept(result: Audited) -> list[str]:
    """The coordinates that were noted, and those that they are."""
    noted = [one for one in result.observations if one.code is ObservationCode.SOURCE_FILE_KEPT]
    assert not any(one.is_undecided for one in noted)
    return [f"{one.data['shown']} {one.data['executed']}" for one in noted]


def answers(result: Audited) -> set[str]:
    """What the rules that look at the names answered to the last row."""
    last = [cut for cut in result.cuts if cut.collection_id == result.cuts[-1].collection_id]
    checks = [check for cut in last for check in cut.checks]
    return {check.outcome.value for check in checks if check.rule in OF_NAMES}


@pytest.mark.parametrize("former", [2, 24])
@pytest.mark.parametrize("events", [1, 3])
def test_the_former_name_is_no_contradiction(former: int, events: int) -> None:
    """It is noted once; the positions are judged in the file that they are in."""
    journal, relay, more = pointed(former, events)
    assert relay.source is not None
    position = relay.source[1]
    show(journal, relay, former)
    apply(journal, relay, of_file(more[0], NEW))
    show(journal, relay, former)
    result = audit(journal)
    assert result.broken == []
    assert kept(result) == [f"{name(former)}:{position} {name(NEW)}:{position}"]
    assert answers(result) == {"holds"}


@pytest.mark.parametrize("former", [2, 24])
def test_a_position_beside_the_former_name_is_judged(former: int) -> None:
    journal, relay, _ = pointed(former, 1)
    assert relay.source is not None
    relay.source = relay.source[0], relay.source[1] - 8
    show(journal, relay, former)
    assert {*PAIRS} == {*audit(journal).broken}


@pytest.mark.parametrize("former", [2, 24])
@pytest.mark.parametrize("way", ["between groups", "next ROTATE", "RESET REPLICA"])
def test_a_name_that_no_applier_keeps_is_one(way: str, former: int) -> None:
    """It takes over what a ROTATE names between groups, and begins anew with its relay log."""
    journal, relay, more = pointed(former, 0 if way == "between groups" else 1)
    if way == "next ROTATE":
        show(journal, relay, former)
        relay.event("ROTATE", 46, log_pos=9000, next_file=name(NEW + 1), next_position=4)
        apply(journal, relay, of_file(more[0], NEW + 1))
    if way == "RESET REPLICA":
        journal.record("channel", channel="", action="reset")
        relay.open(1, "")
        relay.connect(name(NEW))
        apply(journal, relay, of_file(more[0], NEW))
    show(journal, relay, former)
    pair = WITHIN if former > NEW else PAIRS[0]  # beyond what was read, only that is named
    assert {pair, PAIRS[1]} <= {*audit(journal).broken}


@pytest.mark.parametrize("former", [2, 24])
def test_the_name_is_kept_over_a_restart_and_relay_log_recovery(former: int) -> None:
    """The repository has it; until a ROTATE is executed nothing else is known."""
    journal, relay, _ = pointed(former, 1)
    show(journal, relay, former)
    journal.record("stop", clean=False)
    journal.start()
    journal.record("channel", channel="", action="relay_log_recovery")
    relay.open(relay.number + 1)
    show(journal, relay, former)
    relay.connect(name(NEW))
    show(journal, relay, NEW)
    result = audit(journal)
    assert result.broken == []
    assert len(kept(result)) == 1


@pytest.mark.parametrize("former", [2, 24])
def test_what_is_in_a_relay_log_of_another_name_is_not_put_elsewhere(former: int) -> None:
    journal, _, _ = pointed(former, 1)
    [status] = journal.replica_status(Relay_Source_Log_File=name(former))
    journal.row(replica_status=[status | {"Relay_Log_File": "other.000009"}])
    assert kept(audit(journal)) == []


@pytest.mark.parametrize("former", [2, 24])
def test_a_name_that_is_kept_again_is_noted_again(former: int) -> None:
    journal, relay, more = pointed(former, 1)
    show(journal, relay, former)
    relay.event("ROTATE", 46, log_pos=9000, next_file=name(former), next_position=4)
    apply(journal, relay, of_file(more[0], former))
    show(journal, relay, former)
    point(journal, relay, more[1:], 1, NEW)
    show(journal, relay, former)
    result = audit(journal)
    assert (result.broken, len(kept(result))) == ([], 2)


@pytest.mark.parametrize("former", [2, 24])
def test_a_rotate_after_a_group_is_taken_over_wherever_the_journal_begins(former: int) -> None:
    journal, relay, more = pointed(former, 0)
    for group in more[:3]:
        show(journal, relay, former)
        apply(journal, relay, of_file(group, NEW))
    begun = [(one["kind"], one.get("type")) for one in journal.records].index(("relay", "GTID"))
    assert PAIRS[1] in audit(journal.records[begun:]).broken


@pytest.mark.parametrize("former", [2, 24])
def test_after_reset_replica_the_relay_log_begins_with_its_second_file(former: int) -> None:
    """Nothing shows then that no group was left open: a former name is undecided."""
    journal, relay, more = pointed(former, 1)
    show(journal, relay, former)
    journal.record("channel", channel="", action="reset")
    relay.gtids = type(relay.gtids)()
    relay.open(2, "")
    relay.connect(name(NEW))
    for group in more[:3]:
        apply(journal, relay, of_file(group, NEW))
        show(journal, relay, former)
    result = audit(journal)
    assert (result.broken, len(kept(result))) == ([], 1)
    assert "undecided" in answers(result)


@pytest.mark.parametrize("former", [2, 24])
@pytest.mark.parametrize("events", [0, 1])
def test_what_is_missing_accuses_nobody(former: int, events: int) -> None:
    """A journal that begins at any place, or lacks some records there.

    What was not seen, a group that was left open or the ROTATE within it, is undecided.
    """
    journal, relay, more = pointed(former, events)
    show(journal, relay, former if events else NEW)
    for _ in range(2):
        apply(journal, relay, of_file(more.pop(0), NEW))
        show(journal, relay, former if events else NEW)
    relay.event("ROTATE", 46, log_pos=9000, next_file=name(NEW + 1), next_position=4)
    apply(journal, relay, of_file(more.pop(0), NEW + 1))
    point(journal, relay, more, 2, NEW + 2)
    show(journal, relay, NEW + 1)
    assert audit(journal).broken == []
    for place in range(1, len(journal.records)):
        before, rest = journal.records[:place], journal.records[place:]
        assert audit(rest).broken == [], place
        gap = {"kind": "gap", "instance": journal.instance, "ts": rest[0]["ts"]}
        for lacking in (1, 6, 20):
            assert audit([*before, gap, *rest[lacking:]]).broken == [], (place, lacking)
        if rest[0]["kind"] == "relay":
            of_channel = [*before, gap | {"channel": ""}, *rest[1:]]
            assert audit(of_channel).broken == [], place


@pytest.mark.parametrize("former", [2, 24])
def test_the_cut_table_has_the_file_that_the_applier_is_in(former: int) -> None:
    """Great Expectations asks the same rules of its columns, and answers the same."""
    journal, relay, _ = pointed(former, 1)
    show(journal, relay, former)
    [cut] = [one for one in audit(journal).cuts if one.scope == "channel"][-1:]
    assert cut.exec_source_log_file == name(NEW)
