"""Tiers 3 and 4: what a backup image names, and what its recovery arrives at. Registry entries.

The steps come from `backup` records (docs/journal.md).
"""

from __future__ import annotations

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.registry import Rule, register

BACKUP_IMAGE_NAMES_ONE_STATE = register(
    Rule(
        number=84,
        name="backup_image_names_one_state",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "The binary log position in an image's summary is the end of a group, lies where the"
            " log stood at the validity point, and the image's GTID set is what the log holds up to"
            " it."
        ),
        why=(
            "At the validity point no thread is between writing the binary log and making its"
            " change visible, so data, GTID set and position are one state. A position that leads"
            " the data loses groups in the recovery, one that trails it executes them twice."
        ),
        undecided_when=(
            "the binary log around the position was not seen or is no longer remembered, the image"
            " has no position or no GTID set, or the server executes groups that it does not log."
            " Without the steps of the commit zone the place of the validity point is not judged"
        ),
        sources=("WL#3576, requirements 1 and 3; Solution with a critical zone",),
        remedy=(
            "Do not recover from this image and start no replica at its position. Take the backup"
            " again with the commit zone closed until position and data are stored."
        ),
    )
)

BACKUP_REPLICA_POSITIONS_AGREE = register(
    Rule(
        number=85,
        name="backup_replica_positions_agree",
        tier=3,
        scope="T",
        severity=Severity.CRITICAL,
        claim=(
            "In the summary of a replica's image neither info repository is beyond the position"
            " that it stores, a transactional slave_relay_log_info names the last transaction that"
            " was committed, and the GTID set holds every group that it has passed."
        ),
        why=(
            "At the validity point no applier is inside a group, so the positions read and"
            " executed, both repositories and the data are one state. A server restored from the"
            " image goes on at these positions: a stale one repeats groups, one that leads"
            " loses them."
        ),
        undecided_when=(
            "the image has no applied place or no GTID set, or the channel's relay log was not"
            " seen; of a repository that is not transactional, or a low-water mark of workers, it"
            " is not claimed that it names the last transaction"
        ),
        sources=(
            "WL#3576, requirement 2: replication state, slave position, master.info, relay.info",
            "WL#2775, REQ-5",
        ),
        remedy=(
            "Do not start replication of a restored server from the image's repositories: use its"
            " GTID set, or the executed position after comparing it with the data. Stop the applier"
            " before the next backup."
        ),
    )
)

REPLAY_CONTINUES_IMAGE = register(
    Rule(
        number=86,
        name="replay_continues_image",
        tier=4,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "A point-in-time recovery executes every group of the binary log between the image's"
            " position and its stop point that the image does not hold, each once, in the order of"
            " the log."
        ),
        why=(
            "The image has everything up to its position and nothing behind it, so a replay that"
            " begins exactly there neither loses nor repeats a change. With GTIDs the server skips"
            " what it has; without them the position alone decides."
        ),
        undecided_when=(
            "the log between image and stop point was not seen or is not remembered, the image"
            " tells no position in that log, or the restored server's log was not seen completely"
        ),
        sources=(
            "WL#3576, requirement 1 and title: Point in time recovery",
            "MySQL manual: Point-in-Time (Incremental) Recovery",
        ),
        remedy=(
            "Discard the restored server. Restore the image again and replay from the position in"
            " its summary, all files in order, in one run."
        ),
    )
)

RECOVERY_REACHES_STOP_POINT = register(
    Rule(
        number=87,
        name="recovery_reaches_stop_point",
        tier=4,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "A point-in-time recovery ends where it was told to, and gtid_executed is then what the"
            " source had logged there, but for what the image held besides and what was left out on"
            " purpose."
        ),
        why=(
            "Image and replay together are the source's history up to the stop point. A GTID that"
            " is missing will be asked for again by a replica, or never come; one too many will"
            " never be executed."
        ),
        undecided_when=(
            "the head of the source's binary log file at the stop point was not seen, or the"
            " restored server's gtid_executed was not read. A stop by time is judged by where the"
            " replay says that it ended"
        ),
        sources=(
            "WL#3576, title: Point in time recovery",
            "MySQL manual: Point-in-Time Recovery Using Event Positions; gtid_purged",
        ),
        remedy=(
            "If the image's set was not restored, set gtid_purged to it before replaying. Else"
            " restore again; do not let the server become a source or replica as it is."
        ),
    )
)

RECOVERED_DATA_EQUAL_SOURCE = register(
    Rule(
        number=88,
        name="recovered_data_equal_source",
        tier=4,
        scope="X",
        severity=Severity.CRITICAL,
        claim=(
            "Restored tables have the content that the image has, the image that of the source at"
            " its position, and recovered ones that of the source at the stop point, whatever their"
            " engine."
        ),
        why=(
            "All engines are locked at one validity point behind the last visible change, so no"
            " part of the image is older or newer than the position. A change of a"
            " non-transactional table that only commits were locked against is in the log and"
            " not in the image, or the other way round."
        ),
        undecided_when=(
            "the source told no checksums at the stop point, groups were left out on purpose, or"
            " the source's journal is not known up to the recovery. Nothing is claimed where no"
            " checksums are told"
        ),
        sources=("WL#3576, Non-transactional engines and invisible data changes",),
        remedy=(
            "Compare the named table with the source's, and take a new backup that locks the"
            " engine of that table too, until its table locks are released."
        ),
    )
)
