"""How sure a model that answers bAbI questions may sound: a temperature and a threshold, set on validation stories.

The logits are divided by the temperature of lowest cross entropy (Guo et al. 2017), and the threshold is the lowest
confidence, in steps of five percent, from which on at least 99 of 100 answers are right. Both are set on stories that
the model was not trained on, each question asked the way `Conversation` asks it: after
the story, without the questions before it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from sparsam import model_description
from sparsam.lab.data.babi import Story, open_babi
from sparsam.lab.data.babi_official import VOCABULARY
from sparsam.lab.tasks.babi.task import _held_out, word_numbers
from sparsam.weights import read_plain

__all__ = ["Calibration", "calibrate", "file_of", "questions_of"]

WANTED = 0.99  # of the answers that are given, this share should be right
TEMPERATURES = [0.5 + 0.05 * step for step in range(71)]
FIELDS = {
    "temperature": model_description.number(0.01, 100.0),
    "threshold": model_description.number(0.0, 1.0),
    "questions": model_description.whole(0, 2**31),
}


@dataclass(frozen=True)
class Calibration:
    """Logits are divided by `temperature`; answers below `threshold` are not given. `questions` is the number of
    validation questions that these were set on, 0 for the plain default."""

    temperature: float = 1.0
    threshold: float = 0.5
    questions: int = 0

    @classmethod
    def beside(cls, weights: Path) -> Calibration:
        """What was set for a weights file, or the default."""
        file = file_of(weights)
        if not file.exists():
            return cls()
        try:
            text = read_plain(file, model_description.LARGEST_TEXT)
            values = model_description.members("calibration", model_description.parsed(text, "calibration"), FIELDS)
            return cls(**{key: FIELDS[key](key, value) for key, value in values.items()})
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error

    def save(self, weights: Path) -> Path:
        """Write it beside the weights file."""
        file = file_of(weights)
        file.write_text(json.dumps(asdict(self), indent=2) + "\n")
        return file


def file_of(weights: Path) -> Path:
    """Where the calibration of a weights file is kept."""
    return weights.with_name(f"{weights.stem}.calibration.json")


def questions_of(story: Story) -> list[tuple[list[str], list[str]]]:
    """Every question of a story as the words up to its last dash, other questions left out, and its answer."""
    asking = {story.sentences[step] for step in story.steps}
    found = []
    for number in range(story.num_questions):
        steps = [step for step, question in zip(story.steps, story.questions) if question == number]
        line, end = story.sentences[steps[0]], steps[-1] + 1
        pairs = zip(story.words[:end], story.sentences[:end])
        words = [word for word, where in pairs if where == line or where not in asking]
        found.append((words, [story.answers[story.steps.index(step)] for step in steps]))
    return found


def calibrate(
    model: torch.nn.Module,
    scale: float,
    root: str | Path | None = None,
    per_task: int = 250,
    validation: float = 0.05,
    seed: int = 0,
    batch_size: int = 64,
) -> Calibration:
    """Temperature and threshold for `model` on the validation stories of its run (`validation` and `seed` are
    those of `Babi`)."""
    files = open_babi(root)
    asked: list[tuple[list[str], list[str]]] = []
    for task in range(1, 21):
        stories = list(files.stories(task, "train"))
        tasks = torch.full((len(stories),), task).numpy()
        held_out = [story for story, held in zip(stories, _held_out(tasks, validation, seed)) if held]
        asked += [question for story in held_out for question in questions_of(story)][:per_task]
    asked.sort(key=lambda pair: len(pair[0]))
    logits, targets = [], []
    for start in range(0, len(asked), batch_size):
        some = asked[start : start + batch_size]
        logits += _logits(model, some, scale)
        targets += [torch.tensor(word_numbers(answer)) for _, answer in some]
    return fit(logits, targets)


def fit(logits: list[Tensor], targets: list[Tensor]) -> Calibration:
    """Temperature and threshold for questions with logits (words, O) and right words (words,)."""
    flat, right = torch.cat(logits).double(), torch.cat(targets)
    losses = [torch.nn.functional.cross_entropy(flat / t, right) for t in TEMPERATURES]
    temperature = TEMPERATURES[int(torch.stack(losses).argmin())]
    best = [(some.double() / temperature).softmax(-1).max(-1) for some in logits]
    confidence = torch.stack([entry.values.prod() for entry in best])
    correct = torch.stack([(entry.indices == target).all() for entry, target in zip(best, targets)])
    for step in range(20):
        given = confidence >= step / 20
        if given.any() and float(correct[given].double().mean()) >= WANTED:
            break
    return Calibration(round(temperature, 2), step / 20, len(logits))


@torch.no_grad()
def _logits(model: torch.nn.Module, asked: list[tuple[list[str], list[str]]], scale: float) -> list[Tensor]:
    lengths = torch.tensor([len(words) for words, _ in asked])
    parameter = next(model.parameters())
    x = torch.zeros(int(lengths.max()), len(asked), len(VOCABULARY), dtype=parameter.dtype)
    for b, (words, _) in enumerate(asked):
        x[torch.arange(len(words)), b, torch.tensor(word_numbers(words))] = scale
    outputs = model(x.to(parameter.device), lengths=lengths)[0].cpu()
    return [outputs[n - len(answer) : n, b] for b, (n, (_, answer)) in enumerate(zip(lengths.tolist(), asked))]
