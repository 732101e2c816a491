"""What test modules of several rooms share: a model on the native engine beside the reference, drawn cases, forks."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import hypothesis
import torch
from hypothesis import strategies as st

STATE_TENSORS = ("hidden", "cell", "read", "read_weights")


def examples(count: int) -> hypothesis.settings:
    """So many cases drawn by Hypothesis; with SPARSAM_LONG, which `make sanitize` sets, twice as many."""
    return hypothesis.settings(max_examples=count * (2 if os.environ.get("SPARSAM_LONG") else 1))


def twins(make, dtype: torch.dtype = torch.float64, seed: int = 0, scale: float = 2.0, **settings):
    """The same model on both engines, with weights large enough to make the memory matter."""
    torch.manual_seed(seed)
    native = make(engine="native", **settings).to(dtype)
    with torch.no_grad():
        for parameter in native.parameters():
            parameter.mul_(scale)
    reference = copy.deepcopy(native)
    reference.engine = "reference"
    return native, reference


def state_tensors(state) -> dict[str, torch.Tensor]:
    values = {name: getattr(state, name, None) for name in STATE_TENSORS}
    return {name: value for name, value in values.items() if value is not None}


def run(model, x, lengths=None, memory=None, splits=(), reset_at=None):
    """Outputs, final state and gradients of a loss over all that a run puts out; `lengths` are of the last part."""
    x = x.clone().requires_grad_()
    memory = None if memory is None else memory.clone().requires_grad_()
    state = model.initial_state(x.shape[1], memory)
    outputs = []
    for i, part in enumerate(torch.tensor_split(x, list(splits))):
        if reset_at == i:
            state = state.reset(torch.arange(x.shape[1]) % 2 == 0)
        y, state = model(part, state, lengths=lengths if i == len(splits) else None)
        outputs.append(y)
    y = torch.cat(outputs)
    generator = torch.Generator().manual_seed(1)
    loss = 0.0
    for value in (y, *state_tensors(state).values()):
        loss = loss + (value * torch.randn(value.shape, generator=generator, dtype=y.dtype)).sum()
    inputs = [x, *model.parameters(), *([] if memory is None else [memory])]
    gradients = torch.autograd.grad(loss, inputs)
    return y, state, [g.to_dense() if g.is_sparse else g for g in gradients]


def assert_close(actual, expected, relative: float, what: str, least: float = 1e-6) -> None:
    error = ((actual - expected).abs().max() / expected.abs().max().clamp_min(least)).item()
    assert error <= relative, f"{what}: relative error {error:.1e}"


def assert_same(model, found, expected, relative: float, least: float = 1e-6) -> None:
    """What `run` gave on two engines: the same rows, and numbers up to rounding (below `least`, of any size)."""
    (y, state, gradients), (y_ref, state_ref, gradients_ref) = found, expected
    assert_close(y, y_ref, relative, "y", least)
    values = state_tensors(state_ref)
    for name, value in values.items():
        assert_close(getattr(state, name), value, relative, name, least)
    assert torch.equal(state.read_rows, state_ref.read_rows)
    for b in range(y.shape[1]):
        (rows, words), (rows_ref, words_ref) = state.memory_rows(b), state_ref.memory_rows(b)
        assert torch.equal(rows, rows_ref)
        if len(rows):
            assert_close(words, words_ref, relative, f"memory of {b}", least)
    names = ["x", *(name for name, _ in model.named_parameters()), "initial_memory"]
    for name, actual, wanted in zip(names, gradients, gradients_ref):
        assert_close(actual, wanted, relative, f"gradient of {name}", least)


@st.composite
def cases(draw, **more):
    """Sizes of a model, with further settings from the strategies in `more`, and how it is run."""
    rows = draw(st.integers(2, 24))
    sizes = {
        "input_size": draw(st.integers(1, 4)),
        "output_size": draw(st.integers(1, 3)),
        "hidden_size": draw(st.sampled_from([1, 5, 16, 19])),
        "memory_size": rows,
        "word_size": draw(st.sampled_from([1, 3, 8, 17, 33])),
        "num_heads": draw(st.integers(1, min(4, rows))),
        "k": draw(st.sampled_from([1, min(2, rows), min(4, rows), rows])),
        "similarity": draw(st.sampled_from(["cosine", "euclidean", "dot"])),
    }
    return {
        "sizes": sizes | {name: draw(strategy) for name, strategy in more.items()},
        "steps": draw(st.integers(1, 12)),
        "batch": draw(st.integers(1, 6)),
        "seed": draw(st.integers(0, 10_000)),
        "padded": draw(st.booleans()),
        "memory": draw(st.sampled_from([None, "shared", "own"])),
        "pieces": draw(st.integers(1, 3)),
        "reset": draw(st.sampled_from([None, 1, 2])),
    }


def given_by(case) -> dict:
    """What a case gives `run`; after the twins were made, whose seed this goes on from."""
    steps, batch, sizes = case["steps"], case["batch"], case["sizes"]
    words = (sizes["memory_size"], sizes["word_size"])
    shape = {None: None, "shared": words, "own": (batch, *words)}[case["memory"]]
    splits = {steps * i // case["pieces"] for i in range(1, case["pieces"])} - {0}
    return {
        "x": torch.randn(steps, batch, sizes["input_size"], dtype=torch.float64),
        "memory": None if shape is None else torch.randn(shape, dtype=torch.float64),
        "lengths": torch.randint(1, steps + 1, (batch,)) if case["padded"] else None,
        "splits": () if case["padded"] else sorted(splits),
        "reset_at": case["reset"],
    }


FORKS = """
import os, sys, traceback
import torch

failed = 0
for code in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            exec(code, {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    failed += os.waitpid(child, 0)[1] != 0
sys.exit(failed)
"""


def assert_run_in_forks(*pieces: str) -> None:
    """Pieces of code, each in a process of its own: forks of one that has imported torch, which takes the longest."""
    done = subprocess.run([sys.executable, "-c", FORKS, *pieces], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
