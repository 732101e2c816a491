"""The trained weights in weights/ reach the numbers that docs/notebook/algorithmic_tasks.md gives for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparsam.lab.data.locate import MissingData
from sparsam.lab.training.evaluate import evaluate
from sparsam.lab.training.seeds import MinibatchSeeds
from sparsam.lab.training.trained import load_model

pytest.importorskip("safetensors", reason="weights are read with the lab extra")

WEIGHTS = Path(__file__).parents[3] / "weights"


@pytest.mark.parametrize(
    ("name", "size", "stated", "tolerance"),
    [
        ("copy-sam", None, 0.002, 0.05),
        ("copy-sdnc", 200, 0.0, 0.01),
        ("recall-sam", None, 0.0, 0.05),
        ("recall-sam", 120, 0.10, 0.25),
        ("sort-sam", 20, 0.38, 0.2),
        ("recall-curriculum-sam", 1_000, 0.0, 0.1),
        ("recall-near-sam", 1_000, 0.0, 0.1),
        ("recall-curriculum-sam-ann", 1_000, 0.03, 0.15),
    ],
)
def test_reach_their_number(name: str, size: int | None, stated: float, tolerance: float) -> None:
    model, task, _ = load_model(WEIGHTS / f"{name}.safetensors")
    errors = evaluate(model, task, MinibatchSeeds(100), 16, 32 if size is None else 4, size=size)
    assert errors["bits_per_sequence"] == pytest.approx(stated, abs=tolerance)


def test_are_small() -> None:
    """Those with a convolutional encoder are larger, and not in the wheel."""
    for file in WEIGHTS.glob("*.safetensors"):
        assert file.stat().st_size < (1_200_000 if file.stem == "omniglot-sam" else 600_000), file.name


@pytest.mark.parametrize(
    ("name", "batch_size", "stated", "tolerance"),
    [("babi-sdnc", 64, 0.0017, 0.001), ("babi-sam", 64, 0.0008, 0.001)],
)
def test_reach_their_number_on_real_data(name: str, batch_size: int, stated: float, tolerance: float) -> None:
    """On validation stories; the test parts are in docs/notebook/babi_and_omniglot.md."""
    try:
        model, task, _ = load_model(WEIGHTS / f"{name}.safetensors")
    except MissingData:
        pytest.skip("the download is not on this machine (set SPARSAM_DATA)")
    errors = evaluate(model, task, MinibatchSeeds(0), None, batch_size, split="validation")
    assert errors["error_rate"] == pytest.approx(stated, abs=tolerance)


def test_reach_their_number_on_characters_of_the_validation() -> None:
    """25 characters, 4 episodes of the validation part; the test part is in docs/notebook/babi_and_omniglot.md."""
    try:
        model, task, _ = load_model(WEIGHTS / "omniglot-sam.safetensors")
    except MissingData:
        pytest.skip("the download is not on this machine (set SPARSAM_DATA)")
    errors = evaluate(model, task, MinibatchSeeds(0), 1, 4, size=25, split="validation")
    assert errors["error_rate"] == pytest.approx(0.115, abs=0.02)
