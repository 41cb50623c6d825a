"""Invariants of a replication channel at one row: receiver, relay log and applier agree."""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

RELAY_POSITION_ON_WRITTEN_BOUNDARY = register(
    Rule(
        number=28,
        name="relay_position_on_written_boundary",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "The relay coordinate of a channel is the end of an event that is written in a relay"
            " log file that exists; a channel without relay logs shows an empty name and 0."
        ),
        why=(
            "The receiver appends whole events and takes over the end of the relay log only after"
            " the write, when it flushes its positions under Master_info::data_lock, which the"
            " collection holds. It may end inside a group, but not inside an event or beyond the"
            " file."
        ),
        undecided_when=(
            "the coordinate is not readable, the relay log was not observed or has a gap there, the"
            " events around the place are no longer remembered, or the channel shows no relay log"
            " though no RESET REPLICA was observed"
        ),
        sources=(
            "WL#9452, F-1.2.3",
            "WL#9452, Step-1: Master_info::flushed_relay_log_info",
        ),
        remedy=(
            "Do not copy the relay log up to this place: collect again, or restore without relay"
            " logs (relay_log_recovery=ON or auto-positioning) and let the replica fetch them"
            " anew."
        ),
    )
)


APPLIED_WITHIN_FLUSHED = register(
    Rule(
        number=29,
        name="applied_within_flushed",
        tier=2,
        scope="S",
        severity=Severity.WARNING,
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
    )
)


EXEC_SOURCE_POS_WITHIN_READ = register(
    Rule(
        number=30,
        name="exec_source_pos_within_read",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=("The executed source coordinate of a channel is not beyond the one that was read."),
        why=(
            "An event is read from the source, written to the relay log and only then applied; both"
            " coordinates name places in the source's files and come from one row of SHOW REPLICA"
            " STATUS. Beyond the read position nothing can have been applied."
        ),
        undecided_when=(
            "one of the two was not read, their base names differ (after a failover, old groups are"
            " still being applied), the channel is gtid_only and keeps no positions, or the relay"
            " log was not observed and the channel may ask by GTID set: a new connection begins"
            " further back than what is applied"
        ),
        sources=("WL#2775, Master_info and Relay_log_info",),
        remedy=(
            "Do not use the positions to move or restore the replica. Compare gtid_executed with"
            " the source's and point the channel anew with SOURCE_AUTO_POSITION=1."
        ),
    )
)


APPLIED_RELAY_GTIDS_EXECUTED = register(
    Rule(
        number=31,
        name="applied_relay_gtids_executed",
        tier=2,
        scope="S",
        severity=Severity.CRITICAL,
        claim=(
            "Every group that the applier has passed, in the relay log or by its position in the"
            " source's binary log, is executed."
        ),
        why=(
            "The applied coordinate moves with the commit of a group, or when a group is skipped"
            " because it was executed before; a filtered group is committed empty under its GTID."
            " A passed group that is not executed is a change that the replica never made. The"
            " source's log shows such groups where they were retrieved, or lie between executed"
            " ones, as behind a channel that was begun at a wrong position."
        ),
        undecided_when=(
            "the replica status was not read, gtid_executed or the applied coordinate is not"
            " readable, or neither the relay log up to the coordinate nor the source was observed."
            " The last groups before it may still be in commit; the next row decides on them"
        ),
        sources=("WL#2775, REQ-5", "MySQL manual: GTID Life Cycle"),
        remedy=(
            "Stop the channel and RESET REPLICA: without its relay log a channel with"
            " auto-positioning asks again for every GTID that is not executed. If the source has"
            " purged it, rebuild the replica."
        ),
    )
)


RETRIEVED_MATCHES_RELAY = register(
    Rule(
        number=32,
        name="retrieved_matches_relay",
        tier=2,
        scope="S",
        severity=Severity.ERROR,
        claim=(
            "Retrieved_Gtid_Set is exactly what the relay logs show: PREVIOUS_GTIDS of the oldest"
            " file kept and the complete groups behind it."
        ),
        why=(
            "The receiver adds a GTID when it has queued the group's last event, and at start the"
            " set is rebuilt from these same files. A reconnecting receiver asks the source for"
            " what is in neither this set nor gtid_executed: too large a set loses groups."
        ),
        undecided_when=(
            "the replica status was not read, the relay logs were not observed from the oldest"
            " kept file on, or a gap lies among them"
        ),
        sources=(
            "WL#2775, REQ-4",
            "MySQL manual: SHOW REPLICA STATUS Statement; The Relay Log",
        ),
        remedy=(
            "Compare the set with the relay log (SHOW RELAYLOG EVENTS). Then stop the channel and"
            " RESET REPLICA: it keeps the configuration, and with auto-positioning all that is not"
            " executed is fetched anew."
        ),
    )
)
