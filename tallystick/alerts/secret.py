"""The secret that signs what a webhook gets: from the environment, or from a file."""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path

from tallystick.errors import MisuseError
from tallystick.producers.secret_file import read_secret_file
from tallystick.settings import ALERTS_SECRET

_PREFIX = "whsec_"
_BYTES_MIN, _BYTES_MAX = 24, 64


def read_secret(path: Path | None) -> bytes | None:
    """The environment's secret, else that of the file; None without either.

    Raises:
        MisuseError: It cannot be read, others can read it, or it is no base64 of 24 to 64 bytes.
    """
    text, where = os.environ.get(ALERTS_SECRET), ALERTS_SECRET
    if text is None:
        if path is None:
            return None
        where = f"alerts_secret_file {str(path)!r}"
        text = read_secret_file(path, lambda reason: MisuseError(f"alerts_secret_file: {reason}"))
    return decoded_secret(text, where)


def decoded_secret(text: str, where: str) -> bytes:
    """The bytes of a secret as it is written.

    Args:
        text: Base64, as ``openssl rand -base64 32`` prints it.
        where: Where it is from, for the message.

    Raises:
        MisuseError: It is no base64 of 24 to 64 bytes.
    """
    try:
        secret = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not _BYTES_MIN <= len(secret) <= _BYTES_MAX:
        raise MisuseError(
            f"{where}: expected the base64 of {_BYTES_MIN} to {_BYTES_MAX} random bytes,"
            " as openssl rand -base64 32 prints"
        )
    return secret
