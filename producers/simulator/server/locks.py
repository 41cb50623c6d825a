"""Whom changes of a server ask before they go on: backups and clones hold them back.

Where a moment has an argument ``again``, who says False calls it when the change may go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.producers.simulator.kernel.bus import Permit

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallystick.producers.simulator.kernel.instance import Instance
    from tallystick.producers.simulator.kernel.transactions import Group, GroupKind

MAY_WRITE: Permit[[Instance, GroupKind, Callable[[], None]]] = Permit(
    "a client is to change data: (instance, kind, again)"
)
MAY_EXECUTE: Permit[[Instance, GroupKind, Callable[[], None]]] = Permit(
    "a client or an applier is to execute a group: (instance, kind, again)"
)
MAY_MOVE: Permit[[Instance, Callable[[], None]]] = Permit(
    "the binary log, or what a channel has read or executed, is to move: (instance, again)"
)
MAY_COMMIT: Permit[[Instance, Group]] = Permit(
    "a group is to be committed; False: whoever asks tries again after a while"
)
