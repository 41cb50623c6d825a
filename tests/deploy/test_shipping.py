"""What is shipped: the wheel's contents, the locks, the service's unit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from itertools import chain
from pathlib import Path

import pytest

from tests.end_to_end.test_demo import Page, processes_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
FOLDERS = ("coordinates", "producers", "streaming", "expectations", "deploy")
LOCKS = ("requirements/build.txt", "requirements/lock.txt")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


def build(source: Path, target: str, to: Path) -> Path:
    pytest.importorskip("hatchling", reason="set-up by make installs it")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(to)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    (built,) = to.iterdir()
    return built


def sums(wheel: Path) -> dict[str, int]:
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist()}


def test_the_wheel_has_one_package_with_all_files_and_nothing_else(wheel: Path) -> None:
    """Every file is in it under tallystick, templates and lists included; tests are not."""
    names = set(sums(wheel))
    with zipfile.ZipFile(wheel) as archive:
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
    assert "tallystick = tallystick.__main__:main" in entry_points


def test_the_source_archive_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """There the links are folders."""
    archive = build(ROOT, "sdist", tmp_path / "sdist")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    (source,) = tmp_path.glob("tallystick-*")
    assert sums(build(source, "wheel", tmp_path / "wheel")) == sums(wheel)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of programs of an environment with the wheel, not the checkout, in it.

    The other packages are those of the running environment.
    """
    pytest.importorskip("pip", reason="set-up by make installs it")
    environment = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(environment)
    programs = environment / "bin"
    into = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install"]
    subprocess.run(
        [*into, "--quiet", "--no-deps", "--no-index", str(wheel)], check=True, capture_output=True
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    beside = [path for path in sys.path if path.endswith("site-packages")]
    # Paths of a .pth file are searched after this environment, and their own .pth files are not.
    (packages / "beside.pth").write_text("".join(f"{path}\n" for path in beside))
    return programs


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """A directory whose own packages have the names of our folders, and cannot be imported."""
    for name in (*FOLDERS, "tests", "benchmarks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not ours')\n")
    return tmp_path


def run(*command: Path | str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TALLYSTICK_", "PYTHON")) or name == "TALLYSTICK_HOME"
    }
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_the_installed_command_ignores_packages_of_the_working_directory(
    installed: Path, workplace: Path
) -> None:
    """As a program, as a module, for which Python searches it first, and as pytest's plugin."""
    programs = [[installed / "tallystick"], [installed / "python", "-m", "tallystick"]]
    journal = workplace / "journal"
    for program in programs:
        journal.unlink(missing_ok=True)  # simulate writes over none
        made = run(
            *(*program, "simulate", "--topology", "pair", "--seed", "1", "--output", "journal"),
            cwd=workplace,
        )
        assert (0, "") == (made.returncode, made.stderr)
        replayed = run(*program, "replay", "journal", "--output", "html=page.html", cwd=workplace)
        assert (0, "") == (replayed.returncode, replayed.stderr)
        assert replayed.stdout.startswith("CONSISTENT")
    (workplace / "test_it.py").write_text(
        "import pathlib\n"
        "def test_it(tallystick_audit):\n"
        "    tallystick_audit(pathlib.Path('journal')).assert_consistent()\n"
    )
    tested = run(installed / "python", "-m", "pytest", "-q", "test_it.py", cwd=workplace)
    assert "1 passed" in tested.stdout, tested.stdout
    where = run(
        installed / "python",
        *("-c", "import tallystick.streaming.source as s; print(s.__file__)"),
        cwd=workplace,
    )
    assert where.stdout.startswith(str(installed.parent)), where.stderr


@pytest.mark.spark
@pytest.mark.broker
def test_the_installed_demo_names_a_fault_with_instance_channel_and_witness(
    installed: Path, workplace: Path
) -> None:
    """Exit 1, exactly the rules of the catalogue, as text, in JSON and in the page.

    Packages of the working directory are ignored by broker, Spark and its Python workers too.
    """
    options = ("--fault", "retrieved_inflated", "--seed", "2")
    done = run(installed / "tallystick", "demo", *options, cwd=workplace)
    assert 1 == done.returncode, done.stderr
    assert "not ours" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "tallystick: exit status 1, INCONSISTENT, is the expected"
    )
    assert "INCONSISTENT" in done.stdout
    assert "retrieved_matches_relay" in done.stdout
    [path] = workplace.glob(".tallystick/demo/*/report.json")
    report = json.loads(path.read_text("utf-8"))
    assert "INCONSISTENT" == report["verdict"]
    assert {"retrieved_matches_relay"} == {f["rule"] for f in report["findings"]}
    finding = report["findings"][0]
    assert finding["instance_id"]
    assert finding["channel"] is not None
    assert re.fullmatch(r"[0-9a-f-]{36}:\d+.*", finding["witness"])
    text = Page(path.with_name("report.html").read_text("utf-8")).text
    assert "retrieved_matches_relay" in text
    assert finding["witness"] in text
    assert [] == processes_in(workplace)


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
