"""A replica's image whose executed position is beyond the one that it says was read."""

from __future__ import annotations

import pytest

from tallystick.coordinates.values.binlog import WRAP
from tests.support.journals import UUID_C, audit
from tests.support.rule_cases import apply, replica
from tests.support.rule_cases_of_images import image, positions

_RULE = "backup_replica_positions_agree"


@pytest.mark.parametrize(
    ("meanwhile", "reasons"),
    [
        ("nothing", None),
        ("gap", ["image_read_unsure"]),
        ("began_inside", ["image_read_unsure"]),
        ("beyond_4_gib", ["image_read_unsure"]),
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
    elif meanwhile == "beyond_4_gib":
        executed += WRAP
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


def test_of_another_source_since_the_last_row_nothing_is_said():
    """The receiver alone may have been pointed elsewhere."""
    journal, relay, _ = replica()
    journal.row(replica_status=journal.replica_status(Source_UUID=UUID_C))
    journal.row(replica_status=journal.replica_status(Source_UUID="d" * 8 + UUID_C[8:]))
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
