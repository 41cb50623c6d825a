"""Where a limit is reached, what is forgotten is named: never CONSISTENT, and nobody is accused."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tallystick.campaign import BLOCK_RECORDS, scenario_of
from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_events import FleetEvent
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.events.journal import Block
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Check, Observation, Outcome
from tallystick.coordinates.rules.catalogue import COMPARISONS
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.journals import UUID_A, UUID_C, Audited, Journal, Record, audit
from tests.support.rule_cases import all_cases, replica
from tests.support.rule_cases_of_channels import started_with, stored_row, write_row

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
    "groups in flight": Limit("", {f"{AUDIT}.row_rules.UNSETTLED_MAX": 1}),
    "empty groups": Limit(
        "backup_change_unknown", {f"{LOGS}.binlog_reader.EMPTY_INTERVALS_MAX": 0}
    ),
    "commits of InnoDB": Limit("", {f"{LOGS}.binlog_reader.XID_GROUPS_REMEMBERED": 1}),
    "groups of a relay log": Limit(
        "commits_forgotten",
        {f"{LOGS}.group_queue.BYTES_MAX": 0, f"{LOGS}.group_queue.PACKED_GROUPS": 2},
    ),
    "groups that were applied": Limit("commits_forgotten", {f"{LOGS}.group_queue.KEPT_BEHIND": 0}),
    "anonymous groups": Limit(
        "applied_start_forgotten", {f"{RULES}.applied_groups.REMEMBERED_MAX": 1}
    ),
    "backups under locks": Limit(FORGOTTEN, {f"{RULES}.backup_lock_steps._BACKUPS_MAX": 1}),
    "backups with images": Limit(FORGOTTEN, {f"{RULES}.backup_images._BACKUPS_MAX": 1}),
    "backups that go on": Limit(FORGOTTEN, {f"{RULES}.online_backup_steps._BACKUPS_MAX": 1}),
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
    return Said(set(result.broken), _undecided(checks, result.observations))


def _undecided(
    checks: Iterable[Check], observations: Iterable[Observation]
) -> set[tuple[str, str]]:
    found = {(one.rule, one.reason) for one in checks if one.outcome is Outcome.UNDECIDED}
    for one in observations:
        if one.is_undecided:
            found |= {(rule, one.reason) for rule in one.rules or ("",)}
    return found


without_limit = functools.cache(said_of)


@pytest.mark.parametrize("limit", LIMITS)
def test_what_one_instance_forgets_is_named(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule's case: found as before, or the rule is undecided; what is legal stays so."""
    journals = list(itertools.product(CASES, (False, True), (False, True)))
    _compare(LIMITS[limit], journals, without_limit, said_of, monkeypatch)


def _compare(
    limit: Limit,
    histories: Iterable[tuple[Any, ...]],
    without: Callable[..., Said],
    said: Callable[..., Said],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = {history: without(*history) for history in histories}
    for path, value in limit.values.items():
        module, _, attribute = path.rpartition(".")
        monkeypatch.setattr(importlib.import_module(module), attribute, value)
    hidden, accused, named = [], [], set()
    for history, before in expected.items():
        now = said(*history)
        named |= {code for _, code in now.undecided - before.undecided}
        hidden += [(*history, rule) for rule in before.broken if now.hides(rule, before)]
        accused += [(*history, rule) for rule in now.broken - before.broken]
    assert (hidden, accused) == ([], [])
    assert limit.reason in named or (not limit.reason and not named)


# At the limit and one beyond it


class Full(NamedTuple):
    """A case, crowded, that needs a limit to be just as high."""

    case: str
    needs: int = 2


FULL = {
    "backups under locks": Full("backup_lock_steps_complete"),
    "backups with images": Full("backup_image_names_one_state__validity_point"),
    "backups that go on": Full("zone_steps_complete__opened"),
    "sessions with locks": Full("backup_locks_freeze_scope__logged_rows"),
    "collections": Full("collection_lock_order"),
    "steps of collections": Full("collection_steps_complete"),
    "threads outside a zone": Full("critical_sequence_in_zone__between_logging_and_unlocking"),
    "zones": Full("critical_sequence_in_zone"),
    "GTIDs to persist": Full("gtid_persister_steps_complete"),
    "persisted GTIDs": Full("gtid_table_has_closed_files__persisted", 1),
    "writes of repositories": Full("info_repository_read_back__one_of_several", 3),
    "locked engines": Full("engine_lock_budget__time_out_told"),
    "threads that left early": Full("zone_steps_complete__sequence"),
    "backups": Full("image_lsn_within_redo__begin"),
}


@pytest.mark.parametrize("name", [name for name, one in LIMITS.items() if one.reason == FORGOTTEN])
def test_as_many_as_the_limit_says_are_remembered(name: str, monkeypatch: pytest.MonkeyPatch):
    """With one less, what is forgotten is named."""
    case, needs = FULL[name]
    for limit in (needs, needs - 1):
        for path in LIMITS[name].values:
            module, _, attribute = path.rpartition(".")
            monkeypatch.setattr(importlib.import_module(module), attribute, limit)
        codes = {code for _, code in said_of(case, breaks=True, is_crowded=True).undecided}
        assert (FORGOTTEN in codes) == (limit < needs)


# Until it is known to have ended


class Dropped(NamedTuple):
    """What is dropped where the limit is 1, and what shows that it hides nothing any more."""

    limit: str
    drops: tuple[Record, ...]
    ends: tuple[Record, ...] = ()


def _steps(kind: str, *steps: Record, **of_all: Any) -> tuple[Record, ...]:
    return tuple({"kind": kind, **of_all, **step} for step in steps)


def _entered(limit: str) -> Dropped:
    return Dropped(
        limit,
        (
            *_steps("collection", {"session": 7}, {"session": 8}, step="enter", collection_id="c"),
            *_steps("collection", {"step": "error"}, session=7, collection_id="c"),
        ),
        _steps("collection", {"step": "leave"}, session=7, collection_id="c"),
    )


def _writes(*gnos: int) -> tuple[Record, ...]:
    return _steps("gtid_persister", *({"gtids": f"{UUID_A}:{n}"} for n in gnos), step="write")


DROPPED = {
    "sessions with locks": Dropped(
        "backup_locks._SESSIONS_MAX",
        _steps("backup_lock", {"session": 7}, {"session": 8}, step="lock", lock="tables"),
        _steps("backup_lock", {"session": 7}, step="unlock", lock="tables"),
    ),
    "collections": _entered("collection.OPEN_MAX"),
    "steps of collections": _entered("collection_steps._RUNS_MAX"),
    "zones": Dropped(
        "critical_zone._ZONES_MAX", _steps("zone", {"zone": "a"}, {"zone": "b"}, step="close")
    ),
    "threads outside a zone": Dropped(
        "critical_zone._OUTSIDERS_MAX",
        _steps("zone", {"thread": 7}, {"thread": 8}, step="write_binlog", tables=["shop.a"]),
        _steps("zone", {"thread": 7}, step="unlock_tables", tables=["shop.a"]),
    ),
    "locked engines": Dropped(
        "online_backup._ENGINES_MAX",
        _steps("engine_lock", {"engine": "MyISAM"}, {"engine": "CSV"}, step="lock"),
        _steps("engine_lock", {"step": "unlock_all"}),
    ),
    "threads that left early": Dropped(
        "online_backup_steps._THREADS_MAX",
        tuple(
            step
            for thread in (7, 8)
            for step in _steps(
                "zone",
                {"step": "enter"},
                {"step": "write_binlog", "thread": thread},
                {"step": "drop"},
                ticket=thread,
            )
        ),
        _steps(
            "zone",
            {"step": "commit", "thread": 8},
            {"step": "unlock_tables", "thread": 8},
            {"step": "close"},
            {"step": "validity_point"},
            {"step": "open"},
        ),
    ),
    "GTIDs to persist": Dropped(
        "gtid_persistence.PENDING_MAX",
        _steps(
            "gtid_persister",
            {"trx_no": 7, "gtid": f"{UUID_A}:7"},
            {"trx_no": 8, "gtid": f"{UUID_A}:8"},
            step="commit",
        ),
        _writes(7, 8),
    ),
}


def _add(journal: Journal, steps: Iterable[Record]) -> None:
    for step in steps:
        journal.record(**step)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("name", DROPPED)
def test_what_was_dropped_is_named_until_it_ends(
    name: str, is_restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each collection is undecided as long, and consistent again afterwards."""
    limit, drops, ends = DROPPED[name]
    module, _, attribute = limit.partition(".")
    monkeypatch.setattr(importlib.import_module(f"{RULES}.{module}"), attribute, 1)
    journal = Journal().begin().groups(2)
    journal.row()
    _add(journal, drops)
    journal.row()
    journal.row()
    expected = ["CONSISTENT", "UNDECIDED", "UNDECIDED"]
    if is_restarted:
        journal.binlog.stop()
        journal.record("stop")
        journal.start()
        journal.binlog.open(2)
    else:
        _add(journal, ends)
    journal.row()
    expected.append("CONSISTENT" if ends or is_restarted else "UNDECIDED")
    result = audit(journal)
    assert (result.broken, result.verdicts) == ([], expected)
    of_rows = [cut for cut in result.cuts if cut.verdict == "UNDECIDED"]
    assert all(FORGOTTEN in {check.reason for check in cut.undecided} for cut in of_rows)


@pytest.mark.parametrize(("names_max", "verdict"), [(2, "CONSISTENT"), (1, "UNDECIDED")])
def test_what_was_dropped_without_its_name_ends_with_the_server(
    names_max: int, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of what is dropped are limited, too: two are dropped at once, and one later."""
    monkeypatch.setattr(f"{RULES}.backup_locks._SESSIONS_MAX", 1)
    monkeypatch.setattr(f"{RULES}.protocol_steps.FORGOTTEN_NAMES_MAX", names_max)
    steps = [("lock", 7), ("lock", 8), ("lock", 9), ("unlock", 7), ("lock", 10)]
    steps += [("unlock", 8), ("unlock", 9)]
    journal = Journal().begin().groups(2)
    for step, session in steps:
        journal.record("backup_lock", step=step, session=session, lock="tables")
    journal.row()
    result = audit(journal)
    assert (result.broken, result.verdicts) == ([], [verdict])


def _persist(journal: Journal, *gnos: int) -> None:
    for gno in gnos:
        committed = {"trx_no": gno, "gtid": f"{UUID_A}:{gno}"}
        _add(journal, _steps("gtid_persister", committed, step="commit"))
        _add(journal, _writes(gno))


@pytest.mark.parametrize(
    ("table", "is_decided"),
    [(None, False), ("1:3:5-9", False), ("2-9", False), ("1-5:7:9", True), ("1-9", True)],
)
def test_gaps_between_persisted_gtids_are_named_until_the_table_is_seen(
    table: str | None, is_decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written lies between the least and the greatest: of these the table lacks none."""
    monkeypatch.setattr(f"{RULES}.gtid_table.INTERVALS_MAX", 2)
    journal = Journal().begin().groups(9)
    _persist(journal, 1, 3, 5, 7, 9)
    journal.row(requested_at=journal.ts)
    journal.wait(5)
    shown = {} if table is None else {"gtid_executed_table": f"{UUID_A}:{table}"}
    journal.row(requested_at=journal.ts, **shown)
    journal.row()
    now = "CONSISTENT" if is_decided else "UNDECIDED"
    result = audit(journal)
    assert (result.broken, result.verdicts) == ([], ["UNDECIDED", now, now])
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.binlog.open(2)
    journal.row()
    assert audit(journal).verdicts[-1] == "CONSISTENT"


def test_what_the_table_had_is_remembered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit hides no loss of it that comes later."""
    monkeypatch.setattr(f"{RULES}.gtid_table.INTERVALS_MAX", 2)
    journal = Journal().begin().groups(9)
    _persist(journal, 1, 3, 5, 7, 9)
    journal.row(requested_at=journal.ts)
    for table in ("1-9", "1-2:4-9"):
        journal.wait(5)
        journal.row(requested_at=journal.ts, gtid_executed_table=f"{UUID_A}:{table}")
    result = audit(journal)
    assert result.broken == ["gtid_table_has_closed_files"]
    assert result.verdicts == ["UNDECIDED", "CONSISTENT", "INCONSISTENT"]


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_reset_of_the_channel_ends_what_was_dropped_of_its_repositories(
    is_reset: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{RULES}.info_repositories._WRITES_MAX", 1)
    journal, relay, _ = replica()
    for back, durable in ((300, True), (200, False), (100, False)):
        write_row(journal, stored_row(relay, back), durable=durable)
    begun = {"action": "reset"} if is_reset else {"action": "change_source", "source_uuid": UUID_C}
    journal.record("channel", channel="", **begun)
    if is_reset:
        write_row(journal, stored_row(relay, 300))
    crash = {"file": journal.binlog.file, "position": journal.binlog.end}
    journal.start(crashed=True, recovered=crash, repositories=started_with(stored_row(relay, 400)))
    result = audit(journal)
    assert result.broken == ["info_repository_read_back"] * is_reset
    assert (FORGOTTEN in {one.reason for one in result.observations}) is not is_reset


@pytest.mark.parametrize(
    ("name", "breaks", "verdict"),
    [
        ("applied_exactly_once__left_out", False, "CONSISTENT"),
        ("applied_exactly_once__left_out", True, "UNDECIDED"),
        ("applied_exactly_once", False, "CONSISTENT"),
    ],
)
def test_the_edge_of_a_start_is_named_until_the_next(
    name: str, breaks: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the applier was seen to go on right after it, nothing is forgotten."""
    monkeypatch.setattr(f"{RULES}.applied_groups.REMEMBERED_MAX", 2)
    journal = CASES[name].build(breaks=breaks)
    journal.row(replica_status=journal.replica_status())
    journal.binlog.stop()
    journal.record("stop")
    journal.start()
    journal.binlog.open(journal.binlog.number + 1, "")
    journal.row(replica_status=journal.replica_status())
    result = audit(journal)
    assert result.broken == []
    rows = [cut.verdict for cut in result.cuts if cut.scope == "channel"]
    assert rows == [verdict, verdict, "CONSISTENT"]


@pytest.mark.parametrize(
    ("limit", "breaks", "verdicts"),
    [
        (2, False, ["CONSISTENT", "CONSISTENT"]),
        (2, True, ["UNDECIDED", "UNDECIDED"]),
        (4, False, ["CONSISTENT", "CONSISTENT"]),
        (4, True, ["INCONSISTENT", "CONSISTENT"]),
    ],
)
def test_the_edge_of_a_start_counts_until_something_has_followed_it(
    limit: int, breaks: bool, verdicts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not until the first row after it; what was judged then is forgotten without a word."""
    monkeypatch.setattr(f"{RULES}.applied_groups.REMEMBERED_MAX", limit)
    result = audit(CASES["applied_exactly_once__left_out_after_rows"].build(breaks=breaks))
    rows = [cut.verdict for cut in result.cuts if cut.scope == "channel"]
    assert rows == ["CONSISTENT", "CONSISTENT", *verdicts]


# The comparison of instances, one of which may be far behind

_FEW_EVENTS = {
    f"{AUDIT}.instance_timeline.EVENTS_MIN": 8,
    f"{AUDIT}.timeline_file.PACKED_EVENTS": 4,
}
FLEET_LIMITS = {
    "comparisons that wait": Limit(
        "source_not_in_fleet", {f"{AUDIT}.comparison_queues.WAITING_MAX": 1}
    ),
    "groups that wait": Limit(
        "source_not_in_fleet",
        {
            f"{AUDIT}.comparison_queues.GROUPS_MAX": 2,
            f"{AUDIT}.replica_comparisons.GROUPS_MAX": 2,
        },
    ),
    "states": Limit("source_purged_shown_later", {f"{AUDIT}.timeline_snapshot.SNAPSHOTS_MAX": 4}),
    "answers": Limit("", {f"{AUDIT}.observer_clock.REMEMBERED_MAX": 1}),
    "observers": Limit("", {f"{AUDIT}.observer_clock.OBSERVERS_MAX": 2}),
    "losses": Limit("", {f"{AUDIT}.instance_timeline.LOSSES_MAX": 2}),
    "images": Limit("", {f"{AUDIT}.instance_timeline.IMAGES_MAX": 1}),
    "sources": Limit("", {f"{AUDIT}.instance_timeline.ADMINISTERED_MAX": 1}),
    "events": Limit("source_file_forgotten", _FEW_EVENTS),
    "events that are needed": Limit(
        "replica_too_far_behind", {**_FEW_EVENTS, f"{AUDIT}.needed_logs.SOURCE_BYTES_MAX": 0}
    ),
    "origins": Limit("origins_forgotten", {f"{AUDIT}.origins.ORIGINS_MAX": 2}),
    "claims": Limit("origins_forgotten", {f"{AUDIT}.origins.STATES_MAX": 4}),
    "replayed groups": Limit("replay_unseen", {f"{AUDIT}.comparison.REPLAYED_MAX": 1}),
    "names of sources": Limit("", {f"{AUDIT}.replica.NAMED_MAX": 2}),
    "rows with claims": Limit("", {f"{AUDIT}.fleet.ROWS_MAX": 1}),
}
_OF_FLEETS = {comparison.rule.name for comparison in COMPARISONS.values()}
_OF_FLEETS |= {"gtid_origin_agreement", "server_uuid_unique"}
FLEET_FAULTS = [name for name, fault in FAULTS.items() if fault.must_fire & _OF_FLEETS]
LEGAL = [
    "clone",
    "crash_in_zone",
    "crash_source",
    "failover",
    "persister_crash",
    "redo_lost_in_power_cut",
    "reset_binary_logs",
    "reset_replica_all",
    "two_paths",
]
_STEP = 40
"""Fleet events in a step of the fleet's audit."""


@functools.cache
def fleet_events_of(name: str) -> dict[str, list[FleetEvent]]:
    """What the instances of a fleet with a fault, or of a legal one, have shown."""
    is_fault = name in FAULTS
    scenario = scenario_of(2 * FAULTS[name].number + 1, [name]) if is_fault else None
    history = simulate(scenario or Scenario(seed=2_000, negatives=(name,)))
    audits: dict[str, InstanceAudit] = {}
    events: dict[str, list[FleetEvent]] = {}
    for block in history.blocks(BLOCK_RECORDS):
        audit = audits.setdefault(block.instance_id, InstanceAudit(block.instance_id))
        events.setdefault(block.instance_id, []).extend(audit.absorb(block).fleet_events)
    for instance_id, audit in audits.items():
        events[instance_id].extend(audit.finish().fleet_events)
    return events


def said_of_fleet(name: str, late: int) -> Said:
    """What the fleet's audit says if one instance's journal comes after all others."""
    of_instances = [events for _, events in sorted(fleet_events_of(name).items())]
    last = of_instances.pop(late)
    others = sorted((event for events in of_instances for event in events), key=lambda e: e.ts)
    fleet = FleetAudit()
    outputs = [
        fleet.absorb(events[at : at + _STEP])
        for events in (others, last)
        for at in range(0, len(events), _STEP)
    ]
    outputs.append(fleet.finish())
    checks = [one.check for output in outputs for one in output.checks]
    observations = [one for output in outputs for one in output.observations]
    broken = {finding.rule for output in outputs for finding in output.findings}
    return Said(broken, _undecided(checks, observations))


fleet_without_limit = functools.cache(said_of_fleet)


@pytest.mark.parametrize("limit", FLEET_LIMITS)
def test_what_a_fleet_forgets_is_named(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault that instances show by comparison, and what is legal, with one far behind."""
    fleets = list(itertools.product([*FLEET_FAULTS, *LEGAL], (0, -1)))
    _compare(FLEET_LIMITS[limit], fleets, fleet_without_limit, said_of_fleet, monkeypatch)


DOCS = Path(__file__).parents[2] / "docs"
MIB = 2**20
DOCUMENTED = [
    ("streaming", "{} rows of a channel wait", "comparison_queues.WAITING_MAX", 1),
    ("streaming", "each instance the last {} states are remembered",
     "timeline_snapshot.SNAPSHOTS_MAX", 1),
    ("streaming", "of a cluster the origins of {} GTIDs", "origins.ORIGINS_MAX", 1),
    ("streaming", "the last {} events are remembered", "instance_timeline.EVENTS_MIN", 1),
    ("streaming", "still needs, up to {} MiB", "needed_logs.SOURCE_BYTES_MAX", MIB),
    ("streaming", "of all instances of a cluster together {} MiB",
     "needed_logs.FLEET_BYTES_MAX", MIB),
    ("incidents", "remembers what has ended for a week, and at most {} of them",
     "incidents.CLOSED_MAX", 1),
    ("decisions/0018-epochs", "The last {} collections are known", "instance.ANSWERED_MAX", 1),
    ("decisions/0018-epochs", "the last {} records (16 kB)", "recent_records.RECENT_MAX", 1),
    ("decisions/0024-what-a-lagging-replica-needs", "hashes for each {} numbers of a UUID",
     "forgotten_origins.RUN", 1),
]  # fmt: skip
"""A page, what it says, and the limit that this is of, in a unit."""


@pytest.mark.parametrize(("page", "sentence", "limit", "unit"), DOCUMENTED)
def test_a_limit_is_what_the_pages_say(page: str, sentence: str, limit: str, unit: int) -> None:
    """Who sizes a fleet by them relies on that."""
    module, name = limit.split(".")
    value, rest = divmod(getattr(importlib.import_module(f"{AUDIT}.{module}"), name), unit)
    assert rest == 0
    text = " ".join((DOCS / f"{page}.md").read_text("utf-8").split())
    assert sentence.format(f"{value:,}") in text
