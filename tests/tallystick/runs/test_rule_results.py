"""What an audit answered on each server: from rows, from events, from comparisons."""

from __future__ import annotations

from datetime import datetime, timezone

from tallystick.coordinates.audit.cut import Cut
from tallystick.coordinates.results import Finding, Observation, ObservationCode, Verdict
from tallystick.coordinates.rules.readable import NOT_REACHED
from tallystick.outputs._view import Edge, ReportData
from tallystick.runs.rule_results import Answer, answers_of
from tests.support import results

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)


def row(instance: str, collection: str = "c1", **more) -> Cut:
    checks = {name: more.pop(name) for name in ("held", "undecided") if name in more}
    return Cut(collection_id=collection, instance_id=instance, checks=results.checks(**checks),
               scope="channel" if "channel" in more else "instance", **more)  # fmt: skip


def data(*collections, **more) -> ReportData:
    return ReportData(generated_at=AT, title="t", collections=collections, **more)


def given(found: list[Answer], rule: str) -> list[tuple[str | None, Verdict]]:
    return [(each.channel, each.verdict) for each in found if each.rule == rule]


def fleet(**more) -> ReportData:
    return data([row("s", held="lsn_order"), row("r", held="lsn_order")],
                topology=[Edge("s", "r", "")], **more)  # fmt: skip


def finding(rule: str, instance: str, channel: str | None = None) -> Finding:
    return results.finding(rule=rule, instance_id=instance, channel=channel)


def test_a_finding_about_several_servers_breaks_it_on_each():
    """It stands in the answers of all whom it names."""
    broken = finding("gtid_origin_agreement", "r")
    found = answers_of(
        fleet(findings=[broken]), binlogs=["s", "r"], relay_logs=[],
        named={broken.finding_id: ("r", "s")},
    )  # fmt: skip
    for name in ("r", "s"):
        assert [(None, Verdict.INCONSISTENT)] == given(found[name], "gtid_origin_agreement")


def test_rows_answer_for_instance_and_channel():
    """Held once is held; what no row decided is undecided with the newest reason."""
    found = answers_of(
        data(
            [row("a", held="lsn_order", undecided="executed_monotone: first"),
             row("a", channel="c", undecided="retrieved_matches_relay: no relay log")],
            [row("a", "c2", held="executed_monotone", undecided="lsn_order: no LSN"),
             row("a", "c2", channel="c", undecided="retrieved_matches_relay: still none")],
        ),
        binlogs=["a"],
        relay_logs=[],
    )["a"]  # fmt: skip
    assert [(None, Verdict.CONSISTENT)] == given(found, "lsn_order")
    assert [(None, Verdict.CONSISTENT)] == given(found, "executed_monotone")
    assert [("c", Verdict.UNDECIDED)] == given(found, "retrieved_matches_relay")
    assert "still none" == next(a.reason for a in found if a.rule == "retrieved_matches_relay")


def test_a_finding_outweighs_a_row_that_held():
    """Broken is broken, however many rows before kept it."""
    found = answers_of(
        data([row("a", held="lsn_order")], findings=[finding("lsn_order", "a")]),
        binlogs=["a"],
        relay_logs=[],
    )["a"]
    assert [(None, Verdict.INCONSISTENT)] == given(found, "lsn_order")


def test_rules_of_events_held_where_the_log_was_read():
    """Without the log they are undecided; a relay log's rule needs the relay log."""
    read = answers_of(data([row("a")]), binlogs=["a"], relay_logs=["a"])["a"]
    unread = answers_of(data([row("a")]), binlogs=[], relay_logs=[])["a"]
    assert [(None, Verdict.CONSISTENT)] == given(read, "log_events_contiguous")
    assert [(None, Verdict.UNDECIDED)] == given(unread, "log_events_contiguous")
    assert [(None, Verdict.CONSISTENT)] == given(read, "relay_source_pos_monotone")
    assert [] == given(unread, "relay_source_pos_monotone")


def test_a_replica_is_compared_with_a_source_that_is_there():
    """Then the comparisons held unless something is told; without the source they are undecided."""
    found = answers_of(fleet(), binlogs=["s", "r"], relay_logs=["r"])
    for name in ("no_errant_gtids", "purged_not_needed", "relay_mirrors_source"):
        assert [(None, Verdict.CONSISTENT)] == given(found["r"], name)
        assert [] == given(found["s"], name)
    alone = answers_of(
        data([row("r")], topology=[Edge("0000-uuid", "r", "")]), binlogs=["r"], relay_logs=["r"]
    )["r"]
    assert [(None, Verdict.UNDECIDED)] == given(alone, "no_errant_gtids")
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
    found = answers_of(fleet(observations=[open_]), binlogs=["s", "r"], relay_logs=["r"])["r"]
    assert [(None, Verdict.UNDECIDED)] == given(found, "no_errant_gtids")
    assert [(None, Verdict.CONSISTENT)] == given(found, "purged_not_needed")


def test_relay_logs_that_were_not_read_leave_the_mirror_undecided():
    """The reason names them."""
    found = answers_of(fleet(), binlogs=["s", "r"], relay_logs=[])["r"]
    assert ["its relay logs were not read"] == [
        each.reason for each in found if each.rule == "relay_mirrors_source"
    ]


def test_a_comparison_is_one_answer_whatever_the_channel():
    """What broke on one channel did not hold on the instance, under the same name."""
    found = answers_of(
        fleet(findings=[finding("relay_mirrors_source", "r", "")]),
        binlogs=["s", "r"],
        relay_logs=["r"],
    )["r"]
    assert [(None, Verdict.INCONSISTENT)] == given(found, "relay_mirrors_source")
