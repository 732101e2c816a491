"""Asking a trained model: its answer, and the sentences whose traces in memory it read for it.

A row of the memory has no text; what it has is a history. Here a row stands for the sentence during which it was
written with the largest weight before it was read (the latest such sentence when several are equal). A row that was
never written is blank.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from sparsam.data.babi import Story, words_of
from sparsam.data.babi_official import VOCABULARY
from sparsam.tasks.babi import word_numbers
from sparsam.trace import Trace

__all__ = ["Answer", "Conversation", "Memory", "sentence_of_rows"]

BLANK = -1


@dataclass(frozen=True)
class Memory:
    """Something that was read: the ``sentence`` (None for a blank word of memory) and the ``share`` of all reading
    weight at the answer, over heads and answer words."""

    sentence: str | None
    share: float
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """The words answered, their probabilities, and what was read for them, the most first."""

    words: list[str]
    probabilities: list[float]
    memories: list[Memory]


@dataclass
class Conversation:
    """A story as it is told, line by line, with the questions asked on the way (as in training).

    ``scale`` is that of the task the model was trained on (:class:`~sparsam.tasks.babi.Babi`).
    """

    model: torch.nn.Module
    scale: float = 1.0
    story: Story = field(default_factory=Story)
    lines: list[str] = field(default_factory=list)

    def tell(self, sentence: str) -> None:
        """Add a sentence; a full stop is added where it has none.

        :raises ValueError: for a word that the model cannot know; the story is then as it was before.
        """
        words = words_of(sentence)
        if not words:
            raise ValueError("sentence must have a word in it, got none")
        if words[-1] not in ".?":
            words.append(".")
        word_numbers(words)
        self.story.add(words)
        self.lines.append(sentence.strip())

    @torch.no_grad()
    def ask(self, question: str, words: int = 1) -> Answer:
        """Ask for an answer of ``words`` words (one dash each, as in the data: lists have several)."""
        if words < 1:
            raise ValueError(f"words must be at least 1, got {words}")
        self.tell(question.strip().rstrip("?") + "?")
        start = len(self.story.words)
        self.story.ask(["?"] * words)  # a place holder: only the dashes go in
        parameter = next(self.model.parameters())
        numbers = torch.tensor(word_numbers(self.story.words), device=parameter.device)
        x = torch.nn.functional.one_hot(numbers, len(VOCABULARY)).to(parameter.dtype).unsqueeze(1) * self.scale
        logits = self.model(x)[0][start:, 0]
        best = logits.softmax(-1).max(-1)
        steps = range(start, start + words)
        return Answer([VOCABULARY[i] for i in best.indices.tolist()], best.values.tolist(), self._memories(x, steps))

    def _memories(self, x: Tensor, steps: range) -> list[Memory]:
        if not hasattr(self.model, "trace"):
            return []
        trace = self.model.trace(x)  # type: ignore[operator]
        reads, writes = trace.reads(0), trace.writes(0)
        shares: dict[int, float] = {}
        rows: dict[int, set[int]] = {}
        for step in steps:
            now = reads.time == step
            read_rows, weights = reads.row[now], reads.weight[now]
            sentences = sentence_of_rows(writes, read_rows, step, self.story.sentences)
            for row, weight, sentence in zip(read_rows.tolist(), weights.tolist(), sentences):
                shares[sentence] = shares.get(sentence, 0.0) + weight
                rows.setdefault(sentence, set()).add(row)
        total = sum(shares.values())
        if not total:
            return []
        order = sorted(shares, key=lambda sentence: -shares[sentence])
        return [Memory(None if s == BLANK else self.lines[s], shares[s] / total, tuple(sorted(rows[s]))) for s in order]


def sentence_of_rows(writes: Trace, rows: Tensor, time: int, sentences: list[int]) -> list[int]:
    """For each row the number of the sentence that wrote it most strongly up to ``time``, BLANK if none did.

    ``writes`` is a trace of writes (a step writes before it reads, so its own writes count); ``sentences[t]`` is the
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
