"""What waits for the journals of sources is limited, in comparisons and in the groups of them."""

from __future__ import annotations

import numpy as np
import pytest

from tallystick.coordinates.audit import comparison_queues
from tallystick.coordinates.audit.comparison import ChannelPut, Evidence, GroupsQueued, QueuedRun
from tallystick.coordinates.audit.comparison_queues import Queue
from tallystick.coordinates.audit.journal_position import JournalPosition

AT = JournalPosition(1, 0, 0, None)


def evidence(groups: int | None) -> Evidence:
    """With so many groups; None: of another kind, which has none."""
    if groups is None:
        return ChannelPut("r", AT, ("binlog.000001", 4), frozenset())
    ends, sid = np.zeros(groups, np.int64), np.zeros(groups, np.int32)
    run = QueuedRun("binlog", 1, ends, ("u",), sid, ends, connects=False, begins=False)
    return GroupsQueued(AT, 0, (run,), (), is_row=True, ignores_servers=False, server_uuid=None)


@pytest.mark.parametrize(
    ("waiting", "surplus"),
    [
        ([], 0),
        ([None] * 4, 0),
        ([None] * 5, 1),
        ([None] * 9, 5),
        ([5, 5], 0),
        ([1, 5, 5], 1),
        ([5, 5, 1], 1),
        ([5, None, 5, None], 0),
        ([5, None, 6, None], 1),
        ([3, 3, 9, 1], 2),
        # The newest stays, however many groups it has.
        ([11], 0),
        ([1, 11], 1),
        ([1, 1, 99], 2),
    ],
)
def test_the_oldest_have_no_room(
    monkeypatch: pytest.MonkeyPatch, waiting: list[int | None], surplus: int
) -> None:
    """Of four comparisons, or of ten groups."""
    monkeypatch.setattr(comparison_queues, "WAITING_MAX", 4)
    monkeypatch.setattr(comparison_queues, "GROUPS_MAX", 10)
    assert Queue([evidence(groups) for groups in waiting]).surplus() == surplus
