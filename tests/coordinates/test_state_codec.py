"""State from type hints: what is saved is read back, and nothing else is taken for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import accumulate
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.audit.instance import InstanceAudit
from tallystick.coordinates.audit.server import Server
from tallystick.coordinates.events.json_lines import blocks_from_lines
from tallystick.coordinates.state_codec import (
    COLLABORATOR,
    TRANSIENT,
    decode,
    encode,
    reset,
    restore,
    schema_hash,
    split,
)
from tallystick.coordinates.values.binlog import LogCoordinates
from tallystick.coordinates.values.errors import StateDamagedError, StateVersionError
from tallystick.coordinates.values.growing_set import GrowingGtidSet
from tallystick.coordinates.values.gtid import GtidSet
from tests.support.journals import UUID_A, UUID_B, Journal


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    gtids: GtidSet
    number: int


@dataclass(frozen=True, slots=True)
class Dog:
    name: str


@dataclass
class Cat:
    name: str
    lives: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Named:
    name: str
    level: Level = Level.HIGH


SET = GtidSet.parse(f"{UUID_A}:1-5:9,{UUID_B}:7")
VALUES: list[tuple[Any, Any]] = [
    (int, 2**70),
    (str, "\ud800\x00é"),
    (bool, True),
    (float, 1.5),
    (int | None, None),
    (Any, {"a": [1, {"b": None}]}),
    (Literal["x", "y"], "y"),
    (Colour, Colour.RED),
    (Level, Level.HIGH),
    (list[Level], [Level.HIGH]),
    (tuple[int, str], (1, "a")),
    (tuple[GtidSet, ...], (SET, GtidSet.EMPTY, SET)),
    (set[str], {"b", "a"}),
    (frozenset[tuple[str, int]], frozenset({("a", 1), ("b", 0)})),
    (dict[str, GtidSet], {"b": SET, "a": GtidSet.EMPTY}),
    (dict[int, str], {3: "c", 1: "a"}),
    (dict[tuple[str, int], list[int]], {("a", 1): [1], ("b", 2): []}),
    (dict[str, None], {"b": None}),
    (Pair, Pair(SET, 1)),
    (dict[Pair, int], {Pair(SET, 1): 4}),
    (LogCoordinates, LogCoordinates("binlog", 3, 2**40)),
    (Dog | Cat | int | None, Cat("tom", [9])),
    (Cat | Dog | int | None, Dog("rex")),
    (Cat | Dog | int | None, 7),
    (Cat | Dog | int | None, None),
    (GtidSet | None, SET),
    (Named, Named(name="x")),
    (Mapping[str, Level], {"a": Level.HIGH}),
]


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=[str(hint) for hint, _ in VALUES])
def test_a_value_of_each_type_comes_back_equal(hint, value):
    """Of the same type too, in the same order where there is one."""
    again = decode(hint, encode(hint, value), "it")
    assert value == again
    assert type(value) is type(again)
    assert repr(value) == repr(again) or isinstance(value, (set, frozenset))


@given(
    st.sampled_from(["<i8", ">i8", "<i4", "<u4", "|u1", "|i1", "<f8"]),
    st.sampled_from([0, 1, 2, 1500]),
    st.sampled_from(["any", "ascending", "small"]),
    st.randoms(use_true_random=False),
)
def test_an_array_comes_back_equal(dtype, length, kind, random):
    """With its type, whatever room it took meanwhile; and it may be written to."""
    limits = np.iinfo(dtype) if dtype[1] != "f" else np.iinfo(np.int32)
    low, high = (0, 9) if kind == "small" else (int(limits.min), int(limits.max))
    numbers = [random.randint(low, high) for _ in range(length)]
    array = np.array(sorted(numbers) if kind == "ascending" else numbers, dtype=dtype)
    again = decode(npt.NDArray[Any], encode(npt.NDArray[Any], array), "it")
    assert array.dtype.newbyteorder("=") == again.dtype
    assert array.tolist() == again.tolist()
    again += 1


def test_an_array_of_rows_keeps_its_shape():
    """Also an empty one."""
    for shape in ((3, 4), (0, 10)):
        array = np.arange(shape[0] * shape[1]).reshape(shape)
        again = decode(npt.NDArray[Any], encode(npt.NDArray[Any], array), "it")
        assert np.array_equal(array, again)


def test_ascending_numbers_take_little_room():
    """What a log's offsets need is their distances."""
    array = np.arange(10**9, 10**9 + 400_000, 200)
    assert len(encode(npt.NDArray[Any], array)) < 2_100


@pytest.mark.parametrize(("hint", "value"), [(Dog, Dog("rex")), (GtidSet, SET), (int, 7)])
def test_a_value_that_may_be_none_takes_no_more_room(hint, value):
    """Where it is there it is written as it is, and not beside what it is one of."""
    assert len(encode(hint, value)) == len(encode(hint | None, value))


def test_equal_sets_are_written_once():
    """And a set that grows comes back as one that grows."""
    sets = [GtidSet([(UUID_A, n, n) for n in range(1, 400, 2)]) for _ in range(10)]
    one, ten = (len(encode(list[GtidSet], sets[:n])) for n in (1, 10))
    assert ten < one + 50
    growing = decode(GrowingGtidSet, encode(GrowingGtidSet, GrowingGtidSet(SET)), "it")
    growing.add(UUID_B, 8)
    assert GtidSet.parse(f"{SET},{UUID_B}:8") == growing.freeze()


def scattered(sources: int, intervals: int, step: int, seed: int = 1) -> GtidSet:
    """So many intervals of each source, of up to so many GTIDs, and as far from each other."""
    random = Random(seed)
    found = []
    for number in range(sources):
        bounds = list(accumulate(random.randint(2, step) for _ in range(2 * intervals)))
        sid = f"{number:08x}{UUID_A[8:]}"
        found += [(sid, *pair) for pair in zip(bounds[::2], bounds[1::2], strict=True)]
    return GtidSet(found)


@pytest.mark.parametrize("intervals", [1, 16, 17, 40, 600])
@pytest.mark.parametrize("step", [2, 255, 256, 70_000, 2**40])
def test_sets_of_any_size_come_back_equal(intervals, step):
    """Several in one document, which share sources; sources of few and of many intervals."""
    one, other = scattered(3, intervals, step), scattered(5, intervals, step, seed=2)
    few = GtidSet.parse(f"{UUID_B}:1-7:9")
    sets = [one, one | few, other, few, GtidSet(), one | other, one - other, other]
    again = decode(list[GtidSet], encode(list[GtidSet], sets), "it")
    assert sets == again
    assert [str(each) for each in sets] == [str(each) for each in again]


def test_many_intervals_take_two_bytes_each():
    """And those of sources that two sets share are written once."""
    many = scattered(50, 200, 250)
    sets = [many, many | GtidSet.parse(f"{UUID_B}:1-7")]
    assert len(encode(list[GtidSet], sets[:1])) < 2 * 10_000 + 50 * 80
    assert len(encode(list[GtidSet], sets)) < 2 * 10_000 + 2 * 50 * 80


@dataclass
class Part:
    _reporter: list[str] = field(metadata=COLLABORATOR)
    numbers: list[int] = field(default_factory=list)
    cache: dict[str, int] = field(default_factory=dict, metadata=TRANSIENT)
    size: int = field(init=False, metadata=TRANSIENT)

    def __post_init__(self) -> None:
        self.size = len(self.numbers)

    def compact(self) -> None:
        self.numbers.sort()


@dataclass
class Whole:
    reporter: list[str] = field(default_factory=list, metadata=TRANSIENT)
    parts: dict[str, Part] = field(default_factory=dict)


def test_a_part_gets_its_collaborators_from_the_whole():
    """What is transient begins anew, what is made from other fields is made, once."""
    whole = Whole()
    whole.parts["a"] = Part(whole.reporter, [3, 1], {"x": 1})
    again = Whole()
    restore(again, encode(Whole, whole), "it")
    part = again.parts["a"]
    assert part._reporter is again.reporter
    assert ([1, 3], {}, 2) == (part.numbers, part.cache, part.size)
    reset(part)
    assert ([], again.reporter) == (part.numbers, part._reporter)


def test_an_idle_part_is_one_digit():
    """It comes back with its collaborators; one that differs in anything is written."""
    whole = Whole()
    whole.parts = {"a": Part(whole.reporter), "b": Part(whole.reporter, [0])}
    data = encode(Whole, whole)
    assert b'[[{"a":0,"b":[[0]]}],[],[]]' in data
    again = Whole()
    restore(again, data, "it")
    assert [[], [0]] == [part.numbers for part in again.parts.values()]
    assert all(part._reporter is again.reporter for part in again.parts.values())


def test_a_whole_that_is_idle_comes_back_so():
    """Whatever was in the one that reads it."""
    again = Whole(parts={"a": Part([])})
    restore(again, encode(Whole, Whole()), "it")
    assert again.parts == {}


@dataclass
class Arrays:
    rows: npt.NDArray[np.int64] | None = None
    number: int = 0


def test_a_part_with_an_array_is_always_written():
    """Arrays are not compared with defaults: that has no one answer."""
    assert Arrays() == decode(Arrays, encode(Arrays, Arrays()), "it")
    again = decode(Arrays, encode(Arrays, Arrays(np.arange(3))), "it")
    assert [0, 1, 2] == again.rows.tolist()


def test_a_type_without_a_form_is_refused_at_once():
    """A field whose type nobody has thought of is seen by the first test that saves it."""
    with pytest.raises(TypeError, match="bytes"):
        encode(list[bytes], [b""])


def _dataclass(**fields: Any) -> Any:
    return dataclasses.make_dataclass("Made", list(fields.items()))


def test_another_field_type_or_class_is_another_schema():
    """The order of a union's members is none."""
    made = [
        _dataclass(a=int),
        _dataclass(b=int),
        _dataclass(a=str),
        _dataclass(a=int, b=int),
        _dataclass(a=int | None),
        _dataclass(a=list[int]),
        _dataclass(a=set[int]),
        _dataclass(a=Dog | Cat),
        _dataclass(a=Dog | Cat | None),
        dataclasses.make_dataclass("Other", [("a", int)]),
    ]
    assert len(made) == len({schema_hash(kind) for kind in made})
    assert schema_hash(Dog | Cat) == schema_hash(Cat | Dog)


# States of instances


def known_instance() -> bytes:
    """The state of a replica that has seen a little of everything."""
    journal = Journal("a", UUID_B, 2).begin().groups(2)
    journal.record("channel", channel="", action="change_source", source_uuid=UUID_A)
    relay = journal.relay()
    relay.connect()
    relay.copy(Journal().begin().groups(1).binlog.groups[0])
    journal.row(replica_status=journal.replica_status())
    audit = InstanceAudit("a")
    for block in blocks_from_lines(journal.lines()):
        audit.absorb(block)
    return audit.to_bytes()


STATE = known_instance()


def test_parts_work_with_those_that_were_read():
    """Idle ones too: what they report would be lost with a reporter that nobody reads."""
    for audit in (InstanceAudit("a"), InstanceAudit.from_bytes(STATE)):
        again = InstanceAudit.from_bytes(audit.to_bytes())
        parts = [part for part in vars(again).values() if dataclasses.is_dataclass(part)]
        for part in [*parts, *again.relays.values()]:
            for each in dataclasses.fields(part):
                if each.metadata.get("state") == "collaborator":
                    assert getattr(part, each.name) is getattr(again, each.name.lstrip("_"))


@pytest.mark.parametrize("bit", range(8))
def test_a_changed_bit_anywhere_is_damage(bit: int):
    """Whatever it is a bit of: also of the schema, which is then no other version."""
    for at in range(len(STATE)):
        data = bytearray(STATE)
        data[at] ^= 1 << bit
        with pytest.raises(StateDamagedError, match="the state of instance 'a'"):
            InstanceAudit.from_bytes(bytes(data), "a")


def test_bytes_cut_short_anywhere_are_refused():
    """No prefix of saved bytes, nor more than them, is taken for the whole."""
    for length in range(len(STATE)):
        with pytest.raises(StateDamagedError):
            InstanceAudit.from_bytes(STATE[:length])
    with pytest.raises(StateDamagedError, match="expected"):
        InstanceAudit.from_bytes(STATE + b"\0")


def test_the_first_of_two_states_is_split_off_whole_or_not_at_all():
    """Wherever it is cut short, in its head, after it or within."""
    one = encode(int, 1)
    assert (one, b"next") == tuple(map(bytes, split(one + b"next", "a")))
    for length in range(len(one)):
        with pytest.raises(StateDamagedError, match="the state of a is cut short"):
            split(one[:length], "a")


def test_a_state_of_another_schema_is_named():
    """Both schemas, and whose state it is."""
    data = encode(Cat, Cat("tom"))
    expected = schema_hash(Server).hex()
    message = f"instance 'a' has schema {schema_hash(Cat).hex()}, expected {expected}"
    with pytest.raises(StateVersionError, match=message):
        InstanceAudit.from_bytes(data, "a")
