"""Places in logs: names, order by number, the constants of files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.coordinates.values import binlog
from tallystick.coordinates.values.binlog import EventType, LogCoordinates
from tallystick.coordinates.values.errors import CoordinateError
from tallystick.coordinates.values.gtid import GtidSet


@pytest.mark.parametrize(
    ("file_name", "base_name", "file_number"),
    [
        ("binlog.000001", "binlog", 1),
        ("binlog.000123", "binlog", 123),
        ("binlog.999999", "binlog", 999_999),
        ("binlog.1000000", "binlog", 1_000_000),
        ("db1.example.org-bin.000002", "db1.example.org-bin", 2),
        ("relay-bin-channel@002d1.000007", "relay-bin-channel@002d1", 7),
        ("binlog.000001.000002", "binlog.000001", 2),
    ],
)
def test_reads_file_names(file_name, base_name, file_number):
    """Only what follows the last dot is the number; joining gives the name back."""
    assert binlog.parse_log_file_name(file_name) == (base_name, file_number)
    assert binlog.format_log_file_name(base_name, file_number) == file_name


@pytest.mark.parametrize(
    "file_name",
    [
        "", "binlog", "binlog.", "binlog.00001", ".000001", "000001", "binlog.00000x",
        "binlog.000000", "binlog.0000001", "./binlog.000001", "/var/lib/mysql/binlog.000001",
        "d\\binlog.000001",
        "binlog.000001 ", "binlog.000001\n", "binlog.-00001",
        "binlog." + "\u0661" * 6,
        "binlog.index", "bin\0log.000001", "binlog." + "9" * 5000,
    ],
)  # fmt: skip
def test_refuses_malformed_file_names(file_name):
    """A directory, a short or zero number and a second spelling of a number are refused."""
    with pytest.raises(CoordinateError, match="malformed log file name") as caught:
        binlog.parse_log_file_name(file_name)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("base_name", "file_number"),
    [("", 1), ("a/b", 1), ("a\\b", 1), ("a\0", 1), ("a", 0), ("a", -1)],
)
def test_refuses_parts_that_make_no_file_name(base_name, file_number):
    """What cannot be read back is not written."""
    with pytest.raises(CoordinateError):
        binlog.format_log_file_name(base_name, file_number)
    with pytest.raises(CoordinateError):
        LogCoordinates(base_name, file_number, 4)


@pytest.mark.parametrize(
    ("path", "file_name"),
    [
        ("./x-relay-bin.000001", "x-relay-bin.000001"),
        ("/var/lib/mysql/x-relay-bin.000001", "x-relay-bin.000001"),
        (".\\x-relay-bin.000001", "x-relay-bin.000001"),
        ("x-relay-bin.000001", "x-relay-bin.000001"),
        ("", ""),
    ],
)
def test_strips_the_directory(path, file_name):
    """Info tables have a directory before the name, log_status has none."""
    assert binlog.strip_directory(path) == file_name


positions = st.tuples(
    st.sampled_from([1, 2, 999_999, 1_000_000]), st.sampled_from([0, 4, 157, 2**32])
)


@given(positions, positions)
def test_order_is_of_numbers(left, right):
    """Coordinates compare as their numbers do, in all six ways."""
    a, b = LogCoordinates("binlog", *left), LogCoordinates("binlog", *right)
    assert (a < b) is (left < right)
    assert (a <= b) is (left <= right)
    assert (a > b) is (left > right)
    assert (a >= b) is (left >= right)
    assert (a == b) is (left == right)
    assert hash(a) == hash(LogCoordinates("binlog", *left))


def test_order_is_not_of_text():
    """Seven digits come after six, although they are smaller as text."""
    assert LogCoordinates.of_file("binlog.999999", 5000) < LogCoordinates.of_file(
        "binlog.1000000", 4
    )


def test_families_are_not_compared():
    """The numbers of two families of files count different things."""
    left, right = LogCoordinates("a", 1, 4), LogCoordinates("b", 2, 4)
    assert left != right
    for compare in (lambda: left < right, lambda: left <= right, lambda: max(left, right)):
        with pytest.raises(CoordinateError, match=r"'[ab]\.00000[12]:4' with '[ab]\.00000[12]:4'"):
            compare()
    with pytest.raises(TypeError):
        assert left < (1, 4)


def test_positions_have_64_bits():
    """A position may exceed the 32 bits of the event field, but not a signed 64-bit number."""
    assert str(LogCoordinates("binlog", 1, 4_294_970_897)) == "binlog.000001:4294970897"
    assert LogCoordinates("binlog", 1, 2**63 - 1).position == 2**63 - 1
    for position in (-1, 2**63):
        with pytest.raises(CoordinateError, match="position"):
            LogCoordinates("binlog", 1, position)


@pytest.mark.parametrize(
    ("end", "field"),
    [(157, 157), (2**32 - 1, 2**32 - 1), (2**32, 0), (4_294_970_897, 3601)],
)
def test_the_event_field_wraps(end, field):
    """The header's end position is the true one modulo 2**32."""
    assert binlog.log_pos_field(end) == field


@pytest.mark.parametrize("text", ["", "1", "1:3:5", "1-5:tag:1"])
def test_length_of_previous_gtids(text):
    """The constants give the length that the binary form of the untagged set really has."""
    sid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    gtid_set = GtidSet.parse(f"{sid}:{text}" if text else "").restrict(sid)
    gtid_set -= gtid_set.restrict(f"{sid}:tag")
    framing = binlog.EVENT_HEADER_LENGTH + binlog.CHECKSUM_LENGTH
    assert framing + len(gtid_set.encode()) == (
        binlog.PREVIOUS_GTIDS_LENGTH_MIN
        + binlog.PREVIOUS_GTIDS_LENGTH_PER_SID * len(gtid_set.sids())
        + binlog.PREVIOUS_GTIDS_LENGTH_PER_INTERVAL * len(list(gtid_set))
    )


def test_lengths_and_codes_of_the_file_format():
    """The measured sizes of a real server's events, and the codes of those that frame a file."""
    assert bytes.fromhex("fe62696e") == binlog.MAGIC
    assert len(binlog.MAGIC) == binlog.MAGIC_LENGTH
    assert binlog.STOP_EVENT_LENGTH == 23
    assert binlog.ROTATE_EVENT_LENGTH_MIN + len("binlog.000002") == 44
    assert binlog.PREVIOUS_GTIDS_LENGTH_MIN == 31
    codes = {
        name: int(EventType[name]) for name in ("STOP", "ROTATE", "XID", "GTID", "GTID_TAGGED")
    }
    assert codes == {"STOP": 3, "ROTATE": 4, "XID": 16, "GTID": 33, "GTID_TAGGED": 42}
    assert EventType(15) is EventType.FORMAT_DESCRIPTION
    assert EventType(35) is EventType.PREVIOUS_GTIDS
