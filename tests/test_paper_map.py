"""docs/paper_map.md: every label of the paper is there, and every symbol, file and test it names exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "paper_map.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([^`]+)`", TEXT)

# fmt: off
EQUATIONS = [
    "eq:soft_read", "eq:content_based_read", "eq:soft_write", "eq:sparse_read_forward", "eq:lru_write_weights",
    "eq:sparse_read_suppl", "eq:sparse_write_suppl", "eq:lru_write_weights_suppl",
]
FIGURES = [
    "fig:perf_benchmarks", "sf:speed", "sf:memory", "fig:ntm_tasks", "sf:ntm_copy", "sf:ntm_associative_recall",
    "sf:ntm_topk", "fig:curriculumT", "sf:apc", "sf:cc", "sf:topkc", "fig:omniglot", "fig:bptt", "fig:controlflow",
    "fig:dnc_perf_benchmarks", "sf:dnc_speed", "sf:dnc_memory", "fig:extrapolation",
]
TABLES = ["tab:babi:best", "tab:babi:mean"]
# fmt: on

SYMBOLS = sorted({name for name in NAMED if re.fullmatch(r"sparsam(\.\w+)+", name)})
FILES = sorted({name for name in NAMED if re.match(r"(csrc|tests)/", name)})
COMMANDS = sorted({name for name in NAMED if name.startswith("sparsam ")})


def resolve(path: str) -> object:
    """Import as much of a dotted path as is a module, then take attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name is None or not path.startswith(error.name):
                raise
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(path)


@pytest.mark.parametrize("label", [*EQUATIONS, *FIGURES, *TABLES])
def test_every_label_of_the_paper_is_mapped(label: str) -> None:
    assert label in NAMED


@pytest.mark.parametrize("path", SYMBOLS)
def test_symbols_exist(path: str) -> None:
    assert resolve(path) is not None


def test_a_symbol_that_is_missing_is_noticed() -> None:
    with pytest.raises(AttributeError):
        resolve("sparsam.memories.sam.no_such_function")


@pytest.mark.parametrize("path", FILES)
def test_files_exist(path: str) -> None:
    assert (ROOT / path).is_file()


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_exist(command: str) -> None:
    pytest.importorskip("typer", reason='the command line needs pip install ".[lab]"')
    import typer.main

    from sparsam.lab.cli import build_app

    found = typer.main.get_command(build_app())
    for word in command.split()[1:]:
        if not hasattr(found, "list_commands"):  # the rest are arguments
            break
        group = found
        found = group.get_command(typer.Context(group), word)
        assert found is not None, f"{command}: no command {word!r}"


def test_every_row_names_a_symbol_and_a_test() -> None:
    rows = [line.strip("|").split("|") for line in TEXT.splitlines() if line.startswith("|") and "---" not in line]
    rows = [row for row in rows if row[0].strip() != "Paper"]
    assert len(rows) > 40
    for row in rows:
        assert len(row) in (5, 6), row  # figures and tables have a verdict
        assert "`" in row[2] and "`tests/" in row[3], row
        assert row[4].strip(), row


def test_every_figure_and_table_has_a_verdict() -> None:
    table = TEXT.partition("## Figures and tables")[2]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) == 15
    for row in rows:
        assert re.match(r"(reproduced|better|worse|not done|-$)", row[-1]), row
