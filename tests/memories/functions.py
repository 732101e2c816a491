"""Functions of plain numbers for definitions in loops, which share no code with the package."""

from __future__ import annotations

import math

import numpy as np


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def softplus(z: float) -> float:
    return math.log1p(math.exp(z))


def softmax(z: list[float]) -> list[float]:
    powers = [math.exp(v - max(z)) for v in z]
    return [p / sum(powers) for p in powers]


def similarity(kind: str, q: np.ndarray, m: np.ndarray) -> float:
    if kind == "euclidean":
        return -float(((q - m) ** 2).sum())
    if kind == "dot":
        return float(q @ m)
    return float(q @ m) / (math.sqrt(q @ q) * math.sqrt(m @ m) + 1e-6)
