"""A certificate: a judgement with the digests of the files that it is about, sealed.

The seal is an HMAC with a key of the deployment, or, without one, a digest: that shows damage, but
not who has made the certificate.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tallystick.certify.backup import UnreadableBackupError
from tallystick.certify.judge import Check, Truth
from tallystick.coordinates.results import Outcome

FORMAT = "tallystick certificate 1"
_SIGNED, _DIGEST = "hmac-sha256", "sha256"
_BODY = {"format": str, "tallystick": str, "made_at": str, "judgement": dict, "files": list}


@dataclass(frozen=True, slots=True)
class FileDigest:
    """A file as it was read: its name without a directory, its length, its SHA-256."""

    name: str
    bytes: int
    sha256: str


def make_certificate(
    judgement: Mapping[str, Any],
    files: Sequence[FileDigest],
    *,
    version: str,
    made_at: str,
    key: bytes | None,
) -> dict[str, Any]:
    """A certificate as JSON.

    Args:
        judgement: The judgement as JSON.
        files: The files that it was read from.
        version: Of tallystick.
        made_at: When, as ISO 8601.
        key: The key that signs it, None: there is none.
    """
    body = {
        "format": FORMAT,
        "tallystick": version,
        "made_at": made_at,
        "judgement": judgement,
        "files": [asdict(one) for one in files],
    }
    method = _DIGEST if key is None else _SIGNED
    return {**body, "seal": {"method": method, "value": _seal(body, key)}}


def _seal(body: Mapping[str, Any], key: bytes | None) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    if key is None:
        return hashlib.sha256(text).hexdigest()
    return hmac.new(key, text, "sha256").hexdigest()


def read_certificate(file: str, text: str) -> dict[str, Any]:
    """A certificate from the text of its file.

    Raises:
        UnreadableBackupError: It is none.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableBackupError(file, "the file", f"JSON ({error})", text) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UnreadableBackupError(file, "key 'format'", repr(FORMAT), text)
    for key, kind in _BODY.items():
        if not isinstance(found.get(key), kind):
            raise UnreadableBackupError(file, f"key {key!r}", f"a {kind.__name__}")
    seal = found.get("seal")
    if not isinstance(seal, dict) or seal.get("method") not in (_SIGNED, _DIGEST):
        raise UnreadableBackupError(file, "key 'seal'", f"a method: {_SIGNED} or {_DIGEST}")
    for one in found["files"]:
        digest = isinstance(one, dict) and one.keys() == FileDigest.__dataclass_fields__.keys()
        if not digest or not isinstance(one["name"], str) or not _is_plain(one["name"]):
            expected = "name, bytes and sha256 of a file beside it"
            raise UnreadableBackupError(file, "key 'files'", expected, json.dumps(one))
    return found


def _is_plain(name: str) -> bool:
    return bool(name) and name not in (".", "..") and not {"/", "\\", "\0"} & set(name)


def recheck(
    certificate: Mapping[str, Any], found: Mapping[str, FileDigest | None], key: bytes | None
) -> Iterator[Check]:
    """Whether certificate and files are as they were, and what it said.

    Args:
        certificate: As `read_certificate` gives it.
        found: The files by name as they are now, None: not there.
        key: The key of the deployment, None: there is none.
    """
    yield _of_seal(certificate, key)
    for one in certificate["files"]:
        now = found[one["name"]]
        name = "file_is_unchanged"
        if now is None:
            yield Check(name, Outcome.BROKEN, f"{one['name']} is not there any more.")
        elif asdict(now) != one:
            text = f"{one['name']} has changed: {now.bytes} bytes, SHA-256 {now.sha256}."
            yield Check(name, Outcome.BROKEN, text)
        else:
            yield Check(name, Outcome.HOLDS, f"{one['name']} is as it was: {now.bytes} bytes.")
    truth = certificate["judgement"].get("truth")
    outcomes = {Truth.TRUE: Outcome.HOLDS, Truth.FALSE: Outcome.BROKEN}
    text = f"On {certificate['made_at']} the coordinates were found {truth}."
    yield Check("coordinates_were_true", outcomes.get(truth, Outcome.UNDECIDED), text)


def _of_seal(certificate: Mapping[str, Any], key: bytes | None) -> Check:
    name = "certificate_is_unchanged"
    seal = certificate["seal"]
    body = {key: value for key, value in certificate.items() if key != "seal"}
    if seal["method"] == _SIGNED and key is None:
        text = "The certificate is signed, and there is no key here to verify it."
        return Check(name, Outcome.UNDECIDED, text)
    expected = _seal(body, key if seal["method"] == _SIGNED else None)
    if not hmac.compare_digest(expected.encode(), str(seal.get("value")).encode()):
        with_key = ", or was signed with another key" if seal["method"] == _SIGNED else ""
        return Check(name, Outcome.BROKEN, f"The certificate has changed{with_key}.")
    if seal["method"] == _DIGEST and key is not None:
        text = "The certificate is not signed, and there is a key here: anybody may have made it."
        return Check(name, Outcome.UNDECIDED, text)
    return Check(name, Outcome.HOLDS, f"The certificate is as it was made ({seal['method']}).")
