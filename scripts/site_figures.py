"""A hook of mkdocs: figures and reports that lie beside their data in experiments/ join the site.

Pages link to them as the repository does (``../experiments/…``); in the site that folder lies
within the pages' own, so one step up is left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SHOWN = {".png", ".svg", ".html", ".webp"}
PAGES = {"README.md"}


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    root = Path(config.config_file_path).parent
    for path in sorted(root.glob("experiments/**/*")):
        if path.suffix in SHOWN or path.name in PAGES:
            name = path.relative_to(root).as_posix()
            files.append(File(name, str(root), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    for up in ("../../", "../"):
        markdown = markdown.replace(f"]({up}experiments/", f"]({up[3:]}experiments/")
    return markdown
