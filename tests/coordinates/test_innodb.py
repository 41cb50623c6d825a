"""LSNs: where in a block they may lie."""

import pytest

from tallystick.coordinates.values.innodb import BLOCK_LENGTH, LSN_MIN, lsn_offset_is_legal


@pytest.mark.parametrize(
    ("offset", "is_legal"),
    [(0, False), (11, False), (12, True), (507, True), (508, False), (510, False), (511, False)],
)
@pytest.mark.parametrize("block", [16, 17, 2**53])
def test_lsns_lie_in_the_data_of_a_block(block, offset, is_legal):
    """Header and trailer of a block hold no record, at any height of the log."""
    assert lsn_offset_is_legal(block * BLOCK_LENGTH + offset) is is_legal


def test_the_first_lsn_opens_a_block():
    """A new log starts at a border, so the first legal LSN is behind that block's header."""
    assert LSN_MIN % BLOCK_LENGTH == 0
    assert lsn_offset_is_legal(LSN_MIN + 12)
