"""Ways of real 8.0.31 servers that the captured journals show by chance only, built by hand."""

from __future__ import annotations

import json

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tests.support.journals import UUID_B, UUID_C, Journal, Record, RelayLog, audit
from tests.support.rule_cases import apply
from tests.support.rule_cases_of_channels import relay_info


def replica_of(forms: list[str]) -> tuple[Journal, RelayLog, list[list[Record]]]:
    """A replica without workers, and a source's groups that it has not received yet."""
    origin = Journal("s", UUID_C, 3).begin()
    for form in forms:
        origin.groups(1, form)
    journal = Journal("a", UUID_B, 2, replica_parallel_workers=0).begin()
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_C)
    relay = journal.relay()
    relay.connect()
    return journal, relay, origin.binlog.groups


@pytest.mark.parametrize("form", ["myisam", "ddl", "xa_prepare", "xa_commit", "empty", "rows"])
def test_the_relay_info_row_stays_behind_all_but_commits(form: str) -> None:
    """Groups without an XID leave slave_relay_log_info where it was; an XID moves it."""
    journal, relay, groups = replica_of(["rows", form, form, "rows"])
    apply(journal, relay, groups[0])
    stored = relay_info(relay)
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    for group in groups[1:3]:
        apply(journal, relay, group)
    for _ in range(2):
        journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    expected = ["relay_info_updated_with_commit"] if form == "rows" else []
    assert audit(journal).broken == expected


@pytest.mark.parametrize("form", ["ddl", "rows", "xa_prepare"])
def test_what_moves_the_relay_info_row_is_seen_in_it_first(form: str) -> None:
    """An atomic DDL writes it before, a commit shows it while it waits; XA PREPARE leaves it."""
    journal, relay, groups = replica_of(["rows", form])
    apply(journal, relay, groups[0])
    applied, source = relay.end, relay.source
    assert source is not None
    relay.copy(groups[1])
    stored = relay_info(relay)
    status = journal.replica_status(Relay_Log_Pos=applied, Exec_Source_Log_Pos=source[1])
    journal.row(replica_status=status, slave_relay_log_info=stored)
    expected = ["relay_info_updated_with_commit"] if form == "xa_prepare" else []
    assert audit(journal).broken == expected


@pytest.mark.parametrize("arriving", [True, False])
def test_retrieved_leads_by_the_group_being_queued(arriving: bool) -> None:
    """It is counted with its last event, before the flushed position moves; no other one is."""
    journal, relay, groups = replica_of(["rows", "rows", "rows"])
    apply(journal, relay, groups[0])
    applied, source = relay.end, relay.source
    assert source is not None
    relay.copy(groups[1][:-1])
    text = f"{UUID_C}:1-2" if arriving else f"{UUID_C}:1:3"
    status = journal.replica_status(
        Relay_Log_Pos=applied, Exec_Source_Log_Pos=source[1], Retrieved_Gtid_Set=text
    )
    journal.row(replica_status=status)
    assert audit(journal).broken == ([] if arriving else ["retrieved_matches_relay"])


@pytest.mark.parametrize("off_by", [0, 40])
def test_the_relay_info_row_stands_at_a_rotate_to_a_source_file(off_by: int) -> None:
    """After a rotation the row names the end of that ROTATE and the position that it names."""
    journal, relay, groups = replica_of(["rows"])
    apply(journal, relay, groups[0])
    relay.event("ROTATE", 44, log_pos=0, next_file="binlog.000002", next_position=197)
    relay.source = "binlog.000002", 197
    relay.flush()
    stored = relay_info(relay)
    stored[0]["Master_log_pos"] += off_by
    journal.row(replica_status=journal.replica_status(), slave_relay_log_info=stored)
    assert audit(journal).broken == (["relay_info_coordinates_paired"] if off_by else [])


@pytest.mark.parametrize(
    ("ignored", "off_by", "is_legal"),
    [(0, 0, True), (0, 40, False), (400, 40, True), (400, 400, True), (400, 401, False)],
)
def test_the_relay_info_row_moves_through_what_the_receiver_ignores(
    ignored: int, off_by: int, is_legal: bool
) -> None:
    """In a ring a replica's own groups leave nothing in its relay log, and move its applier on."""
    journal, relay, groups = replica_of(["rows", "rows"])
    apply(journal, relay, groups[0])
    stored = relay_info(relay)
    stored[0]["Master_log_pos"] += off_by
    status = journal.replica_status()
    relay.copy({**event, "log_pos": event["log_pos"] + ignored} for event in groups[1])
    assert relay.source is not None
    relay.source = relay.source[0], relay.source[1] + ignored
    relay.flush()
    status[0]["Retrieved_Gtid_Set"] = journal.replica_status()[0]["Retrieved_Gtid_Set"]
    journal.row(replica_status=status, slave_relay_log_info=stored)
    assert audit(journal).broken == ([] if is_legal else ["relay_info_coordinates_paired"])


def test_reset_replica_leaves_a_file_of_its_own_events() -> None:
    """log_status says ("", 0) although relay log 000001 has a head and a STOP."""
    journal, relay, groups = replica_of(["rows"])
    apply(journal, relay, groups[0])
    journal.record("channel", channel="", action="stop_receiver")
    journal.record("channel", channel="", action="reset")
    relay.open(1, "")
    relay.event("STOP", 23)
    relay.flushed = None
    journal.row()
    result = audit(journal)
    assert result.broken == []
    assert "relay_position_on_written_boundary" not in result.undecided("channel")


@pytest.mark.parametrize("is_logged", [True, False])
def test_an_unreachable_source_says_nothing_of_its_log(is_logged: bool) -> None:
    """A starting source feeds its replica before anybody can read it; its events come later."""
    s = Journal("s", UUID_C, 3).begin().groups(2)
    seen = len(s.records)
    s.binlog.group()
    late = s.records[seen:]
    r = Journal("r", UUID_B, 2)
    r.ts = s.ts
    r.begin()
    change = {"action": "change_source", "source_instance": "s", "source_uuid": UUID_C}
    r.record("channel", channel="", **change)
    relay = r.relay()
    relay.connect()
    for group in s.binlog.groups:
        apply(r, relay, group)
    r.row(replica_status=r.replica_status())
    s.ts = r.ts
    error = {"unreachable": True}
    rounds = [s.record("log_status", collection_id=f"c{n}", error=error) for n in (1, 2)]
    for record in late:
        s.ts += 1_000
        record["ts"] = s.ts
    if not is_logged:
        s.executed.remove(f"{UUID_C}:3")
        late = []
    records = [*s.records[:seen], *r.records, *rounds, *late]
    lines = [json.dumps(record) for record in records]
    # The replica's own copies are written with commit times of their own.
    disabled = frozenset({"gtid_origin_agreement"})
    result = audit_history(blocks_from_lines(lines, block_size=1, end_heartbeats=True), disabled)
    assert ("relay_mirrors_source" in {f.rule for f in result.findings}) is not is_logged
    assert not (is_logged and result.findings)
