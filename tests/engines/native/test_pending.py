"""The gradient of a memory between calls of the native engine stays in the core, and is what the reference gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import sparsam

N, W, B, T = 12, 4, 3, 6


def model_of(engine: str, name: str = "sam", own: bool = True, **settings: Any) -> Any:
    torch.manual_seed(0)
    controller = torch.nn.Sequential(torch.nn.Linear(3 + 2 * W, 5), torch.nn.Tanh()) if own else "lstm"
    sizes = {"hidden_size": 5, "memory_size": N, "word_size": W, "num_heads": 2, "k": 2, "dtype": torch.float64}
    made = sparsam.build(name, input_size=3, output_size=2, engine=engine, controller=controller, **sizes, **settings)
    return made.double()


def steps(model: Any, x: Tensor, state: Any, weight: float = 1.0) -> tuple[Tensor, Any]:
    """One call for each step; every output counts differently."""
    total = x.new_zeros(())
    for t, one in enumerate(x):
        y, state = model(one[None], state)
        total = total + weight * (t + 1) * y.pow(2).sum()
    return total, state


def one_after_the_other(model: Any, x: Tensor, start: Any) -> Tensor:
    return steps(model, x, start)[0]


def two_futures(model: Any, x: Tensor, start: Any) -> Tensor:
    past, state = steps(model, x[:2], start)
    return past + steps(model, x[2:4], state)[0] + steps(model, x[4:], state, 0.5)[0]


def back_to_an_old_state(model: Any, x: Tensor, start: Any) -> Tensor:
    past, old = steps(model, x[:2], start)
    later, state = steps(model, x[2:4], old)
    _, state = steps(model, x[4:], state)
    again, _ = steps(model, x[3:5], old)
    return past + later + again + state.read.sum()


def elements_taken_and_joined(model: Any, x: Tensor, start: Any) -> Tensor:
    past, state = steps(model, x[:2], start)
    state = sparsam.cat([state[1:], state[0]])
    more, state = steps(model, x[2:4], state)
    return past + more + steps(model, x[4:].repeat_interleave(2, dim=1), state.expand(2))[0]


def some_start_anew(model: Any, x: Tensor, start: Any) -> Tensor:
    past, state = steps(model, x[:3], start)
    state = state.reset(torch.tensor([True, False, True]))
    return past + steps(model, x[3:], state)[0]


def a_future_and_all_words(model: Any, x: Tensor, start: Any) -> Tensor:
    past, state = steps(model, x[:3], start)
    words = state.to(engine="reference").memory.words
    return past + words.pow(2).sum() + steps(model, x[3:], state)[0]


def a_copy_goes_on(model: Any, x: Tensor, start: Any) -> Tensor:
    past, state = steps(model, x[:3], start)
    return past + steps(model, x[3:], state.clone())[0] + steps(model, x[4:], state)[0]


def read_weights_count(model: Any, x: Tensor, start: Any) -> Tensor:
    past, state = steps(model, x[:3], start)
    return past + (state.read_weights * torch.arange(2.0, dtype=x.dtype)).sum() + steps(model, x[3:], state)[0]


def whole_sequences_between(model: Any, x: Tensor, start: Any) -> Tensor:
    y, state = model(x[:3], start)
    past, state = steps(model, x[3:5], state)
    return y.sum() + past + model(x[5:], state, lengths=[1, 1, 1])[0].sum()


PROGRAMS: list[Callable[[Any, Tensor, Any], Tensor]] = [
    one_after_the_other,
    two_futures,
    back_to_an_old_state,
    elements_taken_and_joined,
    some_start_anew,
    a_future_and_all_words,
    a_copy_goes_on,
    read_weights_count,
    whole_sequences_between,
]


def gradients(model: Any, program: Callable[[Any, Tensor, Any], Tensor], initial: bool) -> list[Tensor]:
    torch.manual_seed(1)
    x = torch.randn(T, B, 3, dtype=torch.float64, requires_grad=True)
    words = torch.randn(N, W, dtype=torch.float64, requires_grad=True) if initial else None
    loss = program(model, x, model.initial_state(B, words))
    wanted = [x, *model.parameters(), *([] if words is None else [words])]
    return [loss.detach(), *(g.to_dense() for g in torch.autograd.grad(loss, wanted))]


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradients_are_the_references(program: Any, initial: bool) -> None:
    for name, settings in (("sam", {}), ("sdnc", {"k_links": 3, "link_gradients": True})):
        found = gradients(model_of("native", name, **settings), program, initial)
        expected = gradients(model_of("reference", name, **settings), program, initial)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("own", [True, False])
def test_rows_stay_in_the_core(own: bool) -> None:
    model, seen = model_of("native", own=own), []
    x = torch.randn(T, B, 3, dtype=torch.float64)
    total, state = steps(model, x[:3], None)
    state.memory.placeholder.register_hook(lambda gradient: seen.append(gradient._nnz()))
    pending = state.memory.pending
    more, _ = steps(model, x[3:], state)
    (total + more).backward()
    assert seen == [0] and len(pending) == 0


def test_two_passes_give_the_same_bits() -> None:
    model = model_of("native")
    loss = two_futures(model, torch.randn(T, B, 3, dtype=torch.float64), model.initial_state(B))
    wanted = list(model.parameters())
    first = torch.autograd.grad(loss, wanted, retain_graph=True)
    second = torch.autograd.grad(loss, wanted)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_pass_that_stops_half_way_leaves_nothing_behind() -> None:
    """`autograd.grad` with respect to a late input does not reach the calls before it."""
    model, x = model_of("native"), torch.randn(T, B, 3, dtype=torch.float64)
    past, state = steps(model, x[:3], None)
    late = x[3:].requires_grad_()
    loss = past + steps(model, late, state)[0]
    wanted = list(model.parameters())
    expected = torch.autograd.grad(loss, wanted, retain_graph=True)
    for _ in range(12):
        torch.autograd.grad(loss, late, retain_graph=True)
    assert len(state.memory.pending) <= 8
    found = torch.autograd.grad(loss, wanted)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_pass_that_fails_leaves_nothing_behind() -> None:
    model, x = model_of("native"), torch.randn(T, B, 3, dtype=torch.float64)
    past, state = steps(model, x[:3], None)
    failing = [True]

    def fail(gradient: Tensor) -> None:
        if failing[0]:
            raise RuntimeError("stop here")

    state.memory.placeholder.register_hook(fail)
    loss = past + steps(model, x[3:], state)[0]
    with pytest.raises(RuntimeError, match="stop here"):
        loss.backward(retain_graph=True)
    model.zero_grad()
    failing[0] = False
    loss.backward()
    twin = model_of("native")
    past, state = steps(twin, x[:3], None)
    (past + steps(twin, x[3:], state)[0]).backward()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)


def test_two_losses_one_after_the_other() -> None:
    """Each pass has its own gradients, also where both go through one memory."""
    x = torch.randn(T, B, 3, dtype=torch.float64)
    sums = []
    for together in (True, False):
        model = model_of("native")
        past, state = steps(model, x[:2], None)
        losses = [steps(model, x[2:4], state)[0], steps(model, x[4:], state)[0]]
        if together:
            (past + losses[0] + losses[1]).backward()
        else:
            past.backward(retain_graph=True)
            losses[0].backward(retain_graph=True)
            losses[1].backward()
        sums.append([parameter.grad for parameter in model.parameters()])
    for ours, theirs in zip(*sums, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_detached_state_gives_no_gradient() -> None:
    model, x = model_of("native"), torch.randn(T, B, 3, dtype=torch.float64)
    _, state = steps(model, x[:3], None)
    pending = state.memory.pending
    assert state.detach().memory.pending is None
    steps(model, x[3:], state.detach())[0].backward()
    assert len(pending) == 0
