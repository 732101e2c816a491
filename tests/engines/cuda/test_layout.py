"""Sizes and weights as the GPU kernels see them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparsam.engines.cuda import layout
from sparsam.engines.cuda.layout import Layout, aligned, power_of_two
from sparsam.engines.cuda.weights import Weights, aligned_tensor, packed, packed_backward
from sparsam.memories.interface import sparse_interface

layouts = st.builds(
    Layout,
    CONTROLLER=st.sampled_from(["lstm", "gru"]),
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
def test_blocks_hold_what_is_in_them(size):
    pairs = ((size.HP, size.H), (size.RP, size.R), (size.KP, size.K), (size.WP, size.W), (size.SP, 4 * size.H))
    for block, real in (*pairs, (size.JP, size.J), (size.FP, size.F)):
        assert block >= real and block & (block - 1) == 0
    assert size.RK >= 16 and size.SIZE >= size.RK + size.RP and size.ACCESSES >= 2 * size.RK + size.RP
    for stride, real in ((size.JS, size.J), (size.FS, size.F), (size.HS, size.H)):
        assert stride == aligned(real) and 0 <= stride - real < 4


@given(layouts, st.integers(1, 5))
def test_packed_weights_give_the_cells_sums(size, inputs):
    gates, words = (4 if size.CONTROLLER == "lstm" else 3) * size.H, size.R * size.W
    shapes = ((gates, inputs + words), (gates, size.H), (gates,), (gates,), (size.F, size.H), (size.F,))
    weights = Weights(*(torch.randn(shape, dtype=torch.float64) for shape in shapes))
    matrices, backward = packed(weights, size), packed_backward(weights, size)
    h, r = torch.randn(size.H, dtype=torch.float64), torch.randn(words, dtype=torch.float64)
    sums = backward.recurrent[:, : size.J] @ torch.cat([h, r]) + matrices.recurrent_bias
    torch.testing.assert_close(sums, torch.cat([h, r]) @ matrices.recurrent + matrices.recurrent_bias)
    of_hidden = weights.hidden @ h + weights.hidden_bias
    of_read = weights.input[:, inputs:] @ r
    if size.CONTROLLER == "lstm":
        torch.testing.assert_close(sums, of_hidden + of_read)
    else:
        both, new = 2 * size.H, slice(2 * size.H, 3 * size.H)
        torch.testing.assert_close(sums[:both], of_hidden[:both] + of_read[:both])
        torch.testing.assert_close(sums[new], of_read[new])
        torch.testing.assert_close(sums[3 * size.H :], of_hidden[new])
    asked = backward.interface_matrix[:, : size.H] @ h + matrices.interface_bias
    torch.testing.assert_close(asked, h @ matrices.interface_matrix[:, : size.F] + matrices.interface_bias)
    torch.testing.assert_close(asked, weights.interface @ h + weights.interface_bias)


@given(layouts)
def test_the_interface_is_as_wide_as_declared(size):
    assert sparse_interface(size.R, size.W, size.KL > 0).size == size.F


@given(layouts)
def test_fields_begin_where_they_are_declared(size):
    declared = sparse_interface(size.R, size.W, size.KL > 0, size.FREE).offsets()
    constants = {
        "write_word": "WORD_AT",
        "strength": "STRENGTH_AT",
        "write_gate": "ALPHA_AT",
        "interpolation": "GAMMA_AT",
    }
    constants |= {"read_modes": "MODES_AT", "free_gates": "FREE_AT"}
    assert {field: getattr(size, constants[field]) for field in declared if field != "query"} == {
        field: at for field, at in declared.items() if field != "query"
    }
    assert declared["query"] == 0 and size.GAMMA_AT == size.ALPHA_AT + size.R == size.STRENGTH_AT + 2 * size.R


@pytest.mark.parametrize("file", ["forward.py", "backward.py"])
def test_kernels_work_out_no_offsets(file):
    source = (Path(layout.__file__).parent / "kernels" / file).read_text(encoding="utf-8")
    assert not re.search(r"request \+ [^,)]*\b(WORDS|\d \* R)\b", source)
    assert "request + size.WORD_AT" in source and "request + size.MODES_AT" in source


def test_tensors_begin_at_sixteen_bytes():
    whole = torch.arange(9.0)
    assert aligned_tensor(whole[1:]).data_ptr() % 16 == 0 and torch.equal(aligned_tensor(whole[1:]), whole[1:])
    assert aligned_tensor(whole) is whole
