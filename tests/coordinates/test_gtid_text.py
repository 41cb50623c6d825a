"""The text of GTIDs and GTID sets: what a server accepts, what it refuses, what it prints.

The tables without tags were compared with the answers of MySQL 8.0.31: GTID_SUBTRACT(text, '') for
sets, SET gtid_next for single GTIDs.
"""

import pytest

from tallystick.coordinates.values.errors import AuditError, GtidSetParseError
from tallystick.coordinates.values.gtid import Gtid, GtidSet, is_canonical_server_text
from tests.support.deadlines import ends_within

U = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
V = "00000000-0000-0000-0000-00000000000a"
GNO_MAX = 2**63 - 2

EMPTY = [
    "", " ", "\x0b\x0c\r\n\t", ",", " , ,", U, f" {U} ,", f"{U}:5-1", f"{U}:1-0", f"{U}:1-",
    f"{U}:1- ", f"{U}:1-,{V}", f"{U}:1-00", f"{U}:1-+0", f"{U}:1--0", f"{U}:1--00", f"{U}:1--0x0",
    f"{U}:1- -0", f"{U}\0", "\0", f"{U}:1-\0", f"{U}\0:",
]  # fmt: skip

SPELLINGS = [
    # reversed intervals and commas that mean nothing
    (f"{U}:1-:1", f"{U}:1"),
    (f"{U}:1-0:5", f"{U}:5"),
    (f"{U}:1--0x00:5", f"{U}:5"),
    (f"{U}:1--0 :3", f"{U}:3"),
    (f",,{U}:1,,", f"{U}:1"),
    # numbers
    (f"{U}:0x10", f"{U}:16"),
    (f"{U}:0X1f", f"{U}:31"),
    (f"{U}:010", f"{U}:8"),
    (f"{U}:01", f"{U}:1"),
    (f"{U}:+2", f"{U}:2"),
    (f"{U}:+0x10", f"{U}:16"),
    (f"{U}:+010", f"{U}:8"),
    (f"{U}:1-+3", f"{U}:1-3"),
    (f"{U}:1-0x5:9", f"{U}:1-5:9"),
    (f"{U}: 0x10 - 020 ", f"{U}:16"),
    (f"{U}:{'0' * 30}7", f"{U}:7"),
    (f"{U}:0x{'0' * 30}7", f"{U}:7"),
    (f"{U}:{GNO_MAX}", f"{U}:{GNO_MAX}"),
    (f"{U}:0x7ffffffffffffffe", f"{U}:{GNO_MAX}"),
    (f"{U}:0777777777777777777776", f"{U}:{GNO_MAX}"),
    (f"{U}:1-{GNO_MAX}", f"{U}:1-{GNO_MAX}"),
    (f"{U}:{GNO_MAX - 1}-{GNO_MAX}", f"{U}:{GNO_MAX - 1}-{GNO_MAX}"),
    # blanks
    (f" {U} : 1 - 5 ", f"{U}:1-5"),
    (f"{U} :1 :3 ", f"{U}:1:3"),
    (f"{U}\n:\n1\n-\n5\n,\n{V}\n:2", f"{V}:2,{U}:1-5"),
    (f"{U}\t:\x0b1\x0c-\r5", f"{U}:1-5"),
    # order, overlap, repetition, case
    (f"{U}:3-3", f"{U}:3"),
    (f"{U}:1-3:4-5", f"{U}:1-5"),
    (f"{U}:9:1-5:4-7", f"{U}:1-7:9"),
    (f"{U}:1-5:6-9:20,{V}:3,{U}:10-19", f"{V}:3,{U}:1-20"),
    (f"{U.upper()}:1,{U}:2", f"{U}:1-2"),
    # a NUL ends the text
    (f"{U}:1\0:zzz", f"{U}:1"),
    (f"{U}:1-3\0-", f"{U}:1-3"),
]

MALFORMED = [
    f"{U}:", f"{U}: ", f"{U}::1", f"{U}: :1", f"{U}:1:", f"{U}:1::2", f"{U}:1 :", f"{U}:1:\0",
    f"{U}:0", f"{U}:00", f"{U}:0-5", f"{U}:0-0", f"{U}:0 ", f"{U}:0 1",
    f"{U}:-1", f"{U}:-0", f"{U}:-0:1", f"{U}:-5", f"{U}:1--1", f"{U}:1--2", f"{U}:1-2-3",
    f"{U}:1--", f"{U}:1-- 0", f"{U}:1--0x", f"{U}:1--0x1", f"{U}:1--08", f"{U}:1-+-0",
    f"{U}:1--{2**63}",
    f"{U}:1 2", f"{U}:1-5 6", f"{U}:1-0 x", f"{U}:0x 1", f"{U}:+ 3", f"{U}:++1", f"{U}:1-+",
    f"{U}:08", f"{U}:1-08", f"{U}:0x", f"{U}:1-0x", f"{U}:0x1G", f"{U}:0b1", f"{U}:1.5", f"{U}:1e3",
    f"{U}:1_0", f"{U}:1,2", f"{U}:1;", f"{U};1", f"{U}:1#", f"{U}:1#5",
    f"{U}:{2**63 - 1}", f"{U}:1-{2**63 - 1}", f"{U}:{2**64}", f"{U}:1-{'9' * 20}",
    f"{U}:0x7fffffffffffffff", f"{U}:0777777777777777777777", f"{U}:{'9' * 5000}",
    f"{U} {V}", f"{U}{V}", f"{U}0", f"{U}0:1", f"{U[:-1]}:1", f"g{U[1:]}:1",
    U.replace("-", "") + ":1", U.replace("-", "_"), f"{{{U}}}:1", f"+{U}:1", "ANONYMOUS",
    "AUTOMATIC", "0-1-5", f"{U}:\u0661", f"{U}:1\u00a0", f"{U}:1\u3000:2", f"\u00a0{U}",
    f"{U}:1\x1c:2",
    f"{U}:1\x85", f"{U}:-{U}:1",
]  # fmt: skip

TAGGED = [
    (f"{U}:tag", ""),
    (f"{U}:tag:other", ""),
    (f"{U}:tag:1", f"{U}:tag:1"),
    (f"{U}:_a:1", f"{U}:_a:1"),
    (f"{U}:_:1", f"{U}:_:1"),
    (f"{U}:Tag_9:1", f"{U}:tag_9:1"),
    (f"{U}:{'a' * 32}:1", f"{U}:{'a' * 32}:1"),
    (f"{U} : tag : 1 - 3 ", f"{U}:tag:1-3"),
    (f"{U}:\ttag\n:1", f"{U}:tag:1"),
    (f"{U}:1:tag:1", f"{U}:1:tag:1"),
    (f"{U}:tag:1:tag2:2:tag:3", f"{U}:tag:1:3:tag2:2"),
    (f"{U}:tag:1:tag2:2:TAG:2", f"{U}:tag:1-2:tag2:2"),
    (f"{U}:tag:1,{U}:1", f"{U}:1:tag:1"),
    (f"{U}:z:1:a:1:_b:1:a1:1,{V}:z:4", f"{V}:z:4,{U}:_b:1:a:1:a1:1:z:1"),
    (f"{U}:tag:5-1:0x10", f"{U}:tag:16"),
    # hexadecimal digits alone are a tag, and a UUID ends the reach of a tag
    (f"{U}:abc:1", f"{U}:abc:1"),
    (f"{U}:x:1,{V}:2", f"{V}:2,{U}:x:1"),
]

MALFORMED_TAGS = [
    f"{U}:{'a' * 33}:1", f"{U}:{'a' * 33}", f"{U}:9a:1", f"{U}:ta g:1", f"{U}:ta-g:1",
    f"{U}:t\u00e4g:1", f"{U}:tag-1", f"{U}:tag:", f"{U}:tag::1", f"{U}:tag:0", f"{U}:tag#1",
    f"tag:{U}:1", f"{U}tag:1",
    f"{U}:tag:1#5", f"{U}:1tag", f"{U}:0xg", f"{U}:\u017f:1",
]  # fmt: skip


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("text", EMPTY)
def test_accepts_texts_that_mean_nothing(text, tags):
    """What a server reads as the empty set is the empty set."""
    parsed = GtidSet.parse(text, tags=tags)
    assert parsed == GtidSet.EMPTY
    assert str(parsed) == ""
    assert not parsed


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize(("text", "canonical"), SPELLINGS)
def test_prints_every_spelling_in_one_form(text, canonical, tags):
    """All spellings of a set become the one canonical text."""
    assert str(GtidSet.parse(text, tags=tags)) == canonical


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("text", MALFORMED)
def test_refuses_what_a_server_refuses(text, tags):
    """Texts that a server answers with error 1772 are refused, with tags and without."""
    with pytest.raises(GtidSetParseError):
        GtidSet.parse(text, tags=tags)


@pytest.mark.parametrize(("text", "canonical"), TAGGED)
def test_tags_govern_the_intervals_after_them(text, canonical):
    """A tag holds until the next tag or UUID, and is printed after the untagged intervals."""
    assert str(GtidSet.parse(text)) == canonical
    with pytest.raises(GtidSetParseError, match=r"8\.3|offset"):
        GtidSet.parse(text, tags=False)


@pytest.mark.parametrize("text", MALFORMED_TAGS)
def test_refuses_malformed_tags(text):
    """A tag begins with a letter or underscore, has at most 32 characters and no blank inside."""
    with pytest.raises(GtidSetParseError):
        GtidSet.parse(text)


@pytest.mark.parametrize("value", [b"", b"\x00" * 8, None, 5, ["x"]])
def test_refuses_what_is_no_text(value):
    """Bytes and SQL NULL are a caller's mistake, not a malformed set."""
    with pytest.raises(TypeError, match=type(value).__name__):
        GtidSet.parse(value)
    with pytest.raises(TypeError):
        Gtid.parse(value)
    with pytest.raises(TypeError):
        GtidSet.parse_owned(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{U}:1-x", r"at offset 37 of 40: expected an interval or a tag after ':', found '1-x'"),
        (f"{U}:1:2:x-", r"at offset 41 of 43: .* found 'x-'"),
        (f"{U}:1, {V[:-1]}", r"at offset 40 of 75: expected a UUID .*, found '0000"),
        (f"{U}:1-{2**63 - 1}", r"at offset 39 .* from 0 to 9223372036854775806, found '9223372036"),
        (f"{U}:0", r"from 1 to 9223372036854775806, found '0'"),
        (f"{U}:", r"found the end of the text"),
        (f"{U} x", r"at offset 37 of 38: expected ':', ',' or the end of the set, found 'x'"),
        (f"{U}:\x1b[31m", r"found '\\x1b\[31m'"),
    ],
)
def test_errors_say_what_where_and_what_was_expected(text, message):
    """The message has the offset, the piece in quotes without control characters, and the wish."""
    with pytest.raises(GtidSetParseError, match=message) as caught:
        GtidSet.parse(text)
    assert isinstance(caught.value, (AuditError, ValueError))


def test_errors_stay_short():
    """A megabyte of nonsense is not repeated in the message."""
    for text in ("x" * 1_000_000, f"{U}:" + "9" * 1_000_000):
        with pytest.raises(GtidSetParseError) as caught:
            GtidSet.parse(text)
        assert len(str(caught.value)) < 250
        with pytest.raises(GtidSetParseError) as caught:
            Gtid.parse(text)
        assert len(str(caught.value)) < 250


MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        f"{U}:1-" + " " * MEGABYTE + "x",
        f"{U}:1" + " " * MEGABYTE + "x",
        f"{U}:" + " " * MEGABYTE + "-",
        f"{U}:1 -" + " " * MEGABYTE + "1" + " " * MEGABYTE + "x",
        f"{U}:tag" + " " * MEGABYTE + "x",
        f"{U}:" + "1" * MEGABYTE,
        f"{U}:0" + "7" * MEGABYTE + "x",
        f"{U}:0x" + "f" * MEGABYTE + "-",
        f"{U}:1--" + "0" * MEGABYTE + "x",
        f"{U}:" + "a" * MEGABYTE,
        ":" * MEGABYTE,
        "," * MEGABYTE + "x",
        f"{U}" * (MEGABYTE // 36),
        f"{U}:1" + ":1-1" * (MEGABYTE // 4) + "x",
        f"{U}:1" + ": 1" * (MEGABYTE // 3) + "x",
        f"{U}:1" + ":1#" * (MEGABYTE // 3),
        f"{U}:1#" + "1" * MEGABYTE + "x",
        f"{U}:1#1" + " " * MEGABYTE + "x",
        f"{U}:a1" + ":a:1" * (MEGABYTE // 4) + ":",
    ],
    ids=lambda text: f"{text[36:44]!r}…{text[-4:]!r}",
)
def test_hostile_text_costs_time_in_its_length(text):
    """A megabyte made to go back and forth is refused in seconds, where square time is hours."""
    for parse in (GtidSet.parse, GtidSet.parse_owned, Gtid.parse):
        with ends_within(100), pytest.raises(GtidSetParseError):
            parse(text)


def test_long_text_of_one_interval_per_uuid_set():
    """Repeating the UUID before each interval neither changes the set nor costs square time."""
    gnos = range(60_001, 1, -2)
    text = ",".join(f"{U}:{gno}" for gno in gnos)
    assert GtidSet.parse(text) == GtidSet((U, gno, gno) for gno in gnos)


def test_a_long_run_of_intervals_is_read_as_a_short_one():
    """Of any length, single, reversed, touching, at the limit of a number, and in any order."""
    pieces = [
        f"{gno}-{gno + gno % 7 - 1}" if gno % 7 != 1 else str(gno) for gno in range(9_001, 1, -5)
    ]
    pieces += ["999999999999999998-999999999999999999", "9223372036854775806", "7-7"]
    one_by_one = GtidSet.EMPTY
    for piece in pieces:
        one_by_one = one_by_one | GtidSet.parse(f"{U}:{piece}")
    read = GtidSet.parse(f"{U}:{':'.join(pieces)}")
    assert read == one_by_one
    assert str(read) == str(one_by_one) == str(GtidSet.parse(str(read)))


# What servers print


@pytest.mark.parametrize(
    ("text", "is_canonical"),
    [
        ("", True),
        (f"{U}:1-5", True),
        (f"{V}:7-8,\n{U}:1-3:5:9223372036854775800-9223372036854775806", True),
        (f"{V}:7-8,{U}:1", True),
        (f"{U}:1-5:tag:1", True),
        (f"{U}:1-3:4-5", False),
        (f"{U}:5-5", False),
        (f"{U}:1-2:1", False),
        (f"{U.upper()}:1", False),
        (f"{U}:1,{V}:1", False),
        (f"{U}:1,", False),
        (f"{U}:1 ", False),
        (U, False),
        (f"{U}:0x1", False),
        (f"{U}:b:1:a:1", False),
        (f"{U}:1:x:", False),
        (f"{U}:1\0", False),
    ],
)
def test_server_text_is_canonical(text, is_canonical):
    """Only the canonical form, with newlines, is what a server prints."""
    assert is_canonical_server_text(text) is is_canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (f"{U}:65408#64:65407#50", f"{U}:65407-65408"),
        # as MySQL 8.0.31 printed it: nothing separates the UUIDs
        (f"{V}:50#14:99#13{U}:50#15", f"{V}:50:99,{U}:50"),
        (f"{V}:50#1{U}:50#15", f"{V}:50,{U}:50"),
        (f"{V}:50#1,\n{U}:50#15", f"{V}:50,{U}:50"),
        # as the session variable prints it
        (f"{V}:50", f"{V}:50"),
        (f"{V}:tag:50#3", f"{V}:tag:50"),
    ],
)
def test_owned_gtids_without_their_threads(text, canonical):
    """The owner after each GNO of @@gtid_owned is dropped, even where a UUID follows at once."""
    assert str(GtidSet.parse_owned(text)) == canonical


@pytest.mark.parametrize(
    "text", [f"{U}:5#", f"{U}:5#x", f"{U}:#5", f"{U}:5#-1", f"{U}:5#1#2", f"{U}#5", f"{U}:1-5#3"]
)
def test_refuses_malformed_owners(text):
    """An owner is digits after one GNO."""
    with pytest.raises(GtidSetParseError):
        GtidSet.parse_owned(text)


# Single GTIDs


@pytest.mark.parametrize(
    ("text", "gtid"),
    [
        (f"{U}:1", Gtid(U, "", 1)),
        (f" {U.upper()} : 0x10 ", Gtid(U, "", 16)),
        (f"{U}:+010\0x", Gtid(U, "", 8)),
        (f"{U}:{GNO_MAX}", Gtid(U, "", GNO_MAX)),
        (f"{U}:Tag:7", Gtid(U, "tag", 7)),
        (f"{U} : tag : 7 ", Gtid(U, "tag", 7)),
    ],
)
def test_reads_a_gtid(text, gtid):
    """A single GTID is read in any spelling, and printing it gives a text that reads the same."""
    parsed = Gtid.parse(text)
    assert parsed == gtid
    assert Gtid.parse(str(parsed)) == gtid


@pytest.mark.parametrize(
    "text",
    [
        "", U, f"{U}:", f"{U}:0", f"{U}:-0", f"{U}:1-2", f"{U}:1:2", f"{U}:1,", f",{U}:1",
        f"{U}:08", f"{U}:{2**63 - 1}", f"{U}:tag", f"{U}:tag:", f"{U}:a:b:1", f"{U}:{'a' * 33}:1",
        f"{U}::1",
        "ANONYMOUS", "AUTOMATIC", "AUTOMATIC:tag", f"{U}:\u0661",
    ],
)  # fmt: skip
def test_refuses_what_is_no_single_gtid(text):
    """Sets, automatic values and malformed numbers are no GTID; nor are they members of a set."""
    with pytest.raises(GtidSetParseError):
        Gtid.parse(text)
    with pytest.raises(GtidSetParseError):
        assert text in GtidSet.EMPTY


def test_a_gtid_has_no_tag_before_8_3():
    """Without tags the tagged form is malformed."""
    with pytest.raises(GtidSetParseError, match=r"8\.3"):
        Gtid.parse(f"{U}:tag:7", tags=False)


def test_a_gtid_built_from_parts_is_checked():
    """Parts that could not be read from text cannot be put together either."""
    assert str(Gtid(U.upper(), "TAG", 5)) == f"{U}:tag:5"
    assert Gtid(U, "tag", 5).sid == f"{U}:tag"
    assert Gtid(U, "", 5).sid == U
    for uuid, tag, gno in [(U[1:], "", 1), (U, "9", 1), (U, "", 0), (U, "", 2**63 - 1)]:
        with pytest.raises(ValueError, match="expected"):
            Gtid(uuid, tag, gno)
    with pytest.raises(TypeError):
        Gtid(U, "", 1.0)
