"""Archives of the classes that a JVM has loaded (Java's AppCDS): the next one starts with them.

`make setup` makes them, in the cache beside the jars. No run needs one: where there is none, or
Java or the jars are others than those it was made with, Java reads the jars.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tallystick.deploy.errors import JarError
from tallystick.deploy.jars import BROKER, SPARK_KAFKA, cache_directory, locked, set_directory

SPARK = "spark"

_PIECE = 1 << 20
# An archive that does not fit is no news, and whoever reads the log can do nothing about it.
_QUIET = "-Xlog:cds*=off"


def with_archive(name: str) -> tuple[str, ...]:
    """Options of a JVM that starts with the archive of `SPARK` or `BROKER`; none if there is none.

    Its checksum is compared first: Java does not do it.
    """
    for archive in _archives(name):
        if archive.name == _name(_crc(archive)):
            return f"-XX:SharedArchiveFile={archive}", _QUIET
    return ()


@contextmanager
def recorded_archive(name: str) -> Iterator[tuple[str, ...]]:
    """Options of a JVM that writes the archive of `SPARK` or `BROKER` at its end, in the block.

    Raises:
        JarError: it has written none, or the cache cannot be written; an earlier archive is kept.
    """
    directory = _directory(name)
    with locked(directory):
        for abandoned in directory.glob("incoming-*"):  # of a run that was killed; we hold the lock
            shutil.rmtree(abandoned, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="incoming-", dir=directory) as incoming:
            written = Path(incoming, "classes.jsa")
            yield f"-XX:ArchiveClassesAtExit={written}", _QUIET
            if not written.exists():
                raise JarError(f"Java wrote no archive of the classes of {name}.")
            for older in _archives(name):
                older.unlink()
            written.replace(directory / _name(_crc(written)))


def _archives(name: str) -> list[Path]:
    return sorted(_directory(name).glob("classes-*.jsa"))


def _name(checksum: int) -> str:
    return f"classes-{checksum:08x}.jsa"


def _directory(name: str) -> Path:
    """Each environment has a pyspark of its own, and an archive fits one, and its class path."""
    if name == BROKER:
        return set_directory(BROKER)
    spec = find_spec("pyspark")
    places: Sequence[str] = (spec.submodule_search_locations or ()) if spec else ()
    path = "".join((*places, set_directory(SPARK_KAFKA).name))
    key = hashlib.sha256(path.encode()).hexdigest()[:12]
    return cache_directory() / f"{name}-{key}"


def _crc(path: Path) -> int:
    checksum = 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                checksum = zlib.crc32(piece, checksum)
    except OSError:  # made anew just now, or not ours to read
        return -1
    return checksum
