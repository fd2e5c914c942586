"""`SRC`: a new sample as a sparse sum of training samples; the class that carries the sum wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.sparse import lasso_codes
from midfea.baselines.vectors import (
    COMMON_CONSTRAINTS,
    Floats,
    labelled_samples,
    new_samples,
)
from midfea.parallel import linear_algebra_threads, n_threads
from midfea.progress import track

BLOCK = 128  # samples coded between two looks at the clock


@dataclass(eq=False, repr=False)
class SRC(ClassifierMixin, BaseEstimator):
    """Sparse representation classifier: the class whose training samples leave the least residual.

    A sample y of unit length is coded over all training samples A, each of unit length,

        x = argmin |y - A x|^2 / 2 + penalty |x|_1,

    and belongs to the class i with the smallest |y - A delta_i(x)|, where delta_i keeps the
    coefficients of class i alone. If no class carries most of x, the sample may be none of them: see
    `concentration` and `reject`.

    Parameters
    ----------
    penalty : float, default=0.01
        Factor of |x|_1. It stands in the place of the paper's bound on |y - A x|.
    reject : float or None, default=None
        Samples whose concentration is below this value, 0 to 1, get `rejected_label`; None rejects none.
    rejected_label : str, int, float or None, default=None
        The answer for rejected samples; None means "" where labels are strings and -1 where they are
        numbers.
    tol : float, default=1e-6
        A code is accepted when no optimality condition is missed by more than tol * penalty.
    n_jobs : int or None, default=None
        Threads; None means all cores.
    memory_limit : int or None, default=None
        Bytes that `fit` may use, see MemoryError's message; None sets no limit.
    time_limit : float or None, default=None
        Seconds after which a prediction ends with TimeoutError; None sets no limit.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    dictionary_ : array (n_samples, n_features)
        The training samples at unit length, a sample in each row, those of a class together.
    starts_ : array (n_classes + 1,)
        Samples of class i are rows starts_[i] to starts_[i + 1] of the dictionary.
    gram_ : array (n_samples, n_samples)
        Inner products of the training samples.
    n_features_in_ : int
        Features of a sample.

    References
    ----------
    Wright, Yang, Ganesh, Sastry and Ma, "Robust Face Recognition via Sparse Representation", TPAMI
    31(2), 2009.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from midfea.baselines.src import SRC
    >>> X, y = load_digits(return_X_y=True)
    >>> SRC().fit(X[:300], y[:300]).score(X[300:500], y[300:500]) > 0.9
    True
    """

    penalty: float = 0.01
    _: KW_ONLY
    reject: float | None = None
    rejected_label: str | float | None = None
    tol: float = 1e-6
    n_jobs: int | None = None
    memory_limit: int | None = None
    time_limit: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "penalty": [Interval(Real, 0, None, closed="neither")],
        "reject": [Interval(Real, 0, 1, closed="both"), None],
        "rejected_label": [str, Real, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        **COMMON_CONSTRAINTS,
    }

    def fit(self, X: Any, y: Any) -> SRC:
        """Keep samples X (n_samples, n_features) with class labels y."""
        self._validate_params()
        X, self.classes_, numbers = labelled_samples(self, X, y)
        self._check_rejected_label()
        check_memory(X.itemsize * (2 * X.size + len(X) ** 2), self.memory_limit, "SRC")
        self.dictionary_ = X[np.argsort(numbers, kind="stable")]
        self.starts_ = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
        with linear_algebra_threads(n_threads(self.n_jobs)):
            self.gram_ = self.dictionary_ @ self.dictionary_.T
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each sample, or the rejected label."""
        check_is_fitted(self)
        found = [
            (residuals.argmin(axis=1), _concentration(self._class_sums(codes)))
            for codes, residuals in self._coded(X)
        ]
        numbers, concentration = (np.concatenate(parts) for parts in zip(*found, strict=True))
        labels = self.classes_[numbers]
        if self.reject is None:
            return np.asarray(labels)
        return np.where(concentration < self.reject, self._rejected(), labels)

    def residuals(self, X: Any) -> Floats:
        """What each class leaves of each sample at unit length, |y - A delta_i(x)|: (n, n_classes)."""
        check_is_fitted(self)
        return np.concatenate([residuals for _, residuals in self._coded(X)])

    def concentration(self, X: Any) -> Floats:
        """The paper's sparsity concentration index (SCI) of each sample.

        (k max_i |delta_i(x)|_1 / |x|_1 - 1) / (k - 1) for k classes: 1 if one class has all of the code,
        0 if it is spread evenly or is zero.
        """
        check_is_fitted(self)
        sums = [self._class_sums(codes) for codes, _ in self._coded(X)]
        return _concentration(np.concatenate(sums))

    def _coded(self, X: Any) -> Iterator[tuple[Floats, Floats]]:
        """Codes and residuals, block by block."""
        X = new_samples(self, X)
        deadline = Deadline(self.time_limit, "SRC")
        n = n_threads(self.n_jobs)
        starts = range(0, len(X), BLOCK)
        for start in track(starts, "SRC", len(starts)):
            block = X[start : start + BLOCK]
            with linear_algebra_threads(n):
                codes = lasso_codes(
                    self.gram_,
                    block @ self.dictionary_.T,
                    self.penalty,
                    tol=self.tol,
                    n_threads=n,
                    check=deadline.check,
                )
                residuals = [
                    np.linalg.norm(block - codes[:, own] @ self.dictionary_[own], axis=1)
                    for own in self._class_slices()
                ]
            deadline.check()
            yield codes, np.stack(residuals, axis=1)

    def _class_slices(self) -> list[slice]:
        return [slice(*ends) for ends in zip(self.starts_, self.starts_[1:], strict=False)]

    def _class_sums(self, codes: Floats) -> Floats:
        return np.add.reduceat(np.abs(codes), self.starts_[:-1], axis=1)

    def _rejected(self) -> Any:
        if self.rejected_label is not None:
            return self.rejected_label
        return "" if isinstance(self.classes_[0], str) else -1

    def _check_rejected_label(self) -> None:
        label = self._rejected()
        if self.reject is None:
            return
        if isinstance(label, str) != isinstance(self.classes_[0], str):
            raise ValueError(
                f"rejected_label={label!r} is of another type than the labels, such as "
                f"{self.classes_[0]!r}: make both strings, or both numbers"
            )
        if label in self.classes_.tolist():
            raise ValueError(
                f"rejected_label={label!r} is one of the classes: choose a label that no class has"
            )


def _concentration(sums: Floats) -> Floats:
    """Of the absolute sums of codes over each class, (n, n_classes)."""
    k = sums.shape[1]
    whole = sums.sum(axis=1)
    share = np.divide(sums.max(axis=1), whole, out=np.full(len(sums), 1 / k), where=whole > 0)
    return np.asarray((k * share - 1) / (k - 1))
