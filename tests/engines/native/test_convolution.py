"""The layer's convolution in the core against torch's own operations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import sparsam
from sparsam.engines.native import convolution


def both(layer: sparsam.SparseMemory, x: Tensor, window: Tensor) -> list[list[Tensor]]:
    """Value and gradients by torch and by the core."""
    found = []
    for native in (False, True):
        inputs = [t.detach().clone().requires_grad_() for t in (x, window)]
        layer.zero_grad()
        seen, after = layer.past_and_present(inputs[0], inputs[1], None, native)
        scale = torch.linspace(-1, 1, seen.numel(), dtype=x.dtype).view_as(seen)
        ((seen * scale).sum() + after.pow(2).sum()).backward()
        assert layer.conv is not None and layer.conv.bias is not None
        grads = [t.grad for t in (*inputs, layer.conv.weight, layer.conv.bias)]
        found.append([seen.detach(), after.detach(), *(g.clone() for g in grads if g is not None)])
    return found


@pytest.mark.parametrize("steps, batch, width, conv", [(7, 3, 5, 4), (3, 2, 70, 4), (40, 1, 130, 2), (9, 4, 16, 1)])
@pytest.mark.parametrize("threads", [1, 3])
def test_equals_torch(steps: int, batch: int, width: int, conv: int, threads: int) -> None:
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(width, memory_size=20, word_size=4, num_heads=1, k=2, conv=conv, dtype=torch.float64)
    x = torch.randn(steps, batch, width, dtype=torch.float64)
    window = torch.randn(batch, conv - 1, width, dtype=torch.float64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        plain, core = both(layer, x, window)
    finally:
        torch.set_num_threads(before)
    assert len(plain) == len(core)
    for a, b in zip(plain, core):
        torch.testing.assert_close(b, a)


def test_a_traced_convolution_gives_the_same_bits() -> None:
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(21, memory_size=20, word_size=4, num_heads=1, k=2)
    x, window = torch.randn(9, 3, 21), torch.randn(3, 3, 21)
    traced = torch.compile(lambda *given: layer.past_and_present(*given)[0], backend="eager", fullgraph=True)
    assert torch.equal(traced(x, window, None, True), layer.past_and_present(x, window, None, True)[0])


def test_threads_and_batch_first_change_no_bit() -> None:
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(33, memory_size=20, word_size=4, num_heads=1, k=2, engine="native")
    x = torch.randn(11, 3, 33)
    results = []
    for threads in (1, 2, 5):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            results.append(both(layer, x.transpose(0, 1).contiguous().transpose(0, 1), torch.randn(3, 3, 33) * 0)[1])
        finally:
            torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other))


def test_what_the_core_cannot_run() -> None:
    layer = sparsam.SparseMemory(5, memory_size=20, word_size=4, num_heads=1, k=2)
    assert layer.conv is not None
    x, window, taps, bias = torch.zeros(4, 2, 5), torch.zeros(2, 3, 5), layer.conv.weight[:, 0], layer.conv.bias
    assert convolution.why_not(window, x, taps, bias) is None
    assert convolution.why_not(window, x.half(), taps, bias) == "x is torch.float16 on cpu"
    assert convolution.why_not(window.double(), x, taps, bias) == "its tensors differ in type"
    assert convolution.why_not(window, x, taps, None) == "it has no bias"


@pytest.mark.parametrize("name", ["window", "x", "weight", "bias"])
def test_bad_arrays_are_named(name: str) -> None:
    good = {"window": (2, 3, 5), "x": (4, 2, 5), "weight": (5, 4), "bias": (5,)}
    arrays = {key: torch.zeros(shape) for key, shape in good.items()}
    arrays[name] = torch.zeros(*good[name], 1) if name == "x" else torch.zeros(*(n + 1 for n in good[name]))
    with pytest.raises(ValueError, match="expected"):
        sparsam._native.convolve32(*arrays.values(), 1)
