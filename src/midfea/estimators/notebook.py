"""A fitted estimator in a notebook: facts and filters, below scikit-learn's own diagram of it."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from midfea.pictures.mosaic import data_uri, mosaic

SCREEN_PIXELS = 4  # for one pixel of a filter
MAX_FILTERS = 32


def summary(facts: Sequence[str], filters: NDArray[np.float32]) -> str:
    """HTML: facts in a line, filters (n, size, size) in a row."""
    drawn = filters[:MAX_FILTERS]
    limit = float(np.abs(drawn).max())
    row = mosaic(drawn, len(drawn), low=-limit, high=limit)
    return (
        f'<p>{html.escape(", ".join(facts))}</p><img alt="learned filters" src="{data_uri(row)}" '
        f'width="{SCREEN_PIXELS * row.shape[1]}" style="image-rendering: pixelated">'
    )
