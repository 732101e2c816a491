"""A memory full of words that a trained model wrote, a million by default: time of a step and what it reads.

    python -m benchmarks.ann_million runs/bench
    python -m benchmarks.ann_million runs/bench --words 300000 --threads 1

The curriculum weights read several sequences of pairs; all that they wrote is loaded into one memory, from which the
same weights go on with a batch of 8: 50 pairs and 50 questions. Recall is that of what the model read, against exact
search over the memory of that moment, heads apart. Beside it the time with random words and an untrained model, as in
figure 1a.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sparsam
from benchmarks.ann_steps import loaded_step
from benchmarks.ann_words import drawn
from benchmarks.recall import replayed
from benchmarks.setting import BATCH, STEPS, lstm_step
from benchmarks.speed import dense_step
from benchmarks.timing import take_turns
from benchmarks.trained_words import WEIGHTS, WORDS_PER_PAIR, model_of
from sparsam import indexes
from sparsam.lab import tasks
from sparsam.lab.recipes.figure3 import TASKS

SEQUENCES = 16  # that the words come from


def trained_words(count: int, weights: Path = WEIGHTS) -> Tensor:
    """So many words (count, W) that the trained weights wrote, three for each pair, along several sequences."""
    pairs = count // (3 * SEQUENCES) + 100
    task: Any = tasks.build("recall", **(TASKS["recall"].settings | {"cues": 1}))
    model = model_of(weights, pairs, sparsam.Auto())
    x = task.sample_size(SEQUENCES, torch.Generator().manual_seed(11), pairs).inputs[:pairs]
    with torch.no_grad():
        _, state = model(x)
    kept = [state.memory_rows(b)[1] for b in range(SEQUENCES)]
    words = torch.cat([each[each.norm(dim=-1) > 0] for each in kept])
    if len(words) < count:
        raise ValueError(f"count: expected at most the {len(words):,} words that were written, got {count:,}")
    return words[:count].contiguous()


def loaded(words: Tensor, index: indexes.Index, weights: Path = WEIGHTS) -> tuple[Any, Any, Tensor]:
    """The trained model, a state whose memory is full of these words, and what it is given."""
    model = model_of(weights, len(words) // WORDS_PER_PAIR - 400, index)
    task: Any = tasks.build("recall", **(TASKS["recall"].settings | {"cues": STEPS // 2}))
    x = task.sample_size(BATCH, torch.Generator().manual_seed(12), STEPS // 2).inputs
    return model, model.initial_state(BATCH, words[: model.memory_size]), x


def step_of(model: Any, state: Any, x: Tensor) -> Callable[[], None]:
    def call() -> None:
        y, _ = model(x, state)
        y.sum().backward()

    return call


def recall_by_head(words: Tensor, index: indexes.Index) -> list[float]:
    """Share of the true K words that each head read, over the steps of one batch element."""
    model, state, x = loaded(words, index)
    some, state = x[:, :1], state[:1]
    twin = replayed(model, some, state=state)
    with torch.no_grad():
        twin(some, state.to(engine="reference"))
    return [float(share) for share in twin.memory.recall_by_head]


def measure(count: int, threads: list[int], seconds: float, dense: bool) -> Iterator[dict[str, Any]]:
    """One finding after the other, so that what is known is kept when time runs out."""
    begin = time.perf_counter()
    words = trained_words(count)
    yield {"words": count, "seconds to write them": time.perf_counter() - begin}
    begin = time.perf_counter()
    model, state, x = loaded(words, sparsam.Scan())
    with torch.no_grad():
        model(x[:1], state)
    yield {"seconds to build the index": time.perf_counter() - begin, "with threads": torch.get_num_threads()}
    calls = {"nn.LSTM": lstm_step(), "trained": step_of(model, state, x)}
    calls["random"] = loaded_step(drawn(count).words, sparsam.Scan())
    model, state, x = loaded(words, sparsam.Scan(reach=0))
    calls["trained, all words read"] = step_of(model, state, x)
    default = torch.get_num_threads()
    for each in threads:
        torch.set_num_threads(each)
        times = take_turns(calls, seconds, warmup=1)
        us = {name: timing.median / STEPS * 1e6 for name, timing in times.items()}
        yield {f"us per step, {each} threads": us}
        yield {f"over nn.LSTM, {each} threads": {name: us[name] / us["nn.LSTM"] for name in us}}
    torch.set_num_threads(default)
    if dense:
        yield {"us per step, NTM": dense_step("ntm", count)["seconds"] * 1e6, "NTM's threads": default}
    yield {"recall of K by head": recall_by_head(words, sparsam.Scan())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder of ann_million.json")
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--seconds", type=float, default=5.0, help="of timing for each number of threads")
    parser.add_argument("--dense", action="store_true", help="an NTM of as many words beside it")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    for finding in measure(given.words, given.threads, given.seconds, given.dense):
        print(json.dumps(finding), flush=True)
        found |= finding
        (given.out / "ann_million.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
