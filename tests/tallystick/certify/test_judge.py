"""Coordinates of backups against journals: what is true is TRUE, what is not never is."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.certify.backup import Backup, RedoRange, ReplicaPosition, Said
from tallystick.certify.history import histories_of
from tallystick.certify.judge import Truth, judge
from tallystick.certify.statements import start_statements
from tallystick.coordinates.events.journal import RecordType, Stream
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.gtid import GtidSet
from tallystick.producers.simulator.assemble import simulate
from tallystick.producers.simulator.kernel.scenario import Scenario
from tests.support.journals import UUID_A, UUID_B, UUID_C, Gtids, Journal, read_gtids
from tests.support.simulated_journal import bodies_of, files, groups, records


def made(*journals):
    return histories_of(blocks_from_lines(line for one in journals for line in one.lines()))


def backup(position=None, gtids=None, *, lsns=None, trails=False, uuid=None, replica=()):
    """A backup as one file has it."""
    at = None if position is None else LogCoordinates.of_file(*position)
    sets = None if gtids is None else GtidSet.parse(str(gtids))
    redo = None if lsns is None else RedoRange(*lsns)
    said = Said("backup", at, sets, tuple(replica), redo, uuid)
    return Backup("backup", (said,), set_may_trail=trails)


def server_of(found, journals):
    """The one server that there is has to be named where the backup does not show it."""
    return journals[0].instance if len(journals) == 1 and not found.gtids else None


def truth(found, *journals, instance=None):
    return judge(found, made(*journals), instance or server_of(found, journals)).truth


def broken(found, *journals):
    judged = judge(found, made(*journals), server_of(found, journals))
    return [check.name for check in judged.checks if check.outcome is Outcome.BROKEN]


def undecided(found, *journals, instance=None):
    judged = judge(found, made(*journals), instance or server_of(found, journals))
    assert judged.truth is Truth.UNDECIDED
    return [check.sentence for check in judged.checks if check.outcome is Outcome.UNDECIDED]


def server(second=2):
    """A server, and all its group boundaries with what it had executed there, in two files."""
    journal = Journal().begin()
    journal.row()
    boundaries = [(journal.binlog.coordinates, "")]
    for number in range(1, 9):
        journal.groups(1, form="ddl" if number % 3 else "rows")
        boundaries.append((journal.binlog.coordinates, str(journal.binlog.gtids)))
        if number == 4:
            journal.binlog.rotate(second)
            boundaries.append((journal.binlog.coordinates, str(journal.binlog.gtids)))
            journal.row()
    journal.row()
    return journal, boundaries


@pytest.mark.parametrize("second", [2, 7])
def test_every_boundary_is_true(second):
    """With the set, without it, and the set alone; the beginning of a file is one."""
    journal, boundaries = server(second)
    for position, gtids in boundaries:
        assert truth(backup(position, gtids), journal) is Truth.TRUE
        assert truth(backup(position), journal) is Truth.TRUE
        assert truth(backup(None, gtids), journal) is Truth.TRUE
    first = (f"binlog.{second:06d}", 4)
    assert truth(backup(first, boundaries[4][1]), journal) is Truth.TRUE


def test_no_other_position_is_true():
    """Every byte of both files that is no boundary."""
    journal, boundaries = server()
    histories = made(journal)
    right = {position for position, _ in boundaries} | {("binlog.000001", 4), ("binlog.000002", 4)}
    ends = {"binlog.000001": boundaries[4][0][1], "binlog.000002": boundaries[-1][0][1]}
    for file, end in ends.items():
        for position in range(end):
            if (file, position) in right:
                continue
            found = judge(backup((file, position)), histories, "a").truth
            assert found is (Truth.UNDECIDED if position == 126 else Truth.FALSE), position


def test_a_set_of_another_position_is_false():
    """The set of the boundary before or after, and sets with one GTID more or less."""
    journal, boundaries = server()
    for (position, gtids), (_, after) in itertools.pairwise(boundaries):
        if gtids != after:
            assert truth(backup(position, after), journal) is Truth.FALSE
        if gtids:
            assert truth(backup(position, ""), journal) is Truth.FALSE
        more = ",".join(filter(None, (gtids, f"{UUID_B}:7")))
        assert truth(backup(position, more), journal) is Truth.FALSE


def test_a_set_alone_is_of_one_moment():
    """One with a hole is of none; what the journal never had is newer, or wrong."""
    journal, _ = server()
    assert broken(backup(None, f"{UUID_A}:1-3:5"), journal) == ["set_is_what_was_logged"]
    (sentence,) = undecided(backup(None, f"{UUID_A}:1-9"), journal)
    assert "newer, or wrong" in sentence
    (sentence,) = undecided(backup(None, f"{UUID_A}:1-3,{UUID_B}:1"), journal)
    assert f"has {UUID_B}:1" in sentence
    (sentence,) = undecided(backup(None, f"{UUID_A}:1-2:4-9"), journal)
    assert f"has {UUID_A}:9, which the journal does not have, and lacks {UUID_A}:3" in sentence
    for row in journal.records:
        row.pop("gtid_purged", None)
    (sentence,) = undecided(backup(None, f"{UUID_A}:1-3"), journal)
    assert "gtid_purged was not read" in sentence


def test_what_was_purged_belongs_to_the_set():
    """A restored server has executed what its log never had."""
    journal = Journal()
    journal.purged = f"{UUID_B}:1-9"
    journal.begin()
    journal.executed = read_gtids(journal.purged)
    journal.groups(2)
    at = journal.binlog.coordinates
    own = str(journal.binlog.gtids)
    journal.groups(1).row()
    assert truth(backup(at, f"{own},{UUID_B}:1-9"), journal) is Truth.TRUE
    for gtids, named in (
        (f"{own},{UUID_B}:1-7", f"lacks {UUID_B}:8-9, executed before"),
        (f"{own},{UUID_B}:1-10", f"has {UUID_B}:10, neither logged"),
        (f"{UUID_A}:1,{UUID_B}:1-9", f"lacks {UUID_A}:2, logged up to"),
        (f"{UUID_A}:1-3,{UUID_B}:1-9", f"has {UUID_A}:3, logged after"),
    ):
        judged = judge(backup(at, gtids), made(journal), None)
        assert judged.truth is Truth.FALSE
        assert [named in check.sentence for check in judged.checks] == [False, True]
    # Nobody has read gtid_purged.
    del journal.records[-1]["gtid_purged"]
    (sentence,) = undecided(backup(at, f"{own},{UUID_B}:1-9"), journal)
    assert "gtid_purged" in sentence


def test_what_was_set_meanwhile_belongs_to_what_follows():
    """SET gtid_purged after a position is no part of what was executed there."""
    journal = Journal().begin()
    journal.row()
    journal.groups(1)
    before = journal.binlog.coordinates
    journal.record("gtid_purged", added=f"{UUID_B}:1-3")
    journal.groups(1)
    after = journal.binlog.coordinates
    journal.purged = f"{UUID_B}:1-3"
    journal.row()
    assert truth(backup(before, f"{UUID_A}:1"), journal) is Truth.TRUE
    assert truth(backup(before, f"{UUID_A}:1,{UUID_B}:1-3"), journal) is Truth.FALSE
    assert truth(backup(after, f"{UUID_A}:1-2,{UUID_B}:1-3"), journal) is Truth.TRUE
    assert truth(backup(after, f"{UUID_A}:1-2"), journal) is Truth.FALSE


def test_what_may_be_committing_is_undecided():
    """Where the tool reads beside commits; never a hole, nor more than can be in flight."""
    journal = Journal(max_connections=2, replica_parallel_workers=0, binlog_order_commits=True)
    journal.begin()
    journal.row()
    journal.groups(5)
    at = journal.binlog.coordinates
    journal.row()
    lacking = {f"{UUID_A}:1-4": True, f"{UUID_A}:1-3": True, f"{UUID_A}:1-2": False}
    for gtids, may_be in {**lacking, f"{UUID_A}:1-3:5": False}.items():
        expected = Truth.UNDECIDED if may_be else Truth.FALSE
        assert truth(backup(at, gtids, trails=True), journal) is expected
        assert truth(backup(at, gtids), journal) is Truth.FALSE
    # Where commits are not ordered, of those in flight any may be missing.
    journal.records[0]["variables"] = journal.variables | {"binlog_order_commits": False}
    lacking = {f"{UUID_A}:1-3:5": True, f"{UUID_A}:1-2:4-5": False, f"{UUID_A}:1-2": False}
    for gtids, may_be in lacking.items():
        expected = Truth.UNDECIDED if may_be else Truth.FALSE
        assert truth(backup(at, gtids, trails=True), journal) is expected


def test_what_may_be_committing_may_be_of_several_files():
    """In the order of the files."""
    journal = Journal(max_connections=3, replica_parallel_workers=0, binlog_order_commits=True)
    journal.begin()
    journal.row()
    for count in (3, 1, 1):
        if count == 1:
            journal.binlog.rotate()
        journal.groups(count)
    at = journal.binlog.coordinates
    journal.row()
    in_flight = {"1-4": True, "1-3": True, "1-2": True, "1": False, "1-3:5": False}
    for gtids, may_be in in_flight.items():
        expected = Truth.UNDECIDED if may_be else Truth.FALSE
        assert truth(backup(at, f"{UUID_A}:{gtids}", trails=True), journal) is expected


def test_where_the_journal_does_not_reach():
    """Before it, after it, in a gap of it, and of another log."""
    journal = Journal()
    journal.start()
    journal.binlog.open(3, previous=f"{UUID_A}:1-10")
    journal.used.add(f"{UUID_A}:10")
    journal.executed = read_gtids(f"{UUID_A}:1-10")
    journal.row(gtid_purged=f"{UUID_A}:1-10")
    journal.groups(3)
    inside = journal.binlog.coordinates
    journal.groups(3).row(gtid_purged=f"{UUID_A}:1-10")
    assert truth(backup(inside, f"{UUID_A}:1-13"), journal) is Truth.TRUE
    for position in (("binlog.000002", 157), ("binlog.000004", 157), ("other.000003", 157)):
        (sentence,) = undecided(backup(position), journal)
        assert "has nothing of" in sentence
    (sentence,) = undecided(backup((inside[0], 99_999)), journal)
    assert "up to binlog.000003:" in sentence
    found = judge(backup(inside), made(journal), None)
    assert found.truth is Truth.UNDECIDED
    assert "name it with --instance" in found.checks[0].sentence


def test_a_gap_hides_what_was_logged():
    """A position after it may end a group, but what was logged up to there is not known."""
    journal = Journal().begin()
    journal.row()
    journal.groups(2)
    before = journal.binlog.coordinates
    journal.groups(1)
    del journal.records[-5:]
    journal.record("gap")
    journal.groups(2)
    after = journal.binlog.coordinates
    journal.row()
    (sentence,) = undecided(backup(before), journal)
    assert "gap" in sentence
    assert undecided(backup(after, f"{UUID_A}:1-5"), journal)
    assert undecided(backup((before[0], before[1] + 50)), journal)


@pytest.mark.parametrize("recovered", [True, False])
def test_what_a_crash_took_back_is_not_true(recovered):
    """Neither where the journal has it, nor where it does not say what recovery found."""
    journal = Journal().begin()
    journal.row()
    journal.groups(2)
    kept = journal.binlog.coordinates
    journal.groups(1)
    lost = journal.binlog.coordinates
    found = {"recovered": {"file": kept[0], "position": kept[1]}} if recovered else {}
    journal.start(crashed=True, **found)
    assert truth(backup(kept), journal) is Truth.UNDECIDED
    assert truth(backup(lost), journal) is Truth.UNDECIDED
    journal.binlog.gtids.remove(f"{UUID_A}:3")
    journal.binlog.open(2)
    journal.groups(1).row()
    assert truth(backup(kept, f"{UUID_A}:1-2"), journal) is Truth.TRUE
    assert truth(backup(lost), journal) is (Truth.FALSE if recovered else Truth.UNDECIDED)


def test_a_log_that_began_anew():
    """What is of the log before starts nothing any more; what holds in neither is false."""
    journal = Journal().begin()
    journal.groups(3).row()
    old = journal.binlog.coordinates
    journal.record("binlog_reset")
    journal.binlog.gtids = type(journal.binlog.gtids)()
    journal.executed = type(journal.executed)()
    journal.used = type(journal.used)()
    journal.binlog.open(1)
    assert truth(backup(old, f"{UUID_A}:1-3"), journal) is Truth.UNDECIDED
    journal.groups(1, form="ddl")
    new = journal.binlog.coordinates
    journal.groups(5).row()
    assert truth(backup(new, f"{UUID_A}:1"), journal) is Truth.TRUE
    assert truth(backup(old, f"{UUID_A}:1-3"), journal) is Truth.UNDECIDED
    assert truth(backup((old[0], 200)), journal) is Truth.FALSE
    # The newest log decides; the one that ended cannot make it true.
    journal.record("binlog_reset")
    journal.binlog.open(1)
    (sentence,) = undecided(backup(("binlog.000001", 157), ""), journal)[:1]
    assert sentence


@pytest.mark.parametrize("has_reset", [True, False])
def test_a_file_that_ended_with_its_log_starts_nothing(has_reset):
    """RESET deletes every file; one that only has another name before it stays."""
    journal = Journal().begin()
    journal.row()
    journal.groups(1).binlog.rotate()
    journal.groups(1)
    at = journal.binlog.coordinates
    journal.groups(1).row()
    assert truth(backup(at, f"{UUID_A}:1-2"), journal) is Truth.TRUE
    if has_reset:
        journal.record("binlog_reset")
        journal.binlog.gtids, journal.used, journal.executed = Gtids(), Gtids(), Gtids()
    else:
        journal.binlog.stop()
        journal.start()
        journal.binlog.base_name = "renamed"
    journal.binlog.open(1)
    journal.groups(1).row()
    if has_reset:
        (sentence,) = undecided(backup(at, f"{UUID_A}:1-2"), journal)
        assert "has begun anew since" in sentence
    else:
        assert truth(backup(at, f"{UUID_A}:1-2"), journal) is Truth.TRUE


def two_servers():
    a = Journal("a", UUID_A, 1).begin()
    b = Journal("b", UUID_B, 2).begin()
    a.groups(2).row()
    b.groups(2).row()
    return a, b


def test_which_server_it_is_of():
    """By its UUID, by a set that fits one of them, by name; a position alone may be of either."""
    a, b = two_servers()
    at = a.binlog.coordinates
    assert undecided(backup(at), a, b)
    assert judge(backup(at, f"{UUID_A}:1-2"), made(a, b), None).instance_id == "a"
    assert truth(backup(at), a, b, instance="b") is Truth.TRUE
    assert judge(backup(at, uuid=UUID_B), made(a, b), None).instance_id == "b"
    assert truth(backup(at, uuid=UUID_B), a, b, instance="a") is Truth.FALSE
    assert undecided(backup(at, uuid=UUID_C), a, b)
    assert undecided(backup(at, f"{UUID_C}:1"), a, b)


def test_lsns():
    """The copy of the redo log reaches the position; beyond the journal's rows nothing is known."""
    journal = Journal().begin()
    journal.groups(1).row()
    first = journal.lsn
    journal.groups(1)
    at = journal.binlog.coordinates
    journal.groups(1).row()
    last = journal.lsn

    def of(*lsns):
        return backup(at, f"{UUID_A}:1-2", lsns=lsns)

    assert truth(of(0, first, first), journal) is Truth.TRUE
    assert truth(of(0, first - 9, last), journal) is Truth.TRUE
    assert truth(of(0, first, None), journal) is Truth.TRUE
    assert broken(of(0, first - 9, first - 1), journal) == ["redo_reaches_position"]
    assert broken(of(0, first + 1, first), journal) == ["lsns_ascend"]
    assert broken(of(first + 1, first, last), journal) == ["lsns_ascend"]
    assert "no row that reaches it" in undecided(of(0, first, last + 1), journal)[0]


def test_files_that_differ_and_doubts_of_the_tool():
    """Each is a check of its own."""
    journal, boundaries = server()
    (position, gtids), (other, _) = boundaries[2], boundaries[3]
    found = backup(position, gtids)
    more = Said("other", LogCoordinates.of_file(*other))
    assert broken(replace(found, said=(*found.said, more)), journal) == ["files_agree"]
    same = Said("other", LogCoordinates.of_file(*position))
    assert truth(replace(found, said=(*found.said, same)), journal) is Truth.TRUE
    assert undecided(replace(found, doubts=("The tool is not sure",)), journal)
    assert truth(backup(lsns=(0, 1, 2)), journal) is Truth.UNDECIDED


# Replicas


def pair(*, auto_position=True, filters=(False,), **shown):
    """A source, and a replica that has all but the source's last group.

    Whether the channel filters is configured as `filters` has it one after the other; `shown` is
    what the replica's status has beside.
    """
    source = Journal("a", UUID_A, 1).begin()
    source.groups(1).row()
    replica = Journal("b", UUID_B, 2).begin()
    relay = replica.relay()
    for filtered in filters:
        replica.record("channel", channel="", action="change_source", source_uuid=UUID_A,
                       auto_position=auto_position, filtered=filtered)  # fmt: skip
        replica.row()
    relay.connect()
    at = source.binlog.coordinates
    for events in source.binlog.groups:
        relay.copy(events)
        replica.binlog.group(events[0]["gtid"], server_id=1)
    status = {"Source_UUID": UUID_A, "Auto_Position": int(auto_position)} | shown
    replica.row(replica_status=replica.replica_status(**status))
    source.groups(1).row()
    return source, replica, at


@pytest.mark.parametrize("shown", [{}, {"Replicate_Do_DB": "a"}])
def test_a_replica_position_is_one_of_its_sources_log(shown):
    """A boundary there, and nothing before it that the set lacks; a filter changes nothing."""
    source, replica, at = pair(**shown)
    gtids = f"{UUID_A}:1"

    def of(position, found=gtids):
        where = ReplicaPosition("", LogCoordinates.of_file(*position))
        return backup(replica.binlog.coordinates, found, replica=(where,), uuid=UUID_B)

    judged = judge(of(at), made(source, replica), None)
    assert judged.truth is Truth.TRUE, judged.checks
    assert broken(of((at[0], at[1] - 1)), source, replica) == ["replica_position_ends_a_group"]
    after = source.binlog.coordinates
    assert broken(of(after), source, replica) == ["set_has_what_replica_passed"]
    assert truth(of((at[0], 99_999)), source, replica) is Truth.UNDECIDED
    assert "has nothing of the source" in undecided(of(at), replica)[0]
    by_position = pair(auto_position=False)[:2]
    assert truth(of(after), *by_position) is Truth.UNDECIDED


@pytest.mark.parametrize("filters", [(True,), (True, False)])
def test_a_replica_that_filters_or_did_may_leave_out_what_it_passed(filters):
    """It is undecided, not false, whether an event or a group of its source was left out."""
    source, replica, at = pair(filters=filters)

    def of(position):
        where = ReplicaPosition("", LogCoordinates.of_file(*position))
        return backup(replica.binlog.coordinates, f"{UUID_A}:1", replica=(where,), uuid=UUID_B)

    assert truth(of(at), source, replica) is Truth.TRUE
    (sentence,) = undecided(of((at[0], at[1] - 1)), source, replica)
    assert "ignores events one by one" in sentence
    (sentence,) = undecided(of(source.binlog.coordinates), source, replica)
    assert "may have left it out" in sentence


def test_a_replica_position_in_a_log_that_began_anew():
    """Of the log before nothing can be replicated; in the newest it may be of either."""
    source, replica, at = pair()
    source.binlog.rotate()
    source.groups(1)
    later = source.binlog.coordinates
    source.row()
    source.record("binlog_reset")
    source.binlog.gtids, source.used, source.executed = Gtids(), Gtids(), Gtids()
    source.binlog.open(1)
    source.groups(3).row()

    def of(position):
        where = ReplicaPosition("", LogCoordinates.of_file(*position))
        return backup(uuid=UUID_B, replica=(where,))

    (sentence,) = undecided(of(later), source, replica)
    assert "has begun anew since" in sentence
    (sentence,) = undecided(of((at[0], at[1] - 1)), source, replica)
    assert "began at another log" in sentence


# Statements


def test_statements():
    """By GTID where there is a set, by position else; none from what is not true."""
    journal, boundaries = server()
    position, gtids = boundaries[3]

    def of(found, version="8.0.31"):
        judged = judge(found, made(journal), "a")
        return start_statements(replace(judged, server_version=version))

    purge = f"SET @@GLOBAL.gtid_purged = '{gtids}';"
    change = "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 1;"
    assert of(backup(position, gtids)) == ["RESET MASTER;", purge, change]
    assert of(backup(position)) == [
        (
            "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0,"
            f" SOURCE_LOG_FILE = 'binlog.000001', SOURCE_LOG_POS = {position[1]};"
        )
    ]
    assert of(backup(position, f"{UUID_A}:1")) == []
    assert of(backup(("binlog.000009", 4))) == []
    for version, statement in (
        ("8.0.22-log", "CHANGE MASTER TO MASTER_AUTO_POSITION"),
        ("8.0.23", "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION"),
        (None, "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION"),
    ):
        assert of(backup(position), version)[0].startswith(statement)
    for version, statement in (
        ("8.1.0", "RESET MASTER;"),
        ("8.2.0", "RESET BINARY LOGS AND GTIDS;"),
        (None, "RESET MASTER;"),
    ):
        assert of(backup(position, gtids), version)[0] == statement


def test_statements_of_a_replica_alone():
    """Where nothing but the positions in the sources' logs is known: a channel each, quoted."""
    source, replica, at = pair()
    named = ReplicaPosition("", LogCoordinates.of_file(*at))
    judged = judge(backup(uuid=UUID_B, replica=(named,)), made(source, replica), None)
    text = f"SOURCE_LOG_FILE = 'binlog.000001', SOURCE_LOG_POS = {at[1]}"
    change = f"CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0, {text}"
    assert start_statements(judged) == [f"{change};"]
    quoted = replace(named, channel="o'clock")
    found = replace(judged, backup=backup(uuid=UUID_B, replica=(quoted,)))
    assert start_statements(found) == [f"{change} FOR CHANNEL 'o''clock';"]


def test_groups_without_gtids_are_not_found_by_gtid():
    """The set does not say which of them the backup has: the position does."""
    journal = Journal(gtid_mode="ON_PERMISSIVE").begin()
    journal.binlog.group(None)
    journal.groups(1).row()
    found = backup(journal.binlog.coordinates, f"{UUID_A}:1")
    judged = judge(found, made(journal), None)
    assert judged.truth is Truth.TRUE, judged.checks
    assert "SOURCE_LOG_POS" in start_statements(judged)[0]


# Simulated histories


@lru_cache(maxsize=16)
def simulated(seed):
    history = simulate(Scenario(seed=seed, topology="star"))
    return history, histories_of(history.journals.values())


def counted(block):
    """(file, position) of every group boundary with what was executed there, by counting."""
    found, journal = [], records(block)
    first = next(body for body in bodies_of(journal, RecordType.LOG_STATUS) if "row" in body)
    purged = GtidSet.parse(first["gtid_purged"])
    for name, events in files(journal, Stream.BINLOG).items():
        head = [one for one in events if one.text is not None and one.start < 200]
        logged = GtidSet.parse(head[0].text) | purged
        for group in groups(events):
            sid, gno = group.gtid
            logged = logged | GtidSet([(sid, gno, gno)])
            found.append((name, group.end, logged))
    return found


@given(seed=st.integers(0, 11), data=st.data())
def test_simulated_coordinates(seed, data):
    """A boundary of a healthy fleet is never false; one that was changed is never true."""
    history, histories = simulated(seed)
    name = data.draw(st.sampled_from(sorted(history.journals)))
    boundaries = counted(history.journals[name])
    number = data.draw(st.integers(0, len(boundaries) - 1))
    file, position, logged = boundaries[number]
    right = judge(backup((file, position), logged), histories, name)
    assert right.truth is not Truth.FALSE, right.checks
    offset = data.draw(st.integers(-40, 40).filter(bool))
    sets = {logged - GtidSet([next(iter(logged))]), logged | GtidSet([(UUID_C, 1, 1)])}
    sets |= {boundaries[n % len(boundaries)][2] for n in (number - 1, number + 1)}
    wrong = [backup((file, position), one) for one in sets - {logged}]
    wrong.append(backup((file, max(0, position + offset)), logged))
    for found in wrong:
        judged = judge(found, histories, name)
        assert judged.truth is not Truth.TRUE, (found, judged.checks)


def test_most_simulated_boundaries_are_decided():
    """So that the property above says something."""
    decided = total = 0
    for seed in range(4):
        history, histories = simulated(seed)
        for name, block in history.journals.items():
            for file, position, logged in counted(block):
                total += 1
                judged = judge(backup((file, position), logged), histories, name)
                decided += judged.truth is Truth.TRUE
    assert decided > 0.8 * total
