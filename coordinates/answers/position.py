"""Which transactions are at a position of an instance's binary log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallystick.coordinates.answers.evidence import read_set
from tallystick.coordinates.values.binlog import LogCoordinates, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallystick.coordinates.answers.group_log import GroupLog
    from tallystick.coordinates.audit.cut import Cut


@dataclass(frozen=True, slots=True)
class Located:
    """The GTIDs at a position.

    Attributes:
        gtids: Which; empty: none is known.
        text: What is known of the position.
        is_exact: Whether it is just these; else it is one or two of them, or nothing is known.
    """

    gtids: GtidSet
    text: str
    is_exact: bool


def by_log(log: GroupLog, instance_id: str, file: str, position: int) -> Located:
    """By the events of a journal that was read whole."""
    groups = log.at(instance_id, file, position)
    if not groups:
        files = log.files_of(instance_id)
        ends = dict.fromkeys((*files[:1], *files[-1:]))
        known = f"; it has groups of {' to '.join(ends)}" if ends else ""
        return Located(GtidSet.EMPTY, f"the journal has no group there{known}", is_exact=False)
    texts = []
    for group in groups:
        end = "an end that is not known" if group.end < 0 else f"{group.end}"
        texts.append(f"{group.gtid or 'a group without GTID'}, from {group.start} to {end}")
    named = GtidSet.parse(",".join(group.gtid for group in groups if group.gtid))
    is_inside = len(groups) == 1 and groups[0].start < position < groups[0].end
    where = "inside of" if is_inside else "a boundary of"
    return Located(named, f"{where} {' and '.join(texts)}", is_exact=bool(named))


def by_rows(rows: Sequence[Cut], file: str, position: int) -> Located:
    """By the rows of log_status, which have the GTIDs up to some positions.

    Args:
        rows: Those of the instance itself, in the order of its journal.
        file: A file of its binary log.
        position: In it.
    """
    asked = LogCoordinates.of_file(file, position)
    known = _of_newest_log(rows, asked.base_name)
    before = next((gtids for at, gtids in reversed(known) if at < asked), None)
    after = next((gtids for at, gtids in known if at > asked), None)
    at_it = next((gtids for at, gtids in known if at == asked), None)
    if before is None:
        oldest = f": the oldest is at {known[0][0]}" if known else f" in files as {file}"
        return Located(GtidSet.EMPTY, f"no row is known before it{oldest}", is_exact=False)
    upto = after if after is not None else at_it
    if upto is None:
        text = f"it is after the newest row, at {known[-1][0]}"
        return Located(GtidSet.EMPTY, text, is_exact=False)
    gtids = upto - before
    count = gtids.count()
    if count == 0:
        text = "between the rows around it nothing with a GTID was logged"
        return Located(gtids, text, is_exact=False)
    text = f"between the rows around it {count:,} GTIDs were logged; a journal would show which"
    if count == 1:
        text = f"between the rows around it only {gtids} was logged"
    return Located(gtids, text, is_exact=count == 1)


def _of_newest_log(rows: Sequence[Cut], base_name: str) -> list[tuple[LogCoordinates, GtidSet]]:
    """Positions and what was logged up to them, since the log began anew the last time."""
    found: list[tuple[LogCoordinates, GtidSet]] = []
    for cut in reversed(rows):
        gtids = read_set(cut.journal_gtid_set)
        if cut.binary_log_file is None or cut.binary_log_position is None or gtids is None:
            continue
        try:
            parse_log_file_name(cut.binary_log_file)
            at = LogCoordinates.of_file(cut.binary_log_file, cut.binary_log_position)
        except CoordinateError:
            continue
        if at.base_name != base_name or (
            found and not (at <= found[-1][0] and gtids <= found[-1][1])
        ):
            break
        found.append((at, gtids))
    return found[::-1]
