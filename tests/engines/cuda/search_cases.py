"""The GPU engine's split search against a plain one: exact, and by codes.

Run by `test_engine.py` in a process of its own: on a GPU where there is one, else by Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.engines.cuda import launch, steps
from sparsam.engines.cuda.kernels.ordering import LAST
from sparsam.engines.cuda.launch import interpreted
from sparsam.engines.cuda.layout import layout_of
from sparsam.engines.cuda.memory import fresh_memory
from sparsam.engines.cuda.tape import Tape
from sparsam.memories.description import SparseSizes

DEVICE = "cpu" if interpreted() else "cuda"


def searched(sizes: SparseSizes, words, query, parts: int, coded: bool):
    """Rows (B, R, K), best first, of a split search and of a plain one, and the plain scores (B, R, N)."""
    batch = words.shape[0]
    size = layout_of(sizes, "none", 0)
    memory = fresh_memory(sizes, batch, words.to(DEVICE), words.to(DEVICE))
    tape = Tape(size, 1, batch, memory.words)
    tape.interface[0, :, : size.R * size.W] = query.flatten(1).to(DEVICE)
    ends = torch.ones(batch, dtype=torch.int32, device=DEVICE)
    partial = torch.empty(batch, parts, size.RP, size.KP, dtype=torch.int64, device=DEVICE)
    held = memory.words.contiguous()
    memory = memory._with((held, *(value.contiguous() for value in memory.tensors()[1:])))
    codes = launch.encoded(size, held) if coded else None
    launch.search_launch(sizes, size, tape, memory, ends, partial, codes)(0)
    keys = partial.cpu().transpose(1, 2).flatten(2).sort(2, descending=True).values[:, : size.R, : size.K]
    rows = (keys & LAST.value) ^ LAST.value
    words, query = words.double(), query.double()
    dot = torch.einsum("brw,bnw->brn", query, words)
    norms = query.norm(dim=-1)[..., None], words.norm(dim=-1)[:, None]
    if sizes.similarity == "cosine":
        dot = dot / (norms[0] * norms[1] + 1e-6)
    elif sizes.similarity == "euclidean":
        dot = 2 * dot - norms[0] ** 2 - norms[1] ** 2
    return rows, dot.sort(dim=2, descending=True, stable=True).indices[..., : sizes.k], dot


@pytest.mark.parametrize("rows,parts,similarity", [
    (5, 2, "cosine"), (5, 2, "euclidean"), (5, 2, "dot"),
    (33, 2, "cosine"), (33, 2, "euclidean"), (33, 2, "dot"),
    (1000, 4, "euclidean"), (3001, 2, "cosine"),
])  # fmt: skip
def test_the_split_search_is_the_plain_one(rows, parts, similarity):
    torch.manual_seed(rows)
    sizes = SparseSizes(rows=rows, width=7, heads=3, k=min(5, rows), similarity=similarity)
    found, expected, _ = searched(sizes, torch.randn(2, rows, 7), torch.randn(2, 3, 7), parts, False)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("coded", [False, True])
def test_ties_go_to_the_lowest_row(coded):
    """More equal words than there are groups to look at, in both parts."""
    sizes = SparseSizes(rows=600, width=4, heads=1, k=3)
    words = torch.randn(1, 1, 4).expand(1, 600, 4).contiguous()
    words[0, :17] *= -1
    found, _, _ = searched(sizes, words, words[:, 100:101], 2, coded)
    assert found.tolist() == [[[17, 18, 19]]]


def test_codes_find_nearly_all():
    """Clustered words, so that many are nearly as good as the best."""
    torch.manual_seed(0)
    sizes = SparseSizes(rows=6000, width=32, heads=4, k=4)
    centres = torch.randn(40, 32)
    words = centres[torch.randint(40, (2, 6000))] + 0.3 * torch.randn(2, 6000, 32)
    query = centres[torch.randint(40, (2, 4))] + 0.3 * torch.randn(2, 4, 32)
    found, expected, score = searched(sizes, words, query, 4, True)
    recall = (found[..., None] == expected[..., None, :]).any(-1).double().mean()
    assert recall >= 0.95  # 1.0 when this was written
    ordered = score.gather(2, found)
    assert bool((ordered[..., :-1] >= ordered[..., 1:]).all())  # scored exactly, best first


@pytest.mark.parametrize("index,similarity,rows,expected", [
    ("linear", "cosine", 1 << 20, False),
    ("scan", "cosine", 1 << 20, True),
    ("scan", "cosine", 96, False),
    ("auto", "cosine", 6000, False),
    ("auto", "cosine", 6001, True),
    ("scan", "dot", 1 << 20, False),
])  # fmt: skip
def test_when_codes_are_looked_at(index, similarity, rows, expected):
    sizes = SparseSizes(rows=rows, width=4, heads=1, k=1, similarity=similarity, index=sparsam.indexes.resolve(index))
    assert steps.searches_codes(sizes, rows) is expected


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_a_model_that_scans_is_the_exact_one_where_codes_miss_nothing(name, monkeypatch):
    """A memory of as many groups as are looked at: codes may not change a bit, whatever is written meanwhile."""
    monkeypatch.setattr(steps, "LONG_SEARCH", 8)
    monkeypatch.setattr(steps, "parts_of_search", lambda batch, rows: 2)
    settings = dict(input_size=3, output_size=2, hidden_size=6, memory_size=48, word_size=5, num_heads=2, k=3)
    torch.manual_seed(0)
    exact = sparsam.build(name, engine="cuda", **settings).to(DEVICE)
    scans = sparsam.build(name, engine="cuda", index=sparsam.indexes.Scan(checks=8), **settings).to(DEVICE)
    scans.load_state_dict(exact.state_dict())
    x, words = torch.randn(4, 1, 3, device=DEVICE), torch.randn(48, 5, device=DEVICE)
    results = []
    for model in (exact, scans):
        y, state = model(x, model.initial_state(1, initial_memory=words))
        gradients = torch.autograd.grad(y.square().sum(), list(model.parameters()))
        results.append((y, state.read_rows, *gradients))
    for ours, theirs in zip(*results):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("parts", [2, 16])
def test_a_split_search_reads_what_one_program_reads(parts, monkeypatch):
    """The sizes of the benchmarks: how a kernel's numbers lie on a GPU's threads depends on them."""
    torch.manual_seed(0)
    model = sparsam.SAM(8, 8, memory_size=600, engine="cuda").to(DEVICE)
    x, words = torch.randn(2, 1, 8, device=DEVICE), torch.randn(1, 600, 32, device=DEVICE)
    monkeypatch.setattr(steps, "parts_of_search", lambda batch, rows: parts)
    results = []
    for limit in (4096, 8):
        monkeypatch.setattr(steps, "LONG_SEARCH", limit)
        with torch.no_grad():
            y, state = model(x, model.initial_state(1, initial_memory=words))
        results.append((y, state.read_rows))
    (y, rows), (split_y, split_rows) = results
    assert torch.equal(rows, split_rows)
    torch.testing.assert_close(y, split_y)


@pytest.mark.parametrize("name,index", [("sam", "linear"), ("sdnc", sparsam.indexes.Scan(checks=8))])
def test_large_memories_are_copied_and_blanked_as_small_ones(name, index, monkeypatch):
    """Words that all elements share are spread by a kernel, and of their gradient only what is touched is blank."""
    monkeypatch.setattr(steps, "LONG_SEARCH", 8)
    monkeypatch.setattr(steps, "parts_of_search", lambda batch, rows: 2)
    settings = dict(input_size=3, output_size=2, hidden_size=6, memory_size=48, word_size=5, num_heads=2, k=3)
    torch.manual_seed(0)
    model = sparsam.build(name, engine="cuda", index=index, **settings).to(DEVICE)
    words, x = torch.randn(48, 5, device=DEVICE), torch.randn(3, 2, 3, device=DEVICE)
    results = []
    for large in (launch.LARGE, 1):
        monkeypatch.setattr(launch, "LARGE", large)
        torch.use_deterministic_algorithms(True)  # what nobody has written is not a number
        try:
            y, state = model(x, model.initial_state(2, initial_memory=words), lengths=torch.tensor([3, 1]))
            loss = y.square().sum() + state.read.square().sum()
            results.append([y, state.memory.words, *torch.autograd.grad(loss, list(model.parameters()))])
        finally:
            torch.use_deterministic_algorithms(False)
    for small, large in zip(*results):
        assert torch.equal(small, large)
