"""Arrow's memory in the driver, which runs for months."""

from __future__ import annotations

import importlib
import os
import sys

_VARIABLE = "ARROW_DEFAULT_MEMORY_POOL"


def use_system_allocator() -> None:
    """Import Arrow so that it takes and frees memory as all else does.

    Its own allocator keeps what each of the driver's many threads has freed. Which one it has is
    decided by a variable when it is imported; Python workers, which inherit variables, import it
    with its own. Where it is imported already nothing changes.
    """
    if _VARIABLE in os.environ or "pyarrow" in sys.modules:
        return
    os.environ[_VARIABLE] = "system"
    try:
        importlib.import_module("pyarrow")
    finally:
        del os.environ[_VARIABLE]
