"""Tiers 2 and 3: do donor and recipient of a clone keep its protocol (WL#9211)?

The steps come from `clone` records (docs/journal.md). What clone_status and clone_progress show is
in `clone_tables`, what needs donor and recipient together in `clone_coordinates`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.events.journal import CLONE_STAGES, QueryVerb
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import Broken, Undecided
from tallystick.coordinates.rules.protocol_steps import note_undecided
from tallystick.coordinates.rules.registry import Case, Rule, reason, register
from tallystick.coordinates.rules.statements import (
    CLONE_PROGRESS,
    CLONE_STATUS,
    COMMIT_ORDER,
    EVENTS_THERE,
    RECEIVED_OF_ALL,
    file_until,
)
from tallystick.coordinates.state_codec import COLLABORATOR
from tallystick.coordinates.values.binlog import EventType, parse_log_file_name
from tallystick.coordinates.values.errors import CoordinateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.events.journal import Block

CLONE_DESTINATION_UNKNOWN = reason(
    "clone_destination_unknown",
    "replication was started after a clone that failed, and whether that had replaced the server's"
    " own data (destination) is not known",
    Lack.BACKUP,
)

CLONE_DROPPED_DATA = reason(
    "clone_dropped_data",
    "a clone that failed has dropped the server's data, and neither another clone nor a restore has"
    " brought others since",
    Lack.BACKUP,
)

CLONE_MAY_HAVE_DROPPED_DATA = reason(
    "clone_may_have_dropped_data",
    "clone_status shows a clone into the server's own data that is {state}, and nothing shows that"
    " it has not begun to drop them",
    Lack.BACKUP,
)

CLONE_PAGE_UNREAD = reason(
    "clone_page_unread",
    "the coordinates (binlog_file, binlog_position) in the donor's TRX_SYS page at the moment of"
    " the clone are not known",
    Lack.BACKUP,
)

CLONE_PROTOCOL = register(
    Rule(
        number=62,
        name="clone_protocol",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.ERROR,
        heals="data",
        claim=(
            "Donor and recipient of a clone have the same version (from 8.0.37 on: are of one"
            " series), the stages follow in order, and the donor's commits are blocked for less"
            " than a second."
        ),
        why=(
            "The recipient starts from the donor's files as they are, so the server refuses"
            " another version (error 3864); what follows the number, as in 8.0.31-debug, does not"
            " count. Commits run on during the copy; only at the end, while unordered prepared"
            " groups finish and external XA waits, is the donor held."
        ),
        undecided_when=(
            "a version, a stage, or the begin or end of the donor's wait was not observed, or the"
            " journal has a gap among them"
        ),
        sources=(
            "WL#9211, NF-1 and Upgrade/Downgrade",
            "MySQL manual: Cloning Remote Data; Clone Plugin Limitations; The clone_progress Table",
        ),
        remedy=(
            "If the clone did not end as Completed in clone_status, clone again. After a long wait"
            " look for external XA transactions and huge commits on the donor, and clone from a"
            " replica next time."
        ),
        verify=(CLONE_STATUS, CLONE_PROGRESS),
        cases={
            "cloned_other_version": Case(
                "A clone of version {donor} went on to a recipient of version {recipient}.",
                "donor {donor}, recipient {recipient}",
                "journal",
                "ER_CLONE_DONOR_VERSION (3864)",
                "WL#9211",
            ),
            "donor_blocked_too_long": Case(
                "The clone blocked the donor's commits for {spent:seconds}.",
                "{spent:seconds}",
                "journal",
                "less than {spent_max:seconds}",
                "WL#9211",
                heals="never",
            ),
            "stages_out_of_order": Case(
                "The clone entered stage {stage} after {previous}.",
                "{stage}",
                "journal",
                "stages in the order of clone_progress",
                "WL#9211",
            ),
        },
    )
)

CLONE_COMMITS_ORDERED = register(
    Rule(
        number=72,
        name="clone_commits_ordered",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "Once a clone has forced the commit order and awaited what was prepared before, and"
            " until it releases the order, the binary log coordinates in the donor's TRX_SYS page"
            " never fall."
        ),
        why=(
            "One position describes the cloned data only if everything logged before it is"
            " committed and nothing after it. Each commit writes its own position into the page, so"
            " a fall shows a group that committed after a later one: at that moment the page"
            " named data that were not there."
        ),
        undecided_when=(
            "the donor's steps, its commits while the order was forced, or the page's coordinates"
            " were not observed, or binary logging is off"
        ),
        sources=("WL#9211, Clone PHY binary log position",),
        remedy=(
            "Treat the clone's position as wrong: clone again, and set binlog_order_commits=ON and"
            " replica_preserve_commit_order=ON on the donor until the server is corrected."
        ),
        verify=(file_until("file", "position"), COMMIT_ORDER),
        cases={
            "trx_sys_fell": Case(
                (
                    "While the clone forced the commit order, the TRX_SYS page fell from file"
                    " {previous_number}, position {previous_position} to file {number}, position"
                    " {position}."
                ),
                "{file}:{position}",
                "journal",
                "not before file {previous_number}, position {previous_position}",
                "WL#9211",
            ),
        },
    )
)

CLONE_BLOCKS_XA = register(
    Rule(
        number=73,
        name="clone_blocks_xa",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.CRITICAL,
        heals="never",
        claim=(
            "While the end of a clone blocks external XA, the donor logs no XA PREPARE, XA COMMIT"
            " or XA ROLLBACK."
        ),
        why=(
            "The setting binlog_order_commits does not order XA statements: they are logged and"
            " counted as executed before InnoDB has done them. A GTID saved in between would tell"
            " the recipient of a transaction that its data do not have."
        ),
        undecided_when="the begin or end of the block was not observed",
        sources=("WL#9211, Clone PHY binary log position",),
        remedy=(
            "Compare the XA transaction's rows on donor and recipient before the recipient is"
            " used; clone again if they differ."
        ),
        verify=(EVENTS_THERE,),
        cases={
            "xa_logged": Case(
                "{statement} was logged at {at} while the end of a clone blocked external XA.",
                "{statement} at {at}",
                "journal",
                "no external XA statement before donor_released",
                "WL#9211",
            ),
        },
    )
)

FAILED_CLONE_NOT_RESUMED = register(
    Rule(
        number=74,
        name="failed_clone_not_resumed",
        tier=3,
        scope="T",
        family=Family.CLONE,
        severity=Severity.CRITICAL,
        heals="data",
        claim=(
            "After a clone that failed once it had begun to drop the recipient's data, replication"
            " does not start there before another clone has completed or the data were restored."
        ),
        why=(
            "DROP DATA comes first, and gtid_executed stays as it was until the restart. A replica"
            " that goes on from there receives only what is new: all that it had executed before"
            " is gone from its tables, and no set or position shows it."
        ),
        undecided_when=(
            "the stages or the end of the clone were not observed, or it is not reported that the"
            " clone replaces the recipient's own data (DESTINATION LOCAL INSTANCE); and at each"
            " collection while such a clone goes on or has failed, unless it had not begun to drop"
            " them"
        ),
        sources=(
            "WL#9211, Failure Model Specification",
            "MySQL manual: Cloning Remote Data",
        ),
        remedy=(
            "Stop replication on the recipient at once, issue the clone again, and look into"
            " clone_status before replication is started."
        ),
        verify=(CLONE_STATUS, RECEIVED_OF_ALL),
        cases={
            "started_without_data": Case(
                (
                    "{action} of channel {name!r}: a clone that failed has dropped the data here,"
                    " and none has completed since."
                ),
                "{witness}",
                "journal",
                "a clone that completes, or restored data",
                "WL#9211",
            ),
        },
    )
)

DONOR_BLOCKED_US_MAX = 1_000_000
_XA_VERBS = {
    QueryVerb.XA_COMMIT: "XA COMMIT",
    QueryVerb.XA_ROLLBACK: "XA ROLLBACK",
}
_STARTS = frozenset({"start_receiver", "start_applier"})
_PATCH_COUNTS_UNTIL = 37
"""From this release of 8.0 on, and in all later series, any of a series takes another's data."""
_HALF = frozenset({"in progress", "failed"})
OWN_DATA = "LOCAL INSTANCE"
"""Column DESTINATION of a clone that replaces the recipient's data; else it names a directory."""


def replaces_data(destination: object) -> bool | None:
    """Whether a clone to a destination replaces the recipient's own data; None: not known."""
    return None if destination is None else str(destination).upper() == OWN_DATA


def lower_keys(row: object) -> dict[str, Any]:
    """A row by its columns' names in lower case; empty: it is none."""
    return {str(key).lower(): value for key, value in row.items()} if isinstance(row, dict) else {}


@dataclass(eq=False)
class CloneProtocol:
    """A clone as the steps of its donor or its recipient show it.

    Attributes:
        blocks_xa: Whether the donor holds external XA back at the end of a clone.
    """

    _reporter: Reporter = field(metadata=COLLABORATOR)
    _stage: int | None = None
    _other_version: tuple[str, str, str] | None = None
    """Versions of donor and recipient that may not be cloned, and where; until it goes on."""
    _blocked_at: int | None = None
    blocks_xa: bool = False
    _is_ordered: bool = False
    _page: tuple[str, int, int] | None = None
    """Base name, file number and position of the last commit while the order is forced."""
    _replaces_data: bool | None = None
    """Whether the clone replaces the recipient's own data; None: not known."""
    _data_dropped: bool = False
    """Whether a clone may have dropped the recipient's data, and none has completed since."""
    _is_surely_dropped: bool = False
    """Whether that clone is known to replace the recipient's own data."""
    _is_failed: bool = False
    """Whether the last clone that may replace the recipient's own data has failed."""
    _given_to: str = ""
    """Who takes the clone that this server gives: it begins when the one before it is over."""

    def time_anew(self) -> None:
        """How long ago commits were blocked is not known: it is not timed."""
        self._blocked_at = None

    def clone(self, body: Mapping[str, Any], ts: int) -> None:
        """Take one ``clone`` record."""
        step = body["step"]
        at = f"clone {step} at {ts}"
        if body.get("role") == "donor":
            peer = body.get("peer", "")
            if step == "begin":
                self._given_to = peer
            if not (peer and self._given_to) or peer == self._given_to:
                self._donor_stepped(body, at, ts)
        elif body.get("role") == "recipient":
            self._recipient_stepped(body, at)

    # The donor

    def _donor_stepped(self, body: Mapping[str, Any], at: str, ts: int) -> None:
        step = body["step"]
        if step in ("prepared_awaited", "begin", "end", "order_released"):
            # Groups that were prepared before the order was forced may still pass each other.
            self._is_ordered = step == "prepared_awaited"
            self._page = None
        if step in ("commit", "position_read") and self._is_ordered:
            self._page_written(body, at)
        if step == "donor_blocked":
            self.blocks_xa = True
            self._blocked_at = ts
        elif step in ("begin", "donor_released", "end"):
            self.blocks_xa = False
        if step == "begin":
            self._blocked_at = None
        elif step == "donor_released" and self._blocked_at is not None:
            spent = ts - self._blocked_at
            self._blocked_at = None
            if spent >= DONOR_BLOCKED_US_MAX:
                broken = Broken(
                    "donor_blocked_too_long",
                    witness=f"{spent / 1e6:.3f} s",
                    at=at,
                    spent=spent,
                    spent_max=DONOR_BLOCKED_US_MAX,
                )
                excess_us = spent - DONOR_BLOCKED_US_MAX + 1
                self._reporter.broken(CLONE_PROTOCOL, broken, excess_us=excess_us)

    def _versions_read(self, body: Mapping[str, Any], at: str) -> None:
        donor, recipient = (
            str(body.get(f"{role}_version") or "") for role in ("donor", "recipient")
        )
        if body.get("error") is None and not _may_clone(donor, recipient):
            self._other_version = donor, recipient, at

    def _went_on(self) -> None:
        """A clone goes on after the versions: the server has not refused it."""
        if self._other_version is None:
            return
        donor, recipient, at = self._other_version
        self._other_version = None
        broken = Broken(
            "cloned_other_version",
            witness=f"donor {donor}, recipient {recipient}",
            at=at,
            donor=donor,
            recipient=recipient,
        )
        self._reporter.broken(CLONE_PROTOCOL, broken)

    def _enter_stage(self, name: str, at: str) -> None:
        if self._stage is None or name not in CLONE_STAGES:
            return
        number = CLONE_STAGES.index(name)
        if number < self._stage:
            previous = CLONE_STAGES[self._stage]
            broken = Broken(
                "stages_out_of_order", witness=name, at=at, stage=name, previous=previous
            )
            self._reporter.broken(CLONE_PROTOCOL, broken)
        self._stage = number

    def _page_written(self, body: Mapping[str, Any], at: str) -> None:
        file, position = body.get("binlog_file"), body.get("binlog_position")
        if file is None or position is None:
            if self._page is not None:
                note_undecided(self._reporter, [CLONE_COMMITS_ORDERED], CLONE_PAGE_UNREAD, at)
            return
        try:
            base_name, number = parse_log_file_name(file)
        except CoordinateError:
            return
        before, now = self._page, (base_name, number, position)
        if before is not None and before[0] == base_name and now < before:
            broken = Broken(
                "trx_sys_fell",
                witness=f"{file}:{position}",
                at=at,
                file=file,
                number=number,
                position=position,
                previous_number=before[1],
                previous_position=before[2],
            )
            self._reporter.broken(CLONE_COMMITS_ORDERED, broken)
        self._page = now

    def log_began_anew(self) -> None:
        """RESET: the page names files of another log from here on."""
        self._page = None

    def logged(self, block: Block, index: int) -> None:
        """Take a binary log event of a donor that blocks external XA."""
        columns = block.columns
        verb = int(columns["query"][index])
        if int(columns["type"][index]) == EventType.XA_PREPARE:
            what = "XA PREPARE"
        elif verb in _XA_VERBS:
            what = _XA_VERBS[QueryVerb(verb)]
        else:
            return
        file = int(columns["file"][index])
        at = f"{block.files[file] if file >= 0 else ''}:{int(columns['start'][index])}"
        broken = Broken("xa_logged", witness=f"{what} at {at}", at=at, statement=what)
        self._reporter.broken(CLONE_BLOCKS_XA, broken)

    # The recipient

    def _recipient_stepped(self, body: Mapping[str, Any], at: str) -> None:
        step = body["step"]
        if step in ("begin", "refused") or body.get("error") is not None:
            self._other_version = None
        elif step != "version":
            self._went_on()
        if step == "begin":
            self._stage = -1
            self._replaces_data = replaces_data(body.get("destination"))
        elif step == "version":
            self._versions_read(body, at)
        elif step == "stage":
            self._enter_stage(body.get("stage", ""), at)
        if self._replaces_data is not False:
            self._own_data_stepped(body)
        if step == "end":
            self._stage = None

    def _own_data_stepped(self, body: Mapping[str, Any]) -> None:
        """A step of a clone that may replace the recipient's own data."""
        step = body["step"]
        if step == "begin":
            self._is_failed = False
        elif step == "stage" and body.get("stage") in CLONE_STAGES[: CLONE_STAGES.index("RESTART")]:
            self._data_dropped = True
            self._is_surely_dropped = self._replaces_data is True
        elif step == "recovered" or (step == "end" and body.get("error") is None):
            self._data_dropped = False
        elif step == "end":
            self._is_failed = True

    def channel_administered(self, channel: str, action: str, ts: int) -> None:
        """Take one ``channel`` record."""
        if action not in _STARTS or not (self._is_failed and self._data_dropped):
            return
        at = f"{action} of channel {channel!r} at {ts}"
        if not self._is_surely_dropped:
            rules = [FAILED_CLONE_NOT_RESUMED]
            note_undecided(self._reporter, rules, CLONE_DESTINATION_UNKNOWN, at)
            return
        broken = Broken(
            "started_without_data",
            witness=f"{action} at {ts}",
            at=at,
            action=action,
            name=channel,
        )
        self._reporter.broken(FAILED_CLONE_NOT_RESUMED, broken)

    def of_data(self, body: Mapping[str, Any]) -> Undecided | None:
        """Why a server may have no data, or not all of them; None: nothing says so.

        Args:
            body: Of a ``log_status`` record, which may have clone_status and clone_progress.
        """
        if self._is_failed and self._data_dropped and self._is_surely_dropped:
            return Undecided(CLONE_DROPPED_DATA)
        status = lower_keys(body.get("clone_status"))
        state = str(status.get("state", "")).lower()
        is_own = replaces_data(status.get("destination"))
        if state not in _HALF or not is_own or self._replaces_data:
            return None  # where the clone's own steps were seen, they say more
        rows = body.get("clone_progress")
        for row in map(lower_keys, rows if isinstance(rows, list) else ()):
            name, reached = (str(row.get(key, "")).upper() for key in ("stage", "state"))
            if (name, reached) == ("DROP DATA", "NOT STARTED"):
                return None
        return Undecided(CLONE_MAY_HAVE_DROPPED_DATA, state=state)

    def started(self, data_lineage: str | None) -> None:
        """The server has started: with it a clone of its own data has ended or completed."""
        if data_lineage == "cloned":
            self._went_on()
        self._other_version = None
        if data_lineage is not None:
            self._data_dropped = self._is_failed = False
        elif (
            self._data_dropped
            and self._stage is not None
            and self._stage < CLONE_STAGES.index("RESTART")
        ):
            self._is_failed = True

    def interrupted(self) -> None:
        """A restart ends a donor's clone."""
        self._blocked_at = None
        self.blocks_xa = self._is_ordered = False
        self._page = None


def _may_clone(donor: str, recipient: str) -> bool:
    """Whether a server of one version takes the data of another; what is no version may."""
    one, other = _numbers(donor), _numbers(recipient)
    if one is None or other is None:
        return True
    if one[:2] != other[:2]:
        return False
    return one == other or one[:2] > (8, 0) or min(one[2], other[2]) >= _PATCH_COUNTS_UNTIL


def _numbers(version: str) -> tuple[int, int, int] | None:
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))
