"""PPO for agents that remember, in one file: rollouts, advantages, updates, and what makes a run resumable.

A rollout carries the state from the one before it, and the update runs over whole sequences from the state that the
rollout began with; inside a sequence the memory is emptied where an episode begins. Gradients reach back to the start
of the rollout.

A run is a row of blocks. Each begins with new episodes and seeds of its own, so that a run that goes on from a block's
checkpoint is, bit for bit, the run that was never interrupted. The mean return of the episodes that ended in a block
is a point of the learning curve; the largest is POPGym's figure, the maximum mean episodic reward.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sparsam.lab.agents import cores, environments
from sparsam.lab.agents.config import AgentConfig, AgentFolder, CoreConfig, PPOConfig
from sparsam.lab.agents.environments import Environments
from sparsam.lab.argument_types import require
from sparsam.lab.training.checkpoint import CheckpointError, plain_state
from sparsam.lab.training.files import write_atomic
from sparsam.lab.training.folder import RunFolder, is_number
from sparsam.lab.training.interrupt import Interrupt
from sparsam.lab.training.lock import RunLock
from sparsam.weights import read_plain

CHECKPOINT = "checkpoint.pt"
LARGEST = 2**28  # bytes of a checkpoint


class Agent(nn.Module):
    """A core, a layer that both heads share, and the heads: logits and a value."""

    def __init__(self, config: CoreConfig, inputs: int, actions: int) -> None:
        super().__init__()
        self.core = cores.make(config.name, inputs, config.memory_size)
        self.heads = nn.Sequential(nn.ReLU(), nn.Linear(cores.WIDTH, cores.WIDTH), nn.ReLU())
        self.policy, self.value = nn.Linear(cores.WIDTH, actions), nn.Linear(cores.WIDTH, 1)
        with torch.no_grad():  # near to equal chances at first
            self.policy.weight.mul_(0.01)
            self.policy.bias.zero_()

    def act(self, x: Tensor, state: Any, begins: Tensor) -> tuple[Tensor, Tensor, Any]:
        """Logits (B, actions) and values (B,) of one step, and the state after it."""
        features, state = self.core.step(x, state, begins)
        seen = self.heads(features)
        return self.policy(seen), self.value(seen)[:, 0], state

    def evaluate(self, x: Tensor, state: Any, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (T, B, actions) and values (T, B) of a sequence that begins with `state`."""
        seen = self.heads(self.core.sequence(x, state, begins))
        return self.policy(seen), self.value(seen)[..., 0]


@dataclass
class Rollout:
    """What happened in `length` steps, (T, B) each, and the state that it began with."""

    first: Any
    x: Tensor
    begins: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    rewards: Tensor
    ended: Tensor
    last: Tensor  # (B,) the value of what came next


class Actors:
    """B environments, the agent's state in each, and the returns of their episodes."""

    def __init__(self, games: Environments, agent: Agent, batch: int, generator: torch.Generator) -> None:
        self.games, self.agent, self.generator = games, agent, generator
        self.state = agent.core.initial(batch)
        self.begins = torch.ones(batch, dtype=torch.bool)
        self.total = torch.zeros(batch)
        self.returns: list[float] = []  # of the episodes that have ended

    @torch.no_grad()
    def rollout(self, length: int) -> Rollout:
        first = self.state
        kept: dict[str, list[Tensor]] = {name: [] for name in Rollout.__annotations__ if name not in ("first", "last")}
        for _ in range(length):
            x = self.games.observe()
            logits, values, self.state = self.agent.act(x, self.state, self.begins)
            chances = logits.softmax(1)
            actions = torch.multinomial(chances, 1, generator=self.generator)
            rewards, ended = self.games.step(actions[:, 0])
            log_probs = logits.log_softmax(1).gather(1, actions)[:, 0]
            self.total += rewards
            self.returns += self.total[ended].tolist()
            self.total[ended] = 0.0
            now = {"x": x, "begins": self.begins, "actions": actions[:, 0], "log_probs": log_probs}
            for name, value in (now | {"values": values, "rewards": rewards, "ended": ended}).items():
                kept[name].append(value)
            self.begins = ended
        last = self.agent.act(self.games.observe(), self.state, self.begins)[1]  # a look ahead; the state stays
        return Rollout(first, last=last, **{name: torch.stack(values) for name, values in kept.items()})


def advantages(rollout: Rollout, discount: float, trace: float) -> Tensor:
    """Generalised advantage estimation (Schulman et al., 2016), (T, B)."""
    found, ahead, after = torch.zeros_like(rollout.rewards), torch.zeros_like(rollout.last), rollout.last
    for t in reversed(range(len(rollout.rewards))):
        going = (~rollout.ended[t]).float()
        ahead = rollout.rewards[t] + discount * going * after - rollout.values[t] + discount * trace * going * ahead
        found[t], after = ahead, rollout.values[t]
    return found


def update(agent: Agent, optimizer: torch.optim.Optimizer, rollout: Rollout, ppo: PPOConfig, parts: Any) -> None:
    """The epochs of one rollout; `parts()` gives the elements of each minibatch."""
    gains = advantages(rollout, ppo.discount, ppo.trace)
    wanted = gains + rollout.values
    gains = (gains - gains.mean()) / (gains.std() + 1e-8)
    for _ in range(ppo.epochs):
        for part in parts():
            logits, values = agent.evaluate(rollout.x[:, part], rollout.first[part], rollout.begins[:, part])
            log_probs = logits.log_softmax(-1)
            chosen = log_probs.gather(-1, rollout.actions[:, part, None])[..., 0]
            ratio = (chosen - rollout.log_probs[:, part]).exp()
            gain = gains[:, part]
            clipped = torch.minimum(ratio * gain, ratio.clamp(1 - ppo.clip, 1 + ppo.clip) * gain)
            entropy = -(log_probs.exp() * log_probs).sum(-1)
            surprise = (values - wanted[:, part]).square()
            loss = -clipped.mean() + ppo.value * surprise.mean() - ppo.entropy * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), ppo.norm)
            optimizer.step()


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "steps" or "interrupted"."""

    reason: str
    signal: int | None = None


def train(
    config: AgentConfig,
    folder: str | Path,
    resume: bool = False,
    quiet: bool = False,
    report: Callable[[str], None] = print,
) -> Outcome:
    """Train as `config` says and keep everything in `folder`; with `resume` from the last block that is there."""
    torch.set_num_threads(1)
    place = AgentFolder(folder)
    if not resume:
        place.create(config)  # type: ignore[arg-type]
    elif place.config().decisive() != config.decisive():
        raise ValueError(f"{place.path} holds a run with other settings; choose another folder")
    with RunLock(place.path), Interrupt() as interrupt:
        agent, optimizer = begin(config)
        done, spent, curve = _restore(place.path / CHECKPOINT, agent, optimizer)
        for block in range(done, config.steps // config.block):
            began = time.perf_counter(), time.process_time()
            returns = _block(config, agent, optimizer, block, lambda: interrupt.signal is not None)
            if interrupt.signal is not None:  # what was done of this block is done again
                return Outcome("interrupted", interrupt.signal)
            spent = spent[0] + time.perf_counter() - began[0], spent[1] + time.process_time() - began[1]
            steps = (block + 1) * config.block
            mean = sum(returns) / len(returns) if returns else None  # no episode came to its end
            curve.append([steps, mean, len(returns), round(spent[0], 1)])
            _save(place.path / CHECKPOINT, agent, optimizer, block + 1, spent, curve)
            _log(place, curve)
            if not quiet:
                shown = "-" if mean is None else f"{mean:+.3f}"
                report(f"{steps:9,} steps  {spent[0]:5.0f} s  mean return {shown} of {len(returns)} episodes")
    place.write_result(
        {
            "reason": "steps",
            "step": config.steps,
            "sequences": sum(point[2] for point in curve),
            "seconds": round(spent[0], 1),
            "steps_per_second": round(config.steps / spent[1], 1),  # of processor time: other work does not count
            "parameters": cores.parameters(agent),
            "evaluation": {"mean_return": max((point[1] for point in curve if point[1] is not None), default=None)},
        }
    )
    return Outcome("steps")


def begin(config: AgentConfig) -> tuple[Agent, torch.optim.Optimizer]:
    """The agent of a config with its first weights."""
    games = environments.make(config.task.name, 1, 0, config.task.longest)
    torch.manual_seed(config.seed)
    agent = Agent(config.model, games.inputs, games.actions)
    return agent, torch.optim.Adam(agent.parameters(), lr=config.ppo.learning_rate, eps=1e-5)


def load(config: AgentConfig, place: RunFolder) -> Agent:
    """The agent of a run as its last block left it."""
    agent, optimizer = begin(config)
    _restore(place.path / CHECKPOINT, agent, optimizer)
    return agent


def _block(
    config: AgentConfig, agent: Agent, optimizer: torch.optim.Optimizer, block: int, stopped: Callable[[], bool]
) -> list[float]:
    """The returns of the episodes that ended in it; it ends early when `stopped`."""
    ppo, seed = config.ppo, 10_000 * (config.seed + 1) + block
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    actors = Actors(
        environments.make(config.task.name, ppo.batch, seed, config.task.longest), agent, ppo.batch, generator
    )
    rollouts = config.block // (ppo.batch * ppo.length)
    for number in range(rollouts):
        if stopped():
            break
        done = (block * rollouts + number) / (config.steps // config.block * rollouts)
        for group in optimizer.param_groups:
            group["lr"] = ppo.learning_rate + done * (ppo.final_rate - ppo.learning_rate)
        rollout = actors.rollout(ppo.length)
        update(
            agent, optimizer, rollout, ppo,
            lambda: torch.randperm(ppo.batch, generator=generator).chunk(ppo.parts),
        )  # fmt: skip
    return actors.returns


Spent = tuple[float, float]  # seconds of the clock and of the processor


def _save(file: Path, agent: Agent, optimizer: Any, block: int, spent: Spent, curve: list[Any]) -> None:
    buffer = io.BytesIO()
    kept = {"agent": agent.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(kept | {"block": block, "spent": spent, "curve": curve}, buffer)
    write_atomic(file, buffer.getvalue())


def _restore(file: Path, agent: Agent, optimizer: torch.optim.Optimizer) -> tuple[int, Spent, list[Any]]:
    """Go on from a checkpoint, if there is one. It is checked like a stranger's, and executes nothing."""
    if not file.exists():
        return 0, (0.0, 0.0), []
    try:
        kept = plain_state(read_plain(file, LARGEST))
        block, spent, curve = kept["block"], kept["spent"], kept["curve"]
        for name, value in (("block", block), ("seconds", spent[0]), ("seconds", spent[1])):
            require(is_number(value) and value >= 0, name, "a number", f"{value!s:.40}")
        if len(curve) != block or not all(len(point) == 4 for point in curve):
            raise ValueError(f"curve: expected {block} points of four numbers, got another list")
        if not all(bool(tensor.isfinite().all()) for tensor in kept["agent"].values()):
            raise ValueError("agent: expected finite weights, got NaN or infinity")
        agent.load_state_dict(kept["agent"])
        statistics, parameters = kept["optimizer"]["state"], list(agent.parameters())
        for number, parameter in enumerate(parameters if statistics else []):
            if any(statistics[number][name].shape != parameter.shape for name in ("exp_avg", "exp_avg_sq")):
                raise ValueError(f"optimizer: expected statistics of shape {tuple(parameter.shape)} at {number}")
        optimizer.load_state_dict(kept["optimizer"])
    except (CheckpointError, KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        raise CheckpointError(f"{file} does not go with this run: {error}") from error
    return block, spent, curve


def _log(place: AgentFolder, curve: list[Any]) -> None:
    events = [
        {"kind": "eval", "step": steps, "sequences": steps, "mean_return": mean, "episodes": count, "seconds": seconds}
        for steps, mean, count, seconds in curve
        if mean is not None
    ]
    write_atomic(place.log_file, "".join(json.dumps(event) + "\n" for event in events).encode())
