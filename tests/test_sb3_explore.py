"""SB3's algorithms with our bonus: the same advantages as in our own engine, and nothing else."""
# pyright: reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportOptionalMemberAccess=false

import importlib.util
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
from stable_baselines3.common.vec_env import (  # noqa: E402
    DummyVecEnv,
    VecNormalize,
    VecTransposeImage,
)

from lpo import LPOError  # noqa: E402
from lpo.engine.learner import TrainState, init_state, prepare, viewed  # noqa: E402
from lpo.math.advantage import Trajectory, streams_gae  # noqa: E402
from lpo.math.nets import Layer  # noqa: E402
from lpo.sb3 import Explore  # noqa: E402
from lpo.types import Rollout  # noqa: E402

from .test_explorer import of_every_kind  # noqa: E402

torch.set_num_threads(1)
STEPS, ENVS = 20, 3
SMALL: dict[str, Any] = {"hidden": (8,), "epochs": 1, "batch_size": 16}


PICTURE = spaces.Box(0, 255, (40, 40, 3), np.uint8)  # SB3 puts the channels first


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
            "image": PICTURE,
            "camera": spaces.Dict({"where": vector, "camera": PICTURE}),
        }[kind]

    def look(self) -> Any:
        vector = np.array([self.x, self.t], np.float32)
        if self.kind == "dict":
            return {"where": vector, "code": self.t % 3}
        if self.kind in ("image", "camera"):
            picture = np.full(PICTURE.shape, 20 * (self.x + 7), np.uint8)
            picture[:20] = 10 * self.t
            return picture if self.kind == "image" else {"where": vector, "camera": picture}
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
    "image": lambda env, **k: PPO("CnnPolicy", env, n_steps=STEPS, batch_size=20, **k),
    "camera": lambda env, **k: PPO("MultiInputPolicy", env, n_steps=STEPS, batch_size=20, **k),
}
OWN_EYES = ("recurrent", "image", "camera")  # SB3's critic reads no vector


def made(name: str, **options: Any) -> Any:
    env = batch(name if name in ("dict", "image", "camera") else "box")
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
        layers = [] if self.explore.explorer.parts.sight.obs.size is None else critic_of(policy)
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


class Learned(dict):
    """Two rollouts of an algorithm, with what was there before and after Explore."""

    def __missing__(self, name: str) -> Any:
        explore = Explore(seed=5, hidden=(64, 64), normalize_obs=False, epochs=1)
        before, after = Before(explore), After()
        made(name).learn(2 * STEPS * ENVS, callback=[before, explore, after])
        self[name] = explore, before.found, after.found
        return self[name]


@pytest.fixture(scope="module")
def learned() -> Learned:
    return Learned()


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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "box" else pytest.mark.slow)
        for name in CASES
        if name not in OWN_EYES
    ],
)
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
@pytest.mark.parametrize("name", OWN_EYES)
def test_a_critic_that_reads_no_vector_gets_the_same_second_stream(learned, name):
    """Our engine's Â_int, weighed with SB3's Â_ext as our engine weighs."""
    explore, before, after = learned[name]
    p = explore.explorer.parts
    for was, (advantages, returns) in zip(before, after, strict=True):
        rollout, memory = as_rollout(explore, was), was["memory"]
        state: TrainState = init_state(p, 5)
        critics = jax.tree.map(lambda x: jnp.concatenate([0 * x, x]), memory.critics)
        state = state._replace(
            params=state.params._replace(critics=critics, body=memory.body),
            moments=memory.moments, bonus=memory.bonus, weigh=memory.weigh,
        )  # fmt: skip
        second = jax.jit(lambda s, r: prepare(p, s, r))(state, rollout).advantages[1]
        a = jnp.stack([jnp.asarray(was["advantages"]), second])
        weights = p.weigh.update(memory.weigh, p.streams, a, rollout)[0]
        np.testing.assert_allclose(advantages, jnp.tensordot(weights, a, axes=1), atol=1e-6)
        np.testing.assert_array_equal(returns, was["returns"])
        assert np.abs(advantages - was["advantages"]).max() > 1e-3


def rows_of(kind: str, wrap: Any) -> tuple[list[Any], Any]:
    """The rows that the callback saw in one rollout, and where the next one begins."""
    env = batch(kind)
    env = env if wrap is None else wrap(env)
    policy = "MultiInputPolicy" if kind == "camera" else "MlpPolicy"
    explore = Explore(bonus="none", **SMALL)
    model = PPO(policy, env, n_steps=STEPS, batch_size=20, n_epochs=1, seed=0, device="cpu")
    before = Before(explore)
    before._on_step = lambda: True
    model.learn(STEPS * ENVS, callback=[before, explore])
    return before.found[0]["rows"], before.found[0]["last"]


def upright_and_normalised(env: Any) -> VecNormalize:
    return VecNormalize(VecTransposeImage(env), norm_obs_keys=["where"])


@pytest.mark.parametrize(
    ("kind", "wrap"),
    [("codes", None), ("codes", VecNormalize), ("camera", upright_and_normalised)],
    ids=["plain", "normalised", "pictures"],
)
def test_each_row_is_the_transition_that_the_task_made(kind, wrap):
    """The walk's own rules, checked on every row: s, a, r, s′, ends, time limits, starts."""
    rows, last = rows_of(kind, wrap)
    ended = np.ones(ENVS, bool)
    where = lambda obs: obs["where"] if kind == "camera" else obs - 50  # noqa: E731
    for t, r in enumerate(rows):
        x, clock = where(r["obs"]).T
        step = np.where(r["action"] == 1, 1, -1)
        next_x, next_clock = where(r["next_obs"]).T
        np.testing.assert_allclose(next_x, x + step, atol=1e-5)
        np.testing.assert_allclose(next_clock, clock + 1, atol=1e-5)
        if kind == "camera":
            picture = r["next_obs"]["camera"]
            assert picture.shape == (ENVS, 3, 40, 40) and picture.dtype == np.uint8
            np.testing.assert_array_equal(picture[:, 0, -1, 0], 20 * np.rint(x + step + 7))
            np.testing.assert_array_equal(picture[:, 0, 0, 0], 10 * np.rint(clock + 1))
        np.testing.assert_array_equal(r["terminated"], x + step == 3)
        np.testing.assert_array_equal(r["truncated"], (clock == 6) & (x + step != 3))
        np.testing.assert_array_equal(r["reward"], (x + step == 3) * 1.0)
        np.testing.assert_array_equal(r["start"], ended)
        np.testing.assert_array_equal(clock == 0, ended)
        ended = r["terminated"] | r["truncated"]
        after = where(rows[t + 1]["obs"] if t + 1 < len(rows) else last)
        np.testing.assert_array_equal(after[~ended], where(r["next_obs"])[~ended])


class Clock(gymnasium.Env):
    """Observes the time; ends after ``length`` steps and pays nothing."""

    observation_space = spaces.Box(0, 999, (1,), np.float32)

    def __init__(self, length: int, action_space: spaces.Space):
        self.length, self.action_space, self.t = length, action_space, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        return np.full(1, self.t, np.float32), 0.0, self.t == self.length, False, {}


@pytest.mark.parametrize(
    ("length", "envs", "actions"),
    [
        (1, 1, spaces.Discrete(2)),  # an episode ends in its first step
        (35, 1, spaces.Box(-1, 1, (2,), np.float32)),  # and is longer than a rollout
        (7, 3, spaces.MultiDiscrete([2, 3])),
        (20, 2, spaces.MultiBinary(3)),  # and is as long as one
    ],
    ids=str,
)
def test_episodes_of_every_length_and_actions_of_every_kind(length, envs, actions):
    """By hand: the bonus is 1 − γ = 1/2, critics are 0, λ = 1, and its return ends with the
    episode. So Â_int is 1 − 2⁻ᵐ, m steps before the episode or the rollout ends."""
    explore = Explore(
        bonus="constant", scale="size", gamma_int=0.5, lambda_int=1.0, value_gain=0.0,
        intrinsic_ends="ends", weighing="fixed", alpha=1.0, beta=1.0, learning_rate=1e-12, **SMALL
    )  # fmt: skip
    env, after = DummyVecEnv([lambda: Clock(length, actions) for _ in range(envs)]), After()
    before = After()
    model = PPO("MlpPolicy", env, n_steps=STEPS, batch_size=20, n_epochs=1, device="cpu")
    model.learn(2 * STEPS * envs, callback=[before, explore, after])
    clock = np.arange(2 * STEPS).reshape(2, STEPS)
    left = np.minimum(length - clock % length, STEPS - clock % STEPS)
    for (was, _), (found, _), m in zip(before.found, after.found, left, strict=True):
        expected = np.broadcast_to(1 - 0.5 ** m[:, None], was.shape)
        np.testing.assert_allclose(found - was, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", of_every_kind())
def test_every_bonus_works_in_sb3(chosen):
    explore = Explore(**SMALL, **chosen)
    after = After()
    model = PPO("MlpPolicy", batch(), n_steps=STEPS, batch_size=20, n_epochs=1, device="cpu")
    model.learn(STEPS * ENVS, callback=[explore, after], log_interval=None)  # keeps what is logged
    assert np.isfinite(after.found[0][0]).all()
    assert ("advantage/int_rms" in model.logger.name_to_value) == (chosen.get("bonus") != "none")


@pytest.mark.slow
def test_the_bonus_reads_the_parts_that_are_named():
    """The code of the time changes no bonus; the place does."""
    explore = Explore(bonus="visits", bonus_keys=["where"], **SMALL)
    before = Before(explore)
    before._on_step = lambda: True
    made("dict").learn(2 * STEPS * ENVS, callback=[before, explore])
    was, p = before.found[1], explore.explorer.parts  # the first rollout is counted
    rollout = as_rollout(explore, was)

    def bonus(kept: list[int]) -> np.ndarray:
        """Returns the bonus where the observations [code, code, code, x, t] keep these columns."""
        changed = rollout._replace(
            **{
                k: jnp.asarray(np.asarray(getattr(rollout, k)) * kept, jnp.float32)
                for k in ("obs", "next_obs", "last_obs")
            }
        )
        return np.asarray(p.bonus.score(was["memory"].bonus, viewed(p, changed))[0])

    np.testing.assert_array_equal(bonus([0, 0, 0, 1, 1]), bonus([1, 1, 1, 1, 1]))
    assert not np.array_equal(bonus([1, 1, 1, 0, 0]), bonus([1, 1, 1, 1, 1]))


def test_without_a_bonus_nothing_changes():
    """bonus="none" is the null object: the same model as without the callback, bit by bit."""
    models = []
    for callback in (None, Explore(bonus="none", **SMALL)):
        model = PPO("MlpPolicy", batch(), n_steps=STEPS, batch_size=20, seed=1, device="cpu")
        models.append(model.learn(3 * STEPS * ENVS, callback=callback).policy.state_dict())
    for name, x in models[0].items():
        assert torch.equal(x, models[1][name]), name


@pytest.mark.filterwarnings("ignore:rich is experimental")
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
    bar = all(importlib.util.find_spec(name) for name in ("tqdm", "rich"))
    loaded.learn(STEPS * ENVS, callback=second, reset_num_timesteps=False, progress_bar=bar)
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
    with pytest.raises(LPOError, match="VecTransposeImage is around VecNormalize"):
        camera = VecNormalize(batch("camera"), norm_obs_keys=["where"])
        PPO("MultiInputPolicy", camera, device="cpu").learn(9, callback=Explore())
    explore = Explore(**SMALL)
    PPO("MlpPolicy", batch(), n_steps=STEPS, batch_size=20, device="cpu").learn(1, callback=explore)
    with pytest.raises(LPOError, match="make a new one"):
        PPO("MlpPolicy", "CartPole-v1", device="cpu").learn(9, callback=explore)
