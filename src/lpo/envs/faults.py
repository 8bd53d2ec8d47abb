"""Environments: the errors about a broken environment, one sentence with the remedy each."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from lpo.errors import LPOError, named

REMEDY = "correct the environment and resume from the last checkpoint."


def check_finite(
    name: str, obs: np.ndarray, reward: np.ndarray | None, elapsed: Callable[[int], int]
) -> None:
    """Raises on NaN and infinity; ``elapsed`` tells the episode step of an environment."""
    seen = [obs] if obs.dtype.names is None else [obs[name] for name in obs.dtype.names]
    real = [x for x in seen if x.dtype.kind == "f"]
    if all(np.isfinite(x).all() for x in real) and (reward is None or np.isfinite(reward).all()):
        return
    for what, array in (*(("observation", x) for x in real), ("reward", reward)):
        if array is None:
            continue
        finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        if not finite.all():
            i = int(np.argmin(finite))
            value = "NaN" if np.isnan(array[i]).any() else "an infinite value"
            raise LPOError(
                f"{name} (environment {i}) returned {value} in its {what} at episode step "
                f"{elapsed(i)}; {REMEDY}"
            )


def broken(name: str, index: int | None, elapsed: int | None, error: Exception) -> LPOError:
    """Returns the error for an environment that raised or returned what does not fit its space."""
    return failure(name, index, elapsed, words_of(error))


def failure(name: str, index: int | None, elapsed: int | None, words: str) -> LPOError:
    """Returns the error for an environment that failed as ``words`` say."""
    where = name if index is None else f"{name} (environment {index})"
    when = "" if elapsed is None else f" at episode step {elapsed}"
    return LPOError(f"{where} failed{when}, {words}; {REMEDY}")


def words_of(error: Exception) -> str:
    """Returns what an environment did."""
    kind = "" if isinstance(error, Misfit) else f"raised {type(error).__name__}: "
    return f"{kind}{error}"


class Misfit(ValueError):
    """Raised when an environment returns something invalid; the text says what."""


class Hung(BaseException):
    """Raised within a step that takes too long; no environment catches it as an ``Exception``."""


def limited(env: Any, seconds: float | None) -> Any:
    """Returns ``env``, whose steps and resets then take at most ``seconds``; None: as it is.

    The limit is a timer of the system, and its signal is ours from then on. Code that never returns
    to Python is not interrupted.
    """
    if seconds is None:
        return env
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        raise LPOError(
            f"{named('step_timeout')} works in the main thread on Linux and macOS only; leave it "
            "out."
        )
    signal.signal(signal.SIGALRM, ring)
    made: Any = VectorWrapper(env) if isinstance(env, VectorEnv) else gymnasium.Wrapper(env)
    made.step, made.reset = bounded(env.step, seconds), bounded(env.reset, seconds)
    close = bounded(env.close, seconds)

    def closed() -> None:  # an environment that hangs may also hang here
        with suppress(Misfit):
            close()
        if isinstance(env, VectorEnv):
            env.closed = True  # else it closes itself again, without a limit, when it is deleted

    made.close = closed
    return made


def ring(*_: Any) -> None:
    """Handles the signal of the timer."""
    raise Hung


def bounded(call: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Returns ``call``, which then raises Misfit where it takes longer."""

    def within(*args: Any, **kwargs: Any) -> Any:
        before = signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            return call(*args, **kwargs)
        except Hung:
            limit = named("step_timeout")
            raise Misfit(f"it did not return within {seconds:g} seconds, the {limit}") from None
        finally:
            signal.setitimer(signal.ITIMER_REAL, *before)

    return within
