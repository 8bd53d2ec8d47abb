"""The swing-up: mechanics by closed forms, the reward by hand, and a controller that solves it."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from lpo.envs import make_batch
from lpo.envs.swingup import CART, GRAVITY, HALF, POLE, RAIL, SwingUpEnv, accelerations, swing

TOTAL = CART + POLE


def at(x=0.0, angle=math.pi, v=0.0, spin=0.0):
    env = SwingUpEnv()
    env.state = np.array([x, angle, v, spin], np.float32)
    return env


def energy(state):
    """Of the cart, and of the pole: of its middle, its turning (J = m (2l)² / 12), its height."""
    _, angle, v, spin = state
    middle = v + HALF * spin * math.cos(angle), -HALF * spin * math.sin(angle)
    turning = POLE * (2 * HALF) ** 2 / 12 * spin**2
    moving = CART * v**2 + POLE * (middle[0] ** 2 + middle[1] ** 2)
    return 0.5 * (moving + turning) + POLE * GRAVITY * HALF * math.cos(angle)


def test_a_push_on_the_hanging_pole():
    """At θ = π the pole is a mass m l (ẍ cos θ + 4/3 l θ̈) = 0: M_eff ẍ = F."""
    push, turn = accelerations(np, math.pi, 0.0, 10.0)
    assert turn == pytest.approx(push / (4 / 3 * HALF))
    assert push == pytest.approx(10.0 / (TOTAL - 0.75 * POLE))


def test_accelerations_keep_the_energy():
    """Without a force dE/dt = 0, at any state: the change over a tiny step is of second order."""
    rng = np.random.default_rng(0)
    for x, angle, v, spin in rng.uniform(-2, 2, (20, 4)):
        push, turn = accelerations(np, angle, spin, 0.0)
        tiny = 1e-6
        after = (x + tiny * v, angle + tiny * spin, v + tiny * push, spin + tiny * turn)
        assert abs(energy(after) - energy((x, angle, v, spin))) / tiny < 1e-4


def test_a_force_does_its_work():
    """dE/dt = F ẋ."""
    push, turn = accelerations(np, 0.7, 1.5, 4.0)
    tiny, v = 1e-6, 0.8
    after = (tiny * v, 0.7 + tiny * 1.5, v + tiny * push, 1.5 + tiny * turn)
    assert (energy(after) - energy((0.0, 0.7, v, 1.5))) / tiny == pytest.approx(4.0 * v, rel=1e-3)


def test_a_free_pole_swings_with_the_period_of_small_angles():
    """ω² = g / (l (4/3 − m/(M + m))) about the hanging pole."""
    omega = math.sqrt(GRAVITY / (HALF * (4 / 3 - POLE / TOTAL)))
    state = np.array([0.0, math.pi - 0.02, 0.0, 0.0])
    angles = []
    for _ in range(500):
        state = swing(np, state, np.zeros(1))
        angles.append(math.remainder(state[1] - math.pi, 2 * math.pi))
    times = 0.02 * np.arange(1, 501)
    np.testing.assert_allclose(angles, -0.02 * np.cos(omega * times), atol=1.5e-3)


def test_the_rail_ends():
    env = at(x=RAIL - 0.001, v=1.0)
    obs, *_ = env.step(np.ones(1, np.float32))
    assert obs[0] == np.float32(RAIL) and obs[3] == 0.0


@pytest.mark.parametrize(
    ("x", "angle", "reward"),
    [(0.0, 0.0, 1.0), (0.9, 0.3, 1.0), (0.0, 0.35, 0.0), (1.1, 0.0, 0.0), (0.0, math.pi, 0.0)],
)
def test_only_upright_near_the_middle_pays(x, angle, reward):
    """cos .3 = .9553 and cos .35 = .9394; the state hardly changes within a step."""
    obs, paid, terminated, truncated, _ = at(x, angle).step(np.zeros(1, np.float32))
    assert (paid, terminated, truncated) == (reward, False, False)
    assert obs[1:3] == pytest.approx([math.cos(angle), math.sin(angle)], abs=0.01)


def pump_and_balance(obs):
    """Pumps energy until the pole is near the top, then balances by state feedback."""
    x, cos, sin, v, spin = (float(number) for number in obs)
    angle = math.atan2(sin, cos)
    if cos > 0.85:
        force = 40.0 * angle + 10.0 * spin + 2.0 * x + 4.0 * v
    else:
        lack = POLE * GRAVITY * HALF - (
            0.5 * POLE * HALF**2 * 4 / 3 * spin**2 + POLE * GRAVITY * HALF * cos
        )
        force = -20.0 * lack * math.copysign(1.0, spin * cos) - 1.0 * x - 1.0 * v
    return np.clip([force / 10.0], -1, 1).astype(np.float32)


def test_pumping_energy_solves_it():
    with gymnasium.make("lpo/SwingUp-v0") as env:
        obs, _ = env.reset(seed=0)
        assert obs[1] < -0.99
        total, steps, ended = 0.0, 0, False
        while not ended:
            obs, reward, terminated, ended, _ = env.step(pump_and_balance(obs))
            assert not terminated
            total, steps = total + float(reward), steps + 1
        assert steps == 500 and total > 250


def test_what_the_batch_declares():
    row = make_batch("lpo/SwingUp-v0", 1).description
    assert (row["horizon"], row["max_return"], row["success_return"]) == (500, 500.0, 250.0)


@pytest.mark.filterwarnings("ignore:.*infinity")  # speeds have no bounds
def test_gymnasium_finds_no_fault_and_the_image_shows_the_pole():
    with gymnasium.make("lpo/SwingUp-v0", render_mode="rgb_array") as env:
        check_env(env.unwrapped, skip_render_check=True)
        env.reset(seed=0)
        image = env.render()
        assert isinstance(image, np.ndarray)
        below = image[image.shape[0] // 2 + 20 :]  # it hangs
        assert (below == (200, 80, 60)).all(-1).any()
        above = image[: image.shape[0] // 2 - 20]
        assert not (above == (200, 80, 60)).all(-1).any()
