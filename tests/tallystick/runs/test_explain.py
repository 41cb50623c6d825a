"""Which rules rest on which part of the evidence, by stored journals without that part."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.doctor.checks import not_tried
from tallystick.producers.mysql.dialect import Dialect
from tallystick.producers.mysql.rights import RightHeld, rights_of
from tallystick.producers.mysql.settings import ServerSettings
from tallystick.runs.explain import BINARY_LOG, NEEDED, RELAY_LOGS, SOURCES, explained
from tallystick.servers.discovery import DiscoveredServer

NOT_SET = not_tried("relay_log_dir is not set")
JOURNALS = sorted((Path(__file__).parents[2] / "real_journals").glob("*.jsonl"))
KEYS = {
    "mysql.gtid_executed": "gtid_executed_table",
    "mysql.slave_master_info": "slave_master_info",
    "mysql.slave_relay_log_info": "slave_relay_log_info",
}


def decided(records, instances=None):
    """How often each rule held or was broken on some instances."""
    result = audit_history(blocks_from_lines([json.dumps(record) for record in records]))
    found = [(cut.instance_id, check) for cut in result.cuts for check in cut.checks]
    found += [(one.instance_id, one.check) for one in result.checks]
    return Counter(
        check.rule
        for instance, check in found
        if check.outcome is not Outcome.UNDECIDED and (not instances or instance in instances)
    )


def without(records, part):
    """The records of a journal that lacks a part, and whose checks count; None: all."""
    if part == SOURCES:
        uuids = {r["server_uuid"]: r["instance"] for r in records if r["kind"] == "start"}
        sources = {uuids.get(r.get("source_uuid")) for r in records if r["kind"] == "channel"}
        leaves = {r["instance"] for r in records} - sources
        return [record for record in records if record["instance"] in leaves], leaves
    kinds = {
        BINARY_LOG: {"binlog", "binlog_purge", "binlog_reset"},
        RELAY_LOGS: {"relay"},
    }.get(part, set())
    key = KEYS.get(part)
    return [
        {name: value for name, value in record.items() if name != key}
        for record in records
        if record["kind"] not in kinds
    ], None


@pytest.mark.parametrize("part", NEEDED)
def test_rules_rest_on_the_part_that_they_are_listed_with(part):
    """Decided with it, never without it; nothing more is found by leaving it out.

    Of a source's absence rules between servers are left out that other pairs decide, and of a
    binary log's those on its replicas.
    """
    with_it, without_it = Counter(), Counter()
    for path in JOURNALS:
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        reduced, instances = without(records, part)
        with_it += decided(records, instances)
        without_it += decided(reduced, instances)
    lost = {rule for rule in with_it if not without_it[rule]}
    assert set(NEEDED[part]) <= lost
    if part not in {SOURCES, BINARY_LOG}:
        assert set(NEEDED[part]) == lost


def test_only_rules_that_there_are_are_listed():
    """Each by its name."""
    assert {rule for rules in NEEDED.values() for rule in rules} <= set(RULES)


def server(name, uuid, **more):
    settings = ServerSettings(name=name, host="h", user="u")
    return DiscoveredServer(settings, version="8.0.31", account="'u'@'%'", server_uuid=uuid, **more)


def test_what_cannot_be_read_is_named_with_its_statement(monkeypatch):
    """Of each server, with the rules that stay undecided; the state decides whether it begins."""
    monkeypatch.setattr("tallystick.runs.explain.relay_logs", lambda _: NOT_SET)
    rights = {right.name: right for right in rights_of(Dialect.of("8.0.31"))}
    lacking = ("BACKUP_ADMIN", "SELECT on mysql.gtid_executed")
    replica = server(
        "r", "R", sources=("S",), binary_logs={"binlog.000001": 9, "binlog.000002": 2**20},
        rights=[RightHeld(right, right.name not in lacking) for right in rights.values()],
    )  # fmt: skip
    parts = {part.evidence: part for part in explained([replica])}
    assert "binlog.000002 on, 1.0 MiB of 2 files" == parts[BINARY_LOG].text
    assert ("not read", True) == (parts["log_status"].state, parts["log_status"].is_required)
    assert "GRANT BACKUP_ADMIN ON *.* TO 'u'@'%';" in parts["log_status"].text
    assert "not read" == parts["mysql.gtid_executed"].state
    assert "gtid_table_within_executed" in parts["mysql.gtid_executed"].rules
    assert "not among these servers: S" == parts[SOURCES].text
    assert ("not read", NOT_SET.text) == (parts[RELAY_LOGS].state, parts[RELAY_LOGS].text)
    assert "read" == parts["mysql.slave_master_info"].state
    assert "stored positions of receivers" == parts["mysql.slave_master_info"].text
    assert "by XA_RECOVER_ADMIN" == parts["whether there are prepared XA transactions"].text
    both = explained([replica, server("s", "S", binary_logs={})])
    by_name = {(part.server, part.evidence): part for part in both}
    assert "read" == by_name["r", SOURCES].state
    assert ("not read", "it writes none (log_bin)") == (
        by_name["s", BINARY_LOG].state,
        by_name["s", BINARY_LOG].text,
    )
    assert "none" == by_name["s", RELAY_LOGS].state


def test_a_server_that_cannot_be_asked_is_one_part():
    """With the reason; the others are explained."""
    gone = DiscoveredServer(ServerSettings(name="g", host="h", user="u"), problem="is away")
    assert [("g", "not read", "is away")] == [
        (part.server, part.state, part.text) for part in explained([gone])
    ]


def test_the_command_shows_each_part_in_a_line(tallystick, monkeypatch):
    """Status 0 where a check would begin, else 2; JSON has the same; nothing is collected."""
    monkeypatch.setattr("tallystick.runs.explain.relay_logs", lambda _: NOT_SET)
    for lacking, code in (((), 0), (("BACKUP_ADMIN",), 2)):
        rights = [RightHeld(right, right.name not in lacking)
                  for right in rights_of(Dialect.of("8.0.31"))]  # fmt: skip
        found = server("s", "S", binary_logs={"binlog.000001": 9}, rights=rights)
        monkeypatch.setattr("tallystick.servers.discovery.discover", lambda _, f=found: (f,))
        ran = tallystick("check", "--explain", "--server", "s=h")
        document = json.loads(tallystick("check", "--explain", "--server", "s=h", "--json").out)
        assert code == ran.code
        lines = [line for line in ran.out.splitlines() if line.startswith("s ")]
        assert [part["evidence"] for part in document] == [
            re.split("  +", line)[1] for line in lines
        ]
        assert any("GRANT BACKUP_ADMIN" in line for line in lines) is bool(lacking)
        assert "Nothing was judged now." in ran.out
