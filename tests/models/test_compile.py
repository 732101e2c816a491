"""Models under `torch.compile(fullgraph=True)`: the same numbers and gradients, static and dynamic, states in and out.

The backend is "aot_eager", which traces and differentiates as "inductor" does and generates no code.
"""

from __future__ import annotations

import gc

import pytest
import torch

import sparsam
from sparsam.engines.native import names

SIZES = {"memory_size": 20, "word_size": 5, "num_heads": 2, "k": 3}
MODELS = {
    "sam": lambda **kwargs: sparsam.SAM(4, 3, hidden_size=6, **SIZES, **kwargs),
    "sam with gru": lambda **kwargs: sparsam.SAM(4, 3, hidden_size=6, controller="gru", **SIZES, **kwargs),
    "sam, feed-forward": lambda **kwargs: sparsam.SAM(4, 3, hidden_size=6, controller="feedforward", **SIZES, **kwargs),
    "sam step by step": lambda **kwargs: sparsam.SAM(
        4, 3, hidden_size=6, controller="feedforward", num_layers=2, **SIZES, **kwargs
    ),
    "sdnc": lambda **kwargs: sparsam.SDNC(4, 3, hidden_size=6, **SIZES, **kwargs),
    "sdnc with link gradients and free gates": lambda **kwargs: sparsam.SDNC(
        4, 3, hidden_size=6, link_gradients=True, allocation="free", **SIZES, **kwargs
    ),
    "layer": lambda **kwargs: sparsam.SparseMemory(4, 3, **SIZES, **kwargs),
    "layer with links": lambda **kwargs: sparsam.SparseMemory(4, 3, links=3, **SIZES, **kwargs),
}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(module, **kwargs):
    return torch.compile(module, fullgraph=True, backend="aot_eager", **kwargs)


def gradients(loss, model, *more):
    wanted = [*model.parameters(), *more]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g.to_dense() for p, g in zip(wanted, found)]


def loss_of(y, state):
    return y.square().sum() + sum(v.sum() for n, v in state.values() if n in ("hidden", "cell", "read"))


def assert_all_equal(ours, theirs, **kwargs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **kwargs)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "layer"])  # with links says more
def test_a_compiled_model_gives_the_numbers_and_gradients_of_an_eager_one(name):
    model = MODELS[name](engine="native").double()
    x = torch.randn(5, 2, 4, dtype=torch.float64, requires_grad=True)
    first, middle = model(x)
    again, last = model(x, middle)
    expected = gradients(loss_of(again, last) + first.sum(), model, x)

    def two_calls(x):
        first, middle = model(x)
        again, last = model(x, middle)
        return first, again, last

    got_first, got_again, got_last = compiled(two_calls)(x)
    # A layer's linear maps are torch's own in a graph, and the core's outside, which may round in another order.
    exact = {"rtol": 1e-12, "atol": 1e-14} if name.startswith("layer") else {"rtol": 0, "atol": 0}
    assert_all_equal([got_first, got_again], [first, again], **exact)
    assert_all_equal(gradients(loss_of(got_again, got_last) + got_first.sum(), model, x), expected, rtol=1e-10, atol=0)
    for b in range(2):
        assert_all_equal(got_last.memory_rows(b), last.memory_rows(b), **exact)


@pytest.mark.parametrize(("name", "steps"), [("sam", 2), ("sdnc", 1), ("layer", 1)])
def test_the_reference_compiles_whole(name, steps):
    model = MODELS[name](engine="reference")
    x = torch.randn(steps, 2, 4)
    y, state = model(x)
    call = compiled(model)
    got, after = call(x)
    assert_all_equal([got, *gradients(loss_of(got, after), model)], [y, *gradients(loss_of(y, state), model)])
    if steps > 1:
        lengths = torch.tensor([1, 2])
        torch.testing.assert_close(call(x, after.detach(), lengths)[0], model(x, state.detach(), lengths)[0])


@pytest.mark.parametrize("name", ["sdnc", "layer"])
def test_length_and_batch_are_dynamic(name):
    model = MODELS[name](engine="native")
    call = compiled(model, dynamic=True)
    for steps, batch in ((5, 2), (7, 3)):
        x = torch.randn(steps, batch, 4)
        y, state = model(x)
        got, after = call(x)
        assert_all_equal([got, *gradients(got.sum(), model)], [y, *gradients(y.sum(), model)])
        torch.testing.assert_close(call(x, after.detach())[0], model(x, state)[0])
    with torch._dynamo.config.patch(error_on_recompile=True):
        x = torch.randn(11, 6, 4)
        got, after = call(x)
        torch.testing.assert_close(got, model(x)[0])
        call(x, after.detach())


def test_gradients_flow_from_call_to_call():
    """Through the memory too: of two compiled calls, and of a compiled and an eager one in either order."""
    model = MODELS["sam"](engine="native").double()
    call = compiled(model)
    call(torch.randn(3, 2, 4, dtype=torch.float64))  # from here on eager calls name their memories
    x = torch.randn(6, 2, 4, dtype=torch.float64)
    expected = gradients(model(x)[0][3:].sum(), model)
    for begin, end in ((call, call), (call, model), (model, call)):
        _, state = begin(x[:3])
        y, _ = end(x[3:], state)
        assert_all_equal(gradients(y.sum(), model), expected)


def test_link_gradients_stay_on_their_side():
    model = MODELS["sdnc with link gradients and free gates"](engine="native")
    call, x = compiled(model), torch.randn(3, 2, 4)
    _, state = call(x)
    with pytest.raises(RuntimeError, match=r"state: expected state\.detach\(\)"):
        model(x, state)
    _, eager = model(x, state.detach())
    with pytest.raises(Exception, match=r"state: expected state\.detach\(\)"):
        call(x, eager)
    call(x, eager.detach())


def test_two_futures_of_one_memory_are_refused_where_gradients_meet():
    model = MODELS["sam"](engine="native")
    x = torch.randn(3, 2, 4)

    def forked(x):
        _, state = model(x)
        return model(x, state)[0].sum() + model(2 * x, state)[0].sum()

    with pytest.raises(RuntimeError, match=r"state: expected one use of a memory.*state\.detach"):
        compiled(forked)(x).backward()


class Containing(torch.nn.Module):
    """A user's model that contains one."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.memory = MODELS["sam"](engine="native")

    def forward(self, x):
        y, _ = self.memory(torch.relu(self.inner(x)))
        return y.sum(dim=-1)


def test_a_model_that_contains_one_goes_backward_and_a_second_time_runs_the_sequence_again():
    model, x = Containing(), torch.randn(4, 2, 4)
    y, expected = compiled(model)(x), model(x)
    torch.testing.assert_close(y, expected)
    first = torch.autograd.grad(y.sum(), list(model.parameters()), retain_graph=True)
    assert_all_equal(first, gradients(expected.sum(), model))
    assert_all_equal(torch.autograd.grad(y.sum(), list(model.parameters())), first, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["sam", "layer"])
def test_lengths_resets_and_unbatched_input(name):
    model = MODELS[name](engine="native")
    call = compiled(model)
    x, lengths = torch.randn(4, 3, 4), torch.tensor([1, 4, 3])
    resets = torch.zeros(4, 3, dtype=torch.bool)
    resets[2, 1] = resets[0, 0] = True
    for more in ({"lengths": lengths}, {"resets": resets}, {"lengths": lengths, "resets": resets}):
        y, state = model(x, **more)
        got, after = call(x, **more)
        torch.testing.assert_close(got, y)
        assert_all_equal(gradients(loss_of(got, after), model), gradients(loss_of(y, state), model))
    torch.testing.assert_close(call(x[:, 0])[0], model(x[:, 0])[0])
    with pytest.raises(RuntimeError, match=r"lengths: expected values in 1\.\.T"):
        call(x, lengths=torch.tensor([1, 9, 3]))


def test_a_starting_memory_and_its_gradient():
    model = MODELS["sam"](engine="native").double()
    words = torch.randn(20, 5, dtype=torch.float64, requires_grad=True)
    x = torch.randn(4, 2, 4, dtype=torch.float64)

    def begun(x, words):
        return model(x, model.initial_state(2, words))[0]

    expected = gradients(begun(x, words).sum(), model, words)
    got = compiled(begun)(x, words)
    assert_all_equal(gradients(got.sum(), model, words), expected)
    made = model.initial_state(2, words)  # outside
    assert_all_equal(gradients(compiled(model)(x, made)[0].sum(), model, words), expected)


def test_hooks_and_replaced_modules_are_honoured():
    model = MODELS["sam"](engine="native")
    x = torch.randn(3, 2, 4)
    plain = compiled(model)(x)[0]
    model.output.register_forward_hook(lambda module, given, result: 2 * result)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(model)(x)[0], 2 * plain)
    model.interface = torch.nn.Linear(6, model.memory.interface.size, bias=False)
    torch.testing.assert_close(compiled(model)(x)[0], model(x)[0])


def test_states_are_freed_and_can_be_saved(tmp_path):
    gc.collect()
    before = len(names.TABLE)
    model = MODELS["sdnc"](engine="native")
    call = compiled(model)
    x = torch.randn(3, 2, 4)
    y, state = call(x)
    y.sum().backward()
    state = state.detach()
    torch.save(state, tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt")
    torch.testing.assert_close(call(x, loaded)[0], model(x, state)[0])
    torch.testing.assert_close(model(x, state.to(engine="reference").to(engine="native"))[0], model(x, state)[0])
    for _ in range(5):
        state = call(x, state)[1].detach()
    del y, state, loaded
    gc.collect()
    assert len(names.TABLE) == before


def test_an_eager_state_is_taken_or_refused():
    model = MODELS["sam"](engine="native")
    call = compiled(model)
    x = torch.randn(3, 2, 4)
    names.TABLE.in_use = False
    _, state = model(x)
    state = state.detach()
    with pytest.raises(Exception, match=r"state\.to\(engine='native'\)"):
        call(x, state)
    torch.testing.assert_close(call(x, state.to(engine="native"))[0], model(x, state)[0])
    torch.testing.assert_close(call(x, model.initial_state(2))[0], model(x)[0])
    with pytest.raises(Exception, match="record no accesses"):
        torch.compile(model.trace, fullgraph=True, backend="aot_eager")(x)
