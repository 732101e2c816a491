"""The programs and notebooks in examples/, in small."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_model(capsys):
    assert 0 <= load("own_model").main(steps=5, pairs=3) <= 1
    assert "5 minibatches" in capsys.readouterr().out


def test_rl_with_resets_learns():
    assert load("rl_with_resets").main(updates=40, delay=1, piece=6) > 0.5  # measured 1.0; chance is 0


def test_serve_users():
    assert load("serve_users").main(users=6, requests=18) == 6


def test_own_data_lightning(tmp_path):
    pytest.importorskip("lightning", reason="Lightning is not installed; it is only needed for this example")
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    right = load("own_data_lightning").main(epochs=1, lines=64, default_root_dir=tmp_path, **quiet)
    assert 0 <= right <= 1


@pytest.mark.parametrize("name", ["first_steps", "look_inside"])
def test_notebook(name, tmp_path):
    nbformat = pytest.importorskip("nbformat", reason="notebooks are run with nbclient")
    nbclient = pytest.importorskip("nbclient", reason="notebooks are run with nbclient")
    pytest.importorskip("ipykernel", reason="notebooks are run with ipykernel")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs"), "notebooks are kept without outputs"
        cell.source = re.sub(r"^STEPS = .*$", "STEPS = 5", cell.source, flags=re.MULTILINE)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(tmp_path))
