"""Expectations on the coordinates of the binary log."""

from __future__ import annotations

from typing import ClassVar

from tallystick.expectations.judgement import RowRule
from tallystick.expectations.judges import RULES
from tallystick.expectations.rules._row_rule import RowRuleExpectation


class ExpectBinaryLogCoordinatesToBeComplete(RowRuleExpectation):
    """Expect file and position both or neither, the file named ``base.NNNNNN``."""

    rule: ClassVar[RowRule] = RULES["coordinates_complete"]

    answer_column: str = "answer"
    binary_log_file_column: str = "binary_log_file"
    binary_log_position_column: str = "binary_log_position"


class ExpectBinaryLogPositionToBeOnGroupBoundary(RowRuleExpectation):
    """Expect the position to be where a group of events ends, and within the file."""

    rule: ClassVar[RowRule] = RULES["position_on_boundary"]

    binary_log_file_column: str = "binary_log_file"
    binary_log_position_column: str = "binary_log_position"
    journal_binary_log_file_column: str = "journal_binary_log_file"
    journal_binary_log_position_column: str = "journal_binary_log_position"
    gtid_executed_column: str = "gtid_executed"


class ExpectBinaryLogPositionNotToFall(RowRuleExpectation):
    """Expect the coordinates, by file number and then position, not to be below the row before."""

    rule: ClassVar[RowRule] = RULES["position_kept"]

    binary_log_file_column: str = "binary_log_file"
    binary_log_position_column: str = "binary_log_position"
    previous_binary_log_file_column: str = "previous_binary_log_file"
    previous_binary_log_position_column: str = "previous_binary_log_position"
