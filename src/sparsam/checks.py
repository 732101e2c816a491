"""Argument checks shared by all models: each error names the argument, what came and what was expected."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from sparsam.transforms import autocasts, has_numbers


def positive_int(name: str, value: Any) -> int:
    """Return `value` when it is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected a positive int, got {type(value).__name__} {value!r}")
    if value < 1:
        raise ValueError(f"{name}: expected a positive int, got {value}")
    return value


def number_in(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float when low <= value <= high."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}: expected a number in [{low}, {high}], got {type(value).__name__} {value!r}")
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{name}: expected a number in [{low}, {high}], got {value}")
    return float(value)


def at_most(name: str, value: int, limit_name: str, limit: int) -> int:
    """Return `value` when it does not exceed another argument."""
    if value > limit:
        raise ValueError(f"{name}: expected at most {limit_name} = {limit}, got {value}")
    return value


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` when it is one of `choices`; a near miss is suggested."""
    options = list(choices)
    if value not in options:
        listed = ", ".join(map(repr, options))
        raise ValueError(f"{name}: expected one of {listed}, got {value!r}{did_you_mean(value, options)}")
    return value


def callers_level() -> int:
    """The `stacklevel` that makes a warning of the calling function point at the line that called the library."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "sparsam":
        frame, level = frame.f_back, level + 1
    return level


def did_you_mean(word: Any, choices: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one; nothing when none is near."""
    near = difflib.get_close_matches(str(word)[:100], [str(choice) for choice in choices], n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def floating_dtype(name: str, dtype: Any) -> Any:
    """Return `dtype` when parameters can have it: a floating-point type, or None for torch's default."""
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise TypeError(f"{name}: expected a floating-point torch.dtype or None, got {dtype!r}")
    return dtype


def as_tensor(name: str, value: Any, expected: str) -> Tensor:
    """Return a tensor as it is, and a list of numbers as one on the CPU, whatever torch's default device."""
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(value, device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"{name}: expected {expected}, got {type(value).__name__} {value!r}") from None


def like_parameter(name: str, tensor: Any, parameter: Tensor) -> Tensor:
    """Return `tensor` when its dtype and device are the model's."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dtype != parameter.dtype:
        raise TypeError(f"{name}: expected dtype {parameter.dtype} like the model's parameters, got {tensor.dtype}")
    if tensor.device != parameter.device:
        raise ValueError(f"{name}: expected device {parameter.device} like the model's, got {tensor.device}")
    return tensor


def sequence(x: Any, input_size: int, batch_first: bool, parameter: Tensor) -> Tensor:
    """Return the input as (T, B, I)."""
    plain = type(x) is Tensor and x.dtype == parameter.dtype and x.device == parameter.device
    if plain and x.layout == torch.strided:  # nearly always all is well, and a call of one step notices what it takes
        shape = x.shape
        if len(shape) == 3 and shape[2] == input_size and shape[0] > 0 and shape[1] > 0:
            return x.transpose(0, 1) if batch_first else x
    layout = "(B, T, I)" if batch_first else "(T, B, I)"
    if isinstance(x, Tensor) and x.dtype != parameter.dtype and autocasts(x):
        x = x.to(parameter.dtype) if x.is_floating_point() else x  # as nn.LSTM takes them under autocast
    like_parameter("x", x, parameter)
    if x.layout != torch.strided:
        raise TypeError(f"x: expected a dense tensor, got one of layout {x.layout}")
    shape = x.shape
    if len(shape) != 3:
        raise ValueError(f"x: expected 3 dimensions {layout}, got shape {tuple(shape)}")
    if shape[2] != input_size:
        raise ValueError(f"x: expected width I = {input_size} in {layout}, got shape {tuple(shape)}")
    if shape[0] == 0 or shape[1] == 0:
        raise ValueError(f"x: expected at least one step and one batch element in {layout}, got shape {tuple(shape)}")
    return x.transpose(0, 1) if batch_first else x


def sequence_lengths(lengths: Any, steps: int, batch: int) -> Tensor:
    """Return lengths as an int64 CPU tensor of shape (B,), each in 1..T."""
    lengths = as_tensor("lengths", lengths, "integers")
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths: expected integers, got dtype {lengths.dtype}")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths: expected shape (B,) = ({batch},), got {tuple(lengths.shape)}")
    lengths = lengths.to("cpu", torch.int64)
    if torch.compiler.is_compiling():  # the graph looks at the numbers when it runs
        inside = ((lengths >= 1) & (lengths <= steps)).all()
        torch._assert_async(inside, "lengths: expected values in 1..T")
        return lengths
    if int(lengths.min()) < 1 or int(lengths.max()) > steps:
        # For large batches, name only the invalid lengths.
        came = lengths if batch <= 16 else lengths[(lengths < 1) | (lengths > steps)][:16]
        raise ValueError(f"lengths: expected values in 1..T = 1..{steps}, got {came.tolist()}")
    return lengths


def initial_memory(memory: Any, batch: int, rows: int, width: int, parameter: Tensor) -> Tensor:
    """Return a user's starting memory, (N, W) or (B, N, W), finite everywhere."""
    like_parameter("initial_memory", memory, parameter)
    if memory.shape not in ((rows, width), (batch, rows, width)):
        raise ValueError(
            f"initial_memory: expected shape (N, W) = ({rows}, {width}) or (B, N, W) = ({batch}, {rows}, {width}), "
            f"got {tuple(memory.shape)}"
        )
    if has_numbers(memory) and not bool(torch.isfinite(memory.detach()).all()):
        raise ValueError("initial_memory: expected finite numbers, got NaN or infinity")
    return memory


def reset_mask(mask: Any, batch: int, device: torch.device) -> Tensor:
    """Return a mask of the batch elements to reset as a bool tensor (B,)."""
    mask = as_tensor("mask", mask, "a bool tensor").to(device)
    if mask.dtype != torch.bool:
        raise TypeError(f"mask: expected a bool tensor, got dtype {mask.dtype}")
    if mask.shape != (batch,):
        raise ValueError(f"mask: expected shape (B,) = ({batch},), got {tuple(mask.shape)}")
    return mask


def element(name: str, b: Any, batch: int) -> int:
    """Return `b` when it names a batch element."""
    if isinstance(b, bool) or not isinstance(b, int):
        raise TypeError(f"{name}: expected a batch element in 0..{batch - 1}, got {type(b).__name__} {b!r}")
    if not 0 <= b < batch:
        raise ValueError(f"{name}: expected a batch element in 0..{batch - 1}, got {b}")
    return b


def batch_index(index: Any, batch: int) -> Tensor:
    """Return batch elements named by an int, a slice, a list, a tensor of indices or a mask (B,) as an int64 tensor."""
    if isinstance(index, int) and not isinstance(index, bool):
        if not -batch <= index < batch:
            raise IndexError(f"index: expected a batch element in {-batch}..{batch - 1}, got {index}")
        return torch.tensor([index % batch], device="cpu")
    if isinstance(index, slice):
        return torch.arange(batch, device="cpu")[index]
    if isinstance(index, list | tuple) and not index:  # which torch would take for floating-point numbers
        return torch.zeros(0, dtype=torch.int64, device="cpu")
    at = as_tensor("index", index, "an int, a slice, integers or a mask").cpu()
    if at.dtype == torch.bool:
        if at.shape != (batch,):
            raise ValueError(f"index: expected a mask of shape (B,) = ({batch},), got {tuple(at.shape)}")
        return at.nonzero().squeeze(-1)
    if at.is_floating_point() or at.is_complex():
        raise TypeError(f"index: expected integers or a mask, got dtype {at.dtype}")
    if at.dim() != 1:
        raise ValueError(f"index: expected one dimension, got shape {tuple(at.shape)}")
    if at.numel() and not bool(((at >= -batch) & (at < batch)).all()):
        raise IndexError(f"index: expected batch elements in {-batch}..{batch - 1}, got {at.tolist()}")
    return at.to(torch.int64) % batch


def boolean(name: str, value: Any) -> bool:
    """Return `value` when it is True or False; a word such as "False" is neither."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {type(value).__name__} {value!r}")
    return value


def reset_flags(resets: Any, steps: int, batch: int, batch_first: bool) -> Tensor:
    """Return the flags of elements that start anew before a step as a bool CPU tensor (T, B)."""
    resets = as_tensor("resets", resets, "a bool tensor")
    if resets.dtype != torch.bool:
        raise TypeError(f"resets: expected a bool tensor, got dtype {resets.dtype}")
    shape, layout = ((batch, steps), "(B, T)") if batch_first else ((steps, batch), "(T, B)")
    if resets.shape != shape:
        raise ValueError(f"resets: expected shape {layout} = {shape}, got {tuple(resets.shape)}")
    return (resets.mT if batch_first else resets).cpu()
