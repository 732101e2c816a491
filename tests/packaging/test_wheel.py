"""The wheel: what is in it, and that it runs in an empty environment without a compiler."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("scikit_build_core", "nanobind", "cmake", "ninja", "pip")
MISSING = [name for name in TOOLS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a wheel is built with {', '.join(MISSING)}")


def build(folder: Path) -> Path:
    """Built without the network, with the build folder of the installed package (nothing is compiled twice)."""
    tools = Path(importlib.util.find_spec("ninja").origin).parents[4] / "bin"  # type: ignore[union-attr, arg-type]
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder), "."]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl"))


def run(installed: Path, *arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Python that finds the unpacked wheel before anything else, with no compiler and nothing of the repository."""
    dependencies = {str(Path(importlib.util.find_spec(name).origin).parents[1]) for name in ("torch", "typer")}  # type: ignore
    places = os.pathsep.join([str(installed), *sorted(dependencies)])
    environment = {"PYTHONPATH": places, "PATH": "/nowhere", "HOME": str(cwd), "OMP_NUM_THREADS": "1"}
    # -S: no site-packages, so that the editable install of the repository is not found.
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, input=stdin, capture_output=True, text=True, timeout=300)


def has_all_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert wheel.stat().st_size < 10_000_000
    assert {"sparsam/py.typed", "sparsam/lab/viewer/page.html"} <= set(names)
    trained = {f"sparsam/trained/{file.name}" for file in (ROOT / "weights").iterdir()}
    assert len(trained) == 22 and trained <= set(names)
    for licence in ("LICENSE", "nanobind.txt", "robin-map.txt"):
        assert any(name.endswith(licence) and ".dist-info/licenses/" in name for name in names), licence
    assert any(re.fullmatch(r"sparsam/_native.*\.(so|pyd)", name) for name in names)
    strays = [name for name in names if not name.startswith(("sparsam/", "sparsam-"))]
    assert not strays
    if sys.version_info >= (3, 12):
        assert "-cp312-abi3-" in wheel.name


def runs_the_readme_without_a_compiler(installed: Path, place: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    check = "assert sparsam.__file__.startswith(sys.argv[1]), sparsam.__file__"
    done = run(installed, "-c", "\n".join(["import sys", *blocks, check]), str(installed), cwd=place)
    assert done.returncode == 0, done.stderr


def answers_in_an_empty_folder(installed: Path, place: Path) -> None:
    story = "Mary went to the kitchen.\nJohn went to the garden.\nWhere is Mary?\n"
    done = run(installed, "-m", "sparsam.lab.cli", "ask", "babi-sam", cwd=place, stdin=story)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Where is Mary? kitchen (")
    assert list(place.iterdir()) == []


def test_it_is_whole_and_runs_without_a_compiler(tmp_path: Path) -> None:
    """One test, since every worker of pytest-xdist that takes a part of it would build a wheel."""
    wheel, installed, place = build(tmp_path), tmp_path / "site", tmp_path / "empty"
    place.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    has_all_and_nothing_else(wheel)
    answers_in_an_empty_folder(installed, place)
    runs_the_readme_without_a_compiler(installed, place)


def test_source_distribution_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tarfile

    from scikit_build_core.build import build_sdist

    monkeypatch.chdir(ROOT)
    name = build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        inside = {entry.partition("/")[2] for entry in archive.getnames()}
    wanted = ["CMakeLists.txt", "LICENSE", "licenses/nanobind.txt", "csrc/core.cmake", "README.md", "tests/conftest.py",
              "weights/babi-sam.safetensors", "weights/sort-sam.safetensors", "src/sparsam/__init__.py"]  # fmt: skip
    assert [path for path in wanted if path not in inside] == []
    sources = {str(file.relative_to(ROOT)) for file in (ROOT / "csrc").rglob("*") if file.is_file()}
    assert sources <= inside
