"""The theory room stands alone: nothing deep is imported, nothing outgrows a screen."""

import ast
import subprocess
import sys
from pathlib import Path

import lpo.theory

ROOM = Path(lpo.theory.__file__).parent


def test_nothing_deep_is_imported():
    check = (
        "import sys, lpo.theory.cli; "
        "deep = {'jax', 'optax', 'gymnasium', 'mujoco', 'torch', 'matplotlib'} & set(sys.modules); "
        "ours = {m for m in sys.modules if m.startswith('lpo.') "
        "and not m.startswith(('lpo.theory', 'lpo.errors'))}; "
        "sys.exit(f'{deep} {ours}' if deep or ours else 0)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_functions_fit_a_screen_and_files_have_one_subject():
    for path in ROOM.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) < 500, path
        tree = ast.parse(text)
        assert ast.get_docstring(tree), f"{path} has no module docstring"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 70, f"{path}:{node.name}"
