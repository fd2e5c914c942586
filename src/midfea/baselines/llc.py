"""`LLC`: locality-constrained linear codes of SIFT descriptors and a linear SVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from midfea.baselines.pyramid import Encoding
from midfea.baselines.pyramid_classifier import PyramidClassifier
from midfea.estimators.documented import documented


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class LLC(PyramidClassifier):
    """Locality-constrained linear coding: each descriptor by its nearest words, maxima in a pyramid.

    A code minimises |x - B^T c|^2 over the `n_neighbors` nearest words B, its sum being 1, in the form
    of the paper's fast approximation. Of each word the largest weight in each of 1 + 4 + 16 cells is
    kept, the features get unit length, and a linear SVM follows. The defaults are the paper's; its
    refinement of the k-means words by gradient steps is left out.

    Parameters
    ----------
    n_neighbors : words of a descriptor.
    beta : regularization of the weights, relative to the trace of their system of equations.
    n_components : project the features on so many random directions; None leaves them as they are.

    References
    ----------
    J. Wang, J. Yang, K. Yu, F. Lv, T. Huang, Y. Gong, "Locality-constrained Linear Coding for Image
    Classification", CVPR 2010.

    Examples
    --------
    >>> from midfea.baselines.llc import LLC
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=4, size=48, random_state=0)
    >>> LLC(n_words=30, random_state=0).fit(data.images, data.target).predict(data.images[:2]).shape
    (2,)
    """

    n_words: int = 2048
    step: int = 8
    patch_sizes: tuple[int, ...] = (16, 25, 31)
    n_neighbors: int = 5
    beta: float = 1e-4
    n_components: int | None = None

    encoding: ClassVar[Encoding] = "llc"
