"""The docs site: Sphinx with furo and MyST; `sphinx-build -W --keep-going -q docs build/site`."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version as version_of
from typing import Any

from lpo import Agent
from lpo.options import fields_of, in_words

project = "lpo"
author = "the lpo authors"
project_copyright = author
release = version = version_of("lpo-rl")

extensions = ["myst_nb", "sphinx.ext.autodoc"]  # myst_nb reads Markdown and notebooks
root_doc = "index"
language = "en"

myst_heading_anchors = 3
nb_execution_mode = "off"  # a notebook is shown with the outputs it was saved with

autodoc_default_options = {"members": True, "undoc-members": True, "member-order": "bysource"}
autoclass_content = "both"
autodoc_typehints = "none"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "lpo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def plain_markup(line: str) -> str:
    """Docstrings are prose with `code`: nothing else in them is reStructuredText."""
    parts = re.split(r"(``.+?``|`.+?`)", line)
    for i, part in enumerate(parts):
        if part.startswith("`"):
            parts[i] = f"``{part.strip('`')}``"
        else:
            parts[i] = re.sub(r"([*|])|(_)(?=\W|$)", r"\\\1\2", part)
    return "".join(parts)


def parameters(lines: list[str]) -> list[str]:
    """Turns the section "Args:" of a docstring into parameters."""
    if "Args:" not in lines:
        return lines
    at = lines.index("Args:")
    named = [re.sub(r"^    (\w+): ", r":param \1: ", line) for line in lines[at + 1 :]]
    return [*lines[:at], *named]


def comment_of(name: str) -> str:
    """The comment beside a field of a NamedTuple: its only documentation."""
    owner, field = name.rsplit(".", 1)
    module, cls = owner.rsplit(".", 1)
    source = inspect.getsource(getattr(__import__(module, fromlist=[cls]), cls))
    found = re.search(rf"^\s+{field}\s*:[^#\n]*#\s*(.+)$", source, re.MULTILINE)
    return found[1] if found else ""


def is_options(obj: Any) -> bool:
    return isinstance(obj, type) and hasattr(obj, "__pydantic_fields__")


def options_table(cls: type) -> list[str]:
    """The options of a class as they stand in the help of the command line."""
    rows = [("field", "flag", "default", "what it is")]
    for option in fields_of(cls).values():
        kind, must = type(option.default), in_words(option.hint)
        flag, default = f"``--{option.short.replace('_', '-')}``", option.default
        text = option.help
        if is_options(kind):
            flag, default, must = "", kind.__name__, ""
            text = text or (inspect.getdoc(kind) or "").splitlines()[0]
        about = plain_markup(" ".join(text.split()))
        about += f" *{plain_markup(must[0].upper() + must[1:])}.*" if must else ""
        about += " Host only." if option.host_only else " An axis." if option.axis else ""
        rows.append((f"``{option.field}``", flag, f"``{default}``", about))
    lines = ["", ".. list-table::", "   :header-rows: 1", "   :widths: 17 24 14 45", ""]
    for row in rows:
        lines += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def process_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]):
    if lines and lines[0].startswith("Alias for field number"):
        lines[:] = [comment_of(name)]
    lines[:] = parameters(
        [plain_markup(line) for line in lines if not line.startswith("Create new instance of")]
    )
    if is_options(obj) and fields_of(obj):
        lines += options_table(obj)


def process_signature(app: Any, what: str, name: str, obj: Any, options: Any, sign: Any, back: Any):
    if is_options(obj):
        return "", None
    if isinstance(obj, type) and issubclass(obj, Agent) and obj is not Agent:
        return "(env, **options)", None
    return None


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-process-signature", process_signature)
