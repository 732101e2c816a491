"""Memory accesses over time, one episode: which rows each head reads and writes at every step.

Only touched rows are drawn, on a compact axis in order of row number, so a memory of millions of words fits. Writes
are orange squares behind, reads blue dots in front; the darker, the larger the weight (relative to the episode's
largest, by its square root: a cosine finds a faintly written word as well as a strong one).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sparsam.lab.plots.canvas import READ_COLOUR, WRITE_COLOUR, new_figure, save


def draw(trace: Any, element: int = 0, threshold: float = 0.002, answers: slice | None = None, title: str = "") -> Any:
    """One panel per head. Accesses lighter than `threshold` are left out; `answers` shades the answering steps."""
    reads, writes = trace.reads(element), trace.writes(element)
    heads = 1 + max([int(t.head.max()) for t in (reads, writes) if len(t.head)], default=0)
    times, rows, kept = {}, {}, {}
    for name, part in (("write", writes), ("read", reads)):
        keep = (part.weight > threshold).cpu().numpy()
        times[name], rows[name] = part.time.cpu().numpy()[keep], part.row.cpu().numpy()[keep]
        kept[name] = (part.weight.cpu().numpy()[keep], part.head.cpu().numpy()[keep])
    touched = np.unique(np.concatenate([rows["write"], rows["read"]]))
    figure, axes = new_figure(8.5, 0.8 + min(2.6, 0.9 + 0.03 * len(touched)) * heads, rows=heads, sharex=True)
    steps = 1 + int(max([t.max() for t in times.values() if len(t)], default=0))
    size = float(np.clip(2600 / max(steps, len(touched), 1), 4, 60))
    for head in range(heads):
        axis = axes[head, 0]
        if answers is not None:
            axis.axvspan(answers.start - 0.5, answers.stop - 0.5, color="#999999", alpha=0.15, linewidth=0)
        for name, colour, marker, scale in (("write", WRITE_COLOUR, "s", 1.6), ("read", READ_COLOUR, "o", 0.7)):
            weight, of_head = kept[name]
            mine = of_head == head
            if not mine.any():
                continue
            axis.scatter(
                times[name][mine],
                np.searchsorted(touched, rows[name][mine]),
                s=size * scale,
                c=colour,
                marker=marker,
                linewidths=0,
                alpha=np.clip(np.sqrt(weight[mine] / weight.max()), 0.08, 1.0),
            )
        axis.set_ylabel(f"head {head + 1}\nrow", fontsize=9)
        axis.set_ylim(len(touched) - 0.5, -0.5)
        axis.set_xlim(-0.7, steps - 0.3)
        ticks = np.unique(np.linspace(0, max(len(touched) - 1, 0), min(6, max(len(touched), 1))).astype(int))
        axis.set_yticks(ticks, [f"{touched[i]:,}" for i in ticks] if len(touched) else [])
    axes[-1, 0].set_xlabel("time step" + ("  (shaded: the answer is asked for)" if answers is not None else ""))
    top = axes[0, 0]
    top.set_title(title or f"rows touched: {len(touched)}", loc="left", fontsize=11)
    top.annotate("● read", (1.0, 1.02), xycoords="axes fraction", ha="right", va="bottom", color=READ_COLOUR)
    top.annotate("■ write", (0.92, 1.02), xycoords="axes fraction", ha="right", va="bottom", color=WRITE_COLOUR)
    return figure


def plot_run_raster(run: str | Path, out: str | Path, size: int | None = None, seed: int = 0) -> Path:
    """Raster of one fresh episode of a trained run (of `size` pairs, items or keys)."""
    import torch

    from sparsam.lab.training.trained import load_model

    model, task, config = load_model(run)
    if getattr(model, "memory", None) is None:
        raise ValueError(f"{config.model.name!r} has no external memory to show")
    generator = torch.Generator().manual_seed(seed)
    if size is None or not hasattr(task, "sample_size"):
        batch = task.sample(1, generator)
    else:
        batch = task.sample_size(1, generator, size)
    trace = model.trace(batch.inputs)  # type: ignore[operator]
    title = f"{config.model.name.upper()} on {task.name}, one episode: touched rows of {config.model.memory_size:,}"
    return save(draw(trace, answers=batch.answers, title=title), out)
