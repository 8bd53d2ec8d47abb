"""The PPO core against stable-baselines3 itself, on numbers that scripts/sb3_reference.py recorded.

"Agree" means |ours − theirs| ≤ 1e-5·|theirs| + 1e-5·max|theirs|, the maximum over the array that
is compared. Parameters after Adam steps must agree to 5e-7, a two-thousandth of one step of Adam at
this learning rate: to 1e-5 they would agree with almost any optimiser.
"""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium import spaces

from lpo.math import distributions, ppo
from lpo.math.advantage import ENDS, Trajectory, gae, streams_gae
from lpo.math.descent import Adam
from lpo.math.nets import ActorCritic, Layer, apply_net, values

DATA = Path(__file__).parents[1] / "data" / "sb3_reference.npz"
SPACES = {
    "gaussian": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "categorical": spaces.Discrete(4),
    "multicategorical": spaces.MultiDiscrete([3, 2]),
}
TOLERANCE = 1e-5
ADAM_EPS = 1e-5  # of SB3's policies


class Case:
    """The arrays of one kind of action, by the script's names."""

    def __init__(self, name: str):
        with np.load(DATA, allow_pickle=False) as file:
            self.option = {k[7:]: float(file[k]) for k in file if k.startswith("option/")}
            self.arrays = {k[len(name) + 1 :]: file[k] for k in file if k.startswith(f"{name}/")}
        self.dist = distributions.for_space(SPACES[name])
        o = self.option
        self.losses = ppo.Coefficients(o["clip_range"], o["vf_coef"], o["ent_coef"], True)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def num_steps(self) -> int:
        return len(self["step/loss/total"])

    def tree(self, prefix: str, step: int | None = None) -> ActorCritic:
        """Parameters or gradients in our structure; the critic becomes the only stream."""
        pick = lambda k: self[f"{prefix}/{k}"] if step is None else self[f"{prefix}/{k}"][step]  # noqa: E731
        nets = {
            net: tuple(Layer(pick(f"{net}/{i}/w"), pick(f"{net}/{i}/b")) for i in range(3))
            for net in ("policy", "critic")
        }
        log_std = pick("log_std") if f"{prefix}/log_std" in self.arrays else np.zeros(0, np.float32)
        critics = jax.tree.map(lambda x: x[None], nets["critic"])
        return jax.tree.map(jnp.asarray, ActorCritic(nets["policy"], log_std, critics))

    def batch(self, step: int) -> ppo.Batch:
        names = ("observations", "actions", "old_log_prob", "advantages", "returns")
        return ppo.Batch(*(jnp.asarray(self[f"step/batch/{name}"][step]) for name in names))

    def adam(self) -> Adam:
        o = self.option
        return Adam(o["learning_rate"], ADAM_EPS, o["max_grad_norm"])

    def at(self, step: int) -> ActorCritic:
        """The parameters that SB3 had before its minibatch ``step``."""
        return self.tree("start") if step == 0 else self.tree("step/params", step - 1)

    @cached_property
    def loss_and_gradients(self):
        """((total, stats), gradients) of minibatch ``step`` as SB3 met it, for every step."""
        loss = lambda params, batch: ppo.loss(params, batch, self.dist, self.losses)  # noqa: E731
        compiled = jax.jit(jax.value_and_grad(loss, has_aux=True))
        return [compiled(self.at(step), self.batch(step)) for step in range(self.num_steps)]


# One choice is a case of several.
FACTORED_FIRST = [
    pytest.param(x, marks=pytest.mark.slow) if x == "categorical" else x for x in SPACES
]


@pytest.fixture(params=FACTORED_FIRST, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return Case(request.param)


def agree(ours, theirs) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    atol = TOLERANCE * float(np.abs(theirs).max(initial=0))
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE, atol=atol)


def agree_everywhere(ours, theirs) -> None:
    jax.tree.map(agree, ours, theirs)


def trajectory(case: Case) -> Trajectory:
    """What the environments truly gave, valued by the weights that acted: arrays [1, T, N]."""
    critics = case.tree("acted").critics
    value = lambda name: values(critics, jnp.asarray(case[f"rollout/{name}"]))  # noqa: E731
    return Trajectory(
        jnp.asarray(case["rollout/reward"])[None],
        value("obs"),
        value("next_obs"),
        value("last_obs"),
        jnp.asarray(case["rollout/terminated"]),
        jnp.asarray(case["rollout/truncated"]),
        jnp.ones(case["rollout/terminated"].shape, bool),
    )


def test_the_recorded_rollouts_have_every_kind_of_end(case):
    """Without these the agreement below would say little."""
    terminated, truncated = case["rollout/terminated"], case["rollout/truncated"]
    assert (terminated & ~truncated).sum() >= 3
    assert (truncated & ~terminated).sum() >= 3
    assert (terminated & truncated).any()
    assert (truncated & ~terminated)[-1].any()
    assert (~truncated & ~terminated)[-1].any()


def test_values_and_log_probabilities(case):
    params, obs = case.tree("acted"), jnp.asarray(case["rollout/obs"])
    agree(values(params.critics, obs)[0], case["rollout/value"])
    outputs = apply_net(params.policy, obs)
    agree(
        case.dist.log_prob(outputs, params.log_std, jnp.asarray(case["rollout/action"])),
        case["rollout/log_prob"],
    )


def test_advantages_and_returns(case):
    """At a time limit SB3 adds γV(final observation) to the reward; we bootstrap from it."""
    o, x = case.option, trajectory(case)
    gamma, gae_lambda = jnp.array([o["gamma"]]), jnp.array([o["gae_lambda"]])
    a = streams_gae(x, gamma, gae_lambda, jnp.array([ENDS]))
    agree(a[0], case["rollout/advantage"])
    agree(a[0] + x.value[0], case["rollout/returns"])


def test_advantages_of_one_environment(case):
    x = trajectory(case)
    one = Trajectory(*(leaf[0, ..., 1] for leaf in x[:4]), *(flags[:, 1] for flags in x[4:]))
    a = gae(one, case.option["gamma"], case.option["gae_lambda"], ENDS)
    agree(a, case["rollout/advantage"][:, 1])


def test_losses(case):
    for step, ((total, stats), _) in enumerate(case.loss_and_gradients):
        theirs = {k[10:]: v[step] for k, v in case.arrays.items() if k.startswith("step/loss/")}
        agree(total, theirs["total"])
        agree(stats["value_losses"], theirs["value_loss"][None])
        agree(-stats["entropy"], theirs["entropy_loss"])
        assert float(stats["clip_fraction"]) == theirs["clip_fraction"]
        # means of terms of order one that nearly cancel: float32 leaves 1e-7 of the terms
        np.testing.assert_allclose(stats["policy_loss"], theirs["policy_loss"], 1e-5, 2e-7)
        np.testing.assert_allclose(stats["kl"], theirs["kl"], 1e-5, 2e-7)
    assert 0.1 < case["step/loss/clip_fraction"].mean() < 0.9


def test_gradients(case):
    for step, (_, grads) in enumerate(case.loss_and_gradients):
        agree_everywhere(grads, case.tree("step/grad", step))


def test_the_global_norm_clip(case):
    max_norm = case.option["max_grad_norm"]
    clip = jax.jit(
        lambda grads: optax.clip_by_global_norm(max_norm).update(grads, optax.EmptyState())
    )
    norms = []
    for step in range(case.num_steps):
        grads = case.tree("step/grad", step)
        agree_everywhere(clip(grads)[0], case.tree("step/clipped", step))
        norms.append(np.sqrt(sum(np.square(g).sum() for g in jax.tree.leaves(grads))))
    assert min(norms) < max_norm < max(norms)  # some are clipped and some are not


def test_clip_and_adam_along_their_gradients(case):
    optim = case.adam().optim()
    params = case.tree("start")
    state, update = optim.init(params), jax.jit(optim.update)
    for step in range(case.num_steps):
        updates, state = update(case.tree("step/grad", step), state)
        params = optax.apply_updates(params, updates)
        jax.tree.map(same_place, params, case.tree("step/params", step))


def test_minibatch_updates(case):
    """``ppo.update`` on the same minibatches, with no number of SB3's between: six steps on."""
    adam, params = case.adam(), case.tree("start")
    state = adam.optim().init(params)
    update = partial(
        ppo.update,
        valid=jnp.ones(16, bool),
        key=jax.random.key(0),
        dist=case.dist,
        adam=adam,
        coefficients=case.losses,
        epochs=1,
        batch_size=16,
    )
    update = jax.jit(update)
    for step in range(case.num_steps):
        params, state, stats = update(params, state, case.batch(step))
        jax.tree.map(same_place, params, case.tree("step/params", step))
        agree(stats["value_losses"], case["step/loss/value_loss"][step][None])


def same_place(ours, theirs) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-7)
