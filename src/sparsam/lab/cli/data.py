"""`sparsam data`: find, verify and prepare the real data sets."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from sparsam.lab.cli.help import Command, Group, option
from sparsam.lab.cli.model_options import Json

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Find, check and prepare the data sets bAbI and Omniglot.\n\nsparsam looks in --root, or in $SPARSAM_DATA, or "
    "in your data folder.\n\nExample:\n\n    sparsam data babi --root ~/Downloads",
)

_Root = Annotated[
    Path | None, option("Folder with the download, packed or unpacked.", "$SPARSAM_DATA, or your data folder")
]


class _Report:
    """What was found, a line at a time, or at the end as JSON."""

    def __init__(self, as_json: bool) -> None:
        self._values: dict[str, Any] = {}
        self._as_json = as_json

    def say(self, what: str, value: str, line: str | None = None) -> None:
        self._values.setdefault(what, []).append(value)
        if not self._as_json:
            print(f"{what:9} {line or value}")

    def prepared(self, name: str, counts: dict[str, int]) -> None:
        self._values.setdefault("prepared", {})[name] = counts
        if not self._as_json:
            print(f"prepared  {name}: {', '.join(f'{count:,} {what}' for what, count in counts.items())}")

    def close(self) -> None:
        if self._as_json:
            print(json.dumps(self._values))


@app.command(cls=Command)
def babi(
    root: _Root = None,
    variant: Annotated[str, option("en-10k, or en with 1,000 questions per task.", names=("en-10k", "en"))] = "en-10k",
    as_json: Json = False,
) -> None:
    """Check and prepare bAbI, 20 question-answering tasks.

    Files, counts and checksums are compared with those of the official archive.

    Examples:

        sparsam data babi
        sparsam data babi --root ~/Downloads
    """
    from sparsam.lab.data.babi import open_babi
    from sparsam.lab.tasks.babi.task import Babi

    report = _Report(as_json)
    files = open_babi(root, variant)
    report.say("found", str(files.source), f"{files.source} ({variant})")
    notes = files.verify()
    report.say("verified", "40 files: names, question counts, checksums")
    for note in notes:
        report.say("note", note)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the notes above say it already
        task = Babi(root, variant)
    for name in ("train", "validation", "test"):
        split = task.split(name)
        counts = {"stories": len(split), "questions": split.num_questions, "words": len(split.words)}
        report.prepared(name, counts)
    report.close()


@app.command(cls=Command)
def omniglot(root: _Root = None, as_json: Json = False) -> None:
    """Check and prepare Omniglot, handwritten characters.

    Files and counts are compared with those of the official archives.

    Examples:

        sparsam data omniglot
        sparsam data omniglot --root ~/Downloads
    """
    from sparsam.lab.data.omniglot import open_omniglot
    from sparsam.lab.tasks.omniglot.episodes import Omniglot

    report = _Report(as_json)
    files = open_omniglot(root)
    for source in files.sources.values():
        report.say("found", str(source))
    for line in files.verify():
        report.say("verified", line)
    task = Omniglot(root)
    for name in ("train", "validation", "test"):
        report.prepared(name, {"characters": len(task.characters(name))})
    report.close()
