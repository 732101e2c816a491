"""A trained model back from disk: a run's folder, or a weights file on its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsam import pretrained
from sparsam.training import checkpoint
from sparsam.training.config import RunConfig
from sparsam.training.input_layer import build_model


def find_weights(path: str | Path, older: bool = False) -> Path:
    """The weights file of a run's folder (its newest checkpoint), the file itself, or weights by name.

    A damaged newest checkpoint is an error; with `older` the newest whole one is taken, with a warning.
    """
    path = Path(path)
    if path.is_file():
        return path
    if (path / "checkpoints").is_dir():
        return checkpoint.newest_weights(path / "checkpoints", older)
    if (path / "config.json").exists():
        raise checkpoint.NoCheckpoint(f"{path} has no checkpoint yet")
    return pretrained.find(path)


def load_into(model: torch.nn.Module, weights: dict[str, Tensor], source: str | Path) -> None:
    """Load weights; raises CheckpointError naming what does not fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise checkpoint.CheckpointError(f"the weights of {source} do not fit this model: {error}") from error


def read_saved(
    path: str | Path, settings: Iterable[str] = (), older: bool = False, **model_settings: Any
) -> tuple[dict[str, Tensor], RunConfig, Path]:
    """Weights and config of a run's folder or weights file, and the file they came from."""
    file = find_weights(path, older)
    weights, text = checkpoint.load_weights(file)
    if text is None:
        raise ValueError(f"{file} carries no config; it was not written by sparsam's trainer")
    checkpoint.require_finite(weights, file)
    try:
        config = RunConfig.from_json(text)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    config = config.with_settings(settings)
    config.model.change(model_settings)
    return weights, config, file


def load_model(
    path: str | Path, settings: Iterable[str] = (), older: bool = False, **model_settings: Any
) -> tuple[torch.nn.Module, Any, RunConfig]:
    """Model, task and config of a run's folder or weights file.

    `model_settings` change the model without touching its weights, such as `memory_size` or `engine`;
    `settings` are any others, written `path=value` (`task.settings.cues=16`). `older` takes an older
    checkpoint where the newest is damaged.
    """
    weights, config, file = read_saved(path, settings, older, **model_settings)
    task = config.task.build()
    model = build_model(config.model, task)
    load_into(model, weights, file)
    return model, task, config
