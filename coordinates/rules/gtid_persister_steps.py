"""Tier 3: do the GTID persister and purge take every step of WL#9211, key points 2 to 4?

The steps come from `gtid_persister` and `start` records (docs/journal.md); `gtid_persistence`
follows them and knows which GTIDs wait for the persister.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import Broken
from tallystick.coordinates.rules.protocol_steps import (
    UNDECIDED_WHEN,
    report_missing,
    step_missing,
)
from tallystick.coordinates.rules.registry import Case, Rule, register
from tallystick.coordinates.rules.statements import GTID_TABLE, INNODB_STATUS, not_executed
from tallystick.coordinates.state_codec import COLLABORATOR, reset
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tallystick.coordinates.audit.reporter import Reporter

GTID_PERSISTER_STEPS_COMPLETE = register(
    Rule(
        number=128,
        name="gtid_persister_steps_complete",
        tier=3,
        scope="T",
        family=Family.GTID_TABLE,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "Each write of the GTID persister has all GTIDs that were committed before the"
            " previous one and not written yet, the number in the TRX_SYS page follows each write,"
            " and a start that does not report the GTIDs of the undo logs reads them before any"
            " commit."
        ),
        why=(
            "The persister switches its two lists at each write, so no GTID waits for more than"
            " one. What it leaves out is lost when the undo log is purged; a number that does not"
            " follow keeps undo logs for good, and GTIDs that a start does not read from them are"
            " given or applied again."
        ),
        undecided_when=UNDECIDED_WHEN,
        sources=("WL#9211, Key design points 2 and 4",),
        remedy=(
            "Before the server is restarted compare mysql.gtid_executed with gtid_executed; FLUSH"
            " LOCAL BINARY LOGS stores all logged GTIDs in the table. Report the server's version."
        ),
        verify=(GTID_TABLE, not_executed("missing")),
        cases={
            **step_missing("WL#9211, Key design points 2 and 4"),
            "gtids_left_out": Case(
                "The GTID persister has written twice and left out {missing:gtids}, which"
                " {missing:was|were} committed before.",
                "{written:gtids}",
                "journal",
                "with {missing:gtids}",
                "WL#9211, Key design point 2",
            ),
        },
    )
)

UNDO_PURGE_STEPS_COMPLETE = register(
    Rule(
        number=129,
        name="undo_purge_steps_complete",
        tier=3,
        scope="T",
        family=Family.GTID_TABLE,
        severity=Severity.ERROR,
        heals="data",
        claim="Purge of undo logs goes no further than the number that the GTID persister holds.",
        why=(
            "Purge asks the persister each time and lowers its limit to that number. A limit"
            " beyond it shows that purge did not ask: only by luck did no GTID wait there."
        ),
        undecided_when=(
            "the persister's number was not observed, or the journal has a gap since. What waits"
            " below the limit is judged by purge_waits_for_gtid_persist alone"
        ),
        sources=("WL#9211, Key design point 3 and I-4",),
        remedy=(
            "Nothing is lost yet. Report the server's version; until it is corrected keep undo"
            " logs by leaving a read view open, or store GTIDs by FLUSH LOCAL BINARY LOGS."
        ),
        verify=(GTID_TABLE, INNODB_STATUS),
        cases={
            "purge_did_not_ask": Case(
                "Undo was purged up to {limit}, but the GTID persister's number is {number}.",
                "{limit}",
                "journal",
                "at most {number}",
                "WL#9211, I-4",
            )
        },
    )
)


@dataclass(eq=False)
class PersisterSteps:
    """What the persister still has to do, as far as its recorded steps show."""

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _due: list[str] = field(default_factory=list)
    """GTIDs that waited at the previous write: the next one has them."""
    _number: int | None = None
    """In the TRX_SYS page, None: not seen."""
    _awaited_number: int | None = None
    """Collected by a write that the number has not followed yet."""
    _is_recorded: bool = False
    """Whether any step was seen."""
    _awaits_recovery: bool = False

    def took(self, step: str, ts: int) -> None:
        """Note that a step was recorded."""
        if self._awaits_recovery and step != "recover":
            self._missing("recover", step, ts)
        self._awaits_recovery = False
        self._is_recorded = True

    def written(
        self,
        waiting: Mapping[str, int],
        known: Collection[str],
        written: GtidSet,
        body: Mapping[str, Any],
        ts: int,
    ) -> list[str]:
        """Judge a write.

        Args:
            waiting: GTIDs that were committed and not written before this write.
            known: Those of them that it wrote.
            written: All that it wrote.
            body: The record.
            ts: Its moment.

        Returns:
            The GTIDs that it should have written.
        """
        if self._awaited_number is not None:
            self._missing("number", "write", ts)
        left_out = [gtid for gtid in self._due if gtid in waiting and gtid not in known]
        if left_out:
            missing = GtidSet.parse(",".join(left_out))
            broken = Broken(
                "gtids_left_out",
                witness=missing,
                at=f"gtid persister at {ts}",
                missing=missing,
                written=written,
            )
            self._reporter.broken(GTID_PERSISTER_STEPS_COMPLETE, broken)
        done = {*left_out, *known}
        self._due = [gtid for gtid in waiting if gtid not in done]
        collected, number = body.get("oldest_trx_no"), self._number
        is_awaited = collected is not None and number is not None and collected > number
        self._awaited_number = collected if is_awaited else None
        return left_out

    def numbered(self, number: int) -> None:
        """The number in the TRX_SYS page."""
        self._number = number
        self._awaited_number = None

    def purged(self, waiting: Mapping[str, int], limit: int, ts: int) -> None:
        """Judge a purge: what waits below its limit is not judged here."""
        number = self._number
        is_passed = any(0 < trx_no < limit for trx_no in waiting.values())
        if number is not None and limit > number and not is_passed:
            broken = Broken(
                "purge_did_not_ask",
                witness=f"purge limit {limit}",
                at=f"undo purge at {ts}",
                limit=limit,
                number=number,
            )
            self._reporter.broken(UNDO_PURGE_STEPS_COMPLETE, broken)

    def _missing(self, missing: str, step: str, ts: int) -> None:
        report_missing(
            self._reporter,
            GTID_PERSISTER_STEPS_COMPLETE,
            subject="The GTID persister",
            step=step,
            missing=[missing],
            at=f"gtid persister at {ts}",
        )

    def started(self, *, tells_undo: bool) -> None:
        """The server has started: recovery comes first, unless the start has reported it."""
        is_recorded = self._is_recorded
        self.forget()
        self._is_recorded = is_recorded
        self._awaits_recovery = is_recorded and not tells_undo

    def forget(self) -> None:
        """Nothing that was seen before counts any more."""
        reset(self)
