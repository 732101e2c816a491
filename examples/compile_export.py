"""Compile a SAM, export it, and serve the exported program step by step.

    python examples/compile_export.py [--words 1000000] [--steps 20]

Saved are two files: the program, and the state that a conversation starts from. Who serves them needs sparsam
(`import sparsam` makes its operators known to torch) and no model.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

import sparsam


def compiled_loss(model: sparsam.SAM, x: torch.Tensor, backend: str) -> tuple[float, float]:
    """The loss of one training step, eager and compiled: one graph, forward and backward."""
    call = torch.compile(model, fullgraph=True, backend=backend)
    losses = []
    for run in (model, call):
        model.zero_grad()
        y, _ = run(x)
        loss = y.square().mean()
        loss.backward()
        losses.append(float(loss.detach()))
    return losses[0], losses[1]


def export(model: sparsam.SAM, folder: Path) -> None:
    """One step of a batch of one, x (1, 1, I) and a state, as a program without Python code."""
    state = model.initial_state(1)
    example = (torch.zeros(1, 1, model.input_size), state)
    torch.export.save(torch.export.export(model.eval(), example), folder / "sam.pt2")
    torch.save(state, folder / "state.pt")


def serve(folder: Path, inputs: torch.Tensor) -> torch.Tensor:
    """Answers to a stream of inputs (T, 1, I), one at a time."""
    program = torch.export.load(folder / "sam.pt2").module()
    state, answers = torch.load(folder / "state.pt"), []
    with torch.no_grad():
        for x in inputs:
            y, state = program(x[None], state)
            answers.append(y[0])
    return torch.stack(answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="aot_eager", help="of torch.compile; 'inductor' needs a C++ compiler")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = sparsam.SAM(8, 8, memory_size=options.words)
    eager, compiled = compiled_loss(model, torch.randn(options.steps, 4, 8), options.backend)
    print(f"loss {eager:.6f} eager, {compiled:.6f} compiled")
    inputs = torch.randn(options.steps, 1, 8)
    with tempfile.TemporaryDirectory() as folder:
        export(model, Path(folder))
        answers = serve(Path(folder), inputs)
        size = (Path(folder) / "sam.pt2").stat().st_size
    expected, _ = model(inputs)
    print(f"served {options.steps} steps from a program of {size:,} bytes")
    print(f"largest difference from the model itself {float((answers - expected.detach()).abs().max()):.2e}")


if __name__ == "__main__":
    main()
