"""docs/extending.md: each addition is made in a temporary module and used as the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTIONS = {
    title: re.findall(r"```python\n(.*?)```", body, flags=re.DOTALL)
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
}


def test_there_are_five():
    assert list(SECTIONS) == ["A controller", "A memory", "An index", "A task", "An engine"]
    assert all(len(blocks) == 2 for blocks in SECTIONS.values())


@pytest.mark.parametrize("title", SECTIONS)
def test_the_addition_works(title, tmp_path):
    addition, use = SECTIONS[title]
    (tmp_path / "addition.py").write_text(addition, encoding="utf-8")
    (tmp_path / "use.py").write_text(f"from addition import *\n{use}", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
