"""The last screen of `lpo train` as a picture: docs/figures/front/screen.svg, from a real run.

    python scripts/screen.py                # trains the default on SparseHopper, about a minute

The command runs in a terminal of its own. The picture shows what stands there at the end.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).parents[1]
COLUMNS = 100
PROMPT = "$ lpo train"
ERASED = re.compile(r"\r\x1b\[2K|\r(?!$)")  # a line is written anew
HIDDEN = re.compile(r"\x1b\[\?25[lh]|\x1b\[\d*A")  # the cursor is hidden, shown or moved up
WIDTH, HEIGHT, EDGE = 8.4, 20.0, 12.0  # of a character, of a line, around the text
INK, PAPER = "#d0d0d0", "#101418"


def in_terminal(command: list[str], folder: Path) -> str:
    """Runs a command in a terminal of its own. Returns everything that it wrote there."""
    master, slave = pty.openpty()
    size = {"COLUMNS": str(COLUMNS), "LINES": "40", "TERM": "xterm-256color"}
    started = subprocess.Popen(
        command, cwd=folder, stdout=slave, stderr=slave, stdin=slave, env=os.environ | size
    )
    os.close(slave)
    written = b""
    while True:
        try:
            part = os.read(master, 65_536)
        except OSError:  # Linux ends the reading of a terminal without a writer so
            break
        if not part:
            break
        written += part
    os.close(master)
    if started.wait() != 0:
        sys.exit(written.decode())
    return written.decode()


def last_screen(written: str) -> list[str]:
    """Returns the lines that stand in the terminal at the end, with their colours."""
    lines = (ERASED.split(line.rstrip("\r"))[-1] for line in written.split("\n"))
    shown = [HIDDEN.sub("", line).rstrip() for line in lines]
    return shown[: max((i + 1 for i, line in enumerate(shown) if line), default=0)]


def hard(text: str) -> str:
    """Returns a text for SVG, whose spaces stay as many as they are."""
    return escape(text).replace(" ", "\N{NO-BREAK SPACE}")


def picture(lines: list[str]) -> str:
    """Returns the lines as an SVG, which loads no font."""
    console = Console(width=COLUMNS)
    rows = []
    for number, line in enumerate(lines):
        column, y = 0, EDGE + HEIGHT * (number + 0.75)
        for text, style, _ in console.render(Text.from_ansi(line, end="")):
            look = style or Style()
            ink = look.color.get_truecolor().hex if look.color else INK
            weight = ' font-weight="bold"' if look.bold else ""
            if text.strip():
                rows.append(
                    f'<text x="{EDGE + WIDTH * column:.1f}" y="{y:.1f}" fill="{ink}"{weight} '
                    f'textLength="{WIDTH * len(text):.1f}">{hard(text)}</text>'
                )
            column += len(text)
    width = max(map(cell_len, (Text.from_ansi(line).plain for line in lines))) * WIDTH + 2 * EDGE
    height = len(lines) * HEIGHT + 2 * EDGE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}" '
            'font-size="14" font-family="Menlo, Consolas, DejaVu Sans Mono, monospace">',
            f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>',
            *rows,
            "</svg>\n",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--out", type=Path, default=ROOT / "docs" / "figures" / "front" / "screen.svg"
    )
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lines = last_screen(in_terminal([sys.executable, "-m", "lpo.cli", "train"], Path(folder)))
    svg = picture([PROMPT, *lines])
    o.out.write_text(svg)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
