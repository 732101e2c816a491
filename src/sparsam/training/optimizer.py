"""The two optimisers of a run, each over one flat vector of parameters.

RMSProp (Tieleman and Hinton 2012) divides by a running root mean square of the gradient and adds momentum:

    s <- decay s + (1 - decay) g^2;   v <- momentum v + g / (sqrt(s) + epsilon);   theta <- theta - rate v
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparsam.training.config import OptimizerConfig


def build_optimizer(config: OptimizerConfig, parameters: Tensor) -> torch.optim.Optimizer:
    """A torch optimiser for one flat leaf vector that has its gradient in ``.grad``."""
    if config.name == "adam":
        return torch.optim.Adam(
            [parameters],
            lr=config.learning_rate,
            betas=(config.momentum, config.beta2),
            eps=config.epsilon,
            fused=True,
        )
    return torch.optim.RMSprop(
        [parameters],
        lr=config.learning_rate,
        alpha=config.decay,
        eps=config.epsilon,
        momentum=config.momentum,
        foreach=False,
    )


def learning_rate(config: OptimizerConfig, step: int) -> float:
    """The rate of minibatch ``step`` (from 0): a linear rise over ``warmup``, then constant."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    return config.learning_rate


def share_state(optimizer: torch.optim.Optimizer) -> None:
    """Make the statistics exist and move them to shared memory, for workers that update them together."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if not state:
                # A step with a zero gradient and zero rate creates the statistics and changes nothing.
                rate, group["lr"] = group["lr"], 0.0
                gradient, parameter.grad = parameter.grad, torch.zeros_like(parameter)
                optimizer.step()
                parameter.grad, group["lr"] = gradient, rate
            for value in optimizer.state[parameter].values():
                if isinstance(value, Tensor):
                    value.share_memory_()
