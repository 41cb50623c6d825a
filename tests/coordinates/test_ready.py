"""May it be backed up, cloned, promoted now: yes only with all evidence, on simulated fleets."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tallystick.coordinates.answers.diff import ERRANT_RULE
from tallystick.coordinates.answers.evidence import Evidence
from tallystick.coordinates.answers.newest import newest_of
from tallystick.coordinates.answers.purpose import Purpose
from tallystick.coordinates.answers.ready import (
    NEEDS,
    STORED_RULE,
    Answer,
    Readiness,
    ready,
    ready_document,
)
from tallystick.coordinates.audit.collection_checks import checks_of_history
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Check, IncidentState, Outcome
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.explanation import check_text
from tallystick.coordinates.rules.identity import instances_of
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario

PAGE = (Path(__file__).parents[2] / "docs" / "answers.md").read_text("utf-8")
HEALTHY = (
    Scenario(seed=1, topology="pair"),
    Scenario(seed=2, topology="star"),
    Scenario(seed=4, topology="chain"),
    Scenario(seed=6, topology="multi_source"),
    Scenario(seed=8, topology="demo"),
)
FAULTS = (
    "errant_write", "source_purged_too_early", "relay_group_lost_from_stream", "applier_fails",
    "applied_gtid_missing", "commit_lag_excess", "relay_info_torn", "purged_outside_executed",
)  # fmt: skip
HOUR_US = 3_600_000_000
B_UUID = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"


@functools.lru_cache(maxsize=2)
def collected(scenario: Scenario) -> list[Evidence]:
    """The evidence as of each collection, the oldest first: what a job then had in its tables."""
    history = simulate(scenario)
    audit = audit_history(history.blocks(4096), goes_on=True)
    checks = checks_of_history(
        audit.cuts, audit.findings, audit.observations, audit.checks, audit.disabled
    )
    made = []
    for name in dict.fromkeys(cut.collection_id for cut in audit.cuts):
        now_us = max(cut.ts for cut in audit.cuts if cut.collection_id == name)
        incidents = [
            replace(one, state=IncidentState.OPEN)
            if one.closed_ts is None or one.closed_ts > now_us
            else one
            for one in audit.incidents
            if one.opened_ts <= now_us
        ]
        errant = [one for one in checks if one.check.rule == ERRANT_RULE and one.ts <= now_us]
        made.append(Evidence(
            kind="job", source="x", now_us=now_us, incidents=incidents,
            instances=newest_of([cut for cut in audit.cuts if cut.ts <= now_us], {}),
            checks={(one.instance_id, ERRANT_RULE): one for one in sorted(
                errant, key=lambda one: one.ts)},
        ))  # fmt: skip
    return made


def reasons(found: Readiness) -> dict[str, str]:
    """The sentences of checks that do not say yes."""
    return {one.name: one.sentence for one in found.checks if one.answer is not Answer.YES}


def healthy() -> Evidence:
    """A star at rest, of which everything is known."""
    return collected(HEALTHY[1])[-1]


def on(evidence: Evidence, name: str, row: dict | None = None, **channel: object) -> Evidence:
    """The evidence with other values in an instance's row, or in the rows of its channels."""
    one = evidence.instances[name]
    changed = replace(
        one, row=replace(one.row, **(row or {})),
        channels=[replace(cut, **channel) for cut in one.channels],
    )  # fmt: skip
    return replace(evidence, instances={**evidence.instances, name: changed})


@pytest.mark.parametrize("scenario", HEALTHY, ids=lambda s: s.topology)
def test_a_healthy_fleet_at_rest_is_ready(scenario):
    """Every instance can be copied, every replica promoted; a source is no replica."""
    evidence = collected(scenario)[-1]
    for name, one in evidence.instances.items():
        for purpose in Purpose:
            found = ready(purpose, name, evidence)
            is_replica = bool(one.channels) or purpose is not Purpose.FAILOVER
            assert found.answer is (Answer.YES if is_replica else Answer.NO), reasons(found)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_instance_is_never_ready(fault):
    """At no collection at which an incident of it is open, and with the rule in the reason."""
    judged = 0
    for evidence in collected(Scenario(seed=3, topology="pair", fault=fault)):
        for incident in evidence.incidents:
            if incident.state is not IncidentState.OPEN:
                continue
            for name in instances_of(incident.finding) & evidence.instances.keys():
                for purpose in Purpose:
                    found = ready(purpose, name, evidence)
                    assert found.answer is not Answer.YES
                    assert incident.rule in reasons(found)["no_open_incident"]
                    judged += 1
    assert judged


@pytest.mark.parametrize("topology", ["pair", "chain"])
def test_an_errant_write_is_never_overlooked_before_it_is_found(topology):
    """Its row has it: whatever has been judged until then, no purpose says yes."""
    judged = 0
    for evidence in collected(Scenario(seed=5, topology=topology, fault="errant_write")):
        uuids = {one.server_uuid: n for n, one in evidence.instances.items() if one.channels}
        for name, one in evidence.instances.items():
            own = [uuid for uuid in uuids if one.executed.restrict(uuid)]
            for purpose in Purpose if own else ():
                unknown = replace(evidence, incidents=())
                assert ready(purpose, name, evidence).answer is not Answer.YES
                assert ready(purpose, name, unknown).answer is not Answer.YES
                judged += 1
    assert judged


def test_what_a_source_of_it_wrote_errantly_is_errant_on_it_too():
    """Compared with that source it is none; the sources of the source do not have it."""
    evidence = collected(HEALTHY[2])[-1]
    [first, second] = [n for n, one in evidence.instances.items() if one.channels]
    if evidence.sources_of(first) == [second]:
        first, second = second, first
    gtid = f"{evidence.instances[first].server_uuid}:1"
    for name in (first, second):
        executed = f"{evidence.instances[name].row.gtid_executed},{gtid}"
        evidence = on(evidence, name, {"gtid_executed": executed})
    evidence = on(evidence, second, retrieved_gtid_set=gtid)
    found = ready(Purpose.BACKUP, second, evidence)
    assert found.answer is Answer.UNDECIDED
    assert (
        f"of {first}, which it replicates from: where {gtid} came from"
        in (reasons(found)["no_errant_gtids"])
    )


def test_of_an_instance_without_a_row_nothing_is_known():
    """Each check says so, and it has no age."""
    evidence = healthy()
    gone = replace(evidence.instances["replica-a1"], row=None, channels=(), problem="is silent")
    evidence = replace(evidence, instances={**evidence.instances, "replica-a1": gone})
    for purpose in Purpose:
        found = ready(purpose, "replica-a1", evidence)
        assert {one.answer for one in found.checks} == {Answer.UNDECIDED}
        assert reasons(found)["evidence"] == "no row of replica-a1 is known: is silent"
        if purpose is Purpose.FAILOVER:
            assert reasons(found)["nothing_filtered"] == "no row of it is known"
        document = ready_document(found, evidence)
        assert document["age_s"] is None
        assert document["evidence"]["instances"]["replica-a1"] == {
            "evidence_us": None, "age_s": None, "problem": "is silent",
        }  # fmt: skip


@pytest.mark.parametrize(
    "source_row", [{"gtid_executed": None}, {"verdict": "UNDECIDED"}, {"reason": "not_reached"}]
)
def test_a_source_of_which_nothing_counts_explains_nothing(source_row):
    """Though its sources executed it, if it could be read: it may be errant on the replica."""
    evidence, gtid = healthy(), f"{B_UUID}:1"
    for name in ("source-a", "replica-a1"):
        executed = f"{evidence.instances[name].row.gtid_executed},{gtid}"
        evidence = on(evidence, name, {"gtid_executed": executed})
    assert "no_errant_gtids" not in reasons(ready(Purpose.CLONE, "replica-a1", evidence))
    why = reasons(ready(Purpose.CLONE, "replica-a1", on(evidence, "source-a", source_row)))
    assert why["no_errant_gtids"].startswith("where ")
    assert gtid in why["no_errant_gtids"]


def test_in_a_ring_a_replica_is_no_source_of_its_own():
    """What it alone has executed is explained by nobody, whatever was judged earlier."""
    evidence = healthy()
    source, replica = (evidence.instances[name] for name in ("source-a", "replica-a1"))
    back = replace(
        replica.channels[0], instance_id="source-a", source_uuid=replica.server_uuid,
        retrieved_gtid_set="",
    )  # fmt: skip
    ring = {**evidence.instances, "source-a": replace(source, channels=[back])}
    key = ("source-a", ERRANT_RULE)
    checks = {**evidence.checks, key: evidence.checks["replica-a1", ERRANT_RULE]}
    evidence = replace(evidence, instances=ring, checks=checks)
    for name in ("source-a", "replica-a1"):
        assert name in evidence.upstreams_of(name)
        assert ready(Purpose.CLONE, name, evidence).answer is Answer.YES
    gtid = f"{replica.server_uuid}:1"
    evidence = on(evidence, "replica-a1", {"gtid_executed": f"{replica.row.gtid_executed},{gtid}"})
    why = reasons(ready(Purpose.CLONE, "replica-a1", evidence))["no_errant_gtids"]
    assert why.startswith(f"where {gtid} came from is not known")


def test_errant_and_acknowledged_is_errant():
    """Somebody knows of it, and a copy hands it on all the same."""
    evidence = collected(Scenario(seed=1, topology="pair", fault="errant_write"))[-1]
    [incident] = [one for one in evidence.incidents if one.rule == ERRANT_RULE]
    known = replace(evidence, incidents=[replace(incident, state=IncidentState.ACKNOWLEDGED)])
    found = ready(Purpose.CLONE, incident.instance_id, known)
    assert found.answer is Answer.NO
    assert set(reasons(found)) == {"no_errant_gtids"}


LACKING = [
    ("gtid_executed", {"row": {"gtid_executed": None}}, {
        "no_errant_gtids", "source_logs_there", "received_applied", "nothing_missing"}),
    ("unreadable", {"row": {"gtid_executed": "nonsense"}}, {"no_errant_gtids"}),
    ("gtid_purged", {"row": {"gtid_purged": None}}, {"replicas_logs_there"}),
    ("commit_lag", {"row": {"commit_lag": None}}, {"row_not_torn"}),
    ("verdict", {"row": {"verdict": "UNDECIDED"}}, {"evidence"}),
    ("reason", {"row": {"reason": "not_reached"}}, {"evidence"}),
    ("retrieved", {"retrieved_gtid_set": None}, {"received_applied"}),
    ("source", {"source_uuid": None}, {"source_logs_there", "nothing_missing"}),
    ("receiver", {"receiver": None}, {"threads_running"}),
    ("connection", {"receiver": "connecting"}, {"threads_running"}),
    ("applier", {"applier": None}, {"threads_running"}),
    ("auto_position", {"auto_position": None, "checks": ()}, {
        "no_errant_gtids", "info_crash_safe", "source_logs_there", "received_applied",
        "nothing_missing"}),
    ("position", {"auto_position": False, "checks": ()}, {"no_errant_gtids", "info_crash_safe"}),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "doubted"), [one[1:] for one in LACKING],
                         ids=[one[0] for one in LACKING])  # fmt: skip
def test_what_was_not_read_is_undecided(changes, doubted):
    """Each check that needs it says so, and no purpose that needs such a check says yes."""
    changes = dict(changes)
    evidence = on(healthy(), "replica-a1", changes.pop("row", None), **changes)
    for purpose in Purpose:
        found = ready(purpose, "replica-a1", evidence)
        wanted = {name for name in doubted if purpose in NEEDS[name].purposes}
        answers = {one.name: one.answer for one in found.checks}
        assert {answers[name] for name in wanted} <= {Answer.UNDECIDED}
        assert found.answer is (Answer.UNDECIDED if wanted else found.answer)
        assert not (wanted and found.answer is Answer.YES)


DEFAULT = "channel (default)"
MOMENT = "2023-11-14 22:13:36 UTC"
UNSEEN = (
    "channel (default) does not ask by GTID set, and that it stores its positions with each commit"
    " was not seen"
)
BY_POSITION = (
    "channel (default) does not ask by GTID set (SOURCE_AUTO_POSITION): sets need not show all"
    " transactions"
)
HAS_ALL = f"it has all, as of source-a, mysql-bin.000002:3990 at {MOMENT}"
NOT_READ = Check("lsn_order", Outcome.UNDECIDED, "no_lsn")
HELD = Check(
    "zone_steps_complete", Outcome.UNDECIDED, "held_long", {"what": "the lock", "held": 10_000_001}
)
HALF = Check(
    "replay_continues_image", Outcome.UNDECIDED, "not_ended", {"what": "the replay of the log of s"}
)
SENTENCES = [
    ("source-a", {}, {
        "evidence": (Answer.YES, f"its row of {MOMENT} was judged"),
        "data_whole": (
            Answer.YES, "no clone into it and no recovery of it goes on, or has failed"),
        "no_open_incident": (Answer.YES, "none is open"),
        "no_errant_gtids": (Answer.YES, "it replicates from nobody"),
        "row_not_torn": (Answer.YES, "position and gtid_executed of its row are one state"),
        "info_crash_safe": (Answer.YES, "it has no channel"),
        "source_logs_there": (Answer.YES, "it replicates from nobody"),
        "threads_running": (
            Answer.NO, "it replicates from nobody: it is no replica that could be promoted"),
        "received_applied": (Answer.YES, "it has no channel"),
        "nothing_missing": (Answer.NO, "it replicates from nobody"),
        "replicas_logs_there": (
            Answer.YES, "it has purged nothing that replica-a1, replica-a2, replica-a3 lack"),
    }),
    ("replica-a1", {}, {
        "no_errant_gtids": (Answer.YES,
            "its sources have executed, or its channels received, all that it executed"),
        "info_crash_safe": (Answer.YES,
            "each channel asks by GTID set, or stores its positions with each commit"),
        "source_logs_there": (
            Answer.YES, "its sources have in their binary logs all that it lacks"),
        "threads_running": (Answer.YES, "receiver and applier of each channel run"),
        "has_binlog": (Answer.YES, "it writes mysql-bin.000001"),
        "nothing_filtered": (
            Answer.YES, "no channel of it, or of its sources, leaves changes out"),
        "received_applied": (Answer.YES, "all that its channels have received is executed"),
        "nothing_missing": (Answer.YES, HAS_ALL),
        "replicas_logs_there": (
            Answer.YES, "it has purged nothing that replica-a2, replica-a3, source-a lack"),
    }),
    ("replica-a1", {"auto_position": False, "checks": ()}, {
        "no_errant_gtids": (Answer.UNDECIDED, BY_POSITION),
        "info_crash_safe": (Answer.UNDECIDED, UNSEEN),
        "source_logs_there": (Answer.UNDECIDED, BY_POSITION),
        "received_applied": (Answer.UNDECIDED, BY_POSITION),
        "nothing_missing": (Answer.UNDECIDED, BY_POSITION),
    }),
    ("replica-a1", {"auto_position": None}, {
        "no_errant_gtids": (
            Answer.UNDECIDED, "whether channel (default) asks by GTID set was not read"),
        "info_crash_safe": (Answer.YES,
            "each channel asks by GTID set, or stores its positions with each commit"),
    }),
    ("replica-a1", {"auto_position": False}, {
        "info_crash_safe": (Answer.YES,
            "each channel asks by GTID set, or stores its positions with each commit"),
    }),
    ("replica-a1", {"auto_position": True, "checks": ()}, {
        "info_crash_safe": (Answer.YES,
            "each channel asks by GTID set, or stores its positions with each commit"),
    }),
    ("replica-a1", {"auto_position": False, "checks": (Check(STORED_RULE, Outcome.UNDECIDED),)}, {
        "info_crash_safe": (Answer.UNDECIDED, UNSEEN),
    }),
    ("replica-a1", {"checks": (Check(STORED_RULE, Outcome.BROKEN),)}, {
        "info_crash_safe": (Answer.NO, f"channel (default) breaks {STORED_RULE}"),
        "no_open_incident": (Answer.NO, f"its row breaks {STORED_RULE}"),
    }),
    ("replica-a1", {"receiver": "connecting", "applier": None}, {
        "threads_running": (Answer.UNDECIDED,
            f"the receiver of {DEFAULT} has no connection, the applier of {DEFAULT} was not read"),
    }),
    ("replica-a1", {"row": {"binary_log_file": None, "binary_log_position": None}}, {
        "has_binlog": (Answer.NO, "its row names no binary log: no replica could follow it"),
    }),
    ("replica-a1", {"filtered": True}, {
        "nothing_filtered": (Answer.NO, f"{DEFAULT} leaves changes out, or has done so"),
    }),
    ("replica-a1", {"filtered": None}, {
        "nothing_filtered": (
            Answer.UNDECIDED, f"whether {DEFAULT} leaves changes out was not read"),
    }),
    ("replica-a1", {"row": {"commit_lag": 1_234}}, {
        "row_not_torn": (Answer.NO,
            "its position is ahead of gtid_executed by 1,234 GTIDs: commits are under way"),
    }),
    ("replica-a1", {"row": {"verdict": "UNDECIDED", "checks": ()}}, {
        "evidence": (Answer.UNDECIDED, "the row of replica-a1 could not be judged"),
    }),
    ("replica-a1", {"row": {"verdict": "UNDECIDED", "checks": (NOT_READ,)}}, {
        "evidence": (
            Answer.UNDECIDED, f"the row of replica-a1 could not be judged: {check_text(NOT_READ)}"),
    }),
    ("replica-a1", {"row": {"verdict": "UNDECIDED", "checks": (NOT_READ, HELD)}}, {
        "evidence": (
            Answer.UNDECIDED, f"the row of replica-a1 could not be judged: {check_text(HELD)}"),
    }),
    ("replica-a1", {"row": {"checks": (NOT_READ, HALF)}}, {
        "evidence": (Answer.YES, f"its row of {MOMENT} was judged"),
        "data_whole": (Answer.UNDECIDED, check_text(HALF)),
    }),
    ("replica-a1", {"row": {"reason": "not_reached", "checks": ()}}, {
        "evidence": (Answer.UNDECIDED, "the row of replica-a1 could not be judged (not_reached)"),
    }),
    ("replica-a1", {"source_uuid": None}, {
        "source_logs_there": (
            Answer.UNDECIDED, "the source of channel (default) is not known"),
        "nothing_missing": (Answer.UNDECIDED, "the source of channel (default) is not known"),
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "expected"), SENTENCES)
def test_an_answer_says_why(name, changes, expected):
    """A source, a replica, and a replica of whose row something is otherwise."""
    changes = dict(changes)
    evidence = on(healthy(), name, changes.pop("row", None), **changes)
    made = {
        one.name: (one.answer, one.sentence)
        for purpose in Purpose
        for one in ready(purpose, name, evidence).checks
    }
    assert expected == {check: made[check] for check in expected}


@pytest.mark.parametrize("uuid", ["of its source", "its own", "not known"])
@pytest.mark.parametrize(("filtered", "answer"), [(True, Answer.NO), (None, Answer.UNDECIDED)])
def test_what_a_source_of_it_left_out_it_lacks_too(filtered, answer, uuid):
    """Not what the source leaves out of what comes from the one that is asked, as in a ring."""
    evidence = collected(HEALTHY[2])[-1]
    [first, second] = [n for n, one in evidence.instances.items() if one.channels]
    if evidence.sources_of(first) == [second]:
        first, second = second, first
    changes = {"filtered": filtered}
    if uuid == "not known":
        evidence = on(evidence, second, {"server_uuid": None})
    if uuid != "of its source":
        changes["source_uuid"] = evidence.instances[second].server_uuid
    evidence, is_ring = on(evidence, first, **changes), uuid == "its own"
    for own in (False, None):
        found = ready(Purpose.FAILOVER, second, on(evidence, second, filtered=own))
        [one] = [one for one in found.checks if one.name == "nothing_filtered"]
        unread = Answer.YES if own is False else Answer.UNDECIDED
        assert one.answer is (unread if is_ring else answer)
        assert (f" of {first}, which it replicates from," in one.sentence) is not is_ring
        own_doubt = f"whether {DEFAULT} leaves changes out was not read"
        assert one.sentence.count(own_doubt) == (unread is one.answer is Answer.UNDECIDED)


@pytest.mark.parametrize("other", ["source-a", "replica-a2"])
@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("silent", "has not answered"),
        ("old", "the row of {} is 3,600 s old, at most 120 s count"),
        ("gone", "what {} has executed is not known"),
        ("ahead", "the row of {} is of a time that comes in 3,600 s by the clock of this machine"),
        ("not judged", "the row of {} could not be judged"),
    ],
)
def test_evidence_of_others_counts_only_while_it_is_the_newest(other, kind, why):
    """A source or another replica that does not answer, is not there, or has another clock."""
    evidence = healthy()
    one = evidence.instances[other]
    changed = {
        "silent": lambda: replace(one, problem="has not answered"),
        "old": lambda: replace(one, since_us=one.since_us - HOUR_US),
        "ahead": lambda: replace(one, since_us=one.since_us + HOUR_US),
        "gone": lambda: replace(one, row=None, channels=(), problem="has never answered"),
        "not judged": lambda: replace(one, row=replace(one.row, verdict="UNDECIDED")),
    }[kind]()
    evidence = replace(evidence, instances={**evidence.instances, other: changed})
    found = ready(Purpose.FAILOVER, "replica-a1", evidence)
    assert found.answer is Answer.UNDECIDED, reasons(found)
    assert reasons(found)["replicas_logs_there"] == why.format(other)


@pytest.mark.parametrize("purpose", Purpose)
def test_its_own_evidence_past_its_limit_decides_nothing(purpose):
    """Nor with a limit that is no number; what is broken then is shown, and is not the answer."""
    evidence = healthy()
    one = evidence.instances["replica-a1"]
    age_s = evidence.age_s(one.since_us)
    assert ready(purpose, "replica-a1", evidence, age_s + 1).answer is Answer.YES
    later = replace(evidence, now_us=evidence.now_us + HOUR_US)
    for limit in (3599.0, math.nan, -1.0):
        found = ready(purpose, "replica-a1", later, limit)
        assert found.answer is Answer.UNDECIDED
        assert "evidence" in reasons(found)
    assert ready(purpose, "replica-a1", later, 3700.0).answer is Answer.YES
    unanswered = replace(one, problem="has not answered")
    silent = replace(evidence, instances={**evidence.instances, "replica-a1": unanswered})
    silent = on(silent, "replica-a1", applier="stopped")
    assert ready(purpose, "replica-a1", silent).answer is Answer.UNDECIDED


@pytest.mark.parametrize(
    ("purpose", "changes", "check"),
    [
        (Purpose.FAILOVER, {"applier": "stopped"}, "threads_running"),
        (Purpose.FAILOVER, {"receiver": "stopped"}, "threads_running"),
        (Purpose.BACKUP, {"row": {"commit_lag": 2}}, "row_not_torn"),
        (Purpose.CLONE, {"checks": (Check(STORED_RULE, Outcome.BROKEN),)}, "info_crash_safe"),
    ],
)
def test_what_is_seen_to_be_wrong_is_no(purpose, changes, check):
    """A boundary each; other purposes do not ask."""
    changes = dict(changes)
    evidence = on(healthy(), "replica-a1", changes.pop("row", None), **changes)
    found = ready(purpose, "replica-a1", evidence)
    assert found.answer is Answer.NO
    assert check in reasons(found)


def test_what_it_lacks_and_what_was_purged_is_no():
    """Of its source, by what is logged there; of what its source and other replicas need."""
    evidence = healthy()
    source = evidence.instances["source-a"]
    uuid = source.server_uuid
    more = f"{source.row.gtid_executed},{uuid}:900"
    for column in ("gtid_executed", "journal_gtid_set"):
        ahead = on(evidence, "source-a", {column: more})
        found = ready(Purpose.FAILOVER, "replica-a1", ahead)
        assert found.answer is Answer.NO
        assert f"it lacks {uuid}:900" in reasons(found)["nothing_missing"]
        assert source.row.binary_log_file in reasons(found)["nothing_missing"]
    received = on(evidence, "replica-a1", retrieved_gtid_set=f"{uuid}:900")
    found = ready(Purpose.FAILOVER, "replica-a1", received)
    assert f"received {uuid}:900" in reasons(found)["received_applied"]
    purged = on(evidence, "source-a", {"gtid_purged": f"{uuid}:900"})
    for purpose in (Purpose.BACKUP, Purpose.CLONE):
        found = ready(purpose, "replica-a1", purged)
        assert "source-a has purged" in reasons(found)["source_logs_there"]
    executed = evidence.instances["replica-a2"].executed
    lagging = on(evidence, "replica-a2", {"gtid_executed": str(executed - executed.first(1))})
    lagging = on(lagging, "replica-a1", {"gtid_purged": str(executed.first(2))})
    found = ready(Purpose.FAILOVER, "replica-a1", lagging)
    assert reasons(found)["replicas_logs_there"] == (
        f"it has purged {executed.first(1)}, which replica-a2 lacks"
    )


def test_a_server_whose_groups_nobody_needs_has_purged_nothing_that_they_lack():
    """The sentence names whoever was asked, or says that there is nobody."""
    evidence = healthy()
    replicas = ("replica-a1", "replica-a2", "replica-a3")
    for count, whom in enumerate(("anybody lacks", "{} lacks", "{}, {} lack", "{}, {}, {} lack")):
        names = ("source-a", *replicas[:count])
        among = replace(evidence, instances={name: evidence.instances[name] for name in names})
        found = ready(Purpose.FAILOVER, "source-a", among)
        [check] = [one for one in found.checks if one.name == "replicas_logs_there"]
        assert check.answer is Answer.YES
        assert check.sentence == f"it has purged nothing that {whom.format(*replicas)}"


def test_a_row_that_breaks_a_rule_is_no_before_its_incident_is_written():
    """Tables are not written at one instant; who has acknowledged it knows of it."""
    rule = "lsn_order"
    evidence = on(healthy(), "replica-a1", {"checks": (Check(rule, Outcome.BROKEN),)})
    assert rule in reasons(ready(Purpose.CLONE, "replica-a1", evidence))["no_open_incident"]
    broken = collected(Scenario(seed=1, topology="pair", fault="errant_write"))[-1].incidents[0]
    found = replace(broken.finding, instance_id="replica-a1", data={})
    known = replace(broken, rule=rule, state=IncidentState.ACKNOWLEDGED, finding=found)
    found = ready(Purpose.CLONE, "replica-a1", replace(evidence, incidents=[known]))
    assert found.answer is Answer.YES
    over = replace(known, state=IncidentState.RESOLVED)
    found = ready(Purpose.CLONE, "replica-a1", replace(evidence, incidents=[over]))
    assert rule in reasons(found)["no_open_incident"]


def test_an_errant_check_must_be_there_and_young():
    """A healthy set without the audit's own answer is undecided."""
    evidence = healthy()
    key = ("replica-a1", ERRANT_RULE)
    check = evidence.checks[key]
    for changed in (
        {},
        {key: check._replace(ts=check.ts - HOUR_US)},
        {key: check._replace(check=Check(ERRANT_RULE, Outcome.UNDECIDED, "source_unknown"))},
        {key: check._replace(check=Check(ERRANT_RULE, Outcome.BROKEN))},
    ):
        found = ready(Purpose.BACKUP, "replica-a1", replace(evidence, checks=changed))
        assert (found.answer, set(reasons(found))) == (Answer.UNDECIDED, {"no_errant_gtids"})


def test_a_breach_whose_incident_is_over_does_not_last():
    """A check shows it for good; what the set has now decides."""
    evidence = healthy()
    key = ("replica-a1", ERRANT_RULE)
    broken = evidence.checks[key]._replace(check=Check(ERRANT_RULE, Outcome.BROKEN))
    [over] = [
        one
        for one in collected(Scenario(seed=1, topology="pair", fault="errant_write"))[-1].incidents
        if one.rule == ERRANT_RULE
    ]
    finding = replace(over.finding, instance_id="replica-a1")
    over = replace(over, instance_id="replica-a1", finding=finding, state=IncidentState.RESOLVED)
    evidence = replace(evidence, checks={**evidence.checks, key: broken}, incidents=[over])
    assert ready(Purpose.BACKUP, "replica-a1", evidence).answer is Answer.YES


def test_a_collection_that_waits_too_long_is_an_unanswered_request():
    """Of who has not answered it; a collection that is closed, or older, is none."""

    def row(name, collection):
        return Cut(collection_id=collection, instance_id=name, scope="instance", ts=1)

    cuts = [row("a", "c1"), row("b", "c1"), row("a", "c2")]
    written = {"c1": 10, "c2": 20}
    assert {n: bool(one.problem) for n, one in newest_of(cuts, written, ["c2"]).items()} == {
        "a": False, "b": True,
    }  # fmt: skip
    assert not any(one.problem for one in newest_of(cuts, written).values())
    unwritten = newest_of([row("a", "c0")], written, ["c1", "c2"])["a"]
    assert "has not answered collection 'c1'" in unwritten.problem
    assert not any(one.problem for one in newest_of(cuts, written, ["c1"]).values())


def test_the_page_has_the_table_of_the_code():
    """Each check with what needs it and why; rules that are named exist."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 7]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert {name.strip("`"): (text, marks, why) for name, text, *marks, why in rows} == {
        name: (need.text, ["x" if p in need.purposes else "" for p in Purpose], need.why)
        for name, need in NEEDS.items()
    }
    assert {ERRANT_RULE, STORED_RULE} <= RULES.keys()


def test_the_document_has_each_check():
    """With the age of the evidence and its limit."""
    row_us = healthy().instances["replica-a1"].row.ts
    evidence = replace(healthy(), now_us=row_us + 1_234_567)
    document = ready_document(ready(Purpose.CLONE, "replica-a1", evidence, 60), evidence)
    assert (document["answer"], document["is_decided"], document["max_age_s"]) == ("yes", True, 60)
    assert [one["check"] for one in document["checks"]] == [
        name for name, need in NEEDS.items() if Purpose.CLONE in need.purposes
    ]
    known = document["evidence"]["instances"]
    assert set(known) == set(evidence.instances)
    assert known["replica-a1"] == {"evidence_us": row_us, "age_s": 1.235, "problem": ""}
    assert document["age_s"] == 1.235
    assert GtidSet.parse(evidence.instances["replica-a1"].row.gtid_executed)
