"""`MidFea`: images to mid-level features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from midfea.estimators.base import MidFeaBase
from midfea.progress import progress_bars


@dataclass(eq=False, repr=False, kw_only=True)
class MidFea(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MidFeaBase):
    """Mid-level features, learned from images without labels (Section 2 of the paper).

    images -> soft convolution -> 3D max pooling -> descriptors -> codes -> pooled cells -> projection

    Parameters
    ----------
    preset : "paper" (the defaults), "fast" or "best": sets the parameters not given beside it.
    n_filters, filter_size : the low-level filters, 9 of 7x7 pixels.
    filter_method : "whitened" or "raw"; see `midfea.stages.learn_filters`.
    rectify, floor, padding : see `midfea.stages.soft_convolution`. `floor="auto"`: a classifier chooses
        0 or 0.5 by validation on the training images; without classes it is 0. Likewise
        `partition="auto"`, "overlapping pyramid" or (6, 6).
    pairs : pool every pair of maps (2x2x2 cuboids) or each map alone (2x2).
    window : side of the windows assembled into descriptors.
    scales : sizes at which each image is seen, relative to its own; one codebook serves all, and the
        cells keep the maximum. "auto": (1.0, 0.5) if half of the images have 128 pixels or more on their
        longer side, as they are seen (`max_side`), else (1.0,).
    n_words : size of the codebook. "auto": 4096, or 16384 if the images are small and validation of a
        classifier clearly favours it.
    encoding : "vq" (nearest word), "soft" (localised soft assignment) or "llc".
    n_neighbors, sharpness : words used by soft and LLC codes; how sharply soft codes prefer the nearest.
    partition : "pyramid" (1x1, 2x2 and 4x4 cells), "overlapping pyramid" (each of them reaches over its
        borders), (rows, columns), or {"size": pixels, "step": pixels} for overlapping cells, which need
        images of one size.
    pooling : "max" or "sum" in each cell.
    projection : "random" (sparse signs), "gaussian", "uniform" (the authors'), "pca" or None.
    n_components : dimensions after the projection; fewer if there are not so many before it.
    n_samples : descriptors from which the codebook is learned; patches, up to 50,000, for the filters.
    max_side : larger images are reduced so that their longer side has so many pixels (None: never).
    engine : "auto", "cpu", "torch" (for GPUs; extra `torch`) or "reference" (plain NumPy); same results
        up to rounding.
    device : where the torch engine works, such as "cuda:1"; None means CUDA if there is a device.
    precision : "exact", or "fast" for the torch engine on CUDA: VQ may take a word that is farther by
        a rounding error of float16, see `midfea.engines.torch.fused`.
    n_jobs : threads; None means all cores.
    random_state : seed; the same seed gives the same features.
    verbose : show progress bars.

    Attributes
    ----------
    filters_ : (n_filters, filter_size, filter_size)
    codebook_ : (n_words, d)
    settings_ : dict, the parameters at the time of fitting, with the values that "auto" stands for
    extractor_ : the fitted `midfea.learning.extractor.FeatureExtractor`
    projection_ : `midfea.engines.Projection`, its `matrix` (n_codes, n_components) and `mean` or None

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
