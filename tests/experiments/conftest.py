"""The layer that the recall tests are about; a stand-in where this build does not have it."""

from __future__ import annotations

import pytest

import sparsam


@pytest.fixture(autouse=True)
def layer(monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(sparsam, "SparseMemory"):
        from tests.experiments.stand_in import StandIn

        monkeypatch.setattr(sparsam, "SparseMemory", StandIn, raising=False)
