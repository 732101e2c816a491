"""A trained memory with several heads, cut down to the one pair of heads that does the work.

    python -m sparsam.lab.recipes.fewer_heads runs/mqar/crowded-memory-selective-0 256 one-head.safetensors

Four heads find recall where one does not, but in the end one head's queries read the words of one head: the others
write words that nobody asks for and search among all of them at every step. Query and sharpness of the first and word
and gates of the second make a layer with one head, which has a quarter of the words to write and to search. What the
other heads read at the asked steps becomes its mean, in the bias of the output. Training can go on from there, with as
many parameters in the blocks as are left:

    sparsam reproduce mqar --task crowded --model memory-one-head --seeds 1 --set weights=one-head.safetensors
        --set model.parameters=224515 --set model.write_cost=0.3           (one line)
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.recipes.token_trace import inputs_of_memory, shown_at
from sparsam.lab.tasks.task import Batch
from sparsam.lab.training import checkpoint
from sparsam.lab.training.saved import load_model
from sparsam.lab.training.seeds import MinibatchSeeds
from sparsam.trace import READ, WRITE, Trace

LATEST = 4  # a word that holds an answer is written at most so many steps after it was shown: what a convolution sees


def weights_by_heads(trace: Trace, asked: list[int], shown: list[int], heads: int) -> Tensor:
    """How much head i read at the asked steps from words that head j wrote just after the answer was shown (R, R)."""
    found = torch.zeros(heads, heads)
    place = dict(zip(asked, shown, strict=True))
    writer: dict[int, tuple[int, int, float]] = {}
    columns = (trace.time, trace.head, trace.row, trace.weight, trace.kind)
    for time, head, row, weight, kind in zip(*(part.tolist() for part in columns), strict=True):
        if kind == WRITE:
            if row not in writer or weight >= writer[row][2]:
                writer[row] = (time, head, weight)
        elif kind == READ and time in place and row in writer:
            wrote, by, _ = writer[row]
            if 0 <= wrote - place[time] < LATEST:
                found[head, by] += weight / len(asked)
    return found


def keep_one_head(layer: Any, read: int, write: int, other_reads: Tensor) -> dict[str, Tensor]:
    """The layer's weights with one head: it asks as head `read` and writes as head `write`.

    `other_reads` (R W): what the heads read in the mean; all but the part of head `read` goes to the output's bias.
    """
    heads, width, inputs = layer.num_heads, layer.word_size, layer.input_size
    words = heads * width
    rows = torch.cat(
        [
            torch.arange(width) + read * width,
            torch.arange(width) + words + write * width,
            2 * words + torch.tensor([read, heads + write, 2 * heads + write]),
        ]
    )
    kept = torch.arange(width) + read * width
    others = other_reads.clone()
    others[kept] = 0
    output = layer.output.weight
    return {
        **{name: value for name, value in layer.state_dict().items() if name.startswith("conv.")},
        "interface.weight": layer.interface.weight[rows],
        "interface.bias": layer.interface.bias[rows],
        "output.weight": torch.cat([output[:, :inputs], output[:, inputs + kept]], 1),
        "output.bias": layer.output.bias + output[:, inputs:] @ others,
    }


@torch.no_grad()
def cut(run: str | Path, size: int, to: str | Path, seed: int = 0) -> dict[str, Any]:
    """Write a weights file with one head, chosen from one sequence of `size`; says which heads were paired."""
    model, task, config = load_model(run)
    model.eval()
    batch: Batch = task.sample_size(1, MinibatchSeeds(seed).at(0, MinibatchSeeds.EVALUATE), size)
    layer, given = inputs_of_memory(model, batch)
    if layer.num_heads < 2:
        raise ValueError("run: expected a memory with several heads, got one")
    tokens, mask = batch.inputs[:, 0], batch.mask[:, 0]
    asked = mask.nonzero().flatten().tolist()
    shown = shown_at(task, tokens, batch.targets[:, 0], mask).tolist()
    by_heads = weights_by_heads(layer.trace(given), asked, shown, layer.num_heads)
    read, write = divmod(int(by_heads.argmax()), layer.num_heads)
    seen: list[Tensor] = []
    hook = layer.output.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        layer(given)
    finally:
        hook.remove()
    mean = seen[0][mask.unsqueeze(1)][:, layer.input_size :].mean(0)
    (name,) = [name for name, module in model.named_modules() if module is layer]
    own = keep_one_head(layer, read, write, mean)
    weights = model.state_dict() | {f"{name}.{part}": value for part, value in own.items()}
    smaller = copy.deepcopy(config)
    smaller.model.num_heads = 1
    count = sum(value.numel() for part, value in weights.items() if part.startswith("blocks."))
    if smaller.model.parameters is not None:  # the feed-forward parts stay as they are
        smaller.model.parameters = count
    Path(to).write_bytes(checkpoint.weights_to_bytes(weights, smaller.to_json()))
    return {
        "reads": read,
        "writes": write,
        "weight_on_the_right_word": round(float(by_heads[read, write]), 4),
        "parameters": count,
    }


if __name__ == "__main__":
    print(cut(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
