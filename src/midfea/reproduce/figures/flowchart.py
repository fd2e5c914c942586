"""One image through all stages: the left panel of Fig. 1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from midfea import MidFea
from midfea.estimators.neuron_selectivity import NeuronSelectivity, responses_order
from midfea.learning.ns_layer import centred
from midfea.reproduce.figures import sets
from midfea.view.style import COLOURS, new_figure, save, show, show_mosaic

IMAGE = "Faces/image_0117"
CLASSES = ("Faces", "Motorbikes", "airplanes", "watch", "panda")  # enough to show the neurons' choice
N_TRAIN = 30
NEURONS_EACH = 20  # of each class, as in Section 4.4


def make(data: Path, output: Path, seed: int) -> list[Path]:
    objects = sets.objects(data)
    names = [f"{Path(path).parent.name}/{Path(path).stem}" for path in objects.paths]
    shown = names.index(IMAGE)
    rng = np.random.RandomState(seed)
    train = []
    for name in CLASSES:
        members = rng.permutation(np.flatnonzero(objects.target == name))
        train += [int(i) for i in members if i != shown][:N_TRAIN]
    images, labels = [objects.images[i] for i in train], objects.target[train]
    model = MidFea(random_state=seed).fit(images)  # the paper's settings
    features = model.transform(images)
    layer = NeuronSelectivity(NEURONS_EACH * len(CLASSES), random_state=seed)
    center = features.mean(axis=0)
    layer.fit(centred(features, center), labels)
    maps = model.feature_maps(objects.images[shown])
    activations = layer.transform(centred(maps["features"][None], center))[0]
    order = responses_order(layer)
    serves = layer.class_responses_.argmax(axis=1)[order]
    figure = draw(maps, model.codebook_, activations[order], layer.classes_[serves])
    return save(figure, output, "flowchart")


def draw(
    maps: Mapping[str, NDArray[Any]],
    codebook: NDArray[Any],
    activations: NDArray[Any],
    serves: NDArray[Any],
) -> Figure:
    """Eight panels, to be read like a text.

    `maps` as `MidFea.feature_maps` gives them; `serves` is the class of each neuron.
    """
    aspect = maps["image"].shape[0] / maps["image"].shape[1]
    figure = new_figure(14, 7 * max(aspect, 0.6) + 1.2)
    panels = figure.subplots(2, 4).ravel()
    show(panels[0], maps["image"], "image", vmin=0, vmax=255)
    for axes, key, name, columns in (
        (panels[1], "soft_convolution", "soft convolution", 3),
        (panels[2], "max_pool_3d", "3D max pooling", 6),
        (panels[3], "descriptors", "descriptors", 12),
    ):
        size = "×".join(map(str, maps[key].shape))
        show_mosaic(axes, np.moveaxis(maps[key], -1, 0), columns, f"→ {name}\n{size}", low=0)
    words = "×".join(map(str, maps["words"].shape))
    show(
        panels[4], word_colours(codebook)[maps["words"]], f"→ nearest of {len(codebook)} words\n{words}"
    )
    _show_pooled(panels[5], maps["pooled"].reshape(-1, len(codebook)))
    panels[6].plot(maps["features"], color=COLOURS[0], linewidth=0.3)
    panels[6].set_title(f"→ projection\nx, {len(maps['features'])} features")
    panels[6].set_xticks([])
    panels[6].set_xlabel("feature")
    _show_activations(panels[7], activations, serves)
    return figure


def word_colours(codebook: NDArray[Any]) -> NDArray[Any]:
    """A colour for each word; words that are alike (first three principal directions) look alike."""
    words = codebook - codebook.mean(axis=0)
    directions = np.linalg.svd(words, full_matrices=False)[2][:3]
    ranks = (words @ directions.T).argsort(axis=0).argsort(axis=0)
    return ranks / max(len(codebook) - 1, 1)


def _show_pooled(axes: Axes, cells: NDArray[Any]) -> None:
    axes.imshow(cells, cmap="gray_r", aspect="auto", interpolation="antialiased")
    axes.set_title(f"→ pooled words\n{cells.shape[0]} cells × {cells.shape[1]} words")
    axes.set_xlabel("word")
    axes.set_ylabel("cell")
    axes.set_xticks([])
    axes.set_yticks([])


def _show_activations(axes: Axes, activations: NDArray[Any], serves: NDArray[Any]) -> None:
    places = np.arange(len(activations))
    for i, name in enumerate(dict.fromkeys(serves.tolist())):
        mine = serves == name
        axes.bar(places[mine], activations[mine], width=1, color=COLOURS[i % len(COLOURS)], label=name)
    axes.set_title(f"→ neuron selectivity\nh, {len(activations)} neurons")
    axes.set_ylim(0, 1)
    axes.set_xticks([])
    axes.set_xlabel("neuron, by the class it responds to most")
    axes.legend(frameon=False, fontsize=8, title="neurons of", title_fontsize=8)
