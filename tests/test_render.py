"""Videos: frames of an environment that draws without OpenGL, as .gif and as .mp4."""

from importlib.util import find_spec

import imageio.v2 as imageio
import numpy as np
import pytest

import lpo.cli
from lpo import PPO, LPOError, Policy
from lpo.render import play, render_policy


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
    frames = imageio.mimread(run / "lamp.gif")
    assert len(frames) == 5 and np.asarray(frames[0]).shape[:2] == (16, 16)


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
