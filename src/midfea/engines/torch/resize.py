"""Pillow's area-weighted resizing on the device, to the last bit for 8-bit pixels.

Smaller copies of the images are part of the features' definition (`images.resize`), so they must be the
same on every engine. Pillow weights the pixels under a triangle, in whole numbers of 2^-22, first along
the rows and then along the columns, and rounds to 8 bits after each; such sums are exact in float64.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

UNIT = 2.0**22


def resize(pixels: Any, shape: tuple[int, int]) -> Any:
    """Copies (n, *shape) of images (n, height, width), uint8 or float32."""
    whole = pixels.dtype == torch.uint8
    for axis in (2, 1):
        before, after = pixels.shape[axis], shape[axis - 1]
        if before == after:
            continue
        weights = torch.as_tensor(_weights(before, after, whole), device=pixels.device)
        kind = pixels.dtype
        pixels = pixels.double()
        pixels = pixels @ weights.T if axis == 2 else weights @ pixels
        if whole:
            pixels = ((pixels + UNIT / 2) / UNIT).floor().clamp(0, 255)
        pixels = pixels.to(kind)
    return pixels


@lru_cache(maxsize=1024)
def _weights(before: int, after: int, whole: bool) -> NDArray[np.float64]:
    """How much of each pixel goes into each new one: (after, before)."""
    scale = before / after
    support = max(scale, 1.0)
    weights = np.zeros((after, before))
    for i in range(after):
        center = (i + 0.5) * scale
        first = max(int(center - support + 0.5), 0)
        last = min(int(center + support + 0.5), before)
        parts = [max(1 - abs((j - center + 0.5) / support), 0.0) for j in range(first, last)]
        total = sum(parts)
        weights[i, first:last] = [part / total for part in parts]
    return np.floor(weights * UNIT + 0.5) if whole else weights
