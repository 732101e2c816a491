"""A trained model back from disk: a run's folder, or a weights file on its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from sparsam import pretrained
from sparsam.training import checkpoint
from sparsam.training.config import RunConfig


def find_weights(path: str | Path) -> Path:
    """The weights file of a run's folder (its newest whole checkpoint), the file itself, or weights by name."""
    path = Path(path)
    if path.is_file():
        return path
    if (path / "checkpoints").is_dir():
        return checkpoint.newest_weights(path / "checkpoints")
    return pretrained.find(path)


def load_model(
    path: str | Path, settings: Iterable[str] = (), **model_settings: Any
) -> tuple[torch.nn.Module, Any, RunConfig]:
    """Model, task and config of a run's folder or weights file.

    ``model_settings`` change the model without touching its weights, such as ``memory_size`` or ``engine``;
    ``settings`` are any others, written ``path=value`` (``task.settings.cues=16``).
    """
    file = find_weights(path)
    weights, text = checkpoint.load_weights(file)
    if text is None:
        raise ValueError(f"{file} carries no config; it was not written by sparsam's trainer")
    config = RunConfig.from_json(text).with_settings(settings)
    for key, value in model_settings.items():
        if not hasattr(config.model, key):
            raise ValueError(f"unknown model setting {key!r}")
        setattr(config.model, key, value)
    task = config.task.build()
    model = config.model.build(task.input_size, task.output_size)
    model.load_state_dict(weights)
    return model, task, config
