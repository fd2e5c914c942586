"""Soft convolution of a face under three lights: Fig. 2 and the appendix's three people.

Under each stage stands how much its maps under one light resemble those under another: the mean
correlation over the pairs of lights. That is the paper's "invariant to illumination" as a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from midfea import stages
from midfea.progress import track
from midfea.reproduce.figures import sets
from midfea.view.style import new_figure, save, show_mosaic

PEOPLE = ("yaleB01", "yaleB02", "yaleB32")  # not yaleB05: its photo at +35° has comb lines from moving
TITLES = {
    "image": "(a) original",
    "convolution": "(b) convolution",
    "normalized": "(c) normalised",
    "thresholded": "(d) soft-thresholded",
    "soft_convolution": "(e) normalised again",
    "max_pool_3d": "(f) 3D max pooling",
}


def make(data: Path, output: Path, seed: int) -> list[Path]:
    faces = sets.lit_faces(data)
    places = {Path(path).stem: i for i, path in enumerate(faces.paths)}
    filters = sets.lit_face_filters(data, seed)
    written = []
    for person in track(PEOPLE, "lights", len(PEOPLE)):
        rows = {
            light: soft_convolution_stages(faces.images[places[f"{person}_P00{angle}"]], filters)
            for light, angle in sets.LIGHTS.items()
        }
        written += save(draw(rows), output, f"lights-{person}")
    return written


def soft_convolution_stages(image: NDArray[Any], filters: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The steps of footnote 1 and 3D max pooling, each (height, width, map)."""
    responses = np.abs(stages.convolve(image, filters, "same"))
    normalized = stages.normalize_maps(responses, stages.flat_below(image, responses, 0.0))
    soft = stages.soft_convolution(image, filters, "same")
    return {
        "image": image[:, :, None].astype(np.float32),
        "convolution": responses,
        "normalized": normalized,
        "thresholded": stages.threshold_maps(normalized),
        "soft_convolution": soft,
        "max_pool_3d": stages.max_pool_3d(soft),
    }


def resemblance(maps: list[NDArray[Any]]) -> float:
    """Mean correlation between the maps of every two lights."""
    pairs = combinations([m.ravel().astype(np.float64) for m in maps], 2)
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs]))


def draw(rows: Mapping[str, Mapping[str, NDArray[Any]]]) -> Figure:
    """A row for each light, a column for each stage."""
    figure = new_figure(15, 2.9 * len(rows) + 0.5)
    grid = figure.subplots(len(rows), len(TITLES), squeeze=False)
    for column, (stage, title) in enumerate(TITLES.items()):
        alike = resemblance([maps[stage] for maps in rows.values()])
        for line, (light, maps) in enumerate(rows.items()):
            axes, n_maps = grid[line, column], maps[stage].shape[2]
            tiles = np.moveaxis(maps[stage], -1, 0)
            # Strong responses are few: the brightest hundredth is white, so that the rest is seen.
            brightest = 255 if stage == "image" else float(np.percentile(tiles, 99)) or None
            show_mosaic(axes, tiles, round(n_maps**0.5), low=0, high=brightest)
            if line == 0:
                axes.set_title(f"{title}\nalike between lights: {alike:.2f}")
            if column == 0:
                axes.text(-0.06, 0.5, light, rotation=90, va="center", ha="right",
                          transform=axes.transAxes)  # fmt: skip
    return figure
