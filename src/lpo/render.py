"""Videos of a policy, drawn without a screen."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from lpo.envs.maker import id_of
from lpo.envs.task import CUSTOM
from lpo.errors import LPOError
from lpo.policy import Policy

NO_GL = (
    "Cannot render without a screen ({error}); install EGL or OSMesa "
    "(on Debian: apt-get install libegl1 libgl1-mesa-dri, or libosmesa6 with MUJOCO_GL=osmesa)."
)

GIF_RATE = 25  # frames per second, about; a GIF counts time in hundredths of a second


def render_policy(policy: Policy, out: Path, steps: int, seed: int, deterministic: bool) -> Path:
    """Plays one episode of ``policy`` and writes it to ``out`` (.mp4 or .gif)."""
    if out.suffix not in (".mp4", ".gif"):
        raise LPOError(f"A video cannot be written as {out.name}; name it .mp4 or .gif.")
    rate = GIF_RATE if out.suffix == ".gif" else math.inf
    frames, fps = play(policy, steps, seed, deterministic, rate=rate)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_video(out, frames, fps)
    except OSError as error:
        raise LPOError(f"Cannot write {out} ({error}); pass another --out.") from error
    return out


def play(
    policy: Policy,
    steps: int,
    seed: int,
    deterministic: bool,
    seconds: float = math.inf,
    rate: float = math.inf,
) -> tuple[list[np.ndarray], float]:
    """Returns the frames of one episode and their number per second.

    The clip lasts at most ``seconds`` and has about ``rate`` frames per second or fewer.
    """
    task, rng = policy.config.task, np.random.default_rng(seed)
    if task.env == CUSTOM:
        raise LPOError(
            "The policy was trained on an environment object, which cannot be made again; "
            "register the environment with Gymnasium and train on its id."
        )
    with off_screen():
        env = task.make_single(flat=policy.config.network.flat)
    fps = float(env.metadata.get("render_fps", 30))
    every = max(1, round(fps / rate))  # drawing costs more than playing, so few frames are drawn
    obs, _ = env.reset(seed=seed)
    policy.actor.begin(1)
    frames = [frame(env)]
    for step in range(1, int(min(steps, seconds * fps)) + 1):
        action = policy.actor.act(one_row(policy, obs), rng, deterministic)
        policy.actor.forget(np.zeros(1, bool))
        obs, _, terminated, truncated, _ = env.step(policy.actor.dist.to_env(action)[0])
        if step % every == 0:
            frames.append(frame(env))
        if terminated or truncated:
            break
    env.close()
    return frames, fps / every


def one_row(policy: Policy, obs: Any) -> Any:
    """Returns an observation of the environment that is drawn as a batch of one."""
    return policy.codec.spec.map(lambda leaf, x: np.asarray(x, leaf.dtype)[None], obs)


@contextmanager
def off_screen() -> Iterator[None]:
    """Lets MuJoCo draw with EGL where there is no screen, unless the user set MUJOCO_GL."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if screen or "MUJOCO_GL" in os.environ or sys.platform != "linux":
        yield
        return
    os.environ["MUJOCO_GL"] = "egl"
    try:
        yield
    finally:
        del os.environ["MUJOCO_GL"]


def frame(env: gymnasium.Env) -> np.ndarray:
    """Draws the environment. MuJoCo's viewer is made at the first frame, and chooses OpenGL."""
    with gl_errors(), off_screen():
        image = np.asarray(env.render())
    if image.ndim != 3:
        raise LPOError(
            f"{id_of(env)} draws no image: render() returned one of shape {image.shape}; return "
            "an array [height, width, 3]."
        )
    return image


@contextmanager
def gl_errors() -> Iterator[None]:
    """Turns any error of the OpenGL libraries into an LPOError that says what to install."""
    try:
        yield
    except Exception as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LPOError(NO_GL.format(error=why)) from error


def write_video(out: Path, frames: list[np.ndarray], fps: float) -> None:
    if out.suffix == ".gif":
        write_gif(out, frames, fps)
        return
    import imageio.v2 as imageio

    if importlib.util.find_spec("imageio_ffmpeg") is None:
        raise LPOError(
            "An .mp4 needs ffmpeg; run `pip install 'lpo-rl[video]'`, or name the file .gif."
        )
    size = [s - s % 2 for s in frames[0].shape[:2]]  # H.264 wants even sides
    with warnings.catch_warnings(), imageio.get_writer(out, fps=fps, macro_block_size=1) as writer:
        warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)  # ffmpeg execs at once
        for frame in frames:
            writer.append_data(  # pyright: ignore[reportAttributeAccessIssue]
                frame[: size[0], : size[1]]
            )


def write_gif(out: Path, frames: list[np.ndarray], fps: float) -> None:
    """Writes a GIF in real time. Equal frames in a row become one that is shown for longer."""
    import imageio.v2 as imageio

    ends = np.rint(np.arange(len(frames) + 1) * 100 / fps)  # hundredths of a second
    imageio.mimsave(out, [*frames], duration=[int(10 * d) for d in np.diff(ends)], loop=0)
