"""A state in a TensorDict: never the whole of it for a part of the batch."""

from __future__ import annotations

import pytest
import torch

import sparsam
from tests.adapters.conftest import guest

guest("tensordict")
from tensordict import TensorDict  # noqa: E402
from tensordict.nn import TensorDictModule  # noqa: E402

SIZES = {"input_size": 4, "output_size": 3, "hidden_size": 8, "memory_size": 32, "word_size": 5, "num_heads": 2}


@pytest.fixture
def case():
    torch.manual_seed(0)
    model = sparsam.SAM(**SIZES)
    x = torch.randn(7, 5, 4)
    state = model(x)[1].detach()
    return model, state, x, TensorDict({"state": state, "id": torch.arange(5)}, batch_size=[5])


def same(model, x, held, state):
    return torch.equal(model(x, held)[0], model(x, state)[0])


@pytest.mark.parametrize("index", [slice(1, 3), [4, 0, 0], torch.tensor([True, False, True, True, False])])
def test_a_part_of_the_batch_has_its_part_of_the_state(case, index):
    model, state, x, held = case
    assert same(model, x[:, index], held[index]["state"], state[index])


def test_one_element_alone(case):
    model, state, x, held = case
    assert same(model, x[:, 2:3], held[2]["state"][None], state[2])


def test_cat_stack_split_and_gather(case):
    model, state, x, held = case
    joined = torch.cat([held[3:], held[:3]])
    assert same(model, x, joined["state"], state[[3, 4, 0, 1, 2]])
    stacked = torch.stack([held[:2], held[2:4]])
    assert same(model, x[:, :4], stacked.reshape(-1)["state"], state[:4])
    assert same(model, x[:, :2], held.split(2)[1]["state"], state[2:4])
    shuffled = held[torch.tensor([4, 2, 0, 1, 3])]
    assert same(model, x, shuffled["state"], state[shuffled["id"]])


def test_expand_to_clone_and_share(case):
    model, state, x, held = case
    assert same(model, x, held.expand(2, 5)[1]["state"], state)
    assert same(model, x, held.to(torch.bfloat16)["state"], state)
    assert same(model, x, held.to("cpu").clone()["state"], state)
    assert same(model, x, held.share_memory_()["state"], state)


def test_memory_mapped_in_this_process(case, tmp_path):
    model, state, x, held = case
    held.memmap(tmp_path)
    assert same(model, x[:, 1:3], TensorDict.load_memmap(tmp_path)[1:3]["state"], state[1:3])


def test_written_in_place_and_padded_with_zeros(case):
    model, state, x, held = case
    later = model(x, state)[1].detach()
    held[1:3] = TensorDict({"state": later[1:3], "id": torch.zeros(2, dtype=torch.long)}, batch_size=[2])
    assert same(model, x, held["state"], sparsam.cat([state[:1], later[1:3], state[3:]]))
    held["state"] = torch.where(torch.tensor([True, False, False, False, True])[:, None], 0.0, state.ticket())
    assert same(model, x, held["state"], state.reset(torch.tensor([True, False, False, False, True])))


def test_another_batch_size_is_refused(case):
    _, state, _, _ = case
    with pytest.raises(RuntimeError, match="batch"):
        TensorDict({"state": state}, batch_size=[4])


def test_packed_it_holds_in_any_process(case, tmp_path):
    model, state, x, _ = case
    held = TensorDict(state.pack(32), batch_size=[5])
    held.memmap(tmp_path)
    loaded = TensorDict.load_memmap(tmp_path)[[3, 1]]
    assert same(model, x[:, [3, 1]], model.unpack(loaded.to_dict()), state[[3, 1]])


@pytest.mark.filterwarnings("error")
def test_a_module_runs_twice():
    torch.manual_seed(0)
    model = sparsam.SAM(**SIZES)
    module = TensorDictModule(model, in_keys=["x", "state"], out_keys=["y", "state"])
    x = torch.randn(6, 5, 4)
    held = TensorDict({"x": x, "state": model.initial_state(5)})
    with torch.no_grad():
        module(held)
        held["x"] = 2 * x
        module(held)
    torch.testing.assert_close(held["y"], model(torch.cat([x, 2 * x]))[0][6:], rtol=0, atol=1e-6)


def test_a_gradient_that_ends_there_is_said():
    model = sparsam.SAM(**SIZES)
    state = model(torch.randn(2, 5, 4))[1]
    with pytest.warns(UserWarning, match="carry no gradient"):
        TensorDict({"state": state}, batch_size=[5])
