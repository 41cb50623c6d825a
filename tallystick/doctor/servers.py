"""Checks of MySQL servers: connections, rights, settings, logs, clocks. They write nothing there.

Each is tried by what ``check`` and ``tail`` do themselves, on a connection of its own, so that one
that hangs holds up no other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import datetime, timezone
from typing import Any

from tallystick.coordinates.rules.explanation import fill
from tallystick.coordinates.values.binlog import MAGIC_LENGTH, parse_log_file_name
from tallystick.doctor.checks import Answer, Place, failed, not_tried, passed, warning
from tallystick.producers.mysql.binlog_dump import BinlogDump
from tallystick.producers.mysql.binlog_events import EventError
from tallystick.producers.mysql.collection import Collector
from tallystick.producers.mysql.connection import connect, is_loopback
from tallystick.producers.mysql.errors import MysqlError, OtherServerError
from tallystick.producers.mysql.log_directory import LogDirectory
from tallystick.producers.mysql.relay_files import RelayCursor, RelayFiles, why_foreign
from tallystick.producers.mysql.remote_directory import RelayReaderError, relay_log_directory
from tallystick.producers.mysql.rights import RightHeld
from tallystick.producers.mysql.server_now import learn_server
from tallystick.producers.mysql.settings import ServerSettings
from tallystick.producers.mysql.statements import Refused, Row, Session
from tallystick.servers.discovery import DiscoveredServer, probe, refuse_repeated

_SERVER_FIX = "docs/real_servers.md: host, port, user, password, tls"
_RELAY_DIR_FIX = (
    "set relay_log_dir to where this server's relay logs are, and let this user read there"
)
_RELAY_READER_FIX = (
    "run tallystick relay-logs on this server's host with its relay log directory and this token"
    " (docs/real_servers.md)"
)
_WITHOUT_ROW = "; where nobody can grant it: check --logs-only (docs/managed_servers.md)"
CONNECTIONS = 3
"""So many of a tail are open at a time."""
CLOCKS_APART_S = 1.0
DUMP_HEARTBEAT_S = 1.0
DUMP_WAIT_S = 5.0
GRANTS_MAX = 2
_ON = frozenset({"1", "ON", "TRUE"})
_VARIABLES = (
    "log_bin",
    "gtid_mode",
    "enforce_gtid_consistency",
    "binlog_format",
    "binlog_checksum",
    "performance_schema",
)


def check_server(
    place: Place, settings: ServerSettings, others: Sequence[ServerSettings]
) -> DiscoveredServer | None:
    """Check one server.

    Args:
        place: Takes the checks.
        settings: How to connect to it.
        others: All servers that are to be followed.

    Returns:
        What was learned of it, None if nothing was.
    """
    server: DiscoveredServer | None = place.try_(
        "connection", lambda: _connection(settings), fix=_SERVER_FIX
    )
    if server is None:
        server = DiscoveredServer(settings)
    known, needed = server, "connection"
    place.try_("one server", lambda: _one_server(known), needs=needed, fix=_SERVER_FIX)
    place.try_("encryption", lambda: _encryption(settings), needs=needed, fix=_SERVER_FIX)
    place.try_("rights", lambda: _rights(known), needs=needed, fix=_SERVER_FIX)
    place.try_("settings", lambda: _variables(settings), needs=needed, fix=_SERVER_FIX)
    place.try_("log_status", lambda: _collection(settings), needs=needed, fix=_SERVER_FIX)
    place.try_("binary log", lambda: _binary_log(settings), needs=needed, fix=_SERVER_FIX)
    place.try_("relay logs", lambda: relay_logs(settings), needs=needed, fix=_SERVER_FIX)
    place.try_("server id", lambda: _server_id(settings, others), needs=needed, fix=_SERVER_FIX)
    place.try_("clock", lambda: _clock(settings), needs=needed, fix=_SERVER_FIX)
    return server if server.server_uuid else None


def check_fleet(place: Place, servers: Sequence[DiscoveredServer]) -> None:
    """Check what only all servers together show.

    Args:
        place: Takes the checks.
        servers: Those that could be asked.
    """
    if not servers:
        for name in ("one name each", "sources"):
            place.add(name, not_tried("no server could be asked"))
        return
    place.try_("one name each", lambda: _names(servers), fix="name it once")
    place.try_("sources", lambda: _sources(servers))


def _connection(settings: ServerSettings) -> Answer:
    server = probe(settings)
    if server.problem:
        return failed(server.problem, _SERVER_FIX)
    return passed(f"MySQL {server.version} at {settings.address}, as {server.account}", server)


def _one_server(server: DiscoveredServer) -> Answer:
    """A balancer that chooses by open connections goes on to the next while these are open."""
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            try:
                connection = connect(server.settings, server_uuid=server.server_uuid)
            except OtherServerError as error:
                return failed(str(error), "name each server by an address of its own")
            stack.enter_context(closing(connection))
    return passed(f"all {CONNECTIONS} more connections led to it")


def _encryption(settings: ServerSettings) -> Answer:
    if settings.unix_socket is not None:
        return passed("a Unix socket needs none")
    cipher = _value(settings, "SHOW SESSION STATUS LIKE 'Ssl_cipher'", "Value")
    checked = {"verify_ca": "its authority is verified", "verify_identity": "verified"}
    if cipher and settings.tls in checked:
        return passed(f"TLS, {cipher}; {checked[settings.tls]}")
    if is_loopback(settings.host):
        return passed(f"TLS, {cipher}" if cipher else "none, on this machine")
    what = f"TLS, {cipher}, but its certificate is not verified" if cipher else "none"
    return warning(f"{what}, to another machine", 'set tls = "verify_identity", and ca')


def _rights(server: DiscoveredServer) -> Answer:
    missing = server.missing_rights
    if not missing:
        return passed(f"all {len(server.rights)} that are of use")
    required = [held for held in missing if held.right.is_required]
    names = ", ".join(_lacking(held) for held in missing)
    if len(missing) <= GRANTS_MAX:
        fix = " ".join(held.right.grant(server.account) for held in missing)
    else:
        fix = f"the {len(missing)} statements that tallystick check --rights prints"
    if any(held.right.is_of_row for held in missing):
        fix += _WITHOUT_ROW
    if required:
        return failed(f"lacks {names}", fix)
    return warning(f"lacks {names}: rules that need it stay undecided", fix)


def _lacking(held: RightHeld) -> str:
    return held.right.name if held.is_held is False else f"{held.right.name} ({held.reason})"


def _variables(settings: ServerSettings) -> Answer:
    found = {}
    with closing(Session(settings)) as session:
        for name in _VARIABLES:
            rows = session.ask(f"SHOW GLOBAL VARIABLES LIKE '{name}'")
            if not isinstance(rows, Refused) and rows:
                found[name] = str(rows[0]["Value"]).upper()
    if not found:
        return not_tried("SHOW GLOBAL VARIABLES shows none of them")
    shown = ", ".join(f"{name} {value}" for name, value in found.items())
    if found.get("performance_schema", "ON") not in _ON:
        return failed(f"{shown}: no log_status", "start it with performance_schema = ON")
    if found.get("log_bin", "ON") not in _ON:
        return warning(
            f"{shown}: it has no log that could be judged, and nothing to be replicated from",
            "start it with log_bin, and with log_replica_updates if it is a replica",
        )
    if found.get("gtid_mode", "ON") != "ON":
        return warning(
            f"{shown}: rules on GTIDs stay undecided",
            "gtid_mode ON, as the manual's section on enabling GTIDs online has it",
        )
    return passed(shown)


def _collection(settings: ServerSettings) -> Answer:
    """Try what each collection does, all of its statements."""
    begun = time.monotonic()
    with closing(Collector(settings)) as collector:
        body = collector.collect("doctor", time.time_ns() // 1_000)
    took_ms = (time.monotonic() - begun) * 1000
    if "row" not in body:
        error = body.get("error", {})
        code = f"error {error['code']}: " if "code" in error else ""
        return failed(
            f"no row: {code}{error.get('message', 'the table is empty')}",
            f"grant what is missing under rights; else see the server's error log{_WITHOUT_ROW}",
        )
    unread = ", ".join(part["part"] for part in body.get("unread", ()))
    if unread:
        return warning(f"a row, without {unread}", "grant what is missing under rights")
    return passed(f"a row, and all that is read with it, in {took_ms:,.0f} ms")


def _binary_log(settings: ServerSettings) -> Answer:
    """Open the stream that a tail opens, at its end, and wait for what it begins with."""
    with closing(Collector(settings)) as collector:
        server, connection = learn_server(settings, collector)
    if not server.has_binlog:
        connection.close()
        return not_tried("it has none")
    file, size = list(server.logs.items())[-1]
    dump = BinlogDump(
        connection,
        server_id=settings.server_id,
        file=file,
        position=size,
        heartbeat_s=DUMP_HEARTBEAT_S,
    )
    end = time.monotonic() + DUMP_WAIT_S
    with closing(dump):
        try:
            while dump.format is None and time.monotonic() < end:
                dump.read(DUMP_HEARTBEAT_S)
        except MysqlError as error:
            return failed(f"is not sent: {error}", "grant REPLICATION SLAVE; see its error log")
    if dump.format is None:
        return failed(f"nothing came within {DUMP_WAIT_S:g} s", "see the server's error log")
    total = sum(server.logs.values()) / 2**20
    files = fill("{count:n file}", {"count": len(server.logs)})
    return passed(f"is sent; {files} of {total:,.0f} MiB, now {file}")


def relay_logs(settings: ServerSettings) -> Answer:
    """Whether the relay logs of all channels can be read here.

    Raises:
        MysqlError: The server cannot be asked.
    """
    with closing(Session(settings)) as session:
        found = session.ask(session.dialect.show_replica_status)
        column = session.dialect.column
        rows: list[Row] = [] if isinstance(found, Refused) else found
        channels = [{column(name): value for name, value in row.items()} for row in rows]
    if isinstance(found, Refused):
        return not_tried(f"SHOW REPLICA STATUS: {found.message}")
    if not channels:
        return passed("none: it is no replica")
    directory = relay_log_directory(settings)
    if directory is None:
        return not_tried(
            "relay_log_dir is not set, nor relay_log_reader: rules on relay logs stay undecided"
        )
    reader = settings.relay_log_reader
    where = str(settings.relay_log_dir) if reader is None else f"reader {reader.address}"
    now_s = float(_value(settings, "SELECT UNIX_TIMESTAMP(NOW(6)) AS now_s", "now_s"))
    boot_s = now_s - int(_value(settings, "SHOW GLOBAL STATUS LIKE 'Uptime'", "Value"))
    server_id = int(_value(settings, "SHOW GLOBAL VARIABLES LIKE 'server_id'", "Value"))
    with closing(directory):
        for channel in channels:
            problem = _relay_problem(directory, where, channel, boot_s, server_id)
            if problem:
                return failed(problem, _RELAY_DIR_FIX if reader is None else _RELAY_READER_FIX)
    count = fill("{count:n channel}", {"count": len(channels)})
    return passed(f"of {count}, readable in {where}")


def _relay_problem(
    directory: LogDirectory, where: str, channel: Row, boot_s: float, server_id: int
) -> str:
    """Why a channel's present relay log cannot be read; empty if it can."""
    name = str(channel.get("Relay_Log_File") or "")
    if not name:
        return ""  # its receiver has made none yet
    base_name, number = parse_log_file_name(name)
    position = int(channel.get("Relay_Log_Pos") or 0)
    try:
        newest = RelayFiles(directory, base_name, RelayCursor(number, MAGIC_LENGTH)).newest()
        if newest is not None and (foreign := why_foreign(*newest, boot_s, server_id)):
            return f"in {where} {foreign}"
        if number not in directory.numbers(base_name):
            return f"{name!r} in {where} is not there"
        with closing(directory.open(base_name, number)) as file:
            file.read(0, MAGIC_LENGTH)
            size = file.size()
    except (EventError, RelayReaderError) as error:
        return str(error)
    except OSError as error:
        return f"{name!r} in {where} cannot be read: {error.strerror}"
    if size < position:
        return f"{name!r} in {where} is another server's: it has {size:,} bytes, not {position:,}"
    return ""


def _server_id(settings: ServerSettings, others: Sequence[ServerSettings]) -> Answer:
    """Whether another replica of the server has the id with which its log is asked for."""
    if "server_id" not in settings.model_fields_set:
        return passed("drawn anew by each start, from 4026531840 on")
    fix = "set another server_id, or none"
    same = [
        each.name
        for each in others
        if each.name != settings.name and each.server_id == settings.server_id
    ]
    if same:
        return warning(f"{settings.server_id} is also set for {', '.join(same)}", fix)
    own = _value(settings, "SHOW GLOBAL VARIABLES LIKE 'server_id'", "Value")
    if own == str(settings.server_id):
        return failed(f"{own} is the server's own", fix)
    with closing(Session(settings)) as session:
        rows = session.ask(session.dialect.show_replicas)
    if isinstance(rows, Refused):
        return not_tried(f"its replicas cannot be listed: {rows.message}")
    if any(str(row.get("Server_Id") or row.get("Server_id")) == str(settings.server_id)
           for row in rows):  # fmt: skip
        return failed(f"{settings.server_id} is that of a replica of it", fix)
    return passed(f"{settings.server_id} is free")


def _clock(settings: ServerSettings) -> Answer:
    with closing(Session(settings)) as session:
        session.ensure()
        before = time.time()
        rows = session.ask("SELECT NOW(6) AS moment")
        after = time.time()
    if isinstance(rows, Refused) or not rows:
        return not_tried("it does not say its time")
    moment: datetime = rows[0]["moment"]  # the session's time zone is UTC
    theirs = moment.replace(tzinfo=timezone.utc).timestamp()
    apart = 0.0 if before <= theirs <= after else min(theirs - before, theirs - after, key=abs)
    if abs(apart) > CLOCKS_APART_S:
        way = "ahead of" if apart > 0 else "after"
        return warning(
            f"{abs(apart):,.1f} s {way} this host's", "synchronize both with a time server (NTP)"
        )
    return passed(f"within {max(abs(apart), after - before) * 1000:,.0f} ms of this host's")


def _names(servers: Sequence[DiscoveredServer]) -> Answer:
    refuse_repeated(servers)
    return passed(f"of {_named(servers)}")


def _named(servers: Sequence[DiscoveredServer]) -> str:
    return ", ".join(server.name for server in servers)


def _sources(servers: Sequence[DiscoveredServer]) -> Answer:
    known = {server.server_uuid for server in servers}
    alone = {
        server.name: [uuid for uuid in server.sources if uuid not in known] for server in servers
    }
    missing = [f"{name} from {', '.join(uuids)}" for name, uuids in alone.items() if uuids]
    if missing:
        return warning(
            f"replicate from a server that is not among these, and are compared with themselves"
            f" alone: {'; '.join(missing)}",
            "name the sources too",
        )
    return passed(f"those of {_named(servers)} are among them")


def _value(settings: ServerSettings, statement: str, column: str) -> str:
    with closing(Session(settings)) as session:
        rows: Any = session.ask(statement)
    return "" if isinstance(rows, Refused) or not rows else str(rows[0][column])
