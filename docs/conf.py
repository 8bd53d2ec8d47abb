"""The docs site: Sphinx with furo and MyST; `sphinx-build -W --keep-going -q docs build/site`."""

from __future__ import annotations

import inspect
import re
from importlib.metadata import version as version_of
from typing import Any

project = "lpo"
author = "the lpo authors"
project_copyright = author
release = version = version_of("lpo-rl")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
exclude_patterns = ["_build"]
language = "en"

myst_heading_anchors = 3
myst_links_external_new_tab = False

autodoc_default_options = {"members": True, "undoc-members": True, "member-order": "bysource"}
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "lpo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False


def plain_markup(lines: list[str]) -> None:
    """Docstrings are prose with `code`: nothing else in them is reStructuredText."""
    for i, line in enumerate(lines):
        parts = re.split(r"(``.+?``|`.+?`)", line)
        for j, part in enumerate(parts):
            if part.startswith("`"):
                parts[j] = f"``{part.strip('`')}``"
            else:
                parts[j] = re.sub(r"([*|])|(_)(?=\W|$)", r"\\\1\2", part)
        lines[i] = "".join(parts)


def comment_of(field: str, source: str) -> str:
    """The comment beside a field of a NamedTuple: its only documentation."""
    found = re.search(rf"^\s+{field}\s*:[^#\n]*#\s*(.+)$", source, re.MULTILINE)
    return found[1] if found else ""


def process_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]):
    if lines and lines[0].startswith("Alias for field number"):
        owner, field = name.rsplit(".", 1)
        module, cls = owner.rsplit(".", 1)
        source = inspect.getsource(getattr(__import__(module, fromlist=[cls]), cls))
        lines[:] = [comment_of(field, source)]
    plain_markup(lines)


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", process_docstring)
