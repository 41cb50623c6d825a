"""One key's messages of one micro-batch, without Spark."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from streaming_journals import history

from tallystick.campaign import scenario_of
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events._message_headers import headers_json, headers_of_json
from tallystick.coordinates.events.block_codec import BLOCK_BYTES_MAX, block_headers, encode_block
from tallystick.coordinates.events.journal import BlockBuilder, RecordType, cut_into_blocks
from tallystick.coordinates.results import Check, ObservationCode, Outcome, Verdict
from tallystick.coordinates.rules.explanation import fill, observation_text
from tallystick.producers.simulator.assemble import simulate
from tallystick.streaming.instance_step import BlockRow
from tallystick.streaming.schema import decode_document, encode_document
from tests.support.audit_steps import State, audit_rows

BLOCK = history("a", 4, broken=frozenset({1, 3}))


def row(offset: int, value: bytes | None, *, partition: int = 0, headers=None) -> BlockRow:
    return BlockRow(value, headers, partition, offset)


def rows_of(block, size: int) -> list[BlockRow]:
    pieces = cut_into_blocks(block, size)
    return [
        row(i, encode_block(p), headers=headers_json(block_headers(p)))
        for i, p in enumerate(pieces)
    ]


def audited(rows: list[BlockRow], instance_id: str = "a"):
    return audit_rows(None, instance_id, rows)[1]


WHOLE = audited(rows_of(BLOCK, len(BLOCK)))


def test_the_broken_rounds_are_found():
    """The history that these tests cut up and shuffle does have findings."""
    assert ["c-001", "c-003"] == [
        f.collection_id for f in WHOLE.findings if f.rule == "executed_within_logged"
    ]
    assert (1, len(BLOCK), []) == (WHOLE.blocks, WHOLE.records, WHOLE.observations)


@pytest.mark.parametrize("size", [1, 3, 50])
def test_rows_are_put_in_the_order_of_their_offsets(size):
    """Spark promises no order within a key; the journal's own is what is audited."""
    rows = rows_of(BLOCK, size)
    random.Random(size).shuffle(rows)
    result = audited(rows)
    assert WHOLE.findings == result.findings
    assert WHOLE.cuts == result.cuts
    assert (len(rows), len(BLOCK), []) == (result.blocks, result.records, result.observations)


@pytest.mark.parametrize(("late_us", "is_named"), [(0, False), (1, True)])
def test_a_record_from_after_its_message_is_named(late_us, is_named):
    """Once, while it goes on: nothing can be sent before it is written."""
    latest = int(BLOCK.columns["ts"].max())
    sent_us = latest - 60_000_000 - late_us
    rows = [one._replace(sent_us=sent_us) for one in rows_of(BLOCK, 50)]
    observations = audited(rows).observations
    assert [(o.reason, o.is_undecided) for o in observations] == [
        ("time_after_message", False)
    ] * is_named
    named = fill("{ts:instant}", {"ts": latest})
    assert all(named in observation_text(one) for one in observations)


def test_blocks_of_several_partitions_are_ordered_by_what_they_say():
    """Partitions that were added to the topic make no gap of blocks that are all there."""
    rows = [
        row(each.offset, each.value, partition=1 - each.offset % 2, headers=each.headers)
        for each in rows_of(BLOCK, 20)
    ]
    assert WHOLE.findings == audited(rows).findings
    assert audited(rows).observations == []


@pytest.mark.parametrize(
    ("value", "headers", "reason"),
    [
        (b"rubbish", None, "a block of 7 bytes"),
        (None, None, "without a value"),
        (encode_block(history("b", 1, broken=frozenset())), None, "under the key b'a'"),
        (encode_block(BLOCK), [], "without the header"),
    ],
)
def test_what_cannot_be_read_is_kept_aside_with_its_reason(value, headers, reason):
    """The rest of the key goes on, and the audit sees the gap."""
    rows = rows_of(BLOCK, 60)
    rows[1] = row(1, value, headers=headers)
    result = audited(rows)
    [letter] = result.dead_letters
    assert reason in letter.reason
    assert (1, len(rows) - 1) == (letter.row.offset, result.blocks)
    assert ObservationCode.BLOCK_UNREADABLE in {o.code for o in result.observations}
    assert any(o.is_undecided for o in result.observations)


def test_a_message_without_a_key_is_nobodys():
    """It is kept aside although its block could be read."""
    result = audited(rows_of(BLOCK, len(BLOCK)), instance_id="")
    assert ["a message whose key is missing or no UTF-8: expected the instance as key"] == [
        letter.reason for letter in result.dead_letters
    ]
    assert result.findings == []


def test_a_fact_that_cannot_be_read_costs_no_other_record():
    """It is reported as unreadable; the other records of its block count, however they are cut."""
    pieces = cut_into_blocks(BLOCK, 60)
    broken = replace(pieces[0], texts={**pieces[0].texts, 0: "[]"})
    rows = [row(0, encode_block(broken)), *rows_of(BLOCK, 60)[1:]]
    result = audited(rows)
    assert [] == result.dead_letters
    assert (len(pieces), len(BLOCK)) == (result.blocks, result.records)
    [reported] = [o for o in result.observations if o.code is ObservationCode.BLOCK_UNREADABLE]
    assert "JSON object" in observation_text(reported)
    state, whole = audit_rows(None, "a", [rows[0]])
    for each in rows[1:]:
        state, brought = audit_rows(state, "a", [each])
        whole.findings += brought.findings
        whole.observations += brought.observations
    assert (whole.findings, whole.observations) == (result.findings, result.observations)


class Raising:
    """A handler of collections that raises at some of them, as a mistake in the code does."""

    def __init__(self, handler, *collections: str) -> None:
        self.handler, self.collections, self.calls = handler, collections, 0

    def __call__(self, audit, body, ts) -> None:
        if body["collection_id"] in self.collections:
            self.calls += 1
            raise KeyError("nobody thought of this")
        self.handler(audit, body, ts)


@pytest.fixture
def raising(monkeypatch):
    """Makes the audit raise at a collection."""

    def begin(*collections: str) -> Raising:
        handlers, code = InstanceAudit.handlers, int(RecordType.LOG_STATUS)
        made = Raising(handlers[code], *collections)
        monkeypatch.setattr(InstanceAudit, "handlers", {**handlers, code: made})
        return made

    return begin


@pytest.mark.parametrize("size", [20, 60])
@pytest.mark.usefixtures("mistakes_are_contained")
def test_what_is_raised_stays_with_its_message(raising, size):
    """The message goes to the dead letters, as if it were lost; those around it count."""
    raised = raising("c-001")
    rows = rows_of(BLOCK, size)
    state, result = audit_rows(None, "a", rows)
    [letter] = result.dead_letters
    assert "KeyError: 'nobody thought of this'" in letter.reason
    assert "test_audit_rows.py" in letter.reason
    assert (raised.calls, result.blocks) == (2, len(rows) - 1)
    [refused] = [o for o in result.observations if o.reason == "block_refused"]
    assert refused.is_undecided
    assert "internal error" in observation_text(refused)
    assert "c-001" not in {cut.collection_id for cut in result.cuts}
    lost = audited([row for row in rows if row is not letter.row])
    assert (lost.findings, lost.cuts) == (result.findings, result.cuts)
    # Sent again, or after a restart, it does nothing worse.
    again, repeated = audit_rows(state, "a", [letter.row])
    assert (repeated.findings, repeated.dead_letters) == ([], [])
    assert audit_rows(again, "a", rows[-1:])[1].dead_letters == []


@pytest.mark.usefixtures("mistakes_are_contained")
def test_rows_that_wait_are_undecided_where_a_later_block_raises(raising):
    """They came before: they are answers, judged by nothing that was forgotten."""
    block = history("a", 4, broken=frozenset(), ahead=10_000)
    waiting = rows_of(block, len(block))
    state, _ = audit_rows(None, "a", waiting)
    body = {**block.body(len(block) - 1), "collection_id": "raises"}
    builder = BlockBuilder("a", first_sequence=len(block))
    builder.server_record(RecordType.LOG_STATUS, body, ts=int(block.columns["ts"][-1]) + 1)
    raising("raises")
    _, result = audit_rows(state, "a", [row(1, encode_block(builder.build()))])
    assert [("c-003", Verdict.UNDECIDED)] == [(c.collection_id, c.verdict) for c in result.cuts]
    assert len(result.dead_letters) == 1
    assert result.findings == []


@pytest.mark.usefixtures("mistakes_are_contained")
def test_a_replay_goes_on_after_what_raises(raising):
    """The other instance has the same findings, and the verdict is UNDECIDED for this one."""
    raising("c-001")
    blocks = cut_into_blocks(BLOCK, 60)
    result = audit_history(blocks)
    [refused] = [o for o in result.observations if o.reason == "block_refused"]
    assert (refused.instance_id, refused.is_undecided) == ("a", True)
    lost = [one for one in blocks if one.first_sequence != refused.sequence]
    assert result.findings == audit_history(lost).findings


@pytest.mark.parametrize("values", [[b"rubbish"], [None], [b"", b"x" * 50]])
def test_a_key_under_which_nothing_is_read_is_nobody(values):
    """It leaves no state, so a flood of keys fills none."""
    state, result = audit_rows(None, "x", [row(i, value) for i, value in enumerate(values)])
    assert (state, result.is_known) == (None, False)
    assert len(result.dead_letters) == len(values)
    # Of an instance that is known, it is a gap.
    known, _ = audit_rows(None, "a", rows_of(BLOCK, 60)[:1])
    state, result = audit_rows(known, "a", [row(1, b"rubbish")])
    assert state is not None
    assert [ObservationCode.BLOCK_UNREADABLE] == [o.code for o in result.observations]


def test_a_value_that_was_cut_is_not_decoded():
    """It may be a whole block by chance; its length says that it was none."""
    one = BlockRow(encode_block(BLOCK), None, 0, 0, sent_bytes=BLOCK_BYTES_MAX + 1)
    [letter] = audited([one]).dead_letters
    assert f"{BLOCK_BYTES_MAX + 1} bytes: expected at most {BLOCK_BYTES_MAX}" in letter.reason


def with_newest(state: State, **changed: Any) -> State:
    """A log whose newest entry has other columns."""
    *before, (segment, entry) = state.entries
    return state._replace(entries=(*before, (segment, entry._replace(**changed))))


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state._replace(entries=state.entries[:-1]),
        lambda state: with_newest(state, data=state.entries[-1][1].data[:-1]),
        lambda state: with_newest(state, data=b"?" + state.entries[-1][1].data[1:]),
        lambda state: with_newest(state, data=b""),
        lambda state: with_newest(state, names='["b"]'),
        lambda state: with_newest(state, number=7),
        lambda state: with_newest(state, kind="audit"),
    ],
)
def test_a_state_that_cannot_be_read_begins_anew(change):
    """The rows go on as after a gap, nothing is found, and the next state can be read."""
    rows = rows_of(BLOCK, 50)
    state, _ = audit_rows(None, "a", rows[:2])
    state, result = audit_rows(change(state), "a", rows[2:])
    assert [] == result.findings
    [reported] = [o for o in result.observations if o.code is ObservationCode.STATE_UNREADABLE]
    assert reported.is_undecided
    assert "the log of states" in observation_text(reported)
    assert FleetEventKind.BEGUN_ANEW is result.fleet_events[0].kind
    assert {Verdict.UNDECIDED} == {cut.verdict for cut in result.cuts}
    _, result = audit_rows(state, "a", rows[-1:])
    assert [ObservationCode.JOURNAL_REPEATED] == [o.code for o in result.observations]


@pytest.mark.parametrize("seed", range(0, 80, 2))
def test_a_changed_bit_of_a_block_is_never_a_finding(seed):
    """Of the value or of a header, in any block of a healthy server: a dead letter and a doubt."""
    rng = random.Random(seed)
    for name, journal in simulate(scenario_of(seed)).journals.items():
        rows = rows_of(replace(journal, cluster=""), rng.choice((32, 128, 512)))
        at = rng.randrange(len(rows))
        if rng.random() < 0.8:
            rows[at] = rows[at]._replace(value=flipped(rows[at].value, rng))
        else:
            headers = [
                (key, flipped(value, rng)) for key, value in headers_of_json(rows[at].headers)
            ]
            rows[at] = rows[at]._replace(headers=headers_json(headers))
        result = audited(rows, name)
        assert ([], [rows[at]]) == (result.findings, [each.row for each in result.dead_letters])
        # A journal of one block has shown nothing: it is reported by its key (test_poison).
        assert any(seen.is_undecided for seen in result.observations) or len(rows) == 1


def flipped(data: bytes, rng: random.Random) -> bytes:
    bit = rng.randrange(8 * len(data))
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_the_checks_of_a_row_reach_the_driver_as_they_are() -> None:
    checks = (
        Check("gtid_executed_matches_journal", Outcome.HOLDS),
        Check("purged_monotone", Outcome.UNDECIDED, "purged_not_read"),
        Check("purged_monotone", Outcome.UNDECIDED, "purged_not_read", {"count": 2}),
        Check("lsn_monotone", Outcome.BROKEN, "fell", {"before": 9, "texts": ["a", None]}),
    )
    cuts = [Cut(collection_id="c-1", instance_id=name, scope="instance", ts=7, checks=checks)
            for name in ("one", "two")]  # fmt: skip
    assert decode_document(encode_document([], [], cuts)) == ([], [], cuts)
