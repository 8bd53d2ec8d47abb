"""Command line: `lpo eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lpo.engine.evaluate import as_sampled, score
from lpo.engine.evaluate import evaluate as play
from lpo.policy import Policy
from lpo.runs import verdict
from lpo.runs.directory import task_line
from lpo.runs.verdict import Acts


def evaluate(run: Path, checkpoint: str, episodes: int, seed: int, actions: str) -> None:
    """Prints the scores of a policy on new episodes: the chosen way first, then the other one."""
    policy = Policy.load(run, checkpoint)
    env = policy.config.task.make(episodes, flat=policy.config.network.flat)
    way = policy.way(actions)
    print(f"{run}: policy at step {policy.env_steps}, {task_line(env.description)}")
    found: dict[Acts, dict[str, float]] = {}
    ways: tuple[Acts, ...] = ("mode", "sampled") if way == "mode" else ("sampled", "mode")
    for one in ways:
        found[one], line = played(policy, env, one, episodes, seed)
        why = "what the policy does by default" if actions == "own" else "asked for"
        mark = f"  ({why})" if one == way else ""
        print(f"{one:7} {line}{mark}")
    different = verdict.apart(found["mode"] | as_sampled(found["sampled"]))
    print(*([] if different is None else [different]), sep="\n", end="\n" if different else "")


def played(
    policy: Policy, env: Any, way: Acts, number: int, seed: int
) -> tuple[dict[str, float], str]:
    longest = policy.config.evaluation.max_steps
    episodes = play(env, policy.actor, seed, way == "mode", longest)
    scores = score("eval", episodes, env.description)
    returns, success = [e.ret for e in episodes], scores.get("eval/success")
    line = (
        f"return {scores['eval/return']:.4g} (from {min(returns):.4g} to {max(returns):.4g}), "
        f"length {scores['eval/length']:.0f}, "
        + ("" if success is None else f"success {success:.0%} ")
        + f"over {number} episodes"
    )
    return scores, line
