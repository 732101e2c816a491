"""Other people's libraries, without which these tests are skipped."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


def guest(name: str) -> Any:
    """The module, or a skip that says what to install."""
    package = name.split(".")[0].replace("_", "-")
    try:
        return importlib.import_module(name)
    except ImportError as missing:
        pytest.skip(f'{missing}: pip install {package}, or all of "sparsam[guests]"', allow_module_level=True)
