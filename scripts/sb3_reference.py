"""Write tests/data/sb3_reference.npz: what stable-baselines3's own PPO computes on fixed data.

SB3 collects a rollout with ``PPO.collect_rollouts`` from environments that play random numbers,
with terminal states, time limits and both at once, and learns from it with ``PPO.train``, one
minibatch a call; nothing of SB3's arithmetic is repeated here. Recorded are what the environments
truly gave (``reward`` before SB3 adds γV(final observation) to it at a time limit) and SB3's
values, log-probabilities, advantages, returns, losses, gradients before and after the norm clip,
and parameters. ``tests/math/test_sb3_agreement.py`` compares them with ours and needs no torch.

    pip install 'lpo-rl[bench]'
    python scripts/sb3_reference.py
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from unittest import mock

import gymnasium
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from gymnasium import spaces
from stable_baselines3 import PPO, __version__  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.callbacks import CallbackList  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.logger import Logger  # pyright: ignore[reportMissingImports]
from stable_baselines3.common.vec_env import DummyVecEnv  # pyright: ignore[reportMissingImports]

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "sb3_reference.npz"
SPACES = {
    "gaussian": spaces.Box(-1.0, 1.0, (3,), np.float32),
    "categorical": spaces.Discrete(4),
    "multicategorical": spaces.MultiDiscrete([3, 2]),
}
OBS_SIZE, NUM_ENVS, STEPS, BATCH, HIDDEN = 5, 4, 24, 16, [8, 8]
OPTIONS: dict[str, Any] = {
    "learning_rate": 1e-3,
    "gamma": 0.97,
    "gae_lambda": 0.9,
    "clip_range": 0.2,
    "ent_coef": 0.02,
    "vf_coef": 0.5,
    "max_grad_norm": 2.0,  # so that some minibatches are clipped and some are not
}
LOSSES = {
    "policy_loss": "train/policy_gradient_loss",
    "value_loss": "train/value_loss",
    "entropy_loss": "train/entropy_loss",
    "kl": "train/approx_kl",
    "clip_fraction": "train/clip_fraction",
}


class Tape(gymnasium.Env):
    """Random observations, rewards and ends, whatever the action; keeps each true transition."""

    def __init__(self, action_space: spaces.Space, seed: int):
        self.observation_space = spaces.Box(-np.inf, np.inf, (OBS_SIZE,), np.float32)
        self.action_space = action_space
        self.rng = np.random.default_rng(seed)
        self.cut_at = STEPS if seed % 2 else None  # a time limit on the rollout's last step
        self.steps: list[dict[str, Any]] = []

    def draw(self) -> np.ndarray:
        return self.rng.normal(size=OBS_SIZE).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        self.age = 0
        return self.draw(), {}

    def step(self, action: Any):
        self.age += 1
        obs, reward = self.draw(), float(np.float32(self.rng.normal()))
        draw = self.rng.random()
        terminated = draw < 0.12
        truncated = self.age >= 7 or draw < 0.03 or len(self.steps) + 1 == self.cut_at
        step = {"reward": reward, "terminated": terminated, "truncated": truncated, "next_obs": obs}
        self.steps.append(step)
        return obs, reward, terminated, truncated, {}


def weights(policy: Any, read: Any) -> dict[str, np.ndarray]:
    """``read(parameter)`` of every layer, under our names and in our layout ([in, out])."""
    nets = {
        "policy": [policy.mlp_extractor.policy_net[0], policy.mlp_extractor.policy_net[2]],
        "critic": [policy.mlp_extractor.value_net[0], policy.mlp_extractor.value_net[2]],
    }
    nets["policy"].append(policy.action_net)
    nets["critic"].append(policy.value_net)
    named = {}
    for net, layers in nets.items():
        for i, layer in enumerate(layers):
            named[f"{net}/{i}/w"] = read(layer.weight).numpy().T.copy()
            named[f"{net}/{i}/b"] = read(layer.bias).numpy().copy()
    if hasattr(policy, "log_std"):
        named["log_std"] = read(policy.log_std).numpy().copy()
    return named


def shake(policy: Any, size: float) -> None:
    """Move every parameter, so that no ratio is one and no layer is as it was initialised."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(size * torch.randn_like(parameter))


def collect(model: PPO, envs: list[Tape]) -> dict[str, np.ndarray]:
    """A rollout by SB3: the true transitions, and what SB3 made of them."""
    _, callback = model._setup_learn(STEPS * NUM_ENVS, CallbackList([]))
    assert model.env is not None
    model.collect_rollouts(model.env, callback, model.rollout_buffer, STEPS)
    names = envs[0].steps[0]
    true = {k: np.array([[e.steps[t][k] for e in envs] for t in range(STEPS)]) for k in names}
    true["reward"] = true["reward"].astype(np.float32)
    buffer = model.rollout_buffer
    copies = {
        "obs": buffer.observations,
        "action": buffer.actions.astype(np.float32),
        "value": buffer.values,
        "log_prob": buffer.log_probs,
        "advantage": buffer.advantages,
        "returns": buffer.returns,
        "last_obs": model._last_obs,
    }
    return {f"rollout/{k}": np.array(v) for k, v in {**true, **copies}.items()}


def train_once(model: PPO, samples: Any) -> dict[str, np.ndarray]:
    """``PPO.train`` on one minibatch: its data, losses, gradients and the parameters after it."""
    before: dict[str, np.ndarray] = {}
    clip = torch.nn.utils.clip_grad_norm_

    def spy(parameters: Any, max_norm: float):
        before.update(weights(model.policy, lambda p: p.grad.clone()))
        return clip(parameters, max_norm)

    with (
        mock.patch.object(model.rollout_buffer, "get", lambda size: iter([samples])),
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", spy),
    ):
        model.train()
    log = model.logger.name_to_value
    record = {f"loss/{k}": np.array(log[name], np.float32) for k, name in LOSSES.items()}
    record["loss/total"] = np.array(log["train/loss"], np.float32)
    groups = {
        "grad": before,
        "clipped": weights(model.policy, lambda p: p.grad),
        "params": weights(model.policy, lambda p: p.detach()),
    }
    record |= {f"{g}/{k}": v for g, named in groups.items() for k, v in named.items()}
    for name in ("observations", "actions", "old_log_prob", "advantages", "returns"):
        record[f"batch/{name}"] = getattr(samples, name).numpy().reshape(BATCH, -1)
    return record


def reference(action_space: spaces.Space, seed: int) -> dict[str, np.ndarray]:
    """Everything recorded for one kind of action."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    envs = [Tape(action_space, 100 * seed + i) for i in range(NUM_ENVS)]
    model = PPO(
        "MlpPolicy",
        DummyVecEnv([lambda env=env: env for env in envs]),
        n_steps=STEPS,
        batch_size=BATCH,
        n_epochs=1,
        policy_kwargs={"net_arch": HIDDEN},
        device="cpu",
        **OPTIONS,
    )
    model.set_logger(Logger(None, []))
    shake(model.policy, 0.2)
    acted = weights(model.policy, lambda p: p.detach())
    out = {f"acted/{k}": v for k, v in acted.items()} | collect(model, envs)
    shake(model.policy, 0.1)
    start = weights(model.policy, lambda p: p.detach())
    steps = [train_once(model, samples) for samples in list(model.rollout_buffer.get(BATCH))]
    out |= {f"start/{k}": v for k, v in start.items()}
    return out | {f"step/{k}": np.stack([s[k] for s in steps]) for k in steps[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    torch.set_num_threads(1)
    arrays: dict[str, Any] = {f"option/{k}": np.float64(v) for k, v in OPTIONS.items()}
    for seed, (name, space) in enumerate(SPACES.items(), start=1):
        arrays |= {f"{name}/{k}": v for k, v in reference(space, seed).items()}
    arrays["versions"] = np.array(f"stable-baselines3 {__version__}, torch {torch.__version__}")
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **arrays)
    print(
        f"{out.name}: {len(arrays)} arrays, {out.stat().st_size // 1024} kB, {arrays['versions']}"
    )


if __name__ == "__main__":
    main()
