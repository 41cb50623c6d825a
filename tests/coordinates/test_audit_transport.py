"""Faults of the transport are reported as such and never held against a server."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.instance import WAITING_MAX, InstanceAudit
from tallystick.coordinates.events.block_codec import decode_block, encode_block
from tallystick.coordinates.events.journal import Block, BlockBuilder, concatenate, cut_into_blocks
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import ObservationCode, Outcome
from tallystick.coordinates.rules.explanation import explain, observation_text
from tallystick.coordinates.values.errors import JournalError
from tallystick.producers.simulator.assemble import simulate
from tests.support.journals import UUID_A, Audited, Gtids, Journal, Record, audit, read_gtids
from tests.support.rule_cases import apply, replica, source
from tests.support.rule_cases_of_images import begin, image

GAP = ObservationCode.JOURNAL_GAP
EARLY = ObservationCode.LOG_STATUS_EARLY


def whole(journal: Journal) -> Block:
    [block] = blocks_from_lines(journal.lines())
    return block


def absorbed(*blocks: Block) -> Audited:
    result = Audited(audit=InstanceAudit("a"))
    assert result.audit is not None
    for block in blocks:
        result.take(result.audit.absorb(block))
    result.take(result.audit.finish())
    return result


def busy(files: int = 4) -> Journal:
    """Groups, rows that trail a little, rotations: what a gap may fall into."""
    journal = Journal(commit_lag_max=10).begin()
    for _ in range(files):
        for _ in range(2):
            journal.groups(3)
            executed = journal.executed.copy()
            journal.groups(2)
            row = journal.row()
            executed.numbers[UUID_A].discard(max(executed.numbers[UUID_A]))
            row["row"]["LOCAL"]["gtid_executed"] = str(executed)
        journal.binlog.rotate()
    return journal


BUSY = whole(busy())


@pytest.mark.parametrize("first", range(1, len(BUSY) - 40, 9))
@pytest.mark.parametrize("missing", [1, 5, 37])
def test_a_gap_anywhere_is_told_and_nothing_is_found(first: int, missing: int):
    """Whatever is lost, wherever: no finding then or later, and the rows at the end are judged."""
    result = absorbed(BUSY.take(0, first), BUSY.take(first + missing, len(BUSY)))
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]
    [reported] = [o for o in result.observations if o.code is GAP]
    assert (f"records {first} to {first + missing - 1} are missing", True) == (
        observation_text(reported),
        reported.is_undecided,
    )
    rotations = [i for i, kind in enumerate(BUSY.columns["type"].tolist()) if kind == 35]
    if first + missing <= max(rotations[:-1]):
        assert "CONSISTENT" == result.verdicts[-1]


@pytest.mark.parametrize("first", range(0, len(BUSY) - 20, 31))
def test_a_block_that_comes_again_is_dropped_and_told(first: int):
    """Delivery is at least once: whole or overlapping, what is known already changes nothing."""
    again = BUSY.take(first, first + 12)
    result = absorbed(BUSY.take(0, first + 12), again, BUSY.take(first + 5, len(BUSY)))
    once = absorbed(BUSY)
    assert (once.findings, once.cuts) == (result.findings, result.cuts)
    repeats = [o for o in result.observations if o.code is ObservationCode.JOURNAL_REPEATED]
    assert [f"records {first} to {first + 11} came again: dropped"] == [
        observation_text(o) for o in repeats
    ]
    assert not repeats[0].is_undecided


def of_epoch(block: Block, epoch: int, first_sequence: int = 0) -> Block:
    builder = BlockBuilder(block.instance_id, epoch=epoch, first_sequence=first_sequence)
    made = builder.build()
    return Block(
        made.instance_id,
        epoch,
        first_sequence,
        block.columns,
        block.channels,
        block.files,
        block.sids,
        block.texts,
    )


def test_records_of_an_older_epoch_leave_the_run_undecided():
    """What a producer sees whose epoch fell is judged by nobody: it is named, once."""
    half = len(BUSY) // 2
    late = [of_epoch(BUSY.take(i, i + 3), 0, i) for i in range(half, half + 9, 3)]
    result = absorbed(of_epoch(BUSY, 3), *late)
    assert [] == result.findings
    [reported] = [o for o in result.observations if o.code is ObservationCode.JOURNAL_STALE_EPOCH]
    assert ("a", f"0:{half}", True) == (reported.instance_id, reported.at, reported.is_undecided)
    assert "epoch 0 came after epoch 3" in observation_text(reported)


@pytest.mark.parametrize("back", [0, 7, 40, 90])
def test_a_new_epoch_is_a_gap_even_when_it_begins_further_back(back: int):
    """A producer that begins anew may read its logs from an older position again."""
    half = len(BUSY) // 2
    result = absorbed(BUSY.take(0, half), of_epoch(BUSY.take(half - back, len(BUSY)), 1))
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]
    reported = next(o for o in result.observations if o.code is GAP)
    assert "epoch 1 of its journal began after epoch 0" in observation_text(reported)
    assert "CONSISTENT" == result.verdicts[-1]


def test_an_epoch_may_be_a_time():
    """Each of its messages names it anew."""
    messages = map(encode_block, cut_into_blocks(of_epoch(BUSY, 1_700_000_000), 20))
    result, known = absorbed(*map(decode_block, messages)), absorbed(BUSY)
    assert (known.codes, known.verdicts) == (result.codes, result.verdicts)


def test_another_journal_that_begins_under_the_same_epoch_is_read():
    """Which of the two is right is not known; the server that the second one shows is judged."""
    other = Journal().begin().groups(7)
    other.row()
    result = absorbed(BUSY, whole(other))
    assert ObservationCode.JOURNAL_REUSED in result.codes
    assert [*absorbed(BUSY).verdicts, "CONSISTENT"] == result.verdicts


def test_a_first_block_that_begins_late_is_no_gap():
    """Kafka keeps journals only so long: what was before is not known, and nothing is missing."""
    result = absorbed(BUSY.take(30, len(BUSY)))
    assert ([], []) == (result.findings, [o for o in result.observations if o.code is GAP])


def test_an_unreadable_block_is_told_and_counts_as_a_gap():
    """Its position stays empty, so the gap after it is reported too."""
    pieces = cut_into_blocks(BUSY, 20)
    result = Audited(audit=InstanceAudit("a"))
    assert result.audit is not None
    for number, piece in enumerate(pieces):
        if number == 3:
            result.take(result.audit.note_unreadable("checksum of the stream"))
        else:
            result.take(result.audit.absorb(piece))
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]
    reported = [o for o in result.observations if o.code is ObservationCode.BLOCK_UNREADABLE]
    assert [True] == [o.is_undecided for o in reported]
    assert "checksum of the stream" in observation_text(reported[0])
    last_ts = int(pieces[2].columns["ts"][-1])
    assert [(0, 60, last_ts)] == [(o.epoch, o.sequence, o.ts) for o in reported]
    [seen] = result.audit.note_unreadable("another", last_ts + 7).observations
    assert seen.ts == last_ts + 7


@pytest.mark.usefixtures("mistakes_are_contained")
def test_a_block_that_nobody_could_judge_is_named_and_the_journal_goes_on():
    """As a gap, from its first record to its last; also one that had come before."""
    first, second, third = cut_into_blocks(BUSY, 20)[:3]
    audit = InstanceAudit("a")
    audit.absorb(first)

    def refuse(_: object) -> None:
        raise ArithmeticError

    for block in (second, first):
        output, reason = audit.absorb_or_refuse(block, refuse)
        [reported] = output.observations
        assert reason in observation_text(reported)
        shown = reported.at, reported.data["first"], reported.data["last"]
        begin = block.first_sequence
        assert shown == (f"0:{begin}", begin, begin + 19)
    assert audit.absorb(third).observations == []


def test_a_block_of_another_instance_is_refused():
    """Mixing two journals would accuse both servers."""
    with pytest.raises(JournalError, match="expected a block of instance 'b', got 'a'"):
        InstanceAudit("b").absorb(BUSY)


@pytest.mark.parametrize("at", range(2, 200, 11))
def test_a_gap_that_the_observer_tells_of_is_one(at: int):
    """A record of its own says so where the sequence cannot."""
    records = busy().records
    lost = [*records[:at], {"kind": "gap", "instance": "a"}, *records[at + 6 :]]
    lost[at]["ts"] = lost[at - 1]["ts"]
    result = audit(lost)
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]
    assert 1 == result.codes.count(GAP)


RESETS = {
    "in the same file number": (0, 157),
    "in a file before": (1, 157),
    "within a file before": (1, 457),
    "within the same file number": (0, 457),
}


@pytest.mark.parametrize("name", RESETS)
def test_a_reset_that_a_gap_hides_accuses_nobody(name: str):
    """Numbers begin again without a word: the new log is read as one."""
    rotations, seen_from = RESETS[name]
    journal = Journal().begin().groups(5)
    for _ in range(rotations):
        journal.binlog.rotate()
        journal.groups(1)
    journal.row()
    journal.record("gap")
    journal.binlog.gtids, journal.used, journal.executed = Gtids(), Gtids(), Gtids()
    lost = len(journal.records)
    journal.binlog.open(1)
    journal.groups(3)
    journal.records[lost:] = [
        r for r in journal.records[lost:] if r["start"] >= seen_from or seen_from == 157
    ]
    journal.row()
    journal.groups(1).row()
    journal.binlog.rotate()
    journal.groups(1).row()
    result = audit(journal)
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]
    assert "CONSISTENT" == result.verdicts[-1]


@pytest.mark.parametrize("is_told", [True, False])
def test_a_gap_of_one_relay_log_leaves_the_rest_known(is_told: bool):
    """What was received meanwhile is not held against the channel, and the row is judged."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    lost = len(journal.records)
    apply(journal, relay, more[0])
    journal.records[lost:] = [r for r in journal.records[lost:] if r["kind"] != "relay"]
    if is_told:
        journal.record("gap", channel="")
    relay.rotate()
    apply(journal, relay, more[1])
    for _ in range(2):
        journal.row(replica_status=journal.replica_status())
    result = audit(journal)
    assert is_told is not bool(result.findings)
    assert ["CONSISTENT"] * 3 == result.verdicts or not is_told
    assert is_told is (GAP in result.codes)


def test_why_a_gap_is_of_no_channel_is_no_unread_relay_log():
    """Records of the whole journal are lost, whatever its writer says of the cause."""
    journal = source()
    journal.record("gap", reason="the connection broke")
    assert [one.reason for one in audit(journal).observations] == ["journal_records_lost"]


def test_a_relay_log_that_could_not_be_read_is_given_again_from_the_head_of_its_file():
    """Until then its rules are undecided, with the reason; after that they are judged."""
    journal, relay, more = replica()
    journal.row(replica_status=journal.replica_status())
    away = len(journal.records)
    apply(journal, relay, more[0])
    unread = [record for record in journal.records[away:] if record["kind"] == "relay"]
    journal.records[away:] = [r for r in journal.records[away:] if r not in unread]
    received = [record for record in journal.records if record["kind"] == "relay"] + unread
    for _ in range(2):
        journal.record("gap", channel="", reason="relay log reader db2:9475: timed out")
        journal.row(replica_status=journal.replica_status())
    journal.record("gap", channel="", reason="relay log reader db2:9475: timed out")
    ts = journal.records[-1]["ts"]
    journal.records += [{**record, "ts": ts} for record in received]
    journal.row(replica_status=journal.replica_status())
    apply(journal, relay, more[1])
    journal.row(replica_status=journal.replica_status())
    result = audit(journal)
    assert ([], ["CONSISTENT"] * 5) == (result.findings, result.verdicts)
    reasons = [one.reason for one in result.observations if one.code == GAP]
    assert ["relay_log_unreadable"] * 3 == reasons
    assert {"why": "relay log reader db2:9475: timed out"} == result.observations[0].data
    on_relay = {"retrieved_matches_relay", "relay_position_on_written_boundary"}
    channels = [cut for cut in result.cuts if cut.channel is not None]
    held = [on_relay <= {*cut.names(Outcome.HOLDS)} for cut in channels]
    assert [True, False, False, True, True] == held


# Rows that come before what they tell of


def early(journal: Journal, events: int) -> Record:
    """Move the last row before the events that it has counted already."""
    row = journal.records.pop()
    for record in journal.records[-events:]:
        record["ts"] = row["ts"]
    journal.records.insert(len(journal.records) - events, row)
    return row


def test_a_row_that_comes_early_waits_and_is_told():
    """It is judged where its coordinates are reached, as if it had come there."""
    journal = Journal().begin().groups(2)
    journal.row()
    early(journal, 5)
    result = audit(journal)
    assert ([], ["CONSISTENT"], [EARLY]) == (result.findings, result.verdicts, result.codes)
    assert not result.observations[0].is_undecided


@pytest.mark.parametrize(
    ("events", "named", "is_early"),
    [
        (5, {}, True),
        (1, {}, True),
        (0, {}, False),
        (5, {"relay_log_file": "other.000002"}, False),
        (5, {"relay_log_file": "", "relay_log_position": 0}, False),
    ],
)
def test_a_row_may_come_before_what_a_relay_log_has_at_its_coordinates(events, named, is_early):
    """That waits, too; a log of another name never comes to them."""
    journal, relay, more = replica()
    relay.copy(more[0])
    row = journal.row()
    row["row"]["REPLICATION"]["channels"][0] |= named
    if events:
        early(journal, events)
    result = audit(journal)
    assert ([], [EARLY] * is_early) == (result.findings, result.codes)


def test_no_oldest_file_is_remembered_where_a_file_name_is_unreadable():
    """Which file those events are of is not known, nor which is the oldest one now."""
    journal = source()
    journal.binlog.rotate()
    journal.groups(2).record("binlog_purge", to_file="binlog.000002")
    journal.row(gtid_purged=f"{UUID_A}:1-3")
    known = audit(journal)
    journal.binlog.rotate()
    journal.row(gtid_purged=f"{UUID_A}:1-3")
    [block] = blocks_from_lines(journal.lines())
    names = tuple("nonsense" if name == "binlog.000003" else name for name in block.files)
    unreadable = Audited(audit=InstanceAudit(block.instance_id))
    unreadable.take(unreadable.audit.absorb(replace(block, files=names)))
    unreadable.take(unreadable.audit.finish())
    reasons = [
        {check.rule: check.reason for check in result.cuts[-1].checks}["purged_matches_oldest_file"]
        for result in (known, unreadable)
    ]
    assert ["", "oldest_unseen"] == reasons
    assert [] == unreadable.broken


@pytest.mark.parametrize("is_started", [False, True])
def test_after_an_unreadable_file_name_the_end_of_the_last_file_is_forgotten(is_started: bool):
    """Events of a file that had ended may come again: they are no part written after its end."""
    journal = Journal().begin()
    again = journal.binlog.group()
    journal.binlog.stop()
    if is_started:
        journal.start(crashed=False)
    journal.binlog.open(7)
    journal.records += again
    journal.binlog.open(2)
    journal.groups(1).row()
    for record in journal.records:
        record["ts"] = 0
    [block] = blocks_from_lines(journal.lines())
    names = tuple("nonsense" if name == "binlog.000007" else name for name in block.files)
    result = absorbed(replace(block, files=names))
    assert ([], "CONSISTENT") == (result.broken, result.verdicts[-1])
    unreadable = [o for o in result.observations if o.reason == "file_name_unreadable"]
    assert {True} == {o.is_undecided for o in unreadable}


@pytest.mark.parametrize("ending", ["end", "gap", "epoch"])
def test_a_row_whose_place_never_comes_is_undecided(ending: str):
    """It breaks nothing and bounds nothing, though its set is beyond everything logged."""
    journal = Journal().begin().groups(2)
    journal.row()
    early(journal, 5)
    del journal.records[-5:]
    if ending == "gap":
        journal.record("gap")
    elif ending == "epoch":
        journal.record("heartbeat", epoch=1, sequence=0)
    if ending != "end":
        journal.executed = read_gtids(f"{UUID_A}:1")
        journal.row()
    result = audit(journal)
    assert [] == [(f.rule, explain(f).sentence) for f in result.findings]
    assert {"UNDECIDED"} == set(result.verdicts)
    assert "row_not_reached" == result.cuts[0].reason
    assert [False, True] == [o.is_undecided for o in result.observations if o.code is EARLY]


def test_more_rows_than_can_wait_leave_the_oldest_undecided():
    """Memory is bounded, and being full proves nothing."""
    journal = Journal().begin().groups(1)
    for _ in range(WAITING_MAX + 2):
        row = journal.row()
        row["row"]["LOCAL"]["binary_log_position"] += 300
    for record in journal.records[-WAITING_MAX - 2 :]:
        record["ts"] = journal.ts
    result = audit(journal)
    assert [] == result.findings
    assert WAITING_MAX + 2 == result.verdicts.count("UNDECIDED")


def test_a_row_that_the_journal_passed_without_reaching_it_is_judged():
    """The journal went on beyond the row's time: what it names was not there."""
    journal = Journal().begin().groups(2)
    journal.row()["row"]["LOCAL"]["binary_log_position"] += 10_000
    journal.record("heartbeat")
    assert ["snapshot_position_within_file"] == audit(journal).broken


# Deliveries within the journal


def test_events_that_come_again_unchanged_are_told_once():
    """However many come again, in this file or an older one, one sentence reports it."""
    for rotations in (0, 1):
        journal = Journal().begin().groups(4)
        again = [dict(record) for record in journal.records[3:18]]
        for _ in range(rotations):
            journal.binlog.rotate()
            journal.groups(2)
        journal.records += [record | {"ts": journal.ts} for record in again]
        journal.groups(1).row()
        result = audit(journal)
        assert ([], ["CONSISTENT"]) == (result.findings, result.verdicts)
        assert [ObservationCode.EVENT_REDELIVERED] == result.codes


@pytest.mark.parametrize(
    ("groups", "text", "is_undecided"),
    [
        (3, "unchanged; the second delivery was dropped", False),
        (300, "they are older than what is remembered, or .* the two deliveries were not compared",
         True),
    ],
)  # fmt: skip
def test_what_came_again_is_named(groups, text, is_undecided):
    """Its file and its first event; nothing is known of what is no longer remembered."""
    journal = Journal().begin().groups(groups)
    again = [dict(record) for record in journal.binlog.groups[0]]
    journal.records += [record | {"ts": journal.ts} for record in again]
    journal.groups(1).row()
    result = audit(journal)
    assert [] == result.findings
    [seen] = result.observations
    assert is_undecided is seen.is_undecided
    came_again = "events of binlog.000001 from 157 on came again"
    assert re.fullmatch(f"{came_again}[,;] {text}", observation_text(seen))


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [(None, 5, True), (5, None, True), (5, 5, True), (5, 6, False), (0, 5, False)],
)
def test_two_deliveries_are_compared_by_checksums_that_both_have(first, second, is_same):
    """A server may write none, and an observer leave it out."""
    journal = Journal().begin().groups(2)
    again = []
    for record in journal.binlog.groups[-1]:
        again.append(record | ({} if second is None else {"checksum": second}))
        record.update({} if first is None else {"checksum": first})
    journal.records += [record | {"ts": journal.ts} for record in again]
    assert ([] if is_same else ["log_redelivery_identical"]) == audit(journal).broken


def test_heartbeats_of_a_stream_are_no_events():
    """They have a position and no content, and stand nowhere in the file."""
    journal = Journal().begin().groups(2)
    journal.record("binlog", type="HEARTBEAT", log_pos=journal.binlog.end)
    journal.record("heartbeat")
    journal.groups(2).row()
    result = audit(journal)
    assert ([], ["CONSISTENT"], []) == (result.findings, result.verdicts, result.codes)


LOSSES = [(52, 89, 50), (60, 316, 20), (60, 592, 3), (68, 43, 50), (68, 57, 1), (100, 75, 50),
          (108, 42, 20), (14, 200, 40), (28, 150, 30), (82, 120, 60)]  # fmt: skip


@pytest.mark.parametrize(("seed", "first", "missing"), LOSSES)
def test_a_gap_in_a_healthy_fleet_accuses_nobody(seed: int, first: int, missing: int):
    """Purges, idle relay logs, commit zones, binary logs switched off: part of it is lost."""
    journals: dict[str, list[Block]] = {}
    for block in simulate(scenario_of(seed)).blocks(512):
        journals.setdefault(block.instance_id, []).append(block)
    for blocks in journals.values():
        journal = concatenate(blocks)
        if len(journal) <= first + missing:
            continue
        audit_ = InstanceAudit(journal.instance_id)
        found = [
            *audit_.absorb(journal.take(0, first)).findings,
            *audit_.absorb(journal.take(first + missing, len(journal))).findings,
            *audit_.finish().findings,
        ]
        assert [] == [(f.rule, explain(f).sentence) for f in found]


ZONE_TAILS = [
    ["drop 1", "enter 2", "drop 2"],
    ["open", "enter 2", "close", "drop 2", "validity_point", "open"],
    ["validity_point", "open"],
    ["close", "drop 1", "validity_point", "open"],
]


@pytest.mark.parametrize("steps", ZONE_TAILS)
@pytest.mark.parametrize("is_gap", [False, True])
def test_a_zone_that_was_seen_in_part_is_not_judged_by_the_rest(steps: list[str], is_gap: bool):
    """Where the zone stands, and who is inside, is not known before it was seen to open."""
    journal = Journal()
    if is_gap:
        journal.start()
        journal.record("gap")
    for step in steps:
        word, _, ticket = step.partition(" ")
        journal.record("zone", step=word, **({"ticket": ticket} if ticket else {}))
    assert [] == audit(journal).broken


def test_a_zone_that_opened_before_the_validity_point_does_not_bound_the_image():
    """The steps are wrong; the image is of the position at which the point was taken."""
    journal = begin(Journal().begin().groups(1), "close", "open", "group", "validity_point")
    result = audit(image(journal))
    assert "backup_image_names_one_state" not in result.broken
    assert "vp_only_in_empty_closed_zone" in result.broken


@pytest.mark.parametrize("base_name", ["a", "z"])
def test_an_image_of_files_of_another_base_name_is_undecided(base_name):
    """Positions of two names are not compared, whichever is the earlier word."""
    journal = image(begin(Journal().begin().groups(1), "close", "wait", "validity_point", "open"))
    [made] = [record for record in journal.records if record.get("step") == "image"]
    made["binlog_file"] = f"{base_name}.000001"
    result = audit(journal)
    assert "backup_image_names_one_state" not in result.broken
    assert any("backup_image_names_one_state" in seen.rules for seen in result.observations)


SEQUENCES = {
    "no tables of the backup": (
        {"step": "close"},
        {"step": "write_binlog", "thread": 5, "tables": ["shop.a"]},
        {"step": "validity_point"},
    ),
    "no tables of the thread": (
        {"step": "close", "tables": ["shop.a"]},
        {"step": "write_binlog", "thread": 5},
        {"step": "validity_point"},
    ),
    "the closing was lost": (
        None,
        {"step": "write_binlog", "thread": 5, "tables": ["shop.a"]},
        {"step": "commit", "thread": 6, "ticket": 7},
        {"step": "validity_point"},
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_critical_sequence_without_its_evidence_is_not_judged(name: str):
    """Who takes part is known from the tables of the thread and of the backup only."""
    journal = Journal()
    journal.start()
    for fields in SEQUENCES[name]:
        if fields is None:
            journal.record("gap")
        else:
            journal.record("zone", **fields)
    assert [] == audit(journal).broken


def test_what_was_locked_before_a_gap_freezes_nobody_behind_it():
    """The locks may have been released in the part that is missing."""
    journal = Journal().begin().groups(1)
    journal.record("engine_lock", step="begin", round=1)
    journal.record("engine_lock", step="lock", engine="binlog")
    journal.record("backup_lock", step="lock", lock="instance", session=1)
    journal.record("gap")
    journal.groups(1)
    journal.record("statement", engine="innodb", type="ddl")
    assert [] == audit(journal).broken
