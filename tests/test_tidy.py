"""What no tracked file may hold: package hosts, paths of one machine, wide prose, idle options."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each has a mark in it that is taken out here, so that this file does not hold what it looks for.
HOSTS = [
    host.replace("~", "")
    for host in ("py~pi.org", "python~hosted.org", "maven~.org", "maven.apache~.org", "npm~js.")
]
FOLDERS = [folder.replace("~", "") for folder in ("wo~rk", "ro~ot", "opt/whe~els")]
UNWANTED = re.compile(
    f"{'|'.join(map(re.escape, HOSTS))}|(?<![A-Za-z0-9_.-])/(?:{'|'.join(FOLDERS)})/"
)


def unwanted(text: str) -> list[str]:
    """Returns what of a text names a registry's host or a path of one machine."""
    return [found.group() for found in UNWANTED.finditer(text)]


def tracked_files() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of tracked files")
    listed = subprocess.run(
        [git, "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode("utf-8")
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_no_tracked_file_names_a_registry_or_a_machine() -> None:
    """A clone works anywhere: it knows no package host by name and no directory of ours."""
    files = tracked_files()
    assert files
    held = {
        str(path.relative_to(ROOT)): found
        for path in files
        if (found := unwanted(path.read_bytes().decode("utf-8", "replace")))
    }
    assert held == {}


@pytest.mark.parametrize(
    "text", [f"see https://{HOSTS[0]}/simple", f"cd /{FOLDERS[0]}/x", f"'/{FOLDERS[1]}/.cache'"]
)
def test_what_is_unwanted_is_seen(text: str) -> None:
    """The check itself: a host, a path, a quoted path."""
    assert len(unwanted(text)) == 1


@pytest.mark.parametrize("text", ["network/main", "../work/x", "/var/lib/mysql/", "the root/"])
def test_ordinary_text_is_left_alone(text: str) -> None:
    """Words that contain such a word are no path of a machine."""
    assert unwanted(text) == []


def too_wide(text: str) -> list[str]:
    """Returns the lines of Markdown prose over 120 columns: no tables, code or single words."""
    lines, in_code = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
        is_code = in_code or line.startswith("    ")
        if len(line) > 120 and not is_code and not line.startswith("|") and " " in line.strip():
            lines.append(line)
    return lines


def test_markdown_is_at_most_120_columns_wide() -> None:
    """Prose can be read in an editor and in a diff; tables and code keep their lines."""
    files = [path for path in tracked_files() if path.suffix == ".md"]
    assert files
    wide = {str(path.relative_to(ROOT)): too_wide(path.read_text("utf-8")) for path in files}
    assert {name: lines for name, lines in wide.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("word " * 25, 1),
        ("- " + "word " * 25, 1),
        ("word " * 24, 0),
        ("| " + "word " * 25 + "|", 0),
        ("```\n" + "word " * 25 + "\n```\n", 0),
        ("```\n```\n" + "word " * 25, 1),
        ("x" * 121, 0),
    ],
)
def test_wide_prose_is_seen(text: str, count: int) -> None:
    """The check itself: paragraphs and list items, but no table, code or long word."""
    assert len(too_wide(text)) == count


DEFAULTS = {
    function.__name__: {
        name: one.default for name, one in inspect.signature(function).parameters.items()
    }
    for function in (dataclasses.dataclass, dataclasses.field)
}


def idle_options(text: str) -> list[str]:
    """Returns options of data classes and their fields that say what holds without them."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [
        f"{ast.unparse(call.func)}({option.arg}={option.value.value})"
        for call in calls
        for option in call.keywords
        if isinstance(option.value, ast.Constant)
        and option.value.value
        is DEFAULTS.get(ast.unparse(call.func).rpartition(".")[2], {}).get(str(option.arg), ...)
    ]


def test_no_option_of_a_data_class_says_what_holds_without_it() -> None:
    """Who reads one knows that it changes something."""
    files = [path for path in tracked_files() if path.suffix == ".py"]
    assert files
    idle = {str(path.relative_to(ROOT)): idle_options(path.read_text("utf-8")) for path in files}
    assert {name: options for name, options in idle.items() if options} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("@dataclass(frozen=True, slots=False)\nclass A: pass", 1),
        ("@dataclasses.dataclass(eq=True, frozen=False)\nclass A: pass", 2),
        ("a: int = field(default=1, compare=True)", 1),
        ("@dataclass(frozen=True, slots=True, eq=False)\nclass A: pass", 0),
        ("a: int = field(default=None, compare=False)", 0),
        ("other(slots=False)", 0),
    ],
)
def test_idle_options_are_seen(text: str, count: int) -> None:
    """The check itself."""
    assert len(idle_options(text)) == count
