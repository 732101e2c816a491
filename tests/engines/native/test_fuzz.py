"""Malformed direct calls of `_native`: each an exception that names the argument, never a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import sparsam
from sparsam.engines.native.core import native

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not built here")

CASES = 2000
PROGRAM = Path(__file__).parent / "fuzz.py"


def test_malformed_calls_raise_and_never_crash():
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "0", str(CASES)], capture_output=True, text=True, timeout=300, check=False
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}: exit code {done.returncode}\n{done.stderr[-2000:]}"
    refused = int(lines[-1].removeprefix("refused "))
    assert refused >= 1500  # what is spoiled can be good by chance


def forward(**changes):
    sizes = native.Sizes(8, 3, 2, 2, native.Similarity.cosine, 0.005)
    arguments = {
        "sizes": sizes,
        "memory": "sam",
        "controller": "none",
        "hidden": 0,
        "x": np.zeros((3, 2, sizes.interface_size)),
        **dict.fromkeys(["w_ih", "w_hh", "b_ih", "b_hh", "w_interface", "b_interface", "h0", "c0", "lengths"]),
        "read0": np.zeros((2, 2, 3)),
        "rows0": np.full((2, 2, 2), -1),
        "weights0": np.zeros((2, 2, 2)),
        "versions": [native.Version64.fresh(sizes) for _ in range(2)],
        "record": True,
        "trace": False,
        "threads": 1,
    }
    return native.forward64(**arguments | changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 3),
        ("x", np.zeros((3, 2, 5))),
        ("x", np.zeros((3, 2, 18), np.float32)),
        ("w_ih", np.zeros(3)),
        ("h0", np.zeros((2, 3))),
        ("c0", np.zeros((2, 3))),
        ("read0", np.zeros((2, 3, 2))),
        ("rows0", np.full((2, 2, 2), 8)),
        ("rows0", np.full((2, 2, 2), -2)),
        ("rows0", np.full((2, 2, 2), -1, np.int32)),
        ("weights0", np.zeros((2, 2, 2))[..., ::-1]),
        ("lengths", np.array([4, 0])),
        ("lengths", np.array([-1, 0])),
        ("lengths", np.array([1])),
        ("versions", []),
        ("versions", [0, None]),
        ("threads", 0),
    ],
)
def test_the_error_names_the_argument(name, value):
    forward()
    with pytest.raises(ValueError, match=name):
        forward(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", 0),
        ("rows", 2**31),
        ("width", 0),
        ("heads", 9),
        ("heads", 0),
        ("k", 9),
        ("k_links", -1),
        ("delta", -1.0),
    ],
)
def test_sizes_name_what_is_wrong(name, value):
    good = {"rows": 8, "width": 3, "heads": 2, "k": 2, "similarity": native.Similarity.dot, "delta": 0.1}
    with pytest.raises(ValueError, match=name):
        native.Sizes(**good | {name: value})
    for flag in ("link_gradients", "free_usage"):
        with pytest.raises(ValueError, match=flag):
            native.Sizes(**good, **{flag: True})


def test_a_tensor_without_numbers_is_refused():
    """A fake tensor says that it is on the CPU and has nothing there."""
    model = sparsam.SAM(3, 2, hidden_size=4, memory_size=9, engine="native")
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises((ValueError, TypeError, RuntimeError)):
        model(torch.zeros(2, 2, 3))
