"""The journal that a tail writes: records in order, their times, and the state that is saved.

Times follow one rule. A record of time t comes after everything that was logged before t; an
event bears the last time up to which that is known, so no event has a later time than its write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from tallystick.coordinates.events.journal import BlockBuilder, RecordType, Stream
from tallystick.producers.mysql.binlog_events import LogEvent
from tallystick.producers.mysql.event_runs import EventRun
from tallystick.producers.mysql.tail_options import CLOCK
from tallystick.producers.mysql.tail_state import TailState
from tallystick.producers.publisher import BlockLinger, EventSink

LINGER_S = 0.2
BLOCK_RECORDS = 4096


@final
class TailJournal:
    """One server's journal.

    Args:
        instance_id: Our key of the server.
        sink: Takes its blocks.
        state: How far it has come; kept up to date.
        state_file: Where the state is saved; None: nowhere.
        clock: Seconds that never fall.
        cluster: The cluster that the instance belongs to; empty: none.

    Attributes:
        state: How far it has come.
        records: How many records were written.
    """

    def __init__(
        self,
        instance_id: str,
        sink: EventSink,
        state: TailState,
        *,
        state_file: Path | None,
        clock: Callable[[], float],
        cluster: str = "",
    ) -> None:
        self.state = state
        self.records = 0
        self._is_proven = True
        self._is_observer_known = False
        self._sink = sink
        self._state_file = state_file
        self._builder = BlockBuilder(
            instance_id, epoch=state.epoch, first_sequence=state.next_sequence, cluster=cluster
        )
        self._linger = BlockLinger(
            self._builder, sink, clock=clock, block_size=BLOCK_RECORDS, linger_s=LINGER_S
        )

    def advance(self, ts: int) -> None:
        """Everything that was logged before `ts` is in the journal."""
        self.state.ts = max(self.state.ts, ts)
        self._is_proven = True

    def advance_unproven(self, ts: int) -> None:
        """Something is noticed at `ts`, and what was logged before may still come after it.

        That is sound once: what was recorded up to here is judged when time goes on again, and that
        must be at a time up to which everything is known.
        """
        if self._is_proven:
            self.state.ts = max(self.state.ts, ts)
            self._is_proven = False

    def binlog_event(self, event: LogEvent) -> None:
        """An event of the binary log."""
        self._name_observer()
        self._builder.log_event(Stream.BINLOG, event.type, ts=self.state.ts, **event.fields)
        self.state.logged(event.file, event.end, event.type)
        self._added()

    def binlog_run(self, run: EventRun) -> None:
        """Consecutive events of the binary log, all of one time."""
        self._add_run(Stream.BINLOG, run, None)
        self.state.logged(run.file, run.end, run.last_type)

    def relay_event(self, channel: str, event: LogEvent) -> None:
        """An event of a channel's relay log."""
        self._name_observer()
        self._builder.log_event(
            Stream.RELAY, event.type, ts=self.state.ts, channel=channel, **event.fields
        )
        self.state.received(channel, event.file, event.end, event.type, event.fields.get("text"))
        self._added()

    def relay_run(self, channel: str, run: EventRun) -> None:
        """Consecutive events of a channel's relay log, all of one time."""
        self._add_run(Stream.RELAY, run, channel)
        self.state.received(channel, run.file, run.end, run.last_type, None)

    def _add_run(self, stream: Stream, run: EventRun, channel: str | None) -> None:
        self._name_observer()
        for first in range(0, len(run), BLOCK_RECORDS):
            part = run.part(first, first + BLOCK_RECORDS)
            self._builder.log_events(
                stream,
                part.table,
                file=part.file,
                ts=self.state.ts,
                sids=part.sids,
                channel=channel,
            )
            self._added(len(part))

    def server_record(self, record_type: RecordType, body: Mapping[str, Any]) -> None:
        """A server record."""
        if record_type is RecordType.GAP:
            self._is_observer_known &= "channel" in body
        else:
            self._name_observer()
        self._builder.server_record(
            record_type, body, ts=self.state.ts, channel=body.get("channel")
        )
        self._added()

    def _name_observer(self) -> None:
        """Write by whose clock the records are that follow: another process may go on, or a gap."""
        if not self._is_observer_known:
            self._is_observer_known = True
            body = {"clock": CLOCK}
            self._builder.server_record(RecordType.OBSERVER, body, ts=self.state.ts)

    def _added(self, count: int = 1) -> None:
        self.records += count
        if len(self._builder) >= BLOCK_RECORDS:
            self._linger.flush()

    def poll(self) -> None:
        """Call this a few times in the linger time."""
        self._linger.poll()

    def save(self) -> None:
        """Have everything acknowledged, then save the state.

        Raises:
            DeliveryError: A block was not acknowledged.
            OSError: The state cannot be written.
        """
        self._linger.flush()
        self._sink.flush()
        self.state.next_sequence = self._builder.next_sequence
        if self._state_file is not None:
            self.state.save(self._state_file)
