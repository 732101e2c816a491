"""States are values: indexed, joined, expanded, converted, saved, in any order, with every engine and index."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

import sparsam
from sparsam import engines

SIZES = dict(input_size=3, output_size=2, hidden_size=5, memory_size=10, word_size=4, num_heads=2, k=3)


def model_of(name="sam", engine="native", dtype=torch.float64, **settings):
    torch.manual_seed(1)
    model = sparsam.build(name, **{**SIZES, **settings, "engine": engine}).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def inputs(steps=4, batch=3, seed=0):
    return torch.randn(steps, batch, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


KINDS = [
    (name, engine)
    for name in ("sam", "sdnc")
    for engine in engines.ENGINES
    if engines.why_not(engine, model_of(name, engine)) is None
]
pytestmark = pytest.mark.skipif(("sam", "native") not in KINDS, reason="the native engine is not built here")


def dense(gradient):
    return gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient


@pytest.fixture(params=KINDS, ids="-".join)
def model(request):
    extra = {"link_gradients": True} if request.param[0] == "sdnc" else {}
    return model_of(*request.param, **extra)


@pytest.fixture
def memory():
    return torch.randn(3, 10, 4, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("index", [0, -1, slice(0, 2), [2, 0], torch.tensor([True, False, True]), torch.tensor([1, 1])])
def test_indexing_equals_running_those_elements(model, memory, index):
    _, state = model(inputs(), model.initial_state(3, initial_memory=memory))
    part = state[index]
    at = torch.arange(3)[[index] if isinstance(index, int) else index]
    assert len(part) == part.batch_size == at.numel()
    y, _ = model(inputs(seed=5)[:, at], part)
    expected = torch.cat([model(inputs(seed=5)[:, b : b + 1], state[int(b)])[0] for b in at], dim=1)
    torch.testing.assert_close(y, expected)
    ours = torch.autograd.grad(y.square().sum(), [memory, *model.parameters()])
    _, again = model(inputs(), model.initial_state(3, initial_memory=memory))
    singles = [model(inputs(seed=5)[:, b : b + 1], again[int(b)])[0] for b in at]
    theirs = torch.autograd.grad(torch.cat(singles, dim=1).square().sum(), [memory, *model.parameters()])
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(dense(a), dense(b))
    for i, b in enumerate(at.tolist()):
        torch.testing.assert_close(part.memory_rows(i), state.memory_rows(b))


def test_cat_of_the_parts_is_the_whole(model, memory):
    _, state = model(inputs(), model.initial_state(3, initial_memory=memory))
    whole, _ = model(inputs(seed=5), state)
    _, again = model(inputs(), model.initial_state(3, initial_memory=memory))
    joined = sparsam.cat([again[:1], again[1:]])
    y, _ = model(inputs(seed=5), joined)
    torch.testing.assert_close(y, whole)
    ours, theirs = (torch.autograd.grad(out.square().sum(), memory)[0] for out in (y, whole))
    torch.testing.assert_close(dense(ours), dense(theirs))
    reset = joined.reset(torch.tensor([True, True, True]))
    torch.testing.assert_close(
        model(inputs(), reset)[0], model(inputs(), model.initial_state(3, initial_memory=memory))[0]
    )


def test_cat_of_a_state_and_its_past(model):
    _, early = model(inputs(batch=1))
    _, late = model(inputs(batch=1, seed=2), early)
    y, _ = model(inputs(batch=2, seed=3), sparsam.cat([early, late]))
    x = inputs(batch=2, seed=3)
    torch.testing.assert_close(y[:, :1], model(x[:, :1], early)[0])
    torch.testing.assert_close(y[:, 1:], model(x[:, 1:], late)[0])


def test_expand_gives_continuations_of_one_past(model):
    start = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    _, state = model(inputs(batch=1), model.initial_state(1, initial_memory=start))
    x = inputs(batch=4, seed=3)
    y, _ = model(x, state.expand(4))
    singles = [model(x[:, b : b + 1], state)[0] for b in range(4)]
    torch.testing.assert_close(y, torch.cat(singles, dim=1))
    ours = torch.autograd.grad(y.square().sum(), start, retain_graph=True)[0]
    _, state = model(inputs(batch=1), model.initial_state(1, initial_memory=start))
    singles = [model(x[:, b : b + 1], state)[0] for b in range(4)]
    theirs = torch.autograd.grad(torch.cat(singles, dim=1).square().sum(), start)[0]
    torch.testing.assert_close(dense(ours), dense(theirs))


@pytest.mark.parametrize("name", ["sam", "sdnc"])
@pytest.mark.parametrize("settings", [{}, {"allocation": "free"}], ids=["ring", "free"])
def test_states_convert_between_engines_exactly(name, settings, memory):
    if settings and name != "sdnc":
        settings = {"similarity": "dot"}
    models = {e: model_of(name, e, **settings) for n, e in KINDS if n == name}
    models = {e: m for e, m in models.items() if engines.why_not(e, m) is None}
    x, more = inputs(), inputs(seed=8)
    for begin, model in models.items():
        _, state = model(x, model.initial_state(3, initial_memory=memory.detach()))
        expected, last = model(more, state)
        for other, target in models.items():
            moved = state.detach().to(engine=other)
            y, end = target(more, moved)
            torch.testing.assert_close(y, expected)
            back = moved.to(engine=begin)
            again, _ = model(more, back)
            torch.testing.assert_close(again, expected, rtol=0, atol=0)
            for b in range(3):
                torch.testing.assert_close(end.memory_rows(b), last.memory_rows(b))
            fresh = target(x, moved.reset(torch.ones(3, dtype=torch.bool)))[0]
            torch.testing.assert_close(fresh, model(x, model.initial_state(3, initial_memory=memory.detach()))[0])


def test_a_gradient_flows_through_a_conversion(memory):
    for name in ("sam", "sdnc"):
        extra = {"link_gradients": True} if name == "sdnc" else {}
        native, reference, twin = (model_of(name, engine, **extra) for engine in ("native", "reference", "reference"))
        results = []
        for first, second in ((native, reference), (reference, native), (reference, twin)):
            _, state = first(inputs(), first.initial_state(3, initial_memory=memory))
            y, _ = second(inputs(seed=4), state.to(engine=second.engine))
            found = torch.autograd.grad(y.square().sum(), [memory, *first.parameters()], allow_unused=True)
            results.append([dense(g) for g in found if g is not None])
        for other in results[:2]:
            for a, b in zip(other, results[2], strict=True):
                torch.testing.assert_close(a, b)


def test_to_keeps_the_graph(model, memory):
    grads = []
    for convert in (lambda s: s, lambda s: s.to("cpu"), lambda s: s.to(torch.float64)):
        _, state = model(inputs(), model.initial_state(3, initial_memory=memory))
        y, _ = model(inputs(seed=4), convert(state))
        grads.append([dense(g) for g in torch.autograd.grad(y.square().sum(), [memory, *model.parameters()])])
    for other in grads[1:]:
        for a, b in zip(other, grads[0]):
            torch.testing.assert_close(a, b)


def test_to_another_dtype_and_back_keeps_the_graph(model, memory):
    grads = []
    for convert in (lambda s: s, lambda s: s.to(torch.float32).to(torch.float64)):
        _, state = model(inputs(2), model.initial_state(3, initial_memory=memory))
        y, _ = model(inputs(2, seed=4), convert(state))
        grads.append([dense(g) for g in torch.autograd.grad(y.square().sum(), [memory, *model.parameters()])])
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_blend_takes_each_elements_own_start(model):
    first, second = torch.randn(2, 10, 4, dtype=torch.float64)
    _, ours = model(inputs(), model.initial_state(3, initial_memory=first))
    _, theirs = model(inputs(seed=2), model.initial_state(3, initial_memory=second))
    mask = torch.tensor([True, False, True])
    for mixed in (ours.blend(mask, theirs), pickle.loads(pickle.dumps(ours.detach().blend(mask, theirs.detach())))):
        y, _ = model(inputs(seed=6), mixed)
        x = inputs(seed=6)
        torch.testing.assert_close(y[:, mask], model(x[:, mask], theirs[mask])[0])
        torch.testing.assert_close(y[:, ~mask], model(x[:, ~mask], ours[~mask])[0])
        fresh, _ = model(x, mixed.reset(torch.ones(3, dtype=torch.bool)))
        expected = model(x, model.initial_state(3, initial_memory=second))[0]
        torch.testing.assert_close(fresh[:, mask], expected[:, mask])


def test_the_start_of_a_state_brings_its_own_start_along(model):
    """`state.origin` joined with others, or blended with them, resets to itself as `initial_state` does."""
    ours, theirs = (model.initial_state(2, torch.randn(10, 4, dtype=torch.float64)) for _ in range(2))
    x, mask, everyone = inputs(batch=2), torch.tensor([True, False]), torch.tensor([True, True])
    _, later = model(x, theirs)
    expected = sparsam.cat([theirs[0], ours[1]])
    for mixed in (ours.blend(mask, theirs.origin), ours.origin.blend(mask, later)):
        assert torch.equal(model(x, mixed.reset(everyone))[0], model(x, expected)[0])
    joined = sparsam.cat([later, ours.origin])
    again = joined.reset(torch.ones(4, dtype=torch.bool))
    assert torch.equal(model(inputs(batch=4), again)[0], model(inputs(batch=4), sparsam.cat([theirs, ours]))[0])


def test_a_state_keeps_the_memory_it_was_made_from(model):
    memory = torch.randn(10, 4, dtype=torch.float64)
    kept = memory.clone()
    _, state = model(inputs(), model.initial_state(3, initial_memory=memory))
    fresh = model.initial_state(3, initial_memory=memory)
    memory.add_(1.0)
    _, expected = model(inputs(), model.initial_state(3, initial_memory=kept))
    for one in (state, copy.deepcopy(state.detach()), pickle.loads(pickle.dumps(state.detach()))):
        torch.testing.assert_close(model(inputs(seed=3), one)[0], model(inputs(seed=3), expected)[0])
    torch.testing.assert_close(
        model(inputs(), fresh)[0], model(inputs(), model.initial_state(3, initial_memory=kept))[0]
    )


def test_bad_indices_and_states_are_named(model):
    _, state = model(inputs())
    with pytest.raises(IndexError, match=r"index: expected a batch element in -3..2, got 3"):
        state[3]
    with pytest.raises(ValueError, match=r"index: expected a mask of shape \(B,\) = \(3,\), got \(2,\)"):
        state[torch.tensor([True, False])]
    with pytest.raises(TypeError, match="index: expected integers or a mask"):
        state[torch.tensor([0.5])]
    with pytest.raises(ValueError, match="states: expected at least one state"):
        sparsam.cat([])
    with pytest.raises(TypeError, match="states: expected states of one kind"):
        sparsam.cat([state, 3])
    with pytest.raises(ValueError, match="n: expected a positive int"):
        state.expand(0)
    with pytest.raises(ValueError, match=r"engine: expected one of .*did you mean 'native'"):
        state.to(engine="nativ")


def test_resets_inside_a_sequence_equal_splitting_it_by_hand(model, memory):
    flags = torch.zeros(7, 3, dtype=torch.bool)
    flags[0, 1] = flags[3, 0] = flags[3, 2] = flags[5, 0] = True
    x = inputs(7).requires_grad_()
    lengths = torch.tensor([7, 7, 4])
    results = []
    for by_hand in (False, True):
        _, state = model(inputs(2, seed=3), model.initial_state(3, initial_memory=memory))
        if not by_hand:
            y, end = model(x, state, lengths=lengths, resets=flags)
        else:
            outputs = []
            for t in range(7):
                state = state.reset(flags[t] & (t < lengths))
                active = (t < lengths).long()
                kept = state
                y, state = model(x[t : t + 1], state)
                state = kept.blend(active.bool(), state)
                outputs.append(y * active[None, :, None])
            y, end = torch.cat(outputs), state
        found = torch.autograd.grad(y.square().sum() + end.read.sum(), [x, memory, *model.parameters()])
        results.append([y, *map(dense, found)])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b)


def test_a_second_backward_is_the_first_again_bit_for_bit(model, memory):
    x = inputs(6).requires_grad_()
    wanted = [x, memory, *model.parameters()]
    y, state = model(x, model.initial_state(3, initial_memory=memory))
    first = torch.autograd.grad(y.square().sum(), wanted, retain_graph=True)
    second = torch.autograd.grad(y.square().sum(), wanted, retain_graph=True)
    for a, b in zip(first, second):
        assert torch.equal(dense(a), dense(b))
    other = torch.autograd.grad(y.sum() + state.read.sum(), wanted)
    fresh_y, fresh = model(x, model.initial_state(3, initial_memory=memory))
    for a, b in zip(other, torch.autograd.grad(fresh_y.sum() + fresh.read.sum(), wanted)):
        assert torch.equal(dense(a), dense(b))


def test_a_state_of_a_freed_graph_says_what_to_do(model):
    x = inputs().requires_grad_()
    y, state = model(x)
    y.sum().backward()
    y, _ = model(x, state)
    with pytest.raises(RuntimeError, match=r"state\.detach\(\)|Trying to backward through the graph a second time"):
        y.sum().backward()


def test_outputs_may_be_changed_in_place(model):
    x = inputs().requires_grad_()
    y, _ = model(x)
    expected = torch.autograd.grad((2 * y).sum(), x, retain_graph=True)[0]
    y, _ = model(x)
    y.mul_(2)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], expected)


def test_biases_do_not_share_a_gradient():
    model = model_of()
    y, _ = model(inputs())
    ih, hh = torch.autograd.grad(y.sum(), [model.controller.bias_ih_l0, model.controller.bias_hh_l0])
    kept = hh.clone()
    ih.mul_(3)
    assert torch.equal(hh, kept)


def test_packed_sequences_and_one_without_a_batch(model):
    x, lengths = inputs(5), torch.tensor([2, 5, 3])
    y, state = model(x, lengths=lengths)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    out, other = model(packed)
    padded, ends = torch.nn.utils.rnn.pad_packed_sequence(out)
    torch.testing.assert_close(padded, y)
    assert torch.equal(ends, lengths) and torch.equal(out.batch_sizes, packed.batch_sizes)
    torch.testing.assert_close(other.read, state.read)
    alone, _ = model(x[:, 0])
    torch.testing.assert_close(alone, model(x[:, :1])[0][:, 0])


def test_a_replaced_field_is_checked(model):
    _, state = model(inputs())
    state = state.detach()
    with pytest.raises(ValueError, match="state"):
        model(inputs(), state.with_fields(read_rows=state.read_rows + 100))
    with pytest.raises((ValueError, TypeError), match="state"):
        model(inputs(), state.with_fields(read_rows=state.read_rows.to(torch.int32)))
    with pytest.raises(ValueError, match="state"):
        model(inputs(), state.with_fields(read_weights=state.read_weights[:, :1]))


def test_the_index_that_answered_can_be_asked_for():
    x = torch.randn(12, 2, 3, generator=torch.Generator().manual_seed(0))
    for index, expected in (("linear", "linear"), ("lsh", "lsh"), (sparsam.Auto(exact_until=5), "scan")):
        model = model_of(index=index, memory_size=60, dtype=torch.float32)
        assert model(x)[1].index_used == (expected, expected)
    assert model_of(engine="reference")(inputs())[1].index_used == ("linear",) * 3


def test_an_empty_list_is_an_empty_batch():
    state = sparsam.SAM(3, 2, memory_size=8).initial_state(3)
    assert [state[index].batch_size for index in ([], (), slice(0, 0), torch.tensor([], dtype=torch.int64))] == [0] * 4
