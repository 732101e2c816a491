"""States as tensors of fixed shape: the same bits in all that follows, in any process."""

from __future__ import annotations

import io

import pytest
import torch

import sparsam

SIZES = {"input_size": 4, "output_size": 3, "hidden_size": 8, "word_size": 5, "num_heads": 2}
BUILDS = [
    ("sam", {}),
    ("sam", {"engine": "reference"}),
    ("sam", {"controller": "gru", "num_layers": 2}),
    ("sam", {"index": "kdtree", "memory_size": 3000}),
    ("sam", {"index": "lsh", "memory_size": 3000}),
    ("sam", {"index": "scan", "memory_size": 3000}),
    ("sdnc", {}),
    ("sdnc", {"engine": "reference"}),
    ("sdnc", {"allocation": "free"}),
    ("dam", {}),
    ("ntm", {}),
    ("dnc", {}),
]
SPARSE = ("sam", "sdnc")


def made(name, **options):
    torch.manual_seed(0)
    model = sparsam.build(name, **{"memory_size": 64, **SIZES, **options})
    return model, torch.randn(12, 3, 4), torch.randn(9, 3, 4)


def packed(state, name, rows=64):
    return state.pack(rows) if name in SPARSE else state.pack()


@pytest.mark.parametrize(("name", "options"), BUILDS)
def test_the_same_bits_follow(name, options):
    model, x, later = made(name, **options)
    state = model(x)[1]
    file = io.BytesIO()
    torch.save(packed(state, name), file)
    again = model.unpack(torch.load(io.BytesIO(file.getvalue())))
    y, end = model(later, state)
    y_again, end_again = model(later, again)
    assert torch.equal(y, y_again) and torch.equal(model(x, end)[0], model(x, end_again)[0])
    everyone = torch.ones(3, dtype=torch.bool)
    assert torch.equal(model(x, end_again.reset(everyone))[0], model(x)[0])


@pytest.mark.parametrize("name", ["sam", "sdnc", "ntm"])
def test_shapes_do_not_depend_on_the_state(name):
    model, x, _ = made(name)
    shapes = [{key: value.shape for key, value in packed(state, name).items()}
              for state in (model.initial_state(3), model(x[:1])[1], model(x)[1])]  # fmt: skip
    assert shapes[0] == shapes[1] == shapes[2] and all(shape[0] == 3 for shape in shapes[0].values())


@pytest.mark.parametrize("name", ["sam", "sdnc", "ntm", "dnc"])
def test_elements_may_be_mixed_and_zeros_are_fresh(name):
    model, x, later = made(name)
    state = model(x)[1]
    done = torch.tensor([False, True, False])
    part = {key: torch.where(done.view(3, *[1] * (value.dim() - 1)), torch.zeros_like(value), value)[[2, 1, 0]]
            for key, value in packed(state, name).items()}  # fmt: skip
    expected = state.reset(done)[[2, 1, 0]]
    assert torch.equal(model(later, model.unpack(part))[0], model(later, expected)[0])


def test_the_layer_too():
    torch.manual_seed(0)
    layer = sparsam.SparseMemory(4, memory_size=64, word_size=6, links=3)
    x = torch.randn(8, 3, 4)
    state = layer(x)[1]
    assert torch.equal(layer(x, layer.unpack(state.pack(64)))[0], layer(x, state)[0])


@pytest.mark.parametrize("shared", [True, False])
def test_the_memory_it_began_with_is_given_and_checked(shared):
    model, x, later = made("sam")
    memory = torch.randn(64, 5) if shared else torch.randn(3, 64, 5)
    state = model(x, model.initial_state(3, memory))[1]
    tensors = state.pack(64)
    assert torch.equal(model(later, model.unpack(tensors, memory))[0], model(later, state)[0])
    for wrong in (None, memory + 1):
        with pytest.raises(ValueError, match="initial_memory: expected the memory that the packed state began with"):
            model.unpack(tensors, wrong)


def test_more_rows_than_stated_are_refused():
    model, x, _ = made("sam")
    state = model(x)[1]
    with pytest.raises(ValueError, match=r"rows: expected at least (\d+)") as refused:
        state.pack(3)
    least = int(str(refused.value).split("at least ")[1].split(",")[0])
    assert torch.equal(model(x, model.unpack(state.pack(least)))[0], model(x, state)[0])
    with pytest.raises(ValueError, match="rows: expected"):
        state.pack()


@pytest.mark.parametrize("name", ["hidden", "read_rows", "memory_words", "memory_rows"])
def test_damaged_tensors_are_refused(name):
    model, x, _ = made("sam")
    tensors = model(x)[1].pack(64)
    with pytest.raises(ValueError):
        model.unpack({**tensors, name: tensors[name].double()})
    with pytest.raises(ValueError):
        model.unpack({key: value for key, value in tensors.items() if key != name})
    with pytest.raises(ValueError):
        model.unpack({**tensors, "memory_words": tensors["memory_words"] * torch.nan})
    with pytest.raises(ValueError):
        model.unpack({**tensors, "memory_rows": tensors["memory_rows"].clamp(max=0)})


def test_another_models_tensors_are_refused():
    model, x, _ = made("sam")
    tensors = model(x)[1].pack(64)
    with pytest.raises(ValueError, match="link_ids"):
        made("sdnc")[0].unpack(tensors)
    with pytest.raises(ValueError, match=r"packed.read: expected"):
        made("sam", num_heads=1)[0].unpack(tensors)


@pytest.mark.parametrize("given", [None, [], 3, {}, {"begun": 1}, {"begun": torch.ones(0)}])
def test_what_was_never_packed_is_refused(given):
    with pytest.raises(ValueError, match="packed: expected what state"):
        made("sam")[0].unpack(given)


@pytest.mark.parametrize("name", ["memory_words", "memory_rows", "memory_recency", "memory_origin", "hidden"])
def test_a_tensor_of_a_smaller_batch_is_refused_by_name(name):
    model, x, _ = made("sam")
    tensors = model(x)[1].pack(64)
    with pytest.raises(ValueError, match=f"{name}: expected"):
        model.unpack({**tensors, name: tensors[name][:2]})


def test_the_state_of_another_controller_is_refused():
    tensors = made("sam")[0].initial_state(2).pack(64)
    with pytest.raises(ValueError, match="cell: expected none"):
        made("sam", controller="gru")[0].unpack(tensors)
