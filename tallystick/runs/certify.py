"""The coordinates of a backup, read from its files and judged against journals."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick import __version__, terminal
from tallystick.alerts.secret import decoded_secret
from tallystick.certify.backup import UnreadableBackupError
from tallystick.certify.certificate import (
    FileDigest,
    make_certificate,
    read_certificate,
    recheck,
)
from tallystick.certify.formats import HEAD_BYTES, Form, all_forms, files_of
from tallystick.certify.history import histories_of
from tallystick.certify.judge import Check, Judgement, judge
from tallystick.certify.statements import start_statements
from tallystick.coordinates.events.json_lines import JsonLinesError, blocks_from_lines
from tallystick.coordinates.events.later_epochs import in_later_epochs
from tallystick.coordinates.values.errors import JournalError
from tallystick.errors import MisuseError
from tallystick.journal_topic import client_of
from tallystick.names import require_instance
from tallystick.overwriting import refuse_overwriting
from tallystick.producers.journal_reader import JournalReader
from tallystick.producers.secret_file import read_secret_file
from tallystick.require_broker import require_broker
from tallystick.runs.replay import lines_of, refusal
from tallystick.settings import load

if TYPE_CHECKING:
    from tallystick.certify.backup import Backup
    from tallystick.certify.history import History
    from tallystick.coordinates.events.journal import Block
    from tallystick.settings import Settings

_POLL_S = 0.2
_CHUNK_BYTES = 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"qpress10": "qpress",
    b"XBCRYP": "xbcrypt",
    b"XBSTCK": "xbstream",
}
_PACKED_SUFFIXES = (".zst", ".lz4", ".qp", ".xbcrypt")


def certify(
    path: Path, read_histories: Callable[[], dict[str, History]], instance_id: str | None
) -> Judgement:
    """Judge the coordinates in a backup.

    Args:
        path: The backup: its directory, or a file of it.
        read_histories: Reads the journals, when the backup has been read.
        instance_id: The server that it was taken from, None: the one that fits.

    Raises:
        MisuseError: A file cannot be read, or is not in its form.
    """
    backup = read_backup(path)
    histories = read_histories()
    if instance_id is not None:
        require_instance(instance_id, histories)
    return judge(backup, histories, instance_id)


def write_certificate(file: Path, path: Path, judge_it: Callable[[], Judgement]) -> Judgement:
    """Judge a backup, and write a certificate of it.

    Args:
        file: Where the certificate is to be.
        path: The backup.
        judge_it: Judges it.

    Raises:
        MisuseError: The certificate cannot be written, or would be written over a file of the
            backup, or these changed meanwhile.
    """
    key = _key()
    files = _files(path)[1]
    refuse_overwriting(file, files)
    before = [_state_of(one) for one in files]
    digests = [digest_of(one) for one in files]
    judgement = judge_it()
    if before != [_state_of(one) for one in files]:
        raise MisuseError(f"{str(path)!r} changed while it was read; try again")
    certificate = make_certificate(
        document(judgement),
        digests,
        version=__version__,
        made_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        key=key,
    )
    try:
        file.write_text(json.dumps(certificate, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise MisuseError(f"{str(file)!r} cannot be written: {error.strerror}") from error
    return judgement


def recheck_certificate(file: Path, path: Path | None) -> tuple[dict[str, Any], list[Check]]:
    """Whether a certificate and the files that it is about are as they were.

    Args:
        file: The certificate.
        path: The backup, None: it is beside the certificate.

    Raises:
        MisuseError: A file cannot be read, or is no certificate.
    """
    certificate = read_certificate(file.name, _head(file))
    beside = file.parent if path is None else path
    directory = beside if beside.is_dir() else beside.parent
    found: dict[str, FileDigest | None] = {}
    for one in certificate["files"]:
        where = directory / one["name"]
        found[one["name"]] = digest_of(where) if where.exists() else None
    return certificate, list(recheck(certificate, found, _key()))


def _key() -> bytes | None:
    """The key that signs certificates, None: the deployment has none."""
    path = load().settings.certificate_key_file
    if path is None:
        return None
    text = read_secret_file(path, lambda reason: MisuseError(f"certificate_key_file: {reason}"))
    return decoded_secret(text, f"certificate_key_file {str(path)!r}")


def _state_of(file: Path) -> tuple[int, ...]:
    try:
        state = file.stat()
    except OSError as error:
        raise MisuseError(f"{str(file)!r} cannot be read: {error.strerror}") from error
    return state.st_ino, state.st_size, state.st_mtime_ns


def digest_of(file: Path) -> FileDigest:
    """Length and SHA-256 of a whole file.

    Raises:
        MisuseError: It cannot be read, or may have no end, as a device.
    """
    if file.exists() and not file.is_file():
        raise MisuseError(f"expected a regular file, found {str(file)!r}")
    digest, length = hashlib.sha256(), 0
    try:
        with file.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                length += len(chunk)
    except OSError as error:
        raise MisuseError(f"{str(file)!r} cannot be read: {error.strerror}") from error
    return FileDigest(file.name, length, digest.hexdigest())


def read_backup(path: Path) -> Backup:
    """The coordinates in a backup.

    Raises:
        UnreadableBackupError: It is in no form that is known, or damaged.
        MisuseError: A file cannot be read.
    """
    form, files = _files(path)
    return form.read({file.name: _head(file) for file in files})


def _files(path: Path) -> tuple[Form, list[Path]]:
    """The form of a backup, and its files that have coordinates."""
    try:
        is_directory = path.is_dir()
        names = sorted(file.name for file in path.iterdir()) if is_directory else [path.name]
    except OSError as error:
        raise MisuseError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    forms = all_forms()
    found = [(form, files) for form in forms if (files := files_of(form, names))]
    exact = [(form, files) for form, files in found if not _is_by_suffix(form)]
    chosen = exact or found
    if not chosen and not is_directory:
        # A dump may have any name.
        chosen = [(form, names) for form in forms if _is_by_suffix(form)]
    if len(chosen) == 1:
        form, files = chosen[0]
        return form, [path / name if is_directory else path for name in files]
    for name in names:
        if name.endswith(_PACKED_SUFFIXES) and any(files_of(f, [Path(name).stem]) for f in forms):
            raise UnreadableBackupError(name, "its name", "a file that is not packed", name)
    wanted = ", ".join(name for form in forms for name in form.FILES)
    what = " and ".join(form.TITLE for form, _ in chosen) if chosen else None
    raise UnreadableBackupError(str(path), "the directory", f"one backup: {wanted}", what)


def _is_by_suffix(form: Form) -> bool:
    return all(name.startswith("*") for name in form.FILES)


def _head(file: Path) -> str:
    """The beginning of a file, unpacked if gzip has packed it."""
    try:
        with file.open("rb") as source:
            magic = source.read(max(map(len, _PACKED)))
            source.seek(0)
            if magic.startswith(_GZIP_MAGIC):
                head = gzip.GzipFile(fileobj=source).read(HEAD_BYTES)
            else:
                head = source.read(HEAD_BYTES)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnreadableBackupError(file.name, "its gzip form", f"a whole file ({error})") from None
    except OSError as error:
        raise MisuseError(f"{str(file)!r} cannot be read: {error.strerror}") from error
    for prefix, name in _PACKED.items():
        if head.startswith(prefix):
            raise UnreadableBackupError(file.name, "its beginning", "a file that is unpacked", name)
    return head.decode("utf-8", "replace")


def read_journals(files: Sequence[str]) -> dict[str, History]:
    """The journals of all instances, as JSON Lines.

    Args:
        files: Of several observers in the order in which they are given.

    Raises:
        MisuseError: A file cannot be read, or has no records.
    """
    name = ""
    epochs: dict[str, int] = {}

    def blocks() -> Iterator[Block]:
        nonlocal name
        for name in files:
            read = blocks_from_lines(lines_of(name))
            for block in in_later_epochs(read, lambda one: epochs.get(one, -1) + 1):
                epochs[block.instance_id] = max(block.epoch, epochs.get(block.instance_id, 0))
                yield block

    try:
        return histories_of(blocks())
    except JsonLinesError as error:
        raise MisuseError(refusal(name, error)) from None
    except JournalError as error:
        raise MisuseError(f"{name!r}: {error}") from None


def read_topic(settings: Settings) -> dict[str, History]:
    """The journals of all instances in the journal topic, to its present end.

    A message that cannot be read is noticed, and is a gap.

    Raises:
        BrokerUnreachableError: No broker answers.
        TopicError: The topic does not exist.
        MisuseError: A record cannot be read.
    """
    require_broker(settings)
    reader = JournalReader(
        settings.bootstrap_servers,
        topic=f"{settings.topic_prefix}.journal",
        notice=terminal.notice,
        client=client_of(settings),
    )

    def blocks() -> Iterator[Block]:
        while not reader.is_past_start:
            yield from reader.poll(_POLL_S)

    with closing(reader):
        try:
            return histories_of(blocks())
        except JournalError as error:
            raise MisuseError(f"{settings.topic_prefix}.journal: {error}") from None


def document(judgement: Judgement) -> dict[str, Any]:
    """A judgement as JSON."""
    backup = judgement.backup
    redo = backup.redo
    return {
        "truth": judgement.truth.value,
        "form": backup.form,
        "instance": judgement.instance_id,
        "coordinates": {
            "binlog": None if backup.position is None else _place(backup.position),
            "gtid_executed": None if backup.gtids is None else str(backup.gtids),
            "replica": [
                {"channel": one.channel, **({} if one.position is None else _place(one.position))}
                for one in backup.replica
            ],
            "lsn": None
            if redo is None
            else {"from": redo.from_lsn, "to": redo.to_lsn, "last": redo.last_lsn},
            "server_uuid": backup.server_uuid,
        },
        "checks": [
            {"name": name, "outcome": outcome.value, "sentence": sentence}
            for name, outcome, sentence in judgement.checks
        ],
        "statements": start_statements(judgement),
    }


def _place(position: Any) -> dict[str, Any]:
    return {"file": position.file_name, "position": position.position}
