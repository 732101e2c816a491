"""`sparsam bench ...`: benchmarks that print target and reached."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Measure speed and memory; every figure is printed beside its target.")

Out = Annotated[Path, typer.Option(help="Folder for the JSON and PNG files.")]
Quick = Annotated[bool, typer.Option("--quick", help="Smaller sizes: a minute instead of many.")]
Threads = Annotated[int | None, typer.Option(help="Threads. [default: torch's]")]


@app.callback()
def find_benchmarks() -> None:
    """Benchmarks come with the source tree, not with the wheel."""
    root = Path(__file__).resolve().parents[3]
    if (root / "benchmarks" / "__init__.py").exists():
        sys.path.insert(0, str(root))
    if importlib.util.find_spec("benchmarks") is None:
        raise RuntimeError("benchmarks: expected the source tree of sparsam, which has them; a wheel has none")


@app.command()
def speed(out: Out = Path("runs/bench"), quick: Quick = False, threads: Threads = None) -> None:
    """Time per step of SAM, DAM and NTM over the size of the memory, against nn.LSTM (figure 1a)."""
    from benchmarks import speed as bench

    _use(threads)
    bench.run(out, quick)


@app.command()
def seam(out: Out = Path("runs/bench"), quick: Quick = False, threads: Threads = None) -> None:
    """What a GRU, the layer without a controller, and a controller of one's own cost beside SAM."""
    from benchmarks import seam as bench

    _use(threads)
    bench.run(out, quick)


@app.command()
def step(out: Out = Path("runs/bench"), quick: Quick = False) -> None:
    """One step per call beside nn.LSTM called the same way."""
    from benchmarks import step as bench

    bench.run(out, quick)


@app.command()
def memory(out: Out = Path("runs/bench"), quick: Quick = False) -> None:
    """Bytes kept for training over the size of the memory (figure 1b)."""
    from benchmarks import memory as bench

    bench.run(out, quick)


@app.command()
def ann(out: Out = Path("runs/bench"), quick: Quick = False, threads: Threads = None) -> None:
    """Time and recall of SAM with an approximate index over a memory full of words (figure 1a, 'SAM ANN')."""
    from benchmarks import ann as bench

    _use(threads)
    bench.run(out, quick)


@app.command()
def sdnc(out: Out = Path("runs/bench"), quick: Quick = False, threads: Threads = None) -> None:
    """What sparse links cost beside SAM, and SDNC against DNC over the size of the memory (figure S)."""
    from benchmarks import sdnc as bench

    _use(threads)
    bench.run(out, quick)


@app.command()
def gpu(out: Out = Path("runs/bench"), quick: Quick = False) -> None:
    """Time per step of SAM and SDNC on a GPU, against nn.LSTM and the reference there."""
    from benchmarks import gpu as bench

    bench.run(out, quick)


@app.command()
def trainer(out: Out = Path("runs/bench"), quick: Quick = False, threads: Threads = None) -> None:
    """What the training loop adds to the engine's own time."""
    from benchmarks import trainer as bench

    _use(threads)
    bench.run(out, quick)


@app.command()
def data(out: Out = Path("runs/bench"), quick: Quick = False) -> None:
    """Words and images per second through the trainer, and the time spent outside the model."""
    from benchmarks import data as bench

    bench.run(out, quick)


def _use(threads: int | None) -> None:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
