"""Healthy fleets of whose journals one input is missing throughout: nobody is accused for that.

What is missing leaves rules undecided, or is refused with its line where a record means nothing
without it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import JsonLinesError, blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

Record = dict[str, Any]

HISTORIES = {
    "a log that was off": Scenario(
        seed=20,
        topology="pair",
        negatives=("binlog_off", "commit_zone"),
        duration_ms=4_000,
        max_binlog_size=16_384,
    ),
    "channels of two sources": Scenario(seed=2, topology="multi_source", duration_ms=4_000),
    "a clone": Scenario(
        seed=4, topology="pair", negatives=("clone",), duration_ms=4_000, applier_workers=4
    ),
}
_PLACE = {"kind", "instance", "ts", "file", "start", "length", "type", "channel"}
"""What says which record it is."""
_ACCUSED = {
    "log_status.row": "snapshot_never_silently_empty",
    "log_status.error": "snapshot_never_silently_empty",
}
"""An answer with neither is the finding itself."""
_UNTRUE = {"start.data_lineage"}
"""Without it the data directory is said to be the same one."""
_TOGETHER = ("start", "stop", "variables", "channel", "backup_lock", "binlog_purge", "gtid_purged")
"""Kinds without which others are untrue: a command that was not recorded, half of a protocol."""


@cache
def _records(name: str) -> tuple[Record, ...]:
    blocks = simulate(HISTORIES[name]).blocks(4_096)
    records = [json.loads(line) for block in blocks for line in block_to_lines(block)]
    for record in records:
        del record["sequence"], record["epoch"]
    return tuple(records)


def _paths(records: tuple[Record, ...], kind: str) -> Iterator[tuple[str, ...]]:
    """The keys of a kind; of settings and of SHOW REPLICA STATUS each by itself."""
    own = [record for record in records if record["kind"] == kind]
    yield from ((key,) for key in sorted({key for record in own for key in record} - _PLACE))
    settings = {key for record in own for key in record.get("variables") or ()}
    yield from (("variables", key) for key in sorted(settings))
    status = {key for one in own for row in one.get("replica_status") or () for key in row}
    yield from (("replica_status", key) for key in sorted(status))


def _without(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_without(one, path) for one in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    rest = {key: one for key, one in value.items() if key != path[0]}
    return rest if len(path) == 1 else {**rest, path[0]: _without(value[path[0]], path[1:])}


def _accused(records: list[Record]) -> set[str]:
    """The rules that are called broken; a line that is refused accuses nobody."""
    try:
        result = audit_history(blocks_from_lines([json.dumps(record) for record in records]))
    except JsonLinesError:
        return set()
    return {finding.rule for finding in result.findings}


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in HISTORIES for kind in sorted({r["kind"] for r in _records(name)})],
)
def test_nobody_is_accused(name: str, kind: str):
    """Neither without one key of a kind, nor without the kind."""
    records = _records(name)
    for path in _paths(records, kind):
        what = ".".join((kind, *path))
        if what in _UNTRUE:
            continue
        kept = [_without(one, path) if one["kind"] == kind else one for one in records]
        assert _accused(kept) <= {_ACCUSED.get(what)}, what
    if kind not in _TOGETHER:
        assert _accused([one for one in records if one["kind"] != kind]) == set(), kind


@pytest.mark.parametrize("name", HISTORIES)
def test_the_histories_are_healthy(name: str):
    """With all that they have."""
    assert _accused(list(_records(name))) == set()
