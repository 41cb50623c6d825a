"""What a fault does to the lab's servers: statements, signals and files, nothing else.

Each act returns what it did with the values that the servers had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from tallystick.producers.mysql_lab.errors import LabError
from tallystick.producers.mysql_lab.layout import (
    REPLICA_2,
    SOURCE_B,
    LabChannel,
    channels_of,
    replicas_of,
)
from tallystick.producers.mysql_lab.load import Load, LoadPlan, LoadReport
from tallystick.producers.mysql_lab.replication import (
    ChannelStatus,
    channel_statuses,
    start_channel,
    stop_channel,
    wait_until_applied,
)
from tallystick.producers.mysql_lab.sessions import Address, Session, session

# Ahead of the newest number, so that a client who writes meanwhile does not take it first.
NUMBERS_AHEAD = 100
ERROR_DEADLINE_S = 15.0
POLL_S = 0.1
DOWN_S = 0.5
LOAD_RATE = 100.0
LOAD_S = 2.0

Did = list[tuple[str, str]]
"""What was done: a thing and its true value."""


class Fleet(Protocol):
    """The lab as a fault needs it."""

    @property
    def machine_addresses(self) -> Mapping[str, Address]:
        """The addresses of the servers, by name."""
        ...

    def make_load(self, plan: LoadPlan) -> Load:
        """Describes a load on the lab's servers."""
        ...

    def kill(self, name: str) -> int:
        """Ends a server's process as a crash does; returns its process id."""
        ...

    def stop(self, name: str) -> None:
        """Shuts a server down."""
        ...

    def restart(self, name: str) -> None:
        """Starts a server that is down, and returns when it answers."""
        ...

    def copy_server_uuid(self, donor: str, name: str) -> str:
        """Sets a stopped server's server_uuid to another's; returns it."""
        ...

    def take_image(self, name: str) -> None:
        """Copies a running server's files as they are at one moment."""
        ...

    def restore_image(self, name: str) -> None:
        """Restores the files of its image to a stopped server."""
        ...


def origin_of(server: str) -> str:
    """The source whose clients' writes reach a server first: itself, if it is a source."""
    channels = channels_of(server)
    return origin_of(channels[0].source) if channels else server


def errant_transaction(fleet: Fleet, name: str) -> Did:
    """A client writes on a replica."""
    statement = "CREATE DATABASE IF NOT EXISTS lab_errant"
    with _session(fleet, name) as server:
        before = _own_gtids(server)
        server.run(statement)
        after = _own_gtids(server)
        new = server.value("SELECT GTID_SUBTRACT(%s, %s)", (after, before))
    return [("statement", statement), ("GTID", str(new))]


def gtid_hole(fleet: Fleet, name: str) -> Did:
    """A client commits an empty transaction under a number that is not the next one."""
    with _session(fleet, name) as server:
        newest = _newest_number(server)
        gtid = f"{_uuid(server)}:{newest + NUMBERS_AHEAD}"
        _commit_empty(server, gtid)
        executed = _own_gtids(server)
    return [("newest number before", str(newest)), ("GTID_NEXT", gtid), ("own GTIDs", executed)]


def empty_transaction(fleet: Fleet, name: str) -> Did:
    """A replica commits an empty transaction under a GTID that its source gives out later."""
    origin = origin_of(name)
    with _session(fleet, name) as server, _session(fleet, origin) as source:
        number = _newest_number(source) + NUMBERS_AHEAD
        gtid = f"{_uuid(source)}:{number}"
        _commit_empty(server, gtid)
        load = fleet.make_load(LoadPlan((origin,), LOAD_RATE, threads=2, seconds=60.0))
        load.start()
        reached = _until(lambda: _newest_number(source) > number, 60.0)
        load.stop()
        report = load.finish()
        if not reached:
            raise LabError(f"{origin!r} did not come to its number {number}: {_load_text(report)}")
    return [
        ("GTID", gtid),
        (f"load on {origin}", _load_text(report)),
        ("also given out by", origin),
    ]


def reset_source(fleet: Fleet, name: str) -> Did:
    """A source forgets its history and gives its numbers out again."""
    _ensure_history(fleet, name)
    with _session(fleet, name) as server:
        before = server.gtid_executed()
        server.run("RESET MASTER")
        written = _brief_load(fleet, name)
        after = server.gtid_executed()
    errors = [
        (f"receiver of {channel.replica}", _await_error(fleet, channel))
        for channel in replicas_of(name)
    ]
    return [
        ("statement", "RESET MASTER"),
        ("gtid_executed before", before),
        (f"load on {name}", written),
        ("gtid_executed after", after),
        *errors,
    ]


def reset_replica(fleet: Fleet, name: str) -> Did:
    """A replica forgets its relay logs and positions, and asks by GTID."""
    return _reset(fleet, name, "RESET REPLICA FOR CHANNEL %s")


def reset_replica_gtids(fleet: Fleet, name: str) -> Did:
    """A replica forgets what it has executed; its relay logs know, so it does not ask for it."""
    return _reset(fleet, name, "RESET MASTER")


def _reset(fleet: Fleet, name: str, statement: str) -> Did:
    channels = channels_of(name)
    for origin in dict.fromkeys(origin_of(channel.source) for channel in channels):
        _ensure_history(fleet, origin)
    with _session(fleet, name) as server:
        before = server.gtid_executed()
        for channel in channels:
            stop_channel(server, channel.channel_name)
        if "%s" in statement:
            for channel in channels:
                server.run(statement, (channel.channel_name,))
        else:
            server.run(statement)
        after = server.gtid_executed()
        for channel in channels:
            start_channel(server, channel.channel_name)
    shown = statement.removesuffix(" FOR CHANNEL %s")
    return [
        ("statement", shown),
        ("gtid_executed before", before),
        ("gtid_executed after", after),
        (f"load on {origin_of(name)}", _brief_load(fleet, origin_of(name))),
    ]


def purge_under_lag(fleet: Fleet, name: str) -> Did:
    """A source purges what the replica has not received."""
    channel = channels_of(name)[0]
    origin = origin_of(name)
    with _session(fleet, name) as replica, _session(fleet, channel.source) as source:
        replica.run("STOP REPLICA IO_THREAD FOR CHANNEL %s", (channel.channel_name,))
        written = _brief_load(fleet, origin)
        for other in (*channels_of(channel.source), *replicas_of(channel.source)):
            if other != channel:
                with _session(fleet, other.source) as above, _session(fleet, other.replica) as one:
                    wait_until_applied(above, one, other)
        # A logged FLUSH would be a transaction of the replica's own, where the source is one.
        source.run("FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        newest = str(source.run("SHOW BINARY LOGS")[-1][0])
        _until(lambda: _is_purged_to(source, newest), ERROR_DEADLINE_S)
        purged = str(source.value("SELECT @@GLOBAL.gtid_purged")).replace("\n", "")
        executed = replica.gtid_executed()
        replica.run("START REPLICA IO_THREAD FOR CHANNEL %s", (channel.channel_name,))
    return [
        (f"load on {origin}", written),
        (f"{channel.source} purged to", newest),
        (f"gtid_purged of {channel.source}", purged),
        (f"gtid_executed of {name}", executed),
        (f"receiver of {name}", _await_error(fleet, channel)),
    ]


def _is_purged_to(source: Session, file: str) -> bool:
    """Purges up to a file; a file that is still being sent to a replica is kept, with a warning."""
    source.run("PURGE BINARY LOGS TO %s", (file,))
    return str(source.run("SHOW BINARY LOGS")[0][0]) == file


def applier_fails(fleet: Fleet, name: str) -> Did:
    """A replica has a row that its source inserts: the applier stops with error 1062."""
    channel, origin = channels_of(name)[0], origin_of(name)
    with _session(fleet, name) as replica, _session(fleet, origin) as source:
        source.run("CREATE DATABASE IF NOT EXISTS lab_duplicate")
        source.run("CREATE TABLE IF NOT EXISTS lab_duplicate.t (a INT PRIMARY KEY)")
        for part in (*channels_of(channel.source), channel):
            with _session(fleet, part.source) as above, _session(fleet, part.replica) as below:
                wait_until_applied(above, below, part)
        number = int(str(source.value("SELECT COUNT(*) FROM lab_duplicate.t")))
        statement = f"INSERT INTO lab_duplicate.t VALUES ({number})"  # noqa: S608
        replica.run("SET SESSION sql_log_bin = 0")
        replica.run(statement)
        source.run(statement)
        _until(lambda: _status_of(replica, channel).applier == "No", ERROR_DEADLINE_S)
        error = _status_of(replica, channel).error or "no error"
    return [
        (f"without a log on {name}, then on {origin}", statement),
        (f"applier of {name}", error),
    ]


def kill(fleet: Fleet, name: str) -> Did:
    """A server is killed under load and started again."""
    return _crash(fleet, name, {})


def kill_unsynced(fleet: Fleet, name: str) -> Did:
    """A server that does not wait for its disk is killed under load and started again."""
    return _crash(fleet, name, {"sync_binlog": 0, "sync_relay_log": 0})


def _crash(fleet: Fleet, name: str, settings: Mapping[str, int]) -> Did:
    did: Did = []
    with _session(fleet, name) as server:
        for variable, value in settings.items():
            server.run(f"SET GLOBAL {variable} = %s", (value,))
            did.append((variable, str(value)))
    origins = dict.fromkeys(origin_of(channel.source) for channel in channels_of(name)) or [name]
    load = fleet.make_load(LoadPlan(tuple(origins), LOAD_RATE, threads=4, seconds=2 * LOAD_S))
    load.start()
    time.sleep(LOAD_S / 2)  # the load is under way: what is killed must be at work
    did.append(("process killed", str(fleet.kill(name))))
    time.sleep(DOWN_S)
    fleet.restart(name)
    report = load.finish()
    with _session(fleet, name) as server:
        did += [
            (f"load on {', '.join(origins)}", _load_text(report)),
            ("gtid_executed after", server.gtid_executed()),
        ]
    return did


def power_cut(fleet: Fleet, name: str) -> Did:
    """A source comes back with the files that it had some seconds ago."""
    _ensure_history(fleet, name)
    with _session(fleet, name) as server:
        # What the system has not written yet is lost with the power: the image has none of it.
        server.run("SET GLOBAL sync_binlog = 0")
        server.run("SET GLOBAL innodb_flush_log_at_trx_commit = 0")
        fleet.take_image(name)
        written = _brief_load(fleet, name)
        before = server.gtid_executed()
        for channel in replicas_of(name):
            with _session(fleet, channel.replica) as replica:
                wait_until_applied(server, replica, channel)
    process = fleet.kill(name)
    fleet.restore_image(name)
    fleet.restart(name)
    with _session(fleet, name) as server:
        after = server.gtid_executed()
    errors = [
        (f"receiver of {channel.replica}", _await_error(fleet, channel))
        for channel in replicas_of(name)
    ]
    return [
        (f"load on {name}, then lost", written),
        ("gtid_executed before", before),
        ("process killed", str(process)),
        ("gtid_executed after", after),
        *errors,
        (f"load on {name}, under the lost numbers", _brief_load(fleet, name)),
    ]


def copied_server_uuid(fleet: Fleet, name: str) -> Did:
    """A server is started with the identity of another."""
    # Not of a neighbour: a receiver refuses a source with its own server_uuid, and is not heard.
    donor = SOURCE_B if name != SOURCE_B else REPLICA_2
    fleet.stop(name)
    copied = fleet.copy_server_uuid(donor, name)
    fleet.restart(name)
    with _session(fleet, name) as server:
        reported = _uuid(server)
    if reported != copied:
        raise LabError(f"{name!r} reports the server_uuid {reported!r}; expected {copied!r}")
    return [("copied from", donor), ("server_uuid of both", reported)]


def _session(fleet: Fleet, name: str) -> AbstractContextManager[Session]:
    return session(fleet.machine_addresses[name])


def _uuid(server: Session) -> str:
    return str(server.value("SELECT @@GLOBAL.server_uuid"))


def _own_gtids(server: Session) -> str:
    """The part of gtid_executed under the server's own UUID, empty when there is none."""
    own = _uuid(server)
    parts = (part.strip() for part in server.gtid_executed().split(","))
    return next((part for part in parts if part.startswith(f"{own}:")), "")


def _newest_number(server: Session) -> int:
    """The highest number that the server has given out under its own UUID; 0: none."""
    intervals = _own_gtids(server).split(":")[1:]
    return int(intervals[-1].rpartition("-")[2]) if intervals else 0


def _commit_empty(server: Session, gtid: str) -> None:
    server.run("SET GTID_NEXT = %s", (gtid,))
    server.run("BEGIN")
    server.run("COMMIT")
    server.run("SET GTID_NEXT = 'AUTOMATIC'")


def _ensure_history(fleet: Fleet, source: str) -> None:
    """Writes on a source that has executed nothing yet, until its replicas have it too."""
    with _session(fleet, source) as server:
        if server.gtid_executed():
            return
        _brief_load(fleet, source)
        for channel in replicas_of(source):
            with _session(fleet, channel.replica) as replica:
                wait_until_applied(server, replica, channel)


def _brief_load(fleet: Fleet, name: str) -> str:
    load = fleet.make_load(LoadPlan((name,), LOAD_RATE, threads=2, seconds=LOAD_S))
    load.start()
    return _load_text(load.finish())


def _load_text(report: LoadReport) -> str:
    errors = "".join(f"; {times} x {error}" for error, times in report.errors.items())
    return f"{report.total} writes in {report.seconds:.1f} s{errors}"


def _await_error(fleet: Fleet, channel: LabChannel) -> str:
    """A replica's report of a channel: the error that ends its receiver, if one does in time."""
    with _session(fleet, channel.replica) as replica:
        # While it reconnects it reports that as an error, too.
        _until(lambda: _status_of(replica, channel).receiver == "No", ERROR_DEADLINE_S)
        return _status_of(replica, channel).error or "no error"


def _status_of(replica: Session, channel: LabChannel) -> ChannelStatus:
    return next(
        one for one in channel_statuses(replica) if one.channel_name == channel.channel_name
    )


def _until(condition: Callable[[], bool], deadline_s: float) -> bool:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() >= end:
            return False
        time.sleep(POLL_S)
    return True
