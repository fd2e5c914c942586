"""Self-taught learning: bases from unlabelled samples, sparse codes of the labelled ones over them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from midfea.baselines.dictionary import learn_dictionary
from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.linear_svm import fit_svm
from midfea.baselines.sparse import lasso_codes
from midfea.learning.head import C_CANDIDATES
from midfea.parallel import linear_algebra_threads, n_threads

Floats = NDArray[np.float64]
FLOAT_TYPES = (np.float64, np.float32)
BYTES = 8  # of a number


def learn_bases(
    unlabelled: Floats,
    n_bases: int,
    penalty: float,
    random_state: np.random.RandomState,
    *,
    max_rounds: int = 20,
    n_threads: int = 1,
    deadline: Deadline | None = None,
) -> Floats:
    """Bases (n_bases, p) of length 1 at most, from samples (n, p); random ones of length 1 for n = 0."""
    if len(unlabelled):
        return learn_dictionary(
            unlabelled,
            n_bases,
            penalty,
            max_iter=max_rounds,
            random_state=random_state,
            n_threads=n_threads,
            deadline=deadline,
        )[0]
    bases = random_state.normal(size=(n_bases, unlabelled.shape[1]))
    return np.asarray(bases / np.linalg.norm(bases, axis=1, keepdims=True))


def sparse_codes(samples: Floats, bases: Floats, penalty: float, n_threads: int = 1) -> Floats:
    """Codes (n, n_bases): of each sample x the a with the least |x - B a|^2 / 2 + penalty |a|_1."""
    with linear_algebra_threads(1):  # the same sums on any number of cores
        gram, correlations = bases @ bases.T, samples @ bases.T
    return lasso_codes(gram, correlations, penalty, n_threads=n_threads)


@dataclass(eq=False, repr=False)
class SelfTaught(ClassNamePrefixFeaturesOutMixin, ClassifierMixin, TransformerMixin, BaseEstimator):
    """Self-taught learning: sparse codes over bases from unlabelled samples, and a linear SVM on them.

    The bases b and the codes a of the unlabelled samples x are found in turns: they minimise the sum of
    |x - B a|^2 / 2 + penalty |a|_1, bases having length 1 at most (eq. 1; the paper leaves out the half,
    its beta is twice this penalty). The codes of labelled and new samples, the bases being fixed, are
    the features (eq. 2).

    Parameters
    ----------
    n_bases : int, default=200
        Bases, and features of a sample.
    penalty : float, default=0.15
        Of the absolute values of a code, for samples of length 1: all samples are divided by `scale_`.
    learning_penalty : float or None, default=None
        Another penalty while the bases are learned; None: the same.
    max_rounds : int, default=20
        Most rounds of learning the bases.
    C : float or "auto", default="auto"
        Penalty of the SVM's errors; "auto" takes the best of 0.1, 1, 10 and 100 in validation. Codes are
        centred and scaled to a mean squared length of 1 for the SVM.
    n_jobs : int or None, default=None
        Threads over samples; None means all cores.
    random_state : int, RandomState or None, default=None
        Seed of the bases' start and of the folds of validation.
    memory_limit : int or None, default=None
        Bytes that samples, bases and codes may take; more raise MemoryError.
    time_limit : float or None, default=None
        Seconds for `fit`; more raise TimeoutError.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    bases_ : array (n_bases, n_features)
        The bases; without unlabelled samples a random matrix with rows of length 1.
    scale_ : float
        Root of the labelled samples' mean squared length.
    n_features_in_ : int
        Features of a sample as it comes.

    References
    ----------
    R. Raina, A. Battle, H. Lee, B. Packer, A. Y. Ng, "Self-taught Learning: Transfer Learning from
    Unlabeled Data", ICML 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from midfea.baselines.self_taught import SelfTaught
    >>> X, y = load_digits(return_X_y=True)
    >>> model = SelfTaught(n_bases=40, max_rounds=5, C=1.0, random_state=0)
    >>> model.fit(X[:100], y[:100], unlabelled=X[200:600]).transform(X[100:200]).shape
    (100, 40)
    >>> bool(model.score(X[100:200], y[100:200]) > 0.8)
    True
    """

    n_bases: int = 200
    penalty: float = 0.15
    learning_penalty: float | None = None
    _: KW_ONLY
    max_rounds: int = 20
    C: float | Literal["auto"] = "auto"
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    memory_limit: int | None = None
    time_limit: float | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bases": [Interval(Integral, 1, None, closed="left")],
        "penalty": [Interval(Real, 0, None, closed="neither")],
        "learning_penalty": [Interval(Real, 0, None, closed="neither"), None],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
        "C": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "memory_limit": [Interval(Integral, 0, None, closed="left"), None],
        "time_limit": [Interval(Real, 0, None, closed="left"), None],
    }

    def fit(self, X: Any, y: Any, groups: Any = None, unlabelled: Any = None) -> SelfTaught:
        """Learn bases from unlabelled samples, and the SVM from samples X (n, p) with labels y.

        Parameters
        ----------
        X : array (n, p)
            Such as `raw_pixels.RawPixels` of aligned images; without their mean and at length 1 if the
            light does not matter.
        y : array (n,)
        groups : array (n,) or None
            Samples of one group are not split between the folds of validation.
        unlabelled : array (m, p) or None
            Samples of the same kind, of any classes; None: the bases are random.
        """
        self._validate_params()
        X, y = validate_data(self, X, y, dtype=FLOAT_TYPES, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"two classes or more are needed, got 1 class ({y[0]!r})")
        unlabelled = self._checked_unlabelled(unlabelled, X)
        size = len(X) + len(unlabelled), self.n_bases
        check_memory(
            BYTES * (sum(size) * X.shape[1] + size[0] * size[1]), self.memory_limit, "SelfTaught"
        )
        deadline = Deadline(self.time_limit, "SelfTaught")
        rng = check_random_state(self.random_state)
        self.scale_ = float(np.sqrt(np.square(X, dtype=np.float64).sum(axis=1).mean())) or 1.0
        self.bases_ = learn_bases(
            unlabelled / self.scale_,
            self.n_bases,
            self.penalty if self.learning_penalty is None else self.learning_penalty,
            rng,
            max_rounds=self.max_rounds,
            n_threads=n_threads(self.n_jobs),
            deadline=deadline,
        )
        codes = self._codes(X)
        deadline.check()
        candidates = C_CANDIDATES if self.C == "auto" else (float(self.C),)
        with linear_algebra_threads(1):
            self.svm_ = fit_svm(codes, numbers, int(rng.randint(2**31 - 1)), groups, candidates)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The codes (n, n_bases)."""
        check_is_fitted(self)
        return self._codes(validate_data(self, X, dtype=FLOAT_TYPES, reset=False))

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each sample."""
        codes = self.transform(X)
        with linear_algebra_threads(1):
            return np.asarray(self.classes_[self.svm_.predict(codes)])

    @property
    def _n_features_out(self) -> int:
        return len(self.bases_)

    def _codes(self, X: NDArray[Any]) -> NDArray[Any]:
        samples = np.asarray(X, dtype=np.float64) / self.scale_
        codes = sparse_codes(samples, self.bases_, self.penalty, n_threads(self.n_jobs))
        return codes.astype(X.dtype, copy=False)

    def _checked_unlabelled(self, unlabelled: Any, X: NDArray[Any]) -> Floats:
        if unlabelled is None:
            return np.empty((0, X.shape[1]))
        unlabelled = check_array(unlabelled, dtype=np.float64, input_name="unlabelled")
        if unlabelled.shape[1] != X.shape[1]:
            raise ValueError(
                f"unlabelled samples have {unlabelled.shape[1]} features, the labelled ones "
                f"{X.shape[1]}: give samples of the same kind"
            )
        return np.asarray(unlabelled)
