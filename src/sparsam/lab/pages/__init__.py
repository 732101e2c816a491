"""Pages and pictures of docs/results and the tables of README, from the JSON records in docs/ (`sparsam reproduce X --page`).

Every number in them is read from a record, and a test compares them with what stands in the tree.
"""

from __future__ import annotations

import re
from pathlib import Path

from sparsam.lab.pages import babi, beyond, extrapolation, figure1, figure2, figure3, libraries, omniglot, popgym
from sparsam.lab.pages.pictures import Picture
from sparsam.lab.pages.tables import Claim, Records, table

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


def claims(records: Records) -> list[Claim]:
    """All claims, in the order of the pages."""
    return [claim for page in PAGES.values() for claim in page.claims(records)]


def overview(records: Records) -> str:
    """docs/results/index.md."""
    return f"""# Results

Each page has the claim, the commands, the seeds, and what differs from the paper. A verdict compares our runs with the paper's,
and names a difference that helps us. The [notebook](../notebook/index.md) tells how the results came about and what did not
work.

## The paper's claims

{_paper_table(claims(records), "")}

## Beyond the paper

{_beyond_table(claims(records), "")}
"""


def readme_tables(records: Records) -> str:
    """The two tables of README."""
    shown = [claim for claim in claims(records) if claim.in_readme]
    return f"""{_paper_table(shown, "docs/results/")}

Beyond the paper:

{_beyond_table(shown, "docs/results/")}"""


def _paper_table(found: list[Claim], folder: str) -> str:
    rows = [
        (f"[{claim.what}]({folder}{claim.page}.md)", claim.paper, claim.here, claim.seeds, claim.verdict)
        for claim in found
        if claim.verdict
    ]
    return table(["claim", "the paper", "here", "seeds", "verdict"], rows)


def _beyond_table(found: list[Claim], folder: str) -> str:
    rows = [
        (f"[{claim.what}]({folder}{claim.page}.md)", claim.here, claim.seeds) for claim in found if not claim.verdict
    ]
    return table(["result", "here", "seeds"], rows)


def between_marks(text: str, name: str, made: str) -> str:
    """`text` with what stands between <!-- name --> and <!-- end of name --> replaced."""
    marked = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", flags=re.DOTALL)
    return marked.sub(lambda _: f"{made}\n", text)


def texts(root: Path) -> dict[Path, str]:
    """Every generated page below `root`, the source tree, and README, as the records would have them."""
    records = Records(root / "docs")
    folder = root / "docs" / "results"
    made = {folder / f"{name}.md": page.page(records) for name, page in PAGES.items()}
    made[folder / "index.md"] = overview(records)
    readme = root / "README.md"
    text = between_marks(readme.read_text(encoding="utf-8"), "results", readme_tables(records))
    made[readme] = between_marks(text, "cost", figure1.cost(records))
    return made


def pictures(root: Path) -> dict[Path, Picture]:
    """Every picture below `root` that is drawn from a record."""
    records = Records(root / "docs")
    drawn = [page.pictures(records) for page in (figure2, figure3, popgym)]
    return {root / "docs" / "results" / name: picture for found in drawn for name, picture in found.items()}


def source_tree() -> Path:
    """The folder that holds docs/ and README.md; an installed package has neither."""
    root = Path(__file__).resolve().parents[4]
    if not (root / "docs" / "results").is_dir():
        raise FileNotFoundError(
            "page: expected the source tree, whose docs/ holds the records; this is an installation"
        )
    return root


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
