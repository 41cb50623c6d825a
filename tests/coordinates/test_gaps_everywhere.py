"""A journal that begins, or has a gap, at any place of any case of the rules: nobody is accused."""

from __future__ import annotations

import pytest

from tests.support.evidence_reduced import reduced
from tests.support.journals import audit
from tests.support.rule_cases import all_cases

CASES = all_cases()
PLACES = 16
"""In each history, or in all of a short one."""


@pytest.mark.parametrize("name", CASES)
def test_what_is_missing_accuses_nobody(name: str) -> None:
    """Rules are undecided whose evidence, or the settings that they depend on, came before."""
    records = CASES[name].build(breaks=False).records
    for place in range(1, len(records), -(-len(records) // PLACES)):
        assert audit(reduced(records, f"gap {place}")).broken == [], place
        assert audit(records[place:]).broken == [], place
