"""`sparsam view`: one episode of a trained model in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def view(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="A run (its folder or the beginning of its name), a file, or weights by name. Others add curves."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page. [default: RUN/view.html, or NAME.html here]", show_default=False)
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Size of the episode: pairs, items, keys.", show_default="as trained")
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes to choose from on the page.")] = 1,
    story: Annotated[Path | None, typer.Option(help="A story to show, for bAbI runs.", show_default=False)] = None,
    memory_size: Annotated[
        int | None, typer.Option(help="Another number of words in memory.", show_default="as trained")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the episodes.")] = 0,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Serve it on this machine while the run trains, always up to date.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of --live; 0 for any free one.")] = 8765,
) -> None:
    """Write one self-contained page that plays an episode: reads and writes of every head over time, what was written
    when, the answers and what was read for them, and the training curves. It works from disk, without a server."""
    from sparsam.cli.runs import find_run
    from sparsam.viewer.page import write_page

    runs = [run if run.startswith(("hf:", "http://", "https://")) else str(find_run(run)) for run in runs]
    changes: dict[str, Any] = {} if memory_size is None else {"memory_size": memory_size}
    page = out or _place(runs[0])
    settings = {"size": size, "episodes": episodes, "seed": seed, "story": story}
    if live:
        from sparsam.viewer.live import serve

        serve(runs, page, port, open_it, **settings, **changes)
        return
    print(write_page(runs, page, **settings, **changes))  # type: ignore[arg-type]
    if open_it:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _place(run: str) -> Path:
    folder = Path(run)
    return folder / "view.html" if folder.is_dir() else Path(f"{folder.stem}.html")
