"""The core after NaN or infinity came in: the call is spoiled, and no memory, other element or later call."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from sparsam.engines.native.core import native
from tests.engines.native.test_core import (
    SIZES,
    WEIGHTS,
    fresh_versions,
    gradients,
    make_case,
    random_like,
    run_core,
    start,
    state_of,
)

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built here")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", list(SIZES))
def test_a_bad_input_spoils_its_own_call_alone(name, bad):
    """Nothing of NaN or infinity stays in a memory that was taken back, or in a pool."""
    case = make_case(name, "lstm", steps=6)
    case.lengths = [6, 6, 6]
    first = run_core(case, start(case), fresh_versions(case), slice(0, 3))
    expected = run_core(case, state_of(first), first.after, slice(3, 6))
    fresh = run_core(case, start(case), fresh_versions(case))
    d_joint = random_like(fresh.joint).numpy()
    expected_gradients = gradients(case, fresh, d_joint)
    del fresh
    spoiled = replace(case, x=case.x.detach().clone())
    spoiled.x[1, :2] = bad
    spoiled.x[4, 0] = bad
    for record in (False, True):
        for state, versions, steps in (
            (start(case), fresh_versions(case), slice(None)),
            (state_of(first), first.after, slice(3, 6)),
        ):
            broken = run_core(spoiled, state, versions, steps, record=record)
            assert not np.isfinite(broken.joint[:, 0]).all()
            if steps.start is None:
                assert np.isfinite(broken.joint[:, 2]).all()  # another element of the same batch
            if record and steps.start is None:
                gradients(spoiled, broken, d_joint)
            del broken
            again = run_core(case, state_of(first), first.after, slice(3, 6))
            assert np.array_equal(again.joint, expected.joint)
            good = run_core(case, start(case), fresh_versions(case))
            after = gradients(case, good, d_joint)
            for key in ("x", *WEIGHTS, "memory_words"):
                assert np.array_equal(getattr(after, key), getattr(expected_gradients, key)), key


@pytest.mark.parametrize("kind", ["kdtree", "lsh"])
def test_a_bad_input_with_an_index(kind):
    case = make_case("sam", "lstm", steps=6)
    index = native.IndexSettings(kind, {})
    first = run_core(case, start(case), fresh_versions(case), slice(0, 3), index=index)
    expected = run_core(case, state_of(first), first.after, slice(3, 6), index=index)
    spoiled = replace(case, x=case.x.detach().clone())
    spoiled.x[4, 0] = np.nan
    for record in (False, True):
        with contextlib.suppress(ValueError):
            run_core(spoiled, state_of(first), first.after, slice(3, 6), index=index, record=record)
        again = run_core(case, state_of(first), first.after, slice(3, 6), index=index)
        assert np.array_equal(again.joint, expected.joint)
