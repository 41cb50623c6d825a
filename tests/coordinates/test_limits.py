"""Where a limit is reached, what is forgotten is named: never CONSISTENT, and nobody is accused."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Outcome
from tests.support.journals import UUID_C, Audited, Record
from tests.support.rule_cases import all_cases

CASES = all_cases()
AUDIT, LOGS, RULES = (f"tallystick.coordinates.{name}" for name in ("audit", "logs", "rules"))
FORGOTTEN = "steps_forgotten"


class Limit(NamedTuple):
    """What is set so low that cases reach it, and the reason that is named then.

    Without a reason it cannot matter what is forgotten: no case is changed by it.
    """

    reason: str
    values: dict[str, int]


LIMITS = {
    "rows that wait": Limit("row_not_reached", {f"{AUDIT}.instance.WAITING_MAX": 0}),
    "rows that were answered": Limit("", {f"{AUDIT}.instance.ANSWERED_MAX": 1}),
    "records that may come again": Limit("", {f"{AUDIT}.recent_records.RECENT_MAX": 1}),
    "durations": Limit("", {f"{AUDIT}.reporter.UNCONFIRMED_MAX": 1}),
    "groups in flight": Limit("", {f"{AUDIT}.row_rules.UNSETTLED_MAX": 1}),
    "empty groups": Limit(
        "backup_change_unknown", {f"{LOGS}.binlog_reader.EMPTY_INTERVALS_MAX": 0}
    ),
    "commits of InnoDB": Limit("", {f"{LOGS}.binlog_reader.XID_GROUPS_REMEMBERED": 1}),
    "groups of a relay log": Limit(
        "", {f"{LOGS}.group_queue.BYTES_MAX": 0, f"{LOGS}.group_queue.PACKED_GROUPS": 2}
    ),
    "anonymous groups": Limit(
        "applied_start_forgotten", {f"{RULES}.applied_groups.REMEMBERED_MAX": 1}
    ),
    "sessions of backups": Limit(FORGOTTEN, {f"{RULES}.backup_lock_steps._SESSIONS_MAX": 1}),
    "sessions with locks": Limit(FORGOTTEN, {f"{RULES}.backup_locks._SESSIONS_MAX": 1}),
    "collections": Limit(FORGOTTEN, {f"{RULES}.collection.OPEN_MAX": 1}),
    "steps of collections": Limit(FORGOTTEN, {f"{RULES}.collection_steps._RUNS_MAX": 1}),
    "threads outside a zone": Limit(FORGOTTEN, {f"{RULES}.critical_zone._OUTSIDERS_MAX": 1}),
    "zones": Limit(FORGOTTEN, {f"{RULES}.critical_zone._ZONES_MAX": 1}),
    "GTIDs to persist": Limit(FORGOTTEN, {f"{RULES}.gtid_persistence.PENDING_MAX": 0}),
    "persisted GTIDs": Limit(FORGOTTEN, {f"{RULES}.gtid_table.INTERVALS_MAX": 0}),
    "writes of repositories": Limit(FORGOTTEN, {f"{RULES}.info_repositories._WRITES_MAX": 2}),
    "locked engines": Limit(FORGOTTEN, {f"{RULES}.online_backup._ENGINES_MAX": 1}),
    "threads that left early": Limit(FORGOTTEN, {f"{RULES}.online_backup_steps._THREADS_MAX": 1}),
    "backups": Limit(FORGOTTEN, {f"{RULES}.redo_positions._BACKUPS_MAX": 1}),
}


class Said(NamedTuple):
    """What an audit says: the rules that are broken, and why which are undecided ("": all)."""

    broken: set[str]
    undecided: set[tuple[str, str]]

    def hides(self, rule: str, before: Said) -> bool:
        """Whether nothing is said of a rule that was broken before."""
        named = {name for name, _ in self.undecided - before.undecided}
        return rule not in self.broken and named.isdisjoint({rule, ""})


def crowded(records: Iterable[Record]) -> Iterator[Record]:
    """The records, and what begins in them begins once more beside it, for somebody else."""
    for number, record in enumerate(records):
        yield record
        yield from _another(record, number)


def _another(record: Record, number: int) -> Iterator[Record]:
    began = record["kind"], record.get("step")
    session = {"session": 99} if "session" in record else {}
    where = {name: record[name] for name in ("kind", "instance", "ts", "zone") if name in record}
    if began == ("collection", "enter"):
        yield {**record, "collection_id": "another", **session}
    elif began == ("backup", "begin"):
        yield {**record, "backup_id": "another", **session}
    elif began == ("backup_lock", "lock"):
        yield {**record, **session}
    elif began == ("engine_lock", "lock"):
        yield {**record, "engine": "another"}
    elif began == ("zone", "close"):
        yield {**record, "zone": "another"}
    elif began == ("zone", "write_binlog") and "ticket" not in record:
        yield {**record, "thread": 99, "tables": ["another.table"]}
    elif began == ("zone", "drop"):
        yield {**where, "step": "enter", "ticket": 99}
        yield {**where, "step": "write_binlog", "ticket": 99, "thread": 99}
        yield {**where, "step": "drop", "ticket": 99}
    elif began == ("gtid_persister", "commit"):
        yield {**record, "gtid": f"{UUID_C}:{1000 + number}"}


@functools.cache
def blocks_of(name: str, breaks: bool, is_crowded: bool) -> tuple[Block, ...]:
    """The journal of a case."""
    records = CASES[name].build(breaks=breaks).records
    lines = map(json.dumps, crowded(records) if is_crowded else records)
    return tuple(blocks_from_lines(lines))


def said_of(name: str, breaks: bool, is_crowded: bool) -> Said:
    """What the audit says of it."""
    blocks = blocks_of(name, breaks, is_crowded)
    audit, result = InstanceAudit(blocks[0].instance_id), Audited()
    for block in blocks:
        result.take(audit.absorb(block))
    result.take(audit.finish())
    checks = [check for cut in result.cuts for check in cut.checks]
    undecided = {(one.rule, one.reason) for one in checks if one.outcome is Outcome.UNDECIDED}
    for one in result.observations:
        if one.is_undecided:
            undecided |= {(rule, one.reason) for rule in one.rules or ("",)}
    return Said(set(result.broken), undecided)


without_limit = functools.cache(said_of)


@pytest.mark.parametrize("limit", LIMITS)
def test_what_one_instance_forgets_is_named(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule's case: found as before, or the rule is undecided; what is legal stays so."""
    reason, values = LIMITS[limit]
    journals = list(itertools.product(CASES, (False, True), (False, True)))
    expected = [without_limit(*journal) for journal in journals]
    for path, value in values.items():
        module, _, attribute = path.rpartition(".")
        monkeypatch.setattr(importlib.import_module(module), attribute, value)
    hidden, accused, named = [], [], set()
    for journal, before in zip(journals, expected, strict=True):
        now = said_of(*journal)
        named |= {code for _, code in now.undecided - before.undecided}
        hidden += [(*journal, rule) for rule in before.broken if now.hides(rule, before)]
        accused += [(*journal, rule) for rule in now.broken - before.broken]
    assert (hidden, accused) == ([], [])
    assert reason in named or (not reason and not named)
