"""`midfea.pictures.resize` for a stack of images on a device: the same weights."""

from __future__ import annotations

from typing import Any

import torch

from midfea.pictures.resize import ROUNDED_UNIT, weights


def resize(pixels: Any, shape: tuple[int, int], rounded: bool = False) -> Any:
    """Images (n, height, width), uint8 or float32, at another `shape`; see `pictures.resize`."""
    if tuple(pixels.shape[1:]) == shape:
        return pixels
    rows, columns = (
        torch.as_tensor(weights(before, after).toarray(), device=pixels.device)
        for before, after in zip(pixels.shape[1:], shape, strict=True)
    )
    numbers = pixels.double()
    if not rounded or pixels.dtype != torch.uint8:
        return (rows @ numbers @ columns.T).float()
    return _rounded(_whole(rows) @ _rounded(numbers @ _whole(columns).T)).to(torch.uint8)


def _whole(exact: Any) -> Any:
    return (exact * ROUNDED_UNIT + 0.5).floor()


def _rounded(sums: Any) -> Any:
    return ((sums + ROUNDED_UNIT / 2) / ROUNDED_UNIT).floor().clamp(0, 255)
