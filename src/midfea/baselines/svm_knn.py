"""SVM-KNN: for each new sample an SVM of its own, trained on the nearest training samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import cosine_distances, euclidean_distances
from sklearn.svm import SVC
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from midfea.baselines.limits import Deadline, check_memory
from midfea.learning.folds import Indices
from midfea.parallel import in_parallel, linear_algebra_threads, n_threads
from midfea.progress import track

Floats = NDArray[np.float64]
SquaredDistances = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]  # (m, p), (n, p) -> (m, n)

FLOAT_TYPES = (np.float64, np.float32)
CANDIDATES = (1, 3, 10, 30, 100, 300)  # numbers of neighbours to choose from
MAX_VALIDATED = 300  # training samples on which the number of neighbours is chosen
BLOCK = 256  # new samples whose distances are held at a time
BYTES = 8  # of a distance


def chi2_distances(X: NDArray[Any], Y: NDArray[Any]) -> NDArray[Any]:
    """Sums of (x - y)^2 / (x + y) over values that are not negative: (m, p), (n, p) -> (m, n)."""
    kind = np.result_type(X, Y)
    X, Y = (np.require(values, kind, ["C", "W"]) for values in (X, Y))
    if min(X.min(), Y.min()) < 0:
        raise ValueError('metric="chi2" needs values that are not negative: choose another metric')
    return np.asarray(_chi2(X, Y, np.finfo(kind).tiny))


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "reassoc"}, error_model="numpy")
def _chi2(X, Y, tiny):  # type: ignore[no-untyped-def]
    distances = np.empty((len(X), len(Y)), dtype=X.dtype)
    for i in range(len(X)):
        for j in range(len(Y)):
            total = X.dtype.type(0)
            for d in range(X.shape[1]):
                difference = X[i, d] - Y[j, d]
                total += difference * difference / (X[i, d] + Y[j, d] + tiny)  # 0 where both are 0
            distances[i, j] = total
    return distances


METRICS: dict[str, SquaredDistances] = {
    "euclidean": lambda X, Y: euclidean_distances(X, Y, squared=True),
    "cosine": lambda X, Y: 2 * cosine_distances(X, Y),
    "chi2": chi2_distances,
}


@dataclass(eq=False, repr=False)
class SVMKNN(ClassifierMixin, BaseEstimator):
    """SVM-KNN: the K nearest training samples, and an SVM trained on these alone.

    If all neighbours of a sample have one class, that is the answer. Else an SVM is trained on them,
    with the kernel that their distances d define, the sample q itself being the origin:
    K(x, y) = (d(x, q)^2 + d(y, q)^2 - d(x, y)^2) / 2. Several classes are told apart in pairs, by votes.
    All distances between training samples are kept.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        Neighbours K. None: 1, 3, 10, 30, 100 and 300 are tried on 300 training samples, each with the
        others as its training set, and the number with the most correct answers is taken.
    metric : {"euclidean", "cosine", "chi2"} or callable, default="euclidean"
        "cosine" is the Euclidean distance of samples at unit length, the square of "chi2" is the sum of
        (x - y)^2 / (x + y) for values that are not negative. A callable takes two tables (m, p), (n, p)
        and returns squared distances (m, n); if their kernel is not positive semi-definite, the size of
        its lowest eigenvalue is added to the diagonal.
    C : float, default=10.0
        Penalty of errors, for squared distances divided by `scale_`.
    n_jobs : int or None, default=None
        Threads over samples; None means all cores.
    random_state : int, RandomState or None, default=None
        Seed of the choice of the samples for validation.
    memory_limit : int or None, default=None
        Bytes that the distances between training samples may take; more raise MemoryError.
    time_limit : float or None, default=None
        Seconds for `fit`, and for each later call; more raise TimeoutError.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    n_neighbors_ : int
        The neighbours used.
    scale_ : float
        Half of the mean squared distance between training samples.
    n_features_in_ : int
        Features of a sample.

    References
    ----------
    H. Zhang, A. C. Berg, M. Maire, J. Malik, "SVM-KNN: Discriminative Nearest Neighbor Classification
    for Visual Category Recognition", CVPR 2006. The shift of the diagonal: V. Roth, J. Laub,
    M. Kawanabe, J. M. Buhmann, "Optimal Cluster Preserving Embedding of Nonmetric Proximity Data",
    TPAMI 25(12), 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from midfea.baselines.svm_knn import SVMKNN
    >>> X, y = load_digits(return_X_y=True)
    >>> bool(SVMKNN(n_neighbors=10).fit(X[:400], y[:400]).score(X[400:500], y[400:500]) > 0.9)
    True
    """

    n_neighbors: int | None = None
    metric: str | SquaredDistances = "euclidean"
    C: float = 10.0
    _: KW_ONLY
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    memory_limit: int | None = None
    time_limit: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "metric": [StrOptions(set(METRICS)), callable],
        "C": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "memory_limit": [Interval(Integral, 0, None, closed="left"), None],
        "time_limit": [Interval(Real, 0, None, closed="left"), None],
    }

    def fit(self, X: Any, y: Any, groups: Any = None) -> SVMKNN:
        """Keep samples X (n, p) with labels y; samples of one group do not validate each other."""
        self._validate_params()
        deadline = Deadline(self.time_limit, "SVM-KNN")
        X, y = validate_data(self, X, y, dtype=FLOAT_TYPES)
        check_classification_targets(y)
        n = len(X)
        if self.n_neighbors is not None and self.n_neighbors > n:
            raise ValueError(f"n_neighbors={self.n_neighbors} of n_samples = {n}: choose a smaller one")
        self.classes_, self._numbers = np.unique(y, return_inverse=True)
        self._X = X
        check_memory(n * n * BYTES, self.memory_limit, "SVM-KNN")
        self._between = self._squared_distances(X, X)
        deadline.check()
        self.scale_ = float(self._between.mean() / 2) or 1.0
        if self.n_neighbors is None:
            some = check_random_state(self.random_state).permutation(n)[:MAX_VALIDATED]
            groups = np.arange(n) if groups is None else np.asarray(groups)
            distances = np.where(groups[some, None] == groups, np.inf, self._between[some])
            self.n_neighbors_ = self._choose_n_neighbors(distances, self._numbers[some], deadline)
        else:
            self.n_neighbors_ = self.n_neighbors
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each sample."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOAT_TYPES, reset=False)
        deadline = Deadline(self.time_limit, "SVM-KNN")
        found = []
        starts = range(0, len(X), BLOCK)
        for start in track(starts, "nearest neighbours", len(starts)):
            distances = self._squared_distances(X[start : start + BLOCK], self._X)
            found.append(self._answers(distances, self.n_neighbors_, deadline))
        return np.asarray(self.classes_[np.concatenate(found)])

    def _choose_n_neighbors(self, distances: Floats, y: Indices, deadline: Deadline) -> int:
        """The number with the most correct answers; the smallest of equally good ones."""
        possible = [k for k in CANDIDATES if k < len(self._X)] or [1]
        tried = track(possible, "number of neighbours", len(possible))
        return max(tried, key=lambda k: int((self._answers(distances, k, deadline) == y).sum()))

    def _answers(self, distances: Floats, k: int, deadline: Deadline) -> Indices:
        """Class numbers of samples, by their squared distances (m, n) from the training samples."""

        def answer(i: int) -> int:
            deadline.check()
            near = np.argsort(distances[i], kind="stable")[:k]
            near = near[np.isfinite(distances[i, near])]
            y = self._numbers[near]
            if not len(y):  # all training samples are of its group
                return -1
            if (y == y[0]).all():
                return int(y[0])
            between = self._between[np.ix_(near, near)]
            kernel = neighbour_kernel(distances[i, near], between) / self.scale_
            svm = SVC(C=self.C, kernel="precomputed").fit(kernel, y)
            return int(svm.predict(np.zeros((1, len(near))))[0])  # the origin is the sample itself

        work = in_parallel(answer, range(len(distances)), n_threads(self.n_jobs))
        return np.array(list(work), dtype=np.intp)

    def _squared_distances(self, X: NDArray[Any], Y: NDArray[Any]) -> Floats:
        metric = self.metric if callable(self.metric) else METRICS[self.metric]
        with linear_algebra_threads(1):  # the same sums on any number of cores
            return np.asarray(metric(X, Y), dtype=np.float64)


def neighbour_kernel(from_origin: Floats, between: Floats) -> Floats:
    """Inner products of samples by their squared distances (k,) from an origin and between each other.

    Positive semi-definite: if need be, the size of the lowest eigenvalue is added to the diagonal, which
    is as if all distances between two samples were larger.
    """
    kernel = (from_origin[:, None] + from_origin - (between + between.T) / 2) / 2
    lowest = float(np.linalg.eigvalsh(kernel)[0])
    kernel[np.diag_indices(len(kernel))] += max(0.0, -lowest)
    return kernel
