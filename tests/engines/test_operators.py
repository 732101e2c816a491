"""The operators of `sparsam.engines.operators`: what `torch.library.opcheck` asks, names and their lifetime."""

from __future__ import annotations

import gc

import pytest
import torch

import sparsam
from sparsam.engines.native import names
from sparsam.memories.description import SparseSizes, as_text, from_text

SIZES = {"rows": 12, "width": 4, "heads": 2, "k": 3}
MEMORIES = {
    "sam": SparseSizes(**SIZES),
    "sdnc": SparseSizes(**SIZES, k_links=3, kind="sdnc"),
    "links": SparseSizes(**SIZES, k_links=3, link_gradients=True, kind="sdnc"),
    "free": SparseSizes(**SIZES, k_links=3, allocation="free", kind="sdnc"),
}
HIDDEN, INPUTS, OUTPUTS, BATCH, STEPS = 5, 3, 2, 2, 4
BLOCKS = {"lstm": 4, "gru": 3}


def kind(sizes):
    return f'[{sizes.rows},{sizes.width},{sizes.k_links},"{sizes.allocation}","float64"]'


def tensor(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def fresh(sizes):
    return torch.ops.sparsam.blank(BATCH, kind(sizes), torch.zeros(1))


def arguments(cell, sizes, memory=None, record=True, steps=STEPS, output=False):
    """Of `sparsam::sequence`; with an output layer on demand."""
    blocks, read = BLOCKS.get(cell, 0) * HIDDEN, sizes.heads * sizes.width
    floats = [tensor(steps, BATCH, INPUTS if blocks else sizes.interface.size)]
    if blocks:
        floats += [tensor(blocks, INPUTS + read), tensor(blocks, HIDDEN), tensor(blocks), tensor(blocks)]
        floats += [tensor(sizes.interface.size, HIDDEN), tensor(sizes.interface.size)]
        floats += [tensor(OUTPUTS, HIDDEN + read), tensor(OUTPUTS)] if output else [None, None]
        floats += [tensor(BATCH, HIDDEN), tensor(BATCH, HIDDEN) if cell == "lstm" else None]
    else:
        floats += [None] * 10
    floats += [tensor(BATCH, sizes.heads, sizes.width), torch.zeros(BATCH, sizes.heads, sizes.k, dtype=torch.float64)]
    rows = torch.full((BATCH, sizes.heads, sizes.k), -1)
    name = fresh(sizes) if memory is None else memory
    width = HIDDEN if blocks else 0
    return (*floats, name, rows, torch.tensor([steps, max(steps - 1, 1)]), as_text(sizes), cell, width, 0.0, record)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("cell", ["lstm", "gru", "none"])
def test_opcheck_of_sequences(cell, memory):
    """From a fresh memory and, with an output layer and unrecorded, from a used one: by turns, so that every cell and
    every memory is checked both ways.
    """
    sizes = MEMORIES[memory]
    given = arguments(cell, sizes)
    if (["lstm", "gru", "none"].index(cell) + list(MEMORIES).index(memory)) % 2:
        middle = torch.ops.sparsam.sequence(*given)[5]
        given = arguments(cell, sizes, middle, record=False, output=cell != "none")
    torch.library.opcheck(torch.ops.sparsam.sequence, given)


@pytest.mark.parametrize("cell", ["lstm", "none"])
def test_opcheck_of_one_step(cell):
    """A single step is the operator of a sequence with T = 1; its gradients are those of one step."""
    given = arguments(cell, MEMORIES["sam"], steps=1, output=cell == "lstm")
    torch.library.opcheck(torch.ops.sparsam.sequence, given)
    middle = torch.ops.sparsam.sequence(*given)[5]
    torch.library.opcheck(torch.ops.sparsam.sequence, arguments(cell, MEMORIES["sam"], middle, steps=1))


@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize("memory", MEMORIES)
def test_opcheck_of_backward(memory, output):
    """It has no derivatives of its own, so it is checked as a function of constants."""
    sizes = MEMORIES[memory]
    given = [a.detach() if isinstance(a, torch.Tensor) else a for a in arguments("lstm", sizes, output=output)]
    joint, hidden, cell, read, weights, _, _, tape = torch.ops.sparsam.sequence(*given)
    gradient = names.gradient_name(None, None, BATCH)
    back = (*given[:-1], tape, joint, hidden, cell, read, weights, gradient, True, True)
    if (list(MEMORIES).index(memory) + output) % 2:  # by turns: with no gradient of the outputs
        back = (*back[:-8], None, *back[-7:-2], False, False)
    torch.library.opcheck(torch.ops.sparsam.sequence_backward, back)


def test_opcheck_of_the_rest():
    sizes, mask = MEMORIES["sam"], torch.tensor([True, False])
    torch.library.opcheck(torch.ops.sparsam.blank, (BATCH, kind(sizes), torch.zeros(1)))
    for words in (tensor(12, 4), tensor(BATCH, 12, 4)):
        torch.library.opcheck(torch.ops.sparsam.begin, (words, BATCH, kind(sizes)))
        gradient = names.gradient_name(None, None, BATCH)
        torch.library.opcheck(torch.ops.sparsam.begin_backward, (gradient, words.detach()))
        torch.library.opcheck(torch.ops.sparsam.choose_backward, (mask, gradient))
    with torch.no_grad():
        after = torch.ops.sparsam.sequence(*arguments("lstm", sizes))[5]
    torch.library.opcheck(torch.ops.sparsam.choose, (mask, after.requires_grad_(), fresh(sizes)))


def test_gradients_by_differences():
    sizes = MEMORIES["links"]
    words, other, given = tensor(12, 4), tensor(12, 4), arguments("lstm", sizes, output=True)

    def run(words, other, *floats):
        begun, else_ = (torch.ops.sparsam.begin(w, BATCH, kind(sizes)) for w in (words, other))
        out = torch.ops.sparsam.sequence(*floats, *given[12:13], begun, *given[14:])
        kept = torch.ops.sparsam.choose(torch.tensor([True, False]), out[5], else_)
        more = torch.ops.sparsam.sequence(floats[0].flip(0), *floats[1:], out[4], kept, out[6], *given[15:])
        return out[0], more[0]

    assert torch.autograd.gradcheck(lambda a, b, x: run(a, b, x, *given[1:12]), (words, other, given[0]), atol=1e-6)


def test_a_description_survives_as_text():
    for index in ("linear", "scan", "kdtree", "lsh", sparsam.Auto(sparsam.LSH(bits=7), 300)):
        sizes = sparsam.SAM(1, 1, index=index, delta=0.25).memory.sizes
        assert from_text(as_text(sizes)) == sizes
    assert from_text(as_text(MEMORIES["free"])) == MEMORIES["free"]


def test_a_name_owns_its_memory():
    gc.collect()
    before = len(names.TABLE)
    name = fresh(MEMORIES["sam"])
    copy, part = name.clone(), name.detach()
    del name
    assert names.named_memory(part)[0] == [None] * BATCH
    assert names.named_memory(copy)[0] == [None] * BATCH
    assert len(names.TABLE) == before + 1
    del part
    gc.collect()
    assert len(names.TABLE) == before
    for wrong in (copy, torch.zeros(2, 2, dtype=torch.float64)):
        with pytest.raises(RuntimeError, match="state: expected a memory that still exists"):
            names.named_memory(wrong)
    assert float(fresh(MEMORIES["sam"]).abs().max()) < 1e-300


def test_there_are_no_second_derivatives():
    given = arguments("lstm", MEMORIES["sam"])
    joint = torch.ops.sparsam.sequence(*given)[0]
    (gradient,) = torch.autograd.grad(joint.sum(), given[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="sequence_backward"):
        gradient.sum().backward()
