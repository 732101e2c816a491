"""Bad input gets an error that names the argument, what came and what was expected; for every model and engine."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.models import MODELS

GOOD = torch.zeros(5, 3, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    "shape, words",
    [
        ((5, 4), ["x", "3 dimensions", "(T, B, I)", "(5, 4)"]),
        ((5, 3, 3, 1), ["x", "3 dimensions", "(5, 3, 3, 1)"]),
        ((5, 3, 4), ["x", "I = 3", "(5, 3, 4)"]),
        ((0, 3, 3), ["x", "at least one step", "(0, 3, 3)"]),
        ((5, 0, 3), ["x", "one batch element", "(5, 0, 3)"]),
    ],
)
def test_shape_of_x(case, shape, words):
    with pytest.raises(ValueError) as error:
        case.make()(torch.zeros(shape, dtype=torch.float64))
    assert all(word in str(error.value) for word in words)


def test_batch_first_names_its_layout(case):
    with pytest.raises(ValueError, match=r"x: .*\(B, T, I\)"):
        case.make(batch_first=True)(GOOD[0, :, :2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_dtype_of_x(case, dtype):
    with pytest.raises(TypeError, match=r"x: expected dtype torch.float64 .*got torch\.(float32|int64)"):
        case.make()(GOOD.to(dtype))


def test_x_must_be_a_tensor(case):
    with pytest.raises(TypeError, match=r"x: expected a torch.Tensor, got list"):
        case.make()([[[0.0] * 3]])


def test_device_of_x(case):
    with pytest.raises(ValueError, match="x: expected device cpu like the model's, got meta"):
        case.make()(GOOD.to("meta"))


@pytest.mark.parametrize("batch", [0, -1])
def test_batch_size_of_a_state(case, batch):
    with pytest.raises(ValueError, match=f"batch_size: expected a positive int, got {batch}"):
        case.make().initial_state(batch)


def test_batch_size_must_be_an_int(case):
    with pytest.raises(TypeError, match="batch_size"):
        case.make().initial_state(2.0)


def test_state_of_another_batch_size(case):
    model = case.make()
    with pytest.raises(ValueError, match="state: expected batch size B = 3 as in x, got 2"):
        model(GOOD, model.initial_state(2))


def test_state_of_another_model(case, make):
    other = make("dam" if case.name != "dam" else "sam")
    expected = case.make().state_class.__name__
    with pytest.raises(TypeError, match=f"state: expected a {expected} .*, got {other.state_class.__name__}"):
        case.make()(GOOD, other.initial_state(3))


def test_state_of_a_subclass_model_is_another_state(engine, make):
    with pytest.raises(TypeError, match="state: expected a SAMState"):
        make("sam", engine=engine)(GOOD, make("sdnc").initial_state(3))


def test_a_tuple_is_no_state(case):
    with pytest.raises(TypeError, match=r"state: expected a .*got tuple"):
        case.make()(GOOD, (torch.zeros(3, 4), torch.zeros(3, 4)))


def test_state_of_another_hidden_size(case):
    state = case.make(hidden_size=5).initial_state(3)
    with pytest.raises(ValueError, match=r"state: expected hidden of shape \(B, 4\), got \(3, 5\)"):
        case.make()(GOOD, state)


@pytest.mark.parametrize("change", [{"memory_size": 8}, {"word_size": 5}, {"num_heads": 1}])
def test_state_of_another_memory(memory_case, change):
    state = memory_case.make(**change).initial_state(3)
    with pytest.raises(ValueError, match=r"state: expected .* got \(|state: expected .*memory.*got"):
        memory_case.make()(GOOD, state)


def test_dtype_of_a_state(case):
    model = case.make()
    with pytest.raises(TypeError, match=r"state: expected dtype torch.float64"):
        model(GOOD, case.make().float().initial_state(3))
    state = model.initial_state(3)
    with pytest.raises(TypeError, match="state: expected dtype"):
        model(GOOD, state.with_fields(hidden=state.hidden.half()))


@pytest.mark.parametrize(
    "lengths, error, words",
    [
        ([1, 2], ValueError, r"lengths: expected shape \(B,\) = \(3,\), got \(2,\)"),
        ([[1, 2, 3]], ValueError, r"lengths: expected shape"),
        ([1, 2, 6], ValueError, r"lengths: expected values in 1..T = 1..5, got \[1, 2, 6\]"),
        ([0, 2, 3], ValueError, r"lengths: expected values in 1..T"),
        ([-1, 2, 3], ValueError, r"lengths: expected values in 1..T"),
        ([1.0, 2.0, 3.0], TypeError, "lengths: expected integers, got dtype torch.float32"),
        ([True, True, False], TypeError, "lengths: expected integers, got dtype torch.bool"),
    ],
)
def test_lengths(case, lengths, error, words):
    with pytest.raises(error, match=words):
        case.make()(GOOD, lengths=torch.tensor(lengths))


def test_of_many_lengths_the_wrong_ones_are_named() -> None:
    lengths = torch.arange(1000) % 5 + 1
    lengths[[7, 70]] = torch.tensor([0, 6])
    with pytest.raises(ValueError, match=r"lengths: expected values in 1..T = 1..5, got \[0, 6\]$"):
        sparsam.LSTM(3, 2, 4)(torch.zeros(5, 1000, 3), lengths=lengths)


@pytest.mark.parametrize("shape", [(9,), (8, 4), (9, 5), (2, 9, 4), (3, 4, 9)])
def test_shape_of_initial_memory(memory_case, shape):
    with pytest.raises(ValueError, match=r"initial_memory: expected shape \(N, W\) = \(9, 4\) or .*got"):
        memory_case.make().initial_state(3, initial_memory=torch.zeros(shape, dtype=torch.float64))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_numbers_of_initial_memory(memory_case, value):
    memory = torch.zeros(9, 4, dtype=torch.float64)
    memory[3, 2] = value
    with pytest.raises(ValueError, match="initial_memory: expected finite numbers"):
        memory_case.make().initial_state(3, initial_memory=memory)


def test_dtype_and_device_of_initial_memory(memory_case):
    model = memory_case.make()
    with pytest.raises(TypeError, match=r"initial_memory: expected dtype torch.float64"):
        model.initial_state(3, initial_memory=torch.zeros(9, 4))
    with pytest.raises(ValueError, match="initial_memory: expected device cpu"):
        model.initial_state(3, initial_memory=torch.zeros(9, 4, dtype=torch.float64, device="meta"))
    with pytest.raises(TypeError, match=r"initial_memory: expected a torch.Tensor"):
        model.initial_state(3, initial_memory=[[0.0]])


def test_lstm_has_no_memory(make):
    model = make("lstm")
    with pytest.raises(ValueError, match="initial_memory: LSTM has no memory"):
        model.initial_state(3, initial_memory=torch.zeros(9, 4, dtype=torch.float64))
    with pytest.raises(ValueError, match="LSTMState has no memory"):
        model.initial_state(3).memory_rows(0)


@pytest.mark.parametrize("b", [-1, 3])
def test_memory_rows_of_a_missing_element(memory_case, b):
    with pytest.raises(ValueError, match=rf"b: expected a batch element in 0..2, got {b}"):
        memory_case.make().initial_state(3).memory_rows(b)


@pytest.mark.parametrize(
    "mask, error",
    [
        (torch.tensor([True, False]), ValueError),
        (torch.ones(3, 1, dtype=torch.bool), ValueError),
        (torch.tensor([1, 0, 1]), TypeError),
    ],
)
def test_reset_mask(case, mask, error):
    with pytest.raises(error, match="mask: expected"):
        case.make().initial_state(3).reset(mask)


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("argument", ["input_size", "output_size", "hidden_size"])
@pytest.mark.parametrize("value, error", [(0, ValueError), (-2, ValueError), (1.5, TypeError), ("3", TypeError)])
def test_sizes_are_positive(make, name, argument, value, error):
    with pytest.raises(error, match=f"{argument}: expected a positive int"):
        make(name, **{argument: value})


@pytest.mark.parametrize("name", [name for name in MODELS if name != "lstm"])
@pytest.mark.parametrize("argument", ["memory_size", "word_size", "num_heads"])
@pytest.mark.parametrize("value, error", [(0, ValueError), (2.0, TypeError), (True, TypeError)])
def test_memory_sizes_are_positive(make, name, argument, value, error):
    with pytest.raises(error, match=f"{argument}: expected a positive int"):
        make(name, **{argument: value})


@pytest.mark.parametrize("name", [name for name in MODELS if name != "lstm"])
def test_more_heads_than_words(make, name):
    with pytest.raises(ValueError, match="num_heads: expected at most memory_size = 9, got 10"):
        make(name, num_heads=10)


@pytest.mark.parametrize("name", ["sam", "sdnc"])
@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"k": 10}, ValueError, "k: expected at most memory_size = 9, got 10"),
        ({"k": 0}, ValueError, "k: expected a positive int, got 0"),
        ({"delta": -0.1}, ValueError, r"delta: expected a number in \[0.0, 1.0\], got -0.1"),
        ({"delta": float("nan")}, ValueError, "delta"),
        ({"delta": "small"}, TypeError, "delta"),
        ({"similarity": "cosin"}, ValueError, "similarity: .*did you mean 'cosine'"),
        ({"index": "linaer"}, ValueError, "index: .*did you mean 'linear'"),
        ({"index": 3}, TypeError, "index: expected a name or an Index, got int"),
    ],
)
def test_settings_of_sparse_models(make, name, change, error, words):
    with pytest.raises(error, match=words):
        make(name, **change)


def test_settings_of_dam_and_sdnc(make):
    with pytest.raises(ValueError, match="discount: expected a number"):
        make("dam", discount=1.5)
    with pytest.raises(ValueError, match="similarity: expected one of"):
        make("dam", similarity="manhattan")
    with pytest.raises(ValueError, match="k_links: expected a positive int, got 0"):
        make("sdnc", k_links=0)


@pytest.mark.parametrize("name", list(MODELS))
def test_engine_names(make, name):
    with pytest.raises(ValueError, match=r"engine: expected one of .*did you mean 'native'"):
        make(name, engine="nativ")


def test_build_suggests_the_right_name():
    with pytest.raises(ValueError, match=r"name: expected one of .*got 'sdmc'; did you mean 'sdnc'"):
        sparsam.build("sdmc", input_size=1, output_size=1)


@pytest.mark.parametrize("name", list(MODELS))
def test_build_makes_each_model(make, name):
    assert type(make(name)) is getattr(sparsam, name.upper())


def test_lstm_takes_no_memory_settings():
    with pytest.raises(TypeError, match="memory_size"):
        sparsam.build("lstm", input_size=1, output_size=1, memory_size=4)
