"""JUnit XML: what each rule says of each instance, in a form that CI reads and nothing breaks."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from cuts import collection_cuts, instance_cut
from reports import NOW, broken, finding, healthy, observation, result

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import ObservationCode, Verdict
from tallystick.outputs.junit import _render
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.runs.replay import result_of_audit
from tallystick.runs.result import RunResult, ServerSummary
from tests.support.results import checks

HOSTILE = "a<b>&\"'\x00\x1b[31m\n\r\t\x85\ud800\ufffe\uffff\u2028\u202e\U0001f600]]>"
COUNTS = ("tests", "failures", "errors", "skipped")


def parsed(made: RunResult) -> ET.Element:
    return ET.fromstring(_render(made).encode())  # noqa: S314  a document of our own


def suites(root: ET.Element) -> dict[str, ET.Element]:
    return {suite.get("name"): suite for suite in root}


def cases(suite: ET.Element) -> dict[str, ET.Element]:
    return {case.get("name"): case for case in suite.iter("testcase")}


def rows(**more) -> list:
    """A collection of a source and its replica; the replica's row with other checks."""
    source, replica, channel = collection_cuts(1)
    return [source, replace(replica, **more), channel]


def test_each_rule_is_a_case_of_its_instance():
    """Held passes, broken fails with both sides, undecided is skipped with its reason."""
    found = finding(
        instance_id="replica-1", rule="lsn_order", case="unknown", at="here", witness="w"
    )
    kept = checks(held="executed_monotone", undecided="lsn_monotone: not read")
    root = parsed(result(rows(checks=kept), found=[found]))
    assert ["run", "replica-1", "source-1"] == list(suites(root))
    replica = suites(root)["replica-1"]
    assert ("1", "0") == (replica.get("failures"), replica.get("errors"))
    assert "2026-01-01T00:10:00+00:00" == replica.get("timestamp")
    for key in COUNTS:
        assert int(root.get(key)) == sum(int(suite.get(key)) for suite in root)
    assert len(cases(replica)["executed_monotone"]) == 0
    failure = cases(replica)["lsn_order"].find("failure")
    assert "lsn_order is broken: unknown." in failure.get("message")
    assert "critical" == failure.get("type")
    assert "witness: w" in failure.text.split("\n")
    skipped = cases(replica)["lsn_monotone"].find("skipped")
    assert "undecided: not read" == skipped.get("message")


def test_a_rule_that_leaves_the_run_undecided_is_an_error():
    """Beside the run's own; one that no verdict needs is skipped in the same run."""
    kept = checks(undecided="lsn_monotone: not read")
    root = parsed(result(rows(checks=kept, verdict="UNDECIDED")))
    error = cases(suites(root)["replica-1"])["lsn_monotone"].find("error")
    assert ("UNDECIDED", "undecided: not read") == (error.get("type"), error.get("message"))
    assert "2" == root.get("errors")


@pytest.mark.parametrize(
    "scenario",
    [
        *(Scenario(seed=seed, topology="pair") for seed in range(3)),
        Scenario(seed=3, fault="errant_write"),
        Scenario(seed=3, fault="gtid_logged_twice"),
        Scenario(seed=5, negatives=("binlog_off",)),
        Scenario(seed=5, negatives=("refused_collection",)),
    ],
    ids=lambda one: f"{one.seed}-{one.fault}-{one.negatives}",
)
def test_a_document_is_green_only_for_a_consistent_run(scenario):
    """Whoever looks at failures and errors alone sees the verdict."""
    audit = audit_history(simulate(scenario).blocks(512))
    made = result_of_audit(audit, command="replay", title="t", begun_at=NOW)
    for fail_on, verdict in (("ever", made.verdict), ("now", made.verdict_now)):
        root = parsed(replace(made, fail_on=fail_on))
        seen = int(root.get("failures")) > 0, int(root.get("errors")) > 0
        is_broken = verdict is Verdict.INCONSISTENT
        assert seen[0] is is_broken
        assert is_broken or seen[1] is (verdict is Verdict.UNDECIDED)


def test_a_consistent_run_has_no_error():
    """A rule that cannot be decided on every fleet leaves the verdict, and the document, alone."""
    root = parsed(result(rows(checks=checks(undecided="lsn_monotone: not read"))))
    assert ("0", "0") == (root.get("failures"), root.get("errors"))
    assert int(root.get("skipped")) >= 1


@pytest.mark.parametrize(
    ("undecided", "reason"),
    [
        (result(), "nothing was collected"),
        (
            replace(healthy(), observations=(observation(is_undecided=True, reason="4 lost."),)),
            "source-1: 4 lost.",
        ),
        (
            replace(
                healthy(),
                observations=(
                    observation(
                        code=ObservationCode.COMPARISON_UNDECIDED,
                        instance_id="",
                        is_undecided=True,
                        reason="not read to its end",
                    ),
                ),
            ),
            "not read to its end",
        ),
        (result([instance_cut(1, verdict="UNDECIDED")]), "source-1"),
    ],
)
def test_an_undecided_run_is_an_error_with_its_reason(undecided, reason):
    """Whatever made it undecided: CI must not take it for one that is well."""
    root = parsed(undecided)
    assert int(root.get("errors")) > 0
    error = cases(suites(root)["run"])["decided"].find("error")
    assert reason in error.get("message")


def test_an_instance_without_a_row_is_an_error():
    """Also where other instances are broken; a server that gave none has its own words."""
    cuts = [*broken().cuts, instance_cut(31, "r", answer="refused", error_text="denied")]
    away = ServerSummary(
        version="", address="db:3306", account="", problem="server 'a' (db:3306): refused",
        rows=0, binlog_events=0, relay_events=0, unread={"binary log": "denied"}, grants=(),
    )  # fmt: skip
    root = parsed(replace(broken(), cuts=cuts, servers={"a": away}))
    for name, message in (("r", "c-000031: denied"), ("a", "server 'a' (db:3306): refused")):
        error = cases(suites(root)[name])["collection"].find("error")
        assert message == error.get("message")
    unread = cases(suites(root)["a"])["collection"].findtext("system-out")
    assert "not read: binary log: denied" == unread


@pytest.mark.parametrize("position", ["name", "reason", "finding", "error", "note"])
def test_nothing_from_a_server_breaks_the_document(position):
    """Markup is escaped, and what XML cannot hold is made visible, wherever it is."""
    hostile = finding(
        instance_id="replica-1", case=HOSTILE, data={HOSTILE: HOSTILE}, witness=HOSTILE,
        channel=HOSTILE,
    )  # fmt: skip
    made = {
        "name": result([instance_cut(1, HOSTILE)]),
        "reason": result(rows(checks=checks(undecided=f"lsn_order: {HOSTILE}"))),
        "finding": result(rows(), found=[hostile]),
        "error": result([instance_cut(1, answer="failed", error_text=HOSTILE)]),
        "note": result(rows(), observations=[observation(reason=HOSTILE)]),
    }[position]
    text = _render(made)
    root = ET.fromstring(text.encode())  # noqa: S314  a document of our own
    shown = " ".join(
        " ".join([*element.attrib.values(), element.text or ""]) for element in root.iter()
    )
    assert "a<b>&\"'" in shown
    assert r"\x00\x1b[31m\n\r\t\x85\ud800" in shown
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("fault", "is_over"), [("errant_write", True), ("gtid_logged_twice", False)]
)
def test_what_is_over_is_no_failure_where_the_status_is_of_now(fault, is_over):
    """The document agrees with the exit status, of the period or of now."""
    scenario = Scenario(seed=5, topology="pair", fault=fault)
    history = simulate(scenario, is_cured=is_over)
    audit = audit_history(history.blocks(512))
    made = result_of_audit(audit, command="replay", title="t", begun_at=NOW)
    ever, now = (parsed(replace(made, fail_on=which)) for which in ("ever", "now"))
    assert int(ever.get("failures")) > 0
    assert (int(now.get("failures")) == 0) is is_over
    assert int(ever.get("tests")) == int(now.get("tests"))
    assert (made.verdict_now is Verdict.INCONSISTENT) is not is_over
