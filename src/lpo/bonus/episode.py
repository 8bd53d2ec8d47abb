"""How new is a state in its episode? A factor of the bonus, or a bonus by itself.

For the class of all functions over distinct observations the paper's online sensitivity of z,
within the samples of the episode, is 1 at the first visit and 1/n at the n-th. The width over the
life of the agent is 1/√N. For linear functions the sensitivity is in ``sensitivity.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import jax.numpy as jnp
from jax import Array

from lpo.bonus.base import Bonus, Metrics, one
from lpo.math.episodes import alike, over_episodes
from lpo.math.hashing import hash_keys, hashed
from lpo.options import Kinds, Part, PositiveInt, Rare, Short, options
from lpo.problem import Problem
from lpo.types import Rollout

Fall = Literal["first", "root", "inverse"]


class EpisodePart(Part):
    """How new a state is in its episode."""

    kinds: ClassVar[Kinds[EpisodePart]] = Kinds("novelty of the episode", "lpo.episodes")

    def make(self, problem: Problem) -> Bonus:
        """Returns the factor as a bonus without a scale."""
        raise NotImplementedError


@EpisodePart.kinds.add
@options
class NoEpisode(EpisodePart):
    """The bonus takes no account of the episode."""

    kind: ClassVar[str] = "none"

    def make(self, problem: Problem) -> Bonus:
        return one()


@EpisodePart.kinds.add
@options
class FirstVisit(EpisodePart):
    """1 where the episode sees s′ for the first time, else 0, for codes, integers and images."""

    kind: ClassVar[str] = "first-visit"
    fall: Annotated[Fall, Short("visit_fall")] = "first"
    """At the n-th visit the factor is 1 for n = 1 and else 0 (first), 1/√n (root) or 1/n
    (inverse)."""
    memory: Annotated[Rare[PositiveInt], Short("visit_memory")] = 4096
    """Observations that an episode remembers; of a longer one the oldest are forgotten."""

    def make(self, problem: Problem) -> Bonus:
        longest = self.memory if problem.horizon is None else problem.horizon + 1
        size, read = problem.cells
        return episode_visits(size, problem.num_envs, min(self.memory, longest), self.fall, read)


class Book(NamedTuple):
    """What an episode has seen, [N, …]."""

    pages: Array  # [N, H] hashes of its observations
    length: Array  # [N] how many there are


class VisitState(NamedTuple):
    keys: Array  # [O] of the hash
    book: Book


def episode_visits(
    obs_size: int,
    num_envs: int,
    memory: int,
    fall: Fall,
    read: Callable[[Any], Array] = lambda obs: obs,
) -> Bonus:
    """Returns the factor by the number of visits n of s′ in its episode, the first state included.

    ``memory`` is H, the number of observations that are remembered. ``read`` gives the ``obs_size``
    numbers by which an observation is known again: itself, or what an image is ``known`` by.
    """
    none_yet = Book(jnp.zeros(memory, jnp.uint32), jnp.int32(0))

    def init(key: Array) -> VisitState:
        return VisitState(hash_keys(key, obs_size), alike(none_yet, num_envs))

    def seen(book: Book, name: Array) -> Array:
        """How often each episode has met its observation ``name`` [N]."""
        written = jnp.arange(memory)[None] < book.length[:, None]
        return ((book.pages == name[:, None]) & written).sum(1)

    def write(book: Book, name: Array, where: Array) -> Book:
        at = jnp.where(where, book.length % memory, memory)  # beyond the book: not written
        pages = book.pages.at[jnp.arange(num_envs), at].set(name, mode="drop")
        return Book(pages, book.length + where)

    def step(book: Book, names: tuple[Array, Array]) -> tuple[Book, Array]:
        before, after = names
        book = write(book, before, book.length == 0)  # s_0
        return write(book, after, jnp.full(num_envs, True)), seen(book, after)

    def score(state: VisitState, rollout: Rollout) -> tuple[Array, VisitState, Metrics]:
        before, after = (hashed(state.keys, read(x)) for x in (rollout.obs, rollout.next_obs))
        fresh = alike(none_yet, num_envs)
        book, n = over_episodes(step, state.book, fresh, (before, after), rollout)
        how = {"first": lambda n: n < 1, "root": lambda n: 1 / jnp.sqrt(1.0 + n)}
        b = how.get(fall, lambda n: 1 / (1.0 + n))(n) * rollout.valid
        return b[None] * 1.0, state._replace(book=book), episode_metrics(b, rollout)

    return Bonus(1, init, score, lambda state, rollout, key: (state, {}))


def episode_metrics(b: Array, rollout: Rollout) -> Metrics:
    return {"bonus/episode": b.sum() / jnp.maximum(rollout.valid.sum(), 1)}
