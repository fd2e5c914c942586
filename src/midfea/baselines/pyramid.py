"""`SpatialPyramid`: images to dense SIFT, codes over words, and their pool in the 1-2-4 pyramid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.coders import (
    N_CELLS,
    Coder,
    Floats,
    HardWords,
    LocalCodes,
    SparseCodes,
    finest_cells,
)
from midfea.baselines.dense_sift import N_VALUES, sift_at_sizes
from midfea.baselines.dictionary import learn_dictionary
from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.local_features import sample_descriptors
from midfea.baselines.pyramid_base import COUNT, POSITIVE, PyramidBase
from midfea.engines import Projection
from midfea.engines.cpu.search import WordIndex
from midfea.estimators.documented import documented
from midfea.learning.kmeans import kmeans
from midfea.parallel import in_parallel, linear_algebra_threads, n_threads
from midfea.pictures.resize import Grey
from midfea.progress import track
from midfea.stages import projection_matrix

Encoding = Literal["hard", "llc", "sparse"]
BYTES = 4  # of a float32
BYTES_OF_SAMPLE = 16  # for each value, with copies


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SpatialPyramid(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PyramidBase):
    """Dense SIFT descriptors of images, coded over learned words and pooled in 1, 4 and 16 cells.

    Parameters
    ----------
    encoding : "hard" counts the nearest words: histograms with sum 1, for the intersection kernel of
        KSPM. "llc" takes the maxima of locality-constrained linear codes, "sparse" those of the absolute
        lasso codes of ScSPM; both at unit length, for a linear SVM.
    threshold : of contrast, see `midfea.baselines.dense_sift.dense_sift`.
    n_rounds : most rounds of learning the words.
    n_neighbors : words of a descriptor ("llc").
    beta : regularization of the weights, relative to the trace of their system of equations ("llc").
    penalty : of the absolute values of a code ("sparse").
    n_candidates : only so many words, those that correlate most with a descriptor, may be in its code;
        None means all ("sparse"). The dictionary is always learned with all.
    n_components : project the pooled codes on so many random directions; None leaves them as they are.

    Attributes
    ----------
    words_ : float32 array (n_words, 128)
    coder_ : `midfea.baselines.coders.Coder`
    projection_ : `midfea.engines.Projection`, or None for histograms that are not projected: they keep
        the sum 1
    objective_ : float64 array, the mean of |x - B a|^2 / 2 + penalty |a|_1 in each round of learning the
        dictionary; None for words by k-means

    References
    ----------
    S. Lazebnik, C. Schmid, J. Ponce, "Beyond Bags of Features: Spatial Pyramid Matching for Recognizing
    Natural Scene Categories", CVPR 2006.

    Examples
    --------
    >>> from midfea.baselines.pyramid import SpatialPyramid
    >>> from midfea.datasets import load_surfaces
    >>> images = load_surfaces(n_per_class=2, size=48, random_state=0).images
    >>> SpatialPyramid(n_words=30, random_state=0).fit_transform(images).shape
    (12, 630)
    """

    encoding: Encoding = "llc"
    threshold: float = 1.0
    n_rounds: int = 50
    n_neighbors: int = 5
    beta: float = 1e-4
    penalty: float = 0.15
    n_candidates: int | None = 200
    n_components: int | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = PyramidBase._parameter_constraints | {
        "encoding": [StrOptions({"hard", "llc", "sparse"})],
        "threshold": [POSITIVE],
        "n_rounds": [COUNT],
        "n_neighbors": [COUNT],
        "beta": [Interval(Real, 0, None, closed="left")],
        "penalty": [POSITIVE],
        "n_candidates": [COUNT, None],
        "n_components": [COUNT, None],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features are float32, whatever the pixels
        return tags

    def fit(self, images: Any, y: Any = None) -> SpatialPyramid:
        """Learn the words from images (arrays or file names); `y` is ignored."""
        deadline = Deadline(self.time_limit, "SpatialPyramid")
        return self.learn(self.greys(images), deadline)

    def transform(self, images: Any) -> Floats:
        """Features of the images, (n, n_features) float32."""
        check_is_fitted(self, "coder_")
        deadline = Deadline(self.time_limit, "SpatialPyramid")
        return self.features(self.greys(images), deadline)

    def learn(self, greys: Sequence[Grey], deadline: Deadline) -> SpatialPyramid:
        """`fit` on grey images, white at 255, that are already reduced."""
        self.check_parameters()
        most = len(self.patch_sizes) * sum(grey.size for grey in greys) // self.step**2
        size = BYTES_OF_SAMPLE * N_VALUES * min(self.n_samples, most)
        check_memory(size, self.memory_limit, "learning words")
        rng = check_random_state(self.random_state)

        def describe(grey: Grey) -> Floats:
            deadline.check()
            return self.describe(grey)[0]

        samples = sample_descriptors(greys, describe, self.n_samples, rng)
        n_words = min(self.n_words, len(samples))
        self.coder_ = self._learn_coder(samples, n_words, rng, deadline)
        self.words_ = self.coder_.words
        self.projection_ = Projection() if self.encoding != "hard" else None
        if self.n_components is not None:
            n_codes = N_CELLS * n_words
            self.projection_ = Projection(projection_matrix(n_codes, self.n_components, "sparse", rng))
        return self

    def features(self, greys: Sequence[Grey], deadline: Deadline) -> Floats:
        """`transform` of grey images, white at 255, that are already reduced."""
        check_memory(BYTES * len(greys) * self._n_features_out, self.memory_limit, "features")
        features = np.empty((len(greys), self._n_features_out), dtype=np.float32)
        work = in_parallel(lambda i: self._feature(greys[i]), range(len(greys)), n_threads(self.n_jobs))
        for i, feature in enumerate(track(work, "features", len(greys))):
            deadline.check()
            features[i] = feature
        return features

    def describe(self, grey: Grey) -> tuple[Floats, Floats]:
        """SIFT descriptors (n, 128) of a grey image at all patch sizes, and their places (n, 2)."""
        return sift_at_sizes(grey, self.step, self.patch_sizes, self.threshold)

    def _feature(self, grey: Grey) -> Floats:
        descriptors, places = self.describe(grey)
        codes = self.coder_.codes(descriptors)
        pooled = self.coder_.pool(codes, finest_cells(places, grey.shape))
        return pooled if self.projection_ is None else self.projection_.apply(pooled[None])[0]

    def _learn_coder(
        self, samples: Floats, n_words: int, rng: np.random.RandomState, deadline: Deadline
    ) -> Coder:
        threads, self.objective_ = n_threads(self.n_jobs), None
        if self.encoding == "sparse":
            atoms, self.objective_ = learn_dictionary(
                samples,
                n_words,
                self.penalty,
                max_iter=self.n_rounds,
                random_state=rng,
                n_threads=threads,
                deadline=deadline,
            )
            return SparseCodes(atoms.astype(np.float32), self.penalty, self.n_candidates)

        def nearest(points: Floats, words: Floats) -> Any:
            deadline.check()
            index, parts = WordIndex(words), np.array_split(points, 4 * threads)
            found = in_parallel(lambda i: index.nearest(parts[i])[:, 0], range(len(parts)), threads)
            return np.concatenate(list(found))

        with linear_algebra_threads(1):  # the same words for any number of threads
            words = kmeans(
                samples,
                n_words,
                max_iter=self.n_rounds,
                random_state=rng,
                what="words",
                nearest=nearest,
            )
        if self.encoding == "hard":
            return HardWords(words)
        return LocalCodes(words, min(self.n_neighbors, n_words), self.beta)

    @property
    def _n_features_out(self) -> int:
        return self.n_components or N_CELLS * len(self.words_)
