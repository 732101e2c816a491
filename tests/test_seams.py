"""The shape of the house, as far as a machine can check it: what imports what, what is typed, where autograd ends."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sparsam"
FILES = {file.relative_to(PACKAGE).as_posix(): file for file in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in FILES.items()}
TYPED = ("engines/", "memories/", "controllers/")

# From the bottom to the top; calls go downward, and what stands on one line may know each other.
LAYERS = (
    ("checks.py", "registry.py", "argument_types.py", "settings.py", "trace.py", "state.py", "indexes.py", "data/"),
    ("engines/", "memories/", "controllers/"),
    ("recurrent.py", "composition.py", "models.py", "dense_models.py", "layer.py"),
    ("tasks/",),
    ("training/", "pretrained.py"),
    ("plots/", "viewer/"),
    ("experiments/",),
    ("cli/",),
)
RUNS = {"engines/boundary.py"}  # a run of a fast engine as a node of the autograd graph
VALUES = {  # what else is differentiated by hand
    "engines/native/stand_ins.py": "a native memory that becomes dense, or was",
    "engines/native/links.py": "native links that become dense, or were",
    "engines/native/names.py": "a native memory that goes into a compiled graph, or came out of one",
    "engines/native/convolution.py": "the layer's convolution in one pass",
    "engines/cuda/capturable.py": "a product that a CUDA graph can capture",
    "memories/fused/cosine.py": "dense cosines in one pass",
    "memories/fused/link_step.py": "the DNC's links in one pass",
}


def imported(tree: ast.Module) -> set[str]:
    """Modules of the package that a module imports when it is imported, as files or folders."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sparsam":
            parts = (node.module or "").split(".")[1:]
            names = [parts] if parts else [[alias.name] for alias in node.names]
            found |= {f"{name[0]}/" if (PACKAGE / name[0]).is_dir() else f"{name[0]}.py" for name in names}
    return found


def level(name: str) -> int | None:
    return next((i for i, layer in enumerate(LAYERS) if name.startswith(layer)), None)


@pytest.mark.parametrize("name", [name for name in TREES if level(name) is not None])
def test_calls_go_downward(name):
    assert not [other for other in imported(TREES[name]) if (level(other) or 0) > level(name)]


@pytest.mark.parametrize("name", [name for name in TREES if name.startswith(TYPED)])
def test_a_model_is_not_just_anything(name):
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.arg) and node.arg == "model":
            assert node.annotation is not None and ast.unparse(node.annotation) != "Any", f"line {node.lineno}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            assert ast.unparse(node.args[0]) != "model", f"line {node.lineno}"


@pytest.mark.parametrize("name", [name for name in TREES if name.startswith("engines/reference/")])
def test_the_reference_imports_nothing_fast(name):
    text = FILES[name].read_text(encoding="utf-8")
    assert not any(fast in text for fast in ("engines.native", "engines.cuda", "engines.boundary", "autograd.Function"))


def test_runs_are_differentiated_in_one_place():
    typed = [name for name in FILES if name.startswith(TYPED)]
    found = {name for name in typed if "(torch.autograd.Function)" in FILES[name].read_text(encoding="utf-8")}
    assert found == RUNS | set(VALUES)


def test_files_end_before_they_tire():
    files = [
        *PACKAGE.rglob("*.py"),
        *PACKAGE.rglob("*.pyi"),
        *(ROOT / "csrc").rglob("*.h"),
        *(ROOT / "csrc").rglob("*.cpp"),
    ]
    long = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert not {name: lines for name, lines in long.items() if lines > 420}
