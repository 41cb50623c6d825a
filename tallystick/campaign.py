"""The campaign: many seeds, each a fleet of its own, simulated and audited in memory.

Every second seed is healthy and may look unusual (a negative case); the others show one fault,
all faults in turn. So a campaign measures both mistakes of the audit: false alarms and misses.
"""

from __future__ import annotations

import gc
import shlex
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import TYPE_CHECKING

from tallystick import cover
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import explain, observation_text
from tallystick.coordinates.rules.observations import REFUSALS
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.kernel.scenario import TOPOLOGIES, Scenario
from tallystick.producers.simulator.negatives import NEGATIVES, with_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallystick.producers.simulator.assemble import History

BLOCK_RECORDS = 512
"""Records in a block: small, so that rules are met by histories in pieces."""
_SECOND_NEGATIVE_CHANCE = 0.25
_SHOWN_BY_SQL_CHANCE = 0.5
"""Share of healthy fleets whose journals have no more than a server shows: neither the lock steps
of collections nor the events of the redo log."""


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What one seed showed.

    Attributes:
        scenario: What was simulated.
        injected: Whether the fault found its moment; False without a fault.
        fired: Names of the rules that the audit found broken.
        expected: Those that the fault breaks.
        undecided: Whether the fleet's verdict was UNDECIDED.
        records: Records of the history.
        sentences: One sentence of each rule in ``fired`` that was not expected.
    """

    scenario: Scenario
    injected: bool
    fired: frozenset[str]
    expected: frozenset[str]
    undecided: bool
    records: int
    sentences: tuple[str, ...] = ()

    @property
    def not_exercised(self) -> bool:
        """Whether a fault was asked for and never took effect: no result of the audit."""
        return self.scenario.fault is not None and not self.injected

    @property
    def missed(self) -> frozenset[str]:
        """Rules that the fault broke and the audit did not find."""
        return self.expected - self.fired if self.injected else frozenset()

    @property
    def surplus(self) -> frozenset[str]:
        """Rules that the audit found broken though they hold."""
        return self.fired - self.expected if self.injected else self.fired

    @property
    def is_right(self) -> bool:
        """Whether the audit found what there was to find, and nothing else."""
        return not (self.missed or self.surplus or self.not_exercised)

    @property
    def simulate_command(self) -> str:
        """The command that prints the journal of this seed."""
        return simulate_command(self.scenario)

    @property
    def campaign_command(self) -> str:
        """The command that runs this seed again."""
        seed = self.scenario.seed
        flag = " --cover" if self.scenario == cover.scenario_of(seed) else ""
        return f"tallystick campaign{flag} --seeds {seed}:{seed + 1}"


@dataclass(frozen=True, slots=True)
class FaultCount:
    """How one fault fared.

    Attributes:
        name: In the catalogue.
        runs: Seeds that asked for it.
        injected: Seeds in which it found its moment.
        found: Seeds in which every rule that it breaks was found.
        surplus: Seeds in which others were named too.
    """

    name: str
    runs: int
    injected: int
    found: int
    surplus: int


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """What a campaign showed."""

    seeds: tuple[SeedResult, ...]
    elapsed_s: float
    faults: tuple[FaultCount, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "faults", tuple(_count(self.seeds)))

    @property
    def recall(self) -> float:
        """Injected faults that were found in full, of all injected faults; 1 without any."""
        injected = sum(count.injected for count in self.faults)
        return sum(count.found for count in self.faults) / injected if injected else 1.0

    @property
    def false_alarms(self) -> tuple[SeedResult, ...]:
        """Healthy seeds in which the audit found something broken."""
        return tuple(seed for seed in self.seeds if seed.scenario.fault is None and seed.fired)

    @property
    def surplus(self) -> tuple[SeedResult, ...]:
        """Faulty seeds in which the audit named a rule that the fault does not break."""
        return tuple(seed for seed in self.seeds if seed.injected and seed.surplus)

    @property
    def missed(self) -> tuple[SeedResult, ...]:
        """Faulty seeds in which the audit overlooked something."""
        return tuple(seed for seed in self.seeds if seed.missed)

    @property
    def not_exercised(self) -> tuple[SeedResult, ...]:
        """Seeds whose fault never found its moment."""
        return tuple(seed for seed in self.seeds if seed.not_exercised)

    @property
    def undecided(self) -> int:
        """Seeds whose fleet was left undecided."""
        return sum(seed.undecided for seed in self.seeds)

    @property
    def records(self) -> int:
        """Records of all histories."""
        return sum(seed.records for seed in self.seeds)

    @property
    def seeds_per_s(self) -> float:
        """Seeds a second, simulation included."""
        return len(self.seeds) / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def is_right(self) -> bool:
        """Whether every seed was judged right."""
        return all(seed.is_right for seed in self.seeds)


def scenario_of(seed: int, faults: Sequence[str] | None = None) -> Scenario:
    """The scenario of a seed: odd ones are faulty, all faults in turn; even ones are healthy.

    Args:
        seed: Decides everything.
        faults: Names of the faults to take in turn; None: all, empty: none.

    Raises:
        ValueError: A fault is not known.
    """
    names = list(FAULTS) if faults is None else list(faults)
    for name in names:
        if name not in FAULTS:
            raise ValueError(f"expected a fault of {', '.join(FAULTS)}, got {name!r}")
    rng = Random(f"campaign {seed}")  # noqa: S311 - seeded, decides no secret
    fault = FAULTS[names[seed // 2 % len(names)]] if names and seed % 2 else None
    allowed = TOPOLOGIES if fault is None else fault.base.topologies
    workers = rng.choice((0, 0, 4))
    is_lively = fault is None or fault.bears_acts
    scenario = Scenario(
        seed=seed,
        profile="wl9452" if rng.random() < 0.25 else "mysql-8.0",
        topology=rng.choice(allowed),
        # A fault may have to wait for its moment: longer, and not among the quietest.
        duration_ms=4_000 if fault is None else 6_000,
        writes_per_second=rng.choice((3.0, 5.0, 8.0) if fault is None else (6.0, 9.0)),
        # Quiet means no expiry of files either.
        max_binlog_size=rng.choice((4_096, 16_384, 65_536)) if is_lively else 1 << 20,
        applier_workers=workers if fault is None else 0,
        acts=is_lively,
        fault=None if fault is None else fault.name,
    )
    if fault is not None:
        return scenario
    turn = list(NEGATIVES)
    scenario = _with_negative(scenario, turn[seed // 2 % len(turn)])
    if rng.random() < _SECOND_NEGATIVE_CHANCE:
        scenario = _with_negative(scenario, rng.choice(turn))
    if rng.random() < _SHOWN_BY_SQL_CHANCE:
        scenario = replace(scenario, lock_steps=False, redo_events=False)
    return scenario


def run_seed(scenario: Scenario, disabled: frozenset[str] = frozenset()) -> SeedResult:
    """Simulate a scenario and audit its history.

    Args:
        scenario: What to simulate.
        disabled: Names of rules that the audit leaves out.
    """
    return judge_seed(simulate(scenario), disabled)


def judge_seed(history: History, disabled: frozenset[str] = frozenset()) -> SeedResult:
    """Audit the history of a scenario.

    Args:
        history: What was simulated.
        disabled: Names of rules that the audit leaves out.
    """
    scenario = history.scenario
    result = audit_history(history.blocks(BLOCK_RECORDS), disabled=disabled)
    if refused := [o for o in result.observations if o.reason in REFUSALS]:
        raise AssertionError(f"seed {scenario.seed}: {observation_text(refused[0])}")
    fault = FAULTS[scenario.fault] if scenario.fault is not None else None
    expected = fault.must_fire if fault is not None else frozenset()
    injected = bool(history.injected)
    known = expected if injected else frozenset()
    surplus = {f.rule: f for f in reversed(result.findings) if f.rule not in known}
    return SeedResult(
        scenario=scenario,
        injected=injected,
        fired=frozenset(finding.rule for finding in result.findings),
        expected=expected,
        undecided=result.verdict is Verdict.UNDECIDED,
        records=len(history),
        sentences=tuple(
            f"{finding.instance_id}: {name}: {explain(finding).sentence}"
            for name, finding in sorted(surplus.items())
        ),
    )


def run_campaign(seeds: Iterable[int], faults: Sequence[str] | None = None) -> CampaignResult:
    """Simulate and audit every seed.

    Args:
        seeds: Each is a fleet of its own.
        faults: Names of the faults that odd seeds take in turn; None: all, empty: none.
    """
    return run_scenarios(scenario_of(seed, faults) for seed in seeds)


def run_scenarios(scenarios: Iterable[Scenario]) -> CampaignResult:
    """Simulate and audit every scenario.

    Args:
        scenarios: What to simulate.
    """
    began = time.perf_counter()
    results = []
    with _garbage_collected_by_hand():
        for scenario in scenarios:
            results.append(run_seed(scenario))
            # The next fleet takes its memory over, while it is in the caches. All of it is young;
            # a whole collection would look at what earlier seeds left in caches, too.
            gc.collect(0)
    return CampaignResult(tuple(results), time.perf_counter() - began)


@contextmanager
def _garbage_collected_by_hand() -> Iterator[None]:
    """A fleet is a ring of objects that lives for one seed: looking for garbage within is vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    gc.freeze()  # modules stay: they are not looked through each time
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()


def simulate_command(scenario: Scenario) -> str:
    """The command that prints the journal of a scenario."""
    arguments = ["tallystick", "simulate"]
    for option in fields(scenario):
        value = getattr(scenario, option.name)
        if option.name != "seed" and value == option.default:
            continue
        flag = "--" + option.name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(flag if value else flag.replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            for item in value:
                arguments += ["--negative", str(item)]
        else:
            arguments += [flag, str(value)]
    return shlex.join(arguments)


def _with_negative(scenario: Scenario, name: str) -> Scenario:
    """The scenario with one negative case more, in a topology where it can be; else as it was."""
    topology = NEGATIVES[name].options.get("topology", scenario.topology)
    changed = replace(scenario, topology=topology, negatives=(*scenario.negatives, name))
    try:
        return with_options(changed) if name not in scenario.negatives else scenario
    except ValueError:
        return scenario


def _count(seeds: Sequence[SeedResult]) -> Iterable[FaultCount]:
    runs: Counter[str] = Counter()
    injected: Counter[str] = Counter()
    found: Counter[str] = Counter()
    surplus: Counter[str] = Counter()
    for seed in seeds:
        name = seed.scenario.fault
        if name is not None:
            runs[name] += 1
            injected[name] += seed.injected
            found[name] += seed.injected and not seed.missed
            surplus[name] += seed.injected and bool(seed.surplus)
    for name in FAULTS:
        if runs[name]:
            yield FaultCount(name, runs[name], injected[name], found[name], surplus[name])
