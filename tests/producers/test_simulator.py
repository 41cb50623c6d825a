"""The simulated fleet as a whole: determinism, time, commit stages, administration."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet, History, simulate
from tallystick.producers.simulator.kernel.scenario import PROFILES, TOPOLOGIES, Scenario
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import commit, workload
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.gtid_state import GtidState
from tests.support.simulated_journal import Record, bodies_of, files, groups, records

DIGEST = """
import hashlib
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
digest = hashlib.sha256()
for block in simulate(Scenario(seed=11, topology="demo")).journals.values():
    digest.update("\\n".join(block_to_lines(block)).encode())
print(digest.hexdigest())
"""


def lines(history: History) -> list[str]:
    return [line for block in history.journals.values() for line in block_to_lines(block)]


def executed(body: dict) -> GtidSet:
    return GtidSet.parse(body["row"]["LOCAL"]["gtid_executed"])


def logged_at(journal: list[Record], body: dict) -> list[tuple[str, int]]:
    """GTIDs of the groups at or before the row's coordinate, in log order."""
    local = body["row"]["LOCAL"]
    found = []
    for name, events in files(journal, Stream.BINLOG).items():
        for group in groups(events):
            number = int(name.rpartition(".")[2])
            position = int(local["binary_log_file"].rpartition(".")[2])
            if (number, group.end) <= (position, local["binary_log_position"]) and group.gtid:
                found.append(group.gtid)
    return found


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("profile", PROFILES)
def test_same_scenario_same_journal(topology: str, profile: str) -> None:
    """Equal scenarios give equal journals, another seed gives another."""
    scenario = Scenario(seed=5, topology=topology, profile=profile, duration_ms=2_000)
    assert lines(simulate(scenario)) == lines(simulate(scenario))
    assert lines(simulate(scenario)) != lines(simulate(replace(scenario, seed=6)))


def test_same_journal_in_every_process() -> None:
    """Hash seeds of the interpreter change nothing."""
    os.pathsep.join(sys.path)
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={
                **os.environ,
                "PYTHONHASHSEED": hash_seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("seed", range(6))
def test_journal_is_readable_by_its_contract(seed: int) -> None:
    """Every record passes the checks of JSON Lines and comes back as it was."""
    history = simulate(Scenario(seed=seed))
    for block in history.journals.values():
        written = list(block_to_lines(block))
        again = [line for part in blocks_from_lines(written) for line in block_to_lines(part)]
        assert again == written


@pytest.mark.parametrize("seed", range(6))
def test_time_never_falls_and_ends_with_a_heartbeat(seed: int) -> None:
    """Within a journal time stamps rise; all journals end at one moment."""
    history = simulate(Scenario(seed=seed))
    ends = set()
    for block in history.journals.values():
        ts = block.columns["ts"]
        assert (ts[1:] >= ts[:-1]).all()
        journal = records(block)
        assert journal[-1].is_fact(RecordType.HEARTBEAT)
        ends.add(journal[-1].ts)
    assert len(ends) == 1


def test_a_copy_is_younger_than_its_original() -> None:
    """A replica's relay log has an event only after the source's log had it."""
    history = simulate(Scenario(seed=2, topology="demo", writes_per_second=20.0))
    born = {}
    for block in history.journals.values():
        for r in records(block):
            if r.stream is Stream.BINLOG and r.gtid and r.gtid not in born:
                born[r.gtid] = r.ts
    relayed = [
        (r.ts, born[r.gtid])
        for block in history.journals.values()
        for r in records(block)
        if r.stream is Stream.RELAY and r.gtid
    ]
    assert len(relayed) > 50
    assert all(copy > original for copy, original in relayed)


def test_blocks_are_merged_in_order_of_time() -> None:
    """History.blocks cuts journals and orders the pieces by their first moments."""
    history = simulate(Scenario(seed=2, topology="demo"))
    blocks = list(history.blocks(50))
    assert sum(map(len, blocks)) == len(history)
    assert max(map(len, blocks)) == 50
    moments = [int(b.columns["ts"][0]) for b in blocks]
    assert moments == sorted(moments)
    for instance_id in history.journals:
        sequences = [b.first_sequence for b in blocks if b.instance_id == instance_id]
        assert sequences == sorted(sequences)


def test_live_fleet_answers_a_collection_at_its_present_place() -> None:
    """advance() hands out consecutive blocks; collect() brings one answer of each instance."""
    fleet = Fleet(Scenario(seed=4, topology="demo", duration_ms=60_000))
    sequences = dict.fromkeys(fleet.instances, 0)
    answers = []
    for step in range(1, 21):
        if step == 10:
            fleet.collect("live-1", 123)
        for instance_id, block in fleet.advance(fleet.start_ts + step * 100_000).items():
            assert block.first_sequence == sequences[instance_id]
            sequences[instance_id] = block.next_sequence
            answers += [
                (instance_id, b["requested_at"])
                for b in bodies_of(records(block), RecordType.LOG_STATUS)
            ]
    assert sorted(answers) == sorted((i, 123) for i in fleet.instances)


def test_live_fleet_has_the_fault_of_its_scenario() -> None:
    """A fleet built from a scenario with a fault injects it, without naming it a second time."""
    fleet = Fleet(Scenario(seed=1, topology="pair", fault="position_beyond_file"))
    for step in range(1, 40):
        fleet.collect(f"live-{step}", step)
        fleet.advance(fleet.start_ts + step * 100_000)
    assert [note["fault"] for note in fleet.injected] == ["position_beyond_file"]


def test_sources_are_asked_after_their_replicas() -> None:
    """In each collection a source's row is younger than the rows of its replicas."""
    history = simulate(Scenario(seed=3, topology="chain"))
    moments: dict[str, dict[str, int]] = {}
    for instance_id, block in history.journals.items():
        for r in records(block):
            if r.is_fact(RecordType.LOG_STATUS):
                moments.setdefault(r.body["collection_id"], {})[instance_id] = r.ts
    assert len(moments) >= 5
    for at in moments.values():
        assert at["replica-a2"] < at["replica-a1"] < at["source-a"]


def test_wl9452_rows_are_one_instant() -> None:
    """Under the promise of WL#9452 the executed set is what is logged up to the position."""
    rows = 0
    for seed in range(5):
        history = simulate(Scenario(seed=seed, profile="wl9452", writes_per_second=30.0))
        for block in history.journals.values():
            journal = records(block)
            purged = bodies_of(journal, RecordType.GTID_PURGED)
            for body in bodies_of(journal, RecordType.LOG_STATUS):
                logged = GtidSet((s, g, g) for s, g in logged_at(journal, body))
                for added in purged:
                    logged |= GtidSet.parse(added["added"])
                assert executed(body) == logged
                rows += 1
    assert rows > 30


def test_ordered_commits_lag_by_a_suffix() -> None:
    """On MySQL 8.0 the position leads gtid_executed by the last groups of the log."""
    lagging = 0
    for seed in range(8):
        history = simulate(
            Scenario(seed=seed, topology="single", duration_ms=3_000, negatives=("commit_lag",))
        )
        journal = records(history.journals["source-a"])
        for body in bodies_of(journal, RecordType.LOG_STATUS):
            known = executed(body)
            is_in = [f"{sid}:{gno}" in known for sid, gno in logged_at(journal, body)]
            assert is_in == sorted(is_in, reverse=True)
            lagging += not all(is_in)
            owned = GtidSet.parse_owned(body["gtid_owned"])
            assert owned.isdisjoint(known)
    assert lagging > 2


def test_unordered_commits_leave_holes() -> None:
    """With binlog_order_commits=OFF what is missing need not be a suffix."""
    holes = 0
    for seed in range(30):
        history = simulate(
            Scenario(seed=seed, topology="single", duration_ms=3_000, negatives=("commit_holes",))
        )
        journal = records(history.journals["source-a"])
        for body in bodies_of(journal, RecordType.LOG_STATUS):
            known = executed(body)
            is_in = [f"{sid}:{gno}" in known for sid, gno in logged_at(journal, body)]
            holes += is_in != sorted(is_in, reverse=True)
    assert holes > 0


def test_gtid_mode_off_moves_the_position_only() -> None:
    """Anonymous groups move the position; gtid_executed stays empty."""
    history = simulate(Scenario(seed=1, topology="pair", negatives=("gtid_mode_off",)))
    for block in history.journals.values():
        journal = records(block)
        assert not any(r.type == EventType.GTID for r in journal if r.stream is Stream.BINLOG)
        bodies = bodies_of(journal, RecordType.LOG_STATUS)
        assert {b["row"]["LOCAL"]["gtid_executed"] for b in bodies} == {""}
        positions = [
            (b["row"]["LOCAL"]["binary_log_file"], b["row"]["LOCAL"]["binary_log_position"])
            for b in bodies
        ]
        assert positions[-1] > positions[0]


def test_server_prints_a_newline_after_each_comma() -> None:
    """Sets of several UUIDs are printed as a server prints them."""
    history = simulate(Scenario(seed=1, topology="multi_source"))
    body = bodies_of(records(history.journals["hub"]), RecordType.LOG_STATUS)[-1]
    text = body["row"]["LOCAL"]["gtid_executed"]
    assert text.count(",") == text.count(",\n") >= 1


def test_lsn_lies_in_data_bytes_and_never_falls() -> None:
    """LSN and checkpoint have legal block offsets and rise, over crashes too."""
    for negative in ("crash_source", "restart_source"):
        history = simulate(Scenario(seed=2, topology="pair", negatives=(negative,)))
        for block in history.journals.values():
            before = (0, 0)
            for body in bodies_of(records(block), RecordType.LOG_STATUS):
                if "row" not in body:
                    continue
                innodb = body["row"]["STORAGE_ENGINES"]["InnoDB"]
                now = (innodb["LSN"], innodb["LSN_checkpoint"])
                assert all(12 <= lsn % 512 < 508 for lsn in now)
                assert now[0] >= now[1]
                assert now >= before
                before = now
                read = body["innodb"]
                order = [read[k] for k in ("checkpoint", "flushed", "written", "current")]
                assert order == sorted(order)


def test_restart_opens_the_next_file() -> None:
    """A clean shutdown ends with STOP; the boot starts file n + 1, sequence numbers from 1."""
    history = simulate(Scenario(seed=2, topology="pair", negatives=("restart_source",)))
    journal = records(history.journals["source-a"])
    stop = next(r.index for r in journal if r.is_fact(RecordType.STOP))
    last = next(r for r in reversed(journal[:stop]) if r.stream is Stream.BINLOG)
    assert last.type == EventType.STOP
    start = next(r for r in journal[stop:] if r.is_fact(RecordType.START))
    assert start.body["crashed"] is False
    opened = next(r for r in journal[start.index :] if r.stream is Stream.BINLOG)
    assert opened.start == 4
    assert _number(opened.file) == _number(last.file) + 1


def test_crash_tears_the_last_group() -> None:
    """Events beyond the recovered end are in no later set."""
    torn = 0
    for seed in range(10):
        history = simulate(Scenario(seed=seed, topology="pair", negatives=("crash_source",)))
        journal = records(history.journals["source-a"])
        start = next(r for r in journal if r.is_fact(RecordType.START) and r.body["crashed"])
        recovered = start.body["recovered"]
        events = [
            r
            for r in journal[: start.index]
            if r.stream is Stream.BINLOG and r.file == recovered["file"]
        ]
        complete = groups(events)
        assert recovered["position"] <= events[-1].end
        if complete:
            assert complete[-1].end <= recovered["position"]
        torn += events[-1].end > recovered["position"]
        opened = next(r for r in journal[start.index :] if r.stream is Stream.BINLOG)
        assert _number(opened.file) == _number(recovered["file"]) + 1
    assert torn > 0


def test_purge_removes_a_prefix_and_raises_gtid_purged() -> None:
    """After a purge the first listed file is the one recorded; its PREVIOUS_GTIDS are purged."""
    history = simulate(
        Scenario(seed=5, topology="pair", negatives=("purge",), writes_per_second=15.0)
    )
    journal = records(history.journals["source-a"])
    purges = [r for r in journal if r.is_fact(RecordType.BINLOG_PURGE)]
    assert purges
    last = bodies_of(journal, RecordType.LOG_STATUS)[-1]
    assert last["binary_logs"][0]["name"] == purges[-1].body["to_file"]
    oldest = files(journal, Stream.BINLOG)[purges[-1].body["to_file"]]
    assert GtidSet.parse(oldest[1].text or "") <= GtidSet.parse(last["gtid_purged"])


def test_reset_begins_a_new_lineage() -> None:
    """After RESET the first file is 000001 with an empty set and GNOs start again."""
    history = simulate(Scenario(seed=5, negatives=("reset_binary_logs",), writes_per_second=15.0))
    journal = records(history.journals["source-a"])
    reset = next(r.index for r in journal if r.is_fact(RecordType.BINLOG_RESET))
    events = [r for r in journal[reset:] if r.stream is Stream.BINLOG]
    assert events[0].file.endswith(".000001")
    assert events[1].text == ""
    assert next(e.gtid for e in events if e.gtid)[1] == 1


def test_files_rotate_softly_at_their_size() -> None:
    """A file ends after the group that crossed the limit, never inside a group."""
    history = simulate(
        Scenario(
            seed=5, topology="single", max_binlog_size=4_096, writes_per_second=20.0, acts=False
        )
    )
    by_file = list(files(records(history.journals["source-a"]), Stream.BINLOG).values())
    assert len(by_file) > 3
    for events in by_file[:-1]:
        found = groups(events)
        assert found[-1].end == events[-1].start
        assert found[-1].end >= 4_096


def test_failover_moves_writes_to_a_replica() -> None:
    """After a switchover the promoted replica's UUID is executed everywhere."""
    history = simulate(Scenario(seed=3, negatives=("failover",), writes_per_second=15.0))
    starts = {i: bodies_of(records(b), RecordType.START)[0] for i, b in history.journals.items()}
    promoted = starts["replica-a1"]["server_uuid"]
    for block in history.journals.values():
        last = bodies_of(records(block), RecordType.LOG_STATUS)[-1]
        assert executed(last).restrict(promoted)
    sources = bodies_of(records(history.journals["source-a"]), RecordType.CHANNEL)
    assert sources[0]["source_instance"] == "replica-a1"


def test_one_gtid_on_two_channels_executes_once() -> None:
    """A multi-source replica logs each GTID once, whichever channel brings it first."""
    history = simulate(Scenario(seed=3, negatives=("two_paths",)))
    journal = records(history.journals["hub"])
    logged = [r.gtid for r in journal if r.stream is Stream.BINLOG and r.gtid]
    relayed = [r.gtid for r in journal if r.stream is Stream.RELAY and r.gtid]
    assert len(logged) == len(set(logged)) > 10
    assert len(relayed) > len(set(relayed))


def test_unknown_scenario_values_are_refused() -> None:
    """A profile, topology or duration that cannot be is named in the error."""
    with pytest.raises(ValueError, match=r"'5\.7'"):
        Scenario(profile="5.7")
    with pytest.raises(ValueError, match="'ring'"):
        Scenario(topology="ring")
    with pytest.raises(ValueError, match="at least 1 ms"):
        Scenario(duration_ms=0)


def _number(name: str) -> int:
    return int(name.rpartition(".")[2])


@pytest.mark.parametrize("is_blocked", [False, True])
def test_a_semi_sync_source_waits_for_its_replica_or_its_time_out(is_blocked: bool) -> None:
    """The commit stage comes after the group is in the relay log, or after a second without."""
    fleet = Fleet(Scenario(seed=3, topology="pair", writes_per_second=0.001, acts=False))
    source, replica = fleet.instances["source-a"], fleet.instances["replica-a1"]
    [channel] = replica[ChannelMap].configured
    channel[Receiver].semi_sync = True
    fleet.run(fleet.now + 100_000)
    if is_blocked:
        replica.blocked_until = fleet.now + 3_000_000
    began = fleet.now
    group = workload.make_group(fleet.rng, GroupKind.INNODB, source.server_id, fleet.now)
    commit.commit(fleet, source, group)
    assert group.sid is not None
    gtid = group.sid, group.gno
    while gtid not in source[GtidState].executed:
        has_received = gtid in channel[Receiver].retrieved
        fleet.run(fleet.now + 100)
    assert has_received != is_blocked
    waited = fleet.now - began
    assert 1_000_000 <= waited <= 1_000_200 if is_blocked else 1_500 < waited < 100_000
