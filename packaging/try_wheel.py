"""A minute with an installed wheel: a step forward and back, a trained model, the command line."""

from __future__ import annotations

import subprocess
import sys

import torch

import sparsam

model = sparsam.SAM(input_size=8, output_size=8, memory_size=1_000_000, engine="native")
y, state = model(torch.randn(20, 2, 8))
y.sum().backward()
assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
rows, words = state.memory_rows(0)
assert len(rows) == len(words) > 0

story = "Mary went to the kitchen.\nJohn went to the garden.\nWhere is Mary?\n"
asked = subprocess.check_output([sys.executable, "-m", "sparsam.lab.cli", "ask"], input=story, text=True)
assert asked.startswith("Where is Mary? kitchen"), asked
print(subprocess.check_output([sys.executable, "-m", "sparsam.lab.cli", "info"], text=True))
