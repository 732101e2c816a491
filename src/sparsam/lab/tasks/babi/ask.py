"""Asking a trained model: its answer, how sure it is, and the sentences whose traces in memory it read for it.

Every question is put to the story as it was told, without the questions asked before it: what was asked does not
change what happened.

A row of the memory has no text; what it has is a history. Here a row stands for the sentence during which it was
written with the largest weight before it was read (the latest such sentence when several are equal). A row that was
never written is blank; one that the question wrote is not evidence for its answer.

A model trained on bAbI has an answer to everything, so an answer is given only where it means something
(`Answer.why_not`): the story and the question must be of a form that bAbI has (`forms`), the answer of the kind
that is asked for, and the confidence above a threshold that was set on validation stories (`calibration`).
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.data.babi_official import DASH, VOCABULARY
from sparsam.lab.tasks.babi import forms
from sparsam.lab.tasks.babi.calibration import Calibration
from sparsam.lab.tasks.babi.forms import ANSWERS, QUESTIONS, SENTENCES, SLOTS, Reading
from sparsam.lab.tasks.babi.task import word_numbers

__all__ = ["Answer", "Conversation", "Evidence", "UnknownWords", "looks_like_a_question", "sentence_of_rows"]

BLANK = -1
_WORDS = frozenset(VOCABULARY) - {".", "?", DASH}
_FIGURES = {"0": "none", "1": "one", "2": "two", "3": "three"}
_QUESTION_WORDS = ("where", "what", "who", "why", "how", "does", "did", "do", "will", "which", "when", "is", "are")


class UnknownWords(ValueError):
    """Words that the model was never shown, each with the nearest ones that it knows."""

    def __init__(self, words: Sequence[str]) -> None:
        self.nearest = {word: nearest_words(word) for word in words}
        told = "; ".join(
            f"{word!r}" + (f" (nearest: {', '.join(near)})" if near else "") for word, near in self.nearest.items()
        )
        super().__init__(f"not among the {len(_WORDS)} words that bAbI has: {told}")


@dataclass(frozen=True)
class Evidence:
    """Something that was read: a sentence by its `line` (from 1; None for blank memory) and the `share` of all
    reading weight at the answer, over heads and answer words, with the rows it was read from."""

    line: int | None
    sentence: str | None
    share: float
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """The words answered, the probability of each, and what was read for them, the most first.

    `why_not` is the reason that this is no answer but a guess, None when there is none; `note` is what else a
    reader should know.
    """

    words: list[str]
    probabilities: list[float]
    evidence: list[Evidence]
    why_not: str | None = None
    note: str | None = None

    @property
    def confidence(self) -> float:
        """The probability that all words are right."""
        return float(torch.tensor(self.probabilities).prod())


@dataclass
class Conversation:
    """A story as it is told, line by line.

    `scale` is that of the task the model was trained on (`Babi`).
    """

    model: torch.nn.Module
    scale: float = 1.0
    calibration: Calibration = field(default_factory=Calibration)
    lines: list[str] = field(default_factory=list)

    def tell(self, sentence: str) -> str | None:
        """Add a sentence. Returns what should be said about it: that bAbI has no such sentences, or None.

        Raises:
            UnknownWords: naming all words that the model cannot know; the story is then as it was before.
        """
        words = words_of(sentence)
        self.lines.append(sentence.strip())
        if any(reading.tasks for reading in forms.read(words, SENTENCES)):
            return None
        return "bAbI has no sentence of this form, so the model may not understand it"

    @torch.no_grad()
    def ask(self, question: str, words: int | None = None) -> Answer:
        """Ask about the story.

        Args:
            words: how many words the answer has, one dash each as in the data; None: as many as such questions have
                (two for a way, the number of things for what somebody carries, else one).
        """
        asked = words_of(question)
        readings = forms.read(asked, QUESTIONS)
        if words is None:
            words = self._answer_length(asked, readings)
        if words < 1:
            raise ValueError(f"words: expected at least 1, got {words}")
        x, sentences = self._input(asked, words)
        logits = self.model(x)[0][-words:, 0]
        best = (logits / self.calibration.temperature).softmax(-1).max(-1)
        found = [VOCABULARY[i] for i in best.indices.tolist()]
        answer = Answer(found, best.values.tolist(), self._evidence(x, sentences, words))
        why_not = self._why_not(asked, readings, answer)
        return dataclasses.replace(answer, why_not=why_not, note=None if why_not else self._note(readings))

    def _input(self, asked: list[str], words: int) -> tuple[Tensor, list[int]]:
        """One-hot words (T, 1, I) of the story and the question with its dashes, and the line of each step."""
        told, sentences = [], []
        for number, line in enumerate(self.lines):
            sentence = [*words_of(line), "."]
            told += sentence
            sentences += [number] * len(sentence)
        told += [*asked, "?", *[DASH] * words]
        sentences += [len(self.lines)] * (len(told) - len(sentences))
        parameter = next(self.model.parameters())
        numbers = torch.tensor(word_numbers(told), device=parameter.device)
        x = torch.nn.functional.one_hot(numbers, len(VOCABULARY)).to(parameter.dtype).unsqueeze(1) * self.scale
        return x, sentences

    def _answer_length(self, asked: list[str], readings: list[Reading]) -> int:
        kinds = {reading.form.answer for reading in readings}
        if "directions" in kinds:
            return 2
        if "things" not in kinds or not self.lines:
            return 1
        # The data says by its dashes how many things there are. Here the model is asked for their number first.
        counted = self.ask(f"how many objects is {asked[2]} carrying", 1).words[0]
        return {"two": 2, "three": 3}.get(counted, 1)

    def _why_not(self, asked: list[str], readings: list[Reading], answer: Answer) -> str | None:
        if not self.lines:
            return "nothing has been told yet"
        if not readings:
            near = " or ".join(f"'{example}?'" for example in forms.nearest_questions(asked))
            return f"bAbI has no question of this form; it has, for instance, {near}"
        told = {word for line in self.lines for word in words_of(line)}
        missing = [word for word in readings[0].mentioned if word not in told and word not in ("box", "chocolates")]
        if missing:
            return f"the story does not mention {' and '.join(missing)}"
        tasks = frozenset().union(*(reading.tasks for reading in readings))
        strange = self._strangers(asked, tasks)
        if strange:
            return f"bAbI never asks this in a story with {' and '.join(strange)}"
        kinds = {reading.form.answer for reading in readings if reading.tasks}
        if not any(set(answer.words) <= ANSWERS[kind] for kind in kinds):
            return f"the best guess, {' '.join(answer.words)!r}, is no {' or '.join(sorted(kinds))}"
        if answer.confidence < self.calibration.threshold:
            return f"it is not sure enough (below {self.calibration.threshold:.0%})"
        return None

    def _strangers(self, asked: list[str], tasks: frozenset[int]) -> list[str]:
        """People and places of the story that no task with this question has. (What happens to them may come from
        another task: the model carries that over, and names it does not.)"""
        known: set[str] = set()
        everybody: set[str] = set()
        for slot in ("person", "place"):
            known.update(*(SLOTS[slot].get(task, ()) for task in tasks))
            everybody.update(*SLOTS[slot].values())
        told = dict.fromkeys(word for words in [*map(words_of, self.lines), asked] for word in words)
        return [word for word in told if word in everybody and word not in known]

    def _note(self, readings: list[Reading]) -> str | None:
        """Whether some task has such a story with such a question; the confidence is calibrated on those only."""
        tasks = frozenset().union(*(reading.tasks for reading in readings))
        for line in self.lines:
            tasks &= frozenset().union(*(r.tasks for r in forms.read(words_of(line), SENTENCES)))
        return None if tasks else "no bAbI task asks this after such sentences: the confidence is not calibrated here"

    def _evidence(self, x: Tensor, sentences: list[int], words: int) -> list[Evidence]:
        if not hasattr(self.model, "trace"):
            return []
        trace: Any = self.model.trace(x)  # type: ignore[operator]
        reads, writes = trace.reads(0), trace.writes(0)
        shares: dict[int, float] = {}
        rows: dict[int, set[int]] = {}
        for step in range(len(x) - words, len(x)):
            now = reads.time == step
            read_rows, weights = reads.row[now], reads.weight[now]
            found = sentence_of_rows(writes, read_rows, step, sentences)
            for row, weight, sentence in zip(read_rows.tolist(), weights.tolist(), found):
                shares[sentence] = shares.get(sentence, 0.0) + weight
                rows.setdefault(sentence, set()).add(row)
        total = sum(shares.values())
        if not total:
            return []
        order = sorted((s for s in shares if s < len(self.lines)), key=lambda sentence: -shares[sentence])
        return [self._entry(number, shares[number] / total, rows[number]) for number in order]

    def _entry(self, number: int, share: float, rows: set[int]) -> Evidence:
        blank = number == BLANK
        return Evidence(
            None if blank else number + 1, None if blank else self.lines[number], share, tuple(sorted(rows))
        )


def words_of(sentence: str) -> list[str]:
    """The lower-case words of a sentence, without the mark at its end.

    Raises:
        UnknownWords: naming everything in it that is no word of bAbI.
    """
    text = sentence.strip().lower().rstrip(" .?")
    words = re.findall(r"[a-z]+|[^\sa-z]+", text)
    unknown = [word for word in dict.fromkeys(words) if word not in _WORDS]
    if unknown:
        raise UnknownWords(unknown)
    if not words:
        raise ValueError("sentence: expected at least one word, got none")
    return words


def nearest_words(word: str) -> list[str]:
    """The words of the vocabulary that look most like this one, at most three."""
    if word in _FIGURES:
        return [_FIGURES[word]]
    return difflib.get_close_matches(word, sorted(_WORDS), n=3, cutoff=0.6)


def looks_like_a_question(line: str) -> bool:
    """Whether a line without a question mark begins like a question ('is' in 'Lily is green' does not)."""
    words = line.lower().split()
    return bool(words) and words[0] in _QUESTION_WORDS


def sentence_of_rows(writes: Any, rows: Tensor, time: int, sentences: list[int]) -> list[int]:
    """For each row the number of the sentence that wrote it most strongly up to `time`, BLANK if none did.

    `writes` is a trace of writes (a step writes before it reads, so its own writes count); `sentences[t]` is the
    sentence of step t.
    """
    found = []
    for row in rows.tolist():
        mine = (writes.row == row) & (writes.time <= time) & (writes.weight > 0)
        if not bool(mine.any()):
            found.append(BLANK)
            continue
        when, weight = writes.time[mine], writes.weight[mine]
        found.append(sentences[int(when[weight == weight.max()].max())])
    return found
