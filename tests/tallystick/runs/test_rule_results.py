"""What a run found of each rule on each instance: from rows, from events, from comparisons."""

from __future__ import annotations

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Observation, ObservationCode, Verdict
from tallystick.coordinates.rules.readable import NOT_REACHED
from tallystick.runs.rule_results import RuleResult, rule_results
from tests.support import results

HELD, UNDECIDED, BROKEN = Verdict.CONSISTENT, Verdict.UNDECIDED, Verdict.INCONSISTENT
OF_SOURCE = {"r": ["s"]}


def row(instance: str, collection: str = "c1", **more) -> Cut:
    checks = {name: more.pop(name) for name in ("held", "undecided") if name in more}
    values = {"journal_gtid_set": ""} | more
    return Cut(collection_id=collection, instance_id=instance, checks=results.checks(**checks),
               scope="channel" if "channel" in more else "instance", **values)  # fmt: skip


def found_in(cuts=None, *, broken=(), observations=(), sources=OF_SOURCE):
    if cuts is None:
        read = {"journal_retrieved_gtid_set": ""}
        cuts = [row("s", held="lsn_order"), row("r", held="lsn_order"),
                row("r", channel="", **read)]  # fmt: skip
    return rule_results(cuts, broken, observations, sources)


def given(found: list[RuleResult], rule: str) -> list[tuple[str | None, Verdict]]:
    return [(each.channel, each.verdict) for each in found if each.rule == rule]


def finding(rule: str, instance: str, channel: str | None = None) -> Finding:
    return results.finding(rule=rule, instance_id=instance, channel=channel)


def test_a_finding_about_several_servers_breaks_it_on_each():
    """It is in the results of all whom it names."""
    broken = finding("gtid_origin_agreement", "r")
    found = found_in(broken=[("r", broken), ("s", broken)])
    for name in ("r", "s"):
        assert [(None, BROKEN)] == given(found[name], "gtid_origin_agreement")


def test_rows_say_it_of_instance_and_channel():
    """Held once is held; what no row decided is undecided with the newest reason."""
    found = found_in(
        [
            row("a", held="lsn_order", undecided="executed_monotone: first"),
            row("a", channel="c", undecided="retrieved_matches_relay: no relay log"),
            row("a", "c2", held="executed_monotone", undecided="lsn_order: no LSN"),
            row("a", "c2", channel="c", undecided="retrieved_matches_relay: still none"),
        ]
    )["a"]
    assert [(None, HELD)] == given(found, "lsn_order")
    assert [(None, HELD)] == given(found, "executed_monotone")
    assert [("c", UNDECIDED)] == given(found, "retrieved_matches_relay")
    assert "still none" == next(a.reason for a in found if a.rule == "retrieved_matches_relay")


def test_a_finding_outweighs_a_row_that_held():
    """Broken is broken, however many rows kept it before."""
    found = found_in([row("a", held="lsn_order")], broken=[("a", finding("lsn_order", "a"))])["a"]
    assert [(None, BROKEN)] == given(found, "lsn_order")


def test_rules_of_events_held_where_the_log_was_read():
    """Without the log they are undecided; a relay log's rule needs the relay log."""
    read = found_in([row("a", journal_retrieved_gtid_set="")])["a"]
    unread = found_in([row("a", journal_gtid_set=None)])["a"]
    assert [(None, HELD)] == given(read, "log_events_contiguous")
    assert [(None, UNDECIDED)] == given(unread, "log_events_contiguous")
    assert [(None, HELD)] == given(read, "relay_source_pos_monotone")
    assert [] == given(unread, "relay_source_pos_monotone")


def test_rules_of_events_are_undecided_where_part_of_the_journal_is_missing():
    """What is not there was not judged."""
    gap = Observation(
        code=ObservationCode.JOURNAL_GAP, instance_id="a", channel=None, at="sequence 3",
        reason="records_missing", data={"first": 3, "last": 4}, rules=(), is_undecided=True,
        collection_id=None, epoch=0, sequence=3, ts=1,
    )  # fmt: skip
    found = found_in([row("a"), row("b")], observations=[gap])
    assert [(None, UNDECIDED)] == given(found["a"], "log_events_contiguous")
    assert [(None, HELD)] == given(found["b"], "log_events_contiguous")


def test_a_replica_is_compared_with_a_source_that_is_there():
    """Then the comparisons held unless something is found; without the source it is undecided."""
    found = found_in()
    for name in ("no_errant_gtids", "purged_not_needed", "relay_mirrors_source"):
        assert [(None, HELD)] == given(found["r"], name)
        assert [] == given(found["s"], name)
    alone = found_in([row("r")], sources={"r": ["0000-uuid"]})["r"]
    assert [(None, UNDECIDED)] == given(alone, "no_errant_gtids")
    assert [] == given(alone, "server_uuid_unique")


def test_a_comparison_that_stayed_open_is_undecided():
    """What the audit could not compare did not hold."""
    open_ = Observation(
        code=ObservationCode.COMPARISON_UNDECIDED,
        instance_id="r",
        channel="",
        at="c1",
        reason=NOT_REACHED.code,
        data={"sources": ["instance s"]},
        rules=("no_errant_gtids",),
        is_undecided=True,
        collection_id="c1",
        epoch=0,
        sequence=0,
        ts=1,
    )
    found = found_in(observations=[open_])["r"]
    assert [(None, UNDECIDED)] == given(found, "no_errant_gtids")
    assert [(None, HELD)] == given(found, "purged_not_needed")


def test_relay_logs_that_were_not_read_leave_the_mirror_undecided():
    """The reason names them."""
    found = found_in([row("s"), row("r")])["r"]
    assert ["its relay logs were not read"] == [
        each.reason for each in found if each.rule == "relay_mirrors_source"
    ]


def test_a_comparison_is_one_result_whatever_the_channel():
    """What broke on one channel did not hold on the instance, under the same name."""
    found = found_in(broken=[("r", finding("relay_mirrors_source", "r", ""))])["r"]
    assert [(None, BROKEN)] == given(found, "relay_mirrors_source")
