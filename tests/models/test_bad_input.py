"""Bad input gets an error that names the argument, what came and what was expected; for every model and engine."""

from __future__ import annotations

import pytest
import torch

import sparsam
from sparsam.models import MODELS


def zeros(*shape, **how):
    return torch.zeros(shape, **{"dtype": torch.float64, **how})


GOOD = zeros(5, 3, 3)


def began(case, **changes):
    return case.make(**changes).initial_state(3)


def with_memory(case, memory):
    return case.make().initial_state(3, initial_memory=memory)


def of_length(*lengths):
    return lambda case: case.make()(GOOD, lengths=torch.tensor(lengths))


# A call of a case c (a model on an engine), and the error.
BAD_CALLS = [
    (lambda c: c.make()(zeros(5, 4)), ValueError, r"x: expected 3 dimensions \(T, B, I\), got shape \(5, 4\)"),
    (lambda c: c.make()(zeros(5, 3, 3, 1)), ValueError, r"x: expected 3 dimensions .*\(5, 3, 3, 1\)"),
    (lambda c: c.make()(zeros(5, 3, 4)), ValueError, r"x: expected width I = 3 .*\(5, 3, 4\)"),
    (lambda c: c.make()(zeros(0, 3, 3)), ValueError, r"x: expected at least one step .*\(0, 3, 3\)"),
    (lambda c: c.make()(zeros(5, 0, 3)), ValueError, r"x: expected .*one batch element .*\(5, 0, 3\)"),
    (lambda c: c.make(batch_first=True)(GOOD[0, :, :2]), ValueError, r"x: .*\(B, T, I\)"),
    (lambda c: c.make()(GOOD.float()), TypeError, r"x: expected dtype torch.float64 .*got torch\.float32"),
    (lambda c: c.make()(GOOD.long()), TypeError, r"x: expected dtype torch.float64 .*got torch\.int64"),
    (lambda c: c.make()([[[0.0] * 3]]), TypeError, "x: expected a torch.Tensor, got list"),
    (lambda c: c.make()(GOOD.to("meta")), ValueError, "x: expected device cpu like the model's, got meta"),
    (lambda c: c.make().initial_state(0), ValueError, "batch_size: expected a positive int, got 0"),
    (lambda c: c.make().initial_state(-1), ValueError, "batch_size: expected a positive int, got -1"),
    (lambda c: c.make().initial_state(2.0), TypeError, "batch_size"),
    (
        lambda c: c.make()(GOOD, c.make().initial_state(2)),
        ValueError,
        "state: expected batch size B = 3 as in x, got 2",
    ),
    (lambda c: c.make()(GOOD, (zeros(3, 4), zeros(3, 4))), TypeError, "state: expected a .*got tuple"),
    (
        lambda c: c.make()(GOOD, began(c, hidden_size=5)),
        ValueError,
        r"state: expected hidden of shape \(B, 4\), got \(3, 5\)",
    ),
    (lambda c: c.make()(GOOD, c.make().float().initial_state(3)), TypeError, "state: expected dtype torch.float64"),
    (lambda c: c.make()(GOOD, began(c).with_fields(hidden=began(c).hidden.half())), TypeError, "state: expected dtype"),
    (of_length(1, 2), ValueError, r"lengths: expected shape \(B,\) = \(3,\), got \(2,\)"),
    (of_length([1, 2, 3]), ValueError, "lengths: expected shape"),
    (of_length(1, 2, 6), ValueError, r"lengths: expected values in 1..T = 1..5, got \[1, 2, 6\]"),
    (of_length(0, 2, 3), ValueError, "lengths: expected values in 1..T"),
    (of_length(-1, 2, 3), ValueError, "lengths: expected values in 1..T"),
    (of_length(1.0, 2.0, 3.0), TypeError, "lengths: expected integers, got dtype torch.float32"),
    (of_length(True, True, False), TypeError, "lengths: expected integers, got dtype torch.bool"),
    (lambda c: began(c).reset(torch.tensor([True, False])), ValueError, "mask: expected"),
    (lambda c: began(c).reset(torch.ones(3, 1, dtype=torch.bool)), ValueError, "mask: expected"),
    (lambda c: began(c).reset(torch.tensor([1, 0, 1])), TypeError, "mask: expected"),
]
OTHER_MEMORY = r"state: expected .* got \(|state: expected .*memory.*got"
BAD_CALLS_OF_MEMORIES = [
    (lambda c: c.make()(GOOD, began(c, memory_size=8)), ValueError, OTHER_MEMORY),
    (lambda c: c.make()(GOOD, began(c, word_size=5)), ValueError, OTHER_MEMORY),
    (lambda c: c.make()(GOOD, began(c, num_heads=1)), ValueError, OTHER_MEMORY),
    (lambda c: with_memory(c, zeros(9, 4).float()), TypeError, "initial_memory: expected dtype torch.float64"),
    (lambda c: with_memory(c, zeros(9, 4, device="meta")), ValueError, "initial_memory: expected device cpu"),
    (lambda c: with_memory(c, [[0.0]]), TypeError, "initial_memory: expected a torch.Tensor"),
    (lambda c: began(c).memory_rows(-1), ValueError, "b: expected a batch element in 0..2, got -1"),
    (lambda c: began(c).memory_rows(3), ValueError, "b: expected a batch element in 0..2, got 3"),
]


@pytest.mark.parametrize("call, error, says", BAD_CALLS, ids=[says for _, _, says in BAD_CALLS])
def test_a_bad_call(case, call, error, says):
    with pytest.raises(error, match=says):
        call(case)


@pytest.mark.parametrize("call, error, says", BAD_CALLS_OF_MEMORIES, ids=[says for _, _, says in BAD_CALLS_OF_MEMORIES])
def test_a_bad_call_of_a_model_with_a_memory(memory_case, call, error, says):
    with pytest.raises(error, match=says):
        call(memory_case)


def test_state_of_another_model(case, make):
    other = make("dam" if case.name != "dam" else "sam")
    expected = case.make().state_class.__name__
    with pytest.raises(TypeError, match=f"state: expected a {expected} .*, got {other.state_class.__name__}"):
        case.make()(GOOD, other.initial_state(3))


def test_state_of_a_subclass_model_is_another_state(engine, make):
    with pytest.raises(TypeError, match="state: expected a SAMState"):
        make("sam", engine=engine)(GOOD, make("sdnc").initial_state(3))


def test_of_many_lengths_the_wrong_ones_are_named() -> None:
    lengths = torch.arange(1000) % 5 + 1
    lengths[[7, 70]] = torch.tensor([0, 6])
    with pytest.raises(ValueError, match=r"lengths: expected values in 1..T = 1..5, got \[0, 6\]$"):
        sparsam.LSTM(3, 2, 4)(torch.zeros(5, 1000, 3), lengths=lengths)


@pytest.mark.parametrize("shape", [(9,), (8, 4), (9, 5), (2, 9, 4), (3, 4, 9)])
def test_shape_of_initial_memory(memory_case, shape):
    with pytest.raises(ValueError, match=r"initial_memory: expected shape \(N, W\) = \(9, 4\) or .*got"):
        with_memory(memory_case, zeros(*shape))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_numbers_of_initial_memory(memory_case, value):
    memory = zeros(9, 4)
    memory[3, 2] = value
    with pytest.raises(ValueError, match="initial_memory: expected finite numbers"):
        with_memory(memory_case, memory)


def test_lstm_has_no_memory(make):
    model = make("lstm")
    with pytest.raises(ValueError, match="initial_memory: LSTM has no memory"):
        model.initial_state(3, initial_memory=zeros(9, 4))
    with pytest.raises(ValueError, match="LSTMState has no memory"):
        model.initial_state(3).memory_rows(0)


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
