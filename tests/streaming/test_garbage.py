"""What a Python worker does between two tasks."""

from __future__ import annotations

import gc
import inspect
import weakref

import pytest
from pyspark import daemon

from tallystick.streaming.garbage import FEW, MANY, GarbageOfTasks


class Node:
    """Something that can be in a cycle."""

    other: Node | None = None


def cycle() -> tuple[Node, Node]:
    one, other = Node(), Node()
    one.other, other.other = other, one
    return one, other


@pytest.fixture(autouse=True)
def nothing_frozen():
    """Other tests of this process collect as ever."""
    gc.disable()
    yield
    gc.unfreeze()
    gc.enable()


def end(tasks: int, collector: GarbageOfTasks) -> None:
    for _ in range(tasks):
        collector.collect()


def test_what_a_task_leaves_is_collected_and_what_is_held_is_not_walked():
    """A cycle that nobody holds is gone; what is held is walked once."""
    held = cycle()
    garbage = weakref.ref(cycle()[0])
    end(FEW, GarbageOfTasks())
    assert garbage() is None
    assert all(one is not held[0] for one in gc.get_objects())


def test_what_was_held_and_is_no_more_is_collected_later():
    """Whatever is walked once only would be kept for ever."""
    held = cycle()
    kept = weakref.ref(held[0])
    collector = GarbageOfTasks()
    end(FEW, collector)
    del held
    end(MANY - FEW - 1, collector)
    assert kept() is not None
    end(1, collector)
    assert kept() is None


def test_spark_collects_where_it_is_replaced():
    """Another pyspark may do so elsewhere."""
    assert inspect.getsource(daemon).count("gc.") == 1
    assert "gc.collect()" in inspect.getsource(daemon.manager)
