"""Pages and pictures of docs/results and README's tables, from the records in docs/ (`sparsam reproduce X --page`).

A page's text is `<page>.md.in`; `values` of its module reads the numbers and tables in it from the records. A test
compares them with what stands in the tree.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pages import babi, beyond, extrapolation, figure1, figure2, figure3, libraries, omniglot, popgym
from pages.pictures import Picture
from pages.tables import Records

PAGES = {
    "figure1": figure1,
    "figure2": figure2,
    "figure3": figure3,
    "extrapolation": extrapolation,
    "babi": babi,
    "omniglot": omniglot,
    "beyond": beyond,
    "libraries": libraries,
    "popgym": popgym,
}
IN_README = " README"  # at the end of a line of index.md.in


def filled(name: str, values: dict[str, Any]) -> str:
    """The text of a page, without what its template says of README."""
    return (Path(__file__).parent / f"{name}.md.in").read_text(encoding="utf-8").format(**values)


def readme_tables(overview: str) -> str:
    """The two tables of README: the lines of the overview's that are marked."""
    parts = overview.split("\n## Beyond the paper\n")
    tables = ("\n".join(re.findall(f"^(.*){IN_README}$", part, flags=re.MULTILINE)) for part in parts)
    return "\n\nBeyond the paper:\n\n".join(tables).replace("](", "](docs/results/")


def between_marks(text: str, name: str, made: str) -> str:
    """`text` with what stands between <!-- name --> and <!-- end of name --> replaced."""
    marked = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", flags=re.DOTALL)
    return marked.sub(lambda _: f"{made}\n", text)


def texts(root: Path) -> dict[Path, str]:
    """Every generated page below `root`, the source tree, and README, as the records would have them."""
    records = Records(root / "docs")
    values = {name: page.values(records) for name, page in PAGES.items()}
    made = {name: filled(name, values[name]) for name in PAGES}
    overview = filled("index", values)
    made["index"] = overview.replace(f"{IN_README}\n", "\n")
    readme = (root / "README.md").read_text(encoding="utf-8")
    readme = between_marks(readme, "results", readme_tables(overview))
    readme = between_marks(readme, "cost", filled("cost", values["figure1"]).rstrip())
    results = root / "docs" / "results"
    return {**{results / f"{name}.md": text for name, text in made.items()}, root / "README.md": readme}


def pictures(root: Path) -> dict[Path, Picture]:
    """Every picture below `root` that is drawn from a record."""
    records = Records(root / "docs")
    drawn = [page.pictures(records) for page in (figure2, figure3, popgym)]
    return {root / "docs" / "results" / name: picture for found in drawn for name, picture in found.items()}


def write(root: Path) -> list[Path]:
    """Write what has changed; returns its files."""
    changed = []
    for file, text in texts(root).items():
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            changed.append(file)
    for file, picture in pictures(root).items():
        if not picture.is_in(file):
            picture.save(file)
            changed.append(file)
    return changed
