"""A memory in torchrl: `MemoryModule` is used as their `LSTMModule`. Needs `pip install torchrl`.

    from sparsam.adapters.torchrl import MemoryModule

    memory = MemoryModule(sparsam.SAM(8, 64), in_key="observation", out_key="features")
    policy = TensorDictSequential(memory, head)
    env = env.append_transform(InitTracker()).append_transform(memory.make_tensordict_primer())

The state of each step is one tensor of the tensordict. By default it is a ticket (`sparsam.tickets`), ten numbers that
hold in this process: for a `Collector`, its replay buffer and a loss in one process, environments in others. With
`rows=n` it is the packed state (`sparsam.packing`), whole and in bytes, with room for the n rows that an episode
touches: for collectors in several processes and buffers on disk. Either way zeros are a fresh state.
"""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase, unravel_key_list
from tensordict.nn import TensorDictModuleBase, dispatch
from torch import Tensor
from torchrl.data import Unbounded
from torchrl.envs.transforms import TensorDictPrimer
from torchrl.modules import recurrent_mode

from sparsam import packing, tickets
from sparsam.models.contract import Recurrent

STATE = "recurrent_state"
NO_STATE = 255  # of the steps whose state a sequence does not give: neither a ticket, nor zeros, nor a packed state


class MemoryModule(TensorDictModuleBase):
    """One step, or in recurrent mode a sequence (..., T), of a model of sparsam over a tensordict.

    Args:
        model: `sparsam.SAM(...)` or any other with its calling convention.
        in_key, out_key: of x and y; the state is then "recurrent_state" and ("next", "recurrent_state").
        in_keys, out_keys: instead, the keys of x and state, and of y and state.
        rows: None for tickets, or the most rows that an episode touches, for packed states.
        default_recurrent_mode: outside `torchrl.modules.set_recurrent_mode`.

    A step whose "is_init" holds starts anew, in both modes and anywhere in a sequence. A sequence begins from the state
    of its first step and gives that of its last; the states between have no value, and are refused if used.
    """

    def __init__(
        self,
        model: Recurrent,
        *,
        in_key: Any = None,
        in_keys: Any = None,
        out_key: Any = None,
        out_keys: Any = None,
        rows: int | None = None,
        default_recurrent_mode: bool | None = None,
    ) -> None:
        super().__init__()
        if (in_key is None) == (in_keys is None) or (out_key is None) == (out_keys is None):
            raise ValueError("in_key, out_key: expected each of them or in_keys, out_keys, got both or none")
        given = unravel_key_list([in_key, STATE] if in_keys is None else list(in_keys))
        given = given if "is_init" in given else [*given, "is_init"]
        put = unravel_key_list([out_key, ("next", STATE)] if out_keys is None else list(out_keys))
        if len(given) != 3 or given[2] != "is_init":
            raise ValueError(f"in_keys: expected the keys of x and state, got {given}")
        if len(put) != 2:
            raise ValueError(f"out_keys: expected the keys of y and state, got {put}")
        self.in_keys, self.out_keys = given, put
        self.model, self.rows = model, rows
        self._default_mode = bool(default_recurrent_mode)
        self._like = None if rows is None else self._packed(model.initial_state(1))

    def _packed(self, state: Any) -> dict[str, Tensor]:
        return state.pack(None if isinstance(getattr(state, "memory", None), Tensor) else self.rows)

    @property
    def recurrent_mode(self) -> bool:
        """Whether a call runs sequences; `with set_recurrent_mode(True):` says so."""
        mode = recurrent_mode()
        return self._default_mode if mode is None else bool(mode)

    def make_tensordict_primer(self) -> TensorDictPrimer:
        """The transform that gives an environment room for the state."""
        key, following = (k if isinstance(k, tuple) else (k,) for k in (self.in_keys[1], self.out_keys[1]))
        if following != ("next", *key):
            raise RuntimeError(f"out_keys: expected the state under ('next', {key}), got {following}")
        room = Unbounded(shape=(tickets.WIDTH,))
        if self._like is not None:
            room = Unbounded(shape=packing.as_bytes(self._like).shape[1:], dtype=torch.uint8)
        return TensorDictPrimer({key: room}, expand_specs=True)

    def _written(self, state: Any) -> Tensor:
        """A state as it stands in a tensordict, (B, S)."""
        return state.ticket() if self._like is None else packing.as_bytes(self._packed(state))

    def _read(self, written: Tensor, is_init: Tensor) -> Any:
        """The state of what stands in a tensordict, fresh where `is_init` (B,) holds."""
        written = written.masked_fill(is_init[:, None], 0)
        if self._like is None:
            return self.model.state_of(written)
        return self.model.unpack(packing.from_bytes(written, self._like))

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Put y and the next state into the tensordict."""
        shape, sequences = tensordict.shape, self.recurrent_mode
        if sequences and not shape:
            raise ValueError("tensordict: expected time as its last dimension in recurrent mode, got none")
        steps = shape[-1] if sequences else 1
        x = tensordict.get(self.in_keys[0])
        x = x.reshape(-1, steps, x.shape[-1])
        is_init = tensordict.get(self.in_keys[2]).reshape(-1, steps)
        written = tensordict.get(self.in_keys[1], None)
        state = None
        if written is not None:
            state = self._read(written.reshape(-1, steps, written.shape[-1])[:, 0], is_init[:, 0])
        resets = is_init.clone()
        resets[:, 0] = False
        inside = bool(resets.any())
        if self.model.batch_first:
            y, state = self.model(x, state, resets=resets if inside else None)
        else:
            y, state = self.model(x.transpose(0, 1), state, resets=resets.T if inside else None)
            y = y.transpose(0, 1)
        after = self._written(state)
        if steps > 1:
            between = after.new_full((len(after), steps - 1, after.shape[-1]), NO_STATE)
            after = torch.cat([between, after[:, None]], dim=1)
        tensordict.set(self.out_keys[0], y.reshape(*shape, y.shape[-1]))
        tensordict.set(self.out_keys[1], after.reshape(*shape, after.shape[-1]))
        return tensordict
