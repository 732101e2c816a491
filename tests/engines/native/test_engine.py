"""The native engine against the plain one: outputs, states and every gradient."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sparsam

STATE_TENSORS = ("hidden", "cell", "read", "read_weights")


def twins(dtype: torch.dtype = torch.float64, seed: int = 0, **kwargs) -> tuple[sparsam.SAM, sparsam.SAM]:
    """The same model on both engines, with weights large enough to make the memory matter."""
    torch.manual_seed(seed)
    native = sparsam.SAM(engine="native", start="plain", **kwargs).to(dtype)
    with torch.no_grad():
        for parameter in native.parameters():
            parameter.mul_(2)
    reference = copy.deepcopy(native)
    reference.engine = "reference"
    return native, reference


def run(model, x, lengths=None, memory=None, splits=(), loss_on_state=True):
    """Outputs, final state and gradients of a loss over everything that a run puts out."""
    x = x.clone().requires_grad_()
    memory = None if memory is None else memory.clone().requires_grad_()
    state = model.initial_state(x.shape[1], memory)
    outputs = []
    for part in torch.tensor_split(x, list(splits)):
        y, state = model(part, state, lengths=lengths)
        outputs.append(y)
    y = torch.cat(outputs)
    generator = torch.Generator().manual_seed(1)
    loss = (y * torch.randn(y.shape, generator=generator, dtype=y.dtype)).sum()
    if loss_on_state:
        for name in STATE_TENSORS:
            value = getattr(state, name)
            loss = loss + (value * torch.randn(value.shape, generator=generator, dtype=y.dtype)).sum()
    inputs = [x, *model.parameters(), *([] if memory is None else [memory])]
    gradients = torch.autograd.grad(loss, inputs)
    return y, state, [g.to_dense() if g.is_sparse else g for g in gradients]


def assert_close(actual: torch.Tensor, expected: torch.Tensor, relative: float, what: str) -> None:
    scale = expected.abs().max().clamp_min(1e-3)  # below that, what is left of cancelled terms is rounding
    error = ((actual - expected).abs().max() / scale).item()
    assert error <= relative, f"{what}: relative error {error:.1e}"


def compare(native, reference, x, relative, lengths=None, memory=None, splits=()):
    y, state, gradients = run(native, x, lengths, memory, splits)
    y_ref, state_ref, gradients_ref = run(reference, x, lengths, memory, splits)
    assert_close(y, y_ref, relative, "y")
    for name in STATE_TENSORS:
        assert_close(getattr(state, name), getattr(state_ref, name), relative, name)
    assert torch.equal(state.read_rows, state_ref.read_rows)
    for b in range(x.shape[1]):
        (rows, words), (rows_ref, words_ref) = state.memory_rows(b), state_ref.memory_rows(b)
        assert torch.equal(rows, rows_ref)
        if len(rows):
            assert_close(words, words_ref, relative, f"memory of {b}")
    names = ["x", *(name for name, _ in native.named_parameters()), "initial_memory"]
    for name, actual, expected in zip(names, gradients, gradients_ref):
        assert_close(actual, expected, relative, f"gradient of {name}")


@st.composite
def cases(draw):
    rows = draw(st.integers(2, 24))
    heads = draw(st.integers(1, min(4, rows)))
    return {
        "sizes": {
            "input_size": draw(st.integers(1, 4)),
            "output_size": draw(st.integers(1, 3)),
            "hidden_size": draw(st.sampled_from([1, 5, 16, 19])),
            "memory_size": rows,
            "word_size": draw(st.sampled_from([1, 3, 8, 17, 33])),
            "num_heads": heads,
            "k": draw(st.sampled_from([1, min(2, rows), min(4, rows), rows])),
            "similarity": draw(st.sampled_from(["cosine", "euclidean", "dot"])),
        },
        "steps": draw(st.integers(1, 9)),
        "batch": draw(st.integers(1, 6)),
        "seed": draw(st.integers(0, 10_000)),
        "padded": draw(st.booleans()),
        "memory": draw(st.sampled_from([None, "shared", "own"])),
        "split": draw(st.booleans()),
    }


@settings(max_examples=60, deadline=None)
@given(cases())
def test_equals_reference_in_float64(case):
    native, reference = twins(seed=case["seed"], **case["sizes"])
    steps, batch, sizes = case["steps"], case["batch"], case["sizes"]
    x = torch.randn(steps, batch, sizes["input_size"], dtype=torch.float64)
    shape = (sizes["memory_size"], sizes["word_size"])
    memory = {
        None: None,
        "shared": torch.randn(shape, dtype=torch.float64),
        "own": torch.randn(batch, *shape, dtype=torch.float64),
    }[case["memory"]]
    lengths = torch.randint(1, steps + 1, (batch,)) if case["padded"] else None
    splits = (steps // 2,) if case["split"] and steps > 1 and lengths is None else ()
    compare(native, reference, x, 1e-10, lengths, memory, splits)


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
def test_equals_reference_in_float32(similarity):
    native, reference = twins(
        torch.float32, input_size=4, output_size=3, hidden_size=20, memory_size=30, word_size=8, similarity=similarity
    )
    compare(native, reference, torch.randn(12, 5, 4), 1e-4)
