"""Judging clones and the GTID persister on one instance (invariants 62 and 64, WL#9211)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.errors import GtidSetParseError
from coordinates.gtid import Gtid, GtidSet
from coordinates.invariants.clone import CLONE_PROTOCOL, PURGE_WAITS_FOR_GTID_PERSIST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinates.invariants._registry import Invariant
    from coordinates.reporter import Reporter

STAGES = (
    "DROP DATA",
    "FILE COPY",
    "PAGE COPY",
    "REDO COPY",
    "FILE SYNC",
    "RESTART",
    "RECOVERY",
)
DONOR_BLOCKED_US_MAX = 1_000_000
PENDING_MAX = 65536


class CloneProtocol:
    """Stages of a clone as donor or recipient, and the GTID persister's promises."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._stage: int | None = None
        self._blocked_at: int | None = None
        self._pending: dict[str, int] = {}
        """GTID to trx_no of committed transactions whose GTID is not in the table yet."""
        self._trx_num_gtid = 0

    def clone(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``clone`` record."""
        step = body.get("step")
        at = f"clone {step} at {ts}"
        if step == "begin":
            self._stage = -1
            self._blocked_at = None
        if step in ("begin", "version"):
            donor, recipient = body.get("donor_version"), body.get("recipient_version")
            failed = body.get("error") is not None
            if donor and recipient and donor != recipient and not failed and step == "version":
                self._report(
                    CLONE_PROTOCOL,
                    at,
                    f"A clone of version {donor} went on to a recipient of version {recipient}.",
                    f"donor {donor}, recipient {recipient}",
                    "ER_CLONE_DONOR_VERSION (3864)",
                )
        elif step == "stage":
            self._enter_stage(str(body.get("stage", "")).upper(), at)
        elif step == "donor_blocked":
            self._blocked_at = ts
        elif step == "donor_released" and self._blocked_at is not None:
            spent = ts - self._blocked_at
            self._blocked_at = None
            if spent >= DONOR_BLOCKED_US_MAX:
                self._report(
                    CLONE_PROTOCOL,
                    at,
                    f"The clone blocked the donor's commits for {spent / 1e6:.2f} s.",
                    f"{spent} µs",
                    f"less than {DONOR_BLOCKED_US_MAX} µs",
                )
        elif step == "end":
            self._stage = None

    def _enter_stage(self, name: str, at: str) -> None:
        if self._stage is None or name not in STAGES:
            return
        place = STAGES.index(name)
        if place < self._stage:
            self._report(
                CLONE_PROTOCOL,
                at,
                f"The clone entered stage {name} after {STAGES[self._stage]}.",
                name,
                "stages in the order of clone_progress",
            )
        self._stage = place

    def persister(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``gtid_persister`` record."""
        step = body.get("step")
        trx_no = body.get("trx_no")
        if step == "commit" and isinstance(trx_no, int):
            self._committed(str(body.get("gtid")), trx_no)
        elif step == "write":
            self._written(body, ts)
        elif step == "purge" and isinstance(trx_no, int):
            self._judge_limit("purge limit", trx_no, ts)
        elif step == "recover":
            self._pending = {}

    def _committed(self, gtid: str, trx_no: int) -> None:
        try:
            Gtid.parse(gtid)
        except GtidSetParseError:
            return
        if len(self._pending) < PENDING_MAX:
            self._pending[gtid] = trx_no

    def _written(self, body: Mapping[str, Any], ts: int) -> None:
        gtids = body.get("gtids") or ""
        try:
            written = GtidSet.parse(gtids if isinstance(gtids, str) else ",".join(gtids))
        except (GtidSetParseError, TypeError):
            # Which of them are in the table now is unknown.
            self._pending = {}
            return
        self._pending = {
            gtid: trx_no for gtid, trx_no in self._pending.items() if gtid not in written
        }
        number = body.get("trx_num_gtid")
        if not isinstance(number, int):
            return
        if number < self._trx_num_gtid:
            self._report(
                PURGE_WAITS_FOR_GTID_PERSIST,
                f"gtid persister at {ts}",
                f"TRX_SYS_TRX_NUM_GTID fell from {self._trx_num_gtid} to {number}.",
                str(number),
                f"at least {self._trx_num_gtid}",
            )
        self._trx_num_gtid = number
        self._judge_limit("TRX_SYS_TRX_NUM_GTID", number, ts)

    def _judge_limit(self, what: str, number: int, ts: int) -> None:
        if not self._pending:
            return
        gtid, oldest = min(self._pending.items(), key=lambda item: item[1])
        if number > oldest:
            self._report(
                PURGE_WAITS_FOR_GTID_PERSIST,
                f"gtid persister at {ts}",
                f"The {what} {number} passed transaction {oldest}, whose GTID {gtid} is not in "
                "mysql.gtid_executed yet.",
                f"{what} {number}",
                f"at most {oldest}",
            )

    def _report(
        self, rule: Invariant, at: str, sentence: str, observed: str, expected: str
    ) -> None:
        self._reporter.broken(
            rule,
            at=at,
            sentence=sentence,
            observed=observed,
            observed_in="journal",
            expected=expected,
            expected_in="WL#9211",
            witness=observed,
        )

    def interrupted(self, *, records_lost: bool) -> None:
        """A restart ends a donor's clone; lost records make the pending transactions unknown."""
        self._blocked_at = None
        if records_lost:
            self._pending = {}
            self._stage = None

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {
            "stage": self._stage,
            "blocked_at": self._blocked_at,
            "pending": self._pending,
            "trx_num_gtid": self._trx_num_gtid,
        }

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self._stage = document["stage"]
        self._blocked_at = document["blocked_at"]
        self._pending = dict(document["pending"])
        self._trx_num_gtid = document["trx_num_gtid"]
