"""`make mutate`: changes the code at random lines and prints the changes that no test notices.

A mutation run of tests, not a test. cosmic-ray finds the lines and makes the changes, in a copy
of the repository; a sample of them is drawn, and each runs the tests that are near the changed
file; what these do not notice runs the wide ones. A session is a database under
``.tallystick/mutations``; interrupted, the same command resumes it, as long as the code that is
mutated is the same.

    python -m tests.mutations --sample 200 --seed 7 --minutes 60
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from random import Random
from uuid import uuid4
from zlib import crc32

from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.plugins import get_operator, operator_names
from cosmic_ray.testing import run_tests
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkItem

ROOT = Path(__file__).parents[1]
SESSIONS = ROOT / ".tallystick/mutations"
TIMEOUT_S = 7200.0
"""For tests that run without a mutation; with one they get three times what they took then."""

_RECORDED = "tests/test_recorded.py"
_RULES = (
    f"{_RECORDED} tests/coordinates/test_judging_rules.py"
    " tests/coordinates/test_judging_undecided.py"
    " tests/coordinates/test_fleet_rules.py tests/coordinates/test_recovery_rules.py"
    " tests/coordinates/test_row_checks.py tests/coordinates/test_limits.py"
    " tests/coordinates/test_rules_on_cuts.py tests/coordinates/test_registry.py"
)
_SIMULATOR = (
    f"{_RECORDED} tests/producers/test_simulator_logs.py"
    " tests/producers/test_simulator_mechanisms.py tests/producers/test_simulator_arithmetic.py"
    " tests/producers/test_simulator.py tests/producers/test_simulator_collection.py"
)
TESTS = {
    "coordinates": "tests/coordinates/test_state_codec.py tests/coordinates/test_explanation.py"
    f" {_RULES}",
    "coordinates/values": f"{_RECORDED} tests/coordinates -k 'gtid or growing or innodb or binlog"
    " or scenario'",
    "coordinates/events": f"{_RECORDED} tests/coordinates -k 'json or codec or log_status or"
    " binlog or scenario'",
    "coordinates/logs": f"{_RULES} tests/coordinates/test_audit_legal.py"
    " tests/coordinates/test_audit_transport.py tests/coordinates/test_redo_log.py"
    " tests/coordinates/test_log_readers.py tests/coordinates/test_event_window.py"
    " tests/coordinates/test_free_gnos.py",
    "coordinates/rules": f"{_RULES} tests/coordinates/test_audit_legal.py",
    "coordinates/audit": f"{_RULES} tests/coordinates/test_audit_legal.py"
    " tests/coordinates/test_audit_transport.py tests/coordinates/test_fleet_order.py"
    " tests/coordinates/test_collection_checks.py tests/coordinates/test_forgotten_origins.py"
    " tests/coordinates/test_packed_events.py tests/coordinates/test_wrong_clocks.py"
    " tests/coordinates/test_lagging_replicas.py tests/coordinates/test_incidents.py",
    "expectations": "tests/expectations",
    "expectations/metrics": "tests/expectations",
    "producers/simulator/backup": f"{_RECORDED} tests/producers -k 'backup or online or"
    " point_in_time or scenario' --ignore tests/producers/test_faults.py",
    "producers/simulator/clone": f"{_RECORDED} tests/producers/test_clone.py",
    "producers/simulator/innodb": "tests/producers/test_gtid_persistence.py"
    f" tests/producers/test_clone.py tests/producers/test_backup_locks.py {_SIMULATOR}",
    "producers/simulator/log_status": _SIMULATOR,
    "producers/simulator/replication_info": f"{_RECORDED} tests/producers/test_replication_info.py",
    "producers/simulator/server": f"{_SIMULATOR} tests/producers/test_replication_info.py"
    " tests/producers/test_backup_locks.py tests/producers/test_gtid_persistence.py"
    " tests/producers/test_clone.py",
    "producers/simulator/kernel": f"{_SIMULATOR} tests/producers/test_kernel.py",
    "streaming": "tests/streaming",
}
"""Mutated folders, and the tests nearest to each. Faults, negatives and scenarios are themselves
material of tests: they are not mutated."""

WIDE = (
    f"{_RECORDED} tests/coordinates tests/real_journals tests/producers tests/expectations"
    " tests/streaming"
)
"""What a mutation must survive too before it counts as a survivor."""


def main() -> int:
    """Draw the sample or go on with one, and print what survived."""
    args = _arguments()
    tree = SESSIONS / "tree"
    _copy(tree)
    os.chdir(tree)
    files = _files(args.only)
    code = crc32(b"".join(path.read_bytes() for path in files))
    name = f"{args.only.replace('/', '-') or 'all'}-{args.sample}-{args.seed}-{code:08x}"
    with use_db(SESSIONS / f"{name}.sqlite") as work:
        if not work.num_work_items:
            work.add_work_items(_sample(files, args.sample, args.seed))
        try:
            _run(work, time.monotonic() + 60 * args.minutes)
        except KeyboardInterrupt:
            _stop_tests()
        return _report(work)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=100, help="how many mutations are drawn")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--minutes", type=float, default=480, help="stop after so long")
    parser.add_argument("--only", default="", help="only files whose path begins with this")
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
    return sorted(
        path for folder in TESTS for path in Path(folder).glob("*.py") if str(path).startswith(only)
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
    lines = path.read_text("utf-8").splitlines()
    for name in sorted(operator_names()):
        operator_class = get_operator(name)
        if operator_class.arguments() or name == "core/RemoveDecorator":
            continue  # without @rule or @dataclass nothing can be imported
        operator = operator_class()
        positions = (at for node in ast_nodes(tree) for at in operator.mutation_positions(node))
        found += [
            MutationSpec(path, name, occurrence, start, end)
            for occurrence, (start, end) in enumerate(positions)
            if _may_be_noticed(name, lines[start[0] - 1])
        ]
    return found


def _may_be_noticed(operator: str, line: str) -> bool:
    """Annotations and their imports are never evaluated; a signature's `*` is no product."""
    if "TYPE_CHECKING" in line or ("BitOr_" in operator and "| None" in line):
        return False
    return not ("_Mul_" in operator and " *, " in line)


def _run(work: WorkDB, until: float) -> None:
    timeouts: dict[str, float] = {}
    for item in work.pending_work_items:
        if time.monotonic() > until:
            return
        (mutation,) = item.mutations
        for tests in (TESTS[str(mutation.module_path.parent)], WIDE):
            options = "-q -x -p no:cacheprovider -m 'not spark and not broker and not mysqld'"
            command = f"{shlex.quote(sys.executable)} -m pytest {options} {tests}"
            if command not in timeouts:
                begun = time.monotonic()
                outcome, output = run_tests(command, TIMEOUT_S)
                if outcome is not TestOutcome.SURVIVED:
                    sys.exit(f"{output}\nThese tests fail without any mutation: {tests}")
                timeouts[command] = 3 * (time.monotonic() - begun) + 60
            result = mutate_and_test(item.mutations, command, timeouts[command])
            if result.is_killed:
                break
        work.set_result(item.job_id, result)
        row, _ = mutation.start_pos
        print(f"{result.test_outcome.value:9} {mutation.module_path}:{row}", flush=True)  # noqa: T201


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
