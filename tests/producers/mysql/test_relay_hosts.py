"""A replica whose relay logs a reader of their own shows: real servers, marker mysqld."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tallystick.coordinates.audit.replay import AuditResult, audit_history
from tallystick.coordinates.results import Outcome, Verdict
from tallystick.producers.mysql.settings import ServerSettings
from tallystick.producers.mysql_lab.layout import REPLICA_1, SOURCE_A
from tallystick.producers.mysql_lab.load import LoadPlan
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.producers.mysql.test_relay_log_server import serving
from tests.producers.mysql.test_relay_log_server import settings as reader_settings
from tests.support.relay_readers import RelayReaderProcess, relay_reader
from tests.support.tails import RunningTail, data_directory, running, settings_of, wait_for

ON_RELAY_LOGS = {"relay_position_on_written_boundary", "retrieved_matches_relay"}
"""Rules that nothing but the relay log decides."""
IS_READ_AGAIN = f"{REPLICA_1}: relay log of channel '' is read again"


@contextmanager
def loaded(lab: Lab) -> Iterator[None]:
    """The source is written on meanwhile."""
    load = lab.make_load(LoadPlan((SOURCE_A,), rate=40, threads=2, seconds=60, seed=11))
    load.start()
    try:
        yield
    finally:
        load.stop()
        load.finish()


def through(reader: RelayReaderProcess, lab: Lab) -> ServerSettings:
    """The replica, whose relay logs are read by a reader."""
    of_reader = {"relay_log_dir": None, "relay_log_reader": reader.settings}
    return settings_of(lab, REPLICA_1).model_copy(update=of_reader)


def audited(*tails: RunningTail) -> AuditResult:
    return audit_history([block for tail in tails for block in tail.sink.blocks])


def held(result: AuditResult, name: str) -> set[str]:
    """The rules that held on the replica and its channel, in one collection."""
    rows = [one for one in result.cuts if (one.collection_id, one.instance_id) == (name, REPLICA_1)]
    return {rule for row in rows for rule in row.names(Outcome.HOLDS)}


def test_relay_logs_of_another_host_are_judged_as_those_of_this_one(
    mysqld: Lab, tmp_path: Path
) -> None:
    """Under load, beside a tail that reads the same files itself."""
    ended: list[int] = []
    with ExitStack() as stack:
        reader = stack.enter_context(relay_reader(data_directory(mysqld, REPLICA_1), tmp_path))
        stack.callback(lambda: ended.append(reader.end()))
        source = stack.enter_context(running(settings_of(mysqld, SOURCE_A)))
        here = stack.enter_context(running(settings_of(mysqld, REPLICA_1)))
        there = stack.enter_context(running(through(reader, mysqld)))
        stack.enter_context(loaded(mysqld))
        names = [f"c{number}" for number in range(3)]
        for name in names:
            for tail in (here, there, source):
                tail.collect(name)
            if name == "c1":
                with session(mysqld.addresses()[REPLICA_1]) as server:
                    server.run("FLUSH LOCAL RELAY LOGS")
    assert [0] == ended
    expected, found = audited(here, source), audited(there, source)
    assert [] == expected.findings == found.findings
    assert {Verdict.CONSISTENT} == {expected.verdict, found.verdict}, found.observations
    assert ON_RELAY_LOGS <= held(found, "c2")
    for name in names[1:]:
        assert held(expected, name) - {"logged_eventually_executed"} == held(found, name) - {
            "logged_eventually_executed"
        }
    assert [] == there.notices


def test_a_reader_that_is_away_leaves_relay_logs_undecided_until_it_is_back(
    mysqld: Lab, tmp_path: Path
) -> None:
    """With a reason that names it; all other rules are judged, and nothing is found."""
    with ExitStack() as stack:
        reader = stack.enter_context(relay_reader(data_directory(mysqld, REPLICA_1), tmp_path))
        source = stack.enter_context(running(settings_of(mysqld, SOURCE_A)))
        replica = stack.enter_context(running(through(reader, mysqld)))
        stack.enter_context(loaded(mysqld))

        def collect(name: str) -> None:
            for tail in (replica, source):
                tail.collect(name)

        def await_back(name: str) -> None:
            """It is asked again at a row, and not at each one."""
            known = replica.notices.count(IS_READ_AGAIN)
            names = (f"{name} {number}" for number in range(30))
            wait_for(
                lambda: collect(next(names)) or replica.notices.count(IS_READ_AGAIN) > known,
                lambda: replica.notices,
            )
            collect(name)

        collect("before")
        reader.signal(signal.SIGSTOP)
        collect("stopped")
        with session(mysqld.addresses()[REPLICA_1]) as server:
            server.run("FLUSH LOCAL RELAY LOGS")
        reader.signal(signal.SIGCONT)
        await_back("goes on")
        reader.kill()
        with session(mysqld.addresses()[REPLICA_1]) as server:
            # Its relay log begins anew while nobody sees it.
            for statement in ("STOP REPLICA", "RESET REPLICA", "START REPLICA"):
                server.run(statement)
        collect("killed")
        reader.start()
        await_back("started again")
    result = audited(replica, source)
    assert [] == result.findings
    reasons = {one.data["why"] for one in result.observations if "why" in one.data}
    address = f"relay log reader {reader.settings.address}: "
    assert {address} == {reason[: len(address)] for reason in reasons}
    assert {Verdict.CONSISTENT.value} == {one.verdict for one in result.cuts}
    for name in ("before", "goes on", "started again"):
        assert ON_RELAY_LOGS <= held(result, name)
    for name in ("stopped", "killed"):
        assert not ON_RELAY_LOGS & held(result, name)
        assert "executed_within_logged" in held(result, name)


def test_a_reader_that_starts_again_at_once_costs_nothing(mysqld: Lab, tmp_path: Path) -> None:
    """The file at hand is the same one: it is read on, and no row is in doubt."""
    directory = data_directory(mysqld, REPLICA_1)
    with ExitStack() as stack:
        source = stack.enter_context(running(settings_of(mysqld, SOURCE_A)))
        with serving(directory) as (reader, _):
            of_reader = {"relay_log_dir": None, "relay_log_reader": reader_settings(reader.port)}
            settings = settings_of(mysqld, REPLICA_1).model_copy(update=of_reader)
            replica = stack.enter_context(running(settings))
            stack.enter_context(loaded(mysqld))
            replica.collect("before")
            source.collect("before")
        stack.enter_context(serving(directory, port=reader.port))
        replica.collect("after")
        source.collect("after")
        assert IS_READ_AGAIN in replica.notices
    result = audited(replica, source)
    assert ([], Verdict.CONSISTENT) == (result.findings, result.verdict), result.observations
    assert ON_RELAY_LOGS <= held(result, "after")
