"""`sparsam bench learn`: what default models learn in a plain loop, beside an LSTM and a GRU of as many parameters.

    sparsam bench learn                                             # everything: hours of one core
    python -m benchmarks.learn --tasks recall --models SAM,LSTM --seeds 1     # without the command line's packages
    python -m benchmarks.learn --start sweep.json --jobs 16 --seconds 540     # other first weights, in processes

The loop is `learn` below, the same for every model, with no curriculum and no setting but the task. A run ends when it
is right (at most 1% of the bits wrong at three tests in a row) or after its minibatches. Runs are kept in learn.json
one by one; a run that stands there is not run again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import importlib.util
import inspect
import json
import math
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks import benchmark
from benchmarks.learn_models import CHANGED, OPTIONS, WITH_MEMORY, make, parameters
from benchmarks.learn_tasks import TASKS, Task
from benchmarks.report import Line, Report, processor
from sparsam.start import from_values

MODELS = ("SAM", "SDNC", "SparseMemory", "DAM", "NTM", "DNC", "LSTM", "GRU", "LSTM x4")
SEEDS = {"SAM": 5, "SDNC": 5, "LSTM": 5}  # of the others 1: they take long, or nothing is claimed of them
MINIBATCHES = 5000
EVERY, TESTS = 100, 8  # minibatches between tests, and minibatches of a test
RIGHT, IN_A_ROW = 0.01, 3
TARGETS = ("recall", "repeat", "copy")  # those that SAM and SDNC are to solve in every seed
LEVEL = 1.03  # of an LSTM's loss, where nothing is to be remembered for long
PICTURE = ("SAM", "LSTM")
SLOW = {"DAM": 8, "NTM": 20, "DNC": 20, "SDNC": 1.3, "LSTM": 0.8, "GRU": 0.9, "LSTM x4": 2.5}  # beside SAM, to plan


def learn(model: nn.Module, task: Task, minibatches: int, seed: int, device: str, done: Callable[[int], bool]) -> None:
    """The loop of every run."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1, minibatches + 1):
        x, target, asked = task.draw(32, generator)
        y, _ = model(x.to(device))
        loss = task.loss(y[asked], target.to(device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % EVERY == 0 and done(step):
            break


@dataclasses.dataclass(frozen=True)
class Run:
    """One model on one task from one seed."""

    task: str
    model: str
    seed: int
    minibatches: int
    start: Any = "open"  # as a file holds it; "" for a model without a memory
    label: str = "open"

    @property
    def key(self) -> str:
        parts = [self.task, self.model, str(self.seed), str(self.minibatches)]
        return "/".join([*parts, self.label] if self.start else parts)

    @property
    def cost(self) -> float:
        return TASKS[self.task].steps * self.minibatches * SLOW.get(self.model, 1.0)


def carry_out(run: Run, device: str, deadline: float) -> dict[str, Any]:
    """The run's losses and errors, test by test."""
    torch.set_num_threads(1)
    task = TASKS[run.task]
    model = make(run.model, task.inputs, task.outputs, run.seed, from_values(run.start or "open")).to(device)
    generator = torch.Generator().manual_seed(10_000 + run.seed)
    tests = [(task.test or task.draw)(32, generator) for _ in range(TESTS)]
    losses: list[float] = []
    errors: list[float] = []
    begin = time.perf_counter()

    def done(step: int) -> bool:
        with torch.no_grad():
            found = [(model(x.to(device))[0][asked].cpu(), target) for x, target, asked in tests]
        losses.append(round(statistics.mean(float(task.loss(*pair)) for pair in found), 5))
        errors.append(round(statistics.mean(task.error(*pair) for pair in found), 5))
        right = task.kind != "number" and len(errors) >= IN_A_ROW and max(errors[-IN_A_ROW:]) <= RIGHT
        return right or time.time() > deadline

    learn(model, task, run.minibatches, run.seed, device, done)
    result = dataclasses.asdict(run) | {"parameters": parameters(model), "losses": losses, "errors": errors}
    right = task.kind != "number" and len(errors) >= IN_A_ROW and max(errors[-IN_A_ROW:]) <= RIGHT
    cut = not right and len(errors) < run.minibatches // EVERY
    result |= {"ended": "time" if cut else "right" if right else "minibatches"}
    where = torch.cuda.get_device_name() if device.startswith("cuda") else processor()
    return result | {"seconds": round(time.perf_counter() - begin, 1), "on": where, "torch": torch.__version__}


def solved_after(run: dict[str, Any]) -> int | None:
    """Minibatches until the error stayed at 1% or below for three tests; None where it did not."""
    errors = run["errors"]
    for place in range(len(errors) - IN_A_ROW + 1):
        if max(errors[place : place + IN_A_ROW]) <= RIGHT:
            return EVERY * (place + 1)
    return None


def planned(
    tasks: Iterable[str], models: Iterable[str], seeds: int | None, minibatches: int, starts: dict[str, Any]
) -> list[Run]:
    """All runs that are asked for, those that take longest first."""
    runs = []
    for model in models:
        first = starts if model in WITH_MEMORY else {"": ""}
        for seed in range(SEEDS.get(model, 1) if seeds is None else seeds):
            runs += [Run(task, model, seed, minibatches, s, label) for task in tasks for label, s in first.items()]
    return sorted(runs, key=lambda run: -run.cost)


def taken(files: Iterable[Path]) -> dict[str, Any]:
    """The runs of earlier records."""
    known: dict[str, Any] = {}
    for file in files:
        for key, run in json.loads(file.read_text())["raw"]["runs"].items():
            if key not in known or known[key]["ended"] == "time":
                known[key] = run
    return known


def carry_out_all(runs: list[Run], known: dict[str, Any], jobs: int, device: str, seconds: float, keep: Any) -> None:
    """What is left of `runs`, in `jobs` processes; `keep` is called when one has ended."""
    deadline = time.time() + seconds
    left = [run for run in runs if known.get(run.key, {}).get("ended") in (None, "time")]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        under_way = {pool.submit(carry_out, run, device, deadline): run for run in left}
        for ended in concurrent.futures.as_completed(under_way):
            run = under_way[ended]
            if ended.cancelled():
                continue
            known[run.key] = result = ended.result()
            after = None if TASKS[run.task].kind == "number" else solved_after(result)
            last = result["errors"][-1] if result["errors"] else float("nan")
            told = f"right after {after:,}" if after else f"error {last:.4f} after {EVERY * len(result['errors']):,}"
            print(f"{run.key}: {told} ({result['seconds']:.0f} s, {result['ended']})", flush=True)
            keep()
            if time.time() > deadline:
                for waiting in under_way:
                    waiting.cancel()


def starts_of(text: str) -> dict[str, Any]:
    """First weights by label: a name, numbers as JSON, or a JSON file of several."""
    if Path(text).suffix == ".json":
        return dict(json.loads(Path(text).read_text()))
    return {text: json.loads(text) if text.startswith("{") else text}


def summarise(report: Report, known: dict[str, Any]) -> None:
    """Lines of all runs: in how many seeds a task was solved, or the loss beside the LSTM's."""
    groups: dict[tuple[str, str, str, int], list[dict[str, Any]]] = {}
    for run in known.values():
        if run["ended"] != "time":
            groups.setdefault((run["task"], run["model"], run["label"], run["minibatches"]), []).append(run)
    order = list(TASKS), [*MODELS, *OPTIONS, *CHANGED]
    for group in sorted(groups, key=lambda group: (order[0].index(group[0]), order[1].index(group[1]), *group[2:])):
        task, model, label, minibatches = group
        name = f"{task}, {minibatches:,}: {model}" + (f", start {label}" if label not in ("", "open") else "")
        claimed = model in ("SAM", "SDNC") and label == "open" and minibatches == MINIBATCHES
        if TASKS[task].memory:
            report.add(solved_line(name, groups[group], task in TARGETS and claimed))
        else:
            beside = [] if model == "LSTM" else groups.get((task, "LSTM", "", minibatches), [])
            report.add(loss_line(name, groups[group], beside, claimed))


def by_task(known: dict[str, Any]) -> str:
    """What the defaults reached, in Markdown: a line for each model, a column for each task."""
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in known.values():
        if run["minibatches"] == MINIBATCHES and run["label"] in ("", "open") and run["ended"] != "time":
            cells.setdefault((run["model"], run["task"]), []).append(run)
    models = [model for model in (*MODELS, *OPTIONS, *CHANGED) if any(model == name for name, _ in cells)]
    rows = [[model, *(cell(task, cells.get((model, name), [])) for name, task in TASKS.items())] for model in models]
    lines = [f"| {' | '.join(row)} |" for row in [["", *TASKS], *rows]]
    return "\n".join([lines[0], f"|{'---|' * (1 + len(TASKS))}", *lines[1:]])


def cell(task: Task, runs: list[dict[str, Any]]) -> str:
    """Minibatches until solved or the share that is wrong, and in how many seeds; or the loss, and the seeds."""
    if not runs:
        return ""
    if not task.memory:
        return f"{statistics.mean(statistics.mean(run['losses'][-5:]) for run in runs):.3g} ({len(runs)})"
    after = sorted(step for step in map(solved_after, runs) if step)
    wrong = f"{100 * statistics.mean(run['errors'][-1] for run in runs):.2g}% wrong"
    told = f"{after[0]:,} to {after[-1]:,}" if len({*after}) > 1 else f"{after[0]:,}" if after else wrong
    return f"{told} ({len(after)}/{len(runs)})"


def solved_line(name: str, runs: list[dict[str, Any]], targeted: bool) -> Line:
    after = [solved_after(run) for run in runs]
    right = len([step for step in after if step is not None])
    error = statistics.mean(run["errors"][-1] for run in runs)
    told = f"after {sorted(step for step in after if step)}" if right else f"error {error:.4f}"
    bound = float(len(runs)) if targeted else None
    return Line(f"{name}, {told}", float(right), f"of {len(runs)} seeds", bound, at_most=False, timed=False)


def loss_line(name: str, runs: list[dict[str, Any]], beside: list[dict[str, Any]], targeted: bool) -> Line:
    """The mean loss of the last five tests, over that of the runs `beside` where there are any."""
    mine, theirs = ([statistics.mean(run["losses"][-5:]) for run in some] for some in (runs, beside))
    if not theirs:
        return Line(f"{name}, loss", statistics.mean(mine), "", timed=False)
    ratio = statistics.mean(mine) / statistics.mean(theirs)
    return Line(f"{name}, loss over nn.LSTM's", ratio, bound=LEVEL if targeted else None, timed=False)


@benchmark("What default models learn in a plain training loop, compared with nn.LSTM and nn.GRU.", threads=False)
def run(
    out: Path,
    quick: bool = False,
    tasks: str = "",
    models: str = "",
    seeds: int | None = None,
    minibatches: int = MINIBATCHES,
    jobs: int = 1,
    start: str = "open",
    device: str = "cpu",
    seconds: float = math.inf,
    collect: str = "",
) -> Report:
    """Train what is left, print, and write learn.json and its picture.

    Args:
        tasks: tasks, separated by commas; all by default.
        models: models, separated by commas; all by default.
        seeds: seeds per model; by default 5 for the models that the docs make claims about.
        minibatches: stop a run that has not solved its task after this many minibatches.
        jobs: processes, each with one thread.
        device: "cpu" or "cuda".
        start: initial weights of the models with a memory: a name, numbers as JSON, or a JSON file with several.
        seconds: stop everything after this many seconds.
        collect: train nothing; take the runs from these records, separated by commas.
    """
    chosen = [name for name in (tasks or ",".join(TASKS)).split(",")]
    kinds = [name for name in (models or ",".join(MODELS)).split(",")]
    if quick:
        chosen, kinds, minibatches, seeds = ["recall", "copy"], ["SAM", "LSTM"], 300, 1
    for argument, names, all_names in (("tasks", chosen, TASKS), ("models", kinds, (*MODELS, *OPTIONS, *CHANGED))):
        for name in names:
            if name not in all_names:
                raise ValueError(f"{argument}: expected names of {', '.join(all_names)}, got {name!r}")
    report = Report("learn")
    file = out / "learn.json"
    known = taken([*([file] if file.exists() else []), *map(Path, filter(None, collect.split(",")))])
    report.raw = {
        "command": " ".join(sys.argv[1:]),
        "commit": commit(),
        "loop": inspect.getsource(learn),
        "runs": known,
    }
    print(report.raw["loop"])
    if not collect:
        wanted = planned(chosen, kinds, seeds, minibatches, starts_of(start))
        carry_out_all(wanted, known, jobs, device, seconds, lambda: report.write(out))
    summarise(report, known)
    print(report.table(), by_task(known), sep="\n\n")
    print(report.write(out))
    draw(known, out / "learn.png")
    return report


def commit() -> str:
    """Of the source tree, where git knows it."""
    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    with contextlib.suppress(OSError):
        return subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    return ""


def draw(known: dict[str, Any], path: Path, task: str = "recall") -> None:
    """Error over minibatches, SAM beside the LSTM, every seed; nothing without matplotlib or without both."""
    whole = [run for run in known.values() if run["task"] == task and run["ended"] != "time"]
    curves = {name: [run for run in whole if run["model"] == name] for name in PICTURE}
    curves["SAM"] = [run for run in curves["SAM"] if run["label"] == "open"]
    if not all(curves.values()) or importlib.util.find_spec("matplotlib") is None:
        return
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2), layout="constrained")
    axis = figure.subplots()
    for (name, runs), colour in zip(curves.items(), ("#1f77b4", "#999999")):
        for place, run in enumerate(runs):
            steps = [EVERY * (at + 1) for at in range(len(run["errors"]))]
            told = f"{name if name == 'SAM' else 'nn.LSTM'}, {run['parameters']:,} parameters, {len(runs)} seeds"
            percent = [100 * error for error in run["errors"]]
            axis.plot(steps, percent, color=colour, linewidth=1.2, alpha=0.8, label=None if place else told)
    axis.set(xlabel="minibatches of 32, Adam 1e-3", ylabel="wrong bits (%)", ylim=(0, 52))
    axis.set_title("Recall of one of 8 pairs of 8 bits, default arguments, no curriculum", fontsize=10)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, parameter in list(inspect.signature(run).parameters.items()):
        option, default = f"--{name}", parameter.default
        if name == "quick":
            parser.add_argument(option, action="store_true")
        elif name == "out":
            parser.add_argument(option, type=Path, default=Path("runs/bench"))
        else:
            kind = {"seeds": int}.get(name, type(default))
            parser.add_argument(option, type=kind, default=default)
    run(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
