"""Numbers on their way to the core and back: tensors as they are, or NumPy arrays over the same memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparsam.engines.native.core import takes_tensors


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
