"""RMSProp in fewer passes is torch's RMSprop; the rate falls above a level; passing over a minibatch."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch

from sparsam.training.config import OptimizerConfig
from sparsam.training.learner import Learner, NonFiniteLoss
from sparsam.training.optimizer import RMSProp, build_optimizer, learning_rate


def descend(optimizer: torch.optim.Optimizer, parameter: torch.Tensor, steps: range) -> torch.Tensor:
    for step in steps:
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(step))
        optimizer.step()
    return parameter


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_is_torchs_and_takes_over_its_statistics(momentum: float) -> None:
    start = torch.randn(1000, generator=torch.Generator().manual_seed(7))
    ours, theirs = start.clone(), start.clone()
    config = OptimizerConfig(learning_rate=1e-2, decay=0.9, momentum=momentum, epsilon=1e-6)
    first = build_optimizer(config, ours)
    assert isinstance(first, RMSProp)
    second = torch.optim.RMSprop([theirs], lr=1e-2, alpha=0.9, momentum=momentum, eps=1e-6)
    torch.testing.assert_close(descend(first, ours, range(30)), descend(second, theirs, range(30)))
    third = build_optimizer(config, ours)
    third.load_state_dict(copy.deepcopy(second.state_dict()) | {"param_groups": third.state_dict()["param_groups"]})
    torch.testing.assert_close(descend(third, ours, range(30, 40)), descend(second, theirs, range(30, 40)))
    assert not torch.allclose(ours, start, atol=0.01)


def test_the_gradient_is_left_as_it_is() -> None:
    parameter = torch.ones(8)
    parameter.grad = torch.arange(8.0)
    optimizer = build_optimizer(OptimizerConfig(), parameter)
    optimizer.step()
    assert isinstance(optimizer, RMSProp) and optimizer.clipped_step(1.0)
    assert parameter.grad.tolist() == list(range(8))


def clipped(optimizer: RMSProp, parameter: torch.Tensor, clip: float, steps: range) -> list[float]:
    norms = []
    for step in steps:
        parameter.grad = 3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(step)).to(parameter)
        norm = optimizer.clipped_step(clip)
        assert norm is not None
        norms.append(norm)
    return norms


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clip", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("size", [1, 37, 4096, 70_001])
def test_one_pass_is_clipping_and_torchs_rmsprop(dtype: torch.dtype, clip: float, size: int) -> None:
    start = torch.randn(size, generator=torch.Generator().manual_seed(7)).to(dtype)
    ours, theirs = start.clone(), start.clone().requires_grad_()
    config = OptimizerConfig(learning_rate=1e-2, decay=0.9, momentum=0.9, epsilon=1e-6)
    optimizer = build_optimizer(config, ours)
    assert isinstance(optimizer, RMSProp)
    norms = clipped(optimizer, ours, clip, range(8))
    torchs = torch.optim.RMSprop([theirs], lr=1e-2, alpha=0.9, momentum=0.9, eps=1e-6)
    for step in range(8):
        theirs.grad = 3 * torch.randn(size, generator=torch.Generator().manual_seed(step)).to(dtype)
        norm = torch.nn.utils.clip_grad_norm_([theirs], clip) if clip else torch.linalg.vector_norm(theirs.grad)
        assert norms[step] == pytest.approx(float(norm), rel=1e-5)
        torchs.step()
    torch.testing.assert_close(ours, theirs.detach())
    state = optimizer.state_dict()["state"][0]
    assert state.keys() == {"square_avg", "momentum_buffer"}


def test_one_pass_has_the_same_bits_on_any_number_of_threads() -> None:
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        parameter = torch.randn(100_003, generator=torch.Generator().manual_seed(7))
        optimizer = build_optimizer(OptimizerConfig(), parameter)
        assert isinstance(optimizer, RMSProp)
        results.append((clipped(optimizer, parameter, 1.0, range(3)), parameter))
    for norms, parameter in results[1:]:
        assert norms == results[0][0] and torch.equal(parameter, results[0][1])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e38])
def test_a_norm_that_is_not_finite_changes_nothing(bad: float) -> None:
    parameter = torch.randn(5000)
    optimizer = build_optimizer(OptimizerConfig(), parameter)
    assert isinstance(optimizer, RMSProp)
    clipped(optimizer, parameter, 1.0, range(2))
    before = copy.deepcopy((parameter, optimizer.state_dict()["state"][0]))
    parameter.grad[4321] = bad
    norm = optimizer.clipped_step(1.0)
    assert norm is not None and not math.isfinite(norm)
    assert torch.equal(parameter, before[0])
    assert all(torch.equal(value, before[1][key]) for key, value in optimizer.state_dict()["state"][0].items())


def test_statistics_that_are_replaced_are_the_ones_used() -> None:
    """As when a checkpoint is loaded or workers share them."""
    parameter = torch.randn(64)
    optimizer = build_optimizer(OptimizerConfig(), parameter)
    assert isinstance(optimizer, RMSProp)
    clipped(optimizer, parameter, 1.0, range(2))
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    before = optimizer.state[parameter]["square_avg"].clone()
    clipped(optimizer, parameter, 1.0, range(2, 3))
    assert not torch.equal(before, optimizer.state[parameter]["square_avg"])


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
