"""When events of relay logs are recorded: never at an earlier time than they were received."""

from __future__ import annotations

import json
import struct
import time
from collections import deque
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, final

import pytest

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import RecordType, concatenate
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.values.binlog import EventType, LogCoordinates
from tallystick.producers.mysql import relay_files, relay_logs
from tallystick.producers.mysql.binlog_events import EventError
from tallystick.producers.mysql.collection_scheduler import CollectionScheduler
from tallystick.producers.mysql.event_runs import count_of
from tallystick.producers.mysql.log_directory import LocalDirectory, LocalFile
from tallystick.producers.mysql.relay_files import RelayCursor, RelayFiles
from tallystick.producers.mysql.relay_logs import GRACE_US, RelayLogs
from tallystick.producers.mysql.server_history import ServerHistory
from tallystick.producers.mysql.server_watch import Collected
from tallystick.producers.mysql.tail_journal import TailJournal
from tallystick.producers.mysql.tail_options import TailOptions
from tallystick.producers.mysql.tail_state import TailState
from tallystick.producers.publisher import MemorySink
from tests.producers.mysql.test_binlog_events import event
from tests.producers.mysql.test_tail_parts import HEAD, Asked, opened_at, rotate, types

if TYPE_CHECKING:
    from tallystick.producers.mysql.server_watch import ServerWatch


def test_a_reset_of_one_channel_tells_nothing_of_another(tmp_path: Path) -> None:
    """What the other has received meanwhile waits: its source may have logged it later."""
    journal = TailJournal(
        "hub", MemorySink(), TailState(epoch=1), state_file=None, clock=time.monotonic
    )
    recorded: list[tuple[RecordType, object]] = []
    journal.server_record = lambda kind, body: recorded.append((kind, body.get("channel")))
    relays = RelayLogs(LocalDirectory(tmp_path), journal, lambda _: None, clock_us=lambda: 900)
    # An event that was lost is reported as a gap.
    for channel in ("one", "two"):
        relays._waiting[channel] = deque([(500, None)])
    relays.administer([{"channel": "one", "action": "reset"}])
    assert [(RecordType.GAP, "one"), (RecordType.CHANNEL, "one")] == recorded
    relays.record(499)
    assert 2 == len(recorded)
    relays.record(500)
    assert [(RecordType.GAP, "two")] == recorded[2:]


GROUP = (
    (EventType.GTID, struct.pack("<B16sqBqq", 1, bytes(16), 5, 2, 4, 5) + bytes(7) + b"\x10"),
    (EventType.TABLE_MAP, bytes(9)),
    (EventType.WRITE_ROWS, bytes(30)),
    (EventType.XID, bytes(8)),
)


@pytest.mark.parametrize("is_regular", [True, False])
@pytest.mark.parametrize(("within", "recorded"), [(0, 0), (1, 4), (2, 4), (4, 4), (5, 8), (8, 8)])
def test_a_place_is_told_with_the_rest_of_its_group(
    tmp_path: Path, within: int, recorded: int, is_regular: bool
) -> None:
    """Whether events were read in one step or one by one; what comes after waits for its time."""
    body = GROUP[0][1] if is_regular else GROUP[0][1][:-1]
    previous = event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0))
    events = [event(kind, body if kind == EventType.GTID else more) for kind, more in 3 * GROUP]
    (tmp_path / "relay.000001").write_bytes(HEAD + previous + b"".join(events))
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, lambda _: None, clock_us=lambda: 900)
    relays.open({"": "relay.000001"}, {})
    begin = len(HEAD + previous)
    position = begin + sum(map(len, events[:within]))
    relays.record(500, "", (1, position))
    assert recorded + 2 == journal.records
    assert ("relay", 1, begin + sum(map(len, events[:recorded]))) == journal.state.relays[""][:3]
    relays.record(900)
    journal.save()
    whole = concatenate(sink.blocks).take(1, 2 + 1 + len(events))  # first comes who observes
    assert [15, 35, *(kind for kind, _ in 3 * GROUP)] == whole.columns["type"].tolist()
    assert [4, len(HEAD), *(begin + sum(map(len, events[:n])) for n in range(12))] == (
        whole.columns["start"].tolist()
    )
    assert {1: ""} == whole.texts
    relays.forget()


def test_files_of_a_boot_wait_for_its_start_though_one_before_them_is_gone(tmp_path: Path) -> None:
    """A tail that lags records two starts after the second: a file of the second is read early."""
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, lambda _: None, clock_us=lambda: 900)
    (tmp_path / "relay.000001").write_bytes(opened_at(10))
    relays.open({"": "relay.000001"}, {})
    (tmp_path / "relay.000003").write_bytes(opened_at(30))
    for started_s in (20, 30, 40):
        if started_s == 40:
            (tmp_path / "relay.000004").write_bytes(opened_at(40))
        relays.leave_boot(started_s)
        journal.server_record(RecordType.START, {"server_uuid": f"{started_s}"})
        relays.started(started_s)
        relays.read()
    relays.record(900)
    journal.save()
    whole = concatenate(sink.blocks)
    files = [whole.files[n] if n >= 0 else "" for n in whole.columns["file"].tolist()]
    starts = [n for n, name in enumerate(files) if whole.columns["type"][n] == RecordType.START]
    assert starts[0] > files.index("relay.000001")
    assert starts[1] < files.index("relay.000003") < starts[2] < files.index("relay.000004")
    relays.forget()


@final
class Flaky:
    """A directory that can be away, as one whose relay log reader is."""

    session = 1

    def __init__(self, path: Path) -> None:
        self._local = LocalDirectory(path)
        self.is_away = False

    def numbers(self, base_name: str) -> list[int]:
        self._expect()
        return self._local.numbers(base_name)

    def open(self, base_name: str, number: int) -> LocalFile:
        self._expect()
        return self._local.open(base_name, number)

    def close(self) -> None:
        self._local.close()

    def _expect(self) -> None:
        if self.is_away:
            raise OSError("reader db2: away")


@final
class Followed:
    """A replica of one channel whose relay log is in a directory that can be away."""

    def __init__(self, path: Path, state: TailState | None = None) -> None:
        self.path = path
        self.directory = Flaky(path)
        self.now = 0
        self.notices: list[str] = []
        self.sink = MemorySink()
        self.journal = TailJournal(
            "a", self.sink, state or TailState(epoch=1), state_file=None, clock=time.monotonic
        )
        self.relays = RelayLogs(
            self.directory, self.journal, self.notices.append, clock_us=lambda: self.now
        )

    def write(self, number: int, *events: bytes) -> None:
        (self.path / f"relay.{number:06}").write_bytes(HEAD + b"".join(events))

    def row(self, number: int, position: int) -> bool:
        """Have a row that names these coordinates."""
        self.now += 1
        self.journal.advance(self.now)
        return self.relays.read_row(row_of(number, position))

    def records(self) -> list[str]:
        """What has been recorded: gaps with reasons, events by file and type, where they go on."""
        self.journal.save()
        found = []
        for line in block_to_lines(concatenate(self.sink.blocks)):
            record = json.loads(line)
            if record["kind"] == "gap":
                found.append(f"gap: {record.get('reason')}")
            elif record["kind"] == "relay":
                found.append(f"{record['file'][-1]} {record['type']}")
            elif record["kind"] == "log_status":
                found.append("row" if "row" in record else "error")
            elif record.get("action") == "flush_relay_logs":
                at = record["source_log_file"], record["source_log_pos"]
                found.append(f"goes on at {at[0]}:{at[1]}")
        return found


XID = event(EventType.XID, bytes(8))
FD = "FORMAT_DESCRIPTION"
AWAY = "gap: reader db2: away"


def test_a_reader_that_is_away_for_a_moment_costs_nothing(tmp_path: Path) -> None:
    """What is read afterwards goes on where it was; a row waits for that."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert replica.row(1, len(HEAD))
    replica.write(1, XID)
    replica.directory.is_away = True
    replica.relays.read()
    assert replica.relays.is_waiting
    replica.now += GRACE_US - 1
    replica.relays.read()
    assert replica.relays.is_waiting
    replica.directory.is_away = False
    replica.relays.read()
    assert not replica.relays.is_waiting
    assert replica.row(1, len(HEAD + XID))
    assert [f"1 {FD}", "1 XID"] == replica.records()
    assert ["relay log of channel '' cannot be read: reader db2: away",
            "relay log of channel '' is read again"] == replica.notices  # fmt: skip
    replica.relays.close()


def test_encrypted_relay_logs_are_one_problem_whatever_their_files_are_called(
    tmp_path: Path,
) -> None:
    """With binlog_encryption=ON; switched off again, the next file is read."""
    replica = Followed(tmp_path)
    replica.write(1, XID)
    assert replica.row(1, len(HEAD + XID))
    for number in (2, 3):
        (tmp_path / f"relay.{number:06}").write_bytes(b"\xfdbin" + bytes(700))
        replica.now += GRACE_US
        assert replica.row(number, 197)
    replica.write(4, XID)
    assert replica.row(4, len(HEAD + XID))
    why = "its files are encrypted (binlog_encryption): the server alone reads them"
    assert [f"1 {FD}", "1 XID", *2 * [f"gap: {why}"]] == replica.records()[:4]
    assert [f"4 {FD}", "4 XID"] == replica.records()[-2:]
    assert ["cannot be read: " + why, "is read again"] == [
        notice.removeprefix("relay log of channel '' ") for notice in replica.notices
    ]
    replica.relays.close()


@pytest.mark.parametrize(
    ("status", "first"),
    [
        ({"Channel_Name": "", "Relay_Log_File": "relay.000002"}, 2),
        # Of a server without channels.
        ({"Relay_Log_File": "relay.000002"}, 2),
        ({"Channel_Name": "", "Relay_Log_File": "relay.000003"}, 3),
        # The status is of a moment after the row's.
        ({"Channel_Name": "", "Relay_Log_File": "relay.000004"}, 3),
        ({"Channel_Name": "other", "Relay_Log_File": "relay.000001"}, 3),
        ({"Channel_Name": "", "Relay_Log_File": ""}, 3),
        ({"Channel_Name": "", "Relay_Log_File": None}, 3),
    ],
)
def test_a_relay_log_is_read_from_the_file_that_its_applier_is_in(
    tmp_path: Path, status: dict[str, Any], first: int
) -> None:
    """What is received and not yet applied is in it and in those after it."""
    replica = Followed(tmp_path)
    for number in (1, 2, 3):
        replica.write(number, XID)
    replica.journal.advance(1)
    row = row_of(3, len(HEAD + XID)) | {"replica_status": [status]}
    assert replica.relays.read_row(row)
    read = [f"{number} {kind}" for number in range(first, 4) for kind in (FD, "XID")]
    assert read == replica.records()
    replica.relays.close()


def test_a_reader_that_stays_away_is_a_gap_before_each_row(tmp_path: Path) -> None:
    """With its name; then reading begins with the head of the file that a row names."""
    replica = Followed(tmp_path)
    replica.write(1, XID)
    assert replica.row(1, len(HEAD + XID))
    replica.directory.is_away = True
    replica.relays.read()
    replica.now += GRACE_US
    replica.relays.read()
    assert (False, False) == (replica.relays.is_waiting, replica.relays.reads_files)
    assert [""] == replica.relays.channels
    before = [f"1 {FD}", "1 XID", AWAY]
    assert before == replica.records()
    assert replica.row(1, len(HEAD + XID))
    assert replica.row(1, len(HEAD + XID))
    assert [*before, AWAY, AWAY] == replica.records()
    assert 1 == len(replica.notices)
    replica.write(2, XID, XID)
    replica.directory.is_away = False
    replica.relays.read()
    assert replica.row(2, len(HEAD + XID))
    assert replica.relays.reads_files
    replica.now += 1
    replica.relays.record(replica.now)
    read = [AWAY, f"2 {FD}", "2 XID", "2 XID"]
    assert [*before, AWAY, AWAY, *read] == replica.records()
    replica.relays.close()


def row_of(number: int, position: int) -> dict[str, Any]:
    """An answer of a replica without a binary log."""
    channel = {
        "channel_name": "",
        "relay_log_file": f"relay.{number:06}",
        "relay_log_position": position,
    }
    return {"collection_id": "c1", "row": {"REPLICATION": {"channels": [channel]}}}


BOOT_S = 1_700_000_100.0
OF_THE_BOOT = opened_at(int(BOOT_S)), 7
BEFORE_IT = "relay.000002 is the newest file there, and was opened before the server started"
ANOTHERS = "relay.000002 is of a server with server_id 7, not 8"


@pytest.mark.parametrize(
    ("head", "server_id", "why"),
    [
        (opened_at(int(BOOT_S) - 3), 7, BEFORE_IT),
        (*OF_THE_BOOT, None),
        (opened_at(int(BOOT_S)), None, None),
        (opened_at(int(BOOT_S) - 2), 7, None),
        (opened_at(int(BOOT_S)), 8, ANOTHERS),
    ],
)
@pytest.mark.parametrize("is_opened", [True, False])
def test_files_that_the_server_does_not_write_are_not_read(
    tmp_path: Path, head: bytes, server_id: int | None, why: str | None, *, is_opened: bool
) -> None:
    """Those of another server, and those where its relay log has been; old ones lie among each."""
    replica = Followed(tmp_path, TailState(epoch=1, boot_s=BOOT_S, server_id=server_id))
    replica.write(1, rotate("relay.000002"))
    (tmp_path / "relay.000002").write_bytes(head + XID)
    if is_opened:
        replica.relays.open({"": "relay.000001"}, {})
    for _ in range(2):
        assert replica.row(2, len(HEAD + XID))
    read = [f"1 {FD}", "1 ROTATE"] * is_opened + [f"2 {FD}", "2 XID"]
    gaps = [f"gap: {why}"] * (2 + is_opened)
    assert (read if why is None else gaps) == replica.records()
    said = [] if why is None else [f"relay log of channel '' is not read: {why}"]
    assert said == replica.notices
    assert replica.relays.reads_files is (why is None)
    replica.journal.state.server_id = 7
    (tmp_path / "relay.000003").write_bytes(OF_THE_BOOT[0] + XID)
    assert replica.row(3, len(HEAD + XID))
    assert [f"3 {FD}", "3 XID"] == replica.records()[-2:]
    replica.relays.close()


def test_a_relay_log_that_goes_on_elsewhere_is_read_no_more_where_it_was(tmp_path: Path) -> None:
    """A start with another relay_log; one that opened a file here is read on."""
    replica = Followed(tmp_path, TailState(epoch=1, boot_s=BOOT_S - 100, server_id=7))
    (tmp_path / "relay.000001").write_bytes(opened_at(int(BOOT_S) - 100) + XID)
    assert replica.row(1, len(HEAD + XID))
    (tmp_path / "relay.000002").write_bytes(OF_THE_BOOT[0] + XID)
    replica.journal.state.boot_s = BOOT_S
    replica.relays.started(int(BOOT_S))
    assert replica.row(2, len(HEAD + XID))
    replica.journal.state.boot_s = BOOT_S + 100
    replica.relays.started(int(BOOT_S) + 100)
    assert replica.row(1, len(HEAD))
    read = [f"1 {FD}", "1 XID", f"2 {FD}", "2 XID"]
    assert [*read, f"gap: {BEFORE_IT}"] == replica.records()
    replica.relays.close()


def test_the_file_of_a_reset_may_be_older_than_the_start(tmp_path: Path) -> None:
    """As long as the channel is not started."""
    replica = Followed(tmp_path, TailState(epoch=1, boot_s=BOOT_S, server_id=7))
    (tmp_path / "relay.000001").write_bytes(opened_at(int(BOOT_S) - 100))
    replica.relays.open({"": "relay.000001"}, {})
    assert ([], True) == (replica.notices, replica.relays.reads_files)
    replica.relays.close()


def test_a_channel_that_a_row_is_the_first_to_name_is_not_read_elsewhere(tmp_path: Path) -> None:
    replica = Followed(tmp_path, TailState(epoch=1, boot_s=BOOT_S, server_id=7))
    replica.write(2, XID)
    body = row_of(2, len(HEAD + XID))
    replica.relays.meet(body, replica.relays.unmet(body))
    replica.relays.open_anew()
    assert ([], set(), [""]) == (
        replica.relays.opened_anew, replica.relays.anew, replica.relays.channels
    )  # fmt: skip
    assert [f"gap: {BEFORE_IT}"] == replica.records()
    replica.relays.close()


def test_a_relay_log_that_is_removed_keeps_no_other_from_being_read(tmp_path: Path) -> None:
    replica = Followed(tmp_path)
    (tmp_path / "other.000001").write_bytes(HEAD + XID)
    body = row_of(2, 6_039)
    other = {"relay_log_file": "other.000001", "relay_log_position": len(HEAD + XID)}
    body["row"]["REPLICATION"]["channels"].append({"channel_name": "other", **other})
    replica.now = 1
    replica.journal.advance(1)
    assert replica.relays.read_row(body)
    gone = "gap: log_status names a file that is not there"
    assert [gone, f"1 {FD}", "1 XID"] == replica.records()
    replica.relays.close()


@pytest.mark.parametrize("left", [(), (1,)])
def test_rows_that_name_a_relay_log_which_group_replication_has_removed_are_answered(
    tmp_path: Path, left: tuple[int, ...]
) -> None:
    """While it joins; no answer describes its channels, and nothing else of the server waits."""
    replica = Followed(tmp_path)
    body = row_of(3, 158)
    [channel] = body["row"]["REPLICATION"]["channels"]
    channel["channel_name"] = "group_replication_recovery"
    for number in left:
        replica.write(number)
    for _ in range(2):
        assert replica.relays.read_row(body)
        assert set() == replica.relays.anew
    for number in (1, 2):
        replica.write(number, XID)
    channel |= {"relay_log_file": "relay.000002", "relay_log_position": len(HEAD + XID)}
    assert replica.relays.read_row(body)
    gone = "gap: log_status names a file that is not there"
    assert [gone, gone] == replica.records()[:2]
    assert [f"2 {FD}", "2 XID"] == replica.records()[-2:]
    replica.relays.close()


def test_a_row_beyond_what_can_be_read_of_a_file_that_is_there_is_not_recorded(
    tmp_path: Path,
) -> None:
    """Whether it is at hand, or its head is not written yet."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert not replica.row(1, len(HEAD + XID))
    (tmp_path / "relay.000002").write_bytes(HEAD[:4])
    assert not replica.row(2, len(HEAD))
    replica.write(2)
    assert replica.row(2, len(HEAD))
    assert [f"1 {FD}", f"2 {FD}"] == replica.records()
    replica.relays.close()


def test_rows_that_name_a_relay_log_which_a_command_has_removed_are_answered(
    tmp_path: Path,
) -> None:
    """The server names the old file after CHANGE REPLICATION SOURCE, until START REPLICA."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert replica.row(1, len(HEAD))
    for _ in range(2):
        assert replica.row(2, 6_039)
    replica.write(1, rotate("relay.000002"))
    replica.write(2, XID)
    assert replica.row(2, len(HEAD + XID))
    gone = "gap: log_status names a file that is not there"
    assert [f"1 {FD}", *4 * [gone], f"2 {FD}", "2 XID"] == replica.records()
    assert replica.relays.reads_files
    replica.relays.close()


@pytest.mark.parametrize("is_back", [True, False])
def test_a_row_waits_for_a_reader_that_is_away(tmp_path: Path, *, is_back: bool) -> None:
    """It is taken again when the reader is back, and judged without relay logs when it is not."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert replica.row(1, len(HEAD))
    history = ServerHistory(
        "a",
        replica.journal,
        replica.relays,
        notice=print,
        clock_us=lambda: replica.now,
        from_oldest=False,
    )
    scheduler = CollectionScheduler(replica.journal, history, TailOptions(hold_s=-1), None)
    request, watch = CollectRequest("c1", 0), Asked()
    replica.write(1, XID)

    def answer() -> None:
        scheduler.hand_on(cast("ServerWatch", watch))
        collected = Collected(request, row_of(1, len(HEAD + XID)), replica.now)
        scheduler.collected(collected)
        scheduler.settle()

    scheduler.ask(request)
    replica.directory.is_away = True
    answer()
    assert (0, True) == (scheduler.answers, scheduler.holds_events)
    scheduler.settle()
    assert 0 == scheduler.answers
    if is_back:
        replica.directory.is_away = False
    else:
        replica.now += GRACE_US
    scheduler.settle()
    assert [request] * 1 == watch.asked
    if is_back:
        assert 0 == scheduler.answers
        answer()
    assert (1, 1 + is_back) == (scheduler.answers, len(watch.asked))
    read = [f"1 {FD}", "1 XID"] if is_back else [f"1 {FD}", AWAY, AWAY]
    assert [*read, "row"] == replica.records()
    replica.relays.close()


def test_a_start_does_not_wait_for_a_reader(tmp_path: Path) -> None:
    """What the boot before received would be read after the start, so it is left."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert replica.row(1, len(HEAD))
    replica.write(1, XID)
    replica.directory.is_away = True
    replica.relays.leave_boot(5)
    assert [f"1 {FD}", AWAY] == replica.records()
    replica.directory.is_away = False
    replica.relays.started(5)
    replica.relays.read()
    replica.relays.record(replica.now + 1)
    assert [f"1 {FD}", AWAY] == replica.records()
    replica.relays.close()


def test_a_channel_that_began_anew_unread_is_left(tmp_path: Path) -> None:
    """A count of statements shows it; nothing of what was read before is recorded after that."""
    replica = Followed(tmp_path)
    replica.write(1, XID)
    assert replica.row(1, len(HEAD + XID))
    replica.write(1, XID, XID)
    replica.now += 1
    replica.relays.read()
    replica.directory.is_away = True
    replica.relays.read()
    replica.relays.give_up()
    replica.relays.record(replica.now)
    assert [f"1 {FD}", "1 XID", AWAY] == replica.records()
    assert set() == replica.relays.anew
    replica.relays.administer([{"channel": "", "action": "change_source"}])
    assert ([""], False) == (replica.relays.channels, replica.relays.reads_files)
    replica.relays.administer([{"channel": "", "action": "reset_all"}])
    assert ([], True) == (replica.relays.channels, replica.relays.reads_files)
    replica.relays.close()


def test_what_could_not_be_read_is_known_to_the_next_tail(tmp_path: Path) -> None:
    """From its saved state, and from the journal after it."""
    first = Followed(tmp_path)
    first.write(1)
    assert first.row(1, len(HEAD))
    read = deepcopy(first.journal.state)
    first.directory.is_away = True
    assert first.row(1, len(HEAD) + 1)
    first.journal.save()
    for block in first.sink.blocks:
        read.note(block)
    assert ({}, {"": "reader db2: away"}) == (read.relays, read.unread_relays)
    for state in (first.journal.state, read):
        second = Followed(tmp_path, deepcopy(state))
        second.now += 9  # later than any time up to which the journal is known
        assert second.relays.read_row(row_of(1, len(HEAD)))
        assert [AWAY, f"1 {FD}"] == second.records()
        assert {} == second.journal.state.unread_relays
        for block in second.sink.blocks:
            state.note(block)
        assert {} == state.unread_relays
        second.relays.close()
    first.relays.close()


def test_much_is_recorded_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one call brings is held in memory: a row calls until its position is reached."""
    monkeypatch.setattr(relay_files, "_TURN_BYTES", 1)
    monkeypatch.setattr(relay_files, "CHUNK_BYTES", len(XID))
    replica = Followed(tmp_path)
    replica.write(1, XID, XID, XID, rotate("relay.000002"))
    replica.write(2, XID, XID)
    files = RelayFiles(replica.directory, "relay", RelayCursor(1, 4))
    assert [1, 1] == [count_of(*files.read()), count_of(*files.read())]
    files.close()
    replica.relays.open({"": "relay.000001"}, {})
    assert replica.row(2, len(HEAD + XID))
    recorded = replica.records()
    assert [f"1 {FD}", *3 * ["1 XID"], "1 ROTATE", f"2 {FD}", "2 XID", "2 XID"] == recorded
    replica.relays.close()


def test_what_was_read_before_an_error_is_not_lost(tmp_path: Path) -> None:
    """A reader may go while a file is read: reading has come so far."""
    (tmp_path / "relay.000001").write_bytes(HEAD + XID + event(EventType.XID, b"")[:9] + 10 * b"\0")
    files = RelayFiles(LocalDirectory(tmp_path), "relay", RelayCursor(1, 4))
    assert [15] == types(files)
    assert len(HEAD) == files.cursor.position
    with pytest.raises(EventError, match="expected an event"):
        files.read()
    files.close()


def test_before_a_start_is_recorded_a_row_may_name_a_file_behind_one_that_is_gone(
    tmp_path: Path,
) -> None:
    """Whatever opened that one, it is read, and what is lost is reported."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert replica.row(1, len(HEAD))
    (tmp_path / "relay.000001").unlink()
    replica.write(3, XID)
    assert replica.row(3, len(HEAD + XID))
    assert [f"1 {FD}", "gap: None", f"3 {FD}", "3 XID"] == replica.records()
    replica.relays.close()


def test_a_gap_is_where_the_file_was_that_is_gone(tmp_path: Path) -> None:
    """Behind what was still to be read of the file before it, in the same turn."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert replica.row(1, len(HEAD))
    replica.write(1, XID, rotate("relay.000002"))
    replica.write(3, XID)
    assert replica.row(3, len(HEAD + XID))
    expected = [f"1 {FD}", "1 XID", "1 ROTATE", "gap: None", f"3 {FD}", "3 XID"]
    assert expected == replica.records()
    assert ["a relay log file of channel '' was gone before it was read"] == replica.notices
    replica.relays.close()


@pytest.mark.parametrize("numbers", [(1,), (1, 2), (1, 2, 3), (2, 3)])
def test_a_file_that_is_gone_when_reading_goes_on_was_of_another_relay_log(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """Where those that are there have lower numbers; it may have had more events."""
    for number in numbers:
        (tmp_path / f"relay.{number:06}").write_bytes(HEAD + XID)
    files = RelayFiles(LocalDirectory(tmp_path), "relay", RelayCursor(3, len(HEAD)))
    is_there = 3 in numbers
    assert [EventType.XID] * is_there == types(files)
    assert (not is_there, not is_there) == (files.is_anew, files.lost)
    files.close()


@pytest.mark.parametrize("action", ["reset", "reset_all"])
def test_a_channel_that_began_anew_is_read_from_its_first_file(tmp_path: Path, action: str) -> None:
    """Unless it is gone: its files are those of another one then, and are let go."""
    replica = Followed(tmp_path)
    replica.write(1, XID, rotate("relay.000002"))
    replica.write(2)
    opened = set(Path("/proc/self/fd").iterdir())
    assert replica.row(2, len(HEAD))
    replica.relays.give_up()
    replica.relays.open_anew()
    replica.relays.renew("", {"channel": "", "action": action})
    assert [""] * (action == "reset") == replica.relays.channels
    replica.relays.read()
    replica.relays.record(replica.now)
    read = [f"1 {FD}", "1 XID", "1 ROTATE", f"2 {FD}"] if action == "reset" else []
    assert [f"2 {FD}", *read] == replica.records()
    replica.relays.forget()
    assert opened == set(Path("/proc/self/fd").iterdir())


def test_what_was_lost_of_a_relay_log_before_it_began_anew_comes_after_what_was_read(
    tmp_path: Path,
) -> None:
    """The last file ended with the server, which has opened another one since; RESET REPLICA."""
    replica = Followed(tmp_path)
    replica.write(1)
    assert replica.row(1, len(HEAD))
    replica.write(1, XID, event(EventType.STOP, b""))
    (tmp_path / "relay.000001").rename(tmp_path / "removed")
    replica.write(1)
    (tmp_path / "removed").unlink()
    replica.relays.read()
    assert {""} == replica.relays.anew
    replica.relays.open_anew()
    replica.relays.renew("", {"channel": "", "action": "reset"})
    assert [f"1 {FD}", "1 XID", "1 STOP", "gap: None"] == replica.records()
    replica.relays.close()


@pytest.mark.parametrize(("waiting", "is_read"), [(1, True), (2, True), (3, False)])
def test_while_much_waits_to_be_recorded_no_more_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: int, *, is_read: bool
) -> None:
    """Only events fill the memory, and not that some were lost."""
    monkeypatch.setattr(relay_logs, "WAITING_MAX", 2)
    replica = Followed(tmp_path)
    replica.write(1, *[XID] * (waiting - 1))
    replica.relays.open({"": "relay.000001"}, {})
    replica.relays._waiting[""].extend([(0, None)] * 3)
    replica.write(1, *[XID] * waiting)
    replica.relays.read()
    replica.relays.record(replica.now)
    assert waiting - 1 + is_read == replica.records().count("1 XID")
    replica.relays.close()


def test_a_row_waits_for_no_relay_log_where_none_is_read(tmp_path: Path) -> None:
    """Its coordinates are recorded as they are."""
    replica = Followed(tmp_path)
    replica.relays = RelayLogs(None, replica.journal, replica.notices.append, lambda: replica.now)
    replica.write(1, XID)
    assert replica.row(1, len(HEAD + XID))
    replica.journal.save()
    assert [] == replica.sink.blocks


@pytest.mark.parametrize("is_read_before", [True, False])
def test_behind_a_row_no_file_is_passed_over(tmp_path: Path, *, is_read_before: bool) -> None:
    """A start that is not recorded yet may hide there."""
    replica = Followed(tmp_path)
    replica.write(1, rotate("relay.000002"))
    replica.write(3, XID)
    if is_read_before:
        replica.relays.open({"": "relay.000001"}, {})
        replica.relays.record(replica.now)
    assert replica.row(1, len(HEAD))
    assert [] == replica.notices
    replica.relays.record(replica.now + 1)
    assert [f"1 {FD}", "1 ROTATE"] == replica.records()
    replica.relays.close()


@pytest.mark.parametrize("written", [0, 4, len(HEAD) - 1])
def test_a_file_is_read_as_soon_as_its_head_is_whole(tmp_path: Path, written: int) -> None:
    """The server may be writing it; the file that was opened is the one that is read."""
    path = tmp_path / "relay.000001"
    path.write_bytes(HEAD[:written])
    opened = set(Path("/proc/self/fd").iterdir())
    files = RelayFiles(LocalDirectory(tmp_path), "relay", RelayCursor(1, 4))
    for _ in range(2):
        assert [] == types(files)
    path.write_bytes(HEAD)
    assert [EventType.FORMAT_DESCRIPTION] == types(files)
    files.close()
    assert opened == set(Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("what", ["encrypted", "another"])
def test_a_file_that_cannot_be_gone_on_with_is_let_go(tmp_path: Path, what: str) -> None:
    """It is opened again and again while it is there."""
    path = tmp_path / "relay.000001"
    path.write_bytes(HEAD)
    directory = Flaky(tmp_path)
    opened = set(Path("/proc/self/fd").iterdir())
    files = RelayFiles(directory, "relay", RelayCursor(1, 4))
    assert [EventType.FORMAT_DESCRIPTION] == types(files)
    directory.session += 1
    path.write_bytes(b"\xfdbin" + bytes(700) if what == "encrypted" else opened_at(10))
    if what == "encrypted":
        with pytest.raises(EventError, match="encrypted"):
            files.read()
    else:
        assert [] == types(files)
    assert files.is_anew is (what == "another")
    files.close()
    assert opened == set(Path("/proc/self/fd").iterdir())


GOES_ON = f"goes on at binlog.000007:{500 - len(XID)}"
READ = LogCoordinates("binlog", 7, 500)


def test_the_sources_file_is_named_before_the_first_events(tmp_path: Path) -> None:
    """Once; what is read later goes on with it."""
    replica = Followed(tmp_path)
    replica.write(3, XID)
    replica.relays.open({"": "relay.000003"}, {"": READ})
    replica.relays.record(0)
    assert [GOES_ON, f"3 {FD}", "3 XID"] == replica.records()
    replica.write(3, XID, XID)
    replica.relays.read()
    replica.relays.record(0)
    assert ["3 XID"] == replica.records()[3:]
    replica.relays.close()


@pytest.mark.parametrize("running", ["Yes", "Connecting", "No"])
def test_a_channel_that_is_read_again_has_its_file_named_by_the_row(
    tmp_path: Path, running: str
) -> None:
    """After the gap, which made the source's file unknown; of a receiver that runs."""
    replica = Followed(tmp_path)
    replica.write(3, XID)
    replica.relays.open({"": "relay.000003"}, {})
    replica.relays.record(0)
    replica.directory.is_away = True
    replica.relays.read()
    replica.now += GRACE_US
    replica.relays.read()
    replica.directory.is_away = False
    body = row_of(3, len(HEAD + XID))
    status = {"Source_Log_File": "binlog.000007", "Read_Source_Log_Pos": 500}
    body["replica_status"] = [status | {"Channel_Name": "", "Replica_IO_Running": running}]
    assert replica.relays.read_row(body)
    named = [GOES_ON] if running == "Yes" else []
    assert [f"3 {FD}", "3 XID", AWAY, AWAY, *named, f"3 {FD}", "3 XID"] == replica.records()
    replica.relays.close()


def test_all_that_was_read_counts_where_the_channel_begins_anew_before_it_is_recorded(
    tmp_path: Path,
) -> None:
    """The head alone proves nothing: a ROTATE of the source comes after it."""
    replica = Followed(tmp_path)
    replica.write(3, rotate("binlog.000008"), XID)
    replica.relays.open({"": "relay.000003"}, {"": READ})
    replica.relays.administer([{"channel": "", "action": "reset"}])
    assert [f"3 {FD}", "3 ROTATE", "3 XID"] == replica.records()
    replica.relays.close()


def test_what_was_read_of_a_channel_is_forgotten_with_it(tmp_path: Path) -> None:
    """The channel of that name may be another one when it is read again."""
    replica = Followed(tmp_path)
    replica.relays.open({"": "relay.000003"}, {"": READ})
    replica.relays.administer([{"channel": "", "action": "reset_all"}])
    replica.write(1, XID)
    replica.relays.open({"": "relay.000001"}, {})
    replica.relays.record(0)
    assert [f"1 {FD}", "1 XID"] == replica.records()
    replica.relays.close()
