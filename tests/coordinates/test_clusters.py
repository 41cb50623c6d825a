"""Instances are compared with those of their own cluster, whatever else is in the journal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.fleet_events import FleetEvent, FleetEventKind
from tallystick.coordinates.audit.homes import Homes
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.audit.topology import describe_source, source_key
from tallystick.coordinates.events.block_codec import block_headers, decode_block, encode_block
from tallystick.coordinates.events.journal import (
    Block,
    BlockBuilder,
    RecordType,
    concatenate,
    cut_into_blocks,
)
from tallystick.coordinates.events.json_lines import JsonLinesError, blocks_from_lines
from tallystick.coordinates.events.json_lines_writer import block_to_lines
from tallystick.coordinates.results import Check, Observation, Outcome, SubjectCheck, Verdict
from tallystick.coordinates.rules.between import NOT_IN_FLEET
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.coordinates.values.errors import BlockError, JournalError
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.journals import UUID_A, UUID_B, Journal

SOURCE, REPLICA = "source-a", "replica-a1"


def journals(fault: str | None = None, **homes: str) -> list[Block]:
    """A source and a replica, each labelled as asked."""
    fleet = simulate(Scenario(seed=1, topology="pair", fault=fault)).journals
    labels = {name: homes.get(name[:1], "") for name in fleet}
    return [replace(journal, cluster=labels[name]) for name, journal in fleet.items()]


def of_reason(observations: list[Observation], reason: str) -> list[Observation]:
    return [one for one in observations if one.reason == reason]


@pytest.mark.parametrize("home", ["east", "west", ""])
def test_a_source_in_another_cluster_is_named(home):
    """Nothing is found against it, and nothing is consistent without it."""
    result = audit_history(journals("errant_write", s="east", r=home))
    found = {finding.rule for finding in result.findings}
    assert ("no_errant_gtids" in found) == (home == "east")
    named = of_reason(result.observations, "source_in_another_cluster")
    checks = [o for o in result.checks if o.check.reason == "source_in_another_cluster"]
    assert bool(named) == bool(checks) == (home != "east")
    assert not of_reason(result.observations, "source_not_in_fleet")
    if home != "east":
        assert {REPLICA} == {one.instance_id for one in (*named, *checks)}
        assert "is instance source-a of cluster east" in observation_text(named[0])
        assert result.verdict is Verdict.UNDECIDED


def test_a_source_that_is_named_as_an_instance_is_named_once():
    """A restore names it so."""
    source = Journal("s").begin()
    restored = Journal("r", UUID_B, 2)
    restored.ts = source.ts
    restored.start(data_lineage="restored", cluster="west")
    source.records[0]["cluster"] = "east"
    restored.record("backup", step="restore", backup_id="monday", peer="s", gtid_executed="")
    lines = [*source.lines(), *restored.lines()]
    result = audit_history(blocks_from_lines(lines, end_heartbeats=True))
    [named] = of_reason(result.observations, "source_in_another_cluster")
    assert "the source is instance s of cluster east, and instances of" in observation_text(named)


def test_a_source_that_nobody_observes_is_none_of_another_cluster():
    """The replica alone, beside a fleet that has nothing to do with it."""
    [_, replica] = journals(s="east", r="west")
    result = audit_history([replica])
    assert of_reason(result.observations, "source_not_in_fleet")
    assert not of_reason(result.observations, "source_in_another_cluster")


@pytest.mark.parametrize("at", [0.2, 0.5, 0.9])
def test_whose_label_changes_begins_anew_and_nothing_false_is_found(at):
    """It is undecided there; at home it is no member any more, so nobody waits for its end."""
    for mover in (SOURCE, REPLICA):
        fleet = journals(s="east", r="east")
        blocks = []
        for journal in fleet:
            middle = int(at * len(journal))
            rest = journal.take(middle, len(journal))
            is_mover = journal.instance_id == mover
            blocks += [journal.take(0, middle), replace(rest, cluster="west") if is_mover else rest]
        result = audit_history(blocks)
        assert not result.findings
        [changed] = of_reason(result.observations, "journal_cluster_changed")
        assert (changed.instance_id, changed.is_undecided) == (mover, True)
        assert "named cluster east and names cluster west" in observation_text(changed)
        assert result.verdict is Verdict.UNDECIDED
        assert result.instances == sorted((SOURCE, REPLICA))
        assert [(edge.replica, edge.source) for edge in result.topology] == [(REPLICA, None)]


def test_who_comes_back_is_away_from_where_it_was():
    """Each change is reported; a first label is none."""
    homes = Homes()
    reported = [len(list(homes.enter("a", cluster))) for cluster in ("", "", "east", "", "west")]
    assert reported == [0, 0, 1, 1, 1]
    assert list(homes.enter("b", "east")) == []
    assert homes.away() == {"a": "west"}
    again = Homes()
    again.restore(homes.to_bytes())
    assert again.away() == homes.away()
    homes.forget("a")
    assert homes.away() == {}


def whose(homes: Homes, server_uuid: str) -> object:
    """Which instance of another cluster a source with this server_uuid is, as far as known."""
    data = {"source": describe_source(source_key(None, server_uuid))}
    check = Check("no_errant_gtids", Outcome.UNDECIDED, NOT_IN_FLEET.code, data)
    _, [told] = homes.name_sources([], [SubjectCheck("b", None, "c1", 1, check)])
    return told.check.data.get("other")


def test_a_cluster_is_the_same_after_the_state_was_saved() -> None:
    """Nobody has moved, and who is in it is not elsewhere."""
    homes, again = Homes(), Homes()
    assert list(homes.enter("b", "east")) == []
    again.restore(homes.to_bytes())
    assert [*again.enter("b", "east"), *again.enter("c", "east")] == []
    boot = {"server_uuid": UUID_A, "cluster": "east"}
    again.identify_all([], [FleetEvent(FleetEventKind.BOOT, "c", 0, 0, 1, boot, {})])
    assert whose(again, UUID_A) is None


@pytest.mark.parametrize("by", ["start", "row"])
def test_what_an_instance_is_was_shown_last(by):
    """What a record leaves out stays; an instance whose journal is not there is none."""
    homes = Homes()
    assert [] == [*homes.enter("a", ""), *homes.enter("b", "east")]
    for server_uuid, label, label_shown, owners in (
        (UUID_A, "west", "west", ["a", None]),
        (None, None, "west", ["a", None]),
        (UUID_B, "north", "north", [None, "a"]),
    ):
        events: list[FleetEvent] = []
        cuts: list[Cut] = []
        for name in ("a", "unknown"):
            if by == "start":
                body = {"server_uuid": server_uuid, "cluster": label}
                events.append(FleetEvent(FleetEventKind.BOOT, name, 0, 0, 1, body, {}))
            else:
                row = {"collection_id": "c1", "instance_id": name, "scope": "instance"}
                cuts.append(Cut(**row, server_uuid=server_uuid, cluster=label))
        homes.identify_all(cuts, events)
        assert homes.labels() == {"a": label_shown, "b": "east"}
        assert [whose(homes, one) for one in (UUID_A, UUID_B)] == owners


def test_the_label_of_a_journal_counts_more_than_that_of_a_start():
    """Rows are shown with it, and members of one cluster count as such."""
    fleet = simulate(Scenario(seed=1, topology="pair")).journals.values()
    result = audit_history(replace(journal, cluster="east") for journal in fleet)
    assert {"east"} == {cut.cluster for cut in result.cuts}
    unlabelled = audit_history(replace(journal, cluster="") for journal in fleet)
    assert {"simulated"} == {cut.cluster for cut in unlabelled.cuts}


def test_a_label_is_part_of_a_block():
    """In its metadata and in its message's headers, which must agree."""
    block = journals(s="east", r="east")[0].take(0, 20)
    headers = block_headers(block)
    assert ("cluster", b"east") in headers
    assert decode_block(encode_block(block), headers=headers).cluster == "east"
    assert [one.cluster for one in cut_into_blocks(block, 7)] == ["east"] * 3
    assert concatenate(cut_into_blocks(block, 7)).cluster == "east"
    without = [header for header in headers if header[0] != "cluster"]
    with pytest.raises(BlockError, match="without the header 'cluster'"):
        decode_block(encode_block(block), headers=without)
    with pytest.raises(BlockError, match="header 'cluster' is b'west': its block has b'east'"):
        decode_block(encode_block(block), headers=[*without, ("cluster", b"west")])
    bare = replace(block, cluster="")
    with pytest.raises(BlockError, match="header 'cluster' is b'west': its block has none"):
        decode_block(encode_block(bare), headers=[*block_headers(bare), ("cluster", b"west")])
    with pytest.raises(BlockError, match="a block of cluster"):
        decode_block(encode_block(replace(block, cluster="a\nb")))
    with pytest.raises(JournalError, match="cluster 'east'"):
        concatenate([block.take(0, 5), replace(block.take(5, 9), cluster="west")])


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_label_is_written_and_read_as_lines(size):
    """It counts from its line on, whichever record that is, and however blocks are cut."""
    [block, _] = journals(s="east", r="")
    block = replace(block.take(0, 60))
    lines = [line for part in cut_into_blocks(block, 13) for line in block_to_lines(part)]
    assert "cluster" in json.loads(lines[0])
    read = concatenate(list(blocks_from_lines(lines, block_size=size)))
    assert (read.cluster, len(read)) == ("east", 60)
    [other] = blocks_from_lines(block_to_lines(replace(block, cluster="")))
    assert other.cluster == "simulated", "the start's own, for the records before it as well"


@pytest.mark.parametrize("starts_at", [0, 1, 2])
def test_a_label_is_in_the_first_line_once(starts_at):
    """A start that is the first names it by itself, one after it is too late."""
    builder = BlockBuilder("a", cluster="east")
    for number in range(3):
        if number == starts_at:
            builder.server_record(RecordType.START, {"server_uuid": UUID_A}, ts=number)
        else:
            builder.server_record(RecordType.HEARTBEAT, {}, ts=number)
    assert next(block_to_lines(builder.build())).count('"cluster":"east"') == 1


def test_a_label_that_changes_within_lines_ends_a_block():
    """Records before the change keep the old one."""
    one = {"kind": "heartbeat", "instance": "a"}
    labels = ("east", None, "west", None)
    lines = [json.dumps({**one, "cluster": label} if label else one) for label in labels]
    blocks = list(blocks_from_lines(lines))
    assert [(block.cluster, len(block)) for block in blocks] == [("east", 2), ("west", 2)]
    with pytest.raises(JsonLinesError, match="line 1, key 'cluster': expected 1 to 255 bytes"):
        list(blocks_from_lines([json.dumps({**one, "cluster": "x" * 256})]))
