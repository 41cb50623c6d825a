"""What is shipped: the wheel's contents, the locks, the service's unit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from itertools import chain
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDERS = ("coordinates", "producers", "streaming", "expectations", "deploy")
LOCKS = ("requirements/build.txt", "requirements/lock.txt")


def test_the_wheel_has_one_package_with_all_files_and_nothing_else(tmp_path: Path) -> None:
    """Every file is in it under tallystick, templates and lists included; tests are not."""
    pytest.importorskip("hatchling", reason="set-up by make installs it")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entry_points = archive.read("tallystick-0.1.0.dist-info/entry_points.txt").decode()
    assert {name.partition("/")[0] for name in names} == {
        "tallystick",
        "tallystick-0.1.0.dist-info",
    }
    sources = {
        (to / path.relative_to(folder)).as_posix()
        for folder, to in [
            (ROOT / "tallystick", Path("tallystick")),
            *((ROOT / name, Path("tallystick", name)) for name in FOLDERS),
        ]
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert all((ROOT / "tallystick" / name).readlink() == Path("..", name) for name in FOLDERS)
    assert sources <= names
    assert "tallystick = tallystick.cli:main" in entry_points


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_is_exact_and_has_hashes(lock: str) -> None:
    """No range, no address, no path: a name, a version and its sums."""
    text = (ROOT / lock).read_text("utf-8").replace("\\\n", " ")
    entries = [line for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    assert entries
    pinned = re.compile(r"[a-z0-9._-]+==[^ ]+( ; [^-]+)?( +--hash=sha256:[0-9a-f]{64})+ *")
    assert [line for line in entries if not pinned.fullmatch(line)] == []


def test_the_lock_has_what_the_project_asks_for() -> None:
    """A dependency that was added without `make lock` is found here, not at set-up."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *chain.from_iterable(project["project"]["optional-dependencies"].values()),
        *project["dependency-groups"]["dev"],
    ]
    names = {re.match(r"[A-Za-z0-9-]+", entry).group().lower() for entry in wanted}
    lock = (ROOT / LOCKS[1]).read_text("utf-8")
    locked = set(re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE))
    assert {"numpy", "pyspark", "pymysql", "pytest"} <= names
    assert names <= locked


def test_the_service_unit_is_one_that_systemd_accepts(tmp_path: Path) -> None:
    """Systemd's own checker finds nothing to say."""
    checker = shutil.which("systemd-analyze")
    if checker is None:
        pytest.skip("no systemd-analyze on this machine")
    name = "tallystick-audit.service"
    unit = (ROOT / "deploy" / name).read_text("utf-8")
    command = re.search(r"^ExecStart=(\S+)", unit, re.MULTILINE)
    assert command is not None
    # The checker wants the program to exist, here.
    (tmp_path / name).write_text(unit.replace(command.group(1), "/bin/true"), "utf-8")
    done = subprocess.run(
        [checker, "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    about_ours = [line for line in done.stderr.splitlines() if name in line]
    assert about_ours == []
