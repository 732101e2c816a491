"""What is done to Omniglot's drawings: changes, warp, variety."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsam.lab.tasks.omniglot.drawings import Augmentation, bends, draw_variety


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_augmentation_stays_in_bounds_and_reaches_them():
    changes = Augmentation(angle=0.2, stretch=0.1, shift=0.05).draw(4000, generator())
    for column, (low, high) in enumerate([(-0.2, 0.2), (0.9, 1.1), (0.9, 1.1), (-0.05, 0.05), (-0.05, 0.05)]):
        found = changes[:, column]
        assert low <= found.min() < low + 0.01 * (high - low)
        assert high >= found.max() > high - 0.01 * (high - low)


def blank(*points: tuple[int, int]) -> torch.Tensor:
    image = torch.zeros(1, 21, 21)
    for row, column in points:
        image[0, row, column] = 1
    return image


def change(angle=0.0, x=1.0, y=1.0, right=0.0, down=0.0) -> torch.Tensor:
    return torch.tensor([[angle, x, y, right, down]])


def test_warp_without_change_is_the_image():
    image = torch.rand(1, 21, 21, generator=generator())
    same = Augmentation.warp(image, torch.zeros(1), change(), 21)
    torch.testing.assert_close(same, image, atol=1e-5, rtol=0)


def test_warp_turns_by_quarters():
    image = torch.rand(1, 21, 21, generator=generator())
    for quarters in range(4):
        turned = Augmentation.warp(image, torch.tensor([float(quarters)]), change(), 21)
        torch.testing.assert_close(turned, torch.rot90(image, -quarters, (1, 2)), atol=1e-4, rtol=0)


def test_warp_shifts_and_stretches():
    moved = Augmentation.warp(blank((10, 10)), torch.zeros(1), change(right=3 / 21, down=-2 / 21), 21)
    torch.testing.assert_close(moved, blank((8, 13)), atol=1e-4, rtol=0)
    wide = Augmentation.warp(blank((10, 14)), torch.zeros(1), change(x=1.5, y=1.0), 21)
    assert divmod(int(wide.flatten().argmax()), 21) == (10, 16)
    both = Augmentation.warp(blank((10, 14)), torch.ones(1), change(x=1.5, y=1.0), 21)  # stretched, then turned
    assert divmod(int(both.flatten().argmax()), 21) == (16, 10)


def test_warp_agrees_with_affine_grid():
    images, changes = torch.rand(7, 28, 28), Augmentation().draw(7, generator())
    cos, sin = changes[:, 0].cos(), changes[:, 0].sin()
    rotate = torch.stack([cos, sin, -sin, cos], -1).view(-1, 2, 2)
    matrix = torch.diag_embed(1 / changes[:, 1:3]) @ rotate
    theta = torch.cat([matrix, -matrix @ (2 * changes[:, 3:].unsqueeze(-1))], -1)
    grid = nn.functional.affine_grid(theta, [7, 1, 20, 20], align_corners=False)
    expected = nn.functional.grid_sample(images.unsqueeze(1), grid, align_corners=False)[:, 0]
    torch.testing.assert_close(Augmentation.warp(images, torch.zeros(7), changes, 20), expected, atol=1e-5, rtol=0)


def test_variety_mirrors():
    image = torch.rand(1, 21, 21, generator=generator())
    flat = torch.zeros(1, 2, 7)
    for mirrored, expected in ((1.0, image), (-1.0, image.flip(2))):
        kind = (torch.tensor([mirrored]), flat)
        shown = Augmentation.warp(image, torch.zeros(1), change(), 21, variety=kind)
        torch.testing.assert_close(shown, expected, atol=1e-5, rtol=0)


def test_variety_bends():
    bend = torch.zeros(1, 2, 7)
    bend[0, 1, 0] = 0.5  # y is read at y + (x^2 - 0.3) / 2
    row = blank(*((10, column) for column in range(21)))
    shown = Augmentation.warp(row, torch.zeros(1), change(), 21, variety=(torch.ones(1), bend))[0]
    place = (2 * torch.arange(21) + 1) / 21 - 1
    height = (shown * place[:, None]).sum(0) / shown.sum(0)
    torch.testing.assert_close(height, -0.5 * (place**2 - 0.3), atol=0.02, rtol=0)


def test_drawn_variety():
    mirrored, bend = draw_variety(4000, 0.1, generator())
    assert mirrored.unique().tolist() == [-1.0, 1.0] and abs(float(mirrored.mean())) < 0.1
    assert bend.shape == (4000, 2, len(bends(torch.zeros(3), torch.zeros(3))))
    assert float(bend.std()) == pytest.approx(0.1, rel=0.05)
