"""`sparsam info`: what is installed, which engines run here, and what was found; or the card of trained weights."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from typing import Annotated, Any

from sparsam.lab.cli.help import argument
from sparsam.lab.cli.model_options import Json
from sparsam.lab.training.trained import find_weights
from sparsam.model_description import parsed
from sparsam.weights import CONFIG_KEY, MODEL_KEY, find, names, read
from sparsam.weights import card as card_of

_OPTIONAL = ("matplotlib", "tensorboard", "pillow", "triton", "huggingface_hub", "lightning")


def info(
    name: Annotated[
        str | None,
        argument(
            "Trained weights by name, or a .safetensors file: show their model card.",
            "show what is installed",
            autocompletion=names,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show versions, engines, threads, data and weights; or the model card of trained weights.

    For an engine that does not run here, it says why.

    Examples:

        sparsam info
        sparsam info babi-sam
    """
    if name is not None:
        _show_weights(name, as_json)
        return
    found = collect()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for title, lines in found.items():
        print(title)
        for key, value in lines.items():
            print(f"  {key:<26} {value}")


def collect() -> dict[str, dict[str, Any]]:
    """Everything that `sparsam info` tells, by topic."""
    return {
        "versions": dict(_versions()),
        "machine": _machine(),
        "engines": dict(_engines()),
        "data": dict(_data()),
        "weights": dict(_weights()),
    }


def _versions() -> Iterator[tuple[str, str]]:
    import sparsam

    yield "sparsam", sparsam.__version__
    yield "python", platform.python_version()
    for name in ("torch", "numpy", "safetensors", *_OPTIONAL):
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name, "not installed (optional)"


def _machine() -> dict[str, Any]:
    import torch

    threads = torch.get_num_threads()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "threads": threads,
        "threads pay": _threads_pay(threads, cores()),
        "instruction set": _instruction_set(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none that torch can use",
    }


def cores() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads_pay(threads: int, available: int) -> str:
    """At which batch sizes the native engine has work for this many threads, and whether there are cores for them."""
    if threads > available:
        return f"no: this process may use only {available} cores; try torch.set_num_threads({available})"
    if threads == 1:
        return "one thread; more would share out the sequences of a batch"
    return "with batches of 2 or more sequences, and in exact search of many words"


def _instruction_set() -> str:
    try:
        from sparsam import _native
    except ImportError as error:
        return f"the compiled core is missing ({error})"
    return str(_native.selected_isa())


def _engines() -> Iterator[tuple[str, str]]:
    """What each engine says to a small SAM where a user would put it: on the GPU for "cuda" when there is one."""
    import torch

    import sparsam

    for engine in ("native", "cuda", "reference"):
        device = "cuda" if engine == "cuda" and torch.cuda.is_available() else "cpu"
        try:
            model = sparsam.SAM(2, 2, hidden_size=4, memory_size=8, word_size=4, num_heads=1, k=2, engine=engine)
            with torch.no_grad():
                model.to(device)(torch.zeros(1, 1, 2, device=device))
            yield engine, f"runs on the {device.upper().replace('CUDA', 'GPU')}"
        except (RuntimeError, ImportError) as error:
            yield engine, f"does not run: {str(error).partition(': ')[2] or error}"


def _data() -> Iterator[tuple[str, str]]:
    from sparsam.lab.data.babi import open_babi
    from sparsam.lab.data.locate import DataError, MissingData
    from sparsam.lab.data.omniglot import open_omniglot

    for name, opened in (("babi", open_babi), ("omniglot", open_omniglot)):
        try:
            files: Any = opened()  # type: ignore[operator]
            sources = getattr(files, "sources", None)
            yield name, ", ".join(map(str, sources.values())) if sources else str(files.source)
        except MissingData:
            yield name, f"not found (sparsam data {name} says where to get it)"
        except DataError as error:
            yield name, f"found, but not usable: {str(error).splitlines()[0]}"


def _weights() -> Iterator[tuple[str, str]]:
    for name in names():
        card = card_of(name) or ""
        below_title = (line for line in card.splitlines() if line and not line.startswith("#"))
        yield name, next(below_title, "") if card else str(find(name))


def _show_weights(name: str, as_json: bool) -> None:
    weights = read(find_weights(name))
    config = weights.metadata.get(CONFIG_KEY) or weights.metadata.get(MODEL_KEY) or "{}"
    described = parsed(config, str(weights.file))
    if as_json:
        parameters = sum(tensor.numel() for tensor in weights.tensors.values())
        print(json.dumps({"file": str(weights.file), "parameters": parameters, "description": described}, indent=2))
        return
    card = card_of(name)
    print(card.strip() if card else f"{weights.file} has no model card.")
    print(f"\nfile: {weights.file}")
