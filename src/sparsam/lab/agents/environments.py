"""Environments side by side: B games of POPGym, with observations as rows of numbers.

An observation is what the game shows (whole numbers one-hot, others as they are), the action before it (one-hot, zeros
at the first step) and a flag at the first step, as POPGym's own baselines see it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

# POPGym (Morad et al., ICLR 2023). NoisyPositionOnlyCartPole is the paper's Noisy Stateless CartPole.
POPGYM = (
    "RepeatFirstMedium",
    "RepeatPreviousMedium",
    "RepeatPreviousHard",
    "AutoencodeEasy",
    "ConcentrationEasy",
    "CountRecallEasy",
    "NoisyPositionOnlyCartPoleEasy",
)
PILOTS = ("RepeatPreviousEasy", "RepeatFirstEasy", "PositionOnlyCartPoleEasy")  # rates are chosen on these


class Environments(Protocol):
    """B games side by side; one that has ended begins anew at once."""

    inputs: int
    actions: int

    def observe(self) -> Tensor:
        """(B, inputs)"""

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards (B,), and which games ended with this step (B,)."""


class Popgym:
    """B games of one POPGym environment."""

    def __init__(self, name: str, batch: int, seed: int) -> None:
        try:
            from popgym import envs
        except ImportError as error:
            raise RuntimeError("popgym is not installed: pip install popgym") from error
        self.games = [getattr(envs, name)() for _ in range(batch)]
        space = self.games[0].observation_space
        self.parts = _parts(space)
        self.actions = int(self.games[0].action_space.n)
        self.shown = sum(size or width for size, width in self.parts)
        self.inputs = self.shown + self.actions + 1
        self.seen = np.zeros((batch, self.inputs), np.float32)
        for number, game in enumerate(self.games):
            self._show(number, game.reset(seed=seed * 1_000_003 + number)[0], -1)

    def _show(self, number: int, observation: Any, came: int) -> None:
        """A row of `seen` anew; `came` is the place of the action before it, or of the flag at the first step."""
        parts = observation if isinstance(observation, tuple) else (observation,)
        values = np.concatenate([np.ravel(part) for part in parts])
        row = self.seen[number]
        row[:] = 0.0
        row[came] = 1.0
        at = place = 0
        for size, width in self.parts:
            if size:
                row[at + int(values[place])] = 1.0
            else:
                row[at : at + width] = values[place : place + width]
            at, place = at + (size or width), place + width

    def observe(self) -> Tensor:
        return torch.from_numpy(self.seen.copy())

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        rewards, ended = np.zeros(len(self.games), np.float32), np.zeros(len(self.games), bool)
        for number, (game, action) in enumerate(zip(self.games, actions.tolist())):
            observation, rewards[number], terminated, truncated, _ = game.step(action)
            ended[number] = terminated or truncated
            if ended[number]:
                self._show(number, game.reset()[0], -1)
            else:
                self._show(number, observation, self.shown + action)
        return torch.from_numpy(rewards), torch.from_numpy(ended)


def _parts(space: Any) -> list[tuple[int, int]]:
    """The numbers of an observation in order: (n, 1) for one of n values, (0, width) for plain numbers."""
    kind = type(space).__name__
    if kind == "Discrete":
        return [(int(space.n), 1)]
    if kind == "MultiDiscrete":
        return [(int(n), 1) for n in space.nvec]
    if kind == "Box":
        return [(0, int(np.prod(space.shape)))]
    if kind == "Tuple":
        return [part for entry in space for part in _parts(entry)]
    raise TypeError(f"space: expected Discrete, MultiDiscrete, Box or a Tuple of them, got {kind}")


class Horizon:
    """What the games of any length have in common: games of lengths that are drawn, side by side.

    What is shown and what is paid are functions of the time, the cue and the length, of any shapes that broadcast.
    """

    inputs: int
    actions: int
    cues: int
    optimum = 1.0  # the largest return

    def __init__(self, batch: int, seed: int, longest: int, shortest: int = 2) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        self.batch, self.shortest, self.longest = batch, shortest, longest
        self.cue, self.length, self.time = (torch.zeros(batch, dtype=torch.long) for _ in range(3))
        self._begin(torch.ones(batch, dtype=torch.bool))

    def _begin(self, which: Tensor) -> None:
        cues = torch.randint(self.cues, (self.batch,), generator=self.generator)
        lengths = torch.randint(self.shortest, self.longest + 1, (self.batch,), generator=self.generator)
        self.cue, self.length = torch.where(which, cues, self.cue), torch.where(which, lengths, self.length)
        self.time = torch.where(which, 0, self.time)

    def shown(self, time: Tensor, cue: Tensor, length: Tensor) -> Tensor:
        raise NotImplementedError

    def paid(self, actions: Tensor, time: Tensor, cue: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards, and whether the game ends."""
        raise NotImplementedError

    def observe(self) -> Tensor:
        return self.shown(self.time, self.cue, self.length)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor]:
        rewards, ended = self.paid(actions, self.time, self.cue, self.length)
        self.time = self.time + 1
        self._begin(ended)
        return rewards, ended


class RepeatFirst(Horizon):
    """RepeatFirst of any length: suits come one by one, and every answer is the first; +-1 / length a step."""

    inputs, actions, cues = 5, 4, 4  # a suit, and a flag at the first step

    def shown(self, time: Tensor, cue: Tensor, length: Tensor) -> Tensor:
        suits = torch.randint(self.cues, time.shape, generator=self.generator)
        first = time == 0
        suit = nn.functional.one_hot(torch.where(first, cue, suits), self.cues)
        return torch.cat([suit.float(), first[..., None].float()], dim=-1)

    def paid(self, actions: Tensor, time: Tensor, cue: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(actions == cue, 1.0, -1.0) / length, time + 1 >= length


class TMaze(Horizon):
    """T-Maze (Bakker, 2001), with time for the shortest way only, as in the passive T-Maze of Ni et al. (2023).

    The first observation says at which end of the crossbar the goal lies, and all others down the corridor are alike.
    Actions: forward, left, right. A step that is not forward in the corridor ends the game with -0.1, as does the wrong
    turn at the junction; the right turn is worth 1.
    """

    inputs, actions, cues = 4, 3, 2  # cue left, cue right, corridor, junction

    def shown(self, time: Tensor, cue: Tensor, length: Tensor) -> Tensor:
        place = torch.where(time == 0, cue, torch.where(time < length - 1, 2, 3))
        return nn.functional.one_hot(place, self.inputs).float()

    def paid(self, actions: Tensor, time: Tensor, cue: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        junction = time == length - 1
        right = actions == torch.where(junction, 1 + cue, 0)
        return torch.where(right, torch.where(junction, 1.0, 0.0), -0.1), junction | ~right


HORIZONS: dict[str, type[Horizon]] = {"RepeatFirst": RepeatFirst, "TMaze": TMaze}


def make(name: str, batch: int, seed: int, longest: int = 100) -> Environments:
    """Environments by name."""
    if name in HORIZONS:
        return HORIZONS[name](batch, seed, longest)
    return Popgym(name, batch, seed)
