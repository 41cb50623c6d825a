"""Negative cases: each is arranged, shows what it says, and its fleet agrees in the end."""

import itertools
import pkgutil

import numpy as np
import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.journal import Block, QueryVerb, RecordType, Stream
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator import negatives
from tallystick.producers.simulator.assemble import History, simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.negatives import NEGATIVES, Negative
from tests.support.simulated_journal import Record, bodies_of, files, records

SEEDS = range(3)
WITHOUT_CONVERGENCE = {"ignored_server_id", "gtid_mode_off"}
"""After these a replica rightly has less than its sources, or there is no set to compare."""


def run(name: str, seed: int = 0, **options: object) -> History:
    return simulate(Scenario(seed=seed, negatives=(name,), **options))


def journal_of(history: History, instance_id: str) -> list[Record]:
    return records(history.journals[instance_id])


def rows(journal: list[Record]) -> list[dict]:
    return [body for body in bodies_of(journal, RecordType.LOG_STATUS) if "row" in body]


def last_row(block: Block) -> dict:
    """The last answer that has a row."""
    is_answer = block.columns["stream"] == Stream.SERVER
    is_answer &= block.columns["type"] == RecordType.LOG_STATUS
    bodies = (block.body(index) for index in reversed(np.flatnonzero(is_answer).tolist()))
    return next(body for body in bodies if "row" in body)


def actions(journal: list[Record]) -> list[str]:
    return [body["action"] for body in bodies_of(journal, RecordType.CHANNEL)]


@pytest.mark.parametrize("name", NEGATIVES)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_fleet_agrees_in_the_end(name: str, seed: int) -> None:
    """All replicas end with what their sources executed, none with more."""
    history = run(name, seed)
    last = {i: last_row(block) for i, block in history.journals.items()}
    executed = {i: GtidSet.parse(b["row"]["LOCAL"]["gtid_executed"]) for i, b in last.items()}
    uuids = {b["row"]["SERVER_UUID"]: i for i, b in last.items()}
    for instance_id, body in last.items():
        sources = [uuids[r["Source_UUID"]] for r in body["replica_status"]]
        union = GtidSet()
        for source in sources:
            union |= executed[source]
        if sources and name not in WITHOUT_CONVERGENCE:
            assert executed[instance_id] == union, instance_id


@pytest.mark.parametrize("name", NEGATIVES)
def test_every_negative_is_described(name: str) -> None:
    """Name and one sentence."""
    negative = NEGATIVES[name]
    assert negative.name == name
    assert len(negative.text) > 20


def test_every_module_of_the_package_is_a_family_or_shared() -> None:
    """A family that the package does not list would never be taken; a name is given once."""
    modules = {module.name for module in pkgutil.iter_modules(negatives.__path__)}
    families = {case.__module__.rpartition(".")[2] for case in NEGATIVES.values()}
    assert modules - families == {"acts", "negative"}
    assert len(Negative.registered) == len(NEGATIVES)


def test_unknown_negative_is_refused() -> None:
    """The error names the case and those that there are."""
    with pytest.raises(ValueError, match="'earthquake'"):
        run("earthquake")


def test_traps_that_contradict_each_other_are_refused() -> None:
    """Two cases with different topologies cannot share a scenario."""
    with pytest.raises(ValueError, match="topology"):
        simulate(Scenario(negatives=("reset_binary_logs", "two_paths")))


def test_reset_replica_empties_the_channel() -> None:
    """While replication is reset the relay coordinate is ('', 0) and nothing is retrieved."""
    journal = journal_of(run("reset_replica"), "replica-a1")
    empty = [
        body
        for body in rows(journal)
        if body["row"]["REPLICATION"]["channels"][0]["relay_log_file"] == ""
    ]
    assert empty
    for body in empty:
        assert body["row"]["REPLICATION"]["channels"][0]["relay_log_position"] == 0
        assert body["replica_status"][0]["Retrieved_Gtid_Set"] == ""


@pytest.mark.parametrize("workers", [0, 4])
@pytest.mark.parametrize("name", ["pointed_elsewhere", "pointed_by_position"])
def test_a_replica_that_is_pointed_elsewhere_names_the_removed_relay_log(
    name: str, workers: int
) -> None:
    """Until it is connected or restarts; then a row is judged again."""
    seen, beside = set(), set()
    for seed in range(8):
        history = run(name, seed, applier_workers=workers)
        instance_id = list(history.journals)[-1]
        undecided = {}
        for cut in audit_history(history.blocks(512)).cuts:
            reasons = {check.rule: check.reason for check in cut.undecided}
            is_doubted = reasons.get("relay_position_on_written_boundary") == "relay_log_of_before"
            if cut.instance_id == instance_id and is_doubted:
                undecided[cut.collection_id] = reasons["relay_position_matches_master_info"]
        former = end = None
        for one in records(history.journals[instance_id]):
            if one.stream is Stream.RELAY:
                end = one.file, one.end
            elif one.is_fact(RecordType.CHANNEL) and one.body["action"] == "change_source":
                former = end
            elif one.is_fact(RecordType.START):
                former = None
            elif one.is_fact(RecordType.LOG_STATUS) and "row" in one.body:
                (row,) = one.body["row"]["REPLICATION"]["channels"]
                is_former = former == (row["relay_log_file"], row["relay_log_position"])
                receiver = one.body["replica_status"][0]["Replica_IO_Running"]
                assert is_former == (former is not None and receiver != "Yes")
                assert is_former == (one.body["collection_id"] in undecided)
                seen.add((receiver, is_former))
        beside |= set(undecided.values())
    assert {("No", True), ("No", False), ("Connecting", True), ("Yes", False)} == seen
    # By GTID set nothing is stored that could be compared.
    by_position = name == "pointed_by_position"
    assert beside == {"relay_log_of_before" if by_position else "master_info_unseen"}


def test_reset_replica_all_removes_the_channel() -> None:
    """The channel disappears from the list."""
    journal = journal_of(run("reset_replica_all"), "hub")
    counts = [len(body["row"]["REPLICATION"]["channels"]) for body in rows(journal)]
    assert (counts[0], counts[-1]) == (2, 1)


def test_idle_rotation_leaves_the_flushed_place_behind() -> None:
    """F_c is in the old relay file; A_c is there too, or in the new one already."""
    applied_in_new = 0
    for seed in range(8):
        journal = journal_of(run("flush_relay_logs", seed), "replica-a1")
        body = rows(journal)[-1]
        flushed = body["row"]["REPLICATION"]["channels"][0]["relay_log_file"]
        assert flushed < list(files(journal, Stream.RELAY, ""))[-1]
        applied_in_new += flushed < body["replica_status"][0]["Relay_Log_File"]
    assert 0 < applied_in_new < 8


def test_reconnect_receives_a_partial_group_again() -> None:
    """A group whose end never arrived stands a second time in the relay log."""
    again = 0
    for seed in range(5):
        journal = journal_of(run("auto_position_reconnect", seed), "replica-a1")
        gtids = [r.gtid for r in journal if r.stream is Stream.RELAY and r.gtid]
        again += len(gtids) - len(set(gtids))
        assert "reconnect" in actions(journal)
    assert again > 0


def test_relay_log_recovery_falls_back_to_the_applied_place() -> None:
    """A new relay file with an empty set follows the recovery."""
    journal = journal_of(run("relay_log_recovery"), "replica-a1")
    at = next(
        r.index
        for r in journal
        if r.is_fact(RecordType.CHANNEL) and r.body["action"] == "relay_log_recovery"
    )
    opened = [r for r in journal[at:] if r.stream is Stream.RELAY][:2]
    assert opened[1].type == EventType.PREVIOUS_GTIDS
    assert opened[1].text == ""


def test_binlog_off_has_no_file_keys() -> None:
    """Without a binary log purged equals executed; later the hole stays out of PREVIOUS_GTIDS."""
    journal = journal_of(run("binlog_off", writes_per_second=15.0), "replica-a1")
    silent = [b for b in rows(journal) if "binary_log_file" not in b["row"]["LOCAL"]]
    assert silent
    for body in silent:
        purged = GtidSet.parse(body["gtid_purged"])
        assert purged <= GtidSet.parse(body["row"]["LOCAL"]["gtid_executed"])
        assert GtidSet.parse(body["gtid_executed_first"]) <= purged
    last = rows(journal)[-1]
    newest = files(journal, Stream.BINLOG)[last["row"]["LOCAL"]["binary_log_file"]]
    missing = GtidSet.parse(last["gtid_purged"]) - GtidSet.parse(newest[1].text or "")
    assert missing


def test_semi_sync_replica_is_ahead_of_its_source() -> None:
    """Some GTID is executed on the replica before the source shows it."""
    waiting = 0
    for seed in range(10):
        history = run("semi_sync", seed)
        for body in rows(journal_of(history, "source-a")):
            waiting += body["gtid_owned"] != ""
    assert waiting > 0


def test_low_water_mark_is_behind_what_is_executed() -> None:
    """Groups above the applied position are executed already."""
    ahead = 0
    for seed in range(5):
        journal = journal_of(run("low_water_mark", seed), "replica-a1")
        ends = {r.gtid: (r.file, r.end) for r in journal if r.channel == "" and r.gtid}
        for body in rows(journal):
            status = body["replica_status"][0]
            applied = (status["Relay_Log_File"], status["Relay_Log_Pos"])
            first = GtidSet.parse(body["gtid_executed_first"])
            ahead += any(
                f"{sid}:{gno}" in first
                for (sid, gno), position in ends.items()
                if position > applied
            )
    assert ahead > 0


def test_permissive_modes_write_both_kinds() -> None:
    """The source writes GTIDs, then anonymous groups, then GTIDs."""
    journal = journal_of(run("gtid_mode_permissive", writes_per_second=15.0), "source-a")
    kinds = [
        r.type
        for r in journal
        if r.stream is Stream.BINLOG and r.type in (EventType.GTID, EventType.ANONYMOUS_GTID)
    ]
    changes = [k for k, before in zip(kinds, [None, *kinds], strict=False) if k != before]
    assert changes == [EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID]


def test_two_groups_of_an_xa_transaction() -> None:
    """XA_PREPARE ends one group, XA COMMIT is another, each with its GTID."""
    journal = journal_of(run("xa", topology="pair"), "source-a")
    events = [r for r in journal if r.stream is Stream.BINLOG]
    assert sum(r.type == EventType.XA_PREPARE for r in events) >= 2
    assert sum(r.query is QueryVerb.XA_COMMIT for r in events) >= 2


def test_compressed_groups_are_one_payload() -> None:
    """Between two GTID events stands one TRANSACTION_PAYLOAD."""
    journal = journal_of(run("compressed", topology="single"), "source-a")
    types = {r.type for r in journal if r.stream is Stream.BINLOG and r.start > 200}
    assert types <= {
        EventType.GTID,
        EventType.TRANSACTION_PAYLOAD,
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.ROTATE,
    }


def test_a_gno_given_back_is_taken_later() -> None:
    """In the log a higher GNO stands before the one that was given back."""
    journal = journal_of(run("flush_failure", topology="single"), "source-a")
    gnos = [r.gtid[1] for r in journal if r.stream is Stream.BINLOG and r.gtid]
    assert gnos != sorted(gnos)
    assert sorted(gnos) == list(range(1, len(gnos) + 1))


def test_upgrade_brings_tags_and_other_sizes() -> None:
    """After the upgrade FORMAT_DESCRIPTION is longer and GTIDs are tagged."""
    journal = journal_of(run("upgrade", writes_per_second=10.0), "source-a")
    binlog = [r for r in journal if r.stream is Stream.BINLOG]
    formats = [r.length for r in binlog if r.type == EventType.FORMAT_DESCRIPTION]
    assert formats[0] < formats[-1]
    assert any(r.type == EventType.GTID_TAGGED for r in binlog)


def test_group_replication_leaves_large_holes() -> None:
    """GNOs come from blocks; a view change stands in the log."""
    journal = journal_of(run("group_replication", topology="pair"), "source-a")
    gnos = [r.gtid[1] for r in journal if r.stream is Stream.BINLOG and r.gtid]
    assert max(b - a for a, b in itertools.pairwise(gnos)) > 1_000_000
    assert any(r.type == EventType.VIEW_CHANGE for r in journal)


def test_ignored_server_leaves_no_relay_events() -> None:
    """After the filter nothing of the ignored server stands in that relay log."""
    journal = journal_of(run("ignored_server_id", writes_per_second=10.0), "hub")
    at = next(r.index for r in journal if r.is_fact(RecordType.CHANNEL) and r.body.get("filtered"))
    late = [r for r in journal[at:] if r.stream is Stream.RELAY and r.channel == "relayed"]
    assert late
    assert not any(r.gtid for r in late)


def test_refused_collections_are_answered_with_codes() -> None:
    """Somewhere in the fleet a collection ends with an error, and later ones with rows."""
    codes = set()
    for seed in range(8):
        history = run("refused_collection", seed)
        for block in history.journals.values():
            bodies = bodies_of(records(block), RecordType.LOG_STATUS)
            codes |= {b["error"]["code"] for b in bodies if "error" in b}
            assert "row" in bodies[-1]
    assert codes == {1142, 1227, 3722}


def test_no_replica_updates_leaves_the_position() -> None:
    """The replica's coordinate stands still while its purged set grows."""
    journal = journal_of(run("log_replica_updates_off"), "replica-a1")
    bodies = rows(journal)
    assert not any(r.gtid for r in journal if r.stream is Stream.BINLOG)
    assert GtidSet.parse(bodies[0]["gtid_purged"]) < GtidSet.parse(bodies[-1]["gtid_purged"])


def test_a_hole_is_filled_by_a_transaction_of_each_server() -> None:
    """One GTID of a server that is gone, with as many origins as servers."""
    history = run("hole_filled_on_every_server", topology="star")
    uuids = {last_row(block)["row"]["SERVER_UUID"] for block in history.journals.values()}
    origins = set()
    for name, block in history.journals.items():
        columns = block.columns
        is_logged = (columns["stream"] == Stream.BINLOG) & (columns["gno"] == 1)
        for index in np.flatnonzero(is_logged).tolist():
            if block.sids[columns["sid"][index]] not in uuids:
                origins.add((name, int(columns["server_id"][index])))
    assert len({server_id for _, server_id in origins}) == len(history.journals)


@pytest.mark.parametrize(
    ("seed", "names", "options"),
    [
        (4078, ("hole_filled_on_every_server", "failover"), {"topology": "star"}),
        (9182, ("hole_filled_on_every_server", "clone_then_failover"), {}),
        (4508, ("clone_xa", "clone_into_group"), {"writes_per_second": 5.0}),
        (
            802897,
            ("recovery_on_same_server", "skipped_numbers"),
            {"topology": "single", "profile": "wl9452", "writes_per_second": 5.0},
        ),
        (
            1000599,
            ("backup_under_read_lock", "persister_burst", "galera_snapshot"),
            {"profile": "wl9452", "writes_per_second": 3.0, "max_binlog_size": 4096},
        ),
        (
            1000438,
            ("refused_collection", "reset_binary_logs", "backup_locks"),
            {"topology": "single", "writes_per_second": 5.0},
        ),
        (
            2002128,
            ("clone_then_failover", "persister_xa"),
            {"writes_per_second": 3.0, "max_binlog_size": 4096},
        ),
        (
            2002724,
            ("backup_session_killed", "clone_recipient_crashes"),
            {"writes_per_second": 8.0, "applier_workers": 4},
        ),
        (
            1000282,
            ("crash_source", "recovery_on_new_server", "persister_reset"),
            {"writes_per_second": 5.0},
        ),
        (
            1039050,
            ("stray_file", "persister_burst"),
            {"topology": "single", "writes_per_second": 3.0, "lock_steps": False},
        ),
        (
            553,
            ("flush_relay_logs", "stale_info_file", "repositories_migrated"),
            {
                "profile": "wl9452",
                "topology": "pair",
                "acts": False,
                "writes_per_second": 10.0,
                "max_binlog_size": 4096,
                "preserve_commit_order": False,
                "lock_steps": False,
                "redo_events": False,
            },
        ),
        (
            282,
            ("backup_under_read_lock", "recovery_on_new_server"),
            {
                "topology": "single",
                "writes_per_second": 15.0,
                "max_binlog_size": 4096,
                "applier_workers": 4,
            },
        ),
    ],
)
def test_no_case_makes_a_fault_of_another(seed: int, names: tuple[str, ...], options: dict) -> None:
    """Nobody purges what a clone needs, nor resets what a replica reads; locks are asked again.

    FLUSH RELAY LOGS goes on in no relay log of a channel that is down.
    """
    history = simulate(Scenario(seed=seed, negatives=names, **options))
    assert audit_history(history.blocks(512)).findings == []


def test_a_case_and_an_upgrade_that_refuses_its_clone_are_refused() -> None:
    """An applier stops at an anonymous group if the mode of its server is ON."""
    with pytest.raises(ValueError, match="together make a fault"):
        simulate(Scenario(seed=1, negatives=("clone_across_modes", "upgrade")))
