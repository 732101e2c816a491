"""`sparsam demo`: train, test on ten times longer sequences, draw."""

from __future__ import annotations

import importlib.util
import shutil
import time
from pathlib import Path
from typing import Annotated

from sparsam.lab.cli.help import option
from sparsam.lab.cli.model_options import Quiet


def demo(
    out: Annotated[Path, option("Folder of the demo. A demo that is already there is replaced.")] = Path("runs/demo"),
    seed: Annotated[int, option("Random seed of the weights and the data.")] = 0,
    steps: Annotated[int, option("Train on at most this many minibatches.")] = 40_000,
    quiet: Quiet = False,
) -> None:
    """Train SAM on recall, test it on sequences ten times as long, and write a page, plots and a report.

    Open view.html in the demo's folder to see the memory at work.

    Examples:

        sparsam demo
        sparsam demo --seed 1 --out runs/demo-1
    """
    from sparsam.lab.recipes.demo import PAIRS
    from sparsam.lab.recipes.demo import demo as recipe
    from sparsam.lab.training.evaluate import evaluate
    from sparsam.lab.training.loop import train
    from sparsam.lab.training.seeds import MinibatchSeeds
    from sparsam.lab.training.trained import load_model
    from sparsam.lab.viewer import write_page

    if (out / "config.json").exists():
        shutil.rmtree(out)
    config = recipe(seed, steps=steps).runs["demo"]
    started = time.perf_counter()
    outcome = train(config, out, quiet=quiet)
    if outcome.reason == "interrupted":
        raise KeyboardInterrupt
    model, task, _ = load_model(out)
    print(
        f"\nSAM, {config.model.memory_size:,} words, associative recall: {outcome.step:,} minibatches of "
        f"{config.batch_size} in {time.perf_counter() - started:.0f} s\n"
    )
    print(f"{'pairs':>8}  {'bits per sequence':>18}  {'chance':>8}")
    for size in (PAIRS, 10 * PAIRS):
        errors = evaluate(model, task, MinibatchSeeds(seed + 1), 8, 32, size=size)
        note = "" if size == PAIRS else "   ten times longer than trained"
        print(f"{size:>8}  {errors['bits_per_sequence']:>18.3f}  {task.chance(size):>8.1f}{note}")
    print(f"\n{write_page([out], out / 'view.html', PAIRS)}   (open it in a browser: the memory at work)")
    if importlib.util.find_spec("matplotlib") is None:
        print('the learning curve and the report need matplotlib: pip install ".[lab]"')
        return
    from sparsam.lab.plots.curves import plot_curves
    from sparsam.lab.plots.raster import plot_run_raster
    from sparsam.lab.plots.report import write_report

    print(plot_curves([out], out / "curves.png"))
    print(plot_run_raster(out, out / "memory.png", PAIRS))
    print(write_report([out], out / "report.html", "SAM on associative recall"))
