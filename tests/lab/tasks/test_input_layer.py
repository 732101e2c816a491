"""A task's input layer: trained with the model, saved and loaded with it, begun with weights of its own, held back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sparsam.lab.tasks.input_layer import WithInputLayer
from sparsam.lab.tasks.task import Batch
from sparsam.lab.training.config import ModelConfig, OptimizerConfig, RunConfig, TaskConfig
from sparsam.lab.training.learner import Learner
from sparsam.lab.training.loop import train
from sparsam.lab.training.optimizer import learning_rate
from sparsam.lab.training.trained import load_model
from sparsam.lab.training.user_classes import use_task


class Layer(nn.Module):
    """Three numbers to the two that a model sees, two answers to four scores."""

    def __init__(self) -> None:
        super().__init__()
        self.late, self.table = nn.Linear(3, 2), nn.Parameter(torch.randn(4, 2))

    def forward(self, inputs):
        return self.late(inputs)

    def scores(self, answers):
        return answers @ self.table.T


class Shown:
    """Which of four classes the numbers of a step belong to."""

    name, input_size, output_size = "shown", 2, 2

    def sample(self, batch_size, generator, level=None):
        inputs = torch.randn(5, batch_size, 3, generator=generator)
        targets = (inputs[..., 0] > 0).long() + 2 * (inputs[..., 1] > 0).long()
        return Batch(inputs, targets, torch.ones(5, batch_size, dtype=torch.bool), answers=slice(0, 5))

    def loss(self, outputs, batch):
        return nn.functional.cross_entropy(outputs.flatten(0, 1), batch.targets.flatten())

    def errors(self, outputs, batch):
        return {"error_rate": float((outputs.argmax(-1) != batch.targets).float().mean())}

    def input_layer(self):
        return Layer()


def config(**settings) -> RunConfig:
    model = ModelConfig("sam", hidden_size=8, memory_size=16, word_size=4, num_heads=1, k=2)
    task = TaskConfig(f"{__name__}:Shown")
    adam = OptimizerConfig("adam", learning_rate=1e-2)
    defaults = {"model": model, "task": task, "optimizer": adam, "steps": 4, "eval_every": 2, "eval_batches": 1}
    return RunConfig(**{**defaults, "tensorboard": False, **settings})


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("sys").modules[__name__])
    use_task(f"{__name__}:Shown")


def moved(learner: Learner, name: str, steps: int = 2) -> bool:
    before = dict(learner.model.named_parameters())[name].detach().clone()
    for step in range(steps):
        learner.apply(step, learner.gradient(step, None))
    return not before.equal(dict(learner.model.named_parameters())[name])


def test_layer_and_model_learn_together():
    for name in ("input_layer.late.weight", "input_layer.table", "model.controller.weight_ih_l0"):
        assert moved(Learner(config()), name)


def test_a_late_part_waits_for_its_share_of_the_run():
    late = OptimizerConfig("adam", learning_rate=1e-2, input_layer_from=0.5)
    learner = Learner(config(optimizer=late))
    learner.share = 0.4
    assert not moved(learner, "input_layer.late.weight") and moved(learner, "input_layer.table")
    learner.share = 0.5
    assert moved(learner, "input_layer.late.weight")


def test_a_slow_layer_goes_a_share_of_its_way():
    slow = OptimizerConfig("adam", learning_rate=1e-2, input_layer_rate=0.1)
    moves = []
    for adam in (OptimizerConfig("adam", learning_rate=1e-2), slow):
        learner = Learner(config(optimizer=adam))
        before = {name: value.detach().clone() for name, value in learner.model.named_parameters()}
        learner.apply(0, learner.gradient(0, None))
        after = dict(learner.model.named_parameters())
        moves.append({name: after[name].detach() - value for name, value in before.items()})
    late, table = "input_layer.late.weight", "input_layer.table"
    assert torch.allclose(moves[1][late], 0.1 * moves[0][late], atol=1e-6) and moves[0][late].any()
    assert torch.allclose(moves[1][table], moves[0][table])


def test_the_layer_of_a_seed_is_the_same_before_every_model():
    other = ModelConfig("lstm", hidden_size=8)
    first, second = Learner(config()).model, Learner(config(model=other)).model
    assert first.input_layer.late.weight.equal(second.input_layer.late.weight)
    assert not first.input_layer.late.weight.equal(Learner(config(seed=1)).model.input_layer.late.weight)


def test_a_run_can_begin_with_a_layers_weights(tmp_path: Path):
    weight = torch.full((2, 3), 0.25)
    save_file({"input_layer.late.weight": weight}, tmp_path / "layer.safetensors")
    learner = Learner(config(), weights=str(tmp_path / "layer.safetensors"))
    fresh = Learner(config())
    assert learner.model.input_layer.late.weight.equal(weight)
    assert learner.model.input_layer.table.equal(fresh.model.input_layer.table)
    assert learner.model.model.output.weight.equal(fresh.model.model.output.weight)


def test_the_whole_is_saved_loaded_and_resumed(tmp_path: Path):
    late = OptimizerConfig("adam", learning_rate=1e-2, input_layer_from=0.5)
    run = config(optimizer=late, checkpoint_every=2)
    train(run, tmp_path / "whole", quiet=True)
    whole, task, _ = load_model(tmp_path / "whole")
    assert isinstance(whole, WithInputLayer) and task.name == "shown"
    assert whole.memory_size == 16 and (whole.input_size, whole.output_size) == (2, 2)  # the layer says no other sizes
    with pytest.raises(AttributeError, match="nothing_like_it"):
        whole.nothing_like_it  # noqa: B018
    part = tmp_path / "part"
    train(dataclasses.replace(run, steps=3), part, quiet=True)
    train(dataclasses.replace(run, steps=4), part, resume=True, quiet=True)
    # With other steps the share is another one: only a run with the same end has the same bits.
    assert all(value.isfinite().all() for value in load_model(part)[0].state_dict().values())


def test_the_rate_falls_by_time():
    rate = OptimizerConfig(learning_rate=1e-2, final_rate=1e-4, final_by="seconds", hold_share=0.5)
    assert learning_rate(rate, 5, 10, share=0.5) == pytest.approx(1e-2)
    assert learning_rate(rate, 5, 10, share=0.75) == pytest.approx(1e-3)
    assert learning_rate(rate, 5, 10, share=1.0) == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"final_by": "hours"}, "optimizer.final_by: expected one of 'steps', 'seconds', got 'hours'"),
        ({"hold_share": 1.0}, "optimizer.hold_share: expected a share below 1, got 1.0"),
        ({"input_layer_from": 2.0}, "optimizer.input_layer_from: expected a number in \\[0.0, 1.0\\], got 2.0"),
        ({"input_layer_rate": 0.0}, "optimizer.input_layer_rate: expected a share up to 1, got 0.0"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        OptimizerConfig(**settings)


def test_what_cannot_go_together_is_refused():
    by_time = OptimizerConfig(final_rate=1e-4, final_by="seconds")
    with pytest.raises(ValueError, match=r"optimizer.final_by: expected 'steps' for a run without seconds"):
        config(optimizer=by_time)
    with pytest.raises(ValueError, match=r"workers: expected 0 with optimizer.final_by 'seconds'"):
        config(optimizer=by_time, seconds=1.0, workers=2)
