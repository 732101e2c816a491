"""Habits that a machine can check: one docstring dialect, one style of error message, one 'did you mean'."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py")) + sorted((ROOT / "benchmarks").glob("*.py"))
TREES = {str(file.relative_to(ROOT)): ast.parse(file.read_text(encoding="utf-8")) for file in SOURCES}


def test_docstrings_have_one_dialect() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    for file, tree in TREES.items():
        for text in (ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, kinds)):
            assert "``" not in text, f"{file}: {text}"
            roles = re.search(r":(param|raises|returns?|mod|class|func|meth|attr)\b[^:\n]*:", text)
            assert not roles, f"{file}: {text}"


def test_errors_say_what_was_expected() -> None:
    for file, tree in TREES.items():
        for node in (node for node in ast.walk(tree) if isinstance(node, ast.Raise)):
            parts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
            text = " ".join(part for part in parts if isinstance(part, str))
            wrong = re.search(r"\b(must|should) (be|have)\b", text) and "expected" not in text
            assert not wrong, f"{file}, line {node.lineno}: an error reads 'argument: expected what, got what': {text}"


def test_one_helper_says_did_you_mean() -> None:
    assert [file.name for file in SOURCES if "did you mean" in file.read_text(encoding="utf-8")] == ["checks.py"]
