"""What `import sparsam` does to a process: nothing that its user did not ask for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
import torch, numpy, gc
modules, variables = set(sys.modules), dict(os.environ)
import sparsam
assert gc.isenabled()
assert sum(name.startswith("sparsam") for name in sys.modules) <= 70
loaded = set(sys.modules) - modules
unasked = ("matplotlib", "typer", "rich", "tensorboard", "PIL", "triton")
heavy = [name for name in loaded if name.split(".")[0] in unasked]
heavy += [name for name in loaded if name.startswith("torch._dynamo")]
print(sorted(heavy)[:5], sorted(set(os.environ.items()) ^ set(variables.items())))
"""


def test_leaves_the_process_and_the_disk_alone(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("SPARSAM_CACHE", None)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] []"
    assert list(tmp_path.iterdir()) == []


TRAINING = """
import sys
from sparsam.lab.cli import main
try:
    main(["train", "copy", "--steps", "1", "--hidden-size", "8", "--memory-size", "16", "-q", "--out", "run",
          "--set", "tensorboard=false", "--set", "eval_batches=1", "--set", "task.settings.max_size=2"])
except SystemExit as ended:
    assert not ended.code
loaded = sorted(name for name in sys.modules if name.startswith("sparsam"))
others = ("babi", "omniglot", "tokens", "recipes", "plots", "engines.cuda.program", "native.operators")
print(len(loaded), [name for name in loaded if any(other in name for other in others)])
"""


def test_a_run_loads_what_it_uses(tmp_path: Path) -> None:
    """The modules of sparsam after `sparsam train copy`."""
    command = [sys.executable, "-c", TRAINING]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    number, others = done.stdout.splitlines()[-1].split(" ", 1)
    assert int(number) <= 120 and others == "[]"
