"""What a trained memory wrote and read, token by token: whether a right answer was looked up, and a wrong one was not.

    python -m sparsam.lab.recipes.token_trace runs/mqar/large-memory-one-head-0 256

For each kind of token it says how far the write gate was open, and for the steps that are asked how much of the reads
went to the word that was written when the answer was shown.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.tasks.task import Batch
from sparsam.lab.training.saved import load_model
from sparsam.lab.training.seeds import MinibatchSeeds
from sparsam.trace import READ, WRITE, Trace


def kinds(task: Any, tokens: Tensor, mask: Tensor) -> dict[str, Tensor]:
    """The kinds of tokens (T,) of one sequence, each as a mask of its steps."""
    if task.name == "mqar":
        half = task.vocabulary // 2
        key = (tokens > 0) & (tokens < half) & ~mask
        return {"key": key, "value": tokens >= half, "query": mask, "blank": tokens == 0}
    if task.name == "selective_copy":
        marker = tokens == task.vocabulary - 1
        return {"data": (tokens > 0) & ~marker, "blank": tokens == 0, "marker": marker}
    special = tokens == task.vocabulary - 1
    after = torch.zeros_like(special)
    after[1:] = special[:-1]
    return {"special": special, "after it": after, "others": ~special & ~after}


def shown_at(task: Any, tokens: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """For each asked step of one sequence the step at which its answer was shown."""
    if task.name == "mqar":  # values are all different
        return torch.stack([(tokens == target).nonzero()[0, 0] for target in targets[mask]])
    if task.name == "selective_copy":
        return ((tokens > 0) & (tokens < task.vocabulary - 1)).nonzero().flatten()
    return (tokens == task.vocabulary - 1).nonzero()[:1, 0] + 1


def inputs_of_memory(model: Any, batch: Batch) -> tuple[Any, Tensor]:
    """The last memory layer of a model over tokens, and what it gets for a batch."""
    layers = [block.mixer for block in model.blocks if type(block.mixer).__name__ == "SparseMemory"]
    if not layers:
        raise ValueError("model: expected a SparseMemory layer in it, got none")
    seen: list[Tensor] = []
    hook = layers[-1].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        with torch.no_grad():
            model(batch.inputs, mask=batch.mask)
    finally:
        hook.remove()
    return layers[-1], seen[0]


def what_was_read(trace: Trace, steps: int, heads: int) -> tuple[Tensor, Tensor]:
    """Of one sequence's trace: the largest write weight (T, R), and read weights by the step that wrote the word
    (T, R, T). With room for every word no row is taken twice, and a word is of the step that wrote the most to its row.
    """
    gates, reads = torch.zeros(steps, heads), torch.zeros(steps, heads, steps)
    writer: dict[int, tuple[int, float]] = {}
    for time, head, row, weight, kind in zip(*(part.tolist() for part in _columns(trace)), strict=True):
        if kind == WRITE:
            gates[time, head] = max(float(gates[time, head]), weight)
            if row not in writer or weight >= writer[row][1]:
                writer[row] = (time, weight)
        elif kind == READ and row in writer:
            reads[time, head, writer[row][0]] += weight
    return gates, reads


def _columns(trace: Trace) -> tuple[Tensor, ...]:
    return trace.time, trace.head, trace.row, trace.weight, trace.kind


def summary(run: str | Path, size: int, seed: int = 0) -> dict[str, Any]:
    """Mean write gate by kind of token; of the asked steps, the weight on the right word, and how often it is first."""
    model, task, _ = load_model(run)
    batch: Batch = task.sample_size(1, MinibatchSeeds(seed).at(0, MinibatchSeeds.EVALUATE), size)
    layer, given = inputs_of_memory(model.eval(), batch)
    with torch.no_grad():
        trace = layer.trace(given)
    tokens, mask = batch.inputs[:, 0], batch.mask[:, 0]
    gates, reads = what_was_read(trace, len(tokens), layer.num_heads)
    asked = reads[mask]  # (M, R, T)
    place = shown_at(task, tokens, batch.targets[:, 0], mask)
    right = asked.gather(2, place[:, None, None].expand(-1, layer.num_heads, 1)).squeeze(2)
    scores = model(batch.inputs, mask=batch.mask)[0]
    return {
        "size": size,
        "write_gate": {name: round(float(gates[at].mean()), 4) for name, at in kinds(task, tokens, mask).items()},
        "weight_on_the_right_word": [round(float(value), 4) for value in right.mean(0)],
        "right_word_first": [round(float(v), 4) for v in (asked.argmax(2) == place[:, None]).float().mean(0)],
        "error_rate": task.errors(scores, batch)["error_rate"],
    }


if __name__ == "__main__":
    print(json.dumps(summary(sys.argv[1], int(sys.argv[2])), indent=2))
