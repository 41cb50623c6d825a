"""Where transactions are, held against simulated histories counted one by one."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from tallystick.coordinates.answers.diff import ERRANT_RULE, Kind, surplus
from tallystick.coordinates.answers.evidence import Evidence, InstanceEvidence
from tallystick.coordinates.answers.group_log import Group, GroupLog
from tallystick.coordinates.answers.newest import newest_of
from tallystick.coordinates.answers.position import Located, by_log, by_rows
from tallystick.coordinates.answers.where import State, where
from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.events.journal import BlockBuilder, RecordType, Stream
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.values.binlog import EventType
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.simulated_journal import OPENERS, files, groups, records

A, B, C, D = (f"{x * 8}-{x * 4}-{x * 4}-{x * 4}-{x * 12}" for x in "abcd")
FLEETS = (
    Scenario(seed=3, topology="pair"),
    Scenario(seed=5, topology="star", fault="errant_write", writes_per_second=20.0),
    Scenario(seed=8, topology="chain", writes_per_second=20.0),
    Scenario(seed=9, topology="multi_source"),
)
fleets = pytest.mark.parametrize("number", range(len(FLEETS)))


@functools.lru_cache(maxsize=1)
def played(number: int) -> tuple[dict, GroupLog, list[Cut], Evidence]:
    """A fleet as of a collection in the middle, so that its journal goes on after it."""
    history = simulate(FLEETS[number])
    log, blocks = GroupLog(), list(history.blocks(97))
    for block in blocks:
        log.absorb(block)
    audit = audit_history(blocks)
    ids = list(dict.fromkeys(cut.collection_id for cut in audit.cuts))
    cuts = [cut for cut in audit.cuts if cut.collection_id in ids[: len(ids) // 2 + 1]]
    made = Evidence(
        kind="journal", source="x", now_us=0, instances=newest_of(cuts, {}),
        incidents=audit.incidents, group_log=log,
    )  # fmt: skip
    return {name: records(block) for name, block in history.journals.items()}, log, cuts, made


def every_gtid(evidence: Evidence) -> GtidSet:
    found = GtidSet.EMPTY
    for one in evidence.instances.values():
        for known in (one.executed, one.logged, *one.retrieved.values()):
            found = found | (known or GtidSet.EMPTY)
    return found


def one_by_one(gtid: str, one: InstanceEvidence, logged_after: set[str]) -> State:
    """What the sets of a row say of one GTID, without a set of ours."""

    def has(known):
        return known is not None and gtid in known

    if has(one.executed):
        own = gtid.startswith(one.server_uuid)
        return State.PURGED if has(one.purged) else State.LOGGED if own else State.APPLIED
    if has(one.logged) or gtid in logged_after:
        return State.IN_LOG
    return State.RECEIVED if any(map(has, one.retrieved.values())) else State.LACKING


@fleets
def test_each_gtid_is_where_its_rows_and_journals_have_it(number):
    """Parts cut the question up without a rest, and are right of each GTID in them."""
    journals, log, _, evidence = played(number)
    asked = every_gtid(evidence) | GtidSet(
        (*record.gtid, record.gtid[1])
        for journal in journals.values()
        for record in journal
        if record.stream is Stream.BINLOG and record.type in OPENERS and record.gtid
    )
    parts = where(asked, evidence)
    assert sum(part.gtids.count() for part in parts) == asked.count()
    seen = set()
    for part in parts:
        assert part.is_decided
        uuid = next(iter(part.gtids))[0]
        holders = [n for n, one in evidence.instances.items() if one.server_uuid == uuid]
        assert part.origin == (holders[0] if holders else None)
        for place in part.places:
            one = evidence.instances[place.instance_id]
            assert place.happened == log.when(place.instance_id, None, part.gtids)
            seen_on = {n: log.when(place.instance_id, n, part.gtids) for n in one.retrieved}
            assert place.received == {n: times for n, times in seen_on.items() if times}
            after = {
                f"{r.gtid[0]}:{r.gtid[1]}" for r in journals[place.instance_id]
                if r.stream is Stream.BINLOG and r.type in OPENERS and r.gtid and r.ts > one.row.ts
            }  # fmt: skip
            for sid, first, last in part.gtids:
                for gno in {first, (first + last) // 2, last}:
                    gtid = f"{sid}:{gno}"
                    assert place.state is one_by_one(gtid, one, after), (place, gtid)
                    on = {n for n, known in one.retrieved.items() if gtid in known}
                    assert on == set(place.received_on)
            seen.add(place.state)
    assert {State.LOGGED, State.APPLIED, State.IN_LOG} <= seen


@fleets
def test_the_times_of_a_group_are_those_of_its_events(number):
    """In the binary log, and in the relay log of each channel."""
    journals, log, _, _ = played(number)
    for name, journal in journals.items():
        opened: dict = {}
        for record in journal:
            if record.type in OPENERS and record.gtid and record.stream in (1, 2):
                channel = record.channel if record.stream is Stream.RELAY else None
                opened.setdefault((channel, record.gtid), []).append(record.ts)
        assert opened
        for (channel, (sid, gno)), times in opened.items():
            seen = log.when(name, channel, GtidSet([(sid, gno, gno)]))
            assert seen == (min(times), max(times))


@fleets
def test_a_position_is_in_the_group_whose_events_are_there(number):
    """Inside of a group it is that one; the rows around a position know it among others."""
    journals, log, cuts, _ = played(number)
    narrowed = 0
    for name, journal in journals.items():
        rows = [cut for cut in cuts if cut.instance_id == name and cut.channel is None]
        for file, of_file in files(journal, Stream.BINLOG).items():
            for group in groups(of_file):
                first, last = group.events[0], group.events[-1]
                if group.gtid is None:
                    continue
                gtid = f"{group.gtid[0]}:{group.gtid[1]}"
                found = by_log(log, name, file, first.start + 1)
                assert (str(found.gtids), found.is_exact) == (gtid, True)
                assert gtid in by_log(log, name, file, first.start).gtids
                assert gtid in by_log(log, name, file, last.end).gtids
                located = by_rows(rows, file, first.start + 1)
                if located.gtids:
                    assert gtid in located.gtids
                    assert located.is_exact == (located.gtids.count() == 1)
                    narrowed += 1
                else:
                    assert not located.is_exact
    assert narrowed


@fleets
def test_where_no_group_is_the_files_that_have_some_are_named(number):
    """The first and the last one, each once."""
    journals, log, _, _ = played(number)
    for name, journal in journals.items():
        of_file = files(journal, Stream.BINLOG).items()
        names = sorted(file for file, its in of_file if any(one.type in OPENERS for one in its))
        text = by_log(log, name, "nowhere.000001", 4).text
        known = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        assert text == f"the journal has no group there; it has groups of {known}"


def builder() -> BlockBuilder:
    return BlockBuilder("a")


def log_group(
    made: BlockBuilder,
    start: int,
    gno: int,
    file: str = "b.000001",
    ts: int = 1,
    *,
    transaction_length: int = 100,
):
    made.log_event(Stream.BINLOG, EventType.GTID, file=file, start=start, length=50, ts=ts, sid=A,
                   gno=gno, transaction_length=transaction_length)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "body", "kept"),
    [
        (RecordType.BINLOG_RESET, {}, False),
        (RecordType.GAP, {}, False),
        (RecordType.GAP, {"channel": "x"}, True),
        (RecordType.START, {"data_lineage": "restored"}, False),
        (RecordType.START, {}, True),
        (RecordType.START, {"recovered": {"file": "b.000001", "position": 200}}, False),
        (RecordType.START, {"recovered": {"file": "b.000001", "position": 300}}, True),
        (RecordType.START, {"recovered": {"file": "b.000002", "position": 150}}, True),
    ],
)
def test_what_was_at_a_position_before_the_log_changed_is_not_there(kind, body, kept):
    """A log that begins anew, is cut by a crash, or that nobody followed."""
    log, made = GroupLog(), builder()
    log_group(made, 200, 1)
    made.server_record(kind, body, ts=2)
    log.absorb(made.build())
    assert log.at("a", "b.000001", 250) == ([Group(f"{A}:1", 200, 300)] if kept else [])


def test_a_group_whose_length_its_event_does_not_name_ends_where_the_next_one_begins():
    """As a server before MySQL 8.0.2 writes it; where the last one ends is not known."""
    log, made = GroupLog(), builder()
    for start in (100, 200):
        log_group(made, start, start, transaction_length=0)
    log.absorb(made.build())
    first, last = Group(f"{A}:100", 100, 200), Group(f"{A}:200", 200, -1)
    found = {position: log.at("a", "b.000001", position) for position in (100, 150, 200, 250)}
    assert found == {100: [first], 150: [first], 200: [first, last], 250: []}
    assert by_log(log, "a", "b.000001", 200).text == (
        f"a boundary of {A}:100, from 100 to 200 and {A}:200, from 200 to an end that is not known"
    )


def log_without_gtid() -> GroupLog:
    """Of a group with a GTID, and one without after it."""
    log, made = GroupLog(), builder()
    log_group(made, 200, 1)
    made.log_event(Stream.BINLOG, EventType.ANONYMOUS_GTID, file="b.000001", start=300, length=50,
                   ts=1, transaction_length=100)  # fmt: skip
    log.absorb(made.build())
    return log


def test_a_group_without_gtid_is_named_so():
    """Though the journal knows counters; and no GTID is made up for it."""
    log = log_without_gtid()
    found = by_log(log, "a", "b.000001", 350)
    assert found == Located(
        GtidSet.EMPTY, "inside of a group without GTID, from 300 to 400", is_exact=False
    )
    found = by_log(log, "a", "b.000001", 300)
    assert (str(found.gtids), found.is_exact) == (f"{A}:1", True)


def test_files_after_a_recovered_end_and_an_earlier_epoch_are_forgotten():
    """The crash took them; another epoch is another journal."""
    log, made = GroupLog(), builder()
    log_group(made, 200, 1)
    log_group(made, 200, 2, file="b.000002")
    log_group(made, 200, 3, file="another.000002")
    made.server_record(RecordType.START, {"recovered": {"file": "b.000001", "position": 900}}, ts=2)
    log.absorb(made.build())
    assert log.files_of("a") == ["another.000002", "b.000001"]
    others = BlockBuilder("b")
    log_group(others, 200, 1)
    log.absorb(others.build())
    later = BlockBuilder("a", epoch=1)
    log_group(later, 400, 3)
    log.absorb(later.build())
    assert not log.at("a", "b.000001", 250)
    last = BlockBuilder("a", epoch=1)
    log_group(last, 500, 4)
    log.absorb(last.build())
    assert log.at("a", "b.000001", 450) == [Group(f"{A}:3", 400, 500)]
    assert log.files_of("b") == ["b.000001"]


def test_what_is_logged_after_a_row_has_a_later_time():
    """The row itself has what is of its own time."""
    log, made = GroupLog(), builder()
    for gno in (1, 2, 3):
        log_group(made, 100 * gno, gno, ts=gno)
    log.absorb(made.build())
    assert str(log.logged_after("a", GtidSet.parse(f"{A}:1-9"), 2)) == f"{A}:3"


def test_what_is_written_again_replaces_what_was_there_and_after_it():
    """As after a crash that the journal does not name."""
    log, made = GroupLog(), builder()
    for start, gno in ((100, 1), (200, 2), (300, 3), (200, 4)):
        log_group(made, start, gno)
    log.absorb(made.build())
    assert log.at("a", "b.000001", 250) == [Group(f"{A}:4", 200, 300)]
    assert not log.at("a", "b.000001", 350)
    assert [one.gtid for one in log.at("a", "b.000001", 200)] == [f"{A}:1", f"{A}:4"]


# By hand


def row(name: str, uuid: str, executed: str | None, **values) -> Cut:
    return Cut(**{
        "collection_id": "c1", "instance_id": name, "scope": "instance", "ts": 10,
        "server_uuid": uuid, "gtid_executed": executed, "gtid_purged": "", **values,
    })  # fmt: skip


def channel(name: str, source: str, retrieved: str | None, **values) -> Cut:
    return Cut(**{
        "collection_id": "c1", "instance_id": name, "scope": "channel", "channel": "", "ts": 10,
        "source_uuid": source, "retrieved_gtid_set": retrieved, **values,
    })  # fmt: skip


def of(*cuts: Cut, **values) -> Evidence:
    made = {"kind": "job", "source": "x", "now_us": 20, "instances": newest_of(cuts, {}), **values}
    return Evidence(**made)


def test_what_is_not_known_is_not_lacking():
    """A row without a readable set, a channel without one, an instance without a row."""
    evidence = of(
        row("a", A, f"{A}:1-5"),
        row("b", B, f"{A}:1-3", gtid_purged=None), channel("b", A, f"{A}:1-4"),
        row("c", C, f"{A}:1-3"), channel("c", A, None),
        row("d", D, "nonsense"),
        row("e", D, None, answer="missing", error_text="'e' has not answered."),
    )  # fmt: skip
    parts = where(GtidSet.parse(f"{A}:1-6"), evidence)
    assert [str(part.gtids) for part in parts] == [f"{A}:1-3", f"{A}:4", f"{A}:5", f"{A}:6"]
    states = [[place.state.value for place in part.places] for part in parts]
    assert states == [
        ["logged", "applied", "applied", "unknown", "unknown"],
        ["logged", "received", "unknown", "unknown", "unknown"],
        ["logged", "lacking", "unknown", "unknown", "unknown"],
        ["lacking", "lacking", "unknown", "unknown", "unknown"],
    ]
    assert not any(part.is_decided for part in parts)
    assert [place.since_us for place in parts[0].places] == [10, 10, 10, 10, None]
    reasons = {place.instance_id: place.reason for place in parts[0].places}
    assert "gtid_purged" in reasons["b"]
    assert reasons["e"] == "'e' has not answered"
    assert "channel (default)" in parts[1].places[2].reason


def at_position(position: int | None, gtids: str | None, file: str = "b.000001") -> Cut:
    return row("a", A, None, binary_log_file=file, binary_log_position=position,
               journal_gtid_set=gtids)  # fmt: skip


ONE_LOG = [
    at_position(100, f"{A}:1"),
    at_position(None, f"{A}:1-2"),
    at_position(150, None),
    at_position(150, f"{A}:1-2", "no name"),
    at_position(200, f"{A}:1-3"),
    at_position(300, f"{A}:1-4"),
    at_position(400, f"{A}:1-4"),
]
MANY = "between the rows around it {} GTIDs were logged; a journal would show which"
NOTHING = "between the rows around it nothing with a GTID was logged"


@pytest.mark.parametrize("earlier", [[], [at_position(90, f"{A}:9")], [at_position(950, "")]])
@pytest.mark.parametrize(
    ("position", "gtids", "text", "is_exact"),
    [
        (100, "", "no row is known before it: the oldest is at b.000001:100", False),
        (101, f"{A}:2-3", MANY.format(2), False),
        (200, f"{A}:2-4", MANY.format(3), False),
        (250, f"{A}:4", f"between the rows around it only {A}:4 was logged", True),
        (350, "", NOTHING, False),
        (400, "", NOTHING, False),
        (401, "", "it is after the newest row, at b.000001:400", False),
    ],
)  # fmt: skip
def test_rows_around_a_position_know_what_was_logged_between(
    earlier, position, gtids, text, is_exact
):
    """A position of a row is a boundary: the group before it and the one after it are at it.

    Rows that do not say where, and those of a log that began anew later, bound nothing.
    """
    found = by_rows([*earlier, *ONE_LOG], "b.000001", position)
    assert found == Located(GtidSet.parse(gtids), text, is_exact=is_exact)


def test_rows_of_other_files_know_nothing_of_a_position():
    """Their names have another base."""
    text = "no row is known before it in files as c.000001"
    assert by_rows(ONE_LOG, "c.000001", 250) == Located(GtidSet.EMPTY, text, is_exact=False)


def test_what_is_purged_is_so_wherever_it_was_numbered():
    """All of it or part of it; what is not is logged by who numbered it and applied by others."""
    evidence = of(
        row("a", A, f"{A}:1-5", gtid_purged=f"{A}:1-2"),
        row("b", B, f"{A}:1-5", gtid_purged=f"{A}:1-3"),
    )
    parts = where(GtidSet.parse(f"{A}:1-5"), evidence)
    states = {str(part.gtids): [place.state.value for place in part.places] for part in parts}
    assert states == {
        f"{A}:1-2": ["purged", "purged"],
        f"{A}:3": ["logged", "purged"],
        f"{A}:4-5": ["logged", "applied"],
    }


def test_the_newest_row_is_that_of_the_newest_collection_whatever_the_clock_says():
    """By when collections were written; an instance that answers no more keeps its row."""
    early = row("a", A, f"{A}:1", ts=900)
    late = row("a", A, f"{A}:1-2", ts=100, collection_id="c2")
    gone = row("b", B, f"{A}:1", ts=50)
    missing = Cut(collection_id="c2", instance_id="b", scope="instance", ts=40, answer="missing",
                  error_text="'b' has not answered.")  # fmt: skip
    found = newest_of([late, early, gone, missing], {"c1": 1_000, "c2": 2_000})
    assert (found["a"].row, found["a"].since_us, found["a"].problem) == (late, 100, "")
    assert (found["b"].row, found["b"].problem) == (gone, "'b' has not answered")
    ahead = newest_of([replace(late, ts=10_000)], {"c2": 2_000})
    assert ahead["a"].since_us == 2_000  # a clock that is ahead makes nothing younger


def test_a_difference_has_its_origin_and_why():
    """Errant only where the audit says so; lagging where a source of the other has it."""
    fault = audit_history(simulate(FLEETS[1]).blocks(4096))
    [incident] = [one for one in fault.incidents if one.rule == ERRANT_RULE]
    # A rule's name as it is read from a table: equal, and not the same object.
    read = "".join(ERRANT_RULE)
    errant = replace(incident, rule=read, instance_id="b", witness=f"{B}:7")
    evidence = of(
        row("a", A, f"{A}:1-9", ts=12, gtid_purged=f"{A}:1-6"),
        row("b", B, f"{A}:1-5,{B}:7-8"), channel("b", A, f"{A}:4-7"),
        incidents=[errant],
    )  # fmt: skip
    lag, extra = surplus("a", "b", evidence), surplus("b", "a", evidence)
    [part] = lag.parts
    assert part.reason == "b has received it, or replicates from who has it: a"
    assert (str(part.gtids), part.kind, part.origin) == (f"{A}:6-9", Kind.LAGGING, "a")
    assert (str(part.received), str(part.purged)) == (f"{A}:6-7", f"{A}:6")
    assert [(str(p.gtids), p.kind, p.origin) for p in extra.parts] == [
        (f"{B}:7", Kind.ERRANT, "b"), (f"{B}:8", Kind.NOT_KNOWN, "b"),
    ]  # fmt: skip
    over = replace(evidence, incidents=[replace(errant, state="resolved")])
    assert {part.kind for part in surplus("b", "a", over).parts} == {Kind.NOT_KNOWN}
    assert ERRANT_RULE in RULES


@pytest.mark.parametrize(
    ("ts", "text"),
    [
        (11, "a numbered it: since its row, which is the older one, or it has lost it"),
        (10, "a numbered it, and its row, which is not the older one, does not have it"),
        (9, "a numbered it, and its row, which is not the older one, does not have it"),
    ],
)
def test_who_numbered_it_and_lacks_it_is_not_called_lagging(ts, text):
    """Its row, of the time 10, may be the older one."""
    evidence = of(row("a", A, f"{A}:1-3"), row("b", B, f"{A}:1-4", ts=ts), channel("b", A, ""))
    [part] = surplus("b", "a", evidence).parts
    assert (part.kind, part.reason) == (Kind.NOT_KNOWN, text)


@pytest.mark.parametrize(
    ("channels", "why"),
    [
        ([], "b has no channel by which it could come"),
        ([channel("b", D, "")], "none of the known sources of b has executed it"),
    ],
)
def test_what_nobody_is_known_to_send_is_not_called_lagging(channels, why):
    """By no channel, or from sources that are not known."""
    evidence = of(row("a", A, f"{A}:1-3"), row("b", B, ""), *channels)
    [part] = surplus("a", "b", evidence).parts
    reason = f"{why}, and the audit has not found it errant"
    assert (part.kind, part.reason) == (Kind.NOT_KNOWN, reason)


def test_what_was_received_from_who_is_not_known_is_lagging():
    """Its channel has it."""
    evidence = of(row("a", A, f"{A}:1-3"), row("b", B, ""), channel("b", D, f"{A}:1-3"))
    [part] = surplus("a", "b", evidence).parts
    assert part.kind is Kind.LAGGING
    assert part.reason == "b has received it, or replicates from who has it: its source"


def test_a_difference_from_a_set_that_is_not_known_is_not_known():
    """Neither way."""
    missing = row("c", C, None, answer="missing", error_text="'c' has not answered.")
    empty = row("d", D, None, answer="empty")
    for cut, why in (
        (missing, "c: 'c' has not answered"),
        (empty, "d: its answer to collection 'c1' is empty"),
        (channel("b", A, ""), "b: no row of it is known"),
    ):
        found = surplus(cut.instance_id, "a", of(cut, row("a", A, f"{A}:1")))
        assert (found.gtids, found.reason) == (None, why)
    evidence = of(row("a", A, None), row("b", B, f"{A}:1-4"))
    for names in (("a", "b"), ("b", "a")):
        found = surplus(*names, evidence)
        assert (found.gtids, found.parts) == (None, ())
        assert "a: gtid_executed is not known" in found.reason


BY_POSITION = "channel (default) of b does not ask by GTID set (SOURCE_AUTO_POSITION)"


@pytest.mark.parametrize(
    ("cuts", "why"),
    [
        ([row("b", B, f"{A}:1-3"), channel("b", A, "", auto_position=False)], BY_POSITION),
        ([row("b", B, "")], "gtid_executed of b is empty, as with gtid_mode=OFF"),
        ([row("b", B, ""), channel("b", A, "", auto_position=True)], ""),
        ([row("b", B, f"{A}:1-3")], ""),
    ],
)
def test_sets_do_not_show_what_was_executed_without_gtids(cuts, why):
    """Both ways: equal sets say nothing of it."""
    evidence = of(row("a", A, f"{A}:1-3"), *cuts)
    for found in (surplus("a", "b", evidence), surplus("b", "a", evidence)):
        assert (found.unshown, found.is_decided) == (why, not why)


def test_a_log_with_groups_without_gtids_makes_sets_incomplete():
    """Of whichever of the two."""
    rows = row("a", A, f"{A}:1-3"), row("b", B, f"{A}:1-3")
    evidence = of(*rows, group_log=log_without_gtid())
    assert surplus("b", "a", evidence).unshown == "a has logged transactions without GTIDs"


@fleets
def test_differences_are_the_sets(number):
    """Both ways, of each pair; parts are the whole without overlap."""
    _, _, _, evidence = played(number)
    for one in evidence.instances:
        for other in evidence.instances:
            found = surplus(one, other, evidence)
            here, there = (evidence.instances[name].executed for name in (one, other))
            assert found.gtids == here - there
            together = GtidSet.EMPTY
            for part in found.parts:
                assert together.isdisjoint(part.gtids)
                together = together | part.gtids
            assert together == found.gtids
