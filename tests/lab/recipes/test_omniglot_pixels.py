"""Omniglot from pixels: the recipe's runs, the encoder's own training, the nearest neighbour, the tables."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import sparsam
from sparsam.lab.data.omniglot import DRAWINGS, OmniglotImages
from sparsam.lab.recipes import omniglot_pixels as recipe
from sparsam.lab.recipes.experiment import reproduce
from sparsam.lab.recipes.omniglot_encoder import (
    contrastive_loss,
    load_encoder,
    nearest_neighbour,
    save_encoder,
    train_encoder,
)
from sparsam.lab.tasks.omniglot import episodes as omniglot_task
from sparsam.lab.tasks.omniglot.pixels import OmniglotPixels
from sparsam.lab.training.checkpoint import load_weights
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.trained import load_model

SMALL = {
    "labels": 12,
    "features": 8,
    "channels": [8, 8],
    "label_size": 4,
    "evaluation_size": 3,
    "validation": 8,
    "max_size": 8,
}


@pytest.fixture
def characters(monkeypatch):
    """Made-up characters: a few strong pixels of their own each, and noise."""
    random = np.random.default_rng(0)
    ink = random.random((40, 1, 28, 28)) ** 8
    images = np.clip(ink + 0.1 * random.random((40, DRAWINGS, 28, 28)), 0, 1)
    data = OmniglotImages(
        (255 * images).astype(np.uint8), np.arange(40) >= 24, np.array([f"character{c}" for c in range(40)])
    )
    monkeypatch.setattr(omniglot_task, "load_images", lambda root, verify: data)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, (recipe.STEPS, None, "steps")),
        ({"steps": 7}, (7, None, "steps")),
        ({"budget": 5.0}, (1_000_000, 5.0, "seconds")),
        ({"steps": 7, "budget": 5.0}, (7, 5.0, "seconds")),
    ],
)
def test_steps_and_budget_both_count(given, wanted):
    config = recipe.omniglot_pixels(**given).runs["omniglot-pixels-sam-0"]
    assert (config.steps, config.seconds, config.optimizer.final_by) == wanted


def test_the_runs_of_a_table_differ_in_model_and_seed_only():
    runs = recipe.omniglot_pixels(seeds=3, budget=10.0).runs
    names = {"sam", "sdnc", "dam", "ntm", "dnc", "lstm"}
    assert len(runs) == 18 and {config.model.name for config in runs.values()} == names
    with_memory = [config for config in runs.values() if config.model.name != "lstm"]
    for alike, several in (("optimizer batch_size seconds", runs.values()), ("task curriculum", with_memory)):
        assert len({repr([getattr(config, name) for name in alike.split()]) for config in several}) == 1
    for config in runs.values():
        assert RunConfig.from_json(config.to_json()) == config
    longest = runs["omniglot-pixels-sam-0"]
    assert longest.curriculum is not None and longest.curriculum.max_level is not None
    assert longest.curriculum.max_level * 10 * longest.model.num_heads <= longest.model.memory_size
    assert max(recipe.SIZES) * 10 * longest.model.num_heads <= recipe.TEST_MEMORY


def test_curriculum_threshold_is_above_what_a_perfect_learner_has():
    config = recipe.omniglot_pixels().runs["omniglot-pixels-sam-0"]
    floor = 0.1 * 6.2146  # log(500) at one of ten presentations
    assert config.curriculum is not None
    assert floor < config.curriculum.threshold < 6.2146
    assert max(recipe.SIZES) <= config.task.settings["labels"]


def test_the_loss_falls_when_characters_come_together():
    targets = torch.arange(4).repeat(3)
    apart = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    together = torch.eye(8)[:4].repeat(3, 1) + 0.1 * apart
    assert contrastive_loss(together, targets) < contrastive_loss(apart, targets)
    # Two drawings of each of two characters, all of them alike: one of three others is the right one.
    assert float(contrastive_loss(torch.ones(4, 2), torch.tensor([0, 0, 1, 1]))) == pytest.approx(np.log(3), abs=1e-5)


def test_an_encoder_learns_is_kept_and_comes_back(characters, tmp_path: Path):
    task = OmniglotPixels(**SMALL)
    layer, about = train_encoder(task, steps=30, characters=10)
    assert about["minibatches"] == 30 and about["losses"][-1][1] < about["losses"][0][1]
    save_encoder(layer, tmp_path / "0.safetensors", about)
    again = load_encoder(task, tmp_path / "0.safetensors")
    inputs = next(task.evaluation_batches("test", 1, 3, 1)).inputs
    assert torch.allclose(layer.features_of(inputs), again.features_of(inputs), atol=1e-6)
    names = load_weights(tmp_path / "0.safetensors")[0]
    assert all(name.startswith("input_layer.images.") for name in names)


def test_the_nearest_neighbour_sees_what_came_before_only(characters):
    task = OmniglotPixels(**SMALL, augment=False)
    table = nearest_neighbour(task, None, "test", 3, 4)
    errors = table.errors
    assert errors[0] == 1.0 and max(errors[1:]) < 0.1
    assert table.summary()["error_rate"] == pytest.approx(0.1, abs=0.03)


def test_the_whole_recipe_in_small(characters, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(recipe, "TEST_MEMORY", 256)
    experiment = recipe.omniglot_pixels(seeds=1, budget=None, models=["sam", "lstm"], steps=2)
    small = [f"task.settings.{key}={json.dumps(value)}" for key, value in SMALL.items()]
    changes = [*small, "model.hidden_size=8", "batch_size=2", "curriculum.start=2", "curriculum.max_level=4"]
    experiment.runs = {name: config.with_settings(changes) for name, config in experiment.runs.items()}
    monkeypatch.setattr(recipe, "CHARACTERS", 6)
    rows = reproduce(experiment, tmp_path, report=lambda line: None, quiet=True)
    assert [row["minibatches"] for row in rows] == [2, 2]
    first, second = (load_weights(next(path.glob("checkpoints/*/*.safetensors")))[0] for path in _runs(tmp_path))
    start = load_weights(recipe.encoder_file(tmp_path, 0))[0]
    assert all(name in first and name in second for name in start)
    run = next(path for path in _runs(tmp_path) if "sam" in path.name)
    loaded, saved = sparsam.load(run), load_model(run)[0].eval()  # without the data, and with it
    inputs = torch.rand(4, 1, 28 * 28 + SMALL["labels"])
    assert torch.equal(loaded(inputs)[0], saved(inputs)[0])
    text = recipe.report(tmp_path, sizes=(2, 3), episodes=1)
    assert text.startswith("| model | seeds | minibatches | 2 | 3 |")
    assert all(f"\n| {name} | 1 | 2 | " in text for name in ("sam", "lstm"))
    assert "\n| nearest neighbour, encoder 0 | 1 |  | " in text
    error = json.loads((tmp_path / "results.json").read_text())["neighbours"]["nearest neighbour, pixels"]["2"]["error"]
    assert f"\n| nearest neighbour, pixels | 1 |  | {error:.3f} |" in text
    kept = json.loads((tmp_path / "results.json").read_text())
    assert set(kept["runs"]) == {"sam-0", "lstm-0"} and set(kept["runs"]["sam-0"]["test"]) == {"2", "3"}
    assert kept["runs"]["lstm-0"]["test"]["3"]["episodes"] == 1 and kept["runs"]["lstm-0"]["minibatches"] == 2
    # What was measured is not measured again, and a run that was cut off is tested with its newest checkpoint.
    monkeypatch.setattr(OmniglotPixels, "evaluate", None)
    (run / "result.json").unlink()
    assert recipe.report(tmp_path, sizes=(2, 3), episodes=1) == text


def test_runs_begin_with_the_encoder_of_given_weights(characters, tmp_path: Path):
    task = OmniglotPixels(**SMALL)
    given = tmp_path / "given.safetensors"
    save_encoder(task.input_layer(), given, {})
    experiment = recipe.omniglot_pixels(seeds=2, models=["dam", "sam-end-to-end"])
    changes = [f"weights={given}", *(f"task.settings.{key}={json.dumps(value)}" for key, value in SMALL.items())]
    experiment.runs = {name: config.with_settings(changes) for name, config in experiment.runs.items()}
    recipe.train_encoders(experiment, tmp_path / "out")
    inputs = next(task.evaluation_batches("test", 1, 3, 1)).inputs
    alone = [experiment.runs.pop(f"omniglot-pixels-sam-end-to-end-{seed}") for seed in (0, 1)]
    assert all(c.weights is None and not c.task.settings["fixed_norm"] for c in alone)
    assert all(c.optimizer.input_layer_from == 0 and c.optimizer.input_layer_rate == 1 for c in alone)
    for seed, config in enumerate(experiment.runs.values()):
        assert config.weights == str(recipe.encoder_file(tmp_path / "out", seed))
        mine, theirs = (load_encoder(task, Path(file)).features_of(inputs) for file in (config.weights, given))
        assert torch.equal(mine, theirs)


def test_each_episode_has_an_error_of_its_own(characters):
    task = OmniglotPixels(**SMALL)
    table = task.table()
    batch = next(task.evaluation_batches("test", 2, 3, 2))
    answers = torch.nn.functional.one_hot(batch.targets, 12).float()
    answers[:15, 1] = answers[:15, 1].roll(1, -1)
    table.add(answers, batch)
    measured = table.measured()
    assert table.episodes == [0.0, 0.5] and measured["error"] == measured["deviation"] == 0.25
    assert measured["episodes"] == 2 and len(measured["by_presentation"]) == 10


def test_the_dense_models_fit_the_kernels_of_a_gpu():
    from sparsam.engines.cuda.dense.layout import fits

    for name in ("dam", "ntm", "dnc"):
        assert fits(recipe.MODELS[name].build(160, 32).memory), name


def _runs(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/result.json"))


def test_evaluation_episodes_do_not_depend_on_the_batch_size(characters):
    task = OmniglotPixels(**SMALL)
    one, two = (list(task.evaluation_batches("test", size, 3, 4)) for size in (4, 1))
    assert len(one) == 1 and len(two) == 4
    assert torch.equal(one[0].inputs, torch.cat([batch.inputs for batch in two], 1))
    assert torch.equal(one[0].targets, torch.cat([batch.targets for batch in two], 1))
    assert one[0].info["presentation"].shape == one[0].targets.shape
    assert set(one[0].info["character"].flatten().tolist()) <= set(task.characters("test").tolist())
