"""The recall tests in small: recipes build, streaming equals one call, costs are measured, reports are written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from sparsam.lab.recipes import mqar, recipe, token_cost, token_report
from sparsam.lab.recipes.baselines import TokenModel
from sparsam.lab.recipes.experiment import reproduce
from sparsam.lab.recipes.token_tests import error_rate, stream
from sparsam.lab.tasks.tokens.mqar import Mqar
from sparsam.lab.training.config import ModelConfig, RunConfig
from sparsam.lab.training.learner import Learner
from sparsam.lab.training.seeds import MinibatchSeeds

TINY = ["model.hidden_size=16", "model.word_size=8", "model.memory_size=128", "model.parameters=40000",
        "batch_size=2", "steps=2", "eval_every=2", "eval_batches=1", "eval_batch_size=2",
        "tensorboard=false", "checkpoint_every=2"]  # fmt: skip


def test_the_recipe_is_complete_fair_and_takes_a_step() -> None:
    experiment, parameters = recipe("mqar")(seeds=1), 300_000
    assert experiment.name == "mqar"
    seen = set()
    for config in experiment.runs.values():
        assert RunConfig.from_json(config.to_json()) == config
        same = (repr(config.optimizer), config.batch_size, config.steps, config.model.hidden_size)
        seen.add(same)
        model = config.model.build(64, 64)
        assert isinstance(model, TokenModel)
        assert 0.99 * parameters <= model.block_parameters <= parameters, config.name
    assert len(seen) == 1  # one optimiser, batch, length of training and width for all models
    for config in list(experiment.runs.values())[:2]:
        learner = Learner(config.with_settings([*TINY[:3], "model.parameters=750000", "batch_size=2"]))
        level = 2 if config.curriculum else None
        assert learner.apply(0, learner.gradient(0, level)) > 0


def _small() -> tuple[TokenModel, Mqar]:
    torch.manual_seed(0)
    model = TokenModel(64, 64, 16, ["memory", "attention"], memory_size=512, word_size=8, num_heads=2)
    return model, Mqar(vocabulary=64, slices=[(64, 8)])


def test_streaming_in_pieces_counts_what_one_call_counts() -> None:
    model, task = _small()
    batch = task.sample(8, MinibatchSeeds(0).at(0))
    whole = task.errors(model(batch.inputs)[0], batch)["error_rate"]
    for piece in (7, 64, 100):
        parts = list(stream(model, task, batch, piece=piece))
        assert sum(part[0] for part in parts) == round(whole * 64) and sum(part[1] for part in parts) == 64
        assert parts[-1][2] == 64


def test_a_perfect_model_has_no_error_and_a_test_out_of_time_says_where_it_stopped() -> None:
    _, task = _small()

    class Perfect(torch.nn.Module):
        """Looks the key up in all tokens so far."""

        def forward(self, tokens, state=None, mask=None):  # type: ignore[no-untyped-def]
            past = tokens if state is None else torch.cat([state, tokens])
            first = past.shape[0] - tokens.shape[0]
            answers = []
            for time, b in mask.nonzero().tolist():
                place = int((past[: first + time, b] == tokens[time, b]).nonzero()[-1])
                answers.append(past[place + 1, b])
            return torch.nn.functional.one_hot(torch.stack(answers), 64).float() if answers else torch.zeros(
                0, 64
            ), past

    draw = lambda generator: task.sample(4, generator)  # noqa: E731
    found = error_rate(Perfect(), task, draw, batches=3, piece=10)
    assert found["error_rate"] == 0 and found["answers"] == 3 * 4 * 8 and found["tokens"] == 3 * 4 * 64
    short = error_rate(Perfect(), task, draw, piece=10, seconds=0.0)
    assert short["stopped_at"] == 10 and short["error_rate"] is None


def test_costs_are_positive_and_training_bytes_of_attention_are_seen() -> None:
    config = ModelConfig("blocks", hidden_size=64, num_heads=1, extra={"mixers": ["attention"]})
    found = token_cost.measure(config, 4096, vocabulary=64)
    assert found["seconds_per_token"] > 0 and found["training_seconds_per_token"] > 0
    assert found["training_bytes_per_token"] > 4 * 64 * 4  # x, q, k, v at the very least; measured: 4,000


def test_mqar_in_small_from_training_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mqar, "LONG", (80,))
    monkeypatch.setattr(mqar, "LONG_INDEXES", ("linear",))
    monkeypatch.setattr(mqar, "TESTED", ((64, 4), (64, 8)))
    monkeypatch.setattr(mqar, "SEQUENCES", 2)
    monkeypatch.setattr(mqar, "BATCH", 2)
    monkeypatch.setattr(token_cost, "measure", token_cost.measure_here)  # this process has the layer
    monkeypatch.setattr(token_report.costs, "__defaults__", ((64, 128),))
    experiment = mqar.mqar(seeds=1, models=["memory", "attention"])
    experiment.runs = {name: config.with_settings(TINY) for name, config in experiment.runs.items()}
    reproduce(experiment, tmp_path, quiet=True)
    text = mqar.report(tmp_path)
    for expected in (
        "| large-memory-0 |",
        "| zoology-attention-0 |",
        "8 pairs in 64",
        "80 pairs |",
        "128 tokens",
    ):
        assert expected in text
    assert {path.name for path in tmp_path.glob("*.png")} >= {"zoology-accuracy.png", "large-accuracy.png", "cost.png"}
    long = json.loads((tmp_path / "large-memory-0" / "lengths.json").read_text())
    assert long["80 pairs"]["tokens"] == 320 and long["80 pairs"]["memory_size"] == 2048
    assert mqar.report(tmp_path) == text  # measured once
