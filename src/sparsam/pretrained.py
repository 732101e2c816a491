"""Trained models by name, from a file, a run's folder, a URL or the Hugging Face Hub.

    model = sparsam.load("babi-sam")                          # weights that come with the package
    model = sparsam.load("runs/copy-sam-0")                   # a run's folder: its newest checkpoint
    model = sparsam.load("https://example.org/x.safetensors")  # kept in the cache folder
    model = sparsam.load("hf:owner/name")                     # the Hugging Face Hub

A weights file is a .safetensors file that carries what is needed to build its model: the config of the run that wrote
it, or the constructor's arguments (`sparsam.hub`). The data that a model was trained on is not needed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["CONFIG_KEY", "MODEL_KEY", "Weights", "card", "find", "load", "names", "read"]

# Keys of a weights file's metadata: a run's config, or a model's name and constructor arguments; both JSON.
CONFIG_KEY, MODEL_KEY = "sparsam_config", "sparsam_model"
ENDING = ".safetensors"


@dataclass(frozen=True)
class Weights:
    """A weights file as it was read: the tensors, and one of the two descriptions of its model."""

    file: Path
    tensors: dict[str, Tensor]
    config: dict[str, Any] | None  # of the run that wrote it
    model: dict[str, Any] | None  # {"name": ..., "arguments": {...}}

    @property
    def task(self) -> str | None:
        """The name of the task that the model was trained on, where the file tells it."""
        return self.config["task"]["name"] if self.config else None

    def build(self, **changes: Any) -> torch.nn.Module:
        """The model with these weights; `changes` replace arguments of its constructor that do not touch them."""
        from sparsam.models import MODELS, build

        if self.config is not None:
            from sparsam.training.config import RunConfig

            settings = RunConfig.from_dict(self.config).model
            name, arguments = settings.name, {**self._sizes(settings), **settings.arguments()}
        elif self.model is not None:
            name, arguments = self.model["name"], decode(self.model["arguments"])
        else:
            raise ValueError(f"{self.file} does not say what model it belongs to; it was not written by sparsam")
        layer = self._input_layer()
        known = _parameters(MODELS[name])
        for key in changes:
            if key not in known:
                raise ValueError(f"{key}: expected an argument of {name.upper()} ({', '.join(known)}), got {key!r}")
        model: torch.nn.Module = build(name, **{**arguments, **changes})
        if layer is not None:
            from sparsam.training.input_layer import WithInputLayer

            model = WithInputLayer(layer, model)
        try:
            model.load_state_dict(self.tensors)
        except RuntimeError as error:
            raise ValueError(f"{self.file} does not fit its own description: {error}") from error
        return model

    @property
    def _has_layer(self) -> bool:
        return any(name.startswith("input_layer.") for name in self.tensors)

    def _input_layer(self) -> torch.nn.Module | None:
        """The input layer of the task that the model was trained on, where the file has one."""
        if not self._has_layer:
            return None
        from sparsam.tasks import task_class
        from sparsam.training.config import RunConfig

        task = RunConfig.from_dict(self.config or {}).task
        return task_class(task.name).layer_of(**task.settings)  # type: ignore[attr-defined]

    def _sizes(self, settings: Any) -> dict[str, int]:
        """Input and output width, from the tensors' shapes, or from the task where they do not tell."""
        inner = "model." if self._has_layer else ""
        keys = ("controller.weight_ih_l0", "controller.layers.0.weight", "output.weight")
        recurrent, plain, output = (self.tensors.get(inner + key) for key in keys)
        first = plain if recurrent is None else recurrent  # a feed-forward controller has layers
        if first is not None and output is not None:
            read = 0 if settings.name == "lstm" else settings.num_heads * settings.word_size
            return {"input_size": first.shape[1] - read, "output_size": output.shape[0]}
        from sparsam.training.config import RunConfig

        task = RunConfig.from_dict(self.config or {}).task.build()
        return {"input_size": task.input_size, "output_size": task.output_size}


def load(name: str | Path, **changes: Any) -> torch.nn.Module:
    """A trained model, ready to be called, in evaluation mode.

    Args:
        name: the name of weights that come with the package (`names`), a .safetensors file, a run's folder, a URL, or
            `hf:owner/name`.
        changes: arguments of the model's constructor to replace, such as `engine` or `memory_size`.

    Raises:
        FileNotFoundError: when nothing is found; the message lists the known names.
    """
    return read(find(name)).build(**changes).eval()


def names() -> list[str]:
    """The names of the weights that come with the package."""
    return sorted({file.stem for folder in folders() for file in folder.glob(f"*{ENDING}")})


def card(name: str) -> str | None:
    """The model card of weights by name (Markdown): what they are, how they were trained, what they cannot do."""
    for folder in folders():
        file = folder / f"{name}.md"
        if file.exists():
            return file.read_text(encoding="utf-8")
    return None


def find(name: str | Path) -> Path:
    """The weights file behind a name, a path, a URL or `hf:owner/name`."""
    if not isinstance(name, str | Path) or not str(name):
        raise TypeError(f"name: expected the name of weights or a path, got {name!r}")
    text = str(name)
    if text.startswith(("http://", "https://")):
        return _download(text)
    if text.startswith("hf:"):
        return _from_hub(text[3:])
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        if (path / "model.safetensors").exists():
            return path / "model.safetensors"
        if (path / "checkpoints").is_dir():
            from sparsam.training.checkpoint import newest_weights

            return newest_weights(path / "checkpoints")
        raise FileNotFoundError(f"{path} holds no weights: expected a run's folder or one with model.safetensors")
    for folder in folders():
        if (folder / f"{text}{ENDING}").exists():
            return folder / f"{text}{ENDING}"
    raise FileNotFoundError(
        f"{text}: expected the name of weights ({', '.join(names()) or 'none here'}), a {ENDING} file, a run's folder, "
        "a URL or hf:owner/name, and found none of these"
    )


def folders() -> list[Path]:
    """Where weights are looked for by name: inside the package, and beside its sources."""
    here = Path(__file__).resolve()
    places = [here.parent / "weights", here.parents[2] / "weights"]
    return [place for place in places if place.is_dir()]


def read(file: Path) -> Weights:
    """Read a weights file; one that is empty, cut short or something else is refused by name."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(file), framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            metadata = opened.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(f"{file} is not a whole {ENDING} file ({error})") from error
    config, model = (json.loads(metadata[key]) if key in metadata else None for key in (CONFIG_KEY, MODEL_KEY))
    return Weights(Path(file), tensors, config, model)


def encode(arguments: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments as JSON values; an index becomes its class name and settings."""
    import dataclasses

    from sparsam.indexes import Index

    def plain(key: str, value: Any) -> Any:
        if isinstance(value, Index):
            fields = {entry.name: plain(key, getattr(value, entry.name)) for entry in dataclasses.fields(value)}
            return {"index": type(value).__name__, "settings": fields}
        if value is None or isinstance(value, str | int | float | bool):
            return value
        raise ValueError(f"{key}: expected a plain value that a file can hold, got {type(value).__name__}")

    return {key: plain(key, value) for key, value in arguments.items()}


def decode(arguments: dict[str, Any]) -> dict[str, Any]:
    """The inverse of `encode`."""
    from sparsam import indexes

    def value_of(value: Any) -> Any:
        if isinstance(value, dict) and "index" in value:
            kind = {entry.__name__: entry for entry in indexes.NAMES.values()}[value["index"]]
            return kind(**{key: value_of(setting) for key, setting in value["settings"].items()})
        return value

    return {key: value_of(value) for key, value in arguments.items()}


def _parameters(kind: type) -> list[str]:
    import inspect

    return [name for name in inspect.signature(kind).parameters if name not in ("input_size", "output_size")]


def _download(url: str) -> Path:
    """The file behind a URL, from the cache when it was fetched before."""
    from sparsam.data.locate import cache_folder

    stem = Path(url.partition("?")[0]).stem or "weights"
    target = cache_folder() / f"{stem}-{hashlib.sha256(url.encode()).hexdigest()[:12]}{ENDING}"
    if not target.exists():
        try:
            torch.hub.download_url_to_file(url, str(target), progress=False)
        except OSError as error:
            raise FileNotFoundError(f"{url} cannot be fetched ({error})") from error
    return target


def _from_hub(repository: str) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise ImportError('hf: weights from the Hub need its package: pip install "sparsam[hub]"') from None
    return Path(hf_hub_download(repository, "model.safetensors"))
