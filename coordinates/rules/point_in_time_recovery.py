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
