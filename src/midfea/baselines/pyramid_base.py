"""What the classes of coded SIFT descriptors share: their parameters, and that they take images."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from midfea.baselines.dense_sift import N_BINS
from midfea.baselines.local_features import grey_images
from midfea.estimators.takes_images import TakesImages
from midfea.pictures.resize import Grey

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")


@dataclass(eq=False, repr=False, kw_only=True)
class PyramidBase(TakesImages, BaseEstimator):
    """Parameters of every class.

    Parameters
    ----------
    n_words : words that descriptors are coded over, learned by k-means or as atoms of a dictionary;
        fewer if the images have fewer descriptors.
    patch_sizes : pixels on each side of the patches. One that does not fit into an image is left out
        there.
    step : pixels between neighbouring patches.
    max_side : larger images are reduced to so many pixels on the longer side.
    n_samples : the words are learned from about so many descriptors, drawn from all images.
    n_jobs : threads; None means all cores.
    random_state : seed; the same seed gives the same model.
    memory_limit : bytes that the samples, the features or the kernel may take; if one needs more there
        is a MemoryError.
    time_limit : seconds for `fit`, and for `transform` or `predict`; after them there is a TimeoutError.
    """

    n_words: int = 1024
    patch_sizes: tuple[int, ...] = (16,)
    step: int = 6
    max_side: int | None = 300
    n_samples: int = 100_000
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    memory_limit: int | None = None
    time_limit: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_words": [COUNT],
        "patch_sizes": [tuple, list],
        "step": [COUNT],
        "max_side": [COUNT, None],
        "n_samples": [COUNT],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "memory_limit": [COUNT, None],
        "time_limit": [POSITIVE, None],
    }

    def greys(self, images: Any) -> list[Grey]:
        """Grey pixels of images, reduced; ImageError if no patch fits into one."""
        return grey_images(images, self.max_side, min(self.patch_sizes))

    def check_parameters(self) -> None:
        """ValueError if one cannot be used."""
        self._validate_params()
        sizes = self.patch_sizes
        if not sizes or not all(isinstance(size, Integral) and size >= N_BINS for size in sizes):
            raise ValueError(f"patch_sizes must be whole numbers, {N_BINS} or more, got {sizes!r}")
