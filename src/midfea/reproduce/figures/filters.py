"""The learned filters: Fig. 6 (a) (Caltech-101) and the appendix's (Extended Yale B)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from midfea.progress import track
from midfea.reproduce.figures import sets
from midfea.view.style import new_figure, save, show_mosaic


def make(data: Path, output: Path, seed: int) -> list[Path]:
    learn = {"Caltech-101": sets.object_filters, "Extended Yale B": sets.lit_face_filters}
    learned = {name: of(data, seed) for name, of in track(learn.items(), "filters", len(learn))}
    return save(draw(learned), output, "filters")


def draw(learned: Mapping[str, NDArray[Any]]) -> Figure:
    """Filters (n, k, k) under the name of the images they come from; grey is zero."""
    figure = new_figure(2.6 * len(learned), 2.9)
    for axes, (name, filters) in zip(
        figure.subplots(1, len(learned), squeeze=False)[0], learned.items(), strict=True
    ):
        strongest = float(np.abs(filters).max())
        show_mosaic(axes, filters, 3, name, low=-strongest, high=strongest)
    return figure
