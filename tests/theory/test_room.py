"""The theory room stands alone: nothing deep is imported, nothing outgrows a screen."""

import ast
import sys
from pathlib import Path

import lpo.theory

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
            ours = name in ("lpo.errors", "lpo.finite") or name.split(".")[:2] == ["lpo", "theory"]
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
