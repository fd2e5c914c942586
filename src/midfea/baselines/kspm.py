"""`KSPM`: spatial pyramid matching, histograms of words and an SVM with the intersection kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.svm import SVC

from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.linear_svm import N_FOLDS
from midfea.baselines.pyramid import Encoding
from midfea.baselines.pyramid_classifier import PyramidClassifier
from midfea.estimators.documented import documented
from midfea.learning.folds import Indices, make_folds, splits
from midfea.learning.head import Features, count_correct, two_columns
from midfea.learning.svm import class_signs
from midfea.parallel import in_parallel, n_threads
from midfea.progress import track

BLOCK = 16  # samples compared at once: they stay in the cache
FAST = {"contract", "nsz", "nnan", "reassoc"}  # sums may be reordered


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class KSPM(PyramidClassifier):
    """Spatial pyramid matching: what two images share of each visual word, in 1, 4 and 16 cells.

    Each SIFT descriptor counts for its nearest word. The kernel of two images is the sum over levels
    of the minima of their histograms, times 1/4, 1/4 and 1/2; an image with itself has 1.

    References
    ----------
    S. Lazebnik, C. Schmid, J. Ponce, "Beyond Bags of Features: Spatial Pyramid Matching for Recognizing
    Natural Scene Categories", CVPR 2006.

    Examples
    --------
    >>> from midfea.baselines.kspm import KSPM
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=4, size=48, random_state=0)
    >>> model = KSPM(n_words=20, C=10.0, random_state=0).fit(data.images, data.target)
    >>> model.predict(data.images[:2]).shape
    (2,)
    """

    n_words: int = 200
    step: int = 8
    patch_sizes: tuple[int, ...] = (16,)

    encoding: ClassVar[Encoding] = "hard"

    def _fit_svm(
        self, features: Features, y: Indices, seed: int, groups: Any, deadline: Deadline
    ) -> IntersectionSvm:
        check_memory(12 * len(features) ** 2, self.memory_limit, "the kernel")  # as float32 and float64
        folds = make_folds(y, N_FOLDS, seed, groups)
        return fit_intersection_svm(
            features, y, self._candidates, folds, n_threads(self.n_jobs), deadline
        )


@dataclass(frozen=True, eq=False)
class IntersectionSvm:
    """Fitted: histograms to class numbers.

    Attributes
    ----------
    samples : (n, p), histograms of the support vectors of all classes
    coef : (n, n_classes), what each counts for each class; one column for two classes, for the second
    intercept : (n_classes,) or (1,)
    C : penalty of errors
    threads : for the kernel
    """

    samples: Features
    coef: NDArray[np.float32]
    intercept: NDArray[np.float32]
    C: float
    threads: int

    def scores(self, features: Features) -> NDArray[np.float32]:
        """Decision values (n, n_classes)."""
        kernel = intersection_kernel(features, self.samples, self.threads)
        return two_columns(kernel @ self.coef + self.intercept)


def fit_intersection_svm(
    features: Features,
    y: Indices,
    candidates: Sequence[float],
    folds: Indices,
    threads: int,
    deadline: Deadline,
) -> IntersectionSvm:
    """One SVM for each class against the rest; the C with the most correct in validation."""
    kernel = intersection_kernel(features, features, threads)
    C = candidates[0]
    if len(candidates) > 1:
        n_correct = [_count_held_out(kernel, y, each, folds, threads, deadline) for each in candidates]
        C = candidates[int(np.argmax(n_correct))]
    coef, intercept = _one_vs_rest(kernel, y, C, threads, deadline)
    used = np.flatnonzero(coef.any(axis=1))
    return IntersectionSvm(features[used], coef[used], intercept, C, threads)


def _count_held_out(
    kernel: Features, y: Indices, C: float, folds: Indices, threads: int, deadline: Deadline
) -> float:
    """Correct predictions for samples of the folds, by SVMs trained without theirs."""
    scores = np.full((len(y), int(y.max()) + 1), np.nan, dtype=np.float32)
    for train, test in splits(folds):
        coef, intercept = _one_vs_rest(kernel[np.ix_(train, train)], y[train], C, threads, deadline)
        scores[test] = two_columns(kernel[np.ix_(test, train)] @ coef + intercept)
    return count_correct(scores, y)


def _one_vs_rest(
    kernel: Features, y: Indices, C: float, threads: int, deadline: Deadline
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Coefficients (n, n_classes) and intercepts of machines on a kernel (n, n)."""
    signs = class_signs(y)
    exact = kernel.astype(np.float64)  # libsvm's type: converted once, and not for each class
    coef = np.zeros(signs.shape, dtype=np.float32)
    intercept = np.zeros(signs.shape[1], dtype=np.float32)

    def machine(k: int) -> SVC:
        deadline.check()
        return SVC(C=C, kernel="precomputed").fit(exact, signs[:, k])

    work = in_parallel(machine, range(len(intercept)), threads)
    for k, svc in enumerate(track(work, "classifier", len(intercept))):
        coef[svc.support_, k] = svc.dual_coef_[0]
        intercept[k] = svc.intercept_[0]
    return coef, intercept


def intersection_kernel(a: Features, b: Features, threads: int = 1) -> Features:
    """Sums of the minima of the rows of a (n, p) and b (m, p): (n, m).

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.baselines.kspm import intersection_kernel
    >>> a = np.array([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5]])
    >>> intersection_kernel(a, a).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    a, b = (np.ascontiguousarray(each, dtype=np.float32) for each in (a, b))
    kernel = np.empty((len(a), len(b)), dtype=np.float32)
    parts = [slice(start, start + BLOCK) for start in range(0, len(a), BLOCK)]
    for _ in in_parallel(
        lambda i: _intersect(a[parts[i]], b, kernel[parts[i]]), range(len(parts)), threads
    ):
        pass
    return kernel


@njit(cache=True, nogil=True, fastmath=FAST)
def _intersect(a, b, kernel):  # type: ignore[no-untyped-def]
    for j in range(len(b)):
        other = b[j]
        for i in range(len(a)):
            own, total = a[i], np.float32(0)
            for k in range(len(own)):
                total += min(own[k], other[k])
            kernel[i, j] = total
