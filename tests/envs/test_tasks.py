"""Our own tasks, worked by hand: DeepSea, the lock, the mazes, the swing-up."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from lpo.envs import make_batch
from lpo.envs.maze import LARGE, SMALL, make_large, make_small
from lpo.envs.specs import LARGE_MAZE, MAZE
from lpo.envs.swingup import CART, GRAVITY, HALF, POLE, RAIL, SwingUpEnv, accelerations, swing
from lpo.errors import LPOError
from lpo.finite import deep_sea


def play(env, choose):
    obs, _ = env.reset(seed=0)
    total, steps, done = 0.0, 0, False
    while not done:
        state = int(obs.argmax())
        assert obs.sum() == 1
        obs, reward, done, truncated, _ = env.step(choose(state))
        assert not truncated
        total, steps = total + reward, steps + 1
    return total, steps


def test_deep_sea_by_hand():
    """Rights alone earn exactly 1 in ``size`` steps; lefts alone .01; one left on the way .01/size
    and no treasure."""
    table = deep_sea(6, layout=1)
    env = gymnasium.make("lpo/DeepSea-v0", size=6, layout=1)
    right = np.random.default_rng(1).integers(0, 2, size=(6, 6)).ravel()
    assert play(env, lambda s: right[s]) == (1.0, 6)
    total, steps = play(env, lambda s: 1 - right[s])
    assert steps == 6 and total == pytest.approx(0.01)
    total, _ = play(env, lambda s: 1 - right[s] if s == 0 else right[s])
    assert total == pytest.approx(0.01 / 6)
    assert table.max_return == 1.0 and table.horizon == 6


def test_the_lock_by_hand():
    """Length 3: first lock opened .2/3 + 1, second .2/3 + .4, dead at once 4·(.2/3)."""
    env = gymnasium.make("lpo/CombinationLock-v0", length=3, num_actions=4)
    code = np.random.default_rng(0).integers(0, 4, size=(2, 3, 2))

    def opener(first):
        def choose(s):
            side, rest = divmod(s - 1, 9)
            return first if s == 0 else code[side, rest // 3, rest % 3]

        return choose

    assert play(env, opener(0)) == pytest.approx((0.2 / 3 + 1.0, 4))
    assert play(env, opener(3)) == pytest.approx((0.2 / 3 + 0.4, 4))
    wrong = opener(0)
    fallen, steps = play(env, lambda s: 0 if s == 0 else (wrong(s) + 1) % 4 if s % 3 else 0)
    assert steps == 4 and fallen == pytest.approx(4 * 0.2 / 3)


def test_a_batch_knows_horizon_and_largest_return():
    batch = make_batch("lpo/DeepSea-v0", 2, env_kwargs={"size": 4})
    assert batch.description["horizon"] == 4 and batch.description["max_return"] == 1.0
    assert batch.observation_space.shape == (17,) and batch.resumable
    lock = make_batch("lpo/CombinationLock-v0", 1, env_kwargs={"length": 5})
    assert lock.description["max_return"] == pytest.approx(1.04)


@pytest.mark.parametrize("kwargs", [{"size": 1}, {"size": 2.5}, {"slip": 1.0}, {"layout": -1}])
def test_sizes_that_make_no_sea_are_refused(kwargs):
    with pytest.raises(LPOError, match="pass a"):
        make_batch("lpo/DeepSea-v0", 1, env_kwargs=kwargs)


# -- The point mazes, worked by hand

# Middles of the cells where the way to the goal turns, read off the drawings.
WAYS = {
    MAZE.id: [(5, 1), (5, 3), (1, 3), (1, 5), (5, 5)],
    LARGE_MAZE.id: [(3, 1), (3, 3), (1, 3), (1, 7), (7, 7), (7, 5), (9, 5), (9, 7)],
}


def at(env, x, y, v_x=0.0, v_y=0.0):
    env.state = np.array([x, y, v_x, v_y], np.float32)
    return env


def push(env, x, y):
    return env.step(np.array([x, y], np.float32))


def test_push_and_drag_by_hand():
    """v ← .9 v + .05 a, then x ← x + v."""
    env = at(make_small(), 2.2, 1.5, 0.2, 0.0)
    obs, reward, terminated, truncated, _ = push(env, 1.0, -0.5)
    np.testing.assert_allclose(obs, [2.2 + 0.23, 1.5 - 0.025, 0.23, -0.025], rtol=1e-6)
    assert (reward, terminated, truncated) == (0.0, False, False)


def test_a_long_push_nears_half_a_cell_a_step():
    """.05 / (1 − .9) is the speed that drag and push keep."""
    env = at(make_small(), 1.2, 1.5)
    speeds = [push(env, 1.0, 0.0)[0][2] for _ in range(10)]
    np.testing.assert_allclose(speeds, 0.5 * (1 - 0.9 ** np.arange(1, 11)), rtol=1e-5)


def test_walls_stop_the_point_a_tenth_of_a_cell_before_them():
    env = at(make_small(), 5.7, 1.5, 0.4, 0.1)
    obs, *_ = push(env, 1.0, 0.0)
    np.testing.assert_allclose(obs, [5.9, 1.59, 0.0, 0.09], rtol=1e-6)  # y goes on
    obs, *_ = push(at(env, 2.5, 1.3, 0.0, -0.4), 0.0, -1.0)
    np.testing.assert_allclose(obs, [2.5, 1.1, 0.0, 0.0], rtol=1e-6)
    obs, *_ = push(at(env, 2.5, 1.8, 0.0, 0.4), 0.0, 1.0)  # the wall above the first corridor
    np.testing.assert_allclose(obs, [2.5, 1.9, 0.0, 0.0], rtol=1e-6)


def test_the_goal_pays_once_and_ends():
    """The middle of the goal's cell is (5.5, 5.5); half a cell is there."""
    env = at(make_small(), 4.9, 5.5, 0.05, 0.0)
    assert push(env, 0.0, 0.0)[1:3] == (0.0, False)  # at 4.945
    assert push(at(env, 4.9, 5.5, 0.15, 0.0), 0.0, 0.0)[1:3] == (1.0, True)  # at 5.035


@pytest.mark.parametrize("make", [make_small, make_large])
def test_nothing_passes_a_wall(make):
    env, rng = make(), np.random.default_rng(0)
    env.reset(seed=0)
    pushes = np.repeat(rng.uniform(-1, 1, (400, 2)), 8, axis=0)  # kept up for 8 steps
    for action in pushes:
        (x, y, *_), *_ = push(env, *action)
        assert not env.maze.walls[int(y), int(x)]
        assert np.all(np.abs(env.state[2:]) <= 0.5)


def steer(obs, target):
    """A push towards ``target`` that brakes on the way."""
    return np.clip(2.0 * (target - obs[:2]) - 4.0 * obs[2:], -1, 1).astype(np.float32)


@pytest.mark.parametrize("task", [MAZE, LARGE_MAZE], ids=lambda task: task.id)
def test_the_way_on_the_drawing_leads_to_the_goal_in_half_the_time(task):
    with gymnasium.make(task.id) as env:
        obs, _ = env.reset(seed=1)
        way = [np.array(cell) + 0.5 for cell in WAYS[task.id]]
        reward, terminated, truncated = 0.0, False, False
        for _ in range(task.horizon // 2):
            if len(way) > 1 and np.abs(obs[:2] - way[0]).max() < 0.3:
                way.pop(0)
            obs, reward, terminated, truncated, _ = env.step(steer(obs, way[0]))
            if terminated:
                break
        assert (reward, terminated, truncated) == (1.0, True, False)


@pytest.mark.parametrize("task", [MAZE, LARGE_MAZE], ids=lambda task: task.id)
def test_the_declaration_fits_the_drawing(task):
    x, y = task.projection.axes
    maze = {MAZE.id: SMALL, LARGE_MAZE.id: LARGE}[task.id]
    assert (y.high, x.high) == maze.walls.shape
    batch = make_batch(task.id, 1)
    assert {"max_return": 1.0, "success_return": 1.0} | batch.description == batch.description
    assert [axis["name"] for axis in batch.description["projection"]] == ["x", "y"]


@pytest.mark.parametrize("task", [MAZE, LARGE_MAZE], ids=lambda task: task.id)
def test_gymnasium_finds_no_fault_and_the_image_shows_the_point(task):
    with gymnasium.make(task.id, render_mode="rgb_array") as env:
        check_env(env.unwrapped, skip_render_check=True)
        env.reset(seed=0)
        image = env.render()
        assert isinstance(image, np.ndarray)
        x, y = env.unwrapped.state[:2] * 32  # type: ignore[attr-defined]
        assert tuple(image[image.shape[0] - 1 - int(y), int(x)]) == (200, 80, 60)


# -- The swing-up: mechanics by closed forms, the reward by hand, and a controller that solves it

TOTAL = CART + POLE


def hanging_at(x=0.0, angle=math.pi, v=0.0, spin=0.0):
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
    env = hanging_at(x=RAIL - 0.001, v=1.0)
    obs, *_ = env.step(np.ones(1, np.float32))
    assert obs[0] == np.float32(RAIL) and obs[3] == 0.0


@pytest.mark.parametrize(
    ("x", "angle", "reward"),
    [(0.0, 0.0, 1.0), (0.9, 0.3, 1.0), (0.0, 0.35, 0.0), (1.1, 0.0, 0.0), (0.0, math.pi, 0.0)],
)
def test_only_upright_near_the_middle_pays(x, angle, reward):
    """cos .3 = .9553 and cos .35 = .9394; the state hardly changes within a step."""
    obs, paid, terminated, truncated, _ = hanging_at(x, angle).step(np.zeros(1, np.float32))
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
