"""docs/performance shows what was measured."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree as ET

from benchmarks.chart import Chart, draw
from benchmarks.growth_page import DIRECTORY, draw_all

SVG = "{http://www.w3.org/2000/svg}"


def test_the_drawings_are_those_of_the_numbers(tmp_path):
    """``python -m benchmarks.growth_page --draw`` makes them anew."""
    shutil.copy(DIRECTORY / "growth.json", tmp_path)
    draw_all(tmp_path)
    drawn = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name: path.read_text("utf-8") for path in DIRECTORY.glob("*.svg")}
    page = (DIRECTORY.parent / "performance.md").read_text("utf-8")
    assert all(f"](performance/{name})" in page for name in drawn)


def test_a_chart_has_its_points_where_they_belong():
    """Both axes are logarithmic; what is named is escaped."""
    chart = Chart("A & <b>", "x", "y", {"one": [(1, 10), (10, 100), (100, 1000)], "<": [(1, 10)]})
    root = ET.fromstring(draw(chart))  # noqa: S314  our own
    assert root.find(f"{SVG}title").text == "A & <b>"
    at = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter(f"{SVG}circle")]
    (x1, y1), (x2, y2), (x3, y3), first = at
    assert first == (x1, y1)
    assert abs((x2 - x1) - (x3 - x2)) < 0.2 < x2 - x1
    assert abs((y1 - y2) - (y2 - y3)) < 0.2 < y1 - y2
    names = [text.text for text in root.iter(f"{SVG}text")]
    assert {"A & <b>", "x", "y", "one", "<", "1", "10", "100", "1k"} <= set(names)
