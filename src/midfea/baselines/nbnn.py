"""NBNN: images are compared with classes, not with images, and no descriptor is replaced by a word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.dense_sift import sift_at_sizes
from midfea.baselines.labels import PredictsByScores, class_numbers
from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.local_features import grey_images
from midfea.engines.cpu.nearest_square import nearest_squares
from midfea.estimators.takes_images import TakesImages
from midfea.parallel import in_parallel, n_threads
from midfea.pictures.resize import Grey
from midfea.progress import track

Bytes = NDArray[np.uint8]
BYTE = 255  # the largest


@dataclass(eq=False, repr=False)
class NBNN(TakesImages, PredictsByScores, BaseEstimator):
    """Naive-Bayes nearest neighbour: the class whose training descriptors are nearest to an image's.

    For each descriptor of an image and each class, the squared distance to the nearest descriptor of
    all training images of that class; the distances are summed over the image, and the class with the
    smallest sum is the answer. Nothing is learned, the descriptors are kept.

    Dense SIFT descriptors of length 1 at most, and their places from 0 to 1, times the weight, are kept
    as bytes: in steps of max(1, position_weight) / 255. Distances between these are exact.

    Parameters
    ----------
    step : int, default=6
        Pixels between neighbouring descriptors.
    patch_sizes : tuple of int, default=(16,)
        Pixels across a descriptor; one that does not fit into an image is left out there. The paper
        takes several; n sizes take n^2 times as long.
    position_weight : float, default=2.0
        Factor of the place in the image, which is appended to each descriptor (alpha in the paper); 0
        leaves the place out. The paper chooses it by validation, as `GridSearchCV` can. Bytes hold
        places and descriptors: with a large weight descriptors are coarse (1 % off at 1, 6 % at 5).
    max_side : int or None, default=150
        Images are reduced so that the longer side has at most so many pixels; None: as they are.
    n_jobs : int or None, default=None
        Threads over images; None means all cores.
    memory_limit : int or None, default=None
        Bytes that the training descriptors may take; more raise MemoryError.
    time_limit : float or None, default=None
        Seconds for `fit`, and for each later call; more raise TimeoutError.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    descriptors_ : list of uint8 arrays (n_descriptors, 130)
        Of each class: 128 values of SIFT, row and column.

    References
    ----------
    O. Boiman, E. Shechtman, M. Irani, "In Defense of Nearest-Neighbor Based Image Classification",
    CVPR 2008.

    Examples
    --------
    >>> from midfea.baselines.nbnn import NBNN
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=3, size=48)
    >>> model = NBNN(n_jobs=1).fit(data.images, data.target)
    >>> model.score(data.images, data.target)  # each training image is at distance 0 from its class
    1.0
    """

    step: int = 6
    patch_sizes: Sequence[int] = (16,)
    position_weight: float = 2.0
    max_side: int | None = 150
    _: KW_ONLY
    n_jobs: int | None = None
    memory_limit: int | None = None
    time_limit: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "step": [Interval(Integral, 1, None, closed="left")],
        "patch_sizes": [tuple, list],
        "position_weight": [Interval(Real, 0, BYTE, closed="both")],
        "max_side": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "memory_limit": [Interval(Integral, 0, None, closed="left"), None],
        "time_limit": [Interval(Real, 0, None, closed="left"), None],
    }

    def fit(self, images: Sequence[Any], y: Any) -> NBNN:
        """Keep the descriptors of images (as `MidFeaClassifier` takes them) with class labels y."""
        self._validate_params()
        if not len(self.patch_sizes):
            raise ValueError("patch_sizes is empty: give at least one size, such as (16,)")
        deadline = Deadline(self.time_limit, "NBNN")
        greys = grey_images(images, self.max_side, min(self.patch_sizes))
        self.classes_, numbers = class_numbers(y, greys)
        described = in_parallel(
            lambda i: self._describe(greys[i]), range(len(greys)), n_threads(self.n_jobs)
        )
        of_class: list[list[Bytes]] = [[] for _ in self.classes_]
        n_bytes = 0
        for number, descriptors in zip(numbers, track(described, "SIFT", len(greys)), strict=True):
            n_bytes += descriptors.nbytes
            check_memory(n_bytes, self.memory_limit, "NBNN")
            deadline.check()
            of_class[number].append(descriptors)
        self.descriptors_ = [np.concatenate(parts) for parts in of_class]
        return self

    def distances(self, images: Sequence[Any]) -> NDArray[np.float64]:
        """Of each image from each class (n, n_classes): squared distances, summed over descriptors."""
        check_is_fitted(self)
        deadline = Deadline(self.time_limit, "NBNN")
        greys = grey_images(images, self.max_side, min(self.patch_sizes))

        def of_image(i: int) -> list[int]:
            own, sums = self._describe(greys[i]), []
            for descriptors in self.descriptors_:
                deadline.check()
                sums.append(int(nearest_squares(own, descriptors).sum()))
            return sums

        work = in_parallel(of_image, range(len(greys)), n_threads(self.n_jobs))
        sums = np.array(list(track(work, "nearest descriptors", len(greys))), dtype=np.float64)
        return np.asarray(sums * self._byte_step() ** 2)

    def _scores(self, images: Sequence[Any]) -> NDArray[np.float64]:
        return -self.distances(images)

    def _describe(self, image: Grey) -> Bytes:
        """Descriptors and their places as bytes."""
        descriptors, places = sift_at_sizes(image, self.step, self.patch_sizes)
        places *= np.float32(self.position_weight) / np.array(image.shape, dtype=np.float32)
        return np.rint(np.hstack([descriptors, places]) / self._byte_step()).astype(np.uint8)

    def _byte_step(self) -> float:
        return max(1.0, self.position_weight) / BYTE
