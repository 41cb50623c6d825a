"""A replica's image whose executed position is beyond the one that it says was read."""

from __future__ import annotations

import pytest

from tallystick.coordinates.values.binlog import WRAP
from tests.support.journals import UUID_B, UUID_C, Journal, audit
from tests.support.rule_cases import apply, replica
from tests.support.rule_cases_of_images import image, positions

_RULE = "backup_replica_positions_agree"


def without_position(group):
    """A group whose events do not say where in the source's file they are."""
    return [event | {"log_pos": 0} for event in group]


def cases(journal):
    """Of what is found in the image."""
    return [finding.case for finding in audit(journal).findings if finding.rule == _RULE]


@pytest.mark.parametrize(
    ("meanwhile", "reasons"),
    [
        ("nothing", None),
        ("gap", ["image_read_unsure"]),
        ("began_inside", ["image_read_unsure"]),
        ("beyond_4_gib", ["image_read_unsure"]),
        ("unpositioned", ["image_read_unsure"]),
        ("not_connected", ["image_read_unsure"]),
        ("connected_anew", []),
        ("other_files", []),
    ],
)
def test_what_was_executed_may_have_been_read_before(meanwhile, reasons):
    """A new connection by GTID set begins further back than what is applied."""
    journal, relay, more = replica()
    assert relay.source is not None
    file, read = relay.source
    executed = read + 400
    if meanwhile == "gap":
        journal.record("gap", channel="")
        relay.open(2)
        relay.connect(file, read)
        executed += 400
    elif meanwhile == "began_inside":
        journal.records = [r for r in journal.records if r["kind"] != "channel"]
        journal.records = [r for r in journal.records if r.get("start", 0) != 4]
    elif meanwhile == "unpositioned":
        apply(journal, relay, without_position(more[0]))
    elif meanwhile == "not_connected":
        is_received = [r.get("file") == relay.file and r["start"] > 4 for r in journal.records]
        journal.records = [
            r for r, is_out in zip(journal.records, is_received, strict=True) if not is_out
        ]
    elif meanwhile == "beyond_4_gib":
        executed = WRAP
    elif meanwhile == "connected_anew":
        for group in more[:2]:
            apply(journal, relay, group)
        file, executed = relay.source
    elif meanwhile == "other_files":
        file = "mysql-bin.000001"
    reported = {
        "read_source_log_file": "binlog.000001",
        "read_source_log_pos": read,
        "exec_source_log_file": file,
        "exec_source_log_pos": executed,
    }
    image(journal, channels=[positions(relay.coordinates, relay.coordinates, **reported)])
    result = audit(journal)
    if reasons is None:
        assert [(f.rule, f.case) for f in result.findings] == [
            (_RULE, "image_executed_beyond_read")
        ]
    else:
        assert not result.findings
        reasons_of_rule = [o.reason for o in result.observations if o.is_undecided]
        assert [one for one in reasons_of_rule if one == "image_read_unsure"] == reasons


@pytest.mark.parametrize("is_passed", [True, False])
def test_of_another_source_since_the_last_row_nothing_is_said(is_passed):
    """The receiver alone may have been pointed elsewhere; the applier may be in the former's."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status(Source_UUID=UUID_C))
    applied = {} if is_passed else {"Relay_Log_Pos": relay.end}
    relay.copy(more[0])
    other = "d" * 8 + UUID_C[8:]
    journal.row(replica_status=journal.replica_status(Source_UUID=other, **applied))
    assert relay.source is not None
    reported = {
        "read_source_log_file": "binlog.000001",
        "read_source_log_pos": relay.source[1],
        "exec_source_log_file": "binlog.000001",
        "exec_source_log_pos": relay.source[1] + 400,
    }
    image(journal, channels=[positions(relay.coordinates, relay.coordinates, **reported)])
    result = audit(journal)
    assert _RULE not in [finding.rule for finding in result.findings]
    assert "image_read_unsure" in [seen.reason for seen in result.observations]


@pytest.mark.parametrize(
    ("lacks", "reason"),
    [
        ("relay log", "image_relay_unseen"),
        ("channel", "image_relay_unseen"),
        ("relay_log_file", "image_applied_unknown"),
        ("slave_relay_log_info", "image_no_relay_info"),
        ("slave_master_info", "image_no_master_info"),
        ("gtid_executed", "image_no_set"),
    ],
)
def test_an_image_that_lacks_something_is_undecided_and_not_accused(lacks, reason):
    """It says why."""
    journal, relay, _ = replica()
    unseen = {"relay log": ["relay"], "channel": ["relay", "channel"]}.get(lacks, [])
    journal.records = [one for one in journal.records if one["kind"] not in unseen]
    named = positions(relay.coordinates, relay.coordinates)
    summary = {"gtid_executed": None} if lacks == "gtid_executed" else {}
    if lacks not in ("channel", *summary, "relay log"):
        named[lacks] = None
    image(journal, channels=[named], **summary)
    result = audit(journal)
    assert [] == result.broken
    assert reason in {one.reason for one in result.observations if _RULE in one.rules}


@pytest.mark.parametrize(("other", "reasons"), [(0, set()), (1, {"image_relay_unseen"})])
def test_positions_in_relay_logs_of_two_names_are_not_compared(other, reasons):
    """As of a server whose relay_log was changed; of the files of one the journal shows nothing."""
    journal, relay, more = replica(replica_parallel_workers=0)
    named = [relay.coordinates, relay.coordinates]
    named[other] = (f"other-{relay.coordinates[0]}", relay.coordinates[1])
    apply(journal, relay, more[0])
    image(journal, channels=[positions(*named)])
    assert cases(journal) == []
    assert {one.reason for one in audit(journal).observations} == reasons


@pytest.mark.parametrize(
    ("by_set", "has_gtid", "found"),
    [
        (True, True, ["image_relay_info_stale"]),
        (False, True, []),
        (False, False, ["image_relay_info_stale"]),
    ],
)
def test_a_group_that_was_executed_before_is_skipped_without_a_commit(by_set, has_gtid, found):
    """A connection by GTID set does not receive it; one without a GTID is executed again."""
    journal = Journal("a", UUID_B, 2, replica_parallel_workers=0).begin()
    change = {"action": "change_source", "source_uuid": UUID_C, "auto_position": by_set}
    journal.record("channel", channel="", **change)
    relay = journal.relay()
    relay.connect()
    before = relay.coordinates
    origin = Journal("s", UUID_C, 3).begin()
    apply(journal, relay, origin.binlog.group("" if has_gtid else None))
    image(journal, channels=[positions(before, relay.coordinates)])
    assert cases(journal) == found


@pytest.mark.parametrize(
    ("beyond", "is_missed", "found"),
    [
        (0, False, []),
        (1, False, ["image_master_info_beyond_read"]),
        (1, True, []),
    ],
)
def test_what_is_stored_as_read_may_be_of_a_connection_before(beyond, is_missed, found):
    """One by GTID set begins further back."""
    journal, relay, _ = replica()
    assert relay.source is not None
    file, read = relay.source
    if is_missed:
        journal.record("gap", channel="")
        relay.open(2)
    relay.connect()
    named = {
        "read_source_log_file": file,
        "read_source_log_pos": 4,
        "slave_master_info": {"Master_log_name": file, "Master_log_pos": read + beyond},
    }
    image(journal, channels=[positions(relay.coordinates, relay.coordinates, **named)])
    assert cases(journal) == found


def of_executed(journal, relay, applied, file, position):
    """What is found where this is named as executed, and the relay log is applied up to there."""
    executed = {"exec_source_log_file": file, "exec_source_log_pos": position}
    stored = positions(applied, applied, **executed)
    stored["slave_relay_log_info"] |= {"Master_log_name": file, "Master_log_pos": position}
    image(journal, channels=[stored])
    return cases(journal)


@pytest.mark.parametrize("what", ["its end", "a next file", "received twice"])
def test_what_an_executed_position_has_passed(what):
    """The groups of the relay log before it; here nobody has executed the last of them."""
    journal, relay, more = replica()
    relay.copy(more[0])
    assert relay.source is not None
    if what == "a next file":
        relay.connect("binlog.000002")
    elif what == "received twice":
        relay.connect("binlog.000001", more[0][0]["start"])
        relay.copy(more[0])
    found = of_executed(journal, relay, relay.coordinates, *relay.source)
    assert found == ["image_executed_ahead"]


@pytest.mark.parametrize(
    "what",
    [
        "after it",
        "of another name",
        "of a later file",
        "inside the next group",
        "received again",
        "received again from a file before",
        "received again in a later file",
        "without a position",
        "without a gtid",
    ],
)
def test_what_an_executed_position_has_not_passed(what):
    """A group that nobody has executed, wherever it is; of one without a GTID nobody can say so."""
    journal, relay, more = replica(0 if what == "without a position" else 3)
    if what == "received again":
        apply(journal, relay, more[1])
    elif what.startswith("received again"):
        relay.connect("binlog.000002")
        in_second = Journal("s", UUID_C, 3).begin().binlog
        in_second.number = 2
        earlier, later = in_second.group(f"{UUID_C}:8"), in_second.group(f"{UUID_C}:9")
        apply(journal, relay, later)
    assert relay.source is not None
    file, position = relay.source
    applied = relay.coordinates
    if what == "without a position":
        relay.copy(without_position(more[0]))
    elif what == "of a later file":
        relay.connect("binlog.000002")
        relay.copy(Journal("s", UUID_C, 3).begin().binlog.group(f"{UUID_C}:9"))
    elif what == "received again":
        relay.connect(file, more[0][0]["start"])
        relay.copy(more[0])
    elif what == "received again from a file before":
        relay.connect("binlog.000001", more[0][0]["start"])
        relay.copy(more[0])
    elif what == "received again in a later file":
        relay.connect("binlog.000002", earlier[0]["start"])
        relay.copy(earlier)
    elif what == "inside the next group":
        relay.copy(more[0])
        relay.copy(more[1])
        position = more[1][1]["log_pos"]
    elif what == "without a gtid":
        origin = Journal("s", UUID_C, 3).begin().groups(3)
        apply(journal, relay, origin.binlog.group(None))
        (file, position), applied = relay.source, relay.coordinates
    else:
        relay.copy(more[0])
    if what == "of another name":
        (_, position), file = relay.source, "mysql-bin.000001"
    assert of_executed(journal, relay, applied, file, position) == []
