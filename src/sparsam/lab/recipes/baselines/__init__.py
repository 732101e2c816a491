"""Sequence mixers in plain torch that stand beside SAM in the recall tests, and the model that is built from them.

A mixer is a module `mixer(x (T, B, D), state=None) -> (y (T, B, D), state)`: what `SparseMemory` is as well. One call
over a whole sequence and several over its pieces, each with the state of the one before, give the same outputs.
"""

from __future__ import annotations

from sparsam.lab.recipes.baselines.model import MIXERS, TokenModel

__all__ = ["MIXERS", "TokenModel"]
