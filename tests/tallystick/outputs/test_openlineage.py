"""OpenLineage: what the specification asks of events and of the facet of assertions."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from reports import broken, healthy, hostile, observation, result

from tallystick.coordinates.results import Verdict
from tallystick.errors import MisuseError
from tallystick.outputs.openlineage import ASSERTIONS, events_of, write

URI = ("https://openlineage.io/spec/", "urn:tallystick:")


@pytest.mark.parametrize("build", [healthy, broken, hostile, result])
def test_events_are_as_the_specification_asks(build):
    """One START, one COMPLETE, of one run and job; every facet with producer and schema."""
    made = build()
    started, completed = json.loads(json.dumps(events_of(made)))
    assert ("START", "COMPLETE") == (started["eventType"], completed["eventType"])
    assert started["run"]["runId"] == completed["run"]["runId"]
    uuid.UUID(started["run"]["runId"])
    assert started["job"] == completed["job"] == {
        "namespace": "tallystick", "name": f"tallystick.{made.command}",
    }  # fmt: skip
    for event in (started, completed):
        datetime.strptime(event["eventTime"], "%Y-%m-%dT%H:%M:%S.%fZ")  # noqa: DTZ007
        assert event["producer"].startswith(URI)
        assert event["schemaURL"].endswith("#/$defs/RunEvent")
    facets = [*completed["run"]["facets"].values()]
    for dataset in completed["inputs"]:
        assert dataset["namespace"]
        assert dataset["name"]
        facets += dataset["inputFacets"].values()
    for facet in facets:
        assert facet["_producer"].startswith(URI)
        assert facet["_schemaURL"].startswith(URI)


def test_an_assertion_is_what_was_decided():
    """Held and broken rules of each instance; what is undecided is no assertion."""
    made = broken()
    *_, completed = events_of(made)
    by_name = {
        one["name"]: one["inputFacets"]["dataQualityAssertions"] for one in completed["inputs"]
    }
    assert set(made.rule_results) == set(by_name)
    for name, found in made.rule_results.items():
        assert ASSERTIONS == by_name[name]["_schemaURL"]
        decided = [one for one in found if one.verdict is not Verdict.UNDECIDED]
        assert [(one.rule, one.verdict is Verdict.CONSISTENT) for one in decided] == [
            (one["assertion"], one["success"]) for one in by_name[name]["assertions"]
        ]
    failed = [a for one in by_name.values() for a in one["assertions"] if not a["success"]]
    assert failed
    assert all(one["actual"] and one["expected"] and one["description"] for one in failed)
    assert {
        "executed_within_logged": "error",
        "relay_position_on_written_boundary": "error",
        "gtid_text_canonical": "warn",
    } == {one["assertion"]: one["severity"] for one in failed}


def test_an_undecided_run_says_why():
    """In the facet of the run: a reader of assertions alone sees no failure there."""
    from dataclasses import replace

    gap = observation(is_undecided=True, reason="4 blocks are missing.")
    *_, completed = events_of(replace(healthy(), observations=(gap,)))
    facet = completed["run"]["facets"]["tallystick"]
    assert ("UNDECIDED", ["source-1: 4 blocks are missing."]) == (
        facet["verdict"], facet["undecided"],
    )  # fmt: skip


def test_events_go_to_a_file_or_a_url(tmp_path, monkeypatch):
    """With the bearer token of the environment; what is not taken is misuse."""
    write(broken(), str(tmp_path / "events"))
    lines = (tmp_path / "events").read_text().splitlines()
    assert ["START", "COMPLETE"] == [json.loads(line)["eventType"] for line in lines]
    got, status = [], [200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, self.headers["Authorization"], json.loads(body)["eventType"]))
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "k3y")
    url = f"http://127.0.0.1:{server.server_port}"
    write(healthy(), url)
    write(healthy(), f"{url}/other")
    assert [
        ("/api/v1/lineage", "Bearer k3y", "START"), ("/api/v1/lineage", "Bearer k3y", "COMPLETE"),
        ("/other", "Bearer k3y", "START"), ("/other", "Bearer k3y", "COMPLETE"),
    ] == got  # fmt: skip
    status[0] = 500
    with pytest.raises(MisuseError, match="not taken: status 500"):
        write(healthy(), url)
    server.shutdown()
    server.server_close()
