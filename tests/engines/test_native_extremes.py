"""Numbers far from one: where the native engine and the reference still agree, and what holds where they need not."""

from __future__ import annotations

import copy

import pytest
import torch

import sparsam

pytest.importorskip("sparsam._native")
SIZES = {"memory_size": 12, "word_size": 4, "num_heads": 2, "k": 3}


def both(model, x, memory=None):
    found = []
    for engine in ("native", "reference"):
        one = copy.deepcopy(model)
        one.engine = engine
        y, state = one(x, one.initial_state(x.shape[1], memory))
        found.append((y, state, torch.autograd.grad(y.square().sum(), one.parameters())))
    return found


@pytest.mark.parametrize("kind", ["sam", "sdnc"])
@pytest.mark.parametrize("dtype, far", [(torch.float64, 30.0), (torch.float32, 8.0)])
@pytest.mark.parametrize("delta", [0.0, 1e-320, 0.005])
def test_a_weight_that_vanishes_is_no_access(kind, dtype, far, delta):
    """e^-800 is 0, or the least number that one way of computing it gives: with delta = 0 it used to count."""
    torch.manual_seed(0)
    sizes = {"similarity": "euclidean", "delta": delta, **SIZES}
    model = sparsam.build(kind, input_size=3, output_size=2, hidden_size=6, **sizes).to(dtype)
    memory = far * torch.randn(12, 4, dtype=dtype)
    (y, ours, g), (expected, theirs, h) = both(model, torch.randn(25, 3, 3, dtype=dtype), memory)
    assert torch.equal(ours.read_rows, theirs.read_rows)
    last = theirs.memory.last_access
    for b in range(3):
        order = last[b].sort(stable=True).indices
        assert torch.equal(ours.memory.recency(b), order[last[b][order] > 0])
    close = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {}
    torch.testing.assert_close(y, expected, **close)
    if dtype == torch.float64:
        for one, other in zip(g, h):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("size", [1e30, 1e160, 1e-170, 1e-314])
def test_where_the_engines_need_not_agree_each_is_a_function_of_its_input(similarity, size):
    """Rounding or overflow decides which words are read there. Bits are the same each time, and other elements safe."""
    torch.manual_seed(0)
    model = sparsam.SparseMemory(3, 2, similarity=similarity, engine="native", **SIZES).double()
    x = torch.randn(20, 3, 3, dtype=torch.float64)
    large = x.clone()
    large[6:9, 1] *= size
    for engine in ("native", "reference"):
        model.engine = engine
        expected, (y, state), (again, _) = model(x)[0], model(large), model(large)
        assert torch.equal(y[:, [0, 2]], expected[:, [0, 2]])
        assert torch.equal(y.nan_to_num(), again.nan_to_num()) and torch.equal(y.isnan(), again.isnan())
        fresh = state.reset(torch.tensor([False, True, False]))
        torch.testing.assert_close(model(x, fresh)[0][:, 1], expected[:, 1])
