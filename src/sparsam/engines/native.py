"""The native engine: C++ on the CPU."""

from __future__ import annotations

from typing import Any


def why_not(model: Any) -> str | None:
    return "not built yet"
