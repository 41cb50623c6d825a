"""Expectations on one replication channel."""

from __future__ import annotations

from typing import ClassVar

from tallystick.expectations.judgement import RowRule
from tallystick.expectations.judges import RULES
from tallystick.expectations.rules._row_rule import RowRuleExpectation


class ExpectRelayLogPositionToBeOnWrittenBoundary(RowRuleExpectation):
    """Expect the relay log position to be where an event of that relay log ends."""

    rule: ClassVar[RowRule] = RULES["relay_position_on_boundary"]

    relay_log_file_column: str = "relay_log_file"
    relay_log_position_column: str = "relay_log_position"
    journal_relay_log_file_column: str = "journal_relay_log_file"
    journal_relay_log_position_column: str = "journal_relay_log_position"


class ExpectExecutedSourcePositionToBeRead(RowRuleExpectation):
    """Expect the applier's position in the source's log not to be beyond the receiver's."""

    rule: ClassVar[RowRule] = RULES["exec_read"]

    read_source_log_file_column: str = "read_source_log_file"
    read_source_log_pos_column: str = "read_source_log_pos"
    exec_source_log_file_column: str = "exec_source_log_file"
    exec_source_log_pos_column: str = "exec_source_log_pos"
