"""Following real servers: every event once, whatever breaks, and rows at their positions."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Outcome, Verdict
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql.binlog_dump import HELD_UP_MAX_S, BinlogDump
from tallystick.producers.mysql.connection import connect_for_stream
from tallystick.producers.mysql.tail import TailOptions, steady_clock_us
from tallystick.producers.mysql.tail_state import TailState
from tallystick.producers.mysql_lab.errors import LabError
from tallystick.producers.mysql_lab.layout import HUB, REPLICA_1, SOURCE_A, SOURCE_B
from tallystick.producers.mysql_lab.load import LoadPlan
from tallystick.producers.mysql_lab.sessions import Session, session
from tallystick.servers.lab import Lab
from tallystick.servers.tailing import resumed
from tests.support.tails import (
    RunningTail,
    data_directory,
    events_of_files,
    running,
    settings_of,
    wait_for,
)


def on(lab: Lab, name: str) -> Any:
    return session(lab.addresses()[name])


def end_of(server: Session) -> tuple[str, int]:
    (row,) = server.run("SHOW MASTER STATUS")
    return str(row[0]), int(row[1])


def load(lab: Lab, seconds: float = 2.0, seed: int = 1) -> None:
    running_load = lab.make_load(LoadPlan((SOURCE_A,), rate=150, seconds=seconds, seed=seed))
    running_load.start()
    running_load.finish()


def catch_up(lab: Lab, tail: RunningTail) -> None:
    with on(lab, SOURCE_A) as server:
        tail.wait_until_at(*end_of(server))


def without_flags_of_open_files(lab: Lab, name: str) -> list[tuple[Any, ...]]:
    """A FORMAT_DESCRIPTION has another flag, and so another checksum, while its file is open."""
    return [
        tuple(event[:4]) if event.type == 15 else tuple(event)
        for event in events_of_files(data_directory(lab, name), "binlog")
    ]


def recorded_events(tail: RunningTail) -> list[tuple[Any, ...]]:
    return [
        tuple(event[:4]) if event.type == 15 else tuple(event) for event in tail.binlog_events()
    ]


def test_the_journal_has_the_events_of_the_files(mysqld: Lab) -> None:
    """Name, offset, length, type and checksum of every event are those of the bytes on disk."""
    with running(settings_of(mysqld, SOURCE_A)) as tail:
        load(mysqld)
        catch_up(mysqld, tail)
    expected = without_flags_of_open_files(mysqld, SOURCE_A)
    assert len(expected) > 500
    assert expected == recorded_events(tail)


def test_the_redo_log_is_sampled(mysqld: Lab) -> None:
    """Once a second and in the server's own order, under load; flush settings are in the start."""
    with running(settings_of(mysqld, SOURCE_A)) as tail:

        def samples() -> list[dict[str, Any]]:
            lines = [line for line in tail.records if '"kind":"redo_status"' in line]
            return [json.loads(line) for line in lines]

        load(mysqld, 3.0)
        wait_for(lambda: len(samples()) >= 3, lambda: tail.notices)
        catch_up(mysqld, tail)
    first, *_, last = samples()
    assert first["current"] < last["current"]
    assert first["checkpoint"] <= first["flushed"] <= first["current"]
    # It may begin in an older file, where a replica still reads: of earlier boots less is known.
    *_, start = (json.loads(line) for line in tail.records if '"kind":"start"' in line)
    assert start["variables"]["innodb_flush_log_at_trx_commit"] == 1
    assert start["variables"]["innodb_redo_log_enabled"] is True
    result = audit_history(tail.sink.blocks)
    assert [] == result.findings


def has_killed(server: Session, identity: int) -> bool:
    """Kill a connection, if it has not ended since it was listed."""
    try:
        server.run(f"KILL {identity}")
    except LabError as error:
        if "error 1094" not in str(error):
            raise
        return False
    return True


def test_a_broken_connection_loses_and_doubles_nothing(mysqld: Lab) -> None:
    """The stream's connection is killed under load, several times."""
    with running(settings_of(mysqld, SOURCE_A)) as tail, on(mysqld, SOURCE_A) as server:
        running_load = mysqld.make_load(LoadPlan((SOURCE_A,), rate=150, seconds=4, seed=2))
        running_load.start()
        kills, until = 0, time.monotonic() + 60
        while running_load.is_alive or (kills < 2 and time.monotonic() < until):
            for identity, user, command in server.run(
                "SELECT id, user, command FROM information_schema.processlist"
            ):
                if user == "lab_audit" and str(command).startswith("Binlog Dump"):
                    kills += has_killed(server, int(identity))
            position = end_of(server)
            tail.wait_until_at(*position)
        running_load.finish()
        # What comes after the last kill is read when the server is followed again: else the end of
        # the log is not known when tail stops, which it records as a gap.
        server.run("FLUSH BINARY LOGS")
        tail.wait_until_at(*end_of(server))
    assert kills >= 2
    assert without_flags_of_open_files(mysqld, SOURCE_A) == recorded_events(tail)
    assert not [line for line in tail.records if '"kind":"gap"' in line]
    assert json.loads(tail.records[-1])["ends"]


def test_a_killed_tail_goes_on_behind_what_was_published(mysqld: Lab, tmp_path: Path) -> None:
    """The state is saved before the last blocks: what they hold is not recorded again."""
    state_file = tmp_path / "source-a.json"
    settings = settings_of(mysqld, SOURCE_A)
    with running(settings, state_file=state_file) as first:
        load(mysqld, 1.0, seed=3)
        catch_up(mysqld, first)
        wait_for(state_file.exists, lambda: first.notices)
        saved = TailState.load(state_file)
        load(mysqld, 1.0, seed=4)
        catch_up(mysqld, first)
    assert saved is not None
    state, problem = resumed(saved, first.sink.blocks)
    assert problem is None
    assert state is not None
    assert state.next_sequence == first.tail.journal.state.next_sequence
    assert (state.file, state.position) == (
        first.tail.journal.state.file,
        first.tail.journal.state.position,
    )
    load(mysqld, 1.0, seed=5)
    with running(settings, state=state) as second:
        catch_up(mysqld, second)
        second.collect("c1")
    assert without_flags_of_open_files(mysqld, SOURCE_A) == recorded_events(
        first
    ) + recorded_events(second)
    blocks = [*first.sink.blocks, *second.sink.blocks]
    assert [block.first_sequence for block in blocks[1:]] == [
        block.next_sequence for block in blocks[:-1]
    ]
    assert audit_history(blocks).verdict is Verdict.CONSISTENT


def test_a_row_stands_where_the_log_reaches_its_coordinates(mysqld: Lab) -> None:
    """Under load, each row is right after the event that ends at its position."""
    with running(settings_of(mysqld, SOURCE_A)) as tail:
        running_load = mysqld.make_load(LoadPlan((SOURCE_A,), rate=200, seconds=4, seed=6))
        running_load.start()
        number, until = 0, time.monotonic() + 60
        while running_load.is_alive or (number <= 5 and time.monotonic() < until):
            number += 1
            tail.collect(f"c{number}")
        running_load.finish()
    end: tuple[str, int] | None = None
    rows = 0
    for line in tail.records:
        record = json.loads(line)
        if record["kind"] == "binlog":
            end = record["file"], record["start"] + record["length"]
        elif "row" in record:
            local = record["row"]["LOCAL"]
            assert (local["binary_log_file"], local["binary_log_position"]) == end
            rows += 1
    assert rows == number > 5
    assert audit_history(tail.sink.blocks).findings == []


def test_a_crash_of_the_server_is_told_between_its_boots(mysqld: Lab) -> None:
    """After kill -9 under load the start stands between the files, with the recovered end."""
    with running(settings_of(mysqld, SOURCE_A)) as tail:
        tail.collect("before")
        running_load = mysqld.make_load(LoadPlan((SOURCE_A,), rate=150, seconds=900, seed=7))
        running_load.start()
        records = tail.tail.journal.records
        wait_for(lambda: tail.tail.journal.records > records + 200, lambda: tail.notices)
        with on(mysqld, SOURCE_A) as server:
            crashed_in, _ = end_of(server)
        mysqld.kill(SOURCE_A)
        running_load.stop()
        mysqld.restart(SOURCE_A)
        running_load.finish()
        load(mysqld, 1.0, seed=8)
        catch_up(mysqld, tail)
        tail.collect("after")
    starts = [json.loads(line) for line in tail.records if '"kind":"start"' in line]
    path = data_directory(mysqld, SOURCE_A) / crashed_in
    assert starts[-1]["crashed"] is True
    assert starts[-1]["recovered"] == {"file": crashed_in, "position": path.stat().st_size}
    assert without_flags_of_open_files(mysqld, SOURCE_A) == recorded_events(tail)
    assert audit_history(tail.sink.blocks).verdict is Verdict.CONSISTENT
    mysqld.await_applied()


def purge_to(server: Session, file: str) -> None:
    """PURGE BINARY LOGS, until it has: it stops at a file that a replica is still being sent."""

    def has_purged() -> bool:
        server.run(f"PURGE BINARY LOGS TO '{file}'")
        return bool(server.run("SHOW BINARY LOGS")[0][0] == file)

    wait_for(has_purged, lambda: server.run("SHOW BINARY LOGS"))


def test_files_purged_while_nobody_read_are_a_gap(mysqld: Lab) -> None:
    """The journal shows that records are missing, and goes on with the oldest file."""
    settings = settings_of(mysqld, SOURCE_A)
    with running(settings) as first:
        catch_up(mysqld, first)
    mysqld.await_applied()
    with on(mysqld, SOURCE_A) as server:
        for _ in range(2):
            load(mysqld, 0.5, seed=9)
            server.run("FLUSH BINARY LOGS")
        mysqld.await_applied()
        oldest = end_of(server)[0]
        purge_to(server, oldest)
    state = TailState(**asdict(first.tail.journal.state))
    with running(settings, state=state) as second:
        catch_up(mysqld, second)
        second.collect("c1")
    kinds = [json.loads(line)["kind"] for line in second.records]
    assert kinds[0] == "gap"
    assert "gap" not in kinds[1:]
    assert second.binlog_events()[0].file == oldest
    result = audit_history([*first.sink.blocks, *second.sink.blocks])
    assert result.findings == []
    assert result.verdict is Verdict.UNDECIDED


def test_relay_logs_are_told_behind_the_starts_before_the_journal(mysqld: Lab) -> None:
    """They are of the present boot, though they were opened before the older files were read."""
    mysqld.stop(REPLICA_1)
    mysqld.restart(REPLICA_1)
    load(mysqld, 1.0, seed=11)
    mysqld.await_applied()
    with running(settings_of(mysqld, REPLICA_1)) as tail:
        tail.collect("c1")
    kinds = [json.loads(line)["kind"] for line in tail.records]
    newest_start = len(kinds) - 1 - kinds[::-1].index("start")
    assert kinds.count("start") > 1
    assert kinds.index("relay") > newest_start
    assert audit_history(tail.sink.blocks).findings == []


def test_a_reset_is_recorded(mysqld: Lab) -> None:
    """RESET MASTER on a replica without replicas of its own: the new log is read from its start."""
    name = "hub"
    settings = settings_of(mysqld, name)
    mysqld.await_applied()
    with running(settings) as tail, on(mysqld, name) as server:
        tail.collect("before")
        purged = server.value("SELECT @@GLOBAL.gtid_executed")
        for channel in ("source_a", "source_b"):
            server.run(f"STOP REPLICA FOR CHANNEL '{channel}'")
        # Two files of one second and name cannot be distinguished: the lab may be that young.
        opened_s = max(tail.tail.journal.state.opened_s.values())
        wait_for(lambda: time.time() > opened_s + 1, lambda: opened_s)
        server.run("RESET MASTER")
        server.run("SET GLOBAL gtid_purged = %s", (purged,))
        for channel in ("source_a", "source_b"):
            server.run(f"START REPLICA FOR CHANNEL '{channel}'")
        load(mysqld, 1.0, seed=10)
        mysqld.await_applied()
        wait_for(lambda: any("RESET" in notice for notice in tail.notices), lambda: tail.notices)
        tail.wait_until_at(*end_of(server))
        tail.collect("after")
    kinds = [json.loads(line)["kind"] for line in tail.records]
    assert kinds.count("binlog_reset") == 1
    behind = [json.loads(line) for line in tail.records[kinds.index("binlog_reset") :]]
    first = next(record for record in behind if record["kind"] == "binlog")
    assert (first["file"], first["start"]) == ("binlog.000001", 4)
    assert audit_history(tail.sink.blocks).findings == []


def test_a_reset_while_nobody_looked_is_told_where_the_place_lies_in_an_event(mysqld: Lab) -> None:
    """The server refuses to begin there; the file is known by when it was opened."""
    settings = settings_of(mysqld, HUB)
    mysqld.await_applied()
    with on(mysqld, HUB) as server:
        server.run("STOP REPLICA")
        server.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        file, position = end_of(server)
        with running(settings) as first:
            first.wait_until_at(file, position)
        purged = server.value("SELECT @@GLOBAL.gtid_executed")
        server.run(f"RESET MASTER TO {int(file[-6:])}")
        server.run("SET GLOBAL gtid_purged = %s", (purged,))
        server.run(f"CREATE DATABASE long_event /* {'x' * 4000} */")
        assert end_of(server)[1] > position
        state = TailState(**asdict(first.tail.journal.state))
        with running(settings, state=state) as second:
            wait_for(lambda: "RESET" in " ".join(second.notices), lambda: second.notices)
            second.wait_until_at(*end_of(server))
        server.run("SET sql_log_bin = 0")
        server.run("DROP DATABASE long_event")
        server.run("RESET MASTER")
        server.run("SET GLOBAL gtid_purged = %s", (purged,))
        server.run("START REPLICA")
    mysqld.await_applied()
    kinds = [json.loads(line)["kind"] for line in second.records if "observer" not in line]
    assert kinds.index("binlog_reset") == kinds.index("gap") + 1


def test_an_older_copy_of_the_data_that_was_put_back_is_told_as_lost(mysqld: Lab) -> None:
    """What was logged after the copy is gone, and was executed: no RESET excuses that."""
    mysqld.await_applied()
    with on(mysqld, HUB) as hub:
        hub.run("STOP REPLICA FOR CHANNEL 'source_b'")
    with running(settings_of(mysqld, SOURCE_B)) as tail:
        tail.collect("before")
        mysqld.stop(SOURCE_B)
        data = data_directory(mysqld, SOURCE_B)
        shutil.copytree(data, data.with_name("older"))
        mysqld.restart(SOURCE_B)
        with on(mysqld, SOURCE_B) as server:
            for number in range(5):
                server.run(f"CREATE DATABASE lost_{number}")
            # More redo than a start writes, or the LSN of the copy is the later one soon.
            server.run("CREATE TABLE lost_0.text (a LONGTEXT)")
            server.run("INSERT INTO lost_0.text VALUES (REPEAT('x', 1000000))")
            tail.wait_until_at(*end_of(server))
        tail.collect("newer")
        mysqld.stop(SOURCE_B)
        shutil.rmtree(data)
        data.with_name("older").rename(data)
        mysqld.restart(SOURCE_B)
        with on(mysqld, SOURCE_B) as server:
            wait_for(lambda: "older copy" in " ".join(tail.notices), lambda: tail.notices)
            end = end_of(server)
            state = tail.tail.journal.state
            wait_for(lambda: (state.file, state.position) == end, lambda: (state, tail.notices))
        tail.collect("older")
    kinds = [json.loads(line)["kind"] for line in tail.records]
    assert "binlog_reset" not in kinds
    starts = [json.loads(line) for line in tail.records if '"kind":"start"' in line]
    copied = sorted(data.glob("binlog.[0-9]*"))[-2]
    assert starts[-1]["recovered"] == {"file": copied.name, "position": copied.stat().st_size}
    broken = {finding.rule for finding in audit_history(tail.sink.blocks).findings}
    assert {"executed_monotone", "lsn_monotone"} <= broken
    with on(mysqld, HUB) as hub:
        hub.run("START REPLICA FOR CHANNEL 'source_b'")
    mysqld.await_applied()


def test_a_server_waits_for_a_reader_that_takes_nothing_for_seconds_only(mysqld: Lab) -> None:
    """Its shutdown waits for its streams: a minute by its own settings."""
    settings = settings_of(mysqld, SOURCE_A)
    with on(mysqld, SOURCE_A) as server:

        def streams() -> list[str]:
            rows = server.run("SELECT id, state FROM information_schema.processlist")
            return [str(state) for identity, state in rows if int(identity) == stream.thread_id()]

        server.run("CREATE TABLE mysql.held_up (a LONGTEXT)")
        for _ in range(4):
            server.run("INSERT INTO mysql.held_up VALUES (REPEAT('x', 4000000))")
        server.run("DROP TABLE mysql.held_up")
        ((first, *_), *_) = server.run("SHOW BINARY LOGS")
        stream = connect_for_stream(settings)
        dump = BinlogDump(stream, server_id=99, file=first, position=4, heartbeat_s=1.0)
        wait_for(lambda: streams() == ["Sending to client"], streams)
        waits = server.run(
            "SELECT processlist_id, variable_value FROM performance_schema.variables_by_thread"
            " JOIN performance_schema.threads USING (thread_id)"
            " WHERE variable_name = 'net_write_timeout' AND processlist_id IS NOT NULL"
        )
        assert {int(key): int(value) for key, value in waits}[stream.thread_id()] == HELD_UP_MAX_S
        wait_for(lambda: not streams(), streams)
        dump.close()


def test_an_unreachable_server_answers_so(mysqld: Lab) -> None:
    """A collection is answered although nobody is there; then the server is followed again.

    Every notice names the server, also one whose name is a letter that any sentence has.
    """
    settings = settings_of(mysqld, REPLICA_1).model_copy(update={"name": "e"})
    with running(settings, options=TailOptions(deadline_s=5.0, back_off_max_s=1.0)) as tail:
        tail.collect("c1")
        mysqld.stop(REPLICA_1)
        wait_for(lambda: tail.notices, lambda: "no notice")
        tail.collect("c2")
        mysqld.restart(REPLICA_1)
        mysqld.await_applied()
        wait_for(lambda: "e: followed again" in tail.notices, lambda: tail.notices)
        tail.collect("c3")
    assert all(line.startswith(("e: ", "server 'e' (")) for line in tail.notices), tail.notices
    answers = [json.loads(line) for line in tail.records if '"kind":"log_status"' in line]
    assert [("row" in answer) for answer in answers] == [True, False, True]
    assert answers[1]["error"]["unreachable"] is True
    starts = [json.loads(line) for line in tail.records if '"kind":"start"' in line]
    assert starts[-1]["crashed"] is False


def test_what_is_asked_while_a_server_restarts_waits_for_it(mysqld: Lab) -> None:
    """Its answer is late, and has the row of the server that is back."""
    options = TailOptions(deadline_s=60.0, back_off_max_s=1.0)
    with running(settings_of(mysqld, REPLICA_1), options=options) as tail:
        tail.collect("c1")
        mysqld.stop(REPLICA_1)
        wait_for(lambda: tail.notices, lambda: "no notice")
        asked_at = steady_clock_us()
        tail.tail.ask(CollectRequest("c2", asked_at))
        mysqld.restart(REPLICA_1)
        wait_for(lambda: "c2" in tail.answered, lambda: tail.notices)
    mysqld.await_applied()
    answers = [json.loads(line) for line in tail.records if '"kind":"log_status"' in line]
    assert [("row" in answer) for answer in answers] == [True, True]
    assert asked_at <= answers[1]["received_at"] < answers[1]["ts"]


def test_what_is_asked_as_a_tail_is_stopped_makes_nobody_unreachable(mysqld: Lab) -> None:
    """A journal in a file ends without the answers that could still have come."""
    with running(settings_of(mysqld, SOURCE_A)) as tail:
        tail.collect("c1")
        for name in ("c2", "c3", "c4"):
            tail.tail.ask(CollectRequest(name, steady_clock_us()))
    answers = [json.loads(line) for line in tail.records if '"kind":"log_status"' in line]
    assert "c1" == answers[0]["collection_id"]
    assert [] == [answer["error"] for answer in answers if "error" in answer]


@pytest.mark.parametrize("name", [SOURCE_A, REPLICA_1])
def test_no_secret_and_no_row_is_in_a_journal(
    mysqld: Lab, name: str, collected: Callable[[str], RunningTail]
) -> None:
    """Neither passwords nor what the clients wrote leave the process."""
    marker = "row image that nobody may see"
    with on(mysqld, SOURCE_A) as server:
        server.run("CREATE DATABASE IF NOT EXISTS secret")
        server.run("CREATE TABLE IF NOT EXISTS secret.t (a VARCHAR(100))")
        server.run("INSERT INTO secret.t VALUES (%s)", (marker,))
    mysqld.await_applied()
    text = "\n".join(collected(name).records)
    passwords = {value for value in asdict(mysqld.accounts).values() if isinstance(value, str)}
    settings = settings_of(mysqld, name)
    assert settings.password is not None
    passwords.add(settings.password.get_secret_value())
    for secret in (marker, *passwords):
        assert secret not in text


@pytest.fixture
def collected(mysqld: Lab) -> Callable[[str], RunningTail]:
    def collect(name: str) -> RunningTail:
        options = TailOptions(back_off_max_s=1.0)
        with running(settings_of(mysqld, name), options=options) as tail:
            tail.collect("c1")
        return tail

    return collect


def test_a_server_without_a_binary_log_is_followed_to_its_return(own_mysqld: Lab) -> None:
    """Off, off again and on: each boot is recorded, and every later row is judged."""
    boots = ("--skip-log-bin",), ("--skip-log-bin",), ()
    options = TailOptions(back_off_max_s=1.0)
    gtids = [f"{uuid4()}:{number}" for number in range(2, 5)]
    with running(settings_of(own_mysqld, SOURCE_B), options=options) as tail:
        tail.collect("before")
        for number, (arguments, gtid) in enumerate(zip(boots, gtids, strict=True), 2):
            own_mysqld.stop(SOURCE_B)
            own_mysqld.restart(SOURCE_B, *arguments)
            wait_for(lambda n=number: len(starts(tail)) == n, lambda: tail.notices)
            with on(own_mysqld, SOURCE_B) as server:
                execute_empty(server, [gtid])
            tail.collect(f"boot-{number}")
    # A receiver gives up at a source without a log, and what has no group there never comes.
    with on(own_mysqld, HUB) as hub:
        hub.run("STOP REPLICA")
        execute_empty(hub, gtids)
        hub.run("START REPLICA")
    own_mysqld.await_applied()
    assert [True, False, False, True] == [one["variables"]["log_bin"] for one in starts(tail)]
    result = audit_history(tail.sink.blocks)
    assert [Verdict.CONSISTENT] * 4 == [Verdict(cut.verdict) for cut in result.cuts]
    assert not result.findings
    rule = "purged_matches_oldest_file"
    judged = [check.outcome for cut in result.cuts for check in cut.checks if check.rule == rule]
    assert [Outcome.HOLDS] * 4 == judged
    for collection in ("boot-2", "boot-3"):
        untrue = audit_history(blocks_from_lines(without_purged(tail.records, collection)))
        assert (rule, collection) in {(f.rule, f.collection_id) for f in untrue.findings}


def execute_empty(server: Session, gtids: Iterable[str]) -> None:
    """Empty transactions of these GTIDs: without a binary log a server gives out none itself."""
    for gtid in gtids:
        server.run("SET GTID_NEXT = %s", (gtid,))
        server.run("BEGIN")
        server.run("COMMIT")
    server.run("SET GTID_NEXT = 'AUTOMATIC'")


def without_purged(records: Iterable[str], collection: str) -> Iterator[str]:
    """The records, with an answer that says that nothing is purged."""
    for line in records:
        record = json.loads(line)
        if record.get("collection_id") == collection:
            record["gtid_purged"] = ""
        yield json.dumps(record)


def starts(tail: RunningTail) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tail.records if '"kind":"start"' in line]


def test_a_channel_that_a_row_leaves_out_is_named_by_the_next_answer(mysqld: Lab) -> None:
    """The server lists all channels; that one was there is shown by the answer after the row."""
    options = TailOptions(back_off_max_s=1.0)
    with running(settings_of(mysqld, HUB), options=options) as tail:
        for collection in ("c1", "c2", "c3"):
            tail.collect(collection)
    rule = "configured_channels_listed"
    result = audit_history(tail.sink.blocks)
    judged = [check.outcome for cut in result.cuts for check in cut.checks if check.rule == rule]
    assert [Outcome.HOLDS] * 6 == judged
    untrue = audit_history(blocks_from_lines(without_channel(tail.records, "c2", "source_b")))
    [found] = untrue.findings
    assert (rule, "source_b", "c2", "c3") == (
        found.rule,
        found.channel,
        found.witness,
        found.collection_id,
    )


def without_channel(records: Iterable[str], collection: str, channel: str) -> Iterator[str]:
    """The records, with a row that does not list a channel."""
    for line in records:
        record = json.loads(line)
        if record.get("collection_id") == collection:
            replication = record["row"]["REPLICATION"]
            replication["channels"] = [
                one for one in replication["channels"] if one["channel_name"] != channel
            ]
        yield json.dumps(record)


def test_a_replica_that_is_pointed_elsewhere_and_not_started_is_answered(mysqld: Lab) -> None:
    """Until START REPLICA log_status names a relay log file that the command has removed."""
    mysqld.await_applied()
    source = mysqld.addresses()[SOURCE_A]
    with running(settings_of(mysqld, REPLICA_1)) as tail, on(mysqld, REPLICA_1) as server:
        tail.collect("before")
        server.run("STOP REPLICA")
        server.run("FLUSH NO_WRITE_TO_BINLOG RELAY LOGS")
        server.run(f"CHANGE REPLICATION SOURCE TO SOURCE_PORT = {source.port}")
        tail.collect("pointed")
        server.run("START REPLICA")
        load(mysqld, 1.0, seed=12)
        mysqld.await_applied()
        tail.collect("started")
    records = [json.loads(line) for line in tail.records]
    answers = [record for record in records if record["kind"] == "log_status"]
    assert ["row" in answer for answer in answers] == [True] * 3
    gone = "log_status names a file that is not there"
    assert gone in {record.get("reason") for record in records if record["kind"] == "gap"}
    assert audit_history(tail.sink.blocks).findings == []


def test_a_server_id_that_changes_is_recorded(mysqld: Lab) -> None:
    """SET GLOBAL server_id: the next row comes after a record of it."""
    options = TailOptions(back_off_max_s=1.0)
    with running(settings_of(mysqld, SOURCE_B), options=options) as tail:
        tail.collect("before")
        with on(mysqld, SOURCE_B) as server:
            known = int(str(server.value("SELECT @@GLOBAL.server_id")))
            server.run("SET GLOBAL server_id = 4711")
            try:
                tail.collect("changed")
            finally:
                server.run(f"SET GLOBAL server_id = {known}")
    changes = [json.loads(line) for line in tail.records if '"kind":"variables"' in line]
    assert [{"server_id": 4711}] == [one["variables"] for one in changes]


def test_a_relay_log_that_is_cut_while_the_server_is_down_is_no_reset(own_mysqld: Lab) -> None:
    """The last groups of a file are gone after a clean restart: named, whatever else is there."""
    directory = data_directory(own_mysqld, REPLICA_1)
    options = TailOptions(back_off_max_s=1.0)
    with running(settings_of(own_mysqld, REPLICA_1), options=options) as tail:
        with on(own_mysqld, SOURCE_A) as source, on(own_mysqld, REPLICA_1) as replica:
            source.run("CREATE DATABASE IF NOT EXISTS cut_relay")
            own_mysqld.await_applied()
            replica.run("STOP REPLICA SQL_THREAD")
            for number in range(4):
                source.run(f"CREATE TABLE cut_relay.t{number} (a INT PRIMARY KEY)")
            executed = source.gtid_executed()
            wait_for(lambda: retrieved(replica) >= GtidSet.parse(executed), lambda: executed)
            replica.run("STOP REPLICA")
            tail.collect("before")
        own_mysqld.stop(REPLICA_1)
        last = [one for one in events_of_files(directory, "relay") if one.type == EventType.GTID]
        os.truncate(directory / last[-2].file, last[-2].start)
        # relay_log_recovery would give the file up.
        own_mysqld.restart(REPLICA_1, "--skip-replica-start", "--relay-log-recovery=OFF")
        tail.collect("after")
    assert not [line for line in tail.records if '"action":"reset"' in line]
    found = audit_history(tail.sink.blocks).findings
    assert ["retrieved_matches_relay"] == [finding.rule for finding in found]
    assert 2 == GtidSet.parse(found[0].witness).count()


def retrieved(replica: Session) -> GtidSet:
    (row,) = replica.rows("SHOW REPLICA STATUS")
    return GtidSet.parse(str(row["Retrieved_Gtid_Set"]))
