"""Archives of classes: a real Java writes one and starts with it; nobody is hindered by one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tallystick.deploy import jars
from tallystick.deploy.class_archives import SPARK, recorded_archive, with_archive
from tallystick.deploy.errors import JarError
from tallystick.deploy.preflight import java_command

MAIN_CLASS = "org.apache.ivy.Main "


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache, whose name has what shells and Spark part words at."""
    home = tmp_path / "a home"
    monkeypatch.setenv("TALLYSTICK_HOME", str(home))
    return home / "jars"


def run(*options: str, jar: Path | None = None) -> str:
    """What a small program prints that was started with these options of Java."""
    command = [str(java_command()), *options, "-jar", str(jar or jars._ivy_jar()), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Apache Ivy" in done.stdout
    return done.stdout + done.stderr


def record() -> Path:
    with recorded_archive(SPARK) as options:
        run(*options)
    option, _ = with_archive(SPARK)
    return Path(option.partition("=")[2])


def test_what_was_recorded_is_started_with(cache):
    """Classes come out of the archive, without a word of Java; nothing else is left there."""
    assert () == with_archive(SPARK)
    archive = record()
    assert {archive.name, ".lock"} == {path.name for path in archive.parent.iterdir()}
    assert cache == archive.parent.parent
    said = run(*with_archive(SPARK), "-Xlog:class+load")
    (loaded,) = [line for line in said.splitlines() if MAIN_CLASS in line]
    assert "source: shared objects file (top)" in loaded
    assert run() == run(*with_archive(SPARK))


def test_another_program_is_not_hindered(cache, tmp_path):
    """The archive of other jars is passed over in silence."""
    record()
    other = Path(shutil.copyfile(jars._ivy_jar(), tmp_path / "other.jar"))
    said = run(*with_archive(SPARK), "-Xlog:class+load", jar=other)
    (loaded,) = [line for line in said.splitlines() if MAIN_CLASS in line]
    assert "shared" not in loaded
    assert run(jar=other) == run(*with_archive(SPARK), jar=other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content[:0],
    ],
    ids=["cut short", "one bit wrong", "empty"],
)
def test_one_that_is_damaged_is_not_used(cache, damage: Callable[[bytes], bytes]):
    """Java would end at it; the next recording replaces it."""
    archive = record()
    content = archive.read_bytes()
    archive.chmod(0o600)
    archive.write_bytes(damage(content))
    assert () == with_archive(SPARK)
    record()
    assert 1 == len(list(archive.parent.glob("*.jsa")))


def test_one_that_cannot_be_read_hinders_nobody(cache):
    """As another user's."""
    archive = record()
    archive.unlink()
    archive.mkdir()
    assert () == with_archive(SPARK)


def test_a_java_that_writes_none_leaves_the_earlier_one(cache):
    """As one that was killed."""
    archive = record()
    with pytest.raises(JarError, match="no archive"), recorded_archive(SPARK):
        pass
    assert with_archive(SPARK)[0].endswith(str(archive))
