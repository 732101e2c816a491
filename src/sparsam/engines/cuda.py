"""The GPU engine's place: it says that it cannot run, so that nothing falls back in silence."""

from __future__ import annotations

from typing import Any


def why_not(model: Any) -> str | None:
    return "this version has no GPU kernels; engine='reference' runs on any device"
