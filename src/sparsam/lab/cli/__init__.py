"""The command line: thin commands over configs, recipes and plots.

Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 the loss was not finite, 130 interrupted (Ctrl-C), 143 terminated.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

_INSTALL_HINT = 'the command line needs the lab extra: pip install ".[lab]" in a checkout'

_LONGEST = 1900  # characters of a message

FAILED, USAGE, NOT_FINITE, INTERRUPTED = 1, 2, 3, 130


def build_app(only: str | None = None) -> Any:
    """The typer app with every command, or with `only` that one, so that nothing else is imported for it."""
    import typer

    from sparsam.lab.cli.help import Command, Group

    app = typer.Typer(
        name="sparsam",
        cls=Group,
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Neural networks with huge external memories: train them, look inside, reproduce the paper.",
    )

    @app.callback()
    def options(
        version: bool = typer.Option(
            False, "--version", is_eager=True, callback=_show_version, help="Show the version."
        ),
    ) -> None:
        pass

    for name in [only] if only in _COMMANDS else _COMMANDS:
        module, _, attribute = _COMMANDS[name].partition(":")
        target = getattr(importlib.import_module(module), attribute)
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=name)
        else:
            app.command(name, cls=Command)(target)
    return app


_COMMANDS = {
    "train": "sparsam.lab.cli.train:command",
    "eval": "sparsam.lab.cli.eval:evaluate",
    "plot": "sparsam.lab.cli.plot:plot",
    "reproduce": "sparsam.lab.cli.reproduce:reproduce",
    "demo": "sparsam.lab.cli.demo:demo",
    "bench": "sparsam.lab.cli.bench:app",
    "data": "sparsam.lab.cli.data:app",
    "ask": "sparsam.lab.cli.ask:command",
    "view": "sparsam.lab.cli.view:view",
    "info": "sparsam.lab.cli.info:info",
}


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with a code that means something; errors are one line, not a traceback."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        print(f"sparsam: {_INSTALL_HINT} ({error.name} is missing)", file=sys.stderr)
        sys.exit(FAILED)
    from sparsam.lab.training.checkpoint import CheckpointError
    from sparsam.lab.training.learner import NonFiniteLoss

    warnings.showwarning = _show_warning
    words = sys.argv[1:] if arguments is None else arguments
    try:
        build_app(only=words[0] if words else None)(words)
    except NonFiniteLoss as error:
        _fail(f"the loss is not finite: {error}", NOT_FINITE)
    except (ValueError, TypeError, FileNotFoundError, FileExistsError) as error:
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
    print(f"sparsam: {_shown(message)}", file=sys.stderr)
    sys.exit(code)


def _show_warning(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    print(f"sparsam: warning: {_shown(message)}", file=sys.stderr)


def _shown(message: Any) -> str:
    """A message for a terminal: some of it may come from a file, so it moves no cursor and comes to an end."""
    text = str(message)
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
