"""Random numbers from a seed."""

from __future__ import annotations

import numpy as np

Seed = int | np.random.RandomState | None


def generator(seed: Seed) -> np.random.RandomState:
    """A generator made from the seed, or the one handed in: its stream then goes on.

    `RandomState`, whose streams NumPy has frozen: the same seed gives the same model for years.
    """
    return seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed)
