"""Peers on the same machine: SB3's PPO alone, with RND and with E3B, on our grids.

    python experiments/frontier/peers.py MiniGrid-DoorKey-8x8-v0 rnd --seed 0 --steps 200000

The bonuses have the numbers of RLeXplore: RND with 128 outputs, E3B with 128 features of an inverse
model and a ridge of .1, learning rate .001, minibatches of 256, a running standard deviation, and a
weight of 1. They are added to the rewards of a rollout before SB3 computes its advantages anew. PPO
has SB3's defaults with eight environments and rollouts of 2,048 steps in all. Needs
stable-baselines3. Each evaluation is a line of results/peers.csv.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from lpo.envs.make import make_single
from lpo.envs.sb3 import make_vec_env

RESULTS = Path(__file__).parent / "results" / "peers.csv"
HEAD = "task,recipe,seed,steps,seconds,sampled_return,sampled_success,mode_return,mode_success"
ENVS, HELD_OUT, EPISODES = 8, 1_000_000, 50
WIDTH, FEATURES, RATE, BATCH, RIDGE = 64, 128, 1e-3, 256, 0.1


def encoder(size: int, out: int = FEATURES) -> nn.Module:
    return nn.Sequential(nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, out))


class Spread:
    """The standard deviation of all bonuses so far."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 1e-4, 0.0, 0.0

    def scale(self, b: torch.Tensor) -> torch.Tensor:
        count = self.count + b.numel()
        delta = float(b.mean()) - self.mean
        self.squares += float(b.var(unbiased=False)) * b.numel()
        self.squares += delta**2 * self.count * b.numel() / count
        self.mean += delta * b.numel() / count
        self.count = count
        return b / (self.squares / count + 1e-8) ** 0.5


class RND:
    """‖f − f′‖² over the features of s′; f is fitted once to each rollout."""

    def __init__(self, size: int, actions: int):
        self.target, self.predictor = encoder(size), encoder(size)
        self.adam = torch.optim.Adam(self.predictor.parameters(), lr=RATE)

    def error(self, obs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = self.target(obs)
        return ((self.predictor(obs) - wanted) ** 2).mean(-1)

    def score(self, obs: torch.Tensor, after: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self.error(after)

    def learn(self, obs: torch.Tensor, action: torch.Tensor, after: torch.Tensor) -> None:
        for rows in torch.randperm(len(obs)).split(BATCH):
            self.adam.zero_grad()
            self.error(obs[rows]).mean().backward()
            self.adam.step()


class E3B:
    """φᵀ(Σ + λI)⁻¹φ over the episode; φ comes from an inverse model, one step a rollout."""

    def __init__(self, size: int, actions: int):
        self.phi, self.inverse = encoder(size), encoder(2 * FEATURES, actions)
        both = [*self.phi.parameters(), *self.inverse.parameters()]
        self.adam = torch.optim.Adam(both, lr=RATE)
        self.fresh = torch.eye(FEATURES) / RIDGE
        self.covered = self.fresh.repeat(ENVS, 1, 1)

    def score(self, obs: torch.Tensor, after: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            bonus = []
            for phi, start in zip(self.phi(obs), starts, strict=True):
                self.covered[start] = self.fresh
                u = torch.einsum("nij,nj->ni", self.covered, phi)
                b = (phi * u).sum(-1)
                self.covered -= u[:, :, None] * u[:, None, :] / (1 + b)[:, None, None]
                bonus.append(b)
            return torch.stack(bonus)

    def learn(self, obs: torch.Tensor, action: torch.Tensor, after: torch.Tensor) -> None:
        rows = torch.randperm(len(obs))[:BATCH]
        self.adam.zero_grad()
        said = self.inverse(torch.cat([self.phi(obs[rows]), self.phi(after[rows])], -1))
        nn.functional.cross_entropy(said, action[rows].long().flatten()).backward()
        self.adam.step()


class Adds(BaseCallback):
    """Adds a bonus to the rewards of each rollout, and lets SB3 compute its advantages again."""

    def __init__(self, bonus: Any):
        super().__init__()
        self.bonus, self.spread, self.after = bonus, Spread(), []

    def _on_step(self) -> bool:
        after = self.locals["new_obs"].copy()
        for i, info in enumerate(self.locals["infos"]):
            if "terminal_observation" in info:
                after[i] = info["terminal_observation"]
        self.after.append(after)
        return True

    def _on_rollout_end(self) -> None:
        buffer = self.locals["rollout_buffer"]
        both = buffer.observations, np.stack(self.after)
        obs, after = (torch.as_tensor(x, dtype=torch.float32) for x in both)
        starts = torch.as_tensor(buffer.episode_starts > 0)
        b = self.spread.scale(self.bonus.score(obs, after, starts))
        buffer.rewards += b.numpy()
        buffer.compute_returns_and_advantage(self.locals["values"], self.locals["dones"])
        flat = lambda x: x.reshape(-1, x.shape[-1])  # noqa: E731
        self.bonus.learn(flat(obs), torch.as_tensor(flat(buffer.actions)), flat(after))
        self.after = []


def evaluate(model: PPO, task: str, deterministic: bool) -> tuple[float, float]:
    """Returns mean return and success on layouts that training does not draw."""
    env, returns = make_single(task), []
    for episode in range(EPISODES):
        (obs, _), total, ended = env.reset(seed=HELD_OUT + episode), 0.0, False
        while not ended:
            action, _ = model.predict(obs, deterministic=deterministic)
            obs, reward, terminated, truncated, _ = env.step(action)
            total, ended = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return float(np.mean(returns)), float(np.mean(np.array(returns) > 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("recipe", choices=["ppo", "rnd", "e3b"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--evaluations", type=int, default=4)
    options = parser.parse_args()
    torch.set_num_threads(1)
    env: Any = make_vec_env(options.task, ENVS, seed=options.seed)
    model = PPO("MlpPolicy", env, n_steps=2048 // ENVS, seed=options.seed, device="cpu")
    size, actions = env.observation_space.shape[0], env.action_space.n
    made = {"rnd": RND, "e3b": E3B}.get(options.recipe)
    adds = Adds(made(size, actions)) if made is not None else None
    seconds = 0.0
    for k in range(options.evaluations):
        began = time.process_time()
        model.learn(options.steps // options.evaluations, callback=adds, reset_num_timesteps=k == 0)
        seconds += time.process_time() - began
        row = [options.task, options.recipe, options.seed, model.num_timesteps, f"{seconds:.0f}"]
        row += [f"{x:.4f}" for how in (False, True) for x in evaluate(model, options.task, how)]
        if not RESULTS.exists():
            RESULTS.write_text(HEAD + "\n")
        with RESULTS.open("a") as file:
            file.write(",".join(map(str, row)) + "\n")
        print(*row, flush=True)


if __name__ == "__main__":
    main()
