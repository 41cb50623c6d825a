"""The kernel of the simulator: moments on the bus, components of a server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tallystick.producers.simulator import assemble
from tallystick.producers.simulator.kernel.bus import Bus, Change, Moment, Notice, Permit
from tallystick.producers.simulator.kernel.clock import Clock
from tallystick.producers.simulator.kernel.components import Components
from tallystick.producers.simulator.kernel.scenario import Scenario
from tallystick.producers.simulator.kernel.world import BUILT

HAPPENED: Notice[[str]] = Notice("it happens")
MAY: Permit[[str]] = Permit("it is to happen")
VALUE: Change[[str, int | None], int | None] = Change("a value")


def test_a_notice_is_given_in_the_order_of_connecting() -> None:
    """Everybody is called, first who came first."""
    bus, heard = Bus(), []
    bus.connect(HAPPENED, lambda what: heard.append(f"first {what}"))
    bus.connect(HAPPENED, lambda what: heard.append(f"second {what}"))
    bus.emit(HAPPENED, "now")
    assert heard == ["first now", "second now"]


def test_a_permit_ends_with_the_first_refusal() -> None:
    """Who comes after a refusal is not asked: a change waits in one queue."""
    bus, asked = Bus(), []
    assert bus.emit(MAY, "alone")
    bus.connect(MAY, lambda what: what != "no")
    bus.connect(MAY, lambda what: asked.append(what) is None)
    assert bus.emit(MAY, "yes")
    assert not bus.emit(MAY, "no")
    assert asked == ["yes"]


def test_a_change_goes_from_one_to_the_next() -> None:
    """Each gets what the one before it made; None is the end."""
    bus, seen = Bus(), []
    assert bus.emit(VALUE, "unchanged", 1) == 1
    bus.connect(VALUE, lambda what, value: None if what == "drop" else (value or 0) + 1)
    bus.connect(VALUE, lambda _, value: seen.append(value) or (value or 0) * 10)
    assert bus.emit(VALUE, "add", 1) == 20
    assert bus.emit(VALUE, "drop", 1) is None
    assert seen == [2]


def test_who_comes_and_goes_between_two_moments_is_called_while_he_is_there() -> None:
    """None, one and two listeners at one moment, and one again."""

    class Refusing:
        def may(self, what: str) -> bool:
            return what == "yes"

    bus, asked, refusing = Bus(), [], Refusing()
    assert bus.emit(MAY, "no")
    bus.connect(MAY, refusing.may)
    assert (bus.emit(MAY, "yes"), bus.emit(MAY, "no")) == (True, False)
    bus.connect(MAY, lambda what: asked.append(what) is None)
    assert (bus.emit(MAY, "yes"), bus.emit(MAY, "no"), asked) == (True, False, ["yes"])
    bus.disconnect(refusing)
    assert (bus.emit(MAY, "no"), asked) == (True, ["yes", "no"])


def test_a_moment_itself_does_nothing() -> None:
    """What comes of listeners is said by its three kinds."""
    with pytest.raises(NotImplementedError):
        Moment[[], None]("bare").call_of([])


def test_components_are_found_by_their_class() -> None:
    """At most one of a class; a missing one is an error, or None for who asks."""
    made = Components()
    made.add(1, "text")
    assert (made[int], made[str], made.get(float)) == (1, "text", None)
    made[int] = 2
    made.remove(str)
    made.remove(str)
    assert (made[int], made.get(str)) == (2, None)
    with pytest.raises(KeyError):
        made[str]


def test_what_owns_components_equals_itself_alone() -> None:
    """Two servers may be made of equal components."""
    one, other = Components(), Components()
    assert one == one  # noqa: PLR0124
    assert one != other
    assert len({one, other, one}) == 2


def test_a_fleet_says_when_it_is_built() -> None:
    """Faults schedule their acts then: all servers are there, and the clock has not moved."""

    class Hooks(assemble.faults.hooks.FaultHooks):
        def on_fleet(self, fleet: object) -> None:
            built.append(fleet)

    built: list[object] = []
    fleet = assemble.Fleet(Scenario(seed=1, topology="pair"), Hooks())
    assert built == [fleet]
    assert fleet.now == fleet.start_ts
    assert repr(BUILT).startswith("Notice(")


class Blocked:
    """An instance that nothing may touch for a while."""

    blocked_until = 0


def test_calls_are_made_at_their_moments_in_order() -> None:
    """Of one moment in the order of scheduling; what is due at the end of a run is due in it."""
    clock, made = Clock(), []
    for ts, name in ((20, "c"), (10, "a"), (10, "b"), (21, "d")):
        clock.schedule(ts, None, lambda name: made.append((clock.now, name)), name)
    clock.run(20)
    assert made == [(10, "a"), (10, "b"), (20, "c")]
    assert clock.now == 20
    clock.run(30)
    assert (made[-1], clock.now) == ((21, "d"), 30)


def test_a_call_waits_for_its_instance() -> None:
    """Until the moment at which it is not blocked any more, and no longer."""
    clock, blocked, made = Clock(), Blocked(), []
    blocked.blocked_until = 15
    for ts in (10, 15, 16):
        clock.schedule(ts, blocked, lambda ts: made.append((clock.now, ts)), ts)
    clock.run(20)
    # The one of 15 was scheduled for that moment before the one that waited until then.
    assert made == [(15, 15), (15, 10), (16, 16)]


@pytest.mark.parametrize(
    "change",
    [{"duration_ms": 0}, {"collection_interval_ms": 0}, {"profile": "x"}, {"topology": "x"}],
)
def test_an_impossible_scenario_is_refused(change: dict) -> None:
    """Each option by itself; the smallest numbers are possible."""
    assert Scenario(duration_ms=1, collection_interval_ms=1, topology=None).duration_ms == 1
    with pytest.raises(ValueError, match="expected"):
        replace(Scenario(), **change)
