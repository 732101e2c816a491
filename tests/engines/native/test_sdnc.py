"""SDNC of the native engine against the plain one, and what its journal promises: all taken back bit for bit."""

from __future__ import annotations

import contextlib
import io
from functools import partial
from unittest import mock

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import sparsam
from benchmarks.resident import kept_bytes
from sparsam.memories import sdnc
from tests import beside
from tests.beside import assert_close, assert_same, cases, examples, given_by, run

twins = partial(beside.twins, sparsam.SDNC)


@pytest.fixture(params=["ring", "free"])
def allocation(request):
    return request.param


def small(**changes):
    return {"input_size": 3, "output_size": 2, "hidden_size": 8, "memory_size": 16, "word_size": 4, "num_heads": 2} | {
        "k": 3,
        **changes,
    }


def dense_usage(state, b: int) -> torch.Tensor:
    """Usage of element b (N,); empty with the ring."""
    memory = state.memory
    if not hasattr(memory, "link_rows"):
        return torch.zeros(0) if memory.usage is None else memory.usage[b]
    if memory.allocation == "ring":
        return torch.zeros(0)
    rows, values = memory.usage_rows(b)
    return torch.zeros(memory.kind.rows, dtype=memory.kind.dtype).scatter(0, rows, values)


def everything(state, b: int) -> list[torch.Tensor]:
    """All that a version of the native engine holds of element b."""
    memory = state.memory
    usage = memory.usage_rows(b) if memory.kind.allocation == "free" else (memory.recency(b),)
    return [*memory.link_rows(b), *state.memory_rows(b), *usage]


def dense_links(state, b: int) -> torch.Tensor:
    """N, P and p of element b stacked as (2N+1, N)."""
    memory = state.memory
    if not hasattr(memory, "link_rows"):
        links = state.links
        both = torch.stack([links.predecessors[b], links.successors[b]], dim=1).flatten(0, 1)
        return torch.cat([both, links.precedence[b][None]]).detach()
    ids, columns, weights = memory.link_rows(b)
    dense = torch.zeros(2 * memory.kind.rows + 1, memory.kind.rows, dtype=memory.kind.dtype)
    dense[ids[:, None].expand_as(columns)[columns >= 0], columns[columns >= 0].long()] = weights[columns >= 0]
    return dense


@contextlib.contextmanager
def near_ties():
    """Collects whether rows that links reach had the same mixed weight, or rows used the same usage, up to rounding.

    Words written alike have links alike, whose sums are equal but for the order of summation: which of two such rows is
    read first is rounding, and a comparison means nothing. Likewise which of two rows used alike is written anew.
    """
    found: list[bool] = []
    least = sdnc.least_used
    follow, largest = sdnc.follow_sparse_links, sdnc.largest_rows
    reached: list[torch.Tensor] = []

    def noted(*args):
        forward, backward = follow(*args)
        reached.append((forward + backward).detach() > 0)
        return forward, backward

    def checked(mixed, content_rows, k):
        weights, rows = mixed.detach().sort(dim=-1, descending=True)
        close = (weights[..., :-1] - weights[..., 1:] <= 1e-10 * weights[..., :-1]) & (weights[..., 1:] > 0)
        linked = reached[-1].gather(-1, rows)
        found.append(bool((close & (linked[..., :-1] | linked[..., 1:])).any()))
        return largest(mixed, content_rows, k)

    def ordered(usage, count):
        lowest = usage.sort(dim=-1).values[:, : count + 1]
        close = lowest[:, 1:] - lowest[:, :-1] <= 1e-10 * lowest[:, 1:] + 1e-14
        found.append(bool((close & (lowest[:, 1:] > 0)).any()))
        return least(usage, count)

    with (
        mock.patch.object(sdnc, "follow_sparse_links", noted),
        mock.patch.object(sdnc, "largest_rows", checked),
        mock.patch.object(sdnc, "least_used", ordered),
    ):
        yield found


VANISHING = 1e-100  # of links that have all but decayed rounding may decide which is kept


def compare(native, reference, x, relative, drawn=False, **how):
    with near_ties() as ties:
        expected = run(reference, x, **how)
    if drawn:
        assume(not any(ties))
    found = run(native, x, **how)
    assert_same(native, found, expected, relative)
    state, state_ref = found[1], expected[1]
    for b in range(x.shape[1]):
        links, links_ref = dense_links(state, b), dense_links(state_ref, b)
        same = (links > 0) == (links_ref > 0)
        assert (links[~same] + links_ref[~same] < VANISHING).all()  # the rows are the same
        assert_close(links, links_ref, relative, f"links of {b}")
        if native.allocation == "free":
            assert_close(dense_usage(state, b), dense_usage(state_ref, b), relative, f"usage of {b}")


LINKED = {
    "k_links": st.sampled_from([1, 2, 3, 8, 9, 30]),
    "link_gradients": st.booleans(),
    "allocation": st.sampled_from(["ring", "free"]),
}


@examples(60)
@given(cases(**LINKED))
def test_equals_reference_in_float64(case):
    native, reference = twins(seed=case["seed"], **case["sizes"])
    compare(native, reference, relative=1e-10, drawn=True, **given_by(case))


@pytest.mark.parametrize("link_gradients", [False, True])
@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
def test_equals_reference_in_float32(similarity, link_gradients, allocation):
    how = {"similarity": similarity, "link_gradients": link_gradients, "allocation": allocation}
    native, reference = twins(torch.float32, **small(hidden_size=20, memory_size=30, **how))
    compare(native, reference, torch.randn(12, 5, 3), 1e-4)


def test_full_writes_drop_what_a_row_linked_to():
    """Gates that write fully (w = 1) leave nothing of N(i,.) but p, nor of P(j,i) where p(j) = 0."""
    native, reference = twins(**small(num_heads=1, k=1, memory_size=6, k_links=2))
    gates = 2 * 4 + 1
    for model in (native, reference):
        with torch.no_grad():
            model.interface.bias[gates : gates + 2] = torch.tensor([1e3, -40.0])  # alpha = 1, gamma = 4e-18
            model.interface.weight[gates:].zero_()
    x = torch.randn(15, 2, 3, dtype=torch.float64)
    compare(native, reference, x, 1e-10)
    largest = dense_links(native(x)[1], 0).max(dim=-1).values
    assert (largest[:-1:2] == 1).all()  # N: nothing is older than its row's last full write
    assert (largest[1:-1:2] < 1e-10).any()  # P: a row whose successor was written again after another


@examples(20)
@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 10_000), st.booleans(), st.integers(0, 20))
def test_free_rows_are_used_again_in_a_memory_of_few(heads, more, seed, link_gradients, split):
    """N barely above R, over enough steps that every row is freed and written many times."""
    native, reference = twins(
        seed=seed,
        **small(num_heads=heads, memory_size=heads + more, k=1 + seed % (heads + more), link_gradients=link_gradients),
        allocation="free",
    )
    x = torch.randn(20, 2, 3, dtype=torch.float64)
    compare(native, reference, x, 1e-10, drawn=True, splits=(split,) if 0 < split < 20 else ())


@pytest.mark.parametrize("link_gradients", [False, True])
def test_memory_and_links_are_bit_for_bit_back_after_backward(link_gradients, allocation):
    native, _ = twins(**small(link_gradients=link_gradients, allocation=allocation))
    x = torch.randn(20, 2, 3, dtype=torch.float64)
    _, middle = native(x[:10])
    middle = middle.detach()
    before = [everything(middle, b) for b in range(2)]
    versions = middle.memory.versions
    y, final = native(x[10:], middle)
    after = [everything(final, b) for b in range(2)]
    assert not all(version.is_current for version in versions)
    y.sum().backward()
    assert all(version.is_current for version in versions)  # the buffer itself went back, nothing was replayed
    for b in range(2):
        assert all(torch.equal(a, e) for a, e in zip(everything(middle, b), before[b]))
        # and the final state is there again
        assert all(torch.equal(a, e) for a, e in zip(everything(final, b), after[b]))


def test_all_is_blank_after_the_backward_of_a_whole_episode(allocation):
    native, _ = twins(**small(allocation=allocation))
    state = native.initial_state(1)
    state.memory.versions[:] = state.memory.materialised()
    y, _ = native(torch.randn(15, 1, 3, dtype=torch.float64), state)
    y.sum().backward()
    assert all(len(part) == 0 for part in everything(state, 0))


def test_final_state_goes_on_after_backward(allocation):
    native, reference = twins(**small(allocation=allocation))
    x = torch.randn(16, 2, 3, dtype=torch.float64)
    expected = reference(x)[0][8:]
    y, state = native(x[:8])
    y.sum().backward()
    torch.testing.assert_close(native(x[8:], state.detach())[0], expected)


def journal_bytes(rows: int, allocation: str) -> int:
    """Bytes that one call over a memory of this many rows keeps, the tape included."""
    torch.manual_seed(0)
    model = sparsam.SDNC(
        3, 2, 8, memory_size=rows, word_size=4, num_heads=2, k=3, engine="native", allocation=allocation
    )
    return kept_bytes(model(torch.randn(30, 2, 3, generator=torch.Generator().manual_seed(0)))[0])


def test_journal_does_not_grow_with_the_memory(allocation):
    small, large = (journal_bytes(rows, allocation) for rows in (100, 1_000_000))
    assert small == large
    assert small <= 2 * 30 * 8_000  # R(K+1) = 8 rows of N, 72 of P and p, a line each, beside SAM's words and moves


def test_trace_has_the_weights_that_were_written():
    native, reference = twins(**small(memory_size=5, k=2, allocation="free"))
    x = torch.randn(10, 2, 3, dtype=torch.float64)
    ours, theirs = native.trace(x), reference.trace(x)
    order = [sorted(zip(t.time, t.batch, t.head, t.kind, t.row, t.weight)) for t in (ours, theirs)]
    assert len(order[0]) == len(order[1])
    for a, b in zip(*order):
        assert [int(v) for v in a[:-1]] == [int(v) for v in b[:-1]]
        torch.testing.assert_close(a[-1], b[-1])


def running(**changes):
    native, _ = twins(**small(**changes))
    x = torch.randn(12, 3, 3, dtype=torch.float64)
    return native, x, native(x[:6])[1]


def test_save_and_load(allocation):
    native, x, state = running(allocation=allocation)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file)
    for b in range(3):
        assert torch.equal(dense_links(loaded, b), dense_links(state, b))
        assert torch.equal(dense_usage(loaded, b), dense_usage(state, b))
    # norms are computed anew when a state is loaded, which may round the other way
    torch.testing.assert_close(native(x[6:], loaded)[0], native(x[6:], state)[0], rtol=1e-13, atol=1e-14)


def test_clone_detach_and_old_states(allocation):
    native, x, state = running(allocation=allocation)
    expected, _ = native(x[6:], state.detach())
    copied = state.clone()
    native(x[:6].flip(0), state)  # writes the buffer that `state` refers to
    assert torch.equal(native(x[6:], copied)[0], expected)
    assert torch.equal(native(x[6:], state.detach())[0], expected)


def test_reset_clears_the_elements_it_names(allocation):
    _, _, state = running(allocation=allocation)
    fresh = state.reset(torch.tensor([True, False, True]))
    assert (dense_links(fresh, 0) == 0).all() and (dense_links(fresh, 2) == 0).all()
    assert torch.equal(dense_links(fresh, 1), dense_links(state, 1))
    assert (dense_usage(fresh, 0) == 0).all()
    assert torch.equal(dense_usage(fresh, 1), dense_usage(state, 1))


def test_conversion_to_another_dtype_takes_links_and_usage_along(allocation):
    native, x, state = running(allocation=allocation)
    single = state.detach().to(torch.float32)
    assert_close(dense_links(single, 1).double(), dense_links(state, 1), 1e-6, "links")
    if allocation == "free":
        assert_close(dense_usage(single, 1).double(), dense_usage(state, 1), 1e-6, "usage")
    y, _ = native.float()(x[6:].float(), single)
    assert_close(y.double(), native.double()(x[6:], state)[0], 1e-3, "y")


def test_state_of_another_k_links_is_refused():
    _, x, state = running()
    other, _ = twins(**small(k_links=5))
    with pytest.raises(ValueError, match="expected links with K_L = 5, got K_L = 8"):
        other(x, state)


def test_auto_takes_the_native_engine():
    model = sparsam.SDNC(**small(), engine="auto")
    assert model.engine_used == "native"
