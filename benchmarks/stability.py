"""Whether training keeps what it has learnt: the gradient's norm and the wrong bits of long runs, with and without
limits on what flows backward (`backward_clip`).

    python -m benchmarks.stability --task climb --clip none 10 --seeds 0 1 2 3 4 --out docs/bench/stability.json

A model of default arguments (SAM, SDNC and the layer with 1,024 words) in a plain loop: minibatches of 8, Adam at 1e-3,
the gradient clipped to a norm of 1. Copies of 1 to 96 items (`copy`) or of up to 64 by a curriculum that begins at 2
(`climb`), 8 keys to put in order (`sort`), 2 to 16 pairs (`recall`), or copies of 1 to 4 items (`short`), for many
minibatches. A run ends 20,000 minibatches after it was solved. A whole run in the record is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import sparsam
from benchmarks.learn_models import Block
from benchmarks.report import as_record
from sparsam.lab import tasks
from sparsam.lab.recipes.record import text
from sparsam.lab.training.config import CurriculumConfig
from sparsam.lab.training.curriculum import Curriculum

MODELS = ("sam", "sdnc", "dam", "ntm", "dnc", "lstm", "layer")
TASKS = {
    "copy": ("copy", {"bits": 6, "min_size": 1, "max_size": 96}),
    "climb": ("copy", {"bits": 6, "min_size": 1, "max_size": 64}),
    "short": ("copy", {"bits": 6, "min_size": 1, "max_size": 4}),
    "sort": ("sort", {"bits": 6, "min_size": 8, "max_size": 8}),
    "recall": ("recall", {"bits": 8, "min_size": 2, "max_size": 16}),
}
CLIMBS = {"climb": CurriculumConfig(start=2, threshold=0.05, patience=100, max_level=64)}
WINDOW = 500  # minibatches to a line of the record
BATCH = 8
SOLVED, LOST = 0.01, 0.05  # shares of wrong bits


def built(model: str, inputs: int, outputs: int, clip: float | None, hidden: int) -> Any:
    """A model by name; `layer` is two layers of `SparseMemory`, which have no step that feeds the next."""
    words = {"memory_size": 1024} if model in ("sam", "sdnc", "layer") else {}
    if model == "layer":
        if clip is not None:
            raise ValueError(f"clip: expected none for the layer, which has no backward_clip, got {clip}")
        return Block(inputs, outputs, hidden, **words)
    net = sparsam.build(model, input_size=inputs, output_size=outputs, hidden_size=hidden, **words)
    net.backward_clip = clip
    return net


def train(
    model: str,
    task: str,
    clip: float | None,
    seed: int,
    minibatches: int,
    seconds: float,
    further: int,
    hidden: int = 100,
) -> dict[str, Any]:
    """One run: a line for each window, and how often a solved task was lost again."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    name, settings = TASKS[task]
    drawn: Any = tasks.build(name, **settings)
    net = built(model, drawn.input_size, drawn.output_size, clip, hidden)
    climb = Curriculum(CLIMBS[task]) if task in CLIMBS else None
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    norms: list[float] = []
    wrong = bits = 0.0
    windows: list[dict[str, Any]] = []
    found = kept(windows)
    begin = time.perf_counter()
    ended, level = "minibatches", None if climb is None else climb.level
    for step in range(1, minibatches + 1):
        batch = drawn.sample(BATCH, generator, None if climb is None else climb.level)
        y, _ = net(batch.inputs)
        loss = drawn.loss(y, batch)
        optimizer.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)))
        optimizer.step()
        wrong += drawn.errors(y, batch)["bits_per_sequence"]
        bits += float(batch.mask[:, 0].sum()) * drawn.output_size
        if climb:
            climb.update(float(loss.detach()))
        if step % WINDOW == 0:
            windows.append({"minibatch": step, "wrong": wrong / bits, **of_norms(norms)})
            if climb:
                windows[-1]["level"], level = level, climb.level
            norms, wrong, bits = [], 0.0, 0.0
            found = kept(windows, None if climb is None else climb.config.max_level)
            if found["windows_after"] * WINDOW >= further:
                ended = "further"
                break
            if time.perf_counter() - begin > seconds:
                ended = "time"
                break
    run = {"model": model, "task": task, "clip": clip, "seed": seed, "seconds": time.perf_counter() - begin}
    return {**run, "torch": torch.__version__, "ended": ended, **found, "windows": windows}


def of_norms(norms: list[float]) -> dict[str, float]:
    """Median, 99th percentile and largest of a window's norms, and how many were not finite."""
    values = torch.tensor(norms, dtype=torch.float64)
    finite = values[torch.isfinite(values)]
    found = {"not_finite": float(len(values) - len(finite))}
    if len(finite):
        found |= {"median": float(finite.median()), "p99": float(finite.quantile(0.99)), "largest": float(finite.max())}
    return found


def kept(windows: list[dict[str, Any]], top: int | None = None) -> dict[str, Any]:
    """The first solved window (None: never), at level `top` of a curriculum, and how many later ones were lost."""
    solved = (w for w in windows if w["wrong"] <= SOLVED and w.get("level", 0) >= (top or 0))
    at = next((window["minibatch"] for window in solved), None)
    later = [] if at is None else [window for window in windows if window["minibatch"] > at]
    return {"solved_at": at, "windows_after": len(later), "lost": sum(not w["wrong"] <= LOST for w in later)}


def key(run: dict[str, Any]) -> tuple[Any, ...]:
    return run["model"], run["task"], run["clip"], run["seed"]


def measure(
    wanted: list[dict[str, Any]],
    runs: list[dict[str, Any]],
    minibatches: int,
    seconds: float,
    further: int,
    processes: int,
    done: Callable[[dict[str, Any]], None],
) -> None:
    """Add the wanted runs that are not whole among `runs`, in processes; `done` is handed each."""
    whole = {
        key(run)
        for run in runs
        if run["windows"][-1]["minibatch"] >= minibatches or run["windows_after"] * WINDOW >= further
    }
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        left = [(*key(one), minibatches, seconds, further) for one in wanted if key(one) not in whole]
        for ended in as_completed([pool.submit(train, *one) for one in left]):
            run = ended.result()
            runs[:] = [*(other for other in runs if key(other) != key(run)), run]
            done(run)


def table(runs: list[dict[str, Any]]) -> str:
    """The runs of the record in Markdown, those of a model, a task and a limit in a line."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in sorted(runs, key=lambda run: (run["model"], run["task"], run["clip"] or 0.0, run["seed"])):
        groups.setdefault((run["model"], run["task"], f"{run['clip'] or 'None'}"), []).append(run)
    lines = [
        "| model | task | backward_clip | solved after | windows lost | minibatches | 99th percentile | wrong bits |"
    ]
    lines.append(f"|{'---|' * 8}")
    for name, some in groups.items():
        columns = [[f"{run['solved_at']:,}" if run["solved_at"] else "not" for run in some]]
        columns += [[f"{run['lost']} of {run['windows_after']}" for run in some]]
        last = [run["windows"][-1] for run in some]
        columns += [[f"{window['minibatch']:,}" for window in last]]
        columns += [[f"{window['p99']:,.1f}" for window in last], [f"{window['wrong']:.1%}" for window in last]]
        lines.append("| " + " | ".join([*name, *(", ".join(column) for column in columns)]) + " |")
    return "\n".join(lines)


def clip_of(text: str) -> float | None:
    return None if text == "none" else float(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=["sam"], choices=MODELS)
    parser.add_argument("--task", default="copy", choices=TASKS)
    parser.add_argument("--clip", nargs="+", type=clip_of, default=[None, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--minibatches", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="of a run, at most")
    parser.add_argument("--further", type=int, default=20_000, help="minibatches after which a solved run ends")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/stability.json"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    runs = json.loads(given.out.read_text())["runs"] if given.out.exists() else []

    def done(run: dict[str, Any]) -> None:
        last = run["windows"][-1]
        print(
            f"{run['model']} {run['task']} clip {run['clip']} seed {run['seed']}: solved at {run['solved_at']}, "
            f"{run['lost']} of {run['windows_after']} windows lost, at {last['minibatch']} wrong {last['wrong']:.4f} "
            f"median {last.get('median', 0):.2f} p99 {last.get('p99', 0):.1f} ({run['ended']})",
            flush=True,
        )
        given.out.write_text(text(as_record("stability", {"runs": sorted(runs, key=str)}, sys.argv[1:])))

    each = product(given.seeds, given.model, given.clip)
    wanted = [{"model": m, "task": given.task, "clip": c, "seed": s} for s, m, c in each]
    measure(wanted, runs, given.minibatches, given.seconds, given.further, given.processes, done)
    print(table(runs))


if __name__ == "__main__":
    main()
