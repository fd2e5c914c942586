"""What all figures share: their looks, mosaics of maps, and the files they are written to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from midfea.files import replacing

LOOKS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 200,
    "pdf.fonttype": 42,  # letters stay letters, to be searched and edited
    "image.interpolation": "nearest",
}
# Told apart by people who are colour-blind (Okabe and Ito), the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")


def looks() -> AbstractContextManager[None]:
    """Within this context figures are made and saved with `LOOKS`."""
    return matplotlib.rc_context(LOOKS)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, inches; no window and no global state, unlike `pyplot`."""
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, output: Path, name: str) -> list[Path]:
    """Write `name`.png and `name`.pdf, without dates: the same data give the same files."""
    written = []
    for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
        path = output / f"{name}.{kind}"
        with replacing(path) as temporary:
            figure.savefig(temporary, format=kind, metadata=metadata)
        written.append(path)
    return written


def save_numbers(rows: Sequence[Mapping[str, Any]], output: Path, name: str) -> Path:
    """Write `name`.json, a list with a dict for each number in the picture."""
    path = output / f"{name}.json"
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(list(rows), indent=1) + "\n")
    return path


def mosaic(maps: NDArray[Any], columns: int) -> NDArray[np.float32]:
    """Maps (height, width, n) side by side, row by row; NaN, drawn as white, between them."""
    height, width, n = maps.shape
    gap = max(1, round(max(height, width) / 20))
    rows = -(-n // columns)
    shape = (rows * (height + gap) - gap, columns * (width + gap) - gap)
    picture = np.full(shape, np.nan, dtype=np.float32)
    for i in range(n):
        top, left = (i // columns) * (height + gap), (i % columns) * (width + gap)
        picture[top : top + height, left : left + width] = maps[:, :, i]
    return picture


def show(
    axes: Axes,
    picture: NDArray[Any],
    title: str = "",
    *,
    cmap: str = "gray",
    vmin: float | None = None,
    vmax: float | None = None,
) -> None:
    """A picture without ticks and frame."""
    axes.imshow(picture, cmap=cmap, vmin=vmin, vmax=vmax)
    axes.set_axis_off()
    if title:
        axes.set_title(title)
