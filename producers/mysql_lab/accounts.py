"""The lab's accounts: one password each, made by chance, and rights as narrow as their work."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tallystick.producers.mysql.dialect import Dialect
from tallystick.producers.mysql.rights import Right, rights_of
from tallystick.producers.mysql_lab.errors import LabError

VERSION = "8.0.31"
ADMIN = "root"
LOAD = "lab_load"
REPLICATION = "lab_replication"
AUDIT = "lab_audit"
LOAD_DATABASES = "lab\\_%"


def _new_password() -> str:
    # SOURCE_PASSWORD takes at most 32 characters.
    return secrets.token_hex(16)


def audit_rights() -> tuple[Right, ...]:
    """What the collector needs on a server of the lab, and no more."""
    return rights_of(Dialect.of(VERSION))


@dataclass(frozen=True, slots=True)
class Accounts:
    """The passwords of the lab's accounts; none of them is shown by repr."""

    admin: str = field(default_factory=_new_password, repr=False)
    load: str = field(default_factory=_new_password, repr=False)
    replication: str = field(default_factory=_new_password, repr=False)
    audit: str = field(default_factory=_new_password, repr=False)

    def statements(self) -> str:
        """The SQL that makes the accounts, one statement to a line."""
        lines = [
            f"ALTER USER {ADMIN}@localhost IDENTIFIED BY '{self.admin}'",
            *(
                f"CREATE USER {user}@localhost IDENTIFIED BY '{password}'"
                for user, password in (
                    (LOAD, self.load),
                    (REPLICATION, self.replication),
                    (AUDIT, self.audit),
                )
            ),
            f"GRANT ALL ON `{LOAD_DATABASES}`.* TO {LOAD}@localhost",
            # FLUSH BINARY LOGS, and XA RECOVER for what an earlier load has left prepared.
            f"GRANT RELOAD, XA_RECOVER_ADMIN ON *.* TO {LOAD}@localhost",
            f"GRANT REPLICATION SLAVE ON *.* TO {REPLICATION}@localhost",
            *(right.grant(f"{AUDIT}@localhost").rstrip(";") for right in audit_rights()),
        ]
        return "".join(f"{line};\n" for line in lines)


def write_private(path: Path, text: str) -> None:
    """Writes a file that only this user can read.

    Raises:
        OSError: it cannot be written.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)


def save_accounts(accounts: Accounts, path: Path) -> None:
    """Keeps the passwords in a file that only this user can read."""
    write_private(path, json.dumps(asdict(accounts)) + "\n")


def load_accounts(path: Path) -> Accounts:
    """Reads the passwords that `save_accounts` kept.

    Raises:
        LabError: they are not there, or not whole.
    """
    try:
        saved = json.loads(path.read_text("ascii"))
        return Accounts(**{name: str(saved[name]) for name in Accounts.__dataclass_fields__})
    except (OSError, ValueError, KeyError, TypeError):
        directory = shlex.quote(str(path.absolute().parent.parent))
        raise LabError(
            f"{str(path)!r} does not have the lab's passwords. To fix: tallystick lab up --fresh"
            f" --directory {directory}"
        ) from None
