"""Faults of clones (WL#9211): what is copied, when, and what the recipient does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.clone import cloning
from tallystick.producers.simulator.clone.clone_status import CloneStatus, State
from tallystick.producers.simulator.clone.cloning import CrashPoint
from tallystick.producers.simulator.clone.donor import Donation
from tallystick.producers.simulator.clone.recipient import Clone
from tallystick.producers.simulator.faults import cures
from tallystick.producers.simulator.faults.fault import ActFault, BaseHistory, FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.server import (
    administration,
    binary_log,
    commit,
    receiver,
    workload,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.binary_log import BinlogFile
    from tallystick.producers.simulator.server.channels import Channel

_SECOND_US: Final = 1_000_000
_AGAIN_US: Final = 1_500_000
"""Long enough for a collection between a clone that failed and the next one."""
_OTHER_RELEASE: Final = "8.0.32"
_CUT_OFF: Final = CrashPoint("recipient", "FILE COPY")


class _CloneFault(ActFault):
    """A replica that nobody reads from clones its source, and something is wrong with it."""

    group = FaultGroup.PROTOCOL
    base = BaseHistory.SINGLE_CHANNEL
    retry_us = 10_000

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel | None = None

    def act(self, fleet: World) -> bool:
        for instance in fleet.instances.values():
            channels = instance[ChannelMap].configured
            if len(channels) != 1 or instance[ChannelMap].subscribers or not instance.is_running:
                continue
            channel = channels[0]
            if channel.source.is_running and len(channel.source[BinaryLog].active.groups()) >= 2:
                self.channel = channel
                self.clone(fleet, channel)
                return True
        return False

    def clone(self, fleet: World, channel: Channel) -> None:
        """Clone the channel's source."""
        cloning.clone(fleet, channel)

    def cure(self, fleet: World) -> None:
        """Clone it anew, also where the donor shows what was wrong."""
        assert self.channel is not None
        cures.rebuild(fleet, self.channel.replica.instance_id)


class ClonePositionShifted(_CloneFault):
    """The page's position is where the last group of the cloned set begins."""

    number = 73
    name = "clone_position_shifted"
    text = "a clone reports a position one group before its GTID set"
    must_fire = frozenset({"clone_coordinates_equal_donor"})
    heals = False

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """Let recovery read the wrong position."""
        clone = instance.get(Clone)
        if step == "RECOVERY" and clone is not None and clone.data is not None:
            position = clone.data.innodb.trx_sys
            for file, logged in _groups_up_to(clone.donor, position)[-1:]:
                clone.data.innodb.trx_sys = (file.name, logged.start)
                self.mark(fleet, instance)
        return True


class CloneResumeGap(_CloneFault):
    """The first group that the donor would send is never queued."""

    number = 74
    name = "clone_resume_gap"
    text = "the first group that a clone receives is one too late"
    must_fire = frozenset({"clone_resume_exact"})
    heals = False
    bears_acts = False

    def __init__(self) -> None:
        super().__init__()
        self._skipped: LoggedGroup | None = None
        self._is_cloned = False

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """Clone properly."""
        self._is_cloned = self._is_cloned or step == "recovered"
        return True

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """Skip the first group after the clone, whenever it comes."""
        is_it = channel is self.channel and self._is_cloned
        if is_it and not self.injected:
            self._skipped = logged
            self.mark(fleet, channel.replica)
        return not (is_it and logged is self._skipped)


class CloneBlocksDonor(_CloneFault):
    """The donor's XA commits wait for two seconds."""

    number = 75
    name = "clone_blocks_donor"
    text = "a clone blocks the donor's commits for two seconds"
    must_fire = frozenset({"clone_protocol"})

    def clone(self, fleet: World, channel: Channel) -> None:
        """Hold the donor."""
        self.mark(fleet, channel.source)
        cloning.clone(fleet, channel, blocked_us=2 * _SECOND_US)


class CloneOfAnotherVersion(_CloneFault):
    """Donor and recipient differ in their version, and the clone goes on."""

    number = 82
    name = "clone_of_another_version"
    text = "a clone goes on although donor and recipient have different versions"
    must_fire = frozenset({"clone_protocol"})

    def clone(self, fleet: World, channel: Channel) -> None:
        """Give the recipient another release of the same series."""
        channel.replica.version = _OTHER_RELEASE
        cloning.clone(fleet, channel)

    def cure(self, fleet: World) -> None:
        """Give the recipient the donor's release, and clone anew."""
        assert self.channel is not None
        self.channel.replica.version = self.channel.source.version
        super().cure(fleet)

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """Do not refuse."""
        if step != "version":
            return True
        self.mark(fleet, instance)
        return False


class _CloneJournalFault(_CloneFault, JournalFault):
    """A clone that goes well, and a journal that records one thing of it wrong."""


class CloneStagesMixed(_CloneJournalFault):
    """PAGE COPY comes before FILE COPY."""

    number = 83
    name = "clone_stages_mixed"
    text = "a clone's journal says that pages were copied before files"
    must_fire = frozenset({"clone_protocol"})
    _SWAPPED: Final = {"FILE COPY": "PAGE COPY", "PAGE COPY": "FILE COPY"}

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Swap both stages."""
        stage = body.get("stage")
        if record_type is not RecordType.CLONE or stage not in self._SWAPPED:
            return body
        if not self.injected:
            self.mark_in(instance_id)
        return {**body, "stage": self._SWAPPED[stage]}


class _CloneStepLeftOut(_CloneJournalFault):
    """Donor or recipient does not take one step."""

    left_out: str

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Leave it out."""
        is_it = self.left_out in (body.get("step"), body.get("stage"))
        if record_type is not RecordType.CLONE or not is_it:
            return body
        if not self.injected:
            self.mark_in(instance_id)
        return None


class CloneOrderNotForced(_CloneStepLeftOut):
    """The donor relies on a setting that may be off."""

    number = 170
    name = "clone_order_not_forced"
    text = "the donor of a clone never forces the order of commits"
    must_fire = frozenset({"clone_donor_steps_complete"})
    left_out = "order_forced"


class CloneWithoutXaBlock(_CloneStepLeftOut):
    """External XA goes on while the position is read."""

    number = 171
    name = "clone_without_xa_block"
    text = "the donor of a clone never blocks external XA"
    must_fire = frozenset({"clone_donor_steps_complete"})
    left_out = "donor_blocked"


class CloneWithoutRedoCopy(_CloneStepLeftOut):
    """What changed after the page copy is not in the clone."""

    number = 172
    name = "clone_without_redo_copy"
    text = "a clone goes from the page copy to the file sync"
    must_fire = frozenset({"clone_recipient_steps_complete"})
    left_out = "REDO COPY"


class ClonePositionReadLate(_CloneJournalFault):
    """The donor lets XA go on first."""

    number = 173
    name = "clone_position_read_late"
    text = "the donor of a clone reads the position after it has released external XA"
    must_fire = frozenset({"clone_donor_steps_complete"})

    def __init__(self) -> None:
        super().__init__()
        self._held: Mapping[str, Any] | None = None

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Swap both steps."""
        if record_type is not RecordType.CLONE:
            return body
        if body.get("step") == "position_read":
            self._held = body
            return None
        if body.get("step") == "donor_released" and self._held is not None:
            held, self._held = self._held, None
            assert self.fleet is not None
            if not self.injected:
                self.mark_in(instance_id)
            self.fleet.instances[instance_id].journal.record(RecordType.CLONE, body)
            return held
        return body


class CloneXaNotBlocked(_CloneFault):
    """XA PREPARE is logged while the end of the clone holds external XA back."""

    number = 84
    name = "clone_xa_not_blocked"
    text = "the donor logs XA PREPARE while the end of a clone blocks external XA"
    must_fire = frozenset({"clone_blocks_xa"})

    def clone(self, fleet: World, channel: Channel) -> None:
        """Clone a server that clients write to."""
        donor = channel.source
        while donor[ChannelMap].channels:
            donor = next(iter(donor[ChannelMap].channels.values())).source
        cloning.clone(fleet, channel, donor=donor)

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """Prepare right after the begin of the block."""
        donation = instance.get(Donation)
        if step == "donor_blocked" and donation is not None:
            donation.order.blocks_xa = False
            group = workload.make_group(
                fleet.rng, GroupKind.XA_PREPARE, instance.server_id, fleet.now
            )
            commit.commit(fleet, instance, group)
            donation.order.blocks_xa = True
            self.mark(fleet, instance)
        return True


class CloneCommitsUnordered(_CloneFault):
    """Two commits write their positions into the TRX_SYS page in the wrong order."""

    number = 85
    name = "clone_commits_unordered"
    text = "two commits of the donor write the TRX_SYS page out of order while a clone ends"
    must_fire = frozenset({"clone_commits_ordered"})

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """Record the later one first."""
        donation = instance.get(Donation)
        if step == "prepared_awaited" and donation is not None:
            groups = [(f.name, g.end) for f in instance[BinaryLog].files for g in f.groups()]
            for name, end in reversed(groups[-2:]):
                donation.record("commit", binlog_file=name, binlog_position=end)
            self.mark(fleet, instance)
        return True


class CloneLacksPreparedGroup(_CloneFault):
    """A prepared group is not awaited: the page names a later one, the data lack it."""

    number = 86
    name = "clone_lacks_prepared_group"
    text = "a clone does not wait for a prepared group in front of its position"
    must_fire = frozenset({"clone_coordinates_equal_donor", "clone_resume_exact"})
    heals = False
    bears_acts = False

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """Take a group before the last one out of the copy."""
        clone = instance.get(Clone)
        if step == "RESTART" and clone is not None and clone.data is not None:
            copied = _groups_up_to(clone.donor, clone.data.innodb.trx_sys)
            for _, logged in reversed(copied[:-1]):
                gtid = str(logged.group.sid), logged.group.gno
                if gtid not in clone.data.undo:
                    clone.data.table.discard(*gtid)
                    self.mark(fleet, instance)
                    break
        return True


class FailedCloneReported(_CloneFault):
    """Clone_status shows Completed for a clone that a crash has ended."""

    number = 87
    name = "failed_clone_completed"
    text = "one row of clone_status shows a failed clone as Completed"
    must_fire = frozenset({"clone_status_agrees"})

    def clone(self, fleet: World, channel: Channel) -> None:
        """Let the recipient crash, and leave time for a row."""
        cloning.clone(fleet, channel, crashes=(_CUT_OFF,), again_us=_AGAIN_US)

    def on_row(
        self, fleet: World, instance: Instance, body: dict[str, Any]
    ) -> dict[str, Any] | None:
        """Change the state that one row shows."""
        status = body.get("clone_status", {})
        if self.injected or status.get("STATE") != State.FAILED.value:
            return body
        self.mark(fleet, instance)
        said = {"STATE": State.COMPLETED.value, "ERROR_NO": 0, "ERROR_MESSAGE": ""}
        progress = [{**row, "STATE": State.COMPLETED.value} for row in body["clone_progress"]]
        return {**body, "clone_status": {**status, **said}, "clone_progress": progress}


class CloneStatusShowsOther(_CloneJournalFault):
    """Recovery read another position than the one that clone_status shows."""

    number = 88
    name = "clone_status_shows_other"
    text = "clone_status shows another position than recovery read from the TRX_SYS page"
    must_fire = frozenset({"clone_status_agrees"})
    heals = False

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Record a position one byte further."""
        if record_type is not RecordType.CLONE or body.get("step") != "recovered":
            return body
        self.mark_in(instance_id)
        return {**body, "binlog_position": body["binlog_position"] + 1}


class FailedCloneResumed(_CloneFault):
    """Replication starts on dropped data."""

    number = 89
    name = "failed_clone_resumed"
    text = "replication starts on a recipient whose clone failed with its data dropped"
    must_fire = frozenset({"failed_clone_not_resumed"})
    bears_acts = False

    def clone(self, fleet: World, channel: Channel) -> None:
        """Let the recipient crash, and start replication before the clone is issued again."""
        cloning.clone(fleet, channel, crashes=(_CUT_OFF,), again_us=_AGAIN_US)
        self._resume(fleet)

    def _resume(self, fleet: World) -> None:
        assert self.channel is not None
        recipient = self.channel.replica
        status = recipient.get(CloneStatus)
        if status is None or status.state is not State.FAILED or not recipient.is_running:
            fleet.schedule(fleet.now + 10_000, None, self._resume)
            return
        self.mark(fleet, recipient)
        receiver.start(fleet, self.channel)


class CloneOfPurgedDonor(_CloneFault):
    """The donor purges what the recipient needs, before replication starts."""

    number = 90
    name = "clone_of_purged_donor"
    text = "the donor purges its binary log between a clone and the start of replication"
    must_fire = frozenset({"purged_not_needed", "receiver_not_failed"})
    heals = False
    bears_acts = False

    def clone(self, fleet: World, channel: Channel) -> None:
        """Purge between clone and replication."""
        cloning.clone(fleet, channel, step_4=self._purge)

    def _purge(self, fleet: World, channel: Channel, cloned: Clone) -> None:
        donor, recipient = cloned.donor, channel.replica
        others = [c.replica for c in donor[ChannelMap].subscribers if c is not channel]
        commit.finish_all(fleet, donor)
        news = donor[GtidState].executed.minus(recipient[GtidState].executed)
        if not news or any(
            not donor[GtidState].executed.is_subset(other[GtidState].executed) for other in others
        ):
            fleet.schedule(fleet.now + 10_000, None, self._purge, channel, cloned)
            return
        administration.flush_binary_logs(fleet, donor)
        self.mark(fleet, recipient)
        binary_log.purge(fleet, donor, donor[BinaryLog].active.number)
        cloning.follow_donor(fleet, channel, cloned)


def _groups_up_to(
    instance: Instance, position: tuple[str, int]
) -> list[tuple[BinlogFile, LoggedGroup]]:
    """The groups with GTIDs that end at or before a position of the binary log."""
    return [
        (file, logged)
        for file in instance[BinaryLog].files
        for logged in file.groups()
        if (file.name, logged.end) <= position and logged.group.sid is not None
    ]
