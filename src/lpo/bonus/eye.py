"""What the networks of a bonus read: one vector, or a tree with the last frame of each image.

As in the paper of RND (Burda et al. 2018), each pixel is normalised by its own running moments, and
all numbers are clipped to ±5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from lpo.math.descent import Apply
from lpo.math.features import CLIP, Inputs, Reader
from lpo.math.images import frame, last_frame
from lpo.math.nets import orthogonal_net
from lpo.math.normalize import init_moments, normalize, update_moments
from lpo.network.base import in_blocks
from lpo.network.cnn import convolved, init_encoder, pixels
from lpo.problem import Problem
from lpo.types import Leaf, Obs, Rollout

ENCODED = 256  # numbers that the convolutions make of an image
ACTION = "action taken"


class Eye(NamedTuple):
    """Inputs x of a bonus, as trees of rows [M, …], and networks that read them."""

    rows: Callable[[Rollout], Any]  # x of a rollout, [T·N, …], not normalised
    moments: Callable[[], Any]
    observe: Callable[[Any, Any, Array], Any]  # (moments, x, weight [M]) -> moments
    seen: Callable[[Any, Any], Any]  # (moments, x) -> x normalised
    init: Callable[[Array, tuple[int, ...]], Any]  # (key, sizes of the layers behind) -> network
    apply: Callable[[Any, Any], Array]  # (network, x normalised) -> [M, F]


def eye(problem: Problem, inputs: Inputs, apply: Apply) -> Eye:
    """Returns what reads ``inputs`` of the observations of a problem."""
    if problem.seen.size is not None:
        return of_vector(problem.reader(inputs), apply)
    return of_tree(problem, inputs, apply)


def of_vector(reader: Reader, apply: Apply) -> Eye:
    """Returns what reads one vector."""
    gain = float(np.sqrt(2))
    return Eye(
        rows=lambda rollout: reader.read(rollout).reshape(-1, reader.size),
        moments=lambda: init_moments(reader.size),
        observe=update_moments,
        seen=lambda moments, x: normalize(moments, x, CLIP),
        init=lambda key, sizes: orthogonal_net(key, (reader.size, *sizes), gain, gain),
        apply=lambda net, x: apply(net, x, jax.nn.relu),
    )


def leaves_of(problem: Problem, inputs: Inputs) -> dict[str, Leaf]:
    """Returns the leaves that a bonus reads: of an image the last frame."""
    seen = {
        path: last_frame(leaf) if leaf.kind == "image" else leaf
        for path, leaf in problem.seen.leaves
    }
    return seen | ({ACTION: Leaf((problem.dist.num_outputs,))} if inputs == "sa" else {})


def of_tree(problem: Problem, inputs: Inputs, apply: Apply) -> Eye:
    """Returns what reads a tree: convolutions for its images, joined with the rest."""
    spec, leaves, gain = problem.seen, leaves_of(problem, inputs), float(np.sqrt(2))
    forms = dict(spec.leaves)

    def rows(rollout: Rollout) -> dict[str, Array]:
        obs: Obs = rollout.next_obs if inputs == "next" else rollout.obs
        found = {}
        for path, form in forms.items():
            x = obs if spec.bare else obs[path]
            x = x.reshape(-1, *form.shape)
            found[path] = frame(x, form) if form.kind == "image" else x
        if inputs == "sa":
            found[ACTION] = problem.dist.features(rollout.action).reshape(
                -1, problem.dist.num_outputs
            )
        return found

    def size(leaf: Leaf) -> int:
        return int(np.prod(leaf.shape))

    def moments() -> dict[str, Any]:
        return {
            path: () if leaf.kind == "grid" else init_moments(size(leaf))
            for path, leaf in leaves.items()
        }

    def observe(moments: dict[str, Any], x: dict[str, Array], weight: Array) -> dict[str, Any]:
        flat = lambda path: x[path].reshape(len(weight), -1).astype(jnp.float32)  # noqa: E731
        return {
            path: () if leaf.kind == "grid" else update_moments(moments[path], flat(path), weight)
            for path, leaf in leaves.items()
        }

    def seen(moments: dict[str, Any], x: dict[str, Array]) -> dict[str, Array]:
        def one(path: str, leaf: Leaf) -> Array:
            if leaf.kind == "grid":
                return pixels(x[path], leaf, jnp)
            flat = x[path].reshape(-1, size(leaf)).astype(jnp.float32)
            return normalize(moments[path], flat, CLIP).reshape(-1, *leaf.shape)

        return {path: one(path, leaf) for path, leaf in leaves.items()}

    def init(key: Array, sizes: tuple[int, ...]) -> tuple[Any, Any]:
        keys = {path: jax.random.fold_in(key, i + 1) for i, path in enumerate(leaves)}
        encoders = {path: init_encoder(keys[path], leaf, ENCODED) for path, leaf in leaves.items()}
        joined = sum(size(x) if x.kind == "vector" else ENCODED for x in leaves.values())
        return encoders, orthogonal_net(key, (joined, *sizes), gain, gain)

    def read(net: tuple[Any, Any], x: dict[str, Array]) -> Array:
        encoders, layers = net
        parts = [
            x[path] if leaf.kind == "vector" else convolved(encoders[path], leaf, x[path])
            for path, leaf in leaves.items()
        ]
        return apply(layers, jnp.concatenate(parts, axis=-1), jax.nn.relu)

    return Eye(
        rows, moments, observe, seen, init, lambda net, x: in_blocks(lambda b: read(net, b), x)
    )
