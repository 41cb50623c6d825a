"""The program: ``python -m tallystick``, and what the installed script starts."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C ends it in one way, also while it is loaded."""
    try:
        from tallystick import cli
    except KeyboardInterrupt:
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
