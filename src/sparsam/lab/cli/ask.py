"""`sparsam ask`: tell a trained model a story and ask it questions."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.help import argument, option
from sparsam.lab.cli.model_options import EngineOption
from sparsam.lab.cli.runs import complete_trained

HELP = (
    "One sentence a line; a question ends with '?'. Commands: /story shows the story, /undo takes the last sentence "
    "back, /new (or a blank line) begins another story, /words lists the words, /quit ends."
)


def command(
    run: Annotated[
        str,
        argument(
            "Trained weights by name, the folder of a bAbI run, or a .safetensors file.",
            autocompletion=complete_trained,
        ),
    ] = "babi-sam",
    story: Annotated[Path | None, option("Read the story, and any questions in it, from this file.", False)] = None,
    question: Annotated[
        list[str] | None, option("Ask this question and exit; may be repeated.", False, metavar="TEXT")
    ] = None,
    top: Annotated[int, option("Show at most this many of the sentences that were read.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object for each answer.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate the confidence on bAbI's validation stories and exit.")
    ] = False,
    engine: EngineOption = None,
) -> None:
    """Tell a trained model a story and ask questions about it.

    Write one sentence a line. A line with a question mark is answered; an empty line begins a new story.
    The model knows the words and forms of the bAbI tasks, and sparsam says when it cannot know the answer.
    If the answer has several words, write a dash for each ("What is Mary carrying? - -").
    Lines of a bAbI file also work.

    Examples:

        sparsam ask
        sparsam ask babi-sam --story story.txt --question "Where is Mary?"
    """
    model, scale, file = load(run, engine)
    if calibrate:
        _calibrate(model, scale, file)
        return
    from sparsam.lab.data.babi import story_lines
    from sparsam.lab.tasks.babi.calibration import Calibration

    calibration = Calibration.beside(file)
    talk = Dialogue(model, scale, calibration, top, as_json)
    if story is not None:
        for line in story_lines(story):
            talk.take(line)
    for line in question or []:
        talk.take(line if "?" in line else f"{line}?")
    if not question:
        if sys.stdin.isatty():
            _use_history()
            print(HELP)
            if not calibration.questions:
                print(f"(this model's confidence is not calibrated; sparsam ask {run} --calibrate does it, given bAbI)")
            talk.confirm = _confirm
            talk.show_story()
            for line in _prompted(talk):
                if not talk.take(line):
                    break
            return
        for line in sys.stdin:
            if not talk.take(line):
                break
    if talk.mistakes:
        raise typer.Exit(2)


def load(run: str | Path, engine: str | None = None) -> tuple[Any, float, Path]:
    """The model of a bAbI run, the scale of its one-hot words, and its weights file.

    The data set is not needed: the vocabulary is part of the package.
    """
    from sparsam.lab.tasks.babi.task import scale_of
    from sparsam.lab.training.trained import read_trained

    weights, config = read_trained(run)
    if config.task.name != "babi":
        raise ValueError(f"run: expected a run on bAbI, got one on {config.task.name!r}")
    model = weights.build(**({} if engine is None else {"engine": engine})).eval()
    return model, scale_of(config.task.settings), weights.file


@dataclass
class Dialogue:
    """Lines in, answers out; `mistakes` counts the lines that could not be understood."""

    model: Any
    scale: float
    calibration: Any
    top: int = 3
    as_json: bool = False
    confirm: Callable[[str], bool] | None = None  # asks a yes-or-no question, where somebody is there to answer
    mistakes: int = 0
    talk: Any = field(init=False)

    def __post_init__(self) -> None:
        self.new_story()

    def new_story(self) -> None:
        from sparsam.lab.tasks.babi.ask import Conversation

        self.talk = Conversation(self.model, self.scale, self.calibration)

    def take(self, line: str) -> bool:
        """Take in a line; False when it ends the conversation."""
        from sparsam.lab.tasks.babi.ask import looks_like_a_question

        text, _, columns = line.strip().partition("\t")
        number, text = _strip_id(text)
        if number == 1 or not text:
            self.new_story()
        if not text:
            return True
        if text.startswith("/"):
            return self._command(text[1:].lower())
        try:
            if "?" in text:
                self._ask(text, columns.partition("\t")[0])
            elif looks_like_a_question(text):
                self._unmarked(text)
            else:
                self._tell(text)
        except ValueError as error:
            self._complain(str(error))
        return True

    def show_story(self) -> None:
        for number, line in enumerate(self.talk.lines, start=1):
            print(f"{number:>3}  {line}")

    def _tell(self, text: str) -> None:
        note = self.talk.tell(text)
        if note:
            print(f"sparsam: note: {text!r}: {note}", file=sys.stderr)

    def _unmarked(self, text: str) -> None:
        if self.confirm is None:
            self._complain(f"{text!r} looks like a question without a question mark; write '{text.rstrip('.')}?'")
        elif self.confirm(f"Is this a question: '{text.rstrip('.')}?'"):
            self._ask(text.rstrip(".") + "?", "")
        else:
            self._tell(text)

    def _ask(self, text: str, expected: str) -> None:
        question, _, dashes = text.partition("?")
        if dashes.strip(" -."):
            raise ValueError(f"question: expected only dashes after the question mark, got {dashes.strip()!r}")
        words = dashes.count("-") or (expected.count(",") + 1 if expected else None)
        answer = self.talk.ask(question, words)
        if self.as_json:
            print(json.dumps(self._as_dict(question, answer, expected)))
            return
        given = " ".join(answer.words)
        if answer.why_not is None:
            print(f"{question.strip()}? {given} ({_percent(answer.confidence)})", end="")
        else:
            guess = f" (a guess would be {given}, {_percent(answer.confidence)})" if self.talk.lines else ""
            print(f"{question.strip()}? I cannot tell: {answer.why_not}{guess}", end="")
        print(f"   [in the data: {expected}]" if expected else "")
        if answer.note:
            print(f"    ({answer.note})")
        for entry in [found for found in answer.evidence if found.line is not None][: self.top]:
            print(f"    read {entry.share:4.0%}  {entry.line:>2}. {entry.sentence}")
        if not answer.evidence:
            has_memory = getattr(self.model, "memory_size", None) is not None
            print("    (it read no sentence)" if has_memory else "    (this model has no memory)")

    def _as_dict(self, question: str, answer: Any, expected: str) -> dict[str, Any]:
        evidence = [
            {"line": entry.line, "sentence": entry.sentence, "share": round(entry.share, 4), "rows": list(entry.rows)}
            for entry in answer.evidence
        ]
        told = answer.why_not is None
        return {
            "question": f"{question.strip()}?",
            "answer": answer.words if told else None,
            "guess": answer.words,
            "confidence": round(answer.confidence, 4),
            "calibrated": bool(self.calibration.questions),
            "why_not": answer.why_not,
            "note": answer.note,
            "evidence": evidence,
            "story": list(self.talk.lines),
            **({"expected": expected.split(",")} if expected else {}),
        }

    def _command(self, name: str) -> bool:
        if name in ("quit", "exit", "q"):
            return False
        if name == "story":
            self.show_story()
        elif name == "undo":
            if self.talk.lines:
                print(f"taken back: {self.talk.lines.pop()}")
        elif name == "new":
            self.new_story()
        elif name == "words":
            from sparsam.lab.data.babi_official import VOCABULARY

            print(" ".join(word for word in VOCABULARY if word.isalpha()))
        else:
            print(HELP)
        return True

    def _complain(self, message: str) -> None:
        print(f"sparsam: {message}", file=sys.stderr)
        self.mistakes += 1


def _calibrate(model: Any, scale: float, file: Path) -> None:
    from sparsam.lab.tasks.babi.calibration import calibrate

    found = calibrate(model, scale)
    print(f"temperature {found.temperature}, threshold {found.threshold}, set on {found.questions:,} questions")
    print(found.save(file))


def _percent(share: float) -> str:
    return "over 99%" if share > 0.99 else f"{share:.0%}"


def _strip_id(text: str) -> tuple[int | None, str]:
    match = re.match(r"(\d+)\s+", text)
    return (int(match[1]), text[match.end() :].strip()) if match else (None, text.strip())


def _use_history() -> None:
    """Arrow keys and history, where Python was built with readline."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401


def _confirm(question: str) -> bool:
    try:
        return input(f"{question} [Y/n] ").strip().lower() in ("", "y", "yes")
    except EOFError:
        return False


def _prompted(talk: Dialogue) -> Iterable[str]:
    while True:
        try:
            yield input(f"{len(talk.talk.lines) + 1:>3}> ")
        except EOFError:
            print()
            return
