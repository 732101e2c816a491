"""The GPU engine."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from sparsam.engines.engine import Engine, Ran, register
from sparsam.memories.memory import Memory
from sparsam.state import State


class CudaEngine(Engine):
    name = "cuda"
    rank = 2

    def why_not(self, memory: Memory, like: Tensor, asked: bool) -> str | None:
        return "it is not there"

    def fresh(self, memory: Memory, batch: int, initial: Tensor | None, like: Tensor) -> dict[str, Any]:
        raise RuntimeError

    def steps(self, memory: Memory, vectors: Tensor, state: Any, ends: Tensor | None, record: bool) -> Ran:
        raise RuntimeError

    def convert(self, state: State) -> State:
        raise RuntimeError


register(CudaEngine())
