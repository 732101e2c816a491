"""Tables of names: closed, complete, and importing one module for one name."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks
import sparsam
from benchmarks import BENCHMARKS
from sparsam.lab import tasks
from sparsam.lab.recipes import RECIPES
from sparsam.lab.registry import Registry

PACKAGE = Path(sparsam.__file__).parent
TABLES = {
    "task": (tasks.TASKS, PACKAGE / "lab" / "tasks", "register"),
    "recipe": (RECIPES, PACKAGE / "lab" / "recipes", "register"),
    "benchmark": (BENCHMARKS, Path(benchmarks.__file__).parent, "benchmark"),
}


def decorated(file: Path, name: str) -> bool:
    """Whether something in this file is decorated with `name` or `name(...)`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for decorator in getattr(node, "decorator_list", []):
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(called, ast.Name) and called.id == name:
                return True
    return False


@pytest.mark.parametrize("table", TABLES)
def test_every_name_is_registered_by_its_module_and_every_module_is_listed(table):
    registry, folder, decorator = TABLES[table]
    for name in registry.modules:
        assert registry[name] is registry.known[name]
    listed = {Path(sys.modules[module].__file__) for module in registry.modules.values()}
    assert listed == {file for file in folder.rglob("*.py") if decorated(file, decorator)}


def test_a_list_of_names_imports_nothing_and_one_name_one_module():
    program = (
        "import sys; from sparsam.lab.tasks import TASKS; before = set(sys.modules); assert 'babi' in list(TASKS); "
        "print(set(sys.modules) - before); TASKS['recall']; "
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('sparsam')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["set()", "['sparsam.lab.tasks.bits', 'sparsam.lab.tasks.bits.recall']"]


def test_a_wrong_name_is_told_the_nearest():
    tools: Registry[int] = Registry({"flat-file": "nowhere"})
    tools.add("rasp", 2)
    assert list(tools) == ["flat-file", "rasp"] and len(tools) == 2 and "flat-file" in tools and "file" not in tools
    with pytest.raises(ValueError, match=r"tool: expected one of 'flat-file', 'rasp', got 'rap'; did you mean 'rasp'"):
        tools.find("tool", "rap")
    with pytest.raises(ValueError, match="tool: expected one of"):
        tools.find("tool", 3)
    with pytest.raises(KeyError):
        tools["file"]


def test_a_task_of_ones_own_is_known_once_it_is_registered(monkeypatch):
    monkeypatch.setattr(tasks.TASKS, "known", dict(tasks.TASKS.known))

    @tasks.register
    class Parity(tasks.BitTask):
        name = "parity"

        def __init__(self, size: int = 3) -> None:
            self.size = size

    assert tasks.build("parity", size=5).size == 5
    with pytest.raises(ValueError, match=r"task: expected one of .*'parity'.*did you mean 'parity'"):
        tasks.build("parit")
