"""One model learning one task: draw a minibatch, differentiate, step. Knows nothing of logs or folders."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam.lab.tasks.input_layer import build_model, late_part, set_learning, with_own_rest
from sparsam.lab.tasks.task import Batch
from sparsam.lab.training.checkpoint import load_weights
from sparsam.lab.training.config import RunConfig
from sparsam.lab.training.drawing import Drawer, can_draw_apart
from sparsam.lab.training.evaluate import forward
from sparsam.lab.training.flat import FlatParameters
from sparsam.lab.training.optimizer import build_optimizer, check_statistics, learning_rate
from sparsam.lab.training.prefetch import Prefetch
from sparsam.lab.training.seeds import MinibatchSeeds, mix
from sparsam.lab.training.trained import check_fit, first_weights, load_into
from sparsam.lab.training.user_classes import check_answers

# Minibatches; counting wrong bits costs as much as the loss itself, and on a GPU it waits for all that is under way.
_ERRORS_EVERY, _ERRORS_EVERY_ON_GPU = 10, 50


class NonFiniteLoss(RuntimeError):
    """The loss or its gradient is not a number; the weights were not changed by it."""


class Learner:
    """`gradient(step, level)` then `apply(step)`; the two are apart so that processes can exchange in between."""

    def __init__(
        self,
        config: RunConfig,
        rank: int = 0,
        shared: Tensor | None = None,
        weights: str | None = None,
        checkpoint: dict[str, Tensor] | None = None,
    ) -> None:
        """
        Args:
            shared: the vector that holds the parameters of several learners.
            weights: what the first weights are taken from: a weights file or a run's folder.
            checkpoint: weights that are loaded later on, which the model has to fit before it is made.
        """
        require_device(config.device)
        self.config = config
        self.task = config.task.build(for_training=True)
        file = None if weights is None else first_weights(weights)
        first = None if file is None else load_weights(file)[0]
        for given, source in ((checkpoint, "the checkpoint"), (first, file)):
            if given is not None and source is not None:
                check_fit(config, self.task, given, source, part=given is first)
        torch.manual_seed(mix(config.seed))
        self.model = build_model(config.model, self.task).to(config.device)
        if first is not None and file is not None:
            load_into(self.model, with_own_rest(self.model, first), file)
        self.flat = FlatParameters(self.model, shared)
        self.optimizer = build_optimizer(config.optimizer, self.flat.parameters)
        self.seeds = MinibatchSeeds(config.seed, rank)
        self.errors: dict[str, float] = {}  # of the last minibatch they were counted for
        self.share = 0.0  # of the run that is over, for what happens at some point of it
        self.time_steps = 0  # sequences times their length, so far
        self.passed_over = 0  # minibatches in a row whose gradient was not finite
        schedule = config.optimizer
        part = late_part(self.model)
        self._slow = [] if part is None or schedule.input_layer_rate == 1 else list(part.parameters())
        self._late = part if schedule.input_layer_from else None
        if self._late is not None:
            set_learning(self._late, False)
        self.slower = 1.0  # what the rate is multiplied by, see `Retreat`
        falls = (schedule.final_rate, schedule.full_rate_level) != (None, None)
        retreats = config.curriculum is not None and config.curriculum.retreat is not None
        self._rate_varies = schedule.warmup > 0 or falls or retreats
        self.on_gpu = torch.device(config.device).type == "cuda"
        self.deferred = False  # whether loss and norm stay on the device, for a `Readback`
        self._ahead: Prefetch | None = None
        if self.on_gpu:
            apart = can_draw_apart(config.task, self.task)
            drawer = Drawer(config.task, config.batch_size, config.seed, rank) if apart else None
            self._ahead = Prefetch(self.task, self.seeds, config.batch_size, config.device, drawer)

    def probe(self, step: int, level: int | None) -> None:
        """One minibatch through model and task that leaves no trace: what cannot run says so before a run begins."""
        random = torch.get_rng_state()
        batch = self.task.sample(1, self.seeds.at(step), level).to(self.config.device)
        outputs = forward(self.model, batch)
        loss, errors = self.task.loss(outputs, batch), self.task.errors(outputs, batch)
        torch.set_rng_state(random)
        check_answers(self.config.task.name, outputs, loss, errors)

    def gradient(self, step: int, level: int | None) -> float | Tensor:
        """Leave the gradient of minibatch `step` in `flat.gradients` and return its loss, a tensor if `deferred`."""
        if self._ahead is None:
            batch = self.task.sample(self.config.batch_size, self.seeds.at(step), level)
        else:
            batch = self._ahead.take(step, level)
        if self._late is not None and self.share >= self.config.optimizer.input_layer_from:
            set_learning(self._late, True)
            self._late = None
        self.flat.zero()
        if self.on_gpu or batch.groups == 1:  # a GPU runs long and short sequences side by side
            self.time_steps += batch.inputs.shape[0] * batch.inputs.shape[1]
            outputs = forward(self.model, batch)
            loss = self.task.loss(outputs, batch)
            loss.backward()
        else:
            self.time_steps += sum(part.targets.numel() for part in batch.parts())
            outputs, loss = backward_by_parts(self.model, self.task, batch)
        if step % (_ERRORS_EVERY_ON_GPU if self.on_gpu else _ERRORS_EVERY) == 0:
            self.errors = self.task.errors(outputs, batch)
        return loss.detach() if self.deferred else float(loss.detach())

    def apply(self, step: int, loss: float | Tensor, level: int | None = None) -> float | Tensor:
        """One step of all parameters (see `_apply`); those of a slow input layer go a share of their way."""
        before = [parameter.detach().clone() for parameter in self._slow if parameter.requires_grad]
        norm = self._apply(step, loss, level)
        if before:
            with torch.no_grad():
                rate = self.config.optimizer.input_layer_rate
                torch._foreach_lerp_([parameter.detach() for parameter in self._slow], before, 1 - rate)
        return norm

    def _apply(self, step: int, loss: float | Tensor, level: int | None) -> float | Tensor:
        """Clip the gradient, step, and return the gradient's norm before clipping.

        A gradient that is not finite changes nothing, see `judge`. If `deferred` the caller asks `judge` when
        the numbers have arrived.
        """
        settings = self.config.optimizer
        if self._rate_varies:
            rate = self.slower * learning_rate(settings, step, self.config.steps, level, self.share)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        # Fused kernels divide by `grad_scale` on the way, and skip the step by themselves where `found_inf` is 1.
        norm = torch.linalg.vector_norm(self.flat.gradients)
        scale = (norm / settings.clip).clamp(min=1.0) if settings.clip else None
        self.optimizer.grad_scale = scale  # type: ignore[attr-defined]
        if isinstance(loss, Tensor):
            self.optimizer.found_inf = 1 - (norm + loss).isfinite().float()  # type: ignore[attr-defined]
        elif not self.judge(step, loss, float(norm)):
            return float(norm)
        self.optimizer.step()
        return norm if isinstance(loss, Tensor) else float(norm)

    def judge(self, step: int, loss: float, norm: float) -> bool:
        """Whether minibatch `step` can be used: one whose gradient is not finite is passed over, and one more than
        `optimizer.patience` of them in a row end the run. A single minibatch may overflow on its way back through
        thousands of steps; weights that are beyond repair do so every time.
        """
        if math.isfinite(loss) and math.isfinite(norm):
            self.passed_over = 0
            return True
        settings = self.config.optimizer
        self.passed_over += 1
        if self.passed_over <= settings.patience:
            return False
        raise NonFiniteLoss(
            f"minibatch {step + 1}: loss {loss}, gradient norm {norm}. The last good checkpoint is kept. "
            f"Try a lower learning rate (now {settings.learning_rate:g}), a tighter gradient clip (now "
            f"{settings.clip:g}), a warmup (now {settings.warmup} minibatches), more patience (now "
            f"{settings.patience} minibatches), or another seed."
        )

    def kept(self) -> dict:
        """A copy of the weights and of the optimiser's statistics, for `take_back`."""
        return copy.deepcopy({"weights": self.model.state_dict(), "optimizer": self.optimizer.state_dict()["state"]})

    def take_back(self, kept: dict) -> None:
        """Weights and statistics as they were."""
        check_statistics(kept["optimizer"], self.optimizer)
        load_into(self.model, kept["weights"], "the kept weights")
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict(copy.deepcopy({"state": kept["optimizer"], "param_groups": groups}))

    def state_dict(self) -> dict:
        return {
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "errors": self.errors,
            "passed_over": self.passed_over,
        }

    def load_state_dict(self, weights: dict[str, Tensor], state: dict) -> None:
        load_into(self.model, weights, "the checkpoint")
        # Statistics come from the checkpoint, settings from the config: a resumed run may have a new learning rate.
        check_statistics(state["optimizer"]["state"], self.optimizer)
        settings = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state["optimizer"]["state"], "param_groups": settings})
        torch.set_rng_state(state["random"])
        self.errors = state["errors"]
        self.passed_over = state.get("passed_over", 0)


def backward_by_parts(model: torch.nn.Module, task: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    """Add up the gradients of a minibatch's groups, each run by itself; returns outputs and loss of the whole.

    A loss is a mean over the scored steps, so a group counts by how many of them it has.
    """
    outputs, losses, scored = [], [], int(batch.mask.sum())
    for part in batch.parts():
        answers = forward(model, part)
        loss = task.loss(answers, part) * (int(part.mask.sum()) / scored)
        loss.backward()
        losses.append(loss.detach())
        outputs.append(F.pad(answers.detach(), (0, 0, 0, 0, 0, len(batch.inputs) - len(answers))))
    return torch.cat(outputs, 1), torch.stack(losses).sum()


def require_device(name: str) -> None:
    """Raises ValueError when this machine has no such device."""
    try:
        kind = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device: expected cpu, cuda or cuda:N, got {name!r}") from error
    if kind.type not in ("cpu", "cuda", "mps", "xpu"):
        raise ValueError(f"device: expected cpu, cuda or cuda:N, got {name!r}")
    if kind.type == "cuda" and (kind.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device: no such device, got {name!r} (torch finds {torch.cuda.device_count()} GPUs)")
