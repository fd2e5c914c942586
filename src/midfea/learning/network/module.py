"""The network while it is trained: `Network` as a torch module."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import nn

from midfea.engines.cpu import gradients, kernels
from midfea.engines.torch import plain
from midfea.learning.network.model import LAYERS, N_CELLS, PIXELS, WINDOW, Network, standard
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
        self.step = 1 if aligned else 2
        n_filters, n_words = len(start.filters), len(start.words)
        self.filters = nn.Parameter(torch.tensor(start.filters))
        words = torch.tensor(start.words).reshape(n_words, WINDOW, WINDOW, n_filters)
        self.words = nn.Parameter(words.permute(0, 3, 1, 2).contiguous())
        self.bias = nn.Parameter(torch.zeros(n_words))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(LOGIT_SCALE)))
        *_, third, fourth = widths = settings.widths
        self.pixels = _layer(n_planes, widths[0], PIXELS, 2)
        self.colours, self.second, self.third, self.fourth = (_layer(*n) for n in pairwise(widths))
        for name in LAYERS:
            nn.init.kaiming_normal_(getattr(self, name)[0].weight, nonlinearity="relu")
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
        means = self.fourth(maps).mean(dim=(2, 3))
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
        maps = self.colours(functional.max_pool2d(self.pixels(standard(images)), 2))
        maps = self.second(functional.avg_pool2d(maps, 2, 1))
        maps = self.third(functional.max_pool2d(maps, 2, ceil_mode=True))
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
            norms = [getattr(twin, name)[1] for twin in twins]
            mean = sum(norm.running_mean for norm in norms) / len(norms)
            variance = sum(norm.running_var for norm in norms) / len(norms)
            factor = norms[0].weight / (variance + norms[0].eps).sqrt()
            kernel = getattr(self, name)[0].weight * factor[:, None, None, None]
            return kernel.permute(2, 3, 1, 0).flatten(0, 2), norms[0].bias - mean * factor

        with torch.no_grad():
            weights = {
                "filters": self.filters,
                "words": self.unit_words().permute(0, 2, 3, 1).flatten(1),
                "bias": self.bias,
                "logit_scale": self.logit_scale.exp(),
                "weights": self.linear.weight.T * self.gain.exp(),
                "intercept": self.linear.bias,
                "whole": self.whole.weight.T,
                "whole_intercept": self.whole.bias,
            }
            for name in LAYERS:
                weights[name], weights[f"{name}_bias"] = layer(name)
            if not self.settings.pixel_layers:
                weights |= {name: 0 * weights[name] for name in ("third", "third_bias")}
            arrays = {name: np.array(value.cpu().numpy(), order="C") for name, value in weights.items()}
        use = {"step": self.step, "mirror": mirror, "view_shift": view_shift, "rounded": False}
        return Network(**arrays, **{name: np.array(value) for name, value in use.items()})


def _layer(n_inputs: int, n_outputs: int, size: int = 3, step: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(n_inputs, n_outputs, size, step, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(n_outputs), nn.ReLU())


def pooled(maps: Tensor) -> Tensor:
    """`network.pooled` of many images, maps (n, n_maps, height, width)."""
    fine = functional.max_pool2d(maps, -(-maps.shape[2] // 4), ceil_mode=True)
    coarse = functional.max_pool2d(fine, 2)
    levels = (functional.max_pool2d(coarse, 2), coarse, fine)
    return torch.cat([level.permute(0, 2, 3, 1).flatten(1) for level in levels], dim=1)
