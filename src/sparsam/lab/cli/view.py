"""`sparsam view`: one episode of a trained model in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.model_options import OwnTaskOption
from sparsam.lab.cli.runs import complete_trained, find_run


def view(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="A run (its folder or the beginning of its name), a file, or weights by name. Others add curves.",
            show_default="the last run",
            autocompletion=complete_trained,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The page.", show_default="RUN/view.html, or NAME.html here")] = None,
    size: Annotated[
        int | None, typer.Option(help="Size of the episode: pairs, items, keys.", show_default="as trained")
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes to choose from on the page.")] = 1,
    story: Annotated[Path | None, typer.Option(help="A story to show (bAbI).", show_default="some of ours")] = None,
    memory_size: Annotated[
        int | None, typer.Option(help="Another number of words in memory.", show_default="as trained")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the episodes.")] = 0,
    task: OwnTaskOption = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Serve it on this machine while the run trains, always up to date.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of --live; 0 for any free one.")] = 8765,
) -> None:
    """Write one self-contained page that plays an episode: reads and writes of every head over time, what was written
    when, the answers and what was read for them, and the training curves. It works from disk, without a server."""
    from sparsam.lab.training import user_classes
    from sparsam.lab.viewer.page import write_page

    if task is not None:
        user_classes.use_task(task)
    runs = [name if _is_address(name) else str(find_run(name)) for name in runs] if runs else [str(find_run(None))]
    changes: dict[str, Any] = {} if memory_size is None else {"memory_size": memory_size}
    page = out or _place(runs[0])
    settings = {"size": size, "episodes": episodes, "seed": seed, "story": story}
    if live:
        from sparsam.lab.viewer.live import serve

        serve(runs, page, port, open_it, **settings, **changes)
        return
    print(write_page(runs, page, **settings, **changes))  # type: ignore[arg-type]
    if open_it:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _is_address(name: str) -> bool:
    return name.startswith(("hf:", "http://", "https://"))


def _place(run: str) -> Path:
    folder = Path(run)
    return folder / "view.html" if folder.is_dir() else Path(f"{folder.stem}.html")
