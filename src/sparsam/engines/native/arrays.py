"""Numbers on their way to the core and back: tensors as they are, or NumPy arrays over the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sparsam.engines.native.core import takes_tensors

Run: TypeAlias = Callable[..., Any]  # a function of the core for one of its two types


def array(tensor: Tensor | None) -> Any:
    """The numbers of a tensor as the core takes them; None for None."""
    if tensor is None:
        return None
    if not takes_tensors:
        return tensor.detach().contiguous().numpy()
    return tensor if tensor.is_contiguous() and not tensor.is_neg() else tensor.detach().resolve_neg().contiguous()


def tensor(array: Any) -> Any:
    """Numbers of the core as a tensor over the same memory; None for None."""
    return array if array is None or isinstance(array, Tensor) else torch.from_numpy(array)


def called(run: Run, *arguments: Any) -> Any:
    """Call the core; what it says of the rows read last is said of the state."""
    try:
        return run(*arguments)
    except ValueError as error:
        for ours, theirs in (("rows0", "read_rows"), ("weights0", "read_weights")):
            if str(error).startswith(ours):
                raise ValueError(f"state: {str(error).replace(ours, theirs)}") from None
        raise
