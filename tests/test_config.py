"""Configurations: round trips, and refusals that say what to do."""

import dataclasses

import pytest

from lpo import algorithms, config
from lpo.config import Config
from lpo.errors import LPOError
from lpo.math import distributions


def test_json_round_trip():
    c = Config(hidden=(3, 4), threshold="hard", growth_iterations=5, seed=7)
    assert config.from_json(config.to_json(c), "here") == c


def test_the_papers_table():
    """App. G, and the batch size that goes with each body."""
    c = config.preset("paper", "lpo/SparseHopper-v0")
    table = (c.rollout, c.gae_lambda, c.gamma_int, c.gamma_ext, c.alpha, c.beta, c.epochs)
    assert table == (2048, 0.95, 0.999, 0.99, 2, 1, 10)
    assert c.learning_rate == 1e-4
    for env, size in (("Hopper", 32), ("Walker2d", 16), ("HalfCheetah", 16)):
        assert config.preset("paper", f"lpo/Sparse{env}-v0").batch_size == size


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"steps": 0}, "--steps"),
        ({"gamma_ext": 1.5}, "between 0 and 1"),
        ({"learning_rate": float("nan")}, "finite"),
        ({"num_envs": 5000}, "lower --num-envs"),
        ({"batch_size": 4096}, "lower --batch-size"),
        ({"batch_size": 1}, "2 or more"),
        ({"hidden": ()}, "layer sizes"),
        ({"growth_iterations": 0}, "1 or more"),
        ({"seed": 2**32}, "below"),
        ({"switch_tau": 0.0}, "--switch-tau"),
        ({"switch_memory": -1}, "0 or more"),
        ({"switch_largest": 1000}, "raise --switch-largest"),
        ({"num_features": 33}, "even"),
        ({"features": "network", "feature_bandwidth": 2.0}, "--features fourier"),
        ({"features": "product", "num_features": 512}, "--num-features has no effect"),
        ({"bonus_shape": "lpo", "gamma_ext": 1.0}, "--bonus-shape raw"),
        ({"first_uniform": 1.5}, "between 0 and 1"),
        ({"cover_size": 0}, "greater than 0"),
        ({"rollin_horizon": 0}, "1 or more"),
        ({"env_kwargs": "{"}, "not JSON"),
        ({"env_kwargs": "[1]"}, "JSON object"),
    ],
)
def test_impossible_values_are_refused(overrides, words):
    with pytest.raises(LPOError, match=words):
        config.validate(dataclasses.replace(Config(), **overrides))


@pytest.mark.parametrize(
    ("algo", "overrides"),
    [
        ("ppo", {"beta": 2.0}),
        ("ppo", {"predictor_passes": 3}),
        ("eniac", {"growth_iterations": 7}),
        ("lpo", {"switch_tau": 0.5}),
        ("lpo", {"num_features": 64}),
        ("lpo", {"bonus_shape": "indicator"}),
        ("lpo-s", {"growth_iterations": 7}),
        ("lpo-s", {"rollin_share": 1.0}),
        ("lpo-s", {"bonus": "none", "beta": 2.0}),
        ("pcpg", {"predictor_passes": 2}),
        ("pcpg", {"start": "reset", "cover_size": 4}),
        ("eniac-original", {"predictor_features": 32}),
        ("eniac-original", {"bonus_epsilon": 2.0}),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(algo, overrides):
    with pytest.raises(LPOError, match="has no effect"):
        algorithms.refuse_idle_options(Config(algo=algo, **overrides))


def test_any_part_can_be_put_into_any_row():
    """The ablations: roll-in on and off, inputs, bonus and switch, each with its own options."""
    c = Config(algo="lpo", start="cover", cover_size=4, bonus_inputs="next")
    algorithms.refuse_idle_options(c)
    row = algorithms.get(c)
    assert (row.bonus, row.switch, row.start, row.inputs) == ("rnd", "growth", "cover", "next")
    c = Config(algo="pcpg", start="reset", switch="sensitivity", switch_tau=0.5)
    algorithms.refuse_idle_options(c)
    row = algorithms.get(c)
    assert (row.bonus, row.switch, row.start) == ("elliptic", "sensitivity", "reset")
    c = Config(algo="eniac", bonus="width", bonus_shape="indicator")
    algorithms.refuse_idle_options(c)
    row = algorithms.get(c)
    assert (row.bonus, row.switch, row.start) == ("width", "every", "reset")


def test_features_that_move_are_refused_for_a_lifelong_bonus():
    dist = distributions.make(distributions.ActionSpec(nvec=(2,)))
    with pytest.raises(LPOError, match="choose fourier, network or product"):
        algorithms.make(Config(algo="pcpg", features="critic"), algorithms.Problem(3, dist))


def test_misspelt_names_are_answered_with_the_nearest():
    with pytest.raises(LPOError, match="did you mean 'lpo'"):
        algorithms.get(Config(algo="lp0"))
    with pytest.raises(LPOError, match="did you mean 'batch_size'"):
        config.with_overrides(Config(), {"batchsize": 3})


@pytest.mark.parametrize("text", ["", "[]", '{"steps": "many"}', '{"nonsense": 1}'])
def test_a_bad_file_is_refused(text):
    with pytest.raises(LPOError):
        config.from_json(text, "file.json")
