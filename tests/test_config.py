"""Configurations: made of parts, round trips, old files, and options that mean nothing."""

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args

import gymnasium
import hypothesis.strategies as st
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings

from lpo import Agent, algorithms, config
from lpo.bonus import (
    RND,
    BonusPart,
    Elliptic,
    FirstVisit,
    Fixed,
    NoBonus,
    NoWeighing,
    WidthNetwork,
)
from lpo.cli.train import read_command
from lpo.config import Config, configure, flat, leaves, with_options
from lpo.envs import make
from lpo.envs.make import observes_grid
from lpo.errors import LPOError
from lpo.math.features import Fourier, Product
from lpo.math.ppo import PPOOptions
from lpo.network import Auto
from lpo.options import Option, bare, choices, fields_of, in_words
from lpo.runs.written import options_of
from lpo.start import Cover, Reset
from lpo.sweep.grid import expand, read_grid
from lpo.switch import Every, Growth, Sensitivity


def test_the_papers_table():
    """App. G, and the batch size that goes with each body."""
    c = configure("lpo", env="lpo/SparseHopper-v0")
    assert isinstance(c.bonus, RND) and isinstance(c.switch, Growth)
    assert (c.switch.rollout, c.ppo.gae_lambda, c.ppo.epochs) == (2048, 0.95, 10)
    assert (c.bonus.gamma_int, c.ppo.gamma_ext) == (0.999, 0.99)
    assert (c.weighing, c.ppo.learning_rate) == (Fixed(alpha=2.0, beta=1.0), 1e-4)
    for env, size in (("Hopper", 32), ("Walker2d", 16), ("HalfCheetah", 16)):
        assert configure(env=f"lpo/Sparse{env}-v0", preset="paper").ppo.batch_size == size
    assert configure("lpo") == configure(preset="paper")


def test_the_default_is_one_row_for_command_and_python():
    c = configure(env="lpo/SparseWalker2d-v0")
    assert c == read_command(["--env", "lpo/SparseWalker2d-v0"]).config
    assert c == Agent("lpo/SparseWalker2d-v0").config
    assert Config() == configure()
    assert (c.algo, flat(c)["weighing"], c.ppo.batch_size, c.task.periodic) == (
        "default", "sized-fading", 64, "auto",
    )  # fmt: skip
    assert configure(preset="gpu").algo == "default"
    for preset, row in (("paper", "lpo"), ("finite", "pcpg")):
        assert configure(preset=preset).algo == row
        with pytest.raises(LPOError, match=f"own; leave preset {preset} out, or choose algo {row}"):
            configure("lpo-w", preset=preset)


def test_the_default_row_is_found_under_its_earlier_name():
    """Folders of a grid have the name that the grid has, so that a sweep of then goes on."""
    c = configure("lpo-w")
    assert c == configure() == configure("default") and c.algo == "default"
    old = config.to_dict(c) | {"algo": "lpo-w"}
    assert config.from_dict(old, "a file") == c
    assert Agent(algo="lpo-w").config == c
    assert read_command(["--algo", "lpo-w"]).config == c
    grid = {"name": "g", "envs": ["CartPole-v1"], "seeds": 1, "steps": 4096}
    for algos in (["default"], ["lpo-w", "default"]):
        (item,) = expand(grid | {"algos": algos}).items
        assert (item.name, item.label) == (f"{algos[0]}-CartPole-v1-s0", algos[0])
        assert item.config.algo == "default"
    (item,) = expand(grid | {"variants": {"mine": {"algo": "default"}}}).items
    assert (item.config.algo, item.label) == ("default", "mine")


def test_angles_are_found_under_their_earlier_name():
    env = "lpo/SparseHopper-v0"
    c = configure(env=env, angles=(1,))
    assert c == configure(env=env, periodic=(1,)) == Agent(env, periodic=[1]).config
    for flags in (["--angles", "1"], ["--periodic", "1"], ["--periodic=1"]):
        assert read_command(["--env", env, *flags]).config == c
    grid = {"name": "g", "envs": [env], "seeds": 1, "steps": 4096, "algos": ["default"]}
    for table in ({"overrides": {"periodic": [1]}}, {"variants": {"a": {"periodic": [1]}}}):
        (item,) = expand(grid | table).items
        assert item.config.task.periodic == c.task.periodic


def test_the_preset_for_finite_tasks_is_that_of_the_locks():
    """What the committed grid of the locks sets, and nothing else."""
    grid = read_grid(Path(__file__).parents[1] / "experiments" / "components" / "lock10.toml")
    for item in grid.items[:7]:
        c = configure(item.config.algo, env="lpo/CombinationLock-v0", preset="finite")
        ours, theirs = flat(c), flat(item.config)
        differ = {name for name in ours if ours[name] != theirs[name]}
        assert differ <= {"steps", "env_kwargs", "checkpoint_every", "threads"}


def test_the_defaults_of_sb3():
    """The signature of stable_baselines3.PPO 2.x with MlpPolicy, on one environment."""
    c = configure("ppo", env="lpo/SparseWalker2d-v0", preset="sb3")
    assert c.ppo == PPOOptions(
        learning_rate=3e-4,
        kl_target=0.0,
        batch_size=64,
        epochs=10,
        gamma_ext=0.99,
        gae_lambda=0.95,
        value_lambda=0.95,
        clip=0.2,
        normalize_advantage=True,
        advantage_floor=0.0,
        entropy_coef=0.0,
        value_coef=0.5,
        max_grad_norm=0.5,
        adam_eps=1e-5,
    )
    network = Auto(hidden=(64, 64), log_std_init=0.0, value_gain=1.0, normalize_obs=False)
    assert c.network == network and c.switch == Every(rollout=2048)
    assert (c.bonus.kind, c.task.num_envs, c.task.periodic) == ("none", 1, ())


def test_the_table_of_algorithms():
    parts = {
        name: (type(row.bonus), type(row.switch), type(row.start))
        for name, row in algorithms.ALGORITHMS.items()
    }
    assert parts == {
        "default": (RND, Every, Reset),
        "lpo": (RND, Growth, Reset),
        "lpo-s": (RND, Sensitivity, Reset),
        "eniac": (RND, Every, Reset),
        "rnd": (RND, Every, Reset),
        "pcpg": (Elliptic, Every, Cover),
        "eniac-original": (WidthNetwork, Every, Cover),
        "ppo": (NoBonus, Every, Reset),
    }
    assert configure("rnd").bonus == RND(inputs="next")


def test_any_part_can_be_put_into_any_row():
    """A part given by name keeps the options that both kinds have."""
    c = configure("lpo", rollout=512, start="cover", cover_size=4, bonus_inputs="next")
    assert c.start == Cover(size=4) and c.bonus == RND(inputs="next")
    c = configure("lpo", rollout=512, switch="every")
    assert c.switch == Every(rollout=512)
    c = configure("rnd", bonus="elliptic", features="product")
    assert c.bonus == Elliptic(inputs="next", features=Product())
    c = configure("pcpg", start="reset", switch="sensitivity", switch_tau=0.5, num_features=64)
    assert c.switch == Sensitivity(tau=0.5, features=Fourier(number=64))
    assert c.bonus == Elliptic(shape="indicator", features=Fourier(number=64))
    assert configure("pcpg", bonus="width").bonus == WidthNetwork(shape="indicator")
    c = configure("lpo", bonus=Elliptic(epsilon=2.0), ppo=PPOOptions(clip=0.1))
    assert c.bonus == Elliptic(epsilon=2.0) and c.ppo.clip == 0.1


@pytest.mark.parametrize("name", algorithms.ALGORITHMS)
def test_json_round_trip_of_every_row(name):
    c = configure(name, hidden=[3, 4], env_kwargs={"size": 5, "deep": [1, {"a": None}]}, seed=7)
    assert config.from_json(config.to_json(c), "here") == c


def values_for(option: Option) -> st.SearchStrategy[Any]:
    """Values that an option accepts, drawn from its type and range."""
    plain = bare(choices(option.hint)[0])
    for member in choices(option.hint):
        if bare(member) is type(None):
            return st.none() | _plain(plain)
    if plain in (int, float, bool) or get_args(plain):
        return _plain(plain, option)
    return st.just(option.default)


def _plain(plain: Any, option: Option | None = None) -> st.SearchStrategy[Any]:
    if plain is bool:
        return st.booleans()
    if plain is int:
        return st.integers(2, 2000).map(lambda n: 2 * n)
    if plain is float:
        unit = option is not None and "between 0 and 1" in in_words(option.hint)
        return st.floats(0.001, 0.999 if unit else 50.0)
    if plain in (str, dict):
        return st.just("half" if plain is str else {"a": 1})
    if get_args(plain) and isinstance(get_args(plain)[0], str):
        return st.sampled_from(get_args(plain))
    inner = bare(get_args(plain)[0])
    words = get_args(inner) or (("arm", "eye") if inner is str else ())
    entries = st.sampled_from(words) if words else st.integers(1, 9)
    return st.lists(entries, min_size=1, max_size=3).map(tuple)


@st.composite
def configurations(draw) -> Config:
    c = configure(draw(st.sampled_from(list(algorithms.ALGORITHMS))))
    for name, kinds in (("bonus", BonusPart.kinds), ("switch", type(c.switch).kinds)):
        if draw(st.booleans()):
            c = config.with_part(c, name, draw(st.sampled_from(list(kinds.ours))))
    skip = ("algo", "env", "num_envs", "batch_size", "rollout", "switch_largest", "env_kwargs")
    skip += ("novelty_difference", "visit_bits")  # of bonuses on s′ alone; at most 28
    names = [leaf for leaf in leaves(c) if leaf.short not in skip]
    chosen = draw(st.lists(st.sampled_from(names), max_size=8, unique_by=lambda leaf: leaf.short))
    return with_options(c, {leaf.short: draw(values_for(leaf.option)) for leaf in chosen})


@given(configurations())
@settings(max_examples=150, deadline=None)
def test_any_configuration_comes_back_from_json(c):
    text = config.to_json(c)
    assert config.from_json(text, "here") == c
    assert flat(config.from_json(text, "here")) == flat(c)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.data(), JSON)
@settings(max_examples=200, deadline=None)
def test_a_file_with_anything_in_it_is_read_or_refused(data, junk):
    """Any place of a sound file may hold anything: the answer is an LPOError or a sound object."""
    values = config.to_dict(configure(data.draw(st.sampled_from(list(algorithms.ALGORITHMS)))))
    table, key = values, data.draw(st.sampled_from(list(values)))
    while isinstance(table[key], dict) and table[key] and data.draw(st.booleans()):
        table = table[key]
        key = data.draw(st.sampled_from(list(table)))
    table[key] = junk
    try:
        c = config.from_json(json.dumps(values), "junk.json")
    except LPOError as error:
        assert "junk.json" in str(error)
        assert "\n" not in str(error).replace(repr(junk), "")
    else:
        assert config.from_json(config.to_json(c), "again") == c


def test_a_file_with_a_removed_option_loads_where_it_did_nothing():
    values = config.to_dict(configure("lpo-s"))
    values["ppo"]["learning_rate_end"], values["switch"]["fading"] = 1.0, "time"
    assert config.from_dict(values, "here") == configure("lpo-s")
    values["ppo"]["learning_rate_end"] = 0.5
    with pytest.raises(LPOError, match=r"'learning_rate_end' was removed, and the file has 0\.5"):
        config.from_dict(values, "here")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "[" * 100_000,
        '{"steps": "many"}',
        '{"nonsense": 1}',
        '{"format": 4}',
        '{"format": 3, "weighing": {"kind": "none"}}',
        '{"format": 3, "bonus": {"kind": "none"}}',
        '{"format": 3, "bonus": {"kind": "rnd", "beta": 2.0}}',
        '{"format": []}',
        '{"format": 2, "bonus": {"kind": "os.system"}}',
        '{"format": 2, "bonus": "rnd"}',
        '{"format": 2, "ppo": {"clip": 0}}',
        '{"format": 2, "ppo": []}',
    ],
)
def test_a_bad_file_is_refused(text):
    with pytest.raises(LPOError, match=r"file.json.*[.?]$"):
        config.from_json(text, "file.json")


def test_another_row_keeps_what_was_set():
    c = config.as_row(configure("lpo", beta=3.0, batch_size=64, growth_iterations=9), "pcpg")
    assert (c.algo, c.bonus.kind, c.ppo.batch_size) == ("pcpg", "elliptic", 64)
    assert isinstance(c.bonus, Elliptic) and c.bonus.shape == "indicator"
    assert c.weighing == Fixed(beta=3.0)


def test_an_option_of_a_foreign_part_with_a_taken_name_gets_the_name_of_its_place():
    from typing import ClassVar

    from lpo.bonus import BonusOptions
    from lpo.options import Positive, options

    @options
    class Foreign(BonusOptions):
        kind: ClassVar[str] = "foreign"
        learning_rate: Positive = 3.0

    c = dataclasses.replace(configure("eniac"), bonus=Foreign())
    shorts = {leaf.short: leaf.value for leaf in leaves(c)}
    assert shorts["learning_rate"] == 1e-4 and shorts["bonus_learning_rate"] == 3.0
    c = with_options(c, {"bonus_learning_rate": 5.0})
    assert c.bonus == Foreign(learning_rate=5.0) and c.ppo.learning_rate == 1e-4


def test_every_option_has_a_help_text_and_a_name_of_its_own():
    parts = [BonusPart.kinds, type(configure().switch).kinds, type(configure().start).kinds]
    for kinds in parts:
        for cls in kinds.ours.values():
            assert all(option.help for option in fields_of(cls).values()), cls
    for name in algorithms.ALGORITHMS:
        shorts = [leaf.short for leaf in leaves(configure(name))]
        assert len(shorts) == len(set(shorts))


class Board(gymnasium.Env):
    """Observes a board of codes, or the same numbers as reals."""

    action_space = spaces.Discrete(2)

    def __init__(self, kind: str = "codes"):
        self.observation_space = {
            "codes": spaces.Dict({"board": spaces.MultiDiscrete(np.full((3, 3), 4))}),
            "integers": spaces.Box(0, 9, (3, 3), np.int8),
            "reals": spaces.Box(0.0, 9.0, (3, 3), np.float32),
            "one": spaces.Discrete(9),
            "pixels": spaces.Box(0, 255, (84, 84, 3), np.uint8),
            "mixed": spaces.Dict({"board": spaces.Box(0, 9, (3, 3), np.int8),
                                  "speed": spaces.Box(0.0, 1.0, (1,), np.float32)}),
        }[kind]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "grid"),
    [("codes", True), ("integers", True), ("reals", False), ("one", False), ("pixels", False),
     ("mixed", False)],
)  # fmt: skip
def test_the_default_sees_a_grid_of_codes(kind, grid):
    for source in (Board(kind), lambda: Board(kind)):
        assert observes_grid(source) == grid
    gymnasium.register("test/Board-v0", entry_point=f"{__name__}:Board", kwargs={"kind": kind})
    try:
        make._observes_grid.cache_clear()
        c = configure(env="test/Board-v0")
        assert isinstance(c.bonus.episode, FirstVisit) == grid  # type: ignore[attr-defined]
        assert (c.bonus.ends, c.task.num_envs) == (("neutral", 32) if grid else ("across", 8))  # type: ignore[attr-defined]
        rows = configure("lpo", env="test/Board-v0"), configure("ppo", env="test/Board-v0")
        assert all(row.task.num_envs == 8 for row in rows)  # rows of the paper see no difference
    finally:
        gymnasium.registry.pop("test/Board-v0")
        make._observes_grid.cache_clear()


def test_the_preset_of_grids_is_the_default_on_a_grid():
    c = configure(env="CartPole-v1", preset="grid", seed=3)
    assert c == configure(env="CartPole-v1", grids=True, seed=3)
    assert configure(env="CartPole-v1", preset="grid", bonus="none").ppo == c.ppo


def test_no_bonus_has_no_weight_and_any_other_has_one():
    without, again = configure(bonus="none"), configure("ppo", bonus="rnd", beta=3.0)
    assert (without.weighing, again.weighing) == (NoWeighing(), Fixed(beta=3.0))
    assert not {"weighing", "alpha", "beta"} & set(flat(without))
    for c, name in ((without, "beta"), (configure("ppo"), "weighing_memory")):
        with pytest.raises(LPOError, match=r"with bonus 'none'; leave it out, or choose bonus rnd"):
            with_options(c, {name: 0.5})
    with pytest.raises(LPOError, match="with bonus 'none'"):
        configure("ppo", weighing="sized")
    with pytest.raises(LPOError, match=r"none does not fit bonus rnd; leave it out, or pass bonus"):
        configure(weighing="none")
    with pytest.raises(LPOError, match=r"does not fit bonus none; without a bonus it is none\."):
        Config(bonus=NoBonus())
    with pytest.raises(LPOError) as error:
        configure(weighing="nonsense")
    assert "'none'" not in str(error.value)  # nobody chooses it


OF_FORMAT_2 = {  # what the bonus had then, and the same now
    "lpo": ({"kind": "fixed"}, "fixed"),
    "default": (
        {"kind": "sized-fading", "memory": 20000.0, "beta_earned": 0.002, "earned_share": 0.01,
         "earned_reward": 1.0, "earned_least": 0.5},
        "sized-fading",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ["lpo", "default", "ppo"])
def test_files_in_which_the_weights_were_options_of_the_bonus(row):
    c = configure(row) if row == "ppo" else configure(row, alpha=3.0, beta=0.5)
    values: dict[str, Any] = config.to_dict(c) | {"format": 2}
    del values["weighing"]
    if row != "ppo":
        rule, kind = OF_FORMAT_2[row]
        values["bonus"] |= {"alpha": 3.0, "beta": 0.5, "weighing": rule}
        assert flat(c)["weighing"] == kind
    assert config.from_dict(values, "here") == c == config.for_acting(values, "here")
    assert options_of(json.dumps(values), "here") == {**flat(c), **lists(c)}
    foreign = values | {"bonus": {"kind": "gone", "beta": 2.0}}
    assert config.for_acting(foreign, "here").weighing == NoWeighing()


def test_what_a_file_of_format_2_leaves_out_is_that_of_lpo():
    """It was so when these files were written, whatever a new run begins with."""
    short = {"format": 2, "algo": "lpo", "task": {"env": "CartPole-v1"}}
    c = config.from_dict(short, "here")
    assert c == configure("lpo", env="CartPole-v1")
    assert config.from_dict({"format": 2}, "here").network.value_gain == 1.0


def lists(c: Config) -> dict[str, Any]:
    """JSON has lists where options have tuples."""
    return {k: list(v) for k, v in flat(c).items() if isinstance(v, tuple)}


@pytest.mark.parametrize(("old", "new"), [(True, "ends"), (False, "across")])
def test_files_from_before_the_third_way_to_treat_an_end(old, new):
    c = configure("lpo", intrinsic_ends=new)
    values = config.to_dict(c)
    del values["bonus"]["ends"], values["bonus"]["episode"], values["bonus"]["difference"]
    values["bonus"]["episodic"] = old
    assert config.from_dict(values, "here") == c
