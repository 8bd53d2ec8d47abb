"""Every option is heeded or refused, on every side; there is no third case."""

from pathlib import Path
from typing import Any

import pytest

import lpo.cli
from lpo import Agent, LPOError
from lpo.cli.train import RunOptions, read_command
from lpo.config import Config, Leaf, choices_of, configure, flat, host_only, leaves, with_options
from lpo.options import fields_of
from lpo.runs.group import check_heeded
from tests.heeded import cells, configs, entries, held, live, live_on_device, page, pictures, spied

PAGE = Path(__file__).parents[1] / "docs" / "api" / "heeded.md"
OTHERS: dict[str, Any] = {  # another value than the default, where none can be guessed
    "env": "CartPole-v1", "threshold": "half", "env_kwargs": {"size": 6}, "backend": "native",
    "wrapper": "tests.envs.toys:Walk", "loggers": ("wandb",), "angles": (0,), "threads": 3,
    "bonus_keys": ("body",), "step_timeout": 2.5, "env_workers": 2, "algo": "ppo",
}  # fmt: skip
UNSET = {  # None by default
    "threshold", "env_kwargs", "threads", "wrapper", "step_timeout", "rollin_horizon",
    "switch_largest", "growth_steps", "growth_iterations",
}  # fmt: skip


def test_the_page_is_made_of_the_options():
    """`python -m tests.heeded > docs/api/heeded.md` makes it."""
    assert PAGE.read_text() == page()


@pytest.fixture(scope="module")
def lives():
    """Small runs that hold every part."""
    return list(configs())


def test_the_runs_hold_every_part(lives):
    missing = {entry.owner for entry in entries() if entry.owner} - {
        cls for c in lives for cls in held(c)
    }
    assert {cls.__name__ for cls in missing} == set()


@pytest.mark.slow
@pytest.mark.parametrize(("side", "life"), [("host", live), ("device", live_on_device)])
def test_what_the_table_says_is_heeded_is_read(side, life, lives, tmp_path, monkeypatch):
    read: set[Any] = set()
    refused: dict[type, str] = {}
    for i, c in enumerate([*lives, *(pictures() if side == "device" else ())]):
        before = set(read)
        with spied(read):
            try:
                life(c, tmp_path / str(i))
            except LPOError as error:  # a part that this side does not have
                refused |= {cls: str(error) for cls in held(c)}
        assert read >= before
    ignored = [
        f"{entry.owner.__name__}.{entry.field}"
        for entry in entries()
        if entry.owner is not None
        and cells(entry)[side] == "heeded"
        and (entry.owner, entry.field) not in read
    ]
    assert set(ignored) <= {"Config.algo"}, refused  # it names the row that the parts are of


def test_what_a_device_does_not_heed_is_refused_there():
    c = configure()
    for name, leaf in host_only(c).items():
        other = OTHERS[name] if name in OTHERS else leaf.option.default + 1
        with pytest.raises(LPOError, match=f"^{name} .* is for runs on the host"):
            check_heeded(with_options(c, {name: other}))
    check_heeded(c)


def test_python_and_the_command_take_every_option(lives):
    """The command has a flag for each, with the value that Python has."""
    taken = set()
    for c in lives:
        flags = chosen(c)
        base = read_command(flags).config
        assert flat(base).keys() == flat(c).keys()
        for leaf in leaves(base):
            if leaf.value is None or leaf.short in taken:
                continue
            taken.add(leaf.short)
            assert with_options(base, {leaf.short: leaf.value}) == base
            assert read_command([*flags, *written(leaf)]).config == base
    assert {entry.name for entry in entries() if entry.owner} - taken == UNSET


def written(leaf: Leaf) -> list[str]:
    """Returns an option as it is typed."""
    flag = leaf.short.replace("_", "-")
    if isinstance(leaf.value, bool):
        return [f"--{flag}" if leaf.value else f"--no-{flag}"]
    if leaf.short == "angles" and not leaf.value:
        return []
    many = isinstance(leaf.value, tuple)
    return [f"--{flag}", *(map(str, leaf.value) if many else [str(leaf.value)])]


def chosen(c: Config) -> list[str]:
    """Returns the flags that choose the parts of a configuration."""
    kinds = {name: places[0][1].kind for name, places in choices_of(c).items()}
    return ["--algo", c.algo, *(x for name, kind in kinds.items() for x in (f"--{name}", kind))]


def test_resume_refuses_what_it_does_not_heed(tmp_path, capsys):
    for entry in entries():
        if cells(entry)["resume"] == "refused":
            flag = "--" + entry.name.replace("_", "-")
            with pytest.raises(SystemExit) as ended:
                lpo.cli.main(["resume", str(tmp_path), flag, "1"])
            assert ended.value.code == 2
            assert "lpo: " in capsys.readouterr().err, flag


def test_the_options_of_the_command_itself():
    """`seeds` needs a device; Python has other words for two of them."""
    assert {e.name for e in entries() if e.owner is None} == set(fields_of(RunOptions))
    with pytest.raises(SystemExit):
        lpo.cli.main(["train", "--seeds", "2"])
    for name in ("quiet", "out"):
        options: dict[str, Any] = {name: True}
        with pytest.raises(LPOError):
            Agent("CartPole-v1", **options)
