"""Modules that are imported when they are used: what Great Expectations names and we do not use."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from great_expectations.expectations.core import (
    expect_column_kl_divergence_to_be_less_than as distance,
)

from tallystick.expectations._later import imported_when_used


@pytest.fixture
def module(tmp_path, monkeypatch) -> Iterator[str]:
    """The name of a module that nobody has imported."""
    (tmp_path / "named_by_others.py").write_text("VALUE = 42\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "named_by_others"
    sys.modules.pop("named_by_others", None)


def test_it_is_imported_with_its_first_use(module):
    """Not before; who imports it elsewhere has the module itself."""
    with imported_when_used(module):
        import named_by_others as stand_in
    assert module not in sys.modules
    assert 42 == stand_in.VALUE
    assert sys.modules[module] is not stand_in
    assert 42 == sys.modules[module].VALUE
    assert not hasattr(stand_in, "other")


def test_it_may_be_used_at_once(module):
    """As by `from module import name`."""
    with imported_when_used(module):
        from named_by_others import VALUE
    assert 42 == VALUE
    assert 42 == sys.modules[module].VALUE


def test_nothing_stands_for_what_is_imported_already(module):
    """It costs nothing more; nor does anything stay where the block fails."""
    with pytest.raises(KeyError), imported_when_used(module):
        raise KeyError
    import named_by_others

    with imported_when_used(module):
        import named_by_others as again
    assert again is named_by_others


def test_spark_has_the_vectors_that_it_names():
    """A sparse matrix of scipy is one of Spark's, too."""
    import scipy.sparse
    from pyspark.ml.linalg import Vectors, _convert_to_vector

    column = scipy.sparse.csc_matrix(([4.0], ([1], [0])), shape=(3, 1))
    assert _convert_to_vector(column) == Vectors.sparse(3, [1], [4.0])


def test_great_expectations_has_what_it_names():
    """Its own expectation of distributions would work, and is what costs nothing until then."""
    assert distance.alt is not sys.modules.get("altair")
    assert distance.stats is not sys.modules.get("scipy.stats")
    assert 0 == distance.stats.entropy([1.0])
    assert distance.alt.Chart is sys.modules["altair"].Chart
