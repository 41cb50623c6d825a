"""The processes of a round: a broker, a producer, an audit; how each is started and ended."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from tallystick.chaos.lab_fleet import LabFleet
from tallystick.coordinates.values.errors import AuditError
from tallystick.deploy.broker import LocalBroker
from tallystick.deploy.ports import free_base_port
from tallystick.errors import ExitCode
from tallystick.journal_topic import prepare_topics
from tallystick.producers.mysql_lab.layout import SERVERS
from tallystick.producers.relay import Damage, Relay
from tallystick.runs.audit import TOPICS
from tallystick.settings import PREFIX, Settings

if TYPE_CHECKING:
    from tallystick.chaos.plan import Plan

DEADLINE_S = 300.0
POLL_S = 0.5
INTERVAL_S = 2.0
FAULT_AT_MS = 1_000
COMMAND = """
import sys, time
true, ahead = time.time_ns, int(sys.argv.pop(1))
time.time_ns = lambda: true() + ahead
from tallystick.cli import main
main()
"""
"""Runs the command line on a machine whose clock is ahead by so many nanoseconds."""
SEEDS_APART = 1_000_000
WRITES = "Ctrl-C ends them"
"""What producers report when the journals are theirs."""
PRODUCER, AUDITED = "produced", "audited"
"""Prefixes of topics; where nothing is damaged on the way, there is only the first."""
VERDICTS = {ExitCode.CONSISTENT, ExitCode.INCONSISTENT, ExitCode.UNDECIDED}


class ChaosError(AuditError):
    """A process has ended, or has not done in time, what it should; the message says which."""


class StoppedError(Exception):
    """The round is to end early."""


@final
class Processes:
    """All processes of a round, in a directory of its own; a context manager that ends them.

    Args:
        directory: New, or empty.
        plan: Which fleet it is.
        stop: Set it to end the round early.
    """

    def __init__(self, directory: Path, plan: Plan, stop: threading.Event) -> None:
        self._stop = stop
        self._directory = directory
        self._plan = plan
        self._started: list[subprocess.Popen[str]] = []
        # A port that stays, also when the broker is started again.
        self._broker = LocalBroker(directory / "broker", port=free_base_port(2))
        self._lab: LabFleet | None = None
        self._audit: subprocess.Popen[str] | None = None
        self._fleet: subprocess.Popen[str] | None = None
        self._relay: Relay | None = None
        self._lives = 0
        self._counted, self._rows = "", 0

    @property
    def damage(self) -> Mapping[tuple[Damage, str], int]:
        """What was done to the messages of which instance, and how often."""
        return {} if self._relay is None else self._relay.done

    @property
    def tables(self) -> Path:
        """Those of the audit."""
        return self._directory / ".tallystick" / "audit" / "tables"

    @property
    def _audited(self) -> str:
        """The prefix of the topics that are audited."""
        return AUDITED if self._plan.damage else PRODUCER

    def __enter__(self) -> Processes:
        """Start the broker with its topics, the audit, then the fleet."""
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what runs."""
        for process in self._started:
            for pid in (process.pid, *_descendants(process.pid)):
                send(pid, signal.SIGKILL)
            process.communicate()
        if self._lab is not None:
            self._lab.close()
        send(self.broker_pid(), signal.SIGCONT)
        self._broker.stop()

    def _start_all(self) -> None:
        self._directory.mkdir(parents=True)
        if self._plan.is_lab:
            port = free_base_port(len(SERVERS))
            self._lab = LabFleet(self._directory / "lab", port, self._plan.seed)
            self._lab.start()
        self._broker.start()
        servers = self._broker.bootstrap_servers
        for prefix in (PRODUCER, self._audited):
            prepare_topics(Settings(bootstrap_servers=servers, topic_prefix=prefix), *TOPICS)
        self.start_audit()
        self.wait(
            (self.tables.parent / "checkpoint" / "auditor" / "offsets").exists, "the first batch"
        )
        plan = self._plan
        if plan.damage:
            self._relay = Relay(servers, PRODUCER, AUDITED, seed=plan.seed, share=plan.damage)
            self._relay.start()
        self.start_fleet()

    # What acts do

    def audit_pid(self) -> int:
        """The audit's process."""
        return self._running(self._audit).pid

    def fleet_pid(self) -> int:
        """The producer's process."""
        return self._running(self._fleet).pid

    def jvm_pid(self) -> int:
        """The audit's JVM."""
        found = [pid for pid in _children(self.audit_pid()) if _command(pid).endswith("java")]
        if not found:
            raise ChaosError("the audit has no JVM")
        return found[0]

    def broker_pid(self) -> int:
        """The broker's process; 0: it has none."""
        process = self._broker.status().process
        return 0 if process is None else process.pid

    def workers(self) -> list[int]:
        """The Python workers of the audit's JVM, without the process that forks them."""
        return [pid for pid in _descendants(self.jvm_pid()) if not _children(pid)]

    def start_audit(self) -> None:
        """Start it, as a service manager would."""
        interval = ("--collect-interval-s", str(INTERVAL_S))
        self._audit = self._start("audit", "--topic-prefix", self._audited, "--json", *interval)

    def kill_audit(self) -> None:
        """By ``kill -9``."""
        _kill(self._running(self._audit))

    def end_audit(self) -> None:
        """By SIGTERM; its status is a verdict."""
        send(self.audit_pid(), signal.SIGTERM)
        self._expect(self._running(self._audit), VERDICTS)

    def kill_jvm(self) -> None:
        """By ``kill -9``: the audit ends, and its status is that another try may succeed."""
        send(self.jvm_pid(), signal.SIGKILL)
        self._expect(self._running(self._audit), {ExitCode.FAILED})

    def kill_broker(self) -> None:
        """By ``kill -9``."""
        send(self.broker_pid(), signal.SIGKILL)

    def fill_broker(self) -> None:
        """Let no file of the broker become longer, as if there was no space left: it ends by it."""
        pid = self.broker_pid()
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))

    def restart_broker(self) -> None:
        """End what is left of it, and start it at the same port."""
        self._broker.stop()
        self._broker.start()

    def start_fleet(self, *, clock_us: int = 0) -> None:
        """Start a producer: of the lab one that goes on, else of servers that are set up anew.

        Args:
            clock_us: How fast the clock of its machine is.
        """
        plan = self._plan
        if self._lab is not None:
            config = ("--topic-prefix", PRODUCER, "--config", str(self._lab.config_file))
            self._fleet = self._start("tail", *config, clock_us=clock_us)
        else:
            self._fleet = self._start(
                "simulate",
                *("--topic-prefix", PRODUCER, "--topology", plan.topology),
                *("--seed", str(plan.seed + self._lives * SEEDS_APART)),
                *("--fault", plan.canary, "--fault-at-ms", str(FAULT_AT_MS)),
                clock_us=clock_us,
            )
            self._lives += 1
        errors = self._errors_of(self._fleet)
        self.wait(lambda: WRITES in errors.read_text("utf-8", "replace"), "producer that writes")

    def kill_fleet(self) -> None:
        """By ``kill -9``."""
        _kill(self._running(self._fleet))

    def replace_fleet(self) -> None:
        """Start a second producer of the same journals: the first one ends, and says why."""
        first, self._fleet = self._running(self._fleet), None
        self.start_fleet()
        self._expect(first, {ExitCode.SUPERSEDED})

    @property
    def lab(self) -> LabFleet:
        """The real servers of a round with a lab."""
        assert self._lab is not None
        return self._lab

    @staticmethod
    def _running(process: subprocess.Popen[str] | None) -> subprocess.Popen[str]:
        assert process is not None
        return process

    def rest(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            StoppedError: The round is to end.
        """
        if self._stop.wait(seconds):
            raise StoppedError

    def rows(self) -> int:
        """How many answers to collections are in the tables."""
        from tallystick.streaming import table_reader

        commits = (self.tables / "cuts" / "_delta_log").glob("*.json")
        newest = max((commit.name for commit in commits), default="")
        # Whoever waits for rows asks twice a second: only what was written since is read.
        if newest != self._counted:
            cuts = table_reader.read_cuts(self.tables)
            self._counted, self._rows = newest, sum(cut.answer == "row" for cut in cuts)
        return self._rows

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition, as long as audit and fleet run.

        Raises:
            ChaosError: One of them has ended, or it is too late.
        """
        end = time.monotonic() + DEADLINE_S
        while not condition():
            for name, process in (("the audit", self._audit), ("the producer", self._fleet)):
                if process is not None and process.poll() is not None:
                    raise ChaosError(
                        f"{name} ended by itself with status {process.returncode}, while waiting"
                        f" for {what}: {self._errors(process)}"
                    )
            if time.monotonic() > end:
                raise ChaosError(f"no {what} within {DEADLINE_S:.0f} s")
            self.rest(POLL_S)

    def finish(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """End the fleet, then the audit, and audit what is left; its result, and the replay's."""
        send(self.fleet_pid(), signal.SIGINT)
        self._expect(self._running(self._fleet), {ExitCode.CONSISTENT})
        if self._relay is not None:
            self._relay.close()
        self.end_audit()
        audited = self._result(
            "audit", "--topic-prefix", self._audited, "--available-now", "--json"
        )
        journal = self._directory / "journal.jsonl"
        journal.write_text(
            self._output("journal", "--topic-prefix", PRODUCER, expected={ExitCode.CONSISTENT}),
            "utf-8",
        )
        return audited, self._result("replay", str(journal), "--history-goes-on", "--json")

    def _result(self, *arguments: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self._output(*arguments, expected=VERDICTS))
        return document

    def _output(self, *arguments: str, expected: set[ExitCode]) -> str:
        return self._expect(self._start(*arguments), expected)

    def _expect(self, process: subprocess.Popen[str], expected: set[ExitCode]) -> str:
        """Wait for the end of a process; what it wrote to standard output."""
        try:
            output, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise ChaosError(
                f"{_command_line(process)} did not end within {DEADLINE_S:.0f} s"
            ) from None
        if process.returncode not in expected:
            raise ChaosError(
                f"{_command_line(process)} ended with status {process.returncode}:"
                f" {self._errors(process)}"
            )
        return output

    def _errors_of(self, process: subprocess.Popen[str]) -> Path:
        return self._directory / f"errors.{self._started.index(process)}"

    def _errors(self, process: subprocess.Popen[str]) -> str:
        text = self._errors_of(process).read_text("utf-8", "replace")
        return " | ".join(text.splitlines()[-3:])

    def _start(self, *arguments: str, clock_us: int = 0) -> subprocess.Popen[str]:
        """A command of tallystick, out of reach of a Ctrl-C in the terminal."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}
        # The commands are those of this installation, wherever the directory is.
        here = str(Path(__file__).absolute().parents[2])
        path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
        servers = self._broker.bootstrap_servers
        with (self._directory / f"errors.{len(self._started)}").open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, str(1_000 * clock_us), *arguments],
                cwd=self._directory,
                env=kept | {"PYTHONPATH": path, f"{PREFIX}BOOTSTRAP_SERVERS": servers},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._started.append(process)
        return process


def _command_line(process: subprocess.Popen[str]) -> str:
    assert isinstance(process.args, list)
    return " ".join(["tallystick", *process.args[4:]])


def _kill(process: subprocess.Popen[str]) -> None:
    send(process.pid, signal.SIGKILL)
    process.wait()


def send(pid: int, number: signal.Signals) -> None:
    """Signal one process, which may have ended; 0 is none."""
    if pid:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text("ascii").split())
        except OSError:
            continue
    return found


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode("utf-8", "replace")
    except OSError:
        return ""
