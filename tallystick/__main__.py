"""The program: ``python -m tallystick``, and what the installed script starts."""

import os
import signal
from types import FrameType


def main() -> None:
    """Run the command line; Ctrl-C ends it in one way, also while it is loaded."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    from tallystick import cli

    signal.signal(signal.SIGINT, before)
    cli.main()


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """End at once: an exception is lost in a callback of Python's imports, and locks them."""
    os._exit(130)


if __name__ == "__main__":
    main()
