"""The default of lpo on one page, in plain JAX: read it from top to bottom.

    python docs/default_on_one_page.py        # MountainCarContinuous-v0, 300,000 steps

PPO with two critics. One learns the reward, the other an exploration bonus: how badly a network
predicts a random network's output at the next state (RND). Both advantages are added; the bonus's
has a size in units of the reward, and it fades once reward is earned. Only jax, optax, numpy and
gymnasium are imported. A test keeps these numbers equal to those of the library.
"""

from itertools import pairwise

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

# 1. Options -------------------------------------------------------------------------------------
ENV, ENVS, STEPS = "MountainCarContinuous-v0", 8, 512  # a rollout has 8 × 512 steps
GAMMA = jnp.array([0.995, 0.997])  # of the reward and of the bonus
POLICY_LAMBDA, TARGET_LAMBDA = jnp.array([0.7, 0.95]), jnp.array([0.95, 0.95])
ALPHA, BETA, BETA_EARNED = 1.0, 0.25, 0.002  # weights: reward; bonus at first; bonus at the end
EARNED_SHARE, HALF_LIFE = 0.01, 20_000.0  # steps that earn reward when the bonus has faded
LEARNING_RATE, EPOCHS, BATCH, CLIP, KL_TARGET = 3e-4, 10, 64, 0.2, 0.02
ADVANTAGE_FLOOR, LEAST_LOG_STD = 0.15, -0.2
KEYS = {"nets": 0, "bonus": 1, "ppo order": 2, "bonus order": 3, "actions": 4}


# 2. Networks ------------------------------------------------------------------------------------
def orthogonal(key, sizes, gain, last_gain):
    """A network as a list of (weights, biases); the weights are random orthogonal matrices."""
    rng, layers = np.random.default_rng(np.asarray(jax.random.key_data(key))), []
    for i, (rows, columns) in enumerate(pairwise(sizes)):
        q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))
        q = (last_gain if i == len(sizes) - 2 else gain) * (q if rows >= columns else q.T)
        layers.append((jnp.asarray(q.astype(np.float32)), jnp.zeros(columns)))
    return layers


def network(layers, x, activation=jnp.tanh):
    for w, b in layers[:-1]:
        x = activation(x @ w + b)
    return x @ layers[-1][0] + layers[-1][1]


def values(critics, obs):
    return jnp.stack([network(critic, obs)[..., 0] for critic in critics])  # [2, …]


# 3. Running statistics --------------------------------------------------------------------------
def moments(old, x):
    """Adds rows x [M, D] to (count, mean, variance)."""
    count, mean, var = old
    n, m, total = len(x), x.mean(0), count + len(x)
    delta, v = m - mean, ((x - m) ** 2).mean(0)
    m2 = var * count + v * n + delta**2 * count * n / total
    return total, mean + delta * n / total, m2 / total


def normalized(stats, x, clip):
    return jnp.clip((x - stats[1]) / jnp.sqrt(stats[2] + 1e-8), -clip, clip)


def average(old, total, count):
    """Adds samples to (weight, mean); a sample loses half of its weight in HALF_LIFE steps."""
    kept = old[0] * 0.5 ** (count / HALF_LIFE)
    return kept + count, (kept * old[1] + total) / (kept + count)


# 4. The bonus: the error of a predictor of a random network, at the next state ------------------
def error_of(rnd, predictor, x):
    gap = network(predictor, x, jax.nn.relu) - network(rnd["target"], x, jax.nn.relu)
    return (gap**2).sum(-1)


def bonus(rnd, next_obs):
    """b [T, N] over its recent size / (1 − γ), so that its discounted sum is about 1."""
    rnd = rnd | {"inputs": moments(rnd["inputs"], next_obs.reshape(-1, next_obs.shape[-1]))}
    b = error_of(rnd, rnd["predictor"], normalized(rnd["inputs"], next_obs, 5.0))
    rnd["size"] = average(rnd["size"], (b**2).sum(), b.size)
    return b / (jnp.sqrt(rnd["size"][1]) / (1 - GAMMA[1])), rnd


# 5. Advantages: a stream for the reward, and one for the bonus ----------------------------------
def gae(r, v, v_next, v_last, terminated, truncated, gamma, lambda_, ends):
    """Where the task ends, the reward's return ends; the bonus's goes on in the next episode.

    A time limit cuts both sums, and the value of the true last state stands for what would follow.
    """

    def step(after, t):
        advantage, value = after
        r, v, v_next, terminated, truncated = t
        follows = jnp.where(terminated, jnp.where(ends, 0.0, value), v_next)
        goes_on = jnp.where(terminated, not ends, ~truncated)
        advantage = r + gamma * follows - v + gamma * lambda_ * goes_on * advantage
        return (advantage, v), advantage

    steps = (r, v, v_next, terminated, truncated)
    return jax.lax.scan(step, (jnp.zeros_like(v_last), v_last), steps, reverse=True)[1]


def earned(reward, ended):
    """γ^k min{1, r}, where the next reward r ≥ 1/2 of the episode is k steps away."""
    gain = jnp.clip(reward, 0, 1)
    gain = jnp.where(gain < 0.5, 0, gain)

    def step(after, t):
        here = jnp.maximum(t[0], GAMMA[0] * ~t[1] * after)
        return here, here

    return jax.lax.scan(step, jnp.zeros(reward.shape[1]), (gain, ended), reverse=True)[1]


def weights(w, a, data):
    """The reward's counts once a reward was met; the bonus's is β over its size, and fades."""
    count, ended = a[0].size, data["terminated"] | data["truncated"]
    w = {
        "earned": average(w["earned"], earned(data["reward"], ended).sum(), count),
        "met": w["met"] | (data["reward"] != 0).any(),
        "size": average(w["size"], (a[1] ** 2).sum(), count),
    }
    beta = BETA + (BETA_EARNED - BETA) * jnp.minimum(1.0, w["earned"][1] / EARNED_SHARE)
    return ALPHA * w["met"], beta / jnp.sqrt(w["size"][1] + 1e-16), w


# 6. PPO -----------------------------------------------------------------------------------------
ADAM = {"b1": 0.9, "b2": 0.999, "eps": 1e-5}
RND_ADAM = optax.flatten(optax.adam(3e-4, **ADAM))


def adam(rate):
    return optax.flatten(optax.chain(optax.clip_by_global_norm(0.5), optax.adam(rate, **ADAM)))


def log_prob(nets, outputs, action):
    z = (action - outputs) * jnp.exp(-nets["log_std"])
    return -0.5 * (z**2).sum(-1) - nets["log_std"].sum() - 0.5 * z.shape[-1] * jnp.log(2 * jnp.pi)


def loss(nets, batch):
    ratio_log = log_prob(nets, network(nets["policy"], batch["obs"]), batch["action"])
    ratio_log = ratio_log - batch["log_prob"]
    ratio, a = jnp.exp(ratio_log), batch["advantage"]
    a = (a - a.mean()) / (jnp.maximum(a.std(ddof=1), ADVANTAGE_FLOOR) + 1e-8)
    surrogate = jnp.minimum(ratio * a, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * a).mean()
    errors = ((values(nets["critics"], batch["obs"]) - batch["targets"].T) ** 2).mean(-1)
    return -surrogate + 0.5 * errors.sum(), (ratio - 1 - ratio_log).mean()  # and the KL


def minibatches(key, epochs, rows):
    """Each epoch has its own order: 17 random bits above the 14 of the row, sorted."""
    bits = jax.random.bits(key, (epochs, rows), jnp.uint32) >> 1 & ~jnp.uint32(2**14 - 1)
    words = jnp.sort(bits | jnp.arange(rows, dtype=jnp.uint32), axis=1)
    return (words & jnp.uint32(2**14 - 1)).astype(jnp.int32).reshape(-1, BATCH)


@jax.jit
def learn(s, data):
    """One policy change, from a rollout [T, N, …]: lines 7 to 10 of Algorithm 7."""
    nets, flat = s["nets"], lambda x: x.reshape(ENVS * STEPS, *x.shape[2:])
    order = lambda name: jax.random.fold_in(  # noqa: E731
        jax.random.fold_in(jax.random.key(s["seed"]), KEYS[name]), s["k"]
    )
    acted = network(nets["policy"], normalized(s["moments"], data["obs"], 10.0))
    acted = log_prob(nets, acted, data["action"])  # before the statistics move
    stats = moments(s["moments"], flat(data["obs"]))
    see = lambda x: normalized(stats, x, 10.0)  # noqa: E731
    b, rnd = bonus(s["rnd"], data["next_obs"])  # line 7: the bonus, and both advantages
    r = (data["reward"], b)
    v, v_next, v_last = (values(nets["critics"], see(data[x])) for x in ("obs", "next_obs", "last"))
    streams = lambda lambda_: jnp.stack([  # noqa: E731
        gae(r[i], v[i], v_next[i], v_last[i], data["terminated"], data["truncated"],
            GAMMA[i], lambda_[i], ends=i == 0) for i in (0, 1)
    ])  # fmt: skip
    a, targets = streams(POLICY_LAMBDA), streams(TARGET_LAMBDA) + v
    w_ext, w_int, weigh = weights(s["weigh"], a, data)  # line 8: Â = w_ext Â_ext + w_int Â_int
    table = {
        "obs": see(data["obs"]), "action": data["action"], "log_prob": acted,
        "advantage": w_ext * a[0] + w_int * a[1], "targets": jnp.moveaxis(targets, 0, -1),
    }  # fmt: skip
    table, rate = jax.tree.map(flat, table), s["pace"] * LEARNING_RATE

    def ppo_step(carry, rows):
        nets, opt = carry
        grads, kl = jax.grad(loss, has_aux=True)(nets, jax.tree.map(lambda x: x[rows], table))
        change, opt = adam(rate).update(grads, opt)
        return (optax.apply_updates(nets, change), opt), kl

    def rnd_step(carry, rows):
        fit = lambda p: error_of(rnd, p, x[rows]).mean()  # noqa: E731
        change, opt = RND_ADAM.update(jax.grad(fit)(carry[0]), carry[1])
        return (optax.apply_updates(carry[0], change), opt), None

    rows = minibatches(order("ppo order"), EPOCHS, ENVS * STEPS)  # line 9: policy and critics
    (nets, opt), kl = jax.lax.scan(ppo_step, (nets, s["opt"]), rows)
    nets["log_std"] = jnp.maximum(nets["log_std"], LEAST_LOG_STD)
    change = jnp.clip(jnp.sqrt(KL_TARGET / jnp.maximum(kl.mean(), 1e-8)), 1 / 1.5, 1.5)
    pace = jnp.clip(s["pace"] * change, 0.01, 1.0)  # a smaller step where the KL is above target
    x = normalized(rnd["inputs"], flat(data["next_obs"]), 5.0)  # line 10: fit the bonus
    rows = minibatches(order("bonus order"), 1, ENVS * STEPS)
    (rnd["predictor"], rnd["opt"]), _ = jax.lax.scan(rnd_step, (rnd["predictor"], rnd["opt"]), rows)
    return s | {"nets": nets, "opt": opt, "rnd": rnd, "weigh": weigh, "moments": stats,
                "pace": pace, "k": s["k"] + 1}, (w_ext, w_int)  # fmt: skip


# 7. The loop ------------------------------------------------------------------------------------
def first_state(seed, obs_size, action_size):
    key = lambda name: jax.random.fold_in(jax.random.key(seed), KEYS[name])  # noqa: E731
    for_policy, for_critics = jax.random.split(key("nets"))
    critics = [
        orthogonal(jax.random.fold_in(for_critics, i), (obs_size, 64, 64, 1), 2**0.5, 0.0)
        for i in (0, 1)  # the last gain of 0 lets all values start at 0
    ]
    policy = orthogonal(for_policy, (obs_size, 64, 64, action_size), 2**0.5, 0.01)
    nets = {"policy": policy, "log_std": jnp.zeros(action_size), "critics": critics}
    for_target, for_predictor = jax.random.split(key("bonus"))
    sizes = (obs_size, 64, 64, 64)
    target, predictor = (orthogonal(k, sizes, 2**0.5, 2**0.5) for k in (for_target, for_predictor))
    unit, none = (jnp.float32(1e-4), jnp.zeros(obs_size), jnp.ones(obs_size)), (0.0, 0.0)
    rnd = {"target": target, "predictor": predictor, "opt": RND_ADAM.init(predictor),
           "inputs": unit, "size": none}  # fmt: skip
    return {
        "seed": jnp.uint32(seed), "k": jnp.int32(0), "nets": nets, "opt": adam(0.0).init(nets),
        "pace": jnp.float32(1), "moments": unit, "rnd": rnd,
        "weigh": {"earned": none, "met": jnp.bool_(False), "size": none},
    }  # fmt: skip


def train(changes, seed=0):
    """Yields the state, the weights and the returns of ended episodes after each policy change."""
    envs, episode = [gymnasium.make(ENV) for _ in range(ENVS)], [0] * ENVS

    def begin(i):  # every episode has a seed of its own
        sequence = np.random.SeedSequence(seed, spawn_key=(i, episode[i]))
        episode[i] += 1
        return envs[i].reset(seed=int(sequence.generate_state(1)[0]) & 0x7FFFFFFF)[0]

    s = first_state(seed, envs[0].observation_space.shape[0], envs[0].action_space.shape[0])
    obs, sums = np.stack([begin(i) for i in range(ENVS)]), np.zeros(ENVS)
    for k in range(changes):
        generator = np.random.Philox(key=np.array([seed, KEYS["actions"]], np.uint64),
                                     counter=[0, 0, 0, k * ENVS * STEPS])  # fmt: skip
        shape = (STEPS, ENVS, *envs[0].action_space.shape)
        noise = np.random.Generator(generator).standard_normal(shape, dtype=np.float32)
        rows, returns, nets = [], [], jax.tree.map(np.asarray, s["nets"])
        for t in range(STEPS):
            seen = np.asarray(normalized(jax.tree.map(np.asarray, s["moments"]), obs, 10.0))
            action = network(nets["policy"], seen, np.tanh) + np.exp(nets["log_std"]) * noise[t]
            steps = [env.step(np.clip(a, -1, 1)) for env, a in zip(envs, action, strict=True)]
            after, reward, terminated, truncated, _ = map(np.array, zip(*steps, strict=True))
            rows.append((obs, action, reward.astype(np.float32), terminated, truncated, after))
            sums, obs = sums + reward, after.copy()
            for i in (terminated | truncated).nonzero()[0]:
                returns.append(sums[i])
                obs[i], sums[i] = begin(i), 0.0
        names = ("obs", "action", "reward", "terminated", "truncated", "next_obs")
        data = {name: np.stack(x) for name, x in zip(names, zip(*rows, strict=True), strict=True)}
        s, weighed = learn(s, data | {"last": obs})
        yield s, weighed, returns


if __name__ == "__main__":
    for k, (_, (w_ext, w_int), returns) in enumerate(train(73), 1):
        mean = f"return {np.mean(returns):6.1f}" if returns else ""
        print(f"{k * ENVS * STEPS:7,} steps  weights {w_ext:.0f} and {w_int:7.3f}  {mean}")
