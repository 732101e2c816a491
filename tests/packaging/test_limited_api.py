"""The bindings keep to Python's limited API, which a build for Python 3.11 and earlier does not check."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "csrc"
# Outside of the limited API, and easy to reach for.
OUTSIDE = r"->tp_\w+|\bPyUnicode_AsUTF8\(|\bPy(?:Tuple|List)_(?:GET|SET)_ITEM\b|\bPyBytes_AS_STRING\b"


def test_bindings_use_nothing_else():
    found = [
        f"{file.relative_to(SOURCES)}: {match[0]}"
        for file in sorted((SOURCES / "bindings").rglob("*"))
        if file.suffix in (".h", ".cpp")
        for match in re.finditer(OUTSIDE, file.read_text(encoding="utf-8"))
    ]
    assert found == []
