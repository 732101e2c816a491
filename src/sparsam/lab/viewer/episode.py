"""One sequence run by a trained model, as plain data that the page can draw.

Accesses are kept as they come in a trace, one entry each in packed columns, and rows by the numbers of those that were
touched: nothing here grows with the size of the memory times the number of steps.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparsam.models.contract import Recurrent

__all__ = ["Episode", "Steps", "record"]

FAINTEST = 0.002  # accesses of a smaller weight are left out
MOST_CHANNELS = 128  # inputs wider than this are not drawn channel by channel


@dataclass
class Steps:
    """What the viewer calls the steps of a sequence.

    `labels` names each step in a word or two; `groups` are longer texts (a sentence, a pair), and `group_of` says which
    one each step belongs to; `names` are the names of the output classes, if any; `images` (T, height, width) in 0..1
    are what the model saw.
    """

    labels: list[str]
    groups: list[str]
    group_of: list[int]
    names: list[str] | None = None
    images: np.ndarray | None = None
    show_inputs: bool = True


@dataclass
class Episode:
    """Everything the page needs, ready for JSON."""

    title: str
    values: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"title": self.title, **self.values}


def record(model: torch.nn.Module, batch: Any, steps: Steps, title: str, element: int = 0) -> Episode:
    """Run a model over one element of a batch and keep what it read, wrote and answered."""
    length = len(batch.inputs) if batch.lengths is None else int(batch.lengths[element])
    x = batch.inputs[:length, element : element + 1]
    with torch.no_grad():
        outputs = model(x)[0][:, 0].float().cpu()
        trace = model.trace(x) if isinstance(model, Recurrent) else None
    values: dict[str, Any] = {
        "steps": length,
        "memory": int(getattr(model, "memory_size", 0) or 0),
        "labels": steps.labels,
        "groups": steps.groups,
        "groupOf": _pack(np.asarray(steps.group_of), np.uint32),
        "names": steps.names,
        "answers": batch.mask[:length, element].nonzero().flatten().tolist(),
        **_accesses(trace),
        **_answers(outputs, batch.targets[:length, element].cpu()),
    }
    if steps.show_inputs and x.shape[-1] <= MOST_CHANNELS:
        values["inputs"] = {"channels": x.shape[-1], "values": _shades(x[:, 0].cpu())}
    if steps.images is not None:
        _, height, width = steps.images.shape
        values["images"] = {"width": width, "height": height, "values": _pack(255 * steps.images.clip(0, 1), np.uint8)}
    return Episode(title, values)


def _accesses(trace: Any) -> dict[str, Any]:
    """Columns in order of time: step, touched row, weight (of 65,535) and 2 * head + kind (1 for a write)."""
    if trace is None or not len(trace):
        none = np.zeros(0)
        columns = {"time": none, "row": none, "weight": none, "tag": none}
        return {"heads": 0, "rows": _pack(none, np.uint32), **{key: _pack(none, np.uint32) for key in columns}}
    kept = trace.select((trace.batch == 0) & (trace.weight > FAINTEST))
    order = torch.argsort(kept.time, stable=True)
    time, row, weight, head, kind = (
        getattr(kept, name)[order].cpu().numpy() for name in ("time", "row", "weight", "head", "kind")
    )
    touched, position = np.unique(row, return_inverse=True)
    return {
        "heads": int(head.max()) + 1 if len(head) else 0,
        "rows": _pack(touched, np.uint32),
        "time": _pack(time, np.uint32),
        "row": _pack(position, np.uint32),
        "weight": _pack(np.round(weight.clip(0, 1) * 65535), np.uint16),
        "tag": _pack(2 * head + kind, np.uint8),
    }


def _answers(outputs: Tensor, targets: Tensor) -> dict[str, Any]:
    """Targets and predictions: bits as shades of grey, classes as numbers with a probability."""
    if targets.dim() == 2:
        shape = {"channels": targets.shape[-1]}
        return {
            "kind": "bits",
            "targets": {**shape, "values": _pack(255 * targets, np.uint8)},
            "predictions": {**shape, "values": _pack(255 * outputs.sigmoid(), np.uint8)},
        }
    best = outputs.softmax(-1).max(-1)
    return {
        "kind": "classes",
        "targets": {"values": _pack(targets, np.int32)},
        "predictions": {"values": _pack(best.indices, np.int32), "sure": _pack(255 * best.values, np.uint8)},
    }


def _shades(values: Tensor) -> str:
    low, high = float(values.min()), float(values.max())
    return _pack(255 * (values - low) / max(high - low, 1e-9), np.uint8)


def _pack(values: Any, kind: Any) -> str:
    """Numbers as base64 of little-endian integers."""
    array = np.round(np.asarray(values)).astype(np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode()
