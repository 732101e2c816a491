"""torch's default device says where new tensors of the user's are made; a model on the CPU runs there all the same."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

import sparsam

MODELS = [("lstm", "auto"), ("ntm", "auto"), ("dam", "auto"), ("dnc", "auto"), ("sam", "reference"), ("sam", "native"),
          ("sdnc", "reference"), ("sdnc", "native"), ("layer", "reference"), ("layer", "native")]  # fmt: skip


def model_of(name: str, engine: str) -> Any:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"input_size": 3, "output_size": 2, "engine": engine}
    if name != "lstm":
        sizes |= {"memory_size": 9, "word_size": 4, "num_heads": 2}
    return sparsam.SparseMemory(**sizes) if name == "layer" else sparsam.build(name, **sizes)


def worked(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """Calls, states and gradients of every kind, by their numbers."""
    y, state = model(x)
    first, _ = model(x, state, lengths=[5, 2])
    again = state.reset(torch.tensor([True, False], device="cpu"))
    second, state = model(x, again, resets=torch.zeros(5, 2, dtype=torch.bool, device="cpu"))
    state = sparsam.cat([state[0], state[1:]]).expand(2).detach().clone().to(torch.float64).to(torch.float32)
    if getattr(model, "name", "layer") in ("sam", "sdnc"):
        state = state.to(engine="reference").to(engine=model.engine)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    third, state = model(x.repeat(1, 2, 1), torch.load(buffer))
    found = [y, first, second, third]
    if model.memory is not None:
        found += [*state.memory_rows(0), model.trace(x).weight]
        initial = torch.ones(9, 4, device="cpu", requires_grad=True)
        model(x, model.initial_state(2, initial))[0].sum().backward()
    model.zero_grad()
    sum(each.sum() for each in (y, first, second, third)).backward()
    return found + [parameter.grad.clone() for parameter in model.parameters()]


def as_default(work: Callable[[], Any]) -> Any:
    torch.set_default_device("meta")
    try:
        return work()
    finally:
        torch.set_default_device(None)


def in_a_context(work: Callable[[], Any]) -> Any:
    with torch.device("meta"):
        return work()


@pytest.mark.parametrize("elsewhere", [as_default, in_a_context])
@pytest.mark.parametrize(("name", "engine"), MODELS)
def test_another_default_device_changes_nothing(name, engine, elsewhere):
    model, x = model_of(name, engine), torch.randn(5, 2, 3)
    expected = worked(model, x)
    found = elsewhere(lambda: worked(model, x))
    assert len(found) == len(expected)
    assert all(torch.equal(a, b) for a, b in zip(expected, found))
