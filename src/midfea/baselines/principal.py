"""`PrincipalComponents`: vectors reduced to the directions in which they vary most."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from midfea.learning.principal import principal_directions
from midfea.parallel import linear_algebra_threads


@dataclass(eq=False, repr=False)
class PrincipalComponents(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Principal components of vectors, at most as many as there are training samples or features.

    scikit-learn's `PCA` refuses fewer samples than components; here one number serves small and large
    sets.

    Parameters
    ----------
    n_components : int, default=3000
        Largest number of components.

    Attributes
    ----------
    mean_ : array (n_features,)
    components_ : array (n, n_features)
        Directions of unit length, that of the largest variance first.

    Examples
    --------
    >>> import numpy as np
    >>> from midfea.baselines.principal import PrincipalComponents
    >>> PrincipalComponents(n_components=300).fit_transform(np.eye(5, 100)).shape
    (5, 5)
    """

    n_components: int = 3000

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
    }

    def fit(self, X: Any, y: Any = None) -> PrincipalComponents:
        """Find the directions of samples X (n_samples, n_features); `y` is ignored."""
        self._validate_params()
        X = validate_data(self, X, dtype=(np.float64, np.float32), ensure_min_samples=2)
        with linear_algebra_threads(1):  # the same sums on any number of cores
            mean, directions = principal_directions(X, min(self.n_components, *X.shape))
        self.mean_, self.components_ = mean.astype(X.dtype), directions.T.astype(X.dtype)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Components of samples: (n_samples, n)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        return np.asarray((X - self.mean_) @ self.components_.T)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
