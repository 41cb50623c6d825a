"""GTID sets as values: algebra against plain Python sets, columns of numbers, bytes."""

import copy
import itertools
import pickle
import struct
import uuid as uuid_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.values.errors import CoordinateError, GtidSetParseError
from tallystick.coordinates.values.gtid import Gtid, GtidSet

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
V = "00000000-0000-0000-0000-00000000000a"
GNO_MAX = 2**63 - 2
SIDS = [V, f"{V}:b", U, f"{U}:_a", f"{U}:tag"]

# Few sids and small numbers, so that intervals touch and overlap; and numbers at both limits.
gnos = st.one_of(st.integers(1, 60), st.integers(GNO_MAX - 30, GNO_MAX))
intervals = st.tuples(st.sampled_from(SIDS), gnos, st.integers(0, 12)).map(
    lambda drawn: (drawn[0], drawn[1], min(drawn[1] + drawn[2], GNO_MAX))
)
# Up to 200 intervals of up to 3 GNOs: beyond the length from which sets are kept in arrays.
long_intervals = st.lists(st.integers(1, 2000), min_size=100, max_size=200).map(
    lambda starts: [(U, start, start + start % 3) for start in starts]
)
interval_lists = st.one_of(st.lists(intervals, max_size=12), long_intervals)


def members(interval_list):
    return {(sid, gno) for sid, first, last in interval_list for gno in range(first, last + 1)}


def is_canonical(gtid_set):
    found = list(gtid_set)
    return all(first <= last for _, first, last in found) and all(
        sid < next_sid or (sid == next_sid and last + 1 < next_first)
        for (sid, _, last), (next_sid, next_first, _) in itertools.pairwise(found)
    )


@given(interval_lists, interval_lists)
def test_algebra_agrees_with_sets_of_integers(left_intervals, right_intervals):
    """Every operation gives what Python's sets of (sid, gno) give, in canonical form."""
    left, right = GtidSet(left_intervals), GtidSet(right_intervals)
    a, b = members(left_intervals), members(right_intervals)
    for result, expected in [
        (left | right, a | b),
        (left & right, a & b),
        (left - right, a - b),
        (right - left, b - a),
    ]:
        assert members(result) == expected
        assert is_canonical(result)
        assert result.count() == len(expected)
        assert bool(result) is bool(expected)
        assert result == GtidSet((sid, gno, gno) for sid, gno in expected)
    assert (left <= right) is (a <= b)
    assert (left < right) is (a < b)
    assert (left >= right) is (a >= b)
    assert (left > right) is (a > b)
    assert (left == right) is (a == b)
    assert left.isdisjoint(right) is a.isdisjoint(b)
    assert left & right <= left <= left | right
    assert hash(left | right) == hash(right | left)


@given(interval_lists)
def test_equal_sets_look_equal(interval_list):
    """Text, bytes, pickles and copies lead back to the same value, with the same hash."""
    original = GtidSet(interval_list)
    for again in (
        GtidSet.parse(str(original)),
        GtidSet.decode(original.encode()),
        pickle.loads(pickle.dumps(original)),  # noqa: S301 - our own bytes
        copy.deepcopy(original),
        GtidSet(original),
        original | original,
        original & original,
        original - GtidSet.EMPTY,
    ):
        assert again == original
        assert hash(again) == hash(original)
        assert str(again) == str(original)
        assert again.encode() == original.encode()


@given(interval_lists, st.integers(0, 30))
def test_parts_of_a_set(interval_list, how_many):
    """Witnesses, restriction and exclusion keep exactly the GTIDs they name."""
    whole = GtidSet(interval_list)
    expected = members(interval_list)
    assert members(whole.first(how_many)) == set(sorted(expected)[:how_many])
    assert whole.sids() == tuple(sorted({sid for sid, _ in expected}))
    assert whole.uuids() == sorted({sid.partition(":")[0] for sid, _ in expected})
    for uuid in (U, V):
        inside, outside = whole.restrict(uuid.upper()), whole.without_uuid(uuid.upper())
        assert members(inside) == {(sid, gno) for sid, gno in expected if sid.startswith(uuid)}
        assert inside | outside == whole
        assert inside.isdisjoint(outside)
    tagged = whole.restrict(f"{U}:tag")
    assert members(tagged) == {(sid, gno) for sid, gno in expected if sid == f"{U}:tag"}


@given(interval_lists, st.sampled_from(SIDS), st.lists(gnos, max_size=100))
def test_membership_of_one_and_of_many(interval_list, sid, numbers):
    """A GTID, its text and a column of GNOs get the same answer."""
    gtid_set = GtidSet(interval_list)
    uuid, _, tag = sid.partition(":")
    expected = [(sid, gno) in members(interval_list) for gno in numbers]
    assert [Gtid(uuid, tag, gno) in gtid_set for gno in numbers] == expected
    assert [f"{sid}:{gno}" in gtid_set for gno in numbers] == expected
    many = gtid_set.contains_gnos(sid, np.array(numbers, dtype=np.int64))
    assert many.dtype == np.bool_
    assert many.tolist() == expected


@given(interval_lists, st.sampled_from(SIDS), st.lists(st.tuples(gnos, gnos), max_size=100))
def test_membership_of_ranges(interval_list, sid, ranges):
    """A range is in the set if each of its GNOs is."""
    gtid_set = GtidSet(interval_list)
    ranges = [sorted(ends) for ends in ranges] + [[1, 1]]
    first, last = np.array(ranges, dtype=np.int64).T
    expected = [GtidSet([(sid, *ends)]) <= gtid_set for ends in ranges]
    assert gtid_set.contains_ranges(sid, first, last).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, len(SIDS)), gnos), max_size=200), st.booleans())
def test_sets_from_columns(rows, is_sorted):
    """Columns of sids and GNOs, sorted or not, give the set of their rows."""
    names = [*SIDS, U.upper()]  # one sid under two spellings
    if is_sorted:
        rows = sorted(rows)
    index = np.array([row[0] for row in rows], dtype=np.int32)
    numbers = np.array([row[1] for row in rows], dtype=np.int64)
    grouped = GtidSet.from_groups(names, index, numbers)
    assert grouped == GtidSet((names[at], gno, gno) for at, gno in rows)
    assert is_canonical(grouped)
    single = GtidSet.from_gnos(U.upper(), numbers)
    assert single == GtidSet((U, gno, gno) for _, gno in rows)


def test_columns_at_the_limits():
    """The first and the last GNO there can be stand in one column, and neither wraps around."""
    column = np.array([GNO_MAX, 1, GNO_MAX], dtype=np.int64)
    assert str(GtidSet.from_gnos(U, column)) == f"{U}:1:{GNO_MAX}"
    assert GtidSet.from_gnos(U, np.array([], dtype=np.int64)) == GtidSet.EMPTY
    whole = GtidSet([(U, 1, GNO_MAX)])
    assert whole.contains_gnos(U, column).all()
    assert not whole.contains_gnos(V, column).any()


@pytest.mark.parametrize(
    "column", [np.array([0]), np.array([5, -1]), np.array([2**63 - 1]), np.array([2**64 - 1], "u8")]
)
def test_refuses_columns_that_hold_no_gnos(column):
    """A number outside the range of GNOs is an error, not a set."""
    with pytest.raises(CoordinateError, match="expected GNOs from 1 to 9223372036854775806"):
        GtidSet.from_gnos(U, column)
    with pytest.raises(CoordinateError):
        GtidSet.from_groups([U], np.zeros(len(column), dtype=np.int64), column)


@pytest.mark.parametrize("column", [np.array([1.0]), np.array(["1"]), np.array([[1]])])
def test_refuses_columns_of_another_type(column):
    """Floats have lost large GNOs already, so they are refused."""
    with pytest.raises(TypeError, match="expected one column of integers"):
        GtidSet.from_gnos(U, column)


@pytest.mark.parametrize("index", [[0, 1], [-1, 0], [0], [0, 0, 0]])
def test_refuses_indexes_without_a_sid(index):
    """Each row names one of the sids."""
    with pytest.raises(CoordinateError, match="sid index"):
        GtidSet.from_groups([U], np.array(index), np.array([1, 2]))


@pytest.mark.parametrize(
    ("bounds", "wrong"),
    [
        ([0, 5], 0),
        ([-3, 2], -3),
        ([7, GNO_MAX + 2], GNO_MAX + 1),
        ([1, 3, 5, GNO_MAX + 9], GNO_MAX + 8),
        ([0, GNO_MAX + 2], 0),
    ],
)
def test_refuses_boundaries_of_no_gnos(bounds, wrong):
    """Either end may be out of range, and is named; both limits themselves are GNOs."""
    said = f"expected a GNO from 1 to {GNO_MAX}, found {wrong}"
    with pytest.raises(CoordinateError, match=f"^{said}$"):
        GtidSet.from_bounds({U: [1, 2], V: bounds})
    assert str(GtidSet.from_bounds({U: [1, GNO_MAX + 1]})) == f"{U}:1-{GNO_MAX}"


def test_an_index_beyond_the_sids_is_named():
    """With those that there are."""
    with pytest.raises(CoordinateError, match=r"^sid indexes from -1 to 2, expected 0 to 1$"):
        GtidSet.from_groups([U, V], np.array([2, -1]), np.array([1, 2]))


@pytest.mark.parametrize("intervals_of_many", [16, 17, 400])
def test_counters_of_many_intervals_are_apart_as_numbers(intervals_of_many):
    """Few are kept as a set, which is the whole one where none has many."""
    many = GtidSet((U, 3 * n + 1, 3 * n + 2) for n in range(intervals_of_many))
    whole = many | GtidSet([(V, 1, 4), (V, 6, 6)])
    few, others = whole.parts()
    if intervals_of_many == 16:
        assert (few, others) == (whole, {})
    else:
        assert few == GtidSet([(V, 1, 4), (V, 6, 6)])
        assert {U: many.bounds()[U]} == {sid: one.tolist() for sid, one in others.items()}
    assert GtidSet.from_parts(few, others) == whole


def test_the_constructor_checks_its_intervals():
    """Intervals from a program are exact: no reversed ones, no GNO out of range, no odd sid."""
    for first, last in [(0, 1), (1, GNO_MAX + 1), (5, 4), (-1, 3)]:
        with pytest.raises(CoordinateError):
            GtidSet([(U, first, last)])
    for sid in ("", U[1:], f"{U}:", f"{U}:9", f"{U}:a:b", f"{U}:1", f" {U}", f"{U}\n"):
        with pytest.raises(GtidSetParseError):
            GtidSet([(sid, 1, 1)])
    assert str(GtidSet([(f"{U.upper()}:TAG", np.int64(1), np.int64(2))])) == f"{U}:tag:1-2"


def test_counts_beyond_64_bits():
    """Totals are exact where an int64 would wrap."""
    whole = GtidSet([(U, 1, GNO_MAX), (V, 1, GNO_MAX), (f"{V}:t", 1, GNO_MAX)])
    assert whole.count() == 3 * GNO_MAX
    assert (whole - GtidSet([(U, 7, 7)])).count() == 3 * GNO_MAX - 1
    assert not hasattr(whole, "__len__")


def test_a_tagged_gtid_is_not_in_an_untagged_set():
    """A tag makes another counter."""
    untagged = GtidSet([(U, 1, 9)])
    assert f"{U}:5" in untagged
    assert f"{U}:tag:5" not in untagged
    assert untagged.isdisjoint(GtidSet([(f"{U}:tag", 1, 9)]))


def test_operations_leave_their_operands_alone():
    """Adding to a long set makes a new one, whose arrays nobody can write to."""
    long_set = GtidSet((U, 10 * i + 1, 10 * i + 5) for i in range(1000))
    before = str(long_set)
    more = long_set | GtidSet([(U, 3, 500)])
    assert str(long_set) == before
    assert more != long_set
    with pytest.raises(AttributeError, match="immutable"):
        long_set.gtids = 1
    with pytest.raises(AttributeError, match="immutable"):
        del long_set._bounds
    for bounds in (*long_set._bounds.values(), *more._bounds.values()):
        assert not bounds.flags.writeable


@pytest.mark.parametrize(
    ("start", "end"),
    [(1, 4), (6, 9), (5001, 5005), (9991, 9995), (9996, 9999), (1, 9999), (44, 4444), (46, 4450)],
)
def test_a_short_set_against_a_long_one(start, end):
    """Changes at the beginning, in the middle and at the end of a long set are exact."""
    long_intervals = [(U, 10 * i + 1, 10 * i + 5) for i in range(1000)]
    long_set, short = GtidSet(long_intervals), GtidSet([(U, start, end)])
    a, b = members(long_intervals), members([(U, start, end)])
    assert members(long_set | short) == a | b
    assert members(short | long_set) == a | b
    assert members(long_set - short) == a - b
    assert members(short - long_set) == b - a
    assert members(long_set & short) == a & b
    assert long_set.isdisjoint(short) is short.isdisjoint(long_set) is a.isdisjoint(b)
    assert (short <= long_set) is (b <= a)


def test_sets_are_not_compared_with_other_things():
    """A set is not equal to its text, and is in no order with it."""
    gtid_set = GtidSet([(U, 1, 1)])
    assert gtid_set != str(gtid_set)
    for operation in ("__or__", "__and__", "__sub__", "__le__", "__lt__", "__ge__", "__gt__"):
        assert getattr(gtid_set, operation)(str(gtid_set)) is NotImplemented
    with pytest.raises(TypeError):
        assert 5 in gtid_set
    assert GtidSet.EMPTY is not None
    assert repr(gtid_set) == f"GtidSet.parse('{U}:1')"
    with pytest.raises(CoordinateError):
        gtid_set.without_uuid(f"{U}:tag")


# Bytes

# The body of a PREVIOUS_GTIDS event that MySQL 8.0.31 wrote, and gtid_executed at that time.
SERVER_BYTES = bytes.fromhex(
    "0200000000000000"
    "0000000000000000000000000000000a" "0100000000000000" "0700000000000000" "0900000000000000"
    "3e11fa4771ca11e19e33c80aa9429562" "0300000000000000" "0100000000000000" "0400000000000000"
    "0500000000000000" "0600000000000000" "f8ffffffffffff7f" "ffffffffffffff7f"
)  # fmt: skip
SERVER_TEXT = f"{V}:7-8,\n{U}:1-3:5:9223372036854775800-9223372036854775806"


def test_bytes_that_a_server_wrote():
    """A PREVIOUS_GTIDS event of a real server decodes to its set, and the set encodes to it."""
    expected = GtidSet.parse(SERVER_TEXT)
    assert GtidSet.decode(SERVER_BYTES) == expected
    assert expected.encode() == SERVER_BYTES
    assert GtidSet.EMPTY.encode() == bytes(8)
    assert GtidSet.decode(bytes(8)) == GtidSet.EMPTY


def entry(uuid, bounds, tag=None):
    """One sid of an encoded set; with a tag, of the tagged form."""
    packed = uuid_module.UUID(uuid).bytes
    if tag is not None:
        packed += bytes([2 * len(tag)]) + tag
    return packed + struct.pack(f"<Q{len(bounds)}Q", len(bounds) // 2, *bounds)


def plain(*entries):
    return struct.pack("<Q", len(entries)) + b"".join(entries)


def tagged(*entries):
    return struct.pack("<Q", len(entries) << 8 | 1 << 56 | 1) + b"".join(entries)


def test_bytes_with_tags():
    """One tag makes the whole set of the tagged form: lengths are doubled, untagged ones zero."""
    expected = tagged(entry(U, [1, 6], b""), entry(U, [2, 3, 9, 10], b"tag"))
    gtid_set = GtidSet.parse(f"{U}:1-5:tag:2:9")
    assert gtid_set.encode() == expected
    assert GtidSet.decode(expected) == gtid_set


def test_bytes_in_another_order_of_sids():
    """Clients of the dump protocol write sids in any order."""
    assert GtidSet.decode(plain(entry(U, [1, 2]), entry(V, [1, 2]))) == GtidSet.decode(
        plain(entry(V, [1, 2]), entry(U, [1, 2]))
    )


LONG = [number for i in range(100) for number in (10 * i + 1, 10 * i + 5)]


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"", "byte 0: expected 8 bytes of the number of sids, found 0"),
        (bytes(7), "byte 0: "),
        (bytes(9), "byte 8: expected the end, found 1 bytes more"),
        (plain(entry(U, [1, 2])) + b"\0", "byte 48: expected the end"),
        (plain(entry(U, [1, 2]))[:-1], "byte 32: expected 16 bytes of intervals, found 15"),
        (plain(entry(U, [1, 2]))[:20], "byte 8: expected 16 bytes of a UUID"),
        (plain(entry(U, [1, 2]))[:30], "byte 24: expected 8 bytes of the number of intervals"),
        (plain(entry(U, [])), "byte 24: expected at least one interval"),
        (plain(entry(U, [0, 5])), "byte 32: .* found 0 as number 1"),
        (plain(entry(U, [5, 5])), "byte 40: .* found 5 as number 2"),
        (plain(entry(U, [5, 4])), "byte 40: "),
        (plain(entry(U, [1, 4, 4, 6])), "byte 48: .* found 4 as number 3"),
        (plain(entry(U, [5, 6, 1, 2])), "byte 48: "),
        (plain(entry(U, [1, 2**63])), "byte 40: "),
        (plain(entry(U, [2**63, 2**63 + 1])), "byte 32: "),
        (plain(entry(U, [*LONG, 7, 9])), f"byte {32 + 8 * len(LONG)}: "),
        (
            plain(entry(U, [1, 2]), entry(U, [5, 6])),
            f"byte 48: expected each sid once, found '{U}'",
        ),
        (struct.pack("<Q", 2**55), "byte 8: expected 16 bytes of a UUID"),
        (struct.pack("<Q", 1) + bytes(16) + struct.pack("<Q", 2**63), "byte 32: "),
        (struct.pack("<Q", 2 << 56), "byte 0: expected a known format"),
        (struct.pack("<Q", 1 << 56), "byte 0: expected a known format"),
        (tagged(entry(U, [1, 2], b"Tag")), "byte 25: expected a tag in lower case, found 'Tag'"),
        (tagged(entry(U, [1, 2], b""), entry(U, [1, 2], b"Tag")), "byte 66: .* found 'Tag'"),
        (tagged(entry(U, [1, 2], b"9")), "byte 25: "),
        (tagged(entry(U, [1, 2], b"t g")), "byte 25: "),
        (tagged(entry(U, [1, 2], b"\xff")), "byte 25: "),
        (tagged(entry(U, [1, 2], b"a" * 33)), "byte 24: expected twice a tag length up to 32"),
        (tagged(entry(U, [1, 2], b"a")).replace(b"\x02a", b"\x03a"), "byte 24: .* found 3"),
    ],
)
def test_refuses_malformed_bytes(encoded, message):
    """The error names the byte from which on the encoding is wrong."""
    with pytest.raises(GtidSetParseError, match=message):
        GtidSet.decode(encoded)


@given(st.binary(max_size=120))
def test_any_bytes_are_a_set_or_an_error(encoded):
    """Decoding either fails as documented or gives a set that survives another round."""
    try:
        decoded = GtidSet.decode(encoded)
    except GtidSetParseError:
        return
    assert GtidSet.decode(decoded.encode()) == decoded


@given(interval_lists, st.data())
def test_every_cut_of_an_encoding_is_malformed(interval_list, data):
    """No proper prefix of an encoding passes for a set."""
    encoded = GtidSet(interval_list).encode()
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(GtidSetParseError):
        GtidSet.decode(encoded[:cut])


def test_refuses_what_is_no_bytes():
    """Text is a caller's mistake, not a malformed encoding."""
    with pytest.raises(TypeError, match="str"):
        GtidSet.decode("")
