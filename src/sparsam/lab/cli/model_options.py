"""The options of a model on the command line, made from the constructors in the registry."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from sparsam import indexes
from sparsam.controllers import KINDS
from sparsam.engines import ENGINES
from sparsam.lab.cli.help import option
from sparsam.lab.training.model_config import Setting, library_settings
from sparsam.memories.addressing import SIMILARITIES
from sparsam.memories.description import ALLOCATIONS
from sparsam.models import MODELS

HELP = {
    "hidden_size": "Width of the controller, H.",
    "memory_size": "Words in memory, N.",
    "word_size": "Numbers in a word, W.",
    "num_heads": "Access heads, R.",
    "k": "Words that a head reads, K.",
    "k_links": "Links kept per row, K_L.",
    "num_layers": "Layers of the controller.",
    "dropout": "Dropout between the controller's layers.",
    "masked": "Masked content addressing.",
    "layer_norm": "Layer normalisation in the controller.",
    "bypass_dropout": "Dropout between controller and output layer.",
    "start": "Initial weights: open, plain, or numbers of sparsam.Start as JSON.",
    "erase": "Heads erase what they have read before they write there.",
    "backward_clip": "Limit on the gradient that flows back from step to step; none keeps gradients exact.",
    "link_gradients": "Let gradients flow through the links.",
    "discount": "Factor by which DAM's usage decays at each step.",
    "deallocate": "Erase the words that the DNC frees.",
}  # shorter than in the docstrings of the models, which explain the others

# The names that a setting can take.
CHOICES = {
    "index": list(indexes.NAMES),
    "engine": ["auto", *ENGINES],
    "controller": [name for name in KINDS if name != "own"],
    "similarity": list(SIMILARITIES),
    "allocation": list(ALLOCATIONS),
}

# Options of several commands; the first three are of those that run trained weights.
EngineOption = Annotated[str | None, option(f"{', '.join(CHOICES['engine'])}.", "as trained", names=CHOICES["engine"])]
OwnTaskOption = Annotated[
    str | None, option("Your own task as module:Class, if the run was trained on one.", False, "--task")
]
RUN_OR_WEIGHTS = "A run (its folder or the beginning of its name), trained weights by name, or a .safetensors file."
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Do not show progress.")]


def described(model: str) -> dict[str, str]:
    """What the docstring of a model's class says of each argument."""
    return arguments_in(MODELS[model].__doc__)


def arguments_in(docstring: str | None) -> dict[str, str]:
    """What a docstring says of each argument."""
    section = inspect.cleandoc(docstring or "").partition("Args:\n")[2]
    found: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        if match := re.match(r" {4}(\w+(?:, \w+)*): (.*)", line):
            names = match[1].split(", ")
            found |= dict.fromkeys(names, match[2].strip())
        elif line.startswith(" " * 8):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        elif line.strip():
            break
    return found


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with an option for each setting of the library's models.

    It is given them as the dict `model_settings`, from which options that are not given stay out.
    """
    own_names = inspect.signature(command).parameters
    settings = {key: owners for key, owners in library_settings().items() if key not in own_names}

    def called(**arguments: Any) -> None:
        given = {key: arguments.pop(key) for key in settings}
        command(**arguments, model_settings={key: value for key, value in given.items() if value is not None})

    own = [
        parameter for name, parameter in inspect.signature(command, eval_str=True).parameters.items()
        if name != "model_settings"
    ]  # fmt: skip
    place = next(i for i, parameter in enumerate(own) if parameter.name == "model") + 1
    added = [_parameter(key, owners) for key, owners in settings.items()]
    called.__signature__ = inspect.Signature([*own[:place], *added, *own[place:]])  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
    called.__doc__, called.__name__, called.__module__ = command.__doc__, command.__name__, command.__module__
    return called


def _parameter(key: str, owners: dict[str, Setting]) -> inspect.Parameter:
    setting = next(iter(owners.values()))
    kind = setting.kinds[-1] if setting.kinds else str
    if bool in setting.kinds:
        kind = bool
    names = CHOICES.get(key, [])
    said = described(next(iter(owners))).get(key, key.replace("_", " "))
    text = [HELP.get(key) or (f"{', '.join(names)}." if names else said[0].upper() + said[1:].replace("[", "\\["))]
    if not set(MODELS) <= set(owners):
        others = [name for name in MODELS if name not in owners]
        text.append(f"Not for {others[0]}." if len(others) == 1 else f"Only for {', '.join(owners)}.")
    models: dict[str, list[str]] = {}
    for model, owner in owners.items():
        models.setdefault(str(owner.default).lower(), []).append(model)
    defaults = [f"{default} ({', '.join(names)})" if len(models) > 1 else default for default, names in models.items()]
    option: Any = typer.Option(
        f"--{key.replace('_', '-')}" + (f"/--no-{key.replace('_', '-')}" if kind is bool else ""),
        help=" ".join(text),
        show_default=", ".join(defaults),
        rich_help_panel="Model",
        autocompletion=(lambda: names) if names else None,
    )
    return inspect.Parameter(
        key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=Annotated[kind | None, option]
    )
