"""``tallystick relay-logs``: relay logs of this host, for a tail on another one."""

from __future__ import annotations

import os
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import a_path
from tallystick.errors import MisuseError
from tallystick.process import stopping

NICENESS = 5
LISTEN = "127.0.0.1:9475"


def relay_logs(
    *,
    relay_log_dir: Annotated[
        Path,
        typer.Option(
            help="Where the server's relay logs are.",
            metavar="DIR",
            parser=a_path,
            show_default=False,
        ),
    ],
    listen: Annotated[
        str, typer.Option(help="Where tail reaches it.", metavar="ADDRESS:PORT")
    ] = LISTEN,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="Has the token; without it TALLYSTICK_RELAY_LOG_TOKEN does.",
            metavar="FILE",
            parser=a_path,
            show_default=False,
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="PEM with the certificate chain, for TLS.",
            metavar="FILE",
            parser=a_path,
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="PEM with the certificate's key.",
            metavar="FILE",
            parser=a_path,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show a tail on another host the relay logs of this one, until stopped.

    It runs beside a server, reads the files of one directory, and writes nothing. Lengths, GTIDs,
    checksums and positions leave the host, rows and texts of statements do not. tail names it with
    relay_log_reader, and both have one token. On another address than loopback it needs TLS.
    """
    from tallystick.page_server.address import Address
    from tallystick.producers.mysql.relay_log_server import RelayLogServer
    from tallystick.producers.mysql.settings import read_relay_log_token

    os.nice(NICENESS)
    address = Address.of(listen)
    token = read_relay_log_token(token_file, "--token-file")
    if not relay_log_dir.is_dir():
        raise MisuseError(f"--relay-log-dir: expected a directory, found {str(relay_log_dir)!r}")
    tls = _tls(certificate, key)
    if tls is None and not address.is_loopback:
        raise MisuseError(
            f"--listen: {address.host} is no loopback address: expected --certificate and --key"
        )
    try:
        server = RelayLogServer(
            relay_log_dir,
            token,
            host=address.host,
            port=address.port,
            tls=tls,
            notice=terminal.notice,
        )
    except OSError as error:
        raise address.not_listened_on(error) from None
    with stopping() as stop:
        terminal.notice(
            f"relay logs of {str(relay_log_dir)!r} at {replace(address, port=server.port)};"
            " Ctrl-C ends it"
        )
        server.run(stop)


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise MisuseError("expected --certificate and --key together")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An encrypted key would be asked for at a terminal: there is none.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        shown = getattr(error, "strerror", None) or "no such PEM"
        raise MisuseError(f"--certificate, --key: they cannot be loaded: {shown}") from None
    return context
