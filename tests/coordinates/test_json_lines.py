"""The journal as text: read strictly, written in full, the same after a round trip."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.coordinates.events._record_fields import read_server_record
from tallystick.coordinates.events.journal import ABSENT, QueryVerb, RecordType, Stream, concatenate
from tallystick.coordinates.events.json_lines import (
    BAD_LINES_MAX,
    JsonLinesError,
    blocks_from_lines,
)
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.errors import JournalError

UUID = "aaaaaaaa-0000-0000-0000-000000000001"
CONTRACT = (Path(__file__).parents[2] / "docs" / "journal.md").read_text(encoding="utf-8")


def event(**fields):
    """A binary log event with what every event needs."""
    record = {
        "kind": "binlog", "instance": "a", "file": "binlog.000001", "start": 157, "length": 31,
        "type": "XID",
    }  # fmt: skip
    return {key: value for key, value in {**record, **fields}.items() if value is not None}


def server_record(kind, **fields):
    return {"kind": kind, "instance": "a", **fields}


def redo(type_name, **fields):
    return {"kind": "redo", "instance": "a", "type": type_name, "lsn": 9000, **fields}


def read(*records, **options):
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return list(blocks_from_lines(lines, **options))


def only(*records):
    (block,) = read(*records)
    return block


def written(blocks):
    return [line for block in blocks for line in block_to_lines(block)]


# Reading


def test_the_journal_of_the_documentation_is_read():
    """The contract's example is a journal, and it survives a round trip."""
    example = re.search(r"```json\n(.*?)```", CONTRACT, re.DOTALL)[1].splitlines()
    block = only(*example)
    assert len(block) == 9
    assert block.columns["ts"].tolist() == list(range(1, 10))
    assert block.body(8)["row"]["LOCAL"]["binary_log_position"] == 457
    assert written(blocks_from_lines(written([block]))) == written([block])


def test_the_event_types_of_the_documentation_are_known():
    """Each `NAME` code of the contract is that of the code, and none is left out."""
    types = re.search(r"^Types: (.*?)\. Any other", CONTRACT, re.DOTALL | re.MULTILINE)[1]
    named = re.findall(r"`([A-Z_0-9]+)`\s(\d+)", types)
    known = {one.name: one.value for one in EventType}
    parts = {"UNKNOWN", "APPEND_BLOCK", "DELETE_FILE"}
    assert {word: int(code) for word, code in named} == {
        word: code for word, code in known.items() if word not in parts
    }


@pytest.mark.parametrize("code", [0, 200, 255])
def test_any_other_type_is_read_by_its_code(code):
    [block] = blocks_from_lines([json.dumps(event(type=code))])
    assert [code] == block.columns["type"].tolist()


def test_the_kinds_of_the_documentation_are_known():
    """Each kind of server record has its heading in the contract, and no other."""
    section = CONTRACT[CONTRACT.index("## Server records") : CONTRACT.index("## Blocks")]
    documented = set(re.findall(r"^(?:###|-) `(\w+)` — ", section, re.MULTILINE))
    assert documented == {record_type.name.lower() for record_type in RecordType}


def test_the_fields_of_an_event_reach_their_columns():
    """Each field of the contract is a column; what is not given is absent."""
    block = only(
        event(type="GTID", gtid=f"{UUID}:7", last_committed=3, sequence_number=4,
              transaction_length=300, original_commit_timestamp=5, log_pos=6, flags=32,
              server_id=9, checksum=10, ts=11),
        event(type=2, query="XA COMMIT"),
        event(type="ROTATE", next_file="binlog.000002", next_position=99),
        event(type="ROTATE", next_file="binlog.000002"),
        event(type="PREVIOUS_GTIDS", gtid_set=""),
        event(kind="relay", channel="ch", type=200),
    )  # fmt: skip
    first = {name: int(column[0]) for name, column in block.columns.items()}
    assert first == {
        "stream": 1, "type": 33, "flags": 32, "query": 0, "ts": 11, "channel": ABSENT, "file": 0,
        "start": 157, "length": 31, "log_pos": 6, "server_id": 9, "checksum": 10, "sid": 0,
        "gno": 7, "last_committed": 3, "sequence_number": 4, "transaction_length": 300,
        "original_commit_timestamp": 5, "value": ABSENT,
    }  # fmt: skip
    assert block.sids == (UUID,)
    assert block.files == ("binlog.000001",)
    assert block.columns["query"].tolist() == [0, QueryVerb.XA_COMMIT, 0, 0, 0, 0]
    assert block.columns["value"].tolist() == [ABSENT, ABSENT, 99, 4, ABSENT, ABSENT]
    assert dict(block.texts) == {2: "binlog.000002", 3: "binlog.000002", 4: ""}
    assert block.columns["stream"].tolist() == [Stream.BINLOG] * 5 + [Stream.RELAY]
    assert block.channels == ("ch",)
    assert block.columns["log_pos"].tolist()[1:] == [ABSENT] * 5


@pytest.mark.parametrize(
    "record",
    [
        event(kind="relay"),
        server_record("gap"),
        server_record("channel", action="reset"),
        server_record("info_write", table="slave_worker_info", reason="xid", row={}),
    ],
    ids=lambda record: record["kind"],
)
def test_a_channel_has_one_name_in_any_case_as_long_as_the_server_takes(record):
    """A record about "East" is about "east"; no server has a name of 65 characters."""
    for written, kept in (("East", "east"), ("É" * 64, "é" * 64)):
        block = only({**record, "channel": written})
        assert block.channels == (kept,)
        assert block.columns["stream"][0] != Stream.SERVER or block.body(0)["channel"] == kept
    with pytest.raises(JsonLinesError, match=r"key 'channel': .* at most 64 characters"):
        only({**record, "channel": "e" * 65})


@pytest.mark.parametrize(
    ("text", "sid", "gno"),
    [
        (f"{UUID}:1", UUID, 1),
        (f"{UUID.upper()}:1", UUID, 1),
        (f"{UUID}:tag_1:8", f"{UUID}:tag_1", 8),
        (f" {UUID} : 0x10 ", UUID, 16),
        (f"{UUID}:9223372036854775806", UUID, 2**63 - 2),
    ],
)
def test_a_gtid_is_read_in_any_spelling_of_the_server(text, sid, gno):
    """UUIDs are lowered, numbers are what the server makes of them."""
    block = only(event(type="GTID", gtid=text))
    assert (block.sids, block.columns["gno"].tolist(), dict(block.texts)) == ((sid,), [gno], {})


@pytest.mark.parametrize(
    "text", ["", "x", f"{UUID}:0", f"{UUID}:9223372036854775807", f"{UUID}:1-2"]
)
def test_a_gtid_that_cannot_be_read_is_kept_for_the_audit(text):
    """It is the server's mistake, not the file's: the raw text stays."""
    block = only(event(type="GTID", gtid=text))
    assert block.columns["gno"].tolist() == [ABSENT]
    assert block.columns["sid"].tolist() == [ABSENT]
    assert dict(block.texts) == {0: text}
    assert json.loads(written([block])[0])["gtid"] == text


def test_times_that_are_not_given_follow_the_line_before():
    """Without `ts` the order of lines is the order of the records, across instances."""
    records = [
        server_record("stop"),
        {**server_record("stop"), "instance": "b"},
        server_record("stop", ts=50),
        server_record("stop"),
    ]
    blocks = read(*records, "", "  \n", {**server_record("stop"), "instance": "b"})
    assert {b.instance_id: b.columns["ts"].tolist() for b in blocks} == {
        "a": [1, 50, 51],
        "b": [2, 52],
    }


def test_a_gap_in_the_sequence_is_a_gap_between_blocks():
    """Records that transport lost stay lost: nothing closes the gap."""
    blocks = read(
        server_record("stop", sequence=5),
        server_record("stop"),
        server_record("stop", sequence=9),
        server_record("stop", epoch=2),
        server_record("stop", epoch=2, sequence=1),
        server_record("stop", epoch=2, sequence=1, ts=1),
    )
    assert [(b.epoch, b.first_sequence, len(b)) for b in blocks] == [
        (0, 5, 2), (0, 9, 1), (2, 0, 2), (2, 1, 1),
    ]  # fmt: skip


def test_blocks_leave_in_windows():
    """One full instance sends off all: no block reaches back beyond its window."""
    names = "aabaaacbba"
    records = [{"kind": "heartbeat", "instance": name} for name in names]
    blocks = read(*records, block_size=3)
    seen = [(b.instance_id, b.columns["ts"].tolist()) for b in blocks]
    assert seen == [("a", [1, 2, 4]), ("b", [3]), ("a", [5, 6, 10]), ("c", [7]), ("b", [8, 9])]
    assert [b.first_sequence for b in blocks if b.instance_id == "a"] == [0, 3]


def test_gaps_do_not_keep_a_window_open():
    """Lines that jump in sequence fill the window too."""
    lines = (json.dumps(server_record("gap", sequence=2 * i)) for i in itertools.count())
    blocks = blocks_from_lines(lines, block_size=4)
    assert [next(blocks).first_sequence for _ in range(4)] == [0, 2, 4, 6]


def test_the_end_counts_as_a_heartbeat_of_every_instance():
    """At the largest time of the file, so that nothing waits any longer."""
    blocks = read(
        server_record("stop", ts=9),
        {**server_record("stop", ts=4), "instance": "b"},
        end_heartbeats=True,
    )
    ends = [(b.instance_id, b.first_sequence, b.columns["ts"].tolist()) for b in blocks[2:]]
    assert ends == [("a", 1, [9]), ("b", 1, [9])]
    assert all(b.columns["type"].tolist() == [RecordType.HEARTBEAT] for b in blocks[2:])


def test_old_names_of_variables_are_read():
    """One name is stored whatever the server called it."""
    block = only(
        server_record("variables", variables={"log_slave_updates": False, "sync_master_info": 5})
    )
    assert block.body(0)["variables"] == {"log_replica_updates": False, "sync_source_info": 5}


@pytest.mark.parametrize(
    ("text", "value"),
    [("ON", True), ("off", False), ("Yes", True), ("NO", False), ("1", True), ("0", False)],
)
def test_a_switch_is_read_as_servers_print_it(text, value):
    """SHOW VARIABLES has ON and OFF, an option file what its author wrote."""
    block = only(server_record("variables", variables={"log_bin": text}))
    assert block.body(0)["variables"] == {"log_bin": value}


def test_a_row_may_come_before_the_events_that_it_refers_to():
    """Its time bounds nothing; those of events and other records do."""
    row = server_record("log_status", collection_id="c", ts=9)
    block = only(event(ts=4), row, event(ts=5), server_record("stop", ts=6))
    assert block.columns["ts"].tolist() == [4, 9, 5, 6]
    with pytest.raises(JsonLinesError, match="expected at least 5"):
        read(event(ts=5), row, event(ts=4))


def test_values_nested_too_deeply_are_a_bad_line_at_any_depth():
    """Whether a reader or a writer of JSON gives up first: one goes a few levels further."""
    problems, whole = set(), 0
    for depth in range(1, 1_100):
        row = f'{{"x":{"[" * depth}{"]" * depth}}}'
        line = f'{{"kind":"log_status","instance":"a","collection_id":"c","row":{row}}}'
        whole += len(list(blocks_from_lines([line], on_bad_line=problems.add)))
    assert whole > 500
    assert all("nested" in error.problem for error in problems)


def test_a_fact_keeps_its_body_as_given():
    """Unknown keys of what a server said are kept."""
    row = {"SERVER_UUID": 5, "NEW": [1, None, {"x": 2**70}], "LOCAL": '{"a":1}'}
    block = only(
        server_record("log_status", collection_id="c", row=row, replica_status=[{"Whatever": None}])
    )
    assert block.body(0) == {
        "collection_id": "c",
        "row": row,
        "replica_status": [{"Whatever": None}],
    }


REPLAY = server_record(
    "backup",
    step="replay",
    backup_id="monday",
    peer="s",
    from_file="binlog.000001",
    from_position=4,
)
REFUSED = [
    ("[]", None, "expected a JSON object"),
    ("{", None, "expected a JSON object"),
    ('{"kind":"stop","instance":"a","ts":NaN}', None, "NaN is no JSON"),
    ('{"kind":"stop","instance":"a","instance":"b"}', None, "'instance' occurs twice"),
    ("[" * 100_000, None, "expected a JSON object (nested too deeply)"),
    ("9" * 5000, None, "expected a JSON object (a number of too many digits)"),
    ({"instance": "a"}, "kind", "one of binlog, relay, redo, start"),
    ({"kind": "Stop", "instance": "a"}, "kind", "found 'Stop'"),
    ({"kind": [], "instance": "a"}, "kind", "found []"),
    ({"kind": "stop"}, "instance", "expected this key"),
    ({"kind": "stop", "instance": ""}, "instance", "not empty"),
    ({"kind": "stop", "instance": {}}, "instance", "expected text"),
    ('{"kind":"stop","instance":"\\ud800"}', "instance", "lone surrogates"),
    (server_record("stop", ts=-1), "ts", "found -1"),
    (server_record("stop", ts=True), "ts", "found True"),
    (server_record("stop", ts=1.0), "ts", "found 1.0"),
    (server_record("stop", ts=2**63), "ts", "an integer from 0 to 9223372036854775807"),
    (server_record("stop", sequence=-1), "sequence", "found -1"),
    (server_record("stop", epoch="0"), "epoch", "found '0'"),
    (server_record("stop", file="x"), "file", "no such key, only clean"),
    (server_record("stop", clean=1), "clean", "true or false, found 1"),
    (event(file=None), "file", "expected this key"),
    (event(start=None), "start", "expected this key"),
    (event(length=None), "length", "expected this key"),
    (event(type=None), "type", "a MySQL event type"),
    (event(type="XIDS"), "type", "found 'XIDS'"),
    (event(type="Gtid"), "type", "code (0 to 255) (did you mean 'GTID'?), found 'Gtid'"),
    (event(type="Format_desc"), "type", "(did you mean 'FORMAT_DESCRIPTION'?)"),
    (event(type="nothing"), "type", "code (0 to 255), found 'nothing'"),
    (event(type=256), "type", "found 256"),
    (event(type=True), "type", "found True"),
    (event(start=-1), "start", "found -1"),
    (event(start=2**63 - 1), "start", "ends at most"),
    (event(length=0), "length", "an integer from 1"),
    (event(log_pos=2**32), "log_pos", "an integer from 0 to 4294967295"),
    (event(flags=65536), "flags", "to 65535"),
    (event(server_id="1"), "server_id", "found '1'"),
    (event(file="binlog"), "file", "base.NNNNNN"),
    (event(file="./binlog.000001"), "file", "without a directory"),
    (event(file=["binlog.000001"]), "file", "expected text"),
    (event(channel="c"), "channel", "no such key"),
    (event(gtid=f"{UUID}:1"), "gtid", "no such key"),
    (event(query="BEGIN"), "query", "no such key"),
    (event(type="QUERY"), "query", "expected this key"),
    (event(type="QUERY", query="begin"), "query", "one of BEGIN, COMMIT"),
    (event(type="GTID"), "gtid", "expected this key"),
    (event(type="GTID", gtid=5), "gtid", "expected text"),
    (event(type="PREVIOUS_GTIDS"), "gtid_set", "expected this key"),
    (event(type="ROTATE"), "next_file", "expected this key"),
    (event(type="ROTATE", next_file="x"), "next_file", "base.NNNNNN"),
    (event(kind="relay"), "channel", "expected this key"),
    (server_record("clone", step="end"), "role", "expected this key"),
    (server_record("clone", step="stage", role="recipient"), "stage", "expected this key"),
    (server_record("clone", step="commit", role="donor"), "binlog_file", "expected this key"),
    (server_record("clone", step="order_forced", role="recipient"), "role", "expected donor, "),
    (server_record("clone", step="found", role="donor"), "role", "expected recipient, "),
    (server_record("gtid_persister", step="commit", trx_no=1), "gtid", "expected this key"),
    (server_record("gtid_persister", step="prepare", gtid="x:1"), "gtid", "a GTID, as "),
    (server_record("gtid_persister", step="prepare", gtid=f"{UUID}:1-2"), "gtid", "a GTID, as "),
    (server_record("gtid_persister", step="purge"), "trx_no", "expected this key"),
    (server_record("gtid_persister", step="write", gtids="1"), "gtids", "a GTID set ("),
    (REPLAY | {"excluded": f"{UUID}:"}, "excluded", "a GTID set ("),
    (REPLAY | {"stop_gtid": "5"}, "stop_gtid", "a GTID set ("),
    (server_record("start"), "server_uuid", "expected this key"),
    (server_record("start", server_uuid="db1"), "server_uuid", "expected a UUID, found 'db1'"),
    (server_record("start", server_uuid=UUID, profile="x"), "profile", "one of mysql-8.0, wl9452"),
    (
        server_record("start", server_uuid=UUID, variables={"log_bin": "x"}),
        "variables.log_bin",
        "'x'",
    ),
    (
        server_record("start", server_uuid=UUID, recovered={"file": "b.000001"}),
        "recovered.position",
        "this",
    ),
    (
        server_record("start", server_uuid=UUID, repositories=[{}, {"option": "X"}]),
        "repositories[1].option",
        "one of FILE, TABLE",
    ),
    (
        server_record(
            "variables", variables={"log_slave_updates": True, "log_replica_updates": True}
        ),
        "variables.log_replica_updates",
        "only once",
    ),
    (server_record("binlog_purge"), "to_file", "expected this key"),
    (server_record("gtid_purged"), "added", "expected this key"),
    (server_record("channel", channel=""), "action", "expected this key"),
    (server_record("channel", channel="", action="x"), "action", "one of change_source"),
    (server_record("channel", action="reset"), "channel", "expected this key"),
    (
        server_record("channel", channel="", action="reset", to_file="x.000001"),
        "to_file",
        "no such key",
    ),
    (server_record("channel", channel="", action="relay_purge"), "to_file", "expected this key"),
    (server_record("log_status"), "collection_id", "expected this key"),
    (
        server_record("log_status", collection_id="c", error={"text": 1}),
        "error.text",
        "no such key",
    ),
    (
        server_record("log_status", collection_id="c", binary_logs=[{"size": 1}]),
        "binary_logs[0].name",
        "this key",
    ),
    (
        server_record(
            "log_status", collection_id="c", slave_master_info=[{"User_password": "secret"}]
        ),
        "slave_master_info[0].User_password",
        "must not be collected",
    ),
    (
        server_record("collection", collection_id="c", session=1, step="lock"),
        "resource",
        "this key",
    ),
    (
        server_record("collection", collection_id="c", session=1, step="lock", resource="x"),
        "resource",
        "channel:NAME",
    ),
    (server_record("info_write", table="x", channel="", reason="xid", row={}), "table", "one of"),
    (server_record("zone", step="enter"), "ticket", "expected this key"),
    (server_record("backup_lock", step="lock"), "lock", "expected this key"),
    (
        server_record("clone", step="stage", stage="file copy"),
        "stage",
        "one of DROP DATA, FILE COPY,",
    ),
    (server_record("heartbeat", file="x"), "file", "no such key"),
    (redo("WRITE", start_lsn=8192, x=1), "x", "only lsn, start_lsn, block_number, data_length,"),
    (redo("CHECKPOINT", start_lsn=8192), "start_lsn", "no such key"),
    (redo("FLUSH", block_number=1), "block_number", "no such key"),
    (redo("flush"), "type", "one of"),
    (redo("FLUSH", lsn=-1), "lsn", "found -1"),
    (redo("FLUSH", lsn=2**63), "lsn", "an integer from 0 to 9223372036854775807"),
    (redo("FLUSH", lsn=True), "lsn", "found True"),
]


@pytest.mark.parametrize(("record", "key", "message"), REFUSED)
def test_what_the_contract_does_not_have_is_refused(record, key, message):
    """The error names line and key, what was found and what was expected."""
    line = record if isinstance(record, str) else json.dumps(record)
    with pytest.raises(JsonLinesError, match=re.escape(message)) as caught:
        list(blocks_from_lines(['{"kind":"gap","instance":"z"}', "", line]))
    assert (caught.value.line_number, caught.value.key) == (3, key)
    assert str(caught.value).startswith("line 3")
    assert isinstance(caught.value, JournalError)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_line_is_known_as_cut_short_wherever_that_is():
    """Not one of which the end is there, nor what begins as no record does."""
    body = {"channel": '}"\\}{', "a": [{}, True, -1.5, None], "☃": {}}
    line = json.dumps({"kind": "gap", "instance": "a", **body}, ensure_ascii=False).encode()

    def is_cut_short(line):
        with pytest.raises(JsonLinesError) as caught:
            list(blocks_from_lines([line]))
        return caught.value.is_cut_short

    for end in range(1, len(line)):
        assert is_cut_short(line[:end])
        assert not is_cut_short(line[:end] + b"\n")
    assert not any(map(is_cut_short, (line, line[1:], line + b"}", b'"', b"[", b"\xff", b"\xff{")))


def test_time_that_falls_within_an_instance_is_refused():
    """Its error names both times; another instance may be behind."""
    read(
        server_record("stop", ts=5),
        {**server_record("stop", ts=4), "instance": "b"},
        server_record("stop", ts=5),
    )
    with pytest.raises(JsonLinesError, match=r"line 2, key 'ts': expected at least 5.*found 4"):
        read(server_record("stop", ts=5), server_record("stop", ts=4))


NEAR = [
    (server_record("stop", clen=True), "clen", "(did you mean 'clean'?)"),
    (event(type="GTID", gtids=f"{UUID}:1"), "gtid", "this key, not 'gtids'"),
    (event(typ="XID") | {"type": None}, "type", "this key, not 'typ', a MySQL event type"),
    ({"knd": "stop", "instance": "a"}, "kind", "this key, not 'knd', one of binlog"),
    ({"kind": "stop", "instnce": "a"}, "instance", "this key, not 'instnce'"),
    (server_record("channel", channel="", actoin="reset"), "action", "this key, not 'actoin'"),
]


@pytest.mark.parametrize(("record", "key", "message"), NEAR)
def test_a_key_that_is_nearly_right_is_named(record, key, message):
    """Also where it is missing under its right name."""
    with pytest.raises(JsonLinesError, match=re.escape(message)) as caught:
        read(record)
    assert caught.value.key == key


def test_all_bad_lines_are_reported():
    """And no block comes after the first one."""
    lines = [
        json.dumps(server_record("stop")),
        "x",
        json.dumps(server_record("stop")),
        "{}",
        b"\xff",
        "[]",
    ]
    blocks = blocks_from_lines(lines, block_size=1)
    assert len(next(blocks)) == 1
    with pytest.raises(JsonLinesError) as caught:
        next(blocks)
    errors = (caught.value, *caught.value.others)
    assert [error.line_number for error in errors] == [2, 4, 5, 6]
    assert str(caught.value).count("\n") == 3
    assert "line 5: expected UTF-8" in str(caught.value)


def test_so_many_bad_lines_are_reported_and_no_more():
    """The rest is not read."""
    lines = iter(["x"] * 30)
    with pytest.raises(JsonLinesError) as caught:
        list(blocks_from_lines(lines))
    assert 1 + len(caught.value.others) == BAD_LINES_MAX == 20
    assert len(list(lines)) == 10


def skipped(*lines: object, **settings: object) -> list[tuple[str, int, int, list[str]]]:
    """Instance, epoch, first sequence and kinds of each block, bad lines being gaps."""
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    blocks = blocks_from_lines(text, on_bad_line=lambda _: None, **settings)
    return [
        (
            block.instance_id,
            block.epoch,
            block.first_sequence,
            [RecordType(code).name for code in block.columns["type"].tolist()],
        )
        for block in blocks
    ]


def test_a_skipped_line_is_a_gap_of_its_instance():
    """Two in a row are one gap; it comes with the next record, or at the end."""
    b = {**server_record("stop"), "instance": "b"}
    bad = server_record("stop", clean=3)
    assert skipped(server_record("stop"), b, bad, bad, server_record("heartbeat"), bad) == [
        ("a", 0, 0, ["STOP", "GAP", "HEARTBEAT", "GAP"]),
        ("b", 0, 0, ["STOP"]),
    ]


def test_a_skipped_line_counts_as_one_in_the_time_of_lines():
    """Without ``ts`` a record's time is its number, whatever the lines before it were."""
    lines = [json.dumps(server_record("stop")), "{}", json.dumps(server_record("heartbeat"))]
    [block] = blocks_from_lines(lines, on_bad_line=lambda _: None)
    assert (1, 3) == (int(block.columns["ts"][0]), int(block.columns["ts"][-1]))


def test_a_skipped_line_of_nobody_is_a_gap_of_everybody():
    """Also of an instance that comes later: the line may have been its start."""
    b, c = ({**server_record("stop"), "instance": name} for name in "bc")
    assert skipped(server_record("stop"), b, '{"kind":', server_record("stop"), c) == [
        ("a", 0, 0, ["STOP", "GAP", "STOP"]),
        ("b", 0, 0, ["STOP", "GAP"]),
        ("c", 0, 0, ["GAP", "STOP"]),
    ]
    assert skipped("rubbish", {"kind": "stop", "instance": 5}, server_record("stop")) == [
        ("a", 0, 0, ["GAP", "STOP"])
    ]


def test_a_gap_of_a_skipped_line_repeats_no_sequence():
    """The numbers that lines give count without the gaps put between them."""
    bad = server_record("stop", clean=3, sequence=1)
    rows = [server_record("stop", sequence=n) for n in range(4)]
    assert skipped(rows[0], bad, rows[2], rows[3]) == [
        ("a", 0, 0, ["STOP"]),
        ("a", 0, 2, ["GAP", "STOP", "STOP"]),
    ]
    unknown = skipped(
        rows[0], "rubbish", rows[1], rows[2], server_record("stop", epoch=1, sequence=0)
    )
    assert unknown == [
        ("a", 0, 0, ["STOP", "GAP", "STOP", "STOP"]),
        ("a", 1, 0, ["STOP"]),
    ]


def test_a_block_size_below_one_is_refused():
    """Our own mistakes are no journal errors."""
    with pytest.raises(ValueError, match="got 0"):
        read(block_size=0)


# Round trip

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
positions = st.integers(0, 2**62 - 1)
gtids = st.builds("{}:{}".format, st.sampled_from([UUID, f"{UUID}:t"]), st.integers(1, 2**63 - 2))
of_type = {
    EventType.QUERY: {"query": st.sampled_from([v.name.replace("_", " ") for v in QueryVerb if v])},
    EventType.GTID: {"gtid": gtids | texts},
    EventType.GTID_TAGGED: {"gtid": gtids},
    EventType.PREVIOUS_GTIDS: {"gtid_set": texts},
    EventType.ROTATE: {"next_file": st.just("binlog.1000000")},
}
of_group = ("last_committed", "sequence_number", "transaction_length", "original_commit_timestamp")
bodies = st.dictionaries(texts, st.none() | st.integers() | texts | st.lists(texts), max_size=3)


@st.composite
def events(draw):
    event_type = draw(st.sampled_from([*of_type, *EventType, 99]))
    record = {
        "kind": draw(st.sampled_from(["binlog", "relay"])),
        "file": draw(st.sampled_from(["binlog.000001", "other.000002"])),
        "start": draw(positions),
        "length": draw(st.integers(1, 2**62)),
        "type": event_type.name if isinstance(event_type, EventType) else event_type,
    }
    if record["kind"] == "relay":
        record["channel"] = draw(st.sampled_from(["", "ch", "é"]))
    record |= {key: draw(value) for key, value in of_type.get(event_type, {}).items()}
    optional = {
        "log_pos": st.integers(0, 2**32 - 1),
        "flags": st.integers(0, 2**16 - 1),
        "server_id": st.integers(0, 2**32 - 1),
        "checksum": positions,
    }
    if event_type in (EventType.GTID, EventType.GTID_TAGGED, EventType.ANONYMOUS_GTID):
        optional |= dict.fromkeys(of_group, positions)
    if event_type == EventType.ROTATE:
        optional["next_position"] = positions
    for key, value in optional.items():
        if draw(st.booleans()):
            record[key] = draw(value)
    return record


server_records = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("start"), "server_uuid": st.just(UUID)},
        optional={
            "crashed": st.booleans(),
            "variables": st.fixed_dictionaries({}, optional={"log_slave_updates": st.booleans()}),
        },
    ),
    st.fixed_dictionaries(
        {"kind": st.just("log_status"), "collection_id": st.just("c")},
        optional={"row": bodies, "replica_status": st.lists(bodies), "gtid_owned": texts},
    ),
    st.fixed_dictionaries(
        {
            "kind": st.just("channel"),
            "channel": st.sampled_from(["", "é"]),
            "action": st.sampled_from(["reset", "change_source"]),
        }
    ),
    st.fixed_dictionaries({"kind": st.sampled_from(["gap", "heartbeat", "binlog_reset", "stop"])}),
)


@st.composite
def journals(draw):
    lines = []
    for record in draw(st.lists(events() | server_records, max_size=15)):
        placed = {**record, "instance": draw(st.sampled_from(["a", "b"]))}
        if draw(st.integers(0, 9)) == 0:
            placed["sequence"] = draw(st.integers(0, 50))
        if draw(st.integers(0, 9)) == 0:
            placed["epoch"] = draw(st.integers(0, 3))
        lines.append(json.dumps(placed))
    return lines


@given(journals(), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_lines_to_blocks_to_lines_is_exact(lines, block_size):
    """What was written reads as the same blocks, at any block size, and is written the same."""
    blocks = list(blocks_from_lines(lines, block_size=block_size))
    again = list(blocks_from_lines(written(blocks), block_size=10_000))
    assert by_instance(written(again)) == by_instance(written(blocks))
    assert runs(again) == runs(blocks)
    assert sum(len(block) for block in blocks) == len(lines)


_POSITION = {"log_pos": 188, "flags": 8, "server_id": 1, "checksum": 7}
_ORDER = dict.fromkeys(of_group, 5)
_FULL = event(type="GTID", gtid=f"{UUID}:7", **_ORDER, **_POSITION)


@pytest.mark.parametrize(
    "pair",
    [
        *[(_FULL, event(**{**_FULL, key: None})) for key in (*_POSITION, *_ORDER)],
        (_FULL, {**_FULL, "gtid": f"{UUID}:t:7"}),
        (_FULL, {**_FULL, "gtid": "none"}),
        (_FULL, {**_FULL, "file": "binlog.000002"}),
        (_FULL, {**_FULL, "kind": "relay", "channel": ""}),
        tuple(event(kind="relay", channel=name) for name in ("", "ch")),
        tuple(event(type="QUERY", query=verb) for verb in ("BEGIN", "COMMIT")),
        tuple(event(type=code) for code in ("WRITE_ROWS", "UPDATE_ROWS")),
        tuple(event(type=code) for code in (98, 99)),
    ],
    ids=lambda pair: " ".join(sorted(dict(pair[0].items() ^ pair[1].items()))),
)
def test_a_line_has_the_keys_of_its_record_whatever_is_beside_it(pair):
    """Lines of a shape are printed together; those that differ in a key are of two."""
    for records in (pair, pair[::-1]):
        lines = [json.loads(line) for line in written(read(*records))]
        assert lines == [
            {**one, "ts": at + 1, "epoch": 0, "sequence": at} for at, one in enumerate(records)
        ]


def by_instance(lines):
    """Lines of each instance in their order; instances may be interleaved in another way."""
    return {name: [x for x in lines if json.loads(x)["instance"] == name] for name in "ab"}


def runs(blocks):
    """The columns and texts of each run of records without a gap."""
    grouped = {}
    for block in blocks:
        mine = grouped.setdefault(block.instance_id, [])
        last = mine[-1][-1] if mine else None
        if last is not None and (last.epoch, last.next_sequence) == (
            block.epoch,
            block.first_sequence,
        ):
            mine[-1].append(block)
        else:
            mine.append([block])
    return {
        name: [
            (
                {column: values.tolist() for column, values in joined.columns.items()},
                dict(joined.texts),
                joined.channels,
                joined.files,
                joined.sids,
            )
            for joined in map(concatenate, parts)
        ]
        for name, parts in grouped.items()
    }


def test_nothing_of_a_record_is_shared_with_an_equal_one() -> None:
    """Who keeps one may change it."""
    text = json.dumps({"variables": {"gtid_mode": "ON"}})
    first, second = (read_server_record(RecordType.VARIABLES, text, None) for _ in range(2))
    first["variables"]["gtid_mode"] = "OFF"
    assert second["variables"]["gtid_mode"] == "ON"
