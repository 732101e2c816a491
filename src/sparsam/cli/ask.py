"""``sparsam ask``: tell a trained model a story and ask it questions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A bAbI run's folder, or a .safetensors file.")],
    top: Annotated[int, typer.Option(help="Show at most this many sentences that were read.")] = 3,
    engine: Annotated[str | None, typer.Option(help="auto, reference, native or cuda.")] = None,
) -> None:
    """Tell a story, one sentence a line, and ask: a line with a question mark is answered.

    A blank line begins a new story. For an answer of several words write as many dashes behind the question
    ("What is Mary carrying? - -"). Lines of a bAbI file work as they are. Words are those of the bAbI tasks.
    """
    model, scale = load(run, engine)
    interactive = sys.stdin.isatty()
    if interactive:
        print("One sentence a line; a question ends with '?'; a blank line begins a new story; Ctrl-D ends.")
    mistakes = converse(model, _prompted() if interactive else sys.stdin, top, scale)
    if mistakes and not interactive:
        raise typer.Exit(2)


def load(run: Path, engine: str | None = None) -> tuple[Any, float]:
    """The model of a bAbI run and the scale of its one-hot words.

    The data set is not needed: the vocabulary is part of the package.
    """
    from sparsam.data.babi_official import VOCABULARY
    from sparsam.training import checkpoint
    from sparsam.training.config import RunConfig
    from sparsam.training.saved import find_weights

    file = find_weights(run)
    weights, text = checkpoint.load_weights(file)
    if text is None:
        raise ValueError(f"{file} carries no config; it was not written by sparsam's trainer")
    config = RunConfig.from_json(text)
    if config.task.name != "babi":
        raise ValueError(f"run must be a bAbI run to be asked, got one of task {config.task.name!r}")
    if engine is not None:
        config.model.engine = engine
    model = config.model.build(len(VOCABULARY), len(VOCABULARY))
    model.load_state_dict(weights)
    return model.eval(), float(config.task.settings.get("scale", 1.0))


def converse(model: Any, lines: Iterable[str], top: int = 3, scale: float = 1.0) -> int:
    """Take in lines and print answers; returns how many lines could not be understood."""
    from sparsam.tasks.babi_ask import Conversation

    talk, mistakes = Conversation(model, scale), 0
    for line in lines:
        text, _, columns = line.strip().partition("\t")
        number, text = _strip_id(text)
        if number == 1 or not text:
            talk = Conversation(model, scale)
        if not text:
            continue
        try:
            if "?" not in text:
                talk.tell(text)
                continue
            question, _, dashes = text.partition("?")
            expected = columns.partition("\t")[0]
            words = dashes.count("-") or (expected.count(",") + 1 if expected else 1)
            answer = talk.ask(question, words)
        except ValueError as error:
            print(f"sparsam: {error}", file=sys.stderr)
            mistakes += 1
            continue
        sure = " ".join(f"{word} ({probability:.0%})" for word, probability in zip(answer.words, answer.probabilities))
        print(f"{question.strip()}? {sure}" + (f"   [in the data: {expected}]" if expected else ""))
        for memory in answer.memories[:top]:
            print(f"    read {memory.share:4.0%}  {memory.sentence or '(blank memory)'}")
        if not answer.memories:
            print("    (this model has no memory)")
    return mistakes


def _strip_id(text: str) -> tuple[int | None, str]:
    match = re.match(r"(\d+)\s+", text)
    return (int(match[1]), text[match.end() :].strip()) if match else (None, text.strip())


def _prompted() -> Iterable[str]:
    while True:
        try:
            yield input("> ")
        except EOFError:
            print()
            return
