"""What a run found of each rule on each instance: held, broken or undecided.

The newest check of a rule on an instance or channel counts; what was found broken stays broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tallystick.coordinates.audit.collection_checks import is_optional, verdicts_of_rows
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Outcome, SubjectCheck, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import reason_text

_VERDICTS = {
    Outcome.HOLDS: Verdict.CONSISTENT,
    Outcome.UNDECIDED: Verdict.UNDECIDED,
    Outcome.BROKEN: Verdict.INCONSISTENT,
}

Key = tuple[str, str | None, str]
"""An instance, its channel (None: on the instance), and a rule."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What was found of one rule on one instance, or on one of its channels.

    Attributes:
        rule: Its name.
        channel: None: on the instance.
        verdict: CONSISTENT: it held; INCONSISTENT: it is broken.
        reason: Why it is undecided.
        is_optional: It is undecided, and leaves the verdict of the run as it is.
        findings: What broke it.
    """

    rule: str
    channel: str | None
    verdict: Verdict
    reason: str = ""
    is_optional: bool = False
    findings: tuple[Finding, ...] = ()


def rule_results(
    checks: Sequence[SubjectCheck], cuts: Iterable[Cut], broken: Mapping[Key, Sequence[Finding]]
) -> dict[str, list[RuleResult]]:
    """Put together what a run found.

    Args:
        checks: The table of checks, oldest collection first.
        cuts: The rows.
        broken: The findings of each rule.

    Returns:
        For each instance its results, in the order of the registry.
    """
    verdicts = verdicts_of_rows(cuts)
    found: dict[Key, RuleResult] = {}
    for one in reversed(checks):
        check = one.check
        key = one.instance_id, one.channel, check.rule
        if key in found:
            continue
        verdict = verdicts.get((one.collection_id, one.instance_id, one.channel), "")
        is_undecided = check.outcome is Outcome.UNDECIDED
        found[key] = RuleResult(
            check.rule,
            one.channel,
            _VERDICTS[check.outcome],
            reason_text(check) if is_undecided else "",
            is_undecided and is_optional(check, verdict),
        )
    for key, findings in broken.items():
        _, channel, rule = key
        found[key] = RuleResult(rule, channel, Verdict.INCONSISTENT, findings=tuple(findings))
    results: dict[str, list[RuleResult]] = {}
    for (instance, _, _), result in sorted(found.items(), key=lambda item: _order(*item)):
        results.setdefault(instance, []).append(result)
    return results


def _order(key: Key, result: RuleResult) -> tuple[str, int, str, str]:
    rule = RULES.get(result.rule)
    return key[0], 0 if rule is None else rule.number, result.rule, result.channel or ""
