"""Training the chain as one network (`Network`), from the unsupervised solution on; needs torch.

Every image seen is augmented anew: shifted, scaled, rotated, lit otherwise, perhaps mirrored.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.extras import require

try:
    import torch
    import torch.nn.functional as functional
except ImportError:
    require("torch", "fine-tuning")
    raise

from midfea.learning.network.model import Network
from midfea.learning.network.module import NetworkModule, Start
from midfea.learning.network.settings import NetworkSettings
from midfea.parallel import in_parallel
from midfea.pictures.picture import NO_COLOUR
from midfea.progress import track

Tensor = Any

N_PARTS = 4  # of a batch, each for one thread; a GPU takes batches whole


@dataclass(frozen=True)
class Change:
    """How augmented images differ from their image, relative to `NetworkSettings`.

    moves : how much more they are moved, and lit from a side
    lighting : how much more their brightness, contrast and colours change
    mirror : whether half of them are mirrored
    """

    moves: float = 1.0
    lighting: float = 1.0
    mirror: bool = False


def train(
    squares: NDArray[np.float32],
    y: NDArray[np.intp],
    weights: NDArray[np.float32],
    start: Start,
    change: Change,
    settings: NetworkSettings,
    *,
    n_seen: int,
    seed: int,
    n_threads: int,
    aligned: bool = False,
    device: str = "cpu",
    what: str = "fine-tuning",
) -> Network:
    """A network that classifies images (n, 1 or 3, SIDE, SIDE), after `n_seen` augmented images.

    weights : how often an image is seen, relative to the others
    aligned : a grid of cells suits the images. Then there are descriptors at every place, and the codes
        must also classify alone, lest the layers from the pixels, which learn the training images by
        heart, do it for them.
    """
    steps = max(10, n_seen // settings.batch_size)  # OneCycleLR divides by zero when there are five
    n_parts = N_PARTS if device == "cpu" else 1
    n_threads_before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = NetworkModule(start, squares.shape[1], int(y.max()) + 1, aligned, settings)
            module = module.to(device).train().to(memory_format=torch.channels_last)  # faster
            parameters = list(module.parameters())
            groups = [{"params": [p], "weight_decay": 1e-4 * (p.ndim > 1)} for p in parameters]
            optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, foreach=True)
            schedule = torch.optim.lr_scheduler.OneCycleLR(
                optimizer, settings.learning_rate, steps, pct_start=0.2
            )
            images = torch.as_tensor(squares, device=device)
            labels = torch.as_tensor(y, device=device).long()
            twins = enumerate(_twins(module, n_parts))
            workers = [_Worker(twin, seed + i, change, settings) for i, twin in twins]

            batches = _batches(weights, steps, settings.batch_size, seed)
            for batch in track(batches, what, steps):
                for worker, part in zip(workers, batch.to(device).chunk(n_parts), strict=True):
                    worker.batch = images[part], labels[part]
                gradients = in_parallel(lambda i: workers[i].gradient(), range(n_parts), n_threads)
                for parameter, *parts in zip(parameters, *gradients, strict=True):
                    parameter.grad = sum(parts) / n_parts
                optimizer.step()
                schedule.step()
            modules = [worker.module for worker in workers]
            # An image is looked at as augmented images were: shifted only if they were moved.
            view_shift = settings.view_shift if change.moves >= 1 else 0
            return NetworkModule.network(modules, change.mirror, view_shift)
    finally:
        torch.set_num_threads(n_threads_before)


class _Worker:
    """Computes the gradient for a part of each batch, alone in its thread.

    torch's own threads meet after every operation, thousands of times in a second, and wait for each
    other whenever another program needs the core. These meet once for a batch. What is drawn at random
    comes from the part's own generator: the result is the same for any number of threads.
    """

    def __init__(
        self, module: NetworkModule, seed: int, change: Change, settings: NetworkSettings
    ) -> None:
        self.module, self.change, self.settings = module, change, settings
        self.parameters = list(module.parameters())
        self.random = torch.Generator(self.parameters[0].device).manual_seed(seed)
        self.batch: tuple[Tensor, Tensor] | None = None

    def gradient(self) -> Any:
        """Of the loss of the batch, for each parameter."""
        assert self.batch is not None
        images, labels = self.batch
        # Codes of far words are next to nothing. As denormal numbers they would be a hundred times as
        # slow as others; this thread takes them for zero.
        torch.set_flush_denormal(True)
        try:
            images = augment(images, self.change, self.settings, self.random)
            losses = [
                functional.cross_entropy(scores, labels, label_smoothing=0.1)
                for scores in self.module(images, self.random)
            ]
            return torch.autograd.grad(sum(losses), self.parameters)
        finally:
            torch.set_flush_denormal(False)


def _twins(module: NetworkModule, n: int) -> list[NetworkModule]:
    """The module, and others with the same parameters that keep statistics of their own."""
    twins = [module] + [copy.deepcopy(module) for _ in range(n - 1)]
    for twin in twins[1:]:
        for mine, theirs in zip(module.modules(), twin.modules(), strict=True):
            for name, parameter in mine.named_parameters(recurse=False):
                setattr(theirs, name, parameter)
    return twins


def _batches(weights: NDArray[np.float32], steps: int, batch_size: int, seed: int) -> Any:
    """Each image as often as its weight says, in random order."""
    random = torch.Generator().manual_seed(seed)
    often = torch.as_tensor(weights / weights.mean())
    order = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        while len(order) < batch_size:
            # Rounded up or down at random, so that fractions count in the mean; 1 stays 1.
            times = torch.floor(often + torch.rand(len(often), generator=random)).long()
            images = torch.arange(len(often)).repeat_interleave(times)
            order = torch.cat([order, images[torch.randperm(len(images))]])
        yield order[:batch_size]
        order = order[batch_size:]


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
