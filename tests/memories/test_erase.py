"""`erase=True`: what was read is erased before it is written, in every engine that has it and refused by the other."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.memories.sam import erased
from tests.beside import assert_same, run, twins

SIZES = dict(memory_size=12, word_size=5, num_heads=2, k=3, erase=True)
MODELS = {
    "sam": lambda **kw: sparsam.SAM(4, 3, 7, **SIZES, **kw),
    "sdnc": lambda **kw: sparsam.SDNC(4, 3, 7, **SIZES, **kw),
    "sdnc with link gradients": lambda **kw: sparsam.SDNC(4, 3, 7, link_gradients=True, **SIZES, **kw),
    "sdnc with free gates": lambda **kw: sparsam.SDNC(4, 3, 7, allocation="free", **SIZES, **kw),
    "layer": lambda **kw: sparsam.SparseMemory(4, 3, **SIZES, **kw),
}


def native_and_reference(name):
    return twins(MODELS[name], start="plain")


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_native_is_the_reference(name, padded):
    native, reference = native_and_reference(name)
    x, memory = torch.randn(14, 3, 4).double(), torch.randn(12, 5).double()
    how = {"memory": memory, "lengths": torch.tensor([14, 5, 9]) if padded else None}
    assert_same(native, run(native, x, **how), run(reference, x, **how), 1e-9)


def test_one_step_for_a_controller_of_ones_own_is_the_references():
    native, reference = native_and_reference("sam")
    for model in (native, reference):
        model.interface.register_forward_hook(lambda module, given, vector: vector)  # so that it is called step by step
    x, memory = torch.randn(8, 2, 4).double(), torch.randn(12, 5).double()
    assert_same(native, run(native, x, memory=memory), run(reference, x, memory=memory), 1e-9)


@pytest.mark.parametrize("name", ["sam", "sdnc", "sdnc with free gates"])
def test_backward_ends_on_the_starting_memory_bit_for_bit(name):
    model = native_and_reference(name)[0].float()

    def contents(state):
        rows, words = state.memory._written(0)
        return rows.tolist(), words.numpy().tobytes()

    with torch.no_grad():
        _, start = model(torch.randn(9, 1, 4))
    before = contents(start)
    y, after = model(torch.randn(20, 1, 4), start)
    end = contents(after)
    y.sum().backward()
    assert start.memory.versions[0].is_current and contents(start) == before
    assert contents(after) == end != before


def test_gradients_by_differences():
    torch.manual_seed(0)
    words, gates, weights = torch.randn(1, 4, 3), torch.rand(1, 2), torch.rand(1, 2, 2)
    rows = torch.tensor([[[0, 2], [2, -1]]])  # both heads read row 2
    given = [value.double().requires_grad_() for value in (words, gates, weights)]
    assert torch.autograd.gradcheck(lambda m, e, w: erased(m, e, rows, w), given)
    m, e, w = given
    found = erased(m, e, rows, w)
    torch.testing.assert_close(found[0, 2], m[0, 2] * (1 - e[0, 0] * w[0, 0, 1]) * (1 - e[0, 1] * w[0, 1, 0]))
    torch.testing.assert_close(found[0, 0], m[0, 0] * (1 - e[0, 0] * w[0, 0, 0]))
    assert torch.equal(found[0, [1, 3]], m[0, [1, 3]])


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_word_that_was_read_is_replaced(engine):
    """A head that reads one word, with all gates open: its write word takes the place of what it read."""
    model = sparsam.SparseMemory(2, 2, memory_size=4, word_size=2, num_heads=1, k=1, conv=0, erase=True, engine=engine)
    at = model.memory.interface.offsets()
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias.zero_()
        model.interface.weight[at["query"] : at["query"] + 2] = torch.eye(2)
        for name in ("write_gate", "interpolation", "erase"):
            model.interface.bias[at[name]] = 60.0
        model.interface.bias[at["write_word"] : at["write_word"] + 2] = torch.tensor([3.0, -4.0])
    memory = torch.tensor([[0.0, 0.0], [0.0, 0.0], [5.0, 0.0], [0.0, 7.0]])
    x = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])  # read row 2, then write there and read row 3
    _, state = model(x, model.initial_state(1, memory))
    words = state.to(engine="reference").memory.words[0]
    torch.testing.assert_close(words[2], torch.tensor([3.0, -4.0]))
    torch.testing.assert_close(words[3], torch.tensor([0.0, 7.0]))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_shut_gates_leave_the_papers_equation(engine):
    torch.manual_seed(0)
    model = sparsam.SAM(4, 3, 7, **SIZES, engine=engine)
    plain = sparsam.SAM(4, 3, 7, **(SIZES | {"erase": False}), engine=engine)
    at = model.memory.interface.offsets()["erase"]
    weights = model.state_dict()
    for name in ("interface.weight", "interface.bias"):
        weights[name][at:] = 0.0 if name.endswith("weight") else -200.0
        weights[name] = weights[name].clone()
    model.load_state_dict(weights)
    plain.load_state_dict({n: v[:at] if n.startswith("interface") else v for n, v in weights.items()})
    x = torch.randn(10, 2, 4)
    torch.testing.assert_close(model(x)[0], plain(x)[0])


def test_the_gpu_engine_says_that_it_has_it_not(monkeypatch):
    pytest.importorskip("triton")
    from sparsam.engines.cuda import engine

    monkeypatch.setattr(engine, "interpreted", lambda: True)
    with pytest.raises(RuntimeError, match="it has no erase=True"):
        sparsam.SAM(4, 3, 7, **SIZES, engine="cuda")(torch.randn(2, 1, 4))


def test_it_is_shown_and_is_true_or_false():
    assert "erase=True" in repr(sparsam.SAM(4, 3, 7, **SIZES))
    assert "erase" not in repr(sparsam.SAM(4, 3, 7))
    with pytest.raises(TypeError, match="erase: expected True or False"):
        sparsam.SAM(4, 3, erase=1)
