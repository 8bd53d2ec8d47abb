"""Every test runs in a folder of its own: MuJoCo logs Gymnasium's models into the current one."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
