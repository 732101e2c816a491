"""What the dense memories share: the step that `torch.compile` makes of theirs."""

from __future__ import annotations

import copy

import pytest
import torch

from sparsam.memories import dense


@pytest.mark.parametrize("name", ["ntm", "dam", "dnc"])
def test_the_compiled_step_is_the_same_step(make, monkeypatch, name):
    """Traced as `torch.compile` does, without the minute that generating code takes."""
    monkeypatch.setattr(dense, "compiled_step", lambda kind: torch.compile(kind.plain_step, backend="aot_eager"))
    x = torch.randn(2, 2, 3, dtype=torch.float64)
    plain, fast = make(name), make(name, compile_step=True)
    results = []
    for model in (plain, copy.deepcopy(fast)):
        y, _ = model(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), list(model.parameters()))])
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs)


def test_a_step_that_is_not_compiled_says_so(make, monkeypatch):
    memory = make("dam", compile_step=True).memory
    monkeypatch.setattr(type(memory), "plain_step", lambda self, vector, state: "plain")
    with pytest.warns(UserWarning, match="compile_step: expected a model on a CPU, got meta"):
        assert memory.step(torch.empty(2, 3, device="meta"), None) == "plain"
