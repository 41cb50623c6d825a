"""Tier 3: does a row list every channel that SHOW REPLICA STATUS has?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tallystick.coordinates.events.log_status import GROUP_REPLICATION
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.columns import NOT_READ
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import (
    HOLDS,
    NOT_APPLICABLE,
    Broken,
    RowAnswer,
    Undecided,
)
from tallystick.coordinates.rules.registry import Case, reason, rule
from tallystick.coordinates.rules.statements import LOG_STATUS, REPLICA_STATUS

LEFT_OUT = reason(
    "channel_left_out",
    "the row does not list the channel, which SHOW REPLICA STATUS had before it: the next answer"
    " shows whether the channel was removed in between",
    Lack.NEXT_ROW,
)
LEFT_OUT_UNSEEN = reason(
    "channel_left_out_unseen",
    "the row does not list the channel, which SHOW REPLICA STATUS had before it, and no event of"
    " its relay log was seen: whether it was removed and made anew is not known",
    Lack.RELAY_LOG,
)
LISTED_ALONE = reason(
    "channel_listed_alone",
    "the row lists the channel, which SHOW REPLICA STATUS did not have before it: it was made in"
    " between, or the row is an older one",
    Lack.NEXT_ROW,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedEvidence:
    """Where one channel is named. The cut table has none of this, so only the audit makes it.

    Attributes:
        channel: Its name.
        is_listed: Whether the row lists it; None: its list was not read whole.
        has_status: Whether SHOW REPLICA STATUS, read before the row, has it; None: not read.
        is_followed: Whether its relay log was observed, which begins anew with the channel.
        left_out_of: The collection before, if its row did not list the channel although it was
            there before that row, and nothing was done to it since.
    """

    channel: str = ""
    is_listed: bool | None = None
    has_status: bool | None = None
    is_followed: bool = False
    left_out_of: str | None = None

    scope: ClassVar = "channel"

    def is_left_out(self) -> bool:
        """Whether the row lacks it, unless it was removed before the row was read."""
        return self.has_status is True and self.is_listed is False


@rule(
    number=147,
    tier=3,
    scope="T",
    family=Family.COLLECTION,
    severity=Severity.CRITICAL,
    heals="held",
    claim=(
        "A row lists every channel that SHOW REPLICA STATUS shows before it and in the next answer."
    ),
    why=(
        "Both walk over the same map of channels, and take every one that has a source's address:"
        " never started, stopped, after RESET REPLICA, after a start that could not open its relay"
        " log. Only RESET REPLICA ALL takes one out of both. A backup that is cut by a row without"
        " a channel has nothing of its relay log."
    ),
    undecided_when=(
        "the replica status or the row's list of channels was not read, the next answer is not"
        " there yet, or the row lists a channel that the status does not have. Where the relay log"
        " is not observed, a channel that the row lacks is never held against it: it may have been"
        " removed and made anew. Channels of Group Replication, which its plugin makes and removes,"
        " are not judged"
    ),
    sources=(
        "MySQL manual: performance_schema.log_status",
        "measured on MySQL 8.0.31 (docs/fidelity.md)",
    ),
    remedy=(
        "Read performance_schema.log_status and SHOW REPLICA STATUS by hand. If both have the"
        " channel, fix the collector, which loses a part of the row; if the row lacks it there too,"
        " report it with the server's version. Discard what was cut by such a row."
    ),
    verify=(LOG_STATUS, REPLICA_STATUS),
    evidence=ListedEvidence,
    cases={
        "left_out": Case(
            "The row of {witness} does not list the channel, which the server had before and after"
            " it.",
            "no entry of the channel",
            "REPLICATION of log_status of {witness}",
            "an entry of each channel",
            "SHOW REPLICA STATUS of {witness} and of this collection",
        ),
    },
)
def configured_channels_listed(e: ListedEvidence) -> RowAnswer:
    """The status is read before the row: a channel may have gone until then."""
    if e.channel.startswith(GROUP_REPLICATION):
        return NOT_APPLICABLE
    if e.left_out_of is not None:
        return Broken("left_out", witness=e.left_out_of)
    if e.is_left_out():
        return Undecided(LEFT_OUT if e.is_followed else LEFT_OUT_UNSEEN)
    if e.is_listed is None or e.has_status is None:
        return Undecided(NOT_READ)
    return Undecided(LISTED_ALONE) if e.is_listed and not e.has_status else HOLDS
