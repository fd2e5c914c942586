"""`ScSPM`: sparse codes of SIFT descriptors and a linear SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from midfea.baselines.pyramid import Encoding
from midfea.baselines.pyramid_classifier import PyramidClassifier
from midfea.estimators.documented import documented


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class ScSPM(PyramidClassifier):
    """Sparse coding for spatial pyramid matching: lasso codes, largest absolute values in a pyramid.

    The dictionary and the codes of sampled descriptors are found in turns: they minimise
    |x - B a|^2 / 2 + penalty |a|_1, atoms having length 1 at most. Of each atom the largest absolute
    code in each of 1 + 4 + 16 cells is kept, the features get unit length, and a linear SVM follows.

    Parameters
    ----------
    penalty : of the absolute values of a code.
    n_candidates : the code of a descriptor of an image may use only so many atoms, those that correlate
        most with it; None means all. The dictionary is always learned with all.
    n_rounds : most rounds of learning the dictionary.

    References
    ----------
    J. Yang, K. Yu, Y. Gong, T. Huang, "Linear Spatial Pyramid Matching Using Sparse Coding for Image
    Classification", CVPR 2009. H. Lee, A. Battle, R. Raina, A. Y. Ng, "Efficient Sparse Coding
    Algorithms", NIPS 2006.

    Examples
    --------
    >>> from midfea.baselines.scspm import ScSPM
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=4, size=48, random_state=0)
    >>> model = ScSPM(n_words=30, n_rounds=3, random_state=0).fit(data.images, data.target)
    >>> model.predict(data.images[:2]).shape
    (2,)
    """

    n_words: int = 1024
    penalty: float = 0.15
    step: int = 6
    patch_sizes: tuple[int, ...] = (16,)
    n_candidates: int | None = 200
    n_rounds: int = 50
    n_samples: int = 200_000

    encoding: ClassVar[Encoding] = "sparse"
