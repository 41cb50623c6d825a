"""CLONE INSTANCE FROM: a replica takes the data of another server and replicates on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.journal import RecordType
from producers.simulator import administration, binary_log, commit, innodb
from producers.simulator.gtid_intervals import GtidIntervals
from producers.simulator.model import Innodb

if TYPE_CHECKING:
    from producers.simulator.engine import Fleet
    from producers.simulator.model import Channel, Instance

STAGES = ("DROP DATA", "FILE COPY", "PAGE COPY", "REDO COPY", "FILE SYNC")
STAGES_AFTER_RESTART = ("RESTART", "RECOVERY")
_STAGE_US = 2_000
_BLOCKED_US = 5_000


def clone(
    fleet: Fleet,
    channel: Channel,
    *,
    blocked_us: int = _BLOCKED_US,
    position: tuple[str, int] | None = None,
) -> None:
    """The replica of ``channel`` clones its source and resumes replication there.

    Args:
        fleet: The fleet.
        channel: The only channel of the recipient; its source is the donor.
        blocked_us: How long the donor's commits stand still while the clone ends.
        position: What the clone says of the donor's binary log; None: the truth.
    """
    recipient, donor = channel.replica, channel.source
    commit.finish_all(fleet, donor)
    administration.stop_replication(fleet, channel)
    commit.finish_all(fleet, recipient)
    _tell(recipient, "begin", role="recipient", peer=donor.instance_id)
    versions = {"donor_version": donor.version, "recipient_version": recipient.version}
    _tell(recipient, "version", role="recipient", peer=donor.instance_id, **versions)
    _tell(donor, "begin", role="donor", peer=recipient.instance_id)
    for stage in STAGES:
        recipient.journal.tick(_STAGE_US)
        _tell(recipient, "stage", role="recipient", stage=stage)
    _tell(donor, "donor_blocked", role="donor", peer=recipient.instance_id)
    donor.blocked_until = donor.journal.tick(blocked_us)
    _tell(donor, "donor_released", role="donor", peer=recipient.instance_id)
    _tell(donor, "end", role="donor", peer=recipient.instance_id)
    _take_data(fleet, channel, donor)
    file, offset = position or donor.binlog.position
    cloned = {
        "binlog_file": file,
        "binlog_position": offset,
        "gtid_executed": donor.executed.text(),
    }
    for stage in STAGES_AFTER_RESTART:
        recipient.journal.tick(_STAGE_US)
        _tell(recipient, "stage", role="recipient", stage=stage)
    _tell(recipient, "recovered", role="recipient", peer=donor.instance_id, **cloned)
    _tell(recipient, "end", role="recipient", peer=donor.instance_id)
    recipient.clone_status = {
        "ID": 1,
        "PID": 0,
        "STATE": "Completed",
        "SOURCE": donor.instance_id,
        "DESTINATION": "LOCAL INSTANCE",
        "ERROR_NO": 0,
        "ERROR_MESSAGE": "",
        "BINLOG_FILE": file,
        "BINLOG_POSITION": offset,
        "GTID_EXECUTED": donor.executed.server_text(),
    }
    administration.change_source(fleet, channel, donor, position=(file, offset))
    administration.start_replication(fleet, channel)
    recipient.blocked_until = recipient.journal.tick(_STAGE_US)


def _take_data(fleet: Fleet, channel: Channel, donor: Instance) -> None:
    """Stop, take the donor's data directory, start: its own logs begin anew."""
    recipient = channel.replica
    recipient.commit_generation += 1
    recipient.rotation_is_due = False
    administration.clear_channel(channel)
    recipient.binlog.files = []
    recipient.binlog.lineage += 1
    for name in ("executed", "purged", "table", "table_only", "logged"):
        setattr(recipient, name, donor.executed.copy())
    theirs = donor.innodb
    recipient.innodb = Innodb(theirs.lsn, theirs.written, theirs.flushed, theirs.checkpoint)
    innodb.restart(recipient.innodb, fleet.rng, crashed=False)
    recipient.journal.fact(RecordType.STOP, {"clean": True})
    body = fleet.start_body(recipient)
    body["data_lineage"] = "cloned"
    body["repositories"] = []
    recipient.journal.fact(RecordType.START, body)
    binary_log.open_file(fleet, recipient, 1, GtidIntervals())


def _tell(instance: Instance, step: str, **fields: Any) -> None:
    instance.journal.fact(RecordType.CLONE, {"step": step, **fields})
