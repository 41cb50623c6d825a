"""What native libraries keep of the driver's memory, which runs for months.

Each thread that frees memory leaves it to an arena, for itself or for later. Arrow and deltalake
have hundreds of threads, and allocators of their own with arenas of their own.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys

ALLOCATORS = {
    # As all else.
    "pyarrow": ("ARROW_DEFAULT_MEMORY_POOL", "system"),
    # What deltalake writes is small, and seldom: one arena, which gives back after a second.
    "deltalake": ("_RJEM_MALLOC_CONF", "narenas:1,dirty_decay_ms:1000"),
}
"""By library, the variable that it reads when it is imported."""
_M_ARENA_MAX = -8
"""Of glibc's mallopt(3)."""
_ARENAS_MAX = 2


def keep_little() -> None:
    """Import libraries so that they give back what they have freed, and bound glibc's arenas.

    Python workers inherit variables, and are to import with their own: none is left behind. What is
    set by the user, or imported already, stays as it is.
    """
    # Only glibc has it.
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS_MAX)
    for library, (variable, value) in ALLOCATORS.items():
        if variable in os.environ or library in sys.modules:
            continue
        os.environ[variable] = value
        try:
            importlib.import_module(library)
        finally:
            del os.environ[variable]
