"""`sparsam bench ...`: benchmarks that print each figure beside its target."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from sparsam.lab.cli.help import Command, Group
from sparsam.lab.cli.model_options import arguments_in

Out = Annotated[Path, typer.Option(help="Folder for the JSON and PNG files.")]
Quick = Annotated[bool, typer.Option("--quick", help="Smaller sizes: about a minute.")]
Threads = Annotated[int | None, typer.Option(help="Threads to use.", show_default="torch's setting", min=1, max=1024)]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON; progress goes to stderr.")]


def all_benchmarks() -> Any:
    """The registry of the source tree; a wheel has no benchmarks."""
    root = Path(__file__).resolve().parents[4]
    if (root / "benchmarks" / "__init__.py").exists() and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    if importlib.util.find_spec("benchmarks") is None:
        raise RuntimeError("benchmarks: expected the source tree of sparsam, which has them; a wheel has none")
    return importlib.import_module("benchmarks").BENCHMARKS


class Benchmarks(Group):
    """A command for each benchmark, looked up when one is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(all_benchmarks())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = all_benchmarks().find("benchmark", cmd_name)
        alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
        examples = f"    sparsam bench {cmd_name} --quick\n    sparsam bench {cmd_name} --json"
        text = f"{found.help}\n\nEach figure is printed beside its target.\n\nExamples:\n\n{examples}"
        alone.command(cmd_name, cls=Command, help=text)(_command(cmd_name, found.threads))
        return typer.main.get_command(alone)


app = typer.Typer(
    cls=Benchmarks,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Measure speed, memory and learning, and compare with targets.\n\n"
    "The benchmarks are in the source tree, not in a wheel.\n\nExample:\n\n    sparsam bench speed --quick",
)


@app.callback()
def benchmarks() -> None:
    """A group needs a callback or a command of its own."""


def run(name: str, out: Path, quick: bool, as_json: bool, **more: Any) -> None:
    """Run a benchmark."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        report = all_benchmarks()[name].run(out, quick, **more)
    if as_json:
        print(json.dumps(report.to_dict()))


def _command(name: str, threads_can_be_set: bool) -> Callable[..., None]:
    """The command of a benchmark; what its `run` takes beside `out` and `quick` is an option as well."""
    function = all_benchmarks()[name].run
    known, said = inspect.signature(function, eval_str=True).parameters.values(), arguments_in(function.__doc__)
    added = [
        parameter.replace(
            kind=parameter.KEYWORD_ONLY,
            annotation=Annotated[parameter.annotation, _option(parameter, said.get(parameter.name, ""))],
        )
        for parameter in known
        if parameter.name not in ("out", "quick")
    ]

    def called(
        out: Out = Path("runs/bench"), quick: Quick = False, threads: Threads = None, as_json: Json = False, **more: Any
    ) -> None:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        run(name, out, quick, as_json, **more)

    own = list(inspect.signature(called, eval_str=True).parameters.values())[:-1]
    parameters = [*(p for p in own if threads_can_be_set or p.name != "threads"), *added]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return called


def _option(parameter: inspect.Parameter, text: str) -> Any:
    """The option of an argument with what the docstring says; infinity is shown as "no limit"."""
    shown = "no limit" if parameter.default == math.inf else True
    return typer.Option(help=text[:1].upper() + text[1:], show_default=shown)
