"""Sentences for findings, checks and reasons: made from their data, where something is shown.

The texts are with the rules, as templates that name values of the data. Beside Python's own format
specifications they know

- ``{gtids:gtids}``: a GTID set; of a long one the first intervals and how much is left out,
- ``{us:seconds}``: microseconds as seconds,
- ``{ts:moment}``: microseconds since 1970 in UTC; ``{ts:instant}``: to the microsecond,
- ``{count:n transaction}``: a number with its noun, in the plural unless it is one,
- ``{gtids:is|are}``: the first text where a GTID set has one GTID, a list one name, or a number is
  one, else the second,
- ``{names:list}``: a list as text,
- ``{gtid:group}``: a GTID, or that the group is anonymous where it is empty,
- ``{table:content}``: rows and checksum of a table,
- ``{origins:origins}``: where a GTID's transactions were committed first;

and in statements, where nothing is shortened,

- ``{gtids:sql}``: a string of SQL, quoted,
- ``{table:name}``: a name of SQL, quoted, with the one of its database before a dot,
- ``{file:sh}``: a word of a command line, quoted,
- ``{gtids:gtids_sql}`` and ``{gtids:gtids_sh}``: the same, of a GTID set that is not empty,
- ``{at:file}`` and ``{at:position}``: the file, as a word of a command line, and the position of a
  log coordinate,
- ``{number:d}``: a number.
"""

from __future__ import annotations

import re
import shlex
import string
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.catalogue import REASONS, RULES
from tallystick.coordinates.rules.statements import in_names_of
from tallystick.coordinates.values.errors import GtidSetParseError
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tallystick.coordinates.audit.cut import Cut
    from tallystick.coordinates.results import Check, Finding, IncidentChange, Observation
    from tallystick.coordinates.rules.registry import Heals, Statement

INTERVALS_SHOWN = 12
_MANY = "n "
_OR = "|"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_A_YEAR_US = 365 * 86_400 * 1_000_000
_coordinate = re.compile(r"(?:\./)?(.+\.[0-9]{6,}):([0-9]+)").fullmatch
_time_of_record = re.compile(r"(?: at|(?<=start)) ([0-9]+)$")


_ENDS: Final[dict[Heals, str]] = {
    "held": "",
    "executed": "",
    "log": " The incident ends when the log that shows it begins anew, or by an acknowledgement.",
    "data": (
        " The incident ends when other data replace those of the server (a clone, a restore; a"
        " source is first replaced by one of its replicas), or by an acknowledgement."
    ),
    "never": " What has happened stays: the incident ends by an acknowledgement.",
}
"""What a remedy adds where to do what it asks for does not end the incident yet."""


class Explanation(NamedTuple):
    """A finding in words: one sentence, and both sides of the contradiction with their origins."""

    sentence: str
    observed: str
    observed_in: str
    expected: str
    expected_in: str
    at: str
    witness: str
    remedy: str
    """What an operator does about it; empty for a rule that is not known here."""
    verify: tuple[tuple[str, str], ...]
    """Instances, and the statement or command to run on them, to see the contradiction."""
    cure: tuple[tuple[str, str], ...]
    """What to run to do what the remedy advises first; what is not known is in ``<>``."""


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
        if _OR in format_spec:
            one, many = format_spec.split(_OR)
            return one if _is_one(value) else many
        if format_spec.startswith(_MANY):
            noun = format_spec.removeprefix(_MANY)
            return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"
        return str(super().format_field(value, format_spec))


def _is_one(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value = GtidSet.parse(value)
        except GtidSetParseError:
            return False
    if isinstance(value, GtidSet):
        return value.count() == 1
    return bool((value if isinstance(value, int) else len(value)) == 1)


def _group(gtid: str) -> str:
    return gtid or "an anonymous group"


def _content(table: Mapping[str, Any]) -> str:
    rows = "" if table["rows"] is None else fill("{rows:n row}, ", table)
    return f"{rows}checksum {table['checksum']}"


def _origins(origins: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(
        f"server_id {origin['server_id']},"
        # As mysqlbinlog prints it: two may differ by microseconds.
        f" original_commit_timestamp {origin['original_commit_timestamp']}"
        f" ({origin.get('place') or moment(origin['original_commit_timestamp'])})"
        for origin in origins
    )


def moment(ts: int) -> str:
    """A time in UTC; of a journal whose clock began with it, the time in it.

    Args:
        ts: Microseconds since 1970.
    """
    return _at(ts, "%Y-%m-%d %H:%M:%S", 3)


def _instant(ts: int) -> str:
    return _at(ts, "%Y-%m-%d %H:%M:%S.%f", 6)


def _at(ts: int, form: str, digits: int) -> str:
    if 0 <= ts < _A_YEAR_US:
        return f"{ts / 1e6:.{digits}f} s into the journal"
    try:
        at = _EPOCH + timedelta(microseconds=ts)
    except OverflowError:
        return f"{ts} µs"
    return at.strftime(form) + " UTC"


def _with_moment(text: str) -> str:
    """Coordinates that end with the time of a record, with the time as people read it."""
    return _time_of_record.sub(lambda found: f", {moment(int(found[1]))}", text)


def _sql(value: Any) -> str:
    special: dict[str, str | int | None] = {
        "\\": "\\\\",
        "'": "''",
        "\0": "\\0",
        "\n": "\\n",
        "\r": "\\r",
    }
    return f"'{_text(value).translate(str.maketrans(special))}'"


def _name(value: Any) -> str:
    parts = _one_line(value).split(".")
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def _word(value: Any) -> str:
    return shlex.quote(_one_line(value))


def _some_gtids(value: Any) -> str:
    """Other text is an error of the server that is asked, and of an empty set nothing is said."""
    if not GtidSet.parse(_text(value)):
        raise ValueError("expected at least one GTID")
    return _text(value)


def _file(value: Any) -> str:
    return _word(_coordinate_of(value)[1])


def _position(value: Any) -> str:
    return str(_coordinate_of(value)[2])


def _coordinate_of(value: Any) -> re.Match[str]:
    found = _coordinate(_text(value))
    if found is None:
        raise ValueError(f"no coordinate: {value!r}")
    return found


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"expected a text, found {value!r}")


def _one_line(value: Any) -> str:
    text = _text(value)
    if text and text.isprintable() and not text.startswith("-"):
        return text
    raise ValueError(f"expected a word that is no option, found {value!r}")


_SPECIAL: dict[str, Callable[[Any], str]] = {
    "moment": moment,
    "instant": _instant,
    "sql": _sql,
    "name": _name,
    "sh": _word,
    "gtids_sql": lambda value: _sql(_some_gtids(value)),
    "gtids_sh": lambda value: _word(_some_gtids(value)),
    "file": _file,
    "position": _position,
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
        "at": _with_moment(finding.at),
        "instance": finding.instance_id,
        "channel": finding.channel,
        "collection": finding.collection_id,
    }
    if texts is None:
        shown = "; ".join(f"{name} {value}" for name, value in finding.data.items())
        return Explanation(
            sentence=f"{finding.rule} is broken: {finding.case}.",
            observed=finding.witness,
            observed_in="",
            expected=shown,
            expected_in="",
            at=values["at"],
            witness=finding.witness,
            remedy="" if rule is None else rule.remedy,
            verify=(),
            cure=(),
        )
    assert rule is not None
    version = finding.data.get("versions", {}).get(finding.instance_id)
    witness = _with_moment(finding.witness)
    return Explanation(
        sentence=fill(texts.sentence, values),
        observed=fill(texts.observed, values | {"witness": witness}),
        observed_in=fill(texts.observed_in, values),
        expected=fill(texts.expected, values),
        expected_in=fill(texts.expected_in, values),
        at=values["at"],
        witness=witness,
        remedy=in_names_of(version, texts.remedy or rule.remedy)
        + _ENDS[rule.healed_by(finding.case)],
        verify=_to_run(rule.verify, values),
        cure=_to_run(texts.cure, values),
    )


def _to_run(
    templates: Iterable[Statement], values: Mapping[str, Any]
) -> tuple[tuple[str, str], ...]:
    return tuple((" and ".join(on), text) for text, on in _by_text(templates, values).items())


def _by_text(templates: Iterable[Statement], values: Mapping[str, Any]) -> dict[str, list[str]]:
    """Those whose values the finding has, in a form that can be quoted: where each is run."""
    known = {name for name, value in values.items() if value is not None}
    made: dict[str, list[str]] = {}
    for statement in templates:
        if statement.names() <= known:
            with suppress(ValueError):
                on = fill(statement.on, values)
                text = in_names_of(values.get("versions", {}).get(on), statement.text)
                of_text = made.setdefault(fill(text, values), [])
                of_text += [on] if on not in of_text else []  # two may have one older name
    return made


def finding_document(finding: Finding) -> dict[str, Any]:
    """A finding as JSON for its readers: the data, and the sentences made of them."""
    texts = explain(finding)
    run = {"verify": to_run(texts.verify), "cure": to_run(texts.cure)}
    # The coordinates and the witness stay as programs compare them.
    return texts._asdict() | finding.to_dict() | run


def to_run(statements: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Statements as JSON has them."""
    return [{"on": on, "statement": statement} for on, statement in statements]


def change_document(change: IncidentChange) -> dict[str, Any]:
    """A change of an incident as JSON for its readers, with the sentences of its first finding."""
    values = change.to_dict()
    values["incident"]["finding"] = finding_document(change.incident.finding)
    return values


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
        subject += f" of instance {seen.instance_id}"
    if seen.data.get("sources"):
        subject += f" against {' and '.join(seen.data['sources'])}"
    return f"{subject}: {text}" if subject else text


def observation_document(seen: Observation) -> dict[str, Any]:
    """An observation as JSON for its readers: the data, and the text made of them."""
    return seen.to_dict() | {"text": observation_text(seen)}


def reasons_of(cut: Cut, checks: Iterable[Check]) -> str:
    """Why a row is undecided, in one line: as a whole, and by checks."""
    whole = [REASONS[cut.reason].text] if cut.reason in REASONS else []
    return "; ".join([*whole, *(f"{one.rule}: {reason_text(one)}" for one in checks)])


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
