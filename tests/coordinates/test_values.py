"""Dataclasses: what is handed on is frozen, and what there are thousands of has slots."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any, get_args

import pytest

from tallystick import coordinates, expectations
from tallystick.coordinates import results
from tallystick.coordinates.audit import comparison, fleet_events, timeline_snapshot
from tallystick.coordinates.events import journal
from tallystick.coordinates.rules import between, outcomes
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.producers import simulator


def classes_of(module: ModuleType) -> Iterator[type]:
    for one in vars(module).values():
        if (
            inspect.isclass(one)
            and one.__module__ == module.__name__
            and "__dataclass_params__" in vars(one)
        ):
            yield one


def params_of(one: type) -> Any:
    return vars(one)["__dataclass_params__"]


ALL = [
    one
    for package in (coordinates, expectations, simulator)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    for one in classes_of(importlib.import_module(module.name))
]
HANDED_ON = {
    *(one.evidence for one in RULES.values() if one.evidence),
    *get_args(comparison.Evidence),
    *(one for module in (results, outcomes, between) for one in classes_of(module)),
    fleet_events.FleetEvent,
    journal.Block,
    timeline_snapshot.Loss,
    timeline_snapshot.Snapshot,
}


@pytest.mark.parametrize("one", sorted(HANDED_ON, key=lambda one: one.__qualname__))
def test_what_is_handed_on_is_not_changed(one: type) -> None:
    """A rule may not change what the next one judges, nor anybody what was said."""
    assert params_of(one).frozen


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.__qualname__)
def test_a_value_has_slots(one: type) -> None:
    """Without a dict it takes a third of the memory; only what is computed once needs one."""
    caches = any(isinstance(each, cached_property) for each in vars(one).values())
    is_value = params_of(one).frozen or params_of(one).eq
    assert caches or "__slots__" in vars(one) or not is_value
