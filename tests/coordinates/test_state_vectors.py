"""States that 0.1.0 wrote: an audit that is brought up to date goes on from them."""

from __future__ import annotations

import pytest

from tallystick.coordinates.audit.fleet import FleetAudit
from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.packing import unpack
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.streaming.rounds import Rounds
from tests.support.state_vectors import DRIVER, STATES, Audits, StateVector

NAMES = sorted(path.name for path in STATES.iterdir())


def resume(vector: StateVector) -> Audits:
    """Today's audit, gone on from a state of then."""
    rounds = Rounds(vector.instances)
    rounds.restore(unpack(*DRIVER, vector.driver)[0])
    instances = {n: InstanceAudit.from_bytes(state) for n, state in vector.instances.items()}
    return Audits(instances, FleetAudit.from_bytes(vector.fleet), rounds)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("block_size", [1, 4096])
def test_a_state_of_the_first_version_is_read_and_gone_on_from(name: str, block_size: int):
    """What follows is judged as if the audit had never been stopped and brought up to date."""
    vector = StateVector.load(STATES / name)
    audits = resume(vector)
    for block in blocks_from_lines(vector.rest, block_size=block_size):
        audits.absorb([block])
    assert vector.expected == audits.finish()


@pytest.mark.parametrize("name", NAMES)
def test_a_state_of_the_first_version_is_written_anew(name: str):
    """Nothing that was remembered is lost when today's audit writes its own state."""
    vector = StateVector.load(STATES / name)
    audits = resume(vector)
    again = StateVector(
        {n: audit.to_bytes() for n, audit in audits.instances.items()},
        vector.driver,
        vector.rest,
        vector.expected,
    )
    second = resume(again)
    second.absorb(blocks_from_lines(vector.rest))
    assert vector.expected == second.finish()


def test_the_states_hold_what_is_open():
    """Vectors in which nothing was going on would show nothing."""
    documents = [
        unpack(b"TSIA", 1, state)[0]
        for name in NAMES
        for state in StateVector.load(STATES / name).instances.values()
    ]
    assert any(document["collections"] for document in documents)
    assert any(document["clones"]["stage"] for document in documents)
    assert any(document["clones"]["pending"] for document in documents)
    assert any(document["backups"]["tickets"] for document in documents)
    assert any(document["backups"]["locks"] for document in documents)
    assert any(document["history"]["unsettled"] for document in documents)
    assert any(document["binlog"]["xid_groups"] for document in documents)
