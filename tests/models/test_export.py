"""`torch.export` of models with a memory: saved, loaded and run to the same numbers, the state in and out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

import sparsam
from tests.models.test_compile import MODELS

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def saved_and_loaded(program, path):
    torch.export.save(program, path)
    return torch.export.load(path).module()


@pytest.mark.parametrize(
    ("name", "engine"),
    [("sam", "native"), ("sdnc", "native"), ("layer with links", "native"), ("sam", "reference"), ("dnc", "auto")],
)
def test_a_program_runs_step_by_step_to_the_same_numbers(name, engine, tmp_path):
    model = (MODELS[name](engine=engine) if name in MODELS else sparsam.build(name, input_size=4, output_size=3)).eval()
    start = model.initial_state(2)
    program = saved_and_loaded(torch.export.export(model, (torch.randn(1, 2, 4), start)), tmp_path / "program.pt2")
    ours = theirs = start
    for x in torch.randn(4, 1, 2, 4):
        expected, ours = model(x, ours)
        y, theirs = program(x, theirs)
        torch.testing.assert_close(y, expected)
    assert type(theirs) is type(ours)
    again, _ = model(x, theirs.reset(torch.tensor([True, False])))  # what it returns is a state like any other
    torch.testing.assert_close(again, model(x, ours.reset(torch.tensor([True, False])))[0])


@pytest.mark.parametrize("name", ["sam", "sdnc"])
def test_lengths_and_batches_are_dynamic(name, tmp_path):
    class Tagger(torch.nn.Module):
        """A user's model that contains one."""

        def __init__(self):
            super().__init__()
            self.memory = MODELS[name](engine="native")

        def forward(self, x, state):
            y, after = self.memory(x, state)
            return torch.softmax(y, -1), after

    model = Tagger().eval()
    state = model.memory.initial_state(3)
    shapes = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, sparsam.pytrees.dynamic_batch(state))
    exported = torch.export.export(model, (torch.randn(5, 3, 4), state), dynamic_shapes=shapes)
    program = saved_and_loaded(exported, tmp_path / "program.pt2")
    for steps, batch in ((5, 3), (2, 7)):
        x = torch.randn(steps, batch, 4)
        y, after = program(x, model.memory.initial_state(batch))
        torch.testing.assert_close(y, model(x, None)[0])
        torch.testing.assert_close(program(x, after)[0], model(x, after)[0])


def test_an_exported_program_still_learns():
    model = MODELS["sam"](engine="native")
    x = torch.randn(4, 2, 4)
    program = torch.export.export(model, (x,)).module()
    ours = torch.autograd.grad(model(x)[0].sum(), list(model.parameters()))
    theirs = torch.autograd.grad(program(x)[0].sum(), list(program.parameters()))
    by_shape = sorted(ours, key=lambda g: (g.shape, float(g.sum())))
    for a, b in zip(by_shape, sorted(theirs, key=lambda g: (g.shape, float(g.sum())))):
        torch.testing.assert_close(a, b)


def test_leaves_of_a_state_are_distinct_tensors():
    """h, c and the start of a fresh state are one tensor; a program that took them for one would be wrong."""
    for model in (MODELS["sam"](engine="native"), MODELS["sdnc"](engine="reference"), sparsam.DNC(2, 2, 3)):
        state = model.initial_state(2)
        leaves, spec = pytree.tree_flatten(state)
        assert len({id(leaf) for leaf in leaves}) == len(leaves)
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
        again = pytree.tree_unflatten(leaves, spec)
        x = torch.randn(2, 2, model.input_size)
        torch.testing.assert_close(model(x, again)[0], model(x, state)[0])


def test_the_example(tmp_path):
    command = [sys.executable, ROOT / "examples" / "compile_export.py", "--words", "2000", "--steps", "3"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout
    assert "served 3 steps" in found
    assert float(found.split()[-1]) < 1e-5


def test_another_process_serves_what_was_saved(tmp_path):
    model = MODELS["sdnc"](engine="native").eval()
    x = torch.randn(1, 2, 4)
    _, state = model(x)
    state = state.detach()
    torch.export.save(torch.export.export(model, (x, state)), tmp_path / "program.pt2")
    torch.save((x, state), tmp_path / "given.pt")
    code = (
        "import sys, torch, sparsam; at = sys.argv[1]; x, state = torch.load(at + '/given.pt');"
        "program = torch.export.load(at + '/program.pt2').module();"
        "y, state = program(x, state); y, state = program(x, state); torch.save(y.detach(), at + '/y.pt')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=600)
    _, state = model(x, state)
    torch.testing.assert_close(torch.load(tmp_path / "y.pt"), model(x, state)[0].detach())
