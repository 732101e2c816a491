"""Two processes under torchrun take every step together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsam.lab.training.distributed import LostProcess, Processes
from sparsam.lab.training.folder import RunFolder

SCRIPT = """
import os, sys
import torch
from sparsam.lab.training import RunConfig, train
from sparsam.lab.training.learner import Learner
import sparsam.lab.training.open_run as opening
config = RunConfig.load(sys.argv[1])
made = []
class Kept(Learner):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        made.append(self)
opening.Learner = Kept
train(config, sys.argv[2], quiet=True)
torch.save(made[0].flat.parameters, f"{sys.argv[2]}/rank{os.environ['RANK']}.pt")
"""


def test_two_processes_agree_and_learn(tiny: Any, tmp_path: Path) -> None:
    """That they resume to the same bits is `faults/scenarios.py torchrun`."""
    config = tiny("optimizer.learning_rate=0.01", "curriculum.threshold=0.72", "curriculum.patience=5")
    folder = tmp_path / "run"
    (tmp_path / "config.json").write_text(config.to_json())
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
               str(tmp_path / "script.py"), str(tmp_path / "config.json"), str(folder)]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (torch.load(folder / f"rank{rank}.pt") for rank in (0, 1))
    assert torch.equal(first, second)
    assert RunFolder(folder).events("level")
    assert RunFolder(folder).events("train")[-1]["sequences"] == 30 * 4 * 2  # of both processes


def test_a_process_that_finds_nobody_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:  # a port that nobody listens on
        taken.bind(("127.0.0.1", 0))
        given = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        for name, value in {**given, "TORCHELASTIC_USE_AGENT_STORE": "True"}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(LostProcess, match="did not find each other"):
            Processes.from_environment("cpu", wait_seconds=1.0)


def test_the_two_processes_see_different_minibatches(tiny: Any) -> None:
    from sparsam.lab.training.learner import Learner

    config = tiny()
    gradients = []
    for rank in (0, 1):
        learner = Learner(config, rank)
        learner.gradient(0, None)
        gradients.append(learner.flat.gradients.clone())
    assert not torch.equal(*gradients)
