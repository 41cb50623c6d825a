"""All checks of a deployment: settings first, then this machine, Kafka and servers side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tallystick.doctor.checks import Answer, Check, Place, not_tried, passed, try_all
from tallystick.doctor.kafka import check_kafka
from tallystick.doctor.machine import check_machine
from tallystick.doctor.servers import check_fleet, check_server
from tallystick.producers.mysql.settings import ServerSettings, load_servers
from tallystick.servers.discovery import DiscoveredServer
from tallystick.settings import FILE, Settings, load

_SETTINGS_FIX = "docs/cli.md, Settings; tallystick config shows them"
_SERVERS_FIX = "docs/real_servers.md, Which servers"
CHECK, TAIL, AUDIT = ROLES = ("check", "tail", "audit")


def try_deployment(
    flags: Mapping[str, Any], config: Path | None, named: Sequence[str], roles: frozenset[str]
) -> list[Check]:
    """Try what commands need on this host.

    Args:
        flags: Of settings, by their names.
        config: A ``servers.toml``, or None.
        named: Servers as ``--server`` has them.
        roles: Which commands: some of ``ROLES``.
    """
    given, kafka, fleet = Place("settings"), Place("kafka"), Place("servers")
    settings: Settings | None = given.try_("settings", lambda: _settings(flags), fix=_SETTINGS_FIX)
    places: list[tuple[Place, Callable[[Place], None]]] = [
        (Place("machine"), lambda place: check_machine(place, settings, roles))
    ]
    clients = [role for role in (TAIL, AUDIT) if role in roles]
    if clients:
        places.append((kafka, lambda place: _kafka(place, settings, clients)))
    servers: tuple[ServerSettings, ...] = ()
    if roles & {CHECK, TAIL}:
        servers = given.try_("servers", lambda: _servers(config, named), fix=_SERVERS_FIX) or ()
    found: list[DiscoveredServer] = []

    def ask(server: ServerSettings, place: Place) -> None:
        learned = check_server(place, server, servers)
        if learned is not None:
            found.append(learned)

    places += [(Place(f"server {server.name}"), partial(ask, server)) for server in servers]
    try_all(places)
    if servers:
        order = [server.name for server in servers]
        check_fleet(fleet, sorted(found, key=lambda server: order.index(server.name)))
    return [
        check for place in (given, *(each for each, _ in places), fleet) for check in place.checks
    ]


def _settings(flags: Mapping[str, Any]) -> Answer:
    loaded = load(flags)
    origins = set(loaded.origins.values()) - {"default"}
    file = f"{str(FILE)!r} is read" if "file" in origins else f"no {str(FILE)!r}"
    from_others = ", ".join(sorted(origins - {"file"}))
    return passed(f"{file}{f'; more from {from_others}' if from_others else ''}", loaded.settings)


def _servers(config: Path | None, named: Sequence[str]) -> Answer:
    if config is None and not named:
        return not_tried("no server is named: --config, --server")
    servers = load_servers(config, named)
    without = [server.name for server in servers if server.password is None]
    secrets = f"; without a password: {', '.join(without)}" if without else ""
    return passed(f"{', '.join(server.name for server in servers)}{secrets}", servers)


def _kafka(place: Place, settings: Settings | None, clients: Sequence[str]) -> None:
    if settings is None:
        place.add("brokers", not_tried("the settings cannot be read"))
    else:
        check_kafka(place, settings, clients)
