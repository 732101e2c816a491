"""The contract of all models, on every engine that can run them: sequences, states, lengths, gradients, storage."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle

import pytest
import torch
from torch.func import functional_call

import sparsam
from sparsam.models import MODELS

STEPS, BATCH = 6, 3


def inputs(steps=STEPS, batch=BATCH, seed=5):
    return torch.randn(steps, batch, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def dense(gradient):
    """Gradients of a memory may come as sparse tensors."""
    return gradient.to_dense() if gradient.is_sparse else gradient


def gradients(model, loss, *extra):
    wanted = [*model.parameters(), *extra]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(w) if g is None else dense(g) for w, g in zip(wanted, found)]


def weighted(y):
    """A loss in which every output counts differently."""
    return (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum()


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def assert_same_state(ours, theirs):
    """Tensors that every engine shows, and the memory through `memory_rows`."""
    for (name, a), (_, b) in zip(ours.values(), theirs.values()):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=lambda m, name=name: f"{name}: {m}")
    if hasattr(ours, "memory"):
        for b in range(ours.batch_size):
            assert_same(ours.memory_rows(b), theirs.memory_rows(b))


def gradients_are_right(case, run, values, fast_mode=False):
    """`torch.autograd.gradcheck`; elsewhere than in the reference along one random direction of the outputs.

    Engines that roll the memory back in place go backward once per forward pass; `gradcheck` does so once per output.
    """
    if case.engine == "reference":
        return torch.autograd.gradcheck(run, values, fast_mode=fast_mode)

    def loss():
        outputs = run(*values)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        generator = torch.Generator().manual_seed(11)
        return sum((y * torch.randn(y.shape, dtype=y.dtype, generator=generator)).sum() for y in outputs)

    wanted = [value for value in values if value.requires_grad]
    for value, gradient in zip(wanted, torch.autograd.grad(loss(), wanted)):
        numeric = []
        for i in range(value.numel()):
            with torch.no_grad():
                flat, kept = value.view(-1), value.view(-1)[i].item()
                flat[i] = kept + 1e-6
                above = loss()
                flat[i] = kept - 1e-6
                below = loss()
                flat[i] = kept
            numeric.append((above - below).item() / 2e-6)
        expected = torch.tensor(numeric, dtype=value.dtype).view(value.shape)
        torch.testing.assert_close(dense(gradient), expected, rtol=1e-5, atol=1e-7)
        assert expected.abs().max() > 0
    return True


def differentiable(case):
    """A model whose outputs depend strongly on everything, and that differentiates all they depend on."""
    plain = {"start": "plain"} if case.has_memory else {}  # gates that are nearly shut let little through
    model = case.make(**plain, **({"link_gradients": True} if case.name == "sdnc" else {}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model


def start(case, model, batch=BATCH, scale=1.0):
    """A state with a memory that is not blank, so that nothing is tied."""
    if not case.has_memory:
        return model.initial_state(batch)
    generator = torch.Generator().manual_seed(3)
    memory = torch.randn(batch, model.memory_size, model.word_size, dtype=torch.float64, generator=generator)
    return model.initial_state(batch, initial_memory=memory * scale)


def test_output_shape_and_dtype(case):
    y, state = case.make()(inputs())
    assert y.shape == (STEPS, BATCH, 2) and y.dtype == torch.float64
    assert state.batch_size == BATCH and state.hidden.shape == (BATCH, 4)


def test_float32(case):
    model = case.make()
    y64, _ = model(inputs())
    y32, _ = model.float()(inputs().float())
    assert y32.dtype == torch.float32
    torch.testing.assert_close(y32.double(), y64, rtol=1e-3, atol=1e-4)


def test_no_grad_gives_the_same_outputs(case):
    model = case.make()
    y, _ = model(inputs())
    with torch.no_grad():
        z, state = model(inputs())
    assert not z.requires_grad and not state.hidden.requires_grad
    assert_same([y], [z])


def test_initial_state_is_what_a_call_without_one_starts_from(case):
    model = case.make()
    assert_same([model(inputs())[0]], [model(inputs(), model.initial_state(BATCH))[0]])


@pytest.mark.parametrize("cut", range(1, STEPS))
def test_two_calls_equal_one(case, cut):
    model, x = case.make(), inputs().requires_grad_()
    whole, last = model(x, start(case, model))
    expected = gradients(model, weighted(whole), x)
    first, state = model(x[:cut], start(case, model))
    second, state = model(x[cut:], state)
    both = torch.cat([first, second])
    assert_same([both], [whole])
    assert_same(gradients(model, weighted(both), x), expected)
    assert_same_state(state, last)


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_detach_cuts_the_gradient_and_nothing_else(case, cut):
    model, x = case.make(), inputs().requires_grad_()
    whole, last = model(x, start(case, model))
    tail = torch.autograd.grad(weighted(whole[cut:]), x)[0]
    _, state = model(x[:cut], start(case, model))
    second, state = model(x[cut:], state.detach())
    assert_same([second], [whole[cut:]])
    assert_same_state(state, last)
    cut_off = torch.autograd.grad(weighted(second), x)[0]
    assert_same([cut_off[cut:]], [tail[cut:]])
    assert tail[:cut].abs().max() > 0 and cut_off[:cut].abs().max() == 0


def test_padded_batch_equals_each_sequence_alone(case):
    model, lengths = case.make(), [2, 6, 4]
    x = inputs()
    for b, length in enumerate(lengths):
        x[length:, b] = torch.nan  # padding may hold anything
    x.requires_grad_()
    y, state = model(x, start(case, model), lengths=torch.tensor(lengths))
    more, _ = model(inputs(2, seed=8), state)
    loss, alone_loss = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for b, length in enumerate(lengths):
        memory = {}
        if case.has_memory:
            generator = torch.Generator().manual_seed(3)
            shape = (BATCH, model.memory_size, model.word_size)
            memory["initial_memory"] = torch.randn(shape, dtype=torch.float64, generator=generator)[b]
        alone, alone_state = model(x[:length, b : b + 1], model.initial_state(1, **memory))
        assert_same([y[:length, b : b + 1]], [alone])
        assert (y[length:, b] == 0).all()
        assert_same([more[:, b : b + 1]], [model(inputs(2, seed=8)[:, b : b + 1], alone_state)[0]])
        loss = loss + weighted(y[:length, b])
        alone_loss = alone_loss + weighted(alone[:, 0])
    expected = gradients(model, alone_loss, x)
    assert_same(gradients(model, loss, x), expected)


def test_batch_first_swaps_the_first_two_dimensions(case):
    x = inputs()
    y, _ = case.make()(x)
    swapped, _ = case.make(batch_first=True)(x.transpose(0, 1))
    assert_same([swapped.transpose(0, 1)], [y])


def test_reset_starts_some_elements_anew(case):
    model, x, mask = case.make(), inputs(), torch.tensor([True, False, True])
    _, state = model(x, start(case, model))
    before, _ = model(inputs(seed=9), state.clone())
    fresh, _ = model(inputs(seed=9), start(case, model))
    after, end = model(inputs(seed=9), state.reset(mask))
    assert_same([after[:, mask], after[:, ~mask]], [fresh[:, mask], before[:, ~mask]])
    if case.has_memory:
        expected = model(inputs(seed=9), start(case, model))[1]
        assert_same(end.memory_rows(0), expected.memory_rows(0))


def test_reset_of_a_fresh_state_changes_nothing(memory_case):
    model = memory_case.make()
    _, state = model(inputs(), start(memory_case, model))
    assert state.memory_rows(1)[0].numel() > 0
    rows, words = state.reset(torch.tensor([False, True, False])).memory_rows(1)
    assert rows.numel() == 0 and words.shape == (0, model.word_size)


def test_clones_live_apart(case):
    model = case.make()
    _, state = model(inputs(), start(case, model))
    copied = state.clone()
    first, _ = model(inputs(seed=9), copied)
    with torch.no_grad():
        copied.hidden.fill_(7.0)
    second, _ = model(inputs(seed=9), state)
    assert_same([second], [first])


def test_an_old_state_gives_the_right_answer_or_an_error(case):
    model = case.make()
    _, state = model(inputs(), start(case, model))
    first, _ = model(inputs(seed=9), state)
    try:
        second, _ = model(inputs(seed=9), state)
    except RuntimeError as error:
        assert case.engine != "reference" and "state" in str(error)
    else:
        assert_same([second], [first])


def test_state_changes_dtype(case):
    model = case.make()
    _, state = model(inputs(), start(case, model))
    expected, _ = model(inputs(seed=9), state.clone())
    model32 = case.make().float()
    y, _ = model32(inputs(seed=9).float(), state.detach().to(torch.float32))
    torch.testing.assert_close(y.double(), expected, rtol=1e-3, atol=1e-4)


def test_state_goes_through_torch_save(case):
    model, file = case.make(), io.BytesIO()
    _, state = model(inputs(), start(case, model))
    torch.save(state.detach(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert type(loaded) is type(state)
    assert_same_state(loaded, state)
    assert_same([model(inputs(seed=9), loaded)[0]], [model(inputs(seed=9), state)[0]])
    mask = torch.tensor([True, True, True])
    assert_same(
        [model(inputs(), loaded.reset(mask))[0]], [model(inputs(), start(case, model))[0]]
    )  # it remembers its start


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_models_are_copied_and_pickled(case, duplicate):
    model = case.make()
    model(inputs())  # a model that has run is as copyable as a new one
    twin = duplicate(model)
    assert_same([twin(inputs())[0]], [model(inputs())[0]])
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
    assert not torch.allclose(twin(inputs())[0], model(inputs())[0])


def test_state_dict_carries_over_to_another_model(case):
    model, other = case.make(), case.make()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    other.load_state_dict(model.state_dict())
    assert_same([other(inputs())[0]], [model(inputs())[0]])


def test_parameter_names_and_shapes(case):
    model = case.make()
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    heads, width, reads = 2, 4, 8 if case.has_memory else 0
    interface = {
        "lstm": None,
        "sam": 2 * heads * width + 3 * heads,
        "dam": 2 * heads * width + 3 * heads,
        "sdnc": 2 * heads * width + 6 * heads,
        "ntm": 2 * heads * (width + 6) + 2 * heads * width,
        "dnc": heads * width + 3 * width + 5 * heads + 3,
    }[case.name]
    expected = {
        "controller.weight_ih_l0": (16, 3 + reads),
        "controller.weight_hh_l0": (16, 4),
        "controller.bias_ih_l0": (16,),
        "controller.bias_hh_l0": (16,),
        "output.weight": (2, 4 + reads),
        "output.bias": (2,),
    }
    if interface is not None:
        expected |= {"interface.weight": (interface, 4), "interface.bias": (interface,)}
    if case.name == "ntm":
        expected |= {"initial_read": (heads, width)}
    assert shapes == expected


def test_initial_memory_is_shared_or_given_per_element(memory_case):
    model = memory_case.make()
    shared = torch.randn(model.memory_size, model.word_size, dtype=torch.float64, requires_grad=True)
    each = shared.detach().expand(BATCH, -1, -1).clone().requires_grad_()
    y, state = model(inputs(), model.initial_state(BATCH, initial_memory=shared))
    z, other = model(inputs(), model.initial_state(BATCH, initial_memory=each))
    assert_same([y], [z])
    assert_same_state(state, other)
    (ours,), (theirs,) = torch.autograd.grad(weighted(y), shared), torch.autograd.grad(weighted(z), each)
    assert dense(ours).abs().max() > 0
    assert_same([dense(ours)], [dense(theirs).sum(0)])


def test_memory_rows_are_those_that_changed(sparse_case):
    model = sparse_case.make(num_heads=1)
    memory = torch.randn(model.memory_size, model.word_size, dtype=torch.float64)
    _, state = model(inputs(1), model.initial_state(BATCH, initial_memory=memory))
    rows, words = state.memory_rows(0)
    assert rows.tolist() == [0]  # the first row of the ring, erased and written; there was no read before
    assert words.shape == (1, model.word_size) and not torch.allclose(words[0], memory[0])


def test_the_caller_keeps_its_tensors(case):
    model, x = case.make(), inputs()
    kept = x.clone()
    memory = torch.randn(9, 4, dtype=torch.float64) if case.has_memory else None
    kept_memory = None if memory is None else memory.clone()
    y, _ = model(x.requires_grad_(), model.initial_state(BATCH, initial_memory=memory))
    weighted(y).backward()
    assert torch.equal(x, kept)
    if memory is not None and kept_memory is not None:
        assert torch.equal(memory, kept_memory)


def test_gradcheck_inputs_and_initial_memory(case):
    model, x = differentiable(case), inputs(4, 2).requires_grad_()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if not case.has_memory:
        assert gradients_are_right(case, lambda x: model(x)[0], (x,))
        return
    memory = torch.randn(model.memory_size, model.word_size, dtype=torch.float64, requires_grad=True)

    def run(x, memory):
        return model(x, model.initial_state(2, initial_memory=memory))[0]

    assert gradients_are_right(case, run, (x, memory))


def test_gradcheck_parameters(case):
    model = differentiable(case)
    given = {n: p for n, p in model.named_parameters() if n != "initial_read"}  # not used after a state
    names, values = list(given), [p.detach().clone().requires_grad_() for p in given.values()]
    state = start(case, model, 2)

    def run(*values):
        return functional_call(model, dict(zip(names, values)), (inputs(3, 2), state.detach().clone()))[0]

    assert gradients_are_right(case, run, values, fast_mode=True)


def test_gradcheck_initial_state(case):
    model = differentiable(case)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    _, state = model(inputs(3, 2), start(case, model, 2))
    state = state.detach()
    names = [name for name, v in state.values() if isinstance(v, torch.Tensor) and v.is_floating_point()]
    constant = {("dam", "usage")}  # it only selects rows
    values = [v.clone().requires_grad_((case.name, n) not in constant) for n, v in state.values() if n in names]

    def run(*values):
        y, end = model(inputs(3, 2, seed=6), state.clone().with_fields(**dict(zip(names, values))))
        return y, end.hidden, end.cell

    assert gradients_are_right(case, run, values)


def test_gradients_reach_the_final_state(memory_case):
    model, x = differentiable(memory_case), inputs(3, 2).requires_grad_()
    for parameter in model.parameters():
        parameter.requires_grad_(False)

    def run(x):
        _, state = model(x, start(memory_case, model, 2))
        return state.hidden, state.cell, state.read, state.read_weights

    assert gradients_are_right(memory_case, run, (x,))


def test_trace_is_a_sparse_record(case):
    model = case.make()
    trace = model.trace(inputs(), lengths=[2, 6, 4])
    columns = [getattr(trace, f.name) for f in dataclasses.fields(trace)]
    assert len({column.numel() for column in columns}) == 1
    if not case.has_memory:
        assert len(trace) == 0
        return
    assert trace.kind.dtype == torch.int8 and trace.row.dtype == torch.int64
    assert (trace.time < torch.tensor([2, 6, 4])[trace.batch]).all()
    assert trace.row.min() >= 0 and trace.row.max() < model.memory_size
    assert trace.weight.min() > 0 and trace.weight.max() <= 1 + 1e-9
    reads = trace.reads(1)
    assert (reads.batch == 1).all() and (reads.kind == 0).all() and reads.time.unique().tolist() == list(range(6))
    writes = trace.writes(1)
    assert (writes.kind == 1).all() and len(writes) > 0
    assert len(trace.reads()) + len(trace.writes()) == len(trace)
    per_head = torch.bincount(reads.time * 2 + reads.head)
    assert per_head.max() <= (model.k if case.name in ("sam", "sdnc") else 8)


def test_trace_of_sam_names_the_rows_that_were_read(engine, make):
    model = make("sam", engine=engine, num_heads=1)
    state = model.initial_state(2, initial_memory=torch.randn(9, 4, dtype=torch.float64))
    trace = model.trace(inputs(1, 2), state)
    _, after = model(inputs(1, 2), state)
    for b in range(2):
        reads = trace.reads(b)
        assert dict(zip(reads.row.tolist(), reads.weight.tolist())) == pytest.approx(
            dict(zip(after.read_rows[b, 0].tolist(), after.read_weights[b, 0].tolist()))
        )
        assert reads.weight.sum() == pytest.approx(1.0)
        assert trace.writes(b).row.tolist() == [0]


@pytest.mark.parametrize("kind", [*MODELS.values(), sparsam.SparseMemory])
def test_an_unknown_argument_says_which_one_was_meant(kind):
    with pytest.raises(TypeError, match=f"engin: expected an argument of {kind.__name__}, got 'engin'; .* 'engine'"):
        kind(3, 2, engin="auto")
    with pytest.raises(TypeError, match=r"zzz: expected an argument of .* \(input_size, "):
        kind(3, 2, zzz=1)


def test_a_subclass_may_take_arguments_of_its_own():
    class Named(sparsam.SAM):
        def __init__(self, *args, label, **kwargs):
            super().__init__(*args, **kwargs)
            self.label = label

    assert copy.deepcopy(Named(3, 2, memory_size=8, label="x")).label == "x"
    with pytest.raises(TypeError, match="unexpected keyword argument 'hidden'"):
        Named(3, 2, hidden=8, label="x")
