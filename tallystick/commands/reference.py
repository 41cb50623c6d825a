"""``tallystick rules``, ``faults`` and ``config``: what is known and what is set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick import terminal
from tallystick.commands.options import Json
from tallystick.names import require_known
from tallystick.settings import Settings, load

if TYPE_CHECKING:
    from tallystick.coordinates.rules.registry import Rule
    from tallystick.producers.simulator.faults import Fault


def rules(
    name: Annotated[str | None, typer.Argument(help="One rule, in full.", metavar="NAME")] = None,
    json: Json = False,
) -> None:
    """List what is checked, or print one entry: claim, why, documents, remedy."""
    from tallystick.coordinates.rules.catalogue import RULES

    if name is not None:
        require_known("rule", name, RULES)
    chosen = list(RULES.values()) if name is None else [RULES[name]]
    if json:
        documents = [_rule_document(rule) for rule in chosen]
        terminal.show_json(documents if name is None else documents[0])
    elif name is None:
        width = max(map(len, RULES))
        for one in chosen:
            terminal.show(f"{one.number:>3}  {one.name:<{width}}  {one.severity.value}")
    else:
        terminal.show(*_entry(chosen[0]))


def faults(
    name: Annotated[str | None, typer.Argument(help="One fault, in full.", metavar="NAME")] = None,
    json: Json = False,
) -> None:
    """List the faults that can be injected, and the rules that each breaks."""
    from tallystick.producers.simulator.faults import FAULTS

    if name is not None:
        require_known("fault", name, FAULTS)
    chosen = list(FAULTS.values()) if name is None else [FAULTS[name]]
    if json:
        documents = [_fault_document(fault) for fault in chosen]
        terminal.show_json(documents if name is None else documents[0])
        return
    for fault in chosen:
        terminal.show(
            (f"{fault.name}", "bold"),
            f"  {fault.text}",
            f"  breaks {', '.join(sorted(fault.must_fire))}",
        )


def config(json: Json = False) -> None:
    """Print every setting with its value and where that comes from.

    A flag goes over the environment (TALLYSTICK_NAME), that over ./tallystick.toml, that over the
    default.
    """
    loaded = load()
    values = loaded.settings.model_dump(mode="json")
    if json:
        terminal.show_json(
            {name: {"value": values[name], "origin": loaded.origins[name]} for name in values}
        )
        return
    width = max(map(len, values))
    for name, value in values.items():
        if isinstance(value, dict):
            value = [f"{key}={part}" for key, part in value.items()]  # noqa: PLW2901
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if value is None:
            shown = "off"
        about = Settings.model_fields[name].description
        terminal.show(f"{name:<{width}}  {shown or '-'}  ({loaded.origins[name]}): {about}")


def _entry(rule: Rule) -> Iterator[str | tuple[str, str]]:
    """Everything that is known of a rule, for a terminal."""
    from tallystick.coordinates.rules.describe import SCOPES, TIERS, verified_by, written_in

    yield f"{rule.number} {rule.name}", "bold"
    about, scope = TIERS[rule.tier], SCOPES[rule.scope]
    evidence = "" if scope.endswith(about) else f"; compares {scope}"
    yield f"{rule.severity.value}; tier {rule.tier}, {about}{evidence}"
    parts: tuple[tuple[str, Sequence[str]], ...] = (
        ("Claim", [rule.claim]),
        ("Why it holds", [rule.why]),
        ("Undecided when", [f"{rule.undecided_when}."]),
        ("Written in", written_in(rule)),
        ("What to do", [rule.remedy]),
        ("Runbook", [rule.family.place]),
        ("To see it", list(verified_by(rule)) or ["no statement shows this"]),
        ("Broken by", [f"{f.name}: {f.text}" for f in _faults_that_break(rule)]),
    )
    for heading, paragraphs in parts:
        yield ""
        yield heading, "bold"
        for paragraph in paragraphs:
            yield f"  {paragraph}"


def _faults_that_break(rule: Rule) -> list[type[Fault]]:
    from tallystick.producers.simulator.faults import FAULTS

    return [fault for fault in FAULTS.values() if rule.name in fault.must_fire]


def _rule_document(rule: Rule) -> dict[str, Any]:
    from tallystick.coordinates.rules.describe import verified_by, written_in

    return {
        "number": rule.number,
        "name": rule.name,
        "tier": rule.tier,
        "scope": rule.scope,
        "severity": rule.severity.value,
        "claim": rule.claim,
        "why": rule.why,
        "undecided_when": rule.undecided_when,
        "sources": list(written_in(rule)),
        "remedy": rule.remedy,
        "runbook": rule.family.place,
        "verify": list(verified_by(rule)),
        "broken_by": [fault.name for fault in _faults_that_break(rule)],
    }


def _fault_document(fault: type[Fault]) -> dict[str, Any]:
    return {
        "number": fault.number,
        "name": fault.name,
        "group": fault.group.value,
        "injection": fault.text,
        "must_fire": sorted(fault.must_fire),
    }
