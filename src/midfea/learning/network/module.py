"""The network while it is trained: `Network` as a torch module."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import nn

from midfea.engines.cpu import gradients, kernels
from midfea.engines.torch import plain
from midfea.learning.network.model import N_CELLS, PIXELS, WINDOW, Network, standard
from midfea.learning.network.settings import NetworkSettings
from midfea.stages.low_level import FLAT, unit_length

Tensor = Any

LOGIT_SCALE = 20.0  # at the start


@dataclass(frozen=True)
class Start:
    """The unsupervised solution: filters (n, k, k) and words (n_words, d)."""

    filters: NDArray[np.float32]
    words: NDArray[np.float32]

    def noise(self, seed: int) -> Start:
        """Noise of the same size."""
        rng = np.random.RandomState(seed)
        filters = rng.normal(size=self.filters.shape)
        filters -= filters.mean(axis=(1, 2), keepdims=True)
        filters /= np.linalg.norm(filters, axis=(1, 2), keepdims=True)
        words = unit_length(np.abs(rng.normal(size=self.words.shape)))
        return Start(filters.astype(np.float32), words.astype(np.float32))


def pooled_maps(filters: Tensor, images: Tensor) -> Tensor:
    """Soft convolution and 2x2 maxima of images (n, planes, height, width)."""
    by = PooledMaps.apply if images.device.type == "cpu" else pooled_by_torch
    return by(filters, images)


def pooled_by_torch(filters: Tensor, images: Tensor) -> Tensor:
    """The same by torch's operations, on any device."""
    grey = images[:, 0]
    responses = plain.convolve(plain.mirrored(grey, filters.shape[1:]), filters)
    flat = plain.flat_squares(grey, None, 0.0)
    return plain.max_pool_3d(plain.soft_convolution(responses, flat, rectify=True), pairs=False)


class PooledMaps(torch.autograd.Function):
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
    def backward(ctx: Any, gradient: Tensor) -> Any:
        pixels, taps, levels = ctx.given
        parts = [
            gradients.filters_gradient(image, taps, True, True, level, part)
            for image, level, part in zip(pixels, levels, gradient.contiguous().numpy(), strict=True)
        ]
        return torch.as_tensor(sum(parts)), None


class NetworkModule(nn.Module):
    """`Network` while it is trained."""

    def __init__(
        self,
        start: Start,
        n_planes: int,
        n_classes: int,
        aligned: bool,
        settings: NetworkSettings,
    ) -> None:
        super().__init__()
        self.settings = settings
        first, colours, second, third, fourth = settings.widths
        self.step = 1 if aligned else 2
        n_filters, n_words = len(start.filters), len(start.words)
        self.filters = nn.Parameter(torch.tensor(start.filters))
        words = torch.tensor(start.words).reshape(n_words, WINDOW, WINDOW, n_filters)
        self.words = nn.Parameter(words.permute(0, 3, 1, 2).contiguous())
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(LOGIT_SCALE)))
        self.pixels = nn.Conv2d(n_planes, first, PIXELS, 2, padding=PIXELS // 2, bias=False)
        self.pixels_norm = nn.BatchNorm2d(first)
        self.colours = nn.Conv2d(first, colours, 3, padding=1, bias=False)
        self.colours_norm = nn.BatchNorm2d(colours)
        self.second = nn.Conv2d(colours, second, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(second)
        self.third = nn.Conv2d(second, third, 3, padding=1, bias=False)
        self.third_norm = nn.BatchNorm2d(third)
        self.fourth = nn.Conv2d(third, fourth, 3, padding=1, bias=False)
        self.fourth_norm = nn.BatchNorm2d(fourth)
        for layer in (self.pixels, self.colours, self.second, self.third, self.fourth):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        self.gain = nn.Parameter(torch.tensor(math.log(24.0)))
        self.linear = nn.Linear(N_CELLS * (n_words + third), n_classes)
        self.whole = nn.Linear(fourth, n_classes)
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
        scores = [self.linear(features * self.gain.exp()), self.whole(means)]
        if self.training and self.codes_alone is not None:
            scores.append(self.codes_alone(self.dropped(parts[0], random) * self.gain.exp()))
        return scores

    def dropped(self, features: Tensor, random: Tensor) -> Tensor:
        if not self.training:
            return features
        uniform = torch.rand(features.shape, generator=random, device=features.device)
        kept = 1 - self.settings.dropout
        return features * (uniform < kept) / kept

    def path(self, images: Tensor) -> Tensor:
        """From the pixels to the layer before the last."""
        maps = functional.relu(self.pixels_norm(self.pixels(standard(images))))
        maps = functional.relu(self.colours_norm(self.colours(functional.max_pool2d(maps, 2))))
        maps = functional.relu(self.second_norm(self.second(functional.avg_pool2d(maps, 2, 1))))
        maps = functional.max_pool2d(maps, 2, ceil_mode=True)
        maps = functional.relu(self.third_norm(self.third(maps)))
        return maps if self.settings.pixel_layers else 0 * maps

    def codes(self, maps: Tensor) -> Tensor:
        """Softmax over the words' likeness (cosine) to each descriptor."""
        products = functional.conv2d(maps, self.unit_words(), stride=self.step)
        squares = maps.square().sum(dim=1, keepdim=True)
        lengths = functional.avg_pool2d(squares, WINDOW, self.step) * WINDOW**2
        scales = (lengths + 1e-6).rsqrt() * self.logit_scale.exp()
        # A place's words lie together in memory: as the last dimension, softmax takes them as they are.
        likeness = torch.addcmul(self.bias, products.permute(0, 2, 3, 1), scales.permute(0, 2, 3, 1))
        return torch.softmax(likeness, dim=3).permute(0, 3, 1, 2)

    def unit_words(self) -> Tensor:
        return self.words / (self.words.flatten(1).norm(dim=1)[:, None, None, None] + 1e-6)

    @staticmethod
    def network(twins: list[NetworkModule], mirror: bool, view_shift: int) -> Network:
        """The weights as they are used from now on: the batches' statistics are part of the layers."""
        self = twins[0]

        def layer(name: str) -> tuple[Tensor, Tensor]:
            norms = [getattr(twin, f"{name}_norm") for twin in twins]
            mean = sum(norm.running_mean for norm in norms) / len(norms)
            variance = sum(norm.running_var for norm in norms) / len(norms)
            factor = norms[0].weight / (variance + norms[0].eps).sqrt()
            kernel = getattr(self, name).weight * factor[:, None, None, None]
            return kernel.permute(2, 3, 1, 0).flatten(0, 2), norms[0].bias - mean * factor

        with torch.no_grad():
            pixels, pixels_bias = layer("pixels")
            colours, colours_bias = layer("colours")
            second, second_bias = layer("second")
            third, third_bias = layer("third")
            if not self.settings.pixel_layers:
                third, third_bias = 0 * third, 0 * third_bias
            fourth, fourth_bias = layer("fourth")
            weights = {
                "filters": self.filters,
                "words": self.unit_words().permute(0, 2, 3, 1).flatten(1),
                "bias": self.bias,
                "logit_scale": self.logit_scale.exp(),
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
            arrays = {name: np.array(value.cpu().numpy(), order="C") for name, value in weights.items()}
        use = {"step": self.step, "mirror": mirror, "view_shift": view_shift, "rounded": False}
        return Network(**arrays, **{name: np.array(value) for name, value in use.items()})


def pooled(maps: Tensor) -> Tensor:
    """`network.pooled` of many images, maps (n, n_maps, height, width)."""
    fine = functional.max_pool2d(maps, -(-maps.shape[2] // 4), ceil_mode=True)
    coarse = functional.max_pool2d(fine, 2)
    levels = (functional.max_pool2d(coarse, 2), coarse, fine)
    return torch.cat([level.permute(0, 2, 3, 1).flatten(1) for level in levels], dim=1)
