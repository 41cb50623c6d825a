"""Parts of a tail that need no server: where it resumes, saved positions, channels, relay logs."""

from __future__ import annotations

import json
import struct
import time
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from tallystick.coordinates.events.collect_request import CollectRequest
from tallystick.coordinates.events.journal import BlockBuilder, RecordType, Stream, concatenate
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.values.binlog import EventType
from tallystick.producers.mysql.binlog_dump import (
    COM_BINLOG_DUMP,
    COM_BINLOG_DUMP_GTID,
    BinlogDump,
    StreamedEvent,
    dump_command,
)
from tallystick.producers.mysql.binlog_events import FormatDescription, LogEvent
from tallystick.producers.mysql.channel_watch import ChannelWatch, went_on
from tallystick.producers.mysql.clone_shown import CloneShown
from tallystick.producers.mysql.collection_scheduler import CollectionScheduler
from tallystick.producers.mysql.event_runs import EventRun
from tallystick.producers.mysql.log_directory import LocalDirectory
from tallystick.producers.mysql.log_start import FileOrder, Happened, OlderCopy, find_start
from tallystick.producers.mysql.relay_files import RelayCursor, RelayFiles
from tallystick.producers.mysql.relay_logs import RelayLogs
from tallystick.producers.mysql.server_history import BeganAnewError, ServerHistory
from tallystick.producers.mysql.server_now import ServerNow
from tallystick.producers.mysql.server_watch import ChannelsRead, Collected, LogEnd, ServerWatch
from tallystick.producers.mysql.tail_journal import TailJournal
from tallystick.producers.mysql.tail_options import CLOCK, TailOptions, steady_clock_us
from tallystick.producers.mysql.tail_state import TailState, TailStateError
from tallystick.producers.publisher import MemorySink
from tallystick.servers.tailing import resumed

FILES = {"binlog.000003": 500, "binlog.000004": 700}


@pytest.mark.parametrize(
    ("file", "position", "ended_by", "expected"),
    [
        ("binlog.000004", 600, 0, ("binlog.000004", 600, Happened.NOTHING)),
        ("binlog.000004", 700, 0, ("binlog.000004", 700, Happened.NOTHING)),
        ("binlog.000003", 400, 0, ("binlog.000003", 400, Happened.NOTHING)),
        ("binlog.000003", 400, EventType.STOP, ("binlog.000004", 4, Happened.CLOSED)),
        ("binlog.000003", 477, EventType.STOP, ("binlog.000004", 4, Happened.NOTHING)),
        ("binlog.000003", 500, EventType.ROTATE, ("binlog.000003", 500, Happened.NOTHING)),
        ("binlog.000003", 900, 0, ("binlog.000003", 500, Happened.NOTHING)),
        ("binlog.000002", 800, EventType.STOP, ("binlog.000003", 4, Happened.NOTHING)),
        ("binlog.000002", 800, 0, ("binlog.000003", 4, Happened.PURGED)),
        ("binlog.000001", 800, EventType.STOP, ("binlog.000003", 4, Happened.PURGED)),
        ("binlog.000004", 900, 0, ("binlog.000003", 4, Happened.RESET)),
        ("binlog.000005", 4, 0, ("binlog.000003", 4, Happened.RESET)),
        ("other.000003", 4, 0, ("binlog.000003", 4, Happened.RESET)),
    ],
)
def test_a_journal_goes_on_where_the_files_allow_it(
    file: str, position: int, ended_by: int, expected: tuple[str, int, Happened]
) -> None:
    """Read on, a file cut by recovery, one read to its end, purged ones, a log begun anew."""
    state = TailState(file=file, position=position, ended_by=ended_by)
    assert tuple(find_start(state, FILES)) == expected


@pytest.mark.parametrize(
    ("position", "ended_by", "expected"),
    [
        (600, EventType.STOP, ("binlog.000004", 4, Happened.CLOSED)),
        (677, EventType.STOP, ("binlog.000004", 4, Happened.NOTHING)),
        (900, 0, ("binlog.000001", 700, Happened.NOTHING)),
    ],
)
def test_numbers_between_two_files_may_be_left_out(
    position: int, ended_by: int, expected: tuple[str, int, Happened]
) -> None:
    """What follows a file is the next one that there is."""
    state = TailState(file="binlog.000001", position=position, ended_by=ended_by)
    assert tuple(find_start(state, {"binlog.000001": 700, "binlog.000004": 500})) == expected


RENAMED = ("binlog.000003", "binlog.000004", "third.000001", "third.000002", "binlog.000005")


@pytest.mark.parametrize(
    ("names", "in_order"),
    [
        ((), ("binlog.999999", "binlog.1000000")),
        (RENAMED, ("binlog.000002", *RENAMED, "binlog.000006")),
        (RENAMED[:3], (*RENAMED[:4], "third.000009")),
    ],
)
def test_files_of_one_index_have_an_order_whatever_their_names(
    names: tuple[str, ...], in_order: tuple[str, ...]
) -> None:
    """Also those that were purged from it, or opened since it was read."""
    order = FileOrder(names)
    numbers = [order.of(name) for name in in_order]
    assert numbers == sorted(set(numbers))


def test_a_log_that_ends_in_a_file_of_another_name_has_not_been_read_by_then() -> None:
    """A server that came back with another log_bin, and a lower number, has logged since."""
    state = TailState(epoch=1, server_uuid="u", boot_s=1_000.0, file="binlog.000002", position=157)
    history, _ = followed(state)
    history.begin(server_now(logs={"binlog.000002": 157, "third.000001": 300}))
    history.note_log_end(LogEnd(5_000_000, "third.000001", 300, ("binlog.000002", 157)))
    history.release(None)
    assert state.ts < 5_000_000
    assert history.here < history.place("third.000001", 300)


def test_a_log_that_has_been_read_to_its_end_is_known_up_to_then() -> None:
    """Each time that is later than those before has a heartbeat."""
    state = TailState(epoch=1, server_uuid="u", boot_s=1_000.0, file="binlog.000002", position=157)
    history, sink = followed(state)
    history.begin(server_now(logs={"binlog.000002": 157}))
    for ts in (5_000_000, 4_000_000, 5_000_000, 5_000_001):
        history.note_log_end(LogEnd(ts, "binlog.000002", 157, ("binlog.000002", 157)))
    history.release(None)
    history._journal.save()
    records = [json.loads(line) for block in sink.blocks for line in block_to_lines(block)]
    shown = [record["ts"] for record in records if record["kind"] == "heartbeat"]
    assert ([5_000_000, 5_000_001], 5_000_001) == (shown, state.ts)


COPY = {"binlog.000001": 300, "binlog.000002": 500, "binlog.000003": 200, "binlog.000004": 157}


@pytest.mark.parametrize(
    ("opened_s", "expected"),
    [
        # The copy was made in file 3; two starts followed, of which the second opened file 4.
        ({1: 100, 2: 200, 3: 300}, ("binlog.000003", 200)),
        ({1: 100, 2: 200, 3: 900}, ("binlog.000002", 500)),
        # What was followed began with file 5: any older file is from before that.
        ({1: 100, 2: 200, 3: 250}, ("binlog.000002", 500)),
        # RESET: every file is younger than those that were followed.
        ({1: 900, 2: 910, 3: 920}, None),
    ],
)
def test_an_older_copy_of_a_log_is_known_by_when_its_files_were_opened(
    opened_s: dict[int, int], expected: tuple[str, int] | None
) -> None:
    """It ends with the newest file that is the one followed, or older than all that was."""
    state = TailState(file="binlog.000005", position=900)
    state.opened_s = {"binlog.000003": 300, "binlog.000005": 500}
    copy = OlderCopy()
    found = copy.next_file(COPY)
    while found is not None and not copy.is_of(state, opened_s[int(found[0][-6:])]):
        copy.refuse()
        assert not copy.is_awaited
        found = copy.next_file(COPY)
    assert found == expected


def test_a_journal_names_its_clock_when_a_process_begins_and_after_each_gap() -> None:
    """Whoever reads it knows up to where times are of one clock."""
    sink, state = MemorySink(), TailState(epoch=1)
    for _ in range(2):
        journal = TailJournal("a", sink, state, state_file=None, clock=time.monotonic)
        for record_type, body in (
            (RecordType.HEARTBEAT, {}),
            (RecordType.GAP, {"channel": ""}),
            (RecordType.GAP, {}),
            (RecordType.HEARTBEAT, {}),
        ):
            journal.server_record(record_type, body)
        journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    kinds = ["observer", "heartbeat", "gap", "gap", "observer", "heartbeat"]
    assert [record["kind"] for record in records] == 2 * kinds
    assert {record.get("clock") for record in records} == {CLOCK, None}


def test_the_clock_of_a_process_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall clock that is set an hour back or on leaves it alone."""
    before = steady_clock_us()
    for hours in (-1, 1):
        now = time.time_ns() + hours * 3_600 * 10**9
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        assert 0 <= steady_clock_us() - before < 600 * 10**6


def test_the_clock_of_a_process_is_about_that_of_the_machine() -> None:
    assert abs(steady_clock_us() - time.time_ns() // 1_000) < 60 * 10**6


@pytest.mark.parametrize(
    ("is_awaited", "deadline_s", "answers"), [(True, 60, 0), (True, -1, 1), (False, 60, 1)]
)
def test_a_server_that_comes_back_is_asked_again(
    is_awaited: bool, deadline_s: float, answers: int
) -> None:
    """A restart ends the stream, and RESET does: a collection waits for it, while there is time."""
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(None, journal, print, steady_clock_us)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=steady_clock_us, from_oldest=False
    )
    scheduler = CollectionScheduler(journal, history, TailOptions(deadline_s=deadline_s), None)
    watch = Asked()
    before = steady_clock_us()
    scheduler.ask(CollectRequest("c1", 0))
    received = steady_clock_us()
    for _ in range(2):
        scheduler.hand_on(cast("ServerWatch", watch))
        scheduler.end_session()
    assert [request.collection_id for request in watch.asked] == ["c1", "c1"]
    scheduler.answer_unreachable("", is_awaited=is_awaited)
    assert scheduler.answers == answers
    scheduler.answer_unreachable("", is_awaited=False)
    journal.save()
    [answer] = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))][1:]
    assert answer["error"] == {"unreachable": True}
    assert before <= answer["received_at"] <= received
    # A server that was never reached: its journal does not begin in 1970.
    assert received <= answer["ts"] <= steady_clock_us()


@pytest.mark.parametrize("has_waited", [True, False])
def test_the_answer_to_a_request_that_has_waited_shows_no_clock(has_waited: bool) -> None:
    """How long it was in the topic is not known."""
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(None, journal, print, steady_clock_us)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=steady_clock_us, from_oldest=False
    )
    scheduler = CollectionScheduler(journal, history, TailOptions(), None)
    scheduler.ask(CollectRequest("c1", 7, has_waited=has_waited))
    scheduler.answer_unreachable("it is away", is_awaited=False)
    journal.save()
    [answer] = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))][1:]
    assert answer["error"] == {"unreachable": True, "message": "it is away"}
    assert answer.get("requested_at") == (None if has_waited else 7)
    assert "received_at" in answer


@pytest.mark.parametrize("shown", ["", "Completed", "Failed", "In Progress"])
@pytest.mark.parametrize(
    ("known", "now", "lineage"),
    [
        ("", "1700000000.250", "cloned"),
        ("1600000000.250", "1700000000.250", "cloned"),
        # Only what is known of both boots tells a RESET from a clone.
        ("1600000000.250", "1600000000.250", None),
        ("", "", None),
        ("1600000000.250", "", None),
        (None, "", None),
        ("1600000000.250", None, "restored"),
        (None, "1700000000.250", "restored"),
    ],
)
def test_a_boot_with_the_data_of_a_clone_begins_the_history_anew(
    known: str | None, now: str | None, lineage: str | None, shown: str
) -> None:
    """The server_uuid is kept; logs, sets and channels are not those that were followed.

    clone_status has one row: that of a clone that brought no data hides one that did before it.
    """
    if now == "" and shown:
        lineage = "restored"
    sink = MemorySink()
    state = TailState(epoch=1, server_uuid="u", boot_s=1.0, file="binlog.000007", position=900)
    state.clone = known
    journal = TailJournal("a", sink, state, state_file=None, clock=time.monotonic)
    relays = RelayLogs(None, journal, print, steady_clock_us)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=steady_clock_us, from_oldest=False
    )
    channel = {"channel": "", "action": "change_source", "auto_position": True}
    server = ServerNow(
        {"server_uuid": "u", "variables": {}},
        None,
        boot_s=1_700_000_100.0,
        recovers_relay_log=False,
        logs={"binlog.000001": 157, "binlog.000002": 157},
        channels=[channel],
        clone=CloneShown(now, shown),
    )
    history.begin(server)
    journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    kinds = ["binlog_reset", "start"] if lineage is None else ["start", "channel"]
    assert ["gap", *kinds] == [one["kind"] for one in records if one["kind"] != "observer"]
    assert [one.get("data_lineage") for one in records if one["kind"] == "start"] == [lineage]
    assert state.clone == now


@pytest.mark.parametrize(
    ("known_s", "uuid", "kinds"),
    [
        (1_000.0, "u", ["variables"]),
        # Computed from the uptime in whole seconds, at two times.
        (997.5, "u", ["variables"]),
        (1_002.5, "u", ["variables"]),
        (997.4, "u", ["start", "channel"]),
        (1_002.6, "u", ["start", "channel"]),
        (None, "u", ["start", "channel"]),
        # Another data directory: what was followed has ended.
        (1_000.0, "other", ["gap", "start", "channel"]),
    ],
)
def test_a_boot_that_is_not_in_the_journal_is_recorded(
    known_s: float | None, uuid: str, kinds: list[str]
) -> None:
    """Of a server without a binary log, whose files would show when it was started."""
    sink = MemorySink()
    state = TailState(epoch=1, server_uuid=uuid, boot_s=known_s, variables={"gtid_mode": "OFF"})
    state.channels = {"c": {}}
    journal = TailJournal("a", sink, state, state_file=None, clock=time.monotonic)
    relays = RelayLogs(None, journal, print, steady_clock_us)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=steady_clock_us, from_oldest=False
    )
    server = ServerNow(
        {"server_uuid": "u", "server_id": 7, "variables": {"gtid_mode": "ON"}},
        None,
        boot_s=1_000.0,
        recovers_relay_log=uuid == "u",
        channels=[{"channel": "C", "action": "change_source", "auto_position": True}],
    )
    history.begin(server)
    journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    assert kinds == [one["kind"] for one in records if one["kind"] != "observer"]
    assert not server.is_boot_unreported
    assert "ON" == state.variable("gtid_mode")
    if "start" in kinds:
        assert (1_000.0, "u", 7) == (state.boot_s, state.server_uuid, state.server_id)
        [action] = [one["action"] for one in records if one["kind"] == "channel"]
        assert ("relay_log_recovery" if uuid == "u" else "change_source") == action


def followed(
    state: TailState, relays: RelayLogs | None = None, **options: Any
) -> tuple[ServerHistory, MemorySink]:
    """The history of a server whose journal is in the sink; by default no relay log is read."""
    sink = MemorySink()
    journal = TailJournal("a", sink, state, state_file=None, clock=time.monotonic)
    relays = relays or RelayLogs(None, journal, print, steady_clock_us)
    options = {"clock_us": steady_clock_us, "from_oldest": False} | options
    return ServerHistory("a", journal, relays, notice=print, **options), sink


def scheduled(**options: Any) -> tuple[CollectionScheduler, ServerHistory, MemorySink]:
    """The collections of a server that is followed so."""
    history, sink = followed(TailState(epoch=1))
    scheduler = CollectionScheduler(history._journal, history, TailOptions(**options), None)
    return scheduler, history, sink


def server_now(boot_s: float = 1_000.0, **more: Any) -> ServerNow:
    """A server with a binary log of two files."""
    body = {"server_uuid": "u", "server_id": 7, "variables": {}}
    logs = {"binlog.000001": 157, "binlog.000002": 157}
    return ServerNow(body, None, boot_s, **{"recovers_relay_log": False, "logs": logs} | more)


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ({"from_oldest": True}, "binlog.000001"),
        ({"from_oldest": False}, "binlog.000002"),
        ({"from_oldest": False, "first_file": "binlog.000001"}, "binlog.000001"),
        ({"from_oldest": True, "first_file": "binlog.000009"}, "binlog.000001"),
    ],
)
def test_a_journal_begins_in_the_file_that_is_asked_for(options: dict[str, Any], file: str) -> None:
    """The oldest one, the newest one, or one by its name if it is there."""
    history, _ = followed(TailState(epoch=1), **options)
    history.begin(server_now())
    assert (file, 4) == history.start


@pytest.mark.parametrize("is_known", [True, False])
def test_statements_about_channels_are_counted_since_the_start(
    tmp_path: Path, is_known: bool
) -> None:
    """Of a boot that the journal has, since the session began: what came before is recorded."""
    (tmp_path / "relay.000001").write_bytes(opened_at(1_000))
    for changes in (0, 1, 3, 4):
        state = TailState(epoch=1, server_uuid="u", boot_s=1_000.0 if is_known else 1.0)
        journal = TailJournal("a", MemorySink(), state, state_file=None, clock=time.monotonic)
        relays = RelayLogs(LocalDirectory(tmp_path), journal, print, lambda: 1)
        history, _ = followed(state, relays)
        history.begin(server_now(channel_changes=3, relay_files={"": "relay.000001"}))
        relays.open({"": "relay.000001"}, {})
        place = {"channel_name": "", "relay_log_file": "relay.000001", "relay_log_position": 4}
        body = {"row": {"REPLICATION": {"channels": [place]}}}
        collected = Collected(CollectRequest("c", 0), body, 1, changes=changes)
        assert history.is_row_late(collected) is (changes > (3 if is_known else 0))
        relays.close()


@pytest.mark.parametrize(("known_s", "shown_s"), [(998.0, 998.0), (1.0, 1_000.0), (None, 1_000.0)])
def test_a_boot_whose_file_has_not_come_by_a_row_is_the_one_that_was_known(
    known_s: float | None, shown_s: float
) -> None:
    """The clocks were wrong; from then on its time is what the server says."""
    state = TailState(epoch=1, server_uuid="u", boot_s=known_s, file="binlog.000002", position=157)
    history, _ = followed(state)
    server = server_now()
    history.begin(server)
    assert server.is_boot_unreported is (known_s != shown_s)
    history.record_shown(Collected(CollectRequest("c1", 0), dict(ANSWER), 9))
    assert (False, shown_s) == (server.is_boot_unreported, state.boot_s)


@pytest.mark.parametrize("created", [0, 999])
def test_a_start_is_of_when_it_opened_its_file(created: int) -> None:
    """Without a binary log nothing shows that but the server's own time."""
    state = TailState(epoch=1, server_uuid="u", boot_s=1.0)
    if created:
        state.file, state.position = "binlog.000001", 157
    history, _ = followed(state)
    started: list[int] = []
    history.relays.started = started.append  # type: ignore[method-assign]
    history.begin(server_now(1_000.7) if created else server_now(1_000.7, logs={}))
    if created:
        history.receive([description_of("binlog.000002", created)])
        history.release(None)
    assert [created or 1_000] == started


def test_a_boot_behind_a_reset_is_recorded_once() -> None:
    """Its own file comes later, where the log begins before it: relay logs were recovered once."""
    state = TailState(epoch=1, server_uuid="u", boot_s=1.0, file="other.000001", position=157)
    history, sink = followed(state)
    history.channels.known = {"": {}}
    more = {"recovers_relay_log": True, "channels": [{"channel": ""}], "clone": CloneShown("")}
    history.begin(server_now(1_000.7, **more))
    for file, created in (("binlog.000001", 500), ("binlog.000002", 1_000)):
        history.receive([description_of(file, created)])
    history.release(None)
    history._journal.save()
    records = [json.loads(line)["kind"] for block in sink.blocks for line in block_to_lines(block)]
    assert (1, 1) == (records.count("binlog_reset"), records.count("channel"))


def description_of(file: str, created: int) -> StreamedEvent:
    """What begins a file, which a start has opened or nothing."""
    fields = {"file": file, "start": 4, "length": 122}
    form = FormatDescription(created or 500, created, "8.0.31", 4, 7, is_of_file=True)
    return StreamedEvent(LogEvent(EventType.FORMAT_DESCRIPTION, 126, fields), form)


@pytest.mark.parametrize("ended_by", [EventType.ROTATE, 0])
def test_a_file_that_nothing_leads_to_is_of_another_log(ended_by: int) -> None:
    """Neither a ROTATE nor a start; after a gap nobody could know."""
    state = TailState(epoch=1, server_uuid="u", boot_s=1_000.0)
    state.file, state.position, state.ended_by = "binlog.000001", 157, ended_by
    history, _ = followed(state)
    history.receive([description_of("binlog.000002", 0)])
    with nullcontext() if ended_by else pytest.raises(BeganAnewError, match="does not follow"):
        history.release(None)
    assert history.is_anew is not bool(ended_by)


def test_channels_are_described_for_what_began_anew_before(tmp_path: Path) -> None:
    """An answer from before that does not count as one of the two."""
    (tmp_path / "relay.000001").write_bytes(HEAD)
    state = TailState(epoch=1)
    journal = TailJournal("a", MemorySink(), state, state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, print, lambda: 1)
    history, _ = followed(state, relays)
    relays.open({"": "relay.000001"}, {})
    channel = {"channel": "", "action": "change_source"}
    history.describe_channels(ChannelsRead(1, [channel], 0))
    relays.give_up()
    for ts in (2, 3):
        assert history.wants_channels
        history.describe_channels(ChannelsRead(ts, [channel], 0))
    assert not history.wants_channels
    relays.forget()


ANSWER = {"collection_id": "c1", "requested_at": 0, "row": {"LOCAL": {}, "REPLICATION": {}}}


@pytest.mark.parametrize(
    ("state", "answer", "donor", "not_before"),
    [
        ("", {}, "d", 8),
        ("", {}, None, 8),
        # Another clone's coordinates may be taken, or it is not known which it is.
        ("In Progress", {}, "d", 5),
        ("", {"unread": [{"part": "clone_status", "code": 1142, "message": ""}]}, "d", 5),
        ("", {"clone_status": {"STATE": "Completed", "BEGIN_TIME": "b"}}, "d", 5),
        # Never seen without it.
        ("", None, "d", None),
    ],
)
def test_a_clone_is_recorded_with_when_the_server_had_it_not(
    state: str, answer: dict[str, object] | None, donor: str | None, not_before: int | None
) -> None:
    """Its donor's log must be the same since then; the server's own times are of its clock."""
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    history = ServerHistory(
        "a",
        journal,
        RelayLogs(None, journal, print, steady_clock_us),
        notice=print,
        clock_us=steady_clock_us,
        from_oldest=False,
        donor_of=lambda clone: donor if clone.source == "db1:3306" else None,
    )

    def now(clone: CloneShown, boot_s: float, asked_us: int) -> ServerNow:
        body = {"server_uuid": "u", "variables": {}}
        logs = {"binlog.000001": 157}
        return ServerNow(
            body, None, boot_s, recovers_relay_log=False, logs=logs, clone=clone, asked_us=asked_us
        )

    before = CloneShown("") if answer is not None else CloneShown(None)
    history.begin(now(before, 1.0, 5))
    if answer is None:
        journal.state.clone = ""
    elif state:
        history.begin(now(CloneShown("", state, "b"), 1.0, 7))
    request = CollectRequest("c1", 0)
    history.record_shown(Collected(request, {**ANSWER, **(answer or {})}, 9, begun_ts=8))
    history.begin(now(CloneShown("2.5", "Completed", "b", "db1:3306"), 100.0, 20))
    journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    found = [one for one in records if one["kind"] == "clone"]
    assert [not_before] * (not_before is not None) == [one["not_before"] for one in found]
    assert [donor] * len(found) == [one.get("peer") for one in found]
    if found:
        assert (found[0]["step"], found[0]["role"], found[0]["begin_time"]) == (
            "found",
            "recipient",
            "b",
        )
        # Behind the start over the cloned data, in front of all that was received since.
        kinds = [one["kind"] for one in records if one["kind"] != "observer"]
        assert kinds[kinds.index("clone") - 2 :] == ["gap", "start", "clone"]


@pytest.mark.parametrize("is_anew", [True, False])
def test_a_request_that_waited_too_long_gets_the_reason(is_anew: bool) -> None:
    """Another collection goes on, or what was done to channels is still to be recorded."""
    scheduler, history, sink = scheduled(deadline_s=-1)
    if is_anew:
        history.relays.anew.add("")
    for name in ("c1", "c2"):
        scheduler.ask(CollectRequest(name, 0))
    scheduler.hand_on(cast("ServerWatch", Asked()))
    history._journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))][1:]
    expected = (
        "what was done to its channels was not known in time"
        if is_anew
        else "an earlier collection is still under way"
    )
    assert [one["error"]["message"] for one in records] == [expected] * (1 + is_anew)


@pytest.mark.parametrize("is_read", [True, False])
def test_a_collection_that_takes_too_long_is_timed_out(is_read: bool) -> None:
    """No row was read, or the log that is followed did not come to it."""
    scheduler, history, sink = scheduled(deadline_s=-1)
    request = CollectRequest("c1", 0)
    scheduler.ask(request)
    scheduler.hand_on(cast("ServerWatch", Asked()))
    if is_read:
        local = {"binary_log_file": "binlog.000001", "binary_log_position": 157}
        scheduler.collected(Collected(request, {"row": {"LOCAL": local}}, 1))
    scheduler.settle()
    history._journal.save()
    [answer] = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))][1:]
    said = "the log that was followed did not come to the row's coordinates in time"
    assert answer["error"] == {"timed_out": True} | ({"message": said} if is_read else {})


def test_a_row_comes_after_the_event_that_ends_at_its_coordinates() -> None:
    """What the stream brought is recorded up to there, and what is further on after it."""
    scheduler, history, sink = scheduled()
    request = CollectRequest("c1", 0)
    scheduler.ask(request)
    scheduler.hand_on(cast("ServerWatch", Asked()))
    following = LogEvent(EventType.STOP, 149, {"file": "binlog.000001", "start": 126, "length": 23})
    history.receive([description_of("binlog.000001", 500), StreamedEvent(following, None)])
    local = {"binary_log_file": "binlog.000001", "binary_log_position": 126}
    row = {"LOCAL": local, "REPLICATION": {"channels": []}}
    scheduler.collected(Collected(request, {"collection_id": "c1", "row": row}, 1))
    scheduler.settle()
    history.release(None)
    history._journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))][1:]
    assert [4, None, 126] == [one.get("start") for one in records]


def test_a_row_is_taken_again_when_a_relay_log_began_anew(tmp_path: Path) -> None:
    """It may be from before or after that: what was done is recorded first, then a new row."""
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, print, lambda: 1)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=lambda: 1, from_oldest=False
    )
    scheduler = CollectionScheduler(journal, history, TailOptions(), None)
    (tmp_path / "relay.000002").write_bytes(HEAD)
    relays.open({"": "relay.000002"}, {})
    relays.record(1)
    request, watch = CollectRequest("c1", 0), Asked()
    channel = {"channel": "", "action": "change_source", "auto_position": True}
    (tmp_path / "relay.000002").unlink()
    (tmp_path / "relay.000001").write_bytes(HEAD)
    scheduler.ask(request)
    for changes in (0, 1):
        scheduler.hand_on(cast("ServerWatch", watch))
        row = {"LOCAL": {}, "REPLICATION": {"channels": []}}
        body = {"collection_id": "c1", "requested_at": 0, "row": row}
        scheduler.collected(Collected(request, body, 1, changes=changes))
        scheduler.settle()
        for ts in (1, 2):
            history.describe_channels(ChannelsRead(ts, [channel], 1))
        history.note_log_end(LogEnd(3, None, 0, ("", 0)))
        scheduler.hand_on(cast("ServerWatch", watch))
        assert (len(watch.asked), scheduler.answers) == (1 + scheduler.answers, changes)
        history.release(None)
    journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    # Nothing had counted what was done to channels: this may have been twice.
    kinds = ["observer", "relay", "heartbeat", "gap", "channel", "relay", "log_status"]
    assert [one["kind"] for one in records] == kinds
    assert watch.asked == [request, request]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_row_that_is_the_first_to_name_a_channel_is_taken_again(
    tmp_path: Path, *, is_there: bool
) -> None:
    """A relay log that is opened after a row may be another than the row is of, as after RESET."""
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, print, lambda: 1)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=lambda: 1, from_oldest=False
    )
    scheduler = CollectionScheduler(journal, history, TailOptions(), None)
    request, watch = CollectRequest("c1", 0), Asked()
    group = event(EventType.XID, bytes(8))
    (tmp_path / "relay-new.000003").write_bytes(HEAD + group)
    channel = {"channel": "new", "action": "change_source", "source_uuid": "b"}
    file, position = "relay-new.000003", len(HEAD + group)

    def answer() -> None:
        """Have a row of the present position; the statements are counted after it."""
        scheduler.hand_on(cast("ServerWatch", watch))
        place = {"channel_name": "NEW", "relay_log_file": file, "relay_log_position": position}
        row = {"LOCAL": {}, "REPLICATION": {"channels": [place] if is_there else []}}
        status = [{"Channel_Name": "new", "Relay_Log_File": file}] if is_there else []
        body = {"collection_id": "c1", "requested_at": 0, "row": row, "replica_status": status}
        channels = [channel] if is_there else []
        scheduler.collected(Collected(request, body, 1, channels=channels, changes=changes))

    scheduler.ask(request)
    changes = 1
    answer()
    # RESET REPLICA, and START: what the row names has gone with its groups.
    (tmp_path / file).unlink()
    (tmp_path / "relay-new.000001").write_bytes(HEAD)
    file, position, changes = "relay-new.000001", len(HEAD), 2
    scheduler.settle()
    if is_there:
        assert history.wants_channels
        for ts in (2, 3):
            history.describe_channels(ChannelsRead(ts, [channel], changes))
        history.note_log_end(LogEnd(4, None, 0, ("", 0)))
        history.release(None)
        answer()
        scheduler.settle()
    assert (1, 1 + is_there) == (scheduler.answers, len(watch.asked))
    journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    seen = [one.get("type") or one["kind"] for one in records]
    of_channel = ["heartbeat", "gap", "channel", "FORMAT_DESCRIPTION"] if is_there else []
    assert ["observer", *of_channel, "log_status"] == seen
    relays.forget()


def test_a_channel_that_is_made_or_removed_tells_nothing_of_another(tmp_path: Path) -> None:
    """The one statement that was counted was for that one: the other was not begun anew unseen."""
    sink = MemorySink()
    notices: list[str] = []
    state = TailState(epoch=1)
    journal = TailJournal("a", sink, state, state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, notices.append, lambda: 1)
    history = ServerHistory(
        "a", journal, relays, notice=notices.append, clock_us=lambda: 1, from_oldest=False
    )
    for name in ("old", "new"):
        (tmp_path / f"relay-{name}.000001").write_bytes(HEAD)

    def is_late(ts: int, changes: int, *names: str) -> bool:
        """Have a row that names these channels."""
        places = [
            {
                "channel_name": name,
                "relay_log_file": f"relay-{name}.000001",
                "relay_log_position": len(HEAD),
            }
            for name in names
        ]
        body = {
            "row": {"REPLICATION": {"channels": places}},
            "replica_status": [{"Channel_Name": name} for name in names],
        }
        channels = [{"channel": name, "action": "change_source"} for name in names]
        collected = Collected(CollectRequest("c", 0), body, ts, channels=channels, changes=changes)
        if not history.is_row_late(collected):
            assert history.record_shown(collected)
            return False
        for later in (ts, ts + 1):
            history.describe_channels(ChannelsRead(later, channels, changes))
        history.note_log_end(LogEnd(ts + 2, None, 0, ("", 0)))
        history.release(None)
        return True

    assert is_late(1, 7, "old")  # nothing had counted before
    assert not is_late(5, 7, "old")
    del notices[:]
    assert is_late(10, 8, "old", "new")
    assert not is_late(15, 8, "old", "new")
    assert not is_late(20, 9, "old")
    assert [] == notices
    assert is_late(25, 11, "old")
    assert "'old' may have begun anew" in notices[0]
    relays.forget()


def shown_by(
    tmp_path: Path, state: TailState, body: dict[str, Any], changes: int | None = None
) -> list[dict[str, Any]]:
    """What is recorded when an answer is taken whose relay log files are read, but its row."""
    sink = MemorySink()
    journal = TailJournal("a", sink, state, state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, lambda _: None, steady_clock_us)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=steady_clock_us, from_oldest=False
    )
    history.channels.note(answer(), ())
    body = {"collection_id": "c1", "requested_at": 0, **body}
    history.record_shown(Collected(CollectRequest("c1", 0), body, 5, changes=changes))
    journal.save()
    relays.close()
    return [json.loads(line) for block in sink.blocks for line in block_to_lines(block)]


@pytest.mark.parametrize(("changes", "actions"), [(0, []), (1, []), (None, ["reset"])])
def test_a_relay_log_that_is_read_was_reset_only_if_nothing_counts_that(
    tmp_path: Path, changes: int | None, actions: list[str]
) -> None:
    """Where statements are counted a shorter one has lost what it lacks."""
    for number in (1, 2):
        (tmp_path / f"relay-c.{number:06}").write_bytes(HEAD)
    found = shown_by(tmp_path, TailState(epoch=1), answer(relay=SHORTER), changes)
    assert actions == [one["action"] for one in found if one["kind"] == "channel"]


@pytest.mark.parametrize(
    ("oldest", "shown", "purged"),
    [
        ("binlog.000002", "binlog.000003", ["binlog.000003"]),
        ("binlog.999999", "binlog.1000000", ["binlog.1000000"]),
        ("binlog.000002", "third.000001", ["third.000001"]),
        ("binlog.000002", "binlog.000002", []),
        # It began anew, which its events show.
        ("binlog.000002", "binlog.000001", []),
        (None, "binlog.000003", []),
        ("binlog.000002", None, []),
    ],
)
def test_a_purge_is_seen_in_the_list_of_binary_logs(
    tmp_path: Path, oldest: str | None, shown: str | None, purged: list[str]
) -> None:
    """An answer without a list shows none."""
    state = TailState(epoch=1, oldest_file=oldest)
    body = {"row": {"REPLICATION": {"channels": []}}}
    body |= {} if shown is None else {"binary_logs": [{"name": shown}, {"name": "binlog.000009"}]}
    found = shown_by(tmp_path, state, body)
    assert purged == [one["to_file"] for one in found if one["kind"] == "binlog_purge"]
    assert (shown or oldest) == state.oldest_file


class Asked:
    """Takes what a server is to be asked."""

    def __init__(self) -> None:
        self.asked: list[CollectRequest] = []

    def ask(self, request: CollectRequest) -> None:
        self.asked.append(request)


def test_a_place_goes_back_to_where_an_older_copy_ends() -> None:
    """What is remembered of later files is of a log that is gone."""
    state = TailState(file="binlog.000003", position=900, begun_in="binlog.000003")
    state.opened_s = {"binlog.000001": 1, "binlog.000002": 2, "binlog.000003": 3}
    state.went_back("binlog.000002", 500)
    assert (state.file, state.position, state.begun_in) == ("binlog.000002", 500, "")
    assert state.opened_s == {"binlog.000001": 1, "binlog.000002": 2}


def test_a_place_is_read_as_it_was_saved(tmp_path: Path) -> None:
    """Every field outlives the process."""
    state = TailState(
        epoch=7,
        next_sequence=12,
        ts=99,
        server_uuid="u",
        variables={"gtid_mode": "ON"},
        boot_s=1.5,
        begun_in="binlog.000001",
        file="binlog.000002",
        position=157,
        opened_s={"binlog.000001": 1_700_000_000},
        relays={"c": ("relay-c", 3, 400, True)},
        channels={"c": {"Source_UUID": "v"}},
        clone="1700000000.250",
        uncloned_us=98,
    )
    path = tmp_path / "a.json"
    state.save(path)
    assert TailState.load(path) == state
    assert TailState.load(tmp_path / "b.json") is None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "what": 3}'])
def test_a_place_that_cannot_be_read_is_an_error_that_names_the_file(
    tmp_path: Path, text: str
) -> None:
    """Nothing is begun anew in silence."""
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(TailStateError, match=r"a\.json"):
        TailState.load(path)


def test_a_changed_bit_of_a_saved_state_is_named_or_changes_nothing(tmp_path: Path) -> None:
    """A position or an epoch one bit off would be another journal."""
    path = tmp_path / "a.json"
    state = TailState(epoch=3, next_sequence=9, file="binlog.000003", position=477, boot_s=1.5)
    state.relays["\u00e9"] = ("relay", 2, 477, True)
    state.save(path)
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        try:
            found = TailState.load(path)
        except TailStateError:
            continue
        assert found == state


def block(first_sequence: int, epoch: int = 5) -> Any:
    builder = BlockBuilder("a", epoch=epoch, first_sequence=first_sequence)
    for start in (157, 236):
        builder.log_event(
            Stream.BINLOG, EventType.XID, file="binlog.000001", start=start, length=79, ts=50
        )
    return builder.build()


def test_what_was_published_behind_the_save_is_not_told_again() -> None:
    """Known blocks are passed over, part of one counts, and the state is after the last."""
    state, problem = resumed(TailState(epoch=5, next_sequence=3), [block(0), block(2)])
    assert problem is None
    assert state is not None
    assert (state.epoch, state.next_sequence) == (5, 4)
    assert (state.file, state.position) == ("binlog.000001", 315)


def test_a_gap_of_the_whole_journal_leaves_no_relay_log_unread() -> None:
    """One of a channel does, if it has a reason; else its relay log goes on after the gap."""
    builder = BlockBuilder("a", epoch=5, first_sequence=3)
    for body in (
        {"reason": "lost"},
        {"channel": "c"},
        {"channel": "d", "reason": "away"},
    ):
        builder.server_record(RecordType.GAP, body, ts=1)
    relays = {name: ["relay", 1, 4] for name in ("c", "d")}
    given = TailState(epoch=5, next_sequence=3, relays=relays)
    state, problem = resumed(given, [builder.build()])
    assert (None, {"d": "away"}) == (problem, state.unread_relays)
    assert ["c"] == list(state.relays)


def test_what_was_published_of_a_server_is_in_the_state() -> None:
    """Its start and its variables; a binary log that began anew has no file yet."""

    def after(*records: tuple[RecordType, dict[str, Any]]) -> TailState:
        builder = BlockBuilder("a", epoch=5, first_sequence=3)
        for record_type, body in records:
            builder.server_record(record_type, body, ts=1)
        given = TailState(
            epoch=5, next_sequence=3, server_uuid="old", server_id=1, boot_s=4.0,
            variables={"gtid_mode": "OFF", "log_bin": "ON"}, file="binlog.000007", position=900,
            oldest_file="binlog.000002", clone="done",
        )  # fmt: skip
        state, problem = resumed(given, [builder.build()])
        assert problem is None
        assert state is not None
        assert state.next_sequence == 3 + len(records)
        return state

    start = {"server_uuid": "new", "server_id": 7, "variables": {"gtid_mode": "ON"}}
    state = after((RecordType.START, start))
    assert ("new", 7, None) == (state.server_uuid, state.variable("server_id"), state.boot_s)
    assert ("ON", "ON") == (state.variable("gtid_mode"), state.variable("log_bin"))
    assert "done" == state.clone
    assert after((RecordType.START, {**start, "data_lineage": "cloned"})).clone is None
    state = after((RecordType.VARIABLES, {"variables": {"gtid_mode": "ON", "server_id": 8}}))
    assert (8, {"gtid_mode": "ON", "log_bin": "ON"}) == (state.server_id, state.variables)
    state = after((RecordType.BINLOG_PURGE, {"to_file": "binlog.000005"}))
    assert ("binlog.000007", "binlog.000005") == (state.file, state.oldest_file)
    state = after((RecordType.BINLOG_RESET, {}))
    assert ("", 0, None) == (state.file, state.position, state.oldest_file)


def test_variables_are_recorded_when_they_have_other_values() -> None:
    """Each answer has them all; server_id is one of them, and has a field of its own."""
    sink = MemorySink()
    state = TailState(epoch=1, server_id=7, variables={"gtid_mode": "ON"})
    journal = TailJournal("a", sink, state, state_file=None, clock=time.monotonic)
    relays = RelayLogs(None, journal, print, steady_clock_us)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=steady_clock_us, from_oldest=False
    )
    for variables in (
        {"gtid_mode": "ON", "server_id": 7},
        {"gtid_mode": "ON_PERMISSIVE", "server_id": 7},
        {"gtid_mode": "ON_PERMISSIVE", "server_id": 8},
        {"gtid_mode": "ON_PERMISSIVE", "server_id": 8},
    ):
        history.record_variables(variables)
    journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    assert [{"gtid_mode": "ON_PERMISSIVE"}, {"server_id": 8}] == [
        one["variables"] for one in records if one["kind"] == "variables"
    ]


@pytest.mark.parametrize(
    ("types", "ended_by"),
    [
        ([EventType.ROTATE], EventType.ROTATE),
        ([EventType.STOP], EventType.STOP),
        ([EventType.STOP, EventType.FORMAT_DESCRIPTION], 0),
        ([EventType.XID], 0),
    ],
)
def test_how_the_last_file_ended_is_known(types: list[EventType], ended_by: int) -> None:
    """Nothing comes after these in it: the next events are in the file after it."""
    builder = BlockBuilder("a", epoch=5, first_sequence=3)
    for number, each in enumerate(types):
        file = f"binlog.00000{number + 1}"
        builder.log_event(Stream.BINLOG, each, file=file, start=157, length=44, ts=50)
    state, _ = resumed(TailState(epoch=5, next_sequence=3), [builder.build()])
    assert state is not None
    assert (file, 201, ended_by) == (state.file, state.position, state.ended_by)


@pytest.mark.parametrize("published", [block(5), block(3, epoch=6)])
def test_a_journal_whose_end_is_not_known_begins_anew(published: Any) -> None:
    """Blocks that are missing, or somebody else's: another epoch, and a word about it."""
    state, problem = resumed(TailState(epoch=5, next_sequence=3), [published])
    assert state is None
    assert problem is not None
    assert "begins anew" in problem


def test_beyond_four_gigabytes_another_command_asks() -> None:
    """COM_BINLOG_DUMP has 32 bits for the position."""
    assert dump_command(7, "b.000001", 2**32 - 1) == (
        COM_BINLOG_DUMP,
        struct.pack("<IHI", 2**32 - 1, 0, 7) + b"b.000001",
    )
    command, payload = dump_command(7, "b.000001", 2**32)
    assert command == COM_BINLOG_DUMP_GTID
    assert struct.pack("<Q", 2**32) in payload


# Channels


class PiecesOfTls:
    """A connection through which packets come in TLS records of 16 KiB."""

    def __init__(self, payload: bytes) -> None:
        limit = 0xFFFFFF
        pieces = [payload[at : at + limit] for at in range(0, len(payload) + 1, limit)]
        self._bytes = b"".join(
            struct.pack("<I", len(piece))[:3] + bytes([number % 256]) + piece
            for number, piece in enumerate(pieces)
        )
        self._sock = self
        self._at = 0

    def cursor(self) -> Any:
        return nullcontext(self)

    def execute(self, statement: str) -> None:
        """Settings of the session."""

    def _execute_command(self, command: int, argument: bytes) -> None:
        """The stream begins."""

    def settimeout(self, seconds: float) -> None:
        """Everything is there already."""

    def recv_into(self, room: memoryview) -> int:
        piece = self._bytes[self._at : self._at + min(len(room), 16_384)]
        if not piece:
            raise TimeoutError
        self._at += len(piece)
        room[: len(piece)] = piece
        return len(piece)


def dump_of(event: bytes) -> BinlogDump:
    return BinlogDump(
        PiecesOfTls(b"\0" + event),  # type: ignore[arg-type]
        server_id=9,
        file="binlog.000001",
        position=4,
        heartbeat_s=1.0,
    )


def rows_event(length: int) -> bytes:
    event = struct.pack("<IBIIIH", 0, EventType.WRITE_ROWS, 1, length, 4 + length, 0)
    return event + bytes(length - len(event))


@pytest.mark.parametrize("length", [9_000_000, 16_777_214, 16_777_215, 40_000_000])
def test_an_event_of_many_megabytes_is_not_copied_with_each_of_its_pieces(length: int) -> None:
    """A packet is looked at when it is whole: else a large event costs its size squared."""
    dump = dump_of(rows_event(length))
    assert len([streamed for _ in range(4) for streamed in dump.read(1.0)]) == 1
    assert dump.position == 4 + length


def test_a_stream_that_gathers_holds_up_nobody_longer_than_its_limit() -> None:
    """Relay log files are opened between two reads, before their appliers purge them."""
    dump = dump_of(rows_event(100))
    assert [] == dump.read(0.0)
    deadline = time.monotonic() + 10
    while not (found := dump.read(0.01)):
        assert time.monotonic() < deadline
    assert (1, 104) == (len(found), dump.position)


OTHER_UUID = "4e11fa47-71ca-11e1-9e33-c80aa9429562"


def answer(**changes: Any) -> dict[str, Any]:
    status = {
        "Channel_Name": "C",
        "Source_UUID": "3e11fa47-71ca-11e1-9e33-c80aa9429562",
        "Source_Host": "h",
        "Source_Port": 1,
        "Auto_Position": 1,
        "Source_Log_File": "binlog.000001",
        "Read_Source_Log_Pos": 500,
        "Relay_Source_Log_File": "binlog.000001",
        "Exec_Source_Log_Pos": 500,
        "Retrieved_Gtid_Set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5",
        **{key: value for key, value in changes.items() if key[0].isupper()},
    }
    relay = changes.get("relay", ("relay-c.000002", 400))
    channel = {"channel_name": "c", "relay_log_file": relay[0], "relay_log_position": relay[1]}
    return {"replica_status": [status], "row": {"REPLICATION": {"channels": [channel]}}}


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        ({}, []),
        ({"relay": ("relay-c.000003", 4)}, []),
        ({"Retrieved_Gtid_Set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"}, []),
        ({"Source_UUID": ""}, []),
        ({"Source_UUID": OTHER_UUID}, []),
        ({"Source_UUID": OTHER_UUID, "Source_Port": 2}, []),
        ({"Source_UUID": OTHER_UUID, "relay": ("relay-c.000001", 157)}, ["change_source"]),
        ({"Source_Port": 2, "relay": ("", 0)}, ["change_source"]),
        ({"Source_Port": 2, "Retrieved_Gtid_Set": ""}, ["change_source"]),
        ({"Auto_Position": 0}, ["change_source"]),
        ({"relay": ("", 0)}, ["reset"]),
        ({"relay": ("relay-c.000001", 900)}, ["reset"]),
        ({"Retrieved_Gtid_Set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:7-9"}, ["reset"]),
        ({"Retrieved_Gtid_Set": "cut off"}, []),
        ({"Retrieved_Gtid_Set": None}, []),
        ({"Retrieved_Gtid_Set": ""}, ["reset"]),
        ({"Read_Source_Log_Pos": 400}, []),
        ({"Source_Log_File": "another.000001", "Read_Source_Log_Pos": 400}, []),
        ({"Read_Source_Log_Pos": "none", "Exec_Source_Log_Pos": "none"}, []),
        ({"Read_Source_Log_Pos": None, "Exec_Source_Log_Pos": None}, []),
        ({"Source_Log_File": "", "Relay_Source_Log_File": None}, []),
        ({"Source_Host": "other"}, []),
        ({"Source_Host": "other", "relay": ("relay-c.000002", 399)}, ["change_source"]),
        ({"Source_Host": "other", "Source_UUID": ""}, []),
        ({"relay": ("relay-d.000001", 4)}, []),
        ({"relay": ("relay-c.000002", 400)}, []),
        ({"relay": ("relay-c.000002", 399)}, ["reset"]),
    ],
)
def test_what_was_done_to_a_channel_is_seen_in_its_rows(
    changes: dict[str, Any], actions: list[str]
) -> None:
    """What only grows is no act; what falls or shrinks is one, maybe with another source."""
    watch = ChannelWatch()
    assert [r["action"] for r in watch.note(answer(), ())] == ["change_source"]
    assert [r["action"] for r in watch.note(answer(**changes), ())] == actions


@pytest.mark.parametrize(
    ("changes", "actions"),
    [({"Source_UUID": OTHER_UUID}, []), ({"Source_Host": "other"}, ["change_source"])],
)
def test_a_channel_that_has_retrieved_nothing_by_gtid_has_another_address_by_a_command(
    changes: dict[str, Any], actions: list[str]
) -> None:
    """Nothing shows that its relay log goes on; at one address another server may answer."""
    watch = ChannelWatch()
    watch.note(answer(Retrieved_Gtid_Set=""), ())
    now = answer(Retrieved_Gtid_Set="", relay=("relay-c.000002", 500), **changes)
    assert [r["action"] for r in watch.note(now, ())] == actions


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"Retrieved_Gtid_Set": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"}, True),
        ({"Relay_Log_File": "relay-c.000003", "Relay_Log_Pos": 4}, True),
        ({"Channel_Name": "other"}, False),
        ({"Relay_Log_Pos": 399}, False),
        ({"Retrieved_Gtid_Set": ""}, False),
        ({"Auto_Position": 0}, False),
        ({"Source_Host": "other", "Relay_Log_Pos": 157}, False),
    ],
)
def test_a_second_status_shows_whether_channels_went_on(
    changes: dict[str, Any], expected: bool
) -> None:
    """What falls, or is of another source, is of a relay log that began anew."""
    relay = {"Relay_Log_File": "relay-c.000002", "Relay_Log_Pos": 400}
    (before,), (now,) = (answer(**relay | more)["replica_status"] for more in ({}, changes))
    assert went_on([before], [now]) is expected
    assert not went_on([before], [])
    assert not went_on([], [now])


def test_a_channel_that_goes_on_after_gtids_were_lost_is_not_reset() -> None:
    """What falls later is another server's position."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    watch.lost_gtids()
    for executed in (600, 400, 157):
        assert watch.note(answer(Exec_Source_Log_Pos=executed), ()) == []


def test_a_channel_by_position_may_connect_anew_further_back() -> None:
    """As after CHANGE REPLICATION SOURCE to an earlier position: no relay log began anew."""
    watch = ChannelWatch()
    watch.note(answer(Auto_Position=0), ())
    for file, position, actions in (
        ("binlog.000001", 500, []),
        ("binlog.000001", 499, ["reconnect"]),
        ("binlog.000002", 4, []),
        ("binlog.000001", 600, ["reconnect"]),
    ):
        now = answer(Auto_Position=0, Source_Log_File=file, Read_Source_Log_Pos=position)
        assert [one["action"] for one in watch.note(now, ())] == actions


SHORTER = ("relay-c.000001", 157)


@pytest.mark.parametrize(
    ("answers", "actions"),
    [
        # The server began anew and is not connected: its source is the one before.
        ([answer(Source_UUID=""), answer(Source_UUID=OTHER_UUID, relay=SHORTER)], "change_source"),
        ([answer(Source_UUID=""), answer(relay=SHORTER)], "reset"),
        ([answer(Source_UUID=""), answer()], None),
        # A relay log stays as empty as it was.
        ([answer(relay=("", 0)), answer(relay=("", 0))], None),
        ([answer(relay=("", 0)), answer(relay=SHORTER)], None),
    ],
)
@pytest.mark.parametrize("is_connected", [True, False])
def test_what_is_not_known_of_a_channel_meanwhile_is_what_was_known(
    answers: list[dict[str, Any]], actions: str | None, is_connected: bool
) -> None:
    """One that was never connected got its first source; no command gave it another one."""
    watch = ChannelWatch()
    watch.note(answer() if is_connected else answer(Source_UUID=""), ())
    watch.note(answers[0], ())
    if not is_connected and actions == "change_source":
        actions = "reset"
    records = watch.note(answers[1], ())
    expected = [] if actions is None else [actions]
    assert expected == [one["action"] for one in records]


def test_what_was_done_to_a_channel_and_was_recorded_is_no_news() -> None:
    """The next answer shows it; the one after that is compared with it."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    watch.renewed("c")
    assert watch.note(answer(relay=SHORTER, Auto_Position=0), ()) == []
    [record] = watch.note(answer(relay=("relay-c.000001", 4), Auto_Position=0), ())
    assert "reset" == record["action"]
    watch.renewed("new")
    assert {"c", "new"} == watch.known.keys()


def test_a_channel_whose_relay_log_was_recorded_to_begin_anew_is_compared_with_nothing() -> None:
    """Nor is one whose removal was recorded; of a channel that is not known nothing changes."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    for name in ("c", "unknown"):
        watch.forget_received(name)
    assert {"c"} == watch.known.keys()
    assert watch.note(answer(relay=SHORTER, Retrieved_Gtid_Set=""), ()) == []
    again = ChannelWatch(watch.known)
    for name in ("c", "unknown"):
        again.removed(name)
    assert ["change_source"] == [one["action"] for one in again.note(answer(), ())]
    assert watch.note(answer(), ()) == []


@pytest.mark.parametrize("channels", [[], ["cut off"], [{"channel_name": "another"}]])
def test_a_channel_that_its_first_row_does_not_name_is_described(channels: list[Any]) -> None:
    """It was made between row and status."""
    watch = ChannelWatch()
    body = answer() | {"row": {"REPLICATION": {"channels": channels}}}
    assert ["change_source"] == [one["action"] for one in watch.note(body, ())]
    assert watch.note(answer(), ()) == []


def test_a_server_without_channels_has_one_without_a_name() -> None:
    """Neither its status nor its row names it."""
    watch = ChannelWatch()
    body = answer(Channel_Name=None)
    [channel] = body["row"]["REPLICATION"]["channels"]
    del channel["channel_name"]
    assert [""] == [one["channel"] for one in watch.note(body, ())]
    channel |= {"relay_log_file": "relay-c.000001"}
    assert [{"channel": "", "action": "reset"}] == watch.note(body, ())


@pytest.mark.parametrize("auto", [0, 1, "0", "1"])
def test_a_channel_that_is_new_is_described(auto: object) -> None:
    """By its row, and by what the server says of its source; a row alone is enough."""
    watch = ChannelWatch()
    source = {"channel": "C", "host": "h", "action": "other", "auto_position": False}
    [record] = watch.note(answer(Auto_Position=auto), [source])
    assert {**source, "action": "change_source"} == record
    [record] = ChannelWatch().note(answer(Auto_Position=auto), ())
    is_auto = auto in (1, "1")
    assert {"channel": "c", "action": "change_source", "auto_position": is_auto} == record


def test_a_relay_log_that_lacks_something_was_not_reset_where_that_is_known() -> None:
    """Then it has lost what it lacks; a channel that was given another source is recorded."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    shorter = answer(relay=("relay-c.000001", 157))
    assert watch.note(shorter, (), may_be_reset=False) == []
    other = answer(relay=("relay-c.000001", 157), Auto_Position=0)
    assert ["change_source"] == [one["action"] for one in watch.note(other, (), may_be_reset=False)]


@pytest.mark.parametrize(
    "body",
    [{"error": "away"}, {"replica_status": []}, {"row": {}}, {"replica_status": None, "row": {}}],
)
def test_an_answer_without_a_status_or_a_row_shows_nothing_of_channels(body: Any) -> None:
    """What was known stays known: that of a channel which is missing is not that it is gone."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    assert watch.note(body, ()) == []
    assert watch.note(answer(), ()) == []


@pytest.mark.parametrize("replication", [None, "cut off", [], {}, {"channels": None}])
def test_a_row_that_names_no_channels_says_nothing_of_their_relay_logs(replication: Any) -> None:
    """As of a server that has another form of log_status: what was known stays known."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    without = answer() | {"row": {"REPLICATION": replication}}
    assert watch.note(without, ()) == []
    [record] = watch.note(answer(relay=("relay-c.000001", 900)), ())
    assert "reset" == record["action"]


@pytest.mark.parametrize("has_lost_gtids", [True, False])
def test_a_channel_received_from_the_beginning_was_reset(has_lost_gtids: bool) -> None:
    """Its relay log may have outgrown the previous one; only a RESET of both explains it."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    if has_lost_gtids:
        watch.lost_gtids()
    for changes in ({"Relay_Source_Log_File": ""}, {"Exec_Source_Log_Pos": 157}):
        records = watch.note(answer(relay=("relay-c.000003", 900), **changes), ())
    assert [r["action"] for r in records] == (["reset"] if has_lost_gtids else [])
    assert watch.note(answer(relay=("relay-c.000003", 950), Exec_Source_Log_Pos=150), ()) == []


def test_a_channel_that_is_gone_was_reset_with_all() -> None:
    """The list of channels is the server's own."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    gone = {"replica_status": [], "row": {"REPLICATION": {"channels": []}}}
    assert watch.note(gone, ()) == [{"channel": "c", "action": "reset_all"}]


def test_a_channel_that_is_made_anew_behind_a_row_without_it_was_reset() -> None:
    """RESET REPLICA ALL came between status and row: its relay log is shorter than it was."""
    watch = ChannelWatch()
    watch.note(answer(), ())
    without = answer()
    without["row"]["REPLICATION"]["channels"] = []
    assert watch.note(without, ()) == []
    anew = answer(relay=("relay-c.000001", 157))
    assert watch.note(anew, ()) == [{"channel": "c", "action": "reset"}]


# Relay log files


def event(event_type: int, body: bytes = b"") -> bytes:
    whole = struct.pack("<IBIIIH", 1, event_type, 7, 23 + len(body), 0, 0) + body
    return whole + struct.pack("<I", zlib.crc32(whole))


HEAD = b"\xfebin" + event(
    EventType.FORMAT_DESCRIPTION,
    struct.pack("<H50sI", 4, b"8.0.31", 0) + bytes([19]) + bytes(40) + b"\x01",
)


def opened_at(seconds: int) -> bytes:
    """The beginning of a file that the server opened then."""
    return HEAD[:4] + struct.pack("<I", seconds) + HEAD[8:]


def rotate(name: str) -> bytes:
    return event(EventType.ROTATE, struct.pack("<Q", 4) + name.encode())


def relay(tmp_path: Path) -> RelayFiles:
    return RelayFiles(LocalDirectory(tmp_path), "relay", RelayCursor(1, 4))


def types(files: RelayFiles, **more: Any) -> list[int | None]:
    """The types of the events that are read; None for what has gone unread."""
    found: list[int | None] = []
    for each in files.read(**more):
        if isinstance(each, EventRun):
            found += each.types.tolist()
        else:
            found.append(None if each is None else each.type)
    return found


def test_relay_files_are_followed_event_by_event(tmp_path: Path) -> None:
    """Half an event waits for its rest, and a ROTATE leads to the next file."""
    first, second = tmp_path / "relay.000001", tmp_path / "relay.000002"
    xid = event(EventType.XID, bytes(8))
    first.write_bytes(HEAD + xid[:10])
    files = relay(tmp_path)
    assert types(files) == [EventType.FORMAT_DESCRIPTION]
    first.write_bytes(HEAD + xid + rotate("relay.000002"))
    second.write_bytes(HEAD + xid)
    assert types(files) == [
        EventType.XID,
        EventType.ROTATE,
        EventType.FORMAT_DESCRIPTION,
        EventType.XID,
    ]
    assert files.cursor[:2] == (2, len(HEAD + xid))
    files.close()


@pytest.mark.parametrize(("server_id", "has_checksum"), [(7, True), (8, False)])
def test_a_description_of_no_source_does_not_change_the_checksums_of_a_relay_log(
    tmp_path: Path, server_id: int, has_checksum: bool
) -> None:
    """A channel of Group Replication begins with the server's own; a source's is followed."""
    sent = bytearray(HEAD[4:])
    sent[5:9] = struct.pack("<I", server_id)
    sent[13:19] = struct.pack("<IH", 0, 0x20)  # log_pos and flags: artificial
    sent[-5] = 0
    closing = bytearray(rotate("relay.000002"))
    if not has_checksum:
        closing = closing[:-4]
        closing[9:13] = struct.pack("<I", len(closing))
    (tmp_path / "relay.000001").write_bytes(HEAD + sent + closing)
    files = relay(tmp_path)
    *_, last = files.read()
    assert isinstance(last, LogEvent)
    assert ("relay.000002", has_checksum) == (last.fields["text"], "checksum" in last.fields)
    assert files.cursor.goes_on
    files.close()


def test_no_more_is_read_than_a_row_names(tmp_path: Path) -> None:
    """What lies beyond the coordinates comes after the row."""
    xid = event(EventType.XID, bytes(8))
    (tmp_path / "relay.000001").write_bytes(HEAD + xid + xid)
    files = relay(tmp_path)
    assert types(files, upto=(1, len(HEAD + xid))) == [15, EventType.XID]
    assert types(files) == [EventType.XID]
    files.close()


def test_a_file_of_the_next_boot_waits_for_its_start(tmp_path: Path) -> None:
    """No ROTATE leads to a file that a start of the server opened."""
    (tmp_path / "relay.000001").write_bytes(HEAD)
    (tmp_path / "relay.000002").write_bytes(HEAD)
    files = relay(tmp_path)
    assert types(files) == [15]
    assert types(files) == []
    files.starts += 1
    assert types(files) == [15]
    files.close()


def test_a_purged_file_is_lost_only_where_no_start_can_hide(tmp_path: Path) -> None:
    """A file that is gone is passed over when the server is known to have lived on."""
    first = tmp_path / "relay.000001"
    first.write_bytes(HEAD + rotate("relay.000002"))
    files = relay(tmp_path)
    assert len(types(files)) == 2
    first.unlink()
    (tmp_path / "relay.000003").write_bytes(HEAD)
    assert types(files) == []
    assert (files.is_stopped, files.lost) == (True, False)
    files.jumps = True
    assert types(files) == [None, 15]
    files.close()


@pytest.mark.parametrize("has_stopped", [False, True])
def test_files_that_began_again_at_one_are_not_read_as_the_old_ones(
    tmp_path: Path, *, has_stopped: bool
) -> None:
    """After RESET REPLICA the rest of the old file is read, and nothing of the new ones.

    A file that ended with the server has a successor of the next start: that was not read.
    """
    (tmp_path / "relay.000001").write_bytes(HEAD + rotate("relay.000002"))
    (tmp_path / "relay.000002").write_bytes(HEAD + event(EventType.STOP) * has_stopped)
    files = relay(tmp_path)
    assert len(types(files)) == 3 + has_stopped
    for path in tmp_path.iterdir():
        path.unlink()
    (tmp_path / "relay.000001").write_bytes(HEAD)
    assert types(files) == []
    assert (files.is_anew, files.lost) == (True, has_stopped)
    files.close()


def test_a_state_is_json(tmp_path: Path) -> None:
    """People may look at it."""
    TailState(epoch=3).save(tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["epoch"] == 3


def test_a_file_that_was_seen_is_read_although_it_was_purged(tmp_path: Path) -> None:
    """An open file outlives its name: nothing is lost, and no start can hide in it."""
    paths = [tmp_path / f"relay.00000{number}" for number in (1, 2, 3)]
    paths[0].write_bytes(HEAD)
    paths[1].write_bytes(HEAD + rotate("relay.000003"))
    paths[2].write_bytes(HEAD)
    files = relay(tmp_path)
    assert types(files) == [15]
    paths[0].unlink()
    paths[1].unlink()
    files.starts += 1
    assert types(files) == [15, EventType.ROTATE, 15]
    assert (files.cursor.number, files.lost, files.is_stopped) == (3, False, False)
    files.close()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_relay_log_is_of_the_source_that_was_described_before_and_after(
    tmp_path: Path, *, is_late: bool
) -> None:
    """A channel pointed elsewhere and back: each file is read under its own source, or not at all.

    The second change comes between the descriptions, or when both have shown the first one.
    """
    sink = MemorySink()
    journal = TailJournal("a", sink, TailState(epoch=1), state_file=None, clock=time.monotonic)
    relays = RelayLogs(LocalDirectory(tmp_path), journal, print, lambda: 1)
    history = ServerHistory(
        "a", journal, relays, notice=print, clock_us=lambda: 1, from_oldest=False
    )
    path = tmp_path / "relay.000002"
    path.write_bytes(HEAD)
    relays.open({"": path.name}, {})
    relays.record(1)

    def point_to(*events: bytes) -> None:
        path.unlink(missing_ok=True)
        (tmp_path / "relay.000001").unlink(missing_ok=True)
        (tmp_path / "relay.000001").write_bytes(HEAD + b"".join(events))
        relays.read()

    def describe(ts: int, source: str, changes: int) -> None:
        assert history.wants_channels
        channel = {"channel": "", "action": "change_source", "source_uuid": source}
        history.describe_channels(ChannelsRead(ts, [channel], changes))

    point_to(event(EventType.XID, bytes(8)))
    describe(2, "b", 1)
    if is_late:
        describe(3, "b", 1)
    point_to(event(EventType.STOP))
    if not is_late:
        describe(3, "c", 2)
        describe(4, "c", 2)
    history.note_log_end(LogEnd(5, None, 0, ("", 0)))
    history.release(None)
    for _ in range(2):
        relays.read()
    relays.record(6)
    assert history.wants_channels == is_late
    journal.save()
    records = [json.loads(line) for line in block_to_lines(concatenate(sink.blocks))]
    seen = [one.get("source_uuid") or one.get("type") or one["kind"] for one in records]
    received = (
        ["b", "FORMAT_DESCRIPTION", "XID"] if is_late else ["c", "FORMAT_DESCRIPTION", "STOP"]
    )
    assert seen == ["observer", "FORMAT_DESCRIPTION", "heartbeat", "gap", *received]
    relays.forget()


@pytest.mark.parametrize(("uuids", "is_lost"), [(0, False), (1, True)])
def test_the_first_file_of_a_relay_log_is_not_missed_when_it_was_empty(
    tmp_path: Path, uuids: int, *, is_lost: bool
) -> None:
    """A receiver that connects begins the second one; the first is purged at once."""
    one = bytes(16) + struct.pack("<QQQ", 1, 1, 2)
    previous = event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", uuids) + one * uuids)
    (tmp_path / "relay.000002").write_bytes(HEAD + previous)
    files = relay(tmp_path)
    files.hold()
    files.jumps = True
    head = [EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS]
    assert types(files) == [None] * is_lost + head
    files.close()


def test_a_relay_log_file_that_is_gone_as_soon_as_it_is_listed_is_not_held(tmp_path: Path) -> None:
    """RESET REPLICA ALL removes files between two looks at them."""
    (tmp_path / "relay.000002").symlink_to(tmp_path / "gone")
    files = relay(tmp_path)
    begin = files.cursor
    files.hold()
    assert files.cursor == begin
    files.close()
