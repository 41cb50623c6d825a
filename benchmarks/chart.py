"""Line charts as SVG, both axes logarithmic: readable on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jinja2 import Environment

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 70, 28, 56, 44
TICKS_MAX = 7
"""Where there are no more different values to the right, each has a tick of its own."""
COLOURS = ("#1f77b4", "#d95f02", "#1b9e77")
DASHES = ("", "6 3", "2 3")

_PAGE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{ width }} {{ height }}" role="img"
 font-family="sans-serif" font-size="12">
<title>{{ chart.title }}</title>
<rect width="{{ width }}" height="{{ height }}" fill="#ffffff"/>
<text x="12" y="20" font-size="14" font-weight="bold" fill="#222222">{{ chart.title }}</text>
{% for x, text in x_ticks %}
<path d="M{{ x }} {{ top }}V{{ bottom }}" stroke="#e4e4e4"/>
<text x="{{ x }}" y="{{ bottom + 16 }}" text-anchor="middle" fill="#555555">{{ text }}</text>
{% endfor %}
{% for y, text in y_ticks %}
<path d="M{{ left }} {{ y }}H{{ right }}" stroke="#e4e4e4"/>
<text x="{{ left - 6 }}" y="{{ y + 4 }}" text-anchor="end" fill="#555555">{{ text }}</text>
{% endfor %}
<text x="{{ right }}" y="{{ bottom + 34 }}" text-anchor="end" fill="#555555">{{ chart.x }}</text>
<text x="12" y="{{ top - 12 }}" fill="#555555">{{ chart.y }}</text>
{% for line in lines %}
<path d="{{ line.path }}" fill="none" stroke="{{ line.colour }}" stroke-width="2"
 stroke-dasharray="{{ line.dash }}"/>
{% for x, y in line.points %}
<circle cx="{{ x }}" cy="{{ y }}" r="3" fill="{{ line.colour }}"/>
{% endfor %}
<path d="M{{ line.key }} {{ top - 16 }}h24" stroke="{{ line.colour }}" stroke-width="2"
 stroke-dasharray="{{ line.dash }}"/>
<text x="{{ line.key + 30 }}" y="{{ top - 12 }}" fill="#222222">{{ line.name }}</text>
{% endfor %}
</svg>
""")


@dataclass(frozen=True)
class Chart:
    """Lines by their names: points of positive numbers, from left to right."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class _Axis:
    """From a decade, or a part of one, to another; positions in the drawing."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.begin + part * (self.end - self.begin), 1)

    def ticks(self) -> list[tuple[float, str]]:
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        steps = (1,) if self.high - self.low > 2 else (1, 2, 5)
        values = [step * 10.0**decade for decade in decades for step in steps]
        inside = [v for v in values if self.low <= math.log10(v) + 1e-9 <= self.high + 2e-9]
        return [(self.at(value), _shown(value)) for value in inside]


def _axis(values: Sequence[float], begin: float, end: float, *, is_rounded: bool) -> _Axis:
    logs = [math.log10(value) for value in values]
    low, high = min(logs), max(logs)
    if is_rounded:
        low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    return _Axis(low, max(high, low + 0.3), begin, end)


def _shown(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def draw(chart: Chart) -> str:
    """The chart as an SVG document."""
    points = [point for line in chart.lines.values() for point in line]
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    x_axis = _axis([x for x, _ in points], LEFT, right, is_rounded=False)
    y_axis = _axis([y for _, y in points], bottom, TOP, is_rounded=True)
    measured = sorted({x for x, _ in points})
    x_ticks = [(x_axis.at(x), _shown(x)) for x in measured]
    if len(x_ticks) > TICKS_MAX:
        x_ticks = x_axis.ticks()
    lines = []
    for number, (name, line) in enumerate(chart.lines.items()):
        placed = [(x_axis.at(x), y_axis.at(y)) for x, y in line]
        path = "M" + "L".join(f"{x} {y}" for x, y in placed)
        look = {"colour": COLOURS[number], "dash": DASHES[number]}
        lines.append(
            {"name": name, "path": path, "points": placed, "key": 190 + 150 * number} | look
        )
    return _PAGE.render(
        chart=chart, width=WIDTH, height=HEIGHT, left=LEFT, right=right, top=TOP, bottom=bottom,
        x_ticks=x_ticks, y_ticks=y_axis.ticks(), lines=lines,
    )  # fmt: skip
