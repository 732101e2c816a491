"""The shape of the house, as far as a machine can check it: what imports what, what is typed, where autograd ends."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "sparsam"
FILES = {file.relative_to(PACKAGE).as_posix(): file for file in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in FILES.items()}
TYPED = ("engines/", "memories/", "controllers/")

# From the bottom to the top. Calls go downward, and what stands on one line may know each other; nothing is unlisted.
LAYERS = (
    ("checks.py", "record.py", "trace.py", "transfer.py", "transforms.py", "_native.pyi"),
    ("indexes.py", "state.py", "tickets.py"),
    ("memories/",),
    ("start.py",),
    ("controllers/",),
    ("engines/",),
    ("models/", "layer.py", "packing.py", "pytrees.py"),
    ("diagnose.py", "model_description.py"),
    ("weights.py",),
    ("__init__.py",),
    ("adapters/",),
    ("lab/registry.py", "lab/argument_types.py"),
    ("lab/data/",),
    ("lab/tasks/",),
    ("lab/training/",),
    ("lab/viewer/",),
    ("lab/plots/",),
    ("lab/agents/",),
    ("lab/recipes/",),
    ("lab/cli/", "lab/__init__.py"),
)
UPWARD = {  # the few that look up, each in a function or by a name
    ("state.py", "engines/__init__.py"): "state.to(engine=...): a state is asked to be another engine's",
    ("state.py", "packing.py"): "state.pack(): a state is asked for its tensors",
}
RUNS = {"engines/boundary.py"}  # a run of a fast engine as a node of the autograd graph
VALUES = {  # what else is differentiated by hand
    "engines/native/placeholders.py": "a native memory that becomes dense, or was",
    "engines/native/links.py": "native links that become dense, or were",
    "engines/native/names.py": "a native memory that goes into a compiled graph, or came out of one",
    "engines/clipping.py": "limits on what flows backward between calls of one step",
    "engines/native/convolution.py": "the layer's convolution in one pass",
    "engines/native/linear.py": "the layer's linear maps of all steps",
    "engines/cuda/dense/capturable.py": "a product that a CUDA graph can capture",
    "memories/addressing.py": "dense cosines in one pass",
    "memories/dnc.py": "the DNC's links in one pass",
}


def place(dotted: str) -> str:
    """The file of `sparsam.a.b.c`, of which the last part may be a name that the file defines."""
    parts = dotted.split(".")[1:]
    if parts == ["_native"]:
        return "_native.pyi"
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        for name in (f"{path}.py", f"{path}/__init__.py"):
            if name in FILES:
                return name
    return "__init__.py"


def named(tree: ast.Module) -> set[str]:
    """Files of the package that a module imports, in functions too, or names in a string of its own."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sparsam":
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "sparsam"}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # not of what the top exports: a mere name
            match = re.fullmatch(r"(sparsam(?:\.\w+)+)(?::\w+)?", node.value)
            found |= {match[1]} if match and place(match[1]) != "__init__.py" else set()
    return {place(dotted) for dotted in found}


def level(name: str) -> int:
    """The line of a file; a file without one is an error."""
    (found,) = {
        i for i, layer in enumerate(LAYERS) if name in layer or name.startswith(tuple(e for e in layer if e[-1] == "/"))
    }
    return found


@pytest.mark.parametrize("name", TREES)
def test_calls_go_downward(name):
    upward = {other for other in named(TREES[name]) if level(other) > level(name)}
    assert upward == {other for file, other in UPWARD if file == name}


def test_the_library_never_names_the_laboratory():
    texts = {name: FILES[name].read_text(encoding="utf-8") for name in FILES if not name.startswith("lab/")}
    assert not [name for name, text in texts.items() if re.search(r"sparsam[./]lab\b|import lab\b", text)]


def test_a_name_in_a_string_or_in_a_function_is_seen():
    lazy = "def f():\n    from sparsam.models import sam\n    return import_module('sparsam.lab.tasks:build')"
    assert named(ast.parse(lazy)) == {"models/sam.py", "lab/tasks/__init__.py"}


@pytest.mark.parametrize("name", [name for name in TREES if name.startswith(TYPED)])
def test_a_model_is_not_just_anything(name):
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.arg) and node.arg == "model":
            assert node.annotation is not None and ast.unparse(node.annotation) != "Any", f"line {node.lineno}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr"):
            assert ast.unparse(node.args[0]) != "model", f"line {node.lineno}"


def test_memories_know_no_engine_and_the_reference_no_fast_one():
    memories = [name for name in FILES if name.startswith("memories/")]
    assert memories and not [name for name in memories if "sparsam.engines" in FILES[name].read_text(encoding="utf-8")]
    text = FILES["engines/reference.py"].read_text(encoding="utf-8")
    assert not any(fast in text for fast in ("engines.native", "engines.cuda", "engines.boundary", "autograd.Function"))


def test_runs_are_differentiated_in_one_place():
    typed = [name for name in FILES if name.startswith(TYPED)]
    found = {name for name in typed if "(torch.autograd.Function)" in FILES[name].read_text(encoding="utf-8")}
    assert found == RUNS | set(VALUES)


CORE = ("support", "memory", "index", "step", "bindings")  # of csrc, from the bottom to the top


@pytest.mark.parametrize("room", CORE)
def test_the_core_is_layered(room):
    files = [file for end in ("h", "cpp") for file in (ROOT / "csrc" / room).rglob(f"*.{end}")]
    upward = {
        f"{file.name} includes {other}"
        for file in files
        for other in re.findall(r'^#include "(\w+)/', file.read_text(encoding="utf-8"), re.MULTILINE)
        if CORE.index(other) > CORE.index(room)
    }
    assert files and not upward


def test_files_end_before_they_tire():
    files = [
        *PACKAGE.rglob("*.py"),
        *PACKAGE.rglob("*.pyi"),
        *(ROOT / "csrc").rglob("*.h"),
        *(ROOT / "csrc").rglob("*.cpp"),
    ]
    long = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert not {name: lines for name, lines in long.items() if lines > 420}
