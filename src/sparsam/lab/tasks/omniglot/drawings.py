"""From Omniglot's drawings to what a model sees: random changes and their warp.

All of it runs where its tensors are, on a GPU too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from sparsam.lab.argument_types import require

_GPU_CHUNK = 1 << 16
_CHUNK = 512  # images that are warped at once on a CPU; few enough to stay in the processor's cache


class Augmentation:
    """Random small changes of a drawing, and the warp that applies them.

    Args:
        angle: largest rotation in radians, either way.
        stretch: width and height are scaled, each by a factor from U(1 - stretch, 1 + stretch).
        shift: largest shift along each axis, as a share of the image's side.
    """

    def __init__(self, angle: float = math.pi / 16, stretch: float = 0.15, shift: float = 10 / 105) -> None:
        small, got = angle >= 0 and shift >= 0 and 0 <= stretch < 1, f"{angle}, {shift} and {stretch}"
        require(small, "angle", "angle and shift of at least 0 and stretch in [0, 1)", got)
        self.angle, self.stretch, self.shift = angle, stretch, shift

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """(count, 5): angle, scale x, scale y, shift x, shift y (a share of the side)."""
        device = generator.device
        uniform = 2 * torch.rand(count, 5, generator=generator, device=device) - 1
        size = torch.tensor([self.angle, self.stretch, self.stretch, self.shift, self.shift], device=device)
        return uniform * size + torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0], device=device)

    @staticmethod
    def warp(
        images: Tensor, quarters: Tensor, changes: Tensor, size: int, variety: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Images (n, s, s) turned by `quarters` times 90 degrees and changed by `draw`'s numbers, at a new size.

        The map goes from places in the result to places in the image, p = S^-1 R^-1 (p' - shift) = A p' + b.
        `variety`, from `draw_variety`, mirrors and bends the result: p' is replaced by (+-x' + ..., y' + ...).
        """
        angle, scale, shift = changes[:, 0] + quarters * (math.pi / 2), changes[:, 1:3], changes[:, 3:5]
        cos, sin = angle.cos(), angle.sin()
        rotate = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
        matrix = turned = rotate / scale.unsqueeze(-1)
        if variety is not None:
            matrix = matrix * torch.stack([variety[0], torch.ones_like(variety[0])], -1).unsqueeze(1)
        offset = -(turned @ (2 * shift).unsqueeze(-1))  # the image spans 2 from edge to edge
        place = (2 * torch.arange(size, dtype=images.dtype, device=images.device) + 1) / size - 1
        # One product of all images' factors with the terms (1, x, y, bends) of all pixels.
        x, y = place.repeat(size), place.repeat_interleave(size)
        terms = [torch.stack([torch.ones_like(x), x, y])]
        factors = [offset, matrix]
        if variety is not None:
            terms.append(bends(x, y))
            factors.append(matrix @ variety[1])
        grid = torch.cat(factors, -1).flatten(0, 1) @ torch.cat(terms)
        grid = grid.view(-1, 2, size, size).movedim(1, -1)
        return F.grid_sample(images.unsqueeze(1), grid, align_corners=False).squeeze(1)


def bends(x: Tensor, y: Tensor) -> Tensor:
    """(7, pixels): the quadratic and cubic terms of x and y, without what a shift or a stretch would do."""
    terms = [x * x - 0.3, x * y, y * y - 0.3, x**3 - 0.6 * x, x * x * y, x * y * y, y**3 - 0.6 * y]
    return torch.stack(terms)


def draw_variety(count: int, bend: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A new kind of drawing for each of `count` characters: (count,) 1 or -1, mirrored; (count, 2, 7) factors of
    `bends` along x and y, from N(0, bend^2)."""
    device = generator.device
    mirrored = 1.0 - 2.0 * torch.randint(2, (count,), generator=generator, device=device)
    return mirrored, bend * torch.randn(count, 2, 7, generator=generator, device=device)


@dataclass(frozen=True)
class Drawings:
    """All drawings, ready to be shown.

    `images` (n, s, s) uint8; `side` that of what is shown.
    """

    images: Tensor
    side: int

    @property
    def width(self) -> int:
        """Numbers that are shown of one drawing."""
        return self.side**2

    def to(self, device: torch.device) -> Drawings:
        return replace(self, images=self.images.to(device))

    def draw(
        self,
        picked: Tensor,
        quarters: Tensor,
        changes: Tensor,
        out: Tensor,
        variety: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Write the drawings with these numbers, changed, to the rows of `out` (n, width)."""
        chunk_size = _CHUNK if out.device.type == "cpu" else _GPU_CHUNK
        for start in range(0, len(picked), chunk_size):
            chunk = slice(start, start + chunk_size)
            kinds = None if variety is None else (variety[0][chunk], variety[1][chunk])
            source = self.images[picked[chunk]].float().mul_(1 / 255)
            out[chunk] = Augmentation.warp(source, quarters[chunk], changes[chunk], self.side, kinds).flatten(1)
