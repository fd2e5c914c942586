"""A fitted estimator in a notebook: facts and filters, below scikit-learn's own picture of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from midfea.view.markup import pixels, text

ENLARGED = 4  # pixels of the screen for one of a filter
N_FILTERS = 32  # shown at most


def summary(model: Any) -> str:
    """HTML of a fitted estimator: facts in a line, filters in a row."""
    facts = [f"{len(model.filters_)} filters", f"{len(model.codebook_)} words"]
    if hasattr(model, "classes_"):
        facts.append(f"{len(model.classes_)} classes")
    if hasattr(model, "held_out_predictions_"):  # not kept in model files
        facts.append(f"{len(model.held_out_predictions_)} training images")
    accuracy = getattr(model, "cv_accuracy_", np.nan)
    if np.isfinite(accuracy):
        facts.append(f"{accuracy:.1%} right when held out")
    shown = model.filters_[:N_FILTERS]
    limit = float(np.abs(shown).max())
    framed = np.pad(shown, ((0, 0), (0, 0), (0, 1)), constant_values=limit)  # a line between two
    row = np.concatenate(list(framed), axis=1)
    row = np.kron(255 * (row + limit) / (2 * limit), np.ones((ENLARGED, ENLARGED)))
    return f"<p>{text(', '.join(facts))}</p>{pixels(row.astype(np.uint8), 'learned filters')}"
