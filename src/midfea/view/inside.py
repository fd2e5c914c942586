"""What a model has learned: its filters, and which neurons respond to which class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.mosaic import data_uri, mosaic
from midfea.view.colours import hues, rgb
from midfea.view.confusion import class_columns
from midfea.view.markup import image, shade, text

MAX_NEURONS = 40  # rows of the table
COLUMNS = 9  # filters in a row


def filters(tiles: NDArray[Any]) -> str:
    """The filters (n, size, size), each framed in the hue that it has in the stage maps."""
    n, size = tiles.shape[:2]
    limit = float(np.abs(tiles).max())
    grey = (255 * (tiles + limit) / (2 * max(limit, 1e-12))).astype(np.uint8)
    framed = np.full((n, size + 2, size + 2, 4), 255, dtype=np.uint8)
    framed[..., :3] = rgb(hues(np.arange(n)), 0.5, 0.86)[:, None, None]
    framed[:, 1:-1, 1:-1, :3] = grey[..., None]
    drawn = mosaic(framed, min(n, COLUMNS), line_value=0)  # transparent, for dark pages
    return (
        f"<p>{n} filters of {size}×{size} pixels, learned from the images without their labels.</p>"
        f'<div class="filters">{image(data_uri(drawn), f"{n} filters")}</div>'
    )


def neurons(class_responses: NDArray[Any], classes: NDArray[Any]) -> str:
    """Mean activations (n_neurons, n_classes): a row for each neuron, a column for each class."""
    means = np.asarray(class_responses)
    strongest = means.max(axis=1)
    gap = strongest - np.partition(means, -2, axis=1)[:, -2] if means.shape[1] > 1 else strongest
    listed = np.sort(np.argsort(-gap, kind="stable")[:MAX_NEURONS])
    listed = listed[np.argsort(means[listed].argmax(axis=1), kind="stable")]
    top = max(float(means.max()), 1e-12)
    rows = []
    for neuron in listed:
        cells = "".join(
            f'<td class="level {shade(value / top)}">{value:.2f}</td>' for value in means[neuron]
        )
        rows.append(f'<tr><th scope="row">{neuron + 1}</th>{cells}</tr>')
    rest = f" The {MAX_NEURONS} most selective of {len(means)} are listed." * (len(means) > MAX_NEURONS)
    return (
        "<p>Mean activation (0 to 1) of each neuron of the neuron-selectivity layer for the training "
        f"images of each class. A neuron that responds to one class alone is selective.{rest}</p>"
        + class_columns("Neurons and classes", "neuron", [text(name) for name in classes], rows)
    )
