"""What `sparsam bench learn` asks of a model: short tasks, each in one loop, without a curriculum.

A task draws minibatches (x (T, B, I), target, asked): `asked` are the steps whose outputs are compared with the target.
"""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

Drawn = tuple[Tensor, Tensor, Any]
Draw = Callable[[int, torch.Generator], Drawn]

BITS = 8
CHARACTERS = ["\t", "\n", *map(chr, range(32, 127))]  # all others are one more


@dataclass(frozen=True)
class Task:
    """`kind` of the answers: "bits" and "class" are right or wrong, a "number" is near."""

    draw: Draw
    inputs: int
    outputs: int
    kind: str
    steps: int  # about as many as a sequence has, to plan with
    test: Draw | None = None  # where what is asked must not have been trained on
    memory: bool = True  # whether it takes more than an LSTM's state; else a model is to be level with an LSTM

    def loss(self, y: Tensor, target: Tensor) -> Tensor:
        """In nats for bits and classes, squared for a number."""
        if self.kind == "bits":
            return F.binary_cross_entropy_with_logits(y, target)
        return F.cross_entropy(y.flatten(0, -2), target.flatten()) if self.kind == "class" else F.mse_loss(y, target)

    def error(self, y: Tensor, target: Tensor) -> float:
        """Share of wrong bits or classes; the squared error of a number."""
        if self.kind == "number":
            return float(F.mse_loss(y, target))
        wrong = (y > 0) != (target > 0.5) if self.kind == "bits" else y.argmax(-1) != target
        return float(wrong.float().mean())


def bits(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randint(2, shape, generator=generator).float()


def one_of(count: int, *shape: int, generator: torch.Generator) -> Tensor:
    return torch.randint(count, shape, generator=generator)


def recall(batch: int, generator: torch.Generator, pairs: int = 8) -> Drawn:
    """Key, value, key, value, ..., then one of the keys again; its value is the answer in the next step."""
    x = torch.zeros(2 * pairs + 2, batch, BITS + 2)
    keys = torch.rand(2**BITS, batch, generator=generator).topk(pairs, dim=0).indices  # no two alike
    x[0 : 2 * pairs : 2, :, :BITS] = (keys[..., None] >> torch.arange(BITS) & 1).float()
    x[1 : 2 * pairs : 2, :, :BITS] = bits(pairs, batch, BITS, generator=generator)
    x[0 : 2 * pairs : 2, :, BITS] = 1
    asked, element = one_of(pairs, batch, generator=generator), torch.arange(batch)
    x[2 * pairs, :, :BITS] = x[2 * asked, element, :BITS]
    x[2 * pairs, :, BITS + 1] = 1
    return x, x[2 * asked + 1, element, :BITS][None], slice(-1, None)


def repeat(batch: int, generator: torch.Generator, ago: int = 12, steps: int = 40) -> Drawn:
    """At every step the symbol of `ago` steps before, as 8 bits of which one is set."""
    x = F.one_hot(one_of(BITS, steps, batch, generator=generator), BITS).float()
    return x, x[:-ago], slice(ago, None)


def copy(batch: int, generator: torch.Generator, most: int = 10) -> Drawn:
    """1 to 10 items between two marks, then all of them in order."""
    items = 1 + int(one_of(most, 1, generator=generator))
    x = torch.zeros(2 * items + 2, batch, BITS + 2)
    x[0, :, BITS] = x[items + 1, :, BITS + 1] = 1
    x[1 : items + 1, :, :BITS] = bits(items, batch, BITS, generator=generator)
    return x, x[1 : items + 1, :, :BITS].clone(), slice(items + 2, None)


def latest(batch: int, generator: torch.Generator, names: int = 8, steps: int = 24) -> Drawn:
    """A name gets a value at every step, some again and again; then one is asked for the value that it got last."""
    x = torch.zeros(steps + 1, batch, names + BITS + 1)
    called, element = one_of(names, steps, batch, generator=generator), torch.arange(batch)
    x[:steps, :, :names] = F.one_hot(called, names).float()
    x[:steps, :, names:-1] = bits(steps, batch, BITS, generator=generator)
    asked = called[one_of(steps, batch, generator=generator), element]
    last = ((called == asked) * torch.arange(steps)[:, None]).amax(0)
    x[steps, :, :names] = F.one_hot(asked, names).float()
    x[steps, :, -1] = 1
    return x, x[last, element, names:-1][None], slice(-1, None)


def selective(batch: int, generator: torch.Generator, items: int = 8, steps: int = 200, symbols: int = 10) -> Drawn:
    """A few symbols among blanks, then a mark for each of them, at which they are asked for in order."""
    data = one_of(symbols, items, batch, generator=generator)
    at = torch.rand(steps - items, batch, generator=generator).topk(items, dim=0).indices.sort(0).values
    x = torch.zeros(steps, batch, symbols + 2)
    x[:-items, :, symbols] = 1
    place = at, torch.arange(batch).expand(items, -1)
    x[place] = F.one_hot(data, symbols + 2).float()
    x[-items:, :, symbols + 1] = 1
    return x, data, slice(-items, None)


def sort(batch: int, generator: torch.Generator, keys: int = 8) -> Drawn:
    """Vectors of bits with a priority each, then all of them, the highest priority first."""
    x = torch.zeros(2 * keys, batch, BITS + 2)
    x[:keys, :, :BITS] = bits(keys, batch, BITS, generator=generator)
    x[:keys, :, BITS] = 2 * torch.rand(keys, batch, generator=generator) - 1
    x[keys:, :, BITS + 1] = 1
    order = x[:keys, :, BITS].argsort(0, descending=True)
    return x, x[:keys, :, :BITS].gather(0, order[..., None].expand(-1, -1, BITS)), slice(keys, None)


def adding(batch: int, generator: torch.Generator, steps: int = 50) -> Drawn:
    """The sum of the two marked numbers (Hochreiter and Schmidhuber 1997), one in each half."""
    x = torch.zeros(steps, batch, 2)
    x[..., 0] = torch.rand(steps, batch, generator=generator)
    half, element = steps // 2, torch.arange(batch)
    first, second = one_of(half, batch, generator=generator), half + one_of(half, batch, generator=generator)
    x[first, element, 1] = x[second, element, 1] = 1
    return x, (x[first, element, 0] + x[second, element, 0])[None, :, None], slice(-1, None)


def present(batch: int, generator: torch.Generator, steps: int = 20, flipped: float = 0.05) -> Drawn:
    """A task that needs no memory: each bit xor the next one, of the same step; one answer in 20 is flipped."""
    x = bits(steps, batch, BITS, generator=generator)
    wrong = torch.rand(steps, batch, BITS, generator=generator) < flipped
    return x, ((x != x.roll(1, -1)) ^ wrong).float(), slice(None)


@functools.cache
def text(test: bool) -> Tensor:
    """The sources of Python's standard library as numbers of characters; every tenth file is for tests."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    files = [file for number, file in enumerate(files) if (number % 10 == 0) == test]
    number = {character: place for place, character in enumerate(CHARACTERS)}
    whole = "".join(file.read_text(encoding="utf-8", errors="replace") for file in files)
    return torch.tensor([number.get(character, len(CHARACTERS)) for character in whole])


def characters(batch: int, generator: torch.Generator, steps: int = 64, test: bool = False) -> Drawn:
    """The next character of Python's standard library."""
    whole, count = text(test), len(CHARACTERS) + 1
    first = one_of(len(whole) - steps - 1, batch, generator=generator)
    window = whole[first + torch.arange(steps + 1)[:, None]]
    return F.one_hot(window[:-1], count).float(), window[1:], slice(None)


TASKS = {
    "recall": Task(recall, BITS + 2, BITS, "bits", 18),
    "repeat": Task(repeat, BITS, BITS, "bits", 40),
    "copy": Task(copy, BITS + 2, BITS, "bits", 13),
    "latest": Task(latest, 8 + BITS + 1, BITS, "bits", 25),
    "selective": Task(selective, 12, 10, "class", 200),
    "sort": Task(sort, BITS + 2, BITS, "bits", 16),
    "adding": Task(adding, 2, 1, "number", 50, memory=False),
    "characters": Task(
        characters,
        len(CHARACTERS) + 1,
        len(CHARACTERS) + 1,
        "class",
        64,
        test=functools.partial(characters, test=True),
        memory=False,
    ),
    "present": Task(present, BITS, BITS, "bits", 20, memory=False),
}
