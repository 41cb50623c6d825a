"""Long lines on a terminal; and what came from outside can do nothing to it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tallystick import terminal

HOSTILE = {
    "colour and cursor": "\x1b[31m\x1b[2J",
    "bell": "\x07",
    "another encoding's control": "\x9b31m",
    "right to left": "\u202etxet\u202c",
    "zero width": "a\u200bb",
    "line end": "a\nCONSISTENT",
    "rich markup": "[bold red]x[/] [link=file:///etc/passwd]y[/link]",
    "emoji code": ":skull:",
    "half a surrogate pair": "\ud83d",
}


def journal(name: str) -> str:
    """The example of docs/journal.md under another name, with a row that contradicts its log."""
    page = (Path(__file__).parents[2] / "docs" / "journal.md").read_text("utf-8")
    records = [json.loads(line) for line in page.split("```json\n")[1].split("```")[0].splitlines()]
    records[-1]["collection_id"] = name
    records[-1]["row"]["LOCAL"]["gtid_executed"] += "-2"
    return "".join(json.dumps({**record, "instance": name}) + "\n" for record in records)


def is_harmless(text: str) -> bool:
    return all(
        character == "\n" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
        for character in text
    )


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_instance_does_nothing_to_the_terminal(tallystick, tmp_path, name):
    """Names of instances and collections are shown as they are spelt, or refused as they are."""
    (tmp_path / "j").write_text(journal(name))
    ran = tallystick("replay", "j")
    assert is_harmless(ran.out)
    assert is_harmless(ran.err)
    if ran.code == 2:  # no instance can have this name
        assert "key 'instance'" in ran.err
        return
    assert 1 == ran.code
    assert f"  {spelt(name)}, 0.000 s into the journal" in ran.out
    # As JSON the name is whole, and still harmless.
    document = tallystick("replay", "j", "--json").out
    assert is_harmless(document)
    assert name == json.loads(document)["findings"][0]["instance_id"]


def spelt(name: str) -> str:
    """How a name is shown: what cannot be seen as its escape."""
    return "".join(
        character.encode("unicode_escape", "surrogatepass").decode()
        if not is_harmless(character) or character == "\n"
        else character
        for character in name
    )


def test_a_hostile_file_name_does_nothing_to_the_terminal(tallystick):
    """Notices on stderr are escaped too."""
    ran = tallystick("replay", "no\x1b[31msuch")
    assert 2 == ran.code
    assert is_harmless(ran.err)


def test_a_long_line_goes_on_below_indented_deeper(capsys, monkeypatch):
    """On a terminal; a command that is copied from it stays whole, and so does all in a file."""
    sentence = f"    {'word ' * 14}end"
    command = terminal.Command(f"tallystick {'--flag ' * 9}")
    terminal.show(sentence, command)
    assert [sentence, command] == capsys.readouterr().out.splitlines()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    terminal.show(sentence, command)
    first, *below, last = capsys.readouterr().out.splitlines()
    assert [4, 6] == [len(each) - len(each.lstrip()) for each in (first, below[0])]
    assert {6} == {len(each) - len(each.lstrip()) for each in below}
    assert all(len(each) <= 40 for each in (first, *below))
    assert sentence.split() == " ".join((first, *below)).split()
    assert command == last


SHOWS_PROGRESS = """
from tallystick import terminal
with terminal.progress("first") as progress:
    terminal.notice("a notice")
    progress.done("it is over")
terminal.show("the result")
"""


def test_progress_on_a_terminal_ends():
    """Rich puts itself in the place of standard error: it must not be handed what it writes."""
    reader, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", SHOWS_PROGRESS],
        env={**os.environ, "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        try:
            assert 0 == process.wait(timeout=60)
        finally:
            process.kill()
    printed = os.read(reader, 65_536).decode()
    os.close(reader)
    for text in ("tallystick: a notice", "first", "tallystick: it is over", "the result"):
        assert text in printed
