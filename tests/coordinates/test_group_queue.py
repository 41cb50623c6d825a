"""A queue of groups that are packed answers as a plain list of them."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tallystick.coordinates.logs import group_queue
from tallystick.coordinates.logs.group_queue import (
    Q_END,
    Q_FILE,
    QUEUE_COLUMNS,
    GroupQueue,
)
from tallystick.coordinates.state_codec import decode, encode
from tests.support.journals import audit
from tests.support.rule_cases import replica
from tests.support.rule_cases_of_channels import relay_info

Group = tuple[int, ...]
PACKED, KEPT = 4, 2
EVENT = 300


def groups_of(random: Random, last: Group | None, count: int) -> list[Group]:
    """Groups that follow one another as a relay log has them: mostly alike, and sometimes not."""
    file, end, source_file, source_end, _, gno, _ = last or (1, 4, 7, 2**33, 0, 0, 16)
    found: list[Group] = []
    for _ in range(count):
        if random.random() < 0.1:
            file, end = file + 1, 4
        if random.random() < 0.1:
            source_file, source_end = source_file + random.choice((0, 1)), 4
        step = random.choice((EVENT, EVENT, EVENT, 70, 2**30))
        end, source_end, gno = end + step, source_end + step, gno + random.choice((1, 1, 5))
        sid = random.choice((0, 0, 0, 3, -1))
        found.append((file, end, source_file, source_end, sid, gno, random.choice((16, 16, 2))))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_queue_answers_as_a_list(monkeypatch, seed):
    """Whatever is added in which steps, saved and read again, asked for and dropped."""
    monkeypatch.setattr(group_queue, "PACKED_GROUPS", PACKED)
    monkeypatch.setattr(group_queue, "KEPT_BEHIND", KEPT)
    random, queue, known = Random(seed), GroupQueue(), list[Group]()
    dropped = 0
    for _ in range(60):
        new = groups_of(random, known[-1] if known else None, random.randint(0, 9))
        known += new
        if random.random() < 0.5:
            queue.extend(np.array(new, dtype=np.int64).reshape(-1, QUEUE_COLUMNS))
        else:
            for group in new:
                queue.add(group)
        if random.random() < 0.3:
            queue.compact()
            queue = decode(GroupQueue, encode(GroupQueue, queue), "a queue")
        kept = known[dropped:]
        assert [tuple(row) for row in queue.rows().tolist()] == kept
        assert len(queue) == len(kept)
        for _ in range(4):
            file, end = random.choice(known or [(1, 4)])[:2]
            here = file, end + random.choice((0, 0, -1, 1))
            until = [group for group in kept if group[:2] <= here]
            assert [tuple(row) for row in queue.until(*here).tolist()] == until
            assert queue.count_until(*here) == len(until)
            after, at = queue.first_after(*here), queue.at(*here)
            assert after is None if until == kept else tuple(after) == kept[len(until)]
            is_there = bool(until) and until[-1][:2] == here
            assert tuple(at) == until[-1] if is_there else at is None
        if kept and random.random() < 0.3:
            applied = random.randrange(len(kept))
            queue.drop_until(*kept[applied][:2])
            left = len(queue)
            # The last few of the applied ones, and those that are packed with one of them.
            assert 0 <= applied + 1 - KEPT - (len(kept) - left) < PACKED or left == len(kept)
            dropped += len(kept) - left
        assert queue.dropped == (known[dropped - 1][:2] if dropped else (-1, -1))
    assert dropped


def test_groups_of_one_source_take_few_bytes():
    """A replica a million groups behind costs some megabytes, however the groups came."""
    rows = np.zeros((2**20, QUEUE_COLUMNS), dtype=np.int64)
    ends = np.cumsum(EVENT + np.arange(len(rows)) % 97)
    rows[:] = np.stack(
        [ends * 0 + 1, ends, ends * 0 + 3, ends + 77, ends * 0, ends * 0, ends * 0 + 16], 1
    )
    rows[:, 5] = np.arange(1, len(rows) + 1)
    whole, pieces = GroupQueue(), GroupQueue()
    whole.extend(rows)
    for first in range(0, len(rows), 1000):
        pieces.extend(rows[first : first + 1000])
    saved = encode(GroupQueue, whole)
    assert encode(GroupQueue, pieces) == saved
    assert len(saved) < 4 * len(rows)
    assert not whole.is_full
    last = rows[-1]
    assert whole.count_until(int(last[Q_FILE]), int(last[Q_END])) == len(rows)


def test_a_queue_that_is_full_does_not_depend_on_how_groups_came(monkeypatch):
    """And it takes no other until all that it has are applied."""
    monkeypatch.setattr(group_queue, "PACKED_GROUPS", PACKED)
    monkeypatch.setattr(group_queue, "BYTES_MAX", 1)
    rows = np.array(groups_of(Random(1), None, 40), dtype=np.int64)
    saved = []
    for step in (1, 3, 40):
        queue = GroupQueue()
        for first in range(0, len(rows), step):
            queue.extend(rows[first : first + step])
        assert queue.is_full
        assert len(queue) == 2 * PACKED
        queue.compact()
        saved.append(encode(GroupQueue, queue))
    assert 1 == len(set(saved))
    queue.drop_until(*rows[2 * PACKED - 2, :2].tolist())
    assert queue.is_full
    queue.drop_until(*rows[2 * PACKED - 1, :2].tolist())
    assert not queue.is_full


@pytest.mark.parametrize("torn", [0, EVENT])
def test_a_row_far_behind_what_was_received_is_judged(monkeypatch, torn):
    """The stored pair is held against a group that is packed."""
    monkeypatch.setattr(group_queue, "PACKED_GROUPS", PACKED)
    journal, relay, more = replica()
    stored, status = relay_info(relay), journal.replica_status()
    stored[0]["Master_log_pos"] -= torn
    for group in more:
        relay.copy(group)
    journal.row(replica_status=status, slave_relay_log_info=stored)
    result = audit(journal)
    assert result.audit is not None
    [reader] = result.audit.relays.values()
    assert reader.queue.rows()[2, Q_END] == stored[0]["Relay_log_pos"]
    checks = {check.rule: check for check in result.cuts[-1].checks}
    expected = "broken" if torn else "holds"
    assert checks["relay_info_coordinates_paired"].outcome.value == expected
