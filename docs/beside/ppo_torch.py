"""PPO in one file, in torch, with lpo's bonus: the lines with ``explorer`` are all that it takes.

python docs/beside/ppo_torch.py MountainCar-v0
"""

import sys

import gymnasium
import numpy as np
import torch
from torch import nn

from lpo.explorer import Explorer, Values

ENVS, STEPS, EPOCHS, BATCH, GAMMA, LAMBDA = 8, 256, 10, 64, 0.99, 0.95


def mlp(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


def train(env_id: str, changes: int, seed: int = 0, **options):
    """Yields the returns of ended episodes and the metrics of the bonus after each update."""
    torch.manual_seed(seed)
    envs = gymnasium.make_vec(env_id, num_envs=ENVS)  # an ended episode resets on the next step
    single = envs.single_observation_space, envs.single_action_space
    actor, critic = mlp(single[0].shape[0], single[1].n), mlp(single[0].shape[0], 1)
    parameters = [*actor.parameters(), *critic.parameters()]
    adam = torch.optim.Adam(parameters, lr=3e-4, eps=1e-5)
    explorer = Explorer(
        *single, ENVS, gamma=GAMMA, gae_lambda=LAMBDA, reward_critic=False, seed=seed, **options
    )
    obs, ended, sums = envs.reset(seed=seed)[0], np.zeros(ENVS, bool), np.zeros(ENVS)
    for _ in range(changes):
        rows, returns = [], []
        for _ in range(STEPS):
            with torch.no_grad():
                policy = torch.distributions.Categorical(logits=actor(torch.as_tensor(obs)))
                action = policy.sample()
            after, reward, terminated, truncated, _ = envs.step(action.numpy())
            rows.append((obs, action.numpy(), reward, after, terminated, truncated, ~ended,
                         policy.log_prob(action).numpy()))  # fmt: skip
            sums = np.where(ended, 0.0, sums + reward)
            obs, ended = after, terminated | truncated
            returns += sums[ended].tolist()
        o, a, r, o2, term, trunc, valid, log_prob = map(np.stack, zip(*rows, strict=True))
        with torch.no_grad():
            v, v2, v_last = (critic(torch.as_tensor(x))[..., 0].numpy() for x in (o, o2, obs))
        found = explorer.advantages(
            o, a, r, o2, term, trunc, last_obs=obs, valid=valid, values=Values(v, v2, v_last)
        )
        metrics = found.metrics | explorer.update()
        flat = [torch.as_tensor(x[valid]) for x in (o, a, log_prob, found.advantage, found.returns)]
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(flat[0])).split(BATCH):
                ppo_step(actor, critic, adam, parameters, *(x[rows] for x in flat))
        yield returns, metrics


def ppo_step(actor, critic, adam, parameters, obs, action, log_prob, advantage, returns):
    policy = torch.distributions.Categorical(logits=actor(obs))
    ratio = (policy.log_prob(action) - log_prob).exp()
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    loss = -surrogate + 0.5 * ((critic(obs)[:, 0] - returns) ** 2).mean()
    adam.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 0.5)
    adam.step()


if __name__ == "__main__":
    for k, (returns, metrics) in enumerate(train(sys.argv[1], changes=100), 1):
        mean = f"return {np.mean(returns):7.1f}" if returns else ""
        print(f"{k * ENVS * STEPS:7,} steps  bonus {metrics['bonus/raw_mean']:.4f}  {mean}")
