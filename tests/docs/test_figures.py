"""Figures of the pages are small, and making them small changes no picture."""

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "figures"
SLIM = runpy.run_path(str(ROOT / "scripts" / "slim_svg.py"))
SCREEN = runpy.run_path(str(ROOT / "scripts" / "screen.py"))
LARGEST = {"curves.svg": 55_000, "ablation.svg": 35_000, "misspecified.svg": 30_000}  # else 25,000
DRAWN = """<?xml version="1.0"?>
<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">
 <metadata>when</metadata>
 <defs><style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style></defs>
 <g id="axes"><g id="line">
  <path d="M1.04 2 l5 0 5 0.1 5 -0.1 0 7 z" clip-path="url(#long-name)" style="fill: none; a: b"/>
  <path d="M0 0 l1 1" style="fill: none; a: b"/>
 </g></g>
 <defs><clipPath id="long-name"><rect x="0" y="0"/></clipPath></defs>
 <text x="1.23" style="b: c">two  words</text>
</svg>"""


def test_a_drawing_is_made_small_and_stays_the_same():
    root = ET.fromstring(SLIM["slim"](DRAWN))
    sheet, line, other, clips, text = root
    assert sheet.text == "*{stroke-linejoin:round;stroke-linecap:butt}.a{fill:none;a:b}"
    assert line.attrib == {
        "d": "M1.0 2 l15 0 0 7 z",  # three steps along one line are one
        "clip-path": "url(#a)",
        "class": "a",
    }
    assert other.get("d") == "M0 0 l1 1" and other.get("class") == "a"
    assert clips[0].get("id") == "a"
    assert text.text == "two  words" and text.attrib == {"x": "1.2", "style": "b:c"}
    assert SLIM["slim"](SLIM["slim"](DRAWN)) == SLIM["slim"](DRAWN)


def test_a_corner_and_a_way_back_stay():
    assert SLIM["fewer"]("M0 0 l5 0 0 5 -5 0") == "M0 0 l5 0 0 5 -5 0"
    assert SLIM["fewer"]("M0 0 l9 0 -4 0") == "M0 0 l9 0 -4 0"  # on one line, and beyond its end
    assert SLIM["fewer"]("M0 0 q1 1 2 2") == "M0 0 q1 1 2 2"


def test_the_files_are_small():
    for path in FIGURES.rglob("*"):
        if path.suffix == ".svg":
            assert path.stat().st_size <= LARGEST.get(path.name, 25_000), path
        if path.suffix == ".png":
            assert path.stat().st_size <= 60_000, path


def test_the_last_screen_is_read_from_what_a_terminal_gets():
    written = "\x1b[?25lcompiling\r\x1b[2K\x1b[1m99%\x1b[0m\r\x1b[2K\x1b[1m100%\x1b[0m\r\n"
    written += "\x1b[?25hlast   0.5\r\n\r\n"
    lines = SCREEN["last_screen"](written)
    assert lines == ["\x1b[1m100%\x1b[0m", "last   0.5"]
    drawn = ET.fromstring(SCREEN["picture"](["$ lpo <train>", *lines]))
    texts = [(e.text, e.get("font-weight")) for e in drawn if e.tag.endswith("text")]
    assert texts == [
        ("$\N{NO-BREAK SPACE}lpo\N{NO-BREAK SPACE}<train>", None),
        ("100%", "bold"),
        ("last" + 3 * "\N{NO-BREAK SPACE}" + "0.5", None),
    ]


def test_the_picture_of_the_last_screen_loads_nothing():
    text = (FIGURES / "front" / "screen.svg").read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "") and "success" in text
