"""What an agent remembers with: cores behind one interface, with as many parameters as the SAM among them.

    features, state = core.run(x, state)                 # x (T, B, I), of one episode
    features, state = core.step(x, state, begins)        # x (B, I), begins (B,): these forget first
    features = core.sequence(x, state, begins)           # x (T, B, I), begins (T, B), from the state of the first step

A core whose `run` takes `begins` (T, B) as well has the other two from it.

A state is indexed by element, so that a minibatch of environments takes its states along.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

import sparsam
from sparsam.lab.agents.ffm import FFM
from sparsam.start import STARTS

WIDTH = 64  # of the features
FRAMES = 8  # of the MLP with frame stacking, which remembers nothing else
HIDDEN, WORD = 64, 16  # units and word size of SAM and SDNC
# First weights for what must last: a row that is read is not written again, as far as float32 tells. With a controller
# that is feed-forward nothing but the memory carries a state, so nothing drifts.
LASTING = replace(STARTS["open"], reuse=-30.0)


class Core(nn.Module):
    """The interface; `state_size` numbers per element are carried by those that carry plain numbers."""

    state_size = 0

    def initial(self, batch: int) -> Any:
        return torch.zeros(batch, self.state_size)

    def run(self, x: Tensor, state: Any, begins: Tensor | None = None) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def step(self, x: Tensor, state: Any, begins: Tensor) -> tuple[Tensor, Any]:
        y, state = self.run(x[None], state, begins[None])
        return y[0], state

    def sequence(self, x: Tensor, state: Any, begins: Tensor) -> Tensor:
        return self.run(x, state, begins)[0]


class Memory(Core):
    """A model of sparsam's, which resets inside a sequence by itself."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def initial(self, batch: int) -> Any:
        return self.model.initial_state(batch)

    def run(self, x: Tensor, state: Any, begins: Tensor | None = None) -> tuple[Tensor, Any]:
        found: tuple[Tensor, Any] = self.model(x, state, resets=begins)
        return found


class States(tuple):  # type: ignore[type-arg]
    """The states of several layers, indexed together."""

    def __getitem__(self, part: Any) -> Any:
        return States(state[part] for state in self)


class Block(Core):
    """Two layers of `SparseMemory`, each behind a norm and beside a residual."""

    def __init__(self, inputs: int, width: int, **sizes: Any) -> None:
        super().__init__()
        self.embed, self.output = nn.Linear(inputs, width), nn.Linear(width, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.layers = nn.ModuleList(sparsam.SparseMemory(width, **sizes) for _ in range(2))

    def initial(self, batch: int) -> Any:
        return States(layer.initial_state(batch) for layer in self.layers)  # type: ignore[operator]

    def run(self, x: Tensor, state: Any, begins: Tensor | None = None) -> tuple[Tensor, Any]:
        x, after = self.embed(x), []
        for norm, layer, before in zip(self.norms, self.layers, iter(state)):
            y, kept = layer(norm(x), before, resets=begins)
            x = x + y
            after.append(kept)
        return self.output(self.norms[-1](x)), States(after)


class TorchRecurrent(Core):
    """`nn.LSTM` or `nn.GRU`. A sequence is cut where episodes begin, and all pieces run as one padded batch."""

    def __init__(self, kind: Callable[[int, int], nn.Module], inputs: int, hidden: int) -> None:
        super().__init__()
        self.recurrent, self.output = kind(inputs, hidden), nn.Linear(hidden, WIDTH)
        self.hidden, self.parts = hidden, 2 if kind is nn.LSTM else 1
        self.state_size = hidden * self.parts

    def _unpacked(self, state: Tensor) -> Any:
        parts = [part[None].contiguous() for part in state.split(self.hidden, dim=1)]
        return tuple(parts) if self.parts == 2 else parts[0]

    def run(self, x: Tensor, state: Tensor, begins: None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        y, after = self.recurrent(x, self._unpacked(state))
        return self.output(y), torch.cat([part[0] for part in (after if self.parts == 2 else (after,))], dim=1)

    def step(self, x: Tensor, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.run(x[None], state.masked_fill(begins[:, None], 0.0))
        return y[0], state

    def sequence(self, x: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        time, batch = begins.shape
        cuts = begins.T.clone()  # (B, T): a piece begins here
        cuts[:, 0] = True
        piece = cuts.flatten().cumsum(0).view(batch, time) - 1
        starts = torch.where(cuts, torch.arange(time), 0).cummax(1).values
        place = torch.arange(time) - starts
        pieces, longest = int(piece.max()) + 1, int(place.max()) + 1
        padded = x.new_zeros(longest, pieces, x.shape[2]).index_put((place.T, piece.T), x)
        began = x.new_zeros(pieces, state.shape[1])
        began = began.index_put((piece[:, 0],), state.masked_fill(begins[0][:, None], 0.0))
        y = self.recurrent(padded, self._unpacked(began))[0]
        return self.output(y[place.T, piece.T])


class Frames(Core):
    """An MLP over the last observations of this episode; what is earlier than it is zeros."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.inputs = inputs
        self.state_size = (FRAMES - 1) * inputs
        self.net = nn.Sequential(nn.Linear(FRAMES * inputs, hidden), nn.ReLU(), nn.Linear(hidden, WIDTH))

    def step(self, x: Tensor, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        frames = torch.cat([state.masked_fill(begins[:, None], 0.0), x], dim=1)
        return self.net(frames), frames[:, self.inputs :]

    def run(self, x: Tensor, state: Tensor, begins: None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        y = self.sequence(x, state, torch.zeros(x.shape[:2], dtype=torch.bool))
        seen = torch.cat([state, x.transpose(0, 1).flatten(1)], dim=1)
        return y, seen[:, -self.state_size :]

    def sequence(self, x: Tensor, state: Tensor, begins: Tensor) -> Tensor:
        time, batch, _ = x.shape
        before = state.view(batch, FRAMES - 1, self.inputs).transpose(0, 1)
        seen = torch.cat([before, x])
        episode = torch.cat([torch.zeros(FRAMES - 1, batch, dtype=torch.long), begins.long().cumsum(0)])
        frames = [
            seen[back : back + time] * (episode[back : back + time] == episode[FRAMES - 1 :])[..., None]
            for back in range(FRAMES)
        ]
        return self.net(torch.cat(frames, dim=2))


class Forgetful(Core):
    """Fast and Forgetful Memory."""

    def __init__(self, inputs: int, traces: int) -> None:
        super().__init__()
        self.model = FFM(inputs, WIDTH, traces)
        self.state_size = self.model.state_size

    def run(self, x: Tensor, state: Tensor, begins: Tensor | None = None) -> tuple[Tensor, Tensor]:
        begins = torch.zeros(x.shape[:2], dtype=torch.bool) if begins is None else begins
        found: tuple[Tensor, Tensor] = self.model(x, state, begins)
        return found


def parameters(core: nn.Module) -> int:
    return sum(parameter.numel() for parameter in core.parameters())


def recurrent(name: str, inputs: int, rows: int, hidden: int = HIDDEN, **options: Any) -> Core:
    sizes = {"input_size": inputs, "output_size": WIDTH, "hidden_size": hidden, "memory_size": rows, "word_size": WORD}
    return Memory(sparsam.build(name, **sizes, **options))


# What is matched: the width that each name is built with.
_MATCHED: dict[str, Callable[[int, int, int], Core]] = {
    "layer": lambda inputs, width, rows: Block(inputs, width, memory_size=rows, word_size=WORD),
    "gru": lambda inputs, width, _: TorchRecurrent(nn.GRU, inputs, width),
    "lstm": lambda inputs, width, _: TorchRecurrent(nn.LSTM, inputs, width),
    "frames": lambda inputs, width, _: Frames(inputs, width),
    "ffm": lambda inputs, width, _: Forgetful(inputs, width),
    "sam-feedforward": lambda inputs, width, rows: recurrent(
        "sam", inputs, rows, width, controller="feedforward", start=LASTING
    ),
}
CORES = ("sam", "sdnc", *_MATCHED)


def make(name: str, inputs: int, memory_size: int = 1024) -> Core:
    """A core by name; those that are matched are the widest with no more parameters than SAM's."""
    if name in ("sam", "sdnc"):
        return recurrent(name, inputs, memory_size)
    build = _MATCHED[name]
    with torch.device("meta"):
        most = parameters(recurrent("sam", inputs, memory_size))
        low, high = 1, 4096
        while high - low > 1:
            middle = (low + high) // 2
            fits = parameters(build(inputs, middle, memory_size)) <= most
            low, high = (middle, high) if fits else (low, middle)
    return build(inputs, low, memory_size)
