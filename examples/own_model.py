"""A model of your own around a memory: words in, an embedding, SAM, a head, and the training loop you know.

The task: pairs of a key and a value, then keys alone, each to be answered with its value. An LSTM has to squeeze the
pairs into its hidden state; SAM writes them down.

    python examples/own_model.py
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import sparsam

KEYS, VALUES = 40, 20


class Recaller(nn.Module):
    """Keys and values (T, B) in, logits of values (T, B, VALUES) out; the value VALUES stands for none."""

    def __init__(self, width: int = 32, memory_size: int = 1024) -> None:
        super().__init__()
        self.keys, self.values = nn.Embedding(KEYS, width), nn.Embedding(VALUES + 1, width)
        self.memory = sparsam.SAM(width, width, hidden_size=64, memory_size=memory_size, word_size=16, num_heads=4, k=4)
        self.head = nn.Linear(width, VALUES)

    def forward(self, keys: Tensor, values: Tensor, state: object = None) -> tuple[Tensor, object]:
        y, state = self.memory(self.keys(keys) + self.values(values), state)
        return self.head(y), state


def episodes(batch: int, pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Keys, values and the right answers (T, B): pairs first, then every key again; -1 where nothing is asked."""
    keys = torch.rand(KEYS, batch, generator=generator).argsort(0)[:pairs]
    values = torch.randint(VALUES, (pairs, batch), generator=generator)
    asked = torch.rand(pairs, batch, generator=generator).argsort(0)
    none = torch.full_like(values, VALUES)
    return (
        torch.cat([keys, keys.gather(0, asked)]),
        torch.cat([values, none]),
        torch.cat([torch.full_like(values, -1), values.gather(0, asked)]),
    )


def main(steps: int = 3000, pairs: int = 6, batch: int = 16) -> float:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Recaller()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    right = torch.zeros(())
    for step in range(1, steps + 1):
        keys, values, targets = episodes(batch, pairs, generator)
        logits, _ = model(keys, values)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 250 == 0 or step == steps:
            asked = targets >= 0
            right = (logits.argmax(-1) == targets)[asked].float().mean()
            print(f"{step:>6} minibatches: loss {loss.item():.3f}, {right:.0%} of the values right")
    return float(right)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--pairs", type=int, default=6)
    main(**vars(parser.parse_args()))
