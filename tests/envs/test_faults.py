"""Broken environments are named: which one, which step, what to do."""

from __future__ import annotations

import gc
import signal
import threading
import time

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from lpo.envs import make_batch
from lpo.errors import LPOError

from .toys import Counter, Faulty, Spaces


def two_with_the_second(fault):
    made = iter((Counter(), Faulty(fault)))
    return lambda: next(made)


FAULTS = [
    ("raise", "raised RuntimeError: the motor is on fire"),
    ("nan", "returned NaN in its observation"),
    ("inf reward", "returned an infinite value in its reward"),
    ("shape", r"its observation has shape \(3,\) and its space \(2,\)"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_fault_in_a_batch(fault, message):
    batch = make_batch(two_with_the_second(fault), 2)
    batch.reset(0)
    batch.step(np.zeros(2, np.int64))
    with pytest.raises(LPOError, match=message) as caught:
        batch.step(np.zeros(2, np.int64))
    text = str(caught.value)
    assert "Faulty" not in text and "Counter (environment 1)" in text
    assert "episode step 2" in text
    assert text.endswith("correct the environment and resume from the last checkpoint.")
    if fault == "raise":
        assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_fault_in_a_vector_environment(fault, message):
    if fault == "shape":  # Gymnasium itself stumbles over it while stacking the observations
        message = "raised ValueError"
    batch = make_batch(SyncVectorEnv([Counter, lambda: Faulty(fault)]), 2)
    batch.reset(0)
    batch.step(np.zeros(2, np.int64))
    with pytest.raises(LPOError, match=message) as caught:
        batch.step(np.zeros(2, np.int64))
    if fault in ("nan", "inf reward"):
        assert "(environment 1)" in str(caught.value)
        assert "episode step 2" in str(caught.value)


def test_fault_in_a_reset():
    class Stillborn(Counter):
        def reset(self, *, seed=None, options=None):
            raise OSError("no licence")

    with pytest.raises(LPOError, match=r"episode step 0, raised OSError: no licence"):
        make_batch(Stillborn, 1).reset(0)


def test_nan_in_a_reset_observation():
    class Blank(Counter):
        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return (obs * np.nan if self.k == 1 else obs), info

    batch = make_batch(Blank, 1)
    batch.reset(0)
    with pytest.raises(LPOError, match="NaN in its observation at episode step 0"):
        for _ in range(3):
            batch.step(np.zeros(1, np.int64))


def test_old_step_signature():
    class Old(Counter):
        def step(self, action):
            return super().step(action)[:4]  # as before Gymnasium 0.26

    batch = make_batch(Old, 1)
    batch.reset(0)
    with pytest.raises(LPOError, match="not enough values to unpack"):
        batch.step(np.zeros(1, np.int64))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda obs: (obs + 1j, 0.0, False, False, {}), "is of type complex128"),
        (lambda obs: (obs, 0.0, True, False, None), "its information is None and must be a dict"),
    ],
)
def test_wrong_types(wrong, message):
    class Odd(Counter):
        def step(self, action):
            return wrong(super().step(action)[0])

    batch = make_batch(Odd, 1)
    batch.reset(0)
    with pytest.raises(LPOError, match=message):
        batch.step(np.zeros(1, np.int64))


def test_interrupts_are_not_swallowed():
    class Interrupted(Counter):
        def step(self, action):
            raise KeyboardInterrupt

    batch = make_batch(Interrupted, 1)
    batch.reset(0)
    with pytest.raises(KeyboardInterrupt):
        batch.step(np.zeros(1, np.int64))


class Stuck(Counter):
    """Waits for ever at its second step, or when it is closed, and catches what it can."""

    def step(self, action):
        return hang() if self.t == 1 else super().step(action)

    def close(self):
        hang()


def hang():
    for _ in range(40):
        try:
            time.sleep(0.5)
        except Exception:
            continue
    raise AssertionError("nothing has ended it")


@pytest.mark.parametrize("many", [False, True])
def test_an_environment_that_hangs_is_named(many):
    env = SyncVectorEnv([Counter, Stuck]) if many else iter((Counter(), Stuck())).__next__
    batch = make_batch(env, 2, step_timeout=0.2)
    batch.reset(0)
    batch.step(np.zeros(2, np.int64))
    with pytest.raises(LPOError, match=r"did not return within 0\.2 seconds") as caught:
        batch.step(np.zeros(2, np.int64))
    assert many or "Counter (environment 1) failed at episode step 2, it" in str(caught.value)
    batch.close()  # which hangs too
    began = time.monotonic()
    del batch, env, caught
    gc.collect()
    assert time.monotonic() - began < 10
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_limit_changes_no_step():
    batches = [make_batch(Counter, 2, step_timeout=limit) for limit in (None, 60.0)]
    for batch in batches:
        batch.reset(0)
    steps = [[batch.step(np.zeros(2, np.int64)) for _ in range(5)] for batch in batches]
    for one, other in zip(*steps, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_limit_needs_the_main_thread():
    said = []

    def make():
        try:
            make_batch(Counter, 1, step_timeout=1.0)
        except LPOError as error:
            said.append(str(error))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert "main thread" in said[0]


def test_dictionary_without_a_key():
    line = spaces.Box(-1.0, 1.0, (1,), np.float64)
    env = Spaces(spaces.Dict({"a": line, "b": line}), spaces.Discrete(2))
    batch = make_batch(env, 1)
    batch.reset(0)
    env.step = lambda action: ({"a": np.zeros(1)}, 0.0, False, False, {})
    with pytest.raises(LPOError, match="raised KeyError"):
        batch.step(np.zeros(1, np.int64))
    env.step = lambda action: ({"a": np.zeros(1), "b": np.zeros(2)}, 0.0, False, False, {})
    with pytest.raises(LPOError, match="flattens to 3 numbers and its space to 2"):
        batch.step(np.zeros(1, np.int64))
