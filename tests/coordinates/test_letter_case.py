"""A server's UUID is the same in capitals: auto.cnf may hold it so, and people write it so."""

from __future__ import annotations

import json
import re

import pytest

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tests.support.orders import STORED, journals_of

OF_SERVERS = re.compile(r'("[A-Za-z_]*(?:uuid|group_name)": )("[^"]*")', re.IGNORECASE)
SEEDS = (*range(1, 40, 2), 4, 28)


def in_capitals(line: str) -> str:
    return OF_SERVERS.sub(lambda found: found[1] + found[2].upper(), json.dumps(json.loads(line)))


def answers(result: AuditResult) -> list[object]:
    return [
        result.verdict,
        sorted((one.rule, one.case, one.instance_id) for one in result.findings),
        sorted(one.reason for one in result.observations),
        [
            [(check.rule, check.outcome, check.reason) for check in cut.checks]
            for cut in result.cuts
        ],
    ]


@pytest.mark.parametrize("history", [*SEEDS, *STORED])
def test_a_uuid_in_capitals_is_the_same(history: str | int) -> None:
    """Of servers; GTIDs in capitals are none that a server prints (`gtid_text_canonical`)."""
    blocks = [block for journal in journals_of(history).values() for block in journal]
    lines = [in_capitals(line) for block in blocks for line in block_to_lines(block)]
    assert answers(audit_history(blocks)) == answers(audit_history(blocks_from_lines(lines)))
