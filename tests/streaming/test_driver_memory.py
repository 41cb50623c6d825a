"""Arenas of native libraries: what the loaded ones say of themselves, in a process of their own."""

from __future__ import annotations

import subprocess
import sys

_KEPT = """
import os
before = dict(os.environ)
from tallystick.streaming import driver_memory
variable, value = driver_memory.ALLOCATORS["deltalake"]
driver_memory.ALLOCATORS["deltalake"] = variable, value + ",confirm_conf:true"
driver_memory.keep_little()
assert before == dict(os.environ)
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""
_ARENAS = """
import ctypes, io, os, sys, threading
if sys.argv[1:]:
    from tallystick.streaming import driver_memory
    driver_memory.keep_little()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
count = 8
taken = threading.Barrier(count)
def take():
    libc.malloc(1000)
    taken.wait()
threads = [threading.Thread(target=take) for _ in range(count)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.malloc_stats()
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What a program of Python's prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


def test_arrow_and_deltalake_keep_little_and_no_variable_is_left():
    """Workers are to import them with their own."""
    done = run(_KEPT)
    assert done.stdout.split() == ["system"]
    assert "-- Set conf value: narenas:1\n" in done.stderr


def test_threads_share_two_arenas_of_glibc():
    """By itself it makes one for each, up to eight a core."""
    assert run(_ARENAS).stderr.count("\nArena ") + 1 > 3
    assert run(_ARENAS, "bounded").stderr.count("\nArena ") + 1 <= 3
