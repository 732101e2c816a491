"""What a user changes in a model is honoured or refused with the reason, never ignored."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import sparsam
from sparsam import engines
from sparsam.models import MODELS

STEPS, BATCH = 5, 3
SIZES = dict(input_size=3, output_size=2, hidden_size=6, memory_size=20, word_size=4, num_heads=2, k=3)

pytestmark = pytest.mark.skipif(
    engines.why_not("native", sparsam.SAM(**SIZES)) is not None, reason="the native engine is not built here"
)


def sequence():
    return torch.randn(STEPS, BATCH, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def pair(change, name="sam", kind=None, **settings):
    """The same changed model on "auto" and on the reference."""
    models = []
    for engine in ("auto", "reference"):
        torch.manual_seed(2)
        made = (kind or sparsam.build)(**{**({} if kind else {"name": name}), **SIZES, **settings, "engine": engine})
        made = made.double()
        change(made)
        models.append(made.double())
    models[1].load_state_dict(models[0].state_dict())
    return models


def same(models):
    """Outputs and all gradients agree; returns the first model's gradients by name."""
    x, results = sequence().requires_grad_(), []
    for model in models:
        y, _ = model(x)
        parameters = dict(model.named_parameters())
        found = torch.autograd.grad(y.square().sum(), [x, *parameters.values()])
        results.append([y, *found])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
    return dict(zip(["x", *parameters], results[0][1:]))


def test_an_overridden_control_is_called():
    class Mine(sparsam.SAM):
        calls = 0

        def control(self, x, state):
            type(self).calls += 1
            hidden, carried = super().control(x, state)
            return 2 * hidden, carried

    models = pair(lambda model: None, kind=Mine)
    same(models)
    assert Mine.calls == 2 * STEPS
    assert models[0].engine_used == "native" and "control() of its own" in models[0].engine_plan


def test_a_second_layer_gets_its_gradient():
    def change(model):
        model.controller = nn.LSTM(3 + 8, 6, num_layers=2)

    models = pair(change)
    gradients = same(models)
    assert gradients["controller.weight_hh_l1"].abs().max() > 0
    assert "2 layers" in models[0].engine_plan


@pytest.mark.parametrize("part", ["controller", "interface", "output"])
def test_forward_hooks_fire(part):
    fired = []

    def change(model):
        getattr(model, part).register_forward_hook(lambda module, args, out: fired.append(part))

    models = pair(change)
    models[0](sequence())
    assert fired
    same(models)


def test_a_hook_that_changes_the_output_counts():
    def change(model):
        model.interface.register_forward_hook(lambda module, args, out: 1.5 * out)

    models = pair(change)
    same(models)
    plain, _ = pair(lambda model: None)
    assert not torch.allclose(models[0](sequence())[0], plain(sequence())[0])


@pytest.mark.parametrize("part", ["controller", "interface", "output"])
def test_weight_norm_is_honoured(part):
    def change(model):
        name = "weight_hh_l0" if part == "controller" else "weight"
        parametrizations.weight_norm(getattr(model, part), name)

    models = pair(change)
    gradients = same(models)
    assert any("original" in name and g.abs().max() > 0 for name, g in gradients.items())
    assert models[0].engine_plan == "native"  # nothing has to be called


def test_the_old_weight_norm_with_its_hook_is_honoured():
    def change(model):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nn.utils.weight_norm(model.interface)

    same(pair(change))


def test_a_replaced_output_layer_is_called():
    def change(model):
        model.output = nn.Sequential(nn.Linear(6 + 8, 5), nn.Tanh(), nn.Linear(5, 2))

    models = pair(change)
    same(models)
    assert models[0].engine_plan == "native"


@pytest.mark.parametrize(
    "outputs, bias, inside", [(1, True, True), (7, True, True), (7, False, False), (6_000, True, False)]
)
def test_a_linear_output_layer_runs_inside_or_is_called(outputs, bias, inside):
    def change(model):
        model.output = nn.Linear(6 + 8, outputs, bias=bias)

    models = pair(change)
    same(models)
    assert models[0].plan.answers == inside
    with torch.autocast("cpu", torch.bfloat16):
        assert not models[0].plan.answers
    assert models[0].plan.answers == inside


def test_an_overridden_answer_is_called():
    class Mine(sparsam.SAM):
        name = "mine_answer"

        def answer(self, joint):
            return 2 * super().answer(joint)

    models = pair(lambda model: None, kind=Mine)
    same(models)
    assert not models[0].plan.answers
    del sparsam.models.MODELS["mine_answer"]


def test_a_replaced_interface_is_called():
    def change(model):
        model.interface = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, model.memory.interface.size))

    models = pair(change)
    same(models)
    assert "Sequential" in models[0].engine_plan


def test_a_forward_set_on_the_instance_is_called():
    def change(model):
        plain = model.interface.forward
        model.interface.forward = lambda hidden: plain(hidden) * 0.5

    same(pair(change))


def test_a_setting_that_is_changed_counts():
    model, reference = pair(lambda model: None)
    for one in (model, reference):
        one.k, one.delta, one.similarity = 2, 0.2, "dot"
    same((model, reference))
    assert model(sequence())[1].read_rows.shape == (BATCH, 2, 2)
    with pytest.raises(ValueError, match="delta: expected a number"):
        model.delta = 3.0
    with pytest.raises(AttributeError):
        model.word_size = 5


def test_a_bidirectional_controller_is_refused():
    model, _ = pair(lambda model: None)
    model.controller = nn.LSTM(3 + 8, 3, bidirectional=True).double()
    with pytest.raises(ValueError, match="controller: expected a module that runs forward in time"):
        model(sequence())


@pytest.mark.parametrize("model", [*MODELS.values(), sparsam.SparseMemory])
def test_bidirectional_is_refused_with_the_reason(model):
    with pytest.raises(ValueError, match=r"bidirectional: expected a .* that runs forward in time, got True; a memory"):
        model(3, 2, bidirectional=True)


def test_mixed_dtypes_are_refused():
    model = sparsam.SAM(**SIZES)
    model.output.double()
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        model(sequence().double())
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        model(sequence().float())


def test_the_engine_used_is_told():
    model = sparsam.SAM(**SIZES)
    assert model.engine_used == "native" and "engine_used='native'" in repr(model)
    assert sparsam.SAM(**SIZES, masked=True).engine_used == "reference"
    assert sparsam.LSTM(3, 2).engine_used == "reference"


def test_auto_says_once_when_it_takes_the_dense_reference_for_a_large_memory():
    model = sparsam.SAM(3, 2, 4, memory_size=20_000, word_size=4, masked=True)
    with pytest.warns(UserWarning, match="20,000 words in the dense reference.*masked=True"):
        model(torch.zeros(1, 1, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(torch.zeros(1, 1, 3))
        sparsam.SAM(3, 2, 4, memory_size=20_000, word_size=4)(torch.zeros(1, 1, 3))
        sparsam.SAM(3, 2, 4, memory_size=20_000, word_size=4, layer_norm=True)(torch.zeros(1, 1, 3))


def test_a_state_prints_in_a_few_lines():
    _, state = sparsam.SAM(**SIZES)(torch.zeros(2, 3, 3))
    assert repr(state).count("\n") < 5 and len(repr(state)) < 500 and "native memory" in repr(state)


@pytest.mark.parametrize("value", ["False", 1, None])
def test_flags_are_true_or_false(value):
    with pytest.raises(TypeError, match="batch_first: expected True or False"):
        sparsam.SAM(**SIZES, batch_first=value)
    with pytest.raises(TypeError, match="link_gradients: expected True or False"):
        sparsam.SDNC(**SIZES, link_gradients=value)


def test_more_rows_than_the_engines_can_count_are_refused():
    with pytest.raises(ValueError, match="memory_size: expected at most"):
        sparsam.SAM(3, 2, memory_size=2**31)


def test_wider_parts_are_used():
    """All three parts replaced by ones of another width, which fit each other."""

    def change(model):
        torch.manual_seed(3)
        model.controller, model.interface = nn.GRU(3 + 8, 9), nn.Linear(9, model.memory.interface.size)
        model.output = nn.Linear(9 + 8, 5)

    models = pair(change)
    same(models)
    assert models[0].hidden_size == 9 and models[0].engine_plan == "native"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("hidden_size", 9), ("input_size", 4), ("output_size", 4), ("num_layers", 2), ("dropout", 0.5)),
        *(("bias", False), ("bidirectional", True), ("proj_size", 3), ("batch_first", "False"), ("word_size", 5)),
    ],
)
def test_a_setting_that_would_change_nothing_is_refused(name, value):
    model = sparsam.SAM(**SIZES)
    before = getattr(model, name)
    with pytest.raises((AttributeError, TypeError), match=name):
        setattr(model, name, value)
    assert getattr(model, name) == before


def test_what_a_model_says_of_its_controller_is_true():
    model = sparsam.SAM(**SIZES, controller="feedforward", num_layers=3, dropout=0.25)
    assert (model.num_layers, model.dropout, model.hidden_size, model.bias) == (3, 0.25, 6, True)
    model.controller.dropout.p = 0.5
    assert model.dropout == 0.5
    with pytest.raises(ValueError, match="dropout: expected 0"):
        sparsam.SAM(**SIZES, layer_norm=True, dropout=0.5)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_on_the_device_meta(name):
    """Shapes without numbers, as deferred initialisation makes them: it can be shown and called, then filled."""
    model = sparsam.build(name, input_size=3, output_size=2, hidden_size=4, device="meta")
    assert "reference" in repr(model)
    y, state = model(torch.randn(5, 2, 3, device="meta"))
    y, _ = model(torch.randn(5, 2, 3, device="meta"), state, lengths=[5, 2])
    assert y.shape == (5, 2, 2) and y.is_meta
    filled = model.to_empty(device="cpu")
    for parameter in filled.parameters():
        nn.init.normal_(parameter, std=0.1)
    assert filled(torch.randn(5, 2, 3))[0].isfinite().all()
