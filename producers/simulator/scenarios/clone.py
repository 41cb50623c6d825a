"""Clone replication coordinates (WL#9211), shown: three replicas are made anew while clients write.

The first one's clone is cut off twice and completes. The second one's is refused; later its
channel starts at the cloned position. The third one comes back to its group when the logs that it
lacks are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.clone import cloning, distributed_recovery
from tallystick.producers.simulator.clone.clone_status import STAGES, CloneStatus, State
from tallystick.producers.simulator.clone.cloning import CrashPoint
from tallystick.producers.simulator.clone.donor import CLONE_STEP, Donation
from tallystick.producers.simulator.clone.recipient import Clone
from tallystick.producers.simulator.innodb.redo_log import Innodb
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.fleet import GroupReplication
from tallystick.producers.simulator.scenarios.design_scenario import Claim, DesignScenario
from tallystick.producers.simulator.server import (
    administration,
    clients,
    commit,
    lifecycle,
    workload,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.commit_queue import CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.receiver import QUEUE

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group, LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel

_MS = 1_000
_SOURCE = "source-a"
_OTHER_RELEASE = "8.0.32"
_AGAIN_US = 700_000
"""After the start that follows a crash."""
_EQUAL, _RESUME = "clone_coordinates_equal_donor", "clone_resume_exact"


class _Watcher:
    """Says what clones do, when they do it; it changes nothing."""

    def __init__(self) -> None:
        self.logged_at_begin = 0
        self.blocked_at = 0
        self.cloned: dict[str, Clone] = {}

    def on_clone_step(self, fleet: World, instance: Instance, step: str) -> bool:
        """A donor's or a recipient's step."""
        if instance.get(Donation) is not None:
            self._donor_stepped(fleet, instance, step)
        clone = instance.get(Clone)
        if clone is not None:
            self._recipient_stepped(fleet, instance, clone, step)
        return True

    def _donor_stepped(self, fleet: World, donor: Instance, step: str) -> None:
        donation = donor.get(Donation)
        assert donation is not None
        if step == "order_forced":
            waiting = len(donation.order.unordered)
            fleet.show(
                "PHY ordered commit",
                donor,
                "binlog_order_commits is OFF; from here groups commit in the order of "
                f"{donor[BinaryLog].position[0]}, {waiting} prepared before are awaited",
            )
        elif step == "prepared_awaited":
            fleet.show(
                "PHY unordered prepared",
                donor,
                f"none of them is left; {len(donor[CommitQueue].in_commit)} newer ones commit "
                "in order",
            )
        elif step == "donor_blocked":
            group = workload.make_group(fleet.rng, GroupKind.XA_PREPARE, donor.server_id, fleet.now)
            commit.commit(fleet, donor, group)
            self.blocked_at = fleet.now
            fleet.schedule(fleet.now + 40 * _MS, None, _show_xa, donor, group)
        elif step == "position_read":
            file, position = donor[Innodb].trx_sys
            fleet.show("PHY in TRX_SYS", donor, f"the page says {file}:{position}")
            waited = fleet.now - self.blocked_at
            fleet.show(
                "NF-1", donor, f"external XA has waited {waited} µs, other commits not at all"
            )
            writes = donor[Innodb].transactions.trx_num_gtid
            fleet.show(
                "key point 2 triggered by a clone",
                donor,
                f"GTIDs of all transactions below number {writes} are in mysql.gtid_executed",
            )

    def _recipient_stepped(
        self, fleet: World, recipient: Instance, clone: Clone, step: str
    ) -> None:
        donor = clone.donor
        if step == STAGES[0]:
            self.logged_at_begin = len(donor[BinaryLog].active.groups())
        elif step == "REDO COPY":
            # So that some are between flush and commit stage when the end begins.
            for _ in range(3):
                clients.write(fleet, donor)
            grown = len(donor[BinaryLog].active.groups()) - self.logged_at_begin
            if grown > 0:
                fleet.show(
                    "GTID without blocking",
                    donor,
                    f"{grown} groups were logged while its data were copied",
                )
        elif step == "recovered":
            _show_recovery(fleet, recipient, clone)

    def on_queue(self, fleet: World, channel: Channel, logged: LoggedGroup) -> bool:
        """The first group that a clone receives."""
        clone = self.cloned.pop(channel.replica.instance_id, None)
        if clone is not None:
            status = clone.status
            fleet.show(
                "F-2",
                channel.replica,
                f"cloned up to {status.binlog_file}:{status.binlog_position}; the first group "
                f"received is at {logged.start} and has GTID {logged.group.gno} of its server",
            )
        return True


def _show_recovery(fleet: World, recipient: Instance, clone: Clone) -> None:
    status, data = clone.status, clone.data
    assert data is not None
    executed = recipient[GtidState].executed
    fleet.show("F-1.1", recipient, f"gtid_executed is {_brief(executed.text())}, as in the copy")
    position = f"{status.binlog_file}:{status.binlog_position}"
    file = next(f for f in clone.donor[BinaryLog].files if f.name == status.binlog_file)
    is_end = any(logged.end == status.binlog_position for logged in file.groups())
    what = "the end of a group" if is_end else "the head of the file"
    fleet.show("F-1.2", recipient, f"clone_status says {position}, {what} in the donor's log")
    fleet.show("PHY at the recipient", recipient, f"recovery read {position} from the TRX_SYS page")
    fleet.show(
        "F-7",
        recipient,
        f"the table of the copy had {_brief(data.table.text())}, undo logs "
        f"{_brief(data.undo.text()) or 'nothing more'}",
    )


def _show_xa(fleet: World, donor: Instance, group: Group) -> None:
    if group.sid is None:
        fleet.schedule(fleet.now + 10 * _MS, None, _show_xa, donor, group)
        return
    logged = next(g for f in donor[BinaryLog].files for g in f.groups() if g.group is group)
    fleet.show(
        "PHY XA blocked",
        donor,
        f"an XA PREPARE issued while the block lasted was logged after it, at {logged.start}, as "
        f"GTID {group.gno} of its server",
    )


def _brief(text: str) -> str:
    return ", ".join(part[:8] + part[36:] for part in text.split(",") if part)


# The first replica: a clone that is cut off


def _clone_first(fleet: World, watcher: _Watcher, channel: Channel) -> None:
    crashes = (CrashPoint("recipient", "FILE COPY"), CrashPoint("recipient", "RECOVERY"))

    def step_4(fleet: World, channel: Channel, clone: Clone) -> None:
        states = {name: stage.state.value for name, stage in clone.status.stages.items()}
        fleet.show("clone_progress stages", channel.replica, ", ".join(states))
        fleet.show(
            "failure: during recovery",
            channel.replica,
            "recovery was cut off once and began again; the clone has completed with "
            f"{clone.status.binlog_file}:{clone.status.binlog_position}",
        )
        fleet.show("column STATE", channel.replica, clone.status.state.value)
        watcher.cloned[channel.replica.instance_id] = clone
        channel[Receiver].semi_sync = True
        cloning.follow_donor(fleet, channel, clone)
        fleet.show("US-1.2", channel.replica, "replication starts with auto-position")
        fleet.show("F-4", channel.replica, f"{clone.donor.instance_id} waits for its receiver")
        fleet.show("F-5", channel.replica, f"it follows {clone.donor.instance_id}")

    cloning.clone(fleet, channel, crashes=crashes, step_4=step_4, again_us=_AGAIN_US)
    _see_failure(fleet, channel.replica)


def _see_failure(fleet: World, recipient: Instance) -> None:
    status = recipient.get(CloneStatus)
    if status is None or status.state is not State.FAILED or not recipient.is_running:
        fleet.schedule(fleet.now + 5 * _MS, None, _see_failure, recipient)
        return
    fleet.show(
        "failure: during clone",
        recipient,
        f"after the start clone_status says {status.state.value}, error {status.error.number} "
        f"({status.error.message}); the clone is issued again",
    )
    fleet.show("column ERROR_NO", recipient, f"{status.error.number}")


# The second replica: another release, then the cloned position


def _change_release(fleet: World, channel: Channel, version: str) -> None:
    lifecycle.shut_down(fleet, channel.replica)
    channel.replica.version = version


def _clone_refused(fleet: World, channel: Channel) -> None:
    cloning.clone(fleet, channel)
    _see_refusal(fleet, channel)


def _see_refusal(fleet: World, channel: Channel) -> None:
    recipient, status = channel.replica, channel.replica.get(CloneStatus)
    if recipient[ChannelMap].awaits_clone or status is None or status.state is not State.FAILED:
        fleet.schedule(fleet.now + 5 * _MS, None, _see_refusal, channel)
        return
    fleet.show(
        "ER_CLONE_DONOR_VERSION", recipient, f"{status.error.number}: {status.error.message}"
    )


def _clone_by_position(fleet: World, watcher: _Watcher, channel: Channel) -> None:
    def step_4(fleet: World, channel: Channel, clone: Clone) -> None:
        watcher.cloned[channel.replica.instance_id] = clone
        channel.auto_position = False
        cloning.follow_donor(fleet, channel, clone)
        file, position = clone.status.binlog_file, clone.status.binlog_position
        fleet.show(
            "US-1.3",
            channel.replica,
            f"MASTER_LOG_FILE = {file!r}, MASTER_LOG_POS = {position}, as clone_status says",
        )

    cloning.clone(fleet, channel, step_4=step_4)


# The third replica: a member of the group


def _leave(fleet: World, channel: Channel) -> None:
    administration.reset_replica(fleet, channel, everything=True)


def _purge(fleet: World, watcher: _Watcher, channel: Channel) -> None:
    """Purge as soon as the others have applied what the member lacks; then it joins again."""
    donor, member = channel.source, channel.replica
    administration.purge_binary_logs(fleet, donor)
    if distributed_recovery.needs_clone(member, donor):
        fleet.schedule(fleet.now + 100 * _MS, None, _join, watcher, channel)
    else:
        fleet.schedule(fleet.now + 50 * _MS, None, _purge, watcher, channel)


def _join(fleet: World, watcher: _Watcher, channel: Channel) -> None:
    donor, member = channel.source, channel.replica
    gone = donor[GtidState].purged.minus(member[GtidState].executed)
    fleet.show(
        "user story 2",
        member,
        f"the donor has purged {_brief(gone.text())}, which the member lacks: it clones",
    )

    def step_4(fleet: World, channel: Channel, clone: Clone) -> None:
        watcher.cloned[channel.replica.instance_id] = clone
        distributed_recovery.recover_behind_clone(fleet, channel, clone)
        name = distributed_recovery.RECOVERY_CHANNEL
        for requirement in ("F-3", "US-1.1"):
            fleet.show(
                requirement, channel.replica, f"channel {name} goes on from {donor.instance_id}"
            )

    cloning.clone(fleet, channel, donor=donor, step_4=step_4)


def _arrange(fleet: World) -> None:
    GroupReplication().arrange(fleet)
    fleet.pace.commit_stage_us = (2_000, 60_000)
    watcher = _Watcher()
    fleet.bus.connect(CLONE_STEP, watcher.on_clone_step)
    fleet.bus.connect(QUEUE, watcher.on_queue)
    source = fleet.instances[_SOURCE]
    first, second, third = (
        next(iter(fleet.instances[f"replica-a{number}"][ChannelMap].channels.values()))
        for number in (1, 2, 3)
    )
    for ms, act, args in (
        (600, _change_release, (second, _OTHER_RELEASE)),
        (1_200, _clone_first, (watcher, first)),
        (2_800, _clone_refused, (second,)),
        (3_600, _change_release, (second, source.version)),
        (3_700, _leave, (third,)),
        (3_900, administration.flush_binary_logs, (source,)),
        (4_700, _purge, (watcher, third)),
        (6_000, _clone_by_position, (watcher, second)),
    ):
        fleet.schedule(fleet.start_ts + ms * _MS, None, act, *args)


SCENARIO = DesignScenario(
    name="clone",
    design="WL#9211",
    title="Clone replication coordinates",
    options={
        "topology": "star",
        "profile": "mysql-8.0",
        "duration_ms": 9_000,
        "writes_per_second": 20.0,
        "order_commits": False,
        "auto_position": True,
        "acts": False,
        "max_binlog_size": 1 << 20,
    },
    arrange=_arrange,
    claims=(
        Claim("user story 2", "A member clones where the logs it lacks are purged.", (_RESUME,)),
        Claim("F-1.1", "The recipient's GTID_EXECUTED is that of the cloned data.",
              (_EQUAL, "recovered_gtids_complete")),
        Claim("F-1.2", "clone_status names the position of the data.", (_EQUAL,)),
        Claim("F-2", "Replication goes on exactly there.", (_RESUME, "relay_mirrors_source")),
        Claim("F-3", "A recipient joins its donor's group.", (_RESUME,)),
        Claim("F-4", "A recipient becomes a semi-sync replica.", (_RESUME,)),
        Claim("F-5", "A recipient becomes an asynchronous replica.", (_RESUME,)),
        Claim("F-7", "Table and undo logs of the copy hold all GTIDs.",
              ("recovered_gtids_complete",)),
        Claim("NF-1", "The donor is blocked for much less than a second.", ("clone_protocol",)),
        Claim("US-1.1", "The recovery channel catches up by GTID.", (_RESUME,)),
        Claim("US-1.2", "A channel with auto-position starts after the clone.", (_RESUME,)),
        Claim("US-1.3", "A channel without it starts at the cloned position.", (_RESUME,)),
        Claim("column STATE", "clone_status shows how the clone ended.",
              ("clone_status_agrees",)),
        Claim("column ERROR_NO", "And with which error.", ("clone_status_agrees",)),
        Claim("clone_progress stages", "The stages come in their order.",
              ("clone_protocol", "clone_status_agrees")),
        Claim("GTID without blocking", "Commits go on while the data are copied.", (_EQUAL,)),
        Claim("PHY in TRX_SYS", "The page names the end of the cloned data.",
              ("clone_commits_ordered",)),
        Claim("PHY ordered commit", "Commits follow the binary log while a clone ends.",
              ("clone_commits_ordered",)),
        Claim("PHY unordered prepared", "Groups prepared before are awaited.", (_EQUAL,)),
        Claim("PHY XA blocked", "External XA waits at the end of a clone.", ("clone_blocks_xa",)),
        Claim("PHY at the recipient", "Recovery reads the position from the page.",
              ("clone_status_agrees",)),
        Claim("ER_CLONE_DONOR_VERSION", "A donor of another version is refused.",
              ("clone_protocol", "failed_clone_not_resumed")),
        Claim("failure: during clone", "A clone that was cut off has Failed, and is repeated.",
              ("clone_status_agrees", "failed_clone_not_resumed")),
        Claim("failure: during recovery", "Recovery that was cut off begins again.",
              ("recovered_gtids_complete",)),
        Claim("key point 2 triggered by a clone", "The persister writes before a clone ends.",
              ("purge_waits_for_gtid_persist",)),
    ),
)  # fmt: skip
