"""How `--help` is shown: defaults without brackets, a kind of value in place of a Python type, none beside a flag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer.core


def option(text: str, default: Any = True, *flags: str, names: Iterable[str] = (), **more: Any) -> Any:
    """An option: its help, the default that is shown, and the names that a shell completes."""
    return typer.Option(*flags, help=text, **_shown(default, names), **more)  # type: ignore[misc]


def settings_option(text: str) -> Any:
    """`--set PATH=VALUE`."""
    return option(text, True, "--set", metavar="PATH=VALUE")


def argument(text: str, default: Any = True, names: Iterable[str] = (), **more: Any) -> Any:
    """An argument, likewise."""
    return typer.Argument(help=text, **_shown(default, names), **more)


def _shown(default: Any, names: Iterable[str]) -> dict[str, Any]:
    completed = {"autocompletion": lambda: list(names)} if names else {}
    return {"show_default": default if isinstance(default, bool) else str(default), **completed}


class Command(typer.core.TyperCommand):
    """A command whose help is shown so."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _tidy(self, ctx)
        super().format_help(ctx, formatter)


class Group(typer.core.TyperGroup):
    """A group of commands, likewise."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _tidy(self, ctx)
        super().format_help(ctx, formatter)


def _tidy(command: Any, ctx: Any) -> None:
    paragraphs = (command.help or "").split("\n\n")
    command.help = "\n\n".join(part if part.startswith(" ") else part.replace("\n", " ") for part in paragraphs)
    for param in command.get_params(ctx):
        if getattr(param, "is_flag", False):
            param.metavar = ""
        elif isinstance(param, typer.core.TyperArgument):
            setattr(param, "display_type_rich", lambda ctx: None)  # noqa: B010 - its name says what it is
        elif param.metavar is None:
            param.metavar = _kind(param.display_type(ctx) if hasattr(param, "display_type") else param.type.name)
        shown = getattr(param, "show_default", None)
        if isinstance(shown, str):
            param.help = f"{param.help} [dim]\\[default: {shown}][/dim]"
            param.show_default = False


def _kind(type_name: str) -> str:
    """What stands for a value: of "<int range>", "<list[str]>" and the like."""
    if "int" in type_name or "float" in type_name:
        return "NUMBER"
    return "PATH" if "path" in type_name or "file" in type_name or "directory" in type_name else "TEXT"
