"""`make mutate`: changes the code at random lines and prints the changes that no test notices.

A mutation run of tests, not a test. cosmic-ray finds the lines and makes the changes, in a copy
of the repository; a sample of them is drawn. Each runs the tests that import the changed file,
then those of its folder, then all, until one notices it. A session is a database under
``.tallystick/mutations``; interrupted, the same command resumes it, as long as the code that is
mutated is the same.

    python -m tests.mutations --sample 200 --seed 7 --minutes 60
"""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from uuid import uuid4
from zlib import crc32

import pytest
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, WorkItem

from tests.test_imports import OURS, imported_names, modules_of

ROOT = Path(__file__).parents[1]
SESSIONS = ROOT / ".tallystick/mutations"
MATERIAL = {f"producers/simulator/{name}" for name in ("faults", "negatives", "scenarios")}
"""Folders that are not mutated: they are themselves material of tests."""
_TESTS = Path("tests")
Position = tuple[int, int]
"""A line, from 1, and a column, from 0."""


def main() -> int:
    """Draw the sample or go on with one, and print what survived."""
    args = _arguments()
    tree = SESSIONS / "tree"
    _copy(tree)
    os.chdir(tree)
    # For processes that tests start; and no file of bytecode hides a change within a second.
    os.environ |= {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    files = _files(args.only)
    code = crc32(b"".join(path.read_bytes() for path in files))
    drawn = f"{args.only.replace('/', '-') or 'all'}-{args.sample}-{args.seed}"
    name = f"{drawn}-{'near-' * args.near}{code:08x}"
    with use_db(SESSIONS / f"{name}.sqlite") as work:
        if not work.num_work_items:
            work.add_work_items(_sample(files, args.sample, args.seed))
        try:
            _run(work, time.monotonic() + 60 * args.minutes, only_near=args.near)
        except KeyboardInterrupt:
            _stop_tests()
        return _report(work)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=100, help="how many mutations are drawn")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--minutes", type=float, default=480, help="stop after so long")
    parser.add_argument("--only", default="", help="only files whose path begins with this")
    parser.add_argument(
        "--near", action="store_true", help="only tests that import the file or are of its folder"
    )
    return parser.parse_args()


def _copy(tree: Path) -> None:
    """The repository as it is now: what is mutated is never the checkout itself."""
    shutil.rmtree(tree, ignore_errors=True)
    git = shutil.which("git") or "git"
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True, text=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)


def _files(only: str) -> list[Path]:
    files = (path.relative_to(ROOT) for path in modules_of(OURS).values())
    return sorted(
        path for path in files if str(path).startswith(only) and str(path.parent) not in MATERIAL
    )


def _sample(files: list[Path], size: int, seed: int) -> Iterable[WorkItem]:
    """Draw files by their size, and of each as many mutations as it was drawn times."""
    rng = Random(seed)
    weights = list(accumulate(path.stat().st_size for path in files))
    drawn = rng.choices(files, cum_weights=weights, k=size)
    for path in sorted(set(drawn)):
        found = _mutations(path)
        for mutation in rng.sample(found, min(len(found), drawn.count(path))):
            yield WorkItem.single(job_id=uuid4().hex, mutation=mutation)


def _mutations(path: Path) -> list[MutationSpec]:
    tree, found = get_ast_from_path(path), []
    text = path.read_text("utf-8")
    lines, types = text.splitlines(), list(_types(text))
    for name in sorted(operator_names()):
        operator_class = get_operator(name)
        if operator_class.arguments() or name == "core/RemoveDecorator":
            continue  # without @rule or @dataclass nothing can be imported
        operator = operator_class()
        positions = (at for node in ast_nodes(tree) for at in operator.mutation_positions(node))
        found += [
            MutationSpec(path, name, occurrence, start, end)
            for occurrence, (start, end) in enumerate(positions)
            if _may_be_noticed(name, lines[start[0] - 1], start[1])
            and not any(begin <= start < stop for begin, stop in types)
        ]
    return found


def _types(text: str) -> Iterable[tuple[Position, Position]]:
    """Where the annotations of functions are, which are never evaluated."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = [one for one in ast.walk(node) if isinstance(one, ast.arg | ast.AnnAssign)]
            for found in (node.returns, *(one.annotation for one in inside)):
                if found is not None:
                    end = found.end_lineno or found.lineno, found.end_col_offset or 0
                    yield (found.lineno, found.col_offset), end


def _may_be_noticed(operator: str, line: str, column: int) -> bool:
    """Fields' types, and imports for types, change nothing; the `*` of a list is no product."""
    if "TYPE_CHECKING" in line or ("BitOr_" in operator and "| None" in line):
        return False
    before, after = line[:column], line[column:].lstrip("*")
    is_prefix = before[-1:] in ("", *" ([{") and not after.startswith(" ")
    return not (is_prefix and ("_Mul_" in operator or "_Pow_" in operator))


def _run(work: WorkDB, until: float, *, only_near: bool) -> None:
    limits: dict[str, float | None] = {}
    for item in work.pending_work_items:
        if time.monotonic() > until:
            return
        (mutation,) = item.mutations
        rings = [_importing(mutation.module_path), _of_folder(mutation.module_path), str(_TESTS)]
        for tests in filter(None, rings[:2] if only_near else rings):
            options = "-q -x -p no:cacheprovider -m 'not spark and not broker and not mysqld'"
            command = f"{shlex.quote(sys.executable)} -m pytest {options} {tests}"
            if command not in limits:
                limits[command] = _limit(command)
            if (limit := limits[command]) is None:
                continue
            result = mutate_and_test(item.mutations, command, limit)
            if result.is_killed:
                break
        work.set_result(item.job_id, result)
        row, _ = mutation.start_pos
        print(f"{result.test_outcome.value:9} {mutation.module_path}:{row}", flush=True)  # noqa: T201


def _importing(path: Path) -> str:
    """The tests that import a file."""
    inside = path.with_suffix("").parts
    outside = () if inside[0] == "tallystick" else ("tallystick",)
    module = ".".join((*outside, *inside)).removesuffix(".__init__")
    return " ".join(
        str(test)
        for test in sorted(_TESTS.rglob("test_*.py"))
        if any(f"{name}.".startswith(f"{module}.") for name in _imported(test))
    )


def _of_folder(path: Path) -> str:
    """The tests of a file's folder, or of the nearest above it that has some."""
    return str(next(tests for above in path.parents if (tests := _TESTS / above).is_dir()))


@cache
def _imported(test: Path) -> set[str]:
    return {name for _, name in imported_names(test.read_text("utf-8"))}


def _limit(command: str) -> float | None:
    """Three times what tests take without a mutation, None if none of them runs without servers."""
    begun = time.monotonic()
    done = subprocess.run(shlex.split(command), capture_output=True, check=False, text=True)
    if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        return None
    if done.returncode:
        sys.exit(f"{done.stdout}\nThese tests fail without any mutation: {command}")
    return 3 * (time.monotonic() - begun) + 60


def _stop_tests() -> None:
    """End the tests that run: they have a session of their own, which no Ctrl-C reaches."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("ascii")
    for child in map(int, children.split()):
        os.killpg(child, signal.SIGKILL)


def _report(work: WorkDB) -> int:
    done = list(work.completed_work_items)
    survivors = [result.diff for _, result in done if not result.is_killed]
    for diff in survivors:
        print(f"\n{diff}")  # noqa: T201
    print(  # noqa: T201
        f"\n{len(done) - len(survivors)} killed, {len(survivors)} survived,"
        f" {work.num_work_items - len(done)} left"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
