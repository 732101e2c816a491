"""Every option says what it is and what it is without being given; names complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest
import typer

from sparsam.lab.cli import build_app

APP: Any = typer.main.get_command(build_app())


def commands(command: Any = APP, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", {})
    if not children:
        yield " ".join(path), command
    for name, child in children.items():
        yield from commands(child, (*path, name))


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_options_have_help_and_a_default_that_is_shown(name: str) -> None:
    context = click.Context(COMMANDS[name], info_name=name)
    for parameter in COMMANDS[name].params:
        if parameter.name in ("help", "install_completion", "show_completion"):
            continue
        assert parameter.help, f"{name}: {parameter.name} has no help"
        flag = getattr(parameter, "is_flag", False) or getattr(parameter, "multiple", False)
        shown = isinstance(parameter.show_default, str) or parameter.get_default(context) is not None
        assert flag or shown or parameter.required or parameter.show_default is False, f"{name}: {parameter.name}"


@pytest.mark.parametrize(
    ("command", "parameter", "begun", "found"),
    [
        ("train", "task", "re", ["recall"]),
        ("train", "model", "s", ["sam", "sdnc"]),
        ("train", "controller", "g", ["gru"]),
        ("train", "similarity", "c", ["cosine"]),
        ("train", "allocation", "", ["ring", "free"]),
        ("train", "optimizer", "a", ["adam"]),
        ("train", "device", "cu", ["cuda"]),
        ("eval", "engine", "n", ["native"]),
        ("eval", "index", "l", ["linear", "lsh"]),
        ("eval", "split", "t", ["test"]),
        ("eval", "run", "babi-", ["babi-sam", "babi-sdnc"]),
        ("view", "runs", "copy", ["copy-sam", "copy-sdnc"]),
        ("ask", "run", "babi-sd", ["babi-sdnc"]),
        ("ask", "engine", "r", ["reference"]),
        ("info", "name", "sort", ["sort-sam"]),
        ("plot", "against", "sec", ["seconds"]),
        ("reproduce", "figure", "omniglot", ["omniglot-pixels"]),
        ("data babi", "variant", "en", ["en-10k", "en"]),
    ],
)
def test_values_complete(command: str, parameter: str, begun: str, found: list[str]) -> None:
    context = click.Context(COMMANDS[command])
    option = next(p for p in COMMANDS[command].params if p.name == parameter)
    assert [item.value for item in option.shell_complete(context, begun)] == found
