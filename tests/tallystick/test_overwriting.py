"""No command writes over what it reads, or over what somebody has observed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.alerts.service import FILE as ALERTS
from tallystick.runs.rebuild import CHECKPOINT
from tallystick.runs.result import DATA_DOCS, TABLES
from tallystick.runs.scenario import FILE as SCENARIO
from tallystick.runs.stream import SPARK_LOG

EXAMPLE = (
    (Path(__file__).parents[2] / "docs" / "journal.md")
    .read_text("utf-8")
    .split("```json\n")[1]
    .split("```")[0]
)
OWN = (ALERTS, CHECKPOINT, DATA_DOCS, SCENARIO, SPARK_LOG, TABLES, "artifacts", "broker")
"""What a run keeps."""
INFO = "binlog.000001\t457\taaaaaaaa-0000-0000-0000-000000000001:1\n"


@pytest.fixture
def evidence(tallystick):
    """A journal under three names, a backup and a servers.toml, with what each holds."""
    Path("journal").write_text(EXAMPLE)
    Path("link").symlink_to("journal")
    Path("hard").hardlink_to("journal")
    Path("backup").mkdir()
    Path("backup/xtrabackup_binlog_info").write_text(INFO)
    Path("servers.toml").write_text("[servers.a]\nhost = '127.0.0.1'\nport = 1\n")
    return {path: path.read_text() for path in Path().rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "line",
    [
        "replay journal --output json=journal",
        "replay journal --output html=./journal",
        "replay journal --output html=link",
        "replay link --output junit=hard",
        "replay nowhere journal --output sarif=journal",
        "check --config servers.toml --output json=servers.toml",
        "certify backup --journal journal --write journal",
        "certify backup --journal journal --write backup/xtrabackup_binlog_info",
        (
            "certify backup/xtrabackup_binlog_info --journal journal --write"
            " backup/xtrabackup_binlog_info"
        ),
    ],
)
def test_what_is_read_is_not_written_over(tallystick, evidence, line):
    """A journal, a backup's own coordinates, the list of servers: by whatever name."""
    ran = tallystick(*line.split())
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "is read: expected another file to write" in ran.err
    assert evidence == {path: path.read_text() for path in evidence}


def test_a_report_does_not_add_to_the_tables_that_it_is_of(tallystick, evidence):
    """Each row would be there twice, in every later report."""
    assert 0 == tallystick("replay", "journal", "--output", "tables=run/tables").code
    before = sorted(Path("run").rglob("*"))
    ran = tallystick("report", "run", "--output", "tables=run/../run/tables")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "'run/../run/tables' is the run's own: expected another name to write" in ran.err
    assert before == sorted(Path("run").rglob("*"))


@pytest.mark.parametrize(
    "name",
    [
        *OWN,
        "before-rebuild-20260101T000000.000000Z/tables",
        "tables/findings/_delta_log/00000000000000000000.json",
        f"{ALERTS}-wal",
        f"{SPARK_LOG}.1",
        "report.json",
        "../link/data_docs/index.html",
        "",
    ],
)
def test_a_report_is_not_written_over_what_its_run_keeps(tallystick, evidence, name):
    """State, alerts that wait and what was found cannot be made again."""
    Path("link").unlink()
    Path("link").symlink_to("run")
    assert 0 == tallystick("replay", "journal", "--output", "tables=run/tables").code
    before = sorted(Path("run").rglob("*"))
    for line in (
        f"--output junit=run/{name}",
        f"--output sarif=run/junit --output html=link/{name}",
    ):
        ran = tallystick("report", "run", *line.split())
        assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
        assert f"{name}' is the run's own: expected another name to write" in ran.err
    assert before == sorted(Path("run").rglob("*"))


@pytest.mark.parametrize("target", ["tables=elsewhere", "json=hard"])
def test_what_a_run_keeps_is_known_by_other_names(tallystick, evidence, target):
    """Tables on another disk, and a second name of a file."""
    assert 0 == tallystick("replay", "journal", "--output", "tables=elsewhere").code
    Path("run").mkdir()
    Path("run/tables").symlink_to(Path("elsewhere").absolute())
    Path("run/alerts.sqlite").write_text("alerts")
    Path("hard").unlink()
    Path("hard").hardlink_to("run/alerts.sqlite")
    ran = tallystick("report", "run", "--output", target)
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "is read: expected another" in ran.err
    assert "alerts" == Path("run/alerts.sqlite").read_text()


def test_a_report_is_written_beside_what_its_run_keeps(tallystick, evidence):
    """Again and again, the page and the document under their own names, too."""
    assert 0 == tallystick("replay", "journal", "--output", "tables=run/tables").code
    line = "report run --output junit=run/junit.xml --output json=run/report.json"
    for _ in range(2):
        assert 0 == tallystick(*line.split()).code
    assert Path("run/junit.xml").read_text().startswith("<?xml")


@pytest.mark.parametrize("name", OWN)
def test_alerts_are_not_written_into_what_the_audit_keeps(tallystick, name):
    """Lines would be added to the queue of alerts, or to a log that is cut."""
    ran = tallystick("alerts", "test", "--alert", f"log=.tallystick/audit/{name}")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert f"{name}' is the run's own: expected another name to write" in ran.err


def test_a_journal_of_real_servers_is_not_written_over(tallystick, evidence):
    """Tail would begin it anew; what happened before is nowhere else."""
    ran = tallystick("tail", "--config", "servers.toml", "--output", "journal")
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "'journal' exists and is not empty: expected a new file, or -" in ran.err
    assert evidence == {path: path.read_text() for path in evidence}


def test_a_simulated_journal_is_not_written_over_another_file(tallystick, evidence):
    """As a journal that is tailed; whatever the file is."""
    for target in ("journal", "link", "servers.toml"):
        ran = tallystick("simulate", "--topology", "pair", "--output", target)
        assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
        assert f"'{target}' exists and is not empty: expected a new file, or -" in ran.err
    assert evidence == {path: path.read_text() for path in evidence}


def test_two_outputs_do_not_share_a_file(tallystick, evidence):
    """The second one would be all that is left, also where it is called otherwise."""
    ran = tallystick("replay", "journal", "--output", "json=x", "--output", "junit=./x")
    assert (2, "") == (ran.code, ran.out)
    assert "json and junit cannot both go to 'x': expected NAME=FILE" in ran.err
    assert not Path("x").exists()


@pytest.mark.parametrize(
    "line",
    ["--rights --json", "--rights --output junit=x", "--rights --explain", "--explain --output x"],
)
def test_an_output_that_would_not_be_written_is_refused(tallystick, line):
    """A script that waits for the file would not know."""
    ran = tallystick("check", *line.split())
    assert (2, "", 1) == (ran.code, ran.out, len(ran.err.splitlines()))
    assert "beside it" in ran.err
