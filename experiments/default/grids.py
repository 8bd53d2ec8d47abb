"""Grids as TOML, for the scripts that make many of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def grid_text(top: dict[str, Any], options: dict[str, Any], rows: dict[str, dict[str, Any]]) -> str:
    """Returns a grid with these rows as TOML."""
    lines = [f"{k} = {toml(v)}" for k, v in top.items()]
    lines += ["", "[overrides]", *(f"{k} = {toml(v)}" for k, v in options.items())]
    for label, changes in rows.items():
        lines += ["", f"[variants.{label}]", *(f"{k} = {toml(v)}" for k, v in changes.items())]
    return "\n".join(lines) + "\n"


def write_grids(out: Path, texts: dict[str, str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / f"{name}.toml").write_text(text)
