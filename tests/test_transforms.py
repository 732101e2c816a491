"""Forward-mode derivatives, ensembles, batched gradients, fake tensors, TorchScript.

The reference carries them; where an engine cannot, it refuses and says what does work. No derivative is lost in
silence.
"""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jvp, stack_module_state, vmap

import sparsam
from sparsam import engines

MEMORIES = ("ntm", "dam", "dnc", "sam", "sdnc")
SIZES = {"memory_size": 9, "word_size": 4, "num_heads": 2}
X = torch.randn(3, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def fast(name="sam", **settings):
    model = small(name, **settings)
    if engines.why_not("native", model) is not None:
        pytest.skip("the native engine is not built here")
    return model


def small(name, seed=0, engine="native", **settings):
    torch.manual_seed(seed)
    if name == "layer":
        return sparsam.SparseMemory(3, 2, k=3, engine=engine, **SIZES, **settings).double()
    sparse = {"k": 3} if name in ("sam", "sdnc") else {}
    sizes = {"input_size": 3, "output_size": 2, "hidden_size": 5, "engine": engine}
    return sparsam.build(name, **sizes, **SIZES, **sparse, **settings).double()


def tangent_of(model, x=X):
    with forward_ad.dual_level():
        y, _ = model(forward_ad.make_dual(x, torch.ones_like(x)))
        return forward_ad.unpack_dual(y).tangent


@pytest.mark.parametrize("name", [*MEMORIES, "layer"])
@pytest.mark.parametrize("frozen", [True, False])
def test_the_reference_carries_tangents(name, frozen):
    model = small(name, engine="reference").requires_grad_(not frozen)
    tangent, x = tangent_of(model), X.clone().requires_grad_()
    assert tangent.count_nonzero() == tangent.numel()
    for direction in torch.randn(3, *tangent.shape, dtype=X.dtype):  # d·(J 1) = (d J)·1
        (backward,) = torch.autograd.grad(model(x)[0], x, direction)
        torch.testing.assert_close((tangent * direction).sum(), backward.sum())
    torch.testing.assert_close(jvp(lambda x: model(x)[0], (X,), (torch.ones_like(X),))[1], tangent_of(model))


@pytest.mark.parametrize("name", ["sam", "sdnc", "layer"])
@pytest.mark.parametrize("frozen", [True, False])
def test_the_native_engine_refuses_tangents(name, frozen):
    model = fast(name).requires_grad_(not frozen)
    for run in (lambda: tangent_of(model), lambda: jvp(lambda x: model(x)[0], (X,), (torch.ones_like(X),))):
        with pytest.raises(RuntimeError, match=r"native engine .*engine='reference'"):
            run()
    with forward_ad.dual_level():  # no tangent, nothing to lose
        assert torch.equal(model(X)[0], model(X)[0])


def test_a_tangent_of_a_weight_or_state_is_refused_too():
    model = fast().requires_grad_(False)
    _, state = model(X)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(state.read, torch.ones_like(state.read))
        with pytest.raises(RuntimeError, match="forward-mode"):
            model(X, state.with_fields(read=dual))
        weight = forward_ad.make_dual(model.interface.weight, torch.ones_like(model.interface.weight))
        with pytest.raises(RuntimeError, match="forward-mode"):
            functional_call(model, {"interface.weight": weight}, (X,))


@pytest.mark.parametrize("name", MEMORIES)
def test_an_ensemble_by_vmap_is_the_loop_over_its_models(name):
    models = [small(name, seed, "reference") for seed in range(3)]
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0]).to("meta")

    def loss(parameters, buffers, x):
        y, state = functional_call(base, (parameters, buffers), (x,))
        more, _ = functional_call(base, (parameters, buffers), (x, state))
        return y.square().sum() + more.square().sum(), more

    found, outputs = vmap(grad(loss, has_aux=True), in_dims=(0, 0, None))(parameters, buffers, X)
    for i, model in enumerate(models):
        y, state = model(X)
        more, _ = model(X, state)
        torch.testing.assert_close(outputs[i], more)
        expected = torch.autograd.grad(y.square().sum() + more.square().sum(), list(model.parameters()))
        for (name_of, _), gradient in zip(model.named_parameters(), expected):
            torch.testing.assert_close(found[name_of][i], gradient)


@pytest.mark.parametrize("name", MEMORIES)
def test_batched_gradients_of_the_reference(name):
    model = small(name, engine="reference")
    y, _ = model(X)
    directions, parameters = torch.randn(4, *y.shape, dtype=y.dtype), list(model.parameters())
    together = torch.autograd.grad(y, parameters, directions, is_grads_batched=True, retain_graph=True)
    for i, direction in enumerate(directions):
        for ours, theirs in zip(together, torch.autograd.grad(y, parameters, direction, retain_graph=True)):
            torch.testing.assert_close(ours[i], theirs)


@pytest.mark.parametrize("name", MEMORIES)
def test_a_gradient_is_the_same_where_it_is_to_be_differentiated_again(name):
    model = small(name, engine="reference")
    y, _ = model(X)
    parameters = list(model.parameters())
    plain = torch.autograd.grad(y.square().sum(), parameters, retain_graph=True)
    again = torch.autograd.grad(y.square().sum(), parameters, create_graph=True)
    for ours, theirs in zip(again, plain):
        torch.testing.assert_close(ours.detach(), theirs, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", ["sam", "sdnc", "layer"])
def test_the_native_engine_refuses_batched_gradients(name):
    model = fast(name)
    y, _ = model(X)
    directions = torch.randn(4, *y.shape, dtype=y.dtype)
    with pytest.raises(RuntimeError, match=r"one gradient at a time.*retain_graph=True.*engine='reference'"):
        torch.autograd.grad(y, list(model.parameters()), directions, is_grads_batched=True, retain_graph=True)
    for direction in directions:  # what it says does work
        torch.autograd.grad(y, list(model.parameters()), direction, retain_graph=True)


def test_fake_tensors():
    for inside in (True, False):
        model = None if inside else small("sam", engine="reference")
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            if model is None:
                model = sparsam.SAM(3, 2, hidden_size=5, k=3, engine="reference", dtype=torch.float64, **SIZES)
            y, state = model(mode.from_tensor(X))
            assert y.shape == (3, 2, 2) and model(mode.from_tensor(X), state)[0].shape == (3, 2, 2)
    for name in ("sam", "layer"):
        native = fast(name)
        with (
            FakeTensorMode(allow_non_fake_inputs=True) as mode,
            pytest.raises(RuntimeError, match=r"FakeTensor.*torch\.export\.export.*engine='reference'"),
        ):
            native(mode.from_tensor(X))


class JustY(torch.nn.Module):
    """What a tracer would take: tensors in, tensors out."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


@pytest.mark.parametrize("name", [*MEMORIES, "layer"])
@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.filterwarnings("ignore")
def test_torchscript_says_what_does_work(name, engine):
    model = JustY(small(name, engine=engine))
    runs = [
        lambda: torch.jit.script(model),
        lambda: torch.jit.script(model.model),
        lambda: torch.jit.trace(model, (X,)),
        lambda: torch.onnx.export(model, (X,), io.BytesIO(), dynamo=False),
    ]
    for run in runs:
        with pytest.raises(RuntimeError, match=r"torch\.jit.*torch\.compile.*torch\.export\.export"):
            run()
