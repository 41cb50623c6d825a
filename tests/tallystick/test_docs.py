"""docs/cli.md and the commands agree; what README and the other pages name exists."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer.main

from tallystick import cli
from tallystick.coordinates.rules.catalogue import RULES
from tallystick.outputs import NAMES as OUTPUTS
from tallystick.producers.simulator.faults import FAULTS
from tallystick.producers.simulator.negatives import NEGATIVES
from tallystick.producers.simulator.scenarios.catalogue import DESIGN_SCENARIOS
from tallystick.settings import Settings
from tests.support.all_commands import ALL

ROOT = Path(__file__).parents[2]
TOML = (ROOT / "pyproject.toml").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "cli.md").read_text("utf-8")
# Not the changelog, which has names of earlier versions.
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if path.name != "CHANGELOG.md"
)
pages = pytest.mark.parametrize("page", PAGES, ids=[str(one.relative_to(ROOT)) for one in PAGES])


def section(path: tuple[str, ...]) -> str:
    """The part of the page that is about a command."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    found = [part for part in parts if f"`tallystick {path[0]}" in part.splitlines()[0]]
    assert len(found) == 1, f"docs/cli.md has {len(found)} sections about {path[0]}"
    return found[0]


def test_every_command_is_documented():
    """Each command has a section, a group's command is named in that of its group."""
    assert len(ALL) >= 15
    for path in ALL:
        assert f"tallystick {' '.join(path)}" in section(path)


def test_every_flag_is_documented():
    """Each flag of a command is in the command's own section."""
    missing = [
        (" ".join(path), flag)
        for path, command in ALL.items()
        for parameter in command.params
        for flag in (*parameter.opts, *parameter.secondary_opts)
        if flag.startswith("--") and flag != "--help"
        if not re.search(rf"`{flag}[ `]", section(path))
    ]
    assert missing == []


def test_no_flag_is_made_up():
    """The page names no flag that no command has."""
    known = {
        flag
        for command in (*ALL.values(), typer.main.get_command(cli.app))
        for parameter in command.params
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) - known - {"--help"} == set()


def test_every_setting_is_documented_with_its_default():
    """The table of settings has each of them, and the default that it really has."""
    for name, field in Settings.model_fields.items():
        row = re.search(rf"^\| `{name}` \| ([^|]+) \|", PAGE, flags=re.MULTILINE)
        assert row, name
        default = field.default
        shown = "none" if default in (None, (), {}) else f"{default:g}" if isinstance(
            default, float) else str(default)  # fmt: skip
        assert shown == row[1].strip("` "), name


def test_every_number_is_documented_with_its_default():
    """In its row of a table, or after it in a list."""
    for path, command in ALL.items():
        for parameter in command.params:
            if type(parameter.default) in {int, float}:
                flag = parameter.opts[0]
                place = re.search(
                    rf"^\|.*`{flag} .*|`{flag} [^`]*`[^`]*", section(path), re.MULTILINE
                )
                assert place, (path, flag)
                assert re.search(rf"\b{parameter.default:g}\b", place[0]), (path, flag)


def test_every_help_is_short_and_there():
    """Each command and each flag says what it is for."""
    for path, command in ALL.items():
        assert command.help, path
        assert len(command.help.splitlines()[0]) <= 76, path
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)


def functions(app: typer.Typer, path: str = "tallystick") -> Iterator[tuple[str, Any]]:
    for one in app.registered_commands:
        yield f"{path} {one.name or one.callback.__name__}", one.callback
    for group in app.registered_groups:
        yield from functions(group.typer_instance, f"{path} {group.name}")


def test_every_number_has_both_ends():
    """What is too large or infinite is refused where it is given, not met deep inside.

    Settings have ends of their own; a seed is any number.
    """
    numbers = [
        (f"{path} {name}", option)
        for path, function in functions(cli.app)
        for name, hint in get_type_hints(function, include_extras=True).items()
        if name not in {"return", "seed", *Settings.model_fields}
        for kind, option, *_ in [get_args(hint)]
        if {int, float} & {kind, *get_args(kind)}
    ]
    assert len(numbers) > 20
    assert [name for name, option in numbers if None in (option.min, option.max)] == []


NAMES = {
    "--fault": FAULTS, "--negative": NEGATIVES, "--scenario": DESIGN_SCENARIOS, "--disable": RULES,
    "rules": RULES, "faults": FAULTS,
}  # fmt: skip
TARGETS = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def code(text: str) -> list[str]:
    """The lines of code of a page, and its code spans, without what follows # or a pipe."""
    parts = text.split("```")
    prose = "\n".join(parts[::2])
    spans = re.findall(r"`([^`]+)`|^ {4}(.+)$", prose, flags=re.MULTILINE)
    lines = [*"\n".join(parts[1::2]).splitlines(), *("".join(one) for one in spans)]
    return [" ".join(re.split(r" [#|] ", line)[0].split()) for line in lines]


def is_known(line: str) -> bool:
    """Whether a command line names a command or target, flags and names that there are."""
    program, *words = line.split()
    if program == "make":
        return all(word in TARGETS for word in words if word.islower())
    path = next((tuple(words[:n]) for n in (2, 1) if tuple(words[:n]) in ALL), None)
    if path is None:
        return len(words) == 1 and any(one[0] == words[0] for one in ALL)
    flags = {flag for one in ALL[path].params for flag in one.opts + one.secondary_opts}
    known = NAMES if path == ("simulate",) else {**NAMES, "--output": OUTPUTS}
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--") and word not in {*flags, "--help"}:
            return False
        name = value.partition("=")[0]
        if re.fullmatch(r"[a-z][a-z0-9_]+", name) and name not in known.get(word, {name}):
            return False
    return True


def wrong_commands(text: str) -> list[str]:
    """The command lines of a page that are not known."""
    lines = [line for line in code(text) if re.match(r"(tallystick|make) [a-z]", line)]
    return [line for line in lines if not is_known(line)]


@pages
def test_commands_of_a_page_exist(page: Path) -> None:
    """Each command line that a page shows has a command, flags and names that are there today."""
    assert wrong_commands(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "line",
    [
        "tallystick chek", "tallystick demo --trap x", "tallystick lab sleep", "make demos",
        "tallystick demo --fault no_such_fault", "tallystick rules no_such_rule",
        "tallystick replay journal.jsonl --output yaml=x",
    ],
)  # fmt: skip
def test_a_wrong_command_is_seen(line: str) -> None:
    """The check itself: commands, flags, faults, rules, outputs and targets."""
    assert wrong_commands(f"`{line}`") == [line]
    assert wrong_commands(f"    {line}  # a comment\n") == [line]


@pages
def test_what_a_page_points_to_exists(page: Path) -> None:
    """Links lead to files; modules, tests and extras that are named are there."""
    text = page.read_text("utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    assert [one for one in links if not (page.parent / one).exists()] == []
    top = "coordinates|producers|streaming|expectations|deploy|tallystick|tests|docs|benchmarks"
    paths = re.findall(rf"`((?:{top})/[\w/]+\.(?:py|md|service|sha256))", text)
    assert [one for one in paths if not (ROOT / one).exists()] == []
    tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)", text)
    assert [one for one in tests if one[1] not in (ROOT / one[0]).read_text("utf-8")] == []
    extras = re.findall(r"pip install .*\.\[([\w,]+)\]", text)
    assert [one for many in extras for one in many.split(",") if f"\n{one} = [" not in TOML] == []


def test_the_sample_of_the_readme_is_what_its_commands_print(tmp_path: Path) -> None:
    """The first commands of README.md print the first block below them, on 100 columns.

    Not compared: the number of checks, which every new rule changes.
    """
    lines = [line[4:] for line in README.splitlines() if line.startswith("    tallystick ")][:2]
    shown = re.findall(r"^```\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)[0]
    printed, status = "", 0
    for line in lines:
        status, printed = on_a_terminal(line, tmp_path)
    shown, printed = (re.sub(r"\d+ checks", "N checks", text) for text in (shown, printed))
    assert (1, shown) == (status, printed)


def on_a_terminal(line: str, directory: Path) -> tuple[int, str]:
    """Run a command line of tallystick; returns exit status and standard output, without styles."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLYSTICK")}
    reader, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "tallystick.cli", *line.split()[1:]],
        cwd=directory,
        env={**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "TERM": "xterm"},
        stdout=terminal,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(terminal)
        printed = b""
        while piece := read(reader):
            printed += piece
    os.close(reader)
    text = printed.decode("utf-8").replace("\r\n", "\n")
    return process.returncode, re.sub(r"\x1b\[[0-9;]*m", "", text)


def read(descriptor: int) -> bytes:
    """What comes from a terminal; nothing once its other side is closed."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
