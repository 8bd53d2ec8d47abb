"""Export: a policy as an ONNX graph that acts alone, without lpo.

    observation [N, …] → flat → angles as (cos, sin) → normalised → network → likeliest action

The graph takes a batch of observations and returns actions as the environment takes them.
Observations are float32, or float64 where some are angles: those count turns without end. Where an
observation is not one array (Dict, Tuple, Discrete, …), the graph takes it flat, as
``gymnasium.spaces.flatten`` makes it. Every export is compared with ``predict`` before it is
written.
"""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from lpo.envs.angles import turned as angles_turned
from lpo.envs.spaces import to_dict
from lpo.errors import LPOError
from lpo.math.distributions import action_spec
from lpo.policy import Policy
from lpo.runs.checkpoint import write_atomically
from lpo.runs.directory import task_line

OPSET, IR_VERSION = 17, 8  # old enough for most runtimes
TOLERANCE = 1e-5


class Graph:
    """Nodes and constants in the order in which they are added."""

    def __init__(self) -> None:
        self.onnx: Any = library()
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.numbers = itertools.count()

    def constant(self, value: np.ndarray) -> str:
        """Returns the name of an array."""
        name = f"c{next(self.numbers)}"
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str | np.ndarray, **attributes: Any) -> str:
        """Returns the name of the result of ``op``; arrays among the inputs become constants."""
        name = f"x{next(self.numbers)}"
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(self.onnx.helper.make_node(op, names, [name], **attributes))
        return name


def library() -> Any:
    """Imports onnx. Raises LPOError where it is not installed."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise LPOError("An ONNX export needs onnx; run `pip install 'lpo-rl[onnx]'`.") from error


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
    if policy.codec.spec.size is None or policy.config.network.remembers:
        raise LPOError(
            f"An ONNX export takes a policy that reads one vector, and this one reads "
            f"{policy.codec.spec.words} with the network {policy.config.network.kind}; act with "
            "Policy.predict."
        )
    g = Graph()
    helper = g.onnx.helper
    flat = g.add("Reshape", "observation", np.array([-1, flat_size(policy)], np.int64))
    action = act(g, policy, network(g, policy, normalised(g, policy, turned(g, policy, flat))))
    g.nodes.append(helper.make_node("Identity", [action], ["action"]))
    raw = policy.codec.raw_action_space
    graph = helper.make_graph(
        g.nodes,
        "policy",
        [tensor(g, "observation", type_of(g, input_type(policy)), input_shape(policy))],
        [tensor(g, "action", type_of(g, raw.dtype), raw.shape or ())],
        g.constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, producer_name="lpo", opset_imports=opsets)
    model.ir_version = IR_VERSION
    helper.set_model_props(model, about(policy))
    g.onnx.checker.check_model(model, full_check=True)
    return model


def type_of(g: Graph, dtype: Any) -> int:
    return g.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def tensor(g: Graph, name: str, kind: int, shape: tuple[int, ...]) -> Any:
    return g.onnx.helper.make_tensor_value_info(name, kind, ["N", *shape])


def input_shape(policy: Policy) -> tuple[int, ...]:
    """Returns the shape of one observation: that of a Box, or a vector."""
    raw = policy.codec.raw_observation_space
    return raw.shape if isinstance(raw, spaces.Box) else (flat_size(policy),)


def input_type(policy: Policy) -> np.dtype:
    return np.dtype(np.float64 if policy.codec.angles else np.float32)


def flat_size(policy: Policy) -> int:
    """Returns the size of a flat observation, before angles become (cos, sin)."""
    return policy.codec.observation_space.shape[0] - len(policy.codec.angles)


def turned(g: Graph, policy: Policy, x: str) -> str:
    """Adds ``lpo.envs.angles.turned``; whole turns are taken off before float32 rounds them."""
    if not policy.codec.angles:
        return x
    places = np.array(policy.codec.angles, np.int64)
    single = type_of(g, np.float32)
    within = g.add("Cast", g.add("Mod", x, np.array(2 * np.pi), fmod=1), to=single)
    mask = np.isin(np.arange(flat_size(policy)), places)
    cosines = g.add("Where", mask, g.add("Cos", within), g.add("Cast", x, to=single))
    sines = g.add("Sin", g.add("Gather", within, places, axis=1))
    return g.add("Concat", cosines, sines, axis=1)


def normalised(g: Graph, policy: Policy, x: str) -> str:
    """Adds the normaliser of the policy."""
    actor = policy.actor
    scale = (1.0 / np.sqrt(actor.moments.var + 1e-8)).astype(np.float32)
    x = g.add("Mul", g.add("Sub", x, actor.moments.mean), scale)
    bound = np.array(policy.config.network.obs_clip, np.float32)
    return clipped(g, x, -bound, bound)


def clipped(g: Graph, x: str, low: np.ndarray, high: np.ndarray) -> str:
    """Adds bounds; those that are infinite change nothing and are left out."""
    x = x if np.isinf(low).all() else g.add("Max", x, low)
    return x if np.isinf(high).all() else g.add("Min", x, high)


def network(g: Graph, policy: Policy, x: str) -> str:
    """Adds the layers of the policy's network."""
    *hidden, last = policy.actor.net
    for layer in hidden:
        x = g.add("Tanh", g.add("Add", g.add("MatMul", x, layer.w), layer.b))
    return g.add("Add", g.add("MatMul", x, last.w), last.b)


def act(g: Graph, policy: Policy, outputs: str) -> str:
    """Adds the most likely action, in the shape and type of the environment's space."""
    raw, spec = policy.codec.raw_action_space, action_spec(policy.codec.action_space)
    if spec.nvec:
        sizes = np.array(spec.nvec, np.int64)
        ends = np.cumsum(sizes)
        choices = []
        for first, end in zip(ends - sizes, ends, strict=True):
            part = g.add("Slice", outputs, np.array([first]), np.array([end]), np.array([1]))
            choices.append(g.add("ArgMax", part, axis=1, keepdims=1))
        action = g.add("Concat", *choices, axis=1)
        start = np.asarray(getattr(raw, "start", 0), np.int64).reshape(-1)
        action = g.add("Add", action, start)
    else:
        low, high = (np.array(bound, np.float32) for bound in (spec.low, spec.high))
        action = clipped(g, outputs, low, high)
    shape = np.array([-1, *(raw.shape or ())], np.int64)
    action = g.add("Cast", g.add("Reshape", action, shape), to=type_of(g, raw.dtype))
    if (
        isinstance(raw, spaces.Box) and raw.dtype == np.float64
    ):  # its bounds may lie between two numbers of float32
        action = clipped(g, action, raw.low, raw.high)
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


def compare(policy: Policy, model: Any, rows: int = 64) -> None:
    """Raises LPOError where the graph does not act as ``predict`` does, on random observations."""
    reference = importlib.import_module("onnx.reference").ReferenceEvaluator(model)
    rng, actor = np.random.default_rng(0), policy.actor
    size, angles = flat_size(policy), policy.codec.angles
    spread = 3 * np.sqrt(actor.moments.var[:size])
    spread[list(angles)] = 100.0  # many turns
    flat = actor.moments.mean[:size] + spread * rng.standard_normal((rows, size))
    flat = flat.astype(input_type(policy))
    (got,) = reference.run(None, {"observation": flat.reshape(rows, *input_shape(policy))})
    seen = angles_turned(flat, angles).astype(np.float32)
    wanted = policy.codec.action(actor.dist.to_env(actor.mode(seen)))
    if got.dtype != wanted.dtype or not np.allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE):
        raise LPOError(
            "The exported graph does not act as the policy does, so it was not written; report "
            "this with the run."
        )
