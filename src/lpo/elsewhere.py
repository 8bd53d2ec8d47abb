"""Names that other libraries have for options, and the sentence that says what lpo calls them."""

from __future__ import annotations

import re

from lpo.errors import named

CALLED = {  # stable-baselines3's names, and CleanRL's
    "gamma": "gamma_ext",
    "n_epochs": "epochs",
    "update_epochs": "epochs",
    "clip_range": "clip",
    "clip_coef": "clip",
    "ent_coef": "entropy_coef",
    "vf_coef": "value_coef",
    "n_envs": "num_envs",
    "net_arch": "hidden",
    "lr": "learning_rate",
    "int_gamma": "gamma_int",
    "minibatch_size": "batch_size",
    "norm_adv": "normalize_advantage",
    "env_id": "env",
    "total_timesteps": "steps",
    "eval_freq": "eval_every",
    "n_eval_episodes": "eval_episodes",
    "save_freq": "checkpoint_every",
}
CHOSEN = {  # what is chosen in another way; {braces} are names of options
    "target_kl": "{kl_target} lowers the learning rate where an update changes the policy more",
    "n_steps": "{rollout} is the number of steps between updates, all environments together",
    "num_steps": "{rollout} is the number of steps between updates, all environments together",
    "policy": "{network} chooses the network, and {hidden} its layers",
    "policy_kwargs": "{network} chooses the network, and {hidden} its layers",
    "tensorboard_log": "TensorBoard is one of the {loggers}",
    "verbose": "`learn(progress_bar=False)` and `lpo train --quiet` show nothing",
    "num_minibatches": "{batch_size} is the size of a minibatch",
    "anneal_lr": "the learning rate is constant, and {kl_target} lowers it after a large update",
    "clip_vloss": "the critics are not clipped",
    "track": "Weights & Biases is one of the {loggers}: wandb",
    "capture_video": "`lpo render RUN` writes a clip after training",
    "cuda": "one run uses the CPU, and `lpo train --device gpu` trains many runs on a GPU",
    "clip_range_vf": "the critics are not clipped",
    "use_sde": "noise is drawn anew at every step",
    "int_coef": "the weight of the bonus is {beta}",
    "ext_coef": "the weight of the reward is {alpha}",
}
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy", "MlpLstmPolicy", "CnnLstmPolicy")


def answer(name: str) -> str | None:
    """Returns the sentence for an option of another library; None if no library has the name."""
    if name in CALLED:
        return f"There is no option {name!r}; lpo calls it {named(CALLED[name])}."
    if name not in CHOSEN:
        return None
    words = re.sub(r"{(\w+)}", lambda found: named(found[1]), CHOSEN[name])
    return f"There is no option {name!r}; {words}."
