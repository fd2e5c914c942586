"""`MidFea`: images to mid-level features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from midfea.estimators.base import MidFeaBase
from midfea.estimators.documented import documented
from midfea.progress import progress_bars


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class MidFea(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MidFeaBase):
    """Mid-level features, learned from images without labels (Section 2 of the paper).

    images -> soft convolution -> 3D max pooling -> descriptors -> codes -> pooled cells -> projection

    Examples
    --------
    >>> from midfea import MidFea
    >>> from midfea.datasets import load_surfaces
    >>> images = load_surfaces(n_per_class=2, random_state=0).images
    >>> MidFea(n_words=50, n_components=200, random_state=0).fit_transform(images).shape
    (12, 200)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features are float32, whatever the pixels
        return tags

    def fit(self, images: Any, y: Any = None) -> MidFea:
        """Learn filters, codebook and projection; `y` is ignored."""
        self._check_parameters()
        with progress_bars(self.verbose):
            self._learn_extractor(self._pictures(images))
        return self

    def transform(self, images: Any) -> NDArray[np.float32]:
        """Features of the images, (n, n_features) float32, rows of unit length."""
        return self.features(images)
