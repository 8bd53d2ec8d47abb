"""Environments: the sparse tasks in Gymnasium's registry.

``register_envs`` runs when ``lpo.envs`` is imported, by a script or by Gymnasium itself on
``gymnasium.make("lpo.envs:lpo/SparseHopper-v0")``. It is also the package's ``gymnasium.envs``
entry point, which Gymnasium 1.0 and later do not load by themselves. For an unknown id,
``find_spec`` names the closest ones.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
import sys
import warnings
from functools import cache, reduce
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from lpo.envs import minigrid
from lpo.envs.shift import WRAPPERS
from lpo.envs.specs import CONTROL, LOCOMOTION, MOUNTAIN_CAR, TASKS
from lpo.envs.tabular import TABULAR
from lpo.errors import SPEAKS_FLAGS, LPOError, named

# Packages that register environments when they are imported, and our extras that install them.
EXTRAS = {
    "envpool": "envpool",
    "minigrid": "minigrid",
    "gymnasium_robotics": "robotics",
    "ale_py": "atari",
    "vizdoom.gymnasium_wrapper": "vizdoom",
}
HOMES = (  # of ids without their package
    (r"ALE/|\w+NoFrameskip-v4", "ale_py"),
    (r"Vizdoom", "vizdoom.gymnasium_wrapper"),
    (r"Adroit|AntMaze|Fetch|FrankaKitchen|Hand|PointMaze", "gymnasium_robotics"),
)


def register_envs() -> None:
    """Adds the sparse tasks to Gymnasium's registry; a second call changes nothing."""
    for task in LOCOMOTION.values():
        _register(task.id, "make_locomotion", task.horizon, {"task": task.id})
    _register(MOUNTAIN_CAR.id, "make_mountain_car", MOUNTAIN_CAR.horizon, {})
    for task in CONTROL.values():
        module, _, creator = task.creator.partition(":")
        _register(task.id, creator, task.horizon, {}, module)
    for row in TABULAR:
        _register(row["id"], row["creator"], None, {}, "tabular")


def _register(
    env_id: str, creator: str, horizon: int | None, kwargs: dict[str, Any], module: str = "sparse"
) -> None:
    if env_id not in gymnasium.registry:
        gymnasium.register(
            env_id,
            entry_point=f"lpo.envs.{module}:{creator}",
            max_episode_steps=horizon,
            kwargs=kwargs,
        )


NAMED: set[str] = set()  # packages and modules that the user has named in this process


@cache
def register_foreign() -> None:
    """Calls what installed packages name as an entry point of `lpo.envs`.

    Such a function registers environments with Gymnasium. One that fails is told by a warning: the
    environments of the other packages must still be found.
    """
    for entry in entry_points(group="lpo.envs"):
        try:
            entry.load()()
        except Exception as error:
            warnings.warn(
                f"The environments of {entry.value} cannot be registered "
                f"({type(error).__name__}: {error}); repair or uninstall its package.",
                stacklevel=2,
            )


def describe() -> list[dict[str, Any]]:
    """Returns one row per task of ours: id, base, horizon, presets and the reward in words."""
    rows = [task.describe() for task in TASKS.values()]
    return rows + [{"presets": {}, "horizon": None} | row for row in TABULAR]


def import_package(name: str) -> None:
    """Imports a package or a FILE.py that the user has named, alone or in an id
    ``package:Name-v0``. What it defines, such as a bonus, is then known by its kind.

    Nothing that was read from a file may come here.
    """
    package = name.partition(":")[0] if ":" in name else name
    if name.endswith(".py"):
        package = module_of(Path(name))
    try:
        importlib.import_module(package)
    except Exception as error:
        extra = EXTRAS.get(package)
        remedy = f"run `pip install 'lpo-rl[{extra}]'`" if extra else "install it"
        raise LPOError(
            f"The package {package!r} cannot be imported ({type(error).__name__}: {error}); "
            f"{remedy}, or add its folder to PYTHONPATH."
        ) from error
    NAMED.add(package)


def module_of(file: Path) -> str:
    """Returns the name by which a file of Python can be imported from here on."""
    if not file.is_file() or not file.stem.isidentifier():
        raise LPOError(
            f"There is no file {file} that can be imported; pass a file such as my_bonus.py."
        )
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()
    found = importlib.util.find_spec(file.stem)
    if found is None or found.origin is None or not file.samefile(found.origin):
        raise LPOError(f"Another module is called {file.stem!r} already; rename {file}.")
    return file.stem


def without_package(env_id: str) -> str:
    """Returns the id of ``package:Name-v0`` alone. Raises LPOError if nobody imported the package.

    Ids come from files too, and a file never decides what code is imported.
    """
    package, _, name = env_id.rpartition(":")
    if package and package not in sys.modules:
        remedy = f"add `--import {package}`" if SPEAKS_FLAGS.get() else f"`import {package}` first"
        raise LPOError(
            f"{env_id!r} is of the package {package!r}, and a file may not import code by itself; "
            f"if you trust the package, {remedy}."
        )
    return name


def wrapper_name(value: Any) -> Any:
    """Returns the name ``module:function`` of a function that the caller passed; a text as it is.

    Raises LPOError for a function that no module has by its name, since files tell of it in words.
    """
    if not callable(value):
        return value
    name = name_of(value)
    if name is None:
        raise LPOError(
            f"{named('wrapper')} is {value!r}, which no module has by its name; put it in a "
            "module, or pass as env a function that makes the wrapped environment."
        )
    NAMED.add(name.partition(":")[0])
    return name


def find_wrapper(text: str) -> Any:
    """Returns the function ``module:function``. Raises LPOError unless the user named its module.

    A module that is imported is not enough: a file could name any function of Python's own.
    """
    module, _, path = text.partition(":")
    if text in WRAPPERS:
        return WRAPPERS[text]
    if module not in NAMED:
        flags = SPEAKS_FLAGS.get()
        remedy = f"add `--import {module}`" if flags else f"lpo.envs.import_package({module!r})"
        raise LPOError(
            f"{named('wrapper')} {text!r} is of the module {module!r}, and a file may not run code "
            f"by itself; if you trust the module, {remedy}{'' if flags else ' first'}."
        )
    found: Any = sys.modules[module]
    for part in path.split("."):
        found = getattr(found, part, None)
        if isinstance(found, ModuleType):  # what the user's module imports is not the user's
            found = None
    if not callable(found):
        raise LPOError(
            f"{module} has no function {path!r} for {named('wrapper')}; pass module:function, as "
            "in my_envs:wrapped."
        )
    return found


def name_of(function: Any) -> str | None:
    """Returns ``module:name`` of what can be imported; None for what is in a script or a cell."""
    module, path = (getattr(function, part, None) for part in ("__module__", "__qualname__"))
    home = sys.modules.get(module or "")
    if home is None or module == "__main__" or not path:
        return None
    found = reduce(lambda part, name: getattr(part, name, None), path.split("."), home)
    return f"{module}:{path}" if found is function else None


def is_device_alone(env_id: str) -> bool:
    """Returns whether ``env_id`` has a device form and no Gymnasium form."""
    if env_id.startswith("envpool:"):
        return False
    register_envs()
    register_foreign()
    name = without_package(env_id)
    minigrid.register(name)
    if name in gymnasium.registry:
        return False
    from lpo.envs.device import has_device_form  # which imports this file

    return has_device_form(env_id)


def find_spec(env_id: str) -> EnvSpec:
    """Returns Gymnasium's specification of ``env_id``; raises with the closest ids.

    The package of ``package:Name-v0`` must have been imported.
    """
    register_envs()
    register_foreign()
    name = without_package(env_id)
    minigrid.register(name)
    try:
        return gymnasium.spec(name)
    except (gymnasium.error.Error, ValueError) as error:
        home = next((home for begins, home in HOMES if re.match(begins, name)), None)
        if home is not None and ":" not in env_id:
            raise LPOError(
                f"{env_id} is of the package {home}; write {home}:{env_id}, after "
                f"`pip install 'lpo-rl[{EXTRAS[home]}]'`."
            ) from None
        close = difflib.get_close_matches(env_id, sorted(gymnasium.registry), n=4, cutoff=0.5)
        remedy = f"Did you mean {' or '.join(close)}?" if close else "`lpo list` shows ours."
        raise LPOError(
            f"Unknown environment {env_id!r}. {remedy} For an environment of another package use "
            "'package:Name-v0'."
        ) from error
