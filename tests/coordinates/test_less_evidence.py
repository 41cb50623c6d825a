"""A journal that has less finds nothing more: optional fields, what is beside rows, whole lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from random import Random

import numpy as np
import pytest

from tallystick.campaign import BLOCK_RECORDS
from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.events.journal import ABSENT, Block, RecordType, Stream
from tallystick.coordinates.events.json_lines import JsonLinesError, blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Verdict
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.orders import STORED, TESTS, journals_of

HEALTHY = (0, 4, 22, 28)
OPTIONAL = (
    "log_pos",
    "checksum",
    "server_id",
    "last_committed",
    "sequence_number",
    "transaction_length",
    "original_commit_timestamp",
)
BESIDE_ROWS = (
    "binary_logs",
    "gtid_executed_first",
    "gtid_owned",
    "gtid_purged",
    "prepared_xa",
    "replica_status",
    "slave_master_info",
    "slave_relay_log_info",
)


def audited(history: str | int, change: Callable[[Block], Block]) -> AuditResult:
    """The audit of a history whose blocks are changed."""
    journals = journals_of(history).values()
    return audit_history(change(block) for journal in journals for block in journal)


def rules(result: AuditResult) -> set[str]:
    return {finding.rule for finding in result.findings}


@lru_cache
def found_in(history: str | int) -> frozenset[str]:
    """The rules that the whole history breaks."""
    return frozenset(rules(audited(history, lambda block: block)))


def without_column(column: str, share: float, *streams: Stream) -> Callable[[Block], Block]:
    """Some events of logs have no such field."""
    draws = np.random.default_rng(7)

    def change(block: Block) -> Block:
        values = block.columns[column].copy()
        which = np.isin(block.columns["stream"], [int(stream) for stream in streams])
        # An artificial event has the position 0, which is known.
        which &= (values > 0) & (draws.random(len(values)) < share)
        values[which] = ABSENT
        return replace(block, columns={**block.columns, column: values})

    return change


@pytest.mark.parametrize("share", [1.0, 0.5, 0.02])
@pytest.mark.parametrize("history", [*STORED, *HEALTHY])
def test_relay_events_without_positions(history: str | int, share: float) -> None:
    """Nothing is found for want of `log_pos`."""
    result = audited(history, without_column("log_pos", share, Stream.RELAY))
    assert rules(result) <= found_in(history)


def test_a_mirror_without_positions_is_undecided() -> None:
    """The same journal is CONSISTENT with them."""
    history = next(name for name in STORED if "reset_and_change_source" in name)
    assert audited(history, lambda block: block).verdict is Verdict.CONSISTENT
    result = audited(history, without_column("log_pos", 1.0, Stream.RELAY))
    assert result.verdict is Verdict.UNDECIDED
    assert any("relay_mirrors_source" in one.rules for one in result.observations)


@pytest.mark.parametrize("column", OPTIONAL)
def test_events_without_an_optional_field(column: str) -> None:
    """All events of some fleets, some events of the others."""
    for history, share in zip(HEALTHY, (1.0, 0.3, 0.3, 1.0), strict=True):
        change = without_column(column, share, Stream.BINLOG, Stream.RELAY)
        assert rules(audited(history, change)) == set()


@pytest.mark.parametrize("seed", [5, 7])
def test_a_group_that_was_never_received(seed: int) -> None:
    """Also after those that may have come before the source's log is known: 5 is after others."""
    history = simulate(Scenario(seed=seed, topology="pair", fault="receiver_skips_group"))
    assert rules(audit_history(history.blocks(BLOCK_RECORDS))) == {"relay_mirrors_source"}


def test_a_group_that_was_never_received_where_nothing_shows_it_but_sets() -> None:
    """No relay log is read, and the replica does not log what it applies."""
    scenario = Scenario(seed=5, topology="pair", negatives=("log_replica_updates_off",))
    for fault in (None, "receiver_skips_group"):
        history = simulate(replace(scenario, fault=fault))
        lines = chain.from_iterable(map(block_to_lines, history.blocks(BLOCK_RECORDS)))
        records = [json.loads(line) for line in lines]
        kept = [one for one in records if one["kind"] != "relay"]
        for one in kept:
            del one["sequence"]  # counted anew: nothing is lost
        result = audit_history(blocks_from_lines(map(json.dumps, kept)))
        assert result.verdict is (Verdict.UNDECIDED if fault else Verdict.CONSISTENT)


def without_input(key: str, share: float) -> Callable[[Block], Block]:
    """Some rows have no such value beside them."""
    random = Random(3)

    def change(block: Block) -> Block:
        texts, columns = dict(block.texts), block.columns
        is_row = (columns["stream"] == Stream.SERVER) & (columns["type"] == RecordType.LOG_STATUS)
        for at in np.flatnonzero(is_row).tolist():
            body = json.loads(texts[at])
            if random.random() < share:
                body.pop(key, None)
            texts[at] = json.dumps(body)
        return replace(block, texts=texts)

    return change


@pytest.mark.parametrize("key", BESIDE_ROWS)
def test_rows_without_what_was_read_beside_them(key: str) -> None:
    """All rows of some fleets, some rows of the others."""
    for history, share in zip(HEALTHY, (1.0, 0.4, 0.4, 1.0), strict=True):
        assert rules(audited(history, without_input(key, share))) == set()


def bad_lines(lines: list[str]) -> Iterator[list[str]]:
    """The lines with one of them bad; its instance can be read, or not."""
    random = Random(1)
    for at in random.sample(range(len(lines)), min(6, len(lines))):
        bad = random.choice(("rubbish", lines[at].replace('"kind":', '"kin":', 1)))
        yield [*lines[:at], bad, *lines[at + 1 :]]


@pytest.mark.parametrize("history", STORED)
def test_a_line_that_is_skipped(history: str) -> None:
    """It is a gap: nothing is found by it, and the journal is not CONSISTENT."""
    lines = (TESTS / history).read_text("utf-8").splitlines()
    for changed in bad_lines(lines):
        skipped: list[JsonLinesError] = []
        blocks = blocks_from_lines(changed, end_heartbeats=True, on_bad_line=skipped.append)
        result = audit_history(blocks)
        assert len(skipped) == 1
        assert rules(result) <= found_in(history)
        assert result.verdict is not Verdict.CONSISTENT
