"""What the chaos command's relay does to messages, without a broker."""

from __future__ import annotations

from collections import Counter

import pytest

from tallystick.producers import relay
from tallystick.producers.kafka_clients.protocol import Message
from tallystick.producers.relay import HOLES, Damage, Relay

COUNT = 2_000


def messages(count: int = COUNT) -> list[Message]:
    """Of two instances, in turn, each with its number as value."""
    return [
        Message("j", 0, n, b"a" if n % 2 else b"b", b"%06d" % n * 4, [("h", b"x")])
        for n in range(count)
    ]


def relayed(seed: int, share: float) -> tuple[Relay, list[Message]]:
    made = Relay("b:1", "produced", "audited", seed=seed, share=share)
    found = []
    for message in messages():
        found += made._damaged(message)
        found += made._due()
    return made, found


def test_nothing_is_damaged_unless_it_is_asked_for():
    """Every message goes on, in its order."""
    made, found = relayed(1, 0.0)
    assert messages() == found
    assert {} == made.done


def test_every_kind_happens_and_a_seed_does_the_same_again(monkeypatch):
    """What was done is counted by kind and instance."""
    monkeypatch.setattr(relay, "DELAY_S", 0.0)
    made, found = relayed(7, 0.2)
    again, same = relayed(7, 0.2)
    assert found == same
    assert made.done == again.done
    assert set(Damage) == {kind for kind, _ in made.done}
    assert {"a", "b"} == {who for _, who in made.done}


@pytest.mark.parametrize("kind", list(Damage))
def test_a_kind_does_what_its_name_says(kind, monkeypatch):
    """Of each instance the others stay as they were."""
    monkeypatch.setattr(relay, "DELAY_S", 0.0)
    made = Relay("b:1", "produced", "audited", seed=3, share=0.1)
    monkeypatch.setattr(made._chance, "choice", lambda _: kind)
    found = []
    for message in messages():
        found += [*made._damaged(message), *made._due()]
    times = sum(made.done.values())
    assert times > 50
    before, after = Counter(m.value for m in messages()), Counter(m.value for m in found)
    gone, new = before - after, after - before
    if kind is Damage.DROP:
        assert times <= gone.total() <= times + 2
        assert 0 == new.total()
    elif kind in (Damage.CUT, Damage.FLIP):
        assert gone.total() == new.total() >= times
    elif kind is Damage.DOUBLE:
        assert times == new.total()
    elif kind is Damage.POISON:
        assert times <= new.total() <= times + 2
        assert 0 == gone.total()
    else:
        assert gone.total() <= 2
        of_a = [m.value for m in found if m.key == b"a"]
        assert (sorted(of_a) == of_a) == (kind is Damage.DELAY)
    assert (kind in HOLES) == (kind not in (Damage.DOUBLE, Damage.DELAY))
