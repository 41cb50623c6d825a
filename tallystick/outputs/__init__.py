"""How a run's result is written: each module of this package is an output, found by its name.

An output is a module with a function ``write(result, target)``. The target is what comes after
``NAME=`` on the command line: most often a file, ``-`` for standard output. Without it the target
is the module's ``DEFAULT``, or standard output. A new output is a new module here and its test;
nothing lists the outputs. Modules whose names begin with an underscore
are shared by several outputs.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from tallystick.errors import MisuseError
from tallystick.names import suggestion
from tallystick.runs.result import RunResult
from tallystick.terminal import STANDARD_STREAM, show_text


class Output(Protocol):
    """One form of a result: a module of this package."""

    def write(self, result: RunResult, target: str, /) -> None:
        """Write a result.

        Raises:
            MisuseError: The target cannot be written.
        """


class Request(NamedTuple):
    """An output that is asked for, and where it is to go."""

    name: str
    target: str


NAMES = sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def requests_of(texts: Sequence[str]) -> list[Request]:
    """Read ``NAME`` or ``NAME=TARGET`` each; text goes to standard output if nothing else does.

    Raises:
        MisuseError: A name is not known, a target is empty, or two outputs go to one target.
    """
    requests = []
    for text in texts:
        name, has_target, target = text.partition("=")
        if name not in NAMES:
            hint = suggestion(name, dict.fromkeys(NAMES)) or f": expected {', '.join(NAMES)}"
            raise MisuseError(f"no output has the name {name!r}{hint}")
        if has_target and not target:
            raise MisuseError(f"--output {text!r}: expected NAME=FILE, or NAME alone")
        default: str = getattr(_output(name), "DEFAULT", STANDARD_STREAM)
        requests.append(Request(name, target or default))
    by_target: dict[str, list[Request]] = {}
    for request in requests:
        target = request.target
        # Of one file there are many names, as x and ./x.
        one = target if target == STANDARD_STREAM else os.path.realpath(target)
        by_target.setdefault(one, []).append(request)
    for together in by_target.values():
        if len(together) > 1:
            target = together[0].target
            where = "standard output" if target == STANDARD_STREAM else repr(target)
            names = " and ".join(name for name, _ in together)
            raise MisuseError(f"{names} cannot both go to {where}: expected NAME=FILE")
    return (
        requests if STANDARD_STREAM in by_target else [Request("text", STANDARD_STREAM), *requests]
    )


def write_all(result: RunResult, requests: Sequence[Request]) -> None:
    """Write a result in each form that is asked for.

    Raises:
        MisuseError: A target cannot be written.
    """
    for name, target in requests:
        _output(name).write(result, target)


def _output(name: str) -> Output:
    return cast("Output", importlib.import_module(f"{__name__}.{name}"))


def document(render: Callable[[RunResult], str]) -> Callable[[RunResult, str], None]:
    """The ``write`` of an output that is one text, in a file or on standard output."""

    def write(result: RunResult, target: str) -> None:
        text = render(result)
        if target == STANDARD_STREAM:
            show_text(text)
            return
        try:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            # What UTF-8 cannot spell (a lone surrogate, which JSON can) becomes an escape.
            Path(target).write_text(text, "utf-8", "backslashreplace")
        except OSError as error:
            raise MisuseError(f"{target!r} cannot be written: {error.strerror}") from error

    return write
