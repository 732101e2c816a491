"""A model over tokens: an input layer, blocks of mixers, the scores of the next answer.

    x = embed(tokens);   for each block: x = x + mixer(norm(x)), x = x + feedforward(norm(x));   scores(norm(x))

Models of equal width and equal parameter count are made by giving each block a feed-forward part that is as wide as the
count leaves room for. Input vectors are not counted: they are the same in all models.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from sparsam.lab.tasks.tokens.task import TokenInput, digits_of
from sparsam.lab.training.model_config import COMPARED
from sparsam.start import from_values

MIXERS = {  # by name: the module and what makes one of a width
    "memory": "sparsam:SparseMemory",
    "sam": "sparsam.lab.recipes.baselines.recurrent:SAM",
    "attention": "sparsam.lab.recipes.baselines.attention:Attention",
    "delta": "sparsam.lab.recipes.baselines.delta:DeltaRule",
    "lstm": "sparsam.lab.recipes.baselines.recurrent:LSTM",
}
_OF_THE_MEMORY = ("memory_size", "word_size", "num_heads", "k", "index", "engine")


def make_mixer(name: str, width: int, **settings: Any) -> Any:
    """The mixer of a name in `MIXERS`; only its module is imported."""
    module, _, attribute = MIXERS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)(width, **settings)


class FeedForward(nn.Module):
    """down(silu(gate(x)) * up(x)), the gated form."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_and_up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_and_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    """A mixer and, where `inner` is not zero, a feed-forward part, each behind a norm and beside a residual."""

    def __init__(self, width: int, mixer: nn.Module, inner: int = 0) -> None:
        super().__init__()
        self.mixer_norm, self.mixer = nn.RMSNorm(width), mixer
        self.feedforward = nn.Sequential(nn.RMSNorm(width), FeedForward(width, inner)) if inner else None

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        y, state = self.mixer(self.mixer_norm(x), state)
        x = x + y
        return (x if self.feedforward is None else x + self.feedforward(x)), state


class TokenModel(nn.Module):
    """Tokens (T, B) to scores (T, B, O) through blocks of mixers.

    Args:
        input_size, output_size: tokens in the vocabulary and scores in an answer, as a token task has them.
        hidden_size: width of the blocks.
        mixers: one name of `MIXERS` for each block.
        parameters: how many parameters the blocks should have in all; None for no feed-forward parts.
        settings: further arguments of a mixer by its name, such as {"sam": {"hidden_size": 64}}.
        start: what the first weights of the mixers "memory" and "sam" are moved to: the arguments of `sparsam.Start`
            by name of the mixer. A memory without any begins as `SparseMemory` does.
        memory_size, word_size, num_heads, k, index, engine: of the mixers "memory" and "sam".
    """

    answers_only = True  # can score just the steps that are asked, see `sparsam.lab.training.evaluate.forward`

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 128,
        mixers: Sequence[str] = ("memory",),
        parameters: int | None = None,
        settings: dict[str, dict[str, Any]] | None = None,
        start: dict[str, dict[str, Any]] | None = None,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        index: Any = "linear",
        engine: str = "auto",
    ) -> None:
        super().__init__()
        shared = dict(zip(_OF_THE_MEMORY, (memory_size, word_size, num_heads, k, index, engine), strict=True))
        starts = {} if start is None else start
        if not isinstance(starts, dict):
            raise TypeError(f"start: expected numbers by name of a mixer, got {start!r}")
        for name in starts:
            if name not in ("memory", "sam"):
                raise ValueError(f"start: expected settings of memory or sam, got some of {name!r}")
        made = []
        for name in mixers:
            if name not in MIXERS:
                raise ValueError(f"mixers: expected names among {', '.join(MIXERS)}, got {name!r}")
            common = shared if name in ("memory", "sam") else {}
            if name in starts:
                common = {**common, "start": from_values(starts[name])}
            made.append(make_mixer(name, hidden_size, **{**common, **(settings or {}).get(name, {})}))
        if not made:
            raise ValueError("mixers: expected at least one, got none")
        self.embed = TokenInput(input_size, hidden_size, digits_of(input_size, output_size))
        inner = 0 if parameters is None else _inner_width(hidden_size, made, parameters)
        self.blocks = nn.ModuleList(Block(hidden_size, mixer, inner) for mixer in made)
        self.norm = nn.RMSNorm(hidden_size)

    def forward(
        self, tokens: Tensor, state: list[Any] | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, list[Any]]:
        """Scores (T, B, O), or with `mask` (T, B) those of its M steps (M, O); and the state to go on with."""
        x, after = self.embed(tokens), []
        for block, before in zip(self.blocks, state or [None] * len(self.blocks), strict=True):
            x, new = block(x, before)
            after.append(new)
        return self.embed.scores(self.norm(x if mask is None else x[mask])), after

    @property
    def block_parameters(self) -> int:
        """How many parameters the blocks have."""
        return _count(self.blocks)


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _inner_width(width: int, mixers: Sequence[nn.Module], parameters: int) -> int:
    """The feed-forward width with which the blocks come as close to `parameters` as they can without exceeding it."""
    fixed = sum(map(_count, mixers)) + 2 * width * len(mixers)
    inner = (parameters - fixed) // (3 * width * len(mixers))
    if inner < 1:
        raise ValueError(f"parameters: expected more than the {fixed:,} of the mixers and norms, got {parameters:,}")
    return inner


COMPARED.add("blocks", TokenModel)
