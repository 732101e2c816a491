"""README.md: its Python runs as it stands, and so does every line of its shell blocks, the long ones in small."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from sparsam.lab.data.babi import open_babi
from sparsam.lab.data.locate import MissingData

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")

# What is added to a line so that it takes seconds; None for a line that is run as it is.
IN_SMALL = {
    "sparsam train": "-q --memory-size 32 --hidden-size 16 --steps 6 --set eval_every=3 --set eval_batches=1 "
    "--set log_every=2 --set tensorboard=false --set task.settings.max_size=3",
    "sparsam eval": "--batches 1",
    "sparsam reproduce": "--list",
    "sparsam bench": "--help",
}


def shell_lines() -> list[str]:
    """The commands of the indented blocks, without their remarks."""
    lines = re.findall(r"^    ((?:sparsam|pip|make) .*)$", TEXT, flags=re.MULTILINE)
    return [line.partition("  #")[0].strip() for line in lines]


def test_python_runs(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert blocks, "README.md has no Python example"
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, str(README), "exec"), {"__name__": "readme"})


def test_shell_lines_run(tmp_path, monkeypatch, capsys):
    """In order and in one folder, as a reader would: what one line leaves the next one uses."""
    pytest.importorskip("matplotlib", reason="training and pictures need the lab extra")
    from sparsam.lab.cli import main

    monkeypatch.chdir(tmp_path)
    lines = [line for line in shell_lines() if line.startswith("sparsam ")]
    assert len(lines) >= 8
    for line in lines:
        words = shlex.split(line)[1:]
        extra = IN_SMALL.get(" ".join(["sparsam", words[0]]), "")
        if words[:2] == ["data", "babi"]:
            try:
                open_babi()
            except MissingData:
                extra = "--help"
        monkeypatch.setattr("sys.stdin", io.StringIO("Mary went to the kitchen.\nWhere is Mary?\n"))
        with pytest.raises(SystemExit) as ended:
            main([*words, *shlex.split(extra)])
        assert not ended.value.code, f"{line}: {capsys.readouterr().err}"
    assert "Where is Mary? kitchen" in capsys.readouterr().out
    assert (tmp_path / "babi-sam.html").exists() and (tmp_path / "runs" / "copy-sam-0" / "view.html").exists()


def test_other_lines_exist():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for line in shell_lines():
        if line.startswith("pip "):
            for extra in re.findall(r"\[(\w+)\]", line):
                assert f"\n{extra} = [" in project, line
        elif line.startswith("make ") and shutil.which("make"):
            done = subprocess.run(["make", "-n", line.split()[1]], cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / target).exists(), target
