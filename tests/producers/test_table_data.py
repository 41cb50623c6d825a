"""The content of simulated tables: which changes of history it distinguishes."""

from __future__ import annotations

from random import Random

import pytest

from tallystick.producers.simulator.backup.tables import BACKED_UP, TableData, table_of
from tallystick.producers.simulator.kernel.transactions import Group, GroupKind
from tallystick.producers.simulator.server.workload import make_group

RNG = Random(7)
GROUPS = [make_group(RNG, GroupKind.INNODB, 1, 0) for _ in range(200)]


def checksums(groups: list[Group]) -> list[dict]:
    data = TableData()
    for group in groups:
        data.change(group)
    return data.checksums()


def seen(groups: list[Group]) -> list[Group]:
    """Those of one table that is backed up."""
    return [group for group in groups if table_of(group) == BACKED_UP[0]]


def test_the_same_history_makes_the_same_data() -> None:
    """Equal groups in equal order give equal checksums, and a copy goes its own way."""
    data = TableData()
    for group in GROUPS[:100]:
        data.change(group)
    copy = data.copy()
    copy.change(seen(GROUPS[100:])[0])
    assert data.checksums() == checksums(GROUPS[:100]) != copy.checksums()


@pytest.mark.parametrize("kind", [GroupKind.EMPTY, GroupKind.XA_PREPARE])
def test_what_changes_nothing_visible_leaves_no_trace(kind: GroupKind) -> None:
    """Empty groups never change data, prepared ones only when they are committed."""
    group = make_group(RNG, kind, 1, 0)
    assert checksums([group]) == checksums([])


def test_a_lost_and_a_repeated_group_are_seen() -> None:
    """Each group of a backed-up table counts, once."""
    group = seen(GROUPS)[0]
    lost = [other for other in GROUPS if other is not group]
    assert checksums(GROUPS) != checksums(lost)
    assert checksums(GROUPS) != checksums([*GROUPS, group])


def test_only_conflicting_groups_must_keep_their_order() -> None:
    """Two changes of one row do not commute, those of two rows do."""
    first, *others = seen(GROUPS)
    orders = [checksums([first, other]) == checksums([other, first]) for other in others]
    assert True in orders
    assert False in orders


def test_an_xa_transaction_changes_what_it_prepared() -> None:
    """XA COMMIT makes the change of the prepared group visible, in that group's table."""
    prepared = next(
        group
        for group in (make_group(RNG, GroupKind.XA_PREPARE, 1, 0) for _ in range(50))
        if table_of(group) in BACKED_UP
    )
    committed = make_group(RNG, GroupKind.XA_COMMIT, 1, 0, xa_of=prepared)
    assert table_of(committed) == table_of(prepared)
    assert checksums([prepared, committed]) != checksums([])
