"""Advantages against numbers worked out by hand (γ = λ = ½ keeps them short)."""

import jax.numpy as jnp
import numpy as np
import pytest

from lpo.math.advantage import ACROSS, ENDS, NEUTRAL, Trajectory, gae, streams_gae

F, T = False, True


def advantages(reward, value, next_value, last, terminated, truncated, valid=None, ends=ENDS):
    flags = [jnp.array(x) for x in (terminated, truncated, valid or [T] * len(reward))]
    x = Trajectory(
        jnp.array(reward), jnp.array(value), jnp.array(next_value), jnp.float32(last), *flags
    )
    return np.asarray(gae(x, jnp.float32(0.5), 0.5, jnp.int32(ends)))


def test_no_episode_ends():
    # δ_1 = 4 + ½·6 − 2 = 5;  δ_0 = 1 + ½·2 − 1 = 1;  Â_0 = 1 + ¼·5
    out = advantages([1.0, 4.0], [1.0, 2.0], [2.0, 6.0], 6.0, [F, F], [F, F])
    np.testing.assert_allclose(out, [2.25, 5.0])


def test_a_terminal_state_is_worth_nothing():
    # step 0 ends the episode: δ_0 = 1 − 1 = 0, nothing of step 1 enters
    out = advantages([1.0, 4.0], [1.0, 2.0], [100.0, 6.0], 6.0, [T, F], [F, F])
    np.testing.assert_allclose(out, [0.0, 5.0])


def test_a_time_limit_bootstraps_from_the_final_observation():
    # δ_0 = 1 + ½·8 − 1 = 4, and the sum stops there
    for ends in (ENDS, ACROSS, NEUTRAL):
        out = advantages([1.0, 4.0], [1.0, 2.0], [8.0, 6.0], 6.0, [F, F], [T, F], ends=ends)
        np.testing.assert_allclose(out, [4.0, 5.0])


def test_non_episodic_bonus_crosses_a_terminal_state():
    # after the end comes s_1 with V = 2: δ_0 = 1 + ½·2 − 1 = 1, Â_0 = 1 + ¼·5
    out = advantages([1.0, 4.0], [1.0, 2.0], [100.0, 6.0], 6.0, [T, F], [F, F], ends=ACROSS)
    np.testing.assert_allclose(out, [2.25, 5.0])


def test_a_neutral_end_is_as_if_a_time_limit_had_cut_the_episode():
    # δ_0 = 1 + ½·8 − 1 = 4: the value of the last observation, and the sum stops there
    out = advantages([1.0, 4.0], [1.0, 2.0], [8.0, 6.0], 6.0, [T, F], [F, F], ends=NEUTRAL)
    np.testing.assert_allclose(out, [4.0, 5.0])


def test_non_episodic_end_on_the_last_step_uses_the_observation_after():
    # δ_0 = 1 + ½·6 − 1 = 3
    out = advantages([1.0], [1.0], [100.0], 6.0, [T], [F], ends=ACROSS)
    np.testing.assert_allclose(out, [3.0])


@pytest.mark.parametrize("ends", [ENDS, ACROSS, NEUTRAL])
def test_steps_that_do_not_count_are_as_if_they_were_not_there(ends):
    plain = advantages([1.0, 4.0], [1.0, 2.0], [9.0, 6.0], 6.0, [T, F], [F, F], ends=ends)
    padded = advantages(
        [1.0, 7.0, 4.0, 7.0],
        [1.0, 7.0, 2.0, 7.0],
        [9.0, 7.0, 6.0, 7.0],
        6.0,
        [T, F, F, T],
        [F, T, F, F],
        [T, F, T, F],
        ends=ends,
    )
    np.testing.assert_allclose(padded, [plain[0], 0.0, plain[1], 0.0])


def test_streams_have_their_own_discount_and_episodes():
    x = Trajectory(
        reward=jnp.array([[[1.0]], [[2.0]]]),  # [S=2, T=1, N=1]
        value=jnp.zeros((2, 1, 1)),
        next_value=jnp.full((2, 1, 1), 50.0),
        last_value=jnp.full((2, 1), 10.0),
        terminated=jnp.array([[True]]),
        truncated=jnp.array([[False]]),
        valid=jnp.array([[True]]),
    )
    out = streams_gae(x, jnp.array([0.5, 0.1]), jnp.full(2, 0.95), jnp.array([ENDS, ACROSS]))
    np.testing.assert_allclose(np.asarray(out).reshape(-1), [1.0, 3.0])  # 1;  2 + 0.1·10


def test_streams_have_their_own_lambda():
    """Two steps of reward 1, all values 0, γ = 1: the first step has 1 + λ."""
    x = Trajectory(
        reward=jnp.ones((2, 2, 1)),  # [S=2, T=2, N=1]
        value=jnp.zeros((2, 2, 1)),
        next_value=jnp.zeros((2, 2, 1)),
        last_value=jnp.zeros((2, 1)),
        terminated=jnp.zeros((2, 1), bool),
        truncated=jnp.zeros((2, 1), bool),
        valid=jnp.ones((2, 1), bool),
    )
    out = streams_gae(x, jnp.ones(2), jnp.array([0.5, 0.25]), jnp.array([ENDS, ACROSS]))
    np.testing.assert_allclose(out[..., 0], [[1.5, 1.0], [1.25, 1.0]])
