"""A restored server and the image that it was restored from: is everything there that was taken?"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.comparison import RestoreMade
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.between import Against, Compared, between, wait_or_give_up
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.statements import GTID_SETS, not_executed
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Mapping

RESTORED_IMAGE_UNSEEN = reason(
    "restored_image_unseen",
    "the journal of {source} does not have the image {backup_id}",
    Lack.BACKUP,
)
RESTORE_SET_UNKNOWN = reason(
    "restore_set_unknown",
    "the image {backup_id} or its restore does not name a GTID set",
    Lack.BACKUP,
)

_POSITIONS = (
    ("binlog_file", "binlog_position"),
    ("exec_source_log_file", "exec_source_log_pos"),
)
_IMAGE = "image {backup_id} of instance {source}"
_RESTORE = "restored server"


@between(
    RestoreMade,
    number=140,
    tier=4,
    family=Family.RESTORE,
    severity=Severity.CRITICAL,
    heals="data",
    claim=(
        "A restored server has the GTID set of the image that it was restored from, and names the"
        " image's coordinates; it logs nothing of that set, and SET gtid_purged gives it nothing"
        " else before it logs or receives."
    ),
    why=(
        "The set says which changes the data hold. If part of it is left out, a source sends"
        " these groups again, and the applier repeats them or stops with a duplicate key (1062);"
        " if it holds more, the server passes over groups that its data do not have."
    ),
    undecided_when=(
        "the image was not seen to be taken, or image or restore do not name a GTID set; more than"
        " the image's set is not judged on a server that logs or receives by itself already"
    ),
    sources=(
        "WL#3576, requirement 3",
        "MySQL manual: gtid_purged; mysqldump --set-gtid-purged",
    ),
    remedy=(
        "Before replication is started: RESET BINARY LOGS AND GTIDS (RESET MASTER before 8.2) on"
        " the restored server, then SET GLOBAL gtid_purged to the image's set. If groups were"
        " applied since, restore again."
    ),
    verify=(GTID_SETS, not_executed("witness")),
    cases={
        "gtids_left_behind": Case(
            "The server restored from image {backup_id} lacks {witness:gtids}, which the image"
            " holds.",
            "{restored:gtids}",
            _RESTORE,
            "{taken:gtids}",
            _IMAGE,
        ),
        "gtids_beyond_image": Case(
            "The server restored from image {backup_id} counts {witness:gtids} as executed, which"
            " the image does not hold.",
            "{restored:gtids}",
            _RESTORE,
            "{taken:gtids}",
            _IMAGE,
        ),
        "executed_again": Case(
            "The server restored from image {backup_id} has executed {witness:gtids} since, which"
            " the image holds: {witness:it was|they were} missing from gtid_executed.",
            "{witness:gtids} after the restore",
            "binary log of the restored server",
            "{taken:gtids}",
            _IMAGE,
        ),
        "other_position": Case(
            "The server restored from image {backup_id} names {restored}, but the image names"
            " {taken}.",
            "{restored}",
            _RESTORE,
            "{taken}",
            _IMAGE,
        ),
    },
)
def restore_matches_image(made: RestoreMade, against: Against) -> Compared:
    """A restored server has what the image has."""
    source, ts = against.source, made.at.ts
    if next(source.states.since(ts), None) is None:
        return wait_or_give_up(source, ts)
    image, backup_id = source.images.get(made.backup_id), made.backup_id
    if image is None:
        return Undecided(RESTORED_IMAGE_UNSEEN, source=source.instance_id, backup_id=backup_id)
    values: dict[str, Any] = {"backup_id": backup_id, "source": source.instance_id}
    found = [
        Broken(
            "other_position",
            witness=restored,
            at=f"restore of {backup_id} {what}",
            restored=restored,
            taken=taken,
            **values,
        )
        for what, restored, taken in _positions(made.body, image)
        if restored != taken
    ]
    taken, restored = _set(image), _set(made.body)
    if taken is None or restored is None:
        return tuple(found) or Undecided(RESTORE_SET_UNKNOWN, backup_id=backup_id)
    # Of servers that the image knows nothing of: a dump of another source may be loaded, too.
    given = GtidSet(chain.from_iterable(map(made.given.restrict, taken.uuids())))
    beyond = (restored | given) - taken if made.is_fresh else GtidSet.EMPTY
    if made.server_uuid is not None:
        beyond = beyond.without_uuid(made.server_uuid)
    wrong_by_case = {
        "gtids_left_behind": taken - restored,
        "gtids_beyond_image": beyond,
        "executed_again": made.again & taken,
    }
    for case, wrong in wrong_by_case.items():
        if wrong:
            at = f"restore of {backup_id}"
            has = restored | given if case == "gtids_beyond_image" else restored
            found.append(Broken(case, witness=wrong, at=at, restored=has, taken=taken, **values))
    return tuple(found) or HOLDS


def _positions(restored: Mapping[str, Any], image: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What is compared, and the coordinates of both, where both name them."""
    channels = {str(one["channel"]): one for one in image.get("channels") or ()}
    pairs = [("", restored, image)] + [
        (f"channel {one['channel']}", one, channels[str(one["channel"])])
        for one in restored.get("channels") or ()
        if str(one["channel"]) in channels
    ]
    return [
        (f"{what} {file}".strip(), f"{mine[file]}:{mine[at]}", f"{theirs[file]}:{theirs[at]}")
        for what, mine, theirs in pairs
        for file, at in _POSITIONS
        if None not in (mine.get(file), mine.get(at), theirs.get(file), theirs.get(at))
    ]


def _set(summary: Mapping[str, Any]) -> GtidSet | None:
    text = summary.get("gtid_executed")
    return None if text is None else GtidSet.parse(text, tags=True)
