"""``tallystick rebuild``: state made anew from the journal."""

from __future__ import annotations

import typer

from tallystick import terminal
from tallystick.commands.options import (
    BootstrapServers,
    Directory,
    Disable,
    FailOn,
    FailOnFlag,
    Instances,
    JsonResult,
    Outputs,
    TopicPrefix,
    finish,
    requested,
)
from tallystick.extras import require_extra
from tallystick.process import stopping
from tallystick.settings import load


def rebuild(
    *,
    instance: Instances = None,
    disable: Disable = None,
    bootstrap_servers: BootstrapServers = None,
    topic_prefix: TopicPrefix = None,
    directory: Directory = None,
    output: Outputs = None,
    json: JsonResult = False,
    fail_on: FailOnFlag = FailOn.EVER,
) -> None:
    """Make the audit's state and tables anew from the journal topic, then end.

    For state that is damaged: what was there is set aside. Findings, incidents and acknowledgements
    come back with the ids they had, as far as the brokers still have the journal; what lies before
    its first record is UNDECIDED. `tallystick audit` goes on from there.
    """
    settings = load(
        {
            "bootstrap_servers": bootstrap_servers,
            "topic_prefix": topic_prefix,
            "directory": directory,
            "instances": instance,
            "disabled": disable,
        }
    ).settings
    require_extra("stream", "tallystick rebuild")
    from tallystick.coordinates.rules.observations import JOURNAL_NOT_READ
    from tallystick.runs.audit import Audit
    from tallystick.runs.rebuild import CHECKPOINT, earlier_findings, set_aside
    from tallystick.streaming.checkpoint import spark_checkpoint_of

    run = Audit(settings, available_now=True, history_ends=False)
    requests = requested(output, json, directory=run.directory)
    run.prepare()
    target = set_aside(run.directory)
    terminal.notice(f"what was known is set aside in {str(target)!r}")
    url = spark_checkpoint_of(target / CHECKPOINT)
    if url is not None:
        terminal.notice(f"Spark's checkpoints of it stay at {url!r}")
    with stopping() as stop, terminal.progress("starting Spark") as progress:
        result = run.run(stop, progress)
    if result is None:
        raise typer.Exit(stop.exit_code)
    again = {finding.finding_id for finding in result.findings}
    gone = [f for f in earlier_findings(target) or () if f.finding_id not in again]
    if any(seen.reason == JOURNAL_NOT_READ.code for seen in result.observations):
        terminal.notice("stopped before the journal's end; tallystick audit goes on from here")
        gone = []  # what is not read yet may have them
    if gone:
        terminal.notice(
            f"not found again of the earlier findings: {len(gone):,}, the first is"
            f" {gone[0].finding_id} of {gone[0].rule}; see {str(target)!r}"
        )
    finish(result, requests, run.directory, fail_on=fail_on)
