"""``sparsam data``: find, verify and prepare the real data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Find, verify and prepare real data. Searched: --root, or $SPARSAM_DATA, ./data and ../shared/data.",
)

_Root = Annotated[
    Path | None, typer.Option(help="Folder that holds the download, as it came or unpacked.", show_default=False)
]


@app.command()
def babi(
    root: _Root = None,
    variant: Annotated[str, typer.Option(help="en-10k or en (1,000 questions per task).")] = "en-10k",
) -> None:
    """The 20 bAbI question answering tasks."""
    import warnings

    from sparsam.data.babi import open_babi
    from sparsam.tasks.babi import Babi

    files = open_babi(root, variant)
    print(f"found     {files.source} ({variant})")
    notes = files.verify()
    print("verified  40 files: names, question counts, checksums")
    for note in notes:
        print(f"note      {note}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notes above say it already
        task = Babi(root, variant)
    for name in ("train", "validation", "test"):
        split = task.split(name)
        counts = f"{len(split):,} stories, {split.num_questions:,} questions, {len(split.words):,} words"
        print(f"prepared  {name}: {counts}")


@app.command()
def omniglot(root: _Root = None) -> None:
    """The Omniglot characters."""
    from sparsam.data.omniglot import open_omniglot
    from sparsam.tasks.omniglot import Omniglot

    files = open_omniglot(root)
    for source in files.sources.values():
        print(f"found     {source}")
    for line in files.verify():
        print(f"verified  {line}")
    task = Omniglot(root)
    for name in ("train", "validation", "test"):
        print(f"prepared  {name}: {len(task.characters(name))} characters")
