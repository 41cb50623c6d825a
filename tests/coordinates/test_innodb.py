"""LSNs: where in a block they may lie, and which numbers they may be."""

import pytest

from coordinates.errors import CoordinateError
from coordinates.innodb import BLOCK_LENGTH, LSN_MAX, LSN_MIN, RedoState, lsn_offset_is_legal


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


def test_a_redo_state_may_contradict_itself():
    """A checkpoint beyond the LSN is evidence for an invariant, not an error of reading."""
    state = RedoState(lsn=9000, lsn_checkpoint=9100)
    assert state.checkpoint_age == -100
    assert state.lsn_flushed is None
    assert state.lsn_written is None


@pytest.mark.parametrize("name", ["lsn", "lsn_checkpoint", "lsn_flushed", "lsn_written"])
@pytest.mark.parametrize("value", [-1, LSN_MAX + 1])
def test_refuses_numbers_that_are_no_lsn(name, value):
    """An LSN has 63 bits; the message names the field."""
    fields = {"lsn": 9000, "lsn_checkpoint": 9000, name: value}
    with pytest.raises(CoordinateError, match=f"expected {name} from 0 to"):
        RedoState(**fields)
    assert RedoState(**{**fields, name: LSN_MAX})
