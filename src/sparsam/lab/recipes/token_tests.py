"""Accuracy of models over tokens, on sequences of any length: long ones are streamed in pieces with state."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from sparsam.lab.tasks.task import Batch
from sparsam.lab.tasks.tokens.task import TokenTask
from sparsam.lab.training.seeds import MinibatchSeeds

PIECE = 4096  # tokens


def error_rate(
    model: torch.nn.Module,
    task: TokenTask,
    draw: Callable[[torch.Generator], Batch],
    batches: int = 1,
    seed: int = 0,
    device: str = "cpu",
    piece: int = PIECE,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Errors over `batches` minibatches that `draw` makes, seconds per token beside them.

    A test that takes longer than `seconds` ends with the piece at hand; then `error_rate` covers the answers up to
    there (None if there were none) and `stopped_at` says at which token of the sequence that was.
    """
    seeds = MinibatchSeeds(seed)
    wrong = 0.0
    answers = tokens = 0
    stopped_at = None
    was_training = model.training
    model.eval()
    begin = time.perf_counter()
    try:
        for number in range(batches):
            batch = draw(seeds.at(number, MinibatchSeeds.EVALUATE))
            for piece_wrong, piece_answers, end in stream(model, task, batch, device, piece):
                wrong += piece_wrong
                answers += piece_answers
                if seconds is not None and time.perf_counter() - begin > seconds and end < len(batch.inputs):
                    stopped_at = end
                    break
            tokens += (stopped_at or len(batch.inputs)) * batch.batch_size
            if stopped_at is not None:
                break
    finally:
        model.train(was_training)
    taken = time.perf_counter() - begin
    result = {
        "error_rate": wrong / answers if answers else None,
        "answers": answers,
        "tokens": tokens,
        "seconds": round(taken, 3),
        "seconds_per_token": taken / tokens,
    }
    return result if stopped_at is None else {**result, "stopped_at": stopped_at}


@torch.no_grad()
def stream(model: torch.nn.Module, task: TokenTask, batch: Batch, device: str = "cpu", piece: int = PIECE) -> Any:
    """Wrong answers, answers and the last token's place of each piece of a batch in turn."""
    state = None
    for begin in range(0, len(batch.inputs), piece):
        span = slice(begin, begin + piece)
        part = Batch(batch.inputs[span], batch.targets[span], batch.mask[span]).to(device)
        scores, state = model(part.inputs, state, mask=part.mask)
        answers = len(scores)
        wrong = round(task.errors(scores, part)["error_rate"] * answers) if answers else 0
        yield wrong, answers, begin + len(part.inputs)
