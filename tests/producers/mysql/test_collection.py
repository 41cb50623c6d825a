"""Collections of real servers: what is read, in which order, and what a missing right costs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from pydantic import SecretStr

from tallystick.coordinates.events._record_fields import RECORD_SHAPES
from tallystick.coordinates.events.journal import RecordType
from tallystick.coordinates.events.log_status import ThreadState, read_log_status
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql.collection import Collector
from tallystick.producers.mysql.connection import connect
from tallystick.producers.mysql.dialect import Dialect
from tallystick.producers.mysql.errors import MysqlError
from tallystick.producers.mysql.rights import rights_of
from tallystick.producers.mysql.settings import ServerSettings, load_servers
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab

PASSWORD = "hunter2 'é\\"
SOURCE, REPLICA, HUB = "source-a", "replica-1", "hub"


def settings_of(lab: Lab, name: str) -> ServerSettings:
    return next(one for one in load_servers(lab.config_file, []) if one.name == name)


@contextmanager
def account(lab: Lab, name: str, grants: list[str]) -> Iterator[ServerSettings]:
    """An account with these rights alone, which leaves no trace in the binary log."""
    with session(lab.addresses()[name]) as admin:
        admin.run("SET sql_log_bin = 0")
        admin.run("CREATE USER narrow@localhost IDENTIFIED BY %s", (PASSWORD,))
        for grant in grants:
            admin.run(grant)
        try:
            yield settings_of(lab, name).model_copy(
                update={"user": "narrow", "password": SecretStr(PASSWORD)}
            )
        finally:
            admin.run("DROP USER narrow@localhost")


def grants(*, but: str = "nothing") -> list[str]:
    return [
        right.grant("narrow@localhost")
        for right in rights_of(Dialect.of("8.0.31"))
        if right.name != but
    ]


@pytest.fixture(scope="module", autouse=True)
def _some_history(mysqld):
    """Every channel has received and applied something."""
    for name in (SOURCE, "source-b"):
        run_alone(mysqld, f"CREATE DATABASE lab_{name[-1]}", name)
    mysqld.await_applied()
    yield
    for name in (SOURCE, "source-b"):
        run_alone(mysqld, f"DROP DATABASE lab_{name[-1]}", name)
    mysqld.await_applied()


def collected(settings: ServerSettings) -> dict:
    with closing(Collector(settings)) as collector:
        return collector.collect("c1", 1)


@pytest.mark.parametrize("name", [SOURCE, REPLICA, HUB])
def test_a_collection_is_a_record_of_the_journal_that_can_be_read(mysqld, name):
    """Its body has the contract's shape, and every part of the row and beside it has a value."""
    with account(mysqld, name, grants()) as settings:
        body = collected(settings)
    assert body == json.loads(json.dumps(body))
    RECORD_SHAPES[RecordType.LOG_STATUS](body)
    state = read_log_status(body, tags=False)
    assert [] == state.problems
    assert state.has_binlog
    assert None not in (
        state.position,
        state.executed,
        state.executed_first,
        state.purged,
        state.owned,
        state.gtid_table,
        state.prepared_xa,
        state.lsn,
        state.lsn_checkpoint,
    )
    assert {"current", "flushed", "checkpoint"} == set(state.innodb)
    assert state.binary_logs_confirmed
    with session(mysqld.addresses()[name]) as admin:
        assert admin.value("SELECT @@server_uuid") == state.server_uuid
    expected = {SOURCE: set(), REPLICA: {""}, HUB: {"source_a", "source_b"}}[name]
    assert expected == set(state.channels)
    assert state.channels_went_on == bool(expected)
    for channel in state.channels.values():
        assert channel.is_listed
        assert channel.has_status
        assert None not in (
            channel.relay,
            channel.applied,
            channel.read,
            channel.executed,
            channel.retrieved,
            channel.source_uuid,
            channel.stored_read,
            channel.stored_applied,
        )
        assert (True, ThreadState()) == (channel.auto_position, channel.receiver)


def test_the_statements_run_in_the_order_of_the_journal(mysqld):
    """docs/journal.md: what only grows is read before what it must lie within."""
    with (
        account(mysqld, REPLICA, grants()) as settings,
        session(mysqld.addresses()[REPLICA]) as admin,
    ):
        admin.run("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = ON")
        try:
            collected(settings)
            rows = admin.run(
                "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log"
                " WHERE user_host LIKE 'narrow%' AND command_type = 'Query' ORDER BY event_time"
            )
        finally:
            admin.run("SET GLOBAL general_log = OFF, GLOBAL log_output = 'FILE'")
    words = ("gtid_executed", "mysql.gtid_executed", "slave_master_info", "slave_relay_log_info",
             "slave_worker_info", "SHOW BINARY LOGS", "gtid_purged", "SHOW BINARY LOGS",
             "connection_status", "by_worker", "SHOW REPLICA STATUS", "log_status",
             "SHOW REPLICA STATUS", "gtid_owned", "XA RECOVER", "Innodb",
             "clone_status")  # fmt: skip
    asked = [text for (text,) in rows]
    first = next(at for at, text in enumerate(asked) if "gtid_executed" in text)
    assert [True] * len(words) == [
        word in text for word, text in zip(words, asked[first:], strict=False)
    ]


def test_an_account_needs_the_listed_rights_and_no_more(mysqld):
    """With the printed GRANTs alone everything is read, and all rights are found to be there."""
    with account(mysqld, REPLICA, grants()) as settings:
        body = collected(settings)
        with closing(Collector(settings)) as collector:
            held = collector.rights()
            assert "'narrow'@'localhost'" == collector.account()
            records = collector.start_body()
    assert "error" not in body
    assert "unread" not in body
    assert [] == [each.right.name for each in held if not each.is_held]
    assert records["variables"]["relay_log_info_transactional"] is True


@pytest.mark.parametrize(
    "right", [right for right in rights_of(Dialect.of("8.0.31")) if not right.is_required],
    ids=lambda right: right.name,
)  # fmt: skip
def test_a_right_that_is_missing_leaves_its_part_out_and_is_named(mysqld, right):
    """The other parts are read, and the server's error says what was refused."""
    with account(mysqld, REPLICA, grants(but=right.name)) as settings:
        body = collected(settings)
        with closing(Collector(settings)) as collector:
            held = collector.rights()
    assert "row" in body
    (unread,) = body["unread"]
    assert unread["part"] not in body
    assert unread["code"] in {1142, 1401}
    assert [right.name] == [each.right.name for each in held if not each.is_held]
    RECORD_SHAPES[RecordType.LOG_STATUS](body)


@pytest.mark.parametrize(
    ("but", "code"), [("SELECT on performance_schema.log_status", 1142), ("BACKUP_ADMIN", 1227)]
)
def test_without_its_rights_log_status_is_an_error_and_no_silence(mysqld, but, code):
    """ER_TABLEACCESS_DENIED_ERROR and ER_SPECIFIC_ACCESS_DENIED_ERROR, instead of all else."""
    with account(mysqld, SOURCE, grants(but=but)) as settings:
        body = collected(settings)
    assert {"collection_id", "requested_at", "error"} == set(body)
    assert code == body["error"]["code"]
    assert "unreachable" not in body["error"]


def test_without_replication_client_neither_logs_nor_channels_are_read(mysqld):
    """SHOW BINARY LOGS and SHOW REPLICA STATUS need it; what needs it not is read."""
    with account(mysqld, REPLICA, grants(but="REPLICATION CLIENT")) as settings:
        body = collected(settings)
    assert {"binary_logs", "replica_status"} == {each["part"] for each in body["unread"]}
    assert {"row", "gtid_purged", "slave_master_info"} <= set(body)


def test_an_account_without_any_right_is_told_each_one(mysqld):
    """Nothing is held; what depends on another right is reported as not known."""
    with account(mysqld, SOURCE, []) as settings, closing(Collector(settings)) as collector:
        held = collector.rights()
    assert set() == {each.is_held for each in held} - {False, None}
    assert ["BACKUP_ADMIN"] == [each.right.name for each in held if each.is_held is None]


def test_a_server_that_refuses_the_login_or_is_away_is_told_as_unreachable(mysqld):
    """The body has the error's number, and neither password nor traceback."""
    with account(mysqld, SOURCE, []) as settings:
        wrong = settings.model_copy(update={"password": SecretStr("wrong-secret")})
        denied = collected(wrong)["error"]
    away = collected(settings.model_copy(update={"port": 1}))["error"]
    assert (1045, True) == (denied["code"], denied["unreachable"])
    assert (2003, True) == (away["code"], away["unreachable"])
    assert "wrong-secret" not in json.dumps(denied)


def test_nothing_that_is_collected_holds_a_secret(mysqld):
    """The replication account's password lies in a table that is read, and is not read."""
    accounts = mysqld.accounts
    for name in (SOURCE, REPLICA, HUB):
        with closing(Collector(settings_of(mysqld, name))) as collector:
            shown = json.dumps(
                [collector.start_body(), collector.channels(), collector.collect("c", 1)]
            )
        assert accounts.replication not in shown
        assert accounts.audit not in shown
        assert "lab_replication" not in shown


def test_the_start_tells_what_the_server_is(mysqld):
    """Version, server_uuid, server_id, and the variables under today's names."""
    with closing(Collector(settings_of(mysqld, REPLICA))) as collector:
        records = collector.start_body()
    RECORD_SHAPES[RecordType.START](records)
    with session(mysqld.addresses()[REPLICA]) as admin:
        assert admin.value("SELECT @@server_id") == records["server_id"]
    assert "8.0.31" == records["version"]
    assert {"gtid_mode": "ON", "log_bin": True, "log_replica_updates": True,
            "replica_parallel_workers": 4, "relay_log_info_transactional": True} == {
        name: records["variables"][name]
        for name in ("gtid_mode", "log_bin", "log_replica_updates", "replica_parallel_workers",
                     "relay_log_info_transactional")
    }  # fmt: skip


def test_channels_are_told_as_they_are_configured(mysqld):
    """Each channel with its source and auto-position; a source has none."""
    uuids = {}
    for name in (SOURCE, "source-b"):
        with session(mysqld.addresses()[name]) as admin:
            uuids[name] = admin.value("SELECT @@server_uuid")
    with closing(Collector(settings_of(mysqld, HUB))) as collector:
        reported = collector.channels()
    for body in reported:
        RECORD_SHAPES[RecordType.CHANNEL](body)
    assert {("source_a", uuids[SOURCE], True), ("source_b", uuids["source-b"], True)} == {
        (body["channel"], body["source_uuid"], body["auto_position"]) for body in reported
    }
    assert all("filtered" not in body for body in reported)
    with closing(Collector(settings_of(mysqld, SOURCE))) as collector:
        assert [] == collector.channels()


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST", "@@hostname"])
def test_a_channel_to_the_server_itself_names_it(mysqld, host):
    """Its receiver refuses the source before it has taken over its server_uuid."""
    with session(mysqld.addresses()[HUB]) as admin:
        port = admin.value("SELECT @@port")
        host = admin.value("SELECT @@hostname") if host == "@@hostname" else host
        change = "CHANGE REPLICATION SOURCE TO SOURCE_HOST = %s, SOURCE_PORT = %s FOR CHANNEL 'own'"
        admin.run(change, (host, int(port)))
        try:
            with closing(Collector(settings_of(mysqld, HUB))) as collector:
                reported = {body["channel"]: body for body in collector.channels()}
        finally:
            admin.run("RESET REPLICA ALL FOR CHANNEL 'own'")
    named = {name: body.get("source_instance") for name, body in reported.items()}
    assert named == {"source_a": None, "source_b": None, "own": HUB}


def test_a_filter_is_reported_with_its_channel_and_beside_each_row(mysqld):
    """Where replication filters may leave groups out, nothing is claimed of them."""
    stop, change = (
        "STOP REPLICA SQL_THREAD FOR CHANNEL 'source_b'",
        ("CHANGE REPLICATION FILTER REPLICATE_IGNORE_TABLE = ({}) FOR CHANNEL 'source_b'"),
    )
    tables = [f"nowhere.t{number}" for number in range(100, 200)]
    with session(mysqld.addresses()[HUB]) as admin:
        admin.run(stop)
        admin.run(change.format(", ".join(tables)))
        try:
            with closing(Collector(settings_of(mysqld, HUB))) as collector:
                reported = {body["channel"]: body for body in collector.channels()}
                status = collector.collect("c1", 1)["replica_status"]
        finally:
            admin.run(change.format(""))
            admin.run("START REPLICA SQL_THREAD FOR CHANNEL 'source_b'")
    assert (True, False) == ("filtered" in reported["source_b"], "filtered" in reported["source_a"])
    read = read_log_status({"replica_status": status}, tags=False).channels
    assert (read["source_b"].is_filtered, read["source_a"].is_filtered) == (True, False)
    shown = {row["Channel_Name"]: row["Replicate_Ignore_Table"] for row in status}
    assert (len(shown["source_b"]), shown["source_a"]) == (64, "")  # it may be of any length


def test_prepared_xa_transactions_are_not_told_as_none(mysqld):
    """XA RECOVER has no GTIDs: with rows the set is left out, without them it is empty."""
    with (
        account(mysqld, SOURCE, grants()) as settings,
        session(mysqld.addresses()[SOURCE]) as admin,
    ):
        admin.run("CREATE DATABASE IF NOT EXISTS lab_check")
        admin.run("CREATE TABLE IF NOT EXISTS lab_check.t (a INT PRIMARY KEY)")
        for statement in ("XA START 'c'", "INSERT INTO lab_check.t VALUES (1)", "XA END 'c'",
                          "XA PREPARE 'c'"):  # fmt: skip
            admin.run(statement)
        try:
            assert "prepared_xa" not in collected(settings)
        finally:
            admin.run("XA ROLLBACK 'c'")
            admin.run("DROP DATABASE lab_check")
        assert "" == collected(settings)["prepared_xa"]


def test_the_stored_set_lies_within_the_executed_one(mysqld):
    """Rows of mysql.gtid_executed are joined into a set that parses."""
    with closing(Collector(settings_of(mysqld, SOURCE))) as collector:
        table = collector.gtid_table()
        body = collector.collect("c1", 1)
    executed = GtidSet.parse(body["row"]["LOCAL"]["gtid_executed"])
    assert GtidSet.parse(table) <= executed


def test_a_connection_that_was_lost_is_made_anew(mysqld):
    """A collection after the end of its session is answered as any other."""
    with closing(Collector(settings_of(mysqld, SOURCE))) as collector:
        first = collector.collect("c1", 1)
        with session(mysqld.addresses()[SOURCE]) as admin:
            rows = admin.rows("SHOW PROCESSLIST")
            ours = [row["Id"] for row in rows
                    if row["User"] == "lab_audit" and row["Command"] == "Sleep"]  # fmt: skip
            for number in ours:
                admin.run(f"KILL {number}")
        second = collector.collect("c2", 2)
    assert ours
    assert {"row"} <= set(first) & set(second)


def test_no_second_session_waits_behind_one_that_was_given_up(mysqld, monkeypatch):
    """STOP REPLICA may hold log_status for minutes: until it lets go, each answer is timed_out."""
    monkeypatch.setattr(connect, "__kwdefaults__", {"statement_timeout_s": 1.0})
    settings = settings_of(mysqld, REPLICA)
    with (
        session(mysqld.addresses()[REPLICA]) as admin,
        session(mysqld.addresses()[REPLICA]) as locker,
        closing(Collector(settings)) as collector,
    ):
        # The applier waits for a table that somebody has locked; STOP REPLICA waits for it.
        with session(mysqld.addresses()[SOURCE]) as source:
            source.run("CREATE DATABASE IF NOT EXISTS lab_check")
            source.run("CREATE TABLE IF NOT EXISTS lab_check.held (a INT PRIMARY KEY)")
            executed = source.gtid_executed()
            admin.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 20)", (executed,))
            locker.run("LOCK TABLES lab_check.held READ")
            source.run("INSERT INTO lab_check.held VALUES (1)")
            inserted = source.gtid_executed()
        waiting = (
            "SELECT COUNT(*) FROM performance_schema.metadata_locks WHERE LOCK_STATUS = 'PENDING'"
        )
        wait_until(lambda: admin.value(waiting) > 0)
        stopper = threading.Thread(target=run_alone, args=(mysqld, "STOP REPLICA SQL_THREAD"))
        stopper.start()
        stopping = (
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST"
            " WHERE INFO LIKE 'STOP REPLICA%' AND COMMAND = 'Query'"
        )
        try:
            wait_until(lambda: admin.value(stopping) > 0)
            first, second, third = (collector.collect(f"c{i}", i) for i in range(3))
            ours = [
                row
                for row in admin.rows("SHOW PROCESSLIST")
                if row["User"] == "lab_audit" and row["Command"] in {"Query", "Killed"}
            ]
        finally:
            locker.run("UNLOCK TABLES")
            stopper.join(30)
            admin.run("START REPLICA SQL_THREAD")
            admin.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 20)", (inserted,))
        assert [True] * 3 == [body["error"].get("timed_out") for body in (first, second, third)]
        assert "still waits" in second["error"]["message"]
        assert len(ours) <= 1
        wait_until(lambda: "row" in collector.collect("c4", 4))
        run_alone(mysqld, "DROP DATABASE lab_check", SOURCE)


def run_alone(lab: Lab, statement: str, name: str = REPLICA) -> None:
    with session(lab.addresses()[name]) as admin:
        admin.run(statement)


def wait_until(condition, deadline_s: float = 20.0) -> None:
    """Waits for something that another server does."""
    tick = threading.Event()
    for _ in range(int(deadline_s / 0.05)):
        if condition():
            return
        tick.wait(0.05)
    raise AssertionError(f"not within {deadline_s} s")


def test_a_server_that_cannot_be_asked_has_no_start(mysqld):
    """Facts of a server that is away are an error of ours that names it."""
    away = settings_of(mysqld, SOURCE).model_copy(update={"port": 1})
    with closing(Collector(away)) as collector, pytest.raises(MysqlError, match=SOURCE):
        collector.start_body()
