"""A clone and its donor: are its coordinates one state, and does it go on from there?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.coordinates.audit.comparison import CloneMade, CloneResumed
from tallystick.coordinates.audit.timeline_file import PositionKind
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    NO_BINLOG_FILE,
    NOT_REACHED,
    Against,
    Compared,
    between,
    groups_after,
)
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Holds, Undecided, Waiting
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.source_coordinates import kind_at
from tallystick.coordinates.rules.statements import CLONE_STATUS, file_from, file_until
from tallystick.coordinates.values.binlog import WRAP, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from tallystick.coordinates.audit.instance_timeline import InstanceTimeline
    from tallystick.coordinates.audit.timeline_file import BinlogFile
    from tallystick.coordinates.audit.timeline_snapshot import Snapshot

CLONE_STATUS_UNREAD = reason(
    "clone_status_unread", "the journal has a clone, and clone_status was not read", Lack.BACKUP
)
CLONE_FAILED = reason(
    "clone_failed", "the clone failed with error {error}: it has no coordinates", Lack.BACKUP
)
CLONE_UNSEEN = reason(
    "clone_unseen", "the journal does not have the clone that clone_status shows", Lack.BACKUP
)
CLONE_DONOR_UNKNOWN = reason(
    "clone_donor_unknown",
    "none of the servers followed with the recipient is known as the clone's donor at {address}",
    Lack.BACKUP,
)
CLONE_INCOMPLETE = reason(
    "clone_incomplete",
    "the clone's donor is not known, or clone_status lacks a position, as of a donor without a"
    " binary log, or the GTID set",
    Lack.BACKUP,
)
DONOR_LOG_BEGAN_ANEW = reason(
    "donor_log_began_anew",
    "the donor may have begun a new binary log since the clone",
    Lack.BACKUP,
)
DONOR_FILE_FORGOTTEN = reason(
    "donor_file_forgotten", "{file} of the donor is not remembered", Lack.BACKUP
)
DONOR_EXECUTED_UNKNOWN = reason(
    "donor_executed_unknown", "not everything that the donor has executed is known", Lack.BACKUP
)
DONOR_FILE_IN_PART = reason(
    "donor_file_in_part", "{file} of the donor was not observed from its beginning", Lack.BACKUP
)
DONOR_GROUPS_UNKNOWN = reason(
    "donor_groups_unknown",
    "the donor's groups after the clone's position are not all known",
    Lack.BACKUP,
)
DONOR_FIRST_GROUP_UNKNOWN = reason(
    "donor_first_group_unknown",
    "the donor's first group after the clone's position is not known",
    Lack.BACKUP,
)
RECEIVED_FIRST_UNKNOWN = reason(
    "received_first_unknown",
    "the source position of the first group received is not known",
    Lack.BACKUP,
)
RECEIVED_BEFORE_UNKNOWN = reason(
    "received_before_unknown",
    "what the clone received before the first group that was seen is not known",
    Lack.BACKUP,
)

_OF = "The clone of instance {source} has {file}:{position} as its position, but "
_SET = (
    "{file}:{position}, {executed:gtids}",
    "clone_status of the recipient",
    "{file}:{position}, {logged:gtids}",
    "binary log of instance {source}",
)
_POSITION = (
    "{file}:{position}, {executed:gtids}",
    "clone_status of the recipient",
    "the end of a group",
    "binary log of instance {source}",
)


@between(
    CloneMade,
    number=60,
    tier=3,
    family=Family.CLONE,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "clone_status of the recipient names one state of the donor: a position that ends a"
        " group of the donor's binary log, one that the donor has read for this recipient, and"
        " exactly the GTIDs logged up to it; recovery finds no less redo than the donor's copy had."
    ),
    why=(
        "Clone takes data, position and GTID set at one point at which commits are forced into"
        " the order of the binary log. If the position and the set differ, a replica set up"
        " from the clone repeats or loses the groups between them."
    ),
    undecided_when=(
        "the donor is not observed, its binary log around the position is not known without a"
        " gap or no longer remembered, or clone_status is incomplete"
    ),
    sources=("WL#9211, F-1.1, F-1.2 and F-6", "MySQL manual: The clone_status Table"),
    remedy=(
        "Do not replicate from the named coordinates. With GTIDs use auto-positioning after"
        " comparing gtid_executed with the donor; otherwise clone again."
    ),
    verify=(CLONE_STATUS, file_until("file", "position", "{source}")),
    cases={
        "inside_event": Case(_OF + "that position is no end of an event.", *_POSITION),
        "inside_group": Case(
            _OF + "that position is the end of an event inside a group.", *_POSITION
        ),
        "beyond_end": Case(_OF + "that position is past the end of the file.", *_POSITION),
        "set_lacks": Case(_OF + "its GTID set lacks {witness:gtids}.", *_SET),
        "redo_lacks": Case(
            "Recovery of the clone found the end of the redo log at LSN {recovered}, but the copy"
            " of instance {source} ended at {copied}.",
            "LSN {recovered}",
            "recovery of the recipient",
            "LSN {copied}",
            "position_read of instance {source}",
        ),
        "not_read": Case(
            _OF + "for that recipient the instance has read {read:list}.",
            "{file}:{position}",
            "clone_status of the recipient",
            "{read:list}",
            "position_read of instance {source}",
        ),
        "set_has_more": Case(_OF + "its GTID set holds {witness:gtids} from after it.", *_SET),
    },
)
def clone_coordinates_equal_donor(clone: CloneMade, against: Against) -> Compared:
    """A clone's coordinates and its GTID set are one state of the donor, the one that it read."""
    donor = against.source
    found = _donor_file(clone, donor)
    if not isinstance(found, tuple):
        return found
    answer = _judge_state(clone, donor, *found)
    if answer is not HOLDS or not _has_read_all(clone, against):
        return answer
    read = donor.positions_read(clone.recipient)
    if not read or clone.coordinates in read:
        return HOLDS
    name, position = clone.coordinates
    return Broken(
        "not_read",
        witness=f"{name}:{position}",
        at=f"{name}:{position}",
        source=donor.instance_id,
        file=name,
        position=position,
        read=[f"{file}:{offset}" for file, offset in read],
    )


def _has_read_all(clone: CloneMade, against: Against) -> bool:
    """Whether no record of the donor is missing since the clone began: its read may be in a gap."""
    since = against.source.log_since_ts
    return clone.is_whole and since is not None and since < clone.clone_ts - against.uncertain_us


def _judge_state(
    clone: CloneMade, donor: InstanceTimeline, state: Snapshot, file: BinlogFile
) -> Broken | Holds | Undecided | Waiting:
    recovered = clone.recovered_lsn
    copied = donor.redo_copied.get((clone.recipient, *clone.coordinates), -1)
    if recovered is not None and recovered < copied:
        lsns = {"recovered": recovered, "copied": copied}
        at = f"LSN {recovered}"
        return Broken("redo_lacks", witness=recovered, at=at, source=donor.instance_id, **lsns)
    name, position = clone.coordinates
    kind = kind_at(donor, state, clone.coordinates, since=clone.clone_ts)
    if isinstance(kind, Undecided):
        return kind
    at = f"{name}:{position}"
    values = {
        "source": donor.instance_id,
        "file": name,
        "position": position,
        "executed": clone.executed,
    }
    if kind in _WRONG:
        return Broken(_WRONG[kind], witness=at, at=at, **values)
    if file.previous is None or file.observed_from > 4:
        return Undecided(DONOR_FILE_IN_PART, file=name)
    groups = file.groups(last=file.count_groups(position, "right"))
    named = groups.sid >= 0
    logged = file.previous | GtidSet.from_groups(donor.sids, groups.sid[named], groups.gno[named])
    missing = logged - clone.executed
    extra = clone.executed - logged
    if extra:
        extra = extra - (donor.beyond - _logged_from(donor, state.lineage, file.file_number))
    if not missing and not extra:
        return HOLDS
    if not missing and donor.states.knowing(clone.at.ts) is None:
        # It may have been executed before what is known of the donor.
        return Waiting(DONOR_EXECUTED_UNKNOWN)
    return Broken(
        "set_lacks" if missing else "set_has_more",
        witness=missing or extra,
        at=at,
        logged=logged,
        **values,
    )


_WRONG = {
    PositionKind.INSIDE_EVENT: "inside_event",
    PositionKind.EVENT_END: "inside_group",
    PositionKind.BEYOND: "beyond_end",
}


def _logged_from(donor: InstanceTimeline, lineage: int, number: int) -> GtidSet:
    """The groups that the donor logged in a file and those after it."""
    found = GtidSet.EMPTY
    for (of_lineage, of_number), file in donor.files.items():
        if of_lineage == lineage and of_number >= number:
            groups = file.groups()
            named = groups.sid >= 0
            found = found | GtidSet.from_groups(donor.sids, groups.sid[named], groups.gno[named])
    return found


def _donor_file(
    clone: CloneMade, donor: InstanceTimeline
) -> tuple[Snapshot, BinlogFile] | Waiting | Undecided:
    """The donor as it was, and the file that the clone names."""
    state = donor.states.first_since(clone.at.ts)
    if state is None:
        return Waiting(NOT_REACHED)
    if clone.clone_ts <= state.log_since_ts:
        return Undecided(DONOR_LOG_BEGAN_ANEW)
    name = clone.coordinates[0]
    try:
        _, number = parse_log_file_name(name)
    except CoordinateError:
        return Undecided(NO_BINLOG_FILE, file=name)
    file, _ = donor.file_at(state, number)
    if file is None:
        return Undecided(DONOR_FILE_FORGOTTEN, file=name)
    return state, file


@between(
    CloneResumed,
    number=61,
    tier=3,
    family=Family.CLONE,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "The first group that a clone receives from its donor is the first group of the donor"
        " after the cloned position that the clone does not have."
    ),
    why=(
        "The cloned coordinates are the complement of the cloned data: what is before is"
        " inside, what is after is missing. A later first group is a hole in the data; if"
        " the donor has purged it, it answers error 1236 and nothing is received."
    ),
    undecided_when=(
        "the donor is not observed, its binary log between the cloned position and the first"
        " group received is not known without a gap, clone_status is incomplete, or the relay log"
        " was not seen from its begin after the clone and the GTID sets do not tell"
    ),
    sources=("WL#9211, F-2 to F-5", "MySQL manual: Cloning for Replication"),
    remedy="Stop replication on the clone and clone again; the hole cannot be filled from it.",
    verify=(CLONE_STATUS, file_from("file", "position", "{source}")),
    cases={
        "other_first_group": Case(
            "The clone of {file}:{position} received {received:group} first, but after that"
            " position instance {source} has {expected:group}.",
            "{received:group}",
            "first group in the relay log after the clone",
            "{expected:group}",
            "binary log of instance {source} after {file}:{position}",
        ),
        "group_left_out": Case(
            "The clone of {file}:{position} has received {received:group}, but neither received nor"
            " executed {expected:group}, which instance {source} has before it.",
            "{received:group} without {expected:group}",
            "relay log of the clone, Retrieved_Gtid_Set and gtid_executed",
            "{expected:group}",
            "binary log of instance {source} after {file}:{position}",
        ),
        "received_again": Case(
            "The clone of {file}:{position} has received {received:group}, which instance {source}"
            " has before that position; after it comes {expected:group}.",
            "{received:group}",
            "relay log of the clone",
            "{expected:group}",
            "binary log of instance {source} after {file}:{position}",
        ),
    },
)
def clone_resume_exact(resumed: CloneResumed, against: Against) -> Compared:
    """A clone receives first what is first after its position and not in it."""
    donor, clone = against.source, resumed.clone
    if any(source is not donor for source in against.sources):
        return HOLDS
    found = _donor_file(clone, donor)
    if not isinstance(found, tuple):
        return found
    state, file = found
    _, number, end, gtid = resumed.first_queued
    if end < 0 and not gtid:
        return Undecided(RECEIVED_FIRST_UNKNOWN)
    name, position = clone.coordinates
    for where, expected in groups_after(donor, state, file.file_number, position):
        if expected is None:
            return Undecided(DONOR_GROUPS_UNKNOWN)
        if expected and expected in clone.executed:
            continue
        is_there = end < 0 or (where[0] == number and (where[1] - end) % WRAP == 0)
        if is_there and expected == gtid:
            return HOLDS
        case: str | Holds | Undecided = "other_first_group"
        if not resumed.is_first:
            case = _case_of_seen(resumed, expected, donor, state, file.file_number)
        if not isinstance(case, str):
            return case
        at = f"{name}:{position}"
        return Broken(
            case,
            witness=expected or at,
            at=at,
            source=donor.instance_id,
            file=name,
            position=position,
            received=gtid,
            expected=expected,
        )
    return Undecided(DONOR_FIRST_GROUP_UNKNOWN)


def _case_of_seen(
    resumed: CloneResumed, expected: str, donor: InstanceTimeline, state: Snapshot, number: int
) -> str | Holds | Undecided:
    """How the rule is broken by a group before which others may have come that nobody saw.

    A receiver takes groups in the order of the donor's log. So one from before the position is
    wrong whatever came in front of it, and nothing came in front of the expected one if all that
    was retrieved is new. A group from after the expected one is wrong if it is among what was
    retrieved, and the expected one is not, nor was executed.
    """
    file, position = resumed.clone.coordinates
    base_name, received_in, end, gtid = resumed.first_queued
    if end >= 0 and base_name == parse_log_file_name(file)[0]:
        is_before = received_in < number or (received_in == number and end <= position < WRAP)
        if is_before:
            return "received_again"
    if expected and expected in resumed.retrieved:
        is_new = resumed.retrieved.isdisjoint(resumed.clone.executed)
        return HOLDS if is_new else Undecided(RECEIVED_BEFORE_UNKNOWN)
    if not gtid or gtid not in resumed.retrieved or not expected or expected in resumed.has:
        return Undecided(RECEIVED_BEFORE_UNKNOWN)
    for _, group in groups_after(donor, state, number, position):
        if group is None:
            return Undecided(DONOR_GROUPS_UNKNOWN)
        if group == gtid:
            return "group_left_out"
    return Undecided(DONOR_FIRST_GROUP_UNKNOWN)
