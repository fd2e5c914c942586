"""What the neurons look for, drawn as pictures: Fig. 4 (AR) and Fig. 5 (FG-NET).

The paper says of these pictures only (footnote in Section 4.3) that PCA takes the place of random
projection, that spatial pooling is waived, and that the neurons are "averaged w.r.t one image and then
projected back to the input space". Here that is read as follows, with the authors' programs for AR,
which leave out the words too (3D-pooled maps, standardised, PCA):

- the layer sees the 36 pooled maps of the whole image, standardised, in 300 principal directions;
- a neuron's column of the decoder D goes back through PCA and the standardisation to 36 maps of weights;
- each filter gets the mean of its pairs' weights, at the image's size; only positive ones are kept: what
  the neuron wants to see, not what it wants to miss;
- transposed convolution turns them into pixels. Responses are rectified, so a weight does not say
  whether a line is bright or dark: that is taken from the image to which the neuron responds most.

With the signs come that image's outlines: they show through even where weights are equal. The last row,
the positive weights summed over the maps, is free of them.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from midfea import datasets, stages
from midfea.estimators.neuron_selectivity import NeuronSelectivity, responses_order
from midfea.progress import track
from midfea.provenance import write_rows
from midfea.view.style import COLOURS, new_figure, save, show

N_DIRECTIONS = 300
SAMPLE_LENGTH = 16.0  # in the layer: longer samples use more of the sigmoid's range, which can be seen
YEARS = 10  # of one class of ages
FACES_SHOWN = 10
Stack = NDArray[Any]  # images or pictures, (n, height, width)


class Neurons:
    """Filters, PCA and a neuron-selectivity layer on whole maps, and the way back to pixels.

    Learned from images of one size.
    """

    def __init__(self, images: Stack, labels: NDArray[Any], n_neurons: int, seed: int) -> None:
        self.filters = stages.learn_filters(list(images), random_state=seed)
        maps = _pooled_maps(images, self.filters)
        self.mean, self.spread = maps.mean(axis=0), maps.std(axis=0)
        self.spread[self.spread < 1e-6] = 1
        maps -= self.mean
        maps /= self.spread
        n_directions = min(N_DIRECTIONS, len(images) - 1)
        self.pca = PCA(n_directions, svd_solver="randomized", random_state=seed)
        reduced = self.pca.fit_transform(maps)
        self.layer = NeuronSelectivity(n_neurons, length=SAMPLE_LENGTH, random_state=seed)
        self.layer.fit(reduced, labels)
        height, width = ((side + 1) // 2 for side in images.shape[1:])
        self.shape = height, width, -1  # of an image's pooled maps

    def responses(self, images: Stack) -> NDArray[np.float32]:
        """Activations, (n_images, n_neurons)."""
        reduced = self.pca.transform((_pooled_maps(images, self.filters) - self.mean) / self.spread)
        return np.asarray(self.layer.transform(reduced))

    def weights(self, neuron: int) -> NDArray[Any]:
        """What the decoder adds to the pooled maps where this neuron fires; positive part only."""
        change = self.layer.D_[:, neuron] @ self.pca.components_ * self.spread
        return np.maximum(change, 0).reshape(self.shape)

    def picture(self, neuron: int, image: NDArray[Any]) -> NDArray[Any]:
        """The neuron in pixels, bright and dark as in this image."""
        n_filters = len(self.filters)
        pairs = np.array(list(itertools.combinations(range(n_filters), 2)))
        weights = self.weights(neuron)
        single = np.stack(
            [weights[:, :, (pairs == f).any(axis=1)].mean(axis=2) for f in range(n_filters)], axis=2
        )
        height, width = image.shape
        full = single.repeat(2, axis=0).repeat(2, axis=1)[:height, :width]
        signs = np.sign(stages.convolve(image, self.filters, "same"))
        return _transposed_convolution(full * signs, self.filters)


def _pooled_maps(images: Stack, filters: NDArray[Any]) -> NDArray[np.float32]:
    work = track(images, "maps", len(images))
    maps = [stages.max_pool_3d(stages.soft_convolution(image, filters, "same")) for image in work]
    return np.stack(maps).reshape(len(images), -1)


def _transposed_convolution(maps: NDArray[Any], filters: NDArray[Any]) -> NDArray[Any]:
    """Each value of the maps paints its filter there; what falls over the border is cut off."""
    height, width, _ = maps.shape
    size = filters.shape[1]
    picture = np.zeros((height + size - 1, width + size - 1), dtype=np.float32)
    for y, x in itertools.product(range(size), repeat=2):
        picture[y : y + height, x : x + width] += maps @ filters[:, y, x]
    margin = (size - 1) // 2
    return picture[margin : margin + height, margin : margin + width]


def neurons(data: Path, output: Path, seed: int) -> list[Path]:
    kinds = (faces, gender, ages)
    return [path for kind in track(kinds, "neurons", len(kinds)) for path in kind(data, output, seed)]


def faces(data: Path, output: Path, seed: int) -> list[Path]:
    """One neuron for each person (as in the authors' programs); a selection is shown."""
    ar = datasets.load_ar(data)
    images, first = np.stack(ar.images), ar.session == 1
    people = np.unique(ar.person)
    neurons = Neurons(images[first], ar.person[first], len(people), seed)
    later = neurons.responses(images[~first])
    serves = neurons.layer.class_responses_.argmax(axis=1)
    shown = [int(np.flatnonzero(serves == i)[0]) for i in range(len(people)) if (serves == i).any()]
    shown = shown[:: max(1, len(shown) // FACES_SHOWN)][:FACES_SHOWN]
    titles = []
    for neuron in shown:
        own = ar.person[~first] == people[serves[neuron]]
        means = later[own, neuron].mean(), later[~own, neuron].mean()
        titles.append(f"{people[serves[neuron]]}\nown {means[0]:.2f}\nothers {means[1]:.2f}")
    note = "mean responses in session 2"
    return save(draw(neurons, images[first], shown, titles, note), output, "neurons-faces")


def gender(data: Path, output: Path, seed: int) -> list[Path]:
    """The paper's 10 neurons, learned from the first 25 men and women."""
    ar = datasets.load_ar(data)
    images = np.stack(ar.images)
    first = np.array([int(person[2:]) <= 25 for person in ar.person])
    neurons = Neurons(images[first], ar.sex[first], 10, seed)
    others = neurons.responses(images[~first])
    shown = responses_order(neurons.layer).tolist()
    men = ar.sex[~first] == "man"
    means = [(others[men, n].mean(), others[~men, n].mean()) for n in shown]
    titles = [f"men {of_men:.2f}\nwomen {of_women:.2f}" for of_men, of_women in means]
    note = "mean responses to the other 50 people"
    return save(draw(neurons, images[first], shown, titles, note), output, "neurons-gender")


def ages(data: Path, output: Path, seed: int) -> list[Path]:
    """Two neurons for each ten years, learned from two people of three, measured on the third."""
    fgnet = datasets.load_fgnet(data, faces="aligned", size=60)
    images = np.stack(fgnet.images)
    decade = (fgnet.target // YEARS).astype(int)
    train = fgnet.groups % 3 != 0
    neurons = Neurons(images[train], decade[train], 2 * len(np.unique(decade)), seed)
    serves = neurons.layer.class_responses_.argmax(axis=1)
    order = responses_order(neurons.layer)
    shown = [int(order[serves[order] == d][0]) for d in np.unique(serves)]  # the most responsive
    titles = [f"{YEARS * d} to {YEARS * d + YEARS - 1} years" for d in serves[shown]]
    responses = neurons.responses(images[~train])[:, shown]
    tested = np.unique(decade[~train])
    means = np.stack([responses[decade[~train] == d].mean(axis=0) for d in tested])
    rows = [
        {"neuron of": title, "ages": f"{YEARS * d}-{YEARS * d + YEARS - 1}",
         "n": int((decade[~train] == d).sum()), "mean response": round(float(mean), 4)}
        for title, column in zip(titles, means.T, strict=True)
        for d, mean in zip(tested, column, strict=True)
    ]  # fmt: skip
    figure = draw(neurons, images[train], shown, titles, "", curves=(YEARS * tested + YEARS / 2, means))
    write_rows(rows, output / "neurons-ages.json", [seed])
    return [*save(figure, output, "neurons-ages"), output / "neurons-ages.json"]


def draw(
    neurons: Neurons,
    images: Stack,
    shown: list[int],
    titles: list[str],
    note: str,
    *,
    curves: tuple[NDArray[Any], NDArray[Any]] | None = None,
) -> Figure:
    """For each neuron the image it responds to most, its picture, and where its weights lie.

    `curves`: ages and (n_ages, n_shown) mean responses, drawn below.
    """
    responses = neurons.responses(images)
    aspect = images.shape[1] / images.shape[2]
    width = 1.35 * len(shown) + 0.9
    heights = [3 * 1.35 * aspect + 1.0] + [2.8] * (curves is not None)
    figure = new_figure(width, sum(heights))
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    grid = parts[0].subplots(3, len(shown), squeeze=False)
    for column, (neuron, title) in enumerate(zip(shown, titles, strict=True)):
        example = images[responses[:, neuron].argmax()]
        picture = neurons.picture(neuron, example)
        strongest = float(np.abs(picture).max())
        show(grid[0, column], example, title, vmin=0, vmax=255)
        show(grid[1, column], picture, vmin=-strongest, vmax=strongest)
        show(grid[2, column], neurons.weights(neuron).sum(axis=2), cmap="magma", vmin=0)
    for axes, label in zip(grid[:, 0], ("image", "neuron", "weights"), strict=True):
        axes.text(-0.08, 0.5, label, rotation=90, va="center", ha="right", transform=axes.transAxes)
    if note:
        figure.supxlabel(note, fontsize=9)
    if curves:
        _draw_responses(parts[1].subplots(), *curves, titles)
    return figure


def _draw_responses(axes: Axes, ages: NDArray[Any], means: NDArray[Any], titles: list[str]) -> None:
    for colour, title, mean in zip(COLOURS, titles, means.T, strict=False):
        axes.plot(ages, mean, marker="o", markersize=4, color=colour, label=title)
    axes.set(xlabel="age of people not seen in training (years)", ylabel="mean response")
    axes.set_ylim(bottom=0)
    axes.legend(title="neuron of", frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
