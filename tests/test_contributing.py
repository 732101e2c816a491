"""The tree in CONTRIBUTING.md is the tree."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TREE = re.search(r"## Where things are\n\n(.*?)\n\n", TEXT, flags=re.DOTALL)


def named() -> set[str]:
    """Every folder and file that the tree names, as paths: one to a line, below the folder that is indented less."""
    assert TREE is not None
    found, above = set(), [(-1, "")]
    for line in TREE[1].splitlines():
        entry = re.match(r"( +)([\w./]+?(?:/|\.py))(?=\s)", line)
        assert entry, line
        while above[-1][0] >= len(entry[1]):
            above.pop()
        path = above[-1][1] + entry[2]
        found.add(path)
        above.append((len(entry[1]), path))
    return found


def test_what_is_named_exists():
    missing = [path for path in named() if not (ROOT / path).exists()]
    assert not missing


def test_every_room_is_named():
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    rooms = set()
    for path in listed.splitlines():
        parts = path.split("/")
        if len(parts) > 1 and not parts[0].startswith(".") and parts[0] not in ("src", "csrc", "licenses"):
            rooms.add(f"{parts[0]}/")
        if parts[0] == "csrc" and len(parts) > 2:
            rooms.add("/".join(parts[:2]) + "/")
        if parts[:2] == ["src", "sparsam"]:
            if len(parts) == 3 and parts[2].endswith(".py") and parts[2] != "__init__.py":
                rooms.add(path)
            if len(parts) > 3:
                rooms.add("/".join(parts[:3]) + "/")
            if len(parts) > 4 and parts[2] in ("engines", "lab"):
                rooms.add("/".join(parts[:4]) + "/")
    assert rooms <= named(), rooms - named()
