"""Launching the kernels: what they are compiled for, and their arguments in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sparsam.engines.cuda import interpreted
from sparsam.engines.cuda.arena import TensorArena
from sparsam.engines.cuda.layout import Controlled, Layout, power_of_two
from sparsam.engines.cuda.links import SparseLinks
from sparsam.engines.cuda.memory import CudaMemory
from sparsam.engines.cuda.tape import Tape
from sparsam.engines.cuda.weights import Packed, PackedBackward, Weights, as_made, packed

PRODUCT = 1024  # numbers of a matrix multiplied together, per warp
SEARCH, WARPS = 128, 8  # rows of the memory looked at together; warps of a program
SEARCH_LINKED = 64  # the same with links
BLOCK_CODED = 128  # words that are coded together
FEW_PARTS = 16  # with fewer, each looks at more groups of codes: in all enough to find nearly all
ELEMENTS = 16  # whose controllers are multiplied together
CHUNK, FEW_GROUPS = 512, 128  # groups that are compared at once, where there are many and few
LARGE = 1 << 20  # numbers of a memory; fewer are copied and blanked by torch
BLOCK = 2048  # numbers that are copied together
PACKED = 32  # rows and columns of a matrix that are transposed together
GROUP = 16  # rows of which a split search keeps the best score


class SearchPlan(NamedTuple):
    block: int  # rows that it looks at together
    stages: int  # blocks on their way
    warps: int
    registers: int | None  # to a thread, where it is not left to the compiler


EXACT, CODED = SearchPlan(128, 3, 4, None), SearchPlan(256, 4, 4, None)

_compiled: dict[Any, Any] = {}


def bound(
    kernel: Any,
    grid: tuple[int, ...],
    arguments: tuple[Any, ...],
    constants: dict[str, Any],
    warps: int,
    types: tuple[torch.dtype, ...] = (),
    registers: int | None = None,
) -> Callable[..., None]:
    """What launches a kernel whose constants come last: called with the arguments that follow `arguments`.

    Triton finds the compiled kernel again at every launch by looking at all arguments, which takes longer than a step
    of a sequence. Here whole numbers are not compiled for and every tensor begins at a multiple of 16 bytes, so the
    constants decide, with the `types` of those tensors that are not always of one. Tensors are handed over as their
    addresses: for a tensor the launcher asks the driver about it, and a kernel here has up to sixty. With fewer
    `registers` to a thread, more programs run side by side on a multiprocessor.
    """
    if interpreted():
        given = _tensors(arguments)
        return lambda *more: kernel[grid](*given, *more, **constants, num_warps=warps)
    options = {"num_warps": warps} if registers is None else {"num_warps": warps, "maxnreg": registers}
    values = tuple(constants.values())
    device = torch._C._cuda_getDevice()
    key = (kernel.__name__, values, warps, registers, types, device)
    found = _compiled.get(key)
    if found is not None:
        run, stream = found[(*grid, 1, 1)[:3]], torch._C._cuda_getCurrentRawStream(device)
        places = _addresses(arguments)

        def launch(*more: Any, kept: Any = arguments) -> None:  # the tensors stay for as long as they may be launched
            run(*places, *more, *values, stream=stream)

        return launch

    def first(*more: Any) -> None:
        _compiled[key] = kernel[grid](*_tensors(arguments), *more, **constants, **options)

    return first


def _tensors(arguments: tuple[Any, ...]) -> list[Any]:
    """The arguments of a kernel with those that lie in one piece one by one."""
    found: list[Any] = []
    for value in arguments:
        found += value.tensors() if isinstance(value, TensorArena) else [value]
    return found


def _addresses(arguments: tuple[Any, ...]) -> list[Any]:
    """The same with addresses in place of tensors."""
    found: list[Any] = []
    for value in arguments:
        if isinstance(value, TensorArena):
            found += value.addresses()
        else:
            found.append(value.data_ptr() if isinstance(value, Tensor) else value)
    return found


def on_device_of(x: Tensor) -> AbstractContextManager[object]:
    """Launches go to the device of `x`, whichever is the current one."""
    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


def no_tensor(like: Tensor) -> Tensor:
    """In place of a tensor that a kernel does not look at."""
    return _no_tensor(like.device)


@lru_cache(maxsize=64)
def _no_tensor(device: torch.device) -> Tensor:
    return torch.empty(0, dtype=torch.float32, device=device)


class Letters:
    """The sizes of a layout as attributes that a kernel is compiled for: its argument `size`."""

    def __init__(self, layout: Controlled) -> None:
        self.layout, self.number = layout, hash(layout)

    def __getattr__(self, letter: str) -> Any:
        if not letter[0].isupper():
            raise AttributeError(letter)
        value = getattr(self.layout, letter)
        if interpreted():
            return value
        from triton.language import constexpr

        return constexpr(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Letters) and self.layout == other.layout

    def __hash__(self) -> int:
        return self.number

    def __repr__(self) -> str:
        return repr(self.layout)


@lru_cache(maxsize=256)
def constants_of(kernel: Any, size: Controlled, **more: Any) -> dict[str, Any]:
    """The constants of a kernel, in the order of its arguments."""
    annotations = (getattr(kernel, "fn", None) or kernel).__annotations__
    given = {"size": Letters(size), **more}
    return {name: given[name] if name in given else getattr(size, name) for name in annotations}


def forward_launch(
    sizes: Any,
    size: Layout,
    tape: Tape,
    matrices: Packed | None,
    memory: CudaMemory,
    links: SparseLinks | None,
    ends: Tensor,
    ends_of_state: tuple[Tensor, ...] | None = None,
    partial: Tensor | None = None,
    codes: Tensor | None = None,
    scratch: tuple[Tensor, ...] | None = None,
    warps: int | None = None,
    outside: bool = False,
    search: int | None = None,
) -> Callable[[int, int], None]:
    """What runs the steps from one to another. Without matrices there is no controller, or it is run `outside`.

    `ends_of_state`: the state's five tensors before the first step and after the last, which the kernel then reads and
    writes. Where the keys of a split search come in `partial`, what is returned runs one turn: the read of the step
    before and the write of this one, called with the step and the number of steps.
    """
    from sparsam.engines.cuda.kernels.forward import forward as kernel

    batch, rows = memory.words.shape[:2]
    none = no_tensor(tape.joint)
    warps = WARPS if warps is None else warps
    arguments = (
        tape,
        *((none,) * 4 if matrices is None else matrices),
        memory.words,
        none if codes is None else codes,
        memory.last_access,
        memory.counters,
        memory.queue_rows,
        memory.queue_stamps,
        none if memory.usage is None else memory.usage,
        *((none,) * 6 if links is None else links.tensors()),
        *(new_scratch(size, batch, none) if scratch is None else scratch),
        none if partial is None else partial,
        *((none,) * 10 if ends_of_state is None else ends_of_state),
        ends,
        batch,
        rows,
        memory.queue_rows.shape[1],
        sizes.least_access,
    )
    constants = constants_of(
        kernel,
        size,
        CONTROLLER="none" if matrices is None else "outside" if outside else size.CONTROLLER,
        SIMILARITY=sizes.similarity,
        PRODUCT=PRODUCT * warps,
        SEARCH=SEARCH_LINKED if size.KL else SEARCH if search is None else search,
        SPLITS=0 if partial is None else partial.shape[1],
        ENDS=ends_of_state is not None,
        CODED=codes is not None,
        SHIFTED=partial is not None,
    )
    types: tuple[torch.dtype, ...] = () if matrices is None else (matrices.recurrent.dtype,)
    if ends_of_state is not None:
        types = (*types, ends_of_state[2].dtype)
    return bound(kernel, (batch,), arguments, constants, warps, types)


def new_scratch(size: Layout, batch: int, like: Tensor) -> tuple[Tensor, ...]:
    """Room that the links need during a step."""
    if not size.KL:
        return like, like
    shape = (batch, size.RP, size.CP)
    candidates = torch.empty(shape, dtype=torch.int32, device=like.device)
    return candidates, torch.empty(shape, dtype=torch.float32, device=like.device)


def search_launch(
    sizes: Any, size: Layout, tape: Tape, memory: CudaMemory, ends: Tensor, partial: Tensor, codes: Tensor | None
) -> Callable[[int], None]:
    """What searches at a step, split over programs as `partial` (B, SPLITS, RP, KP) has room for."""
    from sparsam.engines.cuda.kernels.search import search as kernel

    batch, parts = partial.shape[:2]
    rows, none = memory.words.shape[1], no_tensor(tape.joint)
    plan = EXACT if codes is None else CODED
    block = plan.block
    looked = size.K if codes is None else size.K * min(4, max(1, FEW_PARTS // parts))
    groups = math.ceil(math.ceil(rows / parts) / block) * (block // GROUP)
    maxima = torch.empty(batch, parts, size.RP, groups, dtype=torch.float32, device=none.device)
    given = (tape.interface, memory.words, none if codes is None else codes, memory.counters, ends, maxima, partial)
    constants = constants_of(
        kernel,
        size,
        BLOCK=block,
        GROUP=GROUP,
        STAGES=0 if interpreted() else plan.stages,
        SIMILARITY=sizes.similarity,
        SPLITS=parts,
        CODED=codes is not None,
        C=looked,
        CP=power_of_two(looked, size.KP),
        CHUNK=CHUNK if groups > FEW_GROUPS else FEW_GROUPS,
    )
    arguments = (*given, batch, rows, groups)
    return bound(kernel, (batch, parts), arguments, constants, plan.warps, registers=plan.registers)


def packed_at_once(weights: Weights, size: Controlled) -> Packed:
    """`packed`, in one launch for an LSTM whose weights lie as torch makes them."""
    from sparsam.engines.cuda.kernels.copies import pack as kernel

    if size.CONTROLLER != "lstm" or not as_made(weights):
        return packed(weights, size)
    kind: dict[str, Any] = {"dtype": weights.hidden.dtype, "device": weights.hidden.device}
    recurrent, interface = torch.empty(size.J, 4 * size.H, **kind), torch.empty(size.H, size.FS, **kind)
    grid = (
        math.ceil(size.H / PACKED) + math.ceil((size.J - size.H) / PACKED),
        math.ceil(max(4 * size.H, size.FS) / PACKED),
    )
    arguments = (weights.hidden, weights.input, weights.interface, recurrent, interface)
    launch = bound(kernel, grid, arguments, constants_of(kernel, size, BLOCK=PACKED), 4, (weights.hidden.dtype,))
    launch(weights.input.shape[1] - size.R * size.W)
    return Packed(recurrent, weights.hidden_bias, interface, weights.interface_bias)


def encoded(size: Layout, words: Tensor, shared: bool = False) -> Tensor:
    """Codes (B, M, WP) of words (B, M, W), which may be the same for all elements."""
    from sparsam.engines.cuda.kernels.search import encode as kernel

    batch, rows, _ = words.shape
    if shared and batch > 1 and rows * size.WP % 4 == 0:
        return spread(encoded(size, words[:1])[0].view(torch.int32), batch).view(torch.int8)
    codes = torch.empty(batch, rows, size.WP, dtype=torch.int8, device=words.device)
    grid = (math.ceil(batch * rows / BLOCK_CODED),)
    bound(kernel, grid, (words, codes), constants_of(kernel, size, BLOCK=BLOCK_CODED), 4)(batch * rows)
    return codes


def catch_up(size: Layout, after: tuple[Tensor, ...], before: tuple[Tensor, ...]) -> None:
    """Carry what one step changed over to a memory of before that step (`kernels.copies`).

    `after`: the memory's five tensors, the rows read, and the rows written anew; `before` the same without the last.
    """
    from sparsam.engines.cuda.kernels.copies import catch_up as kernel

    batch, rows, _ = before[0].shape
    constants = constants_of(kernel, size, READS=power_of_two(size.R * size.K, 16))
    arguments = (*after, *before, rows, before[3].shape[1])
    bound(kernel, (batch,), arguments[:-1], constants, 4)(arguments[-1])


def controllers_launch(size: Layout, tape: Tape, matrices: Packed, ends: Tensor) -> Callable[[int], None]:
    from sparsam.engines.cuda.kernels.controllers import controllers_forward as kernel

    arguments = (tape.gates, tape.cells, tape.joint, matrices.recurrent, matrices.recurrent_bias, ends, tape.batch)
    constants = constants_of(kernel, size, ELEMENTS=ELEMENTS, UNITS=32, CHUNK=32)
    grid = (math.ceil(tape.batch / ELEMENTS), math.ceil(size.H / 32))
    return bound(kernel, grid, arguments, constants, 4, (matrices.recurrent.dtype,))


def gates_backward_launch(
    size: Layout, gradients: Tape, handed: tuple[Tensor, ...], ends: Tensor
) -> Callable[[int], None]:
    """What runs a step of all elements' controllers backward.

    Gates of `gradients` become the gradients of their sums.
    """
    from sparsam.engines.cuda.kernels.gates import batch_gates_backward as kernel

    arguments = (gradients.gates, gradients.cells, gradients.joint, *handed, ends, gradients.batch)
    return bound(kernel, (gradients.batch,), arguments, constants_of(kernel, size), 1)


def backward_launch(
    sizes: Any,
    size: Layout,
    tape: Tape,
    matrices: PackedBackward | None,
    handed: tuple[Tensor, ...],
    links: tuple[Tensor, ...],
    ends: Tensor,
    warps: int | None = None,
    outside: bool = False,
    limits: Tensor | None = None,
) -> Callable[[int, int], None]:
    """What runs the steps from one to another backward; gates and interface of the tape become their gradients.

    `handed`: gradients of [h, r] at every step and of the final state, those of the state before the first step (filled
    by the kernel), and of the memory (in place). `links`: with gradients of the links their columns after the last step
    and those gradients, N, P and p in turn, which become those before the first.
    `limits` (T, B) on what a step hands back to [h, r]; with `outside` whoever adds up what it hands back applies them.
    """
    from sparsam.engines.cuda.kernels.backward import backward as kernel

    batch = tape.batch
    none = no_tensor(tape.joint)
    arguments = (
        tape,
        *((none, none) if matrices is None else matrices),
        *handed,
        *(links or (none,) * 6),
        none if limits is None else limits,
        ends,
        batch,
        handed[-1].shape[1],
    )
    controller = "none" if matrices is None else "outside" if outside else size.CONTROLLER
    warps = WARPS if warps is None else warps
    constants = constants_of(
        kernel,
        size,
        CONTROLLER=controller,
        SIMILARITY=sizes.similarity,
        PRODUCT=PRODUCT * warps,
        CLIP=limits is not None,
    )
    types = () if matrices is None else (matrices.recurrent.dtype,)
    return bound(kernel, (batch,), arguments, constants, warps, types)


def spread(values: Tensor, batch: int) -> Tensor:
    """Values (...) of four bytes each, for every element (B, ...)."""
    from sparsam.engines.cuda.kernels.copies import spread as kernel

    values = values.contiguous()
    copies = torch.empty(batch, *values.shape, dtype=values.dtype, device=values.device)
    kernel[(math.ceil(values.numel() / BLOCK),)](values, copies, values.numel(), batch, BLOCK=BLOCK, num_warps=4)
    return copies


def blank_words(tape: Tape, size: Layout, rows: int, ends: Tensor, everywhere: bool) -> Tensor:
    """(B, rows, W) of zeros; where many need not be so `everywhere`, in rows that the tape's steps read or wrote."""
    from sparsam.engines.cuda.kernels.copies import blank_rows as kernel

    steps, batch = tape.steps, tape.batch
    shape = (batch, rows, size.W)
    kind: dict[str, Any] = {"dtype": torch.float32, "device": tape.joint.device}
    if everywhere or math.prod(shape) < LARGE:
        return torch.zeros(shape, **kind)
    matrix = torch.empty(shape, **kind)
    accesses = [(tape.rows, 1), (tape.unused, 0)] + ([(tape.content_rows, 0)] if size.KL else [])
    for named, later in accesses:
        each = named[0, 0].numel()
        kernel[(steps + later, batch)](matrix, named, ends, later, batch, rows, W=size.W, WP=size.WP, X=each)
    return matrix
