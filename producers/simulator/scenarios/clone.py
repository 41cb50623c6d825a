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
from tallystick.producers.simulator.kernel.gtid_intervals import GtidIntervals
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.negatives.fleet import GroupReplication
from tallystick.producers.simulator.scenarios.design_scenario import (
    Claim,
    DesignScenario,
    text_of,
)
from tallystick.producers.simulator.server import (
    administration,
    clients,
    commit,
    lifecycle,
    workload,
)
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import ChannelMap, Receiver
from tallystick.producers.simulator.server.commit_queue import ENGINE_COMMIT, CommitQueue
from tallystick.producers.simulator.server.gtid_state import GtidState
from tallystick.producers.simulator.server.receiver import QUEUE

if TYPE_CHECKING:
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group, LoggedGroup
    from tallystick.producers.simulator.kernel.world import World
    from tallystick.producers.simulator.server.channels import Channel
    from tallystick.producers.simulator.server.commit_queue import Pending

_MS = 1_000
_SECOND_US = 1_000_000
_NEWER = 4
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
        self.prepared: list[Pending] = []
        self.committed: list[Pending] = []
        self.executed = GtidIntervals()
        self.xa: Group | None = None
        self.cloned: dict[str, tuple[Clone, dict[str, str]]] = {}
        """By recipient its clone, and what is shown when its replication goes on."""

    def on_commit(self, instance: Instance, pending: Pending) -> None:
        """A group of a donor commits."""
        if instance.get(Donation) is not None:
            self.committed.append(pending)

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
            self.prepared = list(donation.order.unordered)
            self.committed = []
            # So that some meet the order that is forced now.
            for _ in range(_NEWER):
                clients.write(fleet, donor)
        elif step == "prepared_awaited":
            newer = donor[CommitQueue].in_commit
            if self.prepared and not any(pending in newer for pending in self.prepared):
                fleet.show(
                    "PHY unordered prepared",
                    donor,
                    f"none of the {len(self.prepared)} is left; {len(newer)} newer ones commit in "
                    "order",
                )
        elif step == "donor_blocked":
            self.xa = workload.make_group(
                fleet.rng, GroupKind.XA_PREPARE, donor.server_id, fleet.now
            )
            self.executed = donor[GtidState].executed.copy()
            commit.commit(fleet, donor, self.xa)
            self.blocked_at = fleet.now
        elif step == "position_read":
            self._position_read(fleet, donor)

    def _position_read(self, fleet: World, donor: Instance) -> None:
        """The end of the data: what the page names, who waited, what the table has."""
        newer = [one.logged.end for one in self.committed if one not in self.prepared]
        if newer and newer == sorted(newer):
            fleet.show(
                "PHY ordered commit",
                donor,
                f"binlog_order_commits is OFF; {len(self.prepared)} groups were prepared when the "
                f"order was forced, {len(newer)} newer ones have committed in the order of "
                f"{donor[BinaryLog].position[0]}",
            )
        if donor[Innodb].trx_sys == _end_of_committed(donor):
            fleet.show(
                "PHY in TRX_SYS",
                donor,
                f"the page says {text_of(donor[Innodb].trx_sys)}, where the last group that has "
                "committed ends",
            )
        waited = fleet.now - self.blocked_at
        if waited < _SECOND_US:
            fleet.show(
                "NF-1", donor, f"external XA has waited {waited} µs, other commits not at all"
            )
        if self.xa is not None and self.xa.sid is None:
            fleet.schedule(fleet.now + 40 * _MS, None, _show_xa, donor, self.xa)
        if self.executed.is_subset(donor[GtidState].table):
            writes = donor[Innodb].transactions.trx_num_gtid
            fleet.show(
                "key point 2 triggered by a clone",
                donor,
                "all GTIDs that were executed when external XA was blocked are in "
                f"mysql.gtid_executed, those of transactions below number {writes}",
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
        """The first group that a clone receives: its replication goes on."""
        recipient = channel.replica
        if recipient.instance_id not in self.cloned:
            return True
        clone, shows = self.cloned.pop(recipient.instance_id)
        status = clone.status
        first = f"the first group received is at {logged.start} and has GTID {logged.group.gno}"
        fleet.show(
            "F-2",
            recipient,
            f"cloned up to {status.binlog_file}:{status.binlog_position}; {first} of its server",
        )
        for requirement, text in shows.items():
            fleet.show(requirement, recipient, f"{text}; {first}")
        if channel[Receiver].semi_sync and channel in clone.donor[ChannelMap].subscribers:
            fleet.show("F-4", recipient, f"{clone.donor.instance_id} waits for its receiver")
        return True


def _end_of_committed(donor: Instance) -> tuple[str, int]:
    """Where the last group in the log ends that has passed its commit stage."""
    pending = {id(one.logged) for one in donor[CommitQueue].in_commit}
    return next(
        (file.name, logged.end)
        for file in reversed(donor[BinaryLog].files)
        for logged in reversed(file.groups())
        if id(logged) not in pending
    )


def _show_recovery(fleet: World, recipient: Instance, clone: Clone) -> None:
    status, data = clone.status, clone.data
    assert data is not None
    executed, stored = recipient[GtidState].executed, data.table.copy()
    stored.update(data.undo)
    if executed == stored:
        text = f"gtid_executed is {_brief(executed.text())}, as in the copy"
        fleet.show("F-1.1", recipient, text)
        fleet.show(
            "F-7",
            recipient,
            f"the table of the copy had {_brief(data.table.text())}, undo logs "
            f"{_brief(data.undo.text()) or 'nothing more'}",
        )
    cloned = status.binlog_file, status.binlog_position
    file = next(f for f in clone.donor[BinaryLog].files if f.name == cloned[0])
    ends = {logged.end: "the end of a group" for logged in file.groups()}
    what = {file.entries[1].end: "the head of the file", **ends}.get(cloned[1])
    if what is not None:
        text = f"clone_status says {text_of(cloned)}, {what} in the donor's log"
        fleet.show("F-1.2", recipient, text)
    if cloned == data.innodb.trx_sys:
        text = f"recovery read {text_of(cloned)} from the TRX_SYS page"
        fleet.show("PHY at the recipient", recipient, text)


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
        stages = tuple(clone.status.stages)
        if stages == STAGES:
            fleet.show("clone_progress stages", channel.replica, ", ".join(stages))
        if not clone.crashes:
            fleet.show(
                "failure: during recovery",
                channel.replica,
                "recovery was cut off once and began again; the clone has completed with "
                f"{clone.status.binlog_file}:{clone.status.binlog_position}",
            )
        if clone.status.state is State.COMPLETED:
            fleet.show("column STATE", channel.replica, clone.status.state.value)
        watcher.cloned[channel.replica.instance_id] = (
            clone,
            {
                "US-1.2": "replication has started with auto-position",
                "F-5": f"it follows {clone.donor.instance_id}",
            },
        )
        channel[Receiver].semi_sync = True
        cloning.follow_donor(fleet, channel, clone)

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
        file, position = clone.status.binlog_file, clone.status.binlog_position
        text = f"MASTER_LOG_FILE = {file!r}, MASTER_LOG_POS = {position}, as clone_status says"
        watcher.cloned[channel.replica.instance_id] = clone, {"US-1.3": text}
        channel.auto_position = False
        cloning.follow_donor(fleet, channel, clone)

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
        name = distributed_recovery.RECOVERY_CHANNEL
        text = f"channel {name} goes on from {donor.instance_id}"
        watcher.cloned[channel.replica.instance_id] = clone, dict.fromkeys(("F-3", "US-1.1"), text)
        distributed_recovery.recover_behind_clone(fleet, channel, clone)

    cloning.clone(fleet, channel, donor=donor, step_4=step_4)


def _arrange(fleet: World) -> None:
    GroupReplication().arrange(fleet)
    fleet.pace.commit_stage_us = (2_000, 60_000)
    watcher = _Watcher()
    fleet.bus.connect(CLONE_STEP, watcher.on_clone_step)
    fleet.bus.connect(ENGINE_COMMIT, watcher.on_commit)
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
