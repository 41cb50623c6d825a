"""Addresses that lead to several servers, and to one that has a name: real ones, marker mysqld."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from tallystick.coordinates.audit.replay import audit_history
from tallystick.coordinates.results import Verdict
from tallystick.coordinates.rules.explanation import observation_text
from tallystick.producers.mysql.errors import OtherServerError
from tallystick.producers.mysql.same_server import FollowedServers
from tallystick.producers.mysql.statements import Session
from tallystick.producers.mysql_lab.layout import REPLICA_1, REPLICA_2
from tallystick.producers.mysql_lab.sessions import session
from tallystick.servers.lab import Lab
from tests.support.balancer import balanced
from tests.support.tails import RunningTail, running, settings_of, wait_for

BOTH = REPLICA_1, REPLICA_2
WHY = "connections lead to two servers, with the server_uuids "


def collected(tail: RunningTail) -> Any:
    """The audit of what a tail recorded until it has answered three collections."""
    for name in ("one", "two", "three"):
        tail.collect(name)
    tail.stop()
    return audit_history(tail.sink.blocks)


@pytest.mark.parametrize("turns", [(0, 1), (0, 0, 1, 1, 1, 0)])
def test_a_tail_does_not_take_two_servers_for_one(mysqld: Lab, turns: tuple[int, ...]) -> None:
    """Whether the stream or only the third connection is another server's.

    Accounts of two servers contradict each other, or agree by chance.
    """
    servers = [settings_of(mysqld, BOTH[turn]) for turn in turns]
    with balanced(servers) as address, running(address) as tail:
        result = collected(tail)
    assert result.verdict is Verdict.UNDECIDED
    assert result.findings == []
    texts = [observation_text(one) for one in result.observations]
    assert any("collection one brought no row" in text and WHY in text for text in texts), texts
    assert len([notice for notice in tail.notices if WHY in notice]) == 1, tail.notices
    assert [notice for notice in tail.notices if WHY not in notice] == []


def test_a_connection_that_is_made_anew_leads_to_the_same_server(mysqld: Lab) -> None:
    """The one that asks where the log ends: its samples of the redo log would be of two servers."""
    servers = [settings_of(mysqld, BOTH[turn]) for turn in (0, 0, 0, 1)]
    with balanced(servers) as address, running(address) as tail:
        tail.collect("before")
        with session(mysqld.addresses()[REPLICA_1]) as admin:
            sleeping = admin.run(
                "SELECT id FROM information_schema.processlist"
                " WHERE user = %s AND command = 'Sleep'",
                (address.user,),
            )
            for (number,) in sleeping:
                admin.run(f"KILL {number}")
        wait_for(lambda: len(tail.notices) == 2, lambda: tail.notices)
        result = collected(tail)
    assert WHY in tail.notices[0]
    assert "followed again" in tail.notices[1]
    assert {Verdict.CONSISTENT.value} == {cut.verdict for cut in result.cuts}
    assert result.findings == []


def test_an_address_of_one_server_may_be_a_balancers(mysqld: Lab) -> None:
    with balanced([settings_of(mysqld, REPLICA_1)]) as address, running(address) as tail:
        result = collected(tail)
    assert {Verdict.CONSISTENT.value} == {cut.verdict for cut in result.cuts}
    assert tail.notices == []


def test_a_server_is_not_followed_under_two_names(mysqld: Lab) -> None:
    """As when a virtual address has moved to it; it would seem to be two with one server_uuid."""
    one = settings_of(mysqld, REPLICA_1)
    moved = one.model_copy(update={"name": "moved"})
    followed = FollowedServers([one, moved])
    with running(one, followed=followed) as first, running(moved, followed=followed) as tail:
        tails = first, tail
        wait_for(lambda: any(each.notices for each in tails), lambda: "nobody is refused")
        for each in tails:
            each.collect("one")
        for each in tails:
            each.stop()
    result = audit_history([block for each in tails for block in each.sink.blocks])
    assert result.findings == []
    verdicts = {cut.instance_id: cut.verdict for cut in result.cuts}
    assert [Verdict.CONSISTENT.value, Verdict.UNDECIDED.value] == sorted(verdicts.values())
    texts = [observation_text(one) for one in result.observations]
    assert any("leads to the server that is followed as" in text for text in texts), texts


def test_a_name_may_move_to_another_server(mysqld: Lab) -> None:
    """Also to one that another name led to before."""
    one, two = (settings_of(mysqld, name) for name in BOTH)
    followed = FollowedServers()
    followed.lead(one, "uuid of one")
    followed.lead(two, "uuid of two")
    followed.lead(one.model_copy(update={"name": two.name}), "uuid of one, copied")
    with pytest.raises(OtherServerError, match=f"is followed as '{one.name}'"):
        followed.lead(one.model_copy(update={"name": "three"}), "uuid of one")
    followed.lead(two.model_copy(update={"name": one.name}), "uuid of two")
    followed.lead(one.model_copy(update={"name": "three"}), "uuid of one")


def test_a_session_is_made_anew_with_the_same_server_only(mysqld: Lab) -> None:
    servers = [settings_of(mysqld, name) for name in BOTH]
    with balanced(servers) as address, closing(Session(address)) as session:
        session.ensure()
        session.close()
        with pytest.raises(OtherServerError, match=WHY):
            session.ensure()
        session.ensure()
