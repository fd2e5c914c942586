"""Many small maps, such as filters, as one image, and images as PNG files."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from midfea.pictures.thumbnails import eight_bits

TILE_SIDE_PER_LINE = 20  # a line is this many times thinner than the longer side of a tile


def mosaic(
    tiles: NDArray[Any],
    columns: int | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
    line_value: int = 255,
) -> NDArray[np.uint8]:
    """Tiles (n, height, width[, colours]) side by side, row by row, with lines between them.

    Parameters
    ----------
    columns : tiles in a row; if None, about as many as there are rows
    low, high : values drawn black and white, the tiles' extremes if None; uint8 tiles stay as they are
    line_value : of the lines and of places without a tile; 0 is transparent with four colours

    Examples
    --------
    >>> mosaic(np.zeros((5, 7, 7), dtype=np.uint8)).shape
    (15, 23)
    """
    n, height, width = tiles.shape[:3]
    if tiles.dtype != np.uint8:
        black = float(tiles.min()) if low is None else low
        white = float(tiles.max()) if high is None else high
        tiles = (255 * np.clip((tiles - black) / max(white - black, 1e-12), 0, 1)).astype(np.uint8)
    columns = columns or math.ceil(n**0.5)
    line = max(1, round(max(height, width) / TILE_SIDE_PER_LINE))
    rows = -(-n // columns)
    shape = (rows * (height + line) - line, columns * (width + line) - line, *tiles.shape[3:])
    image = np.full(shape, line_value, dtype=np.uint8)
    for i, tile in enumerate(tiles):
        top, left = (i // columns) * (height + line), (i % columns) * (width + line)
        image[top : top + height, left : left + width] = tile
    return image


def png(pixels: NDArray[Any]) -> bytes:
    """A PNG file of an image (height, width[, 3]); anything but uint8 is spread over black to white."""
    file = io.BytesIO()
    Image.fromarray(eight_bits(pixels)).save(file, "PNG", compress_level=3)
    return file.getvalue()


def data_uri(pixels: NDArray[Any]) -> str:
    """An address that holds the PNG file itself, for the `src` of an HTML image."""
    return f"data:image/png;base64,{base64.b64encode(png(pixels)).decode()}"
