"""A memory cut down to one head answers as before where the other heads did nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import sparsam
from sparsam.lab.recipes import fewer_heads, mqar
from sparsam.lab.recipes.experiment import reproduce
from sparsam.lab.training.saved import load_model
from sparsam.trace import READ, WRITE, Access, Trace


def test_the_pair_of_heads_is_the_one_that_read_what_was_written_after_the_answer() -> None:
    def access(kind: int, time: int, rows: list[int], weights: list[float]) -> Access:  # one row for each of two heads
        return Access(kind, time, torch.tensor(rows).view(1, 2, 1), torch.tensor(weights).view(1, 2, 1))

    trace = Trace.of(
        [
            access(WRITE, 3, [7, 8], [0.9, 0.8]),  # the answer was shown at step 2
            access(WRITE, 6, [9, 8], [0.9, 0.1]),
            access(READ, 9, [9, 8], [1.0, 0.7]),
            access(READ, 10, [8, 7], [0.4, 0.4]),  # not asked
        ]
    )
    found = fewer_heads.weights_by_heads(trace, asked=[9], shown=[2], heads=2)
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.0], [0.0, 0.7]]))


@pytest.mark.parametrize(("read", "write"), [(0, 0), (1, 1)])
def test_a_head_alone_does_what_it_did_beside_one_that_never_wrote(read: int, write: int) -> None:
    torch.manual_seed(0)
    sizes = {"memory_size": 64, "word_size": 4, "k": 2}
    layer, alone = sparsam.SparseMemory(6, num_heads=2, **sizes), sparsam.SparseMemory(6, num_heads=1, **sizes)
    first = layer.memory.sizes.interface.offsets()
    with torch.no_grad():
        layer.interface.weight[first["write_gate"] + 1 - write] = 0
        layer.interface.bias[first["write_gate"] + 1 - write] = -1000
        layer.output.weight[:, 6 + 4 * (1 - read) : 6 + 4 * (2 - read)] = 0
        alone.load_state_dict(fewer_heads.keep_one_head(layer, read, write, torch.ones(8)))
    x = torch.randn(20, 3, 6)
    torch.testing.assert_close(alone(x)[0], layer(x)[0])


def test_what_other_heads_read_becomes_a_constant() -> None:
    layer = sparsam.SparseMemory(3, memory_size=16, word_size=2, num_heads=2, k=2)
    mean = torch.tensor([5.0, 6.0, 7.0, 8.0])
    found = fewer_heads.keep_one_head(layer, 1, 0, mean)
    expected = layer.output.bias + layer.output.weight[:, 3:5] @ mean[:2]
    torch.testing.assert_close(found["output.bias"], expected)
    assert found["interface.weight"].shape == (2 * 2 + 3, 3)


def test_a_run_is_cut_and_can_be_trained_on(tmp_path: Path) -> None:
    tiny = ["model.hidden_size=16", "model.word_size=8", "model.memory_size=256", "model.parameters=60000",
            "batch_size=2", "steps=1", "eval_every=1", "eval_batches=1", "eval_batch_size=2",
            "tensorboard=false"]  # fmt: skip
    experiment = mqar.mqar(seeds=1, tasks=["zoology"], models=["memory", "memory-one-head"])
    whole, one = experiment.runs
    experiment.runs = {whole: experiment.runs[whole].with_settings(tiny)}
    reproduce(experiment, tmp_path, quiet=True)
    file = tmp_path / "one.safetensors"
    said = fewer_heads.cut(tmp_path / whole, 4, file)
    assert {"reads", "writes", "weight_on_the_right_word"} <= said.keys()
    model, _, config = load_model(file)
    assert config.model.num_heads == 1 and config.model.parameters == said["parameters"] == model.block_parameters
    again = mqar.mqar(seeds=1, tasks=["zoology"], models=["memory-one-head"])
    sets = [*tiny, f"weights={file}", f"model.parameters={said['parameters']}"]
    again.runs = {one: again.runs[one].with_settings(sets)}
    reproduce(again, tmp_path, quiet=True)
    assert (tmp_path / one / "result.json").exists()
    with pytest.raises(ValueError, match="run: expected a memory with several heads, got one"):
        fewer_heads.cut(file, 4, tmp_path / "none.safetensors")
