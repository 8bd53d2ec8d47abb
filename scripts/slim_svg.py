"""Make SVGs small: styles become classes, groups that say nothing go, lines have fewer points.

    python scripts/slim_svg.py                          # all of docs/figures
    python scripts/slim_svg.py docs/figures/theory/*.svg

The picture stays the same to a fifth of a pixel. A file that is small already stays as it is.
"""

from __future__ import annotations

import argparse
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
REFERENCE = re.compile(r"url\(#([^)]+)\)")
DECIMALS = re.compile(r"(\d\.\d)\d+")
POINTS = re.compile(r"M(\S+) (\S+) l((?: ?-?[\d.]+)+)( z)?")  # a path of straight lines
NEAR = 0.2  # pixels from its line within which a point is left out
LETTERS = "abcdefghijklmnopqrstuvwxyz"
COMMON = "*{stroke-linejoin:round;stroke-linecap:butt}"  # as matplotlib has it
Element = ET.Element


def short(number: int) -> str:
    """Returns the number-th name: a to z, then aa, ab, …"""
    name = ""
    while number >= 0:
        number, letter = number // len(LETTERS) - 1, number % len(LETTERS)
        name = LETTERS[letter] + name
    return name


def referred(root: Element) -> dict[str, str]:
    """Returns the ids that something refers to, with their new names."""
    found: dict[str, None] = {}
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == f"{{{LINK}}}href":
                found[value.removeprefix("#")] = None
            found |= dict.fromkeys(REFERENCE.findall(value))
    return {old: short(i) for i, old in enumerate(found)}


def rename(root: Element) -> None:
    names = referred(root)
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name == "id":
                if value in names:
                    element.set(name, names[value])
                else:
                    del element.attrib[name]
            elif name == f"{{{LINK}}}href":
                element.set(name, "#" + names[value.removeprefix("#")])
            elif "url(#" in value:
                element.set(name, REFERENCE.sub(lambda m: f"url(#{names[m[1]]})", value))


def unwrapped(element: Element) -> Iterator[Element]:
    """Yields the element, or its children where it is a group that says nothing."""
    children = [new for child in element for new in unwrapped(child)]
    if element.tag == f"{{{SVG}}}metadata" or (element.tag == f"{{{SVG}}}defs" and not children):
        return
    if element.tag == f"{{{SVG}}}g" and not element.attrib:
        yield from children
        return
    element[:] = children
    yield element


def classed(root: Element) -> None:
    """Moves styles that stand more than once into one sheet."""
    plain = {e: re.sub(r"\s*([:;])\s*", r"\1", e.get("style", "")).strip(";") for e in root.iter()}
    number = Counter(style for style in plain.values() if style)
    names = {style: short(i) for i, (style, n) in enumerate(number.most_common()) if n > 1}
    for element, style in plain.items():
        if style in names:
            del element.attrib["style"]
            element.set("class", names[style])
        elif style:
            element.set("style", style)
    sheet = Element(f"{{{SVG}}}style")
    sheet.text = COMMON + "".join(f".{name}{{{style}}}" for style, name in names.items())
    root.insert(0, sheet)


def thinned(points: list[complex]) -> list[complex]:
    """Returns the points that a line needs to stay within ``NEAR`` (Douglas and Peucker)."""
    if len(points) < 3:
        return points
    begin, along = points[0], points[-1] - points[0]
    away = [abs(p - begin) for p in points]
    if abs(along) > 0:
        away = [abs(((p - begin) * along.conjugate()).imag) / abs(along) for p in points]
        past = [((p - begin) * along.conjugate()).real / abs(along) for p in points]
        away = [
            a if 0 <= t <= abs(along) else max(a, NEAR + 1) for a, t in zip(away, past, strict=True)
        ]
    far = max(range(1, len(points) - 1), key=lambda i: away[i])
    if away[far] <= NEAR:
        return [points[0], points[-1]]
    return thinned(points[: far + 1])[:-1] + thinned(points[far:])


def fewer(d: str) -> str:
    """Returns a path of straight lines with fewer points; any other path as it is."""
    found = POINTS.fullmatch(d)
    if found is None:
        return d
    steps = list(map(float, found[3].split()))
    points = [complex(float(found[1]), float(found[2]))]
    for dx, dy in zip(steps[::2], steps[1::2], strict=True):
        points.append(points[-1] + complex(dx, dy))
    kept = thinned(points)
    at, words = kept[0], []
    for point in kept[1:]:  # a step begins where the rounded ones before it ended
        step = complex(round((point - at).real, 1), round((point - at).imag, 1))
        at += step
        words += [f"{step.real:g}", f"{step.imag:g}"]
    return f"M{found[1]} {found[2]} l{' '.join(words)}{found[4] or ''}"


def rounded(root: Element) -> None:
    for element in root.iter():
        for name in ("d", "x", "y", "points", "transform"):
            if (value := element.get(name)) is not None and "matrix" not in value:
                keep = value if "scale(0." in value else DECIMALS.sub(r"\1", value)
                words = " ".join(keep.split())
                element.set(name, fewer(words) if name == "d" else words)


def slim(text: str) -> str:
    """Returns an SVG that shows the same and is smaller."""
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", LINK)
    root = ET.fromstring(text)
    if COMMON in text:
        return text
    root[:] = [e for e in root if e.tag != f"{{{SVG}}}defs" or e.find(f"{{{SVG}}}style") is None]
    rename(root)
    root[:] = [new for child in root for new in unwrapped(child)]
    rounded(root)
    classed(root)
    for element in root.iter():
        element.tail = "\n" if element.tag.endswith(("}g", "}path", "}text", "}use")) else None
        if element.tag not in (f"{{{SVG}}}text", f"{{{SVG}}}tspan", f"{{{SVG}}}style"):
            element.text = None
    return ET.tostring(root, encoding="unicode").rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="*")
    files = parser.parse_args().files or sorted((ROOT / "docs" / "figures").glob("*/*.svg"))
    for path in files:
        before = path.read_text(encoding="utf-8")
        after = slim(before)
        if len(after) < len(before):
            path.write_text(after, encoding="utf-8")
            print(f"{path}: {len(before):,} to {len(after):,} bytes")


if __name__ == "__main__":
    main()
