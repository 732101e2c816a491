"""The native engine against the plain one: outputs, states and every gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

import sparsam
from tests.beside import assert_same, cases, examples, given_by, run, twins

SMALL = 1e-3  # below that, what is left of cancelled terms is rounding


@examples(60)
@given(cases())
def test_equals_reference_in_float64(case):
    native, reference = twins(sparsam.SAM, seed=case["seed"], start="plain", **case["sizes"])
    how = given_by(case)
    assert_same(native, run(native, **how), run(reference, **how), 1e-10, SMALL)


@pytest.mark.parametrize("similarity", ["cosine", "euclidean", "dot"])
def test_equals_reference_in_float32(similarity):
    sizes = dict(input_size=4, output_size=3, hidden_size=20, memory_size=30, word_size=8, similarity=similarity)
    native, reference = twins(sparsam.SAM, torch.float32, start="plain", **sizes)
    x = torch.randn(12, 5, 4)
    assert_same(native, run(native, x), run(reference, x), 1e-4, SMALL)
