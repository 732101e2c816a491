"""The programs and notebooks in examples/, in small."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

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


def test_popgym_ppo_learns():
    best = load("popgym_ppo").main(steps=32_768, env="cards")
    assert best > -0.2  # measured +0.08; chance is -0.5


def test_its_cards_are_popgyms():
    pytest.importorskip("popgym", reason='popgym is not installed: pip install "sparsam[guests]"')
    example = load("popgym_ppo")
    theirs, ours = example.Popgym(3, seed=0), example.Cards(3, seed=0)
    for _ in range(2):  # episodes
        ours.decks = torch.tensor([game.deck.suits_idx[game.deck.idx[::-1]].tolist() for game in theirs.games])
        for _ in range(51):
            assert torch.equal(ours.observe(), theirs.observe())
            action = torch.randint(4, (3,))
            (reward, done), (expected, ended) = ours.step(action), theirs.step(action)
            torch.testing.assert_close(reward, expected.float())
            assert torch.equal(done, ended)
        assert bool(done.all())


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


def notebook(name):
    nbformat = pytest.importorskip("nbformat", reason="notebooks are run with nbclient")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs"), "notebooks are kept without outputs"
        cell.source = re.sub(r"^STEPS = .*$", "STEPS = 5", cell.source, flags=re.MULTILINE)
    return notebook


def test_a_notebook_runs_in_a_kernel(tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="notebooks are run with nbclient")
    pytest.importorskip("ipykernel", reason="notebooks are run with ipykernel")
    client = nbclient.NotebookClient(notebook("look_inside"), timeout=120, kernel_name="python3")
    client.execute(cwd=str(tmp_path))


def test_a_notebook_runs_cell_by_cell():
    space = {}
    for cell in notebook("first_steps").cells:
        if cell.cell_type == "code":
            exec(cell.source, space)
    assert len(space["losses"]) == 5


def test_ddp_ends_cleanly_with_the_same_weights():
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(FOLDER / "ddp.py")], capture_output=True, text=True, timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the same weights everywhere: True" in done.stdout and "terminate called" not in done.stderr
