"""What was to be read of the journal topic and was not is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.coordinates.rules.explanation import observation_text
from tallystick.streaming.checkpoint import CheckpointLocation, Layout
from tallystick.streaming.journal_holes import JournalTopic, PlannedOffsets, Read, holes

FOUND = "topic 'j', partition 1: expected offset {}, found {}: messages are gone"
GONE = "topic 'j', partition 1: expected offset {}, and the partition is gone"


@pytest.mark.parametrize(
    ("start", "end", "read", "named"),
    [
        (5, 9, Read(5, 4), None),
        (5, 5, None, None),
        (None, 4, Read(0, 4), None),
        (5, 9, Read(6, 3), FOUND.format(5, 6)),  # retention passed one
        (5, 9, None, FOUND.format(5, 9)),  # and all
        (5, 9, Read(5, 3), FOUND.format(5, 5)),  # one in between
        (5, 9, Read(6, 4), FOUND.format(5, 6)),  # as many, of which one is beyond the plan
        (5, 2, None, FOUND.format(5, 2)),  # made anew
        (None, 4, Read(1, 3), FOUND.format(0, 1)),
        (5, None, None, GONE.format(5)),
        (5, None, Read(5, 2), GONE.format(5)),
    ],
)
def test_a_hole_is_named_with_what_was_expected_and_found(start, end, read, named):
    """And leaves the run undecided."""
    found = list(holes([PlannedOffsets("j", 1, start, end)], {} if read is None else {1: read}))
    wanted = [] if named is None else [named]
    assert wanted == [observation_text(one)[: len(named or "")] for one in found]
    assert all(one.is_undecided for one in found)


def test_each_partition_is_compared():
    """Whatever is missing of the ones before it."""
    planned = [PlannedOffsets("j", n, 0, end) for n, end in enumerate((None, 4, 4, 4))]
    found = [one.data["partition"] for one in holes(planned, {2: Read(0, 4), 3: Read(0, 3)})]
    assert [0, 1, 3] == found


def test_a_topic_that_was_made_anew_is_known_by_its_id():
    """It is named once, whatever its offsets; the id is part of the state."""
    topic = JournalTopic()
    assert not list(topic.compare("j", "one"))
    saved, topic = topic.to_bytes(), JournalTopic()
    topic.restore(saved)
    assert not list(topic.compare("j", None))
    [found] = topic.compare("j", "other")
    assert found.is_undecided
    assert observation_text(found).startswith(
        "topic 'j' was made anew: its id was one, and is other"
    )
    assert not list(topic.compare("j", "other"))


def test_what_was_planned_is_in_sparks_files(tmp_path):
    """Beside other sources; the first micro-batch begins where the topic began."""
    checkpoint = CheckpointLocation(tmp_path, Layout(2, "j"))
    files = {
        "sources/0/0": 'v1\n{"j":{"0":3,"1":0}}',
        "offsets/0": 'v1\n{"batchTimestampMs":1}\n{"j":{"0":5,"1":0}}\n-',
        "offsets/1": 'v1\n{"batchTimestampMs":2}\n{"j":{"0":9,"2":1}}\n{"c":{"0":7}}',
    }
    for name, text in files.items():
        path = Path(checkpoint.auditor, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert [PlannedOffsets("j", 0, 3, 5), PlannedOffsets("j", 1, 0, 0)] == (
        checkpoint.planned_offsets(0)
    )
    assert [
        PlannedOffsets("j", 0, 5, 9),
        PlannedOffsets("j", 1, 0, None),
        PlannedOffsets("j", 2, None, 1),
    ] == checkpoint.planned_offsets(1)
