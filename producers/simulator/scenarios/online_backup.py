"""Point-in-time recovery (WL#3576), shown: images of a source and of a replica, and their use.

The unsafe way is gone too: an image without the critical zone, whose position leads its data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import RecordType
from tallystick.producers.simulator.backup import (
    backup_image,
    backup_protocol,
    binlog_mutex,
    engine_locking,
    tables,
)
from tallystick.producers.simulator.backup import point_in_time_recovery as recovery
from tallystick.producers.simulator.backup.backup_protocol import Backup
from tallystick.producers.simulator.backup.backup_synchronization import BackupSynchronization
from tallystick.producers.simulator.backup.engine_locking import ENGINES, Engine
from tallystick.producers.simulator.backup.point_in_time_recovery import StopPoint
from tallystick.producers.simulator.backup.tables import TableData
from tallystick.producers.simulator.kernel.transactions import GroupKind
from tallystick.producers.simulator.scenarios.design_scenario import (
    Claim,
    DesignScenario,
    Expected,
    text_of,
)
from tallystick.producers.simulator.server import administration, clients, commit
from tallystick.producers.simulator.server.binary_log import BinaryLog
from tallystick.producers.simulator.server.channels import Applier, ChannelMap
from tallystick.producers.simulator.server.gtid_state import GtidState

if TYPE_CHECKING:
    from tallystick.producers.simulator.backup.backup_image import Image
    from tallystick.producers.simulator.backup.point_in_time_recovery import Recovery
    from tallystick.producers.simulator.kernel.transactions import Group
    from tallystick.producers.simulator.kernel.world import World

_SOURCE, _REPLICA, _UNSAFE = "source-a", "replica-a1", "source-b"
_SECOND_US = 1_000_000
_RESTORED = ("restored-6", "restored-7", "restored-8")
"""Three servers are added to the five of the fleet: the last one in the unsafe way."""
_DDL_US = 2_000
_LOOK_US = 1_000
_TICKET_US = 20
_TICKET_LOOKS_MAX = 1_000
_EARLY_US = 200_000
_PRELOCK_US = 400_000
_FLUSH_AFTER_US = 40_000
_FLUSH_US = 2_400_000
"""So long the binary log's mutex is held by a flush: longer than the time-out."""
_ROUND_US = 60 * _SECOND_US
"""Longer than any time-out."""
_AFTER_US = 500_000
"""So long after its time-out a round has ended."""
_LOOKS_MAX = 400


class _Acts:
    """What happens in the fleet, in the order of the document's requirements."""

    def __init__(self, fleet: World) -> None:
        self.fleet = fleet
        self.source = fleet.instances[_SOURCE]
        self.replica = fleet.instances[_REPLICA]
        self.unsafe = fleet.instances[_UNSAFE]
        self.stalled: list[int] = []
        self.waited: list[int] = []
        tables.install(fleet.instances.values())
        for instance in (self.source, self.replica):
            backup_image.prepare(fleet, instance)
        fleet.schedule(fleet.start_ts + _EARLY_US, None, self.back_up_with_early_mutex)
        for second, act in (
            (1, self.back_up_source),
            (2, self.back_up_replica),
            (3, self.back_up_without_zone),
            (4, self.check_sums),
            (6, self.recover_without_zone),
            (6, self.back_up_with_slow_engine),
            (8, self.bail_out),
        ):
            fleet.schedule(fleet.start_ts + second * _SECOND_US, None, act)

    # Requirements 1 and 3

    def back_up_source(self, fleet: World) -> None:
        """An image of a source."""
        backup_image.back_up(fleet, self.source, "image-of-source", self.source_backed_up)
        fleet.schedule(fleet.now + _DDL_US, None, self.commit_in_prelock, self.waited)

    def source_backed_up(self, image: Image) -> None:
        """Its summary names the position of the validity point."""
        self.image = image
        self.fleet.show(
            "1 binlog position",
            self.source,
            f"image-of-source: validity point at {_position(image)}, after {_count(image)} "
            f"executed GTIDs; the log goes on at {text_of(self.source[BinaryLog].position)}",
        )
        self.fleet.show(
            "3 summary block",
            self.source,
            f"summary of image-of-source: {_position(image)}, gtid_executed {image.executed.text()}"
            f", {_tables(image.data.checksums())}",
        )

    # Requirement 2

    def back_up_replica(self, fleet: World) -> None:
        """An image of a replica, and a DDL that meets the backup."""
        backup_image.back_up(fleet, self.replica, "image-of-replica", self.replica_backed_up)
        fleet.schedule(fleet.now + _DDL_US, self.source, self.change_metadata)
        self.find_error(fleet, _LOOKS_MAX)

    def change_metadata(self, fleet: World) -> None:
        """A client of the source creates an index."""
        clients.write(fleet, self.source, GroupKind.DDL)

    def find_error(self, fleet: World, looks: int) -> None:
        """See the applier stop at the DDL."""
        channel = self.replica[ChannelMap].channels[""]
        if channel[Applier].sql_errno:
            fleet.show(
                "2 DDL error",
                self.replica,
                f"the applier met a DDL during the backup and stopped with error "
                f"{channel[Applier].sql_errno} at {text_of(channel[Applier].executed)}",
            )
        elif looks:
            fleet.schedule(fleet.now + _LOOK_US, None, self.find_error, looks - 1)

    def replica_backed_up(self, image: Image) -> None:
        """Its summary has how far the replica is on its source, and both repositories."""
        self.replica_image = image
        (shown,) = image.channels
        read = shown["read_source_log_file"], shown["read_source_log_pos"]
        executed = shown["exec_source_log_file"], shown["exec_source_log_pos"]
        self.fleet.show(
            "2 replication state",
            self.replica,
            f"image-of-replica: channel {shown['channel']!r} of {shown['source_instance']}, "
            f"{_count(image)} executed GTIDs",
        )
        self.fleet.show(
            "2 slave position",
            self.replica,
            f"read up to {text_of(read)}, executed up to {text_of(executed)}",
        )
        for requirement, table in (
            ("2 master.info", "slave_master_info"),
            ("2 relay.info", "slave_relay_log_info"),
        ):
            row = shown[table]
            values = [row[name] for name in _COLUMNS if name in row]
            self.fleet.show(requirement, self.replica, f"{table}: {', '.join(map(str, values))}")

    # Point-in-time recovery

    def check_sums(self, fleet: World) -> None:
        """What the source has at the stop point; then two recoveries up to there."""
        backup_image.check_sums(fleet, self.source, self.recover)

    def recover(self, position: tuple[str, int]) -> None:
        """A new server from either image, with the log of the source."""
        self.expected = self.source[TableData].checksums()
        for image in (self.image, self.replica_image):
            server = recovery.add_server(self.fleet, self.source)
            stop = StopPoint(position)
            recovery.recover(self.fleet, image, server, stop, self.recovered, source=self.source)

    def recovered(self, done: Recovery) -> None:
        """The restored server has what the source had there; it becomes its replica."""
        found = done.server[TableData].checksums()
        if found == self.expected:
            self.fleet.show(
                "point-in-time recovery",
                done.server,
                f"restored {done.image.backup_id} of {done.image.instance.instance_id}, replayed "
                f"{done.group_count} groups of {done.source.instance_id} from "
                f"{text_of(done.start)} to {text_of(done.end)}: "
                f"gtid_executed {done.server[GtidState].executed.text()}, {_tables(found)}; "
                "the source had the same there",
            )
        administration.add_channel(self.fleet, done.server, "", done.source, done.end)

    # The unsafe way

    def back_up_without_zone(self, fleet: World) -> None:
        """An image is taken between the stages of a commit."""
        server = self.unsafe
        group = tables.make_change(fleet.rng, GroupKind.INNODB, server.server_id, fleet.now)
        commit.commit(fleet, server, group)
        image = backup_image.take_image(server, "image-without-zone", is_validity_point=False)
        server.journal.record(RecordType.BACKUP, {"step": "image", **image.summary()})
        self.unsafe_image = image

    def recover_without_zone(self, fleet: World) -> None:
        """What was logged and not visible is lost for ever."""
        backup_image.prepare(fleet, self.unsafe)
        server = recovery.add_server(fleet, self.unsafe)

        def go_on(position: tuple[str, int]) -> None:
            recovery.recover(fleet, self.unsafe_image, server, StopPoint(position))

        backup_image.check_sums(fleet, self.unsafe, go_on)

    # Engines that cannot be locked in time, and the two stalls of the mail

    def back_up_with_early_mutex(self, fleet: World) -> None:
        """The binary log's mutex is taken first of all, in prelock(): the mail advises not to."""
        early = Engine(engine_locking.BINARY_LOG, prelock_us=1, is_locked_by_prelock=True)
        slow = Engine("myisam", _PRELOCK_US)
        if backup_protocol.begin(fleet, self.source, (early, slow)):
            fleet.schedule(fleet.now + _DDL_US, None, self.commit_in_prelock, self.stalled)

    def commit_in_prelock(self, fleet: World, waits: list[int]) -> None:
        """A client changes a table that is not backed up: no zone keeps it waiting."""
        group = tables.make_outsider(fleet.rng, self.source.server_id, fleet.now)
        commit.commit(fleet, self.source, group)
        self.see_logged(fleet, group, fleet.now, waits)

    def see_logged(self, fleet: World, group: Group, since: int, waits: list[int]) -> None:
        """Note how long it takes until the group is logged."""
        if group.sid is None:
            fleet.schedule(fleet.now + _LOOK_US, None, self.see_logged, group, since, waits)
            return
        waits.append(fleet.now - since)
        if self.waited and self.stalled and self.waited[0] < _PRELOCK_US // 10 < self.stalled[0]:
            fleet.show(
                "stall 2",
                self.source,
                f"with the mutex taken in prelock() a commit waited {self.stalled[0]} µs, for all "
                f"of MyISAM's prelock of {_PRELOCK_US} µs; with the binary log locked last one "
                f"that was issued during the prelocks took {self.waited[0]} µs",
            )

    def back_up_with_slow_engine(self, fleet: World) -> None:
        """A large transaction is being flushed in the first round; clients write meanwhile."""
        begun = fleet.now

        def end(has_validity_point: bool) -> None:
            if has_validity_point and fleet.now - begun > engine_locking.pause_us(1):
                fleet.show(
                    "retry",
                    self.source,
                    "the second round had its validity point "
                    f"{(fleet.now - begun) / _SECOND_US:.1f} s after the backup began",
                )

        assert backup_protocol.begin(fleet, self.source, ENGINES, at_end=end)
        fleet.schedule(fleet.now + _FLUSH_AFTER_US, None, self.flush_large)
        fleet.schedule(fleet.now + engine_locking.TIMEOUT_US + _AFTER_US, None, self.show_time_out)
        clients.write(fleet, self.source, GroupKind.NON_TRANSACTIONAL)
        self.find_ticket(fleet, _TICKET_LOOKS_MAX)

    def flush_large(self, fleet: World) -> None:
        """A client commits a transaction whose cache takes long to write."""
        group = tables.make_outsider(fleet.rng, self.source.server_id, fleet.now)
        binlog_mutex.flush_large(fleet, self.source, group, _FLUSH_US)

    def find_ticket(self, fleet: World, looks: int) -> None:
        """See a thread inside the zone."""
        inside = self.source[BackupSynchronization].zone.inside
        if inside:
            number, clock = next(iter(inside)), fleet.now - fleet.start_ts
            text = f"a client holds ticket {number} while it logs and commits, at {clock} µs"
            fleet.show("Ticket", self.source, text)
        elif looks:
            fleet.schedule(fleet.now + _TICKET_US, None, self.find_ticket, looks - 1)

    def show_time_out(self, fleet: World) -> None:
        """The first round is over, the next one has not begun."""
        backup = self.source.get(Backup)
        is_open = self.source[BackupSynchronization].zone.is_open
        if backup is None or backup.locks.locked or not backup.locks.timed_out or not is_open:
            return
        fleet.show(
            "time-out",
            self.source,
            f"{' and '.join(backup.locks.timed_out)} was not locked within "
            f"{engine_locking.TIMEOUT_US / _SECOND_US:.0f} s of round {backup.round_number}: the "
            "zone is open again",
        )
        if backup.locks.timed_out == [engine_locking.BINARY_LOG]:
            fleet.show(
                "stall 1",
                self.source,
                f"the cache of a transaction was written for {_FLUSH_US / _SECOND_US:.1f} s, so "
                "the binary log could not be locked: its time-out kept others from waiting longer",
            )
        fleet.show("unlock", self.source, "no engine is locked any more, clients go on")

    def bail_out(self, fleet: World) -> None:
        """A backup that may try only once."""

        def end(has_validity_point: bool) -> None:
            if not has_validity_point:
                text = "after 1 round of 1 the backup ended without a validity point"
                fleet.show("bail out", self.unsafe, text)

        engines = _slow(_ROUND_US)
        if not backup_protocol.begin(fleet, self.unsafe, engines, at_end=end, rounds_max=1):
            fleet.schedule(fleet.now + _LOOK_US, None, self.bail_out)


def _slow(busy_us: int) -> tuple[Engine, ...]:
    """The engines, of which NDB is busy in the first round."""
    return tuple(
        Engine(one.name, one.prelock_us, (busy_us,)) if one.name == "ndb" else one
        for one in ENGINES
    )


def _arrange(fleet: World) -> None:
    _Acts(fleet)


_COLUMNS = ("Relay_log_name", "Relay_log_pos", "Master_log_name", "Master_log_pos")


def _position(image: Image) -> str:
    assert image.position is not None
    return text_of(image.position)


def _count(image: Image) -> int:
    return sum(last - first + 1 for _, first, last in image.executed)


def _tables(checksums: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{table['name']} ({table['engine']}) {table['rows']} rows {table['checksum']}"
        for table in checksums
    )


SCENARIO = DesignScenario(
    name="pitr",
    design="WL#3576",
    title="Online backup: point in time recovery",
    options={
        "topology": "demo",
        "profile": "mysql-8.0",
        "duration_ms": 8_000,
        "collection_interval_ms": 1_000,
        "writes_per_second": 12.0,
        "max_binlog_size": 8_192,
        "acts": False,
    },
    arrange=_arrange,
    claims=(
        Claim(
            "1 binlog position",
            "The image of a source has the binary log position of its validity point.",
            ("backup_image_names_one_state", "vp_only_in_empty_closed_zone"),
        ),
        Claim(
            "2 DDL error",
            "A DDL that meets the backup of a replica stops replication.",
            ("applied_relay_gtids_executed", "relay_mirrors_source"),
        ),
        Claim(
            "2 replication state",
            "The image of a replica names each channel and what was executed.",
            ("backup_image_names_one_state", "backup_replica_positions_agree"),
        ),
        Claim(
            "2 slave position",
            "It shows how far the replica has read and executed its source's log.",
            ("backup_replica_positions_agree", "replay_continues_image"),
        ),
        Claim(
            "2 master.info",
            "It holds the repository of the receiver.",
            ("backup_replica_positions_agree",),
        ),
        Claim(
            "2 relay.info",
            "It holds the repository of the applier.",
            ("backup_replica_positions_agree",),
        ),
        Claim(
            "3 summary block",
            "Position, GTID set and the tables of all engines are one state.",
            ("backup_image_names_one_state", "recovered_data_equal_source"),
        ),
        Claim(
            "point-in-time recovery",
            "Image and binary log make a server with the data and the GTIDs of the stop point.",
            (
                "replay_continues_image",
                "recovery_reaches_stop_point",
                "recovered_data_equal_source",
            ),
        ),
        Claim(
            "time-out",
            "An engine that is not locked in time ends the round.",
            ("engine_lock_budget", "engine_lock_steps_complete"),
        ),
        Claim(
            "unlock",
            "Then all engines are unlocked, and everybody goes on.",
            ("engine_lock_steps_complete", "locked_engines_stand_still"),
        ),
        Claim("retry", "Ten seconds later the backup tries again.", ("engine_lock_budget",)),
        Claim(
            "stall 1",
            "A flush of a large transaction keeps the binary log from being locked in time.",
            ("engine_lock_budget",),
        ),
        Claim(
            "stall 2",
            "Taken in prelock() its mutex would stall the server for MyISAM's prelock.",
            ("engine_lock_budget", "locked_engines_stand_still"),
        ),
        Claim("bail out", "After too many rounds it gives up.", ("engine_lock_budget",)),
        Claim(
            "Ticket",
            "Who logs and commits a change holds a ticket of the zone.",
            ("zone_entry_protocol", "critical_sequence_in_zone"),
        ),
    ),
    expected=(
        Expected(
            _UNSAFE,
            "backup_image_names_one_state",
            "Without a commit lock the position may be of a change that the data lack.",
        ),
        Expected(
            _RESTORED[-1],
            "recovery_reaches_stop_point",
            "A replay from that position never brings the change.",
        ),
        Expected(
            _RESTORED[-1],
            "recovered_data_equal_source",
            "So the restored data differ from the binary log's.",
        ),
    ),
)
