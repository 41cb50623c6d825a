"""What is set aside before state is made anew."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tallystick.cli import run_command
from tallystick.errors import ExitCode, MisuseError
from tallystick.process import run
from tallystick.runs.rebuild import earlier_findings, finish_set_aside, set_aside, whole_commands
from tallystick.settings import Settings
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.errors import CheckpointError, StreamingError
from tallystick.streaming.table_reader import read_findings
from tallystick.streaming.table_sink import TableSink
from tests.support.results import finding

LAYOUT = Layout(2, "t")
FINDING = finding(ts=5)


def audited(directory) -> None:
    with CheckpointLocation(directory / "checkpoint", LAYOUT):
        TableSink(directory / "tables", "run").write(0, findings=[FINDING])


def test_state_and_tables_are_moved_whatever_is_in_them(tmp_path):
    """Twice, too; what was found before can be compared where it can be read."""
    audited(tmp_path)
    first = set_aside(tmp_path)
    assert [FINDING] == earlier_findings(first)
    assert not (tmp_path / "tables").exists()
    audited(tmp_path)
    for file in tmp_path.glob("tables/findings/*.parquet"):
        file.write_bytes(b"")
    second = set_aside(tmp_path)
    assert first != second
    assert earlier_findings(second) is None


class Killed(BaseException):
    """As by signal 9: nothing is cleaned up."""


def kill_at(monkeypatch, number):
    """Raise instead of the change of a directory with this number."""
    changes = count()
    for name in ("mkdir", "touch", "rename", "replace", "unlink"):
        real = getattr(Path, name)

        def change(path, *arguments, real=real, **named):
            if next(changes) == number:
                raise Killed
            return real(path, *arguments, **named)

        monkeypatch.setattr(Path, name, change)


def kept(directory):
    """What is where, whatever the time of it; an empty directory is nothing."""
    files = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    shown = (re.sub(r"(rebuild|part)-[^/]+", r"\1", "/".join(path.parts[:3])) for path in files)
    return {name for name in shown if not name.endswith(".tmp")}


@pytest.mark.parametrize("resume", [set_aside, finish_set_aside])
def test_what_is_killed_while_it_sets_aside_is_finished(tmp_path, monkeypatch, resume):
    """At each change of a directory; by the next rebuild, or by the next audit."""
    audited(tmp_path / "done")
    untouched = kept(tmp_path / "done")
    set_aside(tmp_path / "done")
    done = kept(tmp_path / "done")
    killed = []
    for number in range(20):
        directory = tmp_path / str(number)
        audited(directory)
        with monkeypatch.context() as patched, suppress(Killed):
            kill_at(patched, number)
            set_aside(directory)
            break
        killed.append(kept(directory))
        is_begun = any("/checkpoint/" in name for name in killed[-1])
        resume(directory)
        assert kept(directory) == (done if is_begun or resume is set_aside else untouched)
    assert len(killed) >= 6
    assert sum(one != untouched for one in killed) >= 4


def test_a_running_job_is_left_alone(tmp_path):
    """Nothing is moved, and nothing is left behind."""
    audited(tmp_path)
    with CheckpointLocation(tmp_path / "checkpoint", LAYOUT):
        before = sorted(tmp_path.iterdir())
        with pytest.raises(CheckpointError, match="Another job runs"):
            set_aside(tmp_path)
        assert before == sorted(tmp_path.iterdir())


def test_without_an_audit_there_is_nothing_to_make_anew(tmp_path):
    """A wrong directory is no reason to make one."""
    with pytest.raises(MisuseError, match="nothing to make anew"):
        set_aside(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("file", ["layout.json", "auditor/offsets/0"])
def test_damage_of_the_checkpoint_is_a_usage_error_of_one_sentence(tmp_path, capsys, file):
    """Status 2: another try does not help."""
    audited(tmp_path)
    path = tmp_path / "checkpoint" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}")
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0\0\0\2\0\0\0\0\0")

    def command() -> int:
        with CheckpointLocation(tmp_path / "checkpoint", LAYOUT):
            return run_command(["--version"])

    assert ExitCode.MISUSE == run(command)
    assert "is damaged" in (said := capsys.readouterr().err)
    assert "To fix: make the run again" in said


def goes_on(directory) -> None:
    """Read what a job goes on from, and what the report is of, with flags of a job."""
    with whole_commands(
        Settings(topic_prefix="t", instances=("a b", "c"), bootstrap_servers="b:1")
    ):
        read_findings(directory / "tables")
        with CheckpointLocation(directory / "checkpoint", LAYOUT):
            pass


def fix_of(directory, file) -> str:
    """What fixes a damaged file, as the error says."""
    audited(directory)
    next(directory.glob(file)).write_bytes(b"{}")
    with pytest.raises(StreamingError, match=" To fix: ") as caught:
        goes_on(directory)
    return str(caught.value).partition(" To fix: ")[2]


@pytest.mark.parametrize(
    "file",
    ["checkpoint/layout.json", "tables/findings/_checksums", "tables/findings/_delta_log/*0.json"],
)
def test_the_command_that_makes_all_anew_can_be_pasted(tallystick, tmp_path, file):
    """With the directory, and with what decides which journal is judged how."""
    state = tmp_path / "it's here"
    command = fix_of(state / "audit", file)
    assert shlex.split(command) == [
        *("tallystick", "rebuild", "--bootstrap-servers", "b:1", "--topic-prefix", "t"),
        *("--instance", "a b", "--instance", "c", "--directory", str(state)),
    ]
    ran = tallystick(*shlex.split(command)[1:], "--nothing")
    assert "No such option: --nothing" in ran.err
    assert set_aside(state / "audit").parent == state / "audit"


def test_what_no_audit_has_written_is_made_by_another_run(tmp_path):
    """A rebuild would find no state there, whatever a directory above is called."""
    assert fix_of(tmp_path / "audit" / "demo", "tables/findings/_checksums") == "make the run again"
