"""When acknowledgements stop: what is reported, and that it is reported once."""

from __future__ import annotations

import pytest

from tallystick.producers.outages import CHECK_S, OUTAGE_S, OutageWatch

CHECKS = round(OUTAGE_S / CHECK_S)


class World:
    """A watch, what waits, and what was reported."""

    def __init__(self) -> None:
        self.reported: list[str | None] = []
        self.is_waiting = False
        self.watch = OutageWatch("b:1", self.reported.append, lambda: self.is_waiting)

    def check(self, times: int) -> None:
        for _ in range(times):
            self.watch.check()


def test_an_outage_is_reported_once_and_so_is_its_end():
    """However long it takes, and once more when there is another one."""
    world = World()
    world.check(5 * CHECKS)
    assert [] == world.reported
    world.is_waiting = True
    world.check(CHECKS)
    assert [] == world.reported
    world.check(3 * CHECKS)
    assert ["b:1 has acknowledged nothing for 5 s: what is to be written waits"] == world.reported
    world.watch.delivered()
    world.watch.delivered()
    assert [None] == world.reported[1:]
    world.check(CHECKS + 1)
    assert 3 == len(world.reported)


@pytest.mark.parametrize("event", ["delivered", "nothing waits"])
def test_what_goes_on_slowly_is_no_outage(event):
    """One acknowledgement, or a moment in which nothing waits, begins the time anew."""
    world = World()
    for _ in range(3):
        world.is_waiting = True
        world.check(CHECKS - 1)
        world.is_waiting = event == "delivered"
        if event == "delivered":
            world.watch.delivered()
        world.check(1)
    assert [] == world.reported
