"""Trained models by name, file, folder and URL; and on the Hub, against a local folder."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from pathlib import Path

import pytest
import torch

import sparsam
import sparsam.lab
from sparsam.lab.training.config import ModelConfig, RunConfig, TaskConfig


def write_weights(file: Path, **settings) -> torch.nn.Module:
    from sparsam.lab.training.checkpoint import weights_to_bytes

    config = RunConfig(
        model=ModelConfig(
            "sam", hidden_size=6, memory_size=16, word_size=4, num_heads=2, engine="reference", **settings
        ),
        task=TaskConfig("copy", {"bits": 3}),
    )
    model = sparsam.build("sam", input_size=5, output_size=3, **config.model.arguments())
    file.write_bytes(weights_to_bytes(model.state_dict(), config.to_json()))
    return model


def test_every_name_loads_without_data_and_has_a_card(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPARSAM_DATA", str(tmp_path))
    assert {"babi-sam", "babi-sdnc", "copy-sam", "recall-sam"} <= set(sparsam.weights.names())
    for name in sparsam.weights.names():
        model = sparsam.load(name, memory_size=64)
        assert not model.training and model.memory_size == 64
        y, _ = model(torch.zeros(2, 1, model.input_size))
        assert y.shape == (2, 1, model.output_size)
        card = sparsam.weights.card(name)
        assert card and card.startswith(f"# {name}\n")
        assert all(f"\n## {part}\n" in card for part in ("What it is", "How it was trained", "Figures", "Limits"))


def test_file_and_changes(tmp_path):
    model = write_weights(tmp_path / "x.safetensors", index="lsh", index_settings={"tables": 2})
    again = sparsam.load(tmp_path / "x.safetensors", memory_size=32)
    assert (again.input_size, again.output_size, again.memory_size) == (5, 3, 32)
    assert again.index == sparsam.LSH(tables=2)
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in model.state_dict().items())
    with pytest.raises(ValueError, match=r"memory_sise: expected an argument of SAM.*did you mean 'memory_size'"):
        sparsam.load(tmp_path / "x.safetensors", memory_sise=3)


def test_folder_of_a_run(tmp_path):
    checkpoint = pytest.importorskip("sparsam.lab.training.checkpoint")
    write_weights(tmp_path / "x.safetensors")
    weights = sparsam.weights.read(tmp_path / "x.safetensors")
    checkpoint.save(tmp_path / "run" / "checkpoints", 5, weights.tensors, {}, weights.metadata["sparsam_config"])
    assert sparsam.load(tmp_path / "run").memory_size == 16
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty holds no weights"):
        sparsam.load(tmp_path / "empty")


def test_mistakes_are_told_by_name(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"babi-sma: expected the name of weights \(babi-sam, .*did you mean 'babi-sam'"
    ):
        sparsam.load("babi-sma")
    for content in (b"", b"\x00" * 40, b"not weights at all"):
        (tmp_path / "x.safetensors").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.safetensors is not a whole \.safetensors file"):
            sparsam.load(tmp_path / "x.safetensors")


def test_a_file_runs_nothing(tmp_path):
    """The task of a weights file is a command: it must not be run, nor looked for."""
    from sparsam.lab.training.checkpoint import weights_to_bytes

    model, config = write_weights(tmp_path / "x.safetensors"), RunConfig().to_dict()
    config["task"] = {"name": "subprocess:Popen", "settings": {"args": ["touch", str(tmp_path / "canary")]}}
    tensors = {"input_layer.x": torch.zeros(1), **{f"model.{key}": value for key, value in model.state_dict().items()}}
    for weights in (tensors, {"output.weight": torch.zeros(1, 1)}):
        (tmp_path / "x.safetensors").write_bytes(weights_to_bytes(weights, json.dumps(config)))
        with pytest.raises(ValueError):
            sparsam.load(tmp_path / "x.safetensors")
    assert not (tmp_path / "canary").exists()


def test_url_is_fetched_once(tmp_path, monkeypatch):
    write_weights(tmp_path / "x.safetensors")
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path / "cache"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    monkeypatch.setattr(http.server.SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/x.safetensors"
        assert sparsam.load(url).memory_size == 16
        with pytest.raises(FileNotFoundError, match="cannot be fetched"):
            sparsam.load(url.replace("x.", "y."))
        server.shutdown()
    assert sparsam.load(url).memory_size == 16  # the server is gone


def test_hub_classes_against_a_folder(tmp_path):
    hub = pytest.importorskip("sparsam.adapters.hub", reason="the Hub needs huggingface_hub", exc_type=ImportError)
    model = hub.SAM(3, 2, hidden_size=4, memory_size=16, word_size=4, num_heads=1, index=sparsam.Auto(sparsam.LSH(2)))
    model.save_pretrained(tmp_path / "mine")
    x = torch.randn(3, 1, 3)
    for again in (hub.SAM.from_pretrained(str(tmp_path / "mine")), sparsam.load(tmp_path / "mine")):
        assert again.index == model.index and again.memory_size == 16
        assert torch.equal(again(x)[0], model(x)[0])
    assert hub.SAM.from_pretrained(str(tmp_path / "mine"), memory_size=32).memory_size == 32
    (tmp_path / "mine" / "config.json").write_text('{"hidden_size": 14000, "memory_size": 3, "controller": "x:y"}')
    assert hub.SAM.from_pretrained(str(tmp_path / "mine")).hidden_size == 4  # what config.json says is not asked for
    with pytest.raises(ValueError, match="expected weights of a SDNC, got 'sam'"):
        hub.SDNC.from_pretrained(str(tmp_path / "mine"))
    assert "sparsam" in (tmp_path / "mine" / "README.md").read_text()


def test_nothing_is_rounded(tmp_path):
    """Doubles stay doubles; halves become singles, which hold them exactly."""
    for dtype, loaded in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        model = sparsam.SAM(3, 2, 8, memory_size=64, dtype=dtype)
        sparsam.weights.save(model, tmp_path / "model.safetensors")
        again = sparsam.load(tmp_path / "model.safetensors")
        assert again.like.dtype == loaded
        for name, value in model.state_dict().items():
            assert torch.equal(again.state_dict()[name], value.to(loaded))


@pytest.mark.parametrize("name", ["~nobody/x", "x" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have(name):
    with pytest.raises(FileNotFoundError, match="expected the name of weights"):
        sparsam.load(name)
