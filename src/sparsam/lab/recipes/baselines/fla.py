"""DeltaNet and Mamba-2 of flash-linear-attention as mixers, where that library is installed.

Their kernels run on a GPU. A call runs a whole sequence from a fresh state; a state to go on from is refused, so tests
that are streamed in several pieces are not for them.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class FlaLayer(nn.Module):
    """A layer of `fla.layers` by the name of its class, called in this package's layout (T, B, D)."""

    def __init__(self, kind: str, **settings: Any) -> None:
        super().__init__()
        try:
            import fla.layers
        except ImportError as error:
            raise ImportError(f"mixers: expected flash-linear-attention for {kind}, got no module named fla") from error
        self.kind = kind
        self.layer = getattr(fla.layers, kind)(layer_idx=0, **settings)

    def forward(self, x: Tensor, state: None = None) -> tuple[Tensor, None]:
        if state is not None:
            raise ValueError(f"state: expected None for {self.kind}, which runs whole sequences, got a state")
        y = self.layer(x.transpose(0, 1).contiguous())
        return (y[0] if isinstance(y, tuple) else y).transpose(0, 1), None


def delta_net(width: int, num_heads: int = 4, **settings: Any) -> FlaLayer:
    """`fla.layers.DeltaNet` of the model's width."""
    return FlaLayer("DeltaNet", hidden_size=width, num_heads=num_heads, **settings)


def mamba2(width: int, head_dim: int = 32, state_size: int = 64, **settings: Any) -> FlaLayer:
    """`fla.layers.Mamba2` of the model's width, expanded twice."""
    return FlaLayer(
        "Mamba2",
        hidden_size=width,
        num_heads=2 * width // head_dim,
        head_dim=head_dim,
        state_size=state_size,
        expand=2,
        **settings,
    )
