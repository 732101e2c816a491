"""Options of later work: off by default and without a trace, each with the effect its paper describes."""

from __future__ import annotations

import warnings

import pytest
import torch

import sparsam
from sparsam import engines
from sparsam.memories.addressing import similarity
from sparsam.model_description import Description
from sparsam.models import MODELS

EVERYWHERE = {"masked": True, "layer_norm": True, "bypass_dropout": 0.5}
CASES = [(name, option) for name in ("sam", "dnc", "sdnc") for option in EVERYWHERE] + [("dnc", "deallocate")]
VALUES = {**EVERYWHERE, "deallocate": True}


def sequence(steps=5):
    return torch.randn(steps, 2, 3, dtype=torch.float64)


@pytest.mark.parametrize("name", ["sam", "dnc", "sdnc"])
def test_off_by_default_and_without_parameters(make, name):
    model = make(name)
    assert model.options_in_use() == []
    assert [key for key, _ in model.named_parameters()] == [
        *(f"controller.{part}_l0" for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")),
        "interface.weight",
        "interface.bias",
        "output.weight",
        "output.bias",
    ]


@pytest.mark.parametrize("name,option", CASES)
def test_each_changes_the_outputs_and_learns(make, name, option):
    x = sequence()
    model = make(name, **{option: VALUES[option]})
    assert model.options_in_use() == [f"{option}={VALUES[option]}"] and option in repr(model)
    memory = torch.randn(9, 4, dtype=torch.float64)
    y, _ = model(x, model.initial_state(2, initial_memory=memory))
    plain = make(name)
    shared = {key: value for key, value in model.state_dict().items() if not key.startswith("controller.norm")}
    rows = plain.interface.weight.shape[0]
    shared = {key: value[:rows] if key.startswith("interface") else value for key, value in shared.items()}
    plain.load_state_dict(shared)  # what both have in common has the same names, and the same rows come first
    assert not torch.allclose(y, plain(x, plain.initial_state(2, initial_memory=memory))[0])
    gradients = torch.autograd.grad(y.square().sum(), list(model.parameters()))
    assert all(gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.parametrize("name,option", [case for case in CASES if case[1] != "bypass_dropout"])
def test_gradcheck(make, name, option):
    links = {"link_gradients": True} if name == "sdnc" else {}  # constants for the gradient otherwise
    model = make(name, **{option: VALUES[option]}, **links, memory_size=6)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    memory = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    x = sequence(3).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, m: model(x, model.initial_state(2, initial_memory=m))[0], (x, memory))


@pytest.mark.parametrize("name,option", CASES)
def test_checkpoints_carry_over(make, name, option, tmp_path):
    model = make(name, **{option: VALUES[option]}).eval()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other = make(name, **{option: VALUES[option]}).eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    x = sequence()
    assert torch.equal(model(x)[0], other(x)[0])


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_the_native_engine_says_which_one_it_lacks(make, name):
    model = make(name, engine="native", masked=True)
    if engines.why_not("native", make(name)) is not None:
        pytest.skip("the native engine is not built here")
    with pytest.raises(RuntimeError, match="it has no masked=True"):
        model(sequence())
    model.engine = "auto"  # takes one that can
    model(sequence())


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_a_normalised_controller_runs_step_by_step_beside_a_native_memory(make, name):
    if engines.why_not("native", make(name)) is not None:
        pytest.skip("the native engine is not built here")
    x, results = sequence().requires_grad_(), []
    for engine in ("reference", "native"):
        model = make(name, engine=engine, layer_norm=True)
        y, _ = model(x)
        results.append([y, *torch.autograd.grad(y.square().sum(), [x, *model.parameters()])])
    assert model.engine_used == "native" and "step by step" in model.engine_plan
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["sam", "dnc", "sdnc"])
def test_dropout_is_for_training_alone(make, name):
    x = sequence()
    model = make(name, bypass_dropout=0.5)
    assert not torch.equal(model(x)[0], model(x)[0])
    model.eval()
    torch.testing.assert_close(model(x)[0], make(name)(x)[0], rtol=0, atol=0)


def test_a_freed_word_of_the_dnc_is_blank(make):
    """One word that all heads read and free: gone with `deallocate`, still there without."""
    left = []
    for deallocate in (False, True):
        model = make("dnc", memory_size=2, num_heads=1, deallocate=deallocate)
        with torch.no_grad():
            model.interface.weight.zero_()
            model.interface.bias.zero_()
            start = 4 + 1 + 4 + 1 + 4 + 4  # read key, strength, write key, strength, erase, write word
            model.interface.bias[start] = 1e3  # free gate
            model.interface.bias[start + 2] = -1e3  # nothing is written
        state = model.initial_state(1, initial_memory=torch.ones(2, 4, dtype=torch.float64))
        state = type(state)(**{**dict(state.values()), "read_weights": torch.tensor([[[1.0, 0.0]]]).double()})
        left.append(model(torch.zeros(1, 1, 3, dtype=torch.float64), state)[1].memory[0, :, 0].tolist())
    assert left == [[1.0, 1.0], [0.0, 1.0]]


def test_sam_reads_by_the_masked_part_of_its_query(make):
    model = make("sam", masked=True, num_heads=1, k=1, memory_size=3)
    with torch.no_grad():
        model.interface.weight.zero_()
        model.interface.bias.zero_()
        model.interface.bias[:4] = torch.tensor([3.0, 4.0, 7.0, 7.0])
        model.interface.bias[9] = -1e3  # alpha = 0: nothing is added, row 0 is cleared
        model.interface.bias[-4:] = torch.tensor([1e3, 1e3, -1e3, -1e3])
    memory = torch.tensor([[9.0] * 4, [7.0] * 4, [3.0, 4.0, -5.0, 1.0]], dtype=torch.float64)
    _, state = model(torch.zeros(1, 1, 3, dtype=torch.float64), model.initial_state(1, initial_memory=memory))
    assert state.read_rows.flatten().tolist() == [2]
    query = model.interface.bias[None, None, :4].detach()
    assert similarity("cosine", query, memory[None]).argmax() != 2


def test_bad_values_are_named():
    with pytest.raises(ValueError, match="bypass_dropout"):
        sparsam.DNC(3, 2, bypass_dropout=1.5)


SPARSE = ("num_heads * (k + 1)", 15)
FEWEST = {"sam": SPARSE, "sdnc": SPARSE, "layer": SPARSE, "dam": ("2 * num_heads", 6), "ntm": ("2 * num_heads", 6)}


@pytest.mark.parametrize("kind, formula, fewest", [(k, *f) for k, f in {**FEWEST, "dnc": ("num_heads + 1", 4)}.items()])
def test_a_memory_too_small_for_what_a_step_accesses_says_so_at_construction(kind, formula, fewest):
    """By name, by class, by a subclass of the user's, and from a file's description: each points at the line here."""
    kinds = sparsam.SparseMemory if kind == "layer" else MODELS[kind]

    class Own(kinds):
        def __init__(self, *args, **sizes):
            super().__init__(*args, **sizes)

    def made(rows):
        sizes = {"memory_size": rows, "num_heads": 3, "word_size": 4} | ({"k": 4} if formula == SPARSE[0] else {})
        ways = [lambda: kinds(2, 2, **sizes), lambda: Own(2, 2, **sizes)]
        if kind != "layer":
            ways.append(lambda: sparsam.build(kind, input_size=2, output_size=2, **sizes))
            ways.append(lambda: Description(kind, {"input_size": 2, "output_size": 2, **sizes}).build())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for way in ways:
                way()
        return ways, caught

    assert not made(fewest)[1]
    ways, caught = made(fewest - 1)
    assert len(caught) == len(ways)
    for warning in caught:
        assert f"memory_size={fewest - 1} is less than {formula} = {fewest}," in str(warning.message)
        assert warning.filename == __file__
