"""The argument checks by themselves: what passes comes back unchanged or in one agreed form."""

from __future__ import annotations

import pytest
import torch

from sparsam import checks


def test_good_values_come_back():
    assert checks.positive_int("n", 3) == 3
    assert checks.number_in("p", 1, 0.0, 1.0) == 1.0
    assert checks.at_most("k", 4, "n", 4) == 4
    assert checks.one_of("colour", "red", ["red", "blue"]) == "red"


def test_bool_is_no_int():
    with pytest.raises(TypeError, match="n: expected a positive int, got bool True"):
        checks.positive_int("n", True)
    with pytest.raises(TypeError, match="p: expected a number"):
        checks.number_in("p", True, 0.0, 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.1, -0.1])
def test_number_out_of_range(value):
    with pytest.raises(ValueError, match=r"p: expected a number in \[0.0, 1.0\]"):
        checks.number_in("p", value, 0.0, 1.0)


def test_one_of_is_silent_when_nothing_is_near():
    with pytest.raises(ValueError) as error:
        checks.one_of("colour", "zzz", ["red", "blue"])
    assert "did you mean" not in str(error.value)


def test_one_of_takes_unhashable_values():
    with pytest.raises(ValueError, match="colour"):
        checks.one_of("colour", ["red"], ["red"])


def test_sequence_is_time_major():
    x = torch.randn(2, 5, 3)
    assert checks.sequence(x, 3, False, x) is x
    assert checks.sequence(x, 3, True, x).shape == (5, 2, 3)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_lengths_of_any_integer_type(dtype):
    lengths = checks.sequence_lengths(torch.tensor([1, 3], dtype=dtype), 3, 2)
    assert lengths.dtype == torch.int64 and lengths.tolist() == [1, 3]


def test_lengths_as_a_list():
    assert checks.sequence_lengths([2, 2], 3, 2).tolist() == [2, 2]


def test_mask_as_a_list():
    assert checks.reset_mask([True, False], 2, torch.device("cpu")).tolist() == [True, False]


def test_initial_memory_keeps_its_graph():
    memory = torch.zeros(4, 2, requires_grad=True)
    assert checks.initial_memory(memory, 3, 4, 2, memory) is memory


def test_a_near_name_is_suggested_and_a_far_one_is_not() -> None:
    assert checks.did_you_mean("sdmc", ["sam", "sdnc"]) == "; did you mean 'sdnc'?"
    assert checks.did_you_mean("xyz", ["sam", "sdnc"]) == ""
