"""A restored server and the image that it was restored from: is everything there that was taken?"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from tallystick.coordinates.audit.comparison import RestoreMade
from tallystick.coordinates.results import Severity
from tallystick.coordinates.rules.backup_locks import LOG_STATUS
from tallystick.coordinates.rules.between import Against, Compared, between, wait_or_give_up
from tallystick.coordinates.rules.families import Family, Lack
from tallystick.coordinates.rules.image_positions import coordinates_of
from tallystick.coordinates.rules.info_repositories import stored_pair, stored_source
from tallystick.coordinates.rules.outcomes import HOLDS, Broken, Undecided
from tallystick.coordinates.rules.registry import Case, reason
from tallystick.coordinates.rules.statements import GTID_SETS, not_executed
from tallystick.coordinates.values.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallystick.coordinates.values.binlog import LogCoordinates

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
RESTORED_MAY_BE_COMMITTING = reason(
    "restored_may_be_committing",
    "the restored server counts {gtids:gtids} as executed, which may have been committing when the"
    " image {backup_id} read log_status: what {source} had logged at its coordinates is not known",
    Lack.BACKUP,
)

_BINLOG = "binlog_file", "binlog_position"
_EXECUTED = "exec_source_log_file", "exec_source_log_pos"
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
        " image's coordinates, those that its channels have read and stored of their sources' logs"
        " included; it logs nothing of that set, and SET gtid_purged gives it nothing"
        " else before it logs or receives."
    ),
    why=(
        "The set says which changes the data hold. If part of it is left out, a source sends"
        " these groups again, and the applier repeats them or stops with a duplicate key (1062);"
        " if it holds more, the server passes over groups that its data do not have."
    ),
    undecided_when=(
        "the image was not seen to be taken, or image or restore do not name a GTID set; what was"
        " read and stored is compared where the image has all four of read and executed position"
        " and info repositories, and of relay logs, which may begin anew, nothing; more than"
        " the image's set is not judged on a server that logs or receives by itself already; of an"
        " image with coordinates of log_status, groups that may have been committing when its row"
        " was read, where it is not known which ones were logged by then. Of an image made under"
        " locks channels are not compared"
    ),
    sources=(
        "WL#3576, requirement 3",
        "MySQL manual: gtid_purged; mysqldump --set-gtid-purged",
    ),
    remedy=(
        "Before replication is started: RESET BINARY LOGS AND GTIDS on the restored server, then"
        " SET GLOBAL gtid_purged to the image's set. If groups were applied since, restore again."
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
    if source.states.first_since(ts) is None:
        return wait_or_give_up(source, ts)
    image, backup_id = source.image_for(made.body), made.backup_id
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
    doubt = None
    if beyond and image["coordinates_from"] == LOG_STATUS:
        # The row shows the binary log ahead of commits; the data may have these.
        if image["logged"] is None:
            doubt = Undecided(RESTORED_MAY_BE_COMMITTING, gtids=beyond, **values)
            beyond = GtidSet.EMPTY
        else:
            beyond = beyond - GtidSet.parse(image["logged"])
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
    return tuple(found) or doubt or HOLDS


def _positions(restored: Mapping[str, Any], image: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What is compared, and the coordinates of both, where both name them."""
    channels = {one["channel"]: one for one in image.get("channels") or ()}
    found = [_named_pair(restored, image, *_BINLOG)]
    for one in restored.get("channels") or ():
        name = one["channel"]
        if name in channels:
            pairs = (_named_pair(one, channels[name], *_EXECUTED), *_stored(one, channels[name]))
            found += [pair and (f"channel {name} {pair[0]}", *pair[1:]) for pair in pairs]
    return [pair for pair in found if pair is not None]


def _named_pair(
    restored: Mapping[str, Any], image: Mapping[str, Any], file: str, at: str
) -> tuple[str, str, str] | None:
    mine, theirs = ((one.get(file), one.get(at)) for one in (restored, image))
    if None in (*mine, *theirs):
        return None
    return file, "{}:{}".format(*mine), "{}:{}".format(*theirs)


def _stored(
    restored: Mapping[str, Any], image: Mapping[str, Any]
) -> Iterator[tuple[str, str, str]]:
    """What was read and is stored of the source's log, where the image says all that it may be.

    Where relay logs are given up, receiving begins anew at an executed position; a start reads what
    is stored. Relay log coordinates are not compared: a restored server may have begun a relay log
    anew, under the name of one that is gone.
    """
    theirs = _source_positions(image)
    if None in theirs.values():
        return
    for what, mine in _source_positions(restored).items():
        names = tuple(theirs) if what != "slave_relay_log_info" else (what, "exec")
        if mine is not None and mine not in [theirs[name] for name in names]:
            yield what, str(mine), str(theirs[what])


def _source_positions(channel: Mapping[str, Any]) -> dict[str, LogCoordinates | None]:
    relay_info = channel.get("slave_relay_log_info")
    return {
        "read": coordinates_of(channel, "read_source_log_file", "read_source_log_pos"),
        "exec": coordinates_of(channel, *_EXECUTED),
        "slave_master_info": stored_source(channel.get("slave_master_info")),
        "slave_relay_log_info": stored_pair("slave_relay_log_info", relay_info)[1],
    }


def _set(summary: Mapping[str, Any]) -> GtidSet | None:
    text = summary.get("gtid_executed")
    return None if text is None else GtidSet.parse(text)
