"""LSNs: where in a block they may lie, and those of the status variables over time."""

import pytest

from tallystick.coordinates.values.innodb import BLOCK_LENGTH, LSN_MIN, lsn_offset_is_legal
from tests.support.journals import Journal, audit
from tests.support.rule_cases import innodb, source


@pytest.mark.parametrize(
    ("offset", "is_legal"),
    [(0, False), (11, False), (12, True), (507, True), (508, False), (510, False), (511, False)],
)
@pytest.mark.parametrize("block", [16, 17, 2**53])
def test_lsns_lie_in_the_data_of_a_block(block, offset, is_legal):
    """Header and trailer of a block hold no record, at any height of the log."""
    assert lsn_offset_is_legal(block * BLOCK_LENGTH + offset) is is_legal


def test_the_first_lsn_opens_a_block():
    """A new log starts at a border, so the first legal LSN is after that block's header."""
    assert LSN_MIN % BLOCK_LENGTH == 0
    assert lsn_offset_is_legal(LSN_MIN + 12)


@pytest.mark.parametrize("name", ["flushed", "written", "current"])
@pytest.mark.parametrize("meanwhile", ["nothing", "stop", "crash"])
def test_a_status_variable_never_falls(name, meanwhile):
    """A crash takes what was not flushed, and nothing else does."""
    journal = Journal().begin()
    lsns = dict.fromkeys(("checkpoint", "flushed", "written", "current"), journal.lsn)
    journal.row(innodb=lsns)
    if meanwhile != "nothing":
        if meanwhile == "stop":
            journal.record("stop")
        journal.start(crashed=meanwhile == "crash")
        journal.binlog.open(2)
    journal.row(innodb=lsns | {name: lsns[name] - 512})
    is_legal = meanwhile == "crash" and name != "flushed"
    assert audit(journal).broken == ([] if is_legal else ["lsn_monotone"])


def test_the_written_lsn_is_behind_the_first_one():
    journal = Journal().begin()
    journal.row(innodb={"written": LSN_MIN - 1})
    assert audit(journal).broken == ["lsn_order"]


def test_a_checkpoint_that_is_not_named_is_not_compared():
    journal = source()
    del innodb(journal.row())["LSN_checkpoint"]
    assert audit(journal).verdicts == ["CONSISTENT"]
