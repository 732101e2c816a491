"""Lists of names are filled where the things are defined."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import BENCHMARKS
from sparsam import controllers, engines, indexes, tasks
from sparsam.experiments import RECIPES
from sparsam.memories.allocation import ALLOCATIONS
from sparsam.models import MODELS
from sparsam.registry import Registry

SOURCE = Path(indexes.__file__).parent


def module_file(thing):
    return Path(sys.modules[getattr(thing, "__module__", None) or type(thing).__module__].__file__)


def registered():
    yield from ((name, kind) for name, kind in tasks.TASKS.items())
    yield from ((name.replace("-", "_"), recipe) for name, recipe in RECIPES.items())
    yield from ((name, found.run) for name, found in BENCHMARKS.items())
    for filled in (MODELS, engines.ENGINES, indexes.NAMES, controllers.KINDS, ALLOCATIONS):
        yield from filled.items()


@pytest.mark.parametrize("name,thing", list(registered()), ids=lambda value: value if isinstance(value, str) else "")
def test_its_name_is_written_where_it_is_defined(name, thing):
    assert name in module_file(thing).read_text() or name == module_file(thing).stem


@pytest.mark.parametrize("name", ["recall", "word_problem"])
def test_one_name_imports_one_module(name):
    program = (
        f"import sys; from sparsam.tasks import task_class; task_class({name!r}); print('babi' in str(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "False"


def test_a_new_module_is_found_by_its_name(tmp_path, monkeypatch):
    package = tmp_path / "toolbox"
    package.mkdir()
    (package / "__init__.py").write_text("from sparsam.registry import Registry\nTOOLS = Registry('toolbox')\n")
    (package / "flat_file.py").write_text(
        "from toolbox import TOOLS\nTOOLS.add('flat-file', 1)\nTOOLS.add('rasp', 2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import toolbox

    tools: Registry[int] = toolbox.TOOLS
    assert tools["flat-file"] == 1 and not tools.complete  # the module that is called like it
    tools.known.clear()
    sys.modules.pop("toolbox.flat_file")
    assert tools["rasp"] == 2 and sorted(tools) == ["flat-file", "rasp"] and len(tools) == 2
    with pytest.raises(ValueError, match=r"tool: expected one of 'flat-file', 'rasp', got 'rap'; did you mean 'rasp'"):
        tools.find("tool", "rap")
    with pytest.raises(ValueError, match="tool: expected one of"):
        tools.find("tool", 3)
    assert "not an identifier" not in tools


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
