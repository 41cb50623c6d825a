"""What a start reads from undo log headers (WL#9211, key point 4): the GTIDs the table may lack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tallystick.producers.simulator.innodb.undo_log import trx_undo_gtid_read
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals

if TYPE_CHECKING:
    from tallystick.producers.simulator.innodb.gtid_info import GtidDesc
    from tallystick.producers.simulator.innodb.rollback_segments import RollbackSegment, TrxSys
    from tallystick.producers.simulator.innodb.undo_log import UndoLogHeader


@dataclass(slots=True)
class Scan:
    """What was read.

    Attributes:
        descs: GTIDs for the persister: of prepared transactions, then of the history.
        headers_read: Undo log headers that were read in history lists.
        segments_skipped: Rollback segments whose history was not looked at.
    """

    descs: list[GtidDesc] = field(default_factory=list)
    headers_read: int = 0
    segments_skipped: int = 0

    def read(self, header: UndoLogHeader) -> None:
        """Take the GTID of a header, if it has one."""
        desc = trx_undo_gtid_read(header)
        if desc is not None:
            self.descs.append(desc)

    def gtids(self) -> GtidIntervals:
        """The GTIDs as a set."""
        found = GtidIntervals()
        for desc in self.descs:
            found.add(*desc.gtid())
        return found


def is_skipped(segment: RollbackSegment, trx_num_gtid: int) -> bool:
    """Tell whether the table has all GTIDs of a history: its greatest number is lower."""
    return segment.max_trx_no < trx_num_gtid


def scan_undo_logs(trx_sys: TrxSys, trx_num_gtid: int | None = None) -> Scan:
    """Read the GTIDs from TRX_SYS_TRX_NUM_GTID on, and those of prepared XA transactions.

    Args:
        trx_sys: What the pages hold.
        trx_num_gtid: Where to begin; None: what the TRX_SYS page says.
    """
    begin = trx_sys.trx_num_gtid if trx_num_gtid is None else trx_num_gtid
    scan = Scan()
    for segment in trx_sys.segments:
        for header, _ in segment.slots:
            scan.read(header)
        if is_skipped(segment, begin):
            scan.segments_skipped += bool(segment.history)
            continue
        for header in reversed(segment.history):
            scan.headers_read += 1
            if header.trx_no < begin:
                break  # all before it are older still
            scan.read(header)
    return scan
