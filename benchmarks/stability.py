"""Whether training keeps what it has learnt: the gradient's norm and the wrong bits of long runs, with and without
limits on what flows backward (`backward_clip`).

    python -m benchmarks.stability --clip none 10 --seeds 0 1 --minibatches 20000 --out runs/bench/stability.json

A model of default arguments (1,024 words) in a plain loop: minibatches of 8, Adam at 1e-3, the gradient clipped to a
norm of 1. Copies of 1 to 96 items, or with `--task sort` 8 keys to put in order.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import sparsam
from benchmarks.report import as_record
from sparsam.lab import tasks
from sparsam.lab.recipes.record import text

TASKS = {
    "copy": ("copy", {"bits": 6, "min_size": 1, "max_size": 96}),
    "sort": ("sort", {"bits": 6, "min_size": 8, "max_size": 8}),
    "recall": ("recall", {"bits": 8, "min_size": 2, "max_size": 16}),
}
WINDOW = 500  # minibatches to a line of the record
BATCH = 8
SOLVED, LOST = 0.01, 0.05  # shares of wrong bits


def train(
    model: str, task: str, clip: float | None, seed: int, minibatches: int, seconds: float, hidden: int = 100
) -> dict[str, Any]:
    """One run: a line for each window, and how often a solved task was lost again."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    name, settings = TASKS[task]
    drawn: Any = tasks.build(name, **settings)
    sizes = dict(input_size=drawn.input_size, output_size=drawn.output_size, hidden_size=hidden, memory_size=1024)
    net = sparsam.build(model, backward_clip=clip, **sizes)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    norms: list[float] = []
    wrong = bits = 0.0
    windows: list[dict[str, Any]] = []
    begin = time.perf_counter()
    for step in range(1, minibatches + 1):
        batch = drawn.sample(BATCH, generator)
        y, _ = net(batch.inputs)
        loss = drawn.loss(y, batch)
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)))
        optimizer.step()
        wrong += drawn.errors(y, batch)["bits_per_sequence"]
        bits += float(batch.mask[:, 0].sum()) * drawn.output_size
        if step % WINDOW == 0:
            windows.append({"minibatch": step, "wrong": wrong / bits, **of_norms(norms)})
            norms, wrong, bits = [], 0.0, 0.0
            if time.perf_counter() - begin > seconds:
                break
    run = {"model": model, "task": task, "clip": clip, "seed": seed, "seconds": time.perf_counter() - begin}
    return {**run, **kept([window["wrong"] for window in windows]), "windows": windows}


def of_norms(norms: list[float]) -> dict[str, float]:
    """Median, 99th percentile and largest of a window's norms, and how many were not finite."""
    values = torch.tensor(norms, dtype=torch.float64)
    finite = values[torch.isfinite(values)]
    found = {"not_finite": float(len(values) - len(finite))}
    if len(finite):
        found |= {"median": float(finite.median()), "p99": float(finite.quantile(0.99)), "largest": float(finite.max())}
    return found


def kept(wrong: list[float]) -> dict[str, Any]:
    """The first solved window (None: never), windows after it, and how many of these were lost."""
    first = next((i for i, value in enumerate(wrong) if value <= SOLVED), None)
    later = [] if first is None else wrong[first + 1 :]
    solved = None if first is None else (first + 1) * WINDOW
    return {"solved_at": solved, "windows_after": len(later), "lost": sum(not value <= LOST for value in later)}


def measure(
    models: list[str],
    task: str,
    clips: list[float | None],
    seeds: list[int],
    minibatches: int,
    seconds: float,
    processes: int,
    done: Callable[[list[dict[str, Any]]], None],
) -> list[dict[str, Any]]:
    """All runs, a process each; `done` is handed those that are over."""
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        every = [(m, task, c, s, minibatches, seconds) for s in seeds for m in models for c in clips]
        for run in as_completed([pool.submit(train, *one) for one in every]):
            found.append(run.result())
            done(found)
    return found


def clip_of(text: str) -> float | None:
    return None if text == "none" else float(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=["sam"])
    parser.add_argument("--task", default="copy", choices=TASKS)
    parser.add_argument("--clip", nargs="+", type=clip_of, default=[None, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--minibatches", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=480.0, help="of a run, at most")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/stability.json"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)

    def done(runs: list[dict[str, Any]]) -> None:
        run, last = runs[-1], runs[-1]["windows"][-1]
        print(
            f"{run['model']} {run['task']} clip {run['clip']} seed {run['seed']}: solved at {run['solved_at']}, "
            f"{run['lost']} of {run['windows_after']} windows lost, at {last['minibatch']} wrong {last['wrong']:.4f} "
            f"median {last.get('median', 0):.2f} p99 {last.get('p99', 0):.1f}",
            flush=True,
        )
        given.out.write_text(text(as_record("stability", {"torch": torch.__version__, "runs": runs}, sys.argv[1:])))

    measure(given.model, given.task, given.clip, given.seeds, given.minibatches, given.seconds, given.processes, done)


if __name__ == "__main__":
    main()
