"""Kernels, run as plain JAX on the CPU, compute what plain code does; and they lower for a GPU."""

import contextlib
import itertools
import re
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from lpo.math import distributions, ppo
from lpo.math.descent import PLAIN, Adam, Compute, descend
from lpo.math.fused import Fused, fits
from lpo.math.fused_adam import FusedAdam
from lpo.math.kernels import compute_on
from lpo.math.nets import ActorCritic, Layer, apply_net, values

FUSED, ADAM = Fused(interpret=True), FusedAdam(chunk=64, interpret=True)
RUNS, STREAMS = 3, 2


def net_of(key, sizes, lead=()):
    """A network with weights and biases that are all different."""
    keys = jax.random.split(key, 2 * len(sizes))
    draw = lambda k, *shape: 0.4 * jax.random.normal(k, (*lead, *shape))  # noqa: E731
    pairs = zip(sizes[:-1], sizes[1:], keys[::2], keys[1::2], strict=False)
    return tuple(Layer(draw(k, i, o), draw(j, o)) for i, o, k, j in pairs)


def close(ours, theirs, atol=3e-6):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=atol), ours, theirs)


@pytest.mark.parametrize(
    ("inputs", "outputs", "rows", "activation"),
    [
        pytest.param(2, 1, 16, jnp.tanh, marks=pytest.mark.slow),
        (11, 3, 64, jax.nn.relu),
        pytest.param(17, 6, 64, jnp.tanh, marks=pytest.mark.slow),
        pytest.param(17, 6, 20, jax.nn.relu, marks=pytest.mark.slow),
        pytest.param(23, 64, 64, jax.nn.relu, marks=pytest.mark.slow),
        pytest.param(17, 1, 130, jnp.tanh, marks=pytest.mark.slow),
        (5, 3, 1, jnp.tanh),
    ],
)
def test_outputs_and_gradients(inputs, outputs, rows, activation):
    keys = jax.random.split(jax.random.key(inputs), 3)
    net = net_of(keys[0], (inputs, 64, 32, outputs))
    x, g = (
        jax.random.normal(k, (rows, n)) for k, n in zip(keys[1:], (inputs, outputs), strict=True)
    )
    assert fits(net, x, activation)

    def both(apply):
        y, pull = jax.vjp(lambda net, x: apply(net, x, activation), net, x)
        return y, pull(g)  # of x too

    close(jax.jit(lambda: both(FUSED))(), jax.jit(lambda: both(apply_net))(), atol=2e-5)


def test_rows_with_more_axes():
    net, x = net_of(jax.random.key(0), (4, 16, 16, 3)), jnp.arange(120.0).reshape(5, 6, 4) / 100
    assert FUSED(net, x).shape == (5, 6, 3)
    close(FUSED(net, x), apply_net(net, x))


@pytest.mark.parametrize(
    ("sizes", "activation"),
    [
        ((4, 64, 3), jnp.tanh),
        ((4, 64, 64, 64, 3), jnp.tanh),
        ((4, 48, 64, 3), jnp.tanh),
        ((4, 64, 256, 3), jnp.tanh),
        ((65, 64, 64, 3), jnp.tanh),
        ((4, 128, 64, 3), jnp.tanh),
        ((4, 64, 64, 65), jnp.tanh),
        ((4, 64, 64, 3), jax.nn.gelu),
    ],
)
def test_plain_code_for_all_other_networks(sizes, activation):
    pairs = itertools.pairwise(sizes)
    net = tuple(Layer(np.zeros((i, o), np.float32), np.zeros(o, np.float32)) for i, o in pairs)
    assert not fits(net, jnp.ones((16, sizes[0])), activation)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "activation"), [((4, 64, 3), jnp.tanh), ((4, 64, 64, 3), jax.nn.gelu)]
)
def test_what_does_not_fit_has_the_numbers_of_plain_code(sizes, activation):
    net, x = net_of(jax.random.key(0), sizes), jnp.ones((16, 4))
    text = jax.jit(lambda: Fused()(net, x, activation)).lower().as_text()  # no kernel for a CPU
    assert "custom_call" not in text
    np.testing.assert_array_equal(Fused()(net, x, activation), apply_net(net, x, activation))


def agent(key, lead):
    """(parameters of all runs, one minibatch for each, the distribution of the actions)."""
    keys = jax.random.split(key, 7)
    dist = distributions.for_space(spaces.Box(-1.0, 1.0, (6,), np.float32))
    params = ActorCritic(
        net_of(keys[0], (17, 64, 64, 6), lead),
        jnp.zeros((*lead, 6)),
        net_of(keys[1], (17, 64, 64, 1), (*lead, STREAMS)),
    )
    sizes = (17, 6, 1, 1, STREAMS)
    batch = ppo.Batch(
        *(jax.random.normal(k, (*lead, 16, n)) for k, n in zip(keys[2:], sizes, strict=True))
    )
    return params, batch._replace(log_prob=batch.log_prob - 9), dist


TERMS = ppo.Coefficients(0.2, 0.5, 0.01, normalize_advantage=True)


def gradients(apply, dist):
    def of_run(params, batch):
        return jax.grad(ppo.loss, has_aux=True)(params, batch, dist, TERMS, apply)

    return jax.vmap(of_run)


@pytest.mark.slow
def test_the_losses_of_many_runs():
    params, batch, dist = agent(jax.random.key(1), (RUNS,))
    ours = jax.jit(gradients(FUSED, dist))(params, batch)
    close(ours, jax.jit(gradients(apply_net, dist))(params, batch), atol=1e-5)
    v = lambda apply: jax.vmap(lambda c, x: values(c, x, apply))(params.critics, batch.obs)  # noqa: E731
    close(v(FUSED), v(apply_net))


@pytest.mark.slow
@pytest.mark.parametrize("max_norm", [0.5, None])
def test_adam_of_many_runs(max_norm):
    """Four steps with another rate for each run; some gradients are clipped and some are not."""
    shapes = {"a": (17, 8), "b": (6,), "c": (2, 8, 8), "none": (0,), "one": (1,)}
    keys = iter(jax.random.split(jax.random.key(2), 40))
    draw = lambda s: {n: s * jax.random.normal(next(keys), (RUNS, *q)) for n, q in shapes.items()}  # noqa: E731
    rates = jnp.array([1e-3, 1e-2, 1e-1])
    params = draw(1.0)
    state = jax.vmap(Adam(0.1, 1e-5, max_norm).optim().init)(params)
    step = lambda how: jax.jit(  # noqa: E731
        jax.vmap(lambda rate, *rest: how(Adam(rate, 1e-5, max_norm), *rest))
    )
    ours, theirs = step(ADAM), step(descend)
    a = b = (params, state)
    for size in (1.0, 0.01, 0.01, 1.0):
        grads = draw(size)
        a, b = ours(rates, *a, grads), theirs(rates, *b, grads)
        assert jax.tree.structure(a) == jax.tree.structure(b)
        close(a, b, atol=1e-6)


def test_large_networks_keep_the_step_of_optax():
    params = {"a": jnp.ones(2**16 + 1)}
    adam, grads = Adam(0.1, 1e-5, 0.5), {"a": jnp.linspace(-1.0, 1.0, 2**16 + 1)}
    state = adam.optim().init(params)
    ours = jax.make_jaxpr(lambda: ADAM(adam, params, state, grads))()
    assert "pallas_call" not in str(ours)
    jax.tree.map(
        np.testing.assert_array_equal,
        ADAM(adam, params, state, grads), descend(adam, params, state, grads),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "capability", "kernels"),
    [("cpu", None, False), ("PJRT C API\ncuda 13000", "9.0", True),
     ("cuda 12080", "7.5", False), ("rocm 6", None, False)],
)  # fmt: skip
def test_kernels_are_for_gpus_of_nvidia(version, capability, kernels):
    client = SimpleNamespace(platform_version=version)
    found = compute_on(SimpleNamespace(client=client, compute_capability=capability))
    assert found == (Compute(Fused(), FusedAdam()) if kernels else PLAIN)


def test_other_numbers_than_float32_are_for_plain_code():
    net, x = net_of(jax.random.key(0), (4, 16, 16, 3)), jnp.ones((16, 4))
    assert fits(net, x, jnp.tanh)
    assert not fits(net, x.astype(jnp.bfloat16), jnp.tanh)
    assert not fits(net, x[0], jnp.tanh) and not fits(net, x[:0], jnp.tanh)


def test_a_gradient_that_is_no_number_stays_one():
    params, grads = {"a": jnp.ones(4)}, {"a": jnp.array([1.0, jnp.nan, 0.0, 2.0])}
    adam = Adam(0.1, 1e-5, 0.5)
    state = adam.optim().init(params)
    assert jnp.isnan(ADAM(adam, params, state, grads)[0]["a"]).all()
    assert jnp.isnan(descend(adam, params, state, grads)[0]["a"]).all()


def on_a_gpu():
    """Newer JAX wants to know which GPU it lowers for."""
    try:
        from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

        device = AbstractDevice(device_kind="NVIDIA H200", num_cores=None, platform="gpu")  # type: ignore[call-arg]
    except (ImportError, TypeError):
        return contextlib.nullcontext()
    return use_abstract_mesh(AbstractMesh((1,), ("d",), abstract_device=device))


@pytest.mark.slow
def test_kernels_for_a_gpu_share_what_they_read():
    """One call a pass for all runs and streams; the rows of x are not copied for the streams."""
    params, batch, dist = agent(jax.random.key(1), (RUNS,))
    state = jax.vmap(Adam(0.1, 1e-5, 0.5).optim().init)(params)
    compute = Compute(Fused(), FusedAdam())

    def step(params, state, batch):
        grads, _ = gradients(compute.apply, dist)(params, batch)
        descended = lambda *a: compute.descend(Adam(0.1, 1e-5, 0.5), *a)  # noqa: E731
        return jax.vmap(descended)(params, state, grads)

    with on_a_gpu(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer JAX's, of the Triton backend
        traced = jax.jit(step).trace(params, state, batch)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    calls = [line for line in text.splitlines() if "@__gpu$xla.gpu.triton" in line]
    assert len(calls) == 5  # forward and backward of the policy and of the critics, and Adam
    reads = [re.search(r": \((tensor<[^>]*>)", line) for line in calls]
    first = [match.group(1) for match in reads if match]
    assert first.count(f"tensor<{RUNS}x16x17xf32>") == 4
