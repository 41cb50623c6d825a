"""What the disturbed audit found, held against a replay of the same journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tallystick.coordinates.rules.observations import EPOCH_BEGAN, RECORDS_LOST, STALE_EPOCH

Result = Mapping[str, Any]
"""A result as ``--json`` prints it."""
_TRANSPORT = (
    "JOURNAL_GAP",
    "JOURNAL_REPEATED",
    "JOURNAL_REUSED",
    "JOURNAL_STALE_EPOCH",
    "BLOCK_UNREADABLE",
)
_OF_EPOCHS = {EPOCH_BEGAN.code, STALE_EPOCH.code}
_OF_PRODUCERS = {*_OF_EPOCHS, RECORDS_LOST.code}
"""Reasons that the journal itself has, so that whoever reads it gives them."""


def violations_after_damage(
    audited: Result,
    replayed: Result,
    must_fire: Collection[str],
    damaged: Collection[str],
) -> list[str]:
    """What is wrong although messages were damaged: a false alarm, a canary or a hole not seen.

    Args:
        audited: The result of the audit.
        replayed: That of the journal as the producer wrote it.
        must_fire: The rules that the canary breaks.
        damaged: Instances of which something cannot be known.
    """
    known = {(one["rule"], one["instance_id"]) for one in replayed["findings"]}
    found = {(one["rule"], one["instance_id"]) for one in audited["findings"]}
    wrong = [f"{rule} of {who} made up" for rule, who in sorted(found - known)]
    rules = {rule for rule, _ in found}
    wrong += [f"the canary's {rule} was not found" for rule in sorted({*must_fire} - rules)]
    holes = {o["instance_id"] for o in audited["observations"] if o["code"] in _TRANSPORT}
    wrong += [f"what is missing of {who} is not named" for who in sorted({*damaged} - holes)]
    return wrong


def violations(
    audited: Result,
    replayed: Result,
    must_fire: Collection[str],
    *,
    begins_epochs: bool,
    is_lab: bool,
) -> list[str]:
    """What the disturbance has changed; nothing may be in it.

    Args:
        audited: The result of the audit that was disturbed.
        replayed: That of the journal, whole and undisturbed.
        must_fire: The rules that the canary breaks.
        begins_epochs: Whether other producers have gone on with journals: that is observed.
        is_lab: Whether servers are real: a replica removes relay logs also while no `tail` reads
            them, which that then writes into the journal.
    """
    wrong: list[str] = []
    for name, key in (
        ("finding", _findings),
        ("incident", _incidents),
        ("event of a producer", _of_producers),
    ):
        of_audit, of_replay = key(audited), key(replayed)
        wrong += [f"{name} lost: {one}" for one in sorted(of_replay - of_audit)]
        wrong += [f"{name} made up: {one}" for one in sorted(of_audit - of_replay)]
    ids = [one["finding_id"] for one in audited["findings"]]
    wrong += [f"finding twice: {one}" for one in sorted({i for i in ids if ids.count(i) > 1})]
    rules = {one["rule"] for one in audited["findings"]}
    wrong += [f"the canary's {rule} was not found" for rule in sorted({*must_fire} - rules)]
    wrong += [f"{rule} was found, which nothing breaks" for rule in sorted(rules - {*must_fire})]
    for whose, result in (("the audit", audited), ("the journal", replayed)):
        wrong += [
            f"{whose} has {one['code']} of {one['instance_id'] or 'the topic'}: {one['text']}"
            for one in result["observations"]
            if one["code"] in _TRANSPORT
            and not (begins_epochs and one["reason"] in _OF_EPOCHS)
            and not (is_lab and _is_relay_log_gone(one))
        ]
    return wrong


def _is_relay_log_gone(one: Mapping[str, Any]) -> bool:
    return one["reason"] == RECORDS_LOST.code and one["channel"] is not None


def _findings(result: Result) -> set[tuple[str, str, str]]:
    return {(one["rule"], one["instance_id"], one["finding_id"]) for one in result["findings"]}


def _incidents(result: Result) -> set[tuple[str, str, str]]:
    return {(one["rule"], one["state"], one["incident_id"]) for one in result["incidents"]}


def _of_producers(result: Result) -> set[tuple[str, str, str]]:
    return {
        (one["instance_id"], one["reason"], one["at"])
        for one in result["observations"]
        if one["reason"] in _OF_PRODUCERS
    }
