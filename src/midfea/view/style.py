"""What all matplotlib figures share: colours, fonts, mosaics of maps, and the files they are written to.

matplotlib is imported when it is used: the colours are for pages, too.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from midfea.files import replacing
from midfea.pictures.mosaic import mosaic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
# Colour-blind people can distinguish these (Okabe and Ito); the darker ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")


def looks() -> AbstractContextManager[None]:
    """Within this context figures are made and saved with `LOOKS`."""
    import matplotlib

    return matplotlib.rc_context(LOOKS)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, inches; no window and no global state, unlike `pyplot`."""
    from matplotlib.figure import Figure

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


def show(
    axes: Axes,
    image: NDArray[Any],
    title: str = "",
    *,
    cmap: str = "gray",
    vmin: float | None = None,
    vmax: float | None = None,
) -> None:
    """An image without ticks and frame."""
    axes.imshow(image, cmap=cmap, vmin=vmin, vmax=vmax)
    axes.set_axis_off()
    if title:
        axes.set_title(title)


def show_mosaic(
    axes: Axes,
    tiles: NDArray[Any],
    columns: int | None = None,
    title: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
) -> None:
    """Tiles (n, height, width) side by side; see `midfea.pictures.mosaic`."""
    show(axes, mosaic(tiles, columns, low=low, high=high), title, vmin=0, vmax=255)
