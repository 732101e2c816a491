"""From Omniglot's drawings to what a model sees: random changes, warp, normalisation, stroke directions.

All of it runs where its tensors are, on a GPU too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

SPREAD = 0.4  # standard deviation of the ink along every axis of a normalised image, which spans 2
DIRECTIONS, CELLS = 4, 8  # of the strokes: number of maps, and their side
_THICKNESS = 0.01  # added to its variances, so that a single line does not fill the image
_WIDTH = 0.6  # standard deviation of a cell's window, in cells
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
        if angle < 0 or shift < 0 or not 0 <= stretch < 1:
            raise ValueError(
                f"angle: expected angle and shift of at least 0 and stretch in [0, 1), "
                f"got {angle}, {shift} and {stretch}"
            )
        self.angle, self.stretch, self.shift = angle, stretch, shift

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """(count, 5): angle, scale x, scale y, shift x, shift y (a share of the side)."""
        device = generator.device
        uniform = 2 * torch.rand(count, 5, generator=generator, device=device) - 1
        size = torch.tensor([self.angle, self.stretch, self.stretch, self.shift, self.shift], device=device)
        return uniform * size + torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0], device=device)

    @staticmethod
    def warp(
        images: Tensor,
        quarters: Tensor,
        changes: Tensor,
        size: int,
        moments: tuple[Tensor, Tensor] | None = None,
        variety: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """Images (n, s, s) turned by `quarters` times 90 degrees and changed by `draw`'s numbers, at a new size.

        The map goes from places in the result to places in the image, p = S^-1 R^-1 (p' - shift) = A p' + b. With
        the images' `ink_moments` m and C the result is normalised as well: its own moments would be
        A^-1 (m - b) and C' = A^-1 C A^-T, so that p = m + A C'^1/2 p' / SPREAD. `variety`, from
        `draw_variety`, mirrors and bends the result: p' is replaced by (+-x' + ..., y' + ...).
        """
        angle, scale, shift = changes[:, 0] + quarters * (math.pi / 2), changes[:, 1:3], changes[:, 3:5]
        cos, sin = angle.cos(), angle.sin()
        rotate = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -2)
        matrix = turned = rotate / scale.unsqueeze(-1)
        if variety is not None:
            matrix = matrix * torch.stack([variety[0], torch.ones_like(variety[0])], -1).unsqueeze(1)
        if moments is None:
            offset = -(turned @ (2 * shift).unsqueeze(-1))  # the image spans 2 from edge to edge
        else:
            mean, covariance = moments
            back = inverse(matrix)
            room = _THICKNESS * torch.eye(2, device=matrix.device)
            matrix = matrix @ square_root(back @ covariance @ back.mT + room) / SPREAD
            offset = mean.unsqueeze(-1)
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


def ink_moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Centre of mass (n, 2) and covariance (n, 2, 2), x before y, of the ink of images (n, s, s) that span 2."""
    side = images.shape[-1]
    place = (2 * torch.arange(side) + 1) / side - 1
    ink = images.float() + 1e-6  # an empty image has its centre in the middle
    ink = ink / ink.sum((1, 2), keepdim=True)
    grid = torch.stack([place.expand(side, side), place[:, None].expand(side, side)], -1).view(-1, 2)
    products = (grid.unsqueeze(-1) * grid.unsqueeze(-2)).view(-1, 4)
    mean = ink.flatten(1) @ grid
    return mean, (ink.flatten(1) @ products).view(-1, 2, 2) - mean.unsqueeze(-1) * mean.unsqueeze(-2)


# torch.linalg would factorise, and on a GPU wait for it to know whether it succeeded.
def determinant(matrix: Tensor) -> Tensor:
    """The determinants of matrices (n, 2, 2)."""
    return matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] * matrix[:, 1, 0]


def inverse(matrix: Tensor) -> Tensor:
    """The inverses of matrices (n, 2, 2)."""
    (a, b), (c, d) = matrix[:, 0].unbind(-1), matrix[:, 1].unbind(-1)
    adjugate = torch.stack([torch.stack([d, -b], -1), torch.stack([-c, a], -1)], -2)
    return adjugate / determinant(matrix)[:, None, None]


def square_root(matrix: Tensor) -> Tensor:
    """The symmetric root of positive definite (n, 2, 2): (C + d I) / sqrt(tr C + 2 d) with d = sqrt(det C)."""
    root = determinant(matrix).clamp_min(1e-9).sqrt()[:, None, None]
    trace = matrix.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None]
    return (matrix + root * torch.eye(2, device=matrix.device)) / (trace + 2 * root).sqrt()


def strokes(images: Tensor, cells: int = CELLS) -> Tensor:
    """Where strokes run in which direction: (n, 4 x cells x cells) of images (n, s, s).

    The gradient of the ink, g at angle a, gives |g| max(0, cos 2 (a - a_i))^2 to the map of each of four directions
    a_i of a half turn. A map is averaged under Gaussian windows on a grid of `cells` x `cells` and rooted, so
    that lines of different width look alike: the directional features of character recognition (Liu et al. 2003), a
    histogram of oriented gradients.
    """
    count, side = images.shape[:2]
    x, y = torch.zeros_like(images), torch.zeros_like(images)
    torch.sub(images[:, :, 2:], images[:, :, :-2], out=x[:, :, 1:-1])
    torch.sub(images[:, 2:], images[:, :-2], out=y[:, 1:-1])
    product = x * y
    across, up = x.square_(), y.square_()
    factor = (across + up).add_(1e-8).rsqrt_()
    factor *= factor.sqrt()  # |g|^-3/2
    # v = |g|^1/2 cos 2a and v / 2 with the sine. The maps of max(0, v)^2 and max(0, -v)^2 are sums and differences of
    # those of v^2 and v |v|, which are cheaper to take after the averaging.
    maps = images.new_empty(count, DIRECTIONS, side, side)
    torch.mul(across.sub_(up), factor, out=maps[:, 0])
    torch.mul(product, factor, out=maps[:, 1])
    torch.abs(maps[:, :2], out=maps[:, 2:]).mul_(maps[:, :2])
    maps[:, :2].square_()
    place = (2 * torch.arange(side, device=images.device) + 1) / side - 1
    centre = (2 * torch.arange(cells, device=images.device) + 1) / cells - 1
    window = torch.exp(-0.5 * ((centre[:, None] - place) / (_WIDTH * 2 / cells)).square())
    window = window / window.sum(1, keepdim=True)
    low = (window @ maps).view(-1, side)
    square, signed = (low @ window.mT).view(count, 2, 2, -1).unbind(1)
    both = torch.cat([square + signed, square - signed], 1)
    both.mul_(torch.tensor([0.5, 2.0], device=images.device).repeat(2).unsqueeze(-1))
    return both.add_(1e-4).sqrt_().view(count, -1)


@dataclass(frozen=True)
class Drawings:
    """All drawings, ready to be shown.

    `images` (n, s, s) uint8; `moments` their `ink_moments`, or None: not normalised; `side` that of what is
    shown; `directions` show `strokes` instead of pixels; `mean` and `deviation` are taken off.
    """

    images: Tensor
    moments: tuple[Tensor, Tensor] | None
    side: int
    directions: bool
    mean: Tensor
    deviation: float = 1.0

    @property
    def width(self) -> int:
        """Numbers that are shown of one drawing."""
        return DIRECTIONS * CELLS**2 if self.directions else self.side**2

    def to(self, device: torch.device) -> Drawings:
        moments = None if self.moments is None else (self.moments[0].to(device), self.moments[1].to(device))
        return replace(self, images=self.images.to(device), moments=moments, mean=self.mean.to(device))

    def draw(
        self,
        picked: Tensor,
        quarters: Tensor,
        changes: Tensor,
        out: Tensor,
        variety: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """Write the drawings with these numbers, changed and normalised, to the rows of `out` (n, width)."""
        chunk_size = _CHUNK if out.device.type == "cpu" else _GPU_CHUNK
        for start in range(0, len(picked), chunk_size):
            chunk = slice(start, start + chunk_size)
            chosen = picked[chunk]
            moments = None if self.moments is None else (self.moments[0][chosen], self.moments[1][chosen])
            kinds = None if variety is None else (variety[0][chunk], variety[1][chunk])
            source = self.images[chosen].float().mul_(1 / 255)
            shown = Augmentation.warp(source, quarters[chunk], changes[chunk], self.side, moments, kinds)
            shown = strokes(shown) if self.directions else shown.flatten(1)
            torch.mul(shown.sub_(self.mean), 1 / self.deviation, out=out[chunk])
