"""`backward_clip`: the same gradients from every engine, limits that hold and follow the loss, exact ones when off."""

from __future__ import annotations

import copy

import pytest
import torch

import sparsam

SIZES = dict(input_size=3, output_size=2, hidden_size=6, memory_size=16, word_size=4, num_heads=2, k=2)
CLIP = 0.05  # low enough to limit most steps


def model_of(name="sam", engine="reference", clip=CLIP, **settings):
    torch.manual_seed(0)
    model = sparsam.build(name, engine=engine, backward_clip=clip, **(SIZES | settings)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 2  # far from the even weights of a fresh model
    return model


def twin(model, engine):
    other = copy.deepcopy(model)
    other.engine = engine
    return other


def gradients(model, x, lengths=None, splits=(), on_state=True, scale=1.0):
    """Of a loss on outputs and final state, with respect to x, the incoming state and all parameters."""
    x = x.clone().requires_grad_()
    state = model.initial_state(x.shape[1])
    started = [getattr(state, name) for name in ("hidden", "read") if getattr(state, name) is not None]
    started = [value.clone().requires_grad_() for value in started]
    names = ["hidden", "read"][-len(started) :]
    state = state.with_fields(**dict(zip(names, started)))
    loss = 0.0
    for part in torch.tensor_split(x, list(splits)):
        y, state = model(part, state, lengths=lengths)
        loss = loss + (y * torch.linspace(-1, 1, y.numel()).double().view_as(y)).sum()
    if on_state:
        loss = loss + state.read.square().sum() + state.read_weights.square().sum()
        loss = loss + (0.0 if state.hidden is None else state.hidden.sum())
    found = torch.autograd.grad(scale * loss, [x, *started, *model.parameters()])
    return dict(zip(["x", *names, *(name for name, _ in model.named_parameters())], found))


def assert_same(found, expected):
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-8, atol=1e-10 * (1 + float(value.abs().max())))


@pytest.mark.parametrize("controller", ["lstm", "gru", "feedforward"])
@pytest.mark.parametrize("name", ["sam", "sdnc"])
@pytest.mark.parametrize(("splits", "lengths"), [((), None), ((4,), None), ((), [3, 9, 6])])
def test_native_limits_as_the_reference(name, controller, splits, lengths):
    reference = model_of(name, controller=controller)
    native = twin(reference, "native")
    assert native.engine_plan == "native"  # inside its loop
    x = torch.randn(9, 3, 3).double()
    lengths = None if lengths is None else torch.tensor(lengths)
    found = gradients(native, x, lengths, splits)
    assert_same(found, gradients(reference, x, lengths, splits))
    exact = gradients(model_of(name, clip=None, controller=controller), x, lengths, splits)
    assert not torch.allclose(found["x"], exact["x"], rtol=1e-3)  # it did limit something


def test_an_output_layer_that_is_called_makes_no_difference():
    inside = model_of(engine="native")
    outside = twin(inside, "native")
    outside.output.register_forward_hook(lambda module, given, y: y)
    x = torch.randn(7, 2, 3).double()
    assert_same(gradients(outside, x), gradients(inside, x))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_steps_of_a_controller_of_several_layers_are_limited(engine):
    x = torch.randn(6, 2, 3).double()
    model = model_of(engine=engine, num_layers=2)
    exact = gradients(model_of(engine=engine, clip=None, num_layers=2), x)
    found = gradients(model, x)
    assert not torch.allclose(found["x"], exact["x"], rtol=1e-3)
    assert_same(found, gradients(twin(model, "reference"), x))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_a_limit_that_is_never_reached_changes_nothing(engine):
    x = torch.randn(8, 2, 3).double()
    assert_same(gradients(model_of(engine=engine, clip=1e9), x), gradients(model_of(engine=engine, clip=None), x))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_what_reaches_the_beginning_is_within_the_limit(engine):
    """However steep the recurrence: the largest gradient from an output is that of y through the output layer."""
    model = model_of(engine=engine, clip=3.0)
    with torch.no_grad():
        model.interface.weight *= 30
        model.controller.weight_hh_l0 *= 3
    x = torch.randn(20, 2, 3).double()
    d_y = torch.linspace(-1, 1, 20 * 2 * 2).double().view(20, 2, 2)
    limit = 3.0 * (d_y @ model.output.weight).abs().amax(dim=(0, 2))  # (B,)
    found = gradients(model, x, on_state=False)
    for name in ("hidden", "read"):
        reached = found[name].flatten(1).abs().amax(dim=1)
        assert (reached <= limit * (1 + 1e-12)).all()
    model.backward_clip = None
    free = gradients(model, x, on_state=False)
    assert (free["hidden"].abs().amax(dim=1) > 2 * limit).any()  # without it they grow past that


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_limits_follow_the_scale_of_the_loss(engine):
    model, x = model_of(engine=engine), torch.randn(8, 2, 3).double()
    once, often = gradients(model, x), gradients(model, x, scale=1000.0)
    assert_same(often, {name: 1000 * value for name, value in once.items()})


def test_a_second_backward_pass_gives_the_same():
    for engine in ("reference", "native"):
        model = model_of(engine=engine)
        y, _ = model(torch.randn(8, 2, 3).double())
        first = torch.autograd.grad(y.square().sum(), model.interface.weight, retain_graph=True)[0]
        assert torch.equal(first, torch.autograd.grad(y.square().sum(), model.interface.weight)[0])


def test_a_compiled_model_limits_too():
    model, x = model_of(engine="native"), torch.randn(5, 2, 3).double()
    compiled = torch.compile(lambda v: model(v)[0], backend="aot_eager", fullgraph=True)
    expected = torch.autograd.grad(model(x)[0].square().sum(), list(model.parameters()))
    found = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
    for mine, theirs in zip(found, expected):
        torch.testing.assert_close(mine, theirs)
    model.engine = "reference"
    with pytest.raises(RuntimeError, match="backward_clip: expected None in a compiled call"):
        torch.compile(lambda v: model(v)[0], backend="aot_eager", fullgraph=True)(x)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), True, "0.1"])
def test_other_values_are_refused(wrong):
    with pytest.raises((TypeError, ValueError), match="backward_clip: expected"):
        sparsam.SAM(3, 2, backward_clip=wrong)


def test_it_is_shown_and_can_be_changed():
    model = model_of()
    assert f"backward_clip={CLIP}" in repr(model)
    model.backward_clip = None
    assert "backward_clip" not in repr(model)
