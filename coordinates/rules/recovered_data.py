"""The data that a point-in-time recovery arrives at (WL#3576)."""

from __future__ import annotations

from typing import Any

from tallystick.coordinates.audit.comparison import RecoveryMade, RestoreMade
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import (
    Against,
    Compared,
    adds_to,
    between,
    wait_or_give_up,
)
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
TABLE_NOT_NAMED = reason(
    "table_not_named",
    "the image has table {table}, and the {step} record has other tables and not this one",
    Lack.BACKUP,
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
        "the source has no checksums at the stop point, groups were left out on purpose, a table"
        " of the image is not among those of the restored server, or the source's journal is not"
        " known up to the recovery. Nothing is claimed where there are no checksums"
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
    """Recovered tables are those of the source, and so are the image's."""
    log = replayed_log(made, against)
    if not isinstance(log, Replayed):
        return log
    image_of = against.sources[-1]
    image = image_of.image_for(made.restored["restore"])
    taken = None
    if image is not None:
        here, taken = (image["binlog_file"], image["binlog_position"]), image["tables"]
        theirs = image_of.checksums_at(image["lineage"], here)
        differing = _differing(taken, theirs)
        if differing is not None:
            of = {"of": image_of.instance_id, "file": here[0], "position": here[1]}
            case, witness = "image_other_than_source", differing["table"]
            return broken_recovery(case, made, log, witness=witness, **differing, **of)
    mine = made.restored["replayed"].get("tables")
    if mine is None:
        return HOLDS
    if made.excluded:
        return Undecided(GROUPS_LEFT_OUT)
    theirs = log.source.checksums_at(log.state.lineage, made.end)
    of = {"file": made.end[0], "position": made.end[1]}
    source = log.source.instance_id
    if theirs is None:
        return Undecided(NO_CHECKSUMS, source=source, **of)
    differing = _differing(mine, theirs)
    if differing is not None:
        case, witness = "recovered_other_than_source", differing["table"]
        return broken_recovery(case, made, log, witness=witness, **differing, of=source, **of)
    # One that the source does not have there either was dropped meanwhile.
    lacking = _names(taken) & _names(theirs) - _names(mine)
    return Undecided(TABLE_NOT_NAMED, table=min(lacking), step="replayed") if lacking else HOLDS


@adds_to(recovered_data_equal_source, RestoreMade, doubts=(TABLE_NOT_NAMED,))
def restored_data_equal_image(made: RestoreMade, against: Against) -> Compared:
    """Restored tables are those of the image, whether a log is replayed or not."""
    source, ts = against.source, made.at.ts
    if source.states.first_since(ts) is None:
        return wait_or_give_up(source, ts)
    image, mine = source.image_for(made.body), made.body.get("tables")
    if image is None or mine is None:
        return HOLDS
    differing = _differing(mine, image["tables"])
    if differing is not None:
        return Broken(
            "restored_other_than_image",
            witness=differing["table"],
            at=f"restore of {made.backup_id}",
            backup_id=made.backup_id,
            source=source.instance_id,
            **differing,
        )
    lacking = _names(image["tables"]) - _names(mine)
    return Undecided(TABLE_NOT_NAMED, table=min(lacking), step="restore") if lacking else HOLDS


def _differing(mine: Tables | None, theirs: Tables | None) -> dict[str, Any] | None:
    """The first table that both sides have, with another content."""
    others = {table["name"]: table for table in theirs or ()}
    for table in mine or ():
        name, seen = table["name"], _content(table)
        wanted = _content(others[name]) if name in others else seen
        if seen != wanted:
            return {"table": name, "seen": seen, "wanted": wanted}
    return None


def _names(tables: Tables | None) -> set[str]:
    return {table["name"] for table in tables or ()}


def _content(table: dict[str, Any]) -> dict[str, Any]:
    return {"rows": table.get("rows"), "checksum": table.get("checksum")}
