"""Other faults: environments that go wrong, two writers, clocks that jump, killed grids."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import Continuous_MountainCarEnv

from lpo.errors import LPOError
from lpo.runs.directory import RunDirectory
from lpo.runs.run import resume, start
from tests.faults.disk import Trial
from tests.faults.kills import Whole
from tests.faults.lives import Case, Watch, live
from tests.faults.table import Result

FAULT = "LPO_TEST_FAULT"  # what the environment does wrong, and at which of its steps


class Strange(Continuous_MountainCarEnv):
    """MountainCar, until the variable FAULT says what goes wrong."""

    taken = 0  # steps of all environments in this process

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        fault, _, at = os.environ.get(FAULT, "none 0").partition(" ")
        Strange.taken += 1
        if fault != "none" and Strange.taken >= int(at):
            return WRONG[fault](obs, reward, info)
        return obs, reward, terminated, truncated, info


def hang(*_: Any) -> Any:
    while True:
        time.sleep(60)


def die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSEGV)


def fail(*_: Any) -> Any:
    raise RuntimeError("the motor is on fire")


Faulty = Callable[[Any, Any, Any], Any]
WRONG: dict[str, Faulty] = {
    "hangs": hang,
    "dies": die,
    "raises": fail,
    "NaN": lambda obs, reward, info: (obs * np.nan, reward, False, False, info),
    "inf": lambda obs, reward, info: (obs, np.inf, False, False, info),
    "wrong shape": lambda obs, reward, info: (obs[:1], reward, False, False, info),
    "wrong type of observation": lambda obs, reward, info: (None, reward, False, False, info),
    "text for a reward": lambda obs, reward, info: (obs, "much", False, False, info),
    "complex numbers": lambda obs, reward, info: (obs + 1j, reward, False, False, info),
    "no information": lambda obs, reward, info: (obs, reward, True, False, None),
    "four values": lambda obs, reward, info: (obs, reward, False, info),
}
CASE = Case("lpo", "strange")


def environments(whole: Whole, rng: random.Random, times: int) -> Iterator[Result]:
    """An environment that goes wrong at a random step; the run goes on when it is mended."""
    gymnasium.register("Strange-v0", entry_point=f"{__name__}:Strange", max_episode_steps=999)
    for fault in WRONG:
        for _ in range(times):
            trial = Trial(f"environment: {fault}", CASE, whole, whole.work / "cut-strange")
            os.environ[FAULT] = f"{fault} {rng.randrange(1, 1500)}"
            try:
                trial.suffer()
            finally:
                del os.environ[FAULT]
            yield trial.result()


def writers(whole: Whole, rng: random.Random, times: int, cases: list[Case]) -> Iterator[Result]:
    """A second process wants to write to the same directory, at a random moment."""
    for i in range(times):
        trial = Trial("two writers", cases[i % len(cases)], whole, whole.work / "cut-writers")
        seen: list[str] = []

        def second(pid: int, trial: Trial = trial, seen: list[str] = seen) -> None:
            time.sleep(rng.uniform(0, 1.5))
            while not trial.out.exists():
                time.sleep(0.01)
            for work in (
                partial(again, trial.case, trial.out),
                partial(anew, trial.case, trial.out),
            ):
                running = not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                end = live(work, Watch())
                if running and end.code not in (0, 2):
                    seen.append(end.said[-300:])

        trial.suffer(meanwhile=second)
        trial.why = trial.why or "".join(seen)
        yield trial.result()


def again(case: Case, out: Path) -> None:
    if case.task == "device":
        raise LPOError("left out: a second sweep waits 20 seconds for the first one")
    if RunDirectory(out).exists:
        resume(out)  # it must refuse: nothing is trained


def anew(case: Case, out: Path) -> None:
    if case.task != "device":
        start(case.config, out)


def clocks(whole: Whole, rng: random.Random, times: int, cases: list[Case]) -> Iterator[Result]:
    """The wall clock jumps by up to three years at every look, forwards and backwards."""
    true = time.time
    for i in range(times):
        trial = Trial("clock that jumps", cases[i % len(cases)], whole, whole.work / "cut-clock")
        time.time = lambda: true() + rng.uniform(-1e8, 1e8)
        try:
            yield trial.result()
        finally:
            time.time = true
