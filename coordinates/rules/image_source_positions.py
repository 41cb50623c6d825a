"""The source coordinates in the summary of a replica's image, in the source's own binary log."""

from __future__ import annotations

from tallystick.coordinates.audit.comparison import ImageChannel
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import Against, Compared, between, wait_or_give_up
from tallystick.coordinates.rules.families import Family
from tallystick.coordinates.rules.outcomes import HOLDS, Broken
from tallystick.coordinates.rules.registry import Case
from tallystick.coordinates.rules.source_coordinates import wrong_coordinates
from tallystick.coordinates.rules.statements import file_until

_SIDES = {
    "read": ("the end of an event", "The image {backup} has read"),
    "executed": ("the end of a group", "The image {backup} has executed"),
}
_KINDS = {
    "inside_event": "no end of an event.",
    "beyond_end": "past the end of the file.",
    "inside_group": "the end of an event inside a group.",
}


@between(
    ImageChannel,
    number=131,
    tier=4,
    family=Family.BACKUP_COORDINATES,
    severity=Severity.CRITICAL,
    heals="never",
    claim=(
        "The replica positions in an image are positions of the source's binary log: the one that"
        " was read ends an event, the one that was executed ends a group."
    ),
    why=(
        "A server that is restored from the image asks its source for what comes after them. An"
        " offset of the relay log instead, or one between two events, is refused, or read"
        " as something else; inside a group the first part of it is lost."
    ),
    undecided_when=(
        "the source is not known or not observed, its journal has a gap there or its events are no"
        " longer remembered, or the coordinates belong to a binary log lineage that has ended, or"
        " may still belong to another source that the channel had before"
    ),
    sources=("WL#3576, requirement 2", "Percona XtraBackup issue PXB-1737"),
    remedy=(
        "Do not start replication of a restored server at these positions: use the image's GTID"
        " set, or take the image again with the applier stopped."
    ),
    verify=(file_until("file", "position", "{source}"),),
    cases={
        f"{name}_{kind}": Case(
            f"{begins} up to {{file}}:{{position}} of instance {{source}}; that is {text}",
            "{file}:{position}",
            "summary of image {backup}",
            expected,
            "binary log of instance {source}",
        )
        for name, (expected, begins) in _SIDES.items()
        for kind, text in _KINDS.items()
        if (name, kind) != ("read", "inside_group")
    },
)
def image_source_position_valid(image: ImageChannel, against: Against) -> Compared:
    """The source coordinates of an image are positions of the source's binary log."""
    source, ts = against.source, image.at.ts
    state = source.states.first_since(ts)
    if state is None:
        return wait_or_give_up(source, ts)
    wrong, unknown = wrong_coordinates(image, against, state)
    backup = image.backup_id
    found = tuple(
        Broken(
            one.case, witness=one.witness, at=f"image {backup} {one.at}", backup=backup, **one.data
        )
        for one in wrong
    )
    return found or unknown or HOLDS
