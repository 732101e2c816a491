"""The command line: thin commands over configs, recipes and plots.

Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the loss was not finite, 130 interrupted (Ctrl-C), 143 terminated.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from typing import Any

_INSTALL_HINT = 'training and pictures need the train extra: pip install "sparsam[train]"'

FAILED, USAGE, NOT_FINITE, INTERRUPTED = 1, 2, 3, 130


def build_app() -> Any:
    """The typer app with every command whose module is there."""
    import typer

    app = typer.Typer(
        name="sparsam",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Neural networks with huge external memories.",
    )

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", is_eager=True, callback=_show_version, help="Show the version."
        ),
    ) -> None:
        pass

    for name, place in _COMMANDS.items():
        module, _, attribute = place.partition(":")
        if importlib.util.find_spec(module) is None:
            continue
        target = getattr(importlib.import_module(module), attribute)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name)
        else:
            app.command(name)(target)
    return app


_COMMANDS = {
    "train": "sparsam.cli.train:command",
    "eval": "sparsam.cli.eval:evaluate",
    "plot": "sparsam.cli.plot:plot",
    "reproduce": "sparsam.cli.reproduce:reproduce",
    "demo": "sparsam.cli.demo:demo",
    "bench": "sparsam.cli.bench:app",
    "data": "sparsam.cli.data:app",
    "ask": "sparsam.cli.ask:command",
    "view": "sparsam.cli.view:view",
    "info": "sparsam.cli.info:info",
}


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with a code that means something; errors are one line, not a traceback."""
    try:
        import rich  # noqa: F401
        import safetensors  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        print(f"sparsam: {_INSTALL_HINT} ({error.name} is missing)", file=sys.stderr)
        sys.exit(FAILED)
    from sparsam.training.checkpoint import CheckpointError
    from sparsam.training.learner import NonFiniteLoss

    warnings.showwarning = _show_warning
    try:
        build_app()(arguments if arguments is not None else sys.argv[1:])
    except NonFiniteLoss as error:
        _fail(f"the loss is not finite: {error}", NOT_FINITE)
    except (ValueError, TypeError) as error:
        _fail(str(error), USAGE)
    except (FileNotFoundError, FileExistsError) as error:
        _fail(str(error), USAGE)
    except (CheckpointError, RuntimeError, OSError) as error:
        _fail(str(error), FAILED)
    except MemoryError as error:
        _fail(f"there is not enough memory for this: {error}", FAILED)
    except ModuleNotFoundError as error:
        _fail(f"{error.name} is missing; {_INSTALL_HINT}", FAILED)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)


def _show_version(wanted: bool) -> None:
    import typer

    import sparsam

    if wanted:
        print(f"sparsam {sparsam.__version__}")
        raise typer.Exit


def _fail(message: str, code: int) -> None:
    print(f"sparsam: {message}", file=sys.stderr)
    sys.exit(code)


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    print(f"sparsam: warning: {message}", file=sys.stderr)
