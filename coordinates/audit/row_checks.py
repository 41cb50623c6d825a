"""The checks of one row: which rules hold, are broken, or stay undecided and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.coordinates.results import Check, Outcome, held
from tallystick.coordinates.rules.outcomes import Broken, Holds, NotApplicable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallystick.coordinates.audit.reporter import Reporter
    from tallystick.coordinates.rules.outcomes import RowAnswer
    from tallystick.coordinates.rules.registry import Rule


class RowChecks:
    """Collects what rules answer about one log_status row, and reports what is broken.

    A rule may be asked several times of one subject (None: the instance, else a channel): broken
    beats undecided beats holds, and of several reasons the first stays.
    """

    def __init__(self, reporter: Reporter, collection_id: str) -> None:
        self.reporter = reporter
        self.collection_id = collection_id
        self._checks: dict[str | None, dict[str, Check]] = {}
        self._has_broken = False

    def take(self, rule: Rule, answer: RowAnswer, channel: str | None = None) -> None:
        """Write down what a rule answers about the row."""
        name = rule.name
        if isinstance(answer, NotApplicable) or name in self.reporter.disabled:
            return
        checks = self._checks.setdefault(channel, {})
        known = checks.get(name)
        if isinstance(answer, Holds):
            if known is None:
                checks[name] = held(name)
        elif isinstance(answer, Broken):
            self.reporter.broken(
                rule,
                answer,
                at=self.collection_id,
                channel=channel,
                collection_id=self.collection_id,
            )
            self._has_broken = True
            if known is None or known.outcome is not Outcome.BROKEN:
                checks[name] = Check(name, Outcome.BROKEN, answer.case, answer.data)
        elif known is None or known.outcome is Outcome.HOLDS:
            checks[name] = Check(name, Outcome.UNDECIDED, answer.reason.code, answer.data)

    def ask(self, rules: Iterable[Rule], evidence: Any, channel: str | None = None) -> None:
        """Ask rules on rows in their order, and write down what they answer."""
        for rule in rules:
            assert rule.judge is not None
            self.take(rule, rule.judge(evidence), channel)

    def is_broken(self, *rules: Rule, channel: str | None = None) -> bool:
        """Whether any of them was broken so far."""
        return self._has_broken and self._is_any(Outcome.BROKEN, rules, channel)

    def is_undecided(self, *rules: Rule, channel: str | None = None) -> bool:
        """Whether any of them is undecided so far."""
        return self._is_any(Outcome.UNDECIDED, rules, channel)

    def of(self, channel: str | None) -> tuple[Check, ...]:
        """All checks of one subject, by the names of their rules."""
        checks = self._checks.get(channel, {})
        return tuple([checks[name] for name in sorted(checks)])

    def _is_any(self, outcome: Outcome, rules: Iterable[Rule], channel: str | None) -> bool:
        checks = self._checks.get(channel)
        if not checks:
            return False
        for rule in rules:
            check = checks.get(rule.name)
            if check is not None and check.outcome is outcome:
                return True
        return False
