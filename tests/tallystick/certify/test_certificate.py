"""Certificates: what was true is found true again, and every later damage is found."""

from __future__ import annotations

import json

import pytest

from tests.support.journals import UUID_A, Journal

KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
OTHER_KEY = KEY[::-1][1:] + "="


@pytest.fixture
def key(tmp_path, monkeypatch):
    """Give the deployment a key."""

    def give(text=KEY, mode=0o600):
        file = tmp_path / "key"
        file.write_text(text)
        file.chmod(mode)
        monkeypatch.setenv("TALLYSTICK_CERTIFICATE_KEY_FILE", str(file))

    return give


@pytest.fixture
def backup(tallystick, tmp_path):
    """A backup that is true, its files, and a command that certifies it."""
    journal = Journal().begin()
    journal.row()
    journal.groups(3)
    file, position = journal.binlog.coordinates
    journal.groups(1).row()
    lines = tmp_path / "journal.jsonl"
    lines.write_text("\n".join(journal.lines()))
    directory = tmp_path / "backup"
    directory.mkdir()
    (directory / "xtrabackup_binlog_info").write_text(f"{file}\t{position}\t{UUID_A}:1-3\n")
    (directory / "backup-my.cnf").write_text(f"[mysqld]\nserver_uuid={UUID_A}\n")
    certificate = directory / "certificate.json"

    def certify():
        written = ("--write", str(certificate))
        return tallystick("certify", str(directory), "--journal", str(lines), *written)

    return directory, certificate, certify


@pytest.fixture
def recheck(tallystick, backup):
    """Recheck the certificate, and give its exit status and the questions that it does not hold."""

    def run(*arguments):
        ran = tallystick("certify", "--recheck", str(backup[1]), *arguments, "--json")
        if ran.code == 2:
            return 2, ran.err
        bad = [c["name"] for c in json.loads(ran.out)["checks"] if c["outcome"] != "holds"]
        return ran.code, bad

    return run


@pytest.mark.parametrize("is_signed", [True, False])
def test_what_is_as_it_was(tallystick, backup, recheck, key, is_signed):
    """Beside the certificate, and wherever the backup is now; the statements are there again."""
    directory, certificate, certify = backup
    if is_signed:
        key()
    assert certify().code == 0
    assert recheck() == (0, [])
    method = json.loads(certificate.read_text())["seal"]["method"]
    assert method == ("hmac-sha256" if is_signed else "sha256")
    moved = directory.with_name("moved")
    directory.rename(moved)
    moved_certificate = str(moved / certificate.name)
    for more in ([], [str(moved)], [str(moved / "backup-my.cnf")]):
        ran = tallystick("certify", "--recheck", moved_certificate, *more)
        assert (ran.code, ran.err) == (0, "")
        assert "gtid_purged" in ran.out


def test_a_damaged_file(backup, recheck):
    """Changed by one byte, longer, or not there any more."""
    directory, _, certify = backup
    certify()
    file = directory / "xtrabackup_binlog_info"
    whole = file.read_bytes()
    for damaged in (whole.replace(b":1-3", b":1-4"), whole + b"\n", b""):
        file.write_bytes(damaged)
        assert recheck() == (1, ["file_is_unchanged"])
    file.unlink()
    assert recheck() == (1, ["file_is_unchanged"])
    file.write_bytes(whole)
    assert recheck() == (0, [])


def test_a_file_without_an_end(backup, recheck):
    """Its length and digest would be waited for."""
    directory, certificate, certify = backup
    certify()
    file = directory / "xtrabackup_binlog_info"
    file.unlink()
    file.symlink_to("/dev/zero")
    refused = f"expected a regular file, found {str(file)!r}"
    assert recheck()[0] == 2
    assert refused in recheck()[1]
    certificate.unlink()
    assert refused in certify().err
    assert not certificate.exists()


@pytest.mark.parametrize("is_signed", [True, False])
def test_a_damaged_certificate(backup, recheck, key, is_signed):
    """Whatever is changed in it; who has no key cannot seal it again."""
    _, certificate, certify = backup
    if is_signed:
        key()
    certify()
    text = certificate.read_text()
    changed = {
        text.replace(f"{UUID_A}:1-3", f"{UUID_A}:1-9"),
        text.replace('"made_at": "', '"made_at": "1'),
        text.replace('"value": "', '"value": "0'),
    }
    assert text not in changed
    for one in changed:
        certificate.write_text(one)
        assert recheck() == (1, ["certificate_is_unchanged"])


def test_keys(backup, recheck, key):
    """Another key is damage; without one, or without a signature, nobody knows who made it."""
    certify = backup[2]
    certify()
    key()
    assert recheck() == (3, ["certificate_is_unchanged"])
    certify()
    assert recheck() == (0, [])
    key(OTHER_KEY)
    assert recheck() == (1, ["certificate_is_unchanged"])


def test_a_signature_without_a_key(backup, recheck, key, monkeypatch):
    """It cannot be verified."""
    key()
    backup[2]()
    monkeypatch.delenv("TALLYSTICK_CERTIFICATE_KEY_FILE")
    assert recheck() == (3, ["certificate_is_unchanged"])


def test_what_was_not_true_is_not_true_again(backup, recheck):
    """A certificate of a false backup is written, and stays what it is."""
    directory, _, certify = backup
    (directory / "xtrabackup_binlog_info").write_text(f"binlog.000001\t158\t{UUID_A}:1\n")
    assert certify().code == 1
    assert recheck() == (1, ["coordinates_were_true"])
    (directory / "xtrabackup_binlog_info").write_text(f"binlog.000007\t158\t{UUID_A}:1\n")
    assert certify().code == 3
    assert recheck() == (3, ["coordinates_were_true"])


def test_keys_that_are_none(backup, key):
    """Open to others, not there, too short: said before anything is judged, never shown."""
    certify = backup[2]
    for text, mode, words in ((KEY, 0o644, "open to others"), ("c2hvcnQ=", 0o600, "expected")):
        key(text, mode)
        ran = certify()
        assert ran.code == 2
        assert words in ran.err
        assert text not in ran.err
    assert not backup[1].exists()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (str, "the file"),
        (lambda c: {**c, "format": "tallystick certificate 9"}, "key 'format'"),
        (lambda c: {**c, "files": {}}, "key 'files'"),
        (lambda c: {**c, "files": [{**c["files"][0], "name": "../x"}]}, "key 'files'"),
        (lambda c: {**c, "files": [{**c["files"][0], "more": 1}]}, "key 'files'"),
        (lambda c: {**c, "files": [7]}, "key 'files'"),
        (lambda c: {**c, "made_at": None}, "key 'made_at'"),
        (lambda c: {**c, "seal": {"method": "none"}}, "key 'seal'"),
        (lambda c: [c], "key 'format'"),
    ],
)
def test_what_is_no_certificate(backup, recheck, change, where):
    """What, where, and what was expected."""
    _, certificate, certify = backup
    certify()
    changed = change(json.loads(certificate.read_text()))
    certificate.write_text(changed if isinstance(changed, str) else json.dumps(changed))
    code, error = recheck()
    assert code == 2
    assert f"'certificate.json', {where}: expected" in error


def test_usage(tallystick, backup, tmp_path):
    """What belongs together."""
    directory = str(backup[0])
    for arguments in (
        [directory],
        ["--journal", "x"],
        ["--recheck", "x", "--journal", "y"],
        ["--recheck", "x", "--write", "y"],
        ["--recheck", str(tmp_path / "none")],
    ):
        ran = tallystick("certify", *arguments)
        assert (ran.code, ran.out) == (2, "")
    unwritable = ("--write", str(tmp_path / "no" / "directory"))
    ran = tallystick(
        "certify", directory, "--journal", str(tmp_path / "journal.jsonl"), *unwritable
    )
    assert ran.code == 2
    assert "cannot be written" in ran.err
