"""What a check would read of servers and what not, and which rules stay undecided without it.

Known beforehand, from rights, versions and settings: nothing is collected and no rule is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tallystick.coordinates.rules.explanation import fill
from tallystick.doctor.checks import State
from tallystick.doctor.servers import relay_logs
from tallystick.producers.mysql.dialect import Dialect
from tallystick.servers.discovery import DiscoveredServer, first_files

Seen = Literal["read", "not read", "none"]
BINARY_LOG, RELAY_LOGS, SOURCES = "binary log", "relay logs", "its sources"
NEEDED: Mapping[str, tuple[str, ...]] = {
    BINARY_LOG: (
        "commit_lag_bounded",
        "commit_lag_is_suffix",
        "executed_within_logged",
        "gtid_table_has_closed_files",
        "logged_eventually_executed",
        "purged_matches_oldest_file",
        "snapshot_position_on_group_boundary",
        "snapshot_position_within_file",
    ),
    RELAY_LOGS: (
        "applied_coordinates_paired",
        "applied_exactly_once",
        "applied_relay_gtids_executed",
        "clone_resume_exact",
        "master_info_not_ahead_of_relay",
        "relay_info_coordinates_paired",
        "relay_mirrors_source",
        "retrieved_matches_relay",
    ),
    SOURCES: (
        "no_errant_gtids",
        "purged_not_needed",
        "received_within_source_logged",
        "relay_mirrors_source",
        "source_coordinate_valid",
        "source_is_another_server",
    ),
    "mysql.gtid_executed": ("gtid_table_has_closed_files", "gtid_table_within_executed"),
    "mysql.slave_master_info": ("master_info_flush_points", "master_info_not_ahead_of_relay"),
    "mysql.slave_relay_log_info": (
        "relay_info_coordinates_paired",
        "relay_info_updated_with_commit",
    ),
}
"""Rules that are not decided for a server without a part of the evidence."""
_OF_ROWS = "needed by all rules but those on logs alone"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the evidence about one server.

    Attributes:
        server: Our key of the server.
        evidence: What it is.
        state: Whether it would be read; ``none``: the server has nothing of the kind.
        text: From where, or why not.
        rules: Those that are not decided without it.
        is_required: Without it a check does not begin.
    """

    server: str
    evidence: str
    state: Seen
    text: str
    rules: tuple[str, ...] = ()
    is_required: bool = False


def explained(servers: Sequence[DiscoveredServer]) -> list[Part]:
    """What would be read of each server.

    Args:
        servers: As ``discover`` found them.

    Raises:
        MysqlError: One cannot be asked any more.
    """
    first = first_files(servers)
    known = {server.server_uuid for server in servers}
    return [part for server in servers for part in _parts(server, first.get(server.name), known)]


def documents(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Parts as JSON has them."""
    return [asdict(part) for part in parts]


def _parts(server: DiscoveredServer, first: str | None, known: set[str]) -> Iterator[Part]:
    name = server.name
    if server.problem:
        yield Part(name, "all of it", "not read", server.problem)  # the other servers are checked
        return
    yield _row(server)
    yield _binary_log(server, first)
    yield _relay_logs(server)
    yield _sources(server, known)
    for held in server.rights:
        right = held.right
        if right.is_required:
            continue
        evidence = right.on if right.on != "*.*" else right.purpose
        text = right.purpose if right.on != "*.*" else f"by {right.name}"
        if not held.is_held:
            text = f"{right.name} is missing: {right.grant(server.account)}"
        state: Seen = "read" if held.is_held else "not read"
        yield Part(name, evidence, state, text, NEEDED.get(evidence, ()))
    has_lsns = Dialect.of(server.version).show_lsns is not None
    since = "SHOW GLOBAL STATUS" if has_lsns else "servers before 8.0.30 have no status variables"
    yield Part(name, "LSNs beside the row", "read" if has_lsns else "not read", since)
    yield Part(
        name, "redo log", "not read", "SQL shows none of its events: rules on them are undecided"
    )


def _row(server: DiscoveredServer) -> Part:
    missing = [held.right for held in server.missing_rights if held.right.is_of_row]
    if not missing:
        return Part(server.name, "log_status", "read", _OF_ROWS, is_required=True)
    grants = " ".join(right.grant(server.account) for right in missing)
    text = f"{' and '.join(right.name for right in missing)} missing: {grants}; {_OF_ROWS}"
    return Part(server.name, "log_status", "not read", text, is_required=True)


def _binary_log(server: DiscoveredServer, first: str | None) -> Part:
    missing = [held.right for held in server.missing_rights
               if held.right.is_required and not held.right.is_of_row]  # fmt: skip
    rules = NEEDED[BINARY_LOG]
    if missing:
        grants = " ".join(right.grant(server.account) for right in missing)
        text = f"{' and '.join(right.name for right in missing)} missing: {grants}"
        return Part(server.name, BINARY_LOG, "not read", text, rules, is_required=True)
    files = list(server.binary_logs)
    if not files:
        return Part(server.name, BINARY_LOG, "not read", "it writes none (log_bin)", rules)
    read = files[files.index(first) if first in files else -1 :]
    size = sum(server.binary_logs[file] for file in read) / 2**20
    count = fill("{count:n file}", {"count": len(files)})
    text = f"{read[0]} on, {size:,.1f} MiB of {count}"
    return Part(server.name, BINARY_LOG, "read", text, rules, is_required=True)


def _relay_logs(server: DiscoveredServer) -> Part:
    answer = relay_logs(server.settings)
    state: Seen = "read" if answer.state is State.OK else "not read"
    if not server.sources:
        state = "none"
    return Part(server.name, RELAY_LOGS, state, answer.text, NEEDED[RELAY_LOGS])


def _sources(server: DiscoveredServer, known: set[str]) -> Part:
    rules = NEEDED[SOURCES]
    if not server.sources:
        return Part(server.name, SOURCES, "none", "it is no replica", rules)
    missing = [uuid for uuid in server.sources if uuid not in known]
    if missing:
        text = f"not among these servers: {', '.join(missing)}"
        return Part(server.name, SOURCES, "not read", text, rules)
    return Part(server.name, SOURCES, "read", "all are among these servers", rules)
