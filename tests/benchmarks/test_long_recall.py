"""One long sequence of pairs, asked on its way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks import long_recall

WEIGHTS = Path(__file__).parents[2] / "weights" / "recall-curriculum-sam.safetensors"


@pytest.mark.parametrize(("index", "settings"), [("linear", {}), ("kdtree", {"checks": 256})])
def test_the_shipped_weights_answer_at_every_length(index: str, settings: dict[str, int]) -> None:
    rows = list(long_recall.measure(WEIGHTS, [600, 300], index=index, settings=settings, cues=16))
    assert [row["pairs"] for row in rows] == [300, 600]
    assert all(row["bits per cue"] < 1 and row["cues"] == 16 for row in rows)
    assert all(0 <= row["standard error"] < 1 for row in rows)


def test_questions_are_for_keys_that_occur_once() -> None:
    pairs = torch.zeros(6, 1, 9)
    for i, key in enumerate([3, 5, 3, 7, 1, 7]):
        pairs[i, 0, :4] = torch.tensor([key >> bit & 1 for bit in range(4)])
        pairs[i, 0, 4] = i % 2
    ask, want = long_recall.unique_cues(pairs, 4, 10)
    assert len(ask) == 2 and set(map(tuple, ask[:, 0, :4].tolist())) == {(1, 0, 1, 0), (1, 0, 0, 0)}
    assert (ask[:, 0, 8] == 1).all() and (ask[:, 0, 4:8] == 0).all()
    for question, value in zip(ask, want):
        (where,) = (pairs[:, 0, :4] == question[0, :4]).all(1).nonzero()[:, 0].tolist()
        assert torch.equal(value, pairs[where, :, 4:8])


def test_keys_of_more_bits_than_a_number_has() -> None:
    pairs = torch.zeros(3, 1, 2 * 96 + 1)
    pairs[1, 0, 95] = 1  # differs from the first in its last bit alone
    pairs[2, 0, 95] = 1
    ask, _ = long_recall.unique_cues(pairs, 96, 10)
    assert len(ask) == 1 and not ask[0, 0, :96].any()
