"""Events of InnoDB's redo log: their forms, the two paths that read them, what is not judged."""

from __future__ import annotations

import json
import random

import pytest

from tallystick.coordinates.events.block_codec import decode_block, encode_block
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    RecordType,
    RedoType,
    cut_into_blocks,
)
from tallystick.coordinates.events.json_lines import JsonLinesError, blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.logs import log_reader, redo_log
from tallystick.coordinates.rules import redo_positions
from tallystick.coordinates.values.errors import BlockError
from tallystick.coordinates.values.innodb import advance_lsn, last_block
from tests.support.journals import UUID_A, Journal, audit
from tests.support.rule_cases import CASES, innodb
from tests.support.rule_cases_of_redo_log import CAPACITY as FILES
from tests.support.rule_cases_of_redo_log import (
    LSN,
    image_lsn_within_redo__coordinates,
    image_lsn_within_redo__row,
    redo,
    writing,
)

CAPACITY = 2**20


def written(seed: int, events: int = 400, *, wrong_at: int | None = None) -> Block:
    """Redo events of a server in random healthy order; one number may be another."""
    rng = random.Random(seed)
    builder = BlockBuilder("a")
    variables = {"innodb_redo_log_capacity": CAPACITY, "innodb_flush_log_at_trx_commit": 1}
    start = {"server_uuid": "aaaaaaaa-0000-0000-0000-000000000001", "variables": variables}
    builder.server_record(RecordType.START, start, ts=0)
    end = flushed = checkpoint = LSN
    for number in range(events):
        chosen = rng.choice((*RedoType, RedoType.WRITE)) if number > 2 else list(RedoType)[number]
        off = rng.choice((-512, 512, -1, 700)) if number == wrong_at else 0
        if chosen is RedoType.WRITE:
            lsn = advance_lsn(end, rng.randrange(1, 2_000))
            if lsn - checkpoint > CAPACITY:
                continue
            block_number, data_length = last_block(lsn)
            builder.redo_event(
                chosen,
                lsn,
                ts=number,
                start_lsn=min(end + off, lsn - 1),
                block_number=block_number,
                data_length=data_length,
            )
            end = lsn
            continue
        if chosen is RedoType.FLUSH:
            flushed = lsn = end
        elif chosen is RedoType.CHECKPOINT:
            checkpoint = lsn = flushed
        else:
            lsn = flushed
        builder.redo_event(chosen, lsn + off, ts=number)
    return builder.build()


def lines_of(block: Block) -> list[str]:
    return list(block_to_lines(block))


def test_they_come_back_from_lines_and_from_bytes():
    """Both forms of the journal keep every field."""
    block = written(1)
    assert lines_of(block) == lines_of(decode_block(encode_block(block)))
    (again,) = blocks_from_lines(lines_of(block))
    assert lines_of(block) == lines_of(again)
    record = json.loads(lines_of(block)[1])
    assert set(record) == {
        *("kind", "instance", "ts", "epoch", "sequence", "type"),
        *("start_lsn", "lsn", "block_number", "data_length"),
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "FLUSH"}, "key 'lsn': expected this key"),
        ({"type": "WRITE", "lsn": 9000}, "key 'start_lsn': expected this key"),
        ({"type": "WRITE", "lsn": 9000, "start_lsn": 9000}, "expected an LSN below 9000"),
        ({"type": "WRITE", "lsn": 9000, "start_lsn": 9001}, "expected an LSN below 9000"),
        ({"type": "FLUSH", "lsn": 9000, "start_lsn": 8000}, "start_lsn"),
        ({"type": "FLUSH", "lsn": -1}, "expected an integer from 0"),
        ({"type": "XID", "lsn": 9000}, "expected one of WRITE, FLUSH, CHECKPOINT, COMMIT"),
    ],
)
def test_a_line_that_is_none_is_refused(fields, message):
    """The message names key and value."""
    with pytest.raises(JsonLinesError, match=message):
        list(blocks_from_lines([json.dumps({"kind": "redo", "instance": "a", **fields})]))


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("type", 9, "type 9: expected a known event of the redo log"),
        ("value", -1, "value -1: expected an LSN"),
        ("start", 2**40, "expected an LSN below the write's own"),
        ("start", None, "expected an LSN below the write's own"),
    ],
)
def test_a_block_with_an_impossible_event_is_refused(column, value, message):
    """Whoever wrote it; None: the LSN of the event itself."""
    block = written(1)
    block.columns[column][1] = block.columns["value"][1] if value is None else value
    with pytest.raises(BlockError, match=message):
        decode_block(encode_block(block))


@pytest.mark.parametrize("seed", range(120))
def test_whole_columns_and_single_events_leave_equal_state(monkeypatch, seed):
    """And find the same, wherever one number is wrong and however the journal is cut."""
    block = written(seed, wrong_at=seed * 3 + 30 if seed % 3 else None)
    lines = [json.loads(line) for line in lines_of(block)]
    results = [audit(lines), audit(lines, block_size=90)]
    monkeypatch.setattr(redo_log, "REDO_FAST_MIN", 10**9)
    results += [audit(lines), audit(lines, block_size=7)]
    found = [[finding.to_dict() for finding in result.findings] for result in results]
    assert all(found[0] == others for others in found[1:])
    assert seed % 3 or found[0] == []
    states = {result.audit.to_bytes() for result in results if result.audit is not None}
    assert len(states) == 1


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("redo_", "commit_"))])
@pytest.mark.parametrize("breaks", [False, True])
def test_whole_columns_find_what_single_events_show(monkeypatch, name, breaks):
    """Each rule's step beyond its boundary, when even single events are read in columns."""
    monkeypatch.setattr(redo_log, "REDO_FAST_MIN", 1)
    monkeypatch.setattr(log_reader, "FAST_MIN", 1)
    result = audit(CASES[name].build(breaks=breaks))
    assert sorted(CASES[name].names) * breaks == result.broken


@pytest.mark.parametrize("offset", [508, 511])
def test_whole_columns_show_an_lsn_in_a_trailer(monkeypatch, offset: int) -> None:
    monkeypatch.setattr(redo_log, "REDO_FAST_MIN", 1)
    monkeypatch.setattr(log_reader, "FAST_MIN", 1)
    journal = writing()
    redo(journal, "WRITE", LSN - LSN % 512 + offset, start_lsn=LSN)
    assert audit(journal).broken == ["redo_lsn_in_block_data"]


def test_long_runs_are_read_in_whole_columns(monkeypatch):
    """No regular event is looked at by itself."""
    block = written(2)

    def read_event(reader, block, index, event):
        pytest.fail(f"{event} was read by itself")

    head, *rest = cut_into_blocks(block, 64)
    result = audit([json.loads(line) for line in lines_of(head)])
    assert result.audit is not None
    monkeypatch.setattr(redo_log.RedoLogReader, "read_event", read_event)
    for part in rest[:-1]:
        assert not result.audit.absorb(part).findings


def test_nothing_of_before_a_gap_bounds_what_follows():
    """A lost record may have been a restore."""
    journal = writing()
    journal.record("gap")
    redo(journal, "FLUSH", LSN - 5120)
    redo(journal, "WRITE", LSN - 4096, start_lsn=LSN - 5120)
    redo(journal, "CHECKPOINT", LSN - 6144)
    assert [] == audit(journal).findings


@pytest.mark.parametrize("lineage", ["cloned", "restored"])
def test_another_data_directory_has_another_redo_log(lineage):
    """Its LSN begins anywhere."""
    journal = writing()
    journal.start(data_lineage=lineage, crashed=False)
    redo(journal, "WRITE", LSN - 4096, start_lsn=LSN - 5120)
    redo(journal, "CHECKPOINT", LSN - 6144)
    assert [] == audit(journal).findings


@pytest.mark.parametrize(
    "variables",
    [
        {"innodb_flush_log_at_trx_commit": 0},
        {"innodb_redo_log_enabled": "OFF"},
    ],
)
def test_a_commit_that_need_not_be_durable_is_not_judged(variables):
    """Nobody promised it."""
    journal = writing()
    journal.record("variables", variables=variables)
    redo(journal, "COMMIT", LSN + 512)
    assert [] == audit(journal).findings


def test_commits_without_redo_while_the_redo_log_is_disabled():
    """The LSN stands still though transactions are committed, also right after it is enabled."""
    journal = writing().groups(1)
    rows = [journal.row()]
    for is_enabled in (False, True):
        journal.record("variables", variables={"innodb_redo_log_enabled": is_enabled})
        journal.groups(1)
        rows.append(journal.row())
    for row in rows:
        row["row"]["STORAGE_ENGINES"]["InnoDB"] = {"LSN": LSN, "LSN_checkpoint": LSN}
    result = audit(journal)
    assert [] == result.findings
    assert "disabled" in result.undecided()["lsn_grows_with_commits"]
    journal.groups(1)
    row = journal.row()
    row["row"]["STORAGE_ENGINES"]["InnoDB"] = {"LSN": LSN, "LSN_checkpoint": LSN}
    assert ["lsn_grows_with_commits"] == audit(journal).broken


@pytest.mark.parametrize(
    ("form", "grows", "reason"),
    [("rows", 0, "commits_anonymous"), ("rows", 1, ""), ("myisam", 0, "")],
)
def test_without_gtids_nothing_shows_what_innodb_has_committed(
    form: str, grows: int, reason: str
) -> None:
    """A group is logged before it is committed, and no set tells when that was."""
    journal = Journal("a", UUID_A, 1, gtid_mode="OFF").begin()
    first = innodb(journal.row())
    journal.binlog.group(None, form)
    innodb(journal.row()).update(first, LSN=first["LSN"] + grows)
    result = audit(journal)
    assert result.broken == []
    reasons = {one.rule: one.reason for one in result.cuts[-1].undecided}
    assert reasons.get("lsn_grows_with_commits", "") == reason


def test_without_redo_events_only_their_rules_are_undecided():
    """Who observes a server by SQL alone has none, and loses nothing else."""
    journal = Journal(innodb_redo_log_capacity=CAPACITY).begin().groups(2)
    journal.row()
    without = audit(journal)
    seen = writing().groups(2)
    row = seen.row()
    row["row"]["STORAGE_ENGINES"]["InnoDB"] = {"LSN": LSN, "LSN_checkpoint": LSN}
    assert set(without.undecided()) - set(audit(seen).undecided()) == {"row_lsn_at_its_instant"}
    assert without.verdicts == ["CONSISTENT"]


def test_without_settings_neither_commits_nor_capacity_are_judged():
    """Their defaults may not be this server's."""
    journal = Journal().begin()
    redo(journal, "WRITE", LSN, start_lsn=LSN - 1024)
    redo(journal, "CHECKPOINT", LSN)
    redo(journal, "COMMIT", LSN + 512)
    redo(journal, "WRITE", LSN + 2**40, start_lsn=LSN)
    assert [] == audit(journal).findings


NOTHING_SEEN = {
    "redo_flush_within_written": "redo_event_not_seen",
    "redo_checkpoint_within_flushed": "redo_event_not_seen",
    "redo_block_header_agrees": "redo_event_not_seen",
    "redo_kept_until_checkpoint": "redo_event_not_seen",
    "commit_redo_durable": "commits_not_bound",
}
"""The rules on the redo log's events that need more than a write, and why they are undecided."""


@pytest.mark.parametrize(
    ("variables", "events", "otherwise"),
    [
        ({}, [], {}),
        ({}, ["FLUSH"], {"redo_flush_within_written": ""}),
        ({}, ["CHECKPOINT"],
         {"redo_checkpoint_within_flushed": "", "redo_kept_until_checkpoint": "capacity_unknown"}),
        ({"innodb_redo_log_capacity": FILES}, ["CHECKPOINT"],
         {"redo_checkpoint_within_flushed": "", "redo_kept_until_checkpoint": ""}),
        ({"innodb_flush_log_at_trx_commit": 1}, ["COMMIT"], {"commit_redo_durable": ""}),
        ({"innodb_flush_log_at_trx_commit": 1}, [], {"commit_redo_durable": "redo_event_not_seen"}),
        ({"innodb_flush_log_at_trx_commit": 0}, ["COMMIT"], {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("has_header", [True, False])
def test_rules_that_nothing_could_break_are_undecided(variables, events, otherwise, has_header):
    """They do not count as kept; the row is as consistent as without the redo log."""
    journal = Journal(**variables).begin()
    header = {"block_number": last_block(LSN)[0]} if has_header else {}
    redo(journal, "WRITE", LSN, start_lsn=LSN - 1024, **header)
    for redo_type in events:
        redo(journal, redo_type, LSN)
    row = journal.row()
    row["row"]["STORAGE_ENGINES"]["InnoDB"] = {"LSN": LSN, "LSN_checkpoint": LSN}
    result = audit(journal)
    found = {check.rule: check.reason for check in result.cuts[0].checks}
    expected = NOTHING_SEEN | otherwise | ({"redo_block_header_agrees": ""} if has_header else {})
    assert {rule: found.get(rule, "") for rule in NOTHING_SEEN} == expected
    assert result.verdicts == ["CONSISTENT"]


# While the capacity shrinks


def shrinking() -> Journal:
    """The redo since the checkpoint is more than what the files shall hold from now on."""
    journal = writing()
    redo(journal, "WRITE", LSN + FILES, start_lsn=LSN)
    redo(journal, "FLUSH", LSN + FILES)
    journal.variables = journal.variables | {"innodb_redo_log_capacity": FILES // 2}
    journal.record("variables", variables=journal.variables)
    return journal


def start_again(journal: Journal) -> None:
    journal.start(crashed=True)


def replace_data(journal: Journal) -> None:
    journal.start(data_lineage="restored", crashed=False)


def lose_records(journal: Journal) -> None:
    journal.record("gap")


@pytest.mark.parametrize("happens", [start_again, replace_data, lose_records])
def test_a_checkpoint_before_any_write_ends_no_resize(happens):
    """How much redo there is since that checkpoint is not known."""
    journal = shrinking()
    happens(journal)
    redo(journal, "CHECKPOINT", LSN + 512)
    redo(journal, "WRITE", LSN + FILES + 512, start_lsn=LSN + FILES)
    assert [] == audit(journal).findings
    # It ends with one that is near enough.
    redo(journal, "CHECKPOINT", LSN + FILES // 2 + 512)
    redo(journal, "WRITE", LSN + FILES + 513, start_lsn=LSN + FILES + 512)
    assert ["redo_kept_until_checkpoint"] == audit(journal).broken


def test_files_of_another_data_directory_may_have_any_size():
    """They shrink to the capacity, however small that was before."""
    journal = writing()
    journal.start(data_lineage="restored", crashed=False)
    redo(journal, "WRITE", LSN, start_lsn=LSN - 1024)
    redo(journal, "FLUSH", LSN)
    redo(journal, "CHECKPOINT", LSN - FILES - 512)
    redo(journal, "WRITE", LSN + 512, start_lsn=LSN)
    assert [] == audit(journal).findings


@pytest.mark.parametrize("between", ["gap", "other data", "nothing"])
def test_a_sample_bounds_those_of_the_same_data_only(between: str) -> None:
    """A restore, which a gap may hide, begins with the redo log of its image."""
    journal = Journal().begin()
    journal.record("redo_status", checkpoint=LSN, flushed=LSN, current=LSN)
    if between == "gap":
        journal.record("gap")
    elif between == "other data":
        journal.start(data_lineage="restored")
    earlier = LSN - 5120
    journal.record("redo_status", checkpoint=earlier, flushed=earlier, current=earlier)
    assert audit(journal).broken == (["redo_status_agrees"] if between == "nothing" else [])


@pytest.mark.parametrize(
    ("asked", "is_judged"),
    [
        ({}, True),
        ({"requested_at": 1, "received_at": 1}, True),
        ({"requested_at": 1, "received_at": -1}, False),
        ({"requested_at": 1_000_001}, True),
        ({"requested_at": 1_000_000}, False),
    ],
)
def test_a_row_of_before_the_start_shows_no_loss(asked: dict[str, int], is_judged: bool) -> None:
    """By another clock it is one only if it is surely later."""
    journal = writing().wait(10)
    started = journal.start(crashed=True)["ts"]
    journal.wait(2)
    row = journal.row(**{name: started + moment for name, moment in asked.items()})
    innodb(row).update(LSN=LSN - 1, LSN_checkpoint=LSN - 1)
    result = audit(journal)
    assert result.broken == ["flushed_redo_survives_start"] * is_judged
    # Of the row's instant nothing else is known, either.
    expected = "lsn_not_accepted" if is_judged else "redo_log_not_read"
    undecided = {one.rule: one.reason for cut in result.cuts for one in cut.undecided}
    assert undecided["row_lsn_at_its_instant"] == expected


@pytest.mark.parametrize("kept", [2, 3])
def test_an_image_is_bounded_by_the_groups_that_are_remembered(kept: int, monkeypatch) -> None:
    """A backup may go on for hours: its coordinates are those of its end."""
    monkeypatch.setattr(redo_positions, "_REACHED_MAX", kept)
    journal = image_lsn_within_redo__coordinates(breaks=True)
    image = journal.records.pop()
    redo(journal, "WRITE", LSN + 1400, start_lsn=LSN + 900)
    redo(journal, "FLUSH", LSN + 1400)
    journal.groups(1)
    journal.records.append(image | {"ts": journal.ts})
    assert audit(journal).broken == ["image_lsn_within_redo"] * (kept == 3)


def test_rows_of_an_idle_server_are_remembered_as_one(monkeypatch) -> None:
    """They bound an image of a later place only: however many there are, others stay known."""
    monkeypatch.setattr(redo_positions, "_REACHED_MAX", 2)
    journal = image_lsn_within_redo__row(breaks=True)
    image = journal.records.pop()
    last = innodb(journal.records[-1])
    for _ in range(2):
        innodb(journal.row()).update(last)
    journal.records.append(image | {"ts": journal.ts})
    assert audit(journal).broken == ["image_lsn_within_redo"]
