"""The jars that Spark's Kafka source, the local broker and the lab need, pinned and verified.

They are fetched with the Ivy that ships inside pyspark, or the system's, so a machine needs Python
and Java and nothing else. `jars.sha256` beside this module lists the jars and their checksums;
whatever differs is refused. A second clone on the same machine finds them in the user's cache.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tallystick.coordinates.values.errors import install_extra
from tallystick.deploy.errors import JarError
from tallystick.deploy.preflight import java_command, java_environment, java_problem

LIST_FILE = Path(__file__).with_name("jars.sha256")
SPARK_KAFKA = "spark-kafka"
BROKER = "broker"
MYSQL_SERVER = "mysql-server"
SYSTEM_IVY = Path("/usr/share/java/ivy.jar")
"""Where Debian's package ivy puts it: without pyspark the lab needs no more than that."""
FETCH_ATTEMPTS = 3
FETCH_TIMEOUT_S = 600.0

_LINE = re.compile(r"([a-z-]+) ([0-9a-f]{64}) ([\w.-]+):([\w.-]+):([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar.

    Attributes:
        group: Maven's group.
        artifact: Maven's artifact.
        version: the exact version.
        sha256: the sum that its bytes must have, in lower-case hexadecimal.
    """

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """Maven's name of it: group:artifact:version."""
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def file_name(self) -> str:
        """The name of its file in the cache."""
        return f"{self.artifact}-{self.version}.jar"


# Brings jars into an empty directory, as many as it can, and returns what it printed; what is
# missing afterwards is asked for again.
Fetch = Callable[[Sequence[Jar], Path], str]


def parse_list(text: str) -> dict[str, tuple[Jar, ...]]:
    """Reads the list of pinned jars: set, sha256 and coordinates on each line.

    Raises:
        JarError: a line has another form; the message quotes it.
    """
    sets: dict[str, list[Jar]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise JarError(
                f"Line {number} of the list of jars is {line!r}; "
                "expected: set, sha256, group:artifact:version."
            )
        name, sha256, group, artifact, version = found.groups()
        sets.setdefault(name, []).append(Jar(group, artifact, version, sha256))
    return {name: tuple(jars) for name, jars in sets.items()}


def cache_directory(environ: dict[str, str] | None = None) -> Path:
    """Returns where fetched jars are kept: TALLYSTICK_HOME, or the user's cache directory."""
    env = dict(os.environ) if environ is None else environ
    if env.get("TALLYSTICK_HOME"):
        return Path(env["TALLYSTICK_HOME"]) / "jars"
    base = env.get("XDG_CACHE_HOME")
    # The XDG rule: a relative value is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return root / "tallystick" / "jars"


def prepare(
    jars: Sequence[Jar],
    directory: Path,
    fetch: Fetch | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[Path]:
    """Returns the paths of jars in a directory, after fetching what is missing or damaged.

    Each jar is verified on every call, fetched beside the cache and moved in by rename, under a
    lock: an interrupted or a concurrent run leaves whole jars or none.

    Args:
        jars: what is wanted.
        directory: the cache of that set.
        fetch: how jars are brought, by default Ivy.
        progress: called with one line before something is fetched.

    Raises:
        JarError: a jar cannot be fetched or has other bytes than pinned.
    """
    if _missing(jars, directory):
        with locked(directory):
            wanted = _missing(jars, directory)
            if wanted and progress:
                progress(f"fetching {len(wanted)} jars into {directory}")
            _fill(wanted, directory, fetch or ivy_fetch)
    return [directory / jar.file_name for jar in jars]


def spark_kafka_jars(progress: Callable[[str], None] | None = None) -> list[Path]:
    """Returns the jars of Spark's Kafka source, for `spark.jars`; fetches them at need."""
    return _prepare_set(SPARK_KAFKA, progress)


def broker_classpath(progress: Callable[[str], None] | None = None) -> list[Path]:
    """Returns the jars that the local broker runs from; fetches them at need."""
    return _prepare_set(BROKER, progress)


def mysql_server_jar(progress: Callable[[str], None] | None = None) -> Path:
    """Returns the jar that carries a MySQL server for the lab; fetches it at need."""
    return _prepare_set(MYSQL_SERVER, progress)[0]


def set_directory(name: str) -> Path:
    """Returns where the jars of a set are kept.

    Another list is another directory: versions of this project do not disturb each other.
    """
    key = hashlib.sha256("".join(jar.sha256 for jar in _pinned(name)).encode()).hexdigest()[:12]
    return cache_directory() / f"{name}-{key}"


def ivy_fetch(jars: Sequence[Jar], into: Path, repository: str | None = None) -> str:
    """Fetches jars with Ivy.

    Args:
        jars: what to fetch, without its dependencies.
        into: an existing directory that receives the files.
        repository: the root of a Maven repository; by default the one that Ivy knows.

    Returns:
        What Ivy printed.

    Raises:
        JarError: there is no usable Java, no Ivy, or Ivy did not end in time.
    """
    problem = java_problem()
    java = java_command()
    if problem is not None or java is None:
        raise JarError(str(problem))
    with tempfile.TemporaryDirectory(prefix="tallystick-ivy-") as scratch:
        work = Path(scratch)
        (work / "settings.xml").write_text(_ivy_settings(work / "cache", repository), "utf-8")
        (work / "ivy.xml").write_text(_ivy_module(jars), "utf-8")
        command = [
            java,
            # Keeps Ivy out of the user's own Ivy directory.
            f"-Divy.default.ivy.user.dir={work / 'user'}",
            "-jar",
            str(_ivy_jar()),
            *("-settings", str(work / "settings.xml"), "-ivy", str(work / "ivy.xml")),
            # Relative: in the directory's own name a bracket would be read as a pattern's.
            *("-retrieve", "[artifact]-[revision].[ext]", "-warn"),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=FETCH_TIMEOUT_S,
                cwd=into,
                env=java_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise JarError(
                f"The jars did not arrive within {FETCH_TIMEOUT_S:.0f} s. To fix: run it again; "
                "what has arrived is kept."
            ) from error
    return done.stdout.decode("utf-8", "replace")


def missing_jars(name: str) -> list[Jar]:
    """Returns the jars of a set that are not in the cache, or have other bytes; fetches none."""
    return _missing(_pinned(name), set_directory(name))


def _prepare_set(name: str, progress: Callable[[str], None] | None) -> list[Path]:
    return prepare(_pinned(name), set_directory(name), progress=progress)


def _pinned(name: str) -> tuple[Jar, ...]:
    return parse_list(LIST_FILE.read_text("utf-8"))[name]


def _missing(jars: Sequence[Jar], directory: Path) -> list[Jar]:
    return [jar for jar in jars if _sha256(directory / jar.file_name) != jar.sha256]


def _fill(wanted: list[Jar], directory: Path, fetch: Fetch) -> None:
    for abandoned in directory.glob("incoming-*"):  # of a run that was killed; we hold the lock
        shutil.rmtree(abandoned, ignore_errors=True)
    log = ""
    for _ in range(FETCH_ATTEMPTS):
        if not wanted:
            return
        with tempfile.TemporaryDirectory(prefix="incoming-", dir=directory) as incoming:
            log = fetch(wanted, Path(incoming))
            for jar in wanted:
                arrived = Path(incoming) / jar.file_name
                found = _sha256(arrived)
                if found is None:
                    continue
                if found != jar.sha256:
                    raise JarError(
                        f"{jar.coordinates} arrived with sha256 {found}, and {jar.sha256} is "
                        "pinned: it is refused. To fix: find out who serves other bytes (a proxy "
                        "that answers with a page of its own is the usual cause)."
                    )
                arrived.replace(directory / jar.file_name)
        wanted = _missing(wanted, directory)
    if wanted:
        names = ", ".join(jar.coordinates for jar in wanted[:3])
        more = f" and {len(wanted) - 3} more" if len(wanted) > 3 else ""
        raise JarError(
            f"{names}{more} cannot be fetched; Ivy's last error: {_last_error(log)!r}. "
            "To fix: check the network; behind a proxy, "
            "export JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'"
        )


def _last_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip(" \t:=")]
    errors = [line for line in lines if "Exception" in line or "not found" in line.lower()]
    return (errors or lines or ["nothing"])[-1][:200]


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds a directory of the cache, made at need, alone until the block ends.

    Raises:
        JarError: it cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as error:
        raise JarError(
            f"The cache of jars {str(directory)!r} cannot be written: {error.strerror}. "
            "To fix: set TALLYSTICK_HOME to a directory of yours."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the system when this process ends
        yield


def _sha256(path: Path) -> str | None:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            for piece in iter(lambda: file.read(1 << 20), b""):
                digest.update(piece)
    except OSError:  # not there, or not ours to read: either way it is to be fetched
        return None
    return digest.hexdigest()


def _ivy_jar() -> Path:
    # find_spec looks for the package and does not import it.
    spec = find_spec("pyspark")
    for directory in (spec.submodule_search_locations or []) if spec else []:
        for candidate in sorted(Path(directory, "jars").glob("ivy-*.jar")):
            return candidate
    if SYSTEM_IVY.exists():
        return SYSTEM_IVY
    raise JarError(
        "Jars are fetched with Ivy: neither pyspark, which brings one, nor the system's is "
        f"installed. {install_extra('stream')}, or apt-get install ivy"
    )


def _ivy_settings(cache: Path, repository: str | None) -> str:
    # One resolver and a cache of our own: an incomplete local Maven cache, which Spark's own
    # resolution would use first, makes it fail.
    root = f" root={quoteattr(repository)}" if repository else ""
    return (
        '<ivysettings><settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(str(cache))}/>"
        f'<resolvers><ibiblio name="central" m2compatible="true"{root}/></resolvers>'
        "</ivysettings>"
    )


def _ivy_module(jars: Sequence[Jar]) -> str:
    wanted = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} "
        f'rev={quoteattr(jar.version)} conf="default->master"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="tallystick" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )


def main() -> int:
    """Prepares the sets that every run needs and prints one line for each."""

    def progress(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    try:
        for name, prepared in ((SPARK_KAFKA, spark_kafka_jars), (BROKER, broker_classpath)):
            paths = prepared(progress)
            progress(f"{name}: {len(paths)} jars verified in {paths[0].parent}")
    except JarError as error:
        sys.stderr.write(f"tallystick: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
