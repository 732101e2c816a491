"""One process at a time in a run's folder; whoever is refused is told who holds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparsam.lab.training.lock import NAME, Locked, RunLock

HOLD = """
import sys
from pathlib import Path
from sparsam.lab.training.lock import RunLock
RunLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_the_second_is_refused_by_the_name_of_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with pytest.raises(Locked, match=rf"in use by process {holder.pid} on .*"):
        RunLock(tmp_path).acquire()
    holder.kill()  # a crash gives it back
    holder.wait()
    with RunLock(tmp_path):
        assert str(os.getpid()) in (tmp_path / NAME).read_text()


def test_it_can_be_taken_again_and_leaves_nothing_when_told_to(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    for remove in (False, True):
        lock.acquire()
        with pytest.raises(Locked):
            RunLock(tmp_path).acquire()
        lock.release(remove=remove)
    assert list(tmp_path.iterdir()) == []
    lock.release()  # once more is no harm


def test_a_file_that_says_nothing_useful_still_locks(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        (tmp_path / NAME).write_text("[")
        with pytest.raises(Locked, match="another process"):
            RunLock(tmp_path).acquire()
