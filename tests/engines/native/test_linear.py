"""The layer's linear maps in the core against torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import sparsam
from sparsam.engines.native import linear


def values(layer: nn.Linear, core: bool, a: torch.Tensor, b: torch.Tensor | None) -> list[torch.Tensor]:
    """Value and gradients by the core or by torch."""
    given = [value for value in (a, b) if value is not None]
    y = linear.linear(layer, a, b) if core else layer(torch.cat(given, -1))
    d_y = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y.detach(), *torch.autograd.grad(y, [*given, *layer.parameters()], d_y)]


def made(steps: int, batch: int, first: int, second: int, out: int, dtype: torch.dtype = torch.float64):
    torch.manual_seed(0)
    layer = nn.Linear(first + second, out, dtype=dtype)
    a, b = (torch.randn(steps, batch, n, dtype=dtype, requires_grad=True) for n in (first, second))
    return layer, a, b if second else None


SIZES = [(7, 3, 5, 4, 9), (1, 1, 1, 0, 1), (30, 5, 64, 33, 70), (3, 2, 130, 0, 268)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_equals_torch(sizes: tuple[int, ...]) -> None:
    layer, a, b = made(*sizes)
    for ours, theirs in zip(values(layer, True, a, b), values(layer, False, a, b)):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_neither_threads_nor_other_rows_change_a_bit(sizes: tuple[int, ...]) -> None:
    layer, a, b = made(*sizes, dtype=torch.float32)
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        try:
            found.append(values(layer, True, a, b))
        finally:
            torch.set_num_threads(before)
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))
    for t in range(len(a)):
        alone = linear.linear(layer, a[t : t + 1], None if b is None else b[t : t + 1])
        assert torch.equal(alone[0], found[0][0][t])


def test_only_what_is_wanted_gets_a_gradient() -> None:
    layer, a, b = made(4, 2, 3, 5, 6)
    layer.requires_grad_(False)
    (d_b,) = torch.autograd.grad(linear.linear(layer, a.detach(), b).sum(), [b])
    torch.testing.assert_close(d_b, layer.weight[:, 3:].sum(0).expand_as(b))


def test_what_the_core_cannot_run() -> None:
    layer, a, b = made(4, 2, 3, 5, 6)
    assert linear.why_not("output", layer, a, b) is None
    assert linear.why_not("output", layer, a, b.float()) == "its tensors differ in type"
    assert linear.why_not("output", layer, a[:0], b[:0]) == "there are no rows"
    assert linear.why_not("output", nn.Linear(8, 6, bias=False), a) == "output has no bias"
    assert linear.why_not("output", nn.Linear(1024, 512), a) == "output has 524,288 weights"
    assert linear.why_not("output", layer.half(), a.half()) == "output is torch.float16 on cpu"
    handle = layer.register_forward_hook(lambda *_: None)
    assert linear.why_not("output", layer, a) == "output has hooks"
    handle.remove()


@pytest.mark.parametrize("name", ["a", "b", "weight", "bias", "d_out"])
def test_arrays_of_another_shape_are_refused(name: str) -> None:
    from sparsam import _native

    given = {"a": (4, 3), "b": (4, 2), "weight": (6, 5), "bias": (6,), "d_out": (4, 6)}
    given[name] = (7, *given[name])
    arrays = {key: torch.zeros(shape).numpy() for key, shape in given.items()}
    backward = {key: arrays[key] for key in ("a", "b", "weight", "d_out")}
    with pytest.raises(ValueError, match=f"{name}: expected a contiguous NumPy array of float32"):
        if name == "d_out":
            _native.linear_backward32(**backward, needs_a=True, needs_b=True, needs_weight=True, threads=1)
        else:
            _native.linear32(**{key: arrays[key] for key in ("a", "b", "weight", "bias")}, threads=1)


def test_a_layer_runs_its_maps_in_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[nn.Linear] = []
    plain = linear.linear
    monkeypatch.setattr(linear, "linear", lambda layer, *inputs: seen.append(layer) or plain(layer, *inputs))
    layer = sparsam.SparseMemory(8, memory_size=40, word_size=4, num_heads=2, k=3)
    layer(torch.randn(5, 2, 8))
    assert seen == [layer.interface, layer.output]
