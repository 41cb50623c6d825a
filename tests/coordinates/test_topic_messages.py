"""docs/findings.schema.json and docs/incidents.schema.json against what is written."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tallystick.coordinates.audit.incidents import Incidents
from tallystick.coordinates.events.incident_control import ControlAction, IncidentControl
from tallystick.coordinates.rules.topic_messages import (
    Message,
    Origin,
    finding_message,
    incident_message,
)
from tests.support.results import finding
from tests.support.rule_cases import all_cases, audited

DOCS = Path(__file__).parents[2] / "docs"
PLAIN = Origin("f", 5)
FULL = Origin("f", 5, "https://p.example/x", {"b": "c1"})


@cache
def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((DOCS / f"{name}.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def checked(name: str, message: Message) -> dict[str, Any]:
    """The document of a message, which has all keys of the schema and no other."""
    document = json.loads(message.value)
    validator(name).validate(document)
    assert set(validator(name).schema["properties"]) == set(document)
    assert (("schema_version", b"1"),) == message.headers
    title = validator(name).schema["title"]
    assert title.endswith("schema_version 1")
    return document


@pytest.mark.parametrize("name", sorted(all_cases()))
def test_every_finding_is_as_the_schema_says(name: str) -> None:
    """Of each rule and case that is known to a test, and each change that they make."""
    found = audited(name, breaks=True).findings
    for one in found:
        message = finding_message(one, PLAIN)
        assert one.finding_id.encode() == message.key
        checked("findings", message)
    for change in Incidents().absorb(found):
        message = incident_message(change, PLAIN)
        assert change.incident.incident_id.encode() == message.key
        document = checked("incidents", message)
        inner = validator("incidents").schema["properties"]["incident"]["properties"]
        assert set(inner) == set(document["incident"])
        assert set(inner["finding"]["properties"]) == set(document["incident"]["finding"])


def test_fleet_cluster_time_and_link() -> None:
    """What is not known is null."""
    known, unknown = finding(instance_id="b"), finding(instance_id="\ud800")
    document = checked("findings", finding_message(known, FULL))
    link = f"https://p.example/x#finding-{known.finding_id}"
    assert ("f", "c1", "1970-01-01T00:00:00.000005Z", link) == tuple(
        document[key] for key in ("fleet", "cluster", "detected_at", "link")
    )
    document = checked("findings", finding_message(unknown, PLAIN))
    assert (None, None) == (document["cluster"], document["link"])
    incidents = Incidents()
    (opened,) = incidents.absorb([known])
    name = opened.incident.incident_id
    asked = IncidentControl(ControlAction.ACK, name, "dba", "known", 5, 9)
    (change,) = incidents.absorb(controls=[asked])
    document = checked("incidents", incident_message(change, FULL))
    assert document["incident"]["acknowledgement"]["until_ts"] == 9
    assert document["link"].endswith(f"#incident-{name}")
