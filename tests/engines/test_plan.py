"""The plan of a model: kept while nothing changes, made anew when something does, and cheap to ask."""

from __future__ import annotations

import copy
import io
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

import sparsam
from sparsam import engines

PACKAGE = str(Path(sparsam.__file__).parent)

pytestmark = pytest.mark.skipif(
    engines.why_not("native", sparsam.SAM(3, 2)) is not None, reason="the native engine is not built here"
)


def model_of(**settings: Any) -> Any:
    torch.manual_seed(0)
    return sparsam.SAM(3, 2, 6, memory_size=20, word_size=4, num_heads=2, k=2, **settings)


def calls_of(run: Callable[[], Any]) -> list[tuple[str, str, str]]:
    """The Python functions of the package that `run` calls: file, name, and the file that they are called from."""
    found = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            caller = frame.f_back.f_code.co_filename if frame.f_back else ""
            found.append((frame.f_code.co_filename, frame.f_code.co_name, caller))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def warm_call(gradients: bool, continued: bool) -> list[tuple[str, str, str]]:
    model, x = model_of(), torch.randn(10, 4, 3)
    with torch.set_grad_enabled(gradients):
        state = model(x)[1].detach() if continued else None
        model(x, state)
        return calls_of(lambda: model(x, state))


def test_a_warm_call_of_sam_makes_few_calls() -> None:
    """In a process of its own: what else is loaded, such as torch's compiler, adds calls that are not ours to count."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 4  # with and without gradients, from a fresh state and from a used one
    for calls in found:
        assert 0 < len(calls) <= 40
        assert len({file for file, _, _ in calls}) <= 8
        models = [str(Path(PACKAGE, name)) for name in ("models", "layer.py", "controllers")]
        upward = [name for file, name, caller in calls if "/engines/" in caller and file.startswith(tuple(models))]
        assert not upward


def test_a_step_of_an_own_controller_calls_no_model_from_an_engine() -> None:
    model, x = model_of(controller=nn.Linear(3 + 8, 6)), torch.randn(2, 1, 3)
    model(x)
    calls = calls_of(lambda: model(x))
    assert not [name for file, name, caller in calls if "/engines/" in caller and "/models/" in file]


def test_the_plan_is_kept() -> None:
    model, x = model_of(), torch.randn(2, 2, 3)
    plan = model.plan
    model(x)
    model.eval()
    with torch.no_grad():
        model(x, model(x)[1])
    model.load_state_dict(model.state_dict())
    repr(model)
    assert model.plan is plan and str(plan) == model.engine_plan == "native"


def hook(model: Any) -> None:
    model.interface.register_forward_hook(lambda module, args, out: out)


def own_forward(model: Any) -> None:
    model.controller.forward = model.controller.forward


def replaced(model: Any) -> None:
    model.controller = nn.GRU(3 + 8, 6)


def no_bias(model: Any) -> None:
    model.interface.bias = None


def own_answer(model: Any) -> None:
    model.answer = model.output


def weight_norm(model: Any) -> None:
    parametrizations.weight_norm(model.output)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "hook": hook,
    "own forward": own_forward,
    "controller": replaced,
    "no bias": no_bias,
    "own answer": own_answer,
    "parametrization": weight_norm,
    "dtype": lambda model: model.double(),
    "setting": lambda model: setattr(model, "k", 1),
    "index": lambda model: setattr(model, "index", "kdtree"),
    "engine": lambda model: setattr(model, "engine", "reference"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_makes_a_new_plan(change: str) -> None:
    model = model_of()
    before = model.plan
    CHANGES[change](model)
    assert model.plan is not before
    assert model.plan is model.plan
    fresh = model_of()
    CHANGES[change](fresh)
    assert str(model.plan) == str(fresh.plan) and model.plan.answers == fresh.plan.answers
    assert model.index_used == fresh.index_used


def test_hooks_of_all_modules_and_autocast_make_a_new_plan() -> None:
    model = model_of()
    before = model.plan
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: None)
    try:
        assert "hooks" in str(model.plan)
    finally:
        handle.remove()
    with torch.autocast("cpu", torch.bfloat16):
        assert model.plan is not before and not model.plan.answers
    assert model.plan.answers


def test_a_new_engine_is_asked() -> None:
    class Mine(type(engines.ENGINES["reference"])):  # type: ignore[misc]
        name = "mine"
        rank = 9

    model = model_of()
    assert model.engine_used == "native"
    try:
        engines.register(Mine())
        assert model.engine_used == "mine"
    finally:
        del engines.ENGINES["mine"]
        engines.register(engines.ENGINES["reference"])
    assert model.engine_used == "native"


def test_copies_make_plans_of_their_own() -> None:
    model, x = model_of(), torch.randn(2, 2, 3)
    y, _ = model(x)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert "_plan" not in vars(other)
        assert torch.equal(other(x)[0], y) and other.plan is not model.plan


def test_swapped_parameters_are_read() -> None:
    """`torch.func.functional_call` puts other tensors in the place of parameters."""
    model, x = model_of(), torch.randn(2, 2, 3)
    model(x)
    doubled = {name: 2 * value.detach() for name, value in model.named_parameters()}
    y, _ = torch.func.functional_call(model, doubled, (x,))
    other = model_of()
    other.load_state_dict(doubled)
    assert torch.equal(y, other(x)[0])


if __name__ == "__main__":
    print(json.dumps([warm_call(*case) for case in itertools.product([True, False], repeat=2)]))
