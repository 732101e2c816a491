"""RMSProp in two passes is torch's RMSprop; the rate falls above a level; passing over a minibatch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from sparsam.lab.training.config import OptimizerConfig
from sparsam.lab.training.learner import Learner, NonFiniteLoss
from sparsam.lab.training.optimizer import RMSProp, build_optimizer, learning_rate


def descend(optimizer: torch.optim.Optimizer, parameter: torch.Tensor, steps: range) -> torch.Tensor:
    for step in steps:
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(step))
        optimizer.step()
    return parameter


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_is_torchs_and_takes_over_its_statistics(momentum: float) -> None:
    start = torch.randn(1000, generator=torch.Generator().manual_seed(7))
    ours, theirs = start.clone(), start.clone()
    config = OptimizerConfig("rmsprop", learning_rate=1e-2, decay=0.9, momentum=momentum, epsilon=1e-6)
    first = build_optimizer(config, ours)
    assert isinstance(first, RMSProp)
    second = torch.optim.RMSprop([theirs], lr=1e-2, alpha=0.9, momentum=momentum, eps=1e-6)
    torch.testing.assert_close(descend(first, ours, range(30)), descend(second, theirs, range(30)))
    third = build_optimizer(config, ours)
    third.load_state_dict(copy.deepcopy(second.state_dict()) | {"param_groups": third.state_dict()["param_groups"]})
    torch.testing.assert_close(descend(third, ours, range(30, 40)), descend(second, theirs, range(30, 40)))
    assert not torch.allclose(ours, start, atol=0.01)


@pytest.mark.parametrize("name", ["rmsprop", "adam"])
@pytest.mark.parametrize("clip", [0.0, 0.5, 1e6])
def test_a_step_is_clipping_and_torchs_optimizer(name: str, clip: float, tiny: Any) -> None:
    learner = Learner(tiny(f"optimizer.name={name}", f"optimizer.clip={clip}", "optimizer.momentum=0.9"))
    settings = learner.config.optimizer
    theirs = learner.flat.parameters.detach().clone().requires_grad_()
    if name == "adam":
        torchs: torch.optim.Optimizer = torch.optim.Adam(
            [theirs], settings.learning_rate, (settings.momentum, settings.beta2), settings.epsilon
        )
    else:
        torchs = torch.optim.RMSprop(
            [theirs], settings.learning_rate, settings.decay, settings.epsilon, momentum=settings.momentum
        )
    for step in range(8):
        loss = learner.gradient(step, None)
        theirs.grad = learner.flat.gradients.clone()
        norm = torch.nn.utils.clip_grad_norm_([theirs], clip) if clip else torch.linalg.vector_norm(theirs.grad)
        assert learner.apply(step, loss) == pytest.approx(float(norm), rel=1e-5)
        torchs.step()
        torch.testing.assert_close(learner.flat.parameters.detach(), theirs.detach())


def test_the_rate_falls_with_the_root_of_the_level() -> None:
    config = OptimizerConfig(learning_rate=1e-3, full_rate_level=1024, warmup=10)
    assert [learning_rate(config, 50, 100, level) for level in (None, 8, 1024)] == [1e-3] * 3
    assert learning_rate(config, 50, 100, 4096) == pytest.approx(5e-4)
    assert learning_rate(config, 4, 100, 4096) == pytest.approx(2.5e-4)
    assert learning_rate(OptimizerConfig(learning_rate=1e-3), 50, 100, 4096) == 1e-3


def test_the_rate_falls_to_the_final_one() -> None:
    config = OptimizerConfig(learning_rate=1e-2, final_rate=1e-4)
    assert [learning_rate(config, step, 100) for step in (0, 50, 100, 200)] == pytest.approx([1e-2, 1e-3, 1e-4, 1e-4])
    held = OptimizerConfig(learning_rate=1e-2, final_rate=1e-4, hold=20)
    assert [learning_rate(held, step, 100) for step in (0, 20, 60, 100)] == pytest.approx([1e-2, 1e-2, 1e-3, 1e-4])


def test_the_rate_of_the_level_is_the_one_applied(tiny: Any) -> None:
    learner = Learner(tiny("optimizer.full_rate_level=4", "optimizer.learning_rate=0.01"))
    for level, rate in ((4, 0.01), (16, 0.005), (4, 0.01)):
        learner.apply(0, learner.gradient(0, level), level)
        assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(rate)


def test_minibatches_without_a_finite_gradient_are_passed_over_up_to_the_patience(tiny: Any) -> None:
    learner = Learner(tiny("optimizer.patience=2"))
    before = learner.flat.parameters.clone()

    def apply(poison: bool) -> None:
        loss = learner.gradient(0, None)
        if poison:
            learner.flat.gradients[3] = float("inf")
        learner.apply(0, loss)

    apply(True)
    apply(True)
    assert learner.flat.parameters.equal(before) and learner.passed_over == 2
    apply(False)
    assert not learner.flat.parameters.equal(before) and learner.passed_over == 0
    assert learner.flat.parameters.isfinite().all()
    apply(True)
    apply(True)
    with pytest.raises(NonFiniteLoss, match="more patience"):
        apply(True)


@pytest.mark.parametrize("key", ["full_rate_level", "patience", "final_rate", "hold"])
def test_settings_are_checked(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        OptimizerConfig(**{key: -1})
