"""`RandomFaces`: vectors seen through a random matrix."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data


@dataclass(eq=False, repr=False)
class RandomFaces(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Inner products with random vectors: zero-mean Gaussian, of unit length.

    Nothing is learned but the number of features: the matrix follows from it and the seed, so training
    and new samples must pass through one fitted object.

    Parameters
    ----------
    n_components : int, default=300
        Number of random vectors.
    random_state : int, RandomState or None, default=None
        Seed of the vectors.

    Attributes
    ----------
    components_ : array (n_components, n_features)
        The random vectors.

    References
    ----------
    Wright, Yang, Ganesh, Sastry and Ma, "Robust Face Recognition via Sparse Representation", TPAMI
    31(2), 2009.

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.baselines.random_faces import RandomFaces
    >>> RandomFaces(n_components=30, random_state=0).fit_transform(np.eye(5, 100)).shape
    (5, 30)
    """

    n_components: int = 300
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> RandomFaces:
        """Draw the vectors, as long as samples X (n_samples, n_features)."""
        self._validate_params()
        X = validate_data(self, X, dtype=(np.float64, np.float32))
        rows = check_random_state(self.random_state).standard_normal((self.n_components, X.shape[1]))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        self.components_ = rows.astype(X.dtype)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Inner products (n_samples, n_components)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return np.asarray(X @ self.components_.T.astype(X.dtype, copy=False))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
