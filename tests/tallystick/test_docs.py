"""docs/cli.md and the commands agree."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from tallystick import cli
from tallystick.settings import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands(typer.main.get_command(cli.app)))


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
        shown = "none" if default in (None, ()) else f"{default:g}" if isinstance(
            default, float) else str(default)  # fmt: skip
        assert shown == row[1].strip("` "), name


def test_every_help_is_short_and_there():
    """Each command and each flag says what it is for."""
    for path, command in ALL.items():
        assert command.help, path
        assert len(command.help.splitlines()[0]) <= 76, path
        for parameter in command.params:
            assert parameter.help, (path, parameter.name)
