"""Shared by all tests: small models, and the fixture that runs the contract on every engine that can run a model."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

import sparsam
from sparsam import engines
from sparsam.models import MODELS, MemoryModel

# No test depends on how busy the machine is.
hypothesis.settings.register_profile("sparsam", deadline=None)
hypothesis.settings.load_profile("sparsam")

# Real data, where the repository's surroundings have it; tests of it are skipped where they do not.
_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
if _DATA.is_dir():
    os.environ.setdefault("SPARSAM_DATA", str(_DATA))

# The tests that take longest, each of them or one of them.
LONGEST = ("cuda/test_engine.py", "training/test_faults.py", "docs/test_site.py", "packaging/test_wheel.py")

SMALL: dict[str, Any] = {"input_size": 3, "output_size": 2, "hidden_size": 4}
MEMORY: dict[str, Any] = {"memory_size": 9, "word_size": 4, "num_heads": 2}
SPARSE: dict[str, Any] = {"k": 3}


@dataclass(frozen=True)
class Case:
    """A model and an engine that can run it."""

    name: str
    engine: str

    @property
    def has_memory(self) -> bool:
        return self.name != "lstm"

    def make(self, **changes: Any) -> MemoryModel:
        """A small float64 model of this kind, the same one every time."""
        return small_model(self.name, engine=self.engine, **changes)


def small_model(name: str, engine: str = "reference", **changes: Any) -> MemoryModel:
    settings = {**SMALL, "engine": engine}
    if name != "lstm":
        settings.update(MEMORY)
    if name in ("sam", "sdnc"):
        settings.update(SPARSE)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return sparsam.build(name, **{**settings, **changes}).double()


def runnable() -> list[Case]:
    cases = [Case(name, engine) for name in MODELS for engine in engines.ENGINES]
    return [case for case in cases if engines.why_not(case.engine, case.make()) is None]


CASES = runnable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no process of `-n` begins with one when the others are about to end."""
    items.sort(key=lambda item: [not item.nodeid.partition("::")[0].endswith(file) for file in LONGEST])


@pytest.fixture(params=CASES, ids=lambda case: f"{case.name}-{case.engine}")
def case(request: pytest.FixtureRequest) -> Case:
    """Each model on each engine that can run it here."""
    return request.param


@pytest.fixture(params=[case for case in CASES if case.has_memory], ids=lambda case: f"{case.name}-{case.engine}")
def memory_case(request: pytest.FixtureRequest) -> Case:
    """As `case`, the models with a memory."""
    return request.param


@pytest.fixture(
    params=[case for case in CASES if case.name in ("sam", "sdnc")], ids=lambda case: f"{case.name}-{case.engine}"
)
def sparse_case(request: pytest.FixtureRequest) -> Case:
    """As `case`, the models that read K rows."""
    return request.param


@pytest.fixture(params=sorted({case.engine for case in CASES if case.name == "sam"}))
def engine(request: pytest.FixtureRequest) -> str:
    """The engines that run SAM here."""
    return request.param


@pytest.fixture
def make():
    """`make("sam", k=2)`: a small float64 model of the reference engine."""
    return small_model


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
