"""The examples run, in small."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_transformer_with_a_memory_runs() -> None:
    main = runpy.run_path(str(EXAMPLES / "transformer_memory.py"))["main"]
    trained, tested = main(["--steps", "3", "--pairs", "2", "--test-pairs", "20", "--vocabulary", "64"])
    assert 0 <= trained <= 1 and 0 <= tested <= 1


def test_its_pieces_equal_the_whole() -> None:
    example = runpy.run_path(str(EXAMPLES / "transformer_memory.py"))
    torch.manual_seed(0)
    model = example["Transformer"](32, 512)
    tokens = torch.randint(32, (60, 2))
    whole, _ = model(tokens)
    first, states = model(tokens[:25])
    second, states = model(tokens[25:28], states)
    third, _ = model(tokens[28:], states)
    torch.testing.assert_close(torch.cat([first, second, third]), whole, atol=1e-4, rtol=1e-4)


def test_the_notebook_runs_cell_by_cell(capsys: Any) -> None:
    notebook = json.loads((EXAMPLES / "sparse_memory.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert sum(bool(line.strip()) for cell in cells for line in cell.splitlines()) <= 45
    space: dict[str, Any] = {}
    for cell in cells:
        exec(cell.replace("STEPS, PAIRS = 600, 16", "STEPS, PAIRS = 4, 2"), space)
    assert "wrong" in capsys.readouterr().out
