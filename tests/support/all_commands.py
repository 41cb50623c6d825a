"""The commands of tallystick with their flags and arguments, as Typer has made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from tallystick import cli


def _commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(_commands(typer.main.get_command(cli.app)))
"""By their words."""
