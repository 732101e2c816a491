"""A state of a model that was made otherwise is refused by every engine, never taken in part."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sparsam

SIZES = dict(input_size=3, memory_size=20, word_size=4, num_heads=2, k=3)
PAIRS = {
    "lstm to gru": (sparsam.SAM, {}, {"controller": "gru"}, "no cell"),
    "lstm to feedforward": (sparsam.SAM, {}, {"controller": "feedforward"}, "no hidden"),
    "gru to lstm": (sparsam.SAM, {"controller": "gru"}, {}, "cell"),
    "own to feedforward": (sparsam.SAM, {"controller": "own"}, {"controller": "feedforward"}, "no controller"),
    "feedforward to own": (sparsam.SAM, {"controller": "feedforward"}, {"controller": "own"}, "controller"),
    "links to none": (sparsam.SparseMemory, {"links": 4}, {}, "no links"),
    "none to links": (sparsam.SparseMemory, {}, {"links": 4}, "links"),
    "fewer links": (sparsam.SDNC, {"k_links": 8}, {"k_links": 4}, "K_L = 4"),
    "more links": (sparsam.SDNC, {"k_links": 4}, {"k_links": 8}, "K_L = 8"),
    "free to ring": (sparsam.SDNC, {"allocation": "free"}, {}, "ring"),
    "ring to free": (sparsam.SDNC, {}, {"allocation": "free"}, "free"),
}


class Own(nn.Module):
    output_size = 5

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3 + 8, 5)

    def initial_state(self, batch_size):
        return {"sum": torch.zeros(batch_size, 5)}

    def forward(self, x, state):
        hidden = torch.tanh(self.layer(x)) + state["sum"]
        return hidden, {"sum": hidden}


def made(kind, engine, settings):
    if settings.get("controller") == "own":
        settings = {**settings, "controller": Own()}
    given = {**SIZES, **settings, "engine": engine}
    return kind(**given) if kind is sparsam.SparseMemory else kind(**given, output_size=2, hidden_size=5)


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("case", PAIRS)
def test_a_state_of_other_settings_is_refused(case, engine):
    kind, theirs, ours, named = PAIRS[case]
    x = torch.randn(4, 2, 3)
    state = made(kind, engine, theirs)(x)[1]
    with pytest.raises((TypeError, ValueError), match=f"state: expected .*{named}"):
        made(kind, engine, ours)(x, state)
