"""A policy that can be loaded and can act without a trainer and without an environment.

    policy = Policy.load("runs/hopper")
    action, _ = policy.predict(obs, deterministic=True)

``load`` takes a run directory, or a file of ``Agent.save`` or ``Policy.save``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy
from gymnasium import spaces

from lpo import config, files
from lpo.config import Config
from lpo.engine.rollout import HostPolicy, count
from lpo.envs import masks
from lpo.envs.angles import Angles
from lpo.envs.codec import Codec
from lpo.envs.faults import Misfit
from lpo.envs.spaces import from_dict, to_dict
from lpo.errors import LPOError
from lpo.math import distributions, trees
from lpo.math.nets import ActorCritic, Net, init_actor_critic
from lpo.math.normalize import Moments
from lpo.network import Own, sight
from lpo.runs import checkpoint
from lpo.runs.checkpoint import Checkpoint
from lpo.runs.directory import RunDirectory
from lpo.runs.verdict import Acts
from lpo.types import MASK, Obs, SpaceCodec

Kept = str  # which checkpoint of a run: "best" or "last"
CARD = "model"  # the name of the policy in a folder of `lpo card`


class Policy:
    """A trained policy. ``task`` describes what it was trained on, ``env_steps`` for how long.

    ``acts`` says what it does by default: "mode" or "sampled", the better by the evaluations that
    chose it; None where there were none.
    """

    def __init__(
        self,
        actor: HostPolicy,
        codec: SpaceCodec,
        config: Config,
        task: dict[str, Any],
        env_steps: int,
        rng: np.random.Generator | None = None,
        acts: Acts | None = None,
    ):
        self.actor, self.codec, self.config = actor, codec, config
        self.task, self.env_steps = task, env_steps
        self.acts = acts
        self.written: dict[str, Any] | None = None  # its configuration, where it was read
        self.rng = np.random.default_rng(config.seed) if rng is None else rng

    @classmethod
    def load(cls, path: str | Path, checkpoint: Kept = "best", *, network: Any = None) -> Policy:
        """Returns the policy of a run directory (its best or last checkpoint), a saved file or a
        folder that `lpo card` made. ``network`` is the one of your own that it was trained with."""
        saved = load_checkpoint(Path(path), checkpoint)
        recall(network, saved)
        return cls.of(saved, str(path))

    @classmethod
    def of(cls, saved: Checkpoint, source: str) -> Policy:
        """Returns the policy in a checkpoint; ``source`` names it in errors."""
        record = saved.record
        c = config.for_acting(record.get("config"), source)
        task = record.get("env")
        if not isinstance(task, dict) or not isinstance(record.get("env_steps"), int):
            raise LPOError(f"{source} does not say what it was trained on; pass a complete run.")
        codec = codec_of(record, c, source)
        acts = record.get("acts")
        if acts not in (None, "mode", "sampled"):
            raise LPOError(f"{source} acts by {acts!r}; pass a complete run.")
        actor = actor_of(saved.arrays, c, codec)
        policy = cls(actor, codec, c, task, record["env_steps"], acts=acts)
        policy.written = record["config"]
        return policy

    def way(self, actions: str = "own") -> Acts:
        """Returns how it acts: by its mode, sampled, or as it does by default ("own").

        A policy without an evaluation samples its actions, as it did in training.
        """
        return (self.acts or "sampled") if actions == "own" else actions  # type: ignore[return-value]

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool | None = None,
        action_masks: Any = None,
    ) -> tuple[np.ndarray, Any]:
        """Returns actions for one observation or a batch, as the environment takes them.

        They are the most likely ones if ``deterministic``, and sampled if not; by default what
        ``acts`` says. A policy with a memory returns it as the second value: pass it as ``state``
        with the next observation, and in ``episode_start`` whether that begins an episode.
        ``action_masks`` are the marks of what is allowed, where the environment has some.
        """
        observation = self.marked(observation, action_masks)
        obs, batched = batch_observation(self.codec, observation)
        if not all(np.isfinite(x).all() for x in jax.tree.leaves(obs)):
            raise LPOError(
                "predict got an observation with NaN or an infinite number; the policy was never "
                "trained on one, so correct what makes it."
            )
        deterministic = self.way() == "mode" if deterministic is None else deterministic
        self.remember(count(obs), state, episode_start)
        action = self.actor.act(obs, self.rng, deterministic)
        action = self.codec.action(self.actor.dist.to_env(action))
        after = self.actor.memory if self.config.network.remembers else state
        return (action if batched else action[0]), after

    def marked(self, observation: Any, action_masks: Any) -> Any:
        """Returns observations with their marks of what is allowed; by default all is."""
        space = self.codec.raw_observation_space
        if not self.actor.sight.masked:
            if action_masks is not None:
                raise LPOError(
                    "predict got action_masks, and this policy was trained without any; leave them "
                    "out."
                )
            return observation
        if isinstance(observation, dict) and MASK in observation and action_masks is None:
            return observation
        inner = {k: s for k, s in space.spaces.items() if k != MASK}  # type: ignore[attr-defined]
        first = next(iter(inner))
        number = masks.batched(
            inner[first], observation if first == masks.INNER else observation[first]
        )
        size = dict(self.codec.spec.leaves)[MASK].shape[0]
        lead = () if number is None else (number,)
        given = np.ones((*lead, size)) if action_masks is None else np.asarray(action_masks)
        if given.size != int(np.prod((*lead, size))):
            raise LPOError(
                f"predict got action_masks of shape {given.shape}; pass {(*lead, size)}, one mark "
                "for each choice."
            )
        return masks.with_mask(space, observation, given.reshape(*lead, size).astype(np.int8))

    def remember(self, number: int, state: Any, episode_start: Any) -> None:
        """Sets the memory of ``number`` environments, by default an empty one."""
        self.actor.begin(number)
        if not self.config.network.remembers or state is None:
            return
        wanted, given = self.actor.memory, tuple(np.asarray(x, np.float32) for x in state)
        if [x.shape for x in given] != [x.shape for x in wanted]:
            raise LPOError(
                f"predict got a state of shapes {[x.shape for x in given]} for {number} "
                "observations; pass the state that the last call returned for as many."
            )
        self.actor.memory = given
        start = np.zeros(number, bool) if episode_start is None else np.asarray(episode_start, bool)
        self.actor.forget(np.broadcast_to(start, (number,)))

    def save(self, path: str | Path) -> Path:
        """Writes ``path``.safetensors and ``path``.json: what acting needs, and nothing else."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        return checkpoint.save(path.parent, path.with_suffix("").name, self.arrays(), self.record())

    def to_bytes(self) -> bytes:
        """Returns the policy as one block, for a packed file; ``from_bytes`` reads it."""
        arrays = {name: np.asarray(x, order="C") for name, x in self.arrays().items()}
        return safetensors.numpy.save(arrays, {"lpo": json.dumps(self.record())})

    @classmethod
    def from_bytes(cls, data: bytes, source: str) -> Policy:
        """Returns the policy of ``to_bytes``; ``source`` names it in errors."""
        try:
            size = int.from_bytes(data[:8], "little")
            header = files.parse_json(data[8 : 8 + size])
            record = files.parse_json(header["__metadata__"]["lpo"])
            if not isinstance(record, dict):
                raise TypeError("its record is not a table")
            return cls.of(Checkpoint(safetensors.numpy.load(data), record), source)
        except (safetensors.SafetensorError, ValueError, LookupError, TypeError) as error:
            raise LPOError(
                f"The policy of {source} cannot be read ({error}); pack the runs again."
            ) from error

    def arrays(self) -> dict[str, np.ndarray]:
        actor = self.actor
        acting = Acting(actor.net, actor.log_std, actor.body)
        return trees.flatten("train", {"state": Saved(acting, settled(actor.moments))})

    def record(self) -> dict[str, Any]:
        return {
            "env_steps": self.env_steps,
            "acts": self.acts,
            "env": self.task,
            "spaces": {
                "observation": to_dict(self.codec.raw_observation_space),
                "action": to_dict(self.codec.raw_action_space),
            },
            "config": config.to_dict(self.config) if self.written is None else self.written,
        }


class Acting(NamedTuple):
    """The networks that acting needs, under the names that a checkpoint has for them."""

    policy: Net
    log_std: Any
    body: Any


class Saved(NamedTuple):
    params: Acting
    moments: Any


def settled(moments: Any) -> Any:
    """Returns statistics that acting needs: how many observations made them is left out."""
    one = lambda m: m._replace(count=np.float32(1))  # noqa: E731
    return jax.tree.map(one, moments, is_leaf=lambda m: isinstance(m, Moments))


def codec_of(record: dict[str, Any], c: Config, source: str) -> SpaceCodec:
    """Returns the translation between the user's observations and actions and the flat ones."""
    saved = record.get("spaces")
    if not isinstance(saved, dict):
        raise LPOError(f"{source} does not say what it observes; pass a complete run.")
    return Codec(
        c.task.env,
        from_dict(saved.get("observation")),
        from_dict(saved.get("action")),
        angles_of(record, source),
        c.network.flat,
    )


def angles_of(record: dict[str, Any], source: str) -> Angles:
    """Returns the places that the policy sees as (cos, sin)."""
    saved = record["env"].get("periodic", [])
    places = isinstance(saved, list) and all(type(place) is int and place >= 0 for place in saved)
    if not places or saved != sorted(set(saved)):
        raise LPOError(f"{source} does not say which numbers are angles; pass a complete run.")
    return tuple(saved)


def actor_of(arrays: dict[str, np.ndarray], c: Config, codec: SpaceCodec) -> HostPolicy:
    """Returns the policy in the named arrays of a checkpoint; their shapes are checked."""
    dist = distributions.for_space(codec.action_space)
    seen = sight(c.network, codec.spec)

    def made(key: Any) -> Saved:
        body, log_std = seen.body.init(key), jnp.zeros(dist.num_log_std)
        sizes = seen.body.size, dist.num_outputs
        nets = init_actor_critic(key, *sizes, log_std, c.network.hidden, 1, body=body)
        return Saved(Acting(nets.policy, nets.log_std, body), seen.observer.init())

    like = {"state": jax.eval_shape(made, jax.random.key(0))}
    state = trees.unflatten("train", like, arrays)["state"]
    params = ActorCritic(state.params.policy, state.params.log_std, (), state.params.body)
    return HostPolicy(params, state.moments, dist, seen)


def recall(network: Any, saved: Checkpoint) -> None:
    """Gives a network of the user's own the name that a file has for it."""
    if network is not None:
        stated = (saved.record.get("config") or {}).get("network") or {}
        Own.known(network, str(stated.get("name") or ""))


def load_checkpoint(path: Path, which: Kept) -> Checkpoint:
    """Returns a checkpoint of a run directory ("best" by evaluation, or "last"), file or card."""
    if which not in ("best", "last"):
        raise LPOError(f"There is no {which!r} checkpoint; choose best or last.")
    run = RunDirectory(path)
    if run.checkpoints.is_dir():
        run.check()
        return run.best() if which == "best" else run.latest()[0]
    if path.is_dir() and not (path / f"{CARD}.safetensors").exists():
        RunDirectory.open(path)  # says what else the directory is
    return checkpoint.load((path / CARD if path.is_dir() else path).with_suffix(".safetensors"))


def batch_observation(codec: SpaceCodec, observation: Any) -> tuple[Obs, bool]:
    """Returns observations as the engine has them, and whether the user passed a batch."""

    def seen(rows: list[np.ndarray]) -> Obs:
        return codec.spec.cast(codec.views(np.stack(rows)))

    try:
        return seen([codec.observation(observation)]), False
    except (Misfit, ValueError, TypeError, KeyError, IndexError):
        pass  # not one observation: a batch, as vector environments stack it
    try:
        rows = [codec.observation(x) for x in unstacked(codec.raw_observation_space, observation)]
        return seen(rows), True
    except (Misfit, ValueError, TypeError, KeyError, IndexError) as error:
        raise LPOError(
            f"predict got an observation that does not fit ({error}); pass one of "
            f"{codec.raw_observation_space}, or a batch of them."
        ) from error


def unstacked(space: spaces.Space, batch: Any) -> list[Any]:
    """Returns the observations of a batch as vector environments of Gymnasium and SB3 stack it."""
    if isinstance(space, spaces.Dict):
        parts = {k: unstacked(s, batch[k]) for k, s in space.items()}
        size = len(next(iter(parts.values())))
        return [{k: v[i] for k, v in parts.items()} for i in range(size)]
    if isinstance(space, spaces.Tuple):
        columns = [unstacked(s, b) for s, b in zip(space, batch, strict=True)]
        return list(zip(*columns, strict=True))
    return list(batch)
