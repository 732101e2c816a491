"""Along which path gradients grow: the gradient's norm with one link of the loop cut at a time, and step by step.

    python -m benchmarks.gradient_paths --minibatches 3000 --out runs/bench/gradient_paths.json

SAM with default first weights learns copies of 1 to 48 items as in `benchmarks.stability`. Its weights are then held,
and the same minibatches go through plain PyTorch again and again, each time with one link cut: the tensor goes on and
its gradient does not. What is cut leaves the outputs as they are, bit for bit, so only the gradient differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sparsam
from benchmarks.report import as_record
from benchmarks.stability import of_norms
from sparsam.lab import tasks
from sparsam.lab.recipes.record import text
from sparsam.memories.addressing import content_weights, gather_words
from sparsam.memories.sam import SAMMemory

CUTS = {
    "nothing": "",
    "hidden": "h of the step before into the controller",
    "cell": "c of the step before into the controller",
    "read": "r of the step before into the controller",
    "query": "the query",
    "write_word": "the write word",
    "reuse": "the read weights in the write weights",
    "similarity": "the words in the similarity",
}
BATCH, MOST = 8, 48


class CutMemory(SAMMemory):
    """SAM's memory with links that can be cut."""

    cut = ""

    def write(self, request: Any, state: Any, unused: Tensor, room: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.cut == "reuse":
            state = state.with_fields(read_weights=state.read_weights.detach())
        return super().write(request, state, unused, room)

    def content(self, request: dict[str, Tensor], words: Tensor) -> tuple[Tensor, Tensor]:
        query = request["query"].detach() if self.cut == "query" else request["query"]
        rows = self.select_rows(query, words)
        seen = gather_words(words.detach() if self.cut == "similarity" else words, rows)
        return rows, content_weights(self.sizes.similarity, query, request["strength"], seen)

    def step(self, vector: Tensor, state: Any) -> Any:
        if self.cut == "write_word":
            at = self.interface.offsets()["write_word"]
            size = self.heads * self.width
            vector = torch.cat([vector[:, :at], vector[:, at : at + size].detach(), vector[:, at + size :]], dim=-1)
        return super().step(vector, state)


class CutSAM(sparsam.SAM):
    """SAM with links that can be cut, and a record of the gradient that reaches r of each step."""

    memory_class = CutMemory
    found: list[float] | None = None  # |dL/dr_{t-1}| through the next steps, the last step first

    def control(self, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        cut = self.memory.cut  # type: ignore[attr-defined]
        if cut in ("hidden", "cell", "read"):
            state = state.with_fields(**{cut: getattr(state, cut).detach()})
        elif self.found is not None and state.read.requires_grad:
            read = state.read.view_as(state.read)
            read.register_hook(lambda grad: self.found.append(float(grad.norm())))  # type: ignore[union-attr]
            state = state.with_fields(read=read)
        return super().control(x, state)


def trained(minibatches: int, seed: int, hidden: int, report: Callable[[int, float], None]) -> tuple[Any, Any]:
    """The task, and a model that learnt it for so many minibatches."""
    torch.manual_seed(seed)
    task: Any = tasks.build("copy", bits=6, min_size=1, max_size=MOST)
    model = sparsam.SAM(task.input_size, task.output_size, hidden, memory_size=1024)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, minibatches + 1):
        batch = task.sample(BATCH, generator)
        loss = task.loss(model(batch.inputs)[0], batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0:
            report(step, float(loss.detach()))
    return task, model


def with_cuts(task: Any, model: sparsam.SAM, count: int, memory_size: int = 512) -> dict[str, Any]:
    """Norms of the same minibatches' gradients for each cut, and the largest growth backward in time without one."""
    sizes: dict[str, Any] = {"hidden_size": model.hidden_size, "memory_size": memory_size, "engine": "reference"}
    plain = CutSAM(task.input_size, task.output_size, **sizes)
    plain.load_state_dict(model.state_dict())
    drawn = [task.sample(BATCH, torch.Generator().manual_seed(100 + number)) for number in range(count)]
    found: dict[str, Any] = {}
    growth: list[float] = []
    for cut in CUTS:
        plain.memory.cut = cut  # type: ignore[attr-defined]
        norms = []
        for batch in drawn:
            plain.zero_grad()
            plain.found = [] if cut == "nothing" else None
            task.loss(plain(batch.inputs)[0], batch).backward()
            norms.append(float(torch.stack([p.grad.norm() for p in plain.parameters() if p.grad is not None]).norm()))
            if plain.found:
                growth.append(max(plain.found) / plain.found[0])
        found[cut] = {"norms": norms, **of_norms(norms)}
    return {"cuts": found, "largest_r_over_last_r": of_norms(growth)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minibatches", type=int, default=3000)
    parser.add_argument("--count", type=int, default=60, help="minibatches whose gradients are looked at")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/bench/gradient_paths.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    task, model = trained(given.minibatches, given.seed, 100, lambda *told: print(*told, flush=True))
    found = {"torch": torch.__version__, "minibatches": given.minibatches, "seed": given.seed, "items": MOST}
    found |= with_cuts(task, model, given.count)
    for cut, norms in found["cuts"].items():
        print(f"{CUTS[cut] or 'nothing'} cut: median {norms['median']:.3g}, largest {norms['largest']:.3g}")
    given.out.write_text(text(as_record("gradient_paths", found, sys.argv[1:])))


if __name__ == "__main__":
    main()
