"""Sizes and weights as the GPU kernels see them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsam.engines.cuda.layout import Layout, power_of_two

layouts = st.builds(
    Layout,
    H=st.integers(1, 70),
    R=st.integers(1, 5),
    K=st.integers(1, 9),
    W=st.integers(1, 40),
    KL=st.sampled_from([0, 1, 8]),
)


@pytest.mark.parametrize("count,least,expected", [(1, 1, 1), (2, 1, 2), (3, 1, 4), (33, 16, 64), (3, 16, 16)])
def test_power_of_two(count, least, expected):
    assert power_of_two(count, least) == expected


@given(layouts)
def test_padded_sizes_hold_what_they_pad(size):
    for padded, real in ((size.HP, size.H), (size.RP, size.R), (size.KP, size.K), (size.WP, size.W)):
        assert padded >= real and padded & (padded - 1) == 0
    assert size.RK >= 16 and size.SIZE >= size.RK + size.RP and size.ACCESSES >= 2 * size.RK + size.RP
    assert size.groups * size.RP <= size.GP and size.JP % 32 == 0 and size.AP % 32 == 0


@given(layouts)
def test_what_is_padded_comes_back(size):
    joint = torch.randn(2, size.H + size.R * size.W)
    assert torch.equal(size.unpadded(size.padded(joint)), joint)
    gates = torch.randn(3, 4 * size.H)
    assert torch.equal(size.gates(size.pad_gates(gates)), gates)
    asked = torch.randn(2, 2 * size.R * size.W + size.groups * size.R)
    padded = size.pad_interface(asked)
    assert padded.shape == (2, size.AP) and torch.equal(size.interface(padded), asked)
    assert float(padded.abs().sum()) == pytest.approx(float(asked.abs().sum()), rel=1e-4)  # nothing but zeros besides


@given(layouts)
def test_padded_products_are_the_products(size):
    w_hh, w_read = torch.randn(4 * size.H, size.H), torch.randn(4 * size.H, size.R * size.W)
    h, r = torch.randn(size.H), torch.randn(size.R, size.W)
    found = size.gates(size.recurrent(w_hh, w_read) @ size.join(h, r))
    torch.testing.assert_close(found, w_hh @ h + w_read @ r.flatten(), rtol=1e-4, atol=1e-4)
