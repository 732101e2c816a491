"""What tasks over tokens share: an input layer, and loss and error of answers that are tokens.

A batch holds tokens: `inputs` (T, B) int64 and `targets` (T, B) int64. Only the steps of the mask are scored, and
with thousands of tokens the output layer is most of a small model's work. A model may therefore answer the asked steps
alone, (M, O) instead of (T, B, O), in the order of `outputs[mask]`.

A large vocabulary can be written in digits: with `digits` = 2, token 1,000 of 512 x 512 is the pair (1, 488). Its
vector is the sum of its digits' vectors, its probability the product of its digits'. A model then learns 2 x 512
vectors instead of 262,144, and meets every one of them in training however few of the tokens it sees.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparsam import checks
from sparsam.lab.tasks.task import Batch, CheckedTask

__all__ = ["TokenInput", "TokenTask", "base_of", "digits_of"]


def base_of(vocabulary: int, digits: int) -> int:
    """The base in which `digits` digits write exactly `vocabulary` tokens."""
    if digits < 1:
        raise ValueError(f"digits: expected at least 1, got {digits}")
    base = round(vocabulary ** (1 / digits))
    if base < 2 or base**digits != vocabulary:
        raise ValueError(f"vocabulary: expected a whole number to the power of digits = {digits}, got {vocabulary}")
    return base


def digits_of(vocabulary: int, output_size: int) -> int:
    """How many digits an output of this size answers in: `output_size` = digits * base, base^digits tokens."""
    for digits in range(1, vocabulary.bit_length() + 1):
        base = round(vocabulary ** (1 / digits))
        if base**digits == vocabulary and base * digits == output_size:
            return digits
    raise ValueError(f"output_size: expected digits * base where base^digits = {vocabulary} tokens, got {output_size}")


def write_in_digits(tokens: Tensor, base: int, digits: int) -> Tensor:
    """Tokens (...) as digits (..., digits), the most significant first."""
    powers = torch.tensor([base**place for place in reversed(range(digits))], device=tokens.device)
    return tokens.unsqueeze(-1) // powers % base


class TokenInput(nn.Module):
    """Tokens to vectors, and vectors back to scores of tokens by the same table.

    Args:
        vocabulary: how many tokens there are.
        width: of their vectors.
        digits: how many digits write a token (1: a vector for each token).
    """

    def __init__(self, vocabulary: int, width: int, digits: int = 1) -> None:
        super().__init__()
        self.vocabulary, self.width, self.digits = vocabulary, width, digits
        self.base = base_of(vocabulary, digits)
        self.table = nn.Parameter(torch.empty(digits * self.base, width))
        nn.init.normal_(self.table, std=0.02)

    @property
    def output_size(self) -> int:
        return self.digits * self.base

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors (..., width) of tokens (...)."""
        if self.digits == 1:
            return F.embedding(tokens, self.table)
        first = torch.arange(self.digits, device=tokens.device) * self.base
        return F.embedding(write_in_digits(tokens, self.base, self.digits) + first, self.table).sum(-2)

    def scores(self, features: Tensor) -> Tensor:
        """Logits (..., digits * base) of features (..., width)."""
        return F.linear(features, self.table)

    def extra_repr(self) -> str:
        return f"vocabulary={self.vocabulary}, width={self.width}, digits={self.digits}"


class TokenTask(CheckedTask):
    """Loss and error of tasks that answer in tokens. The error is the share of scored steps answered wrongly."""

    name: str
    vocabulary: int
    digits: int = 1

    @property
    def input_size(self) -> int:
        return self.vocabulary

    @property
    def output_size(self) -> int:
        return self.digits * base_of(self.vocabulary, self.digits)

    def loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Nats per answer."""
        self.check_outputs(outputs)
        logits, classes = self._answers(outputs, batch)
        return F.cross_entropy(logits.flatten(0, 1), classes.flatten()) * self.digits

    def errors(self, outputs: Tensor, batch: Batch) -> dict[str, float]:
        self.check_outputs(outputs)
        logits, classes = self._answers(outputs.detach(), batch)
        right = (logits.argmax(-1) == classes).all(-1)
        return {"error_rate": 1 - float(right.float().mean())}

    def chance(self, size: int) -> float:
        """Error of a guess among all tokens that can be the answer."""
        raise NotImplementedError

    def _answers(self, outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Logits (M, digits, base) and classes (M, digits) of the scored steps."""
        classes = batch.targets[batch.mask]
        if outputs.dim() == 3:
            if outputs.shape[:2] != batch.mask.shape:
                raise ValueError(
                    f"outputs: expected steps and batch {tuple(batch.mask.shape)}, got {tuple(outputs.shape)}"
                )
            outputs = outputs[batch.mask]
        if outputs.shape != (len(classes), self.output_size):
            raise ValueError(
                f"outputs: expected scores of shape {(len(classes), self.output_size)} for the scored steps, "
                f"got {tuple(outputs.shape)}"
            )
        base = self.output_size // self.digits
        return outputs.unflatten(-1, (self.digits, base)), write_in_digits(classes, base, self.digits)

    @staticmethod
    def check_batch_size(batch_size: int) -> None:
        checks.positive_int("batch_size", batch_size)

    @staticmethod
    def draw_between(low: int, high: int, generator: torch.Generator) -> int:
        """One size from U(low, high)."""
        if high < low:
            raise ValueError(f"level: expected at least {low}, got {high}")
        return int(torch.randint(low, high + 1, (), generator=generator))
