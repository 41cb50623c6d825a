"""Sentences for findings, checks and reasons: made from their data, where something is shown.

The texts are with the rules, as templates that name values of the data. Beside Python's own format
specifications they know

- ``{gtids:gtids}``: a GTID set; of a long one the first intervals and how much is left out,
- ``{us:seconds}``: microseconds as seconds,
- ``{count:n transaction}``: a number with its noun, in the plural unless it is one,
- ``{names:list}``: a list as text,
- ``{gtid:group}``: a GTID, or that the group is anonymous where it is empty,
- ``{table:content}``: rows and checksum of a table,
- ``{origins:origins}``: where a GTID's transactions were committed first;

and in statements, where nothing is shortened,

- ``{gtids:sql}``: a string of SQL, quoted,
- ``{file:sh}``: a word of a command line, quoted.
"""

from __future__ import annotations

import shlex
import string
from typing import TYPE_CHECKING, Any, NamedTuple

from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.catalogue import REASONS, RULES
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Check, Finding, Observation

INTERVALS_SHOWN = 12
_MANY = "n "


class Explanation(NamedTuple):
    """A finding in words: one sentence, and both sides of the contradiction with their origins."""

    sentence: str
    observed: str
    observed_in: str
    expected: str
    expected_in: str
    verify: tuple[tuple[str, str], ...]
    """Instance, and the statement or command to run on it, to see the contradiction."""


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "gtids":
            return shorten_gtids(str(value))
        if format_spec == "seconds":
            return f"{value / 1e6:.3f} s"
        if format_spec == "list":
            return ", ".join(map(str, value))
        if format_spec in _SPECIAL:
            return _SPECIAL[format_spec](value)
        if format_spec.startswith(_MANY):
            noun = format_spec.removeprefix(_MANY)
            return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
        return str(super().format_field(value, format_spec))


def _group(gtid: str) -> str:
    return gtid or "an anonymous group"


def _content(table: Mapping[str, Any]) -> str:
    rows = "" if table["rows"] is None else f"{table['rows']} rows, "
    return f"{rows}checksum {table['checksum']}"


def _origins(origins: Sequence[Mapping[str, int]]) -> str:
    return "; ".join(
        f"server_id {origin['server_id']},"
        f" original_commit_timestamp {origin['original_commit_timestamp']}"
        for origin in origins
    )


def _sql(value: Any) -> str:
    escaped = str(value).translate({ord("\\"): "\\\\", ord("'"): "''", 0: "\\0"})
    return f"'{escaped}'"


def _word(value: Any) -> str:
    return shlex.quote(str(value))


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "sql": _sql,
    "sh": _word,
    "group": _group,
    "content": _content,
    "origins": _origins,
}
_formatter = _Formatter()


def fill(template: str, data: Mapping[str, Any]) -> str:
    """A template with its values."""
    return _formatter.vformat(template, (), data)


def explain(finding: Finding) -> Explanation:
    """The sentence of a finding, and both sides of its contradiction.

    A finding of another version, whose rule or case is not known here, is shown by its data.
    """
    rule = RULES.get(finding.rule)
    texts = None if rule is None else rule.cases.get(finding.case)
    values = {
        **finding.data,
        "witness": finding.witness,
        "at": finding.at,
        "instance": finding.instance_id,
        "channel": finding.channel,
        "collection": finding.collection_id,
    }
    if texts is None:
        shown = "; ".join(f"{name} {value}" for name, value in finding.data.items())
        return Explanation(
            f"{finding.rule} is broken: {finding.case}.", finding.witness, "", shown, "", ()
        )
    assert rule is not None
    known = {name for name, value in values.items() if value is not None}
    verify = tuple(
        (fill(statement.on, values), fill(statement.text, values))
        for statement in rule.verify
        if statement.names() <= known
    )
    sentence, observed, observed_in, expected, expected_in = (
        fill(template, values) for template in texts
    )
    return Explanation(sentence, observed, observed_in, expected, expected_in, verify)


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding as JSON for its readers: the data, and the sentences made of them."""
    texts = explain(finding)
    verify = [{"on": on, "statement": statement} for on, statement in texts.verify]
    return finding.to_dict() | texts._asdict() | {"verify": verify}


def reason_text(check: Check) -> str:
    """Why a check is undecided, in words."""
    return _reason_text(check.reason, check.data)


def check_text(check: Check) -> str:
    """What a check says, in words; empty where the rule holds."""
    if check.outcome is not Outcome.BROKEN:
        return reason_text(check) if check.reason else ""
    rule = RULES.get(check.rule)
    texts = rule and rule.cases.get(check.reason)
    try:
        return fill(texts.sentence, check.data) if texts else f"broken: {check.reason}"
    except KeyError:
        # The row's own check does not repeat what its finding names.
        return f"broken: {check.reason}"


def _reason_text(code: str, values: Mapping[str, Any]) -> str:
    """The text of a reason; one of another version, not known here, is shown by its code."""
    reason = REASONS.get(code)
    return code if reason is None else fill(reason.text, values)


def observation_text(seen: Observation) -> str:
    """An observation in words; one about rules names them, and what they compare."""
    values = {
        **seen.data,
        "at": seen.at,
        "instance": seen.instance_id,
        "channel": seen.channel,
        "collection": seen.collection_id,
    }
    text = _reason_text(seen.reason, values)
    if "later_rows" in seen.data:
        text += fill(" (and {later_rows:n later row})", seen.data)
    subject = ", ".join(seen.rules)
    if "sources" in seen.data:
        subject += f" of instance {seen.instance_id} against {' and '.join(seen.data['sources'])}"
    return f"{subject}: {text}" if subject else text


def observation_document(seen: Observation) -> dict[str, Any]:
    """An observation as JSON for its readers: the data, and the text made of them."""
    return seen.to_dict() | {"text": observation_text(seen)}


def reasons_of(cut: Cut) -> str:
    """Why a row is undecided, in one line."""
    whole = [REASONS[cut.reason].text] if cut.reason in REASONS else []
    return "; ".join([*whole, *(f"{one.rule}: {reason_text(one)}" for one in cut.undecided)])


def shorten_gtids(text: str) -> str:
    """A GTID set with its first intervals, and how many intervals and GTIDs are left out."""
    if text.count(":") + text.count("-") <= INTERVALS_SHOWN:
        return text
    try:
        gtids = GtidSet.parse(text)
    except GtidSetParseError:
        return text
    intervals = list(gtids)
    if len(intervals) <= INTERVALS_SHOWN:
        return text
    shown = GtidSet(intervals[:INTERVALS_SHOWN])
    left_out = gtids - shown
    return (
        f"{shown} and {len(intervals) - INTERVALS_SHOWN:,} more intervals"
        f" ({left_out.count():,} of {gtids.count():,} GTIDs)"
    )
