"""The description of a model in a weights file: complete, closed, and what comes back from it."""

from __future__ import annotations

import inspect
import json

import pytest
import torch
from safetensors.torch import save_file

import sparsam
from sparsam import model_description, weights
from sparsam.models import MODELS

SMALL = {"input_size": 3, "output_size": 2, "hidden_size": 5}


@pytest.mark.parametrize("name", MODELS)
def test_every_argument_of_a_model_is_described_or_left_out_on_purpose(name):
    known = {*model_description.FIELDS, *model_description.NOT_DESCRIBED}
    assert not inspect.signature(MODELS[name]).parameters.keys() - known


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lstm", {"num_layers": 2, "dropout": 0.25}),
        ("sam", {"index": sparsam.Auto(sparsam.LSH(tables=3), exact_until=9), "controller": "gru", "num_layers": 2}),
        (
            "sam",
            {"layer_norm": True, "bypass_dropout": 0.1, "masked": True, "erase": True, "start": sparsam.Start(write=2)},
        ),
        (
            "sdnc",
            {"controller": "feedforward", "num_layers": 3, "k_links": 3, "link_gradients": True, "backward_clip": 2.0},
        ),
        ("dam", {"similarity": "dot", "discount": 0.5, "batch_first": True}),
        ("ntm", {"engine": "reference"}),
        ("dnc", {"deallocate": True, "start": "plain"}),
    ],
)
def test_a_model_comes_back_from_its_file(tmp_path, name, arguments):
    sizes = {} if name == "lstm" else {"memory_size": 12, "word_size": 4, "num_heads": 2}
    model = sparsam.build(name, **SMALL, **sizes, **arguments).eval()
    weights.save(model, tmp_path / "x.safetensors", {"about": "a test"})
    read = weights.read(tmp_path / "x.safetensors")
    again = read.build().eval()
    assert read.metadata["about"] == "a test" and repr(again) == repr(model)
    assert model_description.describe(again) == model_description.describe(model)
    x = torch.randn(3, 2, 3)
    assert torch.equal(again(x)[0], model(x)[0])


def test_what_a_live_model_says_is_what_is_written(tmp_path):
    model = sparsam.SAM(**SMALL, memory_size=12, word_size=4, num_heads=2)
    model.delta, model.index = 0.25, sparsam.LSH(2)
    weights.save(model, tmp_path / "x.safetensors")
    again = sparsam.load(tmp_path / "x.safetensors")
    assert again.delta == 0.25 and again.index == sparsam.LSH(2)


def test_what_no_file_can_describe_is_refused(tmp_path):
    own = sparsam.SAM(**SMALL, memory_size=12, controller=torch.nn.GRU(131, 5))
    own.controller.extra = torch.nn.Linear(1, 1)
    for model, message in (
        (own, "layers as its constructor makes them"),
        (torch.nn.Linear(1, 1), "expected one of lstm"),
    ):
        with pytest.raises(ValueError, match=message):
            weights.save(model, tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


def test_shapes_take_no_memory_and_no_random_numbers():
    text = json.dumps({"name": "sam", "arguments": {**SMALL, "hidden_size": 60_000, "num_layers": 3}})
    before = torch.get_rng_state()
    made = model_description.read(text, "x").without_weights()
    assert {value.device.type for value in made.state_dict().values()} == {"meta"}
    assert before.equal(torch.get_rng_state())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"version": 2}, r"x\.version: expected 1, got 2"),
        ({"version": True}, r"x\.version: expected 1, got True"),
        ({"name": "samm"}, r"x\.name: expected one of lstm.*got 'samm'; did you mean 'sam'"),
        ({"name": ["sam"]}, r"x\.name: expected one of lstm"),
        ({"task": "subprocess:Popen"}, r"x: expected version, name.*got 'task'"),
        ({"arguments": [1]}, r"x\.arguments: expected an object, got a list of 1"),
        ({"arguments": {"hidden_sise": 3}}, r"x\.arguments: .*'hidden_sise'; did you mean 'hidden_size'"),
        ({"arguments": {}}, r"x\.arguments\.input_size: expected an int, got none"),
        ({"arguments": {**SMALL, "hidden_size": 10**9}}, r"x\.arguments\.hidden_size: expected an int in 1\.\.65536"),
        ({"arguments": {**SMALL, "hidden_size": True}}, r"x\.arguments\.hidden_size: expected an int"),
        ({"arguments": {**SMALL, "delta": float("nan")}}, r"x\.arguments\.delta: expected a number"),
        ({"arguments": {**SMALL, "masked": 1}}, r"x\.arguments\.masked: expected true or false"),
        ({"arguments": {**SMALL, "start": "opne"}}, r"x\.arguments\.start: .*did you mean 'open'"),
        ({"arguments": {**SMALL, "index": "lhs"}}, r"x\.arguments\.index: .*did you mean 'lsh'"),
        ({"arguments": {**SMALL, "index": {"index": "Popen"}}}, r"x\.arguments\.index\.index: expected one of"),
        (
            {"arguments": {**SMALL, "index": {"index": "LSH", "settings": {"tabels": 2}}}},
            r"x\.arguments\.index\.settings: .*did you mean 'tables'",
        ),
        (
            {"arguments": {**SMALL, "index": {"index": "LSH", "settings": {"tables": 33}}}},
            r"x\.arguments\.index\.settings\.tables: expected an int in 1\.\.32",
        ),
        ({"arguments": {**SMALL, "controller": "own"}}, r"x\.arguments\.controller: expected one of"),
        ({"input_layer": {"name": "os:system"}}, r"x\.input_layer\.name: .*'os:system'; import the package"),
        ({"input_layer": []}, r"x\.input_layer: expected an object"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(values, message):
    with pytest.raises(ValueError, match=message):
        model_description.read(json.dumps({"version": 1, "name": "sam", "arguments": SMALL, **values}), "x")


@pytest.mark.parametrize("key", model_description.FORMER)
def test_a_file_with_an_argument_of_an_earlier_version_still_loads(tmp_path, key):
    model = sparsam.NTM(**SMALL, memory_size=12, word_size=4, num_heads=2)
    described = json.loads(model_description.describe(model).to_json())
    described["arguments"][key] = True
    save_file(model.state_dict(), tmp_path / "x.safetensors", {weights.MODEL_KEY: json.dumps(described)})
    again = sparsam.load(tmp_path / "x.safetensors")
    assert model_description.describe(again) == model_description.describe(model)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '"sam"', "[" * 5000, '{"a":' * 5000, "9" * 5000])
def test_what_is_no_object_is_refused(text):
    with pytest.raises(ValueError, match=r"^x"):
        model_description.read(text, "x")
