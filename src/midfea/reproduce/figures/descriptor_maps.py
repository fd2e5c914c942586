"""Descriptor maps beside dense SIFT's: Fig. 6 and the appendix's three images of Caltech-101.

The paper's claim is that the average of SIFT's maps spreads its attention evenly while ours keeps to
the object. The number under each average measures evenness only (see `concentration`); where the
object is, the reader sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from midfea import stages
from midfea.baselines.local_features import sift_maps
from midfea.progress import track
from midfea.reproduce.figures import sets
from midfea.view.style import new_figure, save, show, show_mosaic

IMAGES = ("Faces/image_0117", "Motorbikes/image_0672", "panda/image_0033")  # the appendix's
STEP = 23  # maps between those shown: other orientations and other places of the patch each time
FLOOR = 0.5  # of the presets "fast" and "best"; the paper has none
NAMES = {"sift": "SIFT", "descriptors": "ours", "floored": f"ours, floor {FLOOR}"}


def make(data: Path, output: Path, seed: int) -> list[Path]:
    objects, filters = sets.objects(data), sets.object_filters(data, seed)
    places = {f"{Path(p).parent.name}/{Path(p).stem}": i for i, p in enumerate(objects.paths)}
    written, every = [], {}
    for name in track(IMAGES, "descriptor maps", len(IMAGES)):
        maps = every[name] = all_maps(objects.images[places[name]], filters)
        written += save(draw_all(maps), output, f"descriptor_maps-{name.split('/')[0].lower()}")
    return save(draw_averages(filters, every), output, "descriptor_maps") + written


def all_maps(image: NDArray[Any], filters: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Ours and SIFT's, each (height, width, map)."""
    pooled = stages.max_pool_3d(stages.soft_convolution(image, filters, "same"))
    floored = stages.max_pool_3d(stages.soft_convolution(image, filters, "same", floor=FLOOR))
    return {
        "image": image,
        "max_pool_3d": pooled,
        "descriptors": stages.assemble_descriptors(pooled),
        "floored": stages.assemble_descriptors(floored),
        "sift": sift_maps(image, step=1),
    }


def concentration(average: NDArray[Any]) -> float:
    """Share of the map's sum in the strongest quarter of its positions; 0.25 if it is even."""
    values = np.sort(average.ravel())[::-1]
    return float(values[: len(values) // 4].sum() / max(float(values.sum()), 1e-12))


def draw_all(maps: Mapping[str, NDArray[Any]]) -> Figure:
    """The appendix's panels (a) to (e), and the 36 pooled maps."""
    aspect = maps["image"].shape[0] / maps["image"].shape[1]
    figure = new_figure(14, 10.5 * aspect + 1)
    grid = figure.add_gridspec(2, 12, height_ratios=(1, 2))
    show(figure.add_subplot(grid[0, :3]), maps["image"], "(a) original", vmin=0, vmax=255)
    for place, letter, kind in ((grid[0, 3:6], "b", "sift"), (grid[0, 6:9], "c", "descriptors")):
        _show_average(figure.add_subplot(place), maps[kind], f"({letter}) average, {NAMES[kind]}")
    pooled = np.moveaxis(maps["max_pool_3d"], -1, 0)
    show_mosaic(figure.add_subplot(grid[0, 9:]), pooled, 6, "36 maps after 3D max pooling", low=0)
    for place, letter, kind in ((grid[1, :6], "d", "sift"), (grid[1, 6:], "e", "descriptors")):
        tiles = np.moveaxis(maps[kind], -1, 0)
        title = f"({letter}) the {maps[kind].shape[2]} maps, {NAMES[kind]}"
        brightest = float(np.percentile(tiles, 99))
        show_mosaic(figure.add_subplot(place), tiles, 12, title, low=0, high=brightest)
    return figure


def draw_averages(filters: NDArray[Any], every: Mapping[str, Mapping[str, NDArray[Any]]]) -> Figure:
    """Fig. 6: the filters, the images, some maps and the average of each kind."""
    aspect = max(maps["image"].shape[0] / maps["image"].shape[1] for maps in every.values())
    widths = (0.8, 1, 1.6, 1, 1.6, 1, 1)
    figure = new_figure(16, len(every) * (16 / sum(widths) * aspect + 0.45))
    grid = figure.add_gridspec(len(every), len(widths), width_ratios=widths)
    strongest = float(np.abs(filters).max())
    axes = figure.add_subplot(grid[0, 0])
    show_mosaic(axes, filters, 3, "(a) filters", low=-strongest, high=strongest)
    for line, (name, maps) in enumerate(every.items()):
        show(figure.add_subplot(grid[line, 1]), maps["image"], f"(b) {name}", vmin=0, vmax=255)
        for column, kind in ((2, "sift"), (4, "descriptors")):
            six = maps[kind][:, :, ::STEP][:, :, :6]
            title = f"(c) six maps, {NAMES[kind]}"
            tiles = np.moveaxis(six, -1, 0)
            show_mosaic(figure.add_subplot(grid[line, column]), tiles, 3, title, low=0)
        for column, kind in ((3, "sift"), (5, "descriptors"), (6, "floored")):
            _show_average(figure.add_subplot(grid[line, column]), maps[kind], f"average, {NAMES[kind]}")
    return figure


def _show_average(axes: Axes, maps: NDArray[Any], title: str) -> None:
    average = maps.mean(axis=2)
    show(axes, average, title, vmin=0)
    note = f"strongest quarter: {concentration(average):.0%}"
    axes.text(0.5, -0.03, note, ha="center", va="top", transform=axes.transAxes)
