"""What stands on a page: numbers are those of the records, pages are short, and no Markdown is left raw."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))

import hooks  # noqa: E402

import pages  # noqa: E402

README = ROOT / "README.md"
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "notebook" not in page.parts)


def cells(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [re.sub(r"\]\([^)]*\)", "]", cell) for line in lines for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("file", pages.texts(ROOT), ids=lambda file: file.stem)
def test_a_generated_page_says_what_the_records_say(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == pages.texts(ROOT)[file], (
        "run `sparsam reproduce figure1 --page` and commit"
    )


def test_readme_is_short() -> None:
    text = README.read_text(encoding="utf-8")
    assert "| claim | the paper |" in text
    assert len(text.split()) <= 800
    assert not [cell for cell in cells(text) if len(cell.split()) > 15]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_a_page_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) <= (1500 if page.parent.name == "results" else 2000)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_code_fits_a_laptop(page: Path) -> None:
    assert not hooks.wide_code(page.read_text(encoding="utf-8"))


def test_all_pages_together_are_short() -> None:
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in [README, *PAGES]) <= 22_000


def test_raw_markdown_is_seen() -> None:
    assert hooks.raw_markdown("<p>**[Install](install.md)**: a wheel</p>") and hooks.raw_markdown("<p>| a | b |</p>")
    assert not hooks.raw_markdown("<p><b>Install</b> 2 * 3 ** 4</p><pre>**kwargs**</pre>")


def test_the_papers_columns_have_the_printed_means():
    paper = pages.babi.PAPER
    for model, errors in paper["best"].items():
        assert len(errors) == 20 and sum(errors) / 20 == pytest.approx(paper["best_mean"][model], abs=0.06)
    failed = {model: sum(error > 5 for error in paper["best"][model]) for model in ("sdnc", "sam", "dam", "dnc")}
    assert failed == {"sdnc": 1, "sam": 2, "dam": 2, "dnc": 4}


@pytest.mark.parametrize("file", pages.pictures(ROOT), ids=lambda file: file.stem)
def test_a_picture_shows_what_its_record_says(file: Path) -> None:
    assert pages.pictures(ROOT)[file].is_in(file), "run `sparsam reproduce figure2 --page` and commit"
