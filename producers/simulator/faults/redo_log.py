"""Faults of InnoDB's redo log: of what its events say, and of what the log writer does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from tallystick.coordinates.events.journal import RecordType, RedoType, Stream
from tallystick.coordinates.values.innodb import BLOCK_LENGTH, advance_lsn
from tallystick.producers.simulator.faults.fault import ActFault, FaultGroup
from tallystick.producers.simulator.faults.journal import JournalFault
from tallystick.producers.simulator.innodb import redo_log
from tallystick.producers.simulator.server import lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallystick.producers.simulator.faults.journal import Event
    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.world import World

_NEXT_CHECKPOINT_US: Final = 1_000_000
_HOLE: Final = 16
_HEADER_OFFSET: Final = 5


class RedoEventFault(JournalFault):
    """One event of the redo log is another, or comes with one more.

    Attributes:
        redo_type: Of the event that is changed.
        seen: Of each instance the last LSN of each type since its start.
    """

    redo_type: ClassVar[RedoType]

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, dict[int, int]] = {}

    def on_fleet(self, fleet: World) -> None:
        """See to it that there is a checkpoint before the event, be this one too."""
        super().on_fleet(fleet)
        for instance in fleet.instances.values():
            for delay_us in (0, _NEXT_CHECKPOINT_US):
                fleet.schedule(fleet.fault_at + delay_us, instance, _write_checkpoint, instance)

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """A start begins to write anew."""
        if record_type is RecordType.START:
            self.seen.pop(instance_id, None)
        return body

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """Change the first event that bears it, once each type has been seen."""
        if event.stream is not Stream.REDO:
            return (event,)
        seen = self.seen.setdefault(instance_id, {})
        changed = None
        if event.type == self.redo_type and len(seen) == len(RedoType):
            changed = self.tamper(event, seen) if self.is_due_in(instance_id) else None
        seen[event.type] = event.fields["value"]
        if changed is None:
            return (event,)
        self.mark_in(instance_id)
        return changed

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        """What the journal holds instead; None: this event does not bear it."""
        raise NotImplementedError


class RedoHole(RedoEventFault):
    """A write begins some bytes beyond the end of the one before."""

    number = 140
    name = "redo_hole"
    text = "a write of redo leaves out the first bytes"
    must_fire = frozenset({"redo_writes_contiguous"})
    redo_type = RedoType.WRITE

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        start = advance_lsn(event.fields["start"], _HOLE)
        return (event.but(start=start),) if start < event.fields["value"] else None


class RedoWrittenTwice(RedoEventFault):
    """A write begins a block before the end of the one before."""

    number = 141
    name = "redo_written_twice"
    text = "a write of redo begins before the end of the previous one"
    must_fire = frozenset({"redo_lsn_never_falls"})
    redo_type = RedoType.WRITE

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        return (event.but(start=event.fields["start"] - BLOCK_LENGTH),)


class RedoFlushFell(RedoEventFault):
    """After a flush comes one of less."""

    number = 142
    name = "redo_flush_fell"
    text = "the flushed LSN falls by a block"
    must_fire = frozenset({"redo_lsn_never_falls"})
    redo_type = RedoType.FLUSH

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        return (event, event.but(value=event.fields["value"] - BLOCK_LENGTH))


class RedoCheckpointFell(RedoEventFault):
    """After a checkpoint comes an earlier one."""

    number = 143
    name = "redo_checkpoint_fell"
    text = "the checkpoint of the redo log falls by a block"
    must_fire = frozenset({"redo_lsn_never_falls"})
    redo_type = RedoType.CHECKPOINT

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        return (event, event.but(value=event.fields["value"] - BLOCK_LENGTH))


class RedoFlushedUnwritten(RedoEventFault):
    """A flush of more than was written."""

    number = 144
    name = "redo_flushed_unwritten"
    text = "the flushed LSN is a block beyond the written one"
    must_fire = frozenset({"redo_flush_within_written"})
    redo_type = RedoType.FLUSH

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        return (event, event.but(value=seen[RedoType.WRITE] + BLOCK_LENGTH))


class RedoCheckpointUnflushed(RedoEventFault):
    """A checkpoint beyond what was flushed."""

    number = 145
    name = "redo_checkpoint_unflushed"
    text = "a checkpoint is written a block beyond the flushed LSN"
    must_fire = frozenset({"redo_checkpoint_within_flushed"})
    redo_type = RedoType.CHECKPOINT

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        # The checkpoint has reached what is flushed.
        return (event, event.but(value=event.fields["value"] + BLOCK_LENGTH))


class RedoLsnInHeader(RedoEventFault):
    """A flush that ends in the header of a block."""

    number = 146
    name = "redo_lsn_in_header"
    text = "the redo log is flushed up to an LSN inside a block's header"
    must_fire = frozenset({"redo_lsn_in_block_data"})
    redo_type = RedoType.FLUSH

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        lsn = event.fields["value"]
        inside = lsn - lsn % BLOCK_LENGTH + _HEADER_OFFSET
        if not seen[RedoType.FLUSH] < inside < lsn:
            return None
        return (event.but(value=inside), event)


class RedoBlockMisnumbered(RedoEventFault):
    """The last block of a write has the number of the next one."""

    number = 147
    name = "redo_block_misnumbered"
    text = "the header of a redo log block has the next block's number"
    must_fire = frozenset({"redo_block_header_agrees"})
    redo_type = RedoType.WRITE

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        return (event.but(sequence_number=event.fields["sequence_number"] + 1),)


class CommitNotDurable(RedoEventFault):
    """A commit returns that needs redo beyond what is flushed."""

    number = 148
    name = "commit_not_durable"
    text = "with innodb_flush_log_at_trx_commit=1 a commit returns before its redo is flushed"
    must_fire = frozenset({"commit_redo_durable"})
    redo_type = RedoType.COMMIT

    def tamper(self, event: Event, seen: Mapping[int, int]) -> tuple[Event, ...] | None:
        lsn = event.fields["value"]
        blocks = (seen[RedoType.FLUSH] - lsn) // BLOCK_LENGTH + 1
        return (event.but(value=lsn + blocks * BLOCK_LENGTH),)


class RedoOverwritten(ActFault):
    """The log writer goes round the files past the checkpoint."""

    number = 149
    name = "redo_overwritten"
    text = "more redo than the files hold is written without a checkpoint"
    must_fire = frozenset({"redo_kept_until_checkpoint"})
    group = FaultGroup.STREAM

    def act(self, fleet: World) -> bool:
        instance = next((i for i in fleet.instances.values() if i.is_running), None)
        if instance is None or fleet.now < instance.blocked_until:
            return False
        redo_log.write_checkpoint(instance)
        redo_log.add_redo(instance, instance.variables["innodb_redo_log_capacity"])
        redo_log.flush_redo(instance)
        redo_log.write_checkpoint(instance)
        self.mark(fleet, instance)
        return True


class FlushedRedoLost(JournalFault):
    """A crash takes redo that was flushed."""

    number = 150
    name = "flushed_redo_lost"
    text = "after a crash the redo log goes on before the LSN that was flushed"
    must_fire = frozenset({"flushed_redo_survives_start"})

    def __init__(self) -> None:
        super().__init__()
        self._flushed: dict[str, int] = {}
        self._started: set[str] = set()

    def on_fleet(self, fleet: World) -> None:
        """Servers crash as soon as the fault is due."""
        super().on_fleet(fleet)
        for instance in fleet.instances.values():
            fleet.schedule(fleet.fault_at, instance, lifecycle.crash, instance)

    def on_server_record(
        self, instance_id: str, record_type: RecordType, body: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Note the starts after a crash."""
        if record_type is RecordType.START and body["crashed"] and instance_id in self._flushed:
            self._started.add(instance_id)
        return body

    def on_event(self, instance_id: str, event: Event) -> Iterable[Event]:
        """The first write after such a start begins before what was flushed."""
        if event.stream is Stream.REDO and event.type == RedoType.FLUSH:
            self._flushed[instance_id] = event.fields["value"]
        is_write = event.stream is Stream.REDO and event.type == RedoType.WRITE
        if not is_write or instance_id not in self._started:
            return (event,)
        self._started.remove(instance_id)
        if not self.is_due_in(instance_id):
            return (event,)
        self.mark_in(instance_id)
        return (event.but(start=self._flushed[instance_id] - BLOCK_LENGTH),)


def _write_checkpoint(_fleet: World, instance: Instance) -> None:
    if instance.is_running:
        redo_log.write_checkpoint(instance)
