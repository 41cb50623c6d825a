"""The Spark session of the job, with every setting.

Spark keeps the settings of a process's first session, so a process has one session of one kind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tallystick.streaming.errors import SessionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LOG_TAIL_LINES = 5
LOG_BYTES_MAX = 10_000_000
LOGS_KEPT = 3
JVM_STOP_S = 20.0
JVM_END_S = 5.0
OUT_OF_MEMORY_STATUS = 3
"""Of a JVM that was started with ``ExitOnOutOfMemoryError``."""

# Everything of the JVM goes to one file; users read one sentence, and the file when they want more.
# Spark and Kafka repeat the same warnings for each attempt, hence ERROR for the chatty ones.
_LOG4J2 = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd HH:mm:ss.SSS} %p %c{1}: %m%n%ex
logger.kafka.name = org.apache.kafka
logger.kafka.level = error
logger.state.name = org.apache.spark.sql.execution.python.streaming
logger.state.level = error
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = error
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


EXECUTORS = "executors"
"""The directory beside the log file for what executors on this machine write."""
_read_executors = re.compile(
    r"local-cluster\[ *(?P<count>\d+) *, *(?P<cores>\d+) *, *(?P<megabytes>\d+) *\]"
).fullmatch
G1_REGION_MB = 16
"""Size of the regions of the heap, where Java chooses G1. What is longer than half of one needs
regions of its own, side by side: with Java's usual one or two megabytes many buffers of a
micro-batch do, and it collects, or takes more memory, whenever one is made (docs/performance.md).
"""

AUTH_SECRET = "_SPARK_AUTH_SECRET"  # noqa: S105 - a name
"""The variable with the secret that Spark's processes share, where they have one."""
WORKERS_PYTHON = "spark.pyspark.python"
"""The property that names the Python of a cluster's workers."""
ARENAS_VARIABLE = "MALLOC_ARENA_MAX"
ARENAS_MAX = "4"
"""Of glibc's memory for a JVM's native code. By itself it makes eight for each core and keeps what
was freed in each: 0.9 GB beside the heap (docs/performance.md)."""
_EXECUTORS_ARENAS = {f"spark.executorEnv.{ARENAS_VARIABLE}": ARENAS_MAX}
PYTHON_VARIABLE = "PYSPARK_PYTHON"
"""The same as a variable of the driver; spark-submit sets it from the property."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a caller decides about Spark.

    Attributes:
        jars: Jars of Spark's Kafka source; empty when no query reads Kafka.
        log_file: Where the output of the JVM and of its Python workers go.
        master: Spark's master URL; on a cluster's workers Python and the directories of the job are
            where they are here (docs/cluster.md).
        shuffle_partitions: How many parts the instances are spread over, each audited by one Python
            worker at a time, best by that of an executor of its own: ``local-cluster[N,1,MB]``, or
            a cluster. The checkpoint of the auditor query fixes it at its first run.
        memory: Heap of the driver, which for ``local[…]`` is all of Spark.
        app_name: Name of the application in Spark's own views.
        java_options: More options of the driver's JVM.
        environment: Variables of the JVM and of its workers, as those that hold secrets.
        properties: More of Spark's properties, none of those that are set here.
        is_lasting: Whether it is to run for longer than minutes: the JVM then optimises its code.
        is_checkpoint_local: Whether checkpoints are on the local file system, as Hadoop names it.
    """

    jars: Sequence[Path]
    log_file: Path
    master: str = "local[2]"
    shuffle_partitions: int = 1
    memory: str = "2g"
    app_name: str = "tallystick"
    java_options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    is_lasting: bool = False
    is_checkpoint_local: bool = True


def is_submitted() -> bool:
    """Whether spark-submit has started this process: its JVM, master and properties are used."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def session_conf(settings: SessionSettings, log4j2_file: Path) -> dict[str, str]:
    """Every Spark setting of the job, in the form of ``spark.…`` keys.

    Raises:
        SessionError: A property is given that the job sets itself.
    """
    conf = _jvm_conf(settings, log4j2_file) | _job_conf(settings)
    if WORKERS_PYTHON not in settings.properties:
        conf |= _packages_for_workers()
    for name in settings.properties:
        if name in conf:
            raise _refused(name)
    return {**_EXECUTORS_ARENAS, **conf, **settings.properties}


def submitted_conf(settings: SessionSettings, given: Mapping[str, str]) -> dict[str, str]:
    """What the job adds to the properties that spark-submit was given.

    Raises:
        SessionError: One of these has another value than the job's own.
    """
    conf = _job_conf(settings)
    if PYTHON_VARIABLE not in os.environ:
        conf |= _packages_for_workers()
    for name, value in conf.items():
        if given.get(name, value) != value:
            raise _refused(name)
    return {name: given.get(name, value) for name, value in _EXECUTORS_ARENAS.items()} | conf


def _refused(name: str) -> SessionError:
    return SessionError(f"The Spark property {name!r} is set by tallystick itself.")


def _jvm_conf(settings: SessionSettings, log4j2_file: Path) -> dict[str, str]:
    """What is decided before the driver's JVM starts."""
    conf = {
        "spark.master": settings.master,
        "spark.app.name": settings.app_name,
        "spark.driver.memory": settings.memory,
        "spark.driver.extraJavaOptions": (
            f"{_java_options(settings, log4j2_file)} {shlex.join(settings.java_options)}"
        ),
    }
    jars = [str(jar) for jar in settings.jars]
    if not settings.master.startswith("local"):
        return conf | {"spark.jars": ",".join(jars)}
    conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
    if executors := _read_executors(settings.master):
        conf |= _executors_conf(settings, **executors.groupdict())
    if jars:
        # On Java's own class path their classes are in its archive (class_archives), too.
        conf["spark.driver.extraClassPath"] = os.pathsep.join(jars)
        if executors:
            conf["spark.executor.extraClassPath"] = os.pathsep.join(jars)
        # Hadoop's own local file system starts chmod and readlink for each file of a checkpoint:
        # some thirty processes a micro-batch. This one, among the jars, asks the system instead.
        conf["spark.hadoop.fs.file.impl"] = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
        # It has no form for Hadoop's newer interface, by which Spark replaces files elsewhere.
        if settings.is_checkpoint_local:
            conf["spark.sql.streaming.checkpointFileManagerClass"] = (
                "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
            )
    return conf


def _java_options(settings: SessionSettings, log4j2_file: Path) -> str:
    # What an executor of one core makes is garbage after a micro-batch: to mark it beside the work
    # cost a fifth of the processor time.
    is_serial = _read_executors(settings.master) is not None
    collector = "-XX:+UseSerialGC" if is_serial else f"-XX:G1HeapRegionSize={G1_REGION_MB}m"
    if settings.is_lasting and settings.master.startswith("local["):
        # G1 takes more and more of what it may have, and in a small heap it takes what a
        # micro-batch holds for something that stays (docs/performance.md).
        collector += f" -Xms{settings.memory} -XX:+AlwaysPreTouch"
    # The optimising compiler makes the first minutes slower, and then halves what a micro-batch
    # takes of the JVM's time (docs/performance.md).
    compiler = "" if settings.is_lasting else " -XX:TieredStopAtLevel=1"
    return (
        # After an OutOfMemoryError any thread may be gone: it ends instead of half working.
        "-XX:+ExitOnOutOfMemoryError"
        # Without PerfData Java keeps no file of a known name in /tmp.
        f" -XX:-UsePerfData{compiler} {collector}"
        f" -Dlog4j2.configurationFile={log4j2_file.absolute().as_uri()}"
    )


def _executors_conf(
    settings: SessionSettings, count: str, cores: str, megabytes: str
) -> dict[str, str]:
    """Executors in processes of their own on this machine."""
    if cores != "1":
        # Tasks would be given to whichever of its Python workers is idle, and that to another
        # part's audits each time (docs/decisions/0025).
        raise SessionError(
            f"spark_master {settings.master!r}: expected executors of one core,"
            f" local-cluster[{count},1,{megabytes}]"
        )
    return {
        "spark.executor.memory": f"{megabytes}m",
        "spark.executor.extraJavaOptions": _java_options(settings, _executors_log4j2(settings)),
        "spark.cores.max": count,
        # A part stays with the executor that has its state: the first must not get them all.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # Their master starts programs for who reaches it: it and they share a secret of the run.
        "spark.authenticate": "true",
        "spark.ui.killEnabled": "false",
        # As the driver's log; a Python worker writes some lines in each micro-batch.
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": str(LOG_BYTES_MAX),
        "spark.executor.logs.rolling.maxRetainedFiles": str(LOGS_KEPT),
    }


def _executors_log4j2(settings: SessionSettings) -> Path:
    return settings.log_file.parent / EXECUTORS / "log4j2.properties"


def _job_conf(settings: SessionSettings) -> dict[str, str]:
    """What holds for the job wherever it runs."""
    return {
        # Forked workers share what the daemon has imported already.
        "spark.python.daemon.module": "tallystick.streaming.worker_daemon",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The collector's small job does not queue after a large micro-batch of the auditor.
        "spark.scheduler.mode": "FAIR",
        # Hadoop sets the modes of checkpoint files itself, whatever the process's umask is.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.session.timeZone": "UTC",
        # Streaming turns it off anyway, with a warning; the sinks' small writes do not need it.
        "spark.sql.adaptive.enabled": "false",
        # To make the code of a stage takes each micro-batch longer than one projection gains by it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.buffer.size": str(1 << 20),
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # Counting rows reads a list as a whole for each entry that is appended to it.
        "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
        # A micro-batch without rows would change nothing: the auditor has no timers.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # A stop waits this long for a query's thread; unlimited is Spark's default.
        "spark.sql.streaming.stopTimeout": "60s",
        # Else `base64` breaks its text into lines, which are no JSON: headers of over 57 bytes.
        "spark.sql.chunkBase64String.enabled": "false",
    }


def _packages_for_workers() -> dict[str, str]:
    """Workers find the packages beside this one, unless another Python of theirs has its own."""
    # Not resolved: in a checkout this package is reached through a link in tallystick/.
    packages = str(Path(__file__).absolute().parents[2])
    paths = (packages, *os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return {
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, paths)))
    }


def start_session(settings: SessionSettings) -> SparkSession:
    """Starts the session; the JVM and its workers write to the log file only.

    Raises:
        SessionError: Spark did not start, and the message has the end of the log file; or a
            property is given that the job sets itself.
    """
    settings.log_file.parent.mkdir(parents=True, exist_ok=True)
    interrupt = signal.getsignal(signal.SIGINT)
    context = _submitted_context(settings) if is_submitted() else _own_context(settings)
    _log_to(settings.log_file, context)
    # Spark takes the interrupt from the terminal for itself; whoever runs the job decides.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    return SparkSession(context)


def _own_context(settings: SessionSettings) -> SparkContext:
    # Otherwise workers run the system's python3, which has none of our dependencies.
    os.environ[PYTHON_VARIABLE] = settings.properties.get(WORKERS_PYTHON, sys.executable)
    if settings.master.startswith("local"):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    variables, secret = settings.environment, os.environ.get(AUTH_SECRET)
    if _read_executors(settings.master):
        variables = {**variables, "SPARK_HOME": str(_make_executors_home(settings))}
        secret = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="tallystick-spark-") as directory:
        log4j2_file = Path(directory, "log4j2.properties")
        log4j2_file.write_text(_LOG4J2, "utf-8")
        conf = SparkConf(loadDefaults=False)
        for name, value in session_conf(settings, log4j2_file).items():
            conf.set(name, value)
        begun_at = 0
        try:
            with settings.log_file.open("ab") as log, _variables(variables):
                begun_at = log.tell()
                gateway = launch_gateway(  # type: ignore[no-untyped-call]
                    conf,
                    {
                        "stdout": log,
                        "stderr": subprocess.STDOUT,
                        # A signal for this process's group (timeout, a shell's kill) is not for
                        # the JVM: without it nothing could be drained. It ends with its stdin.
                        "start_new_session": True,
                        # Spark makes a directory artifacts/ where it is started.
                        "cwd": settings.log_file.parent,
                    },
                )
            _share_secret(conf, secret)
            # It has read the log settings then, and never reads them again.
            return SparkContext(conf=conf, gateway=gateway)
        except (PySparkException, OSError) as error:
            raise SessionError(
                f"Spark did not start from {settings.master!r}: "
                f"{log_tail(settings.log_file, begun_at) or error}"
            ) from error


def _make_executors_home(settings: SessionSettings) -> Path:
    """A home of Spark's in which executors of this machine work, and leave what they write."""
    home = settings.log_file.parent.absolute() / EXECUTORS
    shutil.rmtree(home, ignore_errors=True)  # what those of the last session have written
    home.mkdir(mode=0o700)
    _executors_log4j2(settings).write_text(_LOG4J2, "utf-8")
    for name in ("bin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).with_name(name))
    return home


def _share_secret(conf: SparkConf, secret: str | None) -> None:
    """Tell a JVM that runs: what it is started with are arguments, which everybody can read.

    A driver does not take the secret from its variables as Spark's other processes do.
    """
    if secret is not None and conf.get("spark.authenticate") == "true":
        conf.set("spark.authenticate.secret", secret)


def _submitted_context(settings: SessionSettings) -> SparkContext:
    """In spark-submit's JVM, which has been given its properties and writes its own log."""
    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
        conf = SparkConf(_jvm=gateway.jvm)
        for name, value in submitted_conf(settings, dict(conf.getAll())).items():
            conf.set(name, value)
        _share_secret(conf, os.environ.get(AUTH_SECRET))
        os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
        return SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError, OSError) as error:
        raise SessionError(f"Spark did not start by spark-submit: {error}") from error


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Variables for the program that is started meanwhile: Spark hands on this process's own."""
    # In the C locale Java would lose what is not ASCII.
    arenas = os.environ.get(ARENAS_VARIABLE, ARENAS_MAX)
    wanted = {ARENAS_VARIABLE: arenas, **wanted, "LC_ALL": "C.UTF-8"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class LogFile(logging.FileHandler):
    """A log file: what its disk has no room for is lost, and no traceback on standard error."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  its name there
        """Standard error is for what the job says itself."""


def _log_to(log_file: Path, context: SparkContext) -> None:
    """Stack traces of Spark's clients are for the log file, too: many, when a JVM is killed."""
    if not logging.getLogger().handlers:
        handlers = [LogFile(log_file)]
        logging.basicConfig(handlers=handlers, format="%(asctime)s %(levelname)s %(message)s")

    def handle_error(*_: object) -> None:
        # Called while the error is handled.
        logging.getLogger(__name__).warning("Spark's accumulators", exc_info=True)  # noqa: LOG014

    server: Any = context._accumulatorServer  # noqa: SLF001  It prints them otherwise
    server.handle_error = handle_error


def stop_session(spark: SparkSession, deadline_s: float = JVM_STOP_S) -> None:
    """Stops the session and waits for its JVM, so that nothing is left running after it."""
    gateway = SparkContext._gateway  # noqa: SLF001  Spark has no other way to its process
    # A JVM that has ended cannot be asked to stop.
    with contextlib.suppress(Py4JError, OSError):
        spark.stop()
    if gateway is None or gateway.proc is None:  # spark-submit's JVM ends after this process
        return
    with contextlib.suppress(Py4JError, OSError):
        gateway.shutdown()
    # The next session of this process gets a JVM of its own, with its own settings.
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    process: subprocess.Popen[bytes] = gateway.proc
    if process.stdin is not None:
        process.stdin.close()  # The JVM ends with its standard input.
    try:
        process.wait(deadline_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def jvm_end() -> str | None:
    """How the JVM has ended, as a sentence; None: it runs.

    What is asked of one that is ending fails before its process is gone, hence the wait.
    """
    gateway = SparkContext._gateway  # noqa: SLF001
    if gateway is None:
        return None
    if gateway.proc is None:
        return None if _answers(gateway) else "Spark's JVM ended; its log is that of spark-submit."
    try:
        status: int = gateway.proc.wait(JVM_END_S)
    except subprocess.TimeoutExpired:
        return None
    if status == OUT_OF_MEMORY_STATUS:
        return "Spark ran out of memory; raise spark_memory."
    if status == -signal.SIGKILL:
        return "Spark's JVM was killed by signal 9, as the kernel does when no memory is left."
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return f"Spark's JVM ended {how}; its log is spark.log."


def _answers(gateway: Any) -> bool:
    try:
        gateway.jvm.System.nanoTime()
    except (Py4JError, OSError):
        return False
    return True


def put_aside(log_file: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
    """Keep a log file small that processes append to: its text goes to ``.1``, that to ``.2``.

    They keep the file open, so it is copied and cut. What is written in that moment may be lost.
    """
    try:
        if log_file.stat().st_size <= bytes_max:
            return
        for number in range(LOGS_KEPT, 1, -1):
            older = log_file.with_name(f"{log_file.name}.{number - 1}")
            if older.exists():
                older.replace(log_file.with_name(f"{log_file.name}.{number}"))
        shutil.copyfile(log_file, log_file.with_name(f"{log_file.name}.1"))
        os.truncate(log_file, 0)
    except OSError:
        return  # a log is no reason to end a job; what writes it reports a full disk


def log_tail(log_file: Path, begun_at: int, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines with text of a log file, as one line of text.

    Args:
        log_file: It.
        begun_at: Bytes of earlier runs, which are passed over.
        lines: How many at most.
    """
    try:
        text = log_file.read_bytes()[begun_at:].decode("utf-8", "replace")
    except OSError:
        return ""
    lines_with_text = [line.strip() for line in text.splitlines() if line.strip()]
    lines_with_text = [
        line for line in lines_with_text if not line.startswith(("at ", "WARNING: Using incub"))
    ]
    return " | ".join(lines_with_text[-lines:])
