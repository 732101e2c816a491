"""The stub of the core names what the core has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import sparsam
from sparsam.engines.native.core import native

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built here")
STUB = ast.parse((Path(sparsam.__file__).parent / "_native.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def is_declared(node: ast.stmt) -> bool:
    """A function, or a pair of one with a declared type; aliases have no place in the module."""
    return isinstance(node, ast.FunctionDef) or (isinstance(node, ast.AnnAssign) and node.value is None)


def members(node: ast.ClassDef) -> set[str]:
    own = {entry.name for entry in node.body if isinstance(entry, ast.FunctionDef)}
    own |= {target.id for entry in node.body if isinstance(entry, ast.Assign) for target in entry.targets}
    own |= {entry.target.id for entry in node.body if isinstance(entry, ast.AnnAssign)}
    for base in node.bases:
        name = base.value.id if isinstance(base, ast.Subscript) else base.id
        own |= members(CLASSES[name]) if name in CLASSES else set()
    return {name for name in own if not name.startswith("__")}


def public(thing: object) -> set[str]:
    return {name for name in vars(thing) if not name.startswith("_")}


def test_the_same_names():
    functions = {getattr(node, "name", None) or node.target.id for node in STUB.body if is_declared(node)}
    assert functions | {name for name in CLASSES if not name.startswith("_")} == public(native)


@pytest.mark.parametrize("name", [name for name in CLASSES if not name.startswith("_")])
def test_the_same_members(name):
    kind = getattr(native, name)
    assert members(CLASSES[name]) == public(kind) - {"name", "value"}
