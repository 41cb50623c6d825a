"""The data that a point-in-time recovery arrives at (WL#3576)."""

from __future__ import annotations

from typing import Any

from tallystick.coordinates.audit.comparison import RecoveryMade
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import Against, Compared, between
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided
from tallystick.coordinates.rules.recovery import Replayed, broken_recovery, replayed_log
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.statements import sql

Tables = list[dict[str, Any]]
"""Name, rows and checksum of each table, as the journal has them."""

GROUPS_LEFT_OUT = reason(
    "groups_left_out", "groups were left out on purpose, so the source had other data", Lack.BACKUP
)
NO_CHECKSUMS = reason(
    "no_checksums", "instance {source} has no checksums of {file}:{position}", Lack.BACKUP
)


_GAVE = "Recovering from image {backup_id} gave table {table} with {seen:content}; "


@between(
    RecoveryMade,
    number=88,
    tier=4,
    family=Family.RESTORE,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "Restored tables have the content that the image has, the image that of the source at"
        " its position, and recovered ones that of the source at the stop point, whatever their"
        " engine."
    ),
    why=(
        "All engines are locked at one validity point after the last visible change, so no"
        " part of the image is older or newer than the position. A change of a"
        " non-transactional table that only commits were locked against is in the log and"
        " not in the image, or the other way round."
    ),
    undecided_when=(
        "the source has no checksums at the stop point, groups were left out on purpose, or"
        " the source's journal is not known up to the recovery. Nothing is claimed where"
        " there are no checksums"
    ),
    sources=("WL#3576, Non-transactional engines and invisible data changes",),
    remedy=(
        "Compare the named table with the source's, and take a new backup that locks the"
        " engine of that table too, until its table locks are released."
    ),
    verify=(sql("CHECKSUM TABLE {table:name};"), sql("CHECKSUM TABLE {table:name};", "{of}")),
    cases={
        "restored_other_than_image": Case(
            _GAVE + "in the image it has {wanted:content}.",
            "{seen:content}",
            "table {table}, recovered",
            "{wanted:content}",
            "table {table} in the image",
        ),
        "image_other_than_source": Case(
            "Image {backup_id} has table {table} with {seen:content}; on instance {of} at"
            " {file}:{position} it has {wanted:content}.",
            "{seen:content}",
            "table {table} in the image",
            "{wanted:content}",
            "table {table} on instance {of} at {file}:{position}",
        ),
        "recovered_other_than_source": Case(
            _GAVE + "on instance {of} at {file}:{position} it has {wanted:content}.",
            "{seen:content}",
            "table {table}, recovered",
            "{wanted:content}",
            "table {table} on instance {of} at {file}:{position}",
        ),
    },
)
def recovered_data_equal_source(made: RecoveryMade, against: Against) -> Compared:
    """Restored tables are those of the image, recovered ones those of the source."""
    log = replayed_log(made, against)
    if not isinstance(log, Replayed):
        return log
    image_of = against.sources[-1]
    image = image_of.images.get(made.backup_id)
    if image is not None:
        here = image["binlog_file"], image["binlog_position"]
        restored = made.restored["restore"].get("tables")
        theirs = image_of.checksums_at(image["lineage"], here)
        differing = _differing("restored_other_than_image", made, log, restored, image["tables"])
        differing = differing or _differing(
            "image_other_than_source", made, log, image["tables"], theirs,
            of=image_of.instance_id, file=here[0], position=here[1],
        )  # fmt: skip
        if differing is not None:
            return differing
    mine = made.restored["replayed"].get("tables")
    if mine is None:
        return HOLDS
    if made.gtids("replay", "excluded"):
        return Undecided(GROUPS_LEFT_OUT)
    theirs = log.source.checksums_at(log.state.lineage, made.end)
    file, position = made.end
    source = log.source.instance_id
    if theirs is None:
        return Undecided(NO_CHECKSUMS, source=source, file=file, position=position)
    found = _differing(
        "recovered_other_than_source", made, log, mine, theirs,
        of=source, file=file, position=position,
    )  # fmt: skip
    return found or HOLDS


def _differing(
    case: str,
    made: RecoveryMade,
    log: Replayed,
    mine: Tables | None,
    theirs: Tables | None,
    **values: object,
) -> Broken | None:
    """The first table that both sides have, with another content."""
    if mine is None or theirs is None:
        return None
    others = {table["name"]: table for table in theirs}
    for table in mine:
        name, seen = table["name"], _content(table)
        wanted = _content(others[name]) if name in others else seen
        if seen != wanted:
            return broken_recovery(
                case, made, log, witness=name, table=name, seen=seen, wanted=wanted, **values
            )
    return None


def _content(table: dict[str, Any]) -> dict[str, Any]:
    return {"rows": table.get("rows"), "checksum": table.get("checksum")}
