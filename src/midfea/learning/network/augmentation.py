"""Augmented images for the network, made on the device: moved, lit from a side, lit otherwise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as functional

from midfea.learning.network.settings import NetworkSettings
from midfea.pictures.picture import NO_COLOUR

if TYPE_CHECKING:
    from midfea.learning.network.training import Change

Tensor = Any


def augment(images: Tensor, change: Change, settings: NetworkSettings, random: Tensor) -> Tensor:
    """Images (n, planes, height, width), each changed at random."""
    images = moved(images, change.mirror, random, change.moves, settings)
    images = shaded(images, random, change.moves * settings.shading)
    return relit(images, random, change.lighting * settings.lighting)


def moved(
    images: Tensor,
    mirror: bool,
    random: Tensor = None,
    moves: float = 1.0,
    settings: NetworkSettings = NetworkSettings(),  # noqa: B008 - it never changes
) -> Tensor:
    """Each image shifted, scaled, rotated, perhaps mirrored; what comes into sight is mirrored."""
    n = len(images)

    def uniform() -> Tensor:
        return torch.rand(n, generator=random, device=images.device)

    def spread(by: float) -> Tensor:
        return (uniform() * 2 - 1) * by * moves

    angle = spread(math.radians(settings.rotation))
    size, aspect = spread(settings.scale).exp(), spread(0.3 * settings.scale).exp()
    side = torch.where(uniform() < 0.5, -1.0, 1.0) if mirror else torch.ones_like(angle)
    cosine, sine, shift = angle.cos(), angle.sin(), 2 * settings.shift
    rows = [
        torch.stack([cosine * size * aspect * side, -sine * size, spread(shift)], dim=1),
        torch.stack([sine * size * side, cosine * size / aspect, spread(shift)], dim=1),
    ]
    grid = functional.affine_grid(torch.stack(rows, dim=1), images.shape, align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def shaded(images: Tensor, random: Tensor = None, shading: float = 0.5) -> Tensor:
    """Lit from another side: towards one border grey pixels become brighter, or darker."""

    def ramp(side: int) -> Tensor:
        by = (torch.rand(len(images), 1, generator=random, device=images.device) * 2 - 1) * shading
        return (by * torch.linspace(-1, 1, side, device=images.device)).exp()

    down, right = (ramp(side) for side in images.shape[2:])
    return torch.cat([images[:, :1] * down[:, None, :, None] * right[:, None, None], images[:, 1:]], 1)


def relit(images: Tensor, random: Tensor = None, lighting: float = 0.5) -> Tensor:
    """With another brightness, contrast and strength of colours."""

    def spread(by: float) -> Tensor:
        uniform = torch.rand(len(images), 1, 1, 1, generator=random, device=images.device)
        return (uniform * 2 - 1) * by

    grey, colours = images[:, :1], images[:, 1:]
    mean = grey.mean(dim=(2, 3), keepdim=True)
    grey = (grey - mean) * spread(lighting).exp() + mean + spread(64 * lighting)
    colours = (colours - NO_COLOUR) * spread(lighting).exp() + NO_COLOUR
    return torch.cat([grey.clamp(0, 255), colours], dim=1)
