"""The GPU engine: what it refuses, and its cases in a process of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import sparsam
from sparsam import engines
from sparsam.engines import cuda

SIZES = dict(input_size=3, output_size=2, hidden_size=6, memory_size=14, word_size=5, num_heads=2, k=2)


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton, which runs the kernels, is not installed"
)
@pytest.mark.parametrize("cases", [
    "sequence_cases.py streaming_cases.py",
    "program_cases.py search_cases.py",
    "dense/program_cases.py",
    "controller_cases.py",
    "compile_cases.py",
])  # fmt: skip
def test_cases_by_interpreter_or_gpu(cases):
    environment = os.environ | ({} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"})
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [str(Path(__file__).parent / file) for file in cases.split()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout and "skipped" not in done.stdout


@pytest.mark.parametrize("version", ["3.3.1", "3.4.0+git12", "3.10.0"])
def test_it_says_which_triton_it_needs(monkeypatch, version):
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__=version, __spec__="there"))
    old = "it needs Triton 3.4 or later, which torch 2.8 comes with, got Triton 3.3.1"
    assert cuda.why_no_triton.__wrapped__() == (old if version == "3.3.1" else None)


def test_it_asks_for_a_gpu():
    model = sparsam.build("sam", engine="cuda", **SIZES)
    with pytest.raises(RuntimeError, match="runs on a GPU, the parameters are on cpu"):
        model(torch.zeros(1, 1, 3))
    assert "runs on a GPU" in engines.why_not("cuda", sparsam.build("ntm", input_size=3, output_size=2))
