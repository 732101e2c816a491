"""The page itself: sequences and training curves as one HTML file that needs nothing else, not even a server."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from sparsam.lab.training.files import write_here
from sparsam.lab.viewer.episode import Episode, record

__all__ = ["curves_of", "episodes_of", "render", "write_page"]


def write_page(
    runs: Sequence[str | Path],
    out: str | Path,
    size: int | None = None,
    sequences: int = 1,
    seed: int = 0,
    story: str | Path | None = None,
    live: bool = False,
    **changes: Any,
) -> Path:
    """Write the page of a run's folder or trained weights; further runs only add their training curves.

    Args:
        size: size of the sequences (pairs, items, keys, characters) where the task has one.
        story: a file with a story for bAbI; without it some stories that come with the package are shown.
        live: the page asks its server for a newer version.
        changes: arguments of the model to replace, such as `memory_size`.
    """
    shown, title, about = episodes_of(runs[0], size, sequences, seed, story, **changes)
    curves = curves_of(runs)
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_here(out, render(title, about, shown, curves, live).encode("utf-8", "replace"))
    return out


def episodes_of(
    run: str | Path, size: int | None, count: int, seed: int, story: str | Path | None, **changes: Any
) -> tuple[list[Episode], str, str]:
    """Recorded sequences of a trained model, a title for the page, and a line about the model."""
    from sparsam.lab.tasks.babi.task import scale_of
    from sparsam.lab.training.trained import read_trained
    from sparsam.lab.viewer import tasks

    weights, config = read_trained(run)
    model = weights.build(**changes).eval()
    found: list[Episode] = []
    if config.task.name == "babi":
        texts = tasks.STORIES if story is None else tasks.read_story(Path(story))
        for number, text in enumerate(texts, start=1):
            batch, steps = tasks.story_batch(text, scale_of(config.task.settings))
            found.append(record(model, batch, steps, f"story {number}"))
    else:
        if story is not None:
            raise ValueError(f"story: expected for bAbI runs only, got a run of {config.task.name}")
        task = config.task.build()
        for number in range(count):
            batch = tasks.draw(task, size, seed + number)
            steps = tasks.describe(task, batch)
            found.append(record(model, batch, steps, f"sequence {number + 1}, {len(batch.inputs):,} steps"))
    settings = config.model
    about = f"{settings.name.upper()}, {settings.hidden_size} hidden units"
    if settings.name != "lstm":
        words = changes.get("memory_size", settings.memory_size)
        about += f", {words:,} words of {settings.word_size}, {settings.num_heads} heads"
    return found, f"{settings.name.upper()} on {config.task.name}", about


def curves_of(runs: Sequence[str | Path]) -> dict[str, Any] | None:
    """Errors and losses over the sequences seen, a line for each run that has a log; chance where it is known."""
    from sparsam.lab.training.folder import RunFolder

    folders = [RunFolder(run) for run in runs if RunFolder(run).exists()]
    lines = []
    measure = "loss"
    for folder in folders:
        measure = next(iter(folder.measures()), "loss")
        points, loss = folder.points("eval", measure), folder.points("train", "loss")
        lines.append({"name": folder.path.name, "measure": measure, "points": points, "loss": loss})
    if not lines:
        return None
    return {"measure": measure.replace("_", " "), "lines": lines, "chance": _chance(folders[0])}


_MOST_SIZES = 100_000


def _chance(folder: Any) -> float | None:
    """The error of guessing, as a mean over the sizes that the run draws from."""
    config = folder.config()
    if config.task.name not in ("copy", "recall", "sort"):
        return None
    task = config.task.build()
    sizes = range(task.min_size, task.max_size + 1)
    if len(sizes) > _MOST_SIZES:
        return None
    return sum(task.chance(size) for size in sizes) / len(sizes)


def render(
    title: str, about: str, episodes: Sequence[Episode], curves: dict[str, Any] | None = None, live: bool = False
) -> str:
    """The page as text."""
    folder = resources.files("sparsam.lab.viewer")
    page, style, *scripts = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "episode.js", "memory.js", "tracks.js", "panel.js", "page.js")
    )
    data = {
        "title": title,
        "about": about,
        "live": live,
        "curves": curves,
        "episodes": [episode.to_dict() for episode in episodes],
    }
    contents = {"title": html.escape(title), "style": style, "data": json_in_html(data), "scripts": "\n".join(scripts)}
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: contents[mark[1]], page)  # once: what is put in is not looked at again


def json_in_html(data: Any) -> str:
    """JSON for a <script> of a page: no character of it ends the script, opens a comment or breaks a line."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
