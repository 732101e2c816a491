"""The compiled core (csrc/bindings*.cpp). Its classes come in pairs, for float32 and float64."""

from typing import Any

def __getattr__(name: str) -> Any: ...
