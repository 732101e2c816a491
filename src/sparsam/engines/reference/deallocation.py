"""De-allocation erase (`deallocate=True`): a word that is freed loses its content, not its usage alone.

Csordas and Schmidhuber 2019, "Improving Differentiable Neural Computers Through Memory Masking, De-allocation, and Link
Distribution Sharpness Control". The DNC's free gates lower a word's usage but leave what it says, which
content addressing goes on finding.
"""

from __future__ import annotations

from torch import Tensor


def deallocated(words: Tensor, retention: Tensor) -> Tensor:
    """M(i) psi(i), before the step's own erase: words (B, N, W), retention psi (B, N)."""
    return words * retention[..., None]
