"""The dashboard for Grafana, and the table of docs/metrics.md, made from the metrics that exist.

``python -m tests.support.catalogue_pages`` writes both anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tallystick.runs.metric_families import ALERT_FAMILIES, FAMILIES

DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "tallystick.json"
PER_ROW = 3
WIDTH, HEIGHT = 24 // PER_ROW, 7
VERDICTS = ("CONSISTENT", "UNDECIDED", "INCONSISTENT")


class Panel(NamedTuple):
    """One picture: its title, what it queries by the name of each line, its unit and form.

    In a query ``{}`` are the labels that select the job, ``RATE`` is Grafana's interval for rates.
    """

    title: str
    queries: dict[str, str]
    unit: str = "short"
    form: str = "timeseries"


PANELS = (
    Panel("Verdict now", {"{{verdict}}": "tallystick_verdict_now{} == 1"}, form="verdict"),
    Panel(
        "Verdict of the period", {"{{verdict}}": "tallystick_verdict_period{} == 1"}, form="verdict"
    ),
    Panel(
        "Incidents that go on",
        {
            "open": "sum(tallystick_open_incidents{}) or vector(0)",
            "acknowledged": "sum(tallystick_acknowledged_incidents{}) or vector(0)",
        },
    ),
    Panel(
        "Open incidents by rule and instance",
        {"{{rule}} on {{instance}}": "tallystick_open_incidents{}"},
        form="table",
    ),
    Panel(
        "Age of the last answer",
        {"{{instance}}": "time() - tallystick_last_answer_timestamp_seconds{}"},
        "s",
    ),
    Panel("Unanswered requests", {"{{instance}}": "tallystick_unanswered_requests{} > 0"}),
    Panel(
        "Collections a minute",
        {
            "{{outcome}}": "60 * rate(tallystick_collections_total{}[RATE])",
            "requested": "60 * rate(tallystick_collections_requested_total{}[RATE])",
        },
    ),
    Panel(
        "Collections by verdict",
        {"{{verdict}}": "increase(tallystick_validations_total{}[RATE])"},
    ),
    Panel("Findings by rule", {"{{rule}}": "increase(tallystick_findings_total{}[RATE]) > 0"}),
    Panel(
        "Detection latency",
        {
            f"p{share} from the {{{{evidence}}}}": f"histogram_quantile(0.{share},"
            " rate(tallystick_detection_latency_seconds_bucket{}[RATE]))"
            for share in (50, 95)
        },
        "s",
    ),
    Panel("Lag", {"partition {{partition}}": "tallystick_lag_blocks{}"}),
    Panel("Journal records a second", {"records": "rate(tallystick_records_total{}[RATE])"}, "ops"),
    Panel("Bytes read a second", {"bytes": "rate(tallystick_journal_bytes_total{}[RATE])"}, "Bps"),
    Panel(
        "Micro-batches",
        {
            "p95": "histogram_quantile(0.95,"
            " rate(tallystick_micro_batch_duration_seconds_bucket{}[RATE]))",
            "since the last one": "time() - tallystick_last_progress_timestamp_seconds{}",
        },
        "s",
    ),
    Panel(
        "State",
        {
            "state store": "tallystick_state_memory_bytes{}",
            "fleet": "tallystick_fleet_state_bytes{}",
            "driver": "process_resident_memory_bytes{}",
        },
        "bytes",
    ),
    Panel(
        "What cannot be read",
        {
            "dead letters": "increase(tallystick_dead_letters_total{}[RATE])",
            "states": "increase(tallystick_states_unreadable_total{}[RATE])",
        },
    ),
    Panel("Alerts that wait", {"{{sink}}": "tallystick_alerts_queued{}"}),
    Panel(
        "Alerts",
        {
            "sent to {{sink}}": "increase(tallystick_alerts_sent_total{}[RATE])",
            "failed at {{sink}}": "increase(tallystick_alerts_failed_total{}[RATE])",
        },
    ),
)


def dashboard() -> str:
    """The dashboard as Grafana imports it."""
    document = {
        "__inputs": [
            {"name": "DS_PROMETHEUS", "label": "Prometheus", "type": "datasource",
             "pluginId": "prometheus", "pluginName": "Prometheus"}
        ],
        "title": "tallystick",
        "uid": "tallystick",
        "tags": ["mysql", "replication"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "job", "type": "query", "datasource": _source(),
                 "query": "label_values(tallystick_build_info, job)", "refresh": 2}
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"


def metrics_table() -> str:
    """The table of docs/metrics.md."""
    lines = ["", "| metric | kind | what it is |", "|---|---|---|"]
    for one in (*FAMILIES, *ALERT_FAMILIES):
        labels = f"{{{','.join(one.labels)}}}" if one.labels else ""
        lines.append(f"| `{one.shown}{labels}` | {one.kind} | {one.text} |")
    return "\n".join(lines) + "\n"


def _source() -> dict[str, str]:
    return {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}


def _filled(query: str) -> str:
    return query.replace("{}", '{job="$job"}').replace("RATE", "$__rate_interval")


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, PER_ROW)
    is_now = panel.form != "timeseries"
    form = "table" if panel.form == "table" else "time_series"
    targets = [
        {"refId": chr(ord("A") + n), "expr": _filled(query), "legendFormat": name,
         "instant": is_now, "range": not is_now, "format": form, "datasource": _source()}
        for n, (name, query) in enumerate(panel.queries.items())
    ]  # fmt: skip
    made: dict[str, Any] = {
        "id": number + 1,
        "title": panel.title,
        "type": "stat" if panel.form == "verdict" else panel.form,
        "datasource": _source(),
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
    }
    if panel.form == "verdict":
        colors = dict(zip(VERDICTS, ("green", "orange", "red"), strict=True))
        made["options"] = {"textMode": "name", "colorMode": "background"}
        made["fieldConfig"]["overrides"] = [
            {"matcher": {"id": "byName", "options": verdict},
             "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}]}
            for verdict, color in colors.items()
        ]  # fmt: skip
    return made
