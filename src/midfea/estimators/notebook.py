"""A fitted estimator in a notebook: facts and filters, below scikit-learn's own picture of it."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SCREEN_PIXELS = 4  # for one pixel of a filter
MAX_FILTERS = 32


def summary(facts: Sequence[str], filters: NDArray[np.float32]) -> str:
    """HTML: facts in a line, filters in a row."""
    filters = filters[:MAX_FILTERS]
    limit = float(np.abs(filters).max())
    framed = np.pad(filters, ((0, 0), (0, 0), (0, 1)), constant_values=limit)  # a line between two
    row = np.concatenate(list(framed), axis=1)
    row = np.kron(255 * (row + limit) / (2 * limit), np.ones((SCREEN_PIXELS, SCREEN_PIXELS)))
    file = io.BytesIO()
    Image.fromarray(row.astype(np.uint8)).save(file, "PNG")
    address = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return f'<p>{html.escape(", ".join(facts))}</p><img alt="learned filters" src="{address}">'
