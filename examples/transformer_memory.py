"""A small Transformer with a `SparseMemory` layer in it, trained on multi-query associative recall.

    python examples/transformer_memory.py                     # a few minutes on two cores
    python examples/transformer_memory.py --steps 20 --pairs 4    # just to see it run

The first block is attention over a window of 16 tokens, the second a sparse memory: near things are attended to, far
ones are looked up. In the end the model is asked about far more pairs than it was trained on, in pieces with state.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import sparsam
from sparsam.lab.tasks.tokens.mqar import Mqar

WIDTH, WINDOW = 128, 16


class LocalAttention(nn.Module):
    """Causal attention to the last `WINDOW` tokens; the state holds the inputs that the next piece will need."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        seen = x if state is None else torch.cat([state, x])
        q, k, v = self.project(seen).unflatten(-1, (3, self.heads, -1)).permute(2, 1, 3, 0, 4)
        place = torch.arange(len(seen), device=x.device)
        age = place[-len(x) :, None] - place  # of each token seen, for each new one
        read = F.scaled_dot_product_attention(q[:, :, -len(x) :], k, v, attn_mask=(age >= 0) & (age < WINDOW))
        return self.output(read.permute(2, 0, 1, 3).flatten(2)), seen[1 - WINDOW :]


class Block(nn.Module):
    """A mixer and a feed-forward part, each behind a norm and beside a residual."""

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.norms, self.mixer = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)]), mixer
        self.feedforward = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor, state: object = None) -> tuple[Tensor, object]:
        y, state = self.mixer(self.norms[0](x), state)
        x = x + y
        return x + self.feedforward(self.norms[1](x)), state


class Transformer(nn.Module):
    """Tokens (T, B) to features (T, B, width); the table of the input vectors also scores the answers."""

    def __init__(self, vocabulary: int, memory_size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, WIDTH)
        nn.init.normal_(self.embed.weight, std=0.02)
        memory = sparsam.SparseMemory(WIDTH, memory_size=memory_size, word_size=64, num_heads=4)
        self.blocks = nn.ModuleList([Block(WIDTH, LocalAttention(WIDTH)), Block(WIDTH, memory)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, states: list | None = None) -> tuple[Tensor, list]:
        x, after = self.embed(tokens), []
        for block, state in zip(self.blocks, states or [None, None], strict=True):
            x, state = block(x, state)
            after.append(state)
        return self.norm(x), after

    def scores(self, features: Tensor) -> Tensor:
        return features @ self.embed.weight.T


def train(model: Transformer, task: Mqar, steps: int, pairs: int, seed: int = 0) -> float:
    """Adam on minibatches of 16 sequences; returns the error of the last 50."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    wrong, begin = [], time.perf_counter()
    for step in range(1, steps + 1):
        batch = task.sample_size(16, generator, pairs)
        features, _ = model(batch.inputs)
        scores = model.scores(features[batch.mask])  # only queries are answered
        loss = task.loss(scores, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        wrong.append(task.errors(scores, batch)["error_rate"])
        if step % 50 == 0 or step == steps:
            error = sum(wrong[-50:]) / len(wrong[-50:])
            print(f"{step:5}: loss {loss:.3f}, wrong {error:.1%}, {time.perf_counter() - begin:.0f} s", flush=True)
    return sum(wrong[-50:]) / len(wrong[-50:])


@torch.no_grad()
def test(model: Transformer, task: Mqar, pairs: int, piece: int = 512) -> float:
    """The error on one sequence of `pairs` pairs, piece by piece."""
    batch = task.sample_size(1, torch.Generator().manual_seed(1), pairs)
    states, wrong = None, 0
    for begin in range(0, len(batch.inputs), piece):
        span = slice(begin, begin + piece)
        features, states = model(batch.inputs[span], states)
        best = model.scores(features[batch.mask[span]]).argmax(-1)
        wrong += int((best != batch.targets[span][batch.mask[span]]).sum())
    return wrong / pairs


def main(arguments: list[str] | None = None) -> tuple[float, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--pairs", type=int, default=16, help="in training")
    parser.add_argument("--test-pairs", type=int, default=500)
    parser.add_argument("--vocabulary", type=int, default=1024)
    given = parser.parse_args(arguments)
    torch.manual_seed(0)
    task = Mqar(given.vocabulary)
    # Room for every word that the longest sequence could write: four tokens a pair, four heads.
    model = Transformer(given.vocabulary, memory_size=16 * max(given.pairs, given.test_pairs, 16))
    trained = train(model, task, given.steps, given.pairs)
    tested = test(model, task, given.test_pairs)
    print(f"wrong with {given.test_pairs} pairs in {max(64, 4 * given.test_pairs):,} tokens: {tested:.1%}")
    return trained, tested


if __name__ == "__main__":
    main()
