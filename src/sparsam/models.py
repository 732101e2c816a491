"""The six models behind one contract: controller, interface to a memory, output layer (section 3.3 of the paper).

    h_t = controller([x_t, r_{t-1}]);   interface(h_t) drives the memory;   y_t = output([h_t, r_t]).

The memories are in `sparsam.memories`, the controllers in `sparsam.controllers`, the engines in `sparsam.engines`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from sparsam import checks, controllers, engines, indexes
from sparsam.controllers.bypass import BypassDropout
from sparsam.controllers.layers import layers_first, layers_last
from sparsam.engines.linear import linear
from sparsam.memories.dam import DAMMemory, DAMState
from sparsam.memories.description import SparseSizes
from sparsam.memories.dnc import DNCMemory, DNCState
from sparsam.memories.memory import Memory
from sparsam.memories.ntm import NTMMemory, NTMState
from sparsam.memories.sam import SAMMemory, SAMState
from sparsam.memories.sdnc import SDNCMemory, SDNCState
from sparsam.recurrent import Recurrent
from sparsam.settings import setting, sparse_setting
from sparsam.state import State
from sparsam.trace import Access

MODELS: dict[str, type[MemoryModel]] = {}  # by name, filled where a model is defined


def build(name: str, **kwargs: Any) -> MemoryModel:
    """Make a model by name, e.g. `sparsam.build("sam", input_size=8, output_size=8)`."""
    return MODELS[checks.one_of("name", name, MODELS)](**kwargs)


class MemoryModel(Recurrent):
    """Controller, interface and output layer around a memory, or around none.

    `controller`, `interface` and `output` are modules that may be replaced, hooked or parametrized: what cannot run
    inside a fast engine's loop is called, and the memory still runs in the engine.
    """

    name: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            MODELS[cls.name] = cls

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int,
        memory: Memory | None,
        batch_first: bool,
        engine: str,
        controller: Any = "lstm",
        num_layers: int = 1,
        dropout: float = 0.0,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(batch_first, engine)
        self.input_size = checks.positive_int("input_size", input_size)
        self.output_size = checks.positive_int("output_size", output_size)
        checks.positive_int("hidden_size", hidden_size)
        checks.positive_int("num_layers", num_layers)
        checks.number_in("dropout", dropout, 0.0, 1.0)
        if checks.boolean("layer_norm", layer_norm):
            if controller != "lstm":
                raise ValueError(f"layer_norm: expected controller='lstm' beside it, got {controller!r}")
            controller = "layer_norm_lstm"
        self.memory = memory
        self.read_size = 0 if memory is None else memory.read_size
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        inputs = input_size + self.read_size
        self.controller = controllers.make(controller, inputs, hidden_size, num_layers, dropout, **made)
        self.hidden_size = self.controller_kind.output_size(self.controller, hidden_size)
        if memory is not None:
            self.interface = nn.Linear(self.hidden_size, memory.interface.size, **made)
        self.output = nn.Linear(self.hidden_size + self.read_size, output_size, **made)
        checks.number_in("bypass_dropout", bypass_dropout, 0.0, 1.0)
        self.bypass = BypassDropout(self.hidden_size, bypass_dropout) if bypass_dropout else None

    @property
    def controller_kind(self) -> controllers.ControllerKind:
        return controllers.kind_of(self.controller)

    def start_fields(self, batch: int, like: Tensor) -> dict[str, Any]:
        return self.controller_kind.fields(self.controller, batch, like)

    def start_shapes(self) -> dict[str, tuple[int, ...]]:
        return self.controller_kind.shapes(self.controller)

    def why_not_fused(self, engine: engines.Engine) -> str | None:
        if type(self).control is not MemoryModel.control or "control" in self.__dict__:
            return f"{type(self).__name__} has a control() of its own"
        kind = self.controller_kind
        reason = kind.why_not_fused(self.controller) or engines.untouched_linear("interface", self.interface)
        if reason is None and kind.cell not in engine.fuses:
            return f"it has no cell for a controller of kind {kind.name!r}"
        return reason

    def control(self, x: Tensor, state: Any) -> tuple[Tensor, dict[str, Any]]:
        """h_t (B, H) of the controller, whose input is [x_t, r_{t-1}], and the state's fields that it changes."""
        inputs = torch.cat([x, state.read.flatten(1).to(x.dtype)], dim=-1)
        return self.controller_kind.step(self.controller, inputs, state)

    def answer(self, joint: Tensor) -> Tensor:
        """y (T, B, O) = output([h_t, r_t]) for all steps at once, [h_t, r_t] (T, B, H + R·W)."""
        return linear(self.output, joint if self.bypass is None else self.bypass(joint))

    def run(self, x: Tensor, state: Any, ends: Tensor | None, record: bool) -> tuple[Tensor, State, Sequence[Access]]:
        joint, after, accesses = engines.run(self, x, state, ends, record)
        y = self.answer(joint)
        if ends is not None:
            past = torch.arange(x.shape[0])[:, None] >= ends
            y = y.masked_fill(past[..., None].to(y.device), 0.0)
        return y, after, accesses

    def options_in_use(self) -> list[str]:
        """The options of later work that this model was made with, as they would be written in its constructor."""
        used = {} if self.memory is None else self.memory.options()
        if self.controller_kind.name == "layer_norm_lstm":
            used["layer_norm"] = True
        if self.bypass is not None:
            used["bypass_dropout"] = self.bypass.p
        return [f"{name}={value}" for name, value in used.items()]

    def extra_repr(self) -> str:
        shown = [] if self.memory is None else [f"{name}={value!r}" for name, value in self.memory.settings().items()]
        shown += [*self.options_in_use(), f"batch_first={self.batch_first}", f"engine={self.engine!r}"]
        if self.engine == "auto":
            shown.append(f"engine_used={self.engine_used!r}")
        return ", ".join(shown)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        old = f"{prefix}controller_norm."  # where weights of version 0.1 have what is now part of the controller
        for key in [key for key in state_dict if key.startswith(old)]:
            state_dict[f"{prefix}controller.norm.{key.removeprefix(old)}"] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *args)


@dataclass(frozen=True, eq=False, repr=False)
class LSTMState(State):
    """h and c; there is no memory."""

    start: LSTMState | None = None


class LSTM(MemoryModel):
    """The LSTM baseline: controller and output layer of the other models, without a memory.

    h_t, c_t = LSTM(x_t, h_{t-1}, c_{t-1});   y_t = output(h_t).

    Args:
        input_size, output_size, hidden_size: I, O and H.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto" or "reference"; both are `nn.LSTM`, which runs on every device.
        num_layers, dropout: of `nn.LSTM`.
        device, dtype: of the parameters.
    """

    name = "lstm"
    state_class = LSTMState

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        batch_first: bool = False,
        engine: str = "auto",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(
            input_size, output_size, hidden_size, None, batch_first, engine, "lstm", num_layers, dropout, **made
        )

    def _checked_state(self, state: Any, batch: int, like: Tensor) -> Any:
        """A state, or (h, c) as `nn.LSTM` takes them, (layers, B, H) each."""
        if isinstance(state, tuple) and len(state) == 2 and all(isinstance(v, Tensor) and v.dim() == 3 for v in state):
            hidden, cell = (layers_last(self.controller, value) for value in state)
            state = LSTMState(hidden, cell, start=self.initial_state(batch).start)
        return super()._checked_state(state, batch, like)

    def run(
        self, x: Tensor, state: Any, ends: Tensor | None, record: bool
    ) -> tuple[Tensor, LSTMState, Sequence[Access]]:
        """The whole sequence in one call of `nn.LSTM`, the fair way to run a baseline."""
        engines.plan(self)  # raises when the engine asked for has no LSTM
        carried = tuple(layers_first(self.controller, value) for value in (state.hidden, state.cell))
        if ends is None:
            hidden, after = self.controller(x, carried)
            y = self.answer(hidden)
        else:
            packed = pack_padded_sequence(x, ends.clamp_min(1), enforce_sorted=False)  # torch refuses empty sequences
            packed, after = self.controller(packed, carried)
            hidden, _ = pad_packed_sequence(packed, total_length=x.shape[0])
            past = torch.arange(x.shape[0], device=x.device)[:, None] >= ends.to(x.device)
            y = self.answer(hidden).masked_fill(past[..., None], 0.0)
            began = (ends > 0).to(x.device)[None, :, None]
            after = tuple(torch.where(began, now, before) for now, before in zip(after, carried))
        hidden, cell = (layers_last(self.controller, value).to(x.dtype) for value in after)  # half under autocast
        return y, dataclasses.replace(state, hidden=hidden, cell=cell), []


class SAM(MemoryModel):
    """Sparse Access Memory (section 3): a controller with N words, of which K per head are read and R(K+1) written.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads, k: R access heads, each reads the K most similar words.
        index: how those are found: "linear" (exact) or the name or object of an approximate index.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        delta: a row counts as accessed when its weights exceed this.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", "native" or "cuda".
        masked: masked content addressing (`sparsam.engines.reference.masking`; Csordas and Schmidhuber 2019).
        layer_norm: layer-normalised controller (`sparsam.controllers.layer_norm`; Franke et al. 2018).
        bypass_dropout: dropout between controller and output layer (`sparsam.controllers.bypass`; Franke et al. 2018).
        controller: "lstm", "gru", "feedforward", or an `nn.Module` of your own (`sparsam.controllers.own`).
        num_layers, dropout: of the controller.
        device, dtype: of the parameters.
    """

    name = "sam"
    state_class: ClassVar[type[State]] = SAMState
    memory: SAMMemory

    memory_size, word_size, num_heads = sparse_setting("rows"), setting("memory.width"), setting("memory.heads")
    k, similarity, delta = sparse_setting("k"), sparse_setting("similarity"), sparse_setting("delta")
    index, masked = sparse_setting("index", indexes.resolve), setting("memory.sizes.masked")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        index: Any = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        batch_first: bool = False,
        engine: str = "auto",
        masked: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        found = indexes.resolve(index)
        sizes = SparseSizes(memory_size, word_size, num_heads, k, similarity, delta, index=found, masked=masked)
        super().__init__(
            input_size,
            output_size,
            hidden_size,
            SAMMemory(sizes),
            batch_first,
            engine,
            controller,
            num_layers,
            dropout,
            layer_norm,
            bypass_dropout,
            device,
            dtype,
        )


class SDNC(SAM):
    """The Sparse Differentiable Neural Computer (section D): SAM whose heads can also follow the order of writes.

    `sparsam.memories.sdnc` has the equations. Rows of the interface: SAM's, then the read modes (3R, head by head
    backward, content, forward; a softmax), then with `allocation="free"` the free gates (R).

    Args:
        k_links: K_L, the entries kept in each row of N and P and in p.
        link_gradients: whether N, P and p are differentiated. They are constants by default, as in the paper; the
            previous read weights get their share of the gradient through f and b either way.
        allocation: "ring", the paper's least recently accessed words, or "free", the least used ones.
        The other arguments are those of `SAM`.
    """

    name = "sdnc"
    state_class: ClassVar[type[State]] = SDNCState

    k_links, allocation = setting("memory.sizes.k_links"), setting("memory.sizes.allocation")
    link_gradients = sparse_setting("link_gradients")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 65536,
        word_size: int = 32,
        num_heads: int = 4,
        k: int = 4,
        index: Any = "linear",
        similarity: str = "cosine",
        delta: float = 0.005,
        batch_first: bool = False,
        engine: str = "auto",
        k_links: int = 8,
        link_gradients: bool = False,
        masked: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        allocation: str = "ring",
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = SparseSizes(
            memory_size,
            word_size,
            num_heads,
            k,
            similarity,
            delta,
            checks.positive_int("k_links", k_links),
            link_gradients,
            allocation,
            indexes.resolve(index),
            masked,
        )
        MemoryModel.__init__(
            self,
            input_size,
            output_size,
            hidden_size,
            SDNCMemory(sizes),
            batch_first,
            engine,
            controller,
            num_layers,
            dropout,
            layer_norm,
            bypass_dropout,
            device,
            dtype,
        )


class DAM(MemoryModel):
    """Dense Access Memory (section 3.2): a controller with N words, all read and written at every step.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R access heads.
        similarity: "cosine", "euclidean" (-|q - m|^2) or "dot".
        discount: lambda of the usage U^(1).
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", or "cuda" where it has dense models.
        controller, num_layers, dropout, device, dtype: as in `SAM`.
    """

    name = "dam"
    state_class = DAMState

    memory_size, word_size, num_heads = setting("memory.rows"), setting("memory.width"), setting("memory.heads")
    similarity, discount = setting("memory.similarity"), setting("memory.discount")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 128,
        word_size: int = 32,
        num_heads: int = 4,
        similarity: str = "cosine",
        discount: float = 0.99,
        batch_first: bool = False,
        engine: str = "auto",
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        memory = DAMMemory(memory_size, word_size, num_heads, similarity, discount)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(
            input_size, output_size, hidden_size, memory, batch_first, engine, controller, num_layers, dropout, **made
        )


class NTM(MemoryModel):
    """The Neural Turing Machine (Graves 2014; section 2.3): R read heads and R write heads over N words.

    Rows of the interface, everywhere the read heads first and then the write heads, head by head: keys (2R·W),
    strengths (2R), gates (2R), shifts (2R·3), sharpening (2R); then, of the write heads alone, erase vectors (R·W) and
    add vectors (R·W), used as they are. The words of the first 'previous read' are the parameter `initial_read` (R, W),
    zero in a new model.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R read heads and as many write heads.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", or "cuda" where it has dense models.
        compile_step: run the memory's step through `torch.compile`, which needs a C++ compiler and tens of seconds at
            the first call of each shape, and is worth it for long runs (docs/baselines.md).
        controller, num_layers, dropout, device, dtype: as in `SAM`.
    """

    name = "ntm"
    state_class = NTMState

    memory_size, word_size, num_heads = setting("memory.rows"), setting("memory.width"), setting("memory.heads")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 128,
        word_size: int = 32,
        num_heads: int = 4,
        batch_first: bool = False,
        engine: str = "auto",
        compile_step: bool = False,
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        memory = NTMMemory(memory_size, word_size, num_heads, compile_step)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(
            input_size, output_size, hidden_size, memory, batch_first, engine, controller, num_layers, dropout, **made
        )
        self.initial_read = nn.Parameter(torch.zeros(num_heads, word_size, **made))

    def start_fields(self, batch: int, like: Tensor) -> dict[str, Any]:
        # a copy, or a kept state would change with the parameter
        return {**super().start_fields(batch, like), "read": self.initial_read.expand(batch, -1, -1).clone()}


class DNC(MemoryModel):
    """The Differentiable Neural Computer (Graves 2016; section D): R read heads and one write head over N words.

    Rows of the interface, in the order of Graves 2016: read keys (R·W), read strengths (R), write key (W), write
    strength (1), erase vector (W), write vector (W), free gates (R), allocation gate (1), write gate (1), read modes
    (3R, head by head backward, content, forward); with `masked` a mask for each read key (R·W) and for the write key.

    Args:
        input_size, output_size, hidden_size: I, O and H.
        memory_size, word_size: N words of width W.
        num_heads: R read heads.
        batch_first: x and y are (B, T, ...) instead of (T, B, ...).
        engine: "auto", "reference", or "cuda" where it has dense models.
        masked: masked content addressing (`sparsam.engines.reference.masking`; Csordas and Schmidhuber 2019).
        deallocate: erase the words that are freed (`sparsam.engines.reference.deallocation`; the same paper).
        layer_norm: layer-normalised controller (`sparsam.controllers.layer_norm`; Franke et al. 2018).
        bypass_dropout: dropout between controller and output layer (`sparsam.controllers.bypass`; Franke et al. 2018).
        controller, num_layers, dropout, device, dtype: as in `SAM`.
    """

    name = "dnc"
    state_class = DNCState

    memory_size, word_size, num_heads = setting("memory.rows"), setting("memory.width"), setting("memory.heads")
    masked, deallocate = setting("memory.masked"), setting("memory.deallocate")

    def __init__(
        self,
        input_size: int,
        output_size: int,
        hidden_size: int = 100,
        memory_size: int = 128,
        word_size: int = 32,
        num_heads: int = 4,
        batch_first: bool = False,
        engine: str = "auto",
        masked: bool = False,
        deallocate: bool = False,
        layer_norm: bool = False,
        bypass_dropout: float = 0.0,
        controller: Any = "lstm",
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size,
            output_size,
            hidden_size,
            DNCMemory(memory_size, word_size, num_heads, masked, deallocate),
            batch_first,
            engine,
            controller,
            num_layers,
            dropout,
            layer_norm,
            bypass_dropout,
            device,
            dtype,
        )
