"""Environments: the options of a task, and the batch that they make."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pydantic

from lpo.envs import angles
from lpo.envs.make import make_batch, make_single, runs_natively
from lpo.envs.pools import is_pool, name_in_pool
from lpo.envs.registry import find_spec, find_wrapper, is_device_alone, wrapper_name
from lpo.envs.specs import LOCOMOTION
from lpo.errors import LPOError, named
from lpo.files import parse_json
from lpo.options import Axis, Count, HostOnly, Idle, Positive, PositiveInt, Short, options
from lpo.types import BatchEnv

DEFAULT_ENV = "lpo/SparseHopper-v0"
CUSTOM = "custom"  # the id of an environment that was passed as an object


def _number(value: Any) -> Any:
    """A speed may come as a text, from the command line or from a file."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _dictionary(value: Any) -> Any:
    """A dictionary may come as JSON text."""
    try:
        return parse_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


Threshold = Annotated[float | str | None, pydantic.BeforeValidator(_number)]
Periodic = Annotated[tuple[Count, ...] | Literal["auto"], pydantic.BeforeValidator(angles.places)]
Wrapper = Annotated[str | None, pydantic.BeforeValidator(wrapper_name)]
Arguments = Annotated[dict[str, Any] | None, pydantic.BeforeValidator(_dictionary)]


@options
class TaskOptions:
    """The task and how it is stepped."""

    env: str = DEFAULT_ENV
    """Gymnasium id, for instance lpo/SparseHopper-v0."""
    num_envs: PositiveInt = 8
    """Environments that are stepped as one batch."""
    threshold: Axis[Threshold] = None
    """Sparse locomotion: a preset (half, hard, unit, position, position-far) or a speed in m/s."""
    env_kwargs: Arguments = None
    """Further keyword arguments of the environment, as a JSON object."""
    backend: HostOnly[Literal["auto", "native", "gymnasium"]] = "auto"
    """native: batched MuJoCo (sparse locomotion). gymnasium: any task. auto: native if possible."""
    threads: HostOnly[Idle[PositiveInt | None]] = None
    """Number of threads that step native and EnvPool environments (default: all usable cores)."""
    periodic: Annotated[Periodic, Short("angles")] = ()
    """Indices of observation entries that are angles, for example 0,3. Each is replaced by its
    cosine and sine. auto: the hinges without limits of Gymnasium's MuJoCo tasks."""
    env_workers: HostOnly[Idle[Count | Literal["auto"]]] = "auto"
    """Number of processes that step Gymnasium environments; 0: the run steps them itself. auto: one
    process for each usable core if steps are slow (more than 2 ms for the whole batch). Results do
    not depend on it."""
    wrapper: HostOnly[Wrapper] = None
    """module:function that wraps each environment, as gymnasium.Wrapper does. Other people who read
    the run need --import module."""
    step_timeout: HostOnly[Idle[Positive | None]] = None
    """Time limit in seconds for one step or reset of a Gymnasium environment; a longer one stops
    the run. By default there is no limit."""

    def __post_init__(self) -> None:
        try:
            json.dumps(self.env_kwargs)
        except (TypeError, ValueError, RecursionError) as error:
            raise LPOError(
                f"{named('env_kwargs')} cannot be saved as JSON ({error}); pass numbers, texts, "
                "lists and dictionaries."
            ) from None

    def check(self, device: bool = False) -> None:
        """Raises LPOError for a task that could not be made, on the host or on a device.

        It does not make the task.
        """
        if is_pool(self.env) and not device:
            name = name_in_pool(self.env)
        elif device or is_device_alone(self.env):
            from lpo.envs.device import device_name

            device = True  # its maker knows its threshold

            name = device_name(self.env)
        else:
            name = find_spec(self.env).id
        if self.wrapper is not None:
            find_wrapper(self.wrapper)
        if name in LOCOMOTION:
            LOCOMOTION[name].threshold(**self.limits)
        elif self.threshold is not None and not device:  # `make_device` knows its own
            raise LPOError(f"{self.env} has no threshold; leave {named('threshold')} out.")

    @property
    def native(self) -> bool:
        """Whether the task is stepped as a native batch, which has threads."""
        return is_pool(self.env) or runs_natively(
            self.env, self.backend, self.env_kwargs, self.wrapper
        )

    @property
    def limits(self) -> dict[str, Any]:
        """Returns the threshold as ``make_batch`` takes it."""
        if self.threshold is None:
            return {}
        name = "preset" if isinstance(self.threshold, str) else "threshold"
        return {name: self.threshold}

    def make(self, num_envs: int | None = None, env: Any = None, *, flat: bool = True) -> BatchEnv:
        """Returns the batch of the task, or of ``env`` where the user passed an object.

        ``flat`` is False where the network reads small grids of codes as images.
        """
        if env is None and is_device_alone(self.env):
            from lpo.envs.host.from_device import make_host

            return make_host(self, num_envs or self.num_envs)
        return make_batch(
            self.env if env is None else env,
            num_envs or self.num_envs,
            **self.limits,
            threads=self.threads,
            backend=self.backend,
            env_kwargs=self.env_kwargs,
            periodic=self.periodic,
            step_timeout=self.step_timeout,
            env_workers=self.env_workers,
            wrapper=self.wrapper,
            flat=flat,
        )

    def make_single(self, *, flat: bool = True) -> Any:
        """Returns one environment that renders."""
        if is_device_alone(self.env):
            from lpo.envs.host.from_device import make_drawn

            return make_drawn(self)
        return make_single(
            self.env,
            **self.limits,
            env_kwargs=self.env_kwargs,
            periodic=self.periodic,
            wrapper=self.wrapper,
            flat=flat,
        )
