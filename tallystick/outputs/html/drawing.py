"""The drawings of the report: where each mark and line goes. Shapes repeat colours.

Geometry only; the template writes the SVG, so that everything from outside is escaped there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tallystick.coordinates.results import Verdict
from tallystick.expectations.neutral import reveal
from tallystick.outputs._view import channel_name
from tallystick.runs.result import Edge

WIDTH = 340
_ROW = 46
_ROW_COMPACT = 26
_COMPACT_FROM = 25
_INDENT = 26
_DEPTH_MAX = 6
_CHARACTER = 7.0
_CHARACTER_WIDE = 7.8
_SMALL_CHARACTER = 5.6
_SIDE = 34
"""Room at the right for channels that do not fit a tree."""

NODES_MAX = 60


@dataclass(frozen=True, slots=True)
class Node:
    """An instance at its position; ``y`` is the middle of its mark."""

    name: str
    shown: str
    detail: str
    verdict: Verdict | None
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """A channel: a line from its source, which channels may share, and its own end with a tip.

    ``tip_length`` is how far the tip's base is from its point, against the arrow's direction.
    """

    line: str
    end: str
    title: str
    verdict: Verdict | None
    tip_x: int
    tip_y: int
    tip_length: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """A topology, ready to be written."""

    height: int
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    left_out: tuple[str, ...]


def draw_topology(
    instances: Mapping[str, Verdict],
    edges: Sequence[Edge],
    channels: Mapping[tuple[str, str], Verdict],
    details: Mapping[str, str],
) -> Drawing:
    """Lay the fleet out as a tree from sources to replicas; what is no tree goes along the side.

    Args:
        instances: The verdict on each instance.
        edges: The channels. A source that is not observed gets a position too, without a verdict.
        channels: The verdict on each (replica, channel).
        details: A second line for an instance.
    """
    order, parents = _tree(sorted(instances), edges)
    order, left_out = _shown(order, parents, instances)
    kept = {name for name, _ in order}
    edges = [edge for edge in edges if edge.source in kept and edge.replica in kept]
    is_compact = len(order) >= _COMPACT_FROM
    row = _ROW_COMPACT if is_compact else _ROW
    nodes: dict[str, Node] = {}
    for line, (name, depth) in enumerate(order):
        x = 12 + _INDENT * min(depth, _DEPTH_MAX)
        room = WIDTH - x - 14 - _SIDE
        parts = [details.get(name, "")]
        if name in parents and parents[name].channel:
            parts.append(f"via {parents[name].channel}")
        detail = "" if is_compact else ", ".join(filter(None, parts))
        nodes[name] = Node(
            name,
            shorten(reveal(name), int(room / _CHARACTER)),
            shorten(reveal(detail), int((room + _SIDE // 2) / _SMALL_CHARACTER)),
            instances.get(name),
            x,
            row * line + 18,
        )
    arrows = []
    aside = 0
    for edge in edges:
        source, replica = nodes[edge.source], nodes[edge.replica]
        title = f"{edge.source} to {edge.replica}, channel {channel_name(edge.channel)}"
        verdict = channels.get((edge.replica, edge.channel))
        if parents.get(edge.replica) == edge and replica.x > source.x:
            arrows.append(_arrow_down(source, replica, title, verdict))
        else:
            arrows.append(_arrow_aside(source, replica, title, verdict, aside))
            aside += 1
    return Drawing(row * len(order) + 4, tuple(nodes.values()), tuple(arrows), left_out)


def _arrow_down(source: Node, replica: Node, title: str, verdict: Verdict | None) -> Arrow:
    """Within the tree, from a source to a replica that is indented below it."""
    line = f"M{source.x} {source.y + 10}V{replica.y - 8}"
    end = f"M{source.x} {replica.y - 8}q0 8 8 8H{replica.x - 14}"
    return Arrow(line, end, title, verdict, replica.x - 9, replica.y, -7)


def _arrow_aside(
    source: Node, replica: Node, title: str, verdict: Verdict | None, aside: int
) -> Arrow:
    """Along the right side, beside those that run there already."""
    rail = WIDTH - 4 - 6 * (aside % 4)
    turn = 6 if replica.y >= source.y else -6
    line = f"M{_text_end(source)} {source.y}H{rail - 6}q6 0 6 {turn}V{replica.y - turn}"
    end = f"M{rail} {replica.y - turn}q0 {turn} -6 {turn}H{_text_end(replica) + 6}"
    return Arrow(line, end, title, verdict, _text_end(replica), replica.y, 7)


def _shown(
    order: list[tuple[str, int]], parents: Mapping[str, Edge], instances: Mapping[str, Verdict]
) -> tuple[list[tuple[str, int]], tuple[str, ...]]:
    """Of a large fleet those in trouble, with the sources above them, then the first others."""
    if len(order) <= NODES_MAX:
        return order, ()
    gravity = [Verdict.INCONSISTENT, Verdict.UNDECIDED, Verdict.CONSISTENT, None]
    kept: set[str] = set()
    for name, _ in sorted(order, key=lambda one: gravity.index(instances.get(one[0]))):
        above = [name]
        while above[-1] in parents and parents[above[-1]].source not in above:
            above.append(parents[above[-1]].source)
        if len(kept.union(above)) <= NODES_MAX:
            kept.update(above)
    left_out = tuple(name for name, _ in order if name not in kept)
    return [one for one in order if one[0] in kept], left_out


def _text_end(node: Node) -> int:
    """Where a line may begin beside the name; an estimate, as fonts differ."""
    return min(WIDTH - _SIDE + 6, node.x + 22 + int(len(node.shown) * _CHARACTER_WIDE))


def _tree(
    instances: Iterable[str], edges: Sequence[Edge]
) -> tuple[list[tuple[str, int]], dict[str, Edge]]:
    """Order the instances so that each follows its source; circles are cut at their first name."""
    replicas: dict[str, list[Edge]] = {}
    names = dict.fromkeys(instances)
    for edge in edges:
        replicas.setdefault(edge.source, []).append(edge)
        names.setdefault(edge.source)
        names.setdefault(edge.replica)
    fed = {edge.replica for edge in edges}
    order: list[tuple[str, int]] = []
    parents: dict[str, Edge] = {}
    drawn: set[str] = set()
    for root in [n for n in names if n not in fed] + list(names):
        stack: list[tuple[str, int, Edge | None]] = [(root, 0, None)]
        while stack:
            name, depth, parent = stack.pop()
            if name in drawn:
                continue
            drawn.add(name)
            order.append((name, depth))
            if parent is not None:
                parents[name] = parent
            stack += [(e.replica, depth + 1, e) for e in reversed(replicas.get(name, []))]
    return order, parents


def shorten(text: str, characters_max: int) -> str:
    """Cut a text in the middle: names differ at both ends."""
    if len(text) <= characters_max:
        return text
    head = max(1, characters_max * 2 // 3)
    tail = max(1, characters_max - head - 1)
    return f"{text[:head]}…{text[-tail:]}"
