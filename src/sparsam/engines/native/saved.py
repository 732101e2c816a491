"""Checks of a saved native memory. A file is not trusted: what the core would stumble over is refused here by name.

Ranges inside a part (rows, link columns, repeats) are checked by the core as it restores it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.native.memory import DTYPES, Kind
from sparsam.memories.description import ALLOCATIONS, MOST_ROWS

PARTS = {
    "rows": (torch.int64, 1),
    "words": (None, 2),
    "recency": (torch.int64, 1),
    "link_ids": (torch.int64, 1),
    "link_columns": (torch.int32, 2),
    "link_weights": (None, 2),
    "usage_rows": (torch.int64, 1),
    "usage": (None, 1),
}  # name: dtype (None: the memory's) and dimensions


def fail(field: str, expected: str, got: Any) -> ValueError:
    return ValueError(f"state.memory.{field}: expected {expected}, got {got}")


def checked(saved: Any) -> tuple[Kind, list[Tensor], list[int], list[dict[str, Tensor] | None]]:
    """The kind, the starting memories, which element has which (-1 for blank), and the part of each element."""
    if not isinstance(saved, dict) or set(saved) != {"kind", "origins", "origin_of", "parts"}:
        raise fail("*", "kind, origins, origin_of and parts", sorted(saved) if isinstance(saved, dict) else saved)
    kind = checked_kind(saved["kind"])
    parts, origins, origin_of = saved["parts"], saved["origins"], saved["origin_of"]
    if not isinstance(parts, list) or not parts:
        raise fail("parts", "a list with one part for each batch element", type(parts).__name__)
    if not isinstance(origins, list):
        raise fail("origins", "a list of tensors", type(origins).__name__)
    for words in origins:
        if not isinstance(words, Tensor) or words.shape != (kind.rows, kind.width) or words.dtype != kind.dtype:
            got = f"{tuple(words.shape)} {words.dtype}" if isinstance(words, Tensor) else type(words).__name__
            raise fail("origins", f"tensors of shape {(kind.rows, kind.width)} and {kind.dtype}", got)
        if not bool(torch.isfinite(words).all()):
            raise fail("origins", "finite numbers", "NaN or infinity")
    if not isinstance(origin_of, list) or len(origin_of) != len(parts):
        raise fail("origin_of", f"a list of {len(parts)} numbers, one for each part", origin_of)
    for at in origin_of:
        if isinstance(at, bool) or not isinstance(at, int) or not -1 <= at < len(origins):
            raise fail("origin_of", f"numbers in -1..{len(origins) - 1}", at)
    return kind, origins, origin_of, [checked_part(part, kind) for part in parts]


def checked_kind(saved: Any) -> Kind:
    if not isinstance(saved, dict) or set(saved) != set(Kind._fields):
        raise fail("kind", ", ".join(Kind._fields), saved)
    for name, least, most in (("rows", 1, MOST_ROWS), ("width", 1, 2**20), ("k_links", 0, 2**20)):
        value = saved[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise fail(f"kind.{name}", f"an int in {least}..{most}", value)
    if saved["allocation"] not in ALLOCATIONS:
        raise fail("kind.allocation", f"one of {tuple(ALLOCATIONS)}", saved["allocation"])
    if saved["allocation"] == "free" and saved["k_links"] == 0:
        raise fail("kind.allocation", "'ring' for a memory without links", "free")
    if saved["dtype"] not in DTYPES:
        raise fail("kind.dtype", f"one of {DTYPES}", saved["dtype"])
    return Kind(**saved)


def checked_part(part: Any, kind: Kind) -> dict[str, Tensor] | None:
    """One element's part: the names, dtypes and shapes that such a memory has."""
    if part is None:
        return None
    wanted = {"rows", "words", "recency"}
    wanted |= {"link_ids", "link_columns", "link_weights"} if kind.k_links else set()
    wanted |= {"usage_rows", "usage"} if kind.allocation == "free" else set()
    if not isinstance(part, dict) or set(part) != wanted:
        raise fail("parts", ", ".join(sorted(wanted)), sorted(part) if isinstance(part, dict) else type(part).__name__)
    for name, value in part.items():
        dtype, dimensions = PARTS[name]
        if not isinstance(value, Tensor) or value.dim() != dimensions or value.dtype != (dtype or kind.dtype):
            got = f"{tuple(value.shape)} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
            raise fail(f"parts.{name}", f"{dimensions} dimension(s) of {dtype or kind.dtype}", got)
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise fail(f"parts.{name}", "finite numbers", "NaN or infinity")
    count = len(part["rows"])
    shapes: dict[str, tuple[int, ...]] = {"words": (count, kind.width)}
    if kind.k_links:
        links = (len(part["link_ids"]), kind.k_links)
        shapes |= {"link_columns": links, "link_weights": links}
    if kind.allocation == "free":
        shapes["usage"] = (len(part["usage_rows"]),)
    for name, shape in shapes.items():
        if tuple(part[name].shape) != shape:
            raise fail(f"parts.{name}", f"shape {shape}", tuple(part[name].shape))
    return part
