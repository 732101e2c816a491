"""The words on which indexes are compared: those of trained models, and random and clustered ones beside them.

Sets that take long to write are kept as `<folder>/<name>.npz` and taken from there the next time.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.trained_words import Written, nearest, written
from sparsam.lab.tasks.input_layer import inner_model
from sparsam.lab.training.trained import load_model
from sparsam.memories.sdnc import SDNCMemory

SDNC_WEIGHTS = Path(__file__).parents[1] / "weights" / "babi-sdnc.safetensors"
STORIES, ASKING = 24, 8  # stories whose words are taken, and those of them whose queries are
LAST_STEPS = 10  # of a story, whose queries are taken
WIDTH, HEADS, K = 32, 4, 4
QUERIES = 80
MANY, CLUSTERS = 150_000, 1_500
NOISE = 0.3  # of a word's norm: how far a query lies from a stored word, and a word from the middle of its cluster
SETS = ("4,096 pairs", "50,000 pairs", "200,000 pairs", "SDNC on bAbI", "random", "clustered")


class NotedMemory(SDNCMemory):
    """An SDNC's plain memory that notes the queries by content."""

    queries: list[torch.Tensor]

    def select_rows(self, query: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        self.queries.append(query)
        return super().select_rows(query, words)


def words_of(name: str, folder: Path | None = None, quick: bool = False) -> Written:
    """A set by its name; with `quick` a tenth of it or less."""
    kept = (
        None if folder is None else folder / f"{name.replace(' ', '_').replace(',', '')}{'-quick' if quick else ''}.npz"
    )
    if kept is not None and kept.exists():
        return Written(**dict(np.load(kept).items()))
    if name.endswith("pairs"):
        pairs = int(name.split()[0].replace(",", ""))
        data = written(pairs // 20 if quick else pairs)
    elif name == "SDNC on bAbI":
        data = babi(4, 2) if quick else babi(STORIES, ASKING)
    else:
        data = drawn(MANY // 20 if quick else MANY, CLUSTERS if name == "clustered" else 0)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez(kept, **dataclasses.asdict(data))
    return data


def babi(stories: int, asking: int) -> Written:
    """Words that the shipped SDNC holds at the end of the longest test stories, and what it asks there."""
    model, task, _ = load_model(SDNC_WEIGHTS, engine="native")
    inner: Any = inner_model(model.eval())
    encoded = task.test
    longest = np.argsort(-encoded.lengths, kind="stable")[:stories]
    words, queries = [], []
    with torch.no_grad():
        for number, story in enumerate(longest):
            x = encoded.batch(np.array([story]), task.scale).inputs
            _, before = model(x[:-LAST_STEPS])
            _, state = model(x[-LAST_STEPS:], before)
            words.append(state.memory_rows(0)[1])
            if number < asking:
                plain = inner.memory
                inner.engine, inner.memory = "reference", NotedMemory(plain.sizes)
                inner.memory.queries = []
                model(x[-LAST_STEPS:], before.to(engine="reference"))
                queries += inner.memory.queries
                inner.engine, inner.memory = "native", plain
    kept = torch.cat(words)
    return _set(0, kept[kept.norm(dim=-1) > 0], torch.cat(queries))


def drawn(count: int, clusters: int = 0, seed: int = 0) -> Written:
    """Random words, around the middles of clusters where there are some, and queries near to words."""
    random = torch.Generator().manual_seed(seed)

    def near(words: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(words.shape, generator=random)
        return words + NOISE * noise / noise.norm(dim=-1, keepdim=True)

    words = torch.nn.functional.normalize(torch.randn(clusters or count, WIDTH, generator=random), dim=-1)
    if clusters:
        words = torch.nn.functional.normalize(near(words[torch.arange(count) % clusters]), dim=-1)
    picked = words[torch.randint(count, (QUERIES * HEADS,), generator=random)]
    return _set(0, words, near(picked).reshape(QUERIES, HEADS, WIDTH))


def _set(pairs: int, words: torch.Tensor, queries: torch.Tensor) -> Written:
    unit = [torch.nn.functional.normalize(each, dim=-1).numpy() for each in (words, queries)]
    return Written(pairs, np.ascontiguousarray(unit[0]), unit[1], nearest(unit[0], unit[1], K))
