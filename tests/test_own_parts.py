"""A part of the user's own: in a notebook, in a file, as an object; what is wrong in it is said."""

import sys
import textwrap
from typing import Any, ClassVar

import jax.numpy as jnp
import pytest

from lpo import Agent, LPOError, Policy
from lpo.bonus import RND, Bonus, BonusOptions, BonusPart, Fixed
from lpo.bonus.weigh import NoState
from lpo.cli.main import main
from lpo.config import configure
from lpo.engine.learner import Space, compiled
from lpo.math.distributions import ActionSpec
from lpo.math.ppo import PPOOptions
from lpo.options import options
from lpo.types import vector

SMALL: dict[str, Any] = dict(
    num_envs=2, rollout=64, batch_size=16, epochs=1, hidden=[4], eval_every=0,
    env_kwargs={"size": 3},
)  # fmt: skip
SEA = "lpo/DeepSea-v0"


def size(rollout):
    return 1.0 * rollout.valid[None]


def made(score) -> Bonus:
    return Bonus(1, lambda key: NoState(), score, lambda state, rollout, key: (state, {}))


@options
class Bins(BonusOptions):
    """As large as `size` says when it is made."""

    kind: ClassVar[str] = "bins"

    def make(self, problem) -> Bonus:
        def score(state, rollout):
            b = size(rollout)
            return b, state, {"bonus/mean": b.mean()}

        return made(score)


def test_an_object_keeps_the_numbers_of_the_row_as_the_flag_does():
    assert configure("default", bonus=Bins()) == configure("default", bonus="bins")
    row: Any = configure("default").bonus
    own: Any = configure("default", bonus=Bins(lambda_int=0.5)).bonus
    assert (own.lambda_int, row.lambda_int) == (0.5, 0.95) and own.gamma_int == row.gamma_int
    c = configure("default", bonus=Bins(), weighing=Fixed(beta=3.0))
    assert c.weighing == Fixed(alpha=1.0, beta=3.0)
    assert configure("default", ppo=PPOOptions(clip=0.3)).ppo.kl_target == 0.02


def test_a_program_with_an_own_part_is_never_the_one_of_before():
    space = Space(vector(3), ActionSpec(nvec=(2,), scalar=True), 20)
    ours, own = configure("default"), configure("default", bonus=Bins())
    assert compiled(ours, space)[1] is compiled(ours, space)[1]
    assert compiled(own, space)[1] is not compiled(own, space)[1]


@pytest.mark.slow
def test_an_edited_function_is_compiled_anew(monkeypatch):
    """As in a notebook, where the cell of the class is not run again."""
    first = Agent(SEA, bonus=Bins(), **SMALL).learn(64).metrics[-1]["bonus/mean"]
    monkeypatch.setitem(globals(), "size", lambda rollout: 3.0 * rollout.valid[None])
    assert Agent(SEA, bonus=Bins(), **SMALL).learn(64).metrics[-1]["bonus/mean"] == 3 * first


@pytest.fixture(scope="module")
def agent():
    return Agent(SEA, bonus=Bins(lambda_int=0.5), **SMALL).learn(64)


def test_an_agent_with_an_own_part_loads_where_the_part_is_defined(agent, tmp_path):
    agent.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").config == agent.config


def test_acting_needs_no_bonus(agent, tmp_path, monkeypatch):
    agent.save(tmp_path / "agent")
    monkeypatch.delitem(BonusPart.kinds.defined, "bins")
    policy = Policy.load(tmp_path / "agent")
    observation = policy.codec.raw_observation_space.sample()
    action = policy.predict(observation, deterministic=True)[0]
    assert action == agent.predict(observation, deterministic=True)[0]
    policy.save(tmp_path / "policy")  # which still says what it was trained with
    assert Policy.load(tmp_path / "policy").record()["config"]["bonus"]["kind"] == "bins"
    with pytest.raises(LPOError, match=r"No bonus is called 'bins'; .*import the file that has it"):
        Agent.load(tmp_path / "agent")


def test_kinds_of_lpo_cannot_be_taken_and_a_part_has_one():
    with pytest.raises(LPOError, match="has the kind 'rnd', which is a bonus of lpo"):

        @options
        class Mine(BonusOptions):
            kind: ClassVar[str] = "rnd"

    @options
    class Nameless(RND):
        """It would be saved as RND."""

    with pytest.raises(LPOError, match=r"Nameless has no kind, .*`kind: ClassVar\[str\]"):
        configure("default", bonus=Nameless())


def wrong(found) -> type[BonusOptions]:
    @options
    class Wrong(BonusOptions):
        kind: ClassVar[str] = "wrong"

        def make(self, problem) -> Bonus:
            return made(lambda state, rollout: found(state, rollout))

    return Wrong


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (lambda state, r: (1.0 * r.valid, state, {}), r"shape \(32, 2\); return \(1, 32, 2\)"),
        (lambda state, r: (jnp.zeros(()), state, {}), r"shape \(\); return \(1, 32, 2\)"),
        (lambda state, r: r.valid[None], "must return three things"),
        (lambda state, r: (r.valid[None] * jnp.nan, state, {}), "The bonus 'wrong' is NaN or inf"),
    ],
)
def test_a_wrong_score_is_said_to_be_the_bonus_s(found, words):
    with pytest.raises(LPOError, match=words):
        Agent(SEA, bonus=wrong(found)(), **SMALL).learn(64)


FILE = '''
from typing import ClassVar
from lpo.bonus import Bonus, BonusOptions, none
from lpo.bonus.base import one
from lpo.options import options

@options
class Ones(BonusOptions):
    """One for every step."""

    kind: ClassVar[str] = "ones-of-a-file"

    def make(self, problem) -> Bonus:
        return one()
'''


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "ones_of_a_file.py"
    path.write_text(textwrap.dedent(FILE))
    yield path
    sys.modules.pop("ones_of_a_file", None)
    BonusPart.kinds.defined.pop("ones-of-a-file", None)


def test_one_file_and_one_flag_make_a_bonus(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = "--env lpo/DeepSea-v0 --num-envs 2 --rollout 64 --batch-size 16 --hidden 4 --steps 64"
    command = ["train", *flags.split(), "--bonus", "ones-of-a-file", "--out", "run", "--quiet"]
    with pytest.raises(SystemExit):
        main(command)
    assert "add --import FILE.py" in capsys.readouterr().err
    main([*command, "--import", file.name])
    BonusPart.kinds.defined.pop("ones-of-a-file")
    sys.modules.pop("ones_of_a_file")
    main(["eval", "run", "--episodes", "2"])  # acting needs no bonus
    main(["resume", "run", "--steps", "128", "--quiet"])  # and the file is remembered
    assert Agent.load("run", checkpoint="last").env_steps == 128


def test_a_file_that_cannot_be_imported_is_named(file, tmp_path, capsys):
    (tmp_path / "json.py").write_text("")
    (tmp_path / "my-bonus.py").write_text("")
    for name, words in [
        ("nowhere.py", "There is no file"),
        ("my-bonus.py", "There is no file"),
        ("json.py", "Another module is called 'json' already; rename"),
    ]:
        with pytest.raises(SystemExit):
            main(["list", "--import", str(tmp_path / name)])
        assert words in capsys.readouterr().err
