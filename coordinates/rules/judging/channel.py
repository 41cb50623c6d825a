"""What a judge of one channel of one row looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tallystick.coordinates.audit.baselines import ChannelBaselines
    from tallystick.coordinates.audit.row_evidence import Row
    from tallystick.coordinates.events.log_status import ChannelState
    from tallystick.coordinates.logs.relay_reader import RelayReader
    from tallystick.coordinates.rules.registry import Rule

NO_RELAY = "no event of the channel's relay log was seen"
NOT_READ = "the value was not read, or could not be read"
GTID_ONLY = "the channel does not persist positions (GTID_ONLY)"


class ChannelOfRow(NamedTuple):
    """One channel of one row: what the server says, the relay log, the rows before."""

    row: Row
    name: str
    state: ChannelState
    relay: RelayReader | None
    baselines: ChannelBaselines

    def holds(self, rule: Rule) -> None:
        """The rule was judged for the channel, and holds."""
        self.row.judgement.holds(rule, self.name)

    def undecided(self, rule: Rule, reason: str) -> None:
        """The evidence for the rule is missing."""
        self.row.judgement.undecided(rule, reason, self.name)

    def broken(self, rule: Rule, **finding: Any) -> None:
        """The rule is broken; ``finding`` as of ``Judgement.broken``."""
        self.row.judgement.broken(rule, channel=self.name, **finding)
