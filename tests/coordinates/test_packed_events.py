"""A file whose events are packed answers as one whose events are arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal

import numpy as np
import pytest

from tallystick.coordinates.audit import timeline_file
from tallystick.coordinates.audit.packed_events import (
    BinlogGroups,
    Events,
    GtidRuns,
    PackedEvents,
    unpacked,
)
from tallystick.coordinates.audit.timeline_file import BinlogFile
from tallystick.coordinates.state_codec import decode, encode

Event = tuple[int, int, tuple[int, int] | None]
"""Where it begins and ends, and the GTID (sid, gno) of the group that it ends."""
ANONYMOUS = (-1, -1)
_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


def events_of(events: list[Event]) -> Events:
    groups = [(n, *gtid) for n, (_, _, gtid) in enumerate(events) if gtid is not None]
    event, sid, gno = zip(*groups, strict=True) if groups else ((), (), ())
    return Events(
        np.array([end for _, end, _ in events], dtype=np.int64),
        BinlogGroups(
            np.array(event, dtype=np.int32), np.array(sid, np.int32), np.array(gno, np.int64)
        ),
    )


@dataclass
class History:
    """A file that grows, loses and forgets, beside the plain list of what it should remember."""

    random: Random
    file: BinlogFile = field(default_factory=lambda: BinlogFile(0, 1))
    events: list[Event] = field(default_factory=list)
    forgotten: int = 0
    gnos: dict[int, int] = field(default_factory=dict)

    def next_gtid(self) -> tuple[int, int]:
        """Mostly the next of one sid."""
        sid = self.random.choice((0, 0, 0, 0, 1, -1))
        if sid < 0:
            return ANONYMOUS
        self.gnos[sid] = self.gnos.get(sid, 0) + self.random.choice((1, 1, 1, 3))
        return sid, self.gnos[sid]

    def grow(self) -> None:
        start = self.file.end
        if self.random.random() < 0.2:
            start += self.random.randint(1, 9)
        run: list[Event] = []
        for _ in range(self.random.randint(1, 30)):
            begin = run[-1][1] if run else start
            end = begin + self.random.choice((1, 2, 3, 300, 70_000))
            ends_group = self.random.random() < 0.4
            run.append((begin, end, self.next_gtid() if ends_group else None))
        assert self.file.append(start, *events_of(run)) == len(run)
        self.events += run

    def seal(self) -> None:
        self.file.seal()

    def truncate(self) -> None:
        """To the end of an event, which may be packed, or to where nothing is known."""
        end = max(self.random.randint(self.file.end // 2, self.file.end + 2), 4)
        end = next((start for start, last, _ in self.events if start < end < last), end)
        copy = self.file.copy()
        lost = [event for event in self.events if event[1] > end]
        self.events = self.events[: len(self.events) - len(lost)]
        self.forgotten = min(self.forgotten, end)
        taken = self.file.truncate(end)
        assert taken.ends.tolist() == [event[1] for event in lost]
        back = self.file.copy()
        back.give_back(taken)
        assert content(back)[0] == content(copy)[0]

    def forget(self) -> None:
        count, end, groups = self.file.oldest()
        if count == self.file.event_count:
            return
        oldest, self.events = self.events[:count], self.events[count:]
        assert oldest[-1][1] == end
        assert sum(gtid is not None for *_, gtid in oldest) == groups
        self.file.forget_oldest()
        self.forgotten = end

    def expected(self) -> BinlogFile:
        """The same, event by event, and nothing of it packed."""
        file = BinlogFile(0, 1)
        if self.forgotten:
            file.skip_to(self.forgotten)
            file.holes = [(0, self.forgotten)]
        for event in self.events:
            file.append(event[0], *events_of([event]))
        if self.file.end > file.end:
            file.skip_to(self.file.end)
        file.is_open_ended = self.file.is_open_ended
        return file


def content(file: BinlogFile) -> tuple[list[list[int]], list[object]]:
    """The remembered groups; and every answer at positions in, around and after the events."""
    groups = file.groups()
    ends = [4, *file.copy().truncate(-1).ends.tolist(), file.end]
    positions = np.unique([end + by for end in ends for by in (-1, 0, 1)] + [0, file.end + 90])
    runs = [GtidRuns.joined(file.runs(count)) for count in range(0, file.group_count + 1, 3)]
    columns = [column.tolist() for column in groups]
    found = {side: file.find_groups(positions, side).tolist() for side in _SIDES}
    for side in _SIDES:
        assert [file.count_groups(p, side) for p in positions.tolist()] == found[side]
    return columns, [
        file.event_count,
        file.group_count,
        file.has_anonymous_group,
        file.observed_from,
        file.end,
        [file.kind_at(p, limit) for p in positions.tolist() for limit in (file.end, p + 500)],
        file.is_known(positions).tolist(),
        file.knows_groups(positions).tolist(),
        found,
        [
            [end for part in file.groups_after(p) for end in part.end.tolist()]
            for p in positions[::17].tolist()
        ],
        [[column.tolist() for column in each.groups()] for each in runs],
        [[column.tolist() for column in each.without_last().groups()] for each in runs],
        [column.tolist() for column in file.groups_at(np.arange(file.group_count)[::-1])],
    ]


@pytest.mark.parametrize("seed", range(24))
def test_packed_or_not_the_answers_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over holes, the end of the file, truncations anywhere, and what was forgotten."""
    history = History(Random(seed))
    size = history.random.randint(1, 24)
    for _ in range(10):
        monkeypatch.setattr(timeline_file, "PACKED_EVENTS", size)
        steps = (history.grow,) * 6 + (history.truncate, history.forget, history.seal)
        history.random.choice(steps)()
        restored = decode(BinlogFile, encode(BinlogFile, history.file), "a file")
        monkeypatch.setattr(timeline_file, "PACKED_EVENTS", 10**9)
        expected = content(history.expected())
        assert content(history.file) == expected
        assert content(history.file.copy()) == expected
        assert content(restored) == expected


def test_where_it_is_packed_does_not_depend_on_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forgotten together would else depend on how a journal was cut into blocks."""
    monkeypatch.setattr(timeline_file, "PACKED_EVENTS", 8)
    events = [(n, n + 1, (0, n) if n % 3 else None) for n in range(4, 104)]
    oldest = set()
    for size in (1, 7, 8, 33, 100):
        file = BinlogFile(0, 1)
        for at in range(0, len(events), size):
            file.append(4 + at, *events_of(events[at : at + size]))
        parts = []
        while file.oldest()[0] < file.event_count:
            parts.append(file.oldest())
            file.forget_oldest()
        oldest.add((*parts, file.event_count))
    assert len(oldest) == 1


@pytest.mark.parametrize("sid", [0, -1])
def test_an_event_takes_three_bytes(sid: int) -> None:
    """Five events a group, as of a row that is changed; some of them long. Anonymous, too."""
    count = 2**14
    lengths = np.where(np.arange(count) % 5 == 3, 900, 61)
    event = np.arange(4, count, 5)
    gno = np.arange(10**12, 10**12 + len(event)) if sid == 0 else np.full(len(event), -1)
    groups = BinlogGroups(event, np.full(len(event), sid, dtype=np.int32), gno)
    packed = PackedEvents.of(Events(lengths.cumsum(), groups))
    assert packed.byte_count < 2.3 * count
    assert len(encode(PackedEvents, packed)) < 2.3 * count
    assert np.array_equal(unpacked(packed).ends, lengths.cumsum())
    assert np.array_equal(unpacked(packed).groups.gno, gno)
