"""The page's server as a process of its own, so that no reader of it holds up the job."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tallystick.deploy.processes import dying_with_parent
from tallystick.page_server.address import Address, read_token
from tallystick.runs.result import TABLES
from tallystick.settings import PREFIX, Settings


def start(directory: Path, listen: str, settings: Settings) -> None:
    """Start it; it ends with the thread that calls this.

    Args:
        directory: The run's own.
        listen: Where the page is.
        settings: Those of the job.

    Raises:
        MisuseError: The address is none, cannot be listened on, or needs a token.
    """
    address = Address.of(listen)
    read_token(settings.serve_token_file, address)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        # Its own error would come when the job runs already.
        socket.create_server((address.host, address.port), family=family).close()
    except OSError as error:
        raise address.not_listened_on(error) from error
    (directory / TABLES).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tallystick.cli", "serve", str(directory), "--listen", listen]
    if settings.serve_token_file is not None:
        command += ["--serve-token-file", str(settings.serve_token_file)]
    # They may come from flags of the job.
    names = ("collect_interval_s", "collect_deadline_s", "report_collections")
    known = {f"{PREFIX}{name.upper()}": str(getattr(settings, name)) for name in names}
    # Ctrl-C is for the job, which ends this one.
    subprocess.Popen(
        dying_with_parent(command, sys.executable),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        start_new_session=True,
        env=os.environ | known,
    )
