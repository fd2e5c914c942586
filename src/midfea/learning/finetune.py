"""Training the chain as one network (`Network`), from the unsupervised solution on; needs torch.

Every image seen is a fresh copy: shifted, scaled, turned, and mirrored if mirror images mean the same.
"""

from __future__ import annotations

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
    raise ImportError('finetune=True needs PyTorch: pip install "midfea[torch]"') from None

from midfea.engines import gradients, kernels
from midfea.learning.network import N_CELLS, PIXELS, STEP, WINDOW, Network, standard
from midfea.parallel import in_parallel
from midfea.progress import track
from midfea.stages.low_level import FLAT

Tensor = Any

NECK, PIXEL_MAPS, COLOURS, SECOND, THIRD = 64, 32, 64, 128, 128
TEMPERATURE = 20.0
BATCH = 64
RATE = 2e-3
SHIFT, SCALE, TURN = 0.1, 0.15, math.radians(10)


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
    what: str = "fine-tuning",
) -> Network:
    """A network that tells the classes of images (n, 1 or 3, SIDE, SIDE), after `n_seen` copies."""
    steps = max(1, n_seen // BATCH)
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = _Module(start, squares.shape[1], int(y.max()) + 1, n_threads).train()
            groups = [{"params": [p], "weight_decay": 1e-4 * (p.ndim > 1)} for p in module.parameters()]
            optimizer = torch.optim.AdamW(groups, lr=RATE)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps, pct_start=0.2)
            images = torch.as_tensor(squares).float()
            labels = torch.as_tensor(y).long()
            for chosen in track(_batches(len(images), steps), what, steps):
                copies = augmented(images[chosen], mirror)
                scores = module(copies)
                loss = functional.cross_entropy(scores, labels[chosen], label_smoothing=0.1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            return module.network(mirror)
    finally:
        torch.set_num_threads(before)


def _batches(n: int, steps: int) -> Any:
    """Each image equally often, in random order."""
    order = torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        while len(order) < BATCH:
            order = torch.cat([order, torch.randperm(n)])
        yield order[:BATCH]
        order = order[BATCH:]


def augmented(images: Tensor, mirror: bool) -> Tensor:
    """Copies (n, planes, height, width), each moved at random; what comes in is mirrored."""
    n = len(images)

    def spread(by: float) -> Tensor:
        return (torch.rand(n) * 2 - 1) * by

    angle, size, aspect = spread(TURN), spread(SCALE).exp(), spread(0.3 * SCALE).exp()
    side = torch.where(torch.rand(n) < 0.5, -1.0, 1.0) if mirror else torch.ones(n)
    cosine, sine = angle.cos(), angle.sin()
    rows = [
        torch.stack([cosine * size * aspect * side, -sine * size, spread(2 * SHIFT)], dim=1),
        torch.stack([sine * size * side, cosine * size / aspect, spread(2 * SHIFT)], dim=1),
    ]
    grid = functional.affine_grid(torch.stack(rows, dim=1), images.shape, align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


class _PooledMaps(torch.autograd.Function):
    """Soft convolution and 2x2 maxima of images, by the cpu engine's kernels."""

    @staticmethod
    def forward(ctx: Any, filters: Tensor, images: Tensor, n_threads: int) -> Tensor:
        pixels, taps = images[:, 0].numpy(), filters.detach().numpy()
        levels = [FLAT * float(image.max()) for image in pixels]
        ctx.given = pixels, taps, levels, n_threads

        def one(i: int) -> Any:
            return kernels.soft_convolution_pooled(pixels[i], taps, True, True, levels[i], 0.0)

        return torch.as_tensor(np.stack(list(in_parallel(one, range(len(pixels)), n_threads))))

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> Any:
        pixels, taps, levels, n_threads = ctx.given
        given = slopes.contiguous().numpy()

        def one(i: int) -> Any:
            return gradients.filters_gradient(pixels[i], taps, True, True, levels[i], given[i])

        return torch.as_tensor(sum(in_parallel(one, range(len(pixels)), n_threads))), None, None


class _Module(nn.Module):
    """`Network` while it is trained."""

    def __init__(self, start: Start, n_planes: int, n_classes: int, n_threads: int) -> None:
        super().__init__()
        self.n_threads = n_threads
        n_filters, n_words = len(start.filters), len(start.words)
        self.filters = nn.Parameter(torch.tensor(start.filters))
        words = torch.tensor(start.words).reshape(n_words, WINDOW, WINDOW, n_filters)
        self.words = nn.Parameter(words.permute(0, 3, 1, 2).contiguous())
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.temperature = nn.Parameter(torch.tensor(math.log(TEMPERATURE)))
        self.neck = nn.Conv2d(n_words, NECK, 1, bias=False)
        nn.init.normal_(self.neck.weight, std=n_words**-0.5)
        self.pixels = nn.Conv2d(n_planes, PIXEL_MAPS, PIXELS, 2, padding=PIXELS // 2, bias=False)
        self.pixels_norm = nn.BatchNorm2d(PIXEL_MAPS)
        self.colours = nn.Conv2d(PIXEL_MAPS, COLOURS, 3, padding=1, bias=False)
        self.colours_norm = nn.BatchNorm2d(COLOURS)
        self.second = nn.Conv2d(NECK + COLOURS, SECOND, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(SECOND)
        self.third = nn.Conv2d(SECOND, THIRD, 3, padding=1, bias=False)
        self.third_norm = nn.BatchNorm2d(THIRD)
        for layer in (self.pixels, self.colours, self.second, self.third):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        self.drop = nn.Dropout(0.3)
        self.gain = nn.Parameter(torch.tensor(math.log(24.0)))
        self.linear = nn.Linear(N_CELLS * (n_words + THIRD), n_classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, images: Tensor) -> Tensor:
        codes = self.codes(_PooledMaps.apply(self.filters, images, self.n_threads))
        size = codes.square().sum(dim=1).mean(dim=(1, 2)) + 1e-9
        maps = self.neck(codes * size.rsqrt()[:, None, None, None])
        maps = torch.cat([maps, self.path(images)], dim=1)
        maps = functional.relu(self.second_norm(self.second(maps)))
        maps = functional.max_pool2d(maps, 2, ceil_mode=True)
        maps = functional.relu(self.third_norm(self.third(maps)))
        features = [functional.normalize(pooled(part)) for part in (codes, maps)]
        return self.linear(self.drop(torch.cat(features, dim=1)) * self.gain.exp())

    def path(self, images: Tensor) -> Tensor:
        """From the pixels to maps with a place for each descriptor."""
        maps = functional.relu(self.pixels_norm(self.pixels(standard(images))))
        maps = self.colours_norm(self.colours(functional.max_pool2d(maps, 2)))
        return functional.avg_pool2d(functional.relu(maps), 2, 1)

    def codes(self, maps: Tensor) -> Tensor:
        """Softmax over the words' likeness (cosine) to each descriptor."""
        products = functional.conv2d(maps, self.unit_words(), stride=STEP)
        squares = maps.square().sum(dim=1, keepdim=True)
        lengths = functional.avg_pool2d(squares, WINDOW, STEP) * WINDOW**2
        likeness = products * (lengths + 1e-6).rsqrt()
        codes = torch.softmax(likeness * self.temperature.exp() + self.bias[:, None, None], dim=1)
        # Far words count for nothing; squares of their tiny codes would be denormal numbers, a hundred
        # times as slow as others.
        return functional.threshold(codes, 1e-6, 0.0)

    def unit_words(self) -> Tensor:
        return self.words / (self.words.flatten(1).norm(dim=1)[:, None, None, None] + 1e-6)

    def network(self, mirror: bool) -> Network:
        """The weights as they are used from now on: the batches' statistics are part of the layers."""

        def layer(weights: Tensor, norm: Any) -> tuple[Tensor, Tensor]:
            factor = norm.weight / (norm.running_var + norm.eps).sqrt()
            matrix = (weights * factor[:, None, None, None]).permute(2, 3, 1, 0).flatten(0, 2)
            return matrix, norm.bias - norm.running_mean * factor

        with torch.no_grad():
            pixels, pixels_bias = layer(self.pixels.weight, self.pixels_norm)
            colours, colours_bias = layer(self.colours.weight, self.colours_norm)
            second, second_bias = layer(self.second.weight, self.second_norm)
            third, third_bias = layer(self.third.weight, self.third_norm)
            found = {
                "filters": self.filters,
                "words": self.unit_words().permute(0, 2, 3, 1).flatten(1),
                "bias": self.bias,
                "temperature": self.temperature.exp(),
                "neck": self.neck.weight[:, :, 0, 0].T,
                "pixels": pixels,
                "pixels_bias": pixels_bias,
                "colours": colours,
                "colours_bias": colours_bias,
                "second": second,
                "second_bias": second_bias,
                "third": third,
                "third_bias": third_bias,
                "weights": self.linear.weight.T * self.gain.exp(),
                "intercept": self.linear.bias,
            }
            arrays = {name: np.array(value.numpy(), order="C") for name, value in found.items()}
        return Network(**arrays, mirror=np.array(mirror))


def pooled(maps: Tensor) -> Tensor:
    """`network.pooled` of many images, maps (n, n_maps, height, width)."""
    fine = functional.max_pool2d(maps, -(-maps.shape[2] // 4), ceil_mode=True)
    coarse = functional.max_pool2d(fine, 2)
    levels = (functional.max_pool2d(coarse, 2), coarse, fine)
    return torch.cat([level.permute(0, 2, 3, 1).flatten(1) for level in levels], dim=1)
