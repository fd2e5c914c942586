"""What a model looks for and what it sees: filters, stage maps, neurons."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.thumbnails import eight_bits
from midfea.progress import track
from midfea.report.answers import Answers
from midfea.view.markup import hues, in_colour, pixels, text

N_SAMPLES = 6  # images whose stage maps are shown
N_NEURONS = 40  # rows of the table at most


def filters(model: Any) -> str:
    """Those of the low level, each framed in the colour it has in the stage maps."""
    frames = hues(len(model.filters_))
    shown = "".join(
        f'<span class="filter" style="--hue:{360 * hue:.0f}">{pixels(f, f"filter {i + 1}")}</span>'
        for i, (f, hue) in enumerate(zip(model.filters_, frames, strict=True))
    )
    size = model.filters_.shape[1]
    return (
        f"<p>{len(model.filters_)} filters of {size}×{size} pixels, learned from the images without "
        f'their labels.</p><div class="filters">{shown}</div>'
    )


def stage_maps(model: Any, answers: Answers) -> str:
    """Images of different classes on their way through the stages."""
    chosen = samples(answers)
    rows = []
    for i in track(chosen, "stage maps", len(chosen)):
        maps = model.feature_maps(answers.images[i])
        name = text(answers.labels[i])
        figures = [
            (pixels(eight_bits(maps["image"]), f"{name}, grey"), name),
            (pixels(_strongest(maps["soft_convolution"]), "soft convolution"), "soft convolution"),
            (pixels(_strongest(maps["max_pool_3d"]), "3D max pooling"), "3D max pooling"),
            (pixels(_words(maps, len(model.codebook_)), "words"), "words"),
        ]
        cells = "".join(
            f"<figure>{image}<figcaption>{what}</figcaption></figure>" for image, what in figures
        )
        rows.append(f'<div class="stages">{cells}</div>')
    return (
        "<p>The image as the model takes it; where which filter answers (its colour is its frame's, the "
        "brighter the stronger); what is left after pooling; the word that stands for each place, one "
        f"colour for each of the {len(model.codebook_)} words.</p>"
        f'<div class="rows">{"".join(rows)}</div>'
    )


def samples(answers: Answers) -> list[int]:
    """A rightly told image of each of some classes, spread over all of them."""
    found = [np.flatnonzero(answers.right & (answers.shown == k)) for k in range(len(answers.classes))]
    firsts = [int(members[0]) for members in found if len(members)]
    spread = np.linspace(0, len(firsts) - 1, min(N_SAMPLES, len(firsts)))
    return [firsts[i] for i in spread.astype(int)]


def _strongest(maps: NDArray[Any]) -> NDArray[np.uint8]:
    return in_colour(maps.argmax(axis=-1), maps.max(axis=-1), maps.shape[-1])


def _words(maps: dict[str, NDArray[Any]], n_words: int) -> NDArray[np.uint8]:
    energy = np.linalg.norm(maps["descriptors"], axis=-1)
    return in_colour(maps["words"], energy, n_words)


def neurons(layer: Any, classes: NDArray[Any]) -> str:
    """Mean activations: a row for each neuron, a column for each class."""
    means = np.asarray(layer.class_responses_)
    most = means.max(axis=1)
    gap = most - np.partition(means, -2, axis=1)[:, -2] if means.shape[1] > 1 else most
    shown = np.sort(np.argsort(-gap, kind="stable")[:N_NEURONS])
    shown = shown[np.argsort(means[shown].argmax(axis=1), kind="stable")]
    head = "".join(f'<th scope="col"><span>{text(name)}</span></th>' for name in classes)
    top = max(float(means.max()), 1e-12)
    rows = []
    for neuron in shown:
        cells = "".join(
            f'<td class="level" style="--share:{max(value, 0) / top:.2f}">{value:.2f}</td>'
            for value in means[neuron]
        )
        rows.append(f'<tr><th scope="row">{neuron + 1}</th>{cells}</tr>')
    rest = (
        f" The {N_NEURONS} most selective of {len(means)} are shown." if len(means) > N_NEURONS else ""
    )
    return (
        "<p>How strongly each neuron of the neuron-selectivity layer fires for the training images of "
        f'each class, on average (0 to 1).{rest}</p><div class="scroll" tabindex="0" role="group" '
        'aria-label="Neurons and classes"><table class="matrix many neurons"><thead><tr>'
        f'<th class="corner">neuron</th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )
