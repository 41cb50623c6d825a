"""Builders of results: a healthy fleet, a broken one, a hostile one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from cuts import REPLICA_UUID, SOURCE_UUID, START, channel_cut, collection_cuts, instance_cut

from tallystick.coordinates.audit.collection_checks import checks_of_history
from tallystick.coordinates.results import (
    Finding,
    Incident,
    IncidentState,
    Observation,
    ObservationCode,
    Severity,
)
from tallystick.coordinates.rules.observations import RECORDS_MISSING, ROW_TORN
from tallystick.runs.result import DATA_DOCS, RunResult
from tests.support import results

STRANGER = "cccccccc-0000-0000-0000-000000000003"
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=timezone.utc)


def incident(one: Finding, state: IncidentState = IncidentState.OPEN) -> Incident:
    """That of a finding alone."""
    return Incident(
        *(one.finding_id, one.rule, one.case, one.severity, one.instance_id, None, {}),
        *(state, one.ts, one.ts, None, 1, one.witness, one),
    )


def finding(**changes) -> Finding:
    return results.finding(
        **{
            "rule": "executed_within_logged",
            "severity": Severity.CRITICAL,
            "instance_id": "replica-2",
            "channel": None,
            "at": "c-000027",
            "case": "not_logged",
            "data": {
                "excess": f"{SOURCE_UUID}:1271-1272",
                "executed": f"{SOURCE_UUID}:1-1272",
                "logged": f"{SOURCE_UUID}:1-1270",
                "position": "binlog.000003:235000",
            },
            "witness": f"{SOURCE_UUID}:1271-1272",
            "collection_id": "c-000027",
            "epoch": 1,
            "sequence": 27_000,
            "ts": START + 270_000_000,
            **changes,
        }
    )


def observation(**changes) -> Observation:
    made = Observation(
        code=ObservationCode.LOG_STATUS_TEAR,
        instance_id="source-1",
        channel=None,
        at="c-000030",
        reason=ROW_TORN.code,
        data={"position": "binlog.000003:235000", "count": 3, "gtids": f"{SOURCE_UUID}:1271-1273"},
        rules=(),
        is_undecided=False,
        collection_id="c-000030",
        epoch=1,
        sequence=30_000,
        ts=START + 300_000_000,
    )
    return replace(made, **changes)


def result(cuts=(), **more) -> RunResult:
    values = {
        "command": "audit", "title": "Production fleet, Frankfurt", "begun_at": NOW,
        "elapsed_s": 0.0, "events": 1_284_310, "found": (), "observations": (),
    }  # fmt: skip
    values |= {"cuts": tuple(cuts), **more}
    shown = (values[name] for name in ("cuts", "found", "observations"))
    return RunResult(**{"checks": checks_of_history(*shown, ()), **values})


def healthy(collections: int = 30, replicas: int = 3) -> RunResult:
    cuts = [cut for n in range(1, collections + 1) for cut in collection_cuts(n, replicas)]
    return result(cuts, observations=(observation(),))


def broken() -> RunResult:
    table = []
    for number in range(1, 31):
        cuts = collection_cuts(number, 3)
        cuts.append(instance_cut(number, "replica-4", server_uuid=REPLICA_UUID))
        cuts.append(channel_cut(number, "replica-4", "from_replica_1", source_uuid=REPLICA_UUID))
        cuts.append(channel_cut(number, "replica-4", "from_source_b", source_uuid=STRANGER))
        if number in (11, 12):
            cuts[1] = replace(cuts[1], verdict="UNDECIDED")
        if number in (27, 28):
            cuts[3] = replace(
                cuts[3],
                verdict="INCONSISTENT",
                checks=results.checks(broken="executed_within_logged"),
                gtid_executed=f"{SOURCE_UUID}:1-1302",
            )
        if number == 30:
            cuts[4] = replace(
                cuts[4],
                verdict="INCONSISTENT",
                checks=results.checks(broken="relay_position_on_written_boundary"),
                relay_log_position=204_000,
            )
            cuts[1] = replace(
                instance_cut(number, "replica-1"),
                answer="refused",
                error_code=1227,
                error_text="Access denied; you need (at least one of) the BACKUP_ADMIN "
                "privilege(s) for this operation",
                verdict="UNDECIDED",
                reason="log_status_refused",
            )
            sids = ",\n".join(
                f"{n:08x}-1111-2222-3333-444444444444:1-{n * 977}:{n * 1000}-{n * 1001}"
                for n in range(1, 60)
            )
            cuts[0] = replace(cuts[0], gtid_executed=sids, commit_lag=3, journal_gtid_set=sids)
        table += cuts
    return result(
        table,
        title="Staging fleet under load",
        found=(
            finding(),
            finding(at="c-000028", collection_id="c-000028", ts=START + 280_000_000),
            finding(
                rule="relay_position_on_written_boundary",
                channel="",
                at="c-000030",
                case="beyond_end",
                data={"relay": "relay.000007:204000", "nearest": "relay.000007:200000"},
                witness="relay.000007:204000",
                collection_id="c-000030",
                ts=START + 300_000_000,
            ),
            finding(
                rule="gtid_text_canonical",
                severity=Severity.WARNING,
                instance_id="source-1",
                at="c-000030 gtid_executed",
                case="other_spelling",
                data={
                    "datum": "gtid_executed",
                    "observed": ",".join(
                        f"{n:08X}-1111-2222-3333-444444444444:1-{n * 977}" for n in range(1, 40)
                    ),
                    "expected": ",".join(
                        f"{n:08x}-1111-2222-3333-444444444444:1-{n * 977}" for n in range(1, 40)
                    ),
                },
                ts=START + 300_000_001,
            ),
        ),
        observations=(
            observation(),
            observation(
                code=ObservationCode.JOURNAL_GAP,
                instance_id="replica-1",
                reason=RECORDS_MISSING.code,
                data={"first": 11_000, "last": 11_004},
                is_undecided=True,
                at="sequence 11000",
            ),
        ),
        paths={DATA_DOCS: Path("data-docs/index.html")},
    )


HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src="https://203.0.113.1/x.png" onerror="alert(1)">',
    "</style></title><svg onload=alert(1)>",
    "evil\u202egnp.\u2066exe\u0000\u001b[2J\u2028\ud800",
    "{{ 7*7 }}{% raw %}javascript:alert(1)",
    "w" * 300,
)


def hostile() -> RunResult:
    cuts = []
    for text in HOSTILE:
        changes = {
            "gtid_executed": text,
            "binary_log_file": text,
            "server_uuid": text,
            "checks": results.checks(undecided=f"lsn_order: {text}"),
        }
        cuts.append(instance_cut(1, text, collection_id=HOSTILE[0], **changes))
        cuts.append(
            instance_cut(1, text + "2", collection_id=HOSTILE[0], answer="failed", error_text=text)
        )
        cuts.append(
            channel_cut(
                1,
                text,
                text,
                collection_id=HOSTILE[0],
                relay_log_file=text,
                retrieved_gtid_set=text * 30,
            )
        )
    return result(
        cuts,
        title=HOSTILE[0],
        found=tuple(
            finding(
                rule=text,
                instance_id=text,
                channel=text,
                at=text,
                case=text,
                data={text: text},
                witness=text,
                collection_id=text,
            )
            for text in HOSTILE
        ),
        observations=tuple(
            observation(instance_id=text, channel=text, at=text, reason=text) for text in HOSTILE
        ),
        paths={DATA_DOCS: Path("data-docs/index.html")},
    )
