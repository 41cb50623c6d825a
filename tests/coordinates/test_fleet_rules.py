"""Rules across instances: healthy and broken histories just inside and outside each boundary."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tallystick.coordinates.audit import forgotten_origins, origins
from tallystick.coordinates.audit.collection_checks import is_optional
from tallystick.coordinates.audit.fleet import Edge, FleetAudit, FleetOutput
from tallystick.coordinates.audit.fleet_events import FleetEventKind
from tallystick.coordinates.audit.replica import RESETS_MAX
from tallystick.coordinates.results import Outcome
from tallystick.coordinates.rules.explanation import explain, observation_text
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.fleet_journals import (
    EVENT_LENGTH,
    A,
    B,
    C,
    Clock,
    Journal,
    audit,
    end_of,
    fleet_of_two,
    names,
)

OTHER = "dddddddd-0000-0000-0000-000000000004"

COMPARISONS = (
    "relay_mirrors_source",
    "received_within_source_logged",
    "no_errant_gtids",
    "source_coordinate_valid",
    "purged_not_needed",
)


def received_all(source: Journal, replica: Journal, groups: int = 3) -> None:
    replica.receive(source, *((n + 1, f"{A}:{n + 1}") for n in range(groups)))
    replica.log(*(f"{A}:{n + 1}" for n in range(groups)), server_id=1)


def the_only(output, rule: str):
    assert names(output) == [rule]
    return output.findings[0]


class TestReceivedWithinSourceLogged:
    """Rule 66."""

    @pytest.mark.parametrize("is_received", [True, False])
    def test_what_the_source_has_sent_is_its_own_whatever_the_replica_has_logged(
        self, is_received: bool
    ):
        """The replica's own log has another transaction under the number."""
        source, replica = fleet_of_two()
        if is_received:
            replica.receive(source, *((n + 1, f"{A}:{n + 1}") for n in range(3)))
        replica.log(f"{A}:1", f"{A}:2", server_id=1)
        replica.commit_times = {f"{A}:3": 7}
        replica.log(f"{A}:3", server_id=9)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.time()
        accused = {"gtid_origin_agreement"}
        accused |= set() if is_received else {"received_within_source_logged"}
        assert set(names(audit(source, replica))) == accused

    @pytest.mark.parametrize("logs", [True, False])
    def test_a_log_goes_on_under_another_name(self, logs):
        """A start with another log_bin: replicas receive from it before anybody has noticed."""
        source, replica = fleet_of_two()
        replica.status(f"{A}:1-4", replica.says(source, f"{A}:1-4"))
        source.reset("renamed")
        if logs:
            source.log(f"{A}:4")
        source.clock.advance(10_000_000)
        replica.status(f"{A}:1-4", replica.says(source, f"{A}:1-4"))
        source.status(f"{A}:1-{4 if logs else 3}")
        expected = [] if logs else ["received_within_source_logged"]
        assert expected == names(audit(source, replica))

    @pytest.mark.parametrize(("retrieved", "is_broken"), [("1-3", False), ("1-4", True)])
    def test_own_gtids_must_be_logged(self, retrieved, is_broken):
        """The last logged GTID may be retrieved, the one after it may not."""
        source, replica = fleet_of_two()
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:{retrieved}"))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        if not is_broken:
            assert names(output) == []
            return
        finding = the_only(output, "received_within_source_logged")
        assert finding.instance_id == "r"
        assert finding.channel == ""
        assert finding.witness == f"{A}:4"
        assert finding.collection_id == "c1"
        assert "instance s" in explain(finding).sentence

    def test_what_the_source_logs_before_its_next_mark_is_known(self):
        """A row is compared with the source at that time or later, never earlier."""
        source, replica = fleet_of_two()
        source.log(f"{A}:4")
        replica.status(f"{A}:1-4", replica.says(source, f"{A}:1-4"))
        source.status(f"{A}:1-4")
        assert names(audit(source, replica)) == []

    def test_what_the_source_has_executed_without_a_group_counts(self):
        """Its row shows what stands in no file; after RESET that is over."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-4")
        replica.status("", replica.says(source, f"{A}:1-4"))
        source.status(f"{A}:1-4")
        assert names(audit(source, replica)) == []
        source.reset()
        source.log(f"{A}:1")
        source.status(f"{A}:1")
        replica.follow(source)
        replica.status("", replica.says(source, f"{A}:1:4"))
        source.status(f"{A}:1")
        assert names(audit(source, replica)) == ["received_within_source_logged"]

    def test_a_crash_before_the_sources_first_row_leaves_it_undecided(self):
        """What the source had at the time of the replica's row was never reported in full."""
        clock = Clock()
        source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        source.boot()
        source.open_file()
        source.log(f"{A}:1", f"{A}:2")
        replica.boot()
        replica.follow(source)
        replica.status("", replica.says(source, f"{A}:1-2"))
        source.boot()
        source.end_file(end_of(1))
        source.open_file(f"{A}:1")
        source.status(f"{A}:1")
        source.time()
        output = audit(source, replica)
        assert names(output) == []
        assert any("received_within_source_logged" in o.rules for o in output.observations)

    def test_foreign_gtids_are_not_judged_here(self):
        """Only the source's own UUID counts."""
        source, replica = fleet_of_two()
        replica.status("", replica.says(source, f"{C}:1"))
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == []

    def test_a_gtid_set_is_reported_once(self):
        """Each collection shows it again, one finding is enough; more of them is news."""
        source, replica = fleet_of_two()
        for retrieved in ("1-4", "1-4", "1-5", "1-5"):
            replica.status("", replica.says(source, f"{A}:{retrieved}"))
            source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert [f.witness for f in output.findings] == [f"{A}:4", f"{A}:5"]

    @pytest.mark.parametrize("lost", [0, 1, 2])
    def test_what_a_crash_takes_back_is_not_logged(self, lost):
        """Rows after the crash are compared with what recovery left, rows before it are not."""
        source, replica = fleet_of_two()
        received_all(source, replica)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.boot()
        source.end_file(end_of(3 - lost))
        source.open_file(f"{A}:1-{3 - lost}")
        source.status(f"{A}:1-{3 - lost}")
        assert names(audit(source, replica)) == []
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.status(f"{A}:1-{3 - lost}")
        output = audit(source, replica)
        assert names(output) == (["received_within_source_logged"] if lost else [])
        if lost:
            assert output.findings[0].collection_id == "c2"

    @pytest.mark.parametrize("crashes", [1, 2])
    def test_a_number_that_a_crash_freed_is_not_held_against_the_vanished_group(self, crashes):
        """Nobody had executed the group; a replica has the next one of its number earlier."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-2")
        replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2"))
        for crash in range(crashes):
            source.boot()
            source.end_file(end_of(0 if crash else 2))
            source.open_file(f"{A}:1-2")
            source.commit_times = replica.commit_times = {f"{A}:3": 2000 + crash}
            source.log(f"{A}:3")
        replica.receive(source, (1, f"{A}:3"), file=1 + crashes)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.time()
        assert names(audit(source, replica)) == []
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == []

    @pytest.mark.parametrize("has_crashed", [False, True])
    def test_what_was_applied_empty_and_a_crash_took_back_is_applied_again(self, has_crashed):
        source, replica = fleet_of_two()
        received_all(source, replica)
        replica.log(f"{A}:1", f"{A}:2", server_id=1)
        replica.empty = {f"{A}:3"}
        replica.log(f"{A}:3", server_id=1)
        if has_crashed:
            replica.boot()
            replica.end_file(end_of(2))
            replica.open_file(f"{A}:1-2")
            replica.empty = set()
            replica.log(f"{A}:3", server_id=1)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        doubts = [one.data for one in output.observations if one.reason == "applied_empty"]
        assert (names(output), len(doubts)) == ([], not has_crashed)

    @pytest.mark.parametrize("has_row", [False, True])
    def test_in_a_gap_the_source_may_have_executed_what_it_has_not_logged(self, has_row):
        """RESET and an assigned gtid_purged may be in it: only a row tells."""
        source, replica = fleet_of_two()
        source.gap()
        source.file = 0
        source.open_file()
        source.log(f"{A}:4")
        replica.status(f"{A}:1-4,{C}:1", replica.says(source, f"{A}:4"))
        if has_row:
            source.status(f"{A}:1-4,{C}:1")
        source.time()
        output = audit(source, replica)
        assert names(output) == []
        doubts = {one.check.rule: one.check.reason for one in output.checks if one.check.reason}
        unknown = {
            "no_errant_gtids": "source_executed_unknown",
            "purged_not_needed": "source_purged_not_shown",
            "received_within_source_logged": "source_not_reached",
            "server_id_unique_in_topology": "server_id_unknown",
        }
        assert doubts == ({} if has_row else unknown)

    @pytest.mark.parametrize("receives", [False, True])
    def test_a_start_that_is_told_late(self, receives):
        """Before an observer is back, replicas have groups of a boot that began with a loss."""
        source, replica = fleet_of_two()
        other = Journal(source.clock, "o", C, 3)
        source.time()
        replica.status("", replica.says(source, f"{A}:1-2:4"))
        if receives:
            source.receive(other, (1, f"{C}:1"))
        source.boot()
        source.end_file(end_of(2))
        source.open_file(f"{A}:1-2")
        source.log(f"{A}:4")
        source.status(f"{A}:1-2:4")
        source.time()
        assert names(audit(source, replica)) == []

    def test_a_row_that_has_shrunk_still_says_what_is_not_in_the_log(self):
        """Its gtid_executed is no baseline, but nothing else of the source need be awaited."""
        source, replica = fleet_of_two()
        received_all(source, replica)
        source.status(f"{A}:1-3")
        source.boot()
        source.end_file(end_of(1))
        source.open_file(f"{A}:1")
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.status(None).body["gtid_executed_fallen"] = f"{A}:1,{A}:3"
        finding = the_only(audit(source, replica), "received_within_source_logged")
        assert finding.witness == f"{A}:2"

    @pytest.mark.parametrize("elapsed_us", [0, 6_000_000])
    def test_reset_of_the_source_alone(self, elapsed_us):
        """Its replicas may be about to be reset as well; those that are not are ahead of it."""
        source, replica = fleet_of_two()
        received_all(source, replica)
        source.clock.advance(60_000_000)
        source.reset()
        source.status("")
        source.clock.advance(elapsed_us)
        for _ in range(2):
            replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
            source.status("")
        output = audit(source, replica)
        if elapsed_us:
            assert the_only(output, "received_within_source_logged").witness == f"{A}:1-3"
        else:
            assert names(output) == []
            assert any(
                "logged none of the retrieved GTIDs" in observation_text(o)
                for o in output.observations
            )

    @pytest.mark.parametrize("reused", [1, 3, 5])
    def test_numbers_given_out_again_are_found(self, reused):
        """Also when the source has logged as many again, so that the sets agree."""
        source, replica = fleet_of_two()
        received_all(source, replica)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.reset()
        gtids = [f"{A}:{n + 1}" for n in range(reused)]
        source.commit_times = dict.fromkeys(gtids, 2000)
        source.log(*gtids)
        source.status(f"{A}:1-{reused}")
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.status(f"{A}:1-{reused}")
        expected = ["gtid_origin_agreement", "received_within_source_logged"]
        assert names(audit(source, replica)) == expected

    def test_a_replica_reset_as_well_is_healthy(self):
        """RESET on both: the numbers begin again everywhere."""
        source, replica = fleet_of_two()
        received_all(source, replica)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        replica.administer("reset")
        replica.reset()
        source.reset()
        source.commit_times = replica.commit_times = {f"{A}:1": 2000}
        source.log(f"{A}:1")
        replica.administer("start_receiver")
        replica.receive(source, (1, f"{A}:1"))
        replica.log(f"{A}:1", server_id=1)
        source.status(f"{A}:1")
        replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
        source.status(f"{A}:1")
        output = audit(source, replica)
        assert names(output) == []


class TestNoErrantGtids:
    """Rule 67."""

    @pytest.mark.parametrize(
        ("executed", "retrieved", "errant"),
        [
            (f"{A}:1-3", "", []),
            ("", f"{A}:1-3", []),
            (f"{A}:1-3:9", f"{A}:1-3", [f"{A}:9"]),
            (f"{A}:1-3:9", None, []),
        ],
    )
    def test_the_sources_own_gtids(self, executed, retrieved, errant):
        """What the source has logged is not errant; a number that it has not given out is."""
        source, replica = fleet_of_two()
        replica.status(executed, replica.says(source, retrieved))
        source.status(f"{A}:1-3")
        assert [finding.witness for finding in audit(source, replica).findings] == errant

    def test_each_statement_has_the_names_of_the_server_that_it_is_for(self):
        """The source fetches the group, the remedy is for who reads of the replica."""
        source, replica = fleet_of_two()
        source.boot(version="8.0.20")
        replica.boot(version="8.4.3")
        replica.status(f"{A}:1-3:9", replica.says(source, f"{A}:1-3"))
        source.status(f"{A}:1-3")
        [finding] = audit(source, replica).findings
        assert finding.data["versions"] == {"s": "8.0.20"}
        assert [text.split(" FOR ")[0] for _, text in explain(finding).cure[1:]] == [
            "START SLAVE",
            f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{A}:9');",
            "STOP SLAVE",
            "RESET SLAVE ALL",
        ]
        assert "SOURCE_AUTO_POSITION=1" in explain(finding).remedy

    @pytest.mark.parametrize("begins", ["first row", "gap", "later row", "reset"])
    @pytest.mark.parametrize("server", ["unknown", "the replica", "the source", "another"])
    def test_a_channel_that_was_gone_before_the_journal_began(self, server, begins):
        """It may have brought GTIDs of another server that the source never had."""
        source, replica = fleet_of_two()
        other = Journal(source.clock, "o", OTHER, 4)
        other.boot()
        other.open_file()
        gtid = {"the replica": f"{B}:1", "the source": f"{A}:9", "another": f"{OTHER}:1"}.get(
            server, f"{C}:1"
        )
        if begins != "first row":
            replica.status(f"{A}:1-3", replica.says(source))
        if begins == "gap":
            replica.gap()
            replica.follow(source)
        elif begins == "reset":
            replica.reset()
        for _ in range(2):
            replica.status(f"{A}:1-3,{gtid}", replica.says(source))
        source.status(f"{A}:1-3")
        other.status("")
        may_be = server in ("unknown", "another") and begins in ("first row", "gap")
        output = audit(other, source, replica)
        assert [one.witness for one in output.findings] == ([] if may_be else [gtid])
        found = [one.check for one in output.checks if one.check.rule == "no_errant_gtids"]
        reason = "executed_of_former_source"
        assert [one.reason for one in found if one.reason == reason] == [reason] * 2 * may_be
        replica.status(f"{A}:1-3,{gtid},{C}:7", replica.says(source))
        source.status(f"{A}:1-3")
        findings = audit(other, source, replica).findings
        assert [one.witness for one in findings] == [*([] if may_be else [gtid]), f"{C}:7"]

    @pytest.mark.parametrize("has", ["", "1", "1-2"])
    def test_gtids_of_a_server_that_is_observed(self, has):
        """What the server knows that numbered them, the replica did not make."""
        source, replica = fleet_of_two()
        former = Journal(source.clock, "o", OTHER, 4)
        former.boot()
        former.open_file()
        replica.status(f"{A}:1-3,{OTHER}:1-2", replica.says(source))
        source.status(f"{A}:1-3")
        former.status(f"{OTHER}:{has}" if has else "")
        output = audit(former, source, replica)
        found = [one.check for one in output.checks if one.check.rule == "no_errant_gtids"]
        assert names(output) == []
        assert found[-1].reason == ("" if has == "1-2" else "executed_of_former_source")

    def test_of_what_came_before_the_journal_only_what_is_explained_by_nobody_is_in_doubt(self):
        """The server that made one GTID has it, the source's source the other."""
        source, replica = fleet_of_two()
        lagging, former = Journal(source.clock, "l", C, 3), Journal(source.clock, "o", OTHER, 4)
        for journal in (lagging, former):
            journal.boot()
            journal.open_file()
        lagging.follow(source)
        replica.follow(lagging)
        of_one_that_is_gone = f"{OTHER[:-1]}5:1"
        replica.status(f"{A}:1-3,{OTHER}:1,{of_one_that_is_gone}", replica.says(lagging))
        lagging.status(f"{A}:1-3", lagging.says(source))
        source.status(f"{A}:1-3,{of_one_that_is_gone}")
        former.status(f"{OTHER}:1")
        output = audit(former, source, lagging, replica)
        assert names(output) == []
        found = [one.check for one in output.checks if one.instance_id == "r"]
        assert [""] == [one.reason for one in found if one.rule == "no_errant_gtids"]

    def test_gtids_of_a_former_source_hide_no_breach(self):
        """An errant GTID stays broken beside them."""
        source, replica = fleet_of_two()
        replica.status(f"{A}:1-3,{C}:1", replica.says(source))
        for _ in range(3):
            replica.log(f"{B}:1")
            replica.status(f"{A}:1-3,{B}:1,{C}:1", replica.says(source))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        found = [one.check for one in output.checks if one.check.rule == "no_errant_gtids"]
        assert [one.witness for one in output.findings] == [f"{B}:1"]
        assert [one.outcome.value for one in found] == ["undecided", "broken", "broken", "broken"]

    def test_a_source_that_was_promoted_before_it_had_all_of_the_former_one(self):
        """That one is gone before the journals begin; the other replica has more of it."""
        source, replica = fleet_of_two()
        replica.status(f"{A}:1-3,{C}:1-7", replica.says(source))
        source.status(f"{A}:1-3,{C}:1-5")
        assert [f"{C}:6-7"] == [one.witness for one in audit(source, replica).findings]

    def test_what_was_retrieved_of_the_sources_own_is_not_judged_twice(self):
        """A replica that has more of its source than that holds is reported once, by rule 66."""
        source, replica = fleet_of_two()
        replica.status(f"{A}:1-9", replica.says(source, f"{A}:1-9"))
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == ["received_within_source_logged"]

    def test_a_local_write_is_errant_once(self):
        """One finding, however many rows show it, with the GTID as its witness."""
        source, replica = fleet_of_two()
        replica.log(f"{B}:1")
        for _ in range(3):
            replica.status(f"{A}:1-3,\n{B}:1", replica.says(source))
            source.status(f"{A}:1-3")
        finding = the_only(audit(source, replica), "no_errant_gtids")
        assert (finding.instance_id, finding.channel, finding.witness) == ("r", "", f"{B}:1")
        assert finding.collection_id == "c1"

    @pytest.mark.parametrize("server_id", [None, 1, 7])
    def test_a_source_of_the_right_uuid_and_another_server_id_is_a_copy(self, server_id):
        """An auto.cnf was copied with the data: of its source the replica says nothing then."""
        source, replica = fleet_of_two()
        replica.administer("change_source", source_uuid=A)
        replica.log(f"{B}:1")
        for _ in range(2):
            replica.status(f"{A}:1-3,{B}:1", replica.says(source, source_server_id=server_id))
            source.status(f"{A}:1-3")
        output = audit(source, replica)
        is_copy = server_id == 7
        assert names(output) == ["no_errant_gtids"] * (not is_copy)
        undecided = [one for one in output.observations if "no_errant_gtids" in one.rules]
        assert [one.reason for one in undecided] == ["source_not_in_fleet"] * is_copy

    def test_the_group_itself_on_the_source_heals_and_an_empty_one_does_not(self):
        """As the remedy has it: fetched by a channel it keeps its origin, an empty one has none."""
        for commit_ts, also in ((1_000, set()), (9_000, {"gtid_origin_agreement"})):
            source, replica = fleet_of_two()
            for one, committed in ((replica, 1_000), (source, commit_ts)):
                one.commit_times = {f"{B}:1": committed}
            replica.log(f"{B}:1", server_id=2)
            replica.status(f"{A}:1-3,{B}:1", replica.says(source))
            source.status(f"{A}:1-3")
            source.log(f"{B}:1", server_id=2)
            replica.status(f"{A}:1-3,{B}:1", replica.says(source))
            source.status(f"{A}:1-3,{B}:1")
            assert set(names(audit(source, replica))) - {"no_errant_gtids"} == also

    def test_what_the_source_has_executed_is_not_errant(self):
        """It is known from the source's row, log, head of a file or SET gtid_purged."""
        for how in ("row", "log", "head", "assigned"):
            source, replica = fleet_of_two()
            if how == "row":
                source.status(f"{A}:1-3,{C}:1")
            elif how == "log":
                source.log(f"{C}:1")
            elif how == "head":
                source.rotate(f"{A}:1-3,{C}:1")
            else:
                source.assign(f"{C}:1")
            replica.status(f"{C}:1", replica.says(source))
            source.status(f"{A}:1-3")
            assert names(audit(source, replica)) == [], how

    def test_without_log_replica_updates_only_a_later_row_tells(self):
        """What such a source executed since its last row stands in no log."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-3", logs_everything=False)
        replica.status(f"{B}:1", replica.says(source))
        source.time()
        output = audit(source, replica)
        assert names(output) == []
        assert any("no_errant_gtids" in o.rules for o in output.observations)
        source.status(f"{A}:1-3", logs_everything=False)
        assert names(audit(source, replica)) == ["no_errant_gtids"]

    @pytest.mark.parametrize("has_left", [True, False])
    def test_an_old_source_brings_its_unreplicated_writes_with_it(self, has_left):
        """In a ring they are under way; after RESET REPLICA ALL at the new source they are not."""
        old, new = fleet_of_two()
        old.log(f"{A}:4")
        new.status(f"{A}:1-3", new.says(old))
        old.status(f"{A}:1-4")
        if has_left:
            new.administer("reset_all")
        new.log(f"{B}:1")
        old.follow(new)
        old.status(f"{A}:1-4,{B}:1", old.says(new))
        new.status(f"{A}:1-3,{B}:1", *([] if has_left else [new.says(old)]))
        output = audit(old, new)
        assert [f.witness for f in output.findings] == ([f"{A}:4"] if has_left else [])

    def test_reset_of_the_source_makes_nothing_errant(self):
        """What it has ever executed counts."""
        source, replica = fleet_of_two()
        source.log(f"{C}:1")
        source.reset()
        source.status("")
        replica.status(f"{A}:1-3,{C}:1", replica.says(source))
        source.status("")
        assert names(audit(source, replica)) == []

    @pytest.mark.parametrize(
        ("elapsed_us", "brought_back", "retrieved", "errant"),
        [
            (6_000_000, "", "", [f"{A}:1-3"]),
            (6_000_000, f"{A}:1-3", "", []),
            (6_000_000, "", None, []),
            (1_000_000, "", "", []),
        ],
    )
    def test_numbers_that_the_source_gives_out_anew_are_errant(
        self, elapsed_us, brought_back, retrieved, errant
    ):
        """RESET of the source, and RESET REPLICA alone: what comes next would be left out."""
        source, replica = fleet_of_two()
        source.reset()
        source.status("")
        replica.administer("reset")
        source.clock.advance(elapsed_us)
        replica.status(f"{A}:1-3", replica.says(source, retrieved))
        if brought_back:
            source.assign(brought_back)
        source.status(brought_back, purged=brought_back)
        output = audit(source, replica)
        assert [(f.rule, f.witness) for f in output.findings] == [
            ("no_errant_gtids", witness) for witness in errant
        ]

    def test_numbers_given_out_anew_wait_for_a_row_of_the_source(self):
        """SET gtid_purged may have brought them back; no record of a real server tells that."""
        source, replica = fleet_of_two()
        source.reset()
        source.status("")
        replica.administer("reset")
        source.clock.advance(6_000_000)
        replica.status(f"{A}:1-3", replica.says(source))
        source.time()
        assert names(audit(source, replica)) == []

    @pytest.mark.parametrize("has_gap", [True, False])
    def test_what_came_before_a_reset_was_noticed_is_not_held_against_the_old_log(self, has_gap):
        """Both were reset; the observer of the source was away, and tells it when it is back."""
        source, replica = fleet_of_two()
        received_all(source, replica)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        source.status(f"{A}:1-3")
        replica.reset()
        replica.follow(source)
        replica.commit_times = source.commit_times = {f"{A}:1": 2000}
        replica.receive(source, (1017, f"{A}:1"))
        replica.log(f"{A}:1", server_id=1)
        positions = dict.fromkeys(("read_source_log_pos", "exec_source_log_pos"), 217)
        files = dict.fromkeys(("read_source_log_file", "exec_source_log_file"), source.file_name)
        replica.status(f"{A}:1", replica.says(source, f"{A}:1", **files, **positions))
        if has_gap:
            source.gap()
        source.reset()
        source.event(560)
        source.log(f"{A}:1")
        source.status(f"{A}:1")
        assert names(audit(source, replica)) == []

    def test_an_operators_assignment_is_not_errant(self):
        """SET gtid_purged on the replica is the operator's word."""
        source, replica = fleet_of_two()
        replica.assign(f"{C}:1")
        replica.status(f"{A}:1-3,{C}:1", replica.says(source), purged=f"{C}:1")
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == []

    def test_an_assignment_of_what_the_source_has_still_to_give_out_is_errant(self):
        """The replica will skip these; what the source has given out was its own to assign."""
        source, replica = fleet_of_two()
        replica.assign(f"{A}:1-5,{C}:1")
        replica.status(f"{A}:1-5,{C}:1", replica.says(source), purged=f"{A}:1-5,{C}:1")
        source.status(f"{A}:1-3")
        finding = the_only(audit(source, replica), "no_errant_gtids")
        assert (finding.case, finding.witness) == ("assigned_ahead", f"{A}:4-5")

    def test_what_was_written_and_what_was_assigned_ahead_are_two_findings(self):
        """The source may fetch the first; the second ends with the replica's data alone."""
        source, replica = fleet_of_two()
        replica.assign(f"{A}:1-4")
        replica.log(f"{B}:1")
        replica.status(f"{A}:1-4,{B}:1", replica.says(source), purged=f"{A}:1-4")
        source.status(f"{A}:1-3")
        found = {one.case: one.witness for one in audit(source, replica).findings}
        assert found == {"not_of_source": f"{B}:1", "assigned_ahead": f"{A}:4"}

    @pytest.mark.parametrize(
        ("assigned", "is_known_since", "errant"),
        [("3", True, None), ("4", True, "4"), ("1-5", True, "4-5"), ("4", False, None)],
    )
    def test_an_assignment_that_the_source_gives_out_before_the_next_row(
        self, assigned, is_known_since, errant
    ):
        """The source has it by then, and the replica has skipped it.

        What is read of the source's log later may have been written before.
        """
        source, replica = fleet_of_two()
        replica.status("", replica.says(source))
        source.status(f"{A}:1-3")
        replica.assign(f"{A}:{assigned}")
        if is_known_since:
            source.time()
        source.log(f"{A}:4")
        source.log(f"{A}:5")
        replica.status(f"{A}:1-5", replica.says(source), purged=f"{A}:{assigned}")
        source.status(f"{A}:1-5")
        output = audit(source, replica)
        if errant is None:
            assert names(output) == []
        else:
            assert the_only(output, "no_errant_gtids").witness == f"{A}:{errant}"

    def test_what_the_source_had_given_out_when_they_were_assigned_may_be_forgotten(
        self, monkeypatch
    ):
        """As of a replica that is compared long after."""
        monkeypatch.setattr("tallystick.coordinates.audit.timeline_snapshot.SNAPSHOTS_MAX", 4)
        source, replica = fleet_of_two()
        replica.assign(f"{A}:4")
        source.time()
        source.log(f"{A}:4")
        for _ in range(9):
            source.time()
            source.log("")
        replica.status(f"{A}:1-4", replica.says(source), purged=f"{A}:4")
        source.status(f"{A}:1-4")
        output = audit(source, replica)
        assert names(output) == []
        assert "assigned_then_forgotten" in [seen.reason for seen in output.observations]

    def test_the_groups_own_gtids_are_not_errant(self):
        """Group Replication numbers under the group's name."""
        source, replica = fleet_of_two()
        replica.boot(group_replication_group_name=C.upper())
        replica.status(f"{C}:1", replica.says(source))
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == []

    def test_sources_count_together(self):
        """With two sources a GTID is errant only if neither knows it."""
        clock = Clock()
        a, b, r = Journal(clock, "a", A, 1), Journal(clock, "b", B, 2), Journal(clock, "r", C, 3)
        for journal in (a, b, r):
            journal.boot()
            journal.open_file()
        r.follow(a, "one")
        r.follow(b, "two")
        a.log(f"{A}:1")
        b.log(f"{B}:1")
        a.status(f"{A}:1")
        b.status(f"{B}:1")
        said = r.says(a, channel="one"), r.says(b, channel="two")
        r.status(f"{A}:1,{B}:1", *said)
        a.status(f"{A}:1")
        b.status(f"{B}:1")
        assert names(audit(a, b, r)) == []
        r.administer("reset_all", "two")
        r.status(f"{A}:1,{B}:1-2", said[0])
        a.status(f"{A}:1")
        assert names(audit(a, b, r)) == []
        r.status(f"{A}:1,{B}:1-2,{C}:1", said[0])
        a.status(f"{A}:1")
        assert names(audit(a, b, r)) == ["no_errant_gtids"]

    @pytest.mark.parametrize(("executed", "is_broken"), [("1-4", False), ("1-5", True)])
    def test_a_replica_ahead_of_a_lagging_new_source(self, executed, is_broken):
        """What the new source is still to receive from its own source is known there."""
        source, replica = fleet_of_two(groups=4)
        lagging = Journal(source.clock, "l", C, 3)
        lagging.boot()
        lagging.open_file()
        lagging.follow(source)
        lagging.log(f"{A}:1", f"{A}:2", server_id=1)
        lagging.status(f"{A}:1-2", lagging.says(source, f"{A}:1-2"))
        replica.follow(lagging)
        replica.status(f"{A}:{executed}", replica.says(lagging))
        for journal, gtids in ((lagging, "1-2"), (source, "1-4")):
            journal.status(f"{A}:{gtids}", *([journal.says(source)] if journal is lagging else []))
        output = audit(source, lagging, replica)
        assert names(output) == (["no_errant_gtids"] if is_broken else [])

    @pytest.mark.parametrize("who", [None, "source", "another"])
    def test_of_a_sources_source_whose_journal_begins_anew_right_after_the_row(self, who):
        """Whichever of them it is: what it had executed before that is not known."""
        source, replica = fleet_of_two(groups=4)
        lagging, another = (Journal(source.clock, name, C, n) for n, name in ((3, "l"), (4, "o")))
        another.uuid = f"{C[:-1]}4"
        for journal in (lagging, another):
            journal.boot()
            journal.open_file()
        lagging.follow(source, "one")
        lagging.follow(another, "two")
        says = lagging.says(source, channel="one"), lagging.says(another, channel="two")
        replica.follow(lagging)
        for journal in (source, another):
            journal.status(f"{A}:1-4" if journal is source else "")
        lagging.status(f"{A}:1-2", *says)
        replica.status(f"{A}:1-4,{B}:1", replica.says(lagging))
        for journal in (source, another):
            known = f"{A}:1-4" if journal is source else ""
            if who == ("source" if journal is source else "another"):
                journal.gap()
                journal.open_file(known)
            journal.status(known)
        lagging.status(f"{A}:1-2", *says)
        output = audit(source, another, lagging, replica)
        assert names(output) == ([] if who else ["no_errant_gtids"])
        reasons = {seen.reason for seen in output.observations}
        assert ("source_log_unknown_then" in reasons) == (who is not None)

    @pytest.mark.parametrize("gtid", ["", f"{A}:4"])
    def test_a_replica_may_have_assigned_gtids_to_anonymous_groups(self, gtid):
        """ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS takes the replica's own UUID or any other."""
        source, replica = fleet_of_two()
        source.log(gtid)
        replica.status(f"{A}:1-3,{B}:1", replica.says(source))
        source.status(f"{A}:1-3" if gtid == "" else f"{A}:1-4")
        output = audit(source, replica)
        assert names(output) == ([] if gtid == "" else ["no_errant_gtids"])
        reported = any("may have assigned" in observation_text(o) for o in output.observations)
        assert reported == (gtid == "")

    def test_what_was_errant_is_no_more_while_the_source_lags(self):
        """The source has fetched it, and is blamed now; what its source has is on its way."""
        source, replica = fleet_of_two(groups=4)
        lagging = Journal(source.clock, "l", C, 3)
        lagging.boot()
        lagging.open_file()
        lagging.follow(source)
        replica.follow(lagging)
        for fetched, executed in (("", f"{A}:1-2"), (f",{B}:1", f"{A}:1-4")):
            lagging.status(f"{A}:1-2{fetched}", lagging.says(source))
            replica.status(f"{executed},{B}:1", replica.says(lagging))
            lagging.status(f"{A}:1-2{fetched}", lagging.says(source))
            source.status(f"{A}:1-4")
        output = audit(source, lagging, replica)
        assert [one.instance_id for one in output.findings] == ["r", "l"]
        of_rule = [one for one in output.checks if one.check.rule == "no_errant_gtids"]
        found = [one.check.outcome.value for one in of_rule if one.instance_id == "r"]
        assert found == ["broken", "holds"]

    def test_what_a_sources_source_has_executed_without_a_group_is_on_its_way(self):
        """As that server's row shows; its log begins after it."""
        source, replica = fleet_of_two(groups=0, has_row=False)
        lagging = Journal(source.clock, "l", C, 3)
        lagging.boot()
        lagging.open_file()
        lagging.follow(source)
        replica.follow(lagging)
        for _ in range(2):
            source.status(f"{A}:1-4")
            lagging.status(f"{A}:1-2", lagging.says(source))
            replica.status(f"{A}:1-4", replica.says(lagging))
        source.status(f"{A}:1-4")
        lagging.status(f"{A}:1-2", lagging.says(source))
        assert names(audit(source, lagging, replica)) == []

    def test_own_writes_in_a_ring_are_on_their_way(self):
        """Two instances that follow each other: each may be ahead by its own writes."""
        source, replica = fleet_of_two()
        source.follow(replica)
        source.status(f"{A}:1-3", source.says(replica))
        replica.status(f"{A}:1-3,{B}:1", replica.says(source))
        source.status(f"{A}:1-3", source.says(replica))
        assert names(audit(source, replica)) == []

    def test_an_old_source_that_returns_is_judged(self):
        """Its unreplicated own GTIDs are errant now."""
        source, replica = fleet_of_two()
        received_all(source, replica)
        source.log(f"{A}:4")
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3"))
        replica.administer("reset_all")
        replica.status(f"{A}:1-3")
        source.follow(replica)
        source.status(f"{A}:1-4", source.says(replica))
        replica.status(f"{A}:1-3")
        finding = the_only(audit(source, replica), "no_errant_gtids")
        assert (finding.instance_id, finding.witness) == ("s", f"{A}:4")

    def test_of_a_source_whose_journal_begins_anew_right_after_the_row_it_is_undecided(self):
        """A RESET may hide in the gap: what the source had executed before it is not known."""
        source, replica = fleet_of_two()
        replica.status(f"{A}:1-3", replica.says(source))
        source.status(f"{A}:1-3")
        replica.log(f"{B}:1")
        replica.status(f"{A}:1-3,{B}:1", replica.says(source))
        source.gap()
        source.open_file(f"{A}:1-3")
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        assert "source_log_unknown_then" in {seen.reason for seen in output.observations}
        replica.status(f"{A}:1-3,{B}:1", replica.says(source))
        source.status(f"{A}:1-3")
        assert the_only(audit(source, replica), "no_errant_gtids").witness == f"{B}:1"

    def test_a_gap_in_the_source_leaves_it_undecided(self):
        """Until PREVIOUS_GTIDS gives the set anew and a row has come."""
        source, replica = fleet_of_two()
        source.gap()
        replica.status(f"{C}:1", replica.says(source))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        assert any("no_errant_gtids" in o.rules for o in output.observations)
        source.open_file(f"{A}:1-3,{C}:1")
        source.status(f"{A}:1-3,{C}:1")
        output = audit(source, replica)
        assert names(output) == []
        assert not any("no_errant_gtids" in o.rules for o in output.observations)


class TestPassedIsExecuted:
    """Rule 31, by the source's log."""

    @pytest.mark.parametrize(
        ("executed", "retrieved", "position", "omitted"),
        [
            (f"{A}:1-3", f"{A}:1-3", end_of(3), []),
            (f"{A}:3", f"{A}:1-3", end_of(3), [f"{A}:1-2"]),  # RESET on the replica
            ("", f"{A}:1-3", end_of(3), [f"{A}:1-2"]),  # the last one may still commit
            (f"{A}:1", f"{A}:1-3", end_of(2), []),
            (f"{A}:1", f"{A}:1-3", end_of(3), [f"{A}:2"]),
            (f"{A}:1", "", end_of(3), [f"{A}:2"]),  # put to a later position
            (f"{A}:3", f"{A}:3", end_of(3), []),  # a replica that was made from a dump
            (f"{A}:1:3", f"{A}:3", end_of(3), [f"{A}:2"]),  # begun at a wrong position
            (f"{A}:1-2", f"{A}:1-3", end_of(3), []),  # the last one may still commit
            (f"{A}:1:3-4", None, end_of(4), [f"{A}:2"]),
            (f"{A}:2:4", f"{A}:2:4", end_of(4), [f"{A}:3"]),  # both
        ],
    )
    def test_what_lies_before_the_executed_position(self, executed, retrieved, position, omitted):
        """It is executed, if it was retrieved or lies between what was executed."""
        source, replica = fleet_of_two(groups=4)
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": position}
        for _ in range(2):
            replica.status(
                executed, replica.says(source, retrieved, auto_position=False, **coordinates)
            )
            source.status(f"{A}:1-4")
        output = audit(source, replica)
        assert [finding.witness for finding in output.findings] == omitted
        assert set(names(output)) <= {"applied_relay_gtids_executed"}
        broken = [one for one in output.checks if one.check.outcome is Outcome.BROKEN]
        assert [one.collection_id for one in broken] == ["c1", "c2"] * len(omitted)

    def test_what_the_source_has_purged_hides_nothing_that_is_in_its_log(self):
        """What is executed begins before the log does, and ends within it."""
        source, replica = fleet_of_two(groups=0, has_row=False)
        source.log(*(f"{A}:{gno}" for gno in range(3, 7)))
        at = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(4)}
        for executed in (f"{A}:1-6", f"{A}:1-4:6"):
            replica.status(executed, replica.says(source, None, auto_position=False, **at))
            source.status(f"{A}:1-6", purged=f"{A}:1-2")
        assert [finding.witness for finding in audit(source, replica).findings] == [f"{A}:5"]

    @pytest.mark.parametrize(
        ("executed", "missing"),
        [
            (f"{A}:1-4", None),  # its own, as of a ring, comes back
            (f"{A}:1-2", None),  # it lags
            ("", None),
            (None, None),  # it was not read
            (f"{A}:1:3", f"{A}:2"),
            (f"{A}:3", f"{A}:1-2"),
        ],
    )
    @pytest.mark.parametrize("auto_position", [True, False])
    def test_what_is_left_behind_where_the_status_does_not_tell_how_far_it_is(
        self, executed, missing, auto_position
    ):
        """Workers may still commit it, or nobody ever will: no row without the status decides."""
        source, replica = fleet_of_two(groups=0, has_row=False)
        source.log(f"{A}:1", f"{A}:2", f"{B}:1", f"{A}:3", f"{A}:4")
        for _ in range(2):
            said = replica.says(source, None, auto_position=auto_position, shows_progress=False)
            replica.status(executed, said)
            source.status(f"{A}:1-4,{B}:1")
        output = audit(source, replica)
        assert names(output) == []
        said = [o for o in output.observations if o.reason == "groups_left_behind"]
        assert [(o.rules, o.data["missing"]) for o in said] == (
            [(("applied_relay_gtids_executed",), missing)] if missing else []
        )
        left = [c for c in output.checks if c.check.reason == "groups_left_behind"]
        assert [one.collection_id for one in left] == (["c1", "c2"] if missing else [])

    @pytest.mark.parametrize("executed", [f"{A}:1-3", f"{A}:1:3"])
    def test_what_was_left_out_is_undecided_if_the_source_is_not_known_up_to_the_row(
        self, executed
    ):
        """The journals go on: the source's binary log may begin anew before that."""
        source, replica = fleet_of_two()
        at = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
        replica.status(executed, replica.says(source, None, auto_position=False, **at))
        fleet = FleetAudit()
        for journal in (source, replica):
            fleet.absorb(journal.fleet_events)
        output = fleet.give_up()
        assert names(output) == []
        waits = [one.rules for one in output.observations if one.reason == "source_not_reached"]
        is_hole = executed != f"{A}:1-3"
        assert waits == [("applied_relay_gtids_executed",)] * is_hole

    @pytest.mark.parametrize("name", ["read", "exec"])
    def test_a_position_without_a_file_is_none(self, name):
        """As of a channel that has not connected yet."""
        source, replica = fleet_of_two()
        at = {f"{name}_source_log_file": "", f"{name}_source_log_pos": 4}
        for _ in range(2):
            replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **at))
            source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        rules = ("source_coordinate_valid", "applied_relay_gtids_executed")
        assert {one.check.reason for one in output.checks if one.check.rule in rules} == {""}

    def test_what_auto_positioning_leaves_out_is_found_in_the_relay_log(self):
        """Where that is seen, and there alone."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
        at = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
        replica.status(f"{A}:1:3", replica.says(source, f"{A}:1:3", **at))
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == ["relay_mirrors_source"]

    @pytest.mark.parametrize(
        ("executed", "auto_position", "is_open"),
        [
            (f"{A}:3", False, True),
            ("", False, True),  # the last one may still commit
            (f"{A}:1-3", False, False),  # SET gtid_purged
            (f"{A}:3", True, False),  # the source sends it
        ],
    )
    def test_what_is_before_the_position_at_which_it_began(self, executed, auto_position, is_open):
        """A dump may have brought it: gtid_executed does not count that, at each row."""
        source, replica = fleet_of_two(groups=4)
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
        for _ in range(2):
            said = replica.says(source, None, auto_position=auto_position, **coordinates)
            replica.status(executed, said)
            source.status(f"{A}:1-4")
        output = audit(source, replica)
        assert names(output) == []
        said = [one for one in output.checks if one.check.reason == "begun_after"]
        assert [one.collection_id for one in said] == ["c1", "c2"] * is_open
        texts = [observation_text(o) for o in output.observations if "begun_after" in str(o)]
        assert ["does not count" in text and ":1-2, which s" in text for text in texts] == [
            True
        ] * is_open

    @pytest.mark.parametrize(
        ("logged", "put", "is_open"),
        [
            (("", ""), end_of(2), True),
            (("", ""), end_of(0), False),  # nothing is before it
            ((f"{A}:1", f"{A}:2"), end_of(2), False),  # gtid_executed shows what it has
            ((f"{A}:1", ""), end_of(1), False),
            (("", ""), None, False),  # the record does not say where
        ],
    )
    def test_where_a_channel_was_put_among_groups_without_gtids(self, logged, put, is_open):
        """One group too far and it lacks that one, which nothing shows."""
        source, replica = fleet_of_two(groups=0)
        source.log(*logged)
        file = None if put is None else "s-bin.000001"
        at = {"source_log_file": file, "source_log_pos": put} if file else {}
        replica.follow(source, auto_position=False, **at)
        source.status(",".join(filter(None, logged)))
        output = audit(source, replica)
        assert names(output) == []
        assert ["put_among_anonymous" in str(o) for o in output.observations] == [True] * is_open

    @pytest.mark.parametrize(
        ("position", "is_open"), [(end_of(2), False), (end_of(1), True), (end_of(3), True)]
    )
    @pytest.mark.parametrize("shown", ["row", "restore", "replay", "image of a replica"])
    def test_a_channel_is_put_to_where_its_data_are(self, shown, position, is_open):
        """By what it had executed, by the image that it was restored from, or by a replay."""
        source, replica = fleet_of_two(groups=0)
        source.log("", "", "", "")
        backup = partial(replica.fleet_event, FleetEventKind.BACKUP)
        image = {"backup_id": "b", "binlog_file": "s-bin.000001", "binlog_position": end_of(2)}
        there = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(2)}
        if shown == "row":
            replica.status("", replica.says(source, auto_position=False, **there))
            source.status("")
        elif shown == "image of a replica":
            of_replica = {"channel": "", "source_instance": "s", **there}
            unknown = {"channel": "x"}
            image |= {"binlog_file": "r-bin.000001", "binlog_position": end_of(3)}
            backup(step="restore", peer="x", channels=[unknown, of_replica], **image)
        else:
            at = end_of(2 if shown == "restore" else 4)
            backup(step="restore", peer="s", **{**image, "binlog_position": at})
        if shown == "replay":
            backup(step="replay", peer="s", backup_id="b")
            ended = {"to_file": "s-bin.000001", "to_position": end_of(2)}
            backup(step="replayed", peer="s", backup_id="b", **ended)
        put = {"source_log_file": "s-bin.000001", "source_log_pos": position}
        replica.follow(source, auto_position=False, **put)
        source.status("")
        seen = audit(source, replica).observations
        named = [(o.data["file"], o.data["position"]) for o in seen if "put_among" in o.reason]
        assert named == [("s-bin.000001", position)] * is_open

    @pytest.mark.parametrize("since", ["data replaced", "records missing", "nothing"])
    def test_where_a_channel_had_executed_says_nothing_of_other_data(self, since):
        """A dump may be older than the position at which the channel goes on."""
        source, replica = fleet_of_two(groups=0)
        source.log("", "")
        there = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(2)}
        replica.status("", replica.says(source, auto_position=False, **there))
        source.status("")
        if since == "data replaced":
            replica.boot(data_lineage=1)
        elif since == "records missing":
            replica.gap()
        put = {"source_log_file": "s-bin.000001", "source_log_pos": end_of(2)}
        replica.follow(source, auto_position=False, **put)
        source.status("")
        said = any("put_among_anonymous" in str(o) for o in audit(source, replica).observations)
        assert said == (since != "nothing")

    @pytest.mark.parametrize(
        ("logged", "begun", "reason"),
        [
            ("", "put", "put_among_anonymous"),
            ("", "reset", "reset_among_anonymous"),
            ("", "reset and put", ""),  # to where it was
            ("", "source reset", ""),  # it begins in another log
            (f"{A}:1", "reset", ""),  # what it has, its gtid_executed shows
        ],
    )
    def test_groups_without_gtids_that_come_again(self, logged, begun, reason):
        """From the beginning of the source's log, though the replica had executed some of it."""
        source, replica = fleet_of_two(groups=0)
        source.log(logged)
        there = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(1)}
        replica.status(logged, replica.says(source, None, auto_position=False, **there))
        source.status(logged)
        replica.follow(
            source, auto_position=False, source_log_file="s-bin.000001", source_log_pos=end_of(1)
        )
        at = {"source_log_file": "s-bin.000001", "source_log_pos": end_of(0)}
        if begun == "source reset":
            source.reset()
        if begun != "put":
            replica.administer("reset")
            at["source_log_pos"] = end_of(1)
        if "put" in begun:
            replica.follow(source, auto_position=False, **at)
        else:
            replica.administer("start_receiver")
        source.status("" if begun == "source reset" else logged)
        output = audit(source, replica)
        assert names(output) == []
        said = [o.reason for o in output.observations if "among_anonymous" in o.reason]
        assert said == [reason] * bool(reason)

    @pytest.mark.parametrize(
        ("executed", "position", "is_passed"),
        [
            (f"{A}:1:3", end_of(3), True),
            (f"{A}:1:3", end_of(4), True),
            (f"{A}:1", end_of(3), False),  # what comes after what was executed may be late
            (f"{A}:3", end_of(3), False),  # what came before it, a dump may have brought
        ],
    )
    @pytest.mark.parametrize("is_restored", [False, True])
    def test_between_what_was_executed_by_auto_positioning(
        self, executed, position, is_passed, is_restored
    ):
        """Also where the executed position is the end of the last one executed.

        Of a replica whose data were replaced, too: nothing of its relay log is seen.
        """
        source, replica = fleet_of_two(groups=4)
        if is_restored:
            replica.clock.advance(2_000_000)
            replica.boot(data_lineage=1)
            replica.follow(source)
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": position}
        replica.status(executed, replica.says(source, None, **coordinates))
        source.status(f"{A}:1-4")
        assert names(audit(source, replica)) == ["applied_relay_gtids_executed"] * is_passed

    @pytest.mark.parametrize(
        ("executed", "queued", "known_for", "found"),
        [
            (f"{A}:1:3-5", (4, 5), None, ["applied_relay_gtids_executed"]),
            (f"{A}:1-5", (4, 5), None, []),
            (f"{A}:3-5", (4, 5), None, []),  # what came before it, a dump may have brought
            (f"{A}:1:3-5", (1, 3, 4, 5), None, []),  # undecided: the source's log came later
            (f"{A}:1:3-5", (4, 5), 2_000_000, ["relay_mirrors_source"]),
        ],
    )
    def test_what_was_left_out_before_the_relay_log_was_seen(
        self, executed, queued, known_for, found
    ):
        """A journal may begin after it: what the relay log shows is compared from there on.

        `known_for`: since how long the source's log is known then, None: since later.
        """
        clock = Clock()
        source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        groups = [f"{A}:{number}" for number in range(1, 6)]
        for journal in (replica,) if known_for is None else (source, replica):
            journal.boot()
            journal.open_file()
        clock.advance(known_for or 0)
        replica.follow(source)
        replica.receive(source, *((number, groups[number - 1]) for number in queued))
        if known_for is None:
            source.boot()
            source.open_file()
        source.log(*groups)
        there = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(5)}
        for _ in range(2):
            replica.status(executed, replica.says(source, f"{A}:4-5", **there))
            source.status(f"{A}:1-5")
        output = audit(source, replica)
        assert names(output) == found
        for finding in output.findings:
            assert finding.witness == f"{A}:2"

    @pytest.mark.parametrize(("executed", "is_open"), [(f"{A}:1:3", True), (f"{A}:1-3", False)])
    def test_of_a_log_that_may_have_begun_after_the_row_it_is_undecided(self, executed, is_open):
        """Where a group is lacking; the next row decides."""
        clock = Clock()
        source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        replica.boot()
        replica.open_file()
        replica.follow(source)
        there = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
        replica.status(executed, replica.says(source, "", **there))
        source.boot()
        source.open_file()
        source.log(*(f"{A}:{number}" for number in range(1, 4)))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        said = {(one.check.rule, one.check.reason) for one in output.checks}
        assert (("applied_relay_gtids_executed", "passed_maybe") in said) == is_open

    @pytest.mark.parametrize(("executed", "is_open"), [(f"{A}:1:3", True), (f"{A}:1-2", False)])
    def test_of_a_replica_that_logs_nothing_it_is_undecided(self, executed, is_open):
        """At each row that lacks it, and the verdict of the collection with it."""
        source, replica = fleet_of_two(groups=4)
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
        for _ in range(2):
            said = replica.says(source, None, **coordinates)
            replica.status(executed, said, logs_everything=False)
            source.status(f"{A}:1-4")
        output = audit(source, replica)
        assert names(output) == []
        said = [one for one in output.checks if one.check.reason == "passed_unlogged"]
        assert [one.collection_id for one in said] == ["c1", "c2"] * is_open
        assert not any(is_optional(one.check, "CONSISTENT") for one in said)

    @pytest.mark.parametrize(
        ("executed", "missing"),
        [
            (f"{A}:2:4", f"{A}:1:3,{B}:7"),
            (f"{A}:3-4", f"{A}:1-2,{B}:7"),
            (f"{A}:1-4", f"{B}:7"),  # its own: no row says whether it commits
            (f"{A}:2:4,{B}:7", f"{A}:1:3"),
        ],
    )
    def test_what_a_replica_that_logs_nothing_has_passed_is_named_as_a_whole(
        self, executed, missing
    ):
        """What came before all that it has executed, and what came after it."""
        source, replica = fleet_of_two(groups=4, auto_position=False)
        source.log(f"{B}:7", f"{A}:5")
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(6)}
        said = replica.says(source, None, auto_position=False, **coordinates)
        replica.status(executed, said, logs_everything=False)
        source.status(f"{A}:1-5,{B}:7")
        output = audit(source, replica)
        assert names(output) == []
        [said] = [one.check for one in output.checks if one.check.reason == "passed_unlogged"]
        assert said.data["missing"] == missing

    def test_anonymous_groups_are_not_looked_up(self):
        """Among groups that have GTIDs, one of which was passed and not executed."""
        source, replica = fleet_of_two(groups=2)
        source.log("", f"{A}:3", "", "", f"{A}:4")
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(7)}
        said = replica.says(source, f"{A}:1-4", auto_position=False, **coordinates)
        replica.status(f"{A}:1-2:4", said)
        source.status(f"{A}:1-4")
        output = audit(source, replica)
        assert [finding.witness for finding in output.findings] == [f"{A}:3"]

    @pytest.mark.parametrize("auto_position", [False, True])
    @pytest.mark.parametrize(
        ("gtid", "pending", "expected"),
        [
            (f"{B}:7", f"{B}:7", []),
            (f"{B}:7", f"{B}:6:8", ["own_lost"]),
            (f"{B}:7", None, ["own_may_commit"]),
            (f"{C}:7", f"{C}:7", ["passed_in_source_log"]),
        ],
    )
    def test_a_replicas_own_group_may_be_passed_before_it_is_executed(
        self, gtid, pending, expected, auto_position
    ):
        """In a ring it comes back from the source while the replica still commits it."""
        source, replica = fleet_of_two(auto_position=auto_position)
        source.log(gtid, f"{A}:4", f"{A}:5")
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(6)}
        for _ in range(2):
            said = replica.says(source, None, auto_position=auto_position, **coordinates)
            replica.status(f"{A}:1-5", said, own_pending=pending)
            source.status(f"{A}:1-5,{gtid}")
        output = audit(source, replica)
        rule = "applied_relay_gtids_executed"
        said = {one.check.reason for one in output.checks if one.check.rule == rule}
        said |= {finding.case for finding in output.findings}
        assert said - {""} == set(expected)

    @pytest.mark.parametrize(("start", "expected"), [(2, ["own_lost"]), (3, ["begun_after"])])
    def test_by_position_it_may_have_begun_behind_its_own(self, start, expected):
        """What is before all that it has executed of the source is not shown to be passed."""
        source, replica = fleet_of_two(groups=0, auto_position=False)
        source.log(*(f"{A}:1", f"{B}:1", f"{A}:2")[start - 2 :], f"{A}:3")
        end = end_of(6 - start)
        coordinates = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end}
        executed = f"{A}:1-3" if start == 2 else f"{A}:2-3"
        said = replica.says(source, None, auto_position=False, **coordinates)
        replica.status(executed, said)
        source.status(f"{A}:1-3,{B}:1")
        output = audit(source, replica)
        found = [finding.case for finding in output.findings]
        said = {one.check.reason for one in output.checks}
        assert found + sorted(said & {"begun_after"}) == expected

    def test_filters_omit(self):
        """Groups of servers that are ignored are never executed."""
        source, replica = fleet_of_two(groups=4)
        said = replica.says(
            source,
            f"{A}:1:3-4",
            filtered=True,
            exec_source_log_file="s-bin.000001",
            exec_source_log_pos=end_of(4),
        )
        replica.status(f"{A}:1:3-4", said)
        source.status(f"{A}:1-4")
        assert names(audit(source, replica)) == []


class TestSourceCoordinateValid:
    """Rule 69."""

    @pytest.mark.parametrize(
        ("kind", "position", "is_valid"),
        [
            ("exec", 4, True),
            ("exec", 126, True),
            ("exec", 157, True),
            ("exec", end_of(1), True),
            ("exec", end_of(1) + 1, False),
            ("exec", end_of(3), True),
            ("exec", end_of(3) + 44, True),
            ("exec", end_of(3) + 45, False),
            ("read", end_of(1) + EVENT_LENGTH, True),
            ("read", end_of(1) + 1, False),
            ("read", end_of(3) + 44, True),
            ("read", end_of(3) + 45, False),
            ("read", 4, True),
            ("read", 0, True),
        ],
    )
    def test_places(self, kind, position, is_valid):
        """Rd ends an event, Ex a group, the header or the file."""
        source, replica = fleet_of_two()
        source.rotate(f"{A}:1-3")
        fields = {
            f"{kind}_source_log_file": "s-bin.000001",
            f"{kind}_source_log_pos": position,
        }
        for _ in range(2):
            replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
            source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == ([] if is_valid else ["source_coordinate_valid"])
        if not is_valid:
            assert output.findings[0].witness == f"s-bin.000001:{position}"

    @pytest.mark.parametrize(
        ("file", "position", "is_valid"), [(5, 4, True), (5, 5, False), (2, 4, False)]
    )
    def test_a_receiver_is_where_rotate_leads(self, file, position, is_valid):
        """Before the source's file that it names is seen, whatever its number is."""
        source, replica = fleet_of_two()
        source.event()
        source.end_file(left_out=3)
        fields = {
            "read_source_log_file": f"s-bin.00000{file}",
            "read_source_log_pos": position,
        }
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
        source.status(f"{A}:1-3")
        expected = [] if is_valid else ["source_coordinate_valid"]
        assert expected == names(audit(source, replica))

    @pytest.mark.parametrize("is_whole", [True, False])
    def test_the_last_group_of_the_log_is_one_once_its_end_is_logged(self, is_whole):
        """What follows later does not matter: until then it may have been a ROTATE or a STOP."""
        source, replica = fleet_of_two(groups=2)
        if is_whole:
            source.log(f"{A}:3")
        else:
            source.event(EVENT_LENGTH)
        fields = {
            "exec_source_log_file": "s-bin.000001",
            "exec_source_log_pos": end_of(2) + EVENT_LENGTH,
        }
        replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2", **fields))
        source.status(f"{A}:1-{3 if is_whole else 2}")
        source.time()
        source.log(f"{A}:{4 if is_whole else 3}")
        source.status(f"{A}:1-{4 if is_whole else 3}")
        assert names(audit(source, replica)) == ["source_coordinate_valid"] * is_whole

    @pytest.mark.parametrize("name", ["source_coordinate_valid", "applied_relay_gtids_executed"])
    @pytest.mark.parametrize("is_earlier", [True, False])
    def test_what_is_executed_of_an_earlier_source_is_not_held_against_this_one(
        self, is_earlier, name
    ):
        """The receiver was pointed elsewhere, and the applier has not come to that yet."""
        source, replica = fleet_of_two()
        beyond = 1 if name == "source_coordinate_valid" else 0
        fields = {
            "exec_source_log_file": "s-bin.000001",
            "exec_source_log_pos": end_of(3) + beyond,
            "executes_former": is_earlier,
        }
        for _ in range(2):
            replica.status(f"{A}:1", replica.says(source, f"{A}:1-3", **fields))
            source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert (name in names(output)) == (not is_earlier)
        assert not (is_earlier and output.findings)
        reasons = {one.check.reason for one in output.checks}
        assert ("coordinates_of_former_source" in reasons) == is_earlier

    @pytest.mark.parametrize("doubt", ["executes_former", "may_execute_former", None])
    @pytest.mark.parametrize("has_read", [True, False])
    def test_a_receiver_goes_on_from_what_is_executed_after_relay_log_recovery(
        self, has_read, doubt
    ):
        """These coordinates are of the former source until it has received something.

        Where both are one and the same, they are one breach.
        """
        source, replica = fleet_of_two()
        places = {"read": end_of(3) + 1, "exec": end_of(3) + 2 * has_read + 1}
        fields = {f"{name}_source_log_pos": place for name, place in places.items()}
        fields |= {f"{name}_source_log_file": "s-bin.000001" for name in places}
        if doubt is not None:
            fields[doubt] = True
        replica.status(f"{A}:1-3", replica.says(source, None, **fields))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        found = {finding.case for finding in output.findings}
        expected = {"read_beyond_end"} if has_read else set()
        assert found == expected | ({"executed_beyond_end"} if doubt is None else set())

    @pytest.mark.parametrize("has_relay_log", [True, False])
    @pytest.mark.parametrize("auto_position", [True, False])
    @pytest.mark.parametrize("beyond", [0, 8])
    def test_an_applier_may_name_a_former_file_beside_a_position_in_the_present_one(
        self, beyond, auto_position, has_relay_log
    ):
        """The relay log would show it; by position a receiver goes on within no other's group."""
        source, replica = fleet_of_two(auto_position=auto_position)
        if has_relay_log:
            received_all(source, replica)
        fields = {
            "read_source_log_file": "s-bin.000001",
            "read_source_log_pos": end_of(3),
            "exec_source_log_file": "s-bin.000009",
            "exec_source_log_pos": end_of(3) + beyond,
            "auto_position": auto_position,
        }
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        may_be_kept = auto_position and not has_relay_log and not beyond
        assert names(output) == ["source_coordinate_valid"] * (not may_be_kept)
        reasons = {one.check.reason for one in output.checks}
        assert ("coordinates_of_former_source" in reasons) == may_be_kept

    @pytest.mark.parametrize("kind", ["row", "image"])
    @pytest.mark.parametrize("may_be_former", [True, False])
    @pytest.mark.parametrize(
        ("beyond", "executed", "rule"),
        [
            (0, f"{A}:1-3", None),
            (1, f"{A}:1-3", "source_coordinate_valid"),
            (0, f"{A}:1:3", "applied_relay_gtids_executed"),
        ],
    )
    def test_what_may_be_of_a_source_before_the_journal_is_no_contradiction(
        self, may_be_former, beyond, executed, rule, kind
    ):
        """What is right in this one's log is right; of what is not, nothing is known."""
        source, replica = fleet_of_two()
        coordinates = {
            "exec_source_log_file": "s-bin.000001",
            "exec_source_log_pos": end_of(3) + beyond,
        }
        fields = {**coordinates, "may_execute_former": may_be_former}
        if kind == "image":
            replica.status(
                f"{A}:1-3", replica.says(source, None, **fields | dict.fromkeys(coordinates))
            )
            image = {"step": "image", "backup_id": "b1", "binlog_lineage": 0}
            summary = {"channel": "", "source_instance": "s", **coordinates}
            replica.fleet_event(FleetEventKind.BACKUP, channels=[summary], **image)
            source.time()
            rule = rule and {"source_coordinate_valid": "image_source_position_valid"}.get(rule)
        else:
            replica.status(executed, replica.says(source, None, auto_position=False, **fields))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == ([] if rule is None or may_be_former else [rule])
        reasons = {one.check.reason for one in output.checks}
        reasons |= {one.reason for one in output.observations}
        unknown = {"source_coordinate_valid", "image_source_position_valid"}
        assert ("coordinates_of_former_source" in reasons) == (may_be_former and rule in unknown)
        is_passed = may_be_former and rule == "applied_relay_gtids_executed"
        assert ("passed_maybe" in reasons) == is_passed

    @pytest.mark.parametrize(
        ("kind", "beyond", "is_valid"),
        [("exec", 0, True), ("exec", 8, False), ("exec", EVENT_LENGTH, False), ("read", 8, False)],
    )
    def test_an_image_names_positions_of_the_source(self, kind, beyond, is_valid):
        """An image has the positions of a group's end, not of anything beyond it."""
        source, replica = fleet_of_two()
        source.log(f"{A}:1", f"{A}:2")
        position = end_of(1) + beyond
        summary = {
            "channel": "",
            "source_instance": "s",
            f"{kind}_source_log_file": "s-bin.000001",
            f"{kind}_source_log_pos": position,
        }
        image = {"step": "image", "backup_id": "b1", "binlog_lineage": 0, "channels": [summary]}
        replica.fleet_event(FleetEventKind.BACKUP, **image)
        source.time()
        expected = [] if is_valid else ["image_source_position_valid"]
        assert names(audit(source, replica)) == expected

    @pytest.mark.parametrize("named_by", ["the channel", "the image", "nobody"])
    def test_an_image_names_positions_of_the_channels_source(self, named_by):
        """The replica's records say which that is, or the image itself."""
        source, replica = fleet_of_two()
        summary = {
            "channel": "",
            "source_instance": "s" if named_by == "the image" else None,
            "exec_source_log_file": "s-bin.000001",
            "exec_source_log_pos": end_of(1) + 8,
        }
        if named_by != "the channel":
            is_channel = [one.kind is FleetEventKind.CHANNEL for one in replica.fleet_events]
            del replica.fleet_events[is_channel.index(True) :]
        image = {"step": "image", "backup_id": "b1", "binlog_lineage": 0, "channels": [summary]}
        replica.fleet_event(FleetEventKind.BACKUP, **image)
        source.time()
        expected = ["image_source_position_valid"] * (named_by != "nobody")
        assert names(audit(source, replica)) == expected

    @pytest.mark.parametrize("way", ["ring", "ignores_servers", "filtered", None])
    @pytest.mark.parametrize("shown_by", ["row", "image"])
    def test_an_applier_moves_event_by_event_through_what_its_receiver_ignores(self, way, shown_by):
        """In a ring its own groups, and those of ignored server ids; filters are the applier's."""
        source, replica = fleet_of_two()
        if way == "ring":
            source.follow(replica)
        position = end_of(1) + EVENT_LENGTH
        fields = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": position}
        shown = {"auto_position": False, **(fields if shown_by == "row" else {})}
        shown |= {"filtered": way in ("filtered", "ignores_servers")}
        shown |= {"ignores_servers": way == "ignores_servers"}
        source.status(f"{A}:1-3", *([source.says(replica)] if way == "ring" else []))
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **shown))
        if shown_by == "image":
            image = {"step": "image", "backup_id": "b1", "binlog_lineage": 0}
            channels = [{"channel": "", "source_instance": "s", **fields}]
            replica.fleet_event(FleetEventKind.BACKUP, **image, channels=channels)
        source.status(f"{A}:1-3", *([source.says(replica)] if way == "ring" else []))
        rule = {"row": "source_coordinate_valid", "image": "image_source_position_valid"}[shown_by]
        assert names(audit(source, replica)) == [rule] * (way in ("filtered", None))

    @pytest.mark.parametrize(
        ("executed", "gtid", "fields", "is_valid"),
        [
            (f"{A}:1-4", f"{A}:4", {}, True),
            (f"{A}:1-3:5", f"{A}:4", {}, False),
            (f"{A}:1-4", f"{A}:4", {"auto_position": False}, False),
            (f"{A}:1-4", "", {}, False),
            (None, f"{A}:4", {}, True),
        ],
    )
    def test_an_applier_is_within_a_group_that_the_replica_has(
        self, executed, gtid, fields, is_valid
    ):
        """By GTID set its source passes that, and its heartbeats name the ends of events there."""
        source, replica = fleet_of_two()
        source.log(gtid)
        at = {"exec_source_log_file": "s-bin.000001"}
        for by in (EVENT_LENGTH, 2 * EVENT_LENGTH):
            at["exec_source_log_pos"] = end_of(3) + by
            replica.status(executed, replica.says(source, f"{A}:1-4", **at, **fields))
        source.status(f"{A}:1-4")
        found = ["executed_inside_group"] * (0 if is_valid else 2)
        output = audit(source, replica)
        assert found == [f.case for f in output.findings if f.rule == "source_coordinate_valid"]
        doubts = [o.reason for o in output.observations if "source_coordinate_valid" in o.rules]
        assert ["replica_set_unknown"] * (executed is None) == doubts

    @pytest.mark.parametrize(
        ("file", "position", "is_valid"),
        [("000002", 157, True), ("000003", 4, True), ("000003", 157, False), ("000004", 4, False)],
    )
    def test_files(self, file, position, is_valid):
        """The next file may be named before it is seen, none beyond it."""
        source, replica = fleet_of_two()
        source.rotate(f"{A}:1-3")
        fields = {"read_source_log_file": f"s-bin.{file}", "read_source_log_pos": position}
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
        source.status(f"{A}:1-3")
        expected = [] if is_valid else ["source_coordinate_valid"]
        assert names(audit(source, replica)) == expected

    @pytest.mark.parametrize(("lost", "is_valid"), [(0, True), (1, False)])
    def test_behind_the_recovered_end(self, lost, is_valid):
        """A position that a crash took back is wrong from then on."""
        source, replica = fleet_of_two()
        fields = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
        said = replica.says(source, f"{A}:1-{3 - lost}", **fields)
        replica.status(f"{A}:1-3", said)
        source.boot()
        source.end_file(end_of(3 - lost))
        source.open_file(f"{A}:1-{3 - lost}")
        source.status(f"{A}:1-{3 - lost}")
        assert names(audit(source, replica)) == []
        replica.status(f"{A}:1-3", said)
        source.status(f"{A}:1-{3 - lost}")
        output = audit(source, replica)
        assert names(output) == ([] if is_valid else ["source_coordinate_valid"])

    @pytest.mark.parametrize("by", ["row", "change_source"])
    @pytest.mark.parametrize(
        ("later", "is_broken"),
        [
            ([], False),
            ([(end_of(5), end_of(5), True)], False),  # nothing was received yet
            ([(end_of(2), end_of(5), True)], False),  # the applier has groups of the one before
            ([(end_of(2), end_of(2) + 7, False)], True),  # it went back: to the new one's
            ([(end_of(5), end_of(4), True)] * 2, False),  # still nothing was received
            ([(end_of(6), end_of(2), False)], True),  # something was received
        ],
    )
    def test_coordinates_may_be_of_the_source_before(self, by, later, is_broken):
        """Behind one address another server answers, or the receiver goes over to it by itself."""
        clock = Clock()
        before, source, replica = (
            Journal(clock, name, uuid, number)
            for number, (name, uuid) in enumerate((("p", A), ("s", C), ("r", B)), 1)
        )
        for journal in (before, source, replica):
            journal.boot()
            journal.open_file()
        before.log(*(f"{A}:{n}" for n in (1, 2, 3, 4, 5)))
        source.log(f"{A}:1", f"{A}:2", server_id=1)
        replica.administer("change_source", source_uuid=A)

        def says(of: Journal, read: int, executed: int, *, is_former: bool) -> dict[str, Any]:
            file = "s-bin.000001"  # of both servers
            return replica.says(
                of,
                None,
                read_source_log_file=file,
                read_source_log_pos=read,
                exec_source_log_file=file,
                exec_source_log_pos=executed,
                executes_former=is_former,
            )

        replica.status(f"{A}:1-5", says(before, end_of(5), end_of(4), is_former=False))
        if by == "change_source":
            replica.administer("change_source", source_uuid=C)
        for read, executed, is_former in [(end_of(5), end_of(4), True), *later]:
            replica.status(f"{A}:1-5", says(source, read, executed, is_former=is_former))
        for journal in (before, source):
            journal.status(f"{A}:1-5")
        output = audit(before, source, replica)
        assert ("source_coordinate_valid" in names(output)) == is_broken
        assert "coordinates_of_former_source" in {o.reason for o in output.observations}

    @pytest.mark.parametrize("is_applied", [False, True])
    def test_groups_before_coordinates_of_the_source_before(self, is_applied):
        """They are positions in the other server's log as well, where other groups end."""
        source, replica = fleet_of_two(groups=4)
        replica.administer("change_source", source_uuid=C)
        for server_uuid, read in ((C, 2), (A, 3), (A, 4 if is_applied else 3)):
            coordinates = {
                f"{name}_source_log_{part}": value
                for name, end in (("read", end_of(read)), ("exec", end_of(4)))
                for part, value in (("file", "s-bin.000001"), ("pos", end))
            }
            said = replica.says(
                None,
                None,
                source_uuid=server_uuid,
                executes_former=not is_applied or read != 4,
                **coordinates,
            )
            replica.status(f"{A}:1:4", said)
        source.status(f"{A}:1-4")
        found = ["applied_relay_gtids_executed"] if is_applied else []
        assert names(audit(source, replica)) == found

    def test_an_ended_lineage_is_undecided(self):
        """After RESET of the source, coordinates from before mean nothing."""
        source, replica = fleet_of_two()
        source.reset()
        source.status("")
        fields = {"read_source_log_file": "s-bin.000001", "read_source_log_pos": end_of(2)}
        replica.status(f"{A}:1-3", replica.says(source, "", **fields))
        source.status("")
        output = audit(source, replica)
        assert names(output) == []
        assert any("that has ended" in observation_text(o) for o in output.observations)
        replica.follow(source)
        replica.status(f"{A}:1-3", replica.says(source, "", **fields))
        source.status("")
        assert names(audit(source, replica)) == ["source_coordinate_valid"]

    @pytest.mark.parametrize("position", [end_of(1), end_of(1) + 1])
    @pytest.mark.parametrize("before", ["", "reset", "gap", "renamed back", "reset again"])
    def test_files_of_a_new_name_are_of_no_log_that_has_ended(self, before, position):
        """A started log_bin: the replica goes on as before. Of a gap the names are not known."""
        source, replica = fleet_of_two()
        if before == "gap":
            source.gap()
            source.open_file()
        elif before == "reset":
            source.reset()
        for name in ("new-bin", *(["s-bin"] if before == "renamed back" else [])):
            source.base_name = name
            source.reset("renamed")
        if before == "reset again":
            source.reset()
        source.log(f"{A}:4")
        said = {"exec_source_log_file": source.file_name, "exec_source_log_pos": position}
        replica.status(f"{A}:1-4", replica.says(source, None, **said))
        source.status(f"{A}:1-4")
        output = audit(source, replica)
        is_sure = before in ("", "reset")
        is_wrong = is_sure and position != end_of(1)
        assert ("source_coordinate_valid" in names(output)) is is_wrong
        reasons = {one.reason for one in output.observations}
        assert ("coordinates_of_ended_log" in reasons) is not is_sure

    @pytest.mark.parametrize(
        ("action", "is_of_this_log"),
        [
            ("change_source", True),
            ("reset", True),
            ("relay_log_recovery", False),
            ("start_receiver", False),
        ],
    )
    def test_behind_a_reset_of_the_source_a_command_brings_other_coordinates(
        self, action, is_of_this_log
    ):
        """A channel that goes on, or a start, leaves those that are of the log before."""
        source, replica = fleet_of_two()
        source.reset()
        source.log(f"{A}:1")
        fields = {"source_instance": "s", "source_uuid": A} if action == "change_source" else {}
        replica.administer(action, **fields)
        said = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(3)}
        replica.status(f"{A}:1", replica.says(source, None, **said))
        source.status(f"{A}:1")
        output = audit(source, replica)
        assert ("source_coordinate_valid" in names(output)) == is_of_this_log
        reasons = {one.check.reason for one in output.checks}
        assert ("coordinates_of_ended_log" in reasons) is not is_of_this_log

    def test_places_in_an_unseen_stretch_are_undecided(self):
        """Neither an end nor no end is known there; after it they are again."""
        source, replica = fleet_of_two()
        source.gap()
        source.position += 1000
        source.log(f"{A}:9")
        for position in (end_of(3) + 500, source.position - 1):
            fields = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": position}
            replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
        source.status(f"{A}:1-9")
        output = audit(source, replica)
        assert [f.collection_id for f in output.findings] == ["c2"]
        assert any("was not observed" in observation_text(o) for o in output.observations)

    def test_behind_a_gap_nothing_is_beyond_the_end(self):
        """The file may have grown unseen."""
        source, replica = fleet_of_two()
        source.gap()
        fields = {"read_source_log_file": "s-bin.000001", "read_source_log_pos": end_of(9)}
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        assert any("source_coordinate_valid" in o.rules for o in output.observations)

    @pytest.mark.parametrize("has_gap", [True, False])
    def test_a_file_may_have_ended_later_than_it_was_seen_to(self, has_gap):
        """The log goes on in the next one, and is the same."""
        source, replica = fleet_of_two()
        if has_gap:
            source.fleet_event(FleetEventKind.GAP, binlog_lineage=source.lineage)
        source.open_file(f"{A}:1-4" if has_gap else f"{A}:1-3")
        fields = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(4)}
        replica.status(f"{A}:1-4", replica.says(source, f"{A}:1-4", **fields))
        source.status(f"{A}:1-4")
        broken = names(audit(source, replica))
        assert ("source_coordinate_valid" in broken) == (not has_gap)

    def test_events_of_a_group_that_was_seen_in_part_are_undecided(self):
        """Whether the group ended in the unseen stretch is not known."""
        source, replica = fleet_of_two()
        source.event(EVENT_LENGTH)
        source.gap()
        source.position += 500
        source.log(f"{A}:9")
        offset = end_of(3) + EVENT_LENGTH
        fields = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": offset}
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
        source.status(f"{A}:1-9")
        output = audit(source, replica)
        assert names(output) == []
        assert any("source_coordinate_valid" in o.rules for o in output.observations)

    def test_another_base_name_is_undecided(self):
        """The channel may still tell of a source from before."""
        source, replica = fleet_of_two()
        fields = {"read_source_log_file": "old-bin.000001", "read_source_log_pos": 77}
        replica.status(f"{A}:1-3", replica.says(source, "", **fields))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        assert any("is called s-bin" in observation_text(o) for o in output.observations)

    def test_purged_files_are_remembered(self):
        """A position in a file that the source has purged is still judged."""
        source, replica = fleet_of_two()
        source.rotate(f"{A}:1-3")
        source.status(f"{A}:1-3", purged=f"{A}:1-3")
        fields = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(2) + 1}
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3", **fields))
        source.status(f"{A}:1-3", purged=f"{A}:1-3")
        assert names(audit(source, replica)) == ["source_coordinate_valid"]

    def test_a_place_is_found_wrong_once(self):
        """Also when another one was in between."""
        source, replica = fleet_of_two()
        for more in (1, 2, 1):
            at = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(1) + more}
            replica.status("", replica.says(source, auto_position=False, **at))
            source.status(f"{A}:1-3")
        found = [one for one in audit(source, replica).findings if "source_coord" in one.rule]
        assert [one.data["position"] for one in found] == [end_of(1) + 1, end_of(1) + 2]


class TestPurgedNotNeeded:
    """Rule 70."""

    @pytest.mark.parametrize(
        ("executed", "retrieved", "is_broken"),
        [("1-2", "", False), ("1", "2", False), ("1", "", True)],
    )
    def test_purged_is_executed_or_retrieved(self, executed, retrieved, is_broken):
        """What is in either set is not needed from the source any more."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        said = replica.says(source, f"{A}:{retrieved}" if retrieved else "")
        for _ in range(2):
            replica.status(f"{A}:{executed}", said)
            source.status(f"{A}:1-3", purged=f"{A}:1-2")
        output = audit(source, replica)
        assert names(output) == (["purged_not_needed"] if is_broken else [])
        if is_broken:
            assert output.findings[0].witness == f"{A}:2"

    def test_only_purges_of_before_the_row_count(self):
        """By a later purge the replica may long have executed it."""
        source, replica = fleet_of_two()
        replica.status(f"{A}:1", replica.says(source))
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        assert names(audit(source, replica)) == []

    @pytest.mark.parametrize(
        ("executed", "shown", "again", "is_needed"),
        [
            ("1-2", "1-3", False, True),
            ("1-3", "1-3", False, False),
            ("1-2", "1-2", False, False),  # it stopped at a file in use
            ("1-2", "1-4", True, False),  # that may be of a later purge
        ],
    )
    def test_a_purge_since_the_row_of_the_source(self, executed, shown, again, is_needed):
        """A record of it is evidence before the next row is, which shows up to where it came."""
        source, replica = fleet_of_two()
        source.rotate(f"{A}:1-3")
        source.log(f"{A}:4")
        source.fleet_event(FleetEventKind.PURGED, **source._place())
        source.time()
        replica.status(f"{A}:{executed}", replica.says(source))
        if again:
            source.rotate(f"{A}:1-4")
            source.fleet_event(FleetEventKind.PURGED, **source._place())
        source.status(f"{A}:1-4", purged=f"{A}:{shown}")
        # Cloned in the meantime.
        replica.status(f"{A}:1-4", replica.says(source))
        source.status(f"{A}:1-4", purged=f"{A}:{shown}")
        output = audit(source, replica)
        assert [one.witness for one in output.findings] == [f"{A}:3"] * is_needed
        doubts = {o.reason for o in output.observations if "purged_not_needed" in o.rules}
        assert doubts == ({"source_purged_shown_later"} if again else set())

    def test_a_purge_that_a_first_row_shows_may_be_of_before_or_behind(self):
        """What the replica lacks of it may have been purged too early, or was executed by then."""
        source, replica = fleet_of_two(has_row=False)
        replica.status(f"{A}:1", replica.says(source))
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        output = audit(source, replica)
        assert names(output) == []
        [doubt] = [o for o in output.observations if "purged_not_needed" in o.rules]
        assert doubt.is_undecided
        assert "only a later row of the source shows its gtid_purged" in observation_text(doubt)

    def test_what_the_first_row_shows_bounds_what_was_purged_before(self):
        """A replica that has all of it needs none of it, whenever it was purged."""
        source, replica = fleet_of_two(has_row=False)
        replica.status(f"{A}:1-2", replica.says(source))
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        assert [] == [
            o for o in audit(source, replica).observations if "purged_not_needed" in o.rules
        ]

    def test_a_source_without_any_row_leaves_it_undecided(self):
        """Nobody knows what it has purged."""
        source, replica = fleet_of_two(has_row=False)
        replica.status(f"{A}:1", replica.says(source))
        source.time()
        texts = [observation_text(o) for o in audit(source, replica).observations if o.is_undecided]
        assert any("the source's gtid_purged of that time is not known" in text for text in texts)

    @pytest.mark.parametrize("has", ["1", "1-2"])
    def test_of_a_source_that_is_seen_later_the_first_row_bounds_what_it_had_purged(self, has):
        """Its journal begins after the replica's row."""
        clock = Clock()
        source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        replica.boot()
        replica.open_file()
        replica.follow(source)
        replica.status(f"{A}:{has}", replica.says(source))
        source.boot()
        source.open_file(f"{A}:1-2")
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        output = audit(source, replica)
        assert names(output) == []
        [check] = [one.check for one in output.checks if one.check.rule == "purged_not_needed"]
        assert check.reason == ("" if has == "1-2" else "source_purged_shown_later")

    @pytest.mark.parametrize("purged", [f"{A}:1-2", f"{A}:1-3"])
    def test_what_no_row_has_shown_yet_the_next_one_bounds(self, purged):
        """The row before it, in which gtid_purged was not read, tells nothing."""
        source, replica = fleet_of_two(has_row=False)
        source.status(f"{A}:1-3", purged=None)
        replica.status(f"{A}:1-2", replica.says(source))
        source.time()
        source.status(f"{A}:1-3", purged=purged)
        output = audit(source, replica)
        assert names(output) == []
        [check] = [one.check for one in output.checks if one.check.rule == "purged_not_needed"]
        assert check.reason == ("" if purged == f"{A}:1-2" else "source_purged_shown_later")

    def test_without_auto_position_nothing_is_asked_by_set(self):
        """Such a channel needs coordinates, not sets."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-3", purged=f"{A}:1-3")
        replica.status("", replica.says(source, auto_position=False))
        source.status(f"{A}:1-3", purged=f"{A}:1-3")
        assert names(audit(source, replica)) == []

    @pytest.mark.parametrize(
        ("purged", "read", "is_filtered", "is_needed"),
        [
            (f"{A}:1-4", 2, False, True),
            (f"{A}:1-4", 4, False, False),
            (f"{A}:1-2", 2, False, False),
            (f"{A}:1-4", 2, True, False),
        ],
    )
    @pytest.mark.parametrize("is_before", [True, False])
    def test_by_position_the_groups_behind_it_are_needed(
        self, purged, read, is_filtered, is_needed, is_before
    ):
        """What lies before the position is not asked for; a file that is gone cannot be read."""
        source, replica = fleet_of_two(groups=4, has_row=False, auto_position=False)
        file = source.file_name
        source.rotate(f"{A}:1-4")
        source.log(f"{A}:5")
        if is_before:
            source.status(f"{A}:1-5", purged=purged)
        at = {"read_source_log_file": file, "read_source_log_pos": end_of(read)}
        said = replica.says(source, f"{A}:2", auto_position=False, filtered=is_filtered, **at)
        replica.status(f"{A}:2", said)
        source.status(f"{A}:1-5", purged=purged)
        output = audit(source, replica)
        assert names(output) == ["purged_not_needed"] * (is_needed and is_before)
        doubts = [o for o in output.observations if "purged_not_needed" in o.rules]
        assert len(doubts) == (is_needed and not is_before)

    @pytest.mark.parametrize(
        ("read", "auto_position", "is_before", "is_gone"),
        [
            (1, False, True, True),
            (3, False, True, False),
            (1, True, True, False),
            (1, False, False, False),
        ],
    )
    def test_by_position_a_file_with_anonymous_groups_is_needed(
        self, read, auto_position, is_before, is_gone
    ):
        """A receiver that has read all of a file needs it no more; a RESET ends what was purged."""
        source, replica = fleet_of_two(groups=0, auto_position=auto_position)
        file = source.file_name
        source.log("", "", "")
        source.rotate("")
        source.log("")
        at = {"read_source_log_file": file, "read_source_log_pos": end_of(read)}
        said = replica.says(source, auto_position=auto_position, **at)
        for before in (True, False):
            if before == is_before:
                source.fleet_event(FleetEventKind.PURGED, **source._place())
                source.time()
            if before:
                replica.status("", said)
        source.status()
        assert names(audit(source, replica)) == ["purged_not_needed"] * is_gone

    @pytest.mark.parametrize(
        ("later", "said"),
        [("row", "file_purged"), ("list", ""), ("", "source_files_not_shown")],
    )
    def test_a_purge_may_have_stopped_at_a_file_in_use(self, later, said):
        """As at one that another replica still reads: the next list of the source has it."""
        source, replica = fleet_of_two(groups=0, auto_position=False)
        file = source.file_name
        source.log("", "", "")
        source.rotate("")
        source.fleet_event(FleetEventKind.PURGED, **source._place())
        source.status()
        at = {"read_source_log_file": file, "read_source_log_pos": end_of(1)}
        replica.status("", replica.says(source, auto_position=False, **at))
        source.time()
        if later == "list":
            place = source._place() | {"file_number": 1}
            source.fleet_event(FleetEventKind.PURGED, **place)
        if later:
            source.status()
        output = audit(source, replica)
        assert names(output) == ["purged_not_needed"] * (said == "file_purged")
        [check] = [one.check for one in output.checks if one.check.rule == "purged_not_needed"]
        assert check.reason == said

    @pytest.mark.parametrize("auto_position", [True, False])
    @pytest.mark.parametrize("gtids", [True, False])
    def test_what_a_connected_receiver_has_not_written_yet_may_be_under_way(
        self, gtids, auto_position
    ):
        """A purge spares the file that is being sent; what was sent, the receiver may not have."""
        source, replica = fleet_of_two(groups=0, auto_position=auto_position)
        file = source.file_name
        source.log(*([f"{A}:1", f"{A}:2"] if gtids else ["", ""]))
        source.rotate(f"{A}:1-2" if gtids else "")
        source.fleet_event(FleetEventKind.PURGED, **source._place())
        executed = f"{A}:1-2" if gtids else ""
        source.status(executed, purged=executed)
        at = {"read_source_log_file": file, "read_source_log_pos": end_of(1)}
        received = f"{A}:1" if gtids else ""
        said = replica.says(source, received, auto_position=auto_position, **at)
        replica.status(received, said | {"is_connected": True})
        source.status(executed, purged=executed)
        is_needed = gtids or not auto_position
        code = "source_purged_under_way" if gtids else "source_file_under_way"
        output = audit(source, replica)
        assert names(output) == []
        found = [seen.reason for seen in output.observations if "purged_not_needed" in seen.rules]
        assert found == [code] * is_needed
        replica.status(received, said)
        source.status(executed, purged=executed)
        assert names(audit(source, replica)) == ["purged_not_needed"] * is_needed

    def test_what_was_assigned_is_not_under_way(self):
        """The head of the source's next file lists it, too."""
        source, replica = fleet_of_two()
        source.assign(f"{C}:1")
        source.rotate(f"{A}:1-3,{C}:1")
        source.status(f"{A}:1-3,{C}:1", purged=f"{C}:1")
        replica.status(f"{A}:1-3", replica.says(source) | {"is_connected": True})
        source.status(f"{A}:1-3,{C}:1", purged=f"{C}:1")
        assert names(audit(source, replica)) == ["purged_not_needed"]

    @pytest.mark.parametrize("has", ["", f",{C}:1-5"])
    def test_assigned_gtids_are_purged(self, has):
        """SET gtid_purged on the source alone: no receiver that lacks them connects any more."""
        source, replica = fleet_of_two()
        source.assign(f"{C}:1-5")
        source.status(f"{A}:1-3,{C}:1-5", purged=f"{C}:1-5")
        if has:
            replica.assign(f"{C}:1-5")
        replica.status(f"{A}:1-3{has}", replica.says(source))
        source.status(f"{A}:1-3,{C}:1-5", purged=f"{C}:1-5")
        assert names(audit(source, replica)) == ([] if has else ["purged_not_needed"])

    def test_unknown_purged_set_is_undecided(self):
        """Missing evidence is reported, once."""
        source, replica = fleet_of_two()
        for _ in range(3):
            source.status(f"{A}:1-3", purged=None)
            replica.status(f"{A}:1-3", replica.says(source))
        source.status(f"{A}:1-3", purged=None)
        output = audit(source, replica)
        assert names(output) == []
        reason = "gtid_purged of the source is not known"
        assert sum(reason in observation_text(o) for o in output.observations) == 1

    def test_a_reset_that_is_noticed_right_after_the_row_may_have_ended_what_was_purged(self):
        """The replica may have been made anew with the source."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-3", purged=f"{A}:1-3")
        replica.status("", replica.says(source))
        source.reset()
        source.status("")
        output = audit(source, replica)
        assert names(output) == []
        [check] = [one.check for one in output.checks if one.check.rule == "purged_not_needed"]
        assert check.reason == "source_log_ended"

    @pytest.mark.parametrize("has_received", [False, True])
    def test_by_position_nothing_is_needed_at_coordinates_of_the_source_before(self, has_received):
        """They are a position in the other server's log as well, after which groups are purged."""
        source, replica = fleet_of_two(groups=4, has_row=False, auto_position=False)
        file = source.file_name
        source.rotate(f"{A}:1-4")
        source.log(f"{A}:5")
        source.status(f"{A}:1-5", purged=f"{A}:1-4")
        replica.administer("change_source", source_uuid=C, auto_position=False)
        for server_uuid, read in ((C, 1), (A, 2), (A, 3 if has_received else 2)):
            at = {"read_source_log_file": file, "read_source_log_pos": end_of(read)}
            said = replica.says(None, "", source_uuid=server_uuid, auto_position=False, **at)
            replica.status("", said)
        source.status(f"{A}:1-5", purged=f"{A}:1-4")
        output = audit(source, replica)
        assert [one.witness for one in output.findings] == [f"{A}:4"] * has_received

    def test_reset_of_the_source_ends_what_it_purged(self):
        """A replica that begins anew with it needs nothing from before."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-3", purged=f"{A}:1-3")
        source.reset()
        replica.follow(source)
        replica.status("", replica.says(source))
        source.status("")
        assert names(audit(source, replica)) == []


class TestServerUuidUnique:
    """Rule 65."""

    def test_two_instances_of_one_time(self):
        """The finding names both and stands with the later one by name."""
        clock = Clock()
        one, two = Journal(clock, "one", A, 1), Journal(clock, "two", A, 2)
        one.boot()
        two.boot()
        one.status()
        finding = the_only(audit(two, one), "server_uuid_unique")
        assert finding.instance_id == "two"
        assert "one and two" in explain(finding).sentence
        assert finding.ts == two.fleet_events[0].ts

    @pytest.mark.parametrize("has_uuid_of_source", [True, False])
    def test_a_replica_with_its_sources_uuid_is_broken_at_each_row(self, has_uuid_of_source: bool):
        """A server that follows itself shares its UUID with nobody: its channel is wrong."""
        clock = Clock()
        source = Journal(clock, "s", A, 1)
        replica = Journal(clock, "r", A if has_uuid_of_source else B, 2)
        for journal in (source, replica):
            journal.boot()
        followed = source if has_uuid_of_source else replica
        replica.follow(followed)
        for _ in range(2):
            replica.status("", replica.says(followed))
            source.time()
        replica.time()
        checks = [one for one in audit(source, replica).checks if one.channel is not None]
        found = [one.check.outcome for one in checks if one.check.rule == "server_uuid_unique"]
        assert found == [Outcome.BROKEN if has_uuid_of_source else Outcome.HOLDS] * 2

    def test_the_first_uuid_counts_for_what_was_before_it(self):
        """And no later one."""
        clock = Clock()
        before, server = clock.tick(), Journal(clock, "s", A, 1)
        for server.uuid in (A, B):
            server.boot()
        fleet = FleetAudit()
        fleet.absorb(server.fleet_events)
        timeline = fleet.reader.timelines["s"]
        first, second = (event.ts for event in server.fleet_events)
        assert [timeline.uuids_until(ts) for ts in (before, first)] == [[A], [A]]
        assert timeline.uuids_until(second) == [A, B]

    def test_one_after_the_other_is_a_move(self):
        """A data directory that went on under another instance key is no clash."""
        clock = Clock()
        one, two = Journal(clock, "one", A, 1), Journal(clock, "two", A, 2)
        one.boot()
        one.status()
        two.boot()
        two.status()
        output = audit(one, two)
        assert names(output) == []

    def test_a_new_data_directory_brings_a_new_uuid(self):
        """What was reported before does not count for now."""
        clock = Clock()
        one, two = Journal(clock, "one", A, 1), Journal(clock, "two", A, 2)
        one.boot()
        one.uuid = B
        one.boot(data_lineage=1)
        two.boot()
        one.status()
        two.status()
        assert names(audit(one, two)) == []

    def test_what_hangs_on_a_doubled_uuid_is_undecided(self):
        """Nothing but the clash is reported."""
        source, replica = fleet_of_two()
        twin = Journal(source.clock, "twin", A, 9)
        twin.boot()
        replica.status(f"{A}:1-9,{C}:1", replica.says(source, f"{A}:1-9"))
        source.status(f"{A}:1-3")
        twin.status()
        output = audit(twin, source, replica)
        assert names(output) == ["server_uuid_unique"]
        assert any("same server_uuid" in observation_text(o) for o in output.observations)

    def test_a_server_that_takes_its_server_uuid_again_shares_it_with_nobody(self):
        """auto.cnf was removed and put back: the instance reports one UUID twice."""
        source, replica = fleet_of_two()
        for source.uuid in (C, A):
            source.boot()
            source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == []


class TestAnotherServerUnderTheName:
    """A channel that names an instance, and the server_uuid of its source."""

    @staticmethod
    def _replica_of(server_uuid: str) -> FleetOutput:
        """It has what the instance never logged, and lacks what that has purged."""
        source, replica = fleet_of_two()
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        said = replica.says(
            source,
            f"{server_uuid}:7-9",
            source_instance=source.name,
            source_uuid=server_uuid,
            read_source_log_file=source.file_name,
            read_source_log_pos=end_of(9),
        )
        replica.receive(source, (7, f"{server_uuid}:7"), (9, f"{server_uuid}:9"))
        replica.status(f"{server_uuid}:7-9", said)
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        return audit(source, replica)

    def test_what_a_replica_of_another_server_says_is_undecided(self):
        """A second observer shows the replica's source anew, a first one still what was before."""
        output = self._replica_of(C)
        assert names(output) == []
        undecided = {o.reason for o in output.observations if o.is_undecided}
        assert "source_is_another_server" in undecided
        rules = {r for o in output.observations if o.is_undecided for r in o.rules}
        assert {"no_errant_gtids", "purged_not_needed", "source_coordinate_valid"} <= rules

    def test_a_replica_of_the_server_itself_is_judged(self):
        """The same of the server that the instance is."""
        found = set(names(self._replica_of(A)))
        assert {"purged_not_needed", "source_coordinate_valid"} <= found

    @pytest.mark.parametrize(("server_uuid", "outcome"), [(A, "holds"), (C, "undecided")])
    def test_what_agrees_with_another_server_is_no_proof(self, server_uuid, outcome):
        """Behind the address of the source another server may be: it was not compared with."""
        source, replica = fleet_of_two()
        said = replica.says(source, "", source_instance=source.name, source_uuid=server_uuid)
        replica.status(f"{A}:1-3", said)
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        checks = {
            one.check.rule: one.check for one in output.checks if one.check.rule in COMPARISONS
        }
        assert {"received_within_source_logged", "no_errant_gtids"} <= checks.keys()
        assert {outcome} == {check.outcome.value for check in checks.values()}
        undecided = {o.reason for o in output.observations if o.is_undecided}
        assert undecided == ({"source_is_another_server"} if outcome == "undecided" else set())

    def test_the_name_counts_as_of_the_evidence(self):
        """What was said of the server from before stays a contradiction, whatever comes next."""
        source, replica = fleet_of_two()
        said = replica.says(source, "", source_instance=source.name)
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        replica.status(f"{A}:1", said)
        replica.status(f"{A}:1", {**said, "source_uuid": C})
        source.status(f"{A}:1-3", purged=f"{A}:1-2")
        output = audit(replica, source)
        assert names(output) == ["purged_not_needed"]
        replica.fleet_events = [
            e for e in replica.fleet_events if e.body.get("collection_id") != "c1"
        ]
        assert names(audit(replica, source)) == []


class TestServerIdUniqueInTopology:
    """Rule 94."""

    @pytest.mark.parametrize(("server_id", "is_broken"), [(1, True), (2, False)])
    def test_server_id_of_source_and_replica(self, server_id, is_broken):
        """One finding, when both are in one topology."""
        source, replica = fleet_of_two()
        replica.server_id = server_id
        for _ in range(2):
            replica.status("", replica.says(source))
            source.status(f"{A}:1-3")
        expected = [("server_id_unique_in_topology", "server_id_of_source")] if is_broken else []
        found = audit(source, replica).findings
        assert [(one.rule, one.case) for one in found] == expected

    @pytest.mark.parametrize("unknown", ["r", "s"])
    def test_a_server_id_that_is_not_known_is_undecided(self, unknown):
        source, replica = fleet_of_two()
        for event in (*source.fleet_events, *replica.fleet_events):
            if event.kind is FleetEventKind.BOOT and event.instance_id == unknown:
                event.body["server_id"] = None
        rows = replica.status("", replica.says(source)), source.status(f"{A}:1-3")
        for row in (*rows, *source.fleet_events):
            if row.kind is FleetEventKind.STATUS and row.instance_id == unknown:
                row.body["server_id"] = None
        said = [one.check for one in audit(source, replica).checks if one.instance_id == "r"]
        reasons = {one.rule: one.reason for one in said}
        assert reasons["server_id_unique_in_topology"] == "server_id_unknown"

    @pytest.mark.parametrize(("server_id", "is_broken"), [(1, True), (3, False)])
    def test_server_id_of_a_sources_source(self, server_id, is_broken):
        """A replica of a replica leaves out the groups of the server whose number it has."""
        source, replica = fleet_of_two()
        last = Journal(source.clock, "q", C, server_id)
        last.boot()
        last.follow(replica)
        for _ in range(2):
            last.status("", last.says(replica))
            replica.status("", replica.says(source))
            source.status(f"{A}:1-3")
        output = audit(source, replica, last)
        assert names(output) == (["server_id_unique_in_topology"] if is_broken else [])
        found = [(one.instance_id, one.case) for one in output.findings]
        assert found == ([("q", "server_id_of_upstream")] if is_broken else [])

    @pytest.mark.parametrize(("server_id", "is_broken"), [(2, True), (3, False)])
    def test_a_sources_source_that_has_been_silent_since(self, server_id, is_broken):
        """What it said last counts, and nothing is waited for."""
        source, replica = fleet_of_two()
        silent = Journal(source.clock, "q", C, server_id)
        silent.boot()
        silent.status("")
        silent.time()
        source.follow(silent)
        source.status(f"{A}:1-3", source.says(silent))
        source.time()
        replica.status(f"{A}:1-3", replica.says(source))
        source.status(f"{A}:1-3", source.says(silent))
        source.time()
        fleet, found = FleetAudit(), []
        for journal in (silent, source, replica):
            found += [one.case for one in fleet.absorb(journal.fleet_events).findings]
        assert found == ["server_id_of_upstream"] * is_broken

    def test_equal_server_ids_without_replication(self):
        """Two topologies may use the same numbers."""
        clock = Clock()
        one, two = Journal(clock, "one", A, 1), Journal(clock, "two", B, 1)
        for journal in (one, two):
            journal.boot()
            journal.status()
        one.time()
        assert names(audit(one, two)) == []

    @pytest.mark.parametrize(("server_id", "is_broken"), [(1, True), (3, False)])
    def test_a_restart_gives_a_server_of_a_ring_the_server_id_of_another(
        self, server_id, is_broken
    ):
        """Each of the two leaves out what the other writes."""
        one, two = fleet_of_two()
        one.follow(two)
        for _ in range(2):
            two.status("", two.says(one))
            one.status(f"{A}:1-3", one.says(two))
        two.server_id = server_id
        two.boot()
        for _ in range(2):
            two.status("", two.says(one))
            one.status(f"{A}:1-3", one.says(two))
        output = audit(one, two)
        assert names(output) == ["server_id_unique_in_topology"] * 2 * is_broken
        assert {f.instance_id for f in output.findings} == ({"s", "r"} if is_broken else set())

    def test_replicas_of_one_source_may_share_a_server_id(self):
        """No group of one comes to the other."""
        source, replica = fleet_of_two()
        other = Journal(source.clock, "q", C, replica.server_id)
        other.boot()
        other.follow(source)
        replica.status("", replica.says(source))
        other.status("", other.says(source))
        source.status(f"{A}:1-3")
        assert names(audit(source, replica, other)) == []


class TestGtidOriginAgreement:
    """Rule 68."""

    @pytest.mark.parametrize(("commit_ts", "server_id"), [(1000, 1), (1001, 1), (1000, 7)])
    def test_commit_time_and_server_id(self, commit_ts, server_id):
        """A log that is executed again has the server_id of the server that executes it."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:2": commit_ts}
        replica.log(f"{A}:1", f"{A}:2", server_id=server_id)
        replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2"))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        if commit_ts == 1000:
            assert names(output) == []
            return
        finding = next(f for f in output.findings if f.rule == "gtid_origin_agreement")
        assert finding.instance_id == "r"
        assert finding.collection_id == "c1"
        said, place = explain(finding), f"000001:{end_of(2)}"
        theirs = f"server_id {server_id}, original_commit_timestamp {commit_ts} (r-bin.{place})"
        assert said.observed == theirs
        assert said.expected == f"server_id 1, original_commit_timestamp 1000 (s-bin.{place})"

    @pytest.mark.parametrize("commit_ts", [1000, 1001])
    @pytest.mark.parametrize("last", ["source", "replica", "no row"])
    def test_a_history_that_goes_on_leaves_two_transactions_undecided(self, last, commit_ts):
        """Either log may begin anew before the other is known so far: that is yet to come."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:4": commit_ts}
        source.log(f"{A}:4")
        replica.log(*(f"{A}:{n}" for n in range(1, 5)), server_id=1)
        if last != "no row":
            replica.status(f"{A}:1-4", replica.says(source, f"{A}:1-4"))
        if last == "source":
            source.status(f"{A}:1-4")
        fleet = FleetAudit()
        for journal in (source, replica):
            assert names(fleet.absorb(journal.fleet_events)) == []
        output = fleet.give_up()
        assert names(output) == []
        doubts = [one for one in output.observations if one.reason == "origins_not_reached"]
        assert [one.rules for one in doubts] == [("gtid_origin_agreement",)] * (commit_ts != 1000)
        for doubt in doubts:
            assert doubt.is_undecided
            other = {"s": "r", "r": "s"}[doubt.instance_id]
            said = f"{A}:4 is another transaction in the logs of {other}"
            assert said in observation_text(doubt)

    @pytest.mark.parametrize(
        ("filtered", "received_empty", "logged_empty", "is_doubtful"),
        [
            ((False,), False, True, True),
            ((True,), False, True, False),
            ((False,), True, True, False),
            ((False,), False, False, False),
            ((False, True), False, True, False),
        ],
    )
    def test_a_change_that_the_applier_left_out(
        self, filtered, received_empty, logged_empty, is_doubtful
    ):
        """As with replica_skip_errors, replica_exec_mode=IDEMPOTENT, or a filter."""
        source, replica = fleet_of_two()
        says = []
        for name, is_filtered in zip(("", "second"), filtered, strict=False):
            replica.follow(source, name, filtered=is_filtered)
            replica.empty = {f"{A}:1"} if received_empty else set()
            replica.receive(source, (1, f"{A}:1"), channel=name)
            says.append(replica.says(source, f"{A}:1", channel=name, filtered=is_filtered))
        replica.empty = {f"{A}:1"} if logged_empty else set()
        replica.log(f"{A}:1", server_id=1)
        for _ in range(2):
            replica.status(f"{A}:1", *says)
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        doubts = [o.at for o in output.observations if o.reason == "applied_empty"]
        assert len(doubts) == is_doubtful

    def test_a_change_that_was_left_out_stays_so_without_the_filter(self):
        """It may have been taken back where the journal has a gap."""
        source, replica = fleet_of_two()
        replica.follow(source)
        replica.receive(source, (1, f"{A}:1"))
        replica.empty = {f"{A}:1"}
        replica.log(f"{A}:1", server_id=1)
        for is_filtered in (True, False):
            replica.status(f"{A}:1", replica.says(source, f"{A}:1", filtered=is_filtered))
        source.status(f"{A}:1-3")
        assert "applied_empty" not in {one.reason for one in audit(source, replica).observations}

    def test_two_logs_of_one_instance_are_told_as_such(self):
        """Nobody is said to contradict itself as if it were two."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"))
        replica.commit_times = {f"{A}:1": 1001}
        replica.log(f"{A}:1", server_id=1)
        replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
        source.status(f"{A}:1-3")
        own = [f for f in audit(source, replica).findings if f.at == f"{A}:1 in its own logs"]
        assert [("r", "one origin")] == [(f.instance_id, explain(f).expected) for f in own]
        assert "in one log of instance r and another in another log" in explain(own[0]).sentence
        assert explain(own[0]).observed == (
            "server_id 1, original_commit_timestamp 1000 (relay log of channel (default)); "
            f"server_id 1, original_commit_timestamp 1001 (r-bin.000001:{end_of(1)})"
        )

    def test_the_binary_log_keeps_what_it_has_when_a_relay_log_begins_anew(self):
        """Only the channel's own log has gone with RESET REPLICA."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:1": 1001}
        replica.log(f"{A}:1", server_id=1)
        replica.administer("reset")
        replica.status(f"{A}:1", replica.says(source))
        source.status(f"{A}:1-3")
        assert "gtid_origin_agreement" in names(audit(source, replica))

    def test_groups_may_be_logged_in_another_order(self):
        """By a replica that applies in parallel, and is read before its source."""
        source, replica = fleet_of_two(groups=5)
        replica.commit_times = {f"{A}:3": 1001}
        for gnos in ((1, 5), (3,), (2, 4)):
            replica.log(*(f"{A}:{gno}" for gno in gnos), server_id=1)
        replica.status(f"{A}:1-5", replica.says(source, f"{A}:1-5"))
        source.status(f"{A}:1-5")
        output = audit(replica, source)
        [found] = [one for one in output.findings if one.rule == "gtid_origin_agreement"]
        assert found.at.startswith(f"{A}:3 ")

    def test_unknown_origins_are_skipped(self):
        """-1 agrees with everything."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:1": -1}
        replica.log(f"{A}:1", server_id=1)
        replica.log(f"{A}:2", server_id=-1)
        replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2"))
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == []

    def test_an_empty_group_in_place_of_the_sources(self):
        """The relay log has the source's group, so what was retrieved is right."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"))
        replica.commit_times = {f"{A}:1": 9}
        replica.log(f"{A}:1")
        replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert set(names(output)) == {"gtid_origin_agreement"}
        # Its relay log has what the source has: what it made itself is shown.
        said = next(explain(f) for f in output.findings if f.data["other"] != f.instance_id)
        own = f"server_id 2, original_commit_timestamp 9 (r-bin.000001:{end_of(1)})"
        assert own in (said.observed, said.expected)

    @pytest.mark.parametrize(
        ("empty", "case"),
        [
            ("", "two_instances"),
            ("r", "hidden_by_empty_group"),
            ("s", "hidden_by_empty_group"),
            ("rs", None),
        ],
    )
    def test_one_without_a_change_hides_the_other(self, empty, case):
        """Two changes, a change and nothing, nothing on both sides: then the data agree."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:1": 9}
        for journal in (source, replica):
            journal.empty = {f"{A}:1"} if journal.name in empty else set()
        first = Journal(source.clock, "s", A, 1)
        first.boot()
        first.open_file()
        first.empty = source.empty
        first.log(f"{A}:1")
        replica.log(f"{A}:1", server_id=2)
        replica.status(f"{A}:1", replica.says(first, f"{A}:1"))
        first.status(f"{A}:1")
        found = [f.case for f in audit(first, replica).findings]
        assert found == ([] if case is None else [case])

    def test_a_filtered_copy_is_the_same_transaction(self):
        """A replica logs an empty group with the origin of what its filter left out."""
        source, replica = fleet_of_two()
        replica.empty = {f"{A}:1"}
        replica.log(f"{A}:1", server_id=1)
        replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
        source.status(f"{A}:1-3")
        assert names(audit(source, replica)) == []

    def test_what_one_log_has_a_change_under_is_not_empty(self):
        """The relay log shows the change; that a filter left it out below does not hide it."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:1": 9}
        replica.receive(source, (1, f"{A}:1"))
        replica.empty = {f"{A}:1"}
        replica.log(f"{A}:1", server_id=1)
        replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
        source.status(f"{A}:1-3")
        found = {f.case for f in audit(source, replica).findings if f.data.get("other")}
        assert found == {"two_instances"}

    @pytest.mark.parametrize(("server_id", "is_retrieved"), [(2, False), (1, True)])
    def test_an_empty_group_where_no_relay_log_is_seen(self, server_id, is_retrieved):
        """What the replica made itself was not retrieved; the source's of another time was."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:1": 9}
        replica.log(f"{A}:1", server_id=server_id)
        replica.status(f"{A}:1", replica.says(source, f"{A}:1"))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        expected = {"gtid_origin_agreement"}
        if is_retrieved:
            expected.add("received_within_source_logged")
            assert any("to another transaction" in explain(f).sentence for f in output.findings)
        assert set(names(output)) == expected

    def test_three_instances_make_pairs(self):
        """Each pair that disagrees is reported once, however many GTIDs."""
        source, replica = fleet_of_two()
        third = Journal(source.clock, "t", C, 3)
        third.boot()
        third.open_file()
        for journal in (replica, third):
            journal.commit_times = {f"{A}:{n}": 5 for n in (1, 2, 3)}
            journal.log(f"{A}:1", f"{A}:2", f"{A}:3", server_id=1)
            journal.status(f"{A}:1-3")
        source.status(f"{A}:1-3")
        output = audit(source, replica, third)
        assert names(output) == ["gtid_origin_agreement"] * 2
        assert {f.instance_id for f in output.findings} == {"r", "t"}
        assert len({f.finding_id for f in output.findings}) == 2

    @pytest.mark.parametrize(("other", "begins_anew"), [(1000, False), (5, False), (5, True)])
    def test_what_differs_from_forgotten_origins_stays_undecided(
        self, other, begins_anew, monkeypatch
    ):
        """At each collection, until the log that claims it begins anew."""
        for module in (origins, forgotten_origins):
            monkeypatch.setattr(module, "RUN", 2)
        monkeypatch.setattr(origins, "ORIGINS_MAX", 2)
        source, replica = fleet_of_two()
        source.log(*(f"{A}:{n}" for n in range(4, 11)))
        source.status(f"{A}:1-10")
        replica.commit_times = {f"{A}:3": other}
        replica.log(*(f"{A}:{n}" for n in range(1, 11)), server_id=1)
        for _ in range(3):
            replica.status(f"{A}:1-10")
            source.status(f"{A}:1-10")
        if begins_anew:
            replica.reset()
        replica.status("" if begins_anew else f"{A}:1-10")
        source.status(f"{A}:1-10")
        output = audit(source, replica)
        said = {
            one.collection_id: one.check.outcome.value
            for one in output.checks
            if one.check.rule == "gtid_origin_agreement" and one.instance_id == "r"
        }
        now = "undecided" if other == 5 else "holds"
        assert names(output) == []
        last = "holds" if begins_anew else now
        assert said == {"c1": now, "c2": now, "c3": now, "c4": last}

    @pytest.mark.parametrize(
        ("commit_time", "server_id", "field"),
        [
            (1000, 1, None),
            (-1, 1, "original_commit_timestamp"),
            (1000, -1, "server_id"),
            (-1, -1, "original_commit_timestamp and no server_id"),
        ],
    )
    def test_without_its_fields_nothing_is_claimed(self, commit_time, server_id, field):
        """And nothing agrees: the rule is undecided on that instance, and names what is missing."""
        source, replica = fleet_of_two()
        replica.commit_times = {f"{A}:{n}": commit_time for n in (1, 2, 3)}
        replica.log(*(f"{A}:{n}" for n in (1, 2, 3)), server_id=server_id)
        for journal in (replica, source):
            journal.status(f"{A}:1-3")
        said = {
            one.instance_id: (one.check.reason, one.check.data)
            for one in audit(source, replica).checks
            if one.check.rule == "gtid_origin_agreement"
        }
        unknown = ("field_not_given", {"field": field})
        assert said == {"s": ("", {}), "r": ("", {}) if field is None else unknown}


class TestRelayMirrorsSource:
    """Rule 19."""

    def row(self, source: Journal, replica: Journal, executed: str = "", retrieved: str = ""):
        replica.status(executed, replica.says(source, retrieved))
        source.status(f"{A}:1-3")
        return audit(source, replica)

    def test_the_same_groups_in_order(self):
        """Also when the first ones are left out: the replica asked from there on."""
        source, replica = fleet_of_two(groups=5, auto_position=False)
        replica.receive(source, (2, f"{A}:2"), (3, f"{A}:3"))
        replica.receive(source, (4, f"{A}:4"))
        assert names(self.row(source, replica)) == []

    @pytest.mark.parametrize(
        ("group", "is_broken"),
        [
            ((3, f"{A}:3"), False),
            ((3, f"{A}:9"), True),
            ((end_of(3) + 1, f"{A}:3"), True),
            ((9, f"{A}:9"), True),
        ],
    )
    def test_a_group_that_the_source_has_not(self, group, is_broken):
        """Another GTID at its end, or an end between its groups or after them."""
        source, replica = fleet_of_two(auto_position=False)
        replica.receive(source, (2, f"{A}:2"), group)
        output = self.row(source, replica)
        assert names(output) == (["relay_mirrors_source"] if is_broken else [])
        if is_broken:
            assert output.findings[0].witness == group[1]

    @pytest.mark.parametrize(
        ("group", "is_broken"),
        [((3, f"{A}:3"), False), ((3, f"{A}:9"), True), ((4, f"{A}:9"), False), ((6, None), True)],
    )
    def test_a_file_that_was_seen_in_part(self, group, is_broken):
        """Any group may end where nobody looked; none ends after its end."""
        source, replica = fleet_of_two(auto_position=False)
        source.log(f"{A}:4")
        source.fleet_events.pop()
        source.log(f"{A}:5")
        source.rotate(f"{A}:1-5")
        number, gtid = group[0], group[1] or f"{A}:6"
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"), (number, gtid))
        found = [one.witness for one in self.row(source, replica).findings]
        assert found == [gtid] * is_broken

    def test_a_group_whose_end_alone_was_seen_may_be_any(self):
        """Its GTID is where nobody looked."""
        source, replica = fleet_of_two(auto_position=False)
        source.log(f"{A}:4")
        source.fleet_events.pop()
        source.event()
        end = source.position
        source.log(f"{A}:6")
        replica.receive(source, (3, f"{A}:3"), (end, f"{A}:5"))
        assert names(self.row(source, replica)) == []

    @pytest.mark.parametrize(
        ("group", "is_broken"),
        [((5, f"{A}:5"), False), ((5, f"{A}:9"), True), ((6, f"{A}:6"), False)],
    )
    def test_a_log_whose_set_is_not_known_goes_on_after_what_was_seen(self, group, is_broken):
        """The journal begins anew within a file: up to its end what is there is known."""
        source, replica = fleet_of_two(auto_position=False)
        source.gap()
        source.lineage -= 1
        source.fleet_events[-1].body["binlog_lineage"] = source.lineage
        source.log(f"{A}:4", f"{A}:5")
        replica.receive(source, (4, f"{A}:4"), group)
        found = [one.witness for one in self.row(source, replica).findings]
        assert found == [group[1]] * is_broken

    @pytest.mark.parametrize("is_seen", [True, False])
    def test_what_was_missed_later_is_no_excuse(self, is_seen):
        """The source's log ended before the group when the row was taken."""
        source, replica = fleet_of_two(auto_position=False)
        replica.receive(source, (3, f"{A}:3"), (4, f"{A}:4"))
        replica.status("", replica.says(source))
        source.status(f"{A}:1-3")
        source.time()
        source.log(f"{A}:9")
        if not is_seen:
            source.fleet_events.pop()
        source.log(f"{A}:10")
        found = [(one.case, one.witness) for one in audit(source, replica).findings]
        assert found == [("foreign", f"{A}:4")]

    @pytest.mark.parametrize("is_logged", [True, False])
    def test_a_group_that_the_source_logs_only_later_was_not_received_of_it(self, is_logged):
        """Where its log ended when the row was taken counts, not where it ends now."""
        source, replica = fleet_of_two(groups=2, auto_position=False)
        replica.receive(source, (2, f"{A}:2"), (3, f"{A}:3"))
        if is_logged:
            source.log(f"{A}:3")
        replica.status("", replica.says(source))
        source.status(f"{A}:1-3" if is_logged else f"{A}:1-2")
        source.time()
        if not is_logged:
            source.log(f"{A}:3")
            source.status(f"{A}:1-3")
        found = [(one.case, one.witness) for one in audit(source, replica).findings]
        assert found == ([] if is_logged else [("foreign", f"{A}:3")])

    @pytest.mark.parametrize(("logged", "received"), [(A, C), (C, A)])
    def test_a_group_of_another_server_uuid_at_the_place_of_one(self, logged, received):
        """Its number and its end are the same; the source knows both UUIDs."""
        source, replica = fleet_of_two(groups=1, auto_position=False)
        source.log(f"{logged}:2", f"{received}:3")
        replica.receive(source, (2, f"{received}:2"))
        [finding] = self.row(source, replica).findings
        assert (finding.case, finding.witness) == ("foreign", f"{received}:2")

    @pytest.mark.parametrize(
        ("executed", "retrieved", "is_broken"),
        [("", "", True), (f"{A}:2", "", False), ("", f"{A}:2", False)],
    )
    def test_an_omitted_group_must_have_been_executed(self, executed, retrieved, is_broken):
        """Or received, as the row shows."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
        output = self.row(source, replica, executed, retrieved)
        assert names(output) == (["relay_mirrors_source"] if is_broken else [])
        if is_broken:
            assert output.findings[0].witness == f"{A}:2"
            assert output.findings[0].at == f"s-bin.000001:{end_of(2)} omitted"

    @pytest.mark.parametrize("sender", [1, 7, None])
    def test_groups_of_another_server_are_not_held_against_the_source(self, sender):
        """The receiver alone was pointed elsewhere: what it had queued until then is of there."""
        source, replica = fleet_of_two(groups=5)
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"), sender=1)
        replica.receive(source, (3, f"{B}:9"), (5, f"{B}:11"), sender=sender)
        replica.receive(source, (4, f"{A}:4"), (5, f"{A}:5"), sender=1)
        executed = f"{A}:3"
        output = self.row(source, replica, executed, f"{A}:1-5")
        assert names(output) == ([] if sender == 7 else ["relay_mirrors_source"])
        reasons = {one.check.reason for one in output.checks}
        assert ("queued_from_another" in reasons) == (sender == 7)

    def test_a_source_keeps_the_groups_that_it_sent_under_an_earlier_server_id(self):
        """SET GLOBAL server_id: the connection that was made before goes on."""
        source, replica = fleet_of_two(groups=2)
        source.server_id = 7
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:9"), sender=1, server_id=1)
        assert names(self.row(source, replica)) == ["relay_mirrors_source"]

    def test_what_a_hole_of_the_relay_log_may_hide_is_not_omitted(self):
        """The hole is a finding of its own; after it omissions are found again."""
        source, replica = fleet_of_two(groups=5)
        replica.receive(source, (1, f"{A}:1"))
        replica.receive(source, (3, f"{A}:3"), follows_hole=True)
        assert names(self.row(source, replica)) == []
        replica.receive(source, (5, f"{A}:5"))
        replica.status("", replica.says(source))
        source.status(f"{A}:1-5")
        assert the_only(audit(source, replica), "relay_mirrors_source").witness == f"{A}:4"

    def test_an_omitted_group_that_came_by_another_channel(self):
        """A GTID that another channel brought is skipped."""
        source, replica = fleet_of_two()
        replica.follow(source, "other")
        replica.receive(source, (2, f"{A}:2"), channel="other")
        replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
        assert names(self.row(source, replica)) == []

    def test_a_replicas_own_groups_may_come_back_before_it_has_executed_them(self):
        """Its receiver ignores them; a group of somebody else it may not leave out."""
        for gtid, expected in ((f"{B}:7", []), (f"{C}:7", ["relay_mirrors_source"])):
            source, replica = fleet_of_two()
            source.log(gtid, f"{A}:4")
            replica.receive(source, *((n, f"{A}:{n}") for n in (1, 2, 3)), (5, f"{A}:4"))
            replica.status("", replica.says(source))
            source.status(f"{A}:1-4,{gtid}")
            assert names(audit(source, replica)) == expected

    @pytest.mark.parametrize("option", [{"filtered": True}, {"ignore_server_ids": [1]}])
    @pytest.mark.parametrize("is_ignored", [True, False])
    def test_a_receiver_omits_what_it_ignores(self, option, is_ignored):
        """By server ids; what filters leave out is received, as soon as rows show which it is."""
        source, replica = fleet_of_two()
        replica.follow(source, **option)
        replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
        says = replica.says(source, filtered=True, ignores_servers=is_ignored)
        replica.status("", says)
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == ["relay_mirrors_source"] * (not is_ignored)

    @pytest.mark.parametrize("option", [{}, {"filtered": True}, {"ignore_server_ids": [1]}])
    @pytest.mark.parametrize("judged", ["at the end", "before a gap", "as it is much"])
    def test_a_receiver_may_ignore_what_no_row_has_shown(self, option, judged, monkeypatch):
        """As far as the record of its source says so; else the replica may have it otherwise."""
        source, replica = fleet_of_two()
        replica.follow(source, **option)
        replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
        if judged == "before a gap":
            replica.gap()
        elif judged == "as it is much":
            limit = "tallystick.coordinates.audit.replica_comparisons.GROUPS_MAX"
            monkeypatch.setattr(limit, 1)
            replica.time()
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        reasons = {one.reason for one in output.observations}
        assert ("omitted_may_be_executed" in reasons) is (not option)

    def test_an_omission_over_a_rotation(self):
        """Groups at the end of one file and at the head of the next count too."""
        for received, missing in (
            ((1, 5), "2-4"),
            ((3, 4), None),
            ((2, 4), "3"),
            ((3, 6), "4-5"),
        ):
            source, replica = fleet_of_two()
            source.rotate(f"{A}:1-3")
            source.log(f"{A}:4", f"{A}:5", f"{A}:6")
            first, second = received
            replica.receive(source, *((n, f"{A}:{n}") for n in range(1, first + 1)))
            replica.receive(source, (second - 3, f"{A}:{second}"), file=2)
            output = self.row(source, replica)
            assert names(output) == ([] if missing is None else ["relay_mirrors_source"]), received
            if missing:
                assert output.findings[0].witness == f"{A}:{missing}"

    def test_what_was_in_a_file_that_nobody_knows_may_have_been_left_out(self):
        """The journal of the source tells nothing of a file between two."""
        source, replica = fleet_of_two()
        source.end_file()
        source.file += 1
        source.open_file(f"{A}:1-5")
        source.log(f"{A}:6")
        replica.receive(source, *((n, f"{A}:{n}") for n in (1, 2, 3)))
        replica.receive(source, (1, f"{A}:6"), file=3)
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1-3:6"))
        source.status(f"{A}:1-6")
        output = audit(source, replica)
        assert names(output) == []
        [check] = [one.check for one in output.checks if one.check.rule == "relay_mirrors_source"]
        assert check.reason == "file_between_forgotten"

    def test_an_older_group_again(self):
        """Only a new connection may go back; what follows is judged as before."""
        for connects in ("", "reconnect", "boot"):
            source, replica = fleet_of_two(groups=5)
            replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"), (3, f"{A}:3"))
            if connects == "reconnect":
                replica.administer("reconnect")
            elif connects:
                replica.boot()
            replica.receive(source, (2, f"{A}:2"))
            replica.receive(source, (4, f"{A}:4"), (5, f"{A}:5"))
            output = self.row(source, replica, f"{A}:1-5")
            assert names(output) == ([] if connects else ["relay_mirrors_source"])
            if not connects:
                assert output.findings[0].witness == f"{A}:2"

    def test_an_older_group_again_after_a_row(self):
        """What was queued before the row is remembered."""
        source, replica = fleet_of_two(groups=4)
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"))
        replica.status("", replica.says(source))
        replica.receive(source, (2, f"{A}:2"), (3, f"{A}:3"))
        assert names(self.row(source, replica)) == ["relay_mirrors_source"]

    def test_an_omission_over_a_reconnect_or_a_row(self):
        """A new connection may skip what was executed, and nothing else."""
        for between in ("row", "reconnect", "boot"):
            for executed in ("", f"{A}:1-2"):
                source, replica = fleet_of_two()
                replica.receive(source, (1, f"{A}:1"))
                if between == "row":
                    replica.status(executed, replica.says(source))
                elif between == "reconnect":
                    replica.administer("reconnect")
                else:
                    replica.boot()
                replica.receive(source, (3, f"{A}:3"))
                expected = [] if executed else ["relay_mirrors_source"]
                assert names(self.row(source, replica, executed)) == expected, between

    @pytest.mark.parametrize(
        ("action", "found"), [("relay_log_recovery", ["relay_mirrors_source"]), ("reset", [])]
    )
    def test_a_channel_that_is_reset_may_begin_anywhere(self, action, found):
        """Recovery goes on where the applier was, which is in the relay log that is given up."""
        source, replica = fleet_of_two(auto_position=False)
        replica.receive(source, (1, f"{A}:1"))
        replica.administer(action)
        replica.administer("start_receiver")
        replica.receive(source, (3, f"{A}:3"))
        assert names(self.row(source, replica)) == found

    @pytest.mark.parametrize(
        ("executed", "action", "missing"),
        [
            (f"{A}:1-2", "change_source", None),
            (f"{A}:1", "change_source", "2"),
            ("", "change_source", "1-2"),
            (f"{A}:2", "reset", "1"),
            (f"{A}:2", "relay_log_recovery", "1"),
        ],
    )
    def test_auto_positioning_begins_with_what_the_replica_lacks(self, executed, action, missing):
        """Over files: the source sends everything that is not in the set which it was sent."""
        source, replica = fleet_of_two(groups=1)
        source.rotate(f"{A}:1")
        source.log(f"{A}:2", f"{A}:3")
        if action != "change_source":
            replica.administer(action)
        replica.receive(source, (2, f"{A}:3"), file=2)
        output = self.row(source, replica, f"{executed},{A}:3".lstrip(","))
        assert [finding.witness for finding in output.findings] == (
            [f"{A}:{missing}"] if missing else []
        )
        assert set(names(output)) <= {"relay_mirrors_source"}

    @pytest.mark.parametrize(
        "action", ["change_source", "reset", "relay_log_recovery", "reset_all", "boot", "crash"]
    )
    @pytest.mark.parametrize("has_row", [True, False])
    @pytest.mark.parametrize("is_sent_again", [True, False])
    def test_what_was_received_and_given_up_comes_again(self, action, has_row, is_sent_again):
        """A relay log is lost with groups in it that nobody executed, or a crash took them back."""
        source, replica = fleet_of_two(groups=4)
        replica.follow(source, "other")
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"))
        replica.log(*(f"{A}:{n + 1}" for n in range(1 + (action == "crash"))), server_id=1)
        if has_row:
            other = replica.says(source, channel="other")
            replica.status(f"{A}:1", replica.says(source, f"{A}:1-2"), other)
        if action == "crash":
            replica.end_file(end_of(1))
        if action in ("boot", "crash"):
            replica.boot()
        else:
            replica.administer(action)
        if action in ("change_source", "reset_all"):
            replica.follow(source)
        executed = f"{A}:1-4" if is_sent_again else f"{A}:1:3-4"
        numbers = (2, 3, 4) if is_sent_again else (3, 4)
        replica.receive(source, *((n, f"{A}:{n}") for n in numbers))
        output = self.row(source, replica, executed)
        assert [f.witness for f in output.findings] == ([] if is_sent_again else [f"{A}:2"])
        assert set(names(output)) <= {"relay_mirrors_source"}

    def test_what_is_sent_again_lacks_nothing(self):
        """Also where all of it was received before the start."""
        for second in ((3, 4), (2, 4), (4,)):
            source, replica = fleet_of_two(groups=5)
            replica.receive(source, *((n, f"{A}:{n}") for n in (1, 2, 3, 4)))
            replica.status(f"{A}:1", replica.says(source, f"{A}:1-4"))
            replica.boot()
            replica.receive(source, *((n, f"{A}:{n}") for n in second))
            has = ",".join(f"{A}:{n}" for n in (1, *second))
            output = self.row(source, replica, has, has)
            lacks = GtidSet.parse(f"{A}:2-4") - GtidSet.parse(has)
            assert [f.witness for f in output.findings] == [str(lacks)], second

    @pytest.mark.parametrize("is_shown_first", [True, False])
    def test_what_the_start_kept_need_not_come_again(self, is_shown_first):
        """No row had shown it yet, but one after the start does: the source was asked for more."""
        source, replica = fleet_of_two(groups=4)
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"))
        replica.boot()
        if is_shown_first:
            replica.status(f"{A}:1-2", replica.says(source))
        replica.receive(source, (3, f"{A}:3"), (4, f"{A}:4"))
        assert names(self.row(source, replica, f"{A}:1-4")) == []

    def test_without_retrieved_sets_what_was_given_up_is_undecided(self):
        """It may be in another relay log."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"))
        replica.administer("reset")
        replica.receive(source, (3, f"{A}:3"))
        replica.status(f"{A}:1:3", replica.says(source, None))
        source.status(f"{A}:1-3")
        output = audit(source, replica)
        assert names(output) == []
        assert any("relay_mirrors_source" in o.rules for o in output.observations)

    @pytest.mark.parametrize("event", ["reset", "boot", "recovery"])
    def test_what_was_executed_at_the_connect_may_be_gone_at_the_row(self, event):
        """RESET MASTER or a crash took it: the source sent nothing of it, and rightly."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"))
        replica.administer("reset")
        replica.receive(source, (3, f"{A}:3"))
        if event == "reset":
            replica.reset()
        else:
            replica.boot()
            if event == "recovery":
                replica.administer("relay_log_recovery")
        output = self.row(source, replica, "", f"{A}:3" if event == "boot" else "")
        assert names(output) == []

    @pytest.mark.parametrize("is_omitted", [False, True])
    def test_what_was_queued_before_another_source_was_found(self, is_omitted):
        """Until the row that names it the groups may be of either, in files of one name."""
        source, replica = fleet_of_two(groups=5)
        replica.administer("change_source", source_uuid=C)
        replica.receive(source, (1, f"{C}:1"), (2, f"{A}:1"))
        replica.status(f"{C}:1", replica.says(None, f"{A}:1,{C}:1", source_uuid=C))
        replica.receive(source, (3, f"{C}:2"), (2, f"{A}:2"))
        has = f"{A}:1-2,{C}:1-2"
        replica.status(has, replica.says(None, has, source_uuid=A))
        replica.receive(source, *((n, f"{A}:{n}") for n in (3, 4)[is_omitted:]))
        has = f"{A}:{'1-2:4' if is_omitted else '1-4'},{C}:1-2"
        replica.status(has, replica.says(None, has, source_uuid=A))
        source.status(f"{A}:1-5,{C}:1-2")
        output = audit(source, replica)
        assert names(output) == ["relay_mirrors_source"] * is_omitted
        assert "queued_between_sources" in {o.reason for o in output.observations}

    @pytest.mark.parametrize(
        ("how", "gtids"),
        [
            ("", "3-4"),
            ("shown by a row", "3-4"),  # as on a server, which records no SET gtid_purged
            ("received", "4"),  # the replica had the other one in its relay log
            ("no row before", ""),  # as of a backup that was loaded
            ("restored", ""),
            ("reset", ""),
            ("reset later", ""),
            ("restored later", ""),
            ("no channel", ""),  # as of a server whose data were loaded
            ("not logged", ""),  # of a server that is gone: all are given it
        ],
    )
    def test_what_gtid_purged_has_a_replica_skip(self, how, gtids):
        """Its data may have it from elsewhere; the row after it counts it as executed."""
        source, replica = fleet_of_two(groups=2 if how == "not logged" else 5)
        if how == "not logged":
            source.assign(f"{A}:3-4")
        if how != "no row before":
            replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2"))
        if how == "received":
            replica.receive(source, (3, f"{A}:3"))
        elif how == "restored":
            replica.boot(data_lineage=1)
            replica.follow(source)
        elif how == "reset":
            replica.reset("reset")
        elif how == "no channel":
            replica.administer("reset_all")
        if how != "shown by a row":
            replica.assign(f"{A}:3-4")
        if how == "no channel":
            replica.follow(source)
        elif how == "reset later":
            replica.reset("reset")
            replica.assign(f"{A}:1-4")
        elif how == "restored later":
            replica.boot(data_lineage=1)
            replica.follow(source)
        for named in (f"{A}:3-4" if how == "shown by a row" else "", ""):
            replica.status(f"{A}:1-4", replica.says(source, f"{A}:1-2"), named=named)
            source.status(f"{A}:1-5")
        output = audit(source, replica)
        assert names(output) == []
        said = [o for o in output.observations if o.reason == "skipped_by_gtid_purged"]
        assert {o.data["gtids"] for o in said} <= {f"{A}:{gtids or '3-4'}"}
        assert all(o.is_undecided for o in said)
        at_rows = [c for c in output.checks if c.check.reason == "skipped_by_gtid_purged"]
        assert {"c2", "c3"} & {c.collection_id for c in at_rows} == (
            {"c2", "c3"} if gtids else set()
        )

    def test_what_was_skipped_stays_in_doubt_where_its_groups_are_forgotten(self, monkeypatch):
        monkeypatch.setattr("tallystick.coordinates.audit.instance_timeline.EVENTS_MIN", 60)
        monkeypatch.setattr("tallystick.coordinates.audit.timeline_file.PACKED_EVENTS", 4)
        source, replica = fleet_of_two(groups=5)
        replica.status(f"{A}:1-2", replica.says(source, f"{A}:1-2"))
        replica.assign(f"{A}:3-4")
        fleet, seen = FleetAudit(), {source: 0, replica: 0}
        for last in (5, 45, 85):
            source.log(*(f"{A}:{n}" for n in range(max(last - 39, 6), last + 1)))
            read = {"exec_source_log_file": "s-bin.000001", "exec_source_log_pos": end_of(last)}
            replica.status(f"{A}:1-{last}", replica.says(source, f"{A}:1-2:5-{last}", **read))
            source.status(f"{A}:1-{last}")
            checks = []
            for journal in (source, replica):
                checks += fleet.absorb(journal.fleet_events[seen[journal] :]).checks
                seen[journal] = len(journal.fleet_events)
            # The source is known up to a row with the next step.
            reasons = {one.check.reason for one in checks}
            assert last == 5 or "skipped_by_gtid_purged" in reasons
        assert fleet.reader.timelines["s"].event_count < 85

    def test_after_a_gap_a_channel_may_have_received_more_than_its_journal_shows(self):
        """Groups that were received in the gap are in the relay log, executed or not."""
        source, replica = fleet_of_two()
        replica.gap()
        replica.receive(source, (3, f"{A}:3"))
        assert names(self.row(source, replica)) == []

    def test_auto_positioning_does_not_send_older_anonymous_groups(self):
        """The source of such a channel logs none any more; older ones are in files it passes."""
        source, replica = fleet_of_two(groups=0)
        source.log("", f"{A}:2", f"{A}:3")
        replica.receive(source, (3, f"{A}:3"))
        assert names(self.row(source, replica, f"{A}:2-3")) == []

    def test_unknown_source_places_are_undecided(self):
        """Groups before the first ROTATE of a relay log, or of a file not observed."""
        for offset in ({"file": None}, {"file": 7}, {}):
            source, replica = fleet_of_two()
            replica.receive(source, (-1 if not offset else 1, f"{A}:1"), **offset)
            replica.receive(source, (2, f"{A}:2"))
            output = self.row(source, replica)
            assert names(output) == []
            assert any("relay_mirrors_source" in o.rules for o in output.observations), offset

    def test_without_a_row_an_omission_is_undecided(self):
        """The journal of the relay log may miss what Retrieved_Gtid_Set would show."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
        output = audit(source, replica)
        assert names(output) == []
        assert any("relay_mirrors_source" in o.rules for o in output.observations)

    def test_anonymous_groups_are_known_by_their_place(self):
        """An omitted one cannot have been skipped by its GTID."""
        source, replica = fleet_of_two(groups=0)
        source.log("", "", "")
        replica.receive(source, (1, ""), (2, ""), (3, ""))
        assert names(self.row(source, replica)) == []
        source, replica = fleet_of_two(groups=0)
        source.log("", "", "")
        replica.receive(source, (1, ""), (3, ""))
        assert names(self.row(source, replica)) == ["relay_mirrors_source"]

    def test_an_anonymous_group_may_be_one_whose_place_is_not_known(self):
        source, replica = fleet_of_two(groups=0)
        source.log("", "", "")
        replica.receive(source, (1, ""), (-1, ""), (3, ""))
        assert names(self.row(source, replica)) == []

    @pytest.mark.parametrize(("place", "is_left_out"), [(-1, False), (2, False), (None, True)])
    def test_what_an_anonymous_group_of_an_unknown_place_was_is_not_known_later(
        self, place, is_left_out
    ):
        """It may be the one that lacks at the next row."""
        source, replica = fleet_of_two(groups=0, auto_position=False)
        source.log("", "", "")
        replica.receive(source, (1, ""), *([] if place is None else [(place, "")]))
        self.row(source, replica)
        replica.receive(source, (3, ""))
        assert names(self.row(source, replica)) == ["relay_mirrors_source"] * is_left_out

    @pytest.mark.parametrize("is_ring", [False, True])
    def test_an_anonymous_group_that_is_left_out_may_be_the_replicas_own(self, is_ring):
        """In a ring its own come back to it, and it ignores them."""
        source, replica = fleet_of_two(groups=0)
        if is_ring:
            source.follow(replica)
            source.status("", source.says(replica))
        source.log("", "", "")
        replica.receive(source, (1, ""), (3, ""))
        replica.status("", replica.says(source))
        source.status("", *([source.says(replica)] if is_ring else []))
        assert names(audit(source, replica)) == ([] if is_ring else ["relay_mirrors_source"])

    def test_what_was_found_as_omitted_is_not_found_again(self):
        """A source that is asked anew is expected to send it: it is missing as before."""
        source, replica = fleet_of_two(groups=5)
        replica.receive(source, (1, f"{A}:1"), (3, f"{A}:3"))
        replica.status(f"{A}:1:3", replica.says(source, f"{A}:1:3"))
        replica.boot()
        replica.receive(source, (4, f"{A}:4"), (5, f"{A}:5"))
        output = self.row(source, replica, f"{A}:1:3-5", f"{A}:1:3-5")
        assert [one.witness for one in output.findings] == [f"{A}:2"]

    def test_groups_that_a_crash_took_back_were_queued_rightly(self):
        """They were the source's when queued; what was not queued then cannot come any more."""
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"), (3, f"{A}:3"))
        source.boot()
        source.end_file(end_of(1))
        source.open_file(f"{A}:1")
        source.status(f"{A}:1")
        replica.status(f"{A}:1-3", replica.says(source, f"{A}:1"))
        source.status(f"{A}:1")
        assert "relay_mirrors_source" not in names(audit(source, replica))
        source, replica = fleet_of_two()
        replica.receive(source, (1, f"{A}:1"))
        source.boot()
        source.end_file(end_of(1))
        source.open_file(f"{A}:1")
        source.log(f"{A}:4")
        source.status(f"{A}:1:4")
        replica.receive(source, (1, f"{A}:4"), file=2)
        replica.status(f"{A}:1", replica.says(source, f"{A}:1:4"))
        source.status(f"{A}:1:4")
        assert names(audit(source, replica)) == []

    def test_groups_that_a_crash_took_back_before_the_next_file_is_there(self):
        """The start has cut the file; how far it reached when they were queued counts."""
        source, replica = fleet_of_two(auto_position=False)
        replica.receive(source, (1, f"{A}:1"), (2, f"{A}:2"), (3, f"{A}:3"))
        source.boot()
        source.end_file(end_of(1))
        replica.status("", replica.says(source))
        source.time()
        assert "relay_mirrors_source" not in names(audit(source, replica))

    @pytest.mark.parametrize(("size", "is_broken"), [(2**31, True), (2**32, False)])
    def test_a_file_of_more_than_four_gigabytes_may_have_the_group_elsewhere(self, size, is_broken):
        """A relay log names positions modulo 2^32."""
        source, replica = fleet_of_two(groups=1)
        source.event(size)
        source.log(f"{A}:2")
        replica.receive(source, (1, f"{A}:1"), (source.position % 2**32 - 7000, f"{A}:2"))
        replica.status(f"{A}:1", replica.says(source, f"{A}:1-2"))
        source.status(f"{A}:1-2")
        output = audit(source, replica)
        assert names(output) == ["relay_mirrors_source"] * is_broken
        assert any("relay_mirrors_source" in o.rules for o in output.observations) != is_broken


class TestClones:
    """Rules 60 and 61."""

    def clone(
        self,
        position: int,
        executed: str,
        *,
        first: int | None = None,
        redo: tuple[int, int] = (9000, 9000),
        more: tuple[str, ...] = (),
    ) -> tuple[Journal, Journal]:
        donor, recipient = fleet_of_two(groups=5)
        donor.log(*more)
        kind, (copied, recovered) = _kind("clone"), redo
        recipient.fleet_event(kind=kind, step="begin", role="recipient", peer="s")
        copy = {"kind": kind, "step": "position_read", "role": "donor", "peer": "r"}
        at = {"binlog_file": "s-bin.000001", "binlog_position": position}
        donor.fleet_event(**copy, **at, lsn=copied)
        for later in (at, at | {"binlog_position": position + 1}):
            # Of another clone of the same server, which has another status.
            donor.fleet_event(**copy, **later, lsn=copied + 500)
        recipient.fleet_event(
            kind=kind, step="recovered", role="recipient", peer="s", lsn=recovered
        )
        recipient.fleet_event(kind=_kind("clone"), step="end", role="recipient", peer="s")
        recipient.lineage += 1
        recipient.fleet_event(kind=_kind("lineage"), binlog_lineage=1, reason="cloned")
        recipient.boot(data_lineage=1)
        recipient.file = 0
        recipient.open_file()
        recipient.follow(donor)
        status = {
            "STATE": "Completed",
            "BINLOG_FILE": "s-bin.000001",
            "BINLOG_POSITION": position,
            "GTID_EXECUTED": executed,
        }
        said = recipient.says(donor)
        recipient.status(executed, said, clone_status=status, purged=executed)
        if first is not None:
            recipient.receive(donor, (first, f"{A}:{first}"))
            recipient.status(executed, said, clone_status=status, purged=executed)
        donor.status(f"{A}:1-5")
        return donor, recipient

    @pytest.mark.parametrize(
        ("position", "executed", "is_broken"),
        [
            (end_of(3), "1-3", False),
            (end_of(2), "1-3", True),
            (end_of(3), "1-2", True),
            (end_of(4), "1-3", True),
            (end_of(3) + EVENT_LENGTH, "1-3", True),
            (end_of(5), "1-5", False),
        ],
    )
    def test_position_and_set_are_one_state(self, position, executed, is_broken):
        """One group more or less on either side is another state."""
        output = audit(*self.clone(position, f"{A}:{executed}"))
        assert names(output) == (["clone_coordinates_equal_donor"] if is_broken else [])

    @pytest.mark.parametrize(
        ("position", "case", "witness"),
        [(end_of(2), "set_has_more", f"{A}:3"), (end_of(4), "set_lacks", f"{A}:4")],
    )
    def test_what_a_set_has_more_or_lacks_is_named(self, position, case, witness):
        [finding] = audit(*self.clone(position, f"{A}:1-3")).findings
        assert (finding.case, finding.witness) == (case, witness)

    @pytest.mark.parametrize("unseen", [["logged"], ["previous"], ["logged", "previous"]])
    def test_a_file_of_the_donor_that_was_seen_in_part_tells_no_set(self, unseen):
        """Its journal begins within the file: which groups are before that, nobody knows."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-2")
        for kind in unseen:
            event = next(one for one in donor.fleet_events if one.kind == _kind(kind))
            donor.fleet_events.remove(event)
        output = audit(donor, recipient)
        assert names(output) == []
        assert "donor_file_in_part" in {one.check.reason for one in output.checks}

    def show_status_again(self, donor, recipient):
        """A row of the recipient after its first groups, and one of the donor, a group later."""
        rows = [f for f in recipient.fleet_events if f.body.get("clone_status")]
        status = rows[-1].body["clone_status"]
        recipient.status(f"{A}:1-5", recipient.says(donor), clone_status=status)
        donor.status(f"{A}:1-6")

    def test_a_group_without_a_gtid_that_was_left_out_is_named_by_the_position(self):
        donor, recipient = self.clone(end_of(5), f"{A}:1-5", more=("", f"{A}:6"))
        recipient.receive(donor, (7, f"{A}:6"))
        self.show_status_again(donor, recipient)
        found = {one.rule: one.witness for one in audit(donor, recipient).findings}
        assert found["clone_resume_exact"] == f"s-bin.000001:{end_of(5)}"

    @pytest.mark.parametrize(
        ("first", "outcome"),
        [
            ((6, ""), Outcome.HOLDS),
            ((7, ""), Outcome.BROKEN),
            ((-1, f"{A}:6"), Outcome.BROKEN),
            ((-1, ""), Outcome.UNDECIDED),
        ],
    )
    def test_the_first_group_received_is_known_by_its_position_or_its_gtid(self, first, outcome):
        donor, recipient = self.clone(end_of(5), f"{A}:1-5", more=("", "", f"{A}:6"))
        recipient.receive(donor, first)
        self.show_status_again(donor, recipient)
        checks = [one.check for one in audit(donor, recipient).checks]
        assert outcome in {one.outcome for one in checks if one.rule == "clone_resume_exact"}

    @pytest.mark.parametrize(
        ("beside", "outcome"), [(0, Outcome.HOLDS), (EVENT_LENGTH, Outcome.BROKEN)]
    )
    def test_the_first_group_received_may_be_beyond_four_gigabytes(self, beside, outcome):
        """A relay log names positions modulo 2^32."""
        donor, recipient = self.clone(end_of(5), f"{A}:1-5")
        donor.event(2**32)
        donor.log(f"{A}:6")
        recipient.receive(donor, (donor.position % 2**32 - beside, f"{A}:6"))
        self.show_status_again(donor, recipient)
        checks = [one.check for one in audit(donor, recipient).checks]
        assert outcome in {one.outcome for one in checks if one.rule == "clone_resume_exact"}

    @pytest.mark.parametrize(("executed", "is_broken"), [("1-5", False), ("1-6", True)])
    def test_anonymous_groups_are_in_no_set(self, executed, is_broken):
        """Before the position and after it."""
        output = audit(*self.clone(end_of(6), f"{A}:{executed}", more=("", "")))
        assert names(output) == ["clone_coordinates_equal_donor"] * is_broken

    @pytest.mark.parametrize(
        ("recovered", "is_broken"), [(9000, False), (9001, False), (8999, True)]
    )
    def test_recovery_finds_all_redo_of_the_copy(self, recovered, is_broken):
        """What recovery itself writes may be there too, if it was cut off once."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-3", redo=(9000, recovered))
        cases = [finding.case for finding in audit(donor, recipient).findings]
        assert cases == ["redo_lacks"] * is_broken

    @pytest.mark.parametrize(
        ("position", "case"),
        [
            (end_of(3) + 1, "inside_event"),
            (end_of(3) + EVENT_LENGTH, "inside_group"),
            (end_of(9), "beyond_end"),
            (end_of(2), "set_has_more"),
            (end_of(4), "set_lacks"),
        ],
    )
    def test_a_wrong_position_is_named(self, position, case):
        """What is at the position decides the case."""
        [finding] = audit(*self.clone(position, f"{A}:1-3")).findings
        assert (case, f"s-bin.000001:{position}") == (finding.case, finding.at)

    @pytest.mark.parametrize(
        ("read", "is_broken"),
        [
            ([], False),
            ([{}], False),
            ([{"binlog_position": end_of(2)}], True),
            ([{"binlog_file": "s-bin.000002"}], True),
            ([{"binlog_position": end_of(2)}, {}], False),  # two clones of one recipient
            ([{"binlog_position": end_of(2), "peer": "x"}], False),
            ([{"binlog_position": end_of(2), "peer": None}], False),  # of whichever clone
            ([{"binlog_position": end_of(2)}, {"binlog_file": None}], False),
        ],
    )
    def test_it_is_the_position_that_the_donor_has_read(self, read, is_broken):
        """A donor that records what it reads for its recipients has read it."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-3", redo=(9000, 9500))
        records = [e for e in donor.fleet_events if e.body.get("step") == "position_read"]
        assert len(records) == 3
        for record in records:
            record.body["peer"] = "x"
        for record, changes in zip(records, read, strict=False):
            at = {"binlog_file": "s-bin.000001", "binlog_position": end_of(3)}
            record.body.update({**at, "peer": "r", **changes})
        cases = [finding.case for finding in audit(donor, recipient).findings]
        assert cases == ["not_read"] * is_broken

    def test_the_position_may_have_been_read_in_a_gap_of_the_donor(self):
        """Its log is known up to there, and of its reads only that of a clone before."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-3")
        reads = [e for e in donor.fleet_events if e.body.get("step") == "position_read"]
        reads[0].body["binlog_position"] = end_of(2)
        for read in reads[1:]:
            donor.fleet_events.remove(read)
        [last] = [n for n, e in enumerate(donor.fleet_events) if e.kind == _kind("status")][-1:]
        donor.fleet_events[last:] = []
        donor.time()
        donor.fleet_event(kind=_kind("gap"), binlog_lineage=1)
        output = audit(donor, recipient)
        assert names(output) == []
        rule = "clone_coordinates_equal_donor"
        checks = [one.check for one in output.checks if one.check.rule == rule]
        assert [one.outcome.value for one in checks] == ["holds"]

    def test_of_a_clone_whose_begin_was_not_seen_the_position_may_have_been_read_unseen(self):
        """The donor's records may have been lost before the recipient's go on."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-3")
        [begin] = [e for e in recipient.fleet_events if e.body.get("step") == "begin"]
        recipient.fleet_events.remove(begin)
        for record in (e for e in donor.fleet_events if e.body.get("step") == "position_read"):
            record.body["binlog_position"] = end_of(2)
        assert names(audit(donor, recipient)) == []

    @pytest.mark.parametrize(("first", "is_broken"), [(3, True), (4, False), (5, True)])
    def test_it_goes_on_right_behind(self, first, is_broken):
        """The first group received is the first that the clone has not."""
        output = audit(*self.clone(end_of(3), f"{A}:1-3", first=first))
        assert names(output) == (["clone_resume_exact"] if is_broken else [])
        if is_broken:
            assert output.findings[0].channel == ""
            assert output.findings[0].witness == f"{A}:4"

    def test_groups_behind_the_position_that_the_clone_has_are_passed_over(self):
        """A position too early is reported on its own, and the resumption is right."""
        output = audit(*self.clone(end_of(2), f"{A}:1-3", first=4))
        assert names(output) == ["clone_coordinates_equal_donor"]

    def test_a_clone_that_follows_another_source_resumes_elsewhere(self):
        """Where it goes on in other logs, the donor's do not tell."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-3")
        other = Journal(donor.clock, "o", C, 3)
        other.boot()
        other.open_file()
        other.log(f"{C}:1")
        recipient.follow(other)
        recipient.receive(other, (1, f"{C}:1"))
        rows = [f for f in recipient.fleet_events if f.body.get("clone_status")]
        status = rows[-1].body["clone_status"]
        recipient.status(f"{A}:1-3", recipient.says(other), clone_status=status)
        for journal in (donor, other):
            journal.status(f"{A}:1-5")
        assert names(audit(donor, recipient, other)) == []

    @pytest.mark.parametrize(("first", "is_broken"), [(4, False), (5, True)])
    def test_a_clone_that_follows_another_replica_lacks_nothing_of_it(self, first, is_broken):
        """The log of its new source shows the groups after the clone's position."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-3")
        other = Journal(donor.clock, "o", C, 3)
        other.boot()
        other.open_file()
        other.log(*(f"{A}:{gno}" for gno in range(1, 6)), server_id=1)
        recipient.follow(other)
        recipient.receive(other, *((n, f"{A}:{n}") for n in range(first, 6)), server_id=1)
        rows = [f for f in recipient.fleet_events if f.body.get("clone_status")]
        status, executed = rows[-1].body["clone_status"], f"{A}:1-3:{first}-5"
        recipient.status(executed, recipient.says(other), clone_status=status, purged=f"{A}:1-3")
        for journal in (donor, other):
            journal.status(f"{A}:1-5")
        assert names(audit(donor, recipient, other)) == ["relay_mirrors_source"] * is_broken

    def test_an_unknown_donor_is_undecided(self):
        """The clone is reported, and no rule is broken."""
        _, recipient = self.clone(end_of(2), f"{A}:1-3")
        output = audit(recipient)
        assert names(output) == []
        assert any("clone_coordinates_equal_donor" in o.rules for o in output.observations)

    def undecided(
        self,
        *events: dict[str, object] | None,
        steps: tuple[dict[str, object], ...] = ({"step": "begin"}, {"step": "end"}),
    ) -> list[str]:
        """Result for a recipient whose rows have these values as clone_status, after a clone."""
        donor, recipient = fleet_of_two(groups=3)
        for step in steps:
            recipient.fleet_event(kind=_kind("clone"), role="recipient", peer="s", **step)
        for status in events:
            recipient.status(f"{A}:1-3", recipient.says(donor), clone_status=status)
            recipient.time()
        donor.status(f"{A}:1-3")
        output = audit(donor, recipient)
        assert names(output) == []
        return [observation_text(o) for o in output.observations if "clone_resume_exact" in o.rules]

    def test_a_clone_whose_status_nobody_reads_is_undecided(self):
        """A record without clone_status is reported, once."""
        reported = self.undecided(None, None)
        assert len(reported) == 1
        assert "clone_status was not read" in reported[0]

    @pytest.mark.parametrize(
        ("steps", "ends"),
        [
            (({"step": "begin"}, {"step": "stage", "stage": "FILE COPY"}), False),
            (({"step": "begin"}, {"step": "end", "error": 1}), False),
            (({"step": "begin"}, {"step": "recovered"}), True),
        ],
    )
    def test_a_clone_has_a_status_when_it_is_over(self, steps, ends):
        """One that goes on, or has failed, has left nothing to resume from."""
        assert len(self.undecided(None, steps=steps)) == ends

    def test_a_gap_may_hide_another_clone(self):
        """The status is of that one: nothing is held against the donor of the one that was seen."""
        donor, recipient = fleet_of_two(groups=5)
        for step in ("begin", "end"):
            recipient.fleet_event(kind=_kind("clone"), step=step, role="recipient", peer="s")
        recipient.gap()
        status = {
            "STATE": "Completed",
            "BINLOG_FILE": "s-bin.000001",
            "BINLOG_POSITION": end_of(2),
            "GTID_EXECUTED": f"{A}:1-3",
        }
        recipient.status(f"{A}:1-3", recipient.says(donor), clone_status=status)
        donor.status(f"{A}:1-5")
        output = audit(donor, recipient)
        assert names(output) == []
        checks = [one.check for one in output.checks if one.check.rule.startswith("clone_")]
        assert [one.reason for one in checks] == ["clone_unseen"] * 2

    @pytest.mark.parametrize("missing", ["BINLOG_FILE", "BINLOG_POSITION", "GTID_EXECUTED"])
    def test_a_status_without_one_of_its_values_is_undecided(self, missing):
        """Whichever it is, nothing can be compared."""
        status = {
            "STATE": "Completed",
            "BINLOG_FILE": "s-bin.000001",
            "BINLOG_POSITION": end_of(3),
            "GTID_EXECUTED": f"{A}:1-3",
        }
        del status[missing]
        [reported] = self.undecided(status)
        assert "clone_status lacks a position" in reported

    def test_a_status_that_was_read_once_is_known(self):
        """A later row without it asks nothing again."""
        status = {
            "STATE": "Completed",
            "BINLOG_FILE": "s-bin.000001",
            "BINLOG_POSITION": end_of(3),
            "GTID_EXECUTED": f"{A}:1-3",
        }
        assert self.undecided(status, None) == []

    @pytest.mark.parametrize(
        ("first", "shows", "is_broken"),
        [
            (4, {}, False),
            (5, {}, True),
            (5, {"filtered": True, "ignores_servers": False}, True),
            (5, {"filtered": True, "ignores_servers": True}, False),
        ],
    )
    def test_a_first_group_without_a_position_is_known_by_its_gtid(self, first, shows, is_broken):
        """It is the first one all the same, of what its receiver does not ignore."""
        donor, recipient = self.clone(end_of(3), f"{A}:1-3")
        recipient.receive(donor, (-1, f"{A}:{first}"), (5, f"{A}:5"))
        rows = [f for f in recipient.fleet_events if f.body.get("clone_status")]
        status = rows[-1].body["clone_status"]
        recipient.status(f"{A}:1-3", recipient.says(donor, **shows), clone_status=status)
        donor.time()
        assert ("clone_resume_exact" in names(audit(donor, recipient))) is is_broken

    @pytest.mark.parametrize(
        ("values", "undecided"),
        [
            ({}, 2),
            ({"DESTINATION": "LOCAL INSTANCE"}, 2),
            ({"DESTINATION": "/backup/copy/"}, 0),
            ({"DESTINATION": "/backup/copy/", "STATE": "Failed", "ERROR_NO": 1317}, 0),
        ],
    )
    def test_a_clone_that_nobody_told_of_leaves_two_checks_undecided(self, values, undecided):
        """The history is not for that: it may have ended long ago; a copy elsewhere is none."""
        donor, recipient = fleet_of_two(groups=3)
        status = {"STATE": "Completed", "BINLOG_FILE": "s-bin.000001", "BINLOG_POSITION": 4}
        for _ in range(2):
            said = recipient.says(donor)
            recipient.status(f"{A}:1-3", said, clone_status=status | values)
            recipient.time()
        donor.status(f"{A}:1-3")
        output = audit(donor, recipient)
        assert [] == [observation_text(one) for one in output.observations]
        checks = [one.check for one in output.checks if one.check.rule.startswith("clone_")]
        assert ["clone_unseen"] * undecided == [one.reason for one in checks]

    def test_a_status_without_coordinates_is_undecided(self):
        """It completed, and the row says not where."""
        reported = self.undecided({"STATE": "Completed"}, {"STATE": "Completed"})
        assert len(reported) == 1
        assert "clone_status lacks a position" in reported[0]

    def test_a_clone_whose_donor_is_not_known_is_undecided(self):
        """Its steps do not name it, and nobody else's log is held against it."""
        donor, recipient = fleet_of_two(groups=3)
        for step in ("begin", "end"):
            recipient.fleet_event(kind=_kind("clone"), step=step, role="recipient")
        status = {
            "STATE": "Completed",
            "BINLOG_FILE": "s-bin.000001",
            "BINLOG_POSITION": end_of(3),
            "GTID_EXECUTED": f"{A}:1-3",
        }
        recipient.status(f"{A}:1-3", recipient.says(donor), clone_status=status)
        donor.status(f"{A}:1-3")
        output = audit(donor, recipient)
        assert names(output) == []
        checks = [one.check for one in output.checks if one.check.rule.startswith("clone_")]
        assert ["clone_incomplete"] * 2 == [one.reason for one in checks]

    def test_a_failed_clone_has_no_coordinates(self):
        """Nothing is said for or against what stands beside the state Failed."""
        status = {
            "STATE": "Failed",
            "ERROR_NO": 3862,
            "BINLOG_FILE": "s-bin.000001",
            "BINLOG_POSITION": 5,
            "GTID_EXECUTED": f"{A}:1-99",
        }
        reported = self.undecided(status, status)
        assert len(reported) == 1
        assert "failed with error 3862" in reported[0]


class TestFoundClones:
    """Rules 60 and 61 where clone_status alone has shown the clone."""

    BEGUN = "2026-11-27 20:00:55.344000"

    def found(
        self,
        position: int = end_of(3),
        executed: str = "1-3",
        *,
        resets: bool = False,
        peer: str | None = "s",
        begun: str = BEGUN,
        is_timed: bool = True,
        before: Callable[[Journal], None] = lambda _: None,
    ) -> tuple[Journal, Journal]:
        """A clone, followed by its donor's log; nothing of it was received yet."""
        donor, recipient = fleet_of_two(groups=8)
        before(donor)
        recipient.status()
        not_before = {"not_before": recipient.clock.tick()} if is_timed else {}
        if resets:
            donor.reset()
            donor.log(*(f"{A}:{n + 1}" for n in range(8)))
        recipient.lineage += 1
        recipient.fleet_event(kind=_kind("lineage"), binlog_lineage=1, reason="cloned")
        recipient.boot(data_lineage=1)
        body = {"step": "found", "role": "recipient", "source": "db1:3306", "begin_time": begun}
        body |= {} if peer is None else {"peer": peer}
        recipient.fleet_event(kind=_kind("clone"), **not_before, **body)
        recipient.file = 0
        recipient.open_file()
        recipient.follow(donor)
        self.status = {
            "state": "Completed",
            "begin_time": self.BEGUN,
            "binlog_file": "s-bin.000001",
            "binlog_position": position,
            "gtid_executed": f"{A}:{executed}",
        }
        return donor, recipient

    def row(self, recipient: Journal, donor: Journal, executed: str, retrieved: str = "") -> None:
        """A row of the recipient."""
        recipient.status(
            f"{A}:{executed}",
            recipient.says(donor, retrieved and f"{A}:{retrieved}"),
            purged=f"{A}:1-3",
            clone_status=self.status,
        )

    def answers(
        self, donor: Journal, recipient: Journal, rule: str, executed: str = "1-8"
    ) -> list[str]:
        """Results of a rule, or its reasons: nothing else is found."""
        donor.status(f"{A}:{executed}")
        output = audit(donor, recipient)
        assert set(names(output)) <= {rule}
        checks = [one.check for one in output.checks if one.check.rule == rule]
        return [one.reason or one.outcome.name.lower() for one in checks]

    @pytest.mark.parametrize(
        ("position", "executed", "options", "expected"),
        [
            (end_of(3), "1-3", {}, "holds"),
            (end_of(2), "1-3", {}, "set_has_more"),
            (end_of(4), "1-3", {}, "set_lacks"),
            (end_of(3) + 1, "1-3", {}, "inside_event"),
            (end_of(3), "1-3", {"resets": True}, "donor_log_began_anew"),
            (end_of(2), "1-3", {"resets": True}, "donor_log_began_anew"),
            (end_of(2), "1-3", {"peer": None}, "clone_donor_unknown"),
            (end_of(2), "1-3", {"is_timed": False}, "clone_unseen"),
            # However many digits the fraction is written with, it is one moment.
            (end_of(2), "1-3", {"begun": "2026-11-27 20:00:55.344"}, "set_has_more"),
            (end_of(2), "1-3", {"begun": "2026-11-27 20:00:55"}, "clone_unseen"),
            # The row is of another clone than the record.
            (end_of(2), "1-3", {"begun": "2026-11-27 20:00:11.000000"}, "clone_unseen"),
        ],
    )
    def test_its_coordinates_are_compared(self, position, executed, options, expected):
        """As far as the donor is known, and its log has been the same since before the clone."""
        donor, recipient = self.found(position, executed, **options)
        self.row(recipient, donor, "1-3")
        assert self.answers(donor, recipient, "clone_coordinates_equal_donor") == [expected]

    @pytest.mark.parametrize(
        ("first", "executed", "retrieved", "expected"),
        [
            (4, "1-4", "4", "holds"),
            # Received before anybody looked.
            (6, "1-3", "4-6", "holds"),
            # Groups are received in order: what lacks was passed over.
            (6, "1-3", "6", "group_left_out"),
            (6, "1-3:6", "6", "group_left_out"),
            # From before the position, whatever came in front of it.
            (3, "1-3", "3", "received_again"),
            (2, "1-5", "2-5", "received_again"),
            # Executed in another way, or of the relay log that the clone has replaced.
            (6, "1-4", "6", "received_before_unknown"),
            (6, "1-3", "2-6", "received_before_unknown"),
        ],
    )
    def test_what_was_received_first_is_compared(self, first, executed, retrieved, expected):
        """Of a relay log that nobody saw begin, sets tell what came before."""
        donor, recipient = self.found()
        recipient.receive(donor, (first, f"{A}:{first}"))
        self.row(recipient, donor, executed, retrieved)
        self.row(recipient, donor, executed, retrieved)
        assert self.answers(donor, recipient, "clone_resume_exact") == [expected]

    @pytest.mark.parametrize(
        ("at", "executed", "first", "retrieved", "expected"),
        [
            ((2, 1), "1-9", (1, 8), "8", "received_again"),
            ((2, 1), "1-9", (2, 2), "10", "holds"),
            ((1, 8), "1-8", (2, 2), "9-10", "holds"),
            ((1, 8), "1-8", (2, 2), "10", "group_left_out"),
        ],
    )
    def test_what_was_received_first_may_be_of_another_file(
        self, at, executed, first, retrieved, expected
    ):
        """Its number tells what is before a position; an end is one in its own file."""

        def rotate(donor: Journal) -> None:
            donor.rotate(f"{A}:1-8")
            donor.log(f"{A}:9", f"{A}:10")

        donor, recipient = self.found(end_of(at[1]), executed, before=rotate)
        self.status["binlog_file"] = f"s-bin.{at[0]:06}"
        gno = first[1] + 8 * (first[0] - 1)
        recipient.receive(donor, (first[1], f"{A}:{gno}"), file=first[0])
        for _ in range(2):
            self.row(recipient, donor, executed, retrieved)
        assert self.answers(donor, recipient, "clone_resume_exact", "1-10") == [expected]

    def test_a_group_without_a_gtid_behind_the_position_may_have_been_received(self):
        """No set shows it."""
        donor, recipient = self.found(end_of(8), "1-8", before=lambda one: one.log("", f"{A}:9"))
        recipient.receive(donor, (10, f"{A}:9"))
        for _ in range(2):
            self.row(recipient, donor, "1-8", "9")
        expected = ["received_before_unknown"]
        assert self.answers(donor, recipient, "clone_resume_exact", "1-9") == expected

    def test_what_the_donor_was_given_again_after_a_reset_is_in_no_group_of_its_log(self):
        """Of the log before the RESET it has these groups, and of this one gtid_purged."""

        def reset(donor: Journal) -> None:
            donor.reset()
            donor.assign(f"{A}:1-8")
            donor.log(f"{A}:9", f"{A}:10")

        donor, recipient = self.found(end_of(1), "1-9", before=reset)
        self.row(recipient, donor, "1-9")
        rule = "clone_coordinates_equal_donor"
        assert self.answers(donor, recipient, rule, "1-10") == ["holds"]

    def test_a_status_of_before_the_first_group_says_nothing(self):
        """The row's channel is read before its relay log; the next row decides."""
        donor, recipient = self.found()
        recipient.receive(donor, (6, f"{A}:6"))
        self.row(recipient, donor, "1-3")
        self.row(recipient, donor, "1-3", "4-6")
        assert self.answers(donor, recipient, "clone_resume_exact") == ["holds"]

    @pytest.mark.parametrize("action", ["boot", "reset", "binlog_reset"])
    def test_what_was_retrieved_may_have_been_given_up(self, action):
        """A start, or RESET REPLICA, and group 4 may come again; or RESET hides that it came."""
        donor, recipient = self.found()
        recipient.receive(donor, (6, f"{A}:6"))
        if action == "boot":
            recipient.boot(data_lineage=1)
        elif action == "binlog_reset":
            recipient.reset()
        else:
            recipient.administer("reset", "")
        self.row(recipient, donor, "1-3:6", "6")
        expected = ["received_before_unknown"]
        assert self.answers(donor, recipient, "clone_resume_exact") == expected

    def test_the_next_clone_is_compared_anew(self):
        """With its own donor and coordinates."""
        donor, recipient = self.found()
        self.row(recipient, donor, "1-3")
        not_before = recipient.clock.tick()
        recipient.lineage += 1
        recipient.fleet_event(kind=_kind("lineage"), binlog_lineage=2, reason="cloned")
        recipient.boot(data_lineage=2)
        later = {"begin_time": "2026-11-27 21:00:00.000000", "binlog_position": end_of(4)}
        body = {"step": "found", "role": "recipient", "peer": "s", "not_before": not_before}
        recipient.fleet_event(kind=_kind("clone"), begin_time=later["begin_time"], **body)
        recipient.file = 0
        recipient.open_file()
        recipient.follow(donor)
        self.status = self.status | later
        self.row(recipient, donor, "1-3")
        expected = ["holds", "set_lacks"]
        assert self.answers(donor, recipient, "clone_coordinates_equal_donor") == expected


def _kind(name: str):
    from tallystick.coordinates.audit.fleet_events import FleetEventKind

    return FleetEventKind(name)


def test_disabled_rules_stay_silent():
    """Each can be switched off by its name."""
    source, replica = fleet_of_two()
    replica.log(f"{B}:1")
    replica.status(f"{B}:1", replica.says(source, f"{A}:9"))
    source.status(f"{A}:1-3")
    both = ["no_errant_gtids", "received_within_source_logged"]
    assert names(audit(source, replica)) == both
    for name in both:
        left = [other for other in both if other != name]
        assert names(audit(source, replica, disabled=frozenset({name}))) == left


@pytest.mark.parametrize("rule", ["server_uuid_unique", "gtid_origin_agreement"])
def test_of_a_disabled_rule_that_is_compared_at_once_there_is_no_check_and_no_doubt(rule):
    """Neither a finding nor, where nothing more is read, a doubt."""
    source, twin = fleet_of_two()
    twin.uuid = A
    twin.boot()
    twin.commit_times = {f"{A}:3": 7}
    twin.log(f"{A}:1", f"{A}:2", f"{A}:3", server_id=9)
    for journal in (source, twin):
        journal.status(f"{A}:1-3")
    assert set(names(audit(source, twin))) == {"server_uuid_unique", "gtid_origin_agreement"}
    output = audit(source, twin, disabled=frozenset({rule}))
    fleet = FleetAudit(frozenset({rule}))
    fleet.absorb([*source.fleet_events, *twin.fleet_events])
    for one in (output, fleet.give_up()):
        assert rule not in names(one)
        assert rule not in {check.check.rule for check in one.checks}
        assert all(rule not in seen.rules for seen in one.observations)


def test_a_uuid_of_two_instances_names_neither_as_a_source():
    """What one of them lacks the other may have."""
    source, twin = fleet_of_two()
    twin.uuid = A
    twin.boot()
    lone = Journal(source.clock, "r2", C, 3)
    lone.boot()
    read = {"read_source_log_file": source.file_name, "read_source_log_pos": end_of(9)}
    lone.status(f"{A}:1-3", lone.says(source, **read))
    for journal in (source, twin):
        journal.status(f"{A}:1-3")
    output = audit(source, twin, lone)
    assert names(output) == ["server_uuid_unique"]
    of_rule = [o for o in output.observations if "source_coordinate_valid" in o.rules]
    assert [o.reason for o in of_rule] == ["source_ambiguous"]


@pytest.mark.parametrize(("server_id", "is_source"), [(1, True), (7, False), (None, True)])
def test_of_a_uuid_another_server_id_is_of_another_server(server_id, is_source):
    """The source itself is in no journal: its auto.cnf was copied to the one that is."""
    source, _ = fleet_of_two()
    lone = Journal(source.clock, "r2", C, 3)
    lone.boot()
    lone.status(f"{A}:1-3", lone.says(source, f"{A}:1-9", source_server_id=server_id))
    source.status(f"{A}:1-3")
    output = audit(lone, source)
    assert names(output) == ["received_within_source_logged"] * is_source
    reasons = {one.check.reason for one in output.checks}
    assert ("source_not_in_fleet" in reasons) is not is_source


@pytest.mark.parametrize("has_other", [True, False])
def test_beside_a_channel_of_unknown_source_no_gtid_is_errant(has_other):
    """It may have come by that."""
    source, replica = fleet_of_two()
    others = [replica.says(None, channel="other")] * has_other
    replica.status(f"{A}:1-3,{B}:1", replica.says(source, f"{A}:1-3"), *others)
    source.status(f"{A}:1-3")
    assert names(audit(source, replica)) == ([] if has_other else ["no_errant_gtids"])


def test_a_source_outside_the_fleet_is_told_once():
    """Every rule says that it is undecided, not every row."""
    source, replica = fleet_of_two()
    for _ in range(5):
        replica.receive(source, (1, f"{A}:1"))
        replica.status(f"{C}:1", replica.says(source, f"{A}:9"))
    output = audit(replica)
    assert names(output) == []
    for name in COMPARISONS:
        reported = [o for o in output.observations if name in o.rules]
        assert len(reported) == 1, name
        assert reported[0].is_undecided
        assert "instance s is not in the fleet" in observation_text(reported[0])


def test_a_channel_of_unknown_source_is_told_once():
    """Without a source there is nothing to compare with."""
    _, replica = fleet_of_two()
    replica = Journal(replica.clock, "x", B, 2)
    replica.boot()
    for _ in range(3):
        replica.status(f"{C}:1", replica.says(None, f"{A}:9"))
    output = audit(replica)
    assert names(output) == []
    assert len(output.observations) == 1
    assert "source of the channel is not known" in observation_text(output.observations[0])


def test_a_channel_that_is_put_somewhere_in_an_unknown_log_is_compared_with_none():
    """The journal does not say which source it was pointed at."""
    _, replica = fleet_of_two()
    put = {"source_log_file": "s-bin.000001", "source_log_pos": end_of(9)}
    replica.administer("change_source", "other", auto_position=False, **put)
    replica.status()
    output = audit(replica)
    assert (output.findings, output.observations) == ([], [])


def test_group_replication_channels_follow_no_source():
    """They are no replication from one instance, and what they queue is compared with none."""
    source, replica = fleet_of_two()
    replica = Journal(replica.clock, "x", B, 2)
    replica.boot()
    applier = "group_replication_applier"
    replica.receive(source, (1, f"{C}:1"), channel=applier)
    replica.status(f"{C}:1", replica.says(None, channel=applier))
    output = audit(replica)
    assert (output.findings, output.observations) == ([], [])


def test_sources_are_found_by_uuid_as_well():
    """Rows name a source's server_uuid when nothing names its instance."""
    source, _ = fleet_of_two()
    lone = Journal(source.clock, "r2", C, 3)
    lone.boot()
    lone.status(f"{A}:1-3", lone.says(source, f"{A}:1-9"))
    source.status(f"{A}:1-3")
    assert names(audit(lone, source)) == ["received_within_source_logged"]


def test_a_uuid_means_who_has_it_at_that_time():
    """An instance that had it before, with another data directory, is not meant."""
    source, _ = fleet_of_two()
    former = Journal(source.clock, "former", A, 9)
    former.boot()
    former.uuid = B
    former.boot(data_lineage=1)
    lone = Journal(source.clock, "r2", C, 3)
    lone.boot()
    lone.status(f"{A}:1-3", lone.says(source, f"{A}:1-9"))
    source.status(f"{A}:1-3")
    former.time()
    found = names(audit(former, lone, source))
    assert "received_within_source_logged" in found


def test_the_topology_is_told():
    """One edge a channel, with the source as far as it is known."""
    from tallystick.coordinates.audit.fleet import FleetAudit

    source, replica = fleet_of_two()
    replica.status("", replica.says(source))
    lone = Journal(source.clock, "x", C, 3)
    lone.boot()
    lone.status("", lone.says(Journal(source.clock, "far", "d" * 8 + A[8:], 9), channel="c"))
    fleet = FleetAudit()
    fleet.absorb([*source.fleet_events, *replica.fleet_events, *lone.fleet_events])
    assert fleet.topology() == [
        Edge("s", "r", "", A),
        Edge(None, "x", "c", "d" * 8 + A[8:]),
    ]


class TestSourceIsAnotherServer:
    """Rule 144."""

    @pytest.mark.parametrize("by", ["uuid", "instance"])
    def test_a_channel_to_the_server_itself(self, by):
        """By the server_uuid that the receiver took over, or by the address alone."""
        clock = Clock()
        source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        for journal in (source, replica):
            journal.boot()
            journal.open_file()
        says = {"source_uuid": B} if by == "uuid" else {"source_uuid": None, "source_instance": "r"}
        replica.status("", replica.says(None, **says))
        replica.time()
        output = audit(source, replica)
        assert names(output) == ["source_is_another_server"]
        assert output.findings[0].instance_id == "r"

    def test_a_twin_of_the_source_is_no_channel_to_itself(self):
        """A copied server_uuid is another finding, where the address names the other instance."""
        source, twin = fleet_of_two()
        twin.uuid = A
        twin.status(f"{A}:1-3", twin.says(source, "", source_instance="s"))
        source.status(f"{A}:1-3")
        assert names(audit(source, twin)) == ["server_uuid_unique"]


RULE = "isolated_within_cluster"


def fleet_after_failover(
    clusters=("one", "one", "one"), *, old="1-5", new="1-2", follows: Journal | None = None
):
    """An old source that nobody reads from, a new one of the same history, and its replica.

    Args:
        clusters: What the three declare.
        old: What the old source has of its own GTIDs; the others have 1-3.
        new: What the new source has of its own, "" nothing.
        follows: Whom the replica follows instead of the new source.
    """
    clock = Clock()
    three = [Journal(clock, n, u, i) for i, (n, u) in enumerate(zip("srt", (A, B, C), strict=True))]
    for journal, cluster in zip(three, clusters, strict=True):
        journal.boot(cluster=cluster)
        journal.open_file()
    source, promoted, replica = three
    replica.follow(follows or promoted)
    known = f"{A}:1-3" + (f",{B}:{new}" if new else "")
    source.status(f"{A}:{old}")
    promoted.status(known)
    replica.status(known, replica.says(follows or promoted, ""))
    source.status(f"{A}:{old}")
    return source, promoted, replica


def outcome_of(output, instance_id: str = "s") -> str:
    """What the checks of an instance say of the rule, and why where it is undecided."""
    found = [
        one.check
        for one in output.checks
        if (one.check.rule, one.instance_id) == (RULE, instance_id)
    ]
    (check,) = {(one.outcome.value, one.reason) for one in found[-1:]}
    return check[1] or check[0]


class TestIsolatedWithinCluster:
    """Rule 145."""

    @pytest.mark.parametrize(("old", "is_broken"), [("1-3", False), ("1-4", True)])
    def test_what_only_it_has(self, old, is_broken):
        output = audit(*fleet_after_failover(old=old))
        assert names(output) == [RULE] * is_broken
        if is_broken:
            (finding,) = output.findings
            assert (finding.instance_id, finding.witness) == ("s", f"{A}:4")
            assert finding.data["members"] == ["r", "t"]
            assert finding.data["theirs"] == f"{B}:1-2"

    @pytest.mark.parametrize(
        ("clusters", "expected"),
        [
            ((None, None, None), "cluster_unknown"),
            (("one", None, None), "cluster_unknown"),
            ((None, "one", "one"), "cluster_unknown"),
            (("one", "two", "two"), "holds"),
            (("one", "one", None), "broken"),
        ],
    )
    def test_the_cluster_decides(self, clusters, expected):
        source, promoted, replica = fleet_after_failover(clusters)
        assert outcome_of(audit(promoted, replica, source)) == expected

    def test_others_that_have_nothing_that_it_lacks_may_lag(self):
        """With channels among themselves it stays open whose history goes on."""
        assert outcome_of(audit(*fleet_after_failover(new=""))) == "rest_may_lag"

    def test_others_whose_source_is_not_observed_are_no_rest_that_may_lag(self):
        """What they follow has their history."""
        unseen = Journal(Clock(), "u", OTHER, 4)
        output = audit(*fleet_after_failover(new="", follows=unseen))
        assert outcome_of(output) == "holds"

    def test_what_all_have_of_a_server_that_is_gone_is_no_other_history(self):
        three = fleet_after_failover(new="")
        for event in (one for journal in three for one in journal.fleet_events):
            if event.kind is FleetEventKind.STATUS:
                event.body["gtid_executed"] += f",{OTHER}:1-3"
        assert outcome_of(audit(*three)) == "rest_may_lag"

    def test_a_replica_that_was_detached_is_only_late(self):
        clock = Clock()
        source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        for journal, executed in ((source, "1-5"), (replica, "1-3")):
            journal.boot(cluster="one")
            journal.open_file()
            journal.status(f"{A}:{executed}")
        output = audit(source, replica)
        assert names(output) == []
        assert {outcome_of(output, "s"), outcome_of(output, "r")} == {"holds"}

    def test_a_source_is_not_isolated(self):
        """Its replica lags, and has an errant write: another finding."""
        clock = Clock()
        source, replica = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        for journal in (source, replica):
            journal.boot(cluster="one")
            journal.open_file()
        replica.follow(source)
        source.status(f"{A}:1-5")
        replica.status(f"{A}:1-3,{B}:1", replica.says(source, f"{A}:1-3"))
        source.status(f"{A}:1-5")
        assert names(audit(source, replica)) == ["no_errant_gtids"]

    @pytest.mark.parametrize(("cluster", "is_followed"), [("one", True), ("two", False)])
    def test_a_replica_of_another_cluster_is_none(self, cluster, is_followed):
        """It names a server of its own cluster that has the same name."""
        source, promoted, replica = fleet_after_failover(("one", "one", cluster))
        output = audit(source, promoted, replica)
        assert outcome_of(output) == "broken"
        replica.follow(source, "other")
        replica.status("", replica.says(source, "", channel="other"))
        source.status(f"{A}:1-5")
        promoted.status(f"{A}:1-3,{B}:1-2")
        replica.time()
        output = audit(source, promoted, replica)
        assert outcome_of(output) == ("holds" if is_followed else "broken")

    @pytest.mark.parametrize("late", ["r", "t"])
    def test_what_one_of_the_others_has_is_their_history(self, late):
        """Whichever of them lags."""
        three = fleet_after_failover()
        [one] = [journal for journal in three if journal.name == late]
        for event in one.fleet_events:
            if event.kind is FleetEventKind.STATUS:
                event.body["gtid_executed"] = f"{A}:1-3"
        [finding] = [one for one in audit(*three).findings if one.rule == RULE]
        assert (finding.instance_id, finding.data["theirs"]) == ("s", f"{B}:1-2")

    def test_who_has_made_nothing_is_not_isolated(self):
        """Whatever a member that never answered may have."""
        source, promoted, replica = fleet_after_failover()
        copy, silent = (
            Journal(source.clock, name, uuid, number)
            for number, (name, uuid) in enumerate((("q", OTHER), ("v", OTHER[:-1] + "5")), 4)
        )
        for journal in (copy, silent):
            journal.boot(cluster="one")
        copy.open_file()
        copy.status(f"{A}:1-5")
        source.status(f"{A}:1-5")
        output = audit(source, promoted, replica, copy, silent)
        assert (outcome_of(output), outcome_of(output, "q")) == ("member_unknown", "holds")

    def test_who_has_nothing_that_was_made_here_is_no_member(self):
        """It has what both have of a server that is gone."""
        source, promoted, replica = fleet_after_failover()
        stranger = Journal(source.clock, "q", OTHER[:-1] + "5", 4)
        stranger.boot(cluster="one")
        stranger.open_file()
        for event in (one for one in source.fleet_events if one.kind is FleetEventKind.STATUS):
            event.body["gtid_executed"] += f",{OTHER}:1-3"
        stranger.status(f"{OTHER}:1-3")
        source.status(f"{A}:1-5,{OTHER}:1-3")
        [finding] = audit(source, promoted, replica, stranger).findings
        assert finding.data["members"] == ["r", "t"]

    def test_a_source_whose_replica_is_not_observed_may_not_be_isolated(self):
        """Between them may be a server that is not in the fleet."""
        unseen = Journal(Clock(), "u", "dddddddd-0000-0000-0000-000000000004", 4)
        output = audit(*fleet_after_failover(follows=unseen))
        assert outcome_of(output) == "member_source_unseen"

    def test_servers_without_a_common_history_are_no_members(self):
        """Two sources of one cluster that a third server gathered until one channel was removed."""
        clock = Clock()
        three = [
            Journal(clock, n, u, i) for i, (n, u) in enumerate(zip("sah", (A, B, C), strict=True))
        ]
        for journal in three:
            journal.boot(cluster="one")
            journal.open_file()
        source, other, hub = three
        hub.follow(other)
        source.status(f"{A}:1-5")
        other.status(f"{B}:1-9")
        hub.status(f"{A}:1-3,{B}:1-8", hub.says(other, f"{B}:1-8"))
        for journal, executed in ((source, f"{A}:1-5"), (other, f"{B}:1-9")):
            journal.status(executed)
        output = audit(*three)
        assert RULE not in names(output)

    def test_a_member_that_never_answered_may_have_it(self):
        source, promoted, replica = fleet_after_failover()
        silent = Journal(source.clock, "q", "dddddddd-0000-0000-0000-000000000004", 4)
        silent.boot(cluster="one")
        assert outcome_of(audit(source, promoted, replica, silent)) == "member_unknown"

    @pytest.mark.parametrize("cluster", ["two", None])
    def test_who_never_answered_and_is_no_member_is_not_waited_for(self, cluster):
        source, promoted, replica = fleet_after_failover()
        silent = Journal(source.clock, "q", "dddddddd-0000-0000-0000-000000000004", 4)
        silent.boot(cluster=cluster)
        assert outcome_of(audit(source, promoted, replica, silent)) == "broken"

    def test_it_ends_when_the_others_have_it(self):
        """Fetched by the new source: the rule holds at the next row."""
        source, promoted, replica = fleet_after_failover()
        promoted.status(f"{A}:1-5,{B}:1-2")
        replica.status(f"{A}:1-5,{B}:1-2", replica.says(promoted, ""))
        source.status(f"{A}:1-5")
        for journal in (promoted, replica):
            journal.time()
        output = audit(source, promoted, replica)
        assert names(output) == [RULE]
        assert outcome_of(output) == "holds"


GROUP = "99999999-0000-0000-0000-000000000009"


def members_of_a_group(
    own: str, *, others: str, last: int = 3, unseen: bool = False
) -> list[Journal]:
    """Three members; the first has group transactions 1-2, the others up to `last`.

    Args:
        own: What the first has of its own GTIDs.
        others: What the others have of those.
        last: How far the others are in the group.
        unseen: Whether the third never answers.
    """
    clock = Clock()
    three = [Journal(clock, n, u, i) for i, (n, u) in enumerate(zip("srt", (A, B, C), strict=True))]
    for journal in three:
        journal.boot(group_replication_group_name=GROUP)
        journal.open_file()
    applier = {"channel": "group_replication_applier", "source_uuid": GROUP}
    for journal in (*three, *three):
        if unseen and journal is three[2]:
            continue
        first = journal is three[0]
        parts = [f"{A}:{own if first else others}", f"{GROUP}:1-{2 if first else last}"]
        said = journal.says(None, f"{GROUP}:1-2", **applier)
        journal.status(",".join(one for one in parts if not one.endswith(":")), said)
    return three


def group_that_goes_on(
    parts: list[str], makers: dict[int, str] | None = None, fourth: str | None = None
) -> list[Journal]:
    """Three members, or four; the first makes the group's transactions, unless others do.

    Args:
        parts: What the first and the second log, in this order, then what the third does between
            its rows.
        makers: Whose transactions are not the first's.
        fourth: What a fourth logs with the first and the second.
    """
    clock = Clock()
    named = zip("srtq", (A, B, C, OTHER), strict=True)
    four = [Journal(clock, name, uuid, number) for number, (name, uuid) in enumerate(named)]
    group = four if fourth is not None else four[:3]
    ids = {journal.name: journal.server_id for journal in group}
    applier = {"channel": "group_replication_applier", "source_uuid": GROUP}
    executed = dict.fromkeys(ids, GtidSet.EMPTY)

    def commits(journal: Journal, numbers: str) -> None:
        for gno in map(int, numbers.split()):
            maker = ids[(makers or {}).get(gno, "s")]
            journal.log(f"{GROUP}:{gno}", server_id=maker)
            executed[journal.name] |= GtidSet.parse(f"{GROUP}:{gno}")

    def rows() -> None:
        for journal in group:
            said = journal.says(None, "", **applier)
            journal.status(str(executed[journal.name]), said)

    for journal in group:
        journal.boot(group_replication_group_name=GROUP)
        journal.open_file()
    for journal in group[:2]:
        commits(journal, parts[0])
    for journal in group[3:]:
        commits(journal, fourth or "")
    for numbers in parts[1:]:
        commits(group[2], numbers)
        rows()
    return group


class TestResetOfAReplica:
    """What rule 42 says after RESET BINARY LOGS AND GTIDS on a replica."""

    @staticmethod
    def said(output) -> list[str]:
        """What is undecided of it, row by row; the verdict is, too."""
        rule, code = "executed_monotone", "executed_before_reset"
        found = [str(one.check.data["gtids"]) for one in output.checks if one.check.reason == code]
        noted = [one for one in output.observations if one.reason == code]
        assert [one.is_undecided for one in noted] == [True] * bool(found)
        assert all(one.check.rule == rule for one in output.checks if one.check.reason == code)
        return found

    @pytest.mark.parametrize(
        ("purged", "undecided"),
        [("1-3", []), ("1-2", ["3"]), ("", ["1-3"])],
    )
    @pytest.mark.parametrize("is_recorded", [True, False])
    def test_what_the_set_counts_no_more_comes_again(self, purged, undecided, is_recorded):
        """It stays so when it has been executed again: the data may have it twice."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        replica.status(f"{A}:1-3", said)
        replica.reset()
        if purged and is_recorded:
            replica.assign(f"{A}:{purged}")
        for _ in range(2):
            replica.status(f"{A}:1-3", said, purged=f"{A}:{purged}" if purged else "")
            source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == [f"{A}:{one}" for one in undecided] * 2

    def test_a_row_that_was_asked_for_before_it_does_not_say_what_was_named(self):
        """The next one does."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        replica.status(f"{A}:1-3", said)
        replica.reset()
        for purged in (None, f"{A}:1-2"):
            replica.status(f"{A}:1-3", said, purged=purged)
            source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == [f"{A}:3"]

    @pytest.mark.parametrize("is_renamed", [True, False])
    def test_it_ends_with_other_data(self, is_renamed):
        """Not with another name of the binary log."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        replica.status(f"{A}:1-3", said)
        replica.reset()
        replica.status(f"{A}:1-3", said)
        if is_renamed:
            replica.reset("renamed")
        else:
            replica.boot(data_lineage=1)
            replica.follow(source)
            replica.assign(f"{A}:1-3")
        replica.status(f"{A}:1-3", said, purged=f"{A}:1-3")
        source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == [f"{A}:1-3"] * (1 + is_renamed)

    def test_after_a_second_reset_both_count(self):
        """The first group that came again stopped the applier (1062), and nothing was executed."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        replica.status(f"{A}:1-3", said)
        replica.reset()
        replica.status("", replica.says(source))
        replica.reset()
        replica.assign(f"{A}:1")
        replica.status(f"{A}:1-3", said, purged=f"{A}:1")
        source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == [f"{A}:2-3"]

    def test_numbers_of_before_a_reset_everywhere_are_others(self):
        """Of the replica's later RESET alone SET gtid_purged has named all there is."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        replica.status(f"{A}:1-3", said)
        for journal in (source, replica):
            journal.reset()
        source.log(f"{A}:1")
        replica.status(f"{A}:1", said)
        source.clock.advance(10_000_000)
        replica.reset()
        replica.assign(f"{A}:1")
        source.log(f"{A}:2", f"{A}:3")
        replica.status(f"{A}:1-3", said, purged=f"{A}:1")
        source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == []

    @pytest.mark.parametrize(
        ("channel", "undecided"),
        [
            ({"is_connected": True}, [f"{A}:1-3"] * 2),
            ({"is_connected": False}, []),  # SET gtid_purged may come
            ({"is_connected": True, "auto_position": False}, []),  # it goes on after them
        ],
    )
    @pytest.mark.parametrize("is_one_of_two", [True, False])
    def test_what_is_asked_for_again_is_undecided_as_long(self, channel, undecided, is_one_of_two):
        source, replica = fleet_of_two()
        replica.status(f"{A}:1-3,{OTHER}:1", replica.says(source))
        replica.reset()
        for _ in range(2):
            said = [replica.says(source) | channel]
            if is_one_of_two:
                replica.follow(source, "two")
                said.append(replica.says(source, channel="two"))
            replica.status("", *said)
            source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == undecided

    def test_what_many_resets_took_is_not_forgotten(self):
        """What the first took counts with a later one."""
        count = 2 * RESETS_MAX
        source, replica = fleet_of_two(groups=count)
        said = replica.says(source) | {"is_connected": False}
        for number in range(1, count + 1):
            replica.status(f"{A}:{number}", said)
            replica.reset()
        replica.status("", said | {"is_connected": True})
        source.status(f"{A}:1-{count}")
        assert self.said(audit(source, replica)) == [f"{A}:1-{count}"]

    @pytest.mark.parametrize(
        ("count", "undecided"), [(RESETS_MAX, (2, RESETS_MAX)), (RESETS_MAX + 1, (1, 9))]
    )
    def test_so_many_resets_are_known_one_by_one(self, count, undecided):
        """Before the second one the source gave its numbers out again: the first took others."""
        source, replica = fleet_of_two(groups=1)
        said = replica.says(source) | {"is_connected": False}
        for number in range(1, count + 1):
            replica.status(f"{A}:{number}", said)
            replica.reset()
            if number == 1:
                source.clock.advance(10_000_000)
                source.reset()
                source.log(*(f"{A}:{n + 1}" for n in range(count)))
                source.clock.advance(10_000_000)
        replica.status("", said | {"is_connected": True})
        source.status(f"{A}:1-{count}")
        assert self.said(audit(source, replica)) == [f"{A}:{undecided[0]}-{undecided[1]}"]

    @pytest.mark.parametrize(("is_shown", "undecided"), [(True, [f"{A}:1"]), (False, [])])
    def test_a_reset_takes_what_was_executed_since_the_one_before(self, is_shown, undecided):
        """Between them the source gave its numbers out again: only the second took one of these."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        replica.status(f"{A}:1-3", said)
        replica.reset()
        source.clock.advance(10_000_000)
        source.reset()
        source.log(f"{A}:1", f"{A}:2", f"{A}:3")
        source.clock.advance(10_000_000)
        if is_shown:
            replica.status(f"{A}:1", replica.says(source))
        replica.reset()
        replica.status("", said)
        source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == undecided

    @pytest.mark.parametrize("is_shown", [True, False])
    def test_what_was_given_back_before_a_reset_is_taken_by_it(self, is_shown):
        """SET gtid_purged names what the data have; of the second RESET it names nothing."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        replica.status(f"{A}:1-3", said)
        replica.reset()
        replica.assign(f"{A}:1")
        if is_shown:
            replica.status(f"{A}:1", replica.says(source), purged=f"{A}:1")
        replica.reset()
        replica.status("", said)
        source.status(f"{A}:1-3")
        assert self.said(audit(source, replica)) == [f"{A}:1-3"]

    @pytest.mark.parametrize("by", ["reset", "data", "restored", "gap", "own"])
    def test_what_else_begins_anew_is_no_loss_of_a_count(self, by):
        """The source's numbers are others, or the replica's data are."""
        source, replica = fleet_of_two()
        said = replica.says(source) | {"is_connected": True}
        if by == "own":
            replica.log(f"{B}:1")
            source.log(f"{B}:1", server_id=2)
            source.status(f"{A}:1-3,{B}:1")
            replica.status(f"{B}:1", said)
        else:
            replica.status(f"{A}:1-3", said)
        replica.reset()
        if by == "reset":
            source.reset()
            source.log(f"{A}:1", f"{A}:2")
        elif by == "data":
            replica.boot(data_lineage=1)
        elif by == "restored":
            replica.reset("restored")
        elif by == "gap":
            replica.gap()
            replica.open_file()
        replica.status("", said)
        source.status(f"{A}:1-2" if by == "reset" else f"{A}:1-3,{B}:1")
        assert self.said(audit(source, replica)) == []


class TestServersApart:
    """What rule 145 says of servers that write groups without GTIDs, which no set names."""

    @staticmethod
    def said(*journals: Journal) -> list[str]:
        """Who is undecided for it; the verdict is, too."""
        output = audit(*journals)
        assert names(output) == []
        found = [one for one in output.observations if one.reason == "writes_apart"]
        assert all(one.is_undecided and one.rules == (RULE,) for one in found)
        return sorted({one.instance_id for one in found})

    @pytest.mark.parametrize(
        ("then", "undecided"),
        [
            ("both write", ["r", "s"]),
            ("one writes", []),
            ("joined again", []),
            ("joined the other way", []),
            ("another follows one", ["s"]),
            ("data replaced", []),
            ("renamed", ["r", "s"]),
        ],
    )
    def test_two_that_were_connected(self, then, undecided):
        """As of a failover whose old source goes on; whoever is attached by the deadline is not."""
        source, replica = fleet_of_two(groups=0, auto_position=False)
        source.log("", "")
        replica.log("", "", server_id=1)
        replica.administer("reset_all")
        source.log("")
        if then != "one writes":
            replica.log("")
        journals = [source, replica]
        if then == "another follows one":
            third = Journal(source.clock, "t", C, 3)
            third.boot()
            third.follow(replica, auto_position=False)
            third.status("", third.says(replica, auto_position=False))
            journals.append(third)
        elif then in ("data replaced", "renamed"):
            replica.reset("restored" if then == "data replaced" else then)
        for journal in (source, replica):
            journal.status()
        if then == "joined again":
            replica.follow(source, auto_position=False)
        elif then == "joined the other way":
            source.follow(replica, auto_position=False)
        for journal in (source, replica):
            journal.time()
        assert self.said(*journals) == undecided

    @pytest.mark.parametrize(
        ("clusters", "server_id", "undecided"),
        [
            ("aa", None, ["r", "s"]),
            ("ab", None, []),
            ((None, "a"), None, []),
            ((None, None), None, []),
            ("aa", -1, ["r", "s"]),  # whose groups they are is not known
            ("aa", 1, []),  # the other one's, as of a detached replica
        ],
    )
    def test_two_that_are_of_one_cluster(self, clusters, server_id, undecided):
        clock = Clock()
        source, other = Journal(clock, "s", A, 1), Journal(clock, "r", B, 2)
        for journal, cluster in zip((source, other), clusters, strict=True):
            journal.boot(cluster=cluster)
            journal.open_file()
        source.log("")
        other.log("", server_id=server_id)
        for journal in (source, other):
            journal.status()
        assert self.said(source, other) == undecided


class TestMembersOfAGroup:
    """Rule 145 of those that a replication group connects."""

    @pytest.mark.parametrize(
        ("own", "others", "last", "expected"),
        [
            ("1-5", "1-4", 3, "broken"),
            ("1-5", "1-5", 3, "holds"),  # written before the group was made
            ("1-5", "", 2, "only_in_member"),  # the others may be still to fetch that
            ("", "", 3, "holds"),  # it lags
        ],
    )
    def test_what_was_written_outside_the_group(self, own, others, last, expected):
        output = audit(*members_of_a_group(own, others=others, last=last))
        assert names(output) == [RULE] * (expected == "broken")
        assert outcome_of(output) == expected
        for finding in output.findings:
            assert (finding.case, finding.witness) == ("only_in_member", f"{A}:5")
            assert finding.data["members"] == ["r", "t"]
            assert finding.data["theirs"] == f"{GROUP}:3"

    @pytest.mark.parametrize(
        ("first", "others", "lacking", "later"),
        [
            (f"{A}:1 {GROUP}:1 {A}:2 {GROUP}:2", f"{A}:1 {GROUP}:1 {GROUP}:2", "2", "2"),
            (f"{A}:1 {A}:2 {GROUP}:1 {GROUP}:2", f"{GROUP}:1", "1-2", "1"),
            (f"{A}:1 {GROUP}:1 {GROUP}:2 {A}:2", f"{A}:1 {GROUP}:1 {GROUP}:2", "2", ""),
            (f"{A}:1 {GROUP}:1", "", "1", ""),
        ],
    )
    def test_what_others_have_of_the_group_comes_after_what_they_have_fetched(
        self, first, others, lacking, later
    ):
        """In the order of the member's own binary log; without such the next may bring it."""
        clock = Clock()
        three = [Journal(clock, *of) for of in (("s", A, 1), ("r", B, 2), ("t", C, 3))]
        for journal, logged in zip(three, (first, others, others), strict=True):
            journal.boot(group_replication_group_name=GROUP)
            journal.open_file()
            journal.commit_times = dict.fromkeys(first.split(), 1)
            journal.log(*logged.split(), server_id=1)
        applier = {"channel": "group_replication_applier", "source_uuid": GROUP}
        for journal in (*three, *three):
            executed = ",".join((first if journal is three[0] else others).split())
            journal.status(executed, journal.says(None, f"{GROUP}:1", **applier))
        output = audit(*three)
        assert names(output) == [RULE] * bool(later)
        assert outcome_of(output) == ("broken" if later else "only_in_member")
        for finding in output.findings:
            assert (finding.case, finding.witness) == ("passed_in_group", f"{A}:{lacking}")
            assert finding.data["later"] == f"{GROUP}:{later}"

    @pytest.mark.parametrize("who", ["r", "t"])
    def test_what_one_of_the_others_has_was_not_written_outside_the_group(self, who):
        """Whichever of them has fetched it."""
        three = members_of_a_group("1-5", others="1-4")
        [one] = [journal for journal in three if journal.name == who]
        for event in one.fleet_events:
            if event.kind is FleetEventKind.STATUS:
                event.body["gtid_executed"] = f"{A}:1-5,{GROUP}:1-3"
        assert outcome_of(audit(*three)) == "holds"

    def test_a_member_that_never_answered_may_have_it(self):
        output = audit(*members_of_a_group("1-5", others="", unseen=True))
        assert outcome_of(output) == "member_unknown"

    def test_what_a_member_passes_over_is_found_when_it_goes_on(self):
        """Of the second row nobody knows yet; the third has more, and still lacks it."""
        group = group_that_goes_on(["1 2 3 4 5", "1 2 4", "5"])
        finding = the_only(audit(*group), RULE)
        assert (finding.case, finding.witness) == ("left_out_in_group", f"{GROUP}:3")
        assert (finding.data["later"], finding.data["members"]) == (f"{GROUP}:5", ["r"])

    @pytest.mark.parametrize(
        ("third", "reasons"),
        [
            ("", ["left_out_in_group", "left_out_in_group"]),  # it applies nothing
            ("3 5", ["left_out_in_group"]),  # it had been late
        ],
    )
    def test_what_a_member_has_passed_over_may_still_come(self, third, reasons):
        group = group_that_goes_on(["1 2 3 4 5", "1 2 4", third])
        output = audit(*group)
        assert names(output) == []
        said = [one.check for one in output.checks if one.instance_id == "t"]
        assert [one.reason for one in said if one.rule == RULE and one.reason] == reasons

    def test_a_member_that_never_answered_tells_nothing_of_what_another_passes_over(self):
        """Those that have answered show it all the same."""
        group = group_that_goes_on(["1 2 3 4 5", "1 2 4", "5"])
        silent = Journal(group[0].clock, "q", OTHER, 4)
        silent.boot(group_replication_group_name=GROUP)
        finding = the_only(audit(*group, silent), RULE)
        assert (finding.case, finding.witness) == ("left_out_in_group", f"{GROUP}:3")

    @pytest.mark.parametrize(
        ("fourth", "members"), [("1 2 3 4 5", ["q", "r"]), ("1 2 4 5 3", None)]
    )
    def test_what_comes_later_in_one_members_log_may_still_come(self, fourth, members):
        """Appliers keep the order only of what rests on one another."""
        group = group_that_goes_on(["1 2 3 4 5", "1 2 4", "5"], fourth=fourth)
        found = [one.data["members"] for one in audit(*group).findings]
        assert found == ([] if members is None else [members])

    @pytest.mark.parametrize("own", ["r", "t"])
    def test_what_a_member_makes_itself_comes_in_any_order(self, own):
        """Its clients do not wait for its applier, nor do those of the other member."""
        group = group_that_goes_on(["1 2 3 4 5", "1 2 4", "5"], makers={4: own, 5: own})
        assert names(audit(*group)) == []

    @pytest.mark.parametrize("numbers", ["1 2 1001 3", "1001 1 2002 2"])
    def test_numbers_of_blocks_have_holes_and_another_order(self, numbers):
        """A member that lags has a beginning of what the others have logged."""
        halves = numbers.split()
        group = group_that_goes_on([numbers, " ".join(halves[:2]), halves[2], halves[3]])
        output = audit(*group)
        assert (names(output), outcome_of(output, "t")) == ([], "holds")

    def test_the_groups_channel_has_no_server_as_its_source(self):
        """The group's name is its Source_UUID in performance_schema."""
        output = audit(*members_of_a_group("1-5", others="1-5"))
        assert [one.reason for one in output.observations] == []
