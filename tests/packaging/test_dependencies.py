"""What the library needs, and what it imports: three packages, as pyproject.toml says."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = {"torch", "numpy", "safetensors"}
OPTIONAL = {  # imported by one module each, which says what to install
    "triton": "engines/cuda/",
    "huggingface_hub": ("adapters/hub.py", "weights.py"),
    "typing_extensions": ("record.py", "models/"),  # torch needs it: it is there
    "tensordict": "adapters/",
    "torchrl": "adapters/",
    "stable_baselines3": "adapters/",
    "sb3_contrib": "adapters/",
    "gymnasium": "adapters/",
}


def test_pyproject_names_them():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^dependencies = \[(.*?)\]", project, flags=re.MULTILINE | re.DOTALL)
    assert listed is not None and set(re.findall(r'"([a-z]+)', listed[1])) == NEEDED


def test_the_library_imports_nothing_else():
    package = ROOT / "src" / "sparsam"
    found = set()
    for file in package.rglob("*.py"):
        name = file.relative_to(package).as_posix()
        if name.startswith("lab/"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for top in {module.split(".")[0] for module in modules} - NEEDED - {"sparsam"} - sys.stdlib_module_names:
                if not name.startswith(OPTIONAL.get(top, ())):
                    found.add((name, top))
    assert not found
