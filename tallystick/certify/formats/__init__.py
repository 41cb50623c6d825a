"""Forms of backups: each module here reads one, and nothing lists them.

A form is a module with ``FILES``, the names of the files that it reads (a name that begins with
``*`` is a suffix), and ``read(files)``, which makes a `Backup` of their beginnings, by name. A new
form is a new module and its cases in the tests. Modules whose names begin with an underscore are
shared by several.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallystick.certify.backup import Backup

HEAD_BYTES = 4 * 1024 * 1024
"""How much of a file is read: its coordinates are in its beginning."""


class Form(Protocol):
    """One form of backups: a module of this package."""

    FILES: tuple[str, ...]
    TITLE: str

    def read(self, files: Mapping[str, str], /) -> Backup:
        """The coordinates that the files have.

        Raises:
            UnreadableBackupError: A file is not in its form.
        """


NAMES = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def all_forms() -> list[Form]:
    """Every form, in the order of their names."""
    return [cast("Form", importlib.import_module(f"{__name__}.{name}")) for name in NAMES]


def files_of(form: Form, names: list[str]) -> list[str]:
    """Which of some file names a form reads."""
    return [name for name in names if any(_fits(name, wanted) for wanted in form.FILES)]


def _fits(name: str, wanted: str) -> bool:
    plain = name.removesuffix(".gz")
    return plain.endswith(wanted[1:]) if wanted.startswith("*") else plain == wanted
