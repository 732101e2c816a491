"""The calling convention of `nn.LSTM`, which the six models and the layer share: sequences, states, lengths, resets."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sparsam import checks, engines
from sparsam.memories.memory import Memory
from sparsam.state import State
from sparsam.trace import Access, Trace
from sparsam.transfer import sent


def first_parameter(module: nn.Module) -> Tensor | None:
    """`next(module.parameters())` without its generators: a call needs it several times."""
    for parameter in module._parameters.values():
        if parameter is not None:
            return parameter
    for child in module._modules.values():
        found = None if child is None else first_parameter(child)
        if found is not None:
            return found
    return None


class Recurrent(nn.Module):
    """A module with a memory that runs sequences.

    Subclasses give `run` (a sequence from a state), `start_fields` (what a fresh state holds besides the memory) and
    `start_shapes` (the shapes of those).
    """

    state_class: ClassVar[type[State]]
    memory: Memory | None
    input_size: int

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """`nn.LSTM` has `bidirectional`, so it is asked for here too, and an unknown argument would not say why not."""
        if kwargs.get("bidirectional"):
            raise ValueError(
                f"bidirectional: expected a {cls.__name__} that runs forward in time, got True; a memory written "
                "as it is read has one direction; run a second model over x.flip(0) and join the outputs"
            )
        return super().__new__(cls)

    def __init__(self, batch_first: bool, engine: str) -> None:
        super().__init__()
        self.batch_first = checks.boolean("batch_first", batch_first)
        self.engine = engine

    @property
    def engine(self) -> str:
        """The engine asked for; `engine_used` is the one that runs."""
        return self._engine

    @engine.setter
    def engine(self, name: str) -> None:
        self._engine = checks.one_of("engine", name, engines.names())

    def __setattr__(self, name: str, value: Any) -> None:
        # nn.Module would keep a module under the name of a property, where nobody ever sees it.
        if isinstance(value, nn.Module) and isinstance(getattr(type(self), name, None), property):
            raise TypeError(f"{name}: expected a setting, got a module {type(value).__name__}")
        super().__setattr__(name, value)

    @property
    def engine_used(self) -> str:
        """The engine that runs this module where its parameters are now: "native", "cuda" or "reference"."""
        return engines.plan(self).engine.name

    @property
    def engine_plan(self) -> str:
        """`engine_used` in words: whether the controller runs inside the engine, and if not, why."""
        return str(engines.plan(self))

    @property
    def index_used(self) -> str:
        """What finds the K most similar words: "linear" (exact), an index, or for `auto` both and when.

        "none" for a module that searches for no words. What answered in a call stands in the state that it returned,
        `state.index_used`.
        """
        index = getattr(getattr(self.memory, "sizes", None), "index", None)
        return "none" if index is None else index.plan

    def why_not_fused(self, engine: engines.Engine) -> str | None:
        """Why a fast engine has to call parts of this module step by step; None when it need not."""
        return None

    @property
    def like(self) -> Tensor:
        """A parameter, for its device and type."""
        found = None if torch.compiler.is_compiling() else first_parameter(self)
        return next(self.parameters()) if found is None else found

    def state_like(self, like: Tensor) -> Tensor:
        """A tensor of the device and type of this module's states: float32 for parameters `like` of half precision."""
        if self.memory is None or like.dtype in (torch.float32, torch.float64):
            return like
        return like.new_empty((), dtype=engines.engine_of(self).holds(like.dtype))

    def start_fields(self, batch: int, like: Tensor) -> dict[str, Any]:
        """The fields of a fresh state besides the memory's."""
        raise NotImplementedError

    def start_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of those fields, without the batch dimension."""
        raise NotImplementedError

    def run(self, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> tuple[Tensor, State, Sequence[Access]]:
        """x (T, B, I) from `state`; `ends` (B,) are lengths in 0..T on the CPU."""
        raise NotImplementedError

    def initial_state(self, batch_size: int, initial_memory: Tensor | None = None) -> Any:
        """What a call without a state starts from: all zero, the memory blank or `initial_memory`.

        `initial_memory` is (N, W), shared by the batch, or (B, N, W). The state keeps the numbers that it has now; a
        gradient reaches it.
        """
        checks.positive_int("batch_size", batch_size)
        memory, like = self.memory, self.state_like(self.like)
        if memory is None:
            if initial_memory is not None:
                raise ValueError(f"initial_memory: {type(self).__name__} has no memory, expected None")
            fields = self.start_fields(batch_size, like)
        else:
            if initial_memory is not None:
                if isinstance(initial_memory, Tensor) and initial_memory.dtype == self.like.dtype:
                    initial_memory = initial_memory.to(like.dtype)
                checks.initial_memory(initial_memory, batch_size, memory.rows, memory.width, like)
            held = engines.engine_of(self).fresh(memory, batch_size, initial_memory, like)
            fields = {**held, **self.start_fields(batch_size, like)}
        return self._started(fields)

    def _started(self, fields: dict[str, Any]) -> Any:
        fields = {"hidden": None, "cell": None, **fields}
        return self.state_class(**fields, start=self.state_class(**fields))  # type: ignore[call-arg]

    def _start(self, batch: int, like: Tensor) -> Any:
        """What a call without a state starts from: `initial_state`, with tensors that the engine may have kept."""
        if self.memory is None or type(self).initial_state is not Recurrent.initial_state:
            return self.initial_state(batch)
        like = self.state_like(like)
        held = engines.engine_of(self).start(self.memory, batch, like)
        return self._started({**held, **self.start_fields(batch, like)})

    def forward(
        self,
        x: Any,
        state: Any = None,
        lengths: Tensor | None = None,
        resets: Tensor | None = None,
    ) -> tuple[Any, Any]:
        """Run a sequence x (T, B, I), or (B, T, I) with `batch_first`; returns the outputs and the final state.

        `state` continues from where another call ended. `lengths` (B,) marks padded batches: steps past an element's
        length change nothing and their outputs are 0. `resets` (T, B), or (B, T) with `batch_first`, is true where an
        element starts anew before that step, from the state that its sequence began with. x may also be (T, I), one
        sequence without a batch, or a `PackedSequence`, which comes back as one.
        """
        if isinstance(x, PackedSequence):
            return self._packed(x, state, lengths, resets)
        if isinstance(x, Tensor) and x.dim() == 2 and x.shape[-1] == self.input_size:
            if lengths is not None:
                raise ValueError("lengths: expected None for one sequence without a batch, (T, I)")
            at = 0 if self.batch_first else 1
            flags = None if resets is None else checks.as_tensor("resets", resets, "a bool tensor").unsqueeze(at)
            y, state = self.forward(x.unsqueeze(at), state, None, flags)
            return y.squeeze(at), state
        y, state, _ = self._run(x, state, lengths, resets, record=False)
        return y, state

    def _packed(self, x: PackedSequence, state: Any, lengths: Any, resets: Any) -> tuple[PackedSequence, Any]:
        if lengths is not None:
            raise ValueError("lengths: expected None beside a PackedSequence, which has its own")
        padded, ends = pad_packed_sequence(x, batch_first=self.batch_first)
        y, state = self.forward(padded, state, ends, resets)
        order = x.sorted_indices
        if order is not None:
            y, ends = y.index_select(0 if self.batch_first else 1, order), ends[order.cpu()]
        packed = pack_padded_sequence(y, ends, batch_first=self.batch_first)
        return PackedSequence(packed.data, x.batch_sizes, x.sorted_indices, x.unsorted_indices), state

    def trace(self, x: Tensor, state: Any = None, lengths: Tensor | None = None, resets: Tensor | None = None) -> Trace:
        """Run a sequence and record which rows each head read and wrote when (see `Trace`)."""
        _, _, accesses = self._run(x, state, lengths, resets, record=True)
        return Trace.of(accesses)

    def _run(self, x: Any, state: Any, lengths: Any, resets: Any, record: bool) -> tuple[Tensor, Any, Sequence[Access]]:
        like = self.like
        x = checks.sequence(x, self.input_size, self.batch_first, like)
        steps, batch, _ = x.shape
        if lengths is not None:
            lengths = checks.sequence_lengths(lengths, steps, batch)
            past = torch.arange(steps, device="cpu")[:, None] >= lengths
            x = x.masked_fill(sent(past[..., None], x.device), 0.0)  # padding, NaN too, must not reach a gradient
            if not torch.compiler.is_compiling() and not bool(past.any()):
                lengths = None
        if state is None:
            state = self._start(batch, like)
        elif torch.compiler.is_compiling() or getattr(state, "checked", None) != self._fit(like, batch):
            state = self._checked_state(state, batch, self.state_like(like))
        if resets is None:
            y, state, accesses = self.run(x, state, lengths, record)
        else:
            flags = checks.reset_flags(resets, steps, batch, self.batch_first)
            y, state, accesses = self._run_episodes(x, state, lengths, flags, record)
        if not torch.compiler.is_compiling():
            state.__dict__["checked"] = self._fit(like, batch)
        return y.transpose(0, 1) if self.batch_first else y, state, accesses

    def _fit(self, like: Tensor, batch: int) -> tuple[Any, ...]:
        """All that the check of a state depends on: a state that came out of this module is not checked again."""
        controller = self._modules.get("controller")
        return self.memory, None if controller is None else weakref.ref(controller), like.dtype, like.device, batch

    def _run_episodes(
        self, x: Tensor, state: Any, lengths: Tensor | None, flags: Tensor, record: bool
    ) -> tuple[Tensor, Any, Sequence[Access]]:
        """The sequence in pieces that begin where an element starts anew."""
        steps = x.shape[0]
        if lengths is not None:
            flags = flags & (torch.arange(steps, device="cpu")[:, None] < lengths)
        every = torch.compiler.is_compiling()  # a graph cannot depend on where the flags are
        begins = [t for t in range(steps) if t == 0 or every or bool(flags[t].any())]
        outputs: list[Tensor] = []
        seen: list[Access] = []
        for begin, end in zip(begins, [*begins[1:], steps]):
            if every or bool(flags[begin].any()):
                state = state.reset(sent(flags[begin], x.device))
            left = None if lengths is None else (lengths - begin).clamp(0, end - begin)
            y, state, accesses = self.run(x[begin:end], state, left, record)
            outputs.append(y)
            seen += [access.later(begin) for access in accesses]
        return torch.cat(outputs), state, seen

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each field of a state that has one, without its batch dimension."""
        return {**self.start_shapes(), **({} if self.memory is None else self.memory.shapes())}

    def _checked_state(self, state: Any, batch: int, like: Tensor) -> Any:
        if type(state) is not self.state_class:
            raise TypeError(
                f"state: expected a {self.state_class.__name__} of a {type(self).__name__}, got {type(state).__name__}"
            )
        if state.batch_size != batch:
            raise ValueError(f"state: expected batch size B = {batch} as in x, got {state.batch_size}")
        expected = self.state_shapes()
        for name, want in expected.items():
            value = getattr(state, name)
            if not isinstance(value, Tensor) and not hasattr(value, "engine"):
                shape = ", ".join(["B", *map(str, want)])
                raise TypeError(f"state: expected {name} of shape ({shape}), got {type(value).__name__}")
            if (isinstance(value, Tensor) or len(value.shape) > 1) and tuple(value.shape[1:]) != want:
                raise ValueError(
                    f"state: expected {name} of shape (B, {', '.join(map(str, want))}), got {tuple(value.shape)}"
                )
            if value.shape[0] != batch:
                raise ValueError(f"state: expected {name} of batch size B = {batch}, got {value.shape[0]}")
            if isinstance(value, Tensor):
                if value.is_floating_point():
                    checks.like_parameter("state", value, like)
                elif value.dtype != torch.int64:
                    raise TypeError(f"state: expected {name} of dtype torch.int64, got {value.dtype}")
        return state
