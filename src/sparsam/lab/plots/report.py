"""One self-contained HTML page per run or comparison: numbers, pictures (inlined), full config."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparsam.lab.plots import curves
from sparsam.lab.plots.raster import plot_run_raster
from sparsam.lab.training.files import write_here
from sparsam.lab.training.folder import RunFolder, is_number
from sparsam.lab.training.user_classes import NotNamed
from sparsam.lab.viewer import write_page

_STYLE = """
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: CanvasText; background: Canvas }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { padding: .3rem .8rem; border-bottom: 1px solid #8886; text-align: left }
td.number { text-align: right; font-variant-numeric: tabular-nums } img { max-width: 100%; background: #fff }
pre { background: #8881; padding: .8rem; overflow-x: auto; font-size: 12px }
"""


def write_report(paths: Sequence[str | Path], out: str | Path, title: str | None = None) -> Path:
    """A report of the runs in `paths` at `out`; pictures are kept beside it as PNG as well."""
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    runs = [RunFolder(path) for path in paths]
    title = title or (runs[0].config().name if len(runs) == 1 else f"{len(runs)} runs compared")
    parts = [f"<h1>{html.escape(title)}</h1>", _table(runs), "<h2>Learning curves</h2>"]
    parts.append(_picture(curves.plot_curves(paths, out.with_name(out.stem + "-curves.png"))))
    if any(run.events("level") for run in runs):
        parts.append("<h2>Curriculum</h2>")
        parts.append(_picture(curves.plot_curves(paths, out.with_name(out.stem + "-levels.png"), "level")))
    if len(runs) == 1:
        try:
            picture = plot_run_raster(runs[0].path, out.with_name(out.stem + "-memory.png"))
            parts += ["<h2>Memory accesses in one episode</h2>", _picture(picture)]
            viewer = write_page([runs[0].path], out.with_name(out.stem + "-view.html"))
            parts.append(
                f'<p><a href="{viewer.name}">Play an episode</a>: what was read for each answer, step by step.</p>'
            )
        except NotNamed:
            raise
        except (ValueError, FileNotFoundError, RuntimeError):
            pass  # no memory, or no checkpoint yet: the report stands without this picture
    parts.append("<h2>Configuration</h2>")
    for run in runs if len(runs) <= 6 else runs[:1]:
        origin = (run.origin() or {}) if run.origin_file.exists() else {}
        command = origin.get("command")
        called = html.escape(" ".join(map(str, command)) if isinstance(command, list) else "")
        parts.append(f"<pre>{called}\n\n{html.escape(run.config().to_json())}</pre>")
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><body>{''.join(parts)}</body></html>"
    )
    write_here(out, page.encode("utf-8", "replace"))
    return out


def _table(runs: Sequence[RunFolder]) -> str:
    rows = []
    labels = curves.run_labels([run.config() for run in runs])
    measure = curves.headline(runs)
    for run, label in zip(runs, labels, strict=True):
        events = run.events("eval")
        last = events[-1] if events else {}
        best = min((value for _, value in run.points("eval", measure)), default=None)
        cells = [last.get("sequences"), last.get(measure), best, last.get("level"), last.get("seconds")]
        texts = "".join(f'<td class="number">{_number(cell)}</td>' for cell in cells)
        rows.append(
            f"<tr><td>{html.escape(label)}</td><td>{html.escape(run.config().task.name)}</td>"
            f'<td class="number">{run.config().seed}</td>{texts}</tr>'
        )
    name = html.escape(measure.replace("_", " "))
    head = f"<tr><th>model<th>task<th>seed<th>sequences<th>{name}<th>best<th>level<th>seconds</tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _number(value: Any) -> str:
    if not is_number(value):
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def _picture(path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{html.escape(path.stem)}" src="data:image/png;base64,{data}">'
