"""State of a stopped job, damaged on disk: named in one sentence; a rebuild finds it all again."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from streaming_journals import history, make_topics, produce, send_raw
from test_pipeline import BLOCKS, EXPECTED, run
from test_table_damage import flip

from tallystick.coordinates.events.incident_control import (
    ControlAction,
    IncidentControl,
    encode_control,
)
from tallystick.coordinates.results import IncidentState, ObservationCode
from tallystick.coordinates.rules.observations import BEGINNING_LOST
from tallystick.runs.rebuild import earlier_findings, set_aside
from tallystick.streaming import table_reader
from tallystick.streaming.errors import CheckpointError, QueryError, TableError
from tallystick.streaming.runner import JobSettings


def settings_of(broker, directory: Path, topics: dict[str, str]) -> JobSettings:
    return JobSettings(
        broker.bootstrap_servers,
        directory / "checkpoint",
        directory / "tables",
        available_now=True,
        **topics,
    )


def damage(path: Path) -> bytes:
    """Change a bit of a file; returns what it was."""
    whole = path.read_bytes()
    flip(path, Random(path.name).randrange(8 * len(whole)))
    return whole


def test_what_is_damaged_is_named_and_a_rebuild_finds_the_same(spark, broker, tmp_path):
    """Each kind of file in turn; then findings and incidents by id, and what was acknowledged."""
    topics = make_topics(broker.bootstrap_servers)
    produce(broker.bootstrap_servers, topics["journal_topic"], BLOCKS, 200)
    settings = settings_of(broker, tmp_path, topics)
    run(spark, settings)
    before = table_reader.read_incidents(tmp_path / "tables")
    [one, *_] = (one for one in before if one.is_open)
    known = IncidentControl(ControlAction.ACK, one.incident_id, "dba", "known", 10**18)
    send_raw(broker.bootstrap_servers, topics["control_topic"], None, encode_control(known))
    produce(
        broker.bootstrap_servers,
        topics["journal_topic"],
        [history("d", 2, broken=frozenset())],
        200,
    )
    [data] = {*(tmp_path / "tables" / "findings").glob("*.parquet")}
    named = [
        (tmp_path / "checkpoint" / "layout.json", CheckpointError),
        (tmp_path / "checkpoint" / "auditor" / "offsets" / "0", CheckpointError),
        (tmp_path / "checkpoint" / "auditor" / "metadata", CheckpointError),
        (tmp_path / "tables" / "cuts" / "_delta_log" / f"{1:020d}.json", TableError),
        (data, TableError),
        *((path, QueryError) for path in (tmp_path / "checkpoint").glob("auditor/state/0/*/1.zip")),
    ]
    for path, kind in named:
        whole = damage(path)
        with pytest.raises(kind, match=f"{path.name}' is damaged.*To fix: make") as caught:
            run(spark, settings)
        assert "\n" not in str(caught.value)
        path.write_bytes(whole)
    damage(tmp_path / "checkpoint" / "fleet" / "000000000000.state")
    metrics = run(spark, settings)
    assert 1 == metrics["states_unreadable"]
    [seen] = (
        found
        for found in table_reader.observations_of(
            table_reader.read_observations(tmp_path / "tables")
        )
        if found.code is ObservationCode.STATE_UNREADABLE
    )
    assert str(tmp_path / "checkpoint" / "fleet") in str(seen.data["error"])
    target = set_aside(tmp_path)
    assert earlier_findings(target) == EXPECTED
    run(spark, settings)
    assert table_reader.read_findings(tmp_path / "tables") == EXPECTED
    after = {one.incident_id: one for one in table_reader.read_incidents(tmp_path / "tables")}
    assert {one.incident_id for one in before} == after.keys()
    assert after[one.incident_id].state is IncidentState.ACKNOWLEDGED
    assert BEGINNING_LOST.code not in reasons(tmp_path)


def reasons(directory: Path) -> set[str]:
    rows = table_reader.read_observations(directory / "tables")
    return {seen.reason for seen in table_reader.observations_of(rows) if seen.is_undecided}


def test_a_rebuild_of_a_journal_that_lost_its_beginning_is_undecided(spark, broker, tmp_path):
    """Retention has removed what was judged before: it is said where the journal begins now."""
    servers = broker.bootstrap_servers
    topics = make_topics(servers, partitions=1)
    produce(servers, topics["journal_topic"], BLOCKS, 200)
    settings = settings_of(broker, tmp_path, topics)
    run(spark, settings)
    delete_before(servers, topics["journal_topic"], 2)
    set_aside(tmp_path)
    run(spark, settings)
    assert BEGINNING_LOST.code in reasons(tmp_path)
    found = {one.finding_id for one in table_reader.read_findings(tmp_path / "tables")}
    assert found <= {one.finding_id for one in EXPECTED}


def delete_before(servers: str, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        assert deleted.result(30).low_watermark == offset
