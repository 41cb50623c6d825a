"""Cases of the rules of clones that one instance shows."""

from __future__ import annotations

from typing import Any

from tests.support.journals import UUID_A, Journal
from tests.support.rule_cases import case, source


@case()
def clone_protocol(breaks: bool) -> Journal:
    waits = 1_000_000 - 2_000 + (1_000 if breaks else 999)
    return _donor(*DONOR, waits_us=waits - 1_000)


DONOR = (
    "begin",
    "order_forced",
    "prepared_awaited",
    "donor_blocked",
    "position_read",
    "donor_released",
    "order_released",
    "end",
)
STAGES = ("DROP DATA", "FILE COPY", "PAGE COPY", "REDO COPY", "FILE SYNC", "RESTART", "RECOVERY")


def step_fields(journal: Journal, step: str) -> dict[str, object]:
    """What a step must say, here of the end of the server's own log; stages by their names."""
    end = {"binlog_file": journal.binlog.file, "binlog_position": journal.binlog.end, "lsn": 9_000}
    if step in STAGES:
        return {"step": "stage", "stage": step}
    if step == "version":
        versions = dict.fromkeys(("donor_version", "recipient_version"), journal.version)
        return {"step": step, **versions}
    if step == "position_read":
        return {"step": step, **end}
    if step == "recovered":
        return {"step": step, **end, "gtid_executed": str(journal.executed)}
    return {"step": step}


def _donor(*steps: str, waits_us: int = 0) -> Journal:
    """Steps of a donor; ``waits_us`` are between blocking and what comes next."""
    journal = source()
    for step in steps:
        journal.record("clone", role="donor", peer="b", **step_fields(journal, step))
        if step == "donor_blocked":
            journal.ts += waits_us
    return journal


def _recipient(*steps: str, destination: str = "LOCAL INSTANCE") -> Journal:
    """Steps of a recipient, stages by their names."""
    journal = source()
    who = {"role": "recipient", "peer": "b"}
    journal.record("clone", step="begin", destination=destination, **who)
    for step in steps:
        journal.record("clone", **step_fields(journal, step), **who)
        if step == "RESTART":
            journal.start(data_lineage="cloned")
    return journal


@case()
def clone_protocol__of_a_clone_whose_begin_was_not_seen(breaks: bool) -> Journal:
    """For whom it is does not matter then: how long commits were blocked is known."""
    waits = 1_000_000 - 2_000 + (1_000 if breaks else 999)
    return _donor(*DONOR[1:], waits_us=waits - 1_000)


@case()
def clone_donor_steps_complete(breaks: bool) -> Journal:
    return _donor(*(step for step in DONOR if not (breaks and step == "order_forced")))


@case()
def clone_donor_steps_complete__xa(breaks: bool) -> Journal:
    return _donor(*(step for step in DONOR if not (breaks and step == "donor_blocked")))


@case()
def clone_donor_steps_complete__released_first(breaks: bool) -> Journal:
    read = ("position_read", "donor_released")
    steps = [step for step in DONOR if step not in read]
    steps[4:4] = read[::-1] if breaks else read
    return _donor(*steps)


@case()
def clone_donor_steps_complete__not_released(breaks: bool) -> Journal:
    return _donor(*(step for step in DONOR if not (breaks and step == "order_released")))


@case()
def clone_donor_steps_complete__of_a_failure(breaks: bool) -> Journal:
    journal = _donor("begin", "order_forced")
    error = {} if breaks else {"error": 3862}
    journal.record("clone", step="end", role="donor", peer="b", **error)
    return journal


@case()
def clone_recipient_steps_complete(breaks: bool) -> Journal:
    stages = [stage for stage in STAGES if not (breaks and stage == "REDO COPY")]
    return _recipient("version", *stages, "recovered", "end")


@case()
def clone_recipient_steps_complete__elsewhere(breaks: bool) -> Journal:
    """A clone into a directory drops nothing and is not recovered by this server."""
    stages = [stage for stage in STAGES[1:5] if not (breaks and stage == "PAGE COPY")]
    return _recipient("version", *stages, "end", destination="/backup/today")


@case()
def clone_recipient_steps_complete__recovery(breaks: bool) -> Journal:
    stages = [stage for stage in STAGES if not (breaks and stage == "RESTART")]
    return _recipient("version", *stages, "recovered", "end")


@case()
def clone_protocol__stages(breaks: bool) -> Journal:
    journal = source()
    journal.record("clone", step="begin", role="recipient", peer="b")
    stages = ["DROP DATA", "FILE COPY", "PAGE COPY", "REDO COPY", "FILE SYNC"]
    if breaks:
        stages[1:3] = reversed(stages[1:3])
    for stage in stages:
        journal.record("clone", step="stage", role="recipient", peer="b", stage=stage)
    return journal


def _versions(donor: str, recipient: str, **then: object) -> Journal:
    journal = source()
    journal.record("clone", step="begin", role="recipient", peer="b")
    versions = {"donor_version": donor, "recipient_version": recipient}
    journal.record("clone", step="version", role="recipient", peer="b", **versions)
    then = then or {"step": "stage", "stage": "DROP DATA"}
    journal.record("clone", role="recipient", peer="b", **then)
    return journal


@case()
def clone_protocol__version(breaks: bool) -> Journal:
    return _versions("8.0.31", "8.0.32" if breaks else "8.0.31")


@case()
def clone_protocol__version_refused(breaks: bool) -> Journal:
    """The server compares the versions and then fails, which a later record may say alone."""
    then = {} if breaks else {"step": "end", "error": 3864}
    return _versions("8.0.31", "8.0.32", **then)


@case()
def clone_protocol__series(breaks: bool) -> Journal:
    """From 8.0.37 on a server takes the data of any other of its series that does so, too."""
    return _versions("8.0.36" if breaks else "8.0.37", "8.0.42")


@case()
def clone_protocol__suffix(breaks: bool) -> Journal:
    """What follows the number says how the server was built."""
    return _versions("8.0.31", f"8.0.31{'1' if breaks else '-debug'}")


@case()
def clone_protocol__later_series(breaks: bool) -> Journal:
    return _versions("8.4.0", "9.4.0" if breaks else "8.4.6")


def _forced_order(journal: Journal) -> None:
    journal.record("clone", step="begin", role="donor", peer="b")
    journal.record("clone", step="order_forced", role="donor", peer="b")
    journal.record("clone", step="prepared_awaited", role="donor", peer="b")
    journal.record("clone", step="donor_blocked", role="donor", peer="b")


def _page(journal: Journal, step: str, file: str, position: int) -> None:
    page = {"binlog_file": file, "binlog_position": position, "lsn": 9_000}
    journal.record("clone", step=step, role="donor", peer="b", **page)


@case()
def clone_commits_ordered(breaks: bool) -> Journal:
    journal = source()
    _forced_order(journal)
    _page(journal, "commit", "binlog.000001", 900)
    _page(journal, "position_read", "binlog.000001", 899 if breaks else 900)
    return journal


@case()
def clone_commits_ordered__next_file(breaks: bool) -> Journal:
    journal = source()
    _forced_order(journal)
    _page(journal, "commit", "binlog.000002" if breaks else "binlog.000001", 900)
    _page(journal, "commit", "binlog.000001" if breaks else "binlog.000002", 197)
    return journal


@case()
def clone_commits_ordered__prepared_before(breaks: bool) -> Journal:
    journal = source()
    journal.record("clone", step="begin", role="donor", peer="b")
    journal.record("clone", step="order_forced", role="donor", peer="b")
    if breaks:
        journal.record("clone", step="prepared_awaited", role="donor", peer="b")
    _page(journal, "commit", "binlog.000001", 900)
    _page(journal, "commit", "binlog.000001", 500)
    return journal


@case()
def clone_commits_ordered__released(breaks: bool) -> Journal:
    journal = source()
    _forced_order(journal)
    _page(journal, "commit", "binlog.000001", 900)
    if not breaks:
        for step in DONOR[4:]:
            journal.record("clone", role="donor", peer="b", **step_fields(journal, step))
        _forced_order(journal)
    _page(journal, "commit", "binlog.000001", 500)
    return journal


@case()
def clone_blocks_xa(breaks: bool) -> Journal:
    journal = source()
    journal.record("clone", step="begin", role="donor", peer="b")
    if not breaks:
        journal.groups(1, "xa_prepare")
    journal.record("clone", step="donor_blocked", role="donor", peer="b", blocks="xa")
    journal.groups(1)
    if breaks:
        journal.groups(1, "xa_prepare")
    journal.record("clone", step="donor_released", role="donor", peer="b", blocks="xa")
    journal.groups(1, "xa_prepare")
    return journal


@case()
def clone_blocks_xa__whatever_is_blocked_with_it(breaks: bool) -> Journal:
    journal = _donor("begin", "donor_blocked")
    journal.groups(1, "xa_prepare" if breaks else "rows")
    return journal


def _recipient_copies(journal: Journal, *, destination: str = "LOCAL INSTANCE") -> None:
    who = {"role": "recipient", "peer": "b"}
    journal.record("clone", step="begin", destination=destination, **who)
    for stage in ("DROP DATA", "FILE COPY"):
        journal.record("clone", step="stage", stage=stage, **who)


@case()
def failed_clone_not_resumed(breaks: bool) -> Journal:
    journal = source()
    _recipient_copies(journal, destination="LOCAL INSTANCE" if breaks else "/backup/today")
    journal.record("clone", step="end", role="recipient", error=3862)
    journal.record("channel", channel="", action="start_applier")
    return journal


@case()
def failed_clone_not_resumed__stopped(breaks: bool) -> Journal:
    """A channel may be stopped and removed, but not started."""
    journal = source()
    _recipient_copies(journal, destination="LOCAL INSTANCE")
    journal.record("clone", step="end", role="recipient", error=3862)
    for action in ("stop_applier", "start_applier" if breaks else "reset_all"):
        journal.record("channel", channel="", action=action)
    return journal


@case()
def failed_clone_not_resumed__refused(breaks: bool) -> Journal:
    journal = source()
    who = {"role": "recipient", "peer": "b"}
    journal.record("clone", step="begin", destination="LOCAL INSTANCE", **who)
    if breaks:
        journal.record("clone", step="stage", stage="DROP DATA", **who)
    journal.record("clone", step="end", error=3864, **who)
    journal.record("channel", channel="", action="start_receiver")
    return journal


@case()
def failed_clone_not_resumed__directory(breaks: bool) -> Journal:
    """A copy into a directory brings the server's own data back as little as it drops them."""
    journal = source()
    if breaks:
        _recipient_copies(journal, destination="LOCAL INSTANCE")
        journal.record("clone", step="end", role="recipient", peer="b", error=3862)
    _recipient_copies(journal, destination="/backup/today")
    journal.record("clone", step="end", role="recipient", peer="b")
    journal.record("channel", channel="", action="start_applier")
    return journal


@case()
def failed_clone_not_resumed__after_another(breaks: bool) -> Journal:
    """One that was refused leaves what the one before it has left."""
    journal = source()
    _recipient_copies(journal)
    error = {"error": 3862} if breaks else {}
    for stage in STAGES[2:] if not breaks else ():
        journal.record("clone", step="stage", stage=stage, role="recipient", peer="b")
    who = {"role": "recipient", "peer": "b"}
    journal.record("clone", step="end", **who, **error)
    journal.record("clone", step="begin", destination="LOCAL INSTANCE", **who)
    journal.record("clone", step="end", error=3864, **who)
    journal.record("channel", channel="", action="start_receiver")
    return journal


@case()
def failed_clone_not_resumed__crash(breaks: bool) -> Journal:
    journal = source()
    _recipient_copies(journal)
    if not breaks:
        for stage in ("PAGE COPY", "REDO COPY", "FILE SYNC", "RESTART"):
            journal.record("clone", step="stage", stage=stage, role="recipient")
    journal.start(crashed=True)
    journal.record("channel", channel="", action="start_applier")
    return journal


def _tables(state: str, error: int = 0, *, position: int = 900, **stages: str) -> dict[str, Any]:
    names = ("DROP DATA", "FILE COPY", "PAGE COPY", "REDO COPY", "FILE SYNC", "RESTART", "RECOVERY")
    progress = [
        {"STAGE": name, "STATE": stages.get(name.replace(" ", "_"), "Completed")} for name in names
    ]
    status = {
        "STATE": state,
        "ERROR_NO": error,
        "BINLOG_FILE": "binlog.000009",
        "BINLOG_POSITION": position,
        "GTID_EXECUTED": f"{UUID_A}:1-3",
    }
    return {"clone_status": status, "clone_progress": progress}


@case()
def clone_status_agrees(breaks: bool) -> Journal:
    journal = source()
    _recipient_copies(journal)
    journal.record("clone", step="end", role="recipient", error=3862)
    state = "Completed" if breaks else "Failed"
    journal.row(**_tables(state, 0 if breaks else 3862, RESTART="Not Started",
                          RECOVERY="Not Started"))  # fmt: skip
    return journal


@case()
def clone_status_agrees__error(breaks: bool) -> Journal:
    journal = source()
    _recipient_copies(journal)
    journal.record("clone", step="end", role="recipient", error=3862)
    journal.row(**_tables("Failed", 3863 if breaks else 3862))
    return journal


@case()
def clone_status_agrees__no_error(breaks: bool) -> Journal:
    journal = source()
    journal.row(**_tables("Failed", 0 if breaks else 3862))
    return journal


@case()
def clone_status_agrees__error_of_success(breaks: bool) -> Journal:
    journal = source()
    journal.row(**_tables("Completed", 3862 if breaks else 0))
    return journal


@case()
def clone_status_agrees__stages(breaks: bool) -> Journal:
    later = "Completed" if breaks else "Not Started"
    stages = {"FILE_COPY": "In Progress", "RESTART": "Not Started", "RECOVERY": "Not Started"}
    journal = source()
    _recipient_copies(journal)
    progress = _tables(
        "In Progress", PAGE_COPY=later, REDO_COPY="Not Started", FILE_SYNC="Not Started", **stages
    )
    journal.row(**progress)
    return journal


@case()
def clone_status_agrees__stage_of_success(breaks: bool) -> Journal:
    stages = {"RESTART": "Not Started", "RECOVERY": "Not Started"}
    if breaks:
        stages["FILE_SYNC"] = "Failed"
    journal = source()
    journal.row(**_tables("Completed", **stages))
    return journal


def _recipient_recovers(journal: Journal, gtids: str) -> None:
    """All of a clone, as far as the binary log's end at 900."""
    _recipient_copies(journal)
    said = {"binlog_file": "binlog.000009", "binlog_position": 900, "gtid_executed": gtids}
    fields = step_fields(journal, "recovered") | said
    journal.record("clone", role="recipient", **fields)
    journal.record("clone", step="end", role="recipient")


@case()
def clone_status_agrees__position(breaks: bool) -> Journal:
    journal = source()
    _recipient_recovers(journal, f"{UUID_A}:1-3")
    journal.row(**_tables("Completed", position=901 if breaks else 900))
    return journal


@case()
def clone_status_agrees__set(breaks: bool) -> Journal:
    journal = source()
    _recipient_recovers(journal, f"{UUID_A}:{'1-4' if breaks else '1:2-3'}")
    journal.row(**_tables("Completed"))
    return journal


@case()
def clone_status_agrees__set_not_shown(breaks: bool) -> Journal:
    """A row that does not name the set says nothing of it; one that names none does."""
    journal = source()
    _recipient_recovers(journal, f"{UUID_A}:1-3")
    tables = _tables("Completed")
    if breaks:
        tables["clone_status"]["GTID_EXECUTED"] = ""
    else:
        del tables["clone_status"]["GTID_EXECUTED"]
    journal.row(**tables)
    return journal


@case()
def clone_status_agrees__crash(breaks: bool) -> Journal:
    """What a start ends while it copies has failed."""
    journal = source()
    _recipient_copies(journal)
    journal.start(crashed=True)
    journal.row(**_tables("Completed" if breaks else "Failed", 0 if breaks else 3862))
    return journal


@case()
def clone_status_agrees__asked_for_at_its_end(breaks: bool) -> Journal:
    """In that moment the tables may still show that it goes on."""
    journal = source()
    _recipient_copies(journal)
    journal.record("clone", step="end", role="recipient", error=3862)
    journal.row(requested_at=journal.ts + breaks, **_tables("In Progress"))
    return journal


@case()
def clone_status_agrees__later_start(breaks: bool) -> Journal:
    """One into a directory ends with its files; a start after that has not ended it."""
    journal = source()
    _recipient_copies(journal, destination="/backup/today")
    for stage in ("PAGE COPY", "REDO COPY", "FILE SYNC"):
        journal.record("clone", step="stage", stage=stage, role="recipient", peer="b")
    journal.record("clone", step="end", role="recipient", peer="b")
    journal.start(crashed=True)
    journal.row(**_tables("Failed" if breaks else "Completed", 3862 if breaks else 0))
    return journal


@case()
def clone_status_agrees__beginning_unseen(breaks: bool) -> Journal:
    """An end alone may be of a clone that was over before what the tables show."""
    journal = source()
    if breaks:
        _recipient_copies(journal)
    journal.record("clone", step="end", role="recipient", peer="b")
    journal.row(**_tables("Failed", 3862))
    return journal
