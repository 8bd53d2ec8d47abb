"""SB3's algorithms with our bonus: the same advantages as in our own engine, and nothing else."""
# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("stable_baselines3")
contrib = pytest.importorskip("sb3_contrib")

import torch  # noqa: E402
from sb3_contrib import MaskablePPO, RecurrentPPO  # noqa: E402
from stable_baselines3 import A2C, DQN, PPO  # noqa: E402
from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from lpo import LPOError  # noqa: E402
from lpo.bonus import BonusPart, EpisodePart  # noqa: E402
from lpo.engine.learner import TrainState, init_state, prepare  # noqa: E402
from lpo.math.advantage import Trajectory, streams_gae  # noqa: E402
from lpo.math.nets import Layer, values  # noqa: E402
from lpo.math.normalize import normalize  # noqa: E402
from lpo.sb3 import Explore  # noqa: E402
from lpo.types import Rollout  # noqa: E402

torch.set_num_threads(1)
STEPS, ENVS = 20, 3
SMALL: dict[str, Any] = {"hidden": (8,), "epochs": 1, "batch_size": 16}


class Walk(gymnasium.Env):
    """A walk on a line: 1 at its right end, which ends it; a limit of seven steps cuts it."""

    action_space = spaces.Discrete(2)

    def __init__(self, kind: str = "box", seed: int = 0):
        self.kind, self.rng = kind, np.random.default_rng(seed)
        vector = spaces.Box(-9, 9, (2,), np.float32)
        self.observation_space: Any = {
            "box": vector,
            "dict": spaces.Dict({"where": vector, "code": spaces.Discrete(3)}),
            "codes": spaces.Box(0, 99, (2,), np.int64),
            "image": spaces.Box(0, 255, (3, 40, 40), np.uint8),
        }[kind]

    def look(self) -> Any:
        vector = np.array([self.x, self.t], np.float32)
        if self.kind == "dict":
            return {"where": vector, "code": self.t % 3}
        if self.kind == "image":
            return np.full((3, 40, 40), 10 * self.t, np.uint8)
        return (vector + 50).astype(np.int64) if self.kind == "codes" else vector

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = int(self.rng.integers(0, 2)), 0
        return self.look(), {}

    def step(self, action):
        self.x, self.t = self.x + (1 if action else -1), self.t + 1
        end = self.x == 3
        return self.look(), float(end), end, self.t == 7 and not end, {}

    def action_masks(self) -> np.ndarray:
        return np.array([self.x > -2, True])


def batch(kind: str = "box") -> DummyVecEnv:
    return DummyVecEnv([lambda i=i: Walk(kind, i) for i in range(ENVS)])


CASES: dict[str, Any] = {
    "box": lambda env, **k: PPO("MlpPolicy", env, n_steps=STEPS, batch_size=20, **k),
    "dict": lambda env, **k: PPO("MultiInputPolicy", env, n_steps=STEPS, batch_size=20, **k),
    "a2c": lambda env, **k: A2C("MlpPolicy", env, n_steps=STEPS, **k),
    "recurrent": lambda env, **k: RecurrentPPO(
        "MlpLstmPolicy", env, n_steps=STEPS, batch_size=20, **k
    ),
    "masked": lambda env, **k: MaskablePPO("MlpPolicy", env, n_steps=STEPS, batch_size=20, **k),
}


def made(name: str, **options: Any) -> Any:
    env = batch("dict" if name == "dict" else "box")
    return CASES[name](env, n_epochs=1, seed=0, device="cpu", **options) if name != "a2c" else (
        CASES[name](env, seed=0, device="cpu", **options)
    )  # fmt: skip


class Before(BaseCallback):
    """Stands before Explore: what SB3 has computed, and its value of every s′."""

    def __init__(self, explore: Explore):
        super().__init__()
        self.explore, self.found, self.next_value = explore, [], []

    def _on_step(self) -> bool:
        now, policy = self.locals, self.model.policy
        each = []
        for i, done in enumerate(now["dones"]):
            info = now["infos"][i]
            obs = info["terminal_observation"] if done else row(now["new_obs"], i)
            tensor: Any = policy.obs_to_tensor(obs)[0]
            with torch.no_grad():
                if "lstm_states" in now:
                    memory = tuple(x[:, i : i + 1].contiguous() for x in now["lstm_states"].vf)
                    value = policy.predict_values(tensor, memory, torch.zeros(1))
                else:
                    value = policy.predict_values(tensor)
            each.append(float(value))
        self.next_value.append(each)
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer
        policy: Any = self.model.policy
        layers = [] if hasattr(policy, "lstm_actor") else critic_of(policy)
        self.found.append(
            {
                "rows": list(self.explore._rows),
                "last": self.explore._now,
                "memory": self.explore.explorer.memory,
                "advantages": buffer.advantages.copy(),
                "returns": buffer.returns.copy(),
                "values": buffer.values.copy(),
                "next_value": np.array(self.next_value, np.float32),
                "critic": layers,
            }
        )
        self.next_value = []


class After(BaseCallback):
    """Stands behind Explore: what it wrote."""

    def __init__(self):
        super().__init__()
        self.found: list[Any] = []

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer
        self.found.append((buffer.advantages.copy(), buffer.returns.copy()))


def row(obs: Any, i: int) -> Any:
    return {k: x[i] for k, x in obs.items()} if isinstance(obs, dict) else obs[i]


def critic_of(policy: Any) -> list[Layer]:
    """SB3's critic in our form: tanh layers, as its features are flat."""
    linear = [x for x in policy.mlp_extractor.value_net if isinstance(x, torch.nn.Linear)]
    return [
        Layer(x.weight.detach().numpy().T.copy(), x.bias.detach().numpy().copy())
        for x in (*linear, policy.value_net)
    ]


def as_rollout(explore: Explore, was: dict[str, Any]) -> Rollout:
    see = explore.explorer._see.read
    stack = lambda name: np.stack([r[name] for r in was["rows"]])  # noqa: E731
    tree = lambda name: jax.tree.map(lambda *x: np.stack(x), *[r[name] for r in was["rows"]])  # noqa: E731
    valid = np.ones((STEPS, ENVS), bool)
    made: Any = Rollout(
        obs=see(tree("obs")), action=stack("action")[..., None].astype(np.float32),
        reward=stack("reward").astype(np.float32), terminated=stack("terminated"),
        truncated=stack("truncated"), next_obs=see(tree("next_obs")), valid=valid,
        start=stack("start"), taken=valid, last_obs=see(was["last"]),
    )  # fmt: skip
    return jax.tree.map(jnp.asarray, made)


@pytest.fixture(scope="module")
def learned() -> dict[str, Any]:
    """Two rollouts of every algorithm, with what was there before and after Explore."""
    found = {}
    for name in CASES:
        explore = Explore(seed=5, hidden=(64, 64), normalize_obs=False, epochs=1)
        before, after = Before(explore), After()
        made(name).learn(2 * STEPS * ENVS, callback=[before, explore, after])
        found[name] = explore, before.found, after.found
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_sb3_s_advantage_of_the_reward_is_ours(learned, name):
    """So the callback may take it as it is: time limits, ends, the values of an LSTM."""
    explore, before, _ = learned[name]
    for was in before:
        rollout = as_rollout(explore, was)
        v, after = (jnp.asarray(was[k])[None] for k in ("values", "next_value"))
        x = Trajectory(rollout.reward[None], v, after, after[:, -1], rollout.terminated,
                       rollout.truncated, rollout.valid)  # fmt: skip
        one = jnp.array([0.99]), jnp.array([explore.model.gae_lambda]), jnp.array([1])
        np.testing.assert_allclose(streams_gae(x, *one)[0], was["advantages"], atol=1e-6)
        assert rollout.truncated.any() and rollout.terminated.any()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if name != "recurrent"])
def test_advantages_are_those_of_our_engine(learned, name):
    """Our engine, with SB3's critic and the bonus's: the Â that the callback wrote."""
    explore, before, after = learned[name]
    parts = explore.explorer.parts
    for was, (advantages, returns) in zip(before, after, strict=True):
        memory = was["memory"]
        state: TrainState = init_state(parts, 5)
        critics = [
            Layer(jnp.concatenate([w[None], mine.w]), jnp.concatenate([b[None], mine.b]))
            for (w, b), mine in zip(was["critic"], memory.critics, strict=True)
        ]
        state = state._replace(
            params=state.params._replace(critics=tuple(critics)),
            moments=memory.moments, bonus=memory.bonus, weigh=memory.weigh,
        )  # fmt: skip
        ready = jax.jit(lambda s, r: prepare(parts, s, r))(state, as_rollout(explore, was))
        ours = np.asarray(ready.batch.advantage).reshape(STEPS, ENVS)
        np.testing.assert_allclose(advantages, ours, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(returns, was["returns"])
        assert np.abs(advantages - was["advantages"]).max() > 1e-3


@pytest.mark.slow
def test_a_recurrent_policy_gets_the_same_second_stream(learned):
    explore, before, after = learned["recurrent"]
    p = explore.explorer.parts
    for was, (advantages, _) in zip(before, after, strict=True):
        rollout, memory = as_rollout(explore, was), was["memory"]
        see = lambda x, m=memory: values(m.critics, normalize(m.moments, x, np.inf))  # noqa: E731
        b, _, _ = p.bonus.score(memory.bonus, rollout)
        x = Trajectory(b, see(rollout.obs), see(rollout.next_obs), see(rollout.last_obs),
                       rollout.terminated, rollout.truncated, rollout.valid)  # fmt: skip
        s = p.streams
        a = streams_gae(x, s.gammas[1:], s.lambdas[1:], s.ends[1:])
        a = jnp.concatenate([was["advantages"][None], a])
        weights = p.weigh.update(memory.weigh, s, a, rollout)[0]
        np.testing.assert_allclose(advantages, jnp.tensordot(weights, a, axes=1), atol=1e-6)


def rows_of(kind: str, *, wrap: Any = None, steps: int = STEPS) -> tuple[Explore, list[Any], Any]:
    """The rows that the callback saw in one rollout."""
    env = batch(kind)
    env = env if wrap is None else wrap(env)
    policy = "MultiInputPolicy" if kind == "dict" else "MlpPolicy"
    explore = Explore(**SMALL)
    model = PPO(policy, env, n_steps=steps, batch_size=20, n_epochs=1, seed=0, device="cpu")
    before = Before(explore)
    before._on_step = lambda: True
    model.learn(steps * ENVS, callback=[before, explore])
    return explore, before.found[0]["rows"], before.found[0]["last"]


@pytest.mark.parametrize("wrap", [None, VecNormalize], ids=["plain", "normalised"])
def test_each_row_is_the_transition_that_the_task_made(wrap):
    """The walk's own rules, checked on every row: s, a, r, s′, ends, time limits, starts."""
    _, rows, last = rows_of("codes", wrap=wrap)
    ended = np.ones(ENVS, bool)
    for t, r in enumerate(rows):
        x, clock = (r["obs"] - 50).T
        step = np.where(r["action"] == 1, 1, -1)
        np.testing.assert_array_equal(r["next_obs"] - 50, np.stack([x + step, clock + 1], -1))
        np.testing.assert_array_equal(r["terminated"], x + step == 3)
        np.testing.assert_array_equal(r["truncated"], (clock == 6) & (x + step != 3))
        np.testing.assert_array_equal(r["reward"], (x + step == 3) * 1.0)
        np.testing.assert_array_equal(r["start"], ended)
        np.testing.assert_array_equal(clock == 0, ended)
        ended = r["terminated"] | r["truncated"]
        after = rows[t + 1]["obs"] if t + 1 < len(rows) else last
        np.testing.assert_array_equal(after[~ended], r["next_obs"][~ended])


def test_pictures_and_vec_normalize_are_seen_without_their_wrappers():
    explore, rows, _ = rows_of("image")
    assert explore.explorer._see.size == 144
    assert rows[0]["obs"].dtype == np.uint8


@pytest.mark.slow
@pytest.mark.parametrize(
    "chosen",
    [{"bonus": k} for k in BonusPart.kinds.names()]
    + [{"episode": k} for k in EpisodePart.kinds.names() if k != "none"],
    ids=str,
)
def test_every_bonus_works_in_sb3(chosen):
    explore = Explore(**SMALL, **chosen)
    after = After()
    model = PPO("MlpPolicy", batch(), n_steps=STEPS, batch_size=20, n_epochs=1, device="cpu")
    model.learn(STEPS * ENVS, callback=[explore, after], log_interval=None)  # keeps what is logged
    assert np.isfinite(after.found[0][0]).all()
    assert ("advantage/int_rms" in model.logger.name_to_value) == (chosen.get("bonus") != "none")


def test_without_a_bonus_nothing_changes():
    """bonus="none" is the null object: the same model as without the callback, bit by bit."""
    models = []
    for callback in (None, Explore(bonus="none", **SMALL)):
        model = PPO("MlpPolicy", batch(), n_steps=STEPS, batch_size=20, seed=1, device="cpu")
        models.append(model.learn(3 * STEPS * ENVS, callback=callback).policy.state_dict())
    for name, x in models[0].items():
        assert torch.equal(x, models[1][name]), name


def test_it_goes_on_from_a_file(tmp_path):
    """Two learn calls, with save, load and a new model between them: the same state as without."""

    def model() -> Any:
        return PPO("MlpPolicy", batch(), n_steps=STEPS, batch_size=20, seed=1, device="cpu")

    first = Explore(seed=2, **SMALL)
    whole = model().learn(2 * STEPS * ENVS, callback=first)
    first.save(tmp_path / "walk-explore")
    whole.save(tmp_path / "walk")
    assert sorted(x.name for x in tmp_path.iterdir()) == [
        "walk-explore.json", "walk-explore.safetensors", "walk.zip",
    ]  # fmt: skip
    second = Explore(seed=2, **SMALL).restore(tmp_path / "walk-explore")
    loaded = PPO.load(tmp_path / "walk", env=batch(), device="cpu")
    loaded.learn(STEPS * ENVS, callback=second, reset_num_timesteps=False, progress_bar=False)
    assert second.explorer is not None and int(second.explorer.memory.iteration) == 3
    assert first.explorer is not None
    kept = first.explorer.state()
    again = Explore(seed=2, **SMALL).restore(tmp_path / "walk-explore")
    model().learn(0, callback=again)  # makes the explorer, learns nothing
    for name, x in again.explorer.state().items():
        np.testing.assert_array_equal(x, kept[name])
    with pytest.raises(LPOError, match="damaged"):
        (tmp_path / "walk-explore.safetensors").write_bytes(b"x" * 99)
        Explore().restore(tmp_path / "walk-explore")


def test_what_cannot_work_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(LPOError, match="use PPO, A2C"):
        DQN("MlpPolicy", batch(), buffer_size=10, device="cpu").learn(9, callback=Explore())
    with pytest.raises(LPOError, match="call learn before save"):
        Explore().save(tmp_path / "x")
    with pytest.raises(LPOError, match="ent_coef"):
        PPO("MlpPolicy", batch(), device="cpu").learn(9, callback=Explore(ent_coef=0.1))
    explore = Explore(**SMALL)
    PPO("MlpPolicy", batch(), n_steps=STEPS, batch_size=20, device="cpu").learn(1, callback=explore)
    with pytest.raises(LPOError, match="make a new one"):
        PPO("MlpPolicy", "CartPole-v1", device="cpu").learn(9, callback=explore)
