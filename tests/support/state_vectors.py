"""States that are kept as bytes, so that a later audit shows that it still reads them.

A running job keeps the audit's state in its checkpoint location, and goes on from there with the
next version's code. A vector is such a moment: every instance's state and the driver's, and the
records that followed. ``python -m tests.support.state_vectors DIRECTORY`` makes them with the code
of the day; those that lie in ``tests/coordinates/vectors/states`` are of 0.1.0 and are never made
again, only added to when the state's version number rises.
"""

from __future__ import annotations

import gzip
import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.packing import pack, unpack
from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.producers.simulator.engine import simulate
from tallystick.producers.simulator.scenario import Scenario
from tallystick.streaming.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.coordinates.audit.instance import AuditOutput
    from tallystick.coordinates.events.journal import Block
    from tallystick.coordinates.results import Finding

STATES = Path(__file__).parents[1] / "coordinates" / "vectors" / "states"
DRIVER = (b"TSFS", 1)
"""Magic and version of the driver's state: a layout of ``streaming.fleet``."""
Told = tuple[str, "str | None", str, int]
"""What a finding says: instance, channel, rule, sequence of the record."""

FAULTS = tuple(
    replace(
        scenario,
        duration_ms=5_000,
        fault_at_ms=3_400,
        max_binlog_size=4_096,
        writes_per_second=8.0,
    )
    for scenario in (
        Scenario(11, topology="star", fault="clone_resume_gap"),
        Scenario(3, topology="pair", fault="collection_too_slow", negatives=("crash_source",)),
        Scenario(5, topology="pair", fault="zone_entered_while_closed", negatives=("commit_lag",)),
        Scenario(7, topology="pair", fault="unlogged_nontrx_write_under_lock", negatives=("xa",)),
        Scenario(9, topology="chain", fault="gno_reused_after_reset"),
        Scenario(13, topology="diamond", fault="relay_info_torn", profile="wl9452"),
        Scenario(15, topology="pair", fault="executed_hole_permanent", applier_workers=4),
        Scenario(17, topology="pair", fault="conflicting_redelivery", negatives=("commit_holes",)),
        Scenario(19, topology="single", fault="purge_overtakes_persister"),
        Scenario(21, topology="multi_source", fault="retrieved_inflated"),
    )
)
"""Each has its moment right before the first thing seen that its fault breaks."""
NEGATIVES = {
    "inside_a_clone": (Scenario(1, topology="pair", negatives=("clone",)), RecordType.CLONE),
    "inside_a_commit_zone": (
        Scenario(2, topology="pair", negatives=("commit_zone",)),
        RecordType.ZONE,
    ),
    "inside_a_collection": (Scenario(3, topology="chain"), RecordType.COLLECTION),
    "under_backup_locks": (
        Scenario(4, topology="single", negatives=("backup_locks",)),
        RecordType.BACKUP_LOCK,
    ),
}
"""Each has its moment right behind the second such record, when most of what it begins is open."""


def told(findings: Iterable[Finding]) -> list[Told]:
    """The findings, each once, in the order of the journal."""
    ordered = sorted({f.finding_id: f for f in findings}.values(), key=lambda f: f.order)
    return [(f.instance_id, f.channel, f.rule, f.sequence) for f in ordered]


@dataclass(frozen=True)
class StateVector:
    """One moment of one fleet.

    Attributes:
        instances: State of each instance.
        driver: State of the driver: collections that are open, and the fleet's audit.
        rest: The records that followed, as JSON Lines.
        expected: What the audit that was never interrupted said of them.
    """

    instances: dict[str, bytes]
    driver: bytes
    rest: list[str]
    expected: list[Told]

    @property
    def fleet(self) -> bytes:
        """State of the fleet's audit."""
        return unpack(*DRIVER, self.driver)[1]["fleet"].tobytes()

    def save(self, directory: Path) -> None:
        """Write the vector, the same bytes for the same vector."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, state in (*self.instances.items(), ("driver", self.driver)):
            (directory / f"{name}.state.gz").write_bytes(gzip.compress(state, mtime=0))
        lines = "".join(f"{line}\n" for line in self.rest)
        (directory / "rest.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
        expected = ",\n".join(json.dumps(each) for each in self.expected)
        (directory / "expected.json").write_text(f"[\n{expected}\n]\n", "utf-8")

    @classmethod
    def load(cls, directory: Path) -> StateVector:
        """Read what ``save`` wrote."""
        states = {
            path.name.removesuffix(".state.gz"): gzip.decompress(path.read_bytes())
            for path in sorted(directory.glob("*.state.gz"))
        }
        driver = states.pop("driver")
        rest = gzip.decompress((directory / "rest.jsonl.gz").read_bytes()).decode().splitlines()
        expected = json.loads((directory / "expected.json").read_text("utf-8"))
        return cls(states, driver, rest, [tuple(each) for each in expected])


@dataclass
class Audits:
    """The audit of every instance and of the fleet, and the open collections, as the job has them.

    Attributes:
        instances: By name.
        fleet: Takes the facts of all.
        rounds: Take the cuts of all.
        findings: Everything that was said.
    """

    instances: dict[str, InstanceAudit]
    fleet: FleetAudit
    rounds: Rounds
    findings: list[Finding] = field(default_factory=list)

    def absorb(self, blocks: Iterable[Block]) -> None:
        """One block of each instance, or several in its order."""
        self._take([self.instances[block.instance_id].absorb(block) for block in blocks])

    def finish(self) -> list[Told]:
        """The end of all journals; returns what was said."""
        self._take([instance.finish() for instance in self.instances.values()])
        self.findings += self.fleet.finish().findings
        return told(self.findings)

    def _take(self, outputs: list[AuditOutput]) -> None:
        facts = [fact for output in outputs for fact in output.fleet_events]
        self.findings += [finding for output in outputs for finding in output.findings]
        self.findings += self.fleet.absorb(facts).findings
        cuts = [cut for output in outputs for cut in output.cuts]
        self.rounds.absorb(cuts, {fact.instance_id: fact.ts for fact in facts})


def make_all() -> dict[str, StateVector]:
    """Every vector by its name."""
    made = {}
    for scenario in FAULTS:
        journals = simulate(scenario).journals
        whole = _audits(journals)
        whole.absorb(journals.values())
        whole.finish()
        first = min(finding.ts for finding in whole.findings)
        made[f"before_{scenario.fault}"] = make(journals, first)
    for name, (scenario, record_type) in NEGATIVES.items():
        journals = simulate(scenario).journals
        found = [
            int(journal.columns["ts"][i])
            for journal in journals.values()
            for i in np.flatnonzero(
                (journal.columns["stream"] == Stream.SERVER)
                & (journal.columns["type"] == record_type)
            )
        ]
        made[name] = make(journals, sorted(found)[1] + 1)
    return made


def make(journals: Mapping[str, Block], moment: int) -> StateVector:
    """Audit journals up to a moment.

    Args:
        journals: Of each instance, whole.
        moment: Virtual time of the first records that come behind it.
    """
    whole = _audits(journals)
    whole.absorb(journals.values())
    said = whole.finish()
    audits = _audits(journals)
    sizes = {n: int(np.argmax(j.columns["ts"] >= moment)) for n, j in journals.items()}
    audits.absorb(journal.take(0, sizes[name]) for name, journal in journals.items())
    fleet = np.frombuffer(audits.fleet.to_bytes(), dtype=np.uint8)
    rest = [
        line
        for name, journal in journals.items()
        for line in block_to_lines(journal.take(sizes[name], len(journal)))
    ]
    before = set(told(audits.findings))
    return StateVector(
        instances={name: audit.to_bytes() for name, audit in audits.instances.items()},
        driver=pack(*DRIVER, audits.rounds.to_document(), {"fleet": fleet}),
        rest=sorted(rest, key=lambda line: json.loads(line)["ts"]),
        expected=[each for each in said if each not in before],
    )


def _audits(journals: Mapping[str, Block]) -> Audits:
    instances = {name: InstanceAudit(name) for name in journals}
    return Audits(instances, FleetAudit(), Rounds(instances))


if __name__ == "__main__":
    for vector_name, vector in make_all().items():
        vector.save(Path(sys.argv[1]) / vector_name)
