"""The limit of a micro-batch's messages: by their size, and the same when one is run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.errors import CheckpointError
from tallystick.streaming.message_limit import (
    BYTES_MAX,
    MESSAGE_COST,
    MESSAGES_FIRST,
    MESSAGES_MAX,
    MESSAGES_MIN,
    MessageLimit,
    next_limit,
)
from tallystick.streaming.schema import DEAD_LETTER_BYTES_MAX, HEADERS_BYTES_MAX

LAYOUT = Layout(1, "t")


@pytest.fixture
def checkpoint(tmp_path):
    with CheckpointLocation(tmp_path, LAYOUT) as location:
        (tmp_path / "auditor" / "offsets").mkdir(parents=True)
        yield location


def plan(checkpoint: CheckpointLocation, *numbers: int) -> None:
    for number in numbers:
        Path(checkpoint.auditor, "offsets", str(number)).touch()


@pytest.mark.parametrize(
    ("limit", "messages", "size", "then"),
    [
        pytest.param(256, 256, 256 * 100, 16384, id="small messages, and more of them wait"),
        pytest.param(256, 231, 231 * 100, 16384, id="full but for a few"),
        pytest.param(256, 200, 200 * 100, 256, id="nothing waits"),
        pytest.param(256, 256, 256 * 100_000, 1024, id="one step, as more would be too much"),
        pytest.param(256, 256, 256 * 400_000, 256, id="as large as it should be"),
        pytest.param(256, 256, 256 * 900_000, 256, id="twice as large is left as it is"),
        pytest.param(256, 256, 256 * 1_200_000, 128, id="too large"),
        pytest.param(4096, 4096, 4096 * 4 * 10**6, 64, id="far too large"),
        pytest.param(4096, 4096, 4096 * 10**8, MESSAGES_MIN, id="at least so many"),
        pytest.param(4096, 10, 10 * 10**6, 4096, id="large ones, but few"),
        pytest.param(MESSAGES_MAX, MESSAGES_MAX, 0, MESSAGES_MAX, id="at most so many"),
        pytest.param(256, 0, 0, 256, id="only requests"),
    ],
)
def test_the_limit_follows_the_size_of_messages(limit, messages, size, then):
    assert then == next_limit(limit, messages, size)


@pytest.mark.parametrize("each", [1, 1_000, 7_000, 30_000, 130_000, 10**6, 10**7])
def test_messages_of_one_size_change_the_limit_at_most_once(each):
    """From wherever it begins; and what a micro-batch has then is not too much."""
    for begin in (16, 64, 256, 1024, 4096, 16384):
        limit = next_limit(begin, begin, begin * each)
        assert limit == next_limit(limit, limit, limit * each)
        assert limit * (each + MESSAGE_COST) <= 2 * BYTES_MAX or limit == MESSAGES_MIN


@pytest.mark.parametrize(("parts", "most"), [(1, 16384), (3, 32768), (4, 65536), (64, 1048576)])
def test_parts_that_work_side_by_side_take_as_much_each(checkpoint, parts, most):
    """In messages and in bytes; the limit keeps its steps."""
    limit = MessageLimit(checkpoint, parts=parts)
    limit.note(0, limit.begin(), MESSAGES_FIRST * 100)
    plan(checkpoint, 0)
    assert most == limit.begin()
    full = BYTES_MAX // MESSAGES_MAX - MESSAGE_COST
    assert most == next_limit(256, 256, 256 * full, parts)
    cost = 8 * (full + MESSAGE_COST)
    less = next_limit(most, most, most * (cost - MESSAGE_COST), parts)
    assert less * cost <= 2 * BYTES_MAX * parts < 2 * less * cost


def test_a_run_begins_with_the_limit_of_the_one_before(checkpoint):
    """A query that runs keeps its own until it is started again."""
    limit = MessageLimit(checkpoint)
    assert MESSAGES_FIRST == limit.begin()
    limit.note(0, 256, 256 * 100_000)
    assert limit.is_outgrown
    plan(checkpoint, 0, 1)
    assert 512 < limit.begin() == MessageLimit(checkpoint).begin()
    assert not limit.is_outgrown


@pytest.mark.parametrize(("parts", "few"), [(1, 1024), (3, 2048)])
def test_a_run_begins_with_few_messages_of_unknown_size(checkpoint, parts, few):
    """Those of the run before were small, and what has come since need not be."""
    limit = MessageLimit(checkpoint, parts=parts)
    limit.note(0, 256, 256 * 100)
    plan(checkpoint, 0, 1)
    grown = limit.begin()
    plan(checkpoint, 2)
    again = MessageLimit(checkpoint, parts=parts)
    assert few == again.begin() < grown
    # What was planned before has the limit of that time.
    assert [again.is_full(number, few) for number in (2, 3)] == [False, True]
    again.note(3, few, few * 100)
    plan(checkpoint, 3)
    assert grown == again.begin()


def test_a_micro_batch_that_is_run_again_is_judged_by_its_own_limit(checkpoint):
    """It was planned with 256 messages: with as many there were more to read."""
    limit = MessageLimit(checkpoint)
    limit.note(6, 256, 256 * 100)
    plan(checkpoint, 6, 7)
    limit.begin()
    for one in (limit, MessageLimit(checkpoint)):
        for number, full, less in ((7, 256, 200), (8, MESSAGES_MAX, 256)):
            assert one.is_full(number, full)
            assert not one.is_full(number, less)
    # Nor does it decide what comes next.
    limit.note(7, 256, 256 * 10**6)
    assert not limit.is_outgrown


def test_a_limit_that_is_given_stays(checkpoint):
    """Whatever comes; and it is given anew to each run."""
    limit = MessageLimit(checkpoint, 10)
    assert 10 == limit.begin()
    limit.note(0, 10, 10)
    assert not limit.is_outgrown
    assert 20 == MessageLimit(checkpoint, 20).begin()


def test_a_damaged_limit_is_named(checkpoint, tmp_path):
    """As whether a micro-batch was full decides who has not answered."""
    limit = MessageLimit(checkpoint, 10)
    limit.begin()
    path = tmp_path / "limit.json"
    path.write_bytes(path.read_bytes().replace(b"10", b"11"))
    with pytest.raises(CheckpointError, match=r"limit\.json.*To fix: make"):
        MessageLimit(checkpoint)


def test_the_documentation_says_how_much_a_dead_letter_keeps():
    page = (Path(__file__).parents[2] / "docs/streaming.md").read_text("utf-8")
    value, headers = f"{DEAD_LETTER_BYTES_MAX:,}", f"{HEADERS_BYTES_MAX:,}"
    assert f"A dead letter has at most {value} bytes of the value, {headers} of headers" in page
