"""How a session hands its GTID to InnoDB (WL#9211, the methods of THD, and I-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.innodb.gtid_info import serialise
from tallystick.producers.simulator.kernel.transactions import GroupKind

if TYPE_CHECKING:
    from tallystick.producers.simulator.innodb.gtid_info import GtidDesc
    from tallystick.producers.simulator.kernel.transactions import Group

_XA_KINDS = (GroupKind.XA_PREPARE, GroupKind.XA_COMMIT, GroupKind.XA_ROLLBACK)


class SessionGtid:
    """What a session (THD) knows of the GTID that it owns while it commits one group.

    The binary log is done with the GTID before the engine ends an external XA transaction, so such
    a session pins it: freeing is deferred until the engine has taken it.
    """

    __slots__ = ("_free_is_deferred", "_is_persisted_by_se", "_is_pinned", "group", "owned")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.owned: tuple[str, int] | None = None if group.sid is None else (group.sid, group.gno)
        self._is_pinned = False
        self._free_is_deferred = False
        self._is_persisted_by_se = False

    def pin_gtid(self) -> None:
        """Keep the GTID beyond the end of the binary log's part."""
        self._is_pinned = True

    def unpin_gtid(self) -> None:
        """The engine has taken the GTID: free it if the binary log was done with it."""
        self._is_pinned = False
        if self._free_is_deferred:
            self.free_owned_gtid()

    def free_owned_gtid(self) -> None:
        """The binary log is done with the GTID."""
        self._free_is_deferred = self._is_pinned
        if not self._is_pinned:
            self.owned = None

    def is_external_xa(self) -> bool:
        """Tell whether the session ends a part of an external XA transaction."""
        return self.group.kind in _XA_KINDS

    def is_one_phase_commit(self) -> bool:
        """Tell whether XA COMMIT ... ONE PHASE commits without a PREPARE: as a plain commit."""
        return self.group.kind is GroupKind.XA_ONE_PHASE

    def set_gtid_persisted_by_se(self) -> None:
        """InnoDB promises to persist the GTID: nobody else has to write it into the table."""
        self._is_persisted_by_se = True

    def reset_gtid_persisted_by_se(self) -> None:
        """There is no GTID that InnoDB could persist."""
        self._is_persisted_by_se = False

    def se_persists_gtid(self) -> bool:
        """Tell whether InnoDB has promised to persist the GTID."""
        return self._is_persisted_by_se


def get_gtid_info(session: SessionGtid) -> GtidDesc | None:
    """The GTID for the undo log header; None without a GTID (Clone_persist_gtid::get_gtid_info)."""
    return None if session.owned is None else serialise(*session.owned)
