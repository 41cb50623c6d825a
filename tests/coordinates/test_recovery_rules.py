"""Point-in-time recovery across instances: rules 86 to 88, just inside and just outside."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.coordinates.audit.fleet import FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.rules.explanation import observation_text
from tests.support.fleet_journals import A, B, C, Clock, Journal, audit, end_of, names

REPLAY = "replay_continues_image"
STOP = "recovery_reaches_stop_point"
DATA = "recovered_data_equal_source"
RESTORE = "restore_matches_image"
TABLES = [{"name": "t", "engine": "InnoDB", "rows": 3, "checksum": "aa"}]
OTHERS = [{"name": "t", "engine": "InnoDB", "rows": 3, "checksum": "bb"}]
SECOND = 1_000_000


def gtids(*numbers: int) -> list[str]:
    return [f"{A}:{number}" for number in numbers]


def tell(journal: Journal, step: str, **body: Any) -> None:
    journal.fleet_event(
        FleetEventKind.BACKUP, step=step, backup_id="b1", binlog_lineage=journal.lineage, **body
    )


class Recovery:
    """A source with six groups, an image after the second, a recovery up to the fifth.

    The groups were committed in the first to the sixth second.
    """

    def __init__(self, *, same_server: bool = False, sees_image: bool = True) -> None:
        clock = Clock()
        self.source = source = Journal(clock, "s", A, 1)
        source.commit_times = {f"{A}:{gno}": gno * SECOND for gno in range(1, 8)}
        source.boot()
        source.open_file()
        source.log(*gtids(1, 2))
        self.summary: dict[str, Any] = {
            "binlog_file": source.file_name,
            "binlog_position": end_of(2),
            "gtid_executed": f"{A}:1-2",
            "tables": TABLES,
        }
        if sees_image:
            tell(source, "image", **self.summary)
        source.log(*gtids(3, 4, 5))
        self.stop = (source.file_name, end_of(5))
        position = {"binlog_file": self.stop[0], "binlog_position": self.stop[1]}
        source.fleet_event(
            FleetEventKind.BACKUP, step="checksum", binlog_lineage=0, **position, tables=OTHERS
        )
        source.log(*gtids(6))
        self.server = source
        if same_server:
            source.lineage += 1
            source.fleet_event(
                FleetEventKind.LINEAGE, binlog_lineage=source.lineage, reason="restored"
            )
            source.file = 0
            source.boot(data_lineage=1)
        else:
            self.server = Journal(clock, "r", B, 2)
            self.server.boot(data_lineage=1)
            self.server.commit_times = source.commit_times
        self.server.open_file()

    def run(
        self,
        *replayed: str,
        executed: str | None = f"{A}:1-5",
        end: int | None = None,
        tables: list[dict[str, Any]] | None = None,
        restored: dict[str, Any] | None = None,
        meanwhile: str = "",
        is_told: bool = True,
        **replay: Any,
    ) -> FleetOutput:
        """Restore, replay and audit; without another stop point one at the end.

        Args:
            replayed: What the restored server logs.
            executed: What it says that it has executed at the end.
            end: Where it says that this was.
            tables: What it says that they hold.
            restored: What it says otherwise than the image.
            meanwhile: A group of the source.
            is_told: Whether the source's journal is known up to the beginning of the replay.
            replay: More of the record of that name.
        """
        server = self.server
        if is_told:
            self.source.time()
        tell(server, "restore", peer="s", **{**self.summary, **(restored or {})})
        start = {"from_file": self.stop[0], "from_position": end_of(2)}
        position = {"to_file": self.stop[0], "to_position": self.stop[1] if end is None else end}
        if not any(name.startswith("stop") for name in replay):
            replay = {f"stop{name[2:]}": value for name, value in position.items()} | replay
        tell(server, "replay", peer="s", **start, **replay)
        if meanwhile:
            self.source.time()
            self.source.log(meanwhile)
        server.log(*replayed, server_id=1)
        reported = OTHERS if tables is None else tables
        tell(server, "replayed", peer="s", **position, gtid_executed=executed, tables=reported)
        server.time()
        self.source.time()
        journals = [self.source] if server is self.source else [self.source, server]
        return audit(*journals)


@pytest.mark.parametrize("same_server", [False, True])
def test_a_recovery_that_loses_nothing_and_repeats_nothing_is_right(same_server: bool) -> None:
    """On a new server, and on the same one, whose own old log was replayed."""
    output = Recovery(same_server=same_server).run(*gtids(3, 4, 5))
    assert names(output) == []
    assert [observation_text(o) for o in output.observations] == []


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_replay_over_a_file_that_nobody_saw_is_undecided(is_seen: bool) -> None:
    """Which groups it had cannot be known; what follows it proves no group too many or too few."""
    recovery = Recovery()
    source = recovery.source
    for gno in (7, 8):
        source.rotate(f"{A}:1-{gno - 1}")
        source.log(f"{A}:{gno}")
    if not is_seen:
        source.fleet_events = [e for e in source.fleet_events if e.body.get("file_number") != 2]
    recovery.stop = (source.file_name, end_of(1))
    output = recovery.run(*gtids(3, 4, 5, 6, 7, 8), executed=f"{A}:1-8", tables=[])
    assert names(output) == []
    reasons = {observation.reason for observation in output.observations}
    assert ("replayed_groups_unknown" in reasons) == (not is_seen)


@pytest.mark.parametrize("same_server", [False, True])
@pytest.mark.parametrize(
    ("replayed", "witness"),
    [
        (gtids(4, 5), f"{A}:3"),
        (gtids(3, 4), f"{A}:5"),
        (gtids(3, 5), f"{A}:4"),
        ([*gtids(3, 4, 5), f"{B}:1"], f"{B}:1"),
        ([*gtids(3, 4, 5), f"{B}:tag:1"], f"{B}:tag:1"),
        (gtids(4, 3, 5), f"{A}:3"),
    ],
)
def test_a_replay_executes_each_group_once_and_in_order(
    same_server: bool, replayed: list[str], witness: str
) -> None:
    """Late, short, with a hole, with one more, in another order."""
    output = Recovery(same_server=same_server).run(*replayed)
    assert names(output) == [REPLAY]
    assert output.findings[0].witness == witness


def test_without_gtids_the_number_of_groups_decides() -> None:
    """Anonymous groups are distinguished by nothing but their count."""
    for replayed, broken in ((["", "", ""], []), (["", "", "", ""], [REPLAY])):
        recovery = Recovery()
        for event in recovery.source.fleet_events:
            if event.kind is FleetEventKind.LOGGED and len(event.arrays["group_sid"]):
                event.arrays["group_sid"][:] = -1
            if event.kind is FleetEventKind.BACKUP and event.body["step"] == "image":
                event.body["gtid_executed"] = ""
        recovery.summary["gtid_executed"] = ""
        assert names(recovery.run(*replayed, executed="")) == broken


def test_a_server_that_keeps_no_commit_order_may_log_in_another() -> None:
    """Workers of an applier replay the log; every group is there once."""
    recovery = Recovery()
    recovery.server.boot(data_lineage=1, replica_preserve_commit_order=False)
    assert names(recovery.run(*gtids(4, 3, 5))) == []


def test_what_was_to_be_left_out_is_named_where_it_was_executed() -> None:
    """The log has it, so that it is not said to have another group there."""
    output = Recovery().run(*gtids(3, 4, 5), excluded=f"{A}:4")
    [finding] = output.findings
    assert (finding.rule, finding.case, finding.data["seen"]) == (REPLAY, "left_out", f"{A}:4")


def test_what_an_earlier_step_was_to_leave_out_a_later_one_may_mean_to_execute() -> None:
    """It comes too late in the order of the log, but nobody said that it was not to."""
    recovery = Recovery()
    server, file = recovery.server, recovery.stop[0]
    tell(server, "restore", peer="s", **recovery.summary)
    for begun, ended, gnos, out in ((2, 5, (3, 5), f"{A}:4"), (3, 4, (4,), None)):
        start = {"from_file": file, "from_position": end_of(begun)}
        tell(server, "replay", peer="s", **start, excluded=out)
        server.log(*gtids(*gnos), server_id=1)
        tell(server, "replayed", peer="s", to_file=file, to_position=end_of(ended))
    server.time()
    recovery.source.time()
    found = [one.case for one in audit(recovery.source, server).findings if one.rule == REPLAY]
    assert found == ["goes_on"]


def test_what_is_left_out_on_purpose_is_not_missed() -> None:
    """The wrong DELETE is excluded; data are not compared then."""
    executed = f"{A}:1-3:5"
    output = Recovery().run(*gtids(3, 5), executed=executed, excluded=f"{A}:4")
    assert names(output) == []
    assert any("left out on purpose" in observation_text(o) for o in output.observations)


@pytest.mark.parametrize("executed", [f"{A}:1-4", f"{A}:3-5", f"{A}:1-6", f"{A}:1-5,{B}:1"])
def test_the_set_at_the_end_is_that_of_the_stop_point(executed: str) -> None:
    """A GTID short, the image's set lost, one too many of the source, one of nobody."""
    output = Recovery().run(*gtids(3, 4, 5), executed=executed)
    assert names(output) == [STOP]


def test_groups_of_before_the_replay_are_the_servers_own() -> None:
    """What an operator writes between restore and replay is no part of the recovery."""
    recovery = Recovery()
    server = recovery.server
    tell(server, "restore", peer="s", **recovery.summary)
    server.log(f"{B}:1")
    tell(server, "replay", peer="s", from_file=recovery.stop[0], from_position=end_of(2))
    server.log(*gtids(3, 4, 5), server_id=1)
    position = {"to_file": recovery.stop[0], "to_position": recovery.stop[1]}
    tell(server, "replayed", peer="s", **position, gtid_executed=f"{A}:1-5,{B}:1", tables=OTHERS)
    server.time()
    recovery.source.time()
    assert names(audit(recovery.source, server)) == []


def test_what_an_operator_replayed_by_hand_is_not_missed() -> None:
    """A group of the source that was logged before the replay is skipped by it."""
    recovery = Recovery()
    server = recovery.server
    tell(server, "restore", peer="s", **recovery.summary)
    server.log(*gtids(3), server_id=1)
    tell(server, "replay", peer="s", from_file=recovery.stop[0], from_position=end_of(2))
    server.log(*gtids(4, 5), server_id=1)
    position = {"to_file": recovery.stop[0], "to_position": recovery.stop[1]}
    tell(server, "replayed", peer="s", **position, gtid_executed=f"{A}:1-5", tables=OTHERS)
    server.time()
    recovery.source.time()
    assert names(audit(recovery.source, server)) == []


@pytest.mark.parametrize(
    ("reported", "broken"),
    [
        ({"stop_position": end_of(5)}, []),
        ({"stop_position": end_of(5) + 50}, []),
        ({"stop_position": end_of(6)}, [STOP]),
        ({"stop_position": end_of(4)}, [STOP]),
    ],
)
def test_the_replay_ends_where_it_was_told_to(reported: dict[str, Any], broken: list[str]) -> None:
    """No complete group lies between the two positions."""
    output = Recovery().run(*gtids(3, 4, 5), stop_file="s-bin.000001", **reported)
    assert names(output) == broken


@pytest.mark.parametrize(("gno", "broken"), [(5, []), (6, [STOP])])
def test_the_replay_goes_on_up_to_the_group_it_was_told(gno: int, broken: list[str]) -> None:
    """Not short of it."""
    output = Recovery().run(*gtids(3, 4, 5), stop_gtid=f"{A}:{gno}")
    assert names(output) == broken


@pytest.mark.parametrize(
    ("stop", "passed"), [(f"{A}:4-5", []), (f"{A}:4", [f"{A}:5"]), (f"{A}:2", [f"{A}:3"])]
)
def test_the_replay_does_not_go_beyond_its_stop_gtid(stop: str, passed: list[str]) -> None:
    """Of a set the last one in the log counts; one of the image leaves nothing to replay."""
    output = Recovery().run(*gtids(3, 4, 5), stop_gtid=stop)
    assert names(output) == [STOP] * len(passed)
    assert [one.data["passed"] for one in output.findings] == passed


def said_of_stop(output: FleetOutput) -> str:
    """The case or the reason; nothing else is found."""
    assert names(output) in ([], [STOP])
    said = [seen.reason for seen in output.observations if STOP in seen.rules]
    return ", ".join(finding.case for finding in output.findings) or ", ".join(said) or "holds"


@pytest.mark.parametrize("same_server", [False, True])
@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ({"stop_time": 6 * SECOND}, "holds"),
        ({"stop_time": 6 * SECOND + 1}, "holds"),  # whole seconds count
        ({"stop_time": 7 * SECOND}, "stop_time_missed"),
        ({"stop_time": 7 * SECOND, "excluded": f"{A}:6"}, "holds"),
        ({"stop_time": 5 * SECOND + 1}, "holds"),
        ({"stop_time": 5 * SECOND}, "stop_time_passed"),
        ({"stop_time": 6 * SECOND, "stop_position": end_of(6)}, "holds"),
        ({"stop_time": 7 * SECOND, "stop_position": end_of(6)}, "stop_time_missed"),
        ({"stop_time": 7 * SECOND, "stop_position": end_of(5)}, "holds"),
        ({"stop_time": 5 * SECOND, "stop_position": end_of(5)}, "stop_time_passed"),
        ({"stop_time": 7 * SECOND, "stop_position": end_of(4)}, "stop_position_missed"),
    ],
)
def test_a_replay_up_to_a_time(same_server: bool, stop: dict[str, Any], said: str) -> None:
    """The next group was committed then or later; of a long one the end may be."""
    file = {"stop_file": "s-bin.000001"} if "stop_position" in stop else {}
    output = Recovery(same_server=same_server).run(*gtids(3, 4, 5), **stop, **file)
    assert said_of_stop(output) == said


@pytest.mark.parametrize(("unknown", "said"), [(2, "holds"), (4, ""), (6, "")])
def test_groups_of_which_nobody_says_when_they_were_committed(unknown: int, said: str) -> None:
    """What the image has is not asked for."""
    recovery = Recovery()
    times = recovery.source.commit_times
    for event in recovery.source.fleet_events:
        if event.kind is FleetEventKind.LOGGED:
            column = event.arrays["group_commit_ts"]
            column[column == unknown * SECOND] = -1
    times[f"{A}:{unknown}"] = -1
    output = recovery.run(*gtids(3, 4, 5), stop_time=6 * SECOND)
    assert said_of_stop(output) == (said or "stop_time_unknown")


@pytest.mark.parametrize("same_server", [False, True])
def test_a_replay_without_a_stop_point(same_server: bool) -> None:
    """Whether its files went further than it did, nobody says."""
    output = Recovery(same_server=same_server).run(*gtids(3, 4, 5), stop_file=None)
    assert said_of_stop(output) == "no_stop_named"
    whole = {"executed": f"{A}:1-6", "end": end_of(6), "stop_file": None}
    output = Recovery(same_server=same_server).run(*gtids(3, 4, 5, 6), **whole)
    assert said_of_stop(output) == "holds"


def test_what_the_log_had_when_a_replay_began_may_not_be_known() -> None:
    """No heartbeat of the source came between its last group and the replay."""
    output = Recovery().run(*gtids(3, 4, 5), stop_time=7 * SECOND, is_told=False)
    assert said_of_stop(output) == "stop_time_maybe_missed"
    output = Recovery().run(*gtids(3, 4, 5), stop_file=None, is_told=False)
    assert said_of_stop(output) == "no_stop_named"


@pytest.mark.parametrize("stop", [{"stop_file": None}, {"stop_time": 9 * SECOND}])
def test_what_the_source_logs_during_a_replay_is_not_missed(stop: dict[str, Any]) -> None:
    """Its log was read before."""
    whole = {"executed": f"{A}:1-6", "end": end_of(6), "meanwhile": f"{A}:7"}
    assert said_of_stop(Recovery().run(*gtids(3, 4, 5, 6), **whole, **stop)) == "holds"


def test_a_missed_group_is_found_whatever_the_stop_point() -> None:
    """What is undecided of the stop hides nothing."""
    output = Recovery().run(*gtids(3, 5), executed=f"{A}:1-3:5", stop_file=None)
    assert names(output) == [STOP, REPLAY]


def test_a_group_without_a_gtid_is_none_of_those_to_end_with() -> None:
    """It is replayed like the others, and what comes after the last of these is too much."""
    recovery = Recovery()
    recovery.source.log("", f"{A}:7")
    replayed = [*gtids(3, 4, 5, 6), "", *gtids(7)]
    end = {"end": end_of(8), "executed": f"{A}:1-7", "tables": []}
    assert names(recovery.run(*replayed, stop_gtid=f"{A}:7", **end)) == []
    assert names(recovery.run(*replayed, stop_gtid=f"{A}:6", **end)) == [STOP]


@pytest.mark.parametrize("sees_image", [True, False])
def test_what_the_image_brought_need_not_be_in_the_log(sees_image: bool) -> None:
    """As what the source had purged."""
    recovery = Recovery(sees_image=False)
    recovery.summary["gtid_executed"] = f"{A}:1-2,{C}:1-9"
    restored = {}
    if sees_image:
        tell(recovery.source, "image", **recovery.summary)
        restored["gtid_executed"] = None
    executed = f"{A}:1-5,{C}:1-9"
    output = recovery.run(*gtids(3, 4, 5), executed=executed, restored=restored)
    assert names(output) == []


@pytest.mark.parametrize(("number", "broken"), [(3, []), (4, [REPLAY])])
def test_the_image_of_a_replica_is_where_its_channel_is_in_the_log(
    number: int, broken: list[str]
) -> None:
    """A channel of another source, or that names no position, says nothing of this log."""
    recovery = Recovery(sees_image=False)
    imaged = Journal(recovery.source.clock, "c", C, 3)
    imaged.boot()
    imaged.open_file()
    of_others = [("b", "s-bin.000001", end_of(5)), ("s", None, end_of(4))]
    channels = [
        {"source_instance": of, "exec_source_log_file": file, "exec_source_log_pos": position}
        for of, file, position in (*of_others, ("s", "s-bin.000001", end_of(2)))
    ]
    channels = [{"channel": str(at), **one} for at, one in enumerate(channels)]
    at = {"binlog_file": imaged.file_name, "binlog_position": end_of(0)}
    summary = {**recovery.summary, **at, "channels": channels}
    tell(imaged, "image", **summary)
    server = recovery.server
    tell(server, "restore", peer="c", **summary)
    tell(server, "replay", peer="s", from_file=recovery.stop[0], from_position=end_of(2))
    server.log(*gtids(*range(number, 6)), server_id=1)
    position = {"to_file": recovery.stop[0], "to_position": recovery.stop[1]}
    executed = f"{A}:1-2:{number}-5"
    tell(server, "replayed", peer="s", **position, gtid_executed=executed, tables=OTHERS)
    for journal in (server, imaged, recovery.source):
        journal.time()
    output = audit(recovery.source, imaged, server)
    assert [one for one in names(output) if one == REPLAY] == broken
    assert "image_without_channel" not in [seen.reason for seen in output.observations]


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ({}, "restored_set_unread"),
        ({"stop_position": end_of(6)}, "stop_position_missed"),
        ({"stop_position": end_of(5)}, "restored_set_unread"),
        ({"stop_gtid": f"{A}:6"}, "stop_gtid_missed"),
        ({"stop_time": 7 * SECOND}, "restored_set_unread"),  # the next group may be executed
    ],
)
def test_where_a_replay_ended_is_known_without_a_set(stop: dict[str, Any], said: str) -> None:
    """Only what it has executed there is not."""
    file = {"stop_file": "s-bin.000001"} if "stop_position" in stop else {}
    output = Recovery().run(*gtids(3, 4, 5), executed=None, **stop, **file)
    assert said_of_stop(output) == said


@pytest.mark.parametrize(("stop", "said"), [(5, "holds"), (6, "stop_position_missed")])
def test_where_there_are_no_gtids_a_server_need_not_name_any(stop: int, said: str) -> None:
    """A server with gtid_mode OFF has no gtid_executed to be compared."""
    where = {"stop_file": "s-bin.000001", "stop_position": end_of(stop)}
    assert said_of_stop(in_steps((2, 5, [""] * 3), is_anonymous=True, **where)) == said


@pytest.mark.parametrize(
    ("replayed", "again", "broken", "reason"),
    [
        ((3, 4, 5), 0, [], None),
        ((4, 5), 0, [STOP, REPLAY], None),
        ((3, 4, 5), 5, [], "replayed_log_of_which"),
        ((4, 5), 5, [], "replayed_log_of_which"),
    ],
)
def test_a_log_that_a_reset_has_ended_may_be_replayed(
    replayed: tuple[int, ...], again: int, broken: list[str], reason: str | None
) -> None:
    """From a copy; but a file of its name may have come as far since."""
    recovery = Recovery()
    recovery.source.time()
    recovery.source.reset()
    recovery.source.log(*gtids(*range(1, again + 1)))
    executed = ",".join([f"{A}:1-2", *gtids(*replayed)])
    output = recovery.run(*gtids(*replayed), executed=executed)
    assert names(output) == broken
    assert {one.reason for one in output.observations} == ({reason} if reason else set())


def test_what_was_logged_right_before_a_reset_may_not_have_been_seen() -> None:
    """The copy that was replayed may go further than what was read of the log."""
    recovery = Recovery()
    recovery.source.time()
    recovery.source.reset()
    output = recovery.run(*gtids(3, 4, 5, 6, 7), executed=f"{A}:1-7", end=end_of(7))
    assert names(output) == []
    assert {one.reason for one in output.observations} == {"replayed_log_not_reached"}


@pytest.mark.parametrize("stop", [{"stop_file": "s-bin.000001"}, {"stop_position": end_of(4)}])
def test_half_a_stop_position_decides_nothing(stop: dict[str, Any]) -> None:
    """A file without a position in it, or a position in nobody knows which file.

    That the replay executed all that the log had does not show that it was to.
    """
    assert said_of_stop(Recovery().run(*gtids(3, 4, 5), **stop)) == "stop_named_in_part"
    output = Recovery().run(*gtids(3, 4, 5, 6), executed=f"{A}:1-6", end=end_of(6), **stop)
    assert said_of_stop(output) == "stop_named_in_part"


@pytest.mark.parametrize(("tables", "is_open"), [(OTHERS, False), ([], True)])
def test_a_table_that_the_recovery_does_not_name_is_not_known(
    tables: list[dict[str, Any]], is_open: bool
) -> None:
    """The image and the source at the stop point have it."""
    output = Recovery().run(*gtids(3, 4, 5), tables=tables)
    assert names(output) == []
    reasons = {one.reason for one in output.observations if DATA in one.rules}
    assert reasons == ({"table_not_named"} if is_open else set())


def test_a_table_that_the_image_does_not_have_need_not_be_named() -> None:
    """It was made since; whether the recovery has it nobody says."""
    recovery = Recovery()
    [named] = [e for e in recovery.source.fleet_events if e.body.get("step") == "checksum"]
    made = {"name": "u", "engine": "InnoDB", "rows": 1, "checksum": "cc"}
    named.body["tables"] = [*OTHERS, made]
    output = recovery.run(*gtids(3, 4, 5))
    assert names(output) == []
    assert [one.reason for one in output.observations if DATA in one.rules] == []


def in_steps(
    *steps: tuple[int, int | None, list[str]], is_anonymous: bool = False, **replay: Any
) -> Any:
    """A log replayed in several steps: each from a group's end to another's, and what it logs.

    One without an end is broken off.
    """
    recovery = Recovery()
    server, file = recovery.server, recovery.stop[0]
    if is_anonymous:
        recovery.summary["gtid_executed"] = ""
        for event in recovery.source.fleet_events:
            if event.kind is FleetEventKind.LOGGED and len(event.arrays["group_sid"]):
                event.arrays["group_sid"][:] = -1
            if event.kind is FleetEventKind.BACKUP and event.body["step"] == "image":
                event.body["gtid_executed"] = ""
    tell(server, "restore", peer="s", **recovery.summary)
    for begun, ended, logged in steps:
        start = {"from_file": file, "from_position": end_of(begun)}
        tell(server, "replay", peer="s", **{**start, **replay})
        server.log(*logged, server_id=1)
        if ended is None:
            continue
        executed = None if is_anonymous else f"{A}:1-{ended}"
        position = {"to_file": file, "to_position": end_of(ended)}
        tell(server, "replayed", peer="s", **position, gtid_executed=executed)
    server.time()
    recovery.source.time()
    return audit(recovery.source, server)


@pytest.mark.parametrize("is_anonymous", [False, True])
@pytest.mark.parametrize(
    ("steps", "broken"),
    [
        ([(2, 4, (3, 4)), (4, 5, (5,))], []),
        ([(2, 4, (3, 4)), (4, 5, (5, 5))], [REPLAY]),
        ([(2, 4, (3, 4)), (4, 6, (5,))], [REPLAY]),
        ([(2, 3, (3,)), (3, 4, (4,)), (4, 6, (6,))], [REPLAY]),
    ],
)
def test_a_log_may_be_replayed_in_steps(
    is_anonymous: bool, steps: list[Any], broken: list[str]
) -> None:
    """Each goes on where the one before it has ended."""
    output = in_steps(
        *[(a, b, [""] * len(n) if is_anonymous else gtids(*n)) for a, b, n in steps],
        is_anonymous=is_anonymous,
    )
    assert names(output) == broken


def test_a_log_replayed_twice_repeats_groups_without_gtids() -> None:
    """With GTIDs a server skips what it has, so the second time nothing is logged."""
    twice = (2, 4, ["", ""])
    [finding] = in_steps(twice, twice, is_anonymous=True).findings
    assert (REPLAY, "goes_on") == (finding.rule, finding.case)
    assert names(in_steps((2, 4, gtids(3, 4)), (2, 4, []))) == []
    assert names(in_steps((2, 4, gtids(3, 4)), (2, 3, []))) == []


def test_after_a_part_that_was_replayed_twice_a_step_goes_on_from_the_furthest_end() -> None:
    """Nothing is left out between the two."""
    output = in_steps((2, 5, [""] * 3), (2, 3, [""]), (5, 6, [""]), is_anonymous=True)
    assert [finding.case for finding in output.findings] == ["goes_on"]
    assert [seen for seen in output.observations if REPLAY in seen.rules] == []


def test_a_replay_that_was_broken_off_goes_on() -> None:
    """From where it was, or from its beginning, where a server skips what it has by its GTIDs."""
    assert names(in_steps((2, None, gtids(3)), (2, 5, gtids(4, 5)))) == []
    assert names(in_steps((2, None, gtids(3)), (2, 5, gtids(5)))) == [REPLAY]
    assert names(in_steps((2, None, [""]), (3, 5, ["", ""]), is_anonymous=True)) == []
    output = in_steps((2, None, [""]), (2, 5, ["", "", ""]), is_anonymous=True)
    assert names(output) == [REPLAY]


def test_what_was_executed_unseen_during_a_replay_is_not_held_against_a_later_one() -> None:
    """An own group among it is none too many at the stop point."""
    recovery = Recovery()
    server, file = recovery.server, recovery.stop[0]
    tell(server, "restore", peer="s", **recovery.summary)
    for begun, ended, gno in ((2, 4, 3), (4, 5, 5)):
        tell(server, "replay", peer="s", from_file=file, from_position=end_of(begun))
        server.log(*gtids(gno), server_id=1)
        if gno == 3:
            server.gap()
            server.open_file(f"{A}:1-4,{B}:1")
        executed = None if gno == 3 else f"{A}:1-5,{B}:1"
        end = {"to_file": file, "to_position": end_of(ended), "gtid_executed": executed}
        tell(server, "replayed", peer="s", **end)
    server.time()
    recovery.source.time()
    output = audit(recovery.source, server)
    assert names(output) == []
    assert "replay_unseen" in [seen.reason for seen in output.observations]


def test_replays_of_two_logs_at_once_are_undecided() -> None:
    """Which of the groups is of which log is not known."""
    recovery = Recovery()
    tell(recovery.server, "restore", peer="s", **recovery.summary)
    tell(recovery.server, "replay", peer="other")
    recovery.server.log(*gtids(3), server_id=1)
    tell(recovery.server, "replay", peer="s")
    recovery.server.log(*gtids(5), server_id=1)
    position = {"to_file": recovery.stop[0], "to_position": recovery.stop[1]}
    tell(recovery.server, "replayed", peer="s", **position, gtid_executed=f"{A}:1-5")
    recovery.server.time()
    recovery.source.time()
    output = audit(recovery.source, recovery.server)
    assert names(output) == []
    assert "replay_unseen" in [seen.reason for seen in output.observations]


def test_groups_without_gtids_between_two_steps_may_be_left_out_on_purpose() -> None:
    """As MySQL's manual advises to pass over a wrong statement; GTIDs are named as excluded."""
    steps = (2, 3, [""]), (4, 5, [""])
    output = in_steps(*steps, is_anonymous=True)
    assert names(output) == []
    assert "left_out_between" in [seen.reason for seen in output.observations]
    output = in_steps((2, 3, gtids(3)), (4, 5, gtids(5)), excluded=f"{A}:4")
    assert names(output) == []
    output = in_steps((2, 3, gtids(3)), (4, 5, gtids(5)))
    assert names(output) == [REPLAY]


def test_a_later_step_may_name_a_file_that_is_none_of_the_log() -> None:
    """As of a copy: nothing is known to be left out between the two steps."""
    output = in_steps((2, 3, gtids(3)), (4, 5, gtids(5)), from_file="copy.of.a.log")
    assert names(output) == [REPLAY]


def test_own_groups_before_a_restart_are_not_held_against_a_replay() -> None:
    """What a server wrote between restore and replay is not known completely after a start."""
    recovery = Recovery()
    server = recovery.server
    tell(server, "restore", peer="s", **recovery.summary)
    server.log(f"{B}:1")
    server.boot(data_lineage=1)
    tell(server, "replay", peer="s", from_file=recovery.stop[0], from_position=end_of(2))
    server.log(*gtids(3, 4, 5), server_id=1)
    position = {"to_file": recovery.stop[0], "to_position": recovery.stop[1]}
    tell(server, "replayed", peer="s", **position, gtid_executed=f"{A}:1-5,{B}:1", tables=OTHERS)
    server.time()
    recovery.source.time()
    output = audit(recovery.source, server)
    assert names(output) == []
    assert [seen.rules for seen in output.observations] == [(STOP,)]


@pytest.mark.parametrize("change", [{"tables": TABLES}, {"restored": {"tables": OTHERS}}])
def test_the_data_are_those_of_the_image_and_of_the_source(change: dict[str, Any]) -> None:
    """Recovered tables differ from the source's, restored ones from the image's."""
    assert names(Recovery().run(*gtids(3, 4, 5), **change)) == [DATA]


def test_without_checksums_of_the_stop_point_the_data_stay_undecided() -> None:
    """The source names those of another position."""
    output = Recovery().run(*gtids(3, 4), executed=f"{A}:1-4", end=end_of(4))
    assert names(output) == []
    texts = [observation_text(o) for o in output.observations]
    assert len(texts) == 1
    assert "has no checksums" in texts[0]


def test_an_image_that_was_not_seen_leaves_an_old_log_undecided() -> None:
    """Nobody knows which of the server's logs it is of."""
    output = Recovery(same_server=True, sees_image=False).run(*gtids(4, 5))
    assert names(output) == []
    assert {REPLAY, STOP, DATA, RESTORE} == {r for o in output.observations for r in o.rules}


@pytest.mark.parametrize(
    ("restored", "broken"),
    [
        ({}, []),
        ({"gtid_executed": f"{A}:1"}, [("gtids_left_behind", f"{A}:2")]),
        ({"gtid_executed": ""}, [("gtids_left_behind", f"{A}:1-2")]),
        ({"gtid_executed": f"{A}:1-3"}, [("gtids_beyond_image", f"{A}:3")]),
        ({"gtid_executed": f"{A}:1-2,{B}:1-9"}, []),  # its own, as of an import
        ({"gtid_executed": None}, []),
        ({"binlog_position": end_of(1)}, [("other_position", f"s-bin.000001:{end_of(1)}")]),
        ({"binlog_file": None}, []),
        (
            {"binlog_position": end_of(1), "gtid_executed": None},
            [("other_position", f"s-bin.000001:{end_of(1)}")],
        ),
    ],
)
def test_a_restored_server_has_what_its_image_has(
    restored: dict[str, Any], broken: list[tuple[str, str]]
) -> None:
    """Its GTID set, and the coordinates from which it goes on."""
    recovery = Recovery()
    tell(recovery.server, "restore", peer="s", **{**recovery.summary, **restored})
    recovery.source.time()
    found = audit(recovery.source, recovery.server).findings
    assert [(finding.case, str(finding.witness)) for finding in found] == broken


def channel_summary(**positions: int) -> dict[str, Any]:
    """What an image of a replica has of its channel, with some offsets changed."""
    of = {"read": 900, "exec": 500, "master": 700, "relay": 400, **positions}
    file = "c-bin.000002"
    return {
        "channel": "",
        "read_source_log_file": file,
        "read_source_log_pos": of["read"],
        "exec_source_log_file": file,
        "exec_source_log_pos": of["exec"],
        "relay_log_file": "relay.000003",
        "relay_log_pos": of.get("applied", 300),
        "slave_master_info": {"Master_log_name": file, "Master_log_pos": of["master"]},
        "slave_relay_log_info": {
            "Relay_log_name": "./relay.000003",
            "Relay_log_pos": 250,
            "Master_log_name": file,
            "Master_log_pos": of["relay"],
        },
    }


@pytest.mark.parametrize(
    ("restored", "broken"),
    [
        ({}, []),
        ({"read": 901}, ["read 901"]),
        ({"read": 500, "master": 500}, []),  # relay log recovery
        ({"read": 700}, []),  # as a start reads it
        ({"master": 701}, ["slave_master_info 701"]),
        ({"relay": 500}, []),
        ({"relay": 900}, ["slave_relay_log_info 900"]),
        ({"applied": 4}, []),  # a relay log that has begun anew
    ],
)
def test_a_restored_replica_stores_what_its_image_has(
    restored: dict[str, int], broken: list[str]
) -> None:
    """Or what a start makes of it; relay logs may begin anew."""
    recovery = Recovery(sees_image=False)
    tell(recovery.source, "image", **recovery.summary, channels=[channel_summary()])
    channels = [channel_summary(**restored)]
    tell(recovery.server, "restore", peer="s", **recovery.summary, channels=channels)
    recovery.source.time()
    found = audit(recovery.source, recovery.server).findings
    assert [one.case for one in found if one.rule == RESTORE] == ["other_position"] * len(broken)
    ends = [f"{one.at.split()[-1]} {str(one.witness).split(':')[1]}" for one in found]
    assert ends == broken


def test_what_an_image_does_not_say_a_restored_replica_may_store() -> None:
    """An image without a repository does not tell from where a start goes on."""
    recovery = Recovery(sees_image=False)
    image = channel_summary()
    del image["slave_master_info"]
    tell(recovery.source, "image", **recovery.summary, channels=[image])
    channels = [channel_summary(read=901)]
    tell(recovery.server, "restore", peer="s", **recovery.summary, channels=channels)
    recovery.source.time()
    assert names(audit(recovery.source, recovery.server)) == []


@pytest.mark.parametrize("lacking", ["read", "exec", "slave_master_info", "slave_relay_log_info"])
def test_what_a_restored_replica_does_not_say_is_not_held_against_it(lacking: str) -> None:
    recovery = Recovery(sees_image=False)
    tell(recovery.source, "image", **recovery.summary, channels=[channel_summary()])
    restored = {k: v for k, v in channel_summary().items() if not k.startswith(lacking)}
    tell(recovery.server, "restore", peer="s", **recovery.summary, channels=[restored])
    recovery.source.time()
    assert names(audit(recovery.source, recovery.server)) == []


@pytest.mark.parametrize(
    ("restored", "broken"),
    [({}, []), ({"gtid_executed": f"{A}:1"}, [RESTORE]), ({"binlog_position": 4}, [RESTORE] * 2)],
)
def test_of_images_of_one_name_the_coordinates_say_which_was_restored(
    restored: dict[str, Any], broken: list[str]
) -> None:
    """As of a backup that has the same name each night; one of no coordinates is of none."""
    recovery = Recovery()
    later = {"binlog_position": end_of(6), "gtid_executed": f"{A}:1-6", "tables": OTHERS}
    tell(recovery.source, "image", **{**recovery.summary, **later})
    output = recovery.run(*gtids(3, 4, 5), restored=restored)
    assert [name for name in names(output) if name == RESTORE] == broken


def test_a_restored_server_has_the_tagged_gtids_of_its_image() -> None:
    recovery = Recovery(sees_image=False)
    recovery.summary["gtid_executed"] = f"{A}:1-2:blue:1-3"
    tell(recovery.source, "image", **recovery.summary)
    summary = {**recovery.summary, "gtid_executed": f"{A}:1-2:blue:1-2"}
    tell(recovery.server, "restore", peer="s", **summary)
    recovery.source.time()
    found = audit(recovery.source, recovery.server).findings
    assert [(one.case, one.witness) for one in found] == [("gtids_left_behind", f"{A}:blue:3")]


@pytest.mark.parametrize("event", ["gap", "follow", "log"])
def test_a_restored_server_that_goes_on_may_have_more_than_its_image(event: str) -> None:
    """What it has received, logged, or what the journal may have missed."""
    recovery = Recovery()
    if event == "follow":
        recovery.server.follow(recovery.source)
    elif event == "log":
        recovery.server.log(f"{B}:1")
    else:
        recovery.server.gap()
    summary = {**recovery.summary, "gtid_executed": f"{A}:1-3"}
    tell(recovery.server, "restore", peer="s", **summary)
    recovery.source.time()
    assert names(audit(recovery.source, recovery.server)) == []


def test_a_gap_on_the_restored_server_leaves_the_replay_undecided() -> None:
    """What was logged in it is not known; what the server says at the end is."""
    recovery = Recovery()
    server = recovery.server
    tell(server, "restore", peer="s", **recovery.summary)
    tell(server, "replay", peer="s", from_file=recovery.stop[0], from_position=end_of(2))
    server.gap()
    position = {"to_file": recovery.stop[0], "to_position": recovery.stop[1]}
    tell(server, "replayed", peer="s", **position, gtid_executed=f"{A}:1-4", tables=OTHERS)
    server.time()
    recovery.source.time()
    output = audit(recovery.source, server)
    assert names(output) == [STOP]
    assert any(REPLAY in o.rules for o in output.observations)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_recovery_outlives_the_state_bytes(cut: int) -> None:
    """The audit is dumped and loaded anywhere on the way and finds the same."""
    recovery = Recovery()
    recovery.run(*gtids(4, 5))
    events = [*recovery.source.fleet_events, *recovery.server.fleet_events]
    fleet = FleetAudit()
    found = fleet.absorb(events[:cut]).findings
    fleet = FleetAudit.from_bytes(fleet.to_bytes())
    found += fleet.absorb(events[cut:]).findings + fleet.finish().findings
    assert [finding.rule for finding in found] == [REPLAY]


def test_an_image_whose_tables_the_source_did_not_have_is_found() -> None:
    """The source's own checksums at the image's position are others."""
    recovery = Recovery()
    position = {"binlog_file": recovery.stop[0], "binlog_position": end_of(2)}
    recovery.source.fleet_event(
        FleetEventKind.BACKUP, step="checksum", binlog_lineage=0, **position, tables=OTHERS
    )
    [finding] = recovery.run(*gtids(3, 4, 5)).findings
    assert (DATA, "image_other_than_source") == (finding.rule, finding.case)
    assert position == {f"binlog_{name}": finding.data[name] for name in ("file", "position")}
    assert [{"rows": 3, "checksum": sum_} for sum_ in ("aa", "bb")] == [
        finding.data["seen"],
        finding.data["wanted"],
    ]


@pytest.mark.parametrize(
    ("changes", "rule", "reason"),
    [
        ({"executed": None}, STOP, "restored_set_unread"),
        ({"restored": {"binlog_position": None}}, REPLAY, "image_without_position"),
        ({"restored": {"binlog_file": None}}, REPLAY, "image_without_position"),
        ({"end": end_of(9)}, DATA, "no_checksums"),
    ],
)
def test_what_was_not_read_leaves_its_rule_undecided(
    changes: dict[str, Any], rule: str, reason: str
) -> None:
    """Each with the reason that it lacks."""
    output = Recovery().run(*gtids(3, 4, 5), **changes)
    assert rule not in names(output)
    assert [reason] == [seen.reason for seen in output.observations if rule in seen.rules]


ALONE = [f"{B}:1", f"{B}:2", f"{B}:3"]


@pytest.mark.parametrize("log_bin", [True, False])
@pytest.mark.parametrize(
    ("executed", "given", "broken"),
    [
        (f"{A}:1-5", "", []),
        (f"{A}:1-5", f"{A}:1-2", []),
        (f"{A}:1-2:4-5", "", [REPLAY, STOP]),
        (f"{A}:1-5", f"{A}:3-5", [REPLAY]),
    ],
)
def test_a_server_that_does_not_log_what_it_replays(
    log_bin: bool, executed: str, given: str, broken: list[str]
) -> None:
    """With log_bin or sql_log_bin off its GTID set says what it has, unless that was given."""
    recovery = Recovery()
    recovery.server.boot(data_lineage=1, log_bin=log_bin)
    tell(recovery.server, "restore", peer="s", **recovery.summary)
    tell(recovery.server, "replay", peer="s")
    if given:
        recovery.server.assign(given)
    position = {"to_file": recovery.stop[0], "to_position": recovery.stop[1]}
    tell(recovery.server, "replayed", peer="s", **position, gtid_executed=executed)
    recovery.server.time()
    recovery.source.time()
    output = audit(recovery.source, recovery.server)
    left = [rule for rule in broken if log_bin or rule != REPLAY]
    assert set(names(output)) == set(left)
    reasons = {seen.reason for seen in output.observations if REPLAY in seen.rules}
    assert ("replayed_unlogged" in reasons) == (REPLAY not in left)


@pytest.mark.parametrize(
    ("replayed", "is_own"),
    [
        (ALONE, True),
        (ALONE[:2], True),
        ([*ALONE[:1], *gtids(4, 5)], False),  # a group repeated under another GTID
        ([*ALONE[:2], "cccccccc-0000-0000-0000-000000000003:1"], False),
    ],
)
@pytest.mark.parametrize("knows_server", [True, False])
def test_a_replay_without_the_gtids_of_the_log(
    replayed: list[str], is_own: bool, knows_server: bool
) -> None:
    """With --skip-gtids: which group is which cannot be said, and no data are wrong yet.

    What they are logged under may be the UUID of a server whose start was not seen.
    """
    executed = f"{A}:1-2,{','.join(replayed)}"
    recovery = Recovery()
    if not knows_server:
        del recovery.server.fleet_events[0]
    output = recovery.run(*replayed, executed=executed)
    assert set(names(output)) == (set() if is_own else {REPLAY, STOP})
    said = [observation_text(o) for o in output.observations if o.reason == "replayed_as_own"]
    assert bool(said) == is_own
    assert all(f"has logged {len(replayed)} groups" in text for text in said)


def test_what_the_image_had_is_missed_whatever_gtids_the_replay_gave() -> None:
    """A replay with --skip-gtids explains only that what it brought has others."""
    output = Recovery().run(*ALONE, executed=",".join(ALONE))
    assert names(output) == [STOP]


@pytest.mark.parametrize("when", ["before", "after", "after it has logged"])
@pytest.mark.parametrize(
    "given", [f"{A}:1-2", f"{A}:1-3", f"{A}:3", f"{A}:1-2,{B}:1-9", f"{A}:1-2,{C}:1-9"]
)
def test_what_set_gtid_purged_gives_a_restored_server(when: str, given: str) -> None:
    """More than the image has will never come; the record of the restore need not say so.

    What another server has given out a dump of that one may have brought.
    """
    recovery = Recovery()
    if when == "before":
        recovery.server.assign(given)
    tell(recovery.server, "restore", peer="s", **recovery.summary)
    if when == "after it has logged":
        recovery.server.log(f"{B}:1")
    if when != "before":
        recovery.server.assign(given)
    recovery.source.time()
    found = audit(recovery.source, recovery.server).findings
    is_wrong = given in (f"{A}:1-3", f"{A}:3") and when != "after it has logged"
    assert [(one.case, one.witness) for one in found] == (
        [("gtids_beyond_image", f"{A}:3")] * is_wrong
    )
    assert [one.data["restored"] for one in found] == [f"{A}:1-3"] * is_wrong


def test_what_is_given_after_a_replay_is_no_part_of_the_restore() -> None:
    """As after one that logged nothing, or left out the GTIDs of the log."""
    recovery = Recovery()
    tell(recovery.server, "restore", peer="s", **recovery.summary)
    tell(recovery.server, "replay", peer="s")
    recovery.server.assign(f"{A}:3-5")
    recovery.source.time()
    assert names(audit(recovery.source, recovery.server)) == []


@pytest.mark.parametrize(
    ("first", "forgets", "witness"),
    [
        (2, "nothing", f"{A}:2"),
        (3, "nothing", ""),
        (2, "gap", ""),
        (2, "reset", ""),
        (2, "another restore", ""),
    ],
)
def test_what_a_restored_server_has_it_does_not_log(first: int, forgets: str, witness: str) -> None:
    """Its source sends what is missing from gtid_executed, whatever the restore said."""
    recovery = Recovery()
    server = recovery.server
    tell(server, "restore", peer="s", **recovery.summary)
    if forgets == "gap":
        server.gap()
    elif forgets == "reset":
        server.reset()
    elif forgets == "another restore":
        server.boot(data_lineage=2)
    server.follow(recovery.source)
    server.log(*gtids(*range(first, 4)), server_id=1)
    server.log(*gtids(4), server_id=1)
    recovery.source.time()
    found = [
        (one.rule, one.case, one.witness)
        for one in audit(recovery.source, server).findings
        if one.rule == RESTORE
    ]
    assert found == [(RESTORE, "executed_again", witness)] * bool(witness)


@pytest.mark.parametrize("coordinates_from", ["source_status", "innodb_header", "log_status"])
@pytest.mark.parametrize(("restored", "is_broken"), [("1-2", True), ("1-3", False), ("1-4", True)])
def test_an_image_under_backup_locks_is_restored_whole(
    coordinates_from: str, restored: str, is_broken: bool
) -> None:
    """Its channels are not compared: a replica with workers has stored an earlier position."""
    recovery = Recovery(sees_image=False)
    summary = recovery.summary | {"gtid_executed": f"{A}:1-3"}
    at = {"exec_source_log_file": "u-bin.000001"}
    channels = [{"channel": "c", **at, "exec_source_log_pos": end} for end in (500, 400)]
    tell(
        recovery.source,
        "image",
        **summary | {"channels": channels[:1]},
        coordinates_from=coordinates_from,
        logged=f"{A}:1-3",
    )
    has = {"gtid_executed": f"{A}:{restored}", "channels": channels[1:]}
    tell(recovery.server, "restore", peer="s", **summary | has)
    recovery.source.time()
    assert names(audit(recovery.source, recovery.server)) == [RESTORE] * is_broken


@pytest.mark.parametrize(
    ("logged", "restored", "answer"),
    [
        (f"{A}:1-4", "1-4", "holds"),
        (f"{A}:1-4", "1-5", "is broken"),
        (None, "1-3", "holds"),
        (None, "1-4", "restored_may_be_committing"),
    ],
)
def test_a_restored_server_has_what_was_committing_when_log_status_was_read(
    logged: str | None, restored: str, answer: str
) -> None:
    """The row's GTID set may lack groups from before its coordinates; the data may hold them."""
    recovery = Recovery(sees_image=False)
    summary = recovery.summary | {"gtid_executed": f"{A}:1-3"}
    tell(recovery.source, "image", **summary, coordinates_from="log_status", logged=logged)
    has = {"gtid_executed": f"{A}:{restored}"}
    tell(recovery.server, "restore", peer="s", **summary | has)
    recovery.source.time()
    output = audit(recovery.source, recovery.server)
    reasons = {one.reason for one in output.observations}
    assert names(output) == [RESTORE] * (answer == "is broken")
    assert ("restored_may_be_committing" in reasons) == (answer == "restored_may_be_committing")
