"""The judgement of one row: which invariants held, which were broken, which stay undecided, why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.registry import Rule


class Judgement:
    """Collects the answers of the judges for one log_status row.

    Answers are kept per scope: None for the instance, else the channel.
    """

    def __init__(self, reporter: Reporter, collection_id: str) -> None:
        self.reporter = reporter
        self.collection_id = collection_id
        self._held: dict[str | None, set[str]] = {}
        self._broken: dict[str | None, list[str]] = {}
        self._undecided: dict[str | None, dict[str, str]] = {}

    def wants(self, rule: Rule) -> bool:
        """Whether the invariant is switched on."""
        return rule.name not in self.reporter.disabled

    def holds(self, rule: Rule, channel: str | None = None) -> None:
        """The row keeps the rule."""
        if self.wants(rule):
            self._held.setdefault(channel, set()).add(rule.name)

    def undecided(self, rule: Rule, reason: str, channel: str | None = None) -> None:
        """The evidence does not suffice."""
        if self.wants(rule):
            self._undecided.setdefault(channel, {}).setdefault(rule.name, reason)

    def broken(self, rule: Rule, *, channel: str | None = None, **finding: Any) -> None:
        """The row breaks the invariant; ``finding`` as in ``Reporter.broken``."""
        if not self.wants(rule):
            return
        names = self._broken.setdefault(channel, [])
        if rule.name not in names:
            names.append(rule.name)
        finding.setdefault("at", self.collection_id)
        self.reporter.broken(rule, channel=channel, collection_id=self.collection_id, **finding)

    def is_broken(self, *invariants: Rule, channel: str | None = None) -> bool:
        """Whether any of them was broken so far."""
        names = self._broken.get(channel, [])
        return any(rule.name in names for rule in invariants)

    def broken_names(self, channel: str | None) -> list[str]:
        """Broken invariants of one scope, in order of judging."""
        return list(self._broken.get(channel, []))

    def undecided_reasons(self, channel: str | None) -> dict[str, str]:
        """Undecided invariants of one scope with their reasons, without those that broke."""
        broken = self._broken.get(channel, [])
        return {n: r for n, r in self._undecided.get(channel, {}).items() if n not in broken}

    def held_names(self, channel: str | None) -> list[str]:
        """Invariants that one scope keeps, by name: nothing of them broke or is undecided."""
        others = {*self._broken.get(channel, ()), *self._undecided.get(channel, ())}
        return sorted(self._held.get(channel, set()) - others)

    def evaluated(self, channel: str | None) -> int:
        """How many invariants were judged in one scope."""
        return len(self.held_names(channel)) + len(self._broken.get(channel, ()))
