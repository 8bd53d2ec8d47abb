"""Export: a policy as an ONNX graph that acts alone, without lpo.

    observation [N, …] → flat → angles as (cos, sin) → normalised → network → likeliest action

The graph takes a batch of observations and returns actions as the environment takes them. What is
observed as one vector comes as one, float32, or float64 where some numbers are angles: those count
turns without end. Where an observation is not one array (Dict, Tuple, Discrete, …), the vector is
flat, as ``gymnasium.spaces.flatten`` makes it. Where there are images, each part of an observation
is an input, images as bytes. Masks are an input, and a memory is an input and an output. Every
export is compared with the policy before it is written.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from gymnasium import spaces

from lpo.envs.angles import turned as angles_turned
from lpo.envs.codec import tree_of
from lpo.envs.spaces import to_dict
from lpo.errors import LPOError
from lpo.math.distributions import NEVER, action_spec
from lpo.network import graph
from lpo.network.graph import Graph, Value
from lpo.policy import Policy
from lpo.runs.checkpoint import write_atomically
from lpo.runs.directory import task_line
from lpo.types import MASK, Leaf, Obs

OPSET, IR_VERSION = 17, 8  # old enough for most runtimes
TOLERANCE = 1e-5
START = "episode_start"


class Port(NamedTuple):
    """An input or an output of the graph: an array [N, *shape]."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...] = ()

    def declared(self, g: Graph) -> Any:
        kind, shape = g.type_of(self.dtype), ["N", *self.shape]
        return g.onnx.helper.make_tensor_value_info(self.name, kind, shape)


def export_onnx(policy: Policy, out: Path) -> Path:
    """Writes the policy to ``out`` as an ONNX model that takes the most likely action."""
    model = onnx_model(policy)
    compare(policy, model)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, model.SerializeToString())
    except OSError as error:
        raise LPOError(f"Cannot write {out} ({error}); pass another --out.") from error
    return out


def onnx_model(policy: Policy) -> Any:
    """Returns the policy as an ``onnx.ModelProto``."""
    g = Graph()
    helper = g.onnx.helper
    seen, before, after = observed(policy), memories(policy, ""), memories(policy, "next_")
    given = {path: g.input(port.name) for path, port in seen.items()}
    actor, spec = policy.actor, policy.codec.spec
    obs = spec.map(lambda leaf, x: flat(policy, leaf, x), given[""] if spec.bare else given)
    view = normalised(policy, actor.sight.view(obs))
    memory = tuple(g.input(port.name) for port in before)
    begins = g.input(START)
    memory, features = actor.sight.body.onnx(actor.body)(memory, view, begins)
    outputs = heads(policy, features)
    if actor.sight.masked:
        outputs = graph.where(given[MASK], outputs, np.float32(NEVER))
    raw = policy.codec.raw_action_space
    g.output(act(g, policy, outputs), "action")
    for port, value in zip(after, memory, strict=True):
        g.output(value, port.name)
    starts = [Port(START, np.dtype(bool))] if before else []
    action = Port("action", np.dtype(raw.dtype), raw.shape or ())
    made = helper.make_graph(
        g.nodes,
        "policy",
        [port.declared(g) for port in (*seen.values(), *before, *starts)],
        [port.declared(g) for port in (action, *after)],
        g.constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, producer_name="lpo", opset_imports=opsets)
    model.ir_version = IR_VERSION
    helper.set_model_props(model, about(policy))
    g.onnx.checker.check_model(model, full_check=True)
    return model


# -- inputs


def observed(policy: Policy) -> Mapping[str, Port]:
    """Returns the inputs that an observation is, by the paths of its leaves."""
    raw, angles = policy.codec.raw_observation_space, policy.codec.angles
    parts = tree_of(raw, policy.config.network.flat)
    if not parts:
        shape = raw.shape if isinstance(raw, spaces.Box) else (flat_size(policy),)
        return {"": Port("observation", np.dtype(np.float64 if angles else np.float32), shape)}
    one = policy.actor.sight.seen.bare

    def port(path: str, leaf: Leaf, space: spaces.Space) -> Port:
        if leaf.kind == "mask":
            return Port(MASK, np.dtype(bool), leaf.shape)
        name = "observation" if one else f"observation/{path}"
        shape = space.shape if isinstance(space, spaces.Box) else leaf.shape
        return Port(name, np.dtype(leaf.dtype), shape)

    return {part.path: port(part.path, part.leaf, part.space) for part in parts}


def memories(policy: Policy, prefix: str) -> list[Port]:
    """Returns the inputs or outputs that a memory is: none where the policy has none."""
    arrays = jax.tree.leaves(policy.actor.sight.body.memory(1))
    return [Port(f"{prefix}state_{i}", x.dtype, x.shape[1:]) for i, x in enumerate(arrays)]


def flat_size(policy: Policy) -> int:
    """Returns the size of a flat observation, before angles become (cos, sin)."""
    return policy.codec.observation_space.shape[0] - len(policy.codec.angles)


# -- the way of an observation


def flat(policy: Policy, leaf: Leaf, x: Value) -> Value:
    """Returns vectors flat, with their angles turned; anything else as it is."""
    if leaf.kind != "vector":
        return x
    angles = policy.codec.angles
    return turned(x.reshape(-1, leaf.shape[0] - len(angles)), angles, leaf.shape[0])


def turned(x: Value, angles: tuple[int, ...], size: int) -> Value:
    """Adds ``lpo.envs.angles.turned``; whole turns are taken off before float32 rounds them."""
    if not angles:
        return x
    g, places = x.graph, np.array(angles, np.int64)
    within = g.add("Mod", x, np.array(2 * np.pi), fmod=1).astype(np.float32)
    mask = np.isin(np.arange(size - len(angles)), places)
    cosines = g.add("Where", mask, g.add("Cos", within), x.astype(np.float32))
    sines = g.add("Sin", g.add("Gather", within, places, axis=1))
    return graph.concatenate([cosines, sines], axis=1)


def normalised(policy: Policy, obs: Obs) -> Obs:
    """Adds the normaliser of the policy."""
    bound = np.array(policy.config.network.obs_clip, np.float32)

    def one(leaf: Leaf, moments: Any, x: Value) -> Value:
        if leaf.kind != "vector":
            return x
        scale = (1.0 / np.sqrt(moments.var + 1e-8)).astype(np.float32)
        return clipped((x - moments.mean) * scale, -bound, bound)

    return policy.actor.sight.seen.map(one, policy.actor.moments, obs)


def clipped(x: Value, low: np.ndarray, high: np.ndarray) -> Value:
    """Adds bounds; those that are infinite change nothing and are left out."""
    x = x if np.isinf(low).all() else x.graph.add("Max", x, low)
    return x if np.isinf(high).all() else x.graph.add("Min", x, high)


def heads(policy: Policy, x: Value) -> Value:
    """Adds the layers of the policy."""
    *hidden, last = policy.actor.net
    for layer in hidden:
        x = graph.tanh(x @ layer.w + layer.b)
    return x @ last.w + last.b


def act(g: Graph, policy: Policy, outputs: Value) -> Value:
    """Adds the most likely action, in the shape and type of the environment's space."""
    raw, spec = policy.codec.raw_action_space, action_spec(policy.codec.action_space)
    if spec.nvec:
        sizes = np.array(spec.nvec, np.int64)
        ends = np.cumsum(sizes)
        choices = []
        for first, end in zip(ends - sizes, ends, strict=True):
            part = g.add("Slice", outputs, np.array([first]), np.array([end]), np.array([1]))
            choices.append(g.add("ArgMax", part, axis=1, keepdims=1))
        start = np.asarray(getattr(raw, "start", 0), np.int64).reshape(-1)
        action = graph.concatenate(choices, axis=1) + start
    else:
        low, high = (np.array(bound, np.float32) for bound in (spec.low, spec.high))
        action = clipped(outputs, low, high)
    action = action.reshape(-1, *(raw.shape or ())).astype(raw.dtype)
    if (
        isinstance(raw, spaces.Box) and raw.dtype == np.float64
    ):  # its bounds may lie between two numbers of float32
        action = clipped(action, raw.low, raw.high)
    return action


def about(policy: Policy) -> dict[str, str]:
    """Returns what the file says of itself."""
    codec = policy.codec
    return {
        "task": task_line(policy.task),
        "algorithm": policy.config.algo,
        "env_steps": str(policy.env_steps),
        "observation_space": json.dumps(to_dict(codec.raw_observation_space)),
        "action_space": json.dumps(to_dict(codec.raw_action_space)),
    }


# -- the comparison


class Drawn(NamedTuple):
    """Random inputs of the graph, and the same as the policy has them."""

    feed: dict[str, np.ndarray]
    obs: Obs
    memory: tuple[np.ndarray, ...]
    begins: np.ndarray


def compare(policy: Policy, model: Any, rows: int = 64) -> None:
    """Raises LPOError where the graph does not act as the policy does, on random observations."""
    reference = importlib.import_module("onnx.reference").ReferenceEvaluator(model)
    actor, drawn = policy.actor, draw(policy, rows)
    action, *memory = reference.run(None, drawn.feed)
    actor.begin(rows)
    if memory:
        actor.memory = drawn.memory
        actor.forget(drawn.begins)
    wanted = [policy.codec.action(actor.dist.to_env(actor.mode(drawn.obs)))]
    wanted += jax.tree.leaves(actor.memory)
    for got, expected in zip((action, *memory), wanted, strict=True):
        same = got.dtype == expected.dtype
        if not same or not np.allclose(got, expected, rtol=TOLERANCE, atol=TOLERANCE):
            raise LPOError(
                "The exported graph does not act as the policy does, so it was not written; report "
                "this with the run."
            )


def draw(policy: Policy, rows: int) -> Drawn:
    """Returns ``rows`` random inputs: what the policy may have seen, and angles of many turns."""
    rng, ports, spec = np.random.default_rng(0), observed(policy), policy.codec.spec
    feed, seen = {}, {}
    for path, leaf in spec.leaves:
        x = draw_leaf(policy, rng, path, leaf, rows)
        port = ports[path]
        feed[port.name] = x.astype(port.dtype).reshape(rows, *port.shape)
        x = feed[port.name].reshape(rows, -1) if leaf.kind == "vector" else x
        angles = policy.codec.angles if leaf.kind == "vector" else ()
        seen[path] = angles_turned(x, angles).astype(leaf.dtype)
    before = memories(policy, "")
    memory = tuple(rng.uniform(-1, 1, (rows, *port.shape)).astype(port.dtype) for port in before)
    feed |= {port.name: x for port, x in zip(before, memory, strict=True)}
    begins = rng.random(rows) < 0.5
    feed |= {START: begins} if before else {}
    return Drawn(feed, seen[""] if spec.bare else seen, memory, begins)


def draw_leaf(
    policy: Policy, rng: np.random.Generator, path: str, leaf: Leaf, rows: int
) -> np.ndarray:
    """Returns random arrays of one leaf, as the environment has it."""
    shape = (rows, *leaf.shape)
    if leaf.kind == "image":
        return rng.integers(0, 256, shape).astype(np.uint8)
    if leaf.kind == "grid":
        return rng.integers(0, leaf.sizes, shape).astype(np.uint8)
    if leaf.kind == "mask":
        marks = rng.random(shape) < 0.5
        marks[:, np.cumsum([0, *policy.actor.dist.factors[:-1]])] = True  # something is allowed
        return marks
    actor = policy.actor
    moments = actor.moments if actor.sight.seen.bare else actor.moments[path]
    size, angles = leaf.shape[0] - len(policy.codec.angles), list(policy.codec.angles)
    spread = 3 * np.sqrt(moments.var[:size])
    spread[angles] = 100.0  # many turns
    return moments.mean[:size] + spread * rng.standard_normal((rows, size))
