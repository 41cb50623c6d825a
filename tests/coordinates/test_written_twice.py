"""GTIDs written twice in journals without `original_commit_timestamp`, as all of MySQL 5.7 are."""

from __future__ import annotations

import json
import re

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit import written_twice
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import simulate
from tests.support.fleet_journals import A, B, C, Clock, Journal, audit, end_of, names


def fleet(*, commit_ts: int = -1, **variables: str) -> tuple[Journal, Journal]:
    """A source that has logged three groups, and a replica that has them; a row of both."""
    clock = Clock()
    source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
    for journal in (source, replica):
        journal.commit_ts = commit_ts
        journal.boot(**variables)
        journal.open_file()
    replica.follow(source)
    source.log(*(f"{A}:{n}" for n in (1, 2, 3)))
    copy(source, replica, 1, 2, 3)
    show(source, replica, f"{A}:1-3")
    return source, replica


def copy(source: Journal, replica: Journal, *numbers: int, file: int = 1, before: int = 0) -> None:
    """Groups are received and applied; `before` is the number before the first of the file."""
    replica.receive(source, *((n - before, f"{A}:{n}") for n in numbers), file=file)
    replica.log(*(f"{A}:{n}" for n in numbers), server_id=1)


def show(source: Journal, replica: Journal, executed: str) -> None:
    """A row of both."""
    replica.status(executed, replica.says(source, executed))
    source.status(executed)


def crash(source: Journal, kept: int = 2) -> None:
    """The binary log ends after some groups; a new file begins."""
    source.boot()
    source.end_file(end_of(kept))
    source.open_file(f"{A}:1-{kept}")


def doubts(*journals: Journal) -> list[tuple[str, str]]:
    """Instances whose rows show that something was written twice, and where it was."""
    found = []
    for order in (journals, journals[::-1]):
        output = audit(*order)
        assert "gtid_origin_agreement" not in names(output)
        of_reason = [one for one in output.observations if one.reason == "gtid_written_twice"]
        where = [
            re.findall(r"written twice \((.+)\), and", observation_text(one))[0]
            for one in of_reason
        ]
        found.append([*zip((one.instance_id for one in of_reason), where, strict=True)])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("commit_ts", [-1, 1000])
def test_a_source_gives_out_again_what_a_crash_took(commit_ts):
    """With the field it is known to be the same."""
    source, replica = fleet(commit_ts=commit_ts)
    crash(source)
    source.log(f"{A}:3", f"{A}:4")
    source.status(f"{A}:1-4")
    where = f"by instance s after s-bin.000001:{end_of(2)}, until a crash"
    said = f"{where}; by it again, up to s-bin.000002:{end_of(1)}"
    assert doubts(source, replica) == [("s", said)] * (commit_ts == -1)


def test_what_no_row_has_shown_and_nobody_has_is_free():
    source, replica = fleet()
    source.log(f"{A}:4")
    crash(source, 3)
    source.log(f"{A}:4")
    copy(source, replica, 4, file=2, before=3)
    show(source, replica, f"{A}:1-4")
    assert doubts(source, replica) == []


def test_what_no_row_of_the_source_has_shown_and_a_replica_has():
    """The source shows it to nobody before the crash, and the replica's row is before it."""
    source, replica = fleet()
    source.log(f"{A}:4")
    copy(source, replica, 4)
    replica.status(f"{A}:1-4", replica.says(source, f"{A}:1-4"))
    source.time()
    crash(source, 3)
    source.log(f"{A}:4")
    show(source, replica, f"{A}:1-4")
    said = doubts(source, replica)
    assert [one for one, _ in said] == ["r"]
    assert "until a crash, and instance r has executed that; by it again, up to" in said[0][1]


@pytest.mark.parametrize("files_max", [0, 16])
@pytest.mark.parametrize("then", ["executed", "received again", "replaced"])
def test_what_a_replica_has_received_from_the_file_that_a_crash_took(then, files_max, monkeypatch):
    """No row is before the crash. What a relay log that is given up had is received again."""
    monkeypatch.setattr(written_twice, "FILES_MAX", files_max)
    source, replica = fleet()
    source.log(f"{A}:4")
    replica.receive(source, (4, f"{A}:4"))
    source.time()
    crash(source, 3)
    source.log(f"{A}:4")
    show(source, replica, f"{A}:1-3")
    if then == "replaced":
        replica.boot(data_lineage=1)
        replica.open_file()
    elif then == "received again":
        replica.receive(source, (1, f"{A}:4"), file=2)
    if then != "replaced":
        replica.log(f"{A}:4", server_id=1)
    show(source, replica, f"{A}:1-4")
    said = doubts(source, replica)
    is_free = then == "replaced" or (then == "received again" and files_max)
    assert [one for one, _ in said] == ["r"] * (not is_free)
    assert is_free or "instance r has executed that; by it again" in said[0][1]


@pytest.mark.parametrize("lost", ["received", "gap"])
def test_what_a_source_has_lost_and_received_is_a_copy(lost):
    """It comes back from a former replica; after a gap nobody knows what was there."""
    source, replica = fleet()
    crash(source)
    if lost == "gap":
        source.gap()
        source.open_file(f"{A}:1-2")
    else:
        source.follow(replica)
        source.receive(replica, (3, f"{A}:3"), server_id=1)
    source.log(f"{A}:3")
    source.status(f"{A}:1-3")
    assert doubts(source, replica) == []


@pytest.mark.parametrize("is_received", [True, False])
@pytest.mark.parametrize(
    ("empty", "commit_ts", "server_id", "is_doubtful"),
    [
        ("", -1, 2, True),
        ("r", -1, 2, True),
        ("rs", -1, 2, False),
        ("", 1000, 2, False),
        ("", -1, 1, False),
    ],
)
def test_a_server_logs_a_gtid_before_it_has_received_it(
    empty, commit_ts, server_id, is_doubtful, is_received
):
    """By itself: under its own server_id. Two empty transactions leave equal data."""
    source, replica = fleet(commit_ts=commit_ts)
    for journal in (source, replica):
        journal.empty = {f"{A}:4"} if journal.name in empty else set()
    replica.log(f"{A}:4", server_id=server_id)
    source.log(f"{A}:4")
    if is_received:
        replica.empty = source.empty
        replica.receive(source, (4, f"{A}:4"))
    for _ in range(2):
        show(source, replica, f"{A}:1-4")
    theirs = f"by instance s, up to s-bin.000001:{end_of(4)}"
    if is_received:
        theirs = "by another server, as received by channel (default)"
    mine = f"by instance r, up to r-bin.000001:{end_of(4)}"
    found = doubts(source, replica)
    assert [set(where.split("; ")) for _, where in found] == [{mine, theirs}] * is_doubtful


def test_a_server_logs_what_it_has_received():
    """Whatever server_id it was made with."""
    source, replica = fleet()
    source.log(f"{A}:4", server_id=2)
    replica.receive(source, (4, f"{A}:4"), server_id=2)
    replica.log(f"{A}:4", server_id=2)
    show(source, replica, f"{A}:1-4")
    assert doubts(source, replica) == []


def test_a_group_that_comes_back_around_a_ring_is_its_own():
    """As with replicate_same_server_id, also after another server_id."""
    source, replica = fleet()
    source.follow(replica)
    source.server_id = 7
    source.boot()
    source.receive(replica, (1, f"{A}:1"), server_id=1)
    show(source, replica, f"{A}:1-3")
    assert doubts(source, replica) == []


def test_members_of_a_group_write_what_its_name_numbers():
    """A view change is logged by each of them."""
    source, replica = fleet(group_replication_group_name=C)
    for journal in (source, replica):
        journal.log(f"{C}:1")
        journal.status(f"{A}:1-3,{C}:1")
    assert doubts(source, replica) == []


def test_a_log_that_is_replayed_into_a_restored_server_is_a_copy():
    source, replica = fleet()
    replica.boot(data_lineage=1)
    replica.reset("restore")
    for step in ("restore", "replay"):
        replica.fleet_event(
            FleetEventKind.BACKUP, step=step, peer="s", backup_id="1", source_instance="s"
        )
    replica.log(*(f"{A}:{n}" for n in (1, 2, 3)))
    show(source, replica, f"{A}:1-3")
    assert doubts(source, replica) == []


@pytest.mark.parametrize("reason", ["reset", "restore", "renamed"])
@pytest.mark.parametrize("follows", ["", "before", "after", "with other data"])
def test_numbers_begin_again_and_a_replica_has_those_of_before(reason, follows):
    """Unless it follows: then it has executed what was written after that."""
    source, replica = fleet()
    if follows == "before":
        replica.reset()
    source.reset(reason)
    source.log(f"{A}:1", f"{A}:2")
    if follows == "after":
        replica.reset()
    elif follows:
        replica.boot(data_lineage=1)
    if follows:
        copy(source, replica, 1, 2)
    for _ in range(2):
        show(source, replica, f"{A}:1-2" if follows else f"{A}:1-3")
    when = "before RESET" if reason == "reset" else "before its data were replaced"
    where = f"by instance s {when}, and instance r has executed that"
    said = f"{where}; by it again, up to s-bin.000001:{end_of(1)}"
    is_free = follows or reason == "renamed"
    assert doubts(source, replica) == ([] if is_free else [("r", said)])


@pytest.mark.parametrize("name", ["STATES_MAX", "FORMER_MAX"])
def test_what_is_forgotten_of_before_takes_no_doubt_away(name, monkeypatch):
    """The oldest state that is left, and the oldest loss together with the next."""
    monkeypatch.setattr(written_twice, name, 4 if name == "STATES_MAX" else 1)
    source, replica = fleet()
    if name == "STATES_MAX":
        for _ in range(9):
            replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
    source.reset()
    source.log(f"{A}:1")
    source.reset()
    source.log(f"{A}:1", f"{A}:2")
    show(source, replica, f"{A}:1-3")
    # Of each number: the first one was written three times.
    assert [instance for instance, _ in doubts(source, replica)] == ["r", "r"]


@pytest.mark.parametrize("seed", [1, 3])
@pytest.mark.parametrize(
    "fault",
    ["errant_write_hidden", "gno_reused_after_reset", "group_skipped_by_empty_transaction"],
)
def test_it_does_not_depend_on_how_journals_are_cut(fault, seed):
    """What a server logs and what it receives are read one after the other in a large block."""
    blocks = simulate(scenario_of(seed, [fault])).blocks(4096)
    records = [json.loads(line) for block in blocks for line in block_to_lines(block)]
    left_out = "original_commit_timestamp"
    lines = [json.dumps({k: v for k, v in one.items() if k != left_out}) for one in records]
    found = []
    for size in (5, 100, 10_000):
        result = audit_history(blocks_from_lines(lines, block_size=size, end_heartbeats=True))
        found.append([one for one in result.observations if one.reason == "gtid_written_twice"])
    assert found[0]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("since", "until", "has_forgotten", "expected"),
    [
        (11, 19, False, "1-5"),
        (11, 20, False, "1-3"),
        (11, 40, False, "1-3"),
        (21, 30, False, "1-3"),
        (31, 40, False, "1-4"),
        (10, 40, False, ""),
        (10, 40, True, "1-3"),
        (10, 9, True, ""),
    ],
)
def test_what_a_server_kept_is_in_each_of_its_rows(
    since: int, until: int, has_forgotten: bool, expected: str
) -> None:
    """From the last row before a time to the last one until another."""
    server = written_twice.Writer(has_forgotten=has_forgotten)
    none = GtidSet.EMPTY
    for ts, gnos in ((10, "1-5"), (20, "1-3"), (30, "1-4")):
        executed = GtidSet.parse(f"{A}:{gnos}")
        server.states.append(written_twice.State(ts, None, none, none, (), executed, ()))
    kept = server.kept(since, until)
    assert kept == (GtidSet.parse(f"{A}:{expected}") if expected else none)
