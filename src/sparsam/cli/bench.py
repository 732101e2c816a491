"""`sparsam bench ...`: benchmarks that print target and reached."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Measure speed and memory; every figure is printed beside its target.")

BENCHMARKS = {
    "speed": "Time per step of SAM, DAM and NTM over the size of the memory, against nn.LSTM (figure 1a).",
    "seam": "What a GRU, the layer without a controller, and a controller of one's own cost beside SAM.",
    "step": "One step per call beside nn.LSTM called the same way.",
    "memory": "Bytes kept for training over the size of the memory (figure 1b).",
    "ann": "Time and recall of SAM with an approximate index over a memory full of words (figure 1a, 'SAM ANN').",
    "sdnc": "What sparse links cost beside SAM, and SDNC against DNC over the size of the memory (figure S).",
    "gpu": "Time per step of SAM and SDNC on a GPU, against nn.LSTM and the reference there.",
    "trainer": "What the training loop adds to the engine's own time.",
    "data": "Words and images per second through the trainer, and the time spent outside the model.",
}
ONE_THREAD = ("step", "data")  # they set the number of threads themselves

Out = Annotated[Path, typer.Option(help="Folder for the JSON and PNG files.")]
Quick = Annotated[bool, typer.Option("--quick", help="Smaller sizes: a minute instead of many.")]
Threads = Annotated[int | None, typer.Option(help="Threads.", show_default="torch's", min=1)]
Json = Annotated[bool, typer.Option("--json", help="Print the whole report as JSON; its lines go to stderr.")]


@app.callback()
def find_benchmarks() -> None:
    """Benchmarks come with the source tree, not with the wheel."""
    root = Path(__file__).resolve().parents[3]
    if (root / "benchmarks" / "__init__.py").exists():
        sys.path.insert(0, str(root))
    if importlib.util.find_spec("benchmarks") is None:
        raise RuntimeError("benchmarks: expected the source tree of sparsam, which has them; a wheel has none")


def run(name: str, out: Path, quick: bool, as_json: bool) -> None:
    """Run `benchmarks.<name>`."""
    bench = importlib.import_module(f"benchmarks.{name}")
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        report = bench.run(out, quick)
    if as_json:
        print(json.dumps(report.to_dict()))


def _command(name: str) -> Callable[..., None]:
    def with_threads(
        out: Out = Path("runs/bench"), quick: Quick = False, threads: Threads = None, as_json: Json = False
    ) -> None:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        run(name, out, quick, as_json)

    def plain(out: Out = Path("runs/bench"), quick: Quick = False, as_json: Json = False) -> None:
        run(name, out, quick, as_json)

    return plain if name in ONE_THREAD else with_threads


for _name, _help in BENCHMARKS.items():
    app.command(_name, help=_help)(_command(_name))
