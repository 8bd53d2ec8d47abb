"""Imports point one way: a room may use those above it in the list, never those below."""

import ast
import sys
from pathlib import Path

import lpo.theory

SOURCE = Path(__file__).parents[1] / "src" / "lpo"
ROOMS = [
    "errors", "elsewhere", "files", "platform", "types", "finite", "options", "theory", "math",
    "network", "problem", "bonus", "switch", "start", "envs", "algorithms", "config", "engine",
    "runs", "policy", "agents", "agent", "explorer", "sb3", "render", "export", "report", "card",
    "sweep", "cli",
]  # fmt: skip


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lpo"):
            parts = node.module.split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("lpo.")}
    return names & set(ROOMS)


def test_imports_point_one_way():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ROOMS:
            later = ROOMS[ROOMS.index(room) + 1 :]
            wrong += [f"{path.name} imports {name}" for name in imported(path) & set(later)]
    assert wrong == []


def test_every_room_is_in_the_list():
    rooms = {p.relative_to(SOURCE).parts[0].removesuffix(".py") for p in SOURCE.rglob("*.py")}
    assert rooms - set(ROOMS) <= {"__init__"}


def test_nothing_unpickles():
    for path in SOURCE.rglob("*.py"):
        assert "pickle" not in imported_modules(path), path


def imported_modules(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    plain = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    return plain | {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}


def test_the_theory_imports_nothing_of_the_rest():
    for path in (SOURCE / "theory").rglob("*.py"):
        assert imported(path) <= {"errors", "finite", "options", "theory"}, path
        assert not {m for m in imported_modules(path) if m.split(".")[0] in ("jax", "optax")}, path


def test_reports_read_directories_only():
    for path in (SOURCE / "report").rglob("*.py"):
        assert not imported(path) & {"engine", "agent", "math"}, path


# -- The theory room stands alone: nothing deep is imported, nothing outgrows a screen

ROOM = Path(lpo.theory.__file__).parent


ALLOWED = {"numpy", "numba"} | set(sys.stdlib_module_names)


def imports(path: Path) -> set[str]:
    tree = ast.walk(ast.parse(path.read_text()))
    found = set()
    for node in tree:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_nothing_deep_is_imported():
    for path in ROOM.rglob("*.py"):
        for name in imports(path):
            ours = name in ("lpo.errors", "lpo.finite", "lpo.options") or name.split(".")[:2] == [
                "lpo",
                "theory",
            ]
            assert ours or name.split(".")[0] in ALLOWED, f"{path.name} imports {name}"


def test_functions_fit_a_screen_and_files_have_one_subject():
    for path in ROOM.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) < 500, path
        tree = ast.parse(text)
        assert ast.get_docstring(tree), f"{path} has no module docstring"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 70, f"{path}:{node.name}"
