"""`sparsam info`, `--version` and `python -m sparsam.lab.cli`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("typer", reason="the command line needs typer")
import torch

import sparsam
import sparsam.lab.cli.info as info
from tests.lab.cli.conftest import run


def test_tells_versions_engines_and_what_was_found(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARSAM_DATA", str(tmp_path))
    assert not run("info", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["versions"]["sparsam"] == sparsam.__version__
    assert found["engines"]["reference"] == "runs on the CPU"
    assert found["engines"]["cuda"].startswith(("runs on the GPU", "does not run: "))
    assert found["machine"]["instruction set"]
    assert set(found["data"]) == {"babi", "omniglot"}
    assert "20 bAbI tasks" in found["weights"]["babi-sam"]
    assert not run("info")
    assert "instruction set" in capsys.readouterr().out


def test_says_where_threads_pay(monkeypatch):
    monkeypatch.setattr(info, "cores", lambda: 2)
    for threads, said in ((1, "one thread"), (2, "with batches of 2 or more"), (3, "torch.set_num_threads(2)")):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=threads: count)
        assert said in info.collect()["machine"]["threads pay"]


def test_shows_a_model_card(capsys):
    assert not run("info", "babi-sam")
    out = capsys.readouterr().out
    assert out.startswith("# babi-sam") and "babi-sam.safetensors" in out
    assert run("info", "no-such-thing") == 2
    assert "expected the name of weights" in capsys.readouterr().err


def test_version(capsys):
    assert not run("--version")
    assert capsys.readouterr().out == f"sparsam {sparsam.__version__}\n"
    done = subprocess.run(
        [sys.executable, "-m", "sparsam.lab.cli", "--version"], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == f"sparsam {sparsam.__version__}\n"


def test_without_the_extra_one_line_says_what_to_install():
    program = "import sys; sys.modules['typer'] = None; from sparsam.lab.cli import main; main(['info'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stdout == ""
    wanted = 'sparsam: the command line needs the lab extra: pip install ".[lab]" in a checkout (typer is missing)\n'
    assert done.stderr == wanted


def test_weights_by_name_stand_behind_runs(tmp_path):
    from sparsam.lab.cli.runs import find_run

    assert find_run("copy-sam").name == "copy-sam.safetensors"
    run = tmp_path / "runs" / "copy-sam-0"
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    assert find_run("copy-sam").name == "copy-sam-0"
    with pytest.raises(FileNotFoundError, match="no-such holds no run"):
        find_run("no-such")
