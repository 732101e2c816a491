"""Numbers on their way to the core and back: NumPy arrays over the same memory as the tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def array(tensor: Tensor | None) -> Any:
    """The numbers of a tensor for the core, which takes NumPy arrays; that costs a tenth of DLPack."""
    return None if tensor is None else tensor.detach().contiguous().numpy()


def tensor(array: Any) -> Any:
    """An array of the core as a tensor over the same memory; None for None."""
    return None if array is None else torch.from_numpy(array)


def called(run: Any, *arguments: Any) -> Any:
    """Call the core; what it says of the rows read last is said of the state."""
    try:
        return run(*arguments)
    except ValueError as error:
        for ours, theirs in (("rows0", "read_rows"), ("weights0", "read_weights")):
            if str(error).startswith(ours):
                raise ValueError(f"state: {str(error).replace(ours, theirs)}") from None
        raise
