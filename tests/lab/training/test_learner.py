"""One minibatch: groups that run apart give the gradient of the padded batch, and a run of them goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import sparsam
from sparsam.lab.tasks.babi.task import Babi
from sparsam.lab.tasks.task import Batch
from sparsam.lab.training.evaluate import forward
from sparsam.lab.training.learner import Learner, backward_by_parts
from sparsam.lab.training.loop import train

SAMPLE = Path(__file__).parents[1] / "data" / "babi"
SPARSE = {"hidden_size": 12, "memory_size": 64, "word_size": 6, "num_heads": 2, "k": 4, "engine": "native"}
MODELS = {"sam": SPARSE, "sdnc": SPARSE, "lstm": {"hidden_size": 12}, "ntm": {**SPARSE, "memory_size": 16}}
MODELS["ntm"] = {key: value for key, value in MODELS["ntm"].items() if key not in ("k", "engine")}


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Babi:
    monkeypatch.setenv("SPARSAM_CACHE", str(tmp_path / "cache"))
    return Babi(SAMPLE, verify=False, validation=0.25, balance="story", scale=12.0, tasks=[1, 4, 5, 8, 15, 19])


@pytest.mark.parametrize("name", MODELS)
def test_parts_have_the_gradient_of_the_padded_batch(task: Babi, name: str) -> None:
    batch = task.sample(8, torch.Generator().manual_seed(1))
    batch = replace(batch, inputs=batch.inputs.double())
    assert batch.groups == 4 and len({len(part.inputs) for part in batch.parts()}) > 1
    answers = [int(part.mask.sum()) for part in batch.parts()]
    assert len(set(answers)) > 1  # groups that a plain mean over groups would weigh wrongly
    torch.manual_seed(0)
    model = sparsam.build(name, input_size=task.input_size, output_size=task.output_size, **MODELS[name]).double()
    outputs = forward(model, batch)
    loss = task.loss(outputs, batch)
    loss.backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    by_parts, sum_of_parts = backward_by_parts(model, task, batch)
    torch.testing.assert_close(sum_of_parts, loss.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(by_parts[batch.mask], outputs.detach()[batch.mask], rtol=1e-10, atol=1e-12)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-8, atol=1e-10)
    assert task.errors(by_parts, batch) == task.errors(outputs, batch)


def babi_run(tiny: Any, *more: str) -> Any:
    settings = f'{{"root": "{SAMPLE}", "verify": false, "validation": 0.25, "balance": "story"}}'
    return tiny("task.name=babi", f"task.settings={settings}", "batch_size=8", "optimizer.name=adam", *more)


def test_the_learner_counts_the_steps_it_was_given(tiny: Any, task: Babi) -> None:
    learner = Learner(babi_run(tiny))
    loss = learner.gradient(0, None)
    batch: Batch = learner.task.sample(8, learner.seeds.at(0), None)
    assert loss == pytest.approx(float(learner.task.loss(forward(learner.model, batch), batch).detach()), rel=1e-5)
    assert learner.time_steps == sum(part.targets.numel() for part in batch.parts())
    assert next(iter(learner.errors)) == "error_rate"


@pytest.mark.filterwarnings("ignore:bAbI")
def test_a_run_of_mixed_minibatches_goes_on_with_the_same_bits(tiny: Any, task: Babi, tmp_path: Path) -> None:
    sizes = ("model.name=sam", "model.memory_size=32", "model.word_size=4", "model.num_heads=2")
    train(babi_run(tiny, *sizes, "steps=6"), tmp_path / "whole", quiet=True)
    train(babi_run(tiny, *sizes, "steps=3"), tmp_path / "parts", quiet=True)
    train(babi_run(tiny, *sizes, "steps=6"), tmp_path / "parts", resume=True, quiet=True)
    whole, parts = (Learner(babi_run(tiny, *sizes), weights=str(tmp_path / name)) for name in ("whole", "parts"))
    assert torch.equal(whole.flat.parameters, parts.flat.parameters)
