"""The machine under a measurement: processor time of a tree of processes, and a loop beside it."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.25
LOOP_STEPS = 3_000_000


@dataclass(frozen=True)
class Sample:
    """What a tree of processes had used at one time.

    Attributes:
        at: On the machine's clock, as `time.monotonic`.
        cpu_s: Processor time, of processes that have ended too.
        resident_mb: Resident memory of all.
    """

    at: float
    cpu_s: float
    resident_mb: float


def sample(root: int) -> Sample:
    """A process and all that it started."""
    parents: dict[int, int] = {}
    used: dict[int, tuple[float, float]] = {}
    page_mb = os.sysconf("SC_PAGE_SIZE") / 2**20
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It has ended meanwhile.
        pid = int(entry.name)
        parents[pid] = int(fields[1])
        # Its own time and that of its children that have ended.
        used[pid] = sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * page_mb
    cpu = resident = 0.0
    for pid, (seconds, megabytes) in used.items():
        ancestor = pid
        while ancestor not in (root, 0):
            ancestor = parents.get(ancestor, 0)
        if ancestor == root:
            cpu += seconds
            resident += megabytes
    return Sample(time.monotonic(), cpu, resident)


class Sampler:
    """Samples a tree of processes until it is stopped."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._stop = threading.Event()
        self._samples: list[Sample] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """After a last sample."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._stop.wait(SAMPLE_S)
            self._samples.append(sample(self._root))

    @property
    def peak_mb(self) -> float:
        """Most resident memory that was seen."""
        return max(one.resident_mb for one in self._samples)

    def cpu_s(self, begun: float, ended: float) -> float:
        """Processor time between two times, those between samples interpolated."""
        return cpu_at(self._samples, ended) - cpu_at(self._samples, begun)


def cpu_at(samples: list[Sample], at: float) -> float:
    """Processor time at a time, interpolated."""
    later = next((n for n, one in enumerate(samples) if one.at >= at), len(samples) - 1)
    if not later:
        return samples[0].cpu_s
    one, other = samples[later - 1], samples[later]
    share = min(max((at - one.at) / (other.at - one.at), 0.0), 1.0)
    return one.cpu_s + share * (other.cpu_s - one.cpu_s)


def calibrate() -> dict[str, float]:
    """A loop that is always the same.

    Returns:
        Its seconds, and its processor seconds: where these are more than elsewhere in a run the
        processor was slower; where the seconds are more than they, others had it.
    """
    begun, cpu = time.perf_counter(), time.process_time()
    value = 1
    for _ in range(LOOP_STEPS):
        value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    seconds = time.perf_counter() - begun
    return {"wall_s": seconds, "cpu_s": time.process_time() - cpu, "load": os.getloadavg()[0]}
