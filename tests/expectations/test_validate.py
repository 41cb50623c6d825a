"""One collection through the whole suite: verdict, rows, accounting, Data Docs."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from cuts import SOURCE_UUID, channel_cut, collection_cuts, instance_cut

from tallystick.coordinates.results import Check, Outcome, Verdict
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.coordinates.rules.describe import design_of
from tallystick.expectations.suite import GROUPS, build_suite
from tallystick.expectations.validate import CollectionValidator
from tests.support.results import checks

U = SOURCE_UUID
HOSTILE = [
    "<script>fetch('//evil')</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg/onload=alert(1)>',
    "${constructor} {{ 7*7 }} {% raw %}",
    "a\u202egnp.exe\u0000\u001b[31m\u2028b",
    "../../../../tmp/evil",
    "\ud800 lone surrogate",
]


@pytest.fixture(scope="module")
def validator():
    return CollectionValidator()


def test_a_healthy_collection_is_consistent(validator):
    """Rules hold, or apply to no row; what is about a row before applies from the second on."""
    first, second = validator.validate(collection_cuts(1)), validator.validate(collection_cuts(2))
    assert first.verdict is second.verdict is Verdict.CONSISTENT
    for counts in (first.statistics, second.statistics):
        assert counts["expectations"] == 3 + len(RULES)
        assert (counts["broken"], counts["undecided"]) == (0, 0)
    assert second.statistics["held"] >= first.statistics["held"] + 4


def test_a_fleet_without_replication_is_consistent(validator):
    """What is about channels applies to nothing, and that is no gap in the evidence."""
    assert validator.validate([instance_cut(2)]).verdict is Verdict.CONSISTENT


def test_a_broken_row_is_named_with_its_whole_witness(validator):
    """INCONSISTENT, with the row, the sentence and the witness, and nothing else broken."""
    cuts = collection_cuts(2)
    cuts[1] = replace(
        cuts[1],
        gtid_executed=f"{U}:1-1025",
        verdict="INCONSISTENT",
        checks=checks(broken="executed_within_logged"),
    )
    validation = validator.validate(cuts)
    assert validation.verdict is Verdict.INCONSISTENT
    (failed,) = validation.failed
    assert failed.expectation == "expect_executed_within_logged"
    assert (failed.rule, failed.group) == ("executed_within_logged", "WL#9452")
    (row,) = failed.broken
    assert (row.collection_id, row.instance_id, row.channel) == ("c-000002", "replica-1", None)
    assert row.witness == f"{U}:1021-1025"


def test_many_broken_rows_are_all_listed(validator):
    """Great Expectations asks for a few; where there are more, the collection is told whole."""
    wrong = {"verdict": "INCONSISTENT", "checks": checks(broken="executed_within_logged")}
    names = [f"server-{number:02d}" for number in range(50)]
    cuts = [instance_cut(2, name, gtid_executed=f"{U}:1-1025", **wrong) for name in names]
    (failed,) = validator.validate(cuts).failed
    assert names == [row.instance_id for row in failed.broken]


@pytest.mark.parametrize("said", [checks(), checks(held="executed_within_logged")])
def test_a_row_that_contradicts_the_audit_leaves_the_verdict_open(validator, said):
    """The columns differ and the audit, which knows more, does not call it broken: UNDECIDED."""
    cuts = collection_cuts(2)
    cuts[1] = replace(cuts[1], gtid_executed=f"{U}:1-1025", checks=said)
    validation = validator.validate(cuts)
    assert validation.verdict is Verdict.UNDECIDED
    (open_one,) = validation.undecided
    assert open_one.rule == "executed_within_logged"
    assert f"{U}:1021-1025 are executed, but" in open_one.undecided[0].sentence


def test_a_broken_check_is_broken_whatever_the_columns_show(validator):
    """The audit knows more than a row shows."""
    cuts = collection_cuts(2)
    cuts[2] = replace(
        cuts[2], verdict="INCONSISTENT", checks=checks(broken="relay_info_coordinates_paired")
    )
    validation = validator.validate(cuts)
    assert [result.rule for result in validation.failed] == ["relay_info_coordinates_paired"]
    assert validation.verdict is Verdict.INCONSISTENT


@pytest.mark.parametrize("column", ["gtid_executed", "gtid_owned", "lsn", "journal_gtid_set"])
def test_a_missing_value_is_undecided(validator, column):
    """NULL in one needed cell: UNDECIDED, with the row named and the others accounted for."""
    cuts = collection_cuts(2)
    cuts[1] = replace(cuts[1], checks=(), **{column: None})
    validation = validator.validate(cuts)
    assert validation.verdict is Verdict.UNDECIDED
    for result in validation.undecided:
        assert [row.instance_id for row in result.undecided] == ["replica-1"]
        tally = result.tally
        assert tally.rows == 3 == tally.held + tally.undecided + tally.not_applicable


@pytest.mark.parametrize(
    ("channels", "verdict", "said", "expected"),
    [
        (1, "CONSISTENT", "retrieved_matches_relay: unread; lsn_order", Verdict.CONSISTENT),
        (250, "CONSISTENT", "retrieved_matches_relay: unread; lsn_order", Verdict.CONSISTENT),
        (1, "UNDECIDED", "retrieved_matches_relay: unread", Verdict.UNDECIDED),
        (1, "CONSISTENT", "lsn_order: unread", Verdict.UNDECIDED),
    ],
)
def test_what_the_audit_leaves_open_by_name_does_not_hide_its_verdict(
    validator, channels, verdict, said, expected
):
    """Without relay logs a channel's row is as consistent as the audit calls it."""
    first, replica, _ = collection_cuts(2)
    unread = replace(
        channel_cut(2),
        journal_retrieved_gtid_set=None,
        verdict=verdict,
        checks=checks(undecided=said),
    )
    unread = [replace(unread, channel=f"c{number}") for number in range(channels)]
    validation = validator.validate([first, replica, *unread])
    assert validation.verdict is expected
    (open_one,) = (
        result for result in validation.undecided if result.rule == "retrieved_matches_relay"
    )
    assert open_one.tally.undecided == channels


@pytest.mark.parametrize(
    ("rule", "reason", "expected"),
    [
        ("relay_source_pos_monotone", "relay_log_not_read", Verdict.CONSISTENT),
        ("relay_source_pos_monotone", "journal_gap", Verdict.UNDECIDED),
        ("no_errant_gtids", "not_in_fleet", Verdict.UNDECIDED),
    ],
)
def test_gaps_and_comparisons_leave_a_collection_undecided(validator, rule, reason, expected):
    """A relay log that nobody reads does not."""
    first, replica, channel = collection_cuts(2)
    said = (*channel.checks, Check(rule, Outcome.UNDECIDED, reason))
    validation = validator.validate([first, replica, replace(channel, checks=said)])
    assert validation.verdict is expected
    assert [result.rule for result in validation.undecided] == [rule]


def test_an_instance_that_did_not_answer_is_undecided(validator):
    """An operational error is no inconsistency."""
    cuts = [
        *collection_cuts(2),
        replace(
            instance_cut(2, "replica-9"),
            **dict.fromkeys(("gtid_executed", "lsn", "lsn_checkpoint", "gtid_purged")),
            answer="refused",
            error_code=1227,
            error_text="Access denied; you need BACKUP_ADMIN",
            verdict="UNDECIDED",
        ),
    ]
    validation = validator.validate(cuts)
    assert validation.verdict is Verdict.UNDECIDED
    (row,) = next(r for r in validation.undecided if "answer" in r.expectation).undecided
    assert row.sentence == "no row, refused 1227: Access denied; you need BACKUP_ADMIN"


def test_no_rows_are_undecided(validator):
    """An empty collection shows nothing."""
    validation = validator.validate([])
    assert validation.verdict is Verdict.UNDECIDED
    assert validation.reasons == ("the collection has no rows",)


def test_an_exception_in_great_expectations_is_undecided(monkeypatch):
    """Whatever goes wrong while validating, nothing is claimed."""
    validator = CollectionValidator()

    def fail(*_args, **_kwargs):
        raise RuntimeError("out of paper")

    monkeypatch.setattr("tallystick.expectations.validate._run", fail)
    validation = validator.validate(collection_cuts(1))
    assert validation.verdict is Verdict.UNDECIDED
    assert validation.reasons == ("Great Expectations: RuntimeError: out of paper",)


def test_an_exception_in_one_rule_is_undecided(validator, monkeypatch):
    """An expectation that could not be computed is named with its error; the others stand."""

    def fail(*_args, **_kwargs):
        raise ArithmeticError("no such number")

    monkeypatch.setattr("tallystick.expectations.metrics.row_rule.judge_row", fail)
    validation = validator.validate(collection_cuts(2))
    assert validation.verdict is Verdict.UNDECIDED
    assert len(validation.undecided) == 2 + len(RULES)
    assert {result.error for result in validation.undecided} == {"no such number"}


def test_positions_beyond_the_exactness_of_floats_are_compared_exactly(validator):
    """One byte at 2^62 is a difference, also in a column with a NULL."""
    lsn = 2**62 + 12
    cuts = [
        instance_cut(2, lsn=lsn, lsn_checkpoint=lsn + 1, previous_lsn=lsn, checks=()),
        channel_cut(2),
    ]
    (found,) = validator.validate(cuts).undecided
    assert found.rule == "lsn_order"
    assert str(lsn + 1) in found.undecided[0].sentence


def test_a_disabled_rule_is_not_in_the_suite():
    """Nobody is asked about what the audit does not judge."""
    cuts = [replace(cut, gtid_owned=None, checks=()) for cut in collection_cuts(2)]
    assert CollectionValidator().validate(cuts).verdict is Verdict.UNDECIDED
    validator = CollectionValidator(
        disabled=[name for name, rule in RULES.items() if "gtid_owned" in rule.columns]
    )
    assert validator.validate(cuts).verdict is Verdict.CONSISTENT
    with pytest.raises(ValueError, match="gtid_own"):
        build_suite(["gtid_own"])


def test_the_suite_is_every_rule_once_grouped_by_design_document():
    """The groups follow each other, and each rule is as grave as the registry says."""
    suite = build_suite().expectations
    groups = [expectation.meta["group"] for expectation in suite]
    assert tuple(dict.fromkeys(groups)) == GROUPS
    assert groups == sorted(groups, key=GROUPS.index)
    named = [one.meta for one in suite if one.meta["rule"] is not None]
    assert sorted(meta["rule"] for meta in named) == sorted(RULES)
    for meta in named:
        assert meta["severity"] == RULES[meta["rule"]].severity.value
        assert meta["group"] == design_of(RULES[meta["rule"]])


def test_the_json_form_holds_everything(validator):
    """It can be written as JSON and counts add up."""
    document = json.loads(json.dumps(validator.validate(collection_cuts(2)).to_dict()))
    assert document["verdict"] == "CONSISTENT"
    assert sum(v for k, v in document["statistics"].items() if k != "expectations") == 3 + len(
        RULES
    )


def test_data_docs_keep_the_last_runs_and_repeat_none(tmp_path):
    """Results and pages do not grow with the number of collections; a repeat replaces the first."""
    validator = CollectionValidator(tmp_path, keep_runs=3)
    for number in (1, 2, 3, 4, 5, 5):
        run = validator.validate(collection_cuts(number))
    assert run.run_id == "c-000005"
    index = validator.build_data_docs()
    assert index is not None
    assert sorted(p.name for p in (tmp_path / "results" / "tallystick_cuts").iterdir()) == [
        "c-000003",
        "c-000004",
        "c-000005",
    ]
    pages = sorted((tmp_path / "site" / "validations").rglob("*.html"))
    assert len(pages) == 3
    again = CollectionValidator(tmp_path, keep_runs=2)
    again.validate(collection_cuts(6))
    again.build_data_docs()
    assert len(list((tmp_path / "site" / "validations").rglob("*.html"))) == 2
    assert "c-000006" in index.read_text("utf-8")


@pytest.mark.parametrize("names", [("c 1", "c.1", "c/1", "c_1", "cé1"), ("c" * 299, "c" * 300)])
def test_collections_whose_names_no_directory_can_have_are_runs_of_their_own(tmp_path, names):
    """None replaces the results of another one, and a repeat has the directory of the first."""
    validator = CollectionValidator(tmp_path, keep_runs=len(names))
    for name in (*names, names[0]):
        validator.validate([replace(instance_cut(1), collection_id=name)])
    validator.build_data_docs()
    assert len(list((tmp_path / "results" / "tallystick_cuts").iterdir())) == len(names)
    assert len(list((tmp_path / "site" / "validations").rglob("*.html"))) == len(names)


def test_nothing_is_written_to_the_standard_streams(tmp_path, capfd):
    """No progress bars, no notices: results are values."""
    validator = CollectionValidator(tmp_path)
    cuts = collection_cuts(2)
    validator.validate([replace(cuts[0], lsn=1), *cuts[1:]])
    validator.build_data_docs()
    assert capfd.readouterr() == ("", "")


def test_hostile_names_are_inert_in_data_docs(tmp_path):
    """Real Data Docs of a hostile fleet: no markup of theirs, and the report has the names back."""
    validator = CollectionValidator(tmp_path)
    cuts = [
        instance_cut(
            2,
            text,
            collection_id=f"c {HOSTILE[0]}{HOSTILE[4]}{HOSTILE[5]}",
            gtid_executed=text,
            binary_log_file=text,
            server_uuid=text,
            answer="failed",
            error_text=text,
            verdict=text,
            checks=checks(broken=text, undecided=f"lsn_order: {text}"),
        )
        for text in HOSTILE
    ]
    cuts += [channel_cut(2, text, channel=text, retrieved_gtid_set=text) for text in HOSTILE]
    cuts += [channel_cut(2, text, channel=text) for text in HOSTILE]
    validation = validator.validate(cuts)
    assert validation.reasons == ()
    assert {row.instance_id for r in validation.failed for row in r.broken} == set(HOSTILE)
    validator.build_data_docs()
    assert not (tmp_path.parent / "evil").exists()
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) == 3
    for page in pages:
        html = page.read_text("utf-8")
        assert "⟨3C⟩script⟨3E⟩" in html or "index" in page.name or "expectations" in page.parts
        assert "<script>fetch" not in html
        assert "<img src=x" not in html
        assert "<svg/onload" not in html
        assert not re.search("[\u202e\u2028\x00\x1b]", html)
