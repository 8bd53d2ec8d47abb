"""Videos: frames of an environment that draws without OpenGL, as .gif and as .mp4."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from PIL import Image, ImageSequence

import lpo.cli
from lpo import PPO, LPOError, Policy
from lpo.render import play, render_policy, write_gif


def delays_of(path: Path) -> list[int]:
    """Milliseconds that each frame of a GIF is shown for."""
    with Image.open(path) as gif:
        return [frame.info["duration"] for frame in ImageSequence.Iterator(gif)]


@pytest.fixture
def run(tmp_path, faulty):
    flags = "--algo ppo --env faulty:Lamp-v0 --steps 64 --rollout 32 --batch-size 8 --eval-every 0"
    lpo.cli.main(["train", *flags.split(), "--quiet", "--out", str(tmp_path / "run")])
    return tmp_path / "run"


def test_frames_show_the_steps_of_the_episode(run):
    """The lamp has the brightness 10·t at step t and the episode six steps."""
    frames, fps = play(Policy.load(run), 100, seed=0, deterministic=True)
    assert [int(frame[0, 0, 0]) for frame in frames] == [0, 10, 20, 30, 40, 50, 60]
    assert fps == 30
    frames, fps = play(Policy.load(run), 100, 0, True, rate=15)
    assert [int(frame[0, 0, 0]) for frame in frames] == [0, 20, 40, 60] and fps == 15


def test_the_command_writes_a_gif(run, capsys):
    lpo.cli.main(["render", str(run), "--out", str(run / "lamp.gif"), "--steps", "4"])
    assert str(run / "lamp.gif") in capsys.readouterr().out
    delays = delays_of(run / "lamp.gif")
    assert delays == [30, 40, 30, 30, 40]  # 30 frames a second, in whole hundredths of a second
    with Image.open(run / "lamp.gif") as gif:
        assert gif.size == (16, 16)


def test_a_gif_has_the_speed_of_the_task(tmp_path):
    """At 25 frames a second each is shown for 40 ms. A still frame is shown for longer."""
    frames = [np.full((16, 16, 3), light, np.uint8) for light in (0, 50, 50, 50, 90)]
    write_gif(tmp_path / "clip.gif", frames, 25)
    assert delays_of(tmp_path / "clip.gif") == [40, 120, 40]


def test_a_gif_draws_only_the_frames_that_it_keeps(run, monkeypatch):
    """Of 7 frames at 100 per second every fourth is kept: at 25 per second, for 40 ms each."""
    drawn = []
    lamp = sys.modules["faulty"].Lamp
    render = lamp.render
    monkeypatch.setitem(lamp.metadata, "render_fps", 100)
    monkeypatch.setattr(lamp, "render", lambda env: drawn.append(env.t) or render(env))
    render_policy(Policy.load(run), run / "lamp.gif", 100, 0, True)
    assert drawn == [0, 4]
    assert delays_of(run / "lamp.gif") == [40, 40]


@pytest.mark.skipif(sys.platform != "linux", reason="EGL belongs to Linux")
def test_egl_is_chosen_for_any_task_without_a_screen(run, monkeypatch):
    """The lamp's name does not say what it draws with. A choice of the user stays."""
    seen = []
    lamp = sys.modules["faulty"].Lamp
    render = lamp.render
    monkeypatch.setattr(
        lamp, "render", lambda env: seen.append(os.environ.get("MUJOCO_GL")) or render(env)
    )
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    play(Policy.load(run), 1, 0, True)
    assert seen == ["egl", "egl"] and "MUJOCO_GL" not in os.environ
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    play(Policy.load(run), 0, 0, True)
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setenv("DISPLAY", ":0")
    play(Policy.load(run), 0, 0, True)
    assert seen[2:] == ["osmesa", None]


@pytest.mark.skipif(find_spec("imageio_ffmpeg") is None, reason="needs the extra `video`")
def test_the_command_writes_an_mp4(run):
    lpo.cli.main(["render", str(run), "--out", str(run / "lamp.mp4")])
    assert (run / "lamp.mp4").stat().st_size > 500


def test_what_cannot_be_drawn_is_refused(run, countdown, tmp_path):
    with pytest.raises(LPOError, match=r"name it \.mp4 or \.gif"):
        render_policy(Policy.load(run), run / "lamp.avi", 3, 0, True)
    agent = PPO(countdown, num_envs=1, rollout=32, batch_size=8, eval_every=0).learn(32)
    with pytest.raises(LPOError, match="register the environment"):
        play(agent.policy, 3, 0, True)


def test_an_environment_that_does_not_draw_is_named(run, monkeypatch):
    from lpo.envs.task import TaskOptions

    class Plain(gymnasium.Env):
        """It takes no render_mode."""

        observation_space = gymnasium.spaces.Box(-1, 1, (1,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self):
            pass

    maker: Any = Plain
    gymnasium.register("PlainLamp-v0", maker)
    with pytest.raises(LPOError, match="PlainLamp-v0 cannot be drawn: its environment takes no"):
        TaskOptions(env="PlainLamp-v0").make_single()
    policy = Policy.load(run)
    env = policy.config.task.make_single()
    monkeypatch.setattr(type(env.unwrapped), "render", lambda self: None)
    with pytest.raises(LPOError, match=r"draws no image: render\(\) returned one of shape \(\)"):
        play(policy, 3, 0, True)
