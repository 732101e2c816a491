"""Gradients of products by kernel against torch's, factors of 0 included.

Run by `../test_engine.py` in a process of its own: on a GPU where there is one, else by Triton's interpreter.
"""

from __future__ import annotations

import pytest
import torch

from sparsam.engines.cuda.dense import capturable
from sparsam.engines.cuda.launch import interpreted

DEVICE = "cpu" if interpreted() else "cuda"


def factors(*shape):
    torch.manual_seed(0)
    x = torch.rand(*shape, device=DEVICE) + 0.5
    x[torch.rand(*shape, device=DEVICE) < 0.1] = 0
    return x.requires_grad_()


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 3, 16), (4, 129)])
def test_cumprod(shape):
    x, weight = factors(*shape), torch.randn(shape, device=DEVICE)
    assert capturable.has_kernel(x, shape[-1], capturable.MOST_ELEMENTS)
    expected = torch.autograd.grad((torch.cumprod(x, -1) * weight).sum(), x)[0]
    with capturable.Capturable():
        found = torch.autograd.grad((x.cumprod(dim=-1) * weight).sum(), x)[0]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape,dim", [((2, 1, 5), 1), ((3, 4, 300), 1), ((2, 3, 4), 0), ((2, 3, 4), -1), ((5,), 0)])
def test_prod(shape, dim):
    x = factors(*shape)
    assert capturable.has_kernel(x, shape[dim], capturable.MOST_FACTORS)
    expected = torch.prod(x, dim)
    weight = torch.randn_like(expected)
    with capturable.Capturable():
        found = x.prod(dim=dim)
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad((value * weight).sum(), x)[0] for value in (found, expected))
    torch.testing.assert_close(ours, theirs)
