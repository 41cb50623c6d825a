"""A head that lacks groups: did the rotation overtake their commits, or is it wrong otherwise?"""

from __future__ import annotations

import pytest

from tests.support.journals import UUID_A, Journal, audit

OVERTAKEN, WRONG = ["rotated_while_committing"], ["previous_gtids_lack"]


def cases_of(
    forms: tuple[str, ...], lacks: set[int], block_size: int, **variables: object
) -> list[str]:
    """The cases found where the second file's head lacks some groups of the first one."""
    journal = Journal(**variables).begin()
    for form in forms:
        journal.binlog.group(form=form)
    for gno in lacks:
        journal.binlog.gtids.remove(f"{UUID_A}:{gno}")
    journal.binlog.rotate()
    found = audit(journal, block_size).findings
    assert {"previous_gtids_continuity"} >= {one.rule for one in found}
    return [one.case for one in found]


@pytest.mark.parametrize("block_size", [1, 4096])
@pytest.mark.parametrize(
    ("forms", "lacks", "in_order", "out_of_order"),
    [
        (("rows", "xa_commit"), {2}, OVERTAKEN, OVERTAKEN),
        (("rows", "xa_commit", "xa_rollback", "myisam", "ddl"), {2, 3, 4, 5}, OVERTAKEN, OVERTAKEN),
        (("xa_commit", "xa_commit"), {1}, OVERTAKEN, OVERTAKEN),
        (("xa_commit", "rows"), {1}, WRONG, OVERTAKEN),
        (("xa_commit", "xa_prepare", "xa_commit"), {1}, WRONG, OVERTAKEN),
        (("xa_commit", "payload"), {1}, WRONG, OVERTAKEN),
        (("xa_commit", "rows", "xa_commit"), {1, 2}, WRONG, WRONG),
        (("xa_commit", "rows"), {2}, WRONG, WRONG),
        (("xa_commit", "payload"), {2}, WRONG, WRONG),
        (("xa_commit", "xa_prepare"), {2}, WRONG, WRONG),
    ],
)
def test_what_a_head_lacks(
    forms: tuple[str, ...],
    lacks: set[int],
    in_order: list[str],
    out_of_order: list[str],
    block_size: int,
):
    """Where commits are ordered, what InnoDB has prepared is waited for, and so all before it."""
    assert cases_of(forms, lacks, block_size) == in_order
    assert cases_of(forms, lacks, block_size, binlog_order_commits=False) == out_of_order
