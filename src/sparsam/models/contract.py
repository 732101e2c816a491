"""The calling convention of `nn.LSTM`, which the six models and the layer share: sequences, states, lengths, resets."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, overload

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from typing_extensions import Self, TypeVar

from sparsam import checks, engines, tickets
from sparsam.engines.engine import REGISTERED
from sparsam.engines.plan import Parts, Plan, resolve
from sparsam.memories.memory import Memory
from sparsam.models import episodes, given_state
from sparsam.start import Start
from sparsam.state import State
from sparsam.trace import Access, Trace
from sparsam.transfer import blank_past
from sparsam.transforms import has_numbers

_warned: set[str] = set()  # what was said, once in a process

S = TypeVar("S", bound=State, default=State)  # the state of a model, so that an editor knows the fields of `state`

# What the parameters were made for; `nn.LSTM` has attributes of these names too.
AS_MADE = frozenset({"input_size", "output_size", "read_size", "proj_size", "bidirectional"})
FACTS_OF_SELF = 9  # where the facts of a plan name the model itself
NO_TORCHSCRIPT = "{} knows no memory, only tensors; torch.compile runs the model and torch.export.export writes it down"


class Recurrent(nn.Module, Generic[S]):
    """A module with a memory that runs sequences.

    Subclasses give `run` (a sequence from a state), `start_fields` (what a fresh state holds besides the memory) and
    `start_shapes` (the shapes of those).
    """

    state_class: ClassVar[type[State]]
    memory: Memory | None
    input_size: int
    proj_size: ClassVar[int] = 0  # of nn.LSTM, which is asked for these two
    bidirectional: ClassVar[bool] = False
    _began: str | Start | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """What Python says of an unknown argument names neither what is known nor why `nn.LSTM`'s is not."""
        if kwargs.get("bidirectional"):
            raise ValueError(
                f"bidirectional: expected a {cls.__name__} that runs forward in time, got True; a memory written "
                "as it is read has one direction; run a second model over x.flip(0) and join the outputs"
            )
        known = inspect.signature(cls.__init__).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
            names = [name for name in known if name != "self"]
            for key in kwargs:
                if key not in names:
                    hint = checks.did_you_mean(key, names) or f" ({', '.join(names)})"
                    raise TypeError(f"{key}: expected an argument of {cls.__name__}, got {key!r}{hint}")
        return super().__new__(cls)

    def __init__(self, batch_first: bool, engine: str) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.engine = engine

    def __prepare_scriptable__(self) -> Any:
        raise RuntimeError(NO_TORCHSCRIPT.format("torch.jit.script"))

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
        if name in AS_MADE and hasattr(self, name) and getattr(self, name) != value:
            raise AttributeError(
                f"{name}: expected {getattr(self, name)}, as this {type(self).__name__} was made, got {value!r}"
            )
        if name == "batch_first":
            checks.boolean(name, value)
        super().__setattr__(name, value)

    @property
    def start(self) -> str | Start | None:
        """How the weights began: "open", "plain" or a `sparsam.Start`; None for a model without a memory."""
        return self._began

    @property
    def plan(self) -> Plan:
        """How this module is run where its parameters are now; `str(model.plan)` says so in words, with the reason."""
        return self._planned()[0]

    @property
    def engine_used(self) -> str:
        """The engine that runs this module where its parameters are now: "native", "cuda" or "reference"."""
        return self.plan.engine.name

    @property
    def engine_plan(self) -> str:
        """`engine_used` in words: whether the controller runs inside the engine, and if not, why."""
        return str(self.plan)

    @property
    def index_used(self) -> str:
        """What finds the K most similar words: "linear" (exact), an index, or for `auto` both and when.

        "none" for a module that does not search. The state that a call returns says what answered: `state.index_used`.
        """
        return self.plan.index

    def _planned(self) -> tuple[Plan, Tensor]:
        """The plan, and a parameter for its device and type; the plan of the last call where nothing has changed.

        The facts are all that a plan depends on. They are read in one place, because every call reads them.
        """
        if torch.compiler.is_compiling():  # a graph is traced once
            like = next(self.parameters())
            return self._resolved(like), like
        kind, own, first = type(self), self.__dict__, None
        facts: list[Any] = [REGISTERED[0], self._engine, self.memory, torch_module._has_any_global_hook()]
        facts += (getattr(kind, "control", None), getattr(kind, "answer", None), own.get("control"), own.get("answer"))
        facts.append(own.get("_backward_clip") is None)
        todo: list[nn.Module | None] = [self]
        while todo:
            module = todo.pop()
            if module is None:
                continue
            hooked = module._forward_hooks or module._forward_pre_hooks
            hooked = hooked or module._backward_hooks or module._backward_pre_hooks
            facts += (module, type(module), type(module).forward, module.__dict__.get("forward"), bool(hooked))
            for name, parameter in module._parameters.items():
                if parameter is None:
                    facts.append(name)
                elif first is None:
                    first = parameter
            todo += reversed(module._modules.values())
        like = next(self.parameters()) if first is None else first
        facts += (like.dtype, like.device, not like.is_meta and torch.is_autocast_enabled(like.device.type))
        facts[FACTS_OF_SELF] = None  # a plan does not hold its model
        plan: Plan | None = own.get("_plan")
        if plan is None or plan.facts != facts:
            plan = self._resolved(like)
            plan.facts = facts
            own["_plan"] = plan
        return plan, like

    def _resolved(self, like: Tensor) -> Plan:
        plan = resolve(type(self).__name__, self._engine, self.memory, like, self.parts)
        plan.fields, plan.zeros = tuple(self.state_shapes().items()), None
        if type(self).start_fields is Recurrent.start_fields and not self.carried():
            plan.zeros = tuple(self.start_shapes().items())
        plan.others = given_state.others(self)
        return plan

    def __getstate__(self) -> dict[str, Any]:
        """A copy, and a model that is loaded, makes a plan of its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_plan"}

    def parts(self) -> Parts:
        """What an engine may run besides the memory, and why it may not run the rest."""
        return Parts()

    @property
    def like(self) -> Tensor:
        """A parameter, for its device and type."""
        return next(self.parameters())

    def state_like(self) -> Tensor:
        """A tensor of the device and type of this module's states: float32 for parameters of half precision."""
        plan, like = self._planned()
        return like if like.dtype == plan.holds else like.new_empty((), dtype=plan.holds)

    def options_in_use(self) -> list[str]:
        """The options of later work that this model was made with, as they would be written in its constructor."""
        return [] if self.memory is None else [f"{name}={value}" for name, value in self.memory.options().items()]

    def extra_repr(self) -> str:
        shown = [] if self.memory is None else [f"{name}={value!r}" for name, value in self.memory.settings().items()]
        shown += [] if self.start is None else [f"start={self.start!r}"]
        shown += [*self.options_in_use(), f"batch_first={self.batch_first}", f"engine={self.engine!r}"]
        if self.engine == "auto":
            shown.append(f"engine_used={self.engine_used!r}")
        return ", ".join(shown)

    def start_fields(self, batch: int, like: Tensor) -> dict[str, Any]:
        """The fields of a fresh state besides the memory's."""
        zeros = {name: like.new_zeros(batch, *shape) for name, shape in self.start_shapes().items()}
        return zeros | {name: make(batch) for name, make in self.carried().items()}

    def start_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of those that are zeros, without the batch dimension."""
        raise NotImplementedError

    def carried(self) -> dict[str, Callable[[int], Any]]:
        """The others by name, and what makes them for a batch."""
        return {}

    def run(
        self, plan: Plan, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> tuple[Tensor, State, Sequence[Access]]:
        """x (T, B, I) from `state`; `ends` (B,) are lengths in 0..T on the CPU."""
        raise NotImplementedError

    def initial_state(self, batch_size: int, initial_memory: Tensor | None = None) -> S:
        """The state that a call without one starts from: all zero, the memory blank or `initial_memory`.

        `initial_memory` is (N, W), shared by the batch, or (B, N, W). The state keeps a copy, and gradients flow back
        to it.
        """
        checks.positive_int("batch_size", batch_size)
        plan, parameter = self._planned()
        memory, like = self.memory, self.state_like()
        if initial_memory is not None:
            if memory is None:
                raise ValueError(f"initial_memory: {type(self).__name__} has no memory, expected None")
            if isinstance(initial_memory, Tensor) and initial_memory.dtype == parameter.dtype:
                initial_memory = initial_memory.to(like.dtype)
            checks.initial_memory(initial_memory, batch_size, memory.rows, memory.width, like)
        held = {} if memory is None else plan.engine.fresh(plan.memory, batch_size, initial_memory, like)
        return self._started({**held, **self.start_fields(batch_size, like)})

    def state_of(self, ticket: Tensor | tuple[Tensor, Tensor]) -> S:
        """The state that `state.ticket()` (B, 10) stands for; a line of zeros is a fresh one. A call takes both."""
        return tickets.redeem(ticket, self.initial_state)

    def unpack(self, packed: dict[str, Tensor], initial_memory: Tensor | None = None) -> S:
        """The state that `state.pack(rows)` put into tensors; an element of zeros is a fresh one.

        `initial_memory` is the one that the sequence began with, as in `initial_state`.
        """
        from sparsam import packing

        return packing.unpack(self, packed, initial_memory)

    def _started(self, fields: dict[str, Any]) -> Any:
        fields = {"hidden": None, "cell": None, **fields}
        return self.state_class(**fields, start=self.state_class(**fields))  # type: ignore[call-arg]

    def _start(self, plan: Plan, batch: int, like: Tensor) -> Any:
        """What a call without a state starts from: `initial_state`, with tensors that the engine may have kept."""
        own = type(self).initial_state is not Recurrent.initial_state or "initial_state" in self.__dict__
        if plan.memory is None or own:
            return self.initial_state(batch)
        like = like if like.dtype == plan.holds else like.new_empty((), dtype=plan.holds)
        fields: dict[str, Any] = {"hidden": None, "cell": None, **plan.engine.start(plan.memory, batch, like)}
        if plan.zeros is None:
            fields |= self.start_fields(batch, like)
        else:
            for name, shape in plan.zeros:
                fields[name] = like.new_zeros(batch, *shape)
        return self.state_class(**fields, start=self.state_class(**fields))  # type: ignore[call-arg]

    def forward(
        self,
        x: Tensor | PackedSequence,
        state: S | Tensor | tuple[Tensor, Tensor] | None = None,
        lengths: Tensor | None = None,
        resets: Tensor | None = None,
    ) -> tuple[Any, S]:
        """Run a sequence x (T, B, I), or (B, T, I) with `batch_first`; returns the outputs and the final state.

        `state` continues from where another call ended. `lengths` (B,) marks padded batches: steps past an element's
        length change nothing and their outputs are 0. `resets` (T, B), or (B, T) with `batch_first`, is true where an
        element starts afresh before that step, in the state that its sequence began with. x may also be (T, I), one
        sequence without a batch, or a `PackedSequence`, which comes back as one.
        """
        if isinstance(x, PackedSequence):
            return self._packed(x, state, lengths, resets)
        if isinstance(x, Tensor) and x.dim() == 2 and x.shape[-1] == self.input_size:
            if lengths is not None:
                raise ValueError("lengths: expected None for one sequence without a batch, (T, I)")
            at = 0 if self.batch_first else 1
            flags = None if resets is None else checks.as_tensor("resets", resets, "a bool tensor").unsqueeze(at)
            y, after = self.forward(x.unsqueeze(at), state, None, flags)
            return y.squeeze(at), after
        if not torch.compiler.is_compiling() and torch.autograd._profiler_enabled():
            with torch.profiler.record_function(f"sparsam::{type(self).__name__}"):
                y, after, _ = self._run(x, state, lengths, resets, record=False)
        else:
            y, after, _ = self._run(x, state, lengths, resets, record=False)
        return y, after

    if TYPE_CHECKING:

        @overload
        def __call__(
            self,
            x: Tensor,
            state: S | Tensor | tuple[Tensor, Tensor] | None = None,
            lengths: Tensor | None = None,
            resets: Tensor | None = None,
        ) -> tuple[Tensor, S]: ...
        @overload
        def __call__(
            self,
            x: PackedSequence,
            state: S | Tensor | tuple[Tensor, Tensor] | None = None,
            lengths: None = None,
            resets: Tensor | None = None,
        ) -> tuple[PackedSequence, S]: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

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

    def trace(
        self,
        x: Tensor,
        state: S | Tensor | tuple[Tensor, Tensor] | None = None,
        lengths: Tensor | None = None,
        resets: Tensor | None = None,
    ) -> Trace:
        """Run a sequence and record which rows each head read and wrote when (see `Trace`)."""
        _, _, accesses = self._run(x, state, lengths, resets, record=True)
        return Trace.of(accesses)

    def _run(self, x: Any, state: Any, lengths: Any, resets: Any, record: bool) -> tuple[Tensor, Any, Sequence[Access]]:
        if torch._C._get_tracing_state() is not None and self.memory is not None:
            raise RuntimeError(NO_TORCHSCRIPT.format("torch.jit.trace (and torch.onnx.export by way of it)"))
        plan, like = self._planned()
        if plan.warning and plan.warning not in _warned:
            _warned.add(plan.warning)
            warnings.warn(plan.warning, stacklevel=6)
        x = checks.sequence(x, self.input_size, self.batch_first, like)
        steps, batch, _ = x.shape
        if lengths is not None:
            lengths = checks.sequence_lengths(lengths, steps, batch)
            x = blank_past(x, lengths)  # padding, NaN too, must not reach a gradient
            if has_numbers(lengths) and bool((lengths == steps).all()):
                lengths = None
        if state is None:
            state = self._start(plan, batch, like)
        else:
            if torch.compiler.is_compiling() or not self._fits(plan, state, batch, like):
                state = self.state_of(state) if self._is_ticket(state) else state
                state = self._checked_state(state, batch, self.state_like())
            plan.engine.check(plan.memory, state)
        if resets is None:
            y, state, accesses = self.run(plan, x, state, lengths, record)
        else:
            flags = checks.reset_flags(resets, steps, batch, self.batch_first)
            y, state, accesses = episodes.run(self, plan, x, state, lengths, flags, record)
        return y.transpose(0, 1) if self.batch_first else y, state, accesses

    def _fits(self, plan: Plan, state: Any, batch: int, like: Tensor) -> bool:
        """Whether a state is of this module's kind, sizes, type and device; `_checked_state` says what is wrong."""
        if type(state) is not self.state_class:
            return False
        held, device, types = state.__dict__, like.device, (plan.holds, torch.int64)
        for name, there in plan.others:
            if (held[name] is not None) is not there:
                return False
        for name, shape in plan.fields:
            value = held.get(name)
            if type(value) is not Tensor:
                whole = getattr(value, "shape", ())
                if not hasattr(value, "engine") or whole not in ((batch, *shape), (batch,)):
                    return False
            elif value.shape != (batch, *shape) or value.device != device or value.dtype not in types:
                return False
        return True

    def state_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each field of a state that has one, without its batch dimension."""
        return {**self.start_shapes(), **({} if self.memory is None else self.memory.shapes())}

    def _is_ticket(self, state: Any) -> bool:
        return tickets.is_ticket(state)

    def _checked_state(self, state: Any, batch: int, like: Tensor) -> Any:
        return given_state.checked(self, state, batch, like)
