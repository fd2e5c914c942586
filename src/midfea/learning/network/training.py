"""Training the chain as one network (`Network`), from the unsupervised solution on; needs torch.

Every image seen is a fresh copy: shifted, scaled, turned, lit from a side, relit, and mirrored if mirror
images mean the same.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import torch
    import torch.nn.functional as functional
    from torch import nn
except ImportError:
    raise ImportError('fine-tuning needs PyTorch: pip install "midfea[torch]"') from None

from midfea.engines.cpu import gradients, kernels
from midfea.engines.torch import plain
from midfea.learning.network.model import N_CELLS, PIXELS, WINDOW, Network, standard
from midfea.parallel import in_parallel
from midfea.pictures.images import NEUTRAL
from midfea.progress import track
from midfea.stages.low_level import FLAT

Tensor = Any

PIXEL_MAPS, COLOURS, SECOND, THIRD, FOURTH = 32, 64, 128, 128, 256
TEMPERATURE = 20.0
BATCH = 64
PARTS = 4  # of a batch, each for one thread; a GPU takes batches whole
KEPT = 0.7  # share of the features that dropout leaves
RATE = 5e-3
SHIFT, SCALE, TURN = 0.1, 0.15, math.radians(10)
SLOPE = 0.5  # of light: from the middle to a border it changes by a factor of up to e^SLOPE
MOVED = 2  # pixels, when an image is looked at; not if copies were hardly moved
LIGHT = 0.5  # contrast and colours by a factor of up to e^LIGHT, brightness by up to a quarter of LIGHT


@dataclass(frozen=True)
class Start:
    """The unsupervised solution: filters (n, k, k) and words (n_words, d)."""

    filters: NDArray[np.float32]
    words: NDArray[np.float32]


def train(
    squares: NDArray[np.uint8],
    y: NDArray[np.intp],
    start: Start,
    *,
    mirror: bool,
    n_seen: int,
    seed: int,
    n_threads: int,
    light: float = 1.0,
    moves: float = 1.0,
    aligned: bool = False,
    device: str = "cpu",
    what: str = "fine-tuning",
) -> Network:
    """A network that tells the classes of images (n, 1 or 3, SIDE, SIDE), after `n_seen` copies.

    light : how much more than usual copies are relit
    moves : how much more than usual they are moved, and light comes from a side
    aligned : a grid of cells suits the images. Then there are descriptors at every
        place, and the codes must also tell the classes alone, lest the layers from the pixels, which
        learn the training images by heart, do it for them.
    """
    steps = max(10, n_seen // BATCH)  # OneCycleLR divides by zero when there are five
    n_parts = PARTS if device == "cpu" else 1
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = _Module(start, squares.shape[1], int(y.max()) + 1, aligned).to(device).train()
            module = module.to(memory_format=torch.channels_last)  # a twelfth faster
            parameters = list(module.parameters())
            groups = [{"params": [p], "weight_decay": 1e-4 * (p.ndim > 1)} for p in parameters]
            optimizer = torch.optim.AdamW(groups, lr=RATE, foreach=True)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps, pct_start=0.2)
            images = torch.as_tensor(squares, device=device)
            labels = torch.as_tensor(y, device=device).long()
            twins = enumerate(_twins(module, n_parts))
            workers = [_Worker(twin, seed + i, mirror, light, moves) for i, twin in twins]

            for batch in track(_batches(len(images), steps), what, steps):
                for worker, part in zip(workers, batch.to(device).chunk(n_parts), strict=True):
                    worker.given = images[part].float(), labels[part]
                found = in_parallel(lambda i: workers[i].slopes(), range(n_parts), n_threads)
                for parameter, *each in zip(parameters, *found, strict=True):
                    parameter.grad = sum(each) / n_parts
                optimizer.step()
                schedule.step()
            modules = [worker.module for worker in workers]
            return _Module.network(modules, mirror, MOVED if moves >= 1 else 0)
    finally:
        torch.set_num_threads(before)


class _Worker:
    """Computes the slopes of a part of each batch, alone in its thread.

    torch's own threads meet after every operation, thousands of times in a second, and wait for each
    other whenever another program needs the core. These meet once for a batch. What is drawn at random
    comes from the part's own generator: the result is the same for any number of threads.
    """

    def __init__(self, module: _Module, seed: int, mirror: bool, light: float, moves: float) -> None:
        self.module = module
        self.mirror, self.light, self.moves = mirror, light, moves
        self.parameters = list(module.parameters())
        self.random = torch.Generator(self.parameters[0].device).manual_seed(seed)
        self.given: tuple[Tensor, Tensor] | None = None

    def slopes(self) -> Any:
        """Of the loss of the images and labels given, for each parameter."""
        assert self.given is not None
        images, labels = self.given
        # Far words' codes are next to nothing. As denormal numbers they would be a hundred times as slow
        # as others; this thread takes them for zero.
        torch.set_flush_denormal(True)
        try:
            copies = augmented(images, self.mirror, self.random, self.moves)
            copies = shaded(copies, self.random, self.moves)
            copies = relit(copies, self.random, self.light)
            losses = [
                functional.cross_entropy(scores, labels, label_smoothing=0.1)
                for scores in self.module(copies, self.random)
            ]
            return torch.autograd.grad(sum(losses), self.parameters)
        finally:
            torch.set_flush_denormal(False)


def _twins(module: _Module, n: int) -> list[_Module]:
    """The module, and others with the same parameters that keep statistics of their own."""
    twins = [module] + [copy.deepcopy(module) for _ in range(n - 1)]
    for twin in twins[1:]:
        for mine, theirs in zip(module.modules(), twin.modules(), strict=True):
            theirs._parameters = mine._parameters
    return twins


def _batches(n: int, steps: int) -> Any:
    """Each image equally often, in random order."""
    order = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        while len(order) < BATCH:
            order = torch.cat([order, torch.randperm(n)])
        yield order[:BATCH]
        order = order[BATCH:]


def augmented(images: Tensor, mirror: bool, random: Tensor = None, moves: float = 1.0) -> Tensor:
    """Copies (n, planes, height, width), each moved at random; what comes in is mirrored."""
    n = len(images)

    def drawn() -> Tensor:
        return torch.rand(n, generator=random, device=images.device)

    def spread(by: float) -> Tensor:
        return (drawn() * 2 - 1) * by * moves

    angle, size, aspect = spread(TURN), spread(SCALE).exp(), spread(0.3 * SCALE).exp()
    side = torch.where(drawn() < 0.5, -1.0, 1.0) if mirror else torch.ones_like(angle)
    cosine, sine = angle.cos(), angle.sin()
    rows = [
        torch.stack([cosine * size * aspect * side, -sine * size, spread(2 * SHIFT)], dim=1),
        torch.stack([sine * size * side, cosine * size / aspect, spread(2 * SHIFT)], dim=1),
    ]
    grid = functional.affine_grid(torch.stack(rows, dim=1), images.shape, align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def shaded(images: Tensor, random: Tensor = None, moves: float = 1.0) -> Tensor:
    """Copies lit from another side: towards one border grey pixels become brighter, or darker."""

    def slope(side: int) -> Tensor:
        by = (torch.rand(len(images), 1, generator=random, device=images.device) * 2 - 1) * SLOPE
        return (by * moves * torch.linspace(-1, 1, side, device=images.device)).exp()

    down, right = (slope(side) for side in images.shape[2:])
    return torch.cat([images[:, :1] * down[:, None, :, None] * right[:, None, None], images[:, 1:]], 1)


def relit(images: Tensor, random: Tensor = None, light: float = 1.0) -> Tensor:
    """Copies with another brightness, contrast and strength of colours, drawn at random."""

    def spread(by: float) -> Tensor:
        drawn = torch.rand(len(images), 1, 1, 1, generator=random, device=images.device)
        return (drawn * 2 - 1) * by * light

    grey, colours = images[:, :1], images[:, 1:]
    mean = grey.mean(dim=(2, 3), keepdim=True)
    grey = (grey - mean) * spread(LIGHT).exp() + mean + spread(64 * LIGHT)
    colours = (colours - NEUTRAL) * spread(LIGHT).exp() + NEUTRAL
    return torch.cat([grey.clamp(0, 255), colours], dim=1)


def pooled_maps(filters: Tensor, images: Tensor) -> Tensor:
    """Soft convolution and 2x2 maxima of images (n, planes, height, width)."""
    by = _PooledMaps.apply if images.device.type == "cpu" else pooled_by_torch
    return by(filters, images)


def pooled_by_torch(filters: Tensor, images: Tensor) -> Tensor:
    """The same by torch's operations, on any device."""
    grey = images[:, 0]
    responses = plain.convolve(plain.mirrored(grey, filters.shape[1:]), filters)
    flat = plain.flat_squares(grey, None, 0.0)
    return plain.max_pool_3d(plain.soft_convolution(responses, flat, rectify=True), pairs=False)


class _PooledMaps(torch.autograd.Function):
    """The same by the cpu engine's kernels, several times as fast there."""

    @staticmethod
    def forward(ctx: Any, filters: Tensor, images: Tensor) -> Tensor:
        pixels, taps = images[:, 0].numpy(), filters.detach().numpy()
        levels = [FLAT * float(image.max()) for image in pixels]
        ctx.given = pixels, taps, levels
        maps = [
            kernels.soft_convolution_pooled(image, taps, True, True, level, 0.0)
            for image, level in zip(pixels, levels, strict=True)
        ]
        return torch.as_tensor(np.stack(maps))

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> Any:
        pixels, taps, levels = ctx.given
        found = [
            gradients.filters_gradient(image, taps, True, True, level, slope)
            for image, level, slope in zip(pixels, levels, slopes.contiguous().numpy(), strict=True)
        ]
        return torch.as_tensor(sum(found)), None


class _Module(nn.Module):
    """`Network` while it is trained."""

    def __init__(self, start: Start, n_planes: int, n_classes: int, aligned: bool) -> None:
        super().__init__()
        self.step = 1 if aligned else 2
        n_filters, n_words = len(start.filters), len(start.words)
        self.filters = nn.Parameter(torch.tensor(start.filters))
        words = torch.tensor(start.words).reshape(n_words, WINDOW, WINDOW, n_filters)
        self.words = nn.Parameter(words.permute(0, 3, 1, 2).contiguous())
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.temperature = nn.Parameter(torch.tensor(math.log(TEMPERATURE)))
        self.pixels = nn.Conv2d(n_planes, PIXEL_MAPS, PIXELS, 2, padding=PIXELS // 2, bias=False)
        self.pixels_norm = nn.BatchNorm2d(PIXEL_MAPS)
        self.colours = nn.Conv2d(PIXEL_MAPS, COLOURS, 3, padding=1, bias=False)
        self.colours_norm = nn.BatchNorm2d(COLOURS)
        self.second = nn.Conv2d(COLOURS, SECOND, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(SECOND)
        self.third = nn.Conv2d(SECOND, THIRD, 3, padding=1, bias=False)
        self.third_norm = nn.BatchNorm2d(THIRD)
        self.fourth = nn.Conv2d(THIRD, FOURTH, 3, padding=1, bias=False)
        self.fourth_norm = nn.BatchNorm2d(FOURTH)
        for layer in (self.pixels, self.colours, self.second, self.third, self.fourth):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        self.gain = nn.Parameter(torch.tensor(math.log(24.0)))
        self.linear = nn.Linear(N_CELLS * (n_words + THIRD), n_classes)
        self.whole = nn.Linear(FOURTH, n_classes)
        self.codes_alone = nn.Linear(N_CELLS * n_words, n_classes) if aligned else None
        for layer in (self.linear, self.codes_alone):
            if layer is not None:
                nn.init.zeros_(layer.weight)
                nn.init.zeros_(layer.bias)
        nn.init.zeros_(self.whole.bias)

    def forward(self, images: Tensor, random: Tensor = None) -> list[Tensor]:
        """Decision values of both classifiers; in training, perhaps also by codes alone."""
        codes = self.codes(pooled_maps(self.filters, images))
        maps = self.path(images)
        parts = [functional.normalize(pooled(part)) for part in (codes, maps)]
        features = torch.cat(parts, dim=1)
        maps = functional.max_pool2d(maps, 2)
        means = functional.relu(self.fourth_norm(self.fourth(maps))).mean(dim=(2, 3))
        features, means = (self.dropped(each, random) for each in (features, means))
        found = [self.linear(features * self.gain.exp()), self.whole(means)]
        if self.training and self.codes_alone is not None:
            found.append(self.codes_alone(self.dropped(parts[0], random) * self.gain.exp()))
        return found

    def dropped(self, features: Tensor, random: Tensor) -> Tensor:
        if not self.training:
            return features
        drawn = torch.rand(features.shape, generator=random, device=features.device)
        return features * (drawn < KEPT) / KEPT

    def path(self, images: Tensor) -> Tensor:
        """From the pixels to the layer before the last."""
        maps = functional.relu(self.pixels_norm(self.pixels(standard(images))))
        maps = functional.relu(self.colours_norm(self.colours(functional.max_pool2d(maps, 2))))
        maps = functional.relu(self.second_norm(self.second(functional.avg_pool2d(maps, 2, 1))))
        maps = functional.max_pool2d(maps, 2, ceil_mode=True)
        return functional.relu(self.third_norm(self.third(maps)))

    def codes(self, maps: Tensor) -> Tensor:
        """Softmax over the words' likeness (cosine) to each descriptor."""
        products = functional.conv2d(maps, self.unit_words(), stride=self.step)
        squares = maps.square().sum(dim=1, keepdim=True)
        lengths = functional.avg_pool2d(squares, WINDOW, self.step) * WINDOW**2
        scales = (lengths + 1e-6).rsqrt() * self.temperature.exp()
        # A place's words lie together in memory: as the last dimension, softmax takes them as they are.
        likeness = torch.addcmul(self.bias, products.permute(0, 2, 3, 1), scales.permute(0, 2, 3, 1))
        return torch.softmax(likeness, dim=3).permute(0, 3, 1, 2)

    def unit_words(self) -> Tensor:
        return self.words / (self.words.flatten(1).norm(dim=1)[:, None, None, None] + 1e-6)

    @staticmethod
    def network(twins: list[_Module], mirror: bool, moved: int) -> Network:
        """The weights as they are used from now on: the batches' statistics are part of the layers."""
        self = twins[0]

        def layer(name: str) -> tuple[Tensor, Tensor]:
            norms = [getattr(twin, f"{name}_norm") for twin in twins]
            mean = sum(norm.running_mean for norm in norms) / len(norms)
            variance = sum(norm.running_var for norm in norms) / len(norms)
            factor = norms[0].weight / (variance + norms[0].eps).sqrt()
            weights = getattr(self, name).weight * factor[:, None, None, None]
            return weights.permute(2, 3, 1, 0).flatten(0, 2), norms[0].bias - mean * factor

        with torch.no_grad():
            pixels, pixels_bias = layer("pixels")
            colours, colours_bias = layer("colours")
            second, second_bias = layer("second")
            third, third_bias = layer("third")
            fourth, fourth_bias = layer("fourth")
            found = {
                "filters": self.filters,
                "words": self.unit_words().permute(0, 2, 3, 1).flatten(1),
                "bias": self.bias,
                "temperature": self.temperature.exp(),
                "pixels": pixels,
                "pixels_bias": pixels_bias,
                "colours": colours,
                "colours_bias": colours_bias,
                "second": second,
                "second_bias": second_bias,
                "third": third,
                "third_bias": third_bias,
                "fourth": fourth,
                "fourth_bias": fourth_bias,
                "weights": self.linear.weight.T * self.gain.exp(),
                "intercept": self.linear.bias,
                "whole": self.whole.weight.T,
                "whole_intercept": self.whole.bias,
            }
            arrays = {name: np.array(value.cpu().numpy(), order="C") for name, value in found.items()}
        settled = {"step": self.step, "mirror": mirror, "moved": moved}
        return Network(**arrays, **{name: np.array(value) for name, value in settled.items()})


def pooled(maps: Tensor) -> Tensor:
    """`network.pooled` of many images, maps (n, n_maps, height, width)."""
    fine = functional.max_pool2d(maps, -(-maps.shape[2] // 4), ceil_mode=True)
    coarse = functional.max_pool2d(fine, 2)
    levels = (functional.max_pool2d(coarse, 2), coarse, fine)
    return torch.cat([level.permute(0, 2, 3, 1).flatten(1) for level in levels], dim=1)
