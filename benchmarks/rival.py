"""The small convnet that one could train instead, and the sets on which pareto.py has it beside ours.

The rival: five convolutions (32-64-64-128-128) with batch norm on 64x64 grey pixels; random shifts,
scales, turns and, if that is better on a held-out quarter of the training images, mirroring; AdamW, one
cycle. Its copies may also be relit and, if images are few, be changed more, as our network's are. Needs
torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from torch import nn

from midfea.datasets import load_folder
from midfea.estimators.finetuned import MOST_MOVED, how_changed
from midfea.learning.network.model import standard
from midfea.learning.network.training import BATCH, augmented, relit
from midfea.learning.svm import folds
from midfea.progress import track
from midfea.reproduce.protocols import PROTOCOLS

# Images, class numbers, splits, and what images share that no test image has (None: nothing).
Set = tuple[Any, Any, list[Any], Any]

RATE = 5e-3
LEAST, EACH = 40_000, 20  # copies seen, in all and of each image
CHANNELS = (32, 64, 64, 128, 128)


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
    """`change`: how much copies are changed, as our network's are; 0: not relit."""
    torch.manual_seed(0)
    net, steps = convnet(int(y.max()) + 1).to(images.device).train(), n_seen // BATCH
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps, pct_start=0.2)
    for _ in track(range(steps), what, steps):
        chosen = torch.randint(len(images), (BATCH,))
        copies = augmented(images[chosen], mirror, moves=min(max(change, 1.0), MOST_MOVED))
        scores = net(standard(relit(copies, light=change)))
        loss = functional.cross_entropy(scores, y[chosen], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return net.eval()


def run_convnet(
    images: Any, y: Any, train: Any, device: str = "cpu", light: bool = False
) -> Callable[[Any], Any]:
    """Trained; a function from test images to answers. Mirroring is chosen on a quarter held out."""
    pixels = torch.as_tensor(images.astype(np.float32), device=device)[:, None]
    labels = torch.as_tensor(y, device=device).long()
    n_seen = max(LEAST, EACH * len(train))
    change = how_changed(len(train) / len(np.unique(y[train]))) if light else 0.0
    parts = folds(y[train], 4, 0)
    right = [0, 0] if not parts else []  # one image of each class: nothing to choose with
    for mirror in (False, True) if parts else ():
        known, held_out = (train[part] for part in parts[0])
        trial = n_seen // 3, mirror, change, "convnet, trial"
        net = train_convnet(pixels[known], labels[known], *trial)
        with torch.no_grad():
            found = net(standard(pixels[held_out])).argmax(dim=1)
        right.append(int((found == labels[held_out]).sum()))
    net = train_convnet(pixels[train], labels[train], n_seen, right[1] > right[0], change, "convnet")

    def answer(test: Any) -> Any:
        with torch.no_grad():
            parts = standard(pixels[test]).split(256)
            return torch.cat([net(part).argmax(dim=1).cpu() for part in parts]).numpy()

    return answer


def per_class(answers: Any, y: Any) -> float:
    return 100 * float(np.mean([(answers[y == c] == c).mean() for c in np.unique(y)]))


def sign_digits(data: Path, splits: int) -> Set:
    """Half of each class for training."""
    found = load_folder(data / "sign_digits")
    y = np.unique(found.target, return_inverse=True)[1]
    made = []
    for seed in range(splits):
        rng = np.random.RandomState(seed)
        shuffled = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
        halves = [(part[: len(part) // 2], part[len(part) // 2 :]) for part in shuffled]
        made.append(tuple(np.sort(np.concatenate(side)) for side in zip(*halves, strict=True)))
    return found.images, y, made, None


def of_protocol(name: str) -> Callable[[Path, int], Set]:
    def load(data: Path, splits: int) -> Set:
        protocol = PROTOCOLS[name]
        bunch = protocol.load(data)
        y = np.unique(bunch.target, return_inverse=True)[1]
        groups = np.asarray(bunch.person) if protocol.person_folds else None
        return bunch.images, y, protocol.splits(bunch, splits, 0), groups

    return load


SETS = {"sign-digits": sign_digits}
SETS |= {name: of_protocol(name) for name in ("ar-face", "ar-gender", "yale-b", "caltech101")}
