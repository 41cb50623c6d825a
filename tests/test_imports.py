"""The direction of imports, read from the sources; and that the core needs nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {
    "coordinates": set(),
    "producers": {"coordinates"},
    "streaming": {"coordinates"},
    "expectations": {"coordinates"},
    "deploy": {"coordinates"},
    "tallystick": {"coordinates", "producers", "streaming", "expectations", "deploy"},
}
# Libraries with one home: nobody else imports them.
HOMES = {
    "pyspark": {"streaming", "expectations"},
    "great_expectations": {"expectations"},
    "confluent_kafka": {"producers"},
    "kafka": {"producers"},
    "pymysql": {"producers"},
    "typer": {"tallystick"},
    "aiohttp": {"tallystick"},
    "pydantic_settings": {"tallystick"},
}
# A simulator that shares the checker's reasoning shares its mistakes.
BEYOND_PRODUCERS = ("tallystick.coordinates.rules", "tallystick.coordinates.audit.instance")
IN_COORDINATES = {"msgspec", "numpy", "pyarrow"}
# No input or output, no clock, no randomness, no logging in the domain.
NOT_IN_COORDINATES = {
    *("asyncio", "io", "logging", "multiprocessing", "os", "pathlib", "random", "secrets"),
    *("shutil", "socket", "sqlite3", "subprocess", "tempfile", "threading", "time", "urllib"),
}


def imported_names(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and full name of everything that a source imports, wherever it does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, f"{node.module or '.'}.{alias.name}"


def package_of(name: str) -> str | None:
    """The package of ours that a full name belongs to: a folder of tallystick, or tallystick."""
    top, _, rest = name.partition(".")
    if top != "tallystick":
        return None
    inner = rest.partition(".")[0]
    return inner if inner in OURS else "tallystick"


def wrong_imports(package: str, source: str) -> list[str]:
    """Says which imports of a package's source go against the direction."""
    found = []
    for line, name in imported_names(source):
        top, ours = name.partition(".")[0], package_of(name)
        if not top:
            found.append(f"line {line}: relative import")
        elif top in {"tests", "benchmarks"}:
            found.append(f"line {line}: {package} imports {name}")
        elif top in OURS and ours is None:
            found.append(f"line {line}: {name} is imported as tallystick.{name}")
        elif ours is not None and ours != package and ours not in OURS[package]:
            found.append(f"line {line}: {package} imports {name}; it may import {OURS[package]}")
        elif top in HOMES and package not in HOMES[top]:
            found.append(f"line {line}: {package} imports {name}, at home in {HOMES[top]}")
        elif package == "producers" and f"{name}.".startswith(
            tuple(f"{beyond}." for beyond in BEYOND_PRODUCERS)
        ):
            found.append(f"line {line}: producers import {name}, the checker's reasoning")
        elif package == "coordinates" and (
            top in NOT_IN_COORDINATES
            or (ours is None and top not in IN_COORDINATES | sys.stdlib_module_names)
        ):
            found.append(f"line {line}: the domain imports {name}")
    return found


@pytest.mark.parametrize("package", sorted(OURS))
def test_no_arrow_turns(package: str) -> None:
    """Every import of every module of a package goes the agreed way."""
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules, f"{package} has no modules"
    turned = [
        f"{module.relative_to(ROOT)}, {wrong}"
        for module in modules
        for wrong in wrong_imports(package, module.read_text("utf-8"))
    ]
    assert turned == []


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("coordinates", "import tallystick.producers"),
        ("coordinates", "from tallystick.deploy.jars import Jar"),
        ("coordinates", "from tallystick.settings import Settings"),
        ("producers", "from coordinates.values.gtid import GtidSet"),
        ("tallystick", "import streaming.auditor"),
        ("coordinates", "def f():\n    import pandas"),
        ("coordinates", "import logging"),
        ("coordinates", "from . import gtid"),
        ("producers", "from tallystick.coordinates.rules import registry"),
        ("producers", "from tallystick.coordinates.audit import instance"),
        ("producers", "import tallystick.coordinates.audit.instance as a"),
        ("producers", "import pyspark.sql"),
        ("streaming", "from tallystick.expectations.suite import build"),
        ("streaming", "import kafka"),
        ("streaming", "if TYPE_CHECKING:\n    import great_expectations"),
        ("expectations", "from confluent_kafka.admin import AdminClient"),
        ("deploy", "import tallystick.settings"),
        ("tallystick", "from pyspark.sql import SparkSession"),
        ("tallystick", "from tests.support import builders"),
    ],
)
def test_an_arrow_that_turns_is_seen(package: str, source: str) -> None:
    """The check itself: one example of each way to break the direction."""
    assert len(wrong_imports(package, source)) == 1


@pytest.mark.parametrize(
    ("package", "source"),
    [
        (
            "coordinates",
            "import numpy as np\nfrom tallystick.coordinates.values.gtid import GtidSet\nimport re",
        ),
        ("producers", "import kafka\nfrom tallystick.coordinates.auditing_is_not_audit import x"),
        (
            "streaming",
            "from pyspark.sql import functions\nimport tallystick.coordinates.audit.instance",
        ),
        (
            "tallystick",
            "import typer\nimport tallystick.deploy.jars\nimport tallystick.streaming.auditor",
        ),
    ],
)
def test_the_agreed_direction_is_allowed(package: str, source: str) -> None:
    """The check does not cry over what is agreed."""
    assert wrong_imports(package, source) == []


def modules_of(packages: Iterable[str]) -> dict[str, Path]:
    """The modules of packages by their full names."""
    found = {}
    for package in packages:
        top = ROOT / package
        for path in sorted(top.rglob("*.py")):
            inside = path.relative_to(top).with_suffix("").parts
            if package == "tallystick" and inside[0] in OURS:
                continue  # a link to another package
            name = ("tallystick", *(() if package == "tallystick" else (package,)), *inside)
            found[".".join(name).removesuffix(".__init__")] = path
    return found


def import_graph(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """Whom each module imports: on loading, in a function, and for types alone."""
    graph: dict[str, set[str]] = {}
    for module, source in modules.items():
        graph[module] = set()
        for _, name in imported_names(source):
            target = name
            while target and target not in modules:
                target = target.rpartition(".")[0]
            if target and target != module:
                graph[module].add(target)
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan), largest first."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in number:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], number[target])
        if lowest[module] == number[module]:
            start = stack.index(module)
            found.append(sorted(stack[start:]))
            del stack[start:]

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return sorted((cycle for cycle in found if len(cycle) > 1), key=len, reverse=True)


def test_readers_of_logs_know_no_rule() -> None:
    """They report anomalies; which rule each breaks is the registry's affair."""
    readers = sorted((ROOT / "coordinates" / "logs").glob("*.py"))
    assert len(readers) > 5
    imported = {name for path in readers for _, name in imported_names(path.read_text("utf-8"))}
    assert not [name for name in imported if name.startswith("tallystick.coordinates.rules")]


def test_no_import_cycle_is_larger_than_three_modules() -> None:
    """Imports for types alone and inside functions count: what they hide is coupling too."""
    sources = {name: path.read_text("utf-8") for name, path in modules_of(OURS).items()}
    assert len(sources) > 300
    graph = import_graph(sources)
    large = [
        "\n".join(f"{one} -> {', '.join(sorted(graph[one] & set(cycle)))}" for one in cycle)
        for cycle in cycles(graph)
        if len(cycle) > 3
    ]
    assert not large, "\n\n".join(large)


def test_a_cycle_is_found_wherever_its_imports_are() -> None:
    """The check itself: one import on loading, one for types, one in a function."""
    graph = import_graph(
        {
            "tallystick.a": "from tallystick.b import x",
            "tallystick.b": "if TYPE_CHECKING:\n    import tallystick.c",
            "tallystick.c": "def f():\n    from tallystick import a",
            "tallystick.d": "import tallystick.a",
        }
    )
    assert cycles(graph) == [["tallystick.a", "tallystick.b", "tallystick.c"]]


def test_the_domain_is_imported_without_its_users() -> None:
    """Every module of coordinates is imported where only these packages can be."""
    program = f"""
import importlib, pkgutil, sys
allowed = {sorted(IN_COORDINATES | {"tallystick"})!r}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        # What these themselves try to import, they must do without.
        if top not in allowed and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"refused: {{name}}", name=name)
sys.meta_path.insert(0, Refuse())
for name in ("pyspark", "great_expectations", "pandas"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        continue
    sys.exit(f"{{name}} can be imported: the test tests nothing")
import tallystick.coordinates
for module in pkgutil.walk_packages(tallystick.coordinates.__path__, "tallystick.coordinates."):
    importlib.import_module(module.name)
print("imported")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


def test_preflight_needs_only_the_standard_library() -> None:
    """`make` runs it before anything is installed."""
    source = (ROOT / "deploy" / "preflight.py").read_text("utf-8")
    tops = {name.partition(".")[0] for _, name in imported_names(source)}
    assert tops <= set(sys.stdlib_module_names)
