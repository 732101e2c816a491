"""The two optimisers of a run, each over one flat vector of parameters, and the rate over a run.

RMSProp (Tieleman and Hinton 2012) divides by a running root mean square of the gradient and adds momentum:

    s <- decay s + (1 - decay) g^2;   v <- momentum v + g / (sqrt(s) + epsilon);   theta <- theta - rate v
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from sparsam.lab.training.config import OptimizerConfig


class RMSProp(torch.optim.Optimizer):
    """torch.optim.RMSprop in two passes over the parameters instead of torch's seven.

    The fused kernel of AdamW, with its average of gradients switched off (beta1 = 0: that average is the gradient) and
    its bias corrections died away (a late step), computes in one pass

        s <- decay s + (1 - decay) g^2;   v <- (1 - rate weight_decay) v - rate g / (sqrt(s) + epsilon)

    which at rate -1 and weight_decay = momentum - 1 is the update of the velocity above. The statistics have torch's
    names, so checkpoints serve both. As in torch's fused optimisers, `grad_scale` divides the gradient on the way and
    a `found_inf` of 1 leaves everything as it is; both are tensors of one number beside the parameters, or None.
    """

    grad_scale: Tensor | None = None
    found_inf: Tensor | None = None

    def __init__(self, parameters: list[Tensor], lr: float, alpha: float, eps: float, momentum: float) -> None:
        super().__init__(parameters, {"lr": lr, "alpha": alpha, "eps": eps, "momentum": momentum})
        self._late = torch.tensor(1e30, device=parameters[0].device)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["square_avg"] = torch.zeros_like(parameter)
                if momentum and "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                gradient, squares = parameter.grad, state["square_avg"]
                if momentum:
                    velocity = state["momentum_buffer"]
                    self._kernel(velocity, gradient, squares, -1.0, momentum - 1, group)
                    if self.found_inf is None:
                        parameter.sub_(velocity, alpha=rate)
                    else:
                        parameter.addcmul_(velocity, 1 - self.found_inf, value=-rate)
                else:
                    self._kernel(parameter, gradient, squares, rate, 0.0, group)

    def _kernel(
        self, target: Tensor, gradient: Tensor, squares: Tensor, rate: float, weight_decay: float, group: dict[str, Any]
    ) -> None:
        torch._fused_adamw_(
            [target], [gradient], [gradient], [squares], [], [self._late],
            lr=rate, beta1=0.0, beta2=group["alpha"], weight_decay=weight_decay, eps=group["eps"],
            amsgrad=False, maximize=False, grad_scale=self.grad_scale, found_inf=self.found_inf,
        )  # fmt: skip


def build_optimizer(config: OptimizerConfig, parameters: Tensor) -> torch.optim.Optimizer:
    """A torch optimiser for one flat leaf vector that has its gradient in `.grad`."""
    if config.name == "adam":
        return torch.optim.Adam(
            [parameters], lr=config.learning_rate, betas=(config.momentum, config.beta2), eps=config.epsilon, fused=True
        )
    return RMSProp([parameters], config.learning_rate, config.decay, config.epsilon, config.momentum)


def check_statistics(found: Any, optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError for statistics that are not the optimiser's: fused kernels would write past a shorter one."""
    (parameters,) = optimizer.param_groups[0]["params"]
    if not isinstance(found, dict) or found.keys() - {0} or not isinstance(found.get(0, {}), dict):
        raise ValueError("optimizer: expected the statistics of one vector of parameters, got something else")
    named = found.get(0, {})
    if named and isinstance(optimizer, torch.optim.Adam) and named.keys() != {"step", "exp_avg", "exp_avg_sq"}:
        raise ValueError(f"optimizer: expected step, exp_avg and exp_avg_sq, got {len(named)} others")
    for name, value in named.items():
        like = torch.zeros(()) if name == "step" else parameters
        whole = isinstance(value, Tensor) and value.layout == torch.strided and value.is_contiguous()
        if not whole or (value.shape, value.dtype) != (like.shape, like.dtype):
            got = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"optimizer.{name!s:.40}: expected {like.dtype} {tuple(like.shape)}, got {got}")


def learning_rate(
    config: OptimizerConfig, step: int, steps: int, level: int | None = None, share: float = 0.0
) -> float:
    """The rate of minibatch `step` (from 0) of `steps`: a linear rise over `warmup`, then constant, or from
    `hold` on falling geometrically to `final_rate`; by time where `final_by` says so, when
    `share` of the run is over. Above `full_rate_level` it is smaller by the root of the ratio, since the
    gradient through a longer sequence is a noisier one.
    """
    rate = config.learning_rate
    if config.final_rate is not None and config.final_by == "seconds":
        rate *= (config.final_rate / rate) ** max((share - config.hold_share) / (1 - config.hold_share), 0.0)
    elif config.final_rate is not None and step > config.hold:
        rate *= (config.final_rate / rate) ** min((step - config.hold) / max(steps - config.hold, 1), 1.0)
    if step < config.warmup:
        rate *= (step + 1) / config.warmup
    if level is not None and config.full_rate_level is not None and level > config.full_rate_level:
        rate *= math.sqrt(config.full_rate_level / level)
    return rate


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
