"""How `--help` is shown: defaults without brackets, and no type beside a flag."""

from __future__ import annotations

from typing import Any

import typer.core


class Command(typer.core.TyperCommand):
    """A command whose help is shown so."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _tidy(self.get_params(ctx))
        super().format_help(ctx, formatter)


class Group(typer.core.TyperGroup):
    """A group of commands, likewise."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        _tidy(self.get_params(ctx))
        super().format_help(ctx, formatter)


def _tidy(params: Any) -> None:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
        shown = getattr(param, "show_default", None)
        if isinstance(shown, str):
            param.help = f"{param.help} [dim]\\[default: {shown}][/dim]"
            param.show_default = False
