"""``tallystick serve``: the report as a page that follows a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallystick import terminal
from tallystick.commands.options import a_path
from tallystick.extras import require_extra
from tallystick.settings import load

LISTEN = "127.0.0.1:19180"

TokenFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with the token of the page; needed beyond loopback.",
        metavar="FILE",
        parser=a_path,
    ),
]


def serve(
    *,
    directory: Annotated[
        Path | None,
        typer.Argument(
            help="A run: it holds the tables. Default: the audit in the state.",
            metavar="DIRECTORY",
            parser=a_path,
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option(help="Where the page is; port 0 is any free one.", metavar="ADDRESS:PORT")
    ] = LISTEN,
    serve_token_file: TokenFile = None,
) -> None:
    """Serve the report of a run as a page that follows it.

    Reads the tables that the job writes, from a process of its own, and reads them again when they
    have changed. Until Ctrl-C or SIGTERM. On any address but loopback the page asks for a token.
    """
    settings = load({"serve_token_file": serve_token_file}).settings
    require_extra("serve", "tallystick serve")
    from tallystick.page_server.address import Address, read_token
    from tallystick.page_server.follow import Follower
    from tallystick.page_server.web import serve as run
    from tallystick.runs.tables import run_directory

    address = Address.of(listen)
    token = read_token(settings.serve_token_file, address)
    follower = Follower(run_directory(directory or settings.directory), settings)
    raise typer.Exit(run(follower, address, token, lambda url: terminal.show(f"page: {url}")))
