"""Expectations on InnoDB's log sequence numbers."""

from __future__ import annotations

from typing import ClassVar

from tallystick.expectations.judgement import RowRule
from tallystick.expectations.judges import RULES
from tallystick.expectations.rules._row_rule import RowRuleExpectation


class ExpectLsnsToBeInOrder(RowRuleExpectation):
    """Expect the checkpoint not to be beyond the LSN, nor below the first LSN there is."""

    rule: ClassVar[RowRule] = RULES["lsn_ordered"]

    lsn_column: str = "lsn"
    lsn_checkpoint_column: str = "lsn_checkpoint"


class ExpectLsnsToBeInBlockData(RowRuleExpectation):
    """Expect LSN and checkpoint to lie in the data bytes of their 512-byte block."""

    rule: ClassVar[RowRule] = RULES["lsn_in_block_data"]

    lsn_column: str = "lsn"
    lsn_checkpoint_column: str = "lsn_checkpoint"


class ExpectLsnNotToFall(RowRuleExpectation):
    """Expect the LSN not to be below the row before."""

    rule: ClassVar[RowRule] = RULES["lsn_kept"]

    lsn_column: str = "lsn"
    previous_lsn_column: str = "previous_lsn"
