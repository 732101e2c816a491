"""`sparsam view`: a sequence run by a trained model in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.help import argument, option
from sparsam.lab.cli.model_options import RUN_OR_WEIGHTS, OwnTaskOption
from sparsam.lab.cli.runs import complete_trained, find_run
from sparsam.lab.training.trained import ADDRESSES


def view(
    runs: Annotated[
        list[str] | None,
        argument(
            f"{RUN_OR_WEIGHTS} Further runs add their learning curves.",
            "the last run",
            autocompletion=complete_trained,
        ),
    ] = None,
    out: Annotated[Path | None, option("File to write.", "RUN/view.html, or NAME.html for weights")] = None,
    size: Annotated[int | None, option("Size of the sequence (items, pairs or keys).", "as trained")] = None,
    sequences: Annotated[int, option("How many sequences the page offers.")] = 1,
    story: Annotated[Path | None, option("Show the story in this file (bAbI).", "stories of the task")] = None,
    memory_size: Annotated[int | None, option("Use this memory size.", "as trained")] = None,
    seed: Annotated[int, option("Random seed of the sequences.")] = 0,
    task: OwnTaskOption = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Serve the page to this machine and update it while the run trains.")
    ] = False,
    port: Annotated[int, option("Port for --live; 0 takes any free one.")] = 8765,
) -> None:
    """Write a page that shows what a trained model reads and writes, step by step.

    The page is one file and needs no server. It has the reads and writes of every head over time, the answers with
    what was read for them, and the learning curves.

    Examples:

        sparsam view babi-sam --open
        sparsam view copy-sam --size 40
    """
    from sparsam.lab.training import user_classes
    from sparsam.lab.viewer.page import write_page

    if not 0 <= port <= 65535:
        raise ValueError(f"port: expected a number in 0..65535, got {port}")
    if task is not None:
        user_classes.use_task(task)
    wanted: list[str | None] = [*runs] if runs else [None]
    shown = [name if name and name.startswith(ADDRESSES) else str(find_run(name)) for name in wanted]
    changes: dict[str, Any] = {} if memory_size is None else {"memory_size": memory_size}
    page = out or _place(shown[0])
    settings = {"size": size, "sequences": sequences, "seed": seed, "story": story}
    if live:
        from sparsam.lab.viewer.live import serve

        serve(shown, page, port, open_it, **settings, **changes)
        return
    print(write_page(shown, page, **settings, **changes))  # type: ignore[arg-type]
    if open_it:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def _place(run: str) -> Path:
    folder = Path(run)
    return folder / "view.html" if folder.is_dir() else Path(f"{folder.stem}.html")
