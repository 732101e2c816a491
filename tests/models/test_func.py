"""`torch.func` (grad, vmap): the reference works under its transforms, the native engine says what to use instead."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, grad, vmap

import sparsam


def model_of(engine):
    torch.manual_seed(0)
    return sparsam.SAM(4, 3, hidden_size=6, memory_size=20, word_size=5, num_heads=2, k=3, engine=engine)


def test_the_reference_under_grad_and_vmap():
    model = model_of("reference")
    parameters = dict(model.named_parameters())
    x = torch.randn(3, 2, 4, 4)  # (T, B, samples, I)

    def loss(parameters, x):
        return functional_call(model, parameters, (x,))[0].square().sum()

    each = vmap(grad(loss), in_dims=(None, 2))(parameters, x)
    for i in range(4):
        expected = torch.autograd.grad(loss(parameters, x[:, :, i]), list(parameters.values()))
        for ours, theirs in zip(each.values(), expected):
            torch.testing.assert_close(ours[i], theirs)


def test_the_native_engine_says_what_to_use_instead():
    model = model_of("native")
    parameters = dict(model.named_parameters())
    for run in (
        lambda: grad(lambda p: functional_call(model, p, (torch.randn(3, 2, 4),))[0].sum())(parameters),
        lambda: vmap(lambda x: model(x)[0])(torch.randn(5, 3, 2, 4)),
    ):
        with pytest.raises(RuntimeError, match=r"torch\.func.*torch\.autograd\.grad.*engine='reference'"):
            run()
