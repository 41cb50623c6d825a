"""Breaches between instances: reported once, and over when the present sets show it."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.fleet_event_order import in_time_order
from tallystick.coordinates.audit.incidents import incidents_of_history
from tests.support.fleet_journals import A, B, C, Clock, Journal, fleet_of_two


def states(*journals: Journal) -> dict[str, str]:
    """What has become of the incident of each rule."""
    events = [event for journal in journals for event in journal.fleet_events]
    fleet = FleetAudit()
    # What is fetched at once, before anybody compares, was never errant: so step by step.
    outputs = [fleet.absorb([event]) for event in in_time_order(events)]
    outputs.append(fleet.finish())
    found = incidents_of_history(
        [finding for output in outputs for finding in output.findings],
        (),
        [check for output in outputs for check in output.checks],
        events,
    )
    return {one.rule: one.state.value for one in found}


def errant() -> tuple[Journal, Journal]:
    """A replica that has written a group of its own, shown by a row."""
    source, replica = fleet_of_two()
    replica.log(f"{B}:1", server_id=2)
    replica.status(f"{A}:1-3,{B}:1", replica.says(source))
    source.status(f"{A}:1-3")
    source.time()
    return source, replica


@pytest.mark.parametrize("is_fetched", [True, False])
def test_an_errant_group_is_over_when_the_source_has_it(is_fetched: bool) -> None:
    """As the remedy has it: the source fetches the very group."""
    source, replica = errant()
    if is_fetched:
        source.log(f"{B}:1", server_id=2)
    source.status(f"{A}:1-3,{B}:1" if is_fetched else f"{A}:1-3")
    replica.status(f"{A}:1-3,{B}:1", replica.says(source))
    source.status(f"{A}:1-3,{B}:1" if is_fetched else f"{A}:1-3")
    assert states(source, replica) == {"no_errant_gtids": "resolved" if is_fetched else "open"}


def test_part_of_what_is_errant_is_not_all() -> None:
    """One of two groups has come to the source."""
    source, replica = errant()
    replica.log(f"{B}:2", server_id=2)
    source.log(f"{B}:1", server_id=2)
    for _ in range(2):
        replica.status(f"{A}:1-3,{B}:1-2", replica.says(source))
        source.status(f"{A}:1-3,{B}:1")
    assert states(source, replica) == {"no_errant_gtids": "open"}


@pytest.mark.parametrize("is_upstream", [True, False])
def test_what_the_sources_source_has_is_under_way(is_upstream: bool) -> None:
    """The topology has it, though the source has not received it yet."""
    source, replica = errant()
    top = Journal(source.clock, "t", C, 3)
    top.boot()
    top.open_file()
    if is_upstream:
        source.follow(top)
        top.log(f"{B}:1", server_id=2)
    has = f"{A}:1-3,{B}:1" if is_upstream else f"{A}:1-3"
    top.status(has)
    replica.status(f"{A}:1-3,{B}:1", replica.says(source))
    source.status(f"{A}:1-3", *([source.says(top)] if is_upstream else []))
    top.status(has)
    assert states(source, replica, top) == {
        "no_errant_gtids": "resolved" if is_upstream else "open"
    }


def test_a_replica_that_was_rebuilt_or_left_alone() -> None:
    """New data supersede it; an instance that is silent keeps it open."""
    source, replica = errant()
    source.status(f"{A}:1-3")
    assert states(source, replica) == {"no_errant_gtids": "open"}
    replica.reset("cloned")
    replica.boot(data_lineage=1)
    replica.status(f"{A}:1-3", replica.says(source), purged=f"{A}:1-3")
    source.status(f"{A}:1-3")
    assert states(source, replica) == {"no_errant_gtids": "superseded"}


@pytest.mark.parametrize("rebuilt", [0, 1, None])
def test_of_two_logs_that_disagree_either_may_be_replaced(rebuilt: int | None) -> None:
    """They accuse each other: what is found at one is about the other as well."""
    source, replica = errant()
    source.commit_times = {f"{B}:1": 7}
    source.log(f"{B}:1", server_id=1)
    for _ in range(2):
        source.status(f"{A}:1-3,{B}:1")
        replica.status(f"{A}:1-3,{B}:1", replica.says(source))
    if rebuilt is not None:
        journal = (source, replica)[rebuilt]
        journal.reset("cloned")
        journal.boot(data_lineage=1)
        journal.status(f"{A}:1-3", purged=f"{A}:1-3")
        source.time()
        replica.time()
    expected = "open" if rebuilt is None else "superseded"
    assert states(source, replica)["gtid_origin_agreement"] == expected


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_server_uuid_that_is_shared_no_more(is_renamed: bool) -> None:
    """auto.cnf was removed, and the server started again."""
    clock = Clock()
    one, two = Journal(clock, "a", A, 1), Journal(clock, "b", A, 2)
    for journal in (one, two):
        journal.boot()
        journal.open_file()
    for _ in range(2):
        for journal in (one, two):
            journal.status("")
    if is_renamed:
        two.uuid = B
        two.boot()
    for journal in (two, one):
        journal.status("")
    assert states(one, two) == {"server_uuid_unique": "resolved" if is_renamed else "open"}


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_server_id_that_is_another_now(is_changed: bool) -> None:
    """It was set, and the replica restarted."""
    source, replica = fleet_of_two()
    replica.server_id = 1
    replica.boot()
    replica.status(f"{A}:1-3", replica.says(source))
    source.status(f"{A}:1-3")
    if is_changed:
        replica.server_id = 2
        replica.boot()
    replica.status(f"{A}:1-3", replica.says(source))
    source.status(f"{A}:1-3")
    expected = "resolved" if is_changed else "open"
    assert states(source, replica) == {"server_id_unique_in_topology": expected}


@pytest.mark.parametrize("has_it", [True, False])
def test_what_was_purged_too_early_and_came_another_way(has_it: bool) -> None:
    """The replica has what the source has purged."""
    source, replica = fleet_of_two()
    source.status(f"{A}:1-3", purged=f"{A}:1-2")
    replica.status("", replica.says(source))
    source.status(f"{A}:1-3", purged=f"{A}:1-2")
    if has_it:
        replica.assign(f"{A}:1-3")
    replica.status(f"{A}:1-3" if has_it else "", replica.says(source))
    source.status(f"{A}:1-3", purged=f"{A}:1-2")
    assert states(source, replica) == {"purged_not_needed": "resolved" if has_it else "open"}
