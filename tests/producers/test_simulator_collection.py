"""The collection protocol: lock order, errors, what is frozen, what is read when."""

from dataclasses import replace

import pytest

from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import Fleet, simulate
from tallystick.producers.simulator.faults.hooks import FaultHooks
from tallystick.producers.simulator.kernel.instance import Instance
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.log_status import collection
from tallystick.producers.simulator.log_status.latches import Latches
from tallystick.producers.simulator.log_status.log_status_query import LogStatus, OutOfMemory
from tallystick.producers.simulator.log_status.storage_engines import Handlerton, StorageEngines
from tallystick.producers.simulator.server import administration, lifecycle
from tallystick.producers.simulator.server.channels import Applier, ChannelMap, Receiver, RelayLog
from tallystick.producers.simulator.server.receiver import FLUSH
from tests.support.simulated_journal import Record, bodies_of, records


def steps(journal: list[Record], collection_id: str) -> list[tuple[str, str | None]]:
    return [
        (body["step"], body.get("resource"))
        for body in bodies_of(journal, RecordType.COLLECTION)
        if body["collection_id"] == collection_id
    ]


def multi_source() -> tuple[Fleet, Instance]:
    fleet = Fleet(Scenario(seed=1, topology="multi_source"))
    return fleet, fleet.instances["hub"]


def hub_journal(**options: object) -> list[Record]:
    return records(simulate(Scenario(seed=1, topology="multi_source", **options)).journals["hub"])


def test_locks_are_taken_in_order_and_released_in_reverse() -> None:
    """The steps are those of WL#9452, with LOCK_plugin held only while engines are listed."""
    resources = ["channel:a", "channel:b", "binlog", "gtid_state", "engine:InnoDB"]
    expected = [
        ("enter", None),
        ("lock", "LOCK_collect_instance_log"),
        ("lock", "channel_map"),
        ("lock", "LOCK_plugin"),
        ("unlock", "LOCK_plugin"),
        *(("lock", r) for r in resources),
        *(("collect", r) for r in resources),
        *(("unlock", r) for r in reversed(resources)),
        ("unlock", "channel_map"),
        ("unlock", "LOCK_collect_instance_log"),
        ("leave", None),
    ]
    assert steps(hub_journal(), "collection-0001") == expected


def test_lock_steps_can_be_left_out() -> None:
    """Without lock steps a collection is its row alone."""
    journal = hub_journal(lock_steps=False)
    assert not bodies_of(journal, RecordType.COLLECTION)
    assert bodies_of(journal, RecordType.LOG_STATUS)


def test_nothing_moves_while_locks_are_held() -> None:
    """Between enter and leave the journal has steps and the row, nothing else."""
    journal = records(
        simulate(Scenario(seed=1, topology="demo", writes_per_second=60.0)).journals["hub"]
    )
    inside = False
    seen = 0
    for record in journal:
        if record.is_fact(RecordType.COLLECTION):
            inside = record.body["step"] != "leave"
            seen += 1
        elif inside:
            assert record.is_fact(RecordType.LOG_STATUS)
    assert seen > 20


def test_state_is_short() -> None:
    """From enter to leave less than a millisecond of virtual time passes."""
    journal = hub_journal()
    entered = {}
    for record in journal:
        if record.is_fact(RecordType.COLLECTION):
            key = record.body["collection_id"]
            entered.setdefault(key, record.ts)
            assert record.ts - entered[key] < 1_000


def test_an_answer_says_whether_its_channels_went_on_since_their_status() -> None:
    """RESET REPLICA at each moment of it, but when the row's locks are held."""
    seen = set()
    for after_us in range(0, 9_000, 150):
        fleet, hub = multi_source()
        fleet.advance(fleet.start_ts + 2_000_000)
        fleet.collect("c", 1)
        fleet.run(fleet.now + after_us)
        if hub[Latches].held:
            continue
        administration.reset_replica(fleet, hub[ChannelMap].channels["a"])
        journal = records(fleet.advance(fleet.now + 1_000_000)["hub"])
        (answer,) = bodies_of(journal, RecordType.LOG_STATUS)
        status = answer["replica_status"][0]
        row = answer["row"]["REPLICATION"]["channels"][0]
        assert status["Channel_Name"] == row["channel_name"] == "a"
        went_on = bool(status["Retrieved_Gtid_Set"]) == bool(row["relay_log_file"])
        assert answer["channels_went_on"] == went_on
        seen.add(went_on)
    assert seen == {True, False}


RESOURCES = ["channel:a", "channel:b", "binlog", "gtid_state", "engine:InnoDB"]
COLUMNS = ["REPLICATION", "REPLICATION", "LOCAL", "LOCAL", "STORAGE_ENGINES"]
FAILING = list(zip(COLUMNS, RESOURCES, strict=True))


@pytest.mark.parametrize(("column", "failing"), FAILING)
def test_a_failing_resource_ends_the_collection_and_releases_all(column: str, failing: str) -> None:
    """3722 names the column; the locks are released in reverse all the same; no row."""
    fleet, hub = multi_source()
    hub[LogStatus].out_of_memory = OutOfMemory("collect", failing)
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["hub"])
    answer = bodies_of(journal, RecordType.LOG_STATUS)[0]
    assert "row" not in answer
    assert (answer["error"]["code"], answer["error"]["column"]) == (3722, column)
    assert f"'{column}'" in answer["error"]["message"]
    taken = [resource for step, resource in steps(journal, "c") if step == "lock"]
    released = [resource for step, resource in steps(journal, "c") if step == "unlock"]
    assert ["LOCK_collect_instance_log", "channel_map", "LOCK_plugin", *RESOURCES] == taken
    assert ["LOCK_plugin", *(r for r in reversed(taken) if r != "LOCK_plugin")] == released
    collected = [resource for step, resource in steps(journal, "c") if step == "collect"]
    assert RESOURCES[: RESOURCES.index(failing)] == collected
    assert not hub[Latches].held
    fleet.collect("d", 2)
    again = records(fleet.advance(fleet.start_ts + 2_000_000)["hub"])
    assert "row" in bodies_of(again, RecordType.LOG_STATUS)[0]


@pytest.mark.parametrize(("column", "failing"), FAILING)
def test_a_wrapper_that_cannot_be_made_ends_the_collection_before_it_locks(
    column: str, failing: str
) -> None:
    """Only the two outer locks were taken, and LOCK_plugin if engines were listed already."""
    fleet, hub = multi_source()
    hub[LogStatus].out_of_memory = OutOfMemory("instantiate", failing)
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["hub"])
    error = bodies_of(journal, RecordType.LOG_STATUS)[0]["error"]
    named = "STORAGE_ENGINE" if column == "STORAGE_ENGINES" else column
    reason = "failed to instantiate resources"
    message = f"Unable to collect information for column '{named}': {reason}."
    assert {"code": 3722, "column": named, "message": message} == error
    plugins = [("lock", "LOCK_plugin"), ("unlock", "LOCK_plugin")]
    assert [
        ("enter", None),
        ("lock", "LOCK_collect_instance_log"),
        ("lock", "channel_map"),
        *(plugins if failing.startswith("engine:") else []),
        ("error", None),
        ("unlock", "channel_map"),
        ("unlock", "LOCK_collect_instance_log"),
        ("leave", None),
    ] == steps(journal, "c")
    assert not hub[Latches].held


class QueryMeanwhile(FaultHooks):
    """Another session reads the table while a collection has all its locks."""

    def __init__(self) -> None:
        self.waited = 0

    def on_collect_step(
        self, fleet: Fleet, instance: Instance, collection_id: str, step: str, resource: str | None
    ) -> bool:
        if collection_id == "c" and (step, resource) == ("collect", "channel:a"):
            collection.query(fleet, instance, "second")
            collection.query(fleet, instance, "third")
            self.waited = len(instance[LogStatus].waiting_queries)
        return True


def test_a_second_session_waits_for_the_first() -> None:
    """It enters, but takes its first lock only after the one before released its last."""
    hooks = QueryMeanwhile()
    fleet = Fleet(Scenario(seed=1, topology="multi_source"), hooks)
    hub = fleet.instances["hub"]
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["hub"])
    assert hooks.waited == 2
    order = [
        (body["collection_id"], body["step"])
        for body in bodies_of(journal, RecordType.COLLECTION)
        if body["step"] in {"enter", "leave"} or body.get("resource") == "LOCK_collect_instance_log"
    ]
    locked = ["lock", "unlock", "leave"]
    assert [
        ("c", "enter"),
        ("c", "lock"),
        ("second", "enter"),
        ("third", "enter"),
        *(("c", step) for step in locked[1:]),
        *(("second", step) for step in locked),
        *(("third", step) for step in locked),
    ] == order
    answers = bodies_of(journal, RecordType.LOG_STATUS)
    assert ["c", "second", "third"] == [body["collection_id"] for body in answers]
    assert all("row" in body for body in answers)
    assert not hub[Latches].held
    assert not hub[LogStatus].waiting_queries


def test_a_session_that_waits_when_the_server_goes_down_is_told_so() -> None:
    """The boot takes the lock with it, and the next in line is not forgotten."""
    fleet = Fleet(Scenario(seed=1, topology="multi_source"), QueryMeanwhile())
    hub = fleet.instances["hub"]
    fleet.collect("c", 1)
    while not hub[LogStatus].waiting_queries:
        fleet.run(fleet.now + 1)
    lifecycle.crash(fleet, hub)
    journal = records(fleet.advance(fleet.now + 100_000)["hub"])
    answers = {b["collection_id"]: b for b in bodies_of(journal, RecordType.LOG_STATUS)}
    assert "row" in answers["c"]
    assert {"unreachable": True} == answers["second"]["error"] == answers["third"]["error"]


def test_only_engines_with_all_three_functions_take_part() -> None:
    """MyISAM is listed and not wrapped; an engine that lacks one function is not either."""
    fleet, hub = multi_source()
    assert {"MyISAM": False, "InnoDB": True} == {
        name: hton.takes_part for name, hton in hub[StorageEngines].installed.items()
    }
    calls: list[str] = []
    whole = Handlerton(
        "RocksDB",
        lambda _instance, _session: calls.append("lock"),
        lambda _instance, _session: calls.append("unlock"),
        lambda _instance, column: column.update(RocksDB={"wal_files": []}),
    )
    hub[StorageEngines].installed["RocksDB"] = whole
    for missing in ("lock_hton_log", "unlock_hton_log", "collect_hton_log_info"):
        hub[StorageEngines].installed[missing] = replace(whole, name=missing, **{missing: None})
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["hub"])
    locked = [resource for step, resource in steps(journal, "c") if step == "lock"]
    assert [*RESOURCES, "engine:RocksDB"] == locked[3:]
    assert ["lock", "unlock"] == calls
    engines = bodies_of(journal, RecordType.LOG_STATUS)[0]["row"]["STORAGE_ENGINES"]
    assert {"InnoDB", "RocksDB"} == engines.keys()
    assert {"wal_files": []} == engines["RocksDB"]


def test_an_engine_that_is_not_ready_is_not_asked() -> None:
    """LOCK_plugin shows the plugins that are installed and ready: another's init still runs."""
    fleet, hub = multi_source()
    hub[StorageEngines].installed["Other"] = Handlerton(
        "Other",
        lock_hton_log=lambda *_: False,
        unlock_hton_log=lambda *_: None,
        collect_hton_log_info=lambda _, json: json.update(Other={"LSN": 1}),
    )
    hub[StorageEngines].initializing.add("Other")
    fleet.collect("c", 1)
    first = bodies_of(
        records(fleet.advance(fleet.start_ts + 1_000_000)["hub"]), RecordType.LOG_STATUS
    )
    hub[StorageEngines].initializing.clear()
    fleet.collect("d", 2)
    second = bodies_of(
        records(fleet.advance(fleet.start_ts + 2_000_000)["hub"]), RecordType.LOG_STATUS
    )
    shown = [set(body[0]["row"]["STORAGE_ENGINES"]) for body in (first, second)]
    assert shown == [{"InnoDB"}, {"InnoDB", "Other"}]


def test_an_engine_that_cannot_be_locked_ends_the_collection() -> None:
    """Its function returns true: 3722, and what was locked before it is unlocked."""
    fleet, hub = multi_source()
    innodb = hub[StorageEngines].installed["InnoDB"]
    hub[StorageEngines].installed["InnoDB"] = replace(innodb, lock_hton_log=lambda *_: True)
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["hub"])
    error = bodies_of(journal, RecordType.LOG_STATUS)[0]["error"]
    assert (error["code"], error["column"]) == (3722, "STORAGE_ENGINES")
    assert error["message"] == (
        "Unable to collect information for column 'STORAGE_ENGINES': failed to lock engine:InnoDB."
    )
    taken = [resource for step, resource in steps(journal, "c") if step == "lock"]
    released = [resource for step, resource in steps(journal, "c") if step == "unlock"]
    assert sorted(taken) == sorted(released)
    assert "engine:InnoDB" not in taken
    assert not hub[Latches].held


@pytest.mark.parametrize("letter", ["e", "é"])
def test_the_message_has_at_most_192_bytes_of_a_reason(letter: str) -> None:
    """%-.192s cuts a long text, and no character in two."""
    fleet, hub = multi_source()
    innodb = hub[StorageEngines].installed["InnoDB"]
    name = letter * 200
    other = replace(innodb, name=name, lock_hton_log=lambda *_: True)
    hub[StorageEngines].installed[name] = other
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["hub"])
    reason = bodies_of(journal, RecordType.LOG_STATUS)[0]["error"]["message"].partition(": ")[2]
    full = f"failed to lock engine:{name}"
    assert reason.endswith(".")
    assert full.startswith(reason[:-1])
    assert 190 < len(reason[:-1].encode()) <= 192


def test_an_uninstalled_engine_is_not_asked() -> None:
    """The list is made anew by every collection."""
    fleet, hub = multi_source()
    del hub[StorageEngines].installed["InnoDB"]
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["hub"])
    assert {} == bodies_of(journal, RecordType.LOG_STATUS)[0]["row"]["STORAGE_ENGINES"]


ACCESS_DENIED = (
    "Access denied; you need (at least one of) the BACKUP_ADMIN privilege(s) for this operation"
)
"""WL#9452, I-2."""
DENIALS = [
    ("no_select", 1142, "SELECT command denied to user 'audit'@'localhost' for table 'log_status'"),
    ("no_backup_admin", 1227, ACCESS_DENIED),
]


@pytest.mark.parametrize(("privileges", "code", "message"), DENIALS)
def test_without_privilege_nothing_is_locked(privileges: str, code: int, message: str) -> None:
    """The privilege is checked first: an error, no lock, no row."""
    fleet = Fleet(Scenario(seed=1, topology="single"))
    fleet.instances["source-a"][LogStatus].privileges = privileges
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 1_000_000)["source-a"])
    errors = [b["error"] for b in bodies_of(journal, RecordType.LOG_STATUS)]
    assert errors == [{"code": code, "message": message}]
    assert not bodies_of(journal, RecordType.COLLECTION)


@pytest.mark.parametrize(("privileges", "code"), [("no_select", 1142), ("no_backup_admin", 1227)])
def test_another_session_needs_the_privilege_too(privileges: str, code: int) -> None:
    """Whoever reads the table: no lock without BACKUP_ADMIN."""
    fleet, hub = multi_source()
    hub[LogStatus].privileges = privileges
    collection.query(fleet, hub, "q")
    journal = records(fleet.advance(fleet.start_ts + 1)["hub"])
    assert [code] == [b["error"]["code"] for b in bodies_of(journal, RecordType.LOG_STATUS)]
    assert not bodies_of(journal, RecordType.COLLECTION)


def test_the_row_tells_what_the_receiver_has_flushed() -> None:
    """A relay log write whose positions were not flushed yet is not in the row (Step-1)."""
    fleet, hub = multi_source()
    fleet.run(fleet.start_ts + 2_000_000)
    channel = hub[ChannelMap].channels["a"]
    flushed = (channel[RelayLog].files[0].name, channel[RelayLog].files[0].event_ends[0])
    assert flushed not in {channel[Receiver].flushed, channel[Applier].applied}
    assert flushed[1] < channel[RelayLog].files[-1].end
    channel[Receiver].flushed = flushed
    collection.query(fleet, hub, "q")
    journal = records(fleet.advance(fleet.now)["hub"])
    row = bodies_of(journal, RecordType.LOG_STATUS)[-1]["row"]
    first = row["REPLICATION"]["channels"][0]
    assert flushed == (first["relay_log_file"], first["relay_log_position"])


def test_a_flush_that_fails_leaves_the_coordinates() -> None:
    """They are those of the last flush, while the relay log goes on, until one succeeds."""
    fleet, hub = multi_source()
    fails = True
    fleet.bus.connect(FLUSH, lambda _, channel: channel.name != "a" or not fails)
    fleet.run(fleet.start_ts + 1_000_000)
    receiver = hub[ChannelMap].channels["a"][Receiver]
    flushed, read = receiver.flushed, receiver.read
    while receiver.read == read:
        fleet.run(fleet.now + 1_000)
    assert receiver.flushed == flushed
    fails = False
    fleet.run(fleet.start_ts + 3_000_000)
    assert receiver.flushed > flushed


def test_a_stopped_server_is_unreachable() -> None:
    """While an instance is down its answer says so."""
    fleet = Fleet(Scenario(seed=1, topology="single"))
    lifecycle.shut_down(fleet, fleet.instances["source-a"])
    fleet.collect("c", 1)
    journal = records(fleet.advance(fleet.start_ts + 200_000)["source-a"])
    assert [b["error"] for b in bodies_of(journal, RecordType.LOG_STATUS)] == [
        {"unreachable": True}
    ]


def test_everything_that_can_be_read_is_read() -> None:
    """The record has the row and all inputs beside it, none of them a password."""
    body = bodies_of(hub_journal(), RecordType.LOG_STATUS)[-1]
    assert {
        "row",
        "gtid_executed_first",
        "gtid_executed_table",
        "slave_master_info",
        "slave_relay_log_info",
        "binary_logs",
        "binary_logs_again",
        "gtid_purged",
        "replica_status",
        "gtid_owned",
        "prepared_xa",
        "innodb",
        "trx_sys",
    } <= body.keys()
    assert [row["Channel_Name"] for row in body["replica_status"]] == ["a", "b"]
    for row in (*body["slave_master_info"], *body["slave_relay_log_info"]):
        assert not any("password" in column.lower() for column in row)


def test_what_is_read_earlier_is_never_ahead() -> None:
    """gtid_executed read first is within the row's, the table within both."""
    for seed in range(5):
        history = simulate(Scenario(seed=seed, writes_per_second=60.0, duration_ms=3_000))
        for block in history.journals.values():
            for body in bodies_of(records(block), RecordType.LOG_STATUS):
                executed = GtidSet.parse(body["row"]["LOCAL"]["gtid_executed"])
                first = GtidSet.parse(body["gtid_executed_first"])
                assert GtidSet.parse(body["gtid_executed_table"]) <= first <= executed
                assert GtidSet.parse(body["gtid_purged"]) <= executed


def test_gtid_executed_contains_what_the_applied_position_passed() -> None:
    """Replica status is read before log_status: its groups are in the row's set."""
    journal = records(
        simulate(Scenario(seed=3, topology="pair", writes_per_second=40.0)).journals["replica-a1"]
    )
    received = {r.gtid: (r.file, r.end) for r in journal if r.channel == "" and r.gtid}
    for body in bodies_of(journal, RecordType.LOG_STATUS):
        executed = GtidSet.parse(body["row"]["LOCAL"]["gtid_executed"])
        status = body["replica_status"][0]
        applied = (status["Relay_Log_File"], status["Relay_Log_Pos"])
        for (sid, gno), position in received.items():
            if position < applied:
                assert f"{sid}:{gno}" in executed
