"""The expectation classes as a stranger's project uses them: own columns, own batches."""

from __future__ import annotations

import json

import great_expectations as gx
import pandas as pd
import pytest
from cuts import SOURCE_UUID, collection_cuts

from tallystick.coordinates.audit.cut import cut_columns
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.expectations import rules
from tallystick.expectations.judgement import Outcome, Tally
from tallystick.expectations.suite import build_suite
from tallystick.expectations.validate import TABLE_COLUMNS

U = SOURCE_UUID


@pytest.fixture(scope="module")
def context():
    made = gx.get_context(mode="ephemeral")
    made.variables.progress_bars = {"globally": False}
    return made


@pytest.fixture
def validate(context, request):
    def run(frame, expectation):
        source = context.data_sources.add_or_update_pandas(request.node.name)
        asset = source.add_dataframe_asset("frame")
        definition = asset.add_batch_definition_whole_dataframe("whole")
        return definition.get_batch({"dataframe": frame}).validate(expectation)

    return run


def test_a_stranger_names_his_own_columns(validate):
    """Column names are parameters, the scope is optional, the key is whatever names a row."""
    frame = pd.DataFrame(
        {
            "host": ["db1", "db2", "db3"],
            "executed": [f"{U}:1-5", f"{U}:1-9", None],
            "purged": [f"{U}:1-3", f"{U}:1-10", f"{U}:1"],
        }
    )
    result = validate(
        frame,
        rules.ExpectPurgedWithinExecuted(
            gtid_executed_column="executed",
            gtid_purged_column="purged",
            scope_column=None,
            checks_column=None,
            row_key_columns=("host",),
        ),
    )
    assert not result.success
    details = result.result["details"]
    assert [details[kind] for kind in ("rows", "held", "broken", "undecided")] == [3, 1, 1, 1]
    assert details["broken_rows"] == [
        {
            "key": ["db2"],
            "sentence": f"{U}:10 is purged, but was never executed.",
            "witness": f"{U}:10",
        }
    ]
    assert details["undecided_rows"][0]["key"] == ["db3"]


def test_integers_that_pandas_made_floats_are_read_while_they_are_exact(validate):
    """A NULL turns a column of positions into floats; large ones are then UNDECIDED."""
    frame = pd.DataFrame(
        {
            "host": ["a", "b", "c"],
            "lsn": [8204.0, float(2**60), None],
            "checkpoint": [8204.0, 8204.0, 8204.0],
        }
    )
    result = validate(
        frame,
        rules.ExpectLsnOrder(
            lsn_checkpoint_column="checkpoint",
            scope_column=None,
            checks_column=None,
            row_key_columns=("host",),
        ),
    )
    details = result.result["details"]
    assert [details[kind] for kind in ("held", "broken", "undecided")] == [1, 0, 2]
    assert "exact integer" in details["undecided_rows"][0]["sentence"]


@pytest.mark.parametrize(
    "expectation", build_suite().expectations, ids=lambda e: e.expectation_type
)
def test_no_expectation_succeeds_on_an_empty_table(validate, expectation):
    """No rows are no evidence."""
    result = validate(pd.DataFrame({name: [] for name in TABLE_COLUMNS}), expectation)
    assert not result.success
    assert result.result["details"]["outcome"] == "UNDECIDED"


@pytest.mark.parametrize(
    "expectation", build_suite().expectations, ids=lambda e: e.expectation_type
)
def test_an_error_in_an_expectation_is_no_success(validate, expectation):
    """A table without the columns cannot be judged."""
    result = validate(pd.DataFrame({"other": [1]}), expectation)
    assert not result.success
    assert "details" not in result.result


def test_repeated_keys_are_found_null_channels_included(validate):
    """Two rows for one instance are one too many, whether or not the channel is NULL."""
    cuts = collection_cuts(1)
    frame = pd.DataFrame([{n: getattr(c, n) for n in cut_columns()} for c in (*cuts, cuts[0])])
    result = validate(frame, rules.ExpectCutsToBeUnique())
    assert result.result["details"]["broken"] == 2
    assert result.result["details"]["held"] == 2
    assert result.result["details"]["broken_rows"][0]["key"] == ["c-000001", "source-1", None]


def test_a_row_without_a_name_is_undecided(validate):
    """Uniqueness of what is not known cannot be reported."""
    cuts = collection_cuts(1)
    frame = pd.DataFrame([{n: getattr(c, n) for n in cut_columns()} for c in cuts])
    frame.loc[0, "instance_id"] = None
    result = validate(frame, rules.ExpectCutsToBeUnique())
    assert result.result["details"]["outcome"] == "UNDECIDED"


def test_mostly_tolerates_breaches_and_what_is_open():
    """Undecided where what is open would make the difference."""
    assert Tally(10, 9, 1, 0, 0).outcome(0.9) is Outcome.HELD
    assert Tally(10, 8, 1, 1, 0).outcome(0.9) is Outcome.UNDECIDED
    assert Tally(10, 8, 2, 0, 0).outcome(0.9) is Outcome.BROKEN
    assert Tally(10, 0, 0, 0, 10).outcome(0.9) is Outcome.NOT_APPLICABLE
    assert Tally(0, 0, 0, 0, 0).outcome(0.1) is Outcome.UNDECIDED


def test_mostly_is_a_parameter(validate):
    """One breach in ten rows is a success where nine of ten are enough."""
    frame = pd.DataFrame({"host": list("abcdefghij"), "lsn": [8204] * 10})
    frame["lsn_checkpoint"] = [8204] * 9 + [9000]
    given = {"scope_column": None, "checks_column": None, "row_key_columns": ("host",)}
    assert not validate(frame, rules.ExpectLsnOrder(**given)).success
    assert validate(frame, rules.ExpectLsnOrder(**given, mostly=0.9)).success


def test_every_rule_has_a_class_of_its_own_name():
    """Made from the registry; the class says what the rule claims."""
    assert set(RULES) == set(rules.EXPECTATIONS)
    for name, rule in RULES.items():
        made = getattr(rules, rules.class_name(name))
        assert made is rules.EXPECTATIONS[name]
        assert made.expectation_type == "expect_" + name
        assert rule.claim in made.__doc__
    with pytest.raises(AttributeError, match="ExpectNothing"):
        _ = rules.ExpectNothing


@pytest.mark.parametrize("form", ["text", "list"])
def test_a_rule_that_no_row_decides_is_validated_on_the_checks(validate, form):
    """A table of checks is enough; a row without a check of the rule is none it applies to."""
    said = [
        [{"rule": "no_errant_gtids", "outcome": outcome, "reason": "", "data": {}}]
        for outcome in ("holds", "broken", "undecided")
    ]
    said.append([])
    frame = pd.DataFrame(
        {
            "server": ["a", "b", "c", "d"],
            "checks": [json.dumps(one) if form == "text" else one for one in said],
        }
    )
    result = validate(
        frame, rules.ExpectNoErrantGtids(scope_column=None, row_key_columns=("server",))
    )
    details = result.result["details"]
    counts = [details[kind] for kind in ("held", "broken", "undecided", "not_applicable")]
    assert counts == [1, 1, 1, 1]
    assert details["broken_rows"][0]["key"] == ["b"]


def test_checks_that_cannot_be_read_are_undecided(validate):
    """A text that is no list of checks is no evidence."""
    frame = pd.DataFrame({"server": ["a", "b"], "checks": ["?", '[{"rule": 1}]']})
    result = validate(
        frame, rules.ExpectNoErrantGtids(scope_column=None, row_key_columns=("server",))
    )
    assert result.result["details"]["undecided"] == 2
