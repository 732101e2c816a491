"""A trained model back from disk: a run's folder, or a weights file on its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.tasks.input_layer import PREFIX, WithInputLayer, build_model
from sparsam.lab.training import checkpoint
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.user_classes import is_own
from sparsam.model_description import check_room
from sparsam.weights import CONFIG_KEY, Weights, find, read

ADDRESSES = ("hf:", "http:", "https:")  # how weights from elsewhere begin
LARGEST_MISSING = 1 << 16  # numbers of a tensor that older weights may have under another name


def find_weights(path: str | Path, older: bool = False) -> Path:
    """The weights file of a run's folder (its newest checkpoint), the file itself, or weights by name or address.

    A damaged newest checkpoint is an error; with `older` the newest whole one is taken, with a warning.
    """
    path = str(path)
    folder = Path(path)
    if folder.is_file():
        return folder
    if (folder / "checkpoints").is_dir():
        return checkpoint.newest_weights(folder / "checkpoints", older)
    if (folder / "config.json").exists():
        raise checkpoint.NoCheckpoint(f"{path} has no checkpoint yet")
    return find(path)


def first_weights(path: str) -> Path:
    """The weights that a config begins with: a file makes nobody download, so an address is refused."""
    if path.startswith(ADDRESSES):
        raise ValueError(f"weights: expected a file, a run's folder or weights by name, got the address {path!r}")
    return find_weights(path)


def load_into(model: torch.nn.Module, weights: dict[str, Tensor], source: str | Path) -> None:
    """Load weights; raises CheckpointError naming what does not fit."""
    for name, value in model.state_dict().items():
        if name in weights and weights[name].is_floating_point() != value.is_floating_point():
            raise checkpoint.CheckpointError(
                f"the weights of {source} do not fit this model: {name}: expected {value.dtype}, got "
                f"{weights[name].dtype}"
            )
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        told = " ".join(str(error).split())
        raise checkpoint.CheckpointError(f"the weights of {source} do not fit this model: {told}") from error


def check_fit(config: RunConfig, task: Any, weights: dict[str, Tensor], source: str | Path, part: bool = False) -> None:
    """Raises CheckpointError when the model of a config has other shapes than the weights, before it is made.

    A file says what is made, and a small one must not be able to ask for a large model. `part`: the weights may be
    those of an input layer alone.
    """
    if part and weights and all(name.startswith(PREFIX) for name in weights):
        return
    layered = hasattr(task, "input_layer")
    with torch.device("meta"):
        model = config.model.build(task.input_size, task.output_size)
        check_room(model)
        if layered and not is_own(config.task.name):
            model = WithInputLayer(task.input_layer(), model)
    wanted = model.state_dict()
    if layered and is_own(config.task.name):
        wanted = {f"model.{name}": value for name, value in wanted.items()}
    for name, value in wanted.items():
        shape = f"the weights of {source} do not fit this model: {name}: expected shape {tuple(value.shape)}"
        if name not in weights and value.numel() > LARGEST_MISSING:
            raise checkpoint.CheckpointError(f"{shape}, and it is missing")
        if name in weights and weights[name].shape != value.shape:
            raise checkpoint.CheckpointError(f"{shape}, got {tuple(weights[name].shape)}")


def read_trained(path: str | Path) -> tuple[Weights, RunConfig]:
    """The weights of a run, from which `build` makes the model without the task's data, and the run's config."""
    weights = read(find_weights(path))
    return weights, _config(weights.metadata.get(CONFIG_KEY), weights.file)


def _config(text: str | None, file: Path) -> RunConfig:
    if text is None:
        raise ValueError(f"{file} carries no config; it was not written by sparsam's trainer")
    try:
        return RunConfig.from_json(text)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {error}") from error


def load_model(
    path: str | Path, settings: Iterable[str] = (), older: bool = False, **model_settings: Any
) -> tuple[torch.nn.Module, Any, RunConfig]:
    """Model, task and config of a run's folder or weights file.

    `model_settings` change the model without touching its weights, such as `memory_size` or `engine`;
    `settings` are any others, written `path=value` (`task.settings.cues=16`). `older` takes an older
    checkpoint where the newest is damaged.
    """
    file = find_weights(path, older)
    weights, text = checkpoint.load_weights(file)
    config = _config(text, file).with_settings(settings)
    config.model.change(model_settings)
    task = config.task.build()
    check_fit(config, task, weights, file)
    model = build_model(config.model, task)
    load_into(model, weights, file)
    return model, task, config
