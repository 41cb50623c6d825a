"""Backups that real tools make of real servers under load: what is true of them, and what is not.

Marked mysqld, by its fixture; without mydumper or a dump client a test is skipped and says so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tallystick.certify.history import History, histories_of
from tallystick.certify.judge import Judgement, Truth, judge
from tallystick.certify.statements import start_statements
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.mysql_lab.accounts import REPLICATION
from tallystick.producers.mysql_lab.layout import REPLICA_1, SOURCE_A, SOURCE_B
from tallystick.producers.mysql_lab.load import LoadPlan, database_of
from tallystick.producers.mysql_lab.sessions import session
from tallystick.runs.certify import read_backup
from tallystick.servers.lab import Lab
from tests.support.tails import RunningTail, running, settings_of

# Neither DDL, at which a dump without locks fails, nor MyISAM, which no snapshot holds still.
PLAN = LoadPlan(
    (SOURCE_A,), rate=300, threads=6, seconds=900, kinds=("innodb", "multi_statement", "rollback")
)
DATABASE = database_of(SOURCE_A)
ATTEMPTS = 30
APPLIED_S = 60


class Tools(NamedTuple):
    """How backups are made, and where to."""

    lab: Lab
    options: Path
    directory: Path

    def run(self, server: str, *command: str, output: Path | None = None) -> None:
        program = shutil.which(command[0])
        if program is None:
            pytest.skip(f"{command[0]} is not installed")
        # Both clients take it; the dump client only as its first option.
        flag = "defaults-file" if command[0] == "mydumper" else "defaults-extra-file"
        address = [f"--{flag}={self.options}", f"--port={self.lab.addresses()[server].port}"]
        arguments = [program, *address, *command[1:]]
        ran = subprocess.run(arguments, capture_output=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr.decode()
        if output is not None:
            output.write_bytes(ran.stdout)

    def mydumper(self, name: str, *options: str, server: str = SOURCE_A) -> Path:
        made = self.directory / name
        command = ("mydumper", f"--database={DATABASE}", f"--outputdir={made}", *options)
        try:
            self.run(server, *command)
        except subprocess.TimeoutExpired:
            # Seen once: it had not ended after two minutes, and takes a second. Why is not known,
            # so what the server then does is printed.
            with session(self.lab.addresses()[server]) as root:
                statements = root.rows("SHOW FULL PROCESSLIST")
            warnings.warn(f"mydumper did not end, server: {statements}", stacklevel=2)
            shutil.rmtree(made, ignore_errors=True)
            self.run(server, *command)
        return made

    def dump(self, name: str, *options: str, server: str = SOURCE_A) -> Path:
        made = self.directory / f"{name}.sql"
        of_all = ("--single-transaction", "--databases", DATABASE)
        self.run(server, "mysqldump", *options, *of_all, output=made)
        return made


@pytest.fixture(scope="module")
def tools(own_mysqld: Lab, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """An account that clients of any maker can log in with, in a file that only we read."""
    directory = tmp_path_factory.mktemp("backups")
    options, password = directory / "client.cnf", "backup-of-the-lab"
    with session(own_mysqld.addresses()[SOURCE_A]) as root:
        root.run(f"CREATE USER b@localhost IDENTIFIED WITH mysql_native_password BY '{password}'")
        root.run("GRANT ALL ON *.* TO b@localhost")
    options.write_text(f"[client]\nuser=b\npassword={password}\nhost=127.0.0.1\nprotocol=tcp\n")
    options.chmod(0o600)
    own_mysqld.await_applied()
    return Tools(own_mysqld, options, directory)


@pytest.fixture
def followed(tools: Tools) -> Iterator[dict[str, RunningTail]]:
    """The source and a replica, followed while there is load on the source."""
    lab = tools.lab
    with (
        running(settings_of(lab, SOURCE_A)) as source,
        running(settings_of(lab, REPLICA_1)) as replica,
    ):
        tails = {SOURCE_A: source, REPLICA_1: replica}
        for tail in tails.values():
            tail.collect("before")
        load = lab.make_load(PLAN)
        load.start()
        try:
            yield tails
        finally:
            load.stop()
            assert load.finish().total > 0


def journals(tools: Tools, followed: dict[str, RunningTail]) -> dict[str, History]:
    """The journals up to now."""
    for name, tail in followed.items():
        with session(tools.lab.addresses()[name]) as server:
            now = server.rows("SHOW MASTER STATUS")[0]
        tail.wait_until_at(str(now["File"]), int(now["Position"]))
        tail.collect("after")
    return histories_of([block for tail in followed.values() for block in tail.sink.blocks])


def certified(made: Path, histories: dict[str, History], server: str = SOURCE_A) -> Judgement:
    return judge(read_backup(made), histories, server)


def executed_at(tools: Tools, judgement: Judgement) -> GtidSet:
    """What the source had logged up to the position, as its own SHOW BINLOG EVENTS has it."""
    position = judgement.backup.position
    assert position is not None
    with session(tools.lab.addresses()[SOURCE_A]) as server:
        rows = server.rows(f"SHOW BINLOG EVENTS IN '{position.file_name}'")
    texts = [
        re.sub("^SET @@SESSION.GTID_NEXT= '(.*)'$", r"\1", str(row["Info"]))
        for row in rows
        if row["Event_type"] in ("Gtid", "Previous_gtids")
        and int(row["End_log_pos"]) <= position.position
    ]
    found = GtidSet.EMPTY
    for text in texts:
        found = found | GtidSet.parse(text)
    return found


def test_backups_with_locks_are_true(tools: Tools, followed: dict[str, RunningTail]) -> None:
    """Of the source under load, by both tools, and of a replica with its position in the source."""
    made = [tools.mydumper("locked"), tools.dump("locked", "--master-data=2")]
    of_replica = [
        tools.mydumper("locked-replica", server=REPLICA_1),
        tools.dump("locked-replica", "--dump-slave=2", server=REPLICA_1),
    ]
    histories = journals(tools, followed)
    for one in made:
        judged = certified(one, histories)
        assert judged.truth is Truth.TRUE, judged.checks
    for one in of_replica:
        judged = certified(one, histories, REPLICA_1)
        assert judged.truth is Truth.TRUE, judged.checks
        assert judged.backup.replica


def test_backups_without_locks_are_not(tools: Tools, followed: dict[str, RunningTail]) -> None:
    """Set and position are read one after the other: where they differ it is never TRUE."""
    made = []
    for number in range(ATTEMPTS):
        made.append(tools.mydumper(f"unlocked-{number}", "--no-locks"))
        judged = certified(made[-1], journals(tools, followed))
        if judged.backup.gtids != executed_at(tools, judged):
            break
    histories = journals(tools, followed)
    found = [certified(one, histories) for one in made]
    truths = [judged.truth for judged in found]
    right = [judged.backup.gtids == executed_at(tools, judged) for judged in found]
    assert [truth is Truth.TRUE for truth in truths] == right
    assert False in right, "every set was right by chance"
    assert truths[-1] is Truth.FALSE


def test_backups_broken_by_hand_are_not(tools: Tools, followed: dict[str, RunningTail]) -> None:
    """Each digit of the position, and each end of the set, by one."""
    made = tools.mydumper("broken")
    metadata = made / "metadata"
    text = metadata.read_text()
    tools.dump("later", "--master-data=2")
    histories = journals(tools, followed)
    assert certified(made, histories).truth is Truth.TRUE
    for pattern in (r"(?<=Pos: )\d+", r"(?<=-)\d+$", r"(?<=binlog\.)\d+"):
        for step in (-1, 1):
            broken = re.sub(
                pattern,
                lambda m, step=step: f"{int(m[0]) + step:0{len(m[0])}}",  # type: ignore[misc]
                text,
                count=1,
                flags=re.MULTILINE,
            )
            assert broken != text
            metadata.write_text(broken)
            if ".000000" in broken:
                continue  # no file has that name: refused when it is read
            judged = certified(made, histories)
            assert judged.truth is not Truth.TRUE, (broken, judged.checks)


def test_replication_starts_from_a_true_backup(
    tools: Tools, followed: dict[str, RunningTail]
) -> None:
    """The printed statements, on a server that the dump was loaded into: nothing is lost."""
    made = tools.dump("whole", "--master-data=2")
    by_gtid = tools.mydumper("whole")
    histories = journals(tools, followed)
    judged = certified(made, histories)
    (by_position,) = start_statements(judged)
    assert "SOURCE_LOG_POS" in by_position
    reset, purged, auto = start_statements(certified(by_gtid, histories))
    lab, addresses = tools.lab, tools.lab.addresses()
    with session(addresses[SOURCE_B]) as replica:
        replica.run("SET GLOBAL super_read_only = OFF")
        replica.run("CREATE USER b@localhost IDENTIFIED WITH mysql_native_password BY 'x'")
        replica.run("GRANT ALL ON *.* TO b@localhost")
        replica.run("ALTER USER b@localhost IDENTIFIED WITH mysql_native_password"
                    " BY 'backup-of-the-lab'")  # fmt: skip
        program = shutil.which("mysql")
        if program is None:
            pytest.skip("mysql is not installed")
        client = [program, f"--defaults-extra-file={tools.options}",
                  f"--port={addresses[SOURCE_B].port}"]  # fmt: skip
        with made.open("rb") as dump:
            subprocess.run(client, stdin=dump, check=True, timeout=120)
        # Accepted as they are; the position of the dump is that of the data that were loaded.
        for statement in (reset, purged, auto, reset, by_position):
            replica.run(statement.rstrip(";"))
        replica.run(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = %s,"
            " SOURCE_USER = %s, SOURCE_PASSWORD = %s, SOURCE_SSL = 1",
            (addresses[SOURCE_A].port, REPLICATION, lab.accounts.replication),
        )
        replica.run(by_position.rstrip(";"))
        replica.run("START REPLICA")
        with session(addresses[SOURCE_A]) as source:
            source.run("FLUSH TABLES WITH READ LOCK")
            now = source.rows("SHOW MASTER STATUS")[0]
            waited = replica.value(
                "SELECT SOURCE_POS_WAIT(%s, %s, %s)", (now["File"], now["Position"], APPLIED_S)
            )
            status = replica.rows("SHOW REPLICA STATUS")[0]
            assert waited is not None, status["Last_SQL_Error"]
            assert waited >= 0, status
            tables = [next(iter(row.values())) for row in source.rows(f"SHOW TABLES IN {DATABASE}")]
            assert tables
            names = ", ".join(f"{DATABASE}.{name}" for name in tables)
            expected = source.rows(f"CHECKSUM TABLE {names}")
            assert expected == replica.rows(f"CHECKSUM TABLE {names}")
