"""Anonymous transactions that the applier has passed and the replica has not logged."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.values.binlog import WRAP
from tests.support.journals import UUID_B, UUID_C, Journal, Record, audit
from tests.support.rule_cases_of_channels import applied_exactly_once__left_out


def _replica(
    *,
    filtered: bool = False,
    left_out: int | None = 2,
    form: str = "rows",
    stamps: tuple[int, ...] = (1, 2, 3, 4, 5, 6),
) -> Journal:
    """A replica without GTIDs that has received six groups and executed all but one."""
    source = Journal("s", UUID_C, 3).begin()
    for stamp in stamps:
        source.binlog.group(None, form, original_commit_timestamp=stamp)
    replica = Journal("a", UUID_B, 2, gtid_mode="OFF").begin()
    replica.record(
        "channel",
        channel="",
        action="change_source",
        source_uuid=UUID_C,
        auto_position=False,
        filtered=filtered,
    )
    relay = replica.relay()
    relay.connect()
    for number, group in enumerate(source.binlog.groups):
        relay.copy(group)
        stamp = group[0]["original_commit_timestamp"]
        if number != left_out:
            replica.binlog.group(None, form, server_id=3, original_commit_timestamp=stamp)
        if number in (0, 4):
            replica.row(replica_status=replica.replica_status())
    replica.row(replica_status=replica.replica_status())
    return replica


def _verdicts(journal: Journal) -> list[str]:
    result = audit(journal)
    assert result.broken == []
    return [cut.verdict for cut in result.cuts if cut.scope == "channel"]


@pytest.mark.parametrize("left_out", [0, 1, 2, 3, 5, None])
def test_one_between_others_is_undecided(left_out: int | None) -> None:
    """What is before the first one that was logged, or after the last one, may be in no log yet."""
    is_between = left_out in (1, 2, 3)
    expected = ["CONSISTENT", *["UNDECIDED" if is_between else "CONSISTENT"] * 2]
    assert _verdicts(_replica(left_out=left_out)) == expected


def test_one_without_a_time_is_not_known_again() -> None:
    """Of servers before MySQL 8.0.1: nothing distinguishes it from others of its server."""
    stamps = (1, 2, 0, 4, 5, 6)
    for left_out in (None, 2):
        assert _verdicts(_replica(left_out=left_out, stamps=stamps)) == ["CONSISTENT"] * 3


def test_one_with_a_gtid_beside_them_needs_no_time() -> None:
    """It is known again by its GTID, in both logs."""
    journal = _replica(left_out=None)
    for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE"):
        journal.record("variables", variables={"gtid_mode": mode})
    other = Journal("s", UUID_C, 3).begin()
    other.binlog.end = journal.relays[""].source[1]
    for gtid, stamp in ((None, 7), (f"{UUID_C}:1", 0)):
        journal.relays[""].copy(other.binlog.group(gtid, original_commit_timestamp=stamp))
    for gtid, stamp in ((None, 7), (f"{UUID_C}:1", 0)):
        journal.binlog.group(gtid, server_id=3, original_commit_timestamp=stamp)
    journal.row(replica_status=journal.replica_status())
    assert _verdicts(journal)[-1] == "CONSISTENT"
    assert "applied_exactly_once" not in {one.rule for one in audit(journal).cuts[-1].undecided}


def test_what_a_start_has_left_out_is_found_and_not_undecided_after_that() -> None:
    journal = applied_exactly_once__left_out(breaks=True)
    journal.row(replica_status=journal.replica_status())
    result = audit(journal)
    assert result.broken == ["applied_exactly_once"]
    said = [one for cut in result.cuts for one in cut.undecided]
    assert "applied_exactly_once" not in {one.rule for one in said}


def test_it_stays_until_the_channel_begins_anew() -> None:
    """It is counted once; a start does not bring it back."""
    journal = _replica()
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.binlog.open(2)
    journal.row(replica_status=journal.replica_status())
    assert _verdicts(journal)[-1] == "UNDECIDED"
    [check] = [
        c for c in audit(journal).cuts[-1].undecided if c.reason == "applied_passed_unlogged"
    ]
    assert check.data["count"] == 1
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    journal.row(replica_status=journal.replica_status())
    assert "applied_passed_unlogged" not in {c.reason for c in audit(journal).cuts[-1].undecided}


@pytest.mark.parametrize(("filtered", "form"), [(True, "rows"), (False, "myisam")])
def test_what_filters_may_leave_out(filtered: bool, form: str) -> None:
    """Nor is a change judged that no transaction protects."""
    assert _verdicts(_replica(filtered=filtered, form=form)) == ["CONSISTENT"] * 3


FILTERS = (
    *("Replicate_Do_DB", "Replicate_Ignore_DB", "Replicate_Do_Table", "Replicate_Ignore_Table"),
    *("Replicate_Wild_Do_Table", "Replicate_Wild_Ignore_Table", "Replicate_Rewrite_DB"),
    "Replicate_Ignore_Server_Ids",
)
NO_FILTERS = dict.fromkeys(FILTERS, "")


@pytest.mark.parametrize("column", FILTERS)
@pytest.mark.parametrize("stays", [True, False])
def test_a_filter_of_which_no_record_says(column: str, stays: bool) -> None:
    """CHANGE REPLICATION FILTER, or an option file at a start: the first one after it is left out.

    Also where the filter is taken back before the row at which that is seen. Whether the filter
    did it, or the start, shows nothing.
    """
    journal = applied_exactly_once__left_out(breaks=True)
    row = journal.records.pop()
    journal.row(replica_status=journal.replica_status(**NO_FILTERS | {column: "x"}))
    if not stays:
        journal.row(replica_status=journal.replica_status(**NO_FILTERS))
    result = audit(journal)
    assert result.broken == []
    assert [cut.filtered for cut in result.cuts if cut.channel == ""] == [True] * (2 - stays)
    checks = [check for cut in result.cuts for check in cut.undecided]
    [check] = [check for check in checks if check.rule == "applied_exactly_once"]
    assert (check.reason, check.data["count"]) == ("applied_over_start_filtered", 1)
    journal.records[-1 if stays else -2] = row
    assert audit(journal).broken == ["applied_exactly_once"]


@pytest.mark.parametrize(
    ("before", "status", "expected", "ignores"),
    [
        ({"filtered": True}, {}, True, True),
        ({}, {}, False, False),
        (None, {}, None, False),
        (None, NO_FILTERS, False, False),
        (None, NO_FILTERS | {"Replicate_Do_DB": "a"}, True, False),
        (None, NO_FILTERS | {"Replicate_Ignore_Server_Ids": "3"}, True, True),
        (None, {"Replicate_Do_DB": "", "Replicate_Ignore_DB": ""}, None, False),  # not all of them
        (None, {"Replicate_Do_DB": "a"}, True, False),
        (None, {"Replicate_Ignore_Server_Ids": "3"}, True, True),
        ({"filtered": True}, NO_FILTERS, True, False),  # what was left out stays so
        ({"ignore_server_ids": [3]}, NO_FILTERS, True, True),
    ],
)
@pytest.mark.parametrize("then", [None, "gap of its writer", "gap"])
def test_what_is_known_of_a_channels_filters(
    before, status, expected, ignores, then: str | None
) -> None:
    """By its record and by the rows since then; after a gap by the rows that follow.

    Who writes the journal knows where it has a gap, and goes on observing what is configured.

    Whether its receiver ignores servers is shown by one of the columns; else it may.
    """
    journal = Journal("a", UUID_B, 2).begin()
    journal.relay().connect()
    if before is not None:
        about = {"channel": "", "action": "change_source", "source_uuid": UUID_C}
        journal.record("channel", **about, **before)
    if then == "gap of its writer":
        journal.record("gap")
    is_lost = then == "gap"
    lines = [json.dumps(record) for record in journal.records]
    journal.row(replica_status=journal.replica_status(**status))
    row = json.dumps(journal.records[-1])
    one = InstanceAudit("a")
    for block in blocks_from_lines(lines):
        one.absorb(block)
    [block] = blocks_from_lines([row])
    if is_lost:
        expected = {(): None, tuple(NO_FILTERS.values()): False}.get(
            tuple(status.values()), expected
        )
        ignores = bool(status.get("Replicate_Ignore_Server_Ids", True))
    outputs = one.absorb(replace(block, first_sequence=one.next_sequence + is_lost)), one.finish()
    cuts = [cut for output in outputs for cut in output.cuts]
    assert [cut.filtered for cut in cuts if cut.scope == "channel"] == [expected]
    [shown] = [e for o in outputs for e in o.fleet_events if e.kind is FleetEventKind.STATUS]
    [channel] = shown.body["channels"]
    assert channel["ignores_servers"] == ignores
    assert channel["filtered"] == (is_lost if expected is None else expected)


@pytest.mark.parametrize("position", [4, 2**32 + 4])
@pytest.mark.parametrize("is_left_out", [True, False])
def test_a_transaction_left_out_of_the_file_before(position: int, is_left_out: bool) -> None:
    """The applier is in the source's next file, where nothing that was received ends."""
    journal = applied_exactly_once__left_out(is_left_out)
    journal.records.pop()
    journal.relays[""].connect("binlog.000002", position)
    journal.row(replica_status=journal.replica_status(), gtid_purged="")
    result = audit(journal)
    assert result.broken == ["applied_exactly_once"] * is_left_out
    outcomes = {(one.rule, one.reason) for cut in result.cuts for one in cut.undecided}
    assert ("applied_exactly_once", "position_wrapped") not in outcomes


def _receives(
    channels: dict[str, int], *, beyond: int = 0
) -> tuple[Journal, dict[str, list[dict[str, object]]]]:
    """A replica without GTIDs that has received four groups in each of its channels.

    Args:
        channels: The server id of each channel's source.
        beyond: How many bytes more are in their files before these groups.

    Returns:
        Its journal, and what each channel's row says when the first is applied, the second, ….
    """
    replica = Journal("a", UUID_B, 2, gtid_mode="OFF").begin()
    applied: dict[str, list[dict[str, object]]] = {}
    uuids = {name: f"{UUID_C[:-1]}{server_id}" for name, server_id in channels.items()}
    for name, uuid in uuids.items():
        channel = {"channel": name, "source_uuid": uuid, "auto_position": False}
        replica.record("channel", action="change_source", **channel)
    for name, server_id in channels.items():
        source = Journal("s", uuids[name], server_id).begin()
        for stamp in range(1, 5):
            source.binlog.group(None, original_commit_timestamp=stamp)
        relay = replica.relay(name, f"relay-{server_id}")
        relay.connect(position=beyond + source.binlog.groups[0][0]["start"])
        applied[name] = []
        for group in source.binlog.groups:
            relay.copy(group)
            end = beyond + group[-1]["start"] + group[-1]["length"]
            applied[name].append({"Relay_Log_Pos": relay.end, "Exec_Source_Log_Pos": end})
    return replica, applied


def _row(journal: Journal, applied: dict[str, dict[str, object]]) -> None:
    status = journal.replica_status()
    for one in status:
        one.update(applied[one["Channel_Name"]])
        one["Read_Source_Log_Pos"] = max(one["Read_Source_Log_Pos"], one["Exec_Source_Log_Pos"])
    journal.row(replica_status=status)


@pytest.mark.parametrize("beyond", [0, WRAP])
@pytest.mark.parametrize("is_passed", [False, True])
def test_what_is_behind_the_executed_position_is_logged_in_any_order(
    is_passed: bool, beyond: int
) -> None:
    """A worker has committed the fourth; the third is under way until the position passes it.

    Beyond 4 GiB as well, where the begin of the connection tells which position is meant.
    """
    journal, applied = _receives({"": 3}, beyond=beyond)
    for stamp in (1, 2, 4):
        journal.binlog.group(None, server_id=3, original_commit_timestamp=stamp)
    _row(journal, {"": applied[""][3 if is_passed else 1]})
    assert _verdicts(journal) == ["UNDECIDED" if is_passed else "CONSISTENT"]
    reasons = [check.reason for check in audit(journal).cuts[-1].undecided]
    assert ("applied_passed_unlogged" in reasons) == is_passed


def test_what_another_channel_has_still_to_apply_is_not_asked_of_this_one() -> None:
    """Its source's files have the same names, and its groups end at the same positions."""
    journal, applied = _receives({"": 3, "other": 4})
    for stamp in range(1, 5):
        journal.binlog.group(None, server_id=3, original_commit_timestamp=stamp)
    _row(journal, {"": applied[""][3], "other": applied["other"][0]})
    assert _verdicts(journal) == ["CONSISTENT"] * 2


@pytest.mark.parametrize("is_followed", [True, False])
def test_what_nothing_executed_follows_may_still_come(is_followed: bool) -> None:
    """Since a start the applier has passed one that is not logged: the next one shows its lack."""
    journal, applied = _receives({"": 3})
    for stamp in (1, 2):
        journal.binlog.group(None, server_id=3, original_commit_timestamp=stamp)
    recovered = {"file": "binlog.000001", "position": journal.binlog.end}
    journal.start(crashed=True, recovered=recovered)
    journal.binlog.open(2, "")
    if is_followed:
        journal.binlog.group(None, server_id=3, original_commit_timestamp=4)
    _row(journal, {"": applied[""][3]})
    result = audit(journal)
    assert result.broken == ["applied_exactly_once"] * is_followed
    [cut] = [one for one in result.cuts if one.scope == "channel"]
    assert cut.verdict == ("INCONSISTENT" if is_followed else "CONSISTENT")


@pytest.mark.parametrize("crash", ["", "keeps all", "takes all", "with another name"])
@pytest.mark.parametrize("action", ["reset", "reset_all", "change_source"])
@pytest.mark.parametrize("first", [0, 2, 3])
def test_executed_again_after_a_command(first: int, action: str, crash: str) -> None:
    """RESET REPLICA and START REPLICA: without GTIDs the channel begins at the first file.

    Data that were put back meanwhile need it, so it is undecided as long as it is remembered.
    """
    source = Journal("s", UUID_C, 3).begin()
    for stamp in range(1, 6):
        source.binlog.group(None, original_commit_timestamp=stamp)
    replica = Journal("a", UUID_B, 2, gtid_mode="OFF").begin()
    change = {"channel": "", "source_uuid": UUID_C, "auto_position": False}
    replica.record("channel", action="change_source", **change)

    def apply(groups: list[list[dict[str, object]]]) -> None:
        relay = replica.relay()
        relay.connect(position=groups[0][0]["start"])
        for group in groups:
            relay.copy(group)
            stamp = group[0]["original_commit_timestamp"]
            replica.binlog.group(None, server_id=3, original_commit_timestamp=stamp)
        replica.row(replica_status=replica.replica_status(Auto_Position=0))

    before = replica.binlog.coordinates
    apply(source.binlog.groups[:3])
    replica.record(
        "channel", action=action, **change if action == "change_source" else {"channel": ""}
    )
    if action == "reset_all":
        replica.record("channel", action="change_source", **change)
    if crash == "with another name":
        replica.binlog.stop()
        replica.record("stop")
        replica.start()
        replica.binlog.base_name = "renamed"
        replica.binlog.open(1)
    if crash:
        file, position = before if crash == "takes all" else replica.binlog.coordinates
        replica.start(crashed=True, recovered={"file": file, "position": position})
        replica.binlog.open(replica.binlog.number + 1)
    apply(source.binlog.groups[first:])
    result = audit(replica)
    assert result.broken == []
    said = [one for one in result.cuts[-1].undecided if one.rule == "applied_exactly_once"]
    count = (3 - first) * (crash != "takes all")
    assert [(one.reason, one.data["count"]) for one in said] == [("applied_before", count)] * (
        count > 0
    )
    assert (result.cuts[-1].verdict == "UNDECIDED") is (count > 0)


_NO_STAMP = {"original_commit_timestamp": None}


def _applies(*, transactional: bool = True, relay: Record | None = None, **own: object) -> Journal:
    """A replica without GTIDs that executes four groups and shows a row.

    Args:
        transactional: Whether its relay log info is an InnoDB table.
        relay: Other fields of the opening events in its relay log.
        own: Of those in its own binary log.
    """
    source = Journal("s", UUID_C, 3).begin()
    for stamp in range(1, 5):
        source.binlog.group(None, original_commit_timestamp=stamp)
    replica = Journal(
        "a", UUID_B, 2, gtid_mode="OFF", relay_log_info_transactional=transactional
    ).begin()
    replica.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay_log = replica.relay()
    relay_log.connect()
    for stamp, group in enumerate(source.binlog.groups, 1):
        opener = relay_log.copy(group)[0]
        opener.update(relay or {})
        fields = {"server_id": 3, "original_commit_timestamp": stamp} | own
        replica.binlog.group(None, **fields)
    replica.row(replica_status=replica.replica_status())
    return replica


def _of_last_row(journal: Journal) -> tuple[list[str], str]:
    """Why the rule is undecided there, and the channel's verdict."""
    cut = audit(journal).cuts[-1]
    rule = "applied_exactly_once"
    return [one.reason for one in cut.undecided if one.rule == rule], cut.verdict


@pytest.mark.parametrize(
    ("relay", "own", "is_known"),
    [
        ({}, {}, True),
        (_NO_STAMP, {}, False),
        ({}, _NO_STAMP, False),
        ({"server_id": None}, {}, False),
        ({}, {"server_id": None}, False),
        ({}, {"server_id": 2} | _NO_STAMP, True),
    ],
)
def test_without_an_origin_nothing_is_compared(relay: Record, own: Record, is_known: bool) -> None:
    """MySQL 5.7 has no original_commit_timestamp; what the replica wrote itself needs none."""
    found = _of_last_row(_applies(relay=relay, **own))
    assert found == (["applied_origins_unknown"] * (not is_known), "CONSISTENT")


@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize(
    ("relay", "own", "ends", "reason"),
    [
        ({}, {}, True, None),
        ({}, {}, False, "applied_log_end_unknown"),
        (_NO_STAMP, {}, True, "applied_origins_unknown"),
        ({}, _NO_STAMP, True, "applied_origins_unknown"),
    ],
)
def test_a_crash_that_cannot_be_followed(
    relay: Record, own: Record, ends: bool, reason: str | None, transactional: bool
) -> None:
    """Only an InnoDB table has the position of its data; a later crash mends nothing."""
    journal = _applies(transactional=transactional, relay=relay, **own)
    file, end = journal.binlog.coordinates
    recovered = {"recovered": {"file": file, "position": end}} if ends else {}
    journal.start(crashed=True, **recovered)
    journal.binlog.open(2, "")
    journal.row(replica_status=journal.replica_status())
    doubt = reason is not None and not transactional
    said = "applied_crash_unfollowed" if doubt else reason
    expected = [said] * (said is not None), "UNDECIDED" if doubt else "CONSISTENT"
    assert _of_last_row(journal) == expected
    file, end = journal.binlog.coordinates
    journal.start(crashed=True, recovered={"file": file, "position": end})
    journal.binlog.open(3, "")
    journal.row(replica_status=journal.replica_status())
    assert _of_last_row(journal) == expected
    journal.start(data_lineage="restored", crashed=False)
    journal.binlog.open(4, "")
    journal.row(replica_status=journal.replica_status())
    assert _of_last_row(journal)[0] in ([], ["applied_relay_unseen"])


def _brought(ends: dict[str, int], logged: int, *, filtered: str | None = None) -> list[str]:
    """Why it is undecided whether a replica without GTIDs has executed a transaction once.

    Args:
        ends: At how many ends of its source's binary log each channel has received it.
        logged: How often the replica has logged it.
        filtered: A channel with filters.
    """
    replica = Journal("a", UUID_B, 2, gtid_mode="OFF").begin()
    sources = {
        name: Journal("s", f"{UUID_C[:-1]}{number}", number).begin()
        for number, name in enumerate(ends, start=3)
    }
    for name, source in sources.items():
        replica.record(
            "channel",
            channel=name,
            action="change_source",
            source_uuid=source.uuid,
            auto_position=False,
            filtered=name == filtered,
        )
    for (name, source), count in zip(sources.items(), ends.values(), strict=True):
        relay = replica.relay(name, f"relay-{source.server_id}")
        relay.connect()
        for stamp in (7, *range(11, 10 + count)):
            source.binlog.group(None, server_id=9, original_commit_timestamp=7)
            source.binlog.group(None, original_commit_timestamp=stamp + 1)
        for group in source.binlog.groups:
            relay.copy(group)
    for stamp in range(1, logged + 1):
        replica.binlog.group(None, server_id=9, original_commit_timestamp=7)
        replica.binlog.group(None, server_id=3, original_commit_timestamp=stamp)
    replica.row(replica_status=replica.replica_status(Auto_Position=0))
    result = audit(replica)
    assert result.broken == []
    said = [
        one
        for cut in result.cuts
        for one in cut.undecided
        if one.rule == "applied_exactly_once" and one.reason != "applied_passed_unlogged"
    ]
    assert [one.data["count"] for one in said] == [1] * len(said)
    verdicts = {cut.verdict for cut in result.cuts if cut.scope == "channel"}
    assert "UNDECIDED" in verdicts or not said
    return [str(one.reason) for one in said]


@pytest.mark.parametrize("logged", [1, 2])
@pytest.mark.parametrize("filtered", [None, "x", "y"])
def test_what_two_channels_have_brought_is_executed_twice(logged, filtered) -> None:
    """Without GTIDs nobody skips it; where filters share it out, each has executed a part."""
    said = _brought({"x": 1, "y": 1}, logged, filtered=filtered)
    assert said == ["applied_by_two_channels"] * (logged == 2 and filtered is None)


@pytest.mark.parametrize(("ends", "logged"), [(3, 3), (3, 2), (2, 2), (2, 3)])
def test_what_goes_round_in_a_ring_is_executed_again_and_again(ends, logged) -> None:
    """Two may be two transactions with one commit time."""
    assert _brought({"": ends}, logged) == ["applied_goes_round"] * (ends == logged == 3)
