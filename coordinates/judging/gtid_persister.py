"""Judging how InnoDB keeps the GTIDs of one instance (invariant 64, WL#9211 key points 1 to 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinates.errors import GtidSetParseError
from coordinates.gtid import Gtid, GtidSet
from coordinates.invariants.clone import PURGE_WAITS_FOR_GTID_PERSIST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coordinates.invariants._registry import Invariant
    from coordinates.reporter import Reporter

PENDING_MAX = 65536


class GtidPersistence:
    """The GTID persister's promises: what it has written, and how far undo may be purged."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._pending: dict[str, int] = {}
        """GTID to trx_no of committed transactions whose GTID is not in the table yet."""
        self._trx_num_gtid = 0

    def step(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``gtid_persister`` record."""
        step = body.get("step")
        trx_no = body.get("trx_no")
        if step == "commit" and isinstance(trx_no, int):
            self._committed(str(body.get("gtid")), trx_no)
        elif step == "write":
            self._written(body)
            self._moved(body, ts)
        elif step == "number":
            self._moved(body, ts)
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

    def _written(self, body: Mapping[str, Any]) -> None:
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

    def _moved(self, body: Mapping[str, Any], ts: int) -> None:
        """The number in the TRX_SYS page, if the record tells it."""
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

    def interrupted(self) -> None:
        """Lost records make the pending transactions unknown."""
        self._pending = {}

    def reset(self) -> None:
        """RESET empties the table, and no transaction of before belongs into it."""
        self._pending = {}

    def begin_data_lineage(self) -> None:
        """Clone, restore: another InnoDB, with numbers of its own."""
        self._pending = {}
        self._trx_num_gtid = 0

    def dump(self) -> dict[str, Any]:
        """For the state bytes."""
        return {"pending": self._pending, "trx_num_gtid": self._trx_num_gtid}

    def load(self, document: Mapping[str, Any]) -> None:
        """Inverse of ``dump``."""
        self._pending = dict(document["pending"])
        self._trx_num_gtid = document["trx_num_gtid"]
