"""A scenario: the seed and the options that together decide a whole history."""

from __future__ import annotations

from dataclasses import dataclass

PROFILES = ("mysql-8.0", "wl9452")
TOPOLOGIES = ("demo", "single", "pair", "chain", "star", "diamond", "multi_source")


class UnfitFleetError(ValueError):
    """The scenario asks for a fault that its fleet has no server for."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to simulate; equal scenarios give byte-identical journals.

    Attributes:
        seed: Decides everything that the options leave open.
        profile: ``mysql-8.0`` (commit stages: positions lead gtid_executed) or ``wl9452`` (one
            instant for all logs).
        topology: One of ``TOPOLOGIES``; None: the seed chooses.
        duration_ms: Virtual time of load; the fleet then settles before the last collections.
        collection_interval_ms: Period of the collections.
        writes_per_second: Groups a second on each source.
        negatives: Names of legal histories that look wrong (``producers.simulator.negatives``).
        acts: Whether the seed adds everyday administration (rotation, purge, reconnect).
        fault: Name of the fault to inject (``producers.simulator.faults``); None: healthy.
        fault_at_ms: When it is injected, at the earliest; None: after a third of the duration.
        max_binlog_size: Soft limit of a binary log file, bytes.
        applier_workers: Workers of each channel's applier; 0: one thread applies.
        preserve_commit_order: Whether workers commit in the source's order.
        order_commits: ``binlog_order_commits``.
        gtid_mode: Of every instance.
        auto_position: Whether channels ask by GTID set, else by file and position.
        first_file_number: Number of every first binary log file.
        lock_steps: Whether collections record their lock steps, which no real server shows.
        redo_events: Whether journals have the events of the redo log; nor does it show these.
        cluster: Name of the cluster that each ``start`` record gives; None: none.
        design_scenario: Name of the scenario of a document that it is
            (``producers.simulator.scenarios``); None: of none.
    """

    seed: int = 0
    profile: str = "mysql-8.0"
    topology: str | None = None
    duration_ms: int = 4_000
    collection_interval_ms: int = 1_000
    writes_per_second: float = 4.0
    negatives: tuple[str, ...] = ()
    acts: bool = True
    fault: str | None = None
    fault_at_ms: int | None = None
    max_binlog_size: int = 16_384
    applier_workers: int = 0
    preserve_commit_order: bool = True
    order_commits: bool = True
    gtid_mode: str = "ON"
    auto_position: bool = True
    first_file_number: int = 1
    lock_steps: bool = True
    redo_events: bool = True
    cluster: str | None = "simulated"
    design_scenario: str | None = None

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise ValueError(f"expected a profile of {', '.join(PROFILES)}, got {self.profile!r}")
        if self.topology is not None and self.topology not in TOPOLOGIES:
            raise ValueError(
                f"expected a topology of {', '.join(TOPOLOGIES)}, got {self.topology!r}"
            )
        if self.duration_ms < 1 or self.collection_interval_ms < 1:
            raise ValueError(
                "expected a duration and a collection interval of at least 1 ms, got "
                f"{self.duration_ms!r} and {self.collection_interval_ms!r}"
            )
