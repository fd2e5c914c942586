"""The small convnet that one could train instead, for pareto.py. Needs torch.

Five convolutions (32-64-64-128-128) with batch norm on 64x64 grey pixels; random shifts, scales,
rotations and, if that is better on a quarter of the training images held out, mirroring; AdamW, one
cycle. Its images may also be relit and, if they are few, be changed more, as our network's are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import nn

from midfea.learning.folds import make_folds, split
from midfea.learning.network.model import squares_of, standard
from midfea.learning.network.settings import NetworkSettings
from midfea.learning.network.training import moved, relit
from midfea.pictures.images import Images, Pictures
from midfea.progress import track

SETTINGS = NetworkSettings()  # how our network's images are changed
LEARNING_RATE = 5e-3
MIN_IMAGES_SEEN, IMAGES_SEEN_PER_IMAGE = 40_000, 20
CHANNELS = (32, 64, 64, 128, 128)
MAX_MOVES = 1.5  # as our network's


def convnet(n_classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    before = 1
    for i, channels in enumerate(CHANNELS):
        layers += [nn.Conv2d(before, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)]
        layers += [nn.ReLU(), nn.MaxPool2d(2)] if i < 4 else [nn.ReLU()]
        before = channels
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(before, n_classes)]
    return nn.Sequential(*layers)


def train_convnet(images: Any, y: Any, n_seen: int, mirror: bool, change: float, what: str) -> nn.Module:
    """`change`: how much images are changed, as our network's are; 0: not relit."""
    torch.manual_seed(0)
    steps = n_seen // SETTINGS.batch_size
    net = convnet(int(y.max()) + 1).to(images.device).train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=LEARNING_RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, steps, pct_start=0.2)
    for _ in track(range(steps), what, steps):
        chosen = torch.randint(len(images), (SETTINGS.batch_size,))
        augmented = moved(images[chosen], mirror, moves=min(max(change, 1.0), MAX_MOVES))
        augmented = relit(augmented, lighting=change * SETTINGS.lighting)
        loss = functional.cross_entropy(net(standard(augmented)), y[chosen], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return net.eval()


class Convnet:
    """`fit` and `predict` of images, as a classifier has them."""

    def __init__(self, device: str = "cpu", light: bool = False) -> None:
        self.device, self.light = device, light

    def fit(self, images: Any, y: Any, groups: Any = None) -> Convnet:
        pixels = self._pixels(images)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        labels = torch.as_tensor(numbers, device=self.device).long()
        n_seen = max(MIN_IMAGES_SEEN, IMAGES_SEEN_PER_IMAGE * len(numbers))
        change = SETTINGS.change(len(numbers) / len(self.classes_)) if self.light else 0.0
        folds = make_folds(numbers, SETTINGS.n_folds, 0)
        correct = {False: 0, True: 0}
        for mirror in correct if (folds >= 0).any() else ():  # one image of each class: no choice
            known, new = split(folds, 0)
            net = train_convnet(
                pixels[known], labels[known], n_seen // 3, mirror, change, "convnet, trial"
            )
            with torch.no_grad():
                predicted = net(standard(pixels[new])).argmax(dim=1)
            correct[mirror] = int((predicted == labels[new]).sum())
        mirror = correct[True] > correct[False]
        self.net_ = train_convnet(pixels, labels, n_seen, mirror, change, "convnet")
        return self

    def predict(self, images: Any) -> Any:
        with torch.no_grad():
            parts = standard(self._pixels(images)).split(256)
            numbers = torch.cat([self.net_(part).argmax(dim=1).cpu() for part in parts]).numpy()
        return self.classes_[numbers]

    def _pixels(self, images: Any) -> Any:
        pictures = Pictures(Images(images), None, 1, False)
        grey = np.stack([squares_of(pictures[i])[:1] for i in range(len(pictures))])
        return torch.as_tensor(grey, device=self.device)
