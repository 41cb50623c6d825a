"""Faults of clones (WL#9211): their entries in the catalogue, and what injects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator import administration, binary_log, commit, receiver, workload
from tallystick.producers.simulator.clone import cloning
from tallystick.producers.simulator.clone.clone_status import State
from tallystick.producers.simulator.clone.cloning import CrashPoint
from tallystick.producers.simulator.faults.fault import BaseHistory, Fault, FaultGroup, declare
from tallystick.producers.simulator.faults.injector import Injector
from tallystick.producers.simulator.faults.tampered_journal import JournalFault
from tallystick.producers.simulator.model import GroupKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallystick.producers.simulator.clone.recipient import Clone
    from tallystick.producers.simulator.engine import Fleet
    from tallystick.producers.simulator.model import BinlogFile, Channel, Instance, LoggedGroup

_SECOND_US: Final = 1_000_000
_AGAIN_US: Final = 1_500_000
"""Long enough for a collection between a clone that failed and the next one."""
_OTHER_RELEASE: Final = "8.0.32"
_CUT_OFF: Final = CrashPoint("recipient", "FILE COPY")


class _CloneFault(Injector):
    """A replica that nobody reads from clones its source, and something is wrong with it."""

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel | None = None

    def on_fleet(self, fleet: Fleet) -> None:
        """Clone when the fault is due."""
        fleet.clock.schedule(fleet.fault_at, None, self._begin, fleet)

    def _begin(self, fleet: Fleet) -> None:
        for instance in fleet.instances.values():
            channels = [c for c in instance.channels.values() if c.is_configured]
            if len(channels) != 1 or instance.subscribers or not instance.is_running:
                continue
            channel = channels[0]
            if channel.source.is_running and len(channel.source.binlog.active.groups()) >= 2:
                self.channel = channel
                self.clone(fleet, channel)
                return
        fleet.clock.schedule(fleet.now + 10_000, None, self._begin, fleet)

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Clone the channel's source."""
        cloning.clone(fleet, channel)


class ClonePositionShifted(_CloneFault):
    """F73: the page's position is where the last group of the cloned set begins."""

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Let recovery read the wrong position."""
        clone = instance.clone
        if step == "RECOVERY" and clone is not None and clone.data is not None:
            place = clone.data.innodb.trx_sys
            file, logged = _groups_up_to(clone.donor, place)[-1]
            clone.data.innodb.trx_sys = (file.name, logged.start)
            self.mark(fleet, instance)
        return True


class CloneResumeGap(_CloneFault):
    """F74: the first group that the donor would send is never queued."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped: LoggedGroup | None = None
        self._is_cloned = False

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Clone properly."""
        self._is_cloned = self._is_cloned or step == "recovered"
        return True

    def on_queue(self, fleet: Fleet, channel: Channel, logged: LoggedGroup) -> bool:
        """Skip the first group behind the clone, whenever it comes."""
        is_it = channel is self.channel and self._is_cloned
        if is_it and not self.injected:
            self._skipped = logged
            self.mark(fleet, channel.replica)
        return not (is_it and logged is self._skipped)


class CloneBlocksDonor(_CloneFault):
    """F75: the donor's XA commits stand still for two seconds."""

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Hold the donor."""
        self.mark(fleet, channel.source)
        cloning.clone(fleet, channel, blocked_us=2 * _SECOND_US)


class CloneOfAnotherVersion(_CloneFault):
    """F82: donor and recipient differ in their version, and the clone goes on."""

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Give the recipient another release of the same series."""
        channel.replica.version = _OTHER_RELEASE
        cloning.clone(fleet, channel)

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Do not refuse."""
        if step != "version":
            return True
        self.mark(fleet, instance)
        return False


class _CloneJournalFault(_CloneFault, JournalFault):
    """A clone that goes well, and a journal that tells one thing of it wrong."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Clone when the fault is due."""
        self.fleet = fleet
        super().on_fleet(fleet)


class CloneStagesMixed(_CloneJournalFault):
    """F83: PAGE COPY comes before FILE COPY."""

    _SWAPPED: Final = {"FILE COPY": "PAGE COPY", "PAGE COPY": "FILE COPY"}

    def on_fact(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Swap both stages."""
        stage = body.get("stage")
        if record_type is not RecordType.CLONE or stage not in self._SWAPPED:
            return body
        if not self.injected:
            self.mark_in(instance_id)
        return {**body, "stage": self._SWAPPED[stage]}


class CloneXaNotBlocked(_CloneFault):
    """F84: XA PREPARE is logged while the end of the clone holds external XA back."""

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Clone a server that clients write to."""
        donor = channel.source
        while donor.channels:
            donor = next(iter(donor.channels.values())).source
        cloning.clone(fleet, channel, donor=donor)

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Prepare right behind the begin of the block."""
        donation = instance.donation
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
    """F85: two commits write their places into the TRX_SYS page in the wrong order."""

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Tell of the later one first."""
        donation = instance.donation
        if step == "prepared_awaited" and donation is not None:
            groups = [(f.name, g.end) for f in instance.binlog.files for g in f.groups()]
            for name, end in reversed(groups[-2:]):
                donation.tell("commit", binlog_file=name, binlog_position=end)
            self.mark(fleet, instance)
        return True


class CloneLacksPreparedGroup(_CloneFault):
    """F86: a prepared group is not awaited: the page names a later one, the data lack it."""

    def on_clone_step(self, fleet: Fleet, instance: Instance, step: str) -> bool:
        """Take a group before the last one out of the copy."""
        clone = instance.clone
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
    """F87: clone_status shows Completed for a clone that a crash has ended."""

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Let the recipient crash, and leave time for a row."""
        cloning.clone(fleet, channel, crashes=(_CUT_OFF,), again_us=_AGAIN_US)

    def on_row(
        self, fleet: Fleet, instance: Instance, body: dict[str, Any]
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
    """F88: recovery read another position than the one that clone_status shows."""

    def on_fact(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Tell of a position one byte on."""
        if record_type is not RecordType.CLONE or body.get("step") != "recovered":
            return body
        self.mark_in(instance_id)
        return {**body, "binlog_position": body["binlog_position"] + 1}


class FailedCloneResumed(_CloneFault):
    """F89: replication starts on dropped data."""

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Let the recipient crash, and start replication before the clone is issued again."""
        cloning.clone(fleet, channel, crashes=(_CUT_OFF,), again_us=_AGAIN_US)
        self._resume(fleet)

    def _resume(self, fleet: Fleet) -> None:
        assert self.channel is not None
        recipient = self.channel.replica
        status = recipient.clone_status
        if status is None or status.state is not State.FAILED or not recipient.is_running:
            fleet.clock.schedule(fleet.now + 10_000, None, self._resume, fleet)
            return
        self.mark(fleet, recipient)
        receiver.start(fleet, self.channel)


class CloneOfPurgedDonor(_CloneFault):
    """F90: the donor purges what the recipient needs, before replication starts."""

    def clone(self, fleet: Fleet, channel: Channel) -> None:
        """Purge between clone and replication."""
        cloning.clone(fleet, channel, step_4=self._purge)

    def _purge(self, fleet: Fleet, channel: Channel, cloned: Clone) -> None:
        donor, recipient = cloned.donor, channel.replica
        others = [c.replica for c in donor.subscribers if c is not channel]
        commit.finish_all(fleet, donor)
        news = donor.executed.minus(recipient.executed)
        if not news or any(not donor.executed.is_subset(other.executed) for other in others):
            fleet.clock.schedule(fleet.now + 10_000, None, self._purge, fleet, channel, cloned)
            return
        administration.flush_binary_logs(fleet, donor)
        self.mark(fleet, recipient)
        binary_log.purge(fleet, donor, donor.binlog.active.number)
        cloning.follow_donor(fleet, channel, cloned)


def _groups_up_to(
    instance: Instance, place: tuple[str, int]
) -> list[tuple[BinlogFile, LoggedGroup]]:
    """The groups with GTIDs that end at or before a place of the binary log."""
    return [
        (file, logged)
        for file in instance.binlog.files
        for logged in file.groups()
        if (file.name, logged.end) <= place and logged.group.sid is not None
    ]


def _declare(
    number: int, name: str, injection: str, *must_fire: str, heals: bool = True, acts: bool = True
) -> Fault:
    return declare(
        number,
        FaultGroup.PROTOCOL,
        name,
        injection,
        *must_fire,
        base=BaseHistory.SINGLE_CHANNEL,
        heals=heals,
        bears_acts=acts,
    )


CLONE_FAULTS: Final = (
    _declare(
        82, "clone_of_another_version",
        "a clone goes on although donor and recipient have different versions",
        "clone_protocol",
    ),
    _declare(
        83, "clone_stages_mixed",
        "a clone is told to copy pages before files",
        "clone_protocol",
    ),
    _declare(
        84, "clone_xa_not_blocked",
        "the donor logs XA PREPARE while the end of a clone blocks external XA",
        "clone_blocks_xa",
    ),
    _declare(
        85, "clone_commits_unordered",
        "two commits of the donor write the TRX_SYS page out of order while a clone ends",
        "clone_commits_ordered",
    ),
    _declare(
        86, "clone_lacks_prepared_group",
        "a clone does not wait for a prepared group in front of its position",
        "clone_coordinates_equal_donor", "clone_resume_exact",
        heals=False, acts=False,
    ),
    _declare(
        87, "failed_clone_completed",
        "one row of clone_status shows a failed clone as Completed",
        "clone_status_agrees",
    ),
    _declare(
        88, "clone_status_shows_other",
        "clone_status shows another position than recovery read from the TRX_SYS page",
        "clone_status_agrees",
        heals=False,
    ),
    _declare(
        89, "failed_clone_resumed",
        "replication starts on a recipient whose clone failed with its data dropped",
        "failed_clone_not_resumed",
        acts=False,
    ),
    _declare(
        90, "clone_of_purged_donor",
        "the donor purges its binary log between a clone and the start of replication",
        "purged_not_needed",
        heals=False, acts=False,
    ),
)  # fmt: skip
"""What the catalogue has of clones beside F73 to F75."""

CLONE_INJECTORS: Final[Mapping[str, Callable[[], Injector]]] = {
    "clone_position_shifted": ClonePositionShifted,
    "clone_resume_gap": CloneResumeGap,
    "clone_blocks_donor": CloneBlocksDonor,
    "clone_of_another_version": CloneOfAnotherVersion,
    "clone_stages_mixed": CloneStagesMixed,
    "clone_xa_not_blocked": CloneXaNotBlocked,
    "clone_commits_unordered": CloneCommitsUnordered,
    "clone_lacks_prepared_group": CloneLacksPreparedGroup,
    "failed_clone_completed": FailedCloneReported,
    "clone_status_shows_other": CloneStatusShowsOther,
    "failed_clone_resumed": FailedCloneResumed,
    "clone_of_purged_donor": CloneOfPurgedDonor,
}
