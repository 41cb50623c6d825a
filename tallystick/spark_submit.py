"""What spark-submit runs: the command tallystick, as an installed package (docs/cluster.md)."""

import sys
from pathlib import Path

# Python puts the directory of a program first on its path: modules here have names like "errors",
# which others' may have, too.
HERE = str(Path(__file__).resolve().parent)
sys.path[:] = [path for path in sys.path if path != HERE]

from tallystick.cli import main  # noqa: E402  only now

if __name__ == "__main__":
    main()
