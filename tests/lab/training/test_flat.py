from __future__ import annotations

import torch

from sparsam.lab.training.config import OptimizerConfig
from sparsam.lab.training.flat import FlatParameters
from sparsam.lab.training.optimizer import build_optimizer, learning_rate


def test_one_vector_trains_the_same_as_many_tensors() -> None:
    torch.manual_seed(0)
    plain = torch.nn.LSTM(3, 5)
    flattened = torch.nn.LSTM(3, 5)
    flattened.load_state_dict(plain.state_dict())
    flat = FlatParameters(flattened)
    config = OptimizerConfig("rmsprop", learning_rate=0.01)
    ours = build_optimizer(config, flat.parameters)
    theirs = torch.optim.RMSprop(
        plain.parameters(), lr=0.01, alpha=config.decay, eps=config.epsilon, momentum=config.momentum
    )
    for _ in range(5):
        x = torch.randn(4, 2, 3)
        flat.zero()
        flattened(x)[0].square().sum().backward()
        ours.step()
        theirs.zero_grad()
        plain(x)[0].square().sum().backward()
        theirs.step()
    for a, b in zip(plain.parameters(), flattened.parameters()):
        torch.testing.assert_close(a, b)


def test_zero_restores_gradient_views() -> None:
    model = torch.nn.Linear(2, 2)
    flat = FlatParameters(model)
    model.zero_grad(set_to_none=True)
    flat.zero()
    model(torch.ones(1, 2)).sum().backward()
    assert flat.gradients.sum() == model.weight.grad.sum() + model.bias.grad.sum() == 6


def test_warmup_rises_to_the_rate() -> None:
    config = OptimizerConfig(learning_rate=1.0, warmup=4)
    assert [learning_rate(config, step, 10) for step in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
