"""Kinds of damage to a run's folder, and what is documented to come of each (docs/trust.md)."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from injection import Ended

from sparsam.lab.training import checkpoint
from sparsam.lab.training.checkpoint import MANIFEST, TRAINER, WEIGHTS

EXECUTED = str(Path(tempfile.gettempdir()) / f"sparsam-executed-{os.getpid()}")
Expected = tuple[int, str]  # exit code, and what the message says (a pattern)

FINE: Expected = (0, "")
DAMAGED: Expected = (1, "is damaged .*--accept damage")
PASSED_OVER: Expected = (0, "damaged or incomplete")
OLDER: Expected = (0, "is damaged")


@dataclass(frozen=True)
class Kind:
    """`evaluate` and `resume` are what comes of these commands, `accept` what of both with --accept damage."""

    name: str
    apply: Callable[[Path], Any]
    evaluate: Expected
    resume: Expected
    accept: tuple[Expected, Expected] | None = None


def judge(expected: Expected, ended: Ended) -> str | None:
    """What is wrong with how a command ended."""
    code, pattern = expected
    text = " ".join(ended.err.split())
    if "Traceback" in ended.err or ended.code != code or not re.search(pattern, text):
        return f"expected code {code} and {pattern!r}, got code {ended.code}: {ended.err or ended.out}"
    return None


def newest(folder: Path) -> Path:
    return sorted((folder / "checkpoints").iterdir())[-1]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 0xFF
    path.write_bytes(data)


def of_newest(name: str, change: Callable[[Path], Any]) -> Callable[[Path], Any]:
    return lambda folder: change(newest(folder) / name)


def forge(folder: Path, name: str, data: bytes) -> None:
    """Other content with a manifest that matches it."""
    place = newest(folder)
    (place / name).write_bytes(data)
    manifest = json.loads((place / MANIFEST).read_text())
    manifest["files"][name] = {"bytes": len(data), "crc32": zlib.crc32(data)}
    (place / MANIFEST).write_text(json.dumps(manifest))


def manifest(value: Any) -> Callable[[Path], Any]:
    return lambda folder: (newest(folder) / MANIFEST).write_text(json.dumps(value))


def changed_manifest(**changes: Any) -> Callable[[Path], Any]:
    def apply(folder: Path) -> None:
        place = newest(folder) / MANIFEST
        place.write_text(json.dumps(json.loads(place.read_text()) | changes))

    return apply


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(EXECUTED),))


def executes(folder: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"learner": Bomb()}, buffer)
    forge(folder, TRAINER, buffer.getvalue())


def plain_pickle(folder: Path) -> None:
    forge(folder, TRAINER, pickle.dumps({"learner": Bomb()}))


def compressed(folder: Path) -> None:
    """Ten kilobytes that unpack to ten megabytes; a larger one would fill the memory."""
    buffer = io.BytesIO()
    original = io.BytesIO((newest(folder) / TRAINER).read_bytes())
    with zipfile.ZipFile(original) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            target.writestr(entry.filename, source.read(entry), zipfile.ZIP_DEFLATED)
        target.writestr("archive/data/99", bytes(10_000_000), zipfile.ZIP_DEFLATED)
    forge(folder, TRAINER, buffer.getvalue())


def saved(value: Any) -> Callable[[Path], Any]:
    def apply(folder: Path) -> None:
        buffer = io.BytesIO()
        torch.save(value, buffer)
        forge(folder, TRAINER, buffer.getvalue())

    return apply


def other_weights(change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Callable[[Path], Any]:
    def apply(folder: Path) -> None:
        tensors, config = checkpoint.load_weights(newest(folder) / WEIGHTS)
        forge(folder, WEIGHTS, checkpoint.weights_to_bytes(change(tensors), config or ""))

    return apply


def no_numbers(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(tensor, float("nan")) for name, tensor in tensors.items()}


def all_of_them(change: Callable[[Path], Any]) -> Callable[[Path], Any]:
    def apply(folder: Path) -> None:
        for place in (folder / "checkpoints").iterdir():
            change(place / WEIGHTS)

    return apply


def odd_names(folder: Path) -> None:
    (folder / "checkpoints" / "²").mkdir()
    (folder / "checkpoints" / "12").mkdir()
    (folder / "checkpoints" / "notes.txt").write_text("hello")


def leftovers(folder: Path) -> None:
    (folder / ".config.json-123").write_text("{")
    (folder / ".log.jsonl-77").write_text("{")
    half = folder / "checkpoints" / ".writing-0000000016-99"
    half.mkdir()
    (half / WEIGHTS).write_bytes(b"half")


def log_of_other_things(folder: Path) -> None:
    text = (folder / "log.jsonl").read_bytes()
    (folder / "log.jsonl").write_bytes(b"\xff\xfe\x00\n[1, 2]\n3\n" + text + b'{"kind": "tra')


def other_versions(folder: Path) -> None:
    values = json.loads((folder / "origin.json").read_text())
    values["versions"]["torch"] = "0.0.1"
    (folder / "origin.json").write_text(json.dumps(values))


ACCEPTED = (OLDER, PASSED_OVER)
UNREADABLE: Expected = (1, "is not a weights file that can be read")

KINDS = [
    Kind("weights cut short", of_newest(WEIGHTS, cut), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("weights with a flipped bit", of_newest(WEIGHTS, flip), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("weights missing", of_newest(WEIGHTS, Path.unlink), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("weights empty", of_newest(WEIGHTS, lambda path: path.write_bytes(b"")), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("trainer state cut short", of_newest(TRAINER, cut), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("trainer state with a flipped bit", of_newest(TRAINER, flip), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("trainer state missing", of_newest(TRAINER, Path.unlink), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("trainer state that executes something", executes, FINE, PASSED_OVER),
    Kind("trainer state that is a plain pickle", plain_pickle, FINE, PASSED_OVER),
    Kind("trainer state that unpacks to much", compressed, FINE, PASSED_OVER),
    Kind("trainer state that is a list", saved([1, 2]), FINE, PASSED_OVER),
    Kind("trainer state that lacks parts", saved({"learner": {}}), FINE, (1, "the checkpoint lacks curriculum")),
    Kind("manifest cut short", of_newest(MANIFEST, cut), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("manifest missing", of_newest(MANIFEST, Path.unlink), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("manifest that is a list", manifest([1, 2]), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("manifest of other files", changed_manifest(files={"../../config.json": {}}), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("manifest of another step", changed_manifest(step=99), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("manifest with words for numbers", changed_manifest(files="many"), DAMAGED, PASSED_OVER, ACCEPTED),
    Kind("a file in place of a checkpoint", lambda f: (f / "checkpoints" / "0000000099").touch(), DAMAGED, PASSED_OVER),
    Kind("odd names among the checkpoints", odd_names, FINE, FINE),
    Kind(
        "no checkpoint whole",
        all_of_them(cut),
        (1, "is damaged .*none is whole"),
        (1, "no whole checkpoint .*--accept damage starts again"),
        ((1, "no whole checkpoint"), (0, "starts again at minibatch 0")),
    ),
    Kind(
        "checkpoints missing",
        lambda folder: shutil.rmtree(folder / "checkpoints"),
        (1, "has no checkpoint yet"),
        (0, "starts again at minibatch 0"),
    ),
    Kind("weights that are not finite", other_weights(no_numbers), (1, "not finite"), PASSED_OVER),
    Kind(
        "weights of another model",
        other_weights(lambda tensors: {"w": torch.ones(3)}),
        (1, "do not fit this model"),
        (1, "do not fit this model"),
    ),
    Kind(
        "config cut short",
        lambda folder: cut(folder / "config.json"),
        FINE,
        (2, "config.json.*expected JSON.*--accept damage"),
        (FINE, (0, "taking the config that the newest checkpoint carries")),
    ),
    Kind(
        "config that is a list",
        lambda folder: (folder / "config.json").write_text("[1]"),
        FINE,
        (2, "config: expected an object.*--accept damage"),
    ),
    Kind(
        "config that is not text",
        lambda folder: (folder / "config.json").write_bytes(b"\xff\xfe\x00"),
        FINE,
        (2, "config.json.*--accept damage"),
    ),
    Kind("log that is not text", log_of_other_things, FINE, FINE),
    Kind("result cut short", lambda folder: cut(folder / "result.json"), FINE, FINE),
    Kind("origin cut short", lambda folder: cut(folder / "origin.json"), (0, "cannot be read"), (0, "cannot be read")),
    Kind("origin with other versions", other_versions, (0, "made with torch 0.0.1"), (2, "--accept versions")),
    Kind("leftovers of a killed process", leftovers, FINE, FINE),
]
