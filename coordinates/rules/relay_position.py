"""Rules on the relay coordinate of a row: where the receiver last flushed its positions."""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.channel import GTID_ONLY, NO_RELAY, NO_RESET_SEEN, ChannelEvidence
from tallystick.coordinates.rules.columns import NOT_READ, has_fallen, same_family
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, Rule, reason, rule
from tallystick.coordinates.rules.statements import (
    LOG_STATUS,
    RECEIVER_STORED,
    REPLICA_STATUS,
    events_from,
)

FLUSHED_IS_WRONG = reason(
    "flushed_is_wrong", "the flushed coordinate is wrong itself", Lack.OTHER_FINDING
)
MASTER_INFO_UNSEEN = reason(
    "master_info_unseen",
    "no write to slave_master_info was seen since the channel or server began",
    Lack.RELAY_LOG,
)
STORED_SELDOM = reason(
    "stored_seldom", "sync_source_info does not bound what is not stored yet", Lack.SETTING
)


@rule(
    number=28,
    tier=2,
    scope="S",
    family=Family.CHANNEL_POSITIONS,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The relay coordinate of a channel is the end of an event that is written in a file of"
        " its own relay log that exists; a channel without relay logs shows an empty name and 0."
    ),
    why=(
        "The receiver appends whole events and takes over the end of the relay log only after"
        " the write, when it flushes its positions under Master_info::data_lock, which the"
        " collection holds. It may end inside a group, but not inside an event or beyond the"
        " file."
    ),
    undecided_when=(
        "the coordinate is not readable, the relay log was not observed, has files of another base"
        " name or has a gap there, the events around the position are no longer remembered, none of"
        " them ends there and the receiver was not seen to connect since CHANGE REPLICATION SOURCE"
        " or missing records, or the channel shows no relay log though no RESET REPLICA was"
        " observed"
    ),
    sources=(
        "WL#9452, F-1.2.3",
        "WL#9452, Step-1: Master_info::flushed_relay_log_info",
    ),
    remedy=(
        "Do not copy the relay log up to this position: collect again, or restore without relay"
        " logs (relay_log_recovery=ON or auto-positioning) and let the replica fetch them"
        " anew."
    ),
    verify=(LOG_STATUS, events_from("nearest")),
    evidence=ChannelEvidence,
    columns=(
        "relay_log_file",
        "relay_log_position",
        "journal_relay_log_file",
        "journal_relay_log_position",
    ),
    cases={
        "of_another_log": Case(
            "The flushed relay log coordinate {relay} is in a file of {log}.",
            "{relay}",
            "log_status, relay_log_file and relay_log_position",
            "a file of the channel's own relay log",
            "logs of the server",
            remedy=(
                "Do not copy relay logs by this row. Compare it with SHOW REPLICA STATUS for each"
                " channel: if that pairs channels and files in another way, correct the collector"
                " that put the row together."
            ),
        ),
        "beyond_end": Case(
            "The flushed relay log coordinate {relay} is beyond what is written.",
            "{relay}",
            "log_status, relay_log_file and relay_log_position",
            "{nearest}",
            "last event end at or before it in the relay log",
        ),
        "inside_event": Case(
            "The flushed relay log coordinate {relay} is inside an event.",
            "{relay}",
            "log_status, relay_log_file and relay_log_position",
            "{nearest}",
            "last event end at or before it in the relay log",
        ),
        "not_an_end": Case(
            "The flushed relay log coordinate {relay} is not the end of an event that is written.",
            "{relay}",
            "relay_log_file and relay_log_position",
            "{nearest}",
            "last event end at or before it in the relay log",
        ),
    },
)
def relay_position_on_written_boundary(e: ChannelEvidence) -> RowAnswer:
    """RESET REPLICA leaves a file of its own events, and names none."""
    if e.relay_is_empty:
        if e.was_reset is None:
            return NOT_APPLICABLE
        return HOLDS if e.was_reset else Undecided(NO_RESET_SEEN)
    if e.relay is None:
        return Undecided(NOT_READ)
    if e.other_log is not None:
        return Broken("of_another_log", witness=e.relay, relay=e.relay, log=e.other_log)
    if e.doubt is not None:
        return e.doubt
    if e.relay == e.journal_relay:
        return HOLDS
    if e.journal_relay is None and not e.is_followed:
        return Undecided(NO_RELAY)
    if e.relay_end is None:
        case = "not_an_end"
    else:
        case = "beyond_end" if e.relay > e.relay_end else "inside_event"
    return Broken(
        case,
        witness=e.relay,
        relay=e.relay,
        nearest="none" if e.journal_relay is None else e.journal_relay,
    )


@rule(
    number=29,
    tier=2,
    scope="S",
    family=Family.CHANNEL_POSITIONS,
    severity=Severity.WARNING,
    heals="held",
    claim=(
        "The applier is not ahead of the receiver: the groups before the applied relay"
        " coordinate end before the flushed one, except for one event just being queued."
    ),
    why=(
        "The applier reads only what the receiver has written, and the receiver flushes its"
        " positions after each event that it writes. The replica status is read before the"
        " row, so the flushed coordinate can only have grown since. A rotation of an idle"
        " relay log puts header events between them, but no group."
    ),
    undecided_when=(
        "the replica status was not read, one of the coordinates is not readable or belongs to"
        " an earlier lineage, or the relay log between the two is not known without a gap"
    ),
    sources=("WL#9452, Step-1: Master_info::flushed_relay_log_info",),
    remedy=(
        "A backup by this row would apply groups that its relay log lacks: collect again, and"
        " start the restored replica by auto-positioning. If it comes back, restart the"
        " receiver."
    ),
    verify=(REPLICA_STATUS, LOG_STATUS),
    evidence=ChannelEvidence,
    cases={
        "ahead": Case(
            "The applier is at {applied}, {events:n event} after {relay}, up to which the receiver"
            " has flushed its positions.",
            "{applied}",
            "SHOW REPLICA STATUS, Relay_Log_File and Relay_Log_Pos",
            "at most one event after {relay}",
            "log_status",
        ),
    },
)
def applied_within_flushed(e: ChannelEvidence) -> RowAnswer:
    """The event that is being queued may be applied before its end is flushed."""
    if e.applied is None or e.relay is None or not same_family(e.applied, e.relay):
        return Undecided(NOT_READ)
    if e.applied <= e.relay:
        return HOLDS
    if e.events_after is None:
        return Undecided(NO_RELAY)
    if _breaks(relay_position_on_written_boundary, e):
        return Undecided(FLUSHED_IS_WRONG)
    if e.events_after <= 1:
        return HOLDS
    return Broken(
        "ahead", witness=e.applied, applied=e.applied, relay=e.relay, events=e.events_after
    )


def _breaks(other: Rule, e: ChannelEvidence) -> bool:
    assert other.judge is not None
    return isinstance(other.judge(e), Broken)


@rule(
    number=93,
    tier=2,
    scope="S",
    family=Family.CHANNEL_POSITIONS,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "The relay coordinate of a row corresponds to the source coordinate in slave_master_info at"
        " that instant: not for an earlier one, nor, where sync_source_info is N, for one that is"
        " N events later."
    ),
    why=(
        "A flush stores the source coordinate that was read and then notes the end of the relay"
        " log; each N-th flush writes the row. What the receiver has written but not flushed is"
        " left out: a copy that ends there would get these events again, one that ends before"
        " what is stored would never get the events between."
    ),
    undecided_when=(
        "no write to the repository was observed since the start of the server or of the channel,"
        " sync_source_info is 0 or not known and the coordinate is later than what is stored, the"
        " relay log around it is not known, or the channel is gtid_only. By position a receiver"
        " may store nothing inside a group, so only whole groups count there"
    ),
    sources=(
        "WL#9452, Step-1: Master_info::flushed_relay_log_info",
        "MySQL manual: sync_source_info",
    ),
    remedy=(
        "Do not copy the relay log together with slave_master_info: restore with"
        " relay_log_recovery=ON, which goes on from the executed position, or by auto-positioning."
    ),
    verify=(LOG_STATUS, RECEIVER_STORED),
    evidence=ChannelEvidence,
    cases={
        "not_flushed": Case(
            "The relay coordinate {relay} corresponds to {read} of the source, {events:n event}"
            " after {stored} in slave_master_info, though each {period:n event} it is stored.",
            "{relay}, that is {read}",
            "log_status, relay_log_file and relay_log_position",
            "less than {period:n event} after {stored}",
            "last write to slave_master_info",
        ),
        "before_stored": Case(
            "The relay coordinate {relay} is before the event that ends at {lost} of the source,"
            " but slave_master_info has {stored}: a copy would never get the events between.",
            "{relay}",
            "log_status, relay_log_file and relay_log_position",
            "the relay log at {stored}",
            "last write to slave_master_info",
        ),
    },
)
def relay_position_matches_master_info(e: ChannelEvidence) -> RowAnswer:
    """Both change in one flush, under the lock that the collection holds."""
    if e.is_gtid_only:
        return Undecided(GTID_ONLY)
    if e.relay is None:
        return NOT_APPLICABLE if e.relay_is_empty else Undecided(NOT_READ)
    if e.stored is None:
        return Undecided(MASTER_INFO_UNSEEN)
    if _is_wrong_itself(e):
        return Undecided(FLUSHED_IS_WRONG)
    if e.relay_read is None or e.events_unstored is None:
        return e.doubt or Undecided(NO_RELAY)
    if e.lost is not None:
        return Broken("before_stored", witness=e.relay, relay=e.relay, stored=e.stored, lost=e.lost)
    if not e.events_unstored:
        return HOLDS
    if not e.sync_source_info:
        return Undecided(STORED_SELDOM)
    if e.events_unstored < e.sync_source_info:
        return HOLDS
    return Broken(
        "not_flushed",
        witness=e.relay,
        relay=e.relay,
        read=e.relay_read,
        stored=e.stored,
        events=e.events_unstored,
        period=e.sync_source_info,
    )


def _is_wrong_itself(e: ChannelEvidence) -> bool:
    """Whether the coordinate is no end, has fallen, or is before what is applied."""
    previous = e.previous.get("relay")
    return (
        (same_family(previous, e.relay) and has_fallen(e.relay, previous, e.fallen.get("relay")))
        or _breaks(relay_position_on_written_boundary, e)
        or _breaks(applied_within_flushed, e)
    )
