"""Draw a clip of a run that is small enough for a page: five seconds at true speed.

    lpo train --out runs/hopper
    python scripts/clip.py runs/hopper docs/figures/default-first/hopper.gif

`lpo render` draws every pixel. This scales the same frames down and gives them few colours.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from lpo import Policy
from lpo.render import play

SECONDS, RATE, SIDE, COLOURS = 5.0, 12.5, 224, 28


def small(frames: list[np.ndarray]) -> list[Image.Image]:
    """Returns the frames in one palette, made from the middle third, where the body is."""
    scaled = [Image.fromarray(f).resize((SIDE, SIDE), Image.Resampling.LANCZOS) for f in frames]
    middle = [np.asarray(image)[:, SIDE // 3 : -SIDE // 3] for image in scaled[::6]]
    palette = Image.fromarray(np.concatenate(middle)).quantize(COLOURS, kmeans=1)
    return [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in scaled]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path, help="a GIF")
    parser.add_argument("--seed", type=int, default=0, help="of the episode")
    parser.add_argument("--stochastic", action="store_true", help="draw actions from the policy")
    options = parser.parse_args()
    policy = Policy.load(options.run)
    frames, fps = play(policy, 1000, options.seed, not options.stochastic, SECONDS, RATE)
    first, *rest = small(frames)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    first.save(options.out, save_all=True, append_images=rest, duration=round(1000 / fps), loop=0)
    print(f"{options.out} {len(frames)} frames, {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
