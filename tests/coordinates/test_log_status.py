"""Reading one answer: both generations of names, every malformed part, nothing that crashes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.events.log_status import (
    ChannelState,
    ProblemKind,
    ServerState,
    ThreadState,
    read_log_status,
)
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.journals import UUID_A

WL9452 = {
    "SERVER_UUID": "e089ec66-e0f4-11e7-87e8-e4b318a30e85",
    "MASTER": {
        "gtid_executed": "",
        "binary_log_file": "slave-bin.000001",
        "binary_log_position": 155,
    },
    "CHANNELS": {
        "channels": [
            {
                "channel_name": "",
                "relay_log_file": "slave-relay-bin.000002",
                "relay_log_position": 371,
            }
        ]
    },
    "STORAGE_ENGINES": {"InnoDB": {"LSN": 18050415, "LSN_checkpoint": 18050415}},
}
"""The table output sample of WL#9452."""
MINIMAL = {
    "SERVER_UUID": "57e69083-c67b-11e7-8b8e-b86b232ba6ca",
    "MASTER": {"gtid_executed": ""},
    "CHANNELS": {"channels": []},
    "STORAGE_ENGINES": {"InnoDB": {"LSN": 14426884, "LSN_checkpoint": 14426884}},
}
"""Its minimal sample: GTIDs, binary log and channels are all off."""
PLAIN = {
    "SERVER_UUID": UUID_A,
    "LOCAL": {
        "gtid_executed": f"{UUID_A}:1-3",
        "binary_log_file": "binlog.000001",
        "binary_log_position": 457,
    },
    "REPLICATION": {
        "channels": [{"channel_name": "", "relay_log_file": "r.000002", "relay_log_position": 4}]
    },
    "STORAGE_ENGINES": {"InnoDB": {"LSN": 19000100, "LSN_checkpoint": 19000050}},
}


def read(row: Any, *, tags: bool = False, **beside: Any) -> ServerState:
    return read_log_status({"row": row, **beside}, tags=tags)


def changed(path: str, value: Any) -> dict[str, Any]:
    """PLAIN with one value replaced; ``...`` removes the key."""
    row = json.loads(json.dumps(PLAIN))
    *way, key = path.split("/")
    offset: Any = row
    for step in way:
        offset = offset[int(step) if isinstance(offset, list) else step]
    if value is ...:
        del offset[key]
    else:
        offset[key] = value
    return row


def test_the_sample_of_the_worklog_is_read_whole():
    """MASTER and CHANNELS, an empty set, channel and redo log."""
    state = read(WL9452)
    assert [] == state.problems
    assert "e089ec66-e0f4-11e7-87e8-e4b318a30e85" == state.server_uuid
    assert (True, LogCoordinates("slave-bin", 1, 155)) == (state.has_binlog, state.position)
    assert GtidSet.EMPTY == state.executed
    assert LogCoordinates("slave-relay-bin", 2, 371) == state.channels[""].relay
    assert (18050415, 18050415) == (state.lsn, state.lsn_checkpoint)


def test_the_minimal_sample_is_a_server_without_binary_log():
    """No file keys mean no binary log, which is no defect."""
    state = read(MINIMAL)
    assert ([], False, None, {}) == (
        state.problems,
        state.has_binlog,
        state.position,
        state.channels,
    )


def test_the_names_of_the_json_samples_are_read():
    """WL#9452 prints relay_log_pos beside relay_log_position, and the checkpoint is optional."""
    row = changed("REPLICATION/channels/0/relay_log_position", ...)
    row["REPLICATION"]["channels"][0]["relay_log_pos"] = 8192
    del row["STORAGE_ENGINES"]["InnoDB"]["LSN_checkpoint"]
    state = read(row)
    assert [] == state.problems
    assert LogCoordinates("r", 2, 8192) == state.channels[""].relay
    assert state.lsn_checkpoint is None


@pytest.mark.parametrize("row", [WL9452, MINIMAL, PLAIN])
def test_json_text_and_keys_in_any_case_read_alike(row: dict[str, Any]):
    """A client may give the columns as text, and its driver may change their case."""
    as_text = {
        key.title(): json.dumps(value) if isinstance(value, dict) else value
        for key, value in row.items()
    }
    assert read(row) == read(as_text)


def test_keys_of_other_servers_are_kept_out_of_the_way():
    """Percona's coordinates and engines, and whatever comes later, disturb nothing."""
    row = changed("LOCAL/future", {"x": [1]})
    row["REPLICATION"]["channels"][0].update(
        relay_master_log_file="b.000001", exec_master_log_position=4
    )
    row["STORAGE_ENGINES"]["RocksDB"] = {"wal_files": []}
    row["EXTRA"] = 1
    state = read(row)
    assert ([], True) == (state.problems, state.has_other_engines)
    assert ("InnoDB", "RocksDB") == state.engines
    plain = read(PLAIN)
    state.has_other_engines, state.engines = False, plain.engines
    assert plain == state


def test_a_channel_without_a_relay_log_is_empty():
    """File "" and position 0 follow RESET REPLICA."""
    row = changed("REPLICATION/channels/0/relay_log_file", "")
    row["REPLICATION"]["channels"][0]["relay_log_position"] = 0
    state = read(row)
    assert ([], True, None) == (
        state.problems,
        state.channels[""].relay_is_empty,
        state.channels[""].relay,
    )


def test_names_of_channels_are_lower_case():
    """Whatever case a client used, it is one channel."""
    state = read(
        changed("REPLICATION/channels/0/channel_name", "EAST"),
        replica_status=[{"Channel_Name": "East", "Relay_Log_File": "r.000002", "Relay_Log_Pos": 9}],
        slave_master_info=[
            {"Channel_name": "east", "Master_log_name": "b.000001", "Master_log_pos": 5}
        ],
    )
    assert ([], ["east"]) == (state.problems, list(state.channels))
    assert LogCoordinates("r", 2, 9) == state.channels["east"].applied
    assert LogCoordinates("b", 1, 5) == state.channels["east"].stored_read


INCOMPLETE = ProblemKind.INCOMPLETE
GTIDS = ProblemKind.GTIDS_UNREADABLE
MALFORMED: dict[str, tuple[Any, ProblemKind, str]] = {
    "row is text": ("x", INCOMPLETE, "object with the four columns"),
    "row is a list": ([], INCOMPLETE, "object with the four columns"),
    "no SERVER_UUID": (changed("SERVER_UUID", ...), INCOMPLETE, "column SERVER_UUID as well"),
    "SERVER_UUID null": (changed("SERVER_UUID", None), INCOMPLETE, "column SERVER_UUID as well"),
    "SERVER_UUID short": (changed("SERVER_UUID", "aaaa"), INCOMPLETE, "a UUID"),
    "SERVER_UUID number": (changed("SERVER_UUID", 7), INCOMPLETE, "a UUID"),
    "SERVER_UUID tagged": (changed("SERVER_UUID", f"{UUID_A}:t"), INCOMPLETE, "a UUID"),
    "no LOCAL": (changed("LOCAL", ...), INCOMPLETE, "column LOCAL as well"),
    "LOCAL empty": (changed("LOCAL", {}), INCOMPLETE, "gtid_executed"),
    "LOCAL list": (changed("LOCAL", []), INCOMPLETE, "a JSON object"),
    "LOCAL no JSON": (changed("LOCAL", "{"), INCOMPLETE, "a JSON object"),
    "LOCAL deep": (changed("LOCAL", "[" * 100_000), INCOMPLETE, "a JSON object"),
    "LOCAL huge": (changed("LOCAL", "9" * 10_000), INCOMPLETE, "a JSON object"),
    "no gtid_executed": (changed("LOCAL/gtid_executed", ...), INCOMPLETE, "gtid_executed"),
    "gtid_executed null": (changed("LOCAL/gtid_executed", None), INCOMPLETE, "a GTID set as text"),
    "gtid_executed bad": (changed("LOCAL/gtid_executed", f"{UUID_A}:1--5"), GTIDS, "a GTID set"),
    "gtid_executed spelled": (
        changed("LOCAL/gtid_executed", f"{UUID_A}:1:2"),
        ProblemKind.GTIDS_NOT_CANONICAL,
        f"{UUID_A}:1-2",
    ),
    "no file": (changed("LOCAL/binary_log_file", ...), INCOMPLETE, "binary_log_file as well"),
    "no position": (
        changed("LOCAL/binary_log_position", ...),
        INCOMPLETE,
        "binary_log_position as well",
    ),
    "position text": (changed("LOCAL/binary_log_position", "4"), INCOMPLETE, "an integer"),
    "position float": (changed("LOCAL/binary_log_position", 4.0), INCOMPLETE, "an integer"),
    "position bool": (changed("LOCAL/binary_log_position", value=True), INCOMPLETE, "an integer"),
    "position negative": (changed("LOCAL/binary_log_position", -1), INCOMPLETE, "an integer"),
    "position 2^63": (changed("LOCAL/binary_log_position", 2**63), INCOMPLETE, "an integer"),
    "file with directory": (
        changed("LOCAL/binary_log_file", "/var/binlog.000001"),
        INCOMPLETE,
        "without a directory",
    ),
    "file number": (changed("LOCAL/binary_log_file", 1), INCOMPLETE, "base.NNNNNN"),
    "REPLICATION empty": (changed("REPLICATION", {}), INCOMPLETE, "the key channels"),
    "channels object": (changed("REPLICATION/channels", {}), INCOMPLETE, "a list of channels"),
    "channel text": (changed("REPLICATION/channels", ["x"]), INCOMPLETE, "channel_name"),
    "channel unnamed": (
        changed("REPLICATION/channels/0/channel_name", None),
        INCOMPLETE,
        "channel_name",
    ),
    "no relay position": (
        changed("REPLICATION/channels/0/relay_log_position", ...),
        INCOMPLETE,
        "relay_log_file and relay_log_position",
    ),
    "relay position": (
        changed("REPLICATION/channels/0/relay_log_position", "4"),
        INCOMPLETE,
        "an integer",
    ),
    "relay file without name": (
        changed("REPLICATION/channels/0/relay_log_file", ""),
        INCOMPLETE,
        "base.NNNNNN",
    ),
    "InnoDB list": (changed("STORAGE_ENGINES/InnoDB", []), INCOMPLETE, "an object for InnoDB"),
    "no LSN": (changed("STORAGE_ENGINES/InnoDB/LSN", ...), INCOMPLETE, "an integer"),
    "LSN NaN": (changed("STORAGE_ENGINES", '{"InnoDB":{"LSN":NaN}}'), INCOMPLETE, "an integer"),
    "checkpoint null": (
        changed("STORAGE_ENGINES/InnoDB/LSN_checkpoint", None),
        INCOMPLETE,
        "an integer",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_part_is_one_problem_that_names_it(name: str):
    """Exactly one problem, of its kind, that says what was expected."""
    row, kind, expected = MALFORMED[name]
    [problem] = read(row).problems
    assert kind is problem.kind
    assert expected in problem.expected + problem.error


def test_one_malformed_part_leaves_the_others_readable():
    """What can be read is read; what cannot is None and nothing else's problem."""
    state = read(changed("LOCAL", "{"))
    assert (None, None, None) == (state.executed, state.position, state.has_binlog)
    assert (19000100, UUID_A) == (state.lsn, state.server_uuid)
    assert LogCoordinates("r", 2, 4) == state.channels[""].relay


@pytest.mark.parametrize(
    ("name", "file", "listed", "expected"),
    [
        ("group_replication_recovery", "s.000001", [], []),
        ("group_replication_recovery", "", ["group_replication_recovery"], [True]),
        ("c", "s.000001", [], [False]),
        ("", "", [], []),
        ("", "", [""], [True]),
    ],
)
def test_a_channel_that_is_only_stored_may_be_none(
    name: str, file: str, listed: list[str], expected: list[bool]
):
    """One of a group, and what START REPLICA leaves where it is refused: it names no file."""
    channels = [
        {"channel_name": each, "relay_log_file": "relay.000001", "relay_log_position": 154}
        for each in listed
    ]
    stored = {
        table: [{"Channel_name": name, "Master_log_name": file, "Master_log_pos": 4}]
        for table in ("slave_master_info", "slave_relay_log_info")
    }
    row = changed("REPLICATION/channels", channels)
    state = read(row, replica_status=[], **stored)
    assert expected == [channel.is_listed for channel in state.channels.values()]


def test_an_info_table_may_lack_a_channel_of_a_group():
    """Its plugin makes and removes it; another one has a row in each table that has any."""
    names = ("east", "group_replication_recovery")
    state = read(
        {},
        replica_status=[{"Channel_Name": name} for name in names],
        slave_master_info=[{"channel_name": "west"}],
    )
    left_out = [state.channels[name].left_out_of for name in names]
    assert [("slave_master_info",), ()] == left_out


def test_a_table_without_names_of_channels_is_of_the_default_one():
    """As servers before 5.7 have it: nothing is left out of it."""
    state = read({}, replica_status=[{"Master_Host": "s"}], slave_master_info=[{"Host": "s"}])
    assert {"": ()} == {name: one.left_out_of for name, one in state.channels.items()}


def test_of_several_statuses_without_names_none_is_read():
    """Of which channels they are is not known."""
    state = read({}, replica_status=[{"Master_Host": "s"}, {"Master_Host": "t"}])
    assert (state.has_replica_status, state.channels) == (False, {})
    state = read({}, replica_status=[{"Channel_Name": "West"}, {"Master_Host": "t"}])
    assert (state.has_replica_status, set(state.channels)) == (False, {"west"})


@pytest.mark.parametrize(("said", "expected"), [(7, 7), (0, None), ("7", None), (None, None)])
def test_the_source_has_a_server_id_once_the_receiver_has_connected(said, expected):
    """0 before that."""
    state = read({}, replica_status=[{"Channel_Name": "", "Source_Server_Id": said}])
    assert expected == state.channels[""].source_server_id


def test_a_doubled_channel_is_given_to_nobody():
    """It is there, but whichever of its two rows is right, neither is believed."""
    row = changed("REPLICATION/channels/0/channel_name", "East")
    row["REPLICATION"]["channels"] += [
        {"channel_name": name, "relay_log_file": "r.000001", "relay_log_position": 4}
        for name in ("EAST", "west")
    ]
    state = read(row)
    assert [ProblemKind.CHANNEL_TWICE] == [p.kind for p in state.problems]
    assert {"east", "west"} == set(state.channels)
    assert ChannelState("east", is_listed=True) == state.channels["east"]
    assert LogCoordinates("r", 1, 4) == state.channels["west"].relay


def test_what_follows_a_channel_that_cannot_be_read_is_read():
    """Whether the list is whole is not known."""
    row = changed("REPLICATION/channels/0/channel_name", "east")
    row["REPLICATION"]["channels"].insert(0, "west")
    state = read(row)
    assert [ProblemKind.INCOMPLETE] == [p.kind for p in state.problems]
    assert not state.lists_channels
    assert LogCoordinates("r", 2, 4) == state.channels["east"].relay


def test_tags_are_read_where_the_server_knows_them():
    """A tagged set from a server older than 8.3 cannot be one."""
    row = changed("LOCAL/gtid_executed", f"{UUID_A}:1-3:batch:1")
    assert [] == read(row, tags=True).problems
    assert [ProblemKind.GTIDS_UNREADABLE] == [p.kind for p in read(row, tags=False).problems]


def test_owners_are_taken_off_gtid_owned():
    """Each GNO of @@gtid_owned is followed by the thread that owns it."""
    state = read(PLAIN, gtid_owned=f"{UUID_A}:5#12:7#9")
    assert GtidSet.parse(f"{UUID_A}:5:7") == state.owned


def test_old_and_new_column_names_read_alike():
    """SHOW SLAVE STATUS and SHOW REPLICA STATUS say the same in other words."""
    new = {
        "Channel_Name": "",
        "Source_Log_File": "b.000003",
        "Read_Source_Log_Pos": 700,
        "Relay_Source_Log_File": "b.000002",
        "Exec_Source_Log_Pos": 600,
        "Relay_Log_File": "r.000002",
        "Relay_Log_Pos": 900,
        "Source_UUID": UUID_A,
        "Auto_Position": 1,
        "Replica_IO_Running": "Yes",
        "Executed_Gtid_Set": f"{UUID_A}:1-5",
    }
    old = {key.replace("Source", "Master").replace("Replica", "Slave"): v for key, v in new.items()}
    state = read(PLAIN, replica_status=[new])
    assert state == read(PLAIN, replica_status=[old])
    assert GtidSet.parse(f"{UUID_A}:1-5") == state.executed_in_status
    channel = state.channels[""]
    assert (700, 600, 900) == tuple(
        offset.position for offset in (channel.read, channel.executed, channel.applied) if offset
    )
    assert (UUID_A, True, True) == (
        channel.source_uuid,
        channel.auto_position,
        channel.receiver == ThreadState(),
    )


@pytest.mark.parametrize("thread", ["IO", "SQL"])
@pytest.mark.parametrize(
    ("runs", "is_stopped", "is_connecting"),
    [("Yes", False, False), ("No", True, False), ("Connecting", False, True)],
)
def test_a_thread_is_what_its_status_says(thread, runs, is_stopped, is_connecting):
    """Whether it runs, and its last error; what is no number or text is no error."""
    row = {"Channel_Name": "", f"Replica_{thread}_Running": runs}
    error = {"Errno": 1236, "Error": "gone", "Error_Timestamp": "231114 22:13:36"}
    for said, expected in (
        (error, {"errno": 1236, "error": "gone", "since": "231114 22:13:36"}),
        (dict.fromkeys(error), {}),
        ({"Errno": True, "Error": 5, "Error_Timestamp": 5}, {}),
    ):
        beside = {f"Last_{thread}_{name}": value for name, value in said.items()}
        channel = read({}, replica_status=[row | beside]).channels[""]
        found = channel.receiver if thread == "IO" else channel.applier
        assert ThreadState(is_stopped, is_connecting, **expected) == found
        assert found.is_running is (runs == "Yes")


def test_two_equal_lists_confirm_each_other():
    """Only a list read before and after gtid_purged says which file was the oldest."""
    one = [{"Log_name": "b.000001", "File_size": 9}]
    two = [{"Log_name": "b.000002", "File_size": 9}]
    reported = [(None, None), (one, None), (one, one), (one, two)]
    assert [(False, False), (False, False), (True, False), (False, True)] == [
        (state.binary_logs_confirmed, state.binary_logs_changed)
        for state in (read(PLAIN, binary_logs=a, binary_logs_again=b) for a, b in reported)
    ]


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["InnoDB", "channels", "b.000001", f"{UUID_A}:1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["channels", "channel_name", "InnoDB", "LSN", "gtid_executed", "name"]),
            inner,
        )
    ),
    max_leaves=8,
)
KEYS = [
    "SERVER_UUID", "LOCAL", "MASTER", "REPLICATION", "CHANNELS", "STORAGE_ENGINES",
]  # fmt: skip
BESIDE = [
    "gtid_executed_first", "gtid_executed_table", "slave_master_info", "slave_relay_log_info",
    "binary_logs", "binary_logs_again", "gtid_purged", "replica_status", "gtid_owned",
    "prepared_xa", "innodb", "trx_sys", "clone_status",
]  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(KEYS), ANYTHING),
    st.dictionaries(st.sampled_from(BESIDE), ANYTHING),
)
def test_whatever_is_answered_is_read_or_named(row: dict[str, Any], beside: dict[str, Any]):
    """No answer, however malformed, raises; what is missing of the four columns is a problem."""
    state = read_log_status({"row": row, **beside}, tags=True)
    if not {"SERVER_UUID", "STORAGE_ENGINES"} <= row.keys():
        assert INCOMPLETE in {problem.kind for problem in state.problems}
