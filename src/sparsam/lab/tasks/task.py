"""A task draws batches, and defines the loss to train on and the errors to report.

The algorithmic tasks (copy, associative recall, priority sort) share `BitTask`: their answers are bits.

For a batch of bits,

* the loss is the mean cross entropy of the bits in masked steps (nats per bit, so 0.693 is a coin toss);
* the error is *bits per sequence*: the wrong bits (an output above zero reads as one) in a sequence's masked steps,
  averaged over the batch, as in the NTM and SAM papers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam import checks
from sparsam.lab import argument_types
from sparsam.lab.argument_types import require
from sparsam.lab.registry import Registry

__all__ = ["TASKS", "Batch", "BitTask", "DrawnApart", "FiniteTask", "Task", "register"]

MOST_BITS, MOST_ITEMS = 4096, 2**24  # a config, which may be a stranger's, says how much an episode takes

TASKS: Registry[type] = Registry(
    {
        "babi": "sparsam.lab.tasks.babi.task",
        "copy": "sparsam.lab.tasks.bits.copy",
        "omniglot": "sparsam.lab.tasks.omniglot.episodes",
        "omniglot_pixels": "sparsam.lab.tasks.omniglot.pixels",
        "recall": "sparsam.lab.tasks.bits.recall",
        "sort": "sparsam.lab.tasks.bits.sort",
    }
)

Kind = TypeVar("Kind", bound=type)


def register(kind: Kind) -> Kind:
    """Make a task known by its `name`."""
    return TASKS.add(kind.name, kind)  # type: ignore[attr-defined, return-value]


@dataclass(frozen=True)
class Batch:
    """One minibatch, time first.

    `inputs` (T, B, I) float32; `targets` (T, B, O) bits as floats, or (T, B) int64 classes; `mask` (T, B) bool, true
    where the output counts; `lengths` (B,) int64, or None if all sequences have T steps; `level` the size drawn;
    `info` what else a task needs for its report (bAbI's task number, Omniglot's presentation number).

    If the mask is the same run of steps for every sequence, `answers` is that slice of time, which is faster.

    `groups` says how many groups of similar length the sequences were drawn in (see `parts`).
    """

    inputs: Tensor
    targets: Tensor
    mask: Tensor
    lengths: Tensor | None = None
    level: int | None = None
    info: dict[str, Any] = field(default_factory=dict)
    answers: slice | None = None
    groups: int = 1

    @property
    def batch_size(self) -> int:
        return self.inputs.shape[1]

    def parts(self) -> list[Batch]:
        """The groups, each cut at its longest sequence, so that no group is padded to another's length.

        A part has all that a loss needs, but no `info`.
        """
        if self.groups == 1 or self.lengths is None:
            return [self]
        found, start = [], 0
        for lengths in self.lengths.tensor_split(self.groups):
            steps, stop = int(lengths.max()), start + len(lengths)
            inputs, targets, mask = (v[:steps, start:stop].contiguous() for v in (self.inputs, self.targets, self.mask))
            found.append(Batch(inputs, targets, mask, lengths, self.level))
            start = stop
        return found

    def pinned(self) -> Batch:
        """The batch in pinned memory; one that is already on a GPU stays there."""
        if self.inputs.is_cuda:
            return self
        # A mask may be one row for all elements, which cannot be pinned.
        return self._changed(lambda value: value.contiguous().pin_memory())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The batch on another device; `lengths` and `info` stay where they are."""
        return self._changed(lambda value: value.to(device, non_blocking=non_blocking))

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        return replace(self, inputs=change(self.inputs), targets=change(self.targets), mask=change(self.mask))


@runtime_checkable
class Task(Protocol):
    """What a task needs for the trainer."""

    name: str
    input_size: int
    output_size: int

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        """Draw a minibatch. With a curriculum, the task draws the size from U(1, level)."""
        ...

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """The loss to train on, a scalar."""
        ...

    def errors(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        """The errors to report; the first one is the main one."""
        ...


@runtime_checkable
class FiniteTask(Task, Protocol):
    """A task over a fixed data set, evaluated on a whole split instead of new sequences."""

    def evaluation_batches(self, split: str, batch_size: int) -> Iterator[Batch]:
        """Every sequence of `split` ('validation' or 'test') once."""
        ...


@runtime_checkable
class DrawnApart(Task, Protocol):
    """A task that can be drawn in one process and made a batch in another.

    `sample(...)` is `batch_of(draw(...))`; what `draw` returns is small and can be pickled.
    """

    def draw(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Any:
        """What a minibatch holds, as plain arrays; needs no GPU."""
        ...

    def batch_of(self, drawn: Any) -> Batch:
        """What was drawn, as a minibatch."""
        ...


class CheckedTask:
    """A task whose constructor and `sample` complain about a wrong argument by its name."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = argument_types.checked(cls.__init__)  # type: ignore[method-assign]
        if "sample" in cls.__dict__:
            cls.sample = _with_checks(cls.sample)  # type: ignore[method-assign]

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        raise NotImplementedError

    @staticmethod
    def check_outputs(outputs: Any) -> None:
        if not isinstance(outputs, Tensor):
            raise TypeError(f"outputs: expected a torch.Tensor, got {type(outputs).__name__}")


def _with_checks(sample: Callable[..., Batch]) -> Callable[..., Batch]:
    @functools.wraps(sample)
    def checked(task: Any, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        checks.positive_int("batch_size", batch_size)
        if not isinstance(generator, torch.Generator):
            raise TypeError(f"generator: expected a torch.Generator, got {type(generator).__name__}")
        if level is not None:
            checks.positive_int("level", level)
        return sample(task, batch_size, generator, level)

    return checked


class BitTask(CheckedTask):
    """Loss and error of tasks that answer in bits, and the drawing of sizes."""

    name: str
    input_size: int
    output_size: int
    min_size: int
    max_size: int

    def draw_size(self, generator: torch.Generator, level: int | None) -> int:
        """U(min_size, max_size) without a level, U(1, level) with one; all sequences of a minibatch share it."""
        low, high = (self.min_size, self.max_size) if level is None else (1, level)
        if high < low:
            raise ValueError(f"level: expected at least 1, got {level}")
        return int(torch.randint(low, high + 1, (), generator=generator))

    def sample(self, batch_size: int, generator: torch.Generator, level: int | None = None) -> Batch:
        return self.sample_size(batch_size, generator, self.draw_size(generator, level))

    def sample_size(self, batch_size: int, generator: torch.Generator, size: int) -> Batch:
        """A minibatch of exactly this size (length, pairs or keys), for evaluation at one level."""
        raise NotImplementedError

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        self.check_outputs(outputs)
        logits, bits = _answers(outputs, batch)
        return F.binary_cross_entropy_with_logits(logits, bits)

    def errors(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        self.check_outputs(outputs)
        logits, bits = _answers(outputs.detach(), batch)
        wrong = ((logits > 0) != (bits > 0.5)).sum()
        return {"bits_per_sequence": float(wrong) / batch.batch_size}

    def answer_steps(self, size: int) -> int:
        """How many steps are answered at this size."""
        raise NotImplementedError

    def chance(self, size: int) -> float:
        """Bits per sequence of answers by coin toss, at this size."""
        return self.answer_steps(size) * self.output_size / 2

    @staticmethod
    def mask(steps: int, answers: slice | Tensor, batch_size: int) -> Tensor:
        """(T, B) mask that is true in `answers`, one column shown B times."""
        column = torch.zeros(steps, 1, dtype=torch.bool)
        column[answers] = True
        return column.expand(steps, batch_size)

    @staticmethod
    def check_sizes(bits: int, min_size: int, max_size: int) -> None:
        require(1 <= bits <= MOST_BITS, "bits", f"1 to {MOST_BITS:,}", bits)
        require(1 <= min_size <= max_size, "min_size", "1 <= min_size <= max_size", f"{min_size} and {max_size}")
        require(max_size <= MOST_ITEMS, "max_size", f"at most {MOST_ITEMS:,}", max_size)


def _answers(outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Outputs and targets of the masked steps only."""
    if outputs.shape != batch.targets.shape:
        raise ValueError(
            f"outputs: expected the shape of the targets {tuple(batch.targets.shape)}, got {tuple(outputs.shape)}"
        )
    if batch.answers is not None:
        return outputs[batch.answers], batch.targets[batch.answers]
    return outputs[batch.mask], batch.targets[batch.mask]
