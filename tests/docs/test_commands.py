"""The commands of the results pages: every `sparsam reproduce` lists its runs, every `sparsam train` runs in small."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from sparsam.lab.data.babi import open_babi
from sparsam.lab.data.locate import MissingData
from sparsam.lab.data.omniglot import open_omniglot

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if "notebook" not in page.parts)]
NEEDS = {"babi": open_babi, "omniglot": open_omniglot, "omniglot_pixels": open_omniglot}
# What makes a run of hours one of a second. A run that goes on, or begins with trained weights, keeps its model.
SMALL = (
    "-q --steps {steps} --device cpu --batch-size 2 --set eval_every=1000 --set checkpoint_every=1000 "
    "--set eval_batches=1 --set eval_batch_size=2 --set tensorboard=false"
)
SMALL_MODEL = "--hidden-size 8 --memory-size 64"


def commands(page: Path, what: str) -> list[str]:
    """The commands of a page's indented blocks that begin with `sparsam WHAT`, continued lines joined."""
    text = re.sub(r"\\\n\s+", " ", page.read_text(encoding="utf-8"))
    text = re.sub(r"'([^'\n]*)\n\s+([^'\n]*)'", r"'\1\2'", text)  # a quoted setting that goes over two lines
    lines = re.findall(rf"^    (sparsam {what} .*)$", text, flags=re.MULTILINE)
    return [line.partition("  #")[0].rstrip(" &") for line in lines if " ... " not in line]


def run(words: list[str]) -> None:
    from sparsam.lab.cli import main

    with pytest.raises(SystemExit) as ended:
        main(words)
    assert not ended.value.code, words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_reproduce_of_a_page_names_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer", reason="the command line needs the lab extra")
    for line in commands(page, "reproduce"):
        run([*shlex.split(line)[1:], "--list"])
        assert capsys.readouterr().out.strip(), line


def test_every_recipe_of_the_paper_has_a_command_on_some_page() -> None:
    lines = [line for page in PAGES for line in commands(page, "reproduce")]
    named = {shlex.split(line)[2] for line in lines}
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in ("figure2", "figure3", "extrapolation", "babi", "omniglot-pixels"):
        assert name in named or f"`sparsam reproduce {name}" in text, name


@pytest.mark.parametrize("page", ["training.md"])
def test_every_train_of_a_page_runs_in_small(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order and in one folder: what one command leaves the next one goes on with."""
    pytest.importorskip("typer", reason="the command line needs the lab extra")
    monkeypatch.chdir(tmp_path)
    lines = commands(ROOT / "docs" / page, "train")
    assert lines
    steps = 0
    for line in lines:
        words = shlex.split(line)[1:]
        if words[1] in NEEDS:
            try:
                NEEDS[words[1]]()
            except MissingData:
                pytest.skip(f"{words[1]} is not on this machine")
        if ":" in words[1] or "--workers" in words:
            continue  # a task of the reader's own; workers have tests of their own
        steps += 1
        goes_on = "--resume" in words or "--weights" in words
        extra = SMALL.format(steps=steps if "--resume" in words else 1) + ("" if goes_on else f" {SMALL_MODEL}")
        if any(word.startswith("task.training.device") for word in words):
            extra += " --set task.training.device=cpu"
        if "--curriculum" in words:
            extra += " --set curriculum.start=2"
        if "task.training.min_size=24" in words or "task.training.min_size=50" in words:
            extra += " --set task.training.min_size=2 --set task.training.max_size=3"
        run([*words, *shlex.split(extra)])
