"""What the stages make of an image: Fig. 1, 2 and 6 and the appendix.

- flowchart: one image through all stages, the left panel of Fig. 1.
- filters: the learned filters, Fig. 6 (a) (Caltech-101) and the appendix's (Extended Yale B).
- lights: soft convolution of a face under three lights, Fig. 2 and the appendix's three people. Under
  each stage stands how much its maps under one light resemble those under another: the mean
  correlation over the pairs of lights. That is the paper's "invariant to illumination" as a number.
- descriptor_maps: beside dense SIFT's, Fig. 6 and the appendix's three images of Caltech-101. The
  paper's claim is that the average of SIFT's maps spreads its attention evenly while ours keeps to the
  object. The number under each average measures evenness only (see `concentration`); where the object
  is, the reader sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from midfea import MidFea, datasets, stages
from midfea.baselines.local_features import sift_maps
from midfea.estimators.neuron_selectivity import NeuronSelectivity, responses_order
from midfea.progress import track
from midfea.view.style import COLOURS, new_figure, save, show, show_mosaic

Maps = Mapping[str, NDArray[Any]]  # the image and, by stage, its maps (height, width, map)

FILTER_IMAGES = 10  # of each class: about as many images as the estimators learn filters from
IMAGES = ("Faces/image_0117", "Motorbikes/image_0672", "panda/image_0033")  # the appendix's
# Of the flowchart: classes enough to show the neurons' choice.
CLASSES = ("Faces", "Motorbikes", "airplanes", "watch", "panda")
N_TRAIN = 30
NEURONS_EACH = 20  # of each class, as in Section 4.4
# From the front, from one side, and from so far to the other that half the face is dark.
LIGHTS = {"azimuth 0°": "A+000E+00", "azimuth +35°": "A+035E+15", "azimuth −70°": "A-070E+00"}
PEOPLE = ("yaleB01", "yaleB02", "yaleB32")  # not yaleB05: its photo at +35° has comb lines from moving
TITLES = {
    "image": "(a) original",
    "convolution": "(b) convolution",
    "normalized": "(c) normalised",
    "thresholded": "(d) soft-thresholded",
    "soft_convolution": "(e) normalised again",
    "max_pool_3d": "(f) 3D max pooling",
}
STEP = 23  # maps between those shown: other orientations and other places of the patch each time
FLOOR = 0.5  # of the presets "fast" and "best"; the paper has none
NAMES = {"sift": "SIFT", "descriptors": "ours", "floored": f"ours, floor {FLOOR}"}


# -- the data sets -----------------------------------------------------------------------------------


def objects(data: Path) -> Any:
    """Caltech-101, with the place of each image by its name, such as "panda/image_0033"."""
    loaded = datasets.load_caltech101(data)
    names = (f"{Path(path).parent.name}/{Path(path).stem}" for path in loaded.paths)
    loaded.places = {name: place for place, name in enumerate(names)}
    return loaded


def object_filters(caltech: Any, seed: int) -> NDArray[np.float32]:
    """The 9 filters learned from training images of all classes of Caltech-101 (Fig. 6 (a))."""
    images, target = caltech.images, caltech.target
    rng = np.random.RandomState(seed)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(target == name))[:FILTER_IMAGES] for name in np.unique(target)]
    )
    return stages.learn_filters([images[i] for i in chosen], random_state=seed)


def lit_faces(data: Path) -> Any:
    """Extended Yale B at its full size, whose fine lines are what the maps show."""
    return datasets.load_yale_b(data, size=(192, 168))


def lit_face_filters(faces: Any, seed: int) -> NDArray[np.float32]:
    """The 9 filters learned from Extended Yale B (appendix)."""
    chosen = np.random.RandomState(seed).permutation(len(faces.images))[:500]
    return stages.learn_filters([faces.images[i] for i in chosen], random_state=seed)


# -- flowchart ---------------------------------------------------------------------------------------


def flowchart(data: Path, output: Path, seed: int) -> list[Path]:
    caltech = objects(data)
    shown = caltech.places[IMAGES[0]]
    rng = np.random.RandomState(seed)
    train = []
    for name in CLASSES:
        members = rng.permutation(np.flatnonzero(caltech.target == name))
        train += [int(i) for i in members if i != shown][:N_TRAIN]
    images, labels = [caltech.images[i] for i in train], caltech.target[train]
    model = MidFea(random_state=seed).fit(images)  # the paper's settings
    features = model.transform(images)
    layer = NeuronSelectivity(NEURONS_EACH * len(CLASSES), length=16, random_state=seed)
    layer.fit(features, labels)
    maps = model.feature_maps(caltech.images[shown])
    activations = layer.transform(maps["features"][None])[0]
    order = responses_order(layer)
    serves = layer.class_responses_.argmax(axis=1)[order]
    figure = _draw_flowchart(maps, model.codebook_, activations[order], layer.classes_[serves])
    return save(figure, output, "flowchart")


def _draw_flowchart(
    maps: Maps, codebook: NDArray[Any], activations: NDArray[Any], serves: NDArray[Any]
) -> Figure:
    """Eight panels, to be read like a text.

    `maps` as `MidFea.feature_maps` gives them; `serves` is the class of each neuron.
    """
    figure = new_figure(14, 7 * max(_aspect(maps), 0.6) + 1.2)
    panels = figure.subplots(2, 4).ravel()
    show(panels[0], maps["image"], "image", vmin=0, vmax=255)
    for axes, key, name, columns in (
        (panels[1], "soft_convolution", "soft convolution", 3),
        (panels[2], "max_pool_3d", "3D max pooling", 6),
        (panels[3], "descriptors", "descriptors", 12),
    ):
        size = "×".join(map(str, maps[key].shape))
        show_mosaic(axes, np.moveaxis(maps[key], -1, 0), columns, f"→ {name}\n{size}", low=0)
    size = "×".join(map(str, maps["words"].shape))
    title = f"→ nearest of {len(codebook)} words\n{size}"
    show(panels[4], word_colours(codebook)[maps["words"]], title)
    cells = maps["pooled"].reshape(-1, len(codebook))
    panels[5].imshow(cells, cmap="gray_r", aspect="auto", interpolation="antialiased")
    title = f"→ pooled words\n{cells.shape[0]} cells × {cells.shape[1]} words"
    panels[5].set(title=title, xlabel="word", ylabel="cell", xticks=[], yticks=[])
    panels[6].plot(maps["features"], color=COLOURS[0], linewidth=0.3)
    title = f"→ projection\nx, {len(maps['features'])} features"
    panels[6].set(title=title, xlabel="feature", xticks=[])
    _show_activations(panels[7], activations, serves)
    return figure


def word_colours(codebook: NDArray[Any]) -> NDArray[Any]:
    """A colour for each word; words that are alike (first three principal directions) look alike."""
    words = codebook - codebook.mean(axis=0)
    directions = np.linalg.svd(words, full_matrices=False)[2][:3]
    ranks = (words @ directions.T).argsort(axis=0).argsort(axis=0)
    return ranks / max(len(codebook) - 1, 1)


def _show_activations(axes: Axes, activations: NDArray[Any], serves: NDArray[Any]) -> None:
    places = np.arange(len(activations))
    for i, name in enumerate(dict.fromkeys(serves.tolist())):
        mine = serves == name
        axes.bar(places[mine], activations[mine], width=1, color=COLOURS[i % len(COLOURS)], label=name)
    title = f"→ neuron selectivity\nh, {len(activations)} neurons"
    axes.set(title=title, xlabel="neuron, by the class it responds to most", xticks=[], ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8, title="neurons of", title_fontsize=8)


def _aspect(maps: Maps) -> float:
    height, width = maps["image"].shape
    return height / width


# -- filters -----------------------------------------------------------------------------------------


def filters(data: Path, output: Path, seed: int) -> list[Path]:
    figure = new_figure(5.2, 2.9)
    left, right = figure.subplots(1, 2)
    _show_filters(left, object_filters(objects(data), seed), "Caltech-101")
    _show_filters(right, lit_face_filters(lit_faces(data), seed), "Extended Yale B")
    return save(figure, output, "filters")


def _show_filters(axes: Axes, learned: NDArray[Any], title: str) -> None:
    """Grey is zero."""
    strongest = float(np.abs(learned).max())
    show_mosaic(axes, learned, 3, title, low=-strongest, high=strongest)


# -- lights ------------------------------------------------------------------------------------------


def lights(data: Path, output: Path, seed: int) -> list[Path]:
    faces = lit_faces(data)
    learned = lit_face_filters(faces, seed)
    places = {Path(path).stem: place for place, path in enumerate(faces.paths)}
    written = []
    for person in track(PEOPLE, "lights", len(PEOPLE)):
        rows = {
            light: soft_convolution_stages(faces.images[places[f"{person}_P00{angle}"]], learned)
            for light, angle in LIGHTS.items()
        }
        written += save(_draw_lights(rows), output, f"lights-{person}")
    return written


def soft_convolution_stages(image: NDArray[Any], learned: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The steps of footnote 1 and 3D max pooling, each (height, width, map)."""
    responses = np.abs(stages.convolve(image, learned, "same"))
    normalized = stages.normalize_maps(responses, stages.flat_below(image, responses, 0.0))
    soft = stages.soft_convolution(image, learned, "same")
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


def _draw_lights(rows: Mapping[str, Maps]) -> Figure:
    """A row for each light, a column for each stage."""
    figure = new_figure(15, 2.9 * len(rows) + 0.5)
    grid = figure.subplots(len(rows), len(TITLES), squeeze=False)
    for column, (stage, title) in enumerate(TITLES.items()):
        for axes, maps in zip(grid[:, column], rows.values(), strict=True):
            tiles = np.moveaxis(maps[stage], -1, 0)
            # Strong responses are few: the brightest hundredth is white, so that the rest is seen.
            brightest = 255 if stage == "image" else float(np.percentile(tiles, 99)) or None
            show_mosaic(axes, tiles, round(len(tiles) ** 0.5), low=0, high=brightest)
        alike = resemblance([maps[stage] for maps in rows.values()])
        grid[0, column].set_title(f"{title}\nalike between lights: {alike:.2f}")
    for axes, light in zip(grid[:, 0], rows, strict=True):
        axes.text(-0.06, 0.5, light, rotation=90, va="center", ha="right", transform=axes.transAxes)
    return figure


# -- descriptor maps ---------------------------------------------------------------------------------


def descriptor_maps(data: Path, output: Path, seed: int) -> list[Path]:
    caltech = objects(data)
    learned = object_filters(caltech, seed)
    written, every = [], {}
    for name in track(IMAGES, "descriptor maps", len(IMAGES)):
        maps = every[name] = _all_maps(caltech.images[caltech.places[name]], learned)
        written += save(_draw_all(maps), output, f"descriptor_maps-{name.split('/')[0].lower()}")
    return save(_draw_averages(learned, every), output, "descriptor_maps") + written


def _all_maps(image: NDArray[Any], learned: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Ours and SIFT's, each (height, width, map)."""
    pooled = stages.max_pool_3d(stages.soft_convolution(image, learned, "same"))
    floored = stages.max_pool_3d(stages.soft_convolution(image, learned, "same", floor=FLOOR))
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


def _draw_all(maps: Maps) -> Figure:
    """The appendix's panels (a) to (e), and the 36 pooled maps."""
    figure = new_figure(14, 10.5 * _aspect(maps) + 1)
    grid = figure.add_gridspec(2, 12, height_ratios=(1, 2))
    show(figure.add_subplot(grid[0, :3]), maps["image"], "(a) original", vmin=0, vmax=255)
    for place, letter, kind in ((grid[0, 3:6], "b", "sift"), (grid[0, 6:9], "c", "descriptors")):
        _show_average(figure.add_subplot(place), maps[kind], f"({letter}) average, {NAMES[kind]}")
    pooled = np.moveaxis(maps["max_pool_3d"], -1, 0)
    show_mosaic(figure.add_subplot(grid[0, 9:]), pooled, 6, "36 maps after 3D max pooling", low=0)
    for place, letter, kind in ((grid[1, :6], "d", "sift"), (grid[1, 6:], "e", "descriptors")):
        tiles = np.moveaxis(maps[kind], -1, 0)
        title = f"({letter}) the {len(tiles)} maps, {NAMES[kind]}"
        brightest = float(np.percentile(tiles, 99))
        show_mosaic(figure.add_subplot(place), tiles, 12, title, low=0, high=brightest)
    return figure


def _draw_averages(learned: NDArray[Any], every: Mapping[str, Maps]) -> Figure:
    """Fig. 6: the filters, the images, some maps and the average of each kind."""
    aspect = max(_aspect(maps) for maps in every.values())
    widths = (0.8, 1, 1.6, 1, 1.6, 1, 1)
    figure = new_figure(16, len(every) * (16 / sum(widths) * aspect + 0.45))
    grid = figure.add_gridspec(len(every), len(widths), width_ratios=widths)
    _show_filters(figure.add_subplot(grid[0, 0]), learned, "(a) filters")
    for line, (name, maps) in enumerate(every.items()):
        show(figure.add_subplot(grid[line, 1]), maps["image"], f"(b) {name}", vmin=0, vmax=255)
        for column, kind in ((2, "sift"), (4, "descriptors")):
            six = np.moveaxis(maps[kind], -1, 0)[::STEP][:6]
            title = f"(c) six maps, {NAMES[kind]}"
            show_mosaic(figure.add_subplot(grid[line, column]), six, 3, title, low=0)
        for column, kind in ((3, "sift"), (5, "descriptors"), (6, "floored")):
            _show_average(figure.add_subplot(grid[line, column]), maps[kind], f"average, {NAMES[kind]}")
    return figure


def _show_average(axes: Axes, maps: NDArray[Any], title: str) -> None:
    average = maps.mean(axis=2)
    show(axes, average, title, vmin=0)
    note = f"strongest quarter: {concentration(average):.0%}"
    axes.text(0.5, -0.03, note, ha="center", va="top", transform=axes.transAxes)
