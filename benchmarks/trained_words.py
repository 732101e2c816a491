"""What a trained model wrote into its memory, and what it asks of it: the words on which an index has to be right.

The shipped weights learnt associative recall with exact search (figure 3). They read a sequence of pairs and are then
asked for some of them: three words are written for each pair. Heads differ. Some ask for a word that lies near; others
ask far from all words, where the nearest are hardly nearer than the rest, which is hard for cells, hashes and trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsam
from benchmarks.recall import replayed
from sparsam import indexes
from sparsam.lab import tasks
from sparsam.lab.recipes.figure3 import TASKS
from sparsam.lab.training.trained import load_model

WEIGHTS = Path(__file__).parents[1] / "weights" / "recall-curriculum-sam.safetensors"
WORDS_PER_PAIR = 4  # at most
PIECE = 10_000  # pairs given at a time
STEPS = 40  # of asking, and of going on, whose queries are taken


@dataclass(frozen=True)
class Written:
    """Words (n, W) of unit length; queries (Q, R, W) likewise; the K most similar rows (Q, R, K) by exact search."""

    pairs: int
    words: np.ndarray
    queries: np.ndarray
    truth: np.ndarray

    @property
    def heads(self) -> int:
        return int(self.queries.shape[1])


def model_of(weights: Path, pairs: int, index: indexes.Index, similarity: str = "cosine") -> Any:
    """The trained model, with enough rows for what it writes along `pairs` pairs."""
    trained: Any = load_model(weights)[0]
    model = sparsam.SAM(
        trained.input_size,
        trained.output_size,
        memory_size=WORDS_PER_PAIR * (pairs + 400),
        index=index,
        similarity=similarity,
        engine="native",
    )
    model.load_state_dict(trained.state_dict())
    return model.eval()


def written(pairs: int, weights: Path = WEIGHTS, k: int = 4, seed: int = 1) -> Written:
    """Words and queries at the end of a sequence of `pairs` pairs.

    The words are written with a scan of a large budget, which reads what exact search reads (docs/notebook/search.md),
    so that long sequences need not take hours.
    """
    task: Any = tasks.build("recall", **(TASKS["recall"].settings | {"cues": STEPS}))
    batch = task.sample_size(1, torch.Generator().manual_seed(seed), pairs)
    model = model_of(weights, pairs, sparsam.Scan(checks=128))
    state: Any = None
    queries: list[torch.Tensor] = []
    with torch.no_grad():
        for piece in batch.inputs[:pairs].split(PIECE):
            _, state = model(piece, state)
        for x in (
            batch.inputs[pairs:],
            task.sample_size(1, torch.Generator().manual_seed(seed + 1), STEPS).inputs[:STEPS],
        ):
            twin = replayed(model, x, state=state)
            twin(x, state.to(engine="reference"))
            queries += twin.memory.queries
        words = state.to(engine="reference").memory.words[0]
    words = words[words.norm(dim=-1) > 0]
    asked = torch.cat(queries)
    unit = [torch.nn.functional.normalize(each, dim=-1).numpy() for each in (words, asked)]
    return Written(pairs, np.ascontiguousarray(unit[0]), unit[1], nearest(unit[0], unit[1], k))


def nearest(words: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """The k rows most similar to each of the queries (..., W), in no order."""
    flat = queries.reshape(-1, queries.shape[-1])
    rows = [np.argpartition(-(words @ query), k)[:k] for query in flat]
    return np.stack(rows).reshape(*queries.shape[:-1], k)


def recall_by_head(index: Any, data: Written) -> list[float]:
    """Share of the true K rows that an index of the core proposes, for each head."""
    shares = []
    for head in range(data.heads):
        hits = [
            row in found
            for query, some in zip(data.queries[:, head], data.truth[:, head])
            for found in [set(index.query(query))]
            for row in some.tolist()
        ]
        shares.append(float(np.mean(hits)))
    return shares
