"""The command line end to end, in a temporary folder."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab.cli.conftest import run

SMALL = ["--hidden-size", "16", "--steps", "12", "--set", "eval_every=4", "--set", "log_every=2",
         "--set", "eval_batches=1", "--set", "tensorboard=false", "--set", "task.settings.max_size=3"]  # fmt: skip


def test_train_eval_plot_resume(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "copy", "--model", "sam", "--memory-size", "32", "--out", "r", *SMALL) == 0
    assert "ended (steps) after 12 minibatches" in capsys.readouterr().out
    assert json.loads(Path("r/config.json").read_text())["model"]["memory_size"] == 32
    assert run("train", "--resume", "r", "--steps", "16", "-q") == 0
    assert "16 minibatches" in capsys.readouterr().out
    assert run("eval", "r", "--size", "2", "--size", "5", "--batches", "1", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["size"] for row in rows] == [2, 5] and rows[1]["chance"] == 15
    assert run("eval", "r", "--size", "5", "--batches", "1", "--json", "--set", "model.index=kdtree") == 0
    assert json.loads(capsys.readouterr().out)["size"] == 5
    assert run("eval", "r", "--below", "0.0", "--batches", "1") == 1
    assert run("eval", "r", "--below", "1000", "--batches", "1", "--memory-size", "64") == 0
    weights = next(Path("r/checkpoints").glob("*16/model.safetensors"))
    assert run("eval", str(weights), "--batches", "1") == 0
    assert run("plot", "r", "--against", "seconds") == 0
    assert all((Path("r") / name).stat().st_size > 1000 for name in ("curves.png", "memory.png", "report.html"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "cpoy"], "did you mean 'copy'"),
        (["train", "copy", "--model", "sma"], "did you mean 'sam'"),
        (["train", "copy", "--set", "model.memory_sise=3"], "did you mean 'memory_size'"),
        (["train", "copy", "--steps", "0"], "steps: expected at least 1"),
        (["train", "--resume", "nowhere"], "nowhere holds no run"),
        (["train"], "expected a task"),
        (["train", "copy", "--steps", "many"], "--steps"),
        (["eval", "nowhere"], "nowhere"),
        (["plot", "nowhere"], "nowhere"),
        (["reproduce", "figure2", "--collect", "--out", "nowhere"], "nowhere holds no run of figure2 that has ended"),
        (["reproduce", "figure22"], "did you mean 'figure2'"),
        (["reproduce", "figure2", "--model", "sam"], "no task or model named 'sam'"),
        (["trian"], "Did you mean 'train'"),
    ],
)
def test_wrong_arguments_end_with_code_two_and_say_why(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not Path("runs").exists()


def test_an_existing_run_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("train", "copy", "--model", "lstm", "--out", "r", "-q", *SMALL) == 0
    assert run("train", "copy", "--model", "lstm", "--out", "r", "-q", *SMALL) == 2
    assert "resume it" in capsys.readouterr().err


def test_reproduce_a_shrunken_figure(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["reproduce", "figure2", "--seeds", "2", "--task", "copy", "--model", "lstm", "--steps", "6", "-q",
                 "--set", "model.hidden_size=8", "--set", "eval_every=3", "--set", "eval_batches=1",
                 "--set", "tensorboard=false"]  # fmt: skip
    assert run(*arguments) == 0
    assert "| copy-lstm-1 |" in capsys.readouterr().out
    assert Path("runs/figure2/summary.json").exists() and Path("runs/figure2/copy.png").exists()


def test_help_reads_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("train", "eval", "plot", "reproduce", "demo"))
    assert run("train", "--help") == 0
    assert "--resume" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_saves_and_ends_with_its_code(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "sparsam.lab.cli", "train", "copy", "--model", "lstm", "--out", "r", *SMALL,
               "--steps", "1000000", "--set", "eval_every=1000000", "--set", "checkpoint_every=1000000"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    log = tmp_path / "r" / "log.jsonl"
    while process.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.05)
    process.send_signal(sent)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert "sparsam train --resume r" in output
    assert len(list((tmp_path / "r" / "checkpoints").iterdir())) == 1


@pytest.mark.parametrize(
    "words",
    [
        "",
        "train",
        "eval",
        "plot",
        "reproduce",
        "demo",
        "ask",
        "view",
        "info",
        "bench",
        "bench ann",
        "data",
        "data babi",
    ],
)
def test_help_shows_no_python_types(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(*words.split(), "--help")
    shown = capsys.readouterr().out
    assert not re.search(r"<\w+[\[\]\w ]*>|list\[|inf\b", shown)
    assert not words or "Example" in shown
