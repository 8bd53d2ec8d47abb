"""Which commit a benchmark measured."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """Of the checkout this file lies in, marked where it has changes; "unknown" outside one."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).resolve().parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "-s") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
