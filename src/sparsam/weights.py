"""Trained models by name, from a file, a run's folder, a URL or the Hugging Face Hub.

    model = sparsam.load("babi-sam")                          # weights that come with the package
    model = sparsam.load("runs/copy-sam-0")                   # a run's folder: its newest checkpoint
    model = sparsam.load("https://example.org/x.safetensors")  # kept in the cache folder
    model = sparsam.load("hf:owner/name")                     # the Hugging Face Hub
    sparsam.weights.save(model, "mine.safetensors")

A weights file is a .safetensors file that carries a description of its model (`sparsam.model_description`). It is
checked, and compared with the tensors' shapes in the file's header, before anything is made; nothing in a file is
imported or called. Files of runs before there were descriptions carry their run's config, of which the part about the
model is read by the same rules.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import stat
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor

from sparsam import checks, indexes, model_description
from sparsam.model_description import Description, short
from sparsam.models import MemoryModel

__all__ = ["Weights", "cache_folder", "card", "find", "load", "names", "read", "save"]

# Keys of a weights file's metadata, both JSON: the description of a model, or the config of a run.
MODEL_KEY, CONFIG_KEY = "sparsam_model", "sparsam_config"
ENDING = ".safetensors"
LARGEST_HEADER = 1 << 23
_READ = ("num_heads", "word_size")
_FLOATS = ("F16", "BF16", "F32", "F64")


@dataclass(frozen=True)
class Weights:
    """A weights file as it was read: tensors that fit the description of their model."""

    file: Path
    tensors: dict[str, Tensor]
    description: Description | None  # None: the file does not say
    metadata: Mapping[str, str]

    def build(self, **changes: Any) -> MemoryModel:
        """The model with these weights; `changes` replace arguments of its constructor that do not touch them.

        A model behind an input layer is a module that passes on to the model what it does not have itself.
        """
        described = self.description
        if described is None:
            raise ValueError(f"{self.file} does not say what model it belongs to; it was not written by sparsam")
        known = (*model_description.arguments_of(described.name)[2:], *model_description.NOT_DESCRIBED)
        for key in changes:
            if key not in known:
                raise ValueError(
                    f"{key}: expected an argument of {described.name.upper()} ({', '.join(known)}), got {key!r}"
                    f"{checks.did_you_mean(key, known)}"
                )
        model = cast(MemoryModel, described.build(**{**self.settings(), **changes}))
        try:
            model.load_state_dict(self.tensors)
        except RuntimeError as error:
            told = " ".join(str(error).split())
            raise ValueError(f"{self.file} does not fit these arguments: {told}") from error
        return model

    def settings(self) -> dict[str, Any]:
        """The type of the model's parameters, where the usual one would round the tensors."""
        double = any(tensor.dtype == torch.float64 for tensor in self.tensors.values())
        return {"dtype": torch.float64} if double else {}


def load(name: str | Path, **changes: Any) -> MemoryModel:
    """A trained model, ready to be called, in evaluation mode.

    Weights with an input layer (`omniglot-sam`) give a module of the layer and the model, used like the model.

    Args:
        name: the name of weights that come with the package (`names`), a .safetensors file, a run's folder, a URL, or
            `hf:owner/name`.
        changes: arguments of the model's constructor to replace, such as `engine` or `memory_size`.

    Raises:
        FileNotFoundError: when nothing is found; the message lists the known names.
        ValueError: when the file is damaged, or does not say what it has to; the message names file and field.
    """
    return read(find(name)).build(**changes).eval()


def save(model: torch.nn.Module, file: str | Path, metadata: Mapping[str, str] | None = None) -> None:
    """Write a model's weights and its description to a .safetensors file, with further `metadata` if given."""
    from safetensors.torch import save_file

    described = {"format": "pt", MODEL_KEY: model_description.describe(model).to_json()}
    tensors = {key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()}
    save_file(tensors, file, {**(metadata or {}), **described})


def read(file: str | Path) -> Weights:
    """Read a weights file; one that is damaged or does not fit its own description is refused by name."""
    from safetensors import SafetensorError, safe_open

    file = Path(file)
    check_header(file)
    try:
        with safe_open(str(file), framework="pt") as opened:
            metadata = opened.metadata() or {}
            slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            shapes = {name: tuple(entry.get_shape()) for name, entry in slices.items()}
            for name, entry in slices.items():
                if entry.get_dtype() not in _FLOATS:
                    raise ValueError(f"{short(name)}: expected floating-point numbers, got {entry.get_dtype()}")
            description = _description(metadata, shapes)
            if description is not None:
                _compare(description, shapes)
            tensors = {name: opened.get_tensor(name) for name in shapes}
    except (SafetensorError, OSError, MemoryError) as error:
        raise ValueError(f"{file} is not a whole {ENDING} file ({error})") from error
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    for name, tensor in tensors.items():
        if not bool(tensor.isfinite().all()):
            raise ValueError(f"{file}: {short(name)} holds numbers that are not finite")
    return Weights(file, tensors, description, metadata)


def check_header(file: Path) -> None:
    """Refuse a header that is longer than the file or than any that is needed, before it is parsed."""
    with open_plain(file) as opened:
        length = int.from_bytes(opened.read(8), "little")
        if length > min(LARGEST_HEADER, os.fstat(opened.fileno()).st_size - 8):
            raise ValueError(f"{file} is not a whole {ENDING} file (a header of {length:,} bytes)")


def open_plain(path: Path) -> BinaryIO:
    """A file from elsewhere, opened for reading.

    Raises ValueError for one whose end may never come (a pipe, a device), or that is mostly holes: reading it would
    take far more memory than it has on disk.
    """
    waiting = getattr(os, "O_NONBLOCK", 0)  # opening a pipe does not wait for somebody to write
    opened = open(path, "rb", opener=lambda name, flags: os.open(name, flags | waiting))  # noqa: SIM115
    about = os.fstat(opened.fileno())
    on_disk = 512 * getattr(about, "st_blocks", 0)
    holes = 0 < on_disk < (about.st_size - LARGEST_HEADER) / 16
    if not stat.S_ISREG(about.st_mode) or holes:
        opened.close()
        raise ValueError(f"{path}: expected a plain file, got {'one with holes' if holes else 'a pipe or a device'}")
    return opened


def read_plain(path: Path, most: int) -> bytes:
    """The content of a file from elsewhere; one of more than `most` bytes raises ValueError."""
    with open_plain(path) as opened:
        data = opened.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path}: expected at most {most:,} bytes, got more")
    return data


def _description(metadata: Mapping[str, str], shapes: Mapping[str, tuple[int, ...]]) -> Description | None:
    config = model_description.parsed(metadata[CONFIG_KEY], CONFIG_KEY) if CONFIG_KEY in metadata else {}
    if MODEL_KEY in metadata:
        found = model_description.read(metadata[MODEL_KEY], MODEL_KEY)
    elif CONFIG_KEY in metadata:
        found = _of_config(config, shapes)
    else:
        return None
    if "start" in found.arguments or "start" not in model_description.arguments_of(found.name):
        return found
    # A run's config had a section of its own for it, and before that every model began plain.
    began = (config.get("start") if isinstance(config, dict) else None) or "plain"
    start = model_description.FIELDS["start"](f"{CONFIG_KEY}.start", began)
    return dataclasses.replace(found, arguments={**found.arguments, "start": start})


def _of_config(config: Any, shapes: Mapping[str, tuple[int, ...]]) -> Description:
    """The description that the part `model` of a run's config amounts to; sizes are those of the tensors."""
    path = f"{CONFIG_KEY}.model"
    values = config.get("model") if isinstance(config, dict) else None
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected an object, got {short(values)}")
    extra = values.get("extra", {})
    if not isinstance(extra, dict):
        raise ValueError(f"{path}.extra: expected an object, got {short(extra)}")
    values = {**values, **extra}
    values.pop("extra", None)
    name = model_description.name_of(lambda: model_description.MODELS)(f"{path}.name", values.pop("name", None))
    settings = values.pop("index_settings", {})
    if settings:
        index = model_description.name_of(lambda: indexes.NAMES)(f"{path}.index", values.get("index"))
        values["index"] = {"index": indexes.NAMES[index].__name__, "settings": settings}
    if any(key.startswith("input_layer.") for key in shapes):
        raise ValueError(
            f"{path}: the tensors include an input layer, which this file's format does not describe; load it with the "
            "software that trained the model, and save it again"
        )
    return model_description.of_values(name, {**values, **_sizes(name, values, shapes)}, path)


def _sizes(name: str, values: dict[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Input and output width, from the shapes of the first and the last layer."""
    first = shapes.get("controller.weight_ih_l0") or shapes.get("controller.layers.0.weight", ())
    last = shapes.get("output.weight", ())
    if len(first) != 2 or len(last) != 2:
        raise ValueError("tensors: expected a controller and an output layer of two dimensions, got none")
    read = 0
    if name != "lstm":
        path = f"{CONFIG_KEY}.model"
        heads, width = (model_description.FIELDS[key](f"{path}.{key}", values.get(key)) for key in _READ)
        read = heads * width
    return {"input_size": first[1] - read, "output_size": last[0]}


def _compare(description: Description, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ValueError naming the first tensor that the described model has otherwise."""
    try:
        model = description.without_weights()
        model_description.check_room(model if description.input_layer is None else model.model)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{MODEL_KEY}.arguments.{error}") from error
    wanted = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    for name in shapes.keys() - wanted.keys():
        raise ValueError(f"{short(name)}: the model has no such tensor{checks.did_you_mean(name, wanted)}")
    for name, shape in wanted.items():
        if name not in shapes:
            raise ValueError(f"{name}: expected shape {shape} as described, got no such tensor")
        if shapes[name] != shape:
            raise ValueError(f"{name}: expected shape {shape} as described, got {shapes[name]}")


def names() -> list[str]:
    """The names of the weights that come with the package."""
    return sorted({file.stem for folder in folders() for file in folder.glob(f"*{ENDING}")})


def card(name: str) -> str | None:
    """The model card of weights by name (Markdown): what they are, how they were trained, what they cannot do."""
    if name in names():
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
    path = Path(os.path.expanduser(name))
    if os.path.isfile(path):  # pathlib's own raises for a name that no file can have
        return path
    if os.path.isdir(path):
        if (path / "model.safetensors").exists():
            return path / "model.safetensors"
        if (path / "checkpoints").is_dir():
            return _newest_checkpoint(path / "checkpoints")
        raise FileNotFoundError(f"{path} holds no weights: expected a run's folder or one with model.safetensors")
    if text in names():
        return next(folder / f"{text}{ENDING}" for folder in folders() if (folder / f"{text}{ENDING}").exists())
    raise FileNotFoundError(
        f"{text}: expected the name of weights ({', '.join(names()) or 'none here'}), a {ENDING} file, a run's folder, "
        f"a URL or hf:owner/name, and found none of these{checks.did_you_mean(text, names())}"
    )


def folders() -> list[Path]:
    """Where weights are looked for by name: inside the package, and beside its sources."""
    here = Path(__file__).resolve()
    places = [here.parent / "trained", here.parents[2] / "weights"]
    return [place for place in places if place.is_dir()]


def cache_folder() -> Path:
    """Where what was fetched or prepared is kept: `$SPARSAM_CACHE`, or `sparsam` in the user's folder of caches.

    That folder is `$XDG_CACHE_HOME`, else `~/.cache`.
    """
    if os.environ.get("SPARSAM_CACHE"):
        folder = Path(os.environ["SPARSAM_CACHE"]).expanduser()
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "sparsam"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _newest_checkpoint(folder: Path) -> Path:
    """The weights of a run's newest checkpoint; raises ValueError when they are not as the run wrote them."""
    steps = [entry for entry in folder.iterdir() if re.fullmatch("[0-9]{10,18}", entry.name)]
    if not steps:
        raise FileNotFoundError(f"{folder} holds no checkpoint yet")
    file = max(steps, key=lambda entry: int(entry.name)) / "model.safetensors"
    try:
        written = json.loads(read_plain(file.parent / "manifest.json", LARGEST_HEADER))["files"][file.name]
        with open_plain(file) as opened:
            found = opened.read()
        whole = (written["bytes"], written["crc32"]) == (len(found), zlib.crc32(found))
    except (OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"{file.parent}: the checkpoint is damaged ({error})") from error
    if not whole:
        raise ValueError(f"{file.parent}: the checkpoint is damaged ({file.name} has changed since it was written)")
    return file


def _download(url: str) -> Path:
    """The file behind a URL, from the cache when it was fetched before."""
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
        raise ImportError('hf: weights from the Hub need huggingface_hub: pip install ".[hub]"') from None
    return Path(hf_hub_download(repository, "model.safetensors"))
