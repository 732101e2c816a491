"""Sizes of the dense models' kernels, and which memories a program holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparsam
from sparsam.engines.cuda.dense.layout import BLOCK, dense_layout, fits


@pytest.mark.parametrize(
    "name,sizes,expected",
    [
        ("dam", dict(memory_size=128, word_size=32, num_heads=4), True),
        ("dam", dict(memory_size=256, word_size=32, num_heads=4), True),
        ("dam", dict(memory_size=257, word_size=32, num_heads=4), False),
        ("ntm", dict(memory_size=128, word_size=64, num_heads=4), True),
        ("ntm", dict(memory_size=128, word_size=65, num_heads=4), False),
        ("dnc", dict(memory_size=128, word_size=16, num_heads=1), True),
        ("dnc", dict(memory_size=129, word_size=16, num_heads=1), False),
        ("dnc", dict(memory_size=16, word_size=16, num_heads=1, masked=True), False),
        ("dnc", dict(memory_size=16, word_size=16, num_heads=1, deallocate=True), False),
    ],
)
def test_which_dense_memories_a_program_holds(name, sizes, expected):
    assert fits(sparsam.build(name, input_size=3, output_size=2, hidden_size=5, **sizes).memory) is expected


@given(st.integers(1, 5), st.integers(1, 40), st.integers(1, 256))
def test_blocks_of_a_dense_memory_hold_what_is_in_them(heads, width, rows):
    sizes = dict(memory_size=rows, word_size=width, num_heads=min(heads, rows))
    for name in ("dam", "ntm", "dnc"):
        memory = sparsam.build(name, input_size=3, output_size=2, hidden_size=5, **sizes).memory
        size = dense_layout(memory, "lstm", 5)
        assert rows <= size.NP and size.NP & (size.NP - 1) == 0 and memory.interface.size == size.F
        assert (8 if name == "dnc" or size.RP * size.NP * size.WP > 16_384 else 4) == size.WARPS
        assert size.NP % size.LB == 0 and (size.LB == 1 or size.LB * size.RP * size.NP <= BLOCK)
