"""docs/extending.md: each addition is made in a temporary module and used as the page says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.beside import assert_run_in_forks

ROOT = Path(__file__).parents[1]
PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
SECTIONS = {
    title: re.findall(r"```python\n(.*?)```", body, flags=re.DOTALL)
    for title, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
}


def test_there_are_six():
    assert list(SECTIONS) == ["A controller", "A memory", "A write rule", "An index", "A task", "An engine"]
    assert all(len(blocks) == 2 for blocks in SECTIONS.values())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_the_additions_work(tmp_path):
    """An addition to a table of the package is seen by no other."""
    for title, (addition, use) in SECTIONS.items():
        (tmp_path / title).mkdir()
        (tmp_path / title / "addition.py").write_text(addition, encoding="utf-8")
        (tmp_path / title / "use.py").write_text(f"from addition import *\n{use}", encoding="utf-8")
    run = "import os, runpy, sys; os.chdir({!r}); sys.path.insert(0, os.getcwd()); runpy.run_path('use.py')"
    assert_run_in_forks(*(run.format(str(tmp_path / title)) for title in SECTIONS))


def code_lines_with(word, folder, *endings):
    """Files below `folder` whose code has the word, and in how many lines; comments and docstrings do not count."""
    found = {}
    for file in sorted(path for ending in endings for path in (ROOT / folder).rglob(f"*{ending}")):
        text = re.sub(r'"""(?:.|\n)*?"""|#(?!include).*|//.*', "", file.read_text(encoding="utf-8"))
        lines = [line for line in text.splitlines() if re.search(word, line, flags=re.IGNORECASE)]
        if lines:
            found[file.relative_to(ROOT / folder).as_posix()] = len(lines)
    return found


def test_a_gru_is_one_file_and_two_lines():
    native = code_lines_with("gru", "csrc", ".h", ".cpp")
    native.pop("step/controllers/gru.h")
    assert native == {"step/loops.h": 1, "step/sequence.h": 1}  # where it is included and where controllers are listed
    python = code_lines_with("gru", "src/sparsam", ".py")
    python.pop("controllers/gru.py")
    python.pop("engines/feedforward.py")  # another controller that runs as a GRU
    outside = {path for path in python if not path.startswith(("engines/cuda/", "lab/"))}  # a branch of a kernel; users
    assert outside == {"controllers/__init__.py", "controllers/torch_modules.py"}  # imported, and torch's own class
