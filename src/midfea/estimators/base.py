"""What the three estimators share: the parameters, learning the chain, and running it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from midfea import stages
from midfea.arrays import to_numpy
from midfea.engines import Chain, Encoding, Engine, arrays_on, get_engine, min_side, takes_batches
from midfea.estimators.presets import check, preset_values, unchosen
from midfea.parallel import in_parallel, linear_algebra_threads
from midfea.pictures.images import Grey, ImageError, Images
from midfea.progress import progress_bars, track
from midfea.stages.filters import FilterMethod
from midfea.stages.low_level import Padding
from midfea.stages.pooling import Partition, Pooling, partition_levels

MAX_IMAGES = 1000  # filters and words are learned from at most so many images
MAX_PCA_IMAGES = 4000
LARGE = 128  # pixels of the longer side from which images are worth a second look at half their size
BATCH = 64  # images whose pooled codes are held at once before they are projected
READ = 8  # images read at once by a thread, for an engine that takes many

T = TypeVar("T")


@dataclass(eq=False, repr=False, kw_only=True)
class MidFeaBase(BaseEstimator):
    """Parameters and chain of Section 2. See `MidFea` for what the parameters mean."""

    preset: Literal["paper", "fast", "best"] | None = None
    n_filters: int = 9
    filter_size: int = 7
    filter_method: FilterMethod = "whitened"
    rectify: bool = True
    floor: float | Literal["cv"] = 0.0
    padding: Padding = "same"
    pairs: bool = True
    window: int = 2
    scales: tuple[float, ...] | Literal["auto"] = (1.0,)
    n_words: int | Literal["cv"] = 1000
    encoding: Encoding = "vq"
    n_neighbors: int = 5
    softness: float = 10.0
    partition: Partition | Literal["cv"] = "pyramid"
    pooling: Pooling = "max"
    projection: Literal["random", "gaussian", "uniform", "pca"] | None = "random"
    n_components: int = 3000
    n_samples: int = 100_000
    max_side: int | None = 150
    engine: Literal["auto", "reference", "cpu", "torch"] = "auto"
    device: str | None = None
    precision: Literal["exact", "fast"] = "exact"
    n_jobs: int | None = None
    random_state: int | None = None
    verbose: bool = False

    def __new__(cls, **given: Any) -> Any:
        """Remember which parameters were given, for `__post_init__`."""
        self = super().__new__(cls)
        if given:  # copies and pickles are made without
            self._given = given
        return self

    def __post_init__(self) -> None:
        """A preset sets its parameters; what is given in the same call wins."""
        given = self.__dict__.pop("_given", {})
        for name, value in preset_values(self.preset, self._defaults()).items():
            if name not in given:
                setattr(self, name, value)

    def set_params(self, **params: Any) -> Any:
        """Set parameters; with `preset`, also its parameters that are not given themselves."""
        bundle = preset_values(params.get("preset"), self._defaults())
        return super().set_params(**(bundle | params))

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {field.name: field.default for field in fields(cls)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags

    @property
    def min_side(self) -> int:
        """Pixels an image needs on its shorter side."""
        settings = getattr(self, "settings_", None) or self.get_params(deep=False)
        return min_side(settings["filter_size"], settings["window"], settings["padding"])

    def feature_maps(self, image: Any) -> dict[str, NDArray[Any]]:
        """The outputs of every stage for one image, by the plain stages.

        Returns
        -------
        maps : dict with "image" (grey), "convolution", "normalized", "thresholded",
            "soft_convolution", "max_pool_3d", "descriptors" (all: height, width, channel), "words"
            (the nearest word of each descriptor), "pooled" and "features".
        """
        check_is_fitted(self, "codebook_")
        chain = self._chain
        grey = self._grey(Images([image]), 0)
        responses = stages.convolve(grey, chain.filters, chain.padding)
        responses = np.abs(responses) if chain.rectify else responses
        flat = stages.flat_below(grey, responses, chain.floor)
        normalized = stages.normalize_maps(responses, flat)
        maps = stages.soft_convolution(
            grey, chain.filters, chain.padding, rectify=chain.rectify, floor=chain.floor
        )
        pooled_maps = stages.max_pool_3d(maps, chain.pairs)
        descriptors = stages.assemble_descriptors(pooled_maps, chain.window)
        pooled = get_engine("reference").pooled(grey, chain)
        return {
            "image": grey,
            "convolution": responses,
            "normalized": normalized,
            "thresholded": stages.threshold_maps(normalized),
            "soft_convolution": maps,
            "max_pool_3d": pooled_maps,
            "descriptors": descriptors,
            "words": stages.quantize(descriptors, chain.words()),
            "pooled": pooled,
            "features": self._project(pooled[None])[0],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one `.midfea` file; read it again with `midfea.load`."""
        from midfea.model_file.v1 import save_model

        check_is_fitted(self, "codebook_")
        save_model(self, path)

    def _html_repr(self) -> str:
        """For notebooks: scikit-learn's picture, and what a fitted estimator has learned."""
        page = str(super()._html_repr())
        if not hasattr(self, "codebook_"):
            return page
        from midfea.estimators.notebook import summary

        return page + summary(self)

    # -- learning ---------------------------------------------------------------------------------

    def _learn_chain(self, images: Images, chosen: dict[str, Any] | None = None) -> None:
        """Filters, codebook and projection, from the training images without their labels.

        chosen : what parameters that are "cv" come to; nothing can be chosen without labels
        """
        settings = self.get_params(deep=False)
        check(settings)
        self.settings_ = settings = settings | unchosen(settings) | (chosen or {})
        rng = check_random_state(self.random_state)
        some = _evenly(len(images), MAX_IMAGES, rng)
        greys = [self._checked_grey(images, i) for i in track(some, "reading", len(some))]
        if settings["scales"] == "auto":
            large = np.median([max(grey.shape) for grey in greys]) >= LARGE
            settings["scales"] = (1.0, 0.5) if large else (1.0,)
        self.filters_ = stages.learn_filters(
            greys,
            settings["n_filters"],
            settings["filter_size"],
            settings["filter_method"],
            n_patches=min(settings["n_samples"], 50_000),
            random_state=rng,
        )
        self.codebook_ = self._learn_codebook(greys, rng)
        self.n_cells_ = len(self._engine().pooled(greys[0], self._chain)) // len(self.codebook_)
        self._learn_projection(images, rng)

    def _learn_codebook(self, greys: list[Grey], rng: np.random.RandomState) -> NDArray[np.float32]:
        """k-means on descriptors from random places of the images, at every scale."""
        n_words, chain, engine = self.settings_["n_words"], self._chain, self._engine()
        each = -(-self.settings_["n_samples"] // len(greys))
        seeds = rng.randint(2**31 - 1, size=len(greys))

        def sample(i: int) -> NDArray[np.float32]:
            found = [
                engine.describe(copy, chain).reshape(-1, chain.n_components)
                for copy in chain.scaled(greys[i])
            ]
            descriptors = np.concatenate(found)
            if len(descriptors) <= each:
                return descriptors
            picked = np.random.RandomState(seeds[i]).choice(len(descriptors), each, replace=False)
            return descriptors[np.sort(picked)]

        n_threads = 1 if takes_batches(engine) else self._n_threads()  # a device takes no two at a time
        work = in_parallel(sample, range(len(greys)), n_threads)
        samples = np.concatenate(list(track(work, "describing", len(greys))))
        if len(samples) < n_words:
            raise ValueError(
                f"n_words={n_words} words cannot be learned from {len(samples)} descriptors: "
                "give more or larger images, or fewer words"
            )

        def nearest(points: NDArray[np.float32], words: NDArray[np.float32]) -> NDArray[np.int32]:
            search, parts = engine.search(words), np.array_split(points, 4 * self._n_threads())
            return np.concatenate(list(self._in_parallel(lambda i: search(parts[i]), range(len(parts)))))

        with linear_algebra_threads(self._n_threads()), arrays_on(self.engine, self.device) as put:
            return to_numpy(
                stages.kmeans(
                    put(samples),
                    n_words,
                    random_state=rng,
                    what="words",
                    nearest=None if self.engine == "torch" else nearest,
                )
            )

    def _learn_projection(self, images: Images, rng: np.random.RandomState) -> None:
        kind = self.settings_["projection"]
        n_features = self.n_cells_ * len(self.codebook_)
        n_components = min(self.settings_["n_components"], n_features)
        self.projection_: Any = None
        self.projection_mean_: Any = None
        if kind == "pca":
            chosen = _evenly(len(images), MAX_PCA_IMAGES, rng)
            codes = self._codes(images, chosen)
            n_components = min(n_components, *codes.shape)
            if self.engine == "torch":
                with arrays_on(self.engine, self.device) as put:
                    found = stages.principal_directions(put(codes), n_components)
                    mean, directions = (to_numpy(a).astype(np.float32) for a in found)
            else:
                from sklearn.decomposition import PCA  # not needed to predict

                with linear_algebra_threads(self._n_threads()):
                    pca = PCA(n_components, random_state=rng).fit(codes)
                mean, directions = pca.mean_, pca.components_.T
            self.projection_ = np.ascontiguousarray(directions)
            self.projection_mean_ = mean
        elif kind is not None and n_components < n_features:
            # With as many components as features there is nothing to gain, only noise.
            self.projection_ = stages.projection_matrix(
                n_features, n_components, "sparse" if kind == "random" else kind, rng
            )

    # -- running ----------------------------------------------------------------------------------

    def _engine(self) -> Engine:
        return get_engine(self.engine, self.device, self.precision)

    @property
    def _chain(self) -> Chain:
        settings = self.settings_
        return Chain(
            filters=self.filters_,
            codebook=getattr(self, "codebook_", None),
            **{
                name: settings[name]
                for name in ("rectify", "floor", "padding", "pairs", "window", "scales", "encoding",
                             "n_neighbors", "softness", "partition", "pooling")
            },
        )  # fmt: skip

    @property
    def _n_features_out(self) -> int:
        n_codes = self.n_cells_ * len(self.codebook_)
        return n_codes if self.projection_ is None else self.projection_.shape[1]

    def _features(self, images: Images) -> NDArray[np.float32]:
        """Mid-level features of the images, (n, n_features)."""
        engine = self._engine()
        if takes_batches(engine):
            greys = self._greys(images, range(len(images)), "features")
            settings = (self._chain, self.projection_, self.projection_mean_)
            return engine.features(greys, len(images), *settings)
        features = np.empty((len(images), self._n_features_out), dtype=np.float32)
        if self.projection_ is None or sp.issparse(self.projection_):
            work = self._in_parallel(
                lambda i: self._project(self._pooled(self._checked_grey(images, i))[None])[0],
                range(len(images)),
            )
            for i, row in enumerate(track(work, "features", len(images))):
                features[i] = row
            return features
        # A dense matrix is too large to be read for each image: many are projected at once.
        work = self._in_parallel(
            lambda i: self._pooled(self._checked_grey(images, i)), range(len(images))
        )
        work = track(work, "features", len(images))
        for start in range(0, len(images), BATCH):
            stop = min(start + BATCH, len(images))
            features[start:stop] = self._project(np.stack([next(work) for _ in range(start, stop)]))
        return features

    def _codes(self, images: Images, chosen: NDArray[np.intp]) -> NDArray[np.float32]:
        """Pooled codes of some images, for principal directions."""
        engine, what = self._engine(), "principal directions"
        if takes_batches(engine):
            return engine.pooled_many(list(self._greys(images, chosen, what)), self._chain)
        work = self._in_parallel(lambda i: self._pooled(self._checked_grey(images, i)), chosen)
        return np.stack(list(track(work, what, len(chosen))))

    def _greys(self, images: Images, chosen: Iterable[int], what: str) -> Iterator[Grey]:
        """Grey images for an engine that takes many: the next ones are read while it works."""
        chosen = list(chosen)

        def read(start: int) -> list[Grey]:
            return [self._checked_grey(images, i) for i in chosen[start : start + READ]]

        parts = self._in_parallel(read, range(0, len(chosen), READ))
        for part in track(parts, what, -(-len(chosen) // READ)):
            for grey in part:
                if not isinstance(self.settings_["partition"], str):
                    levels = partition_levels(self._chain.partition, self._chain.grid(grey.shape))
                    self._check_cells(grey, sum(len(rows) * len(columns) for rows, columns in levels))
                yield grey

    def _pooled(self, grey: Grey) -> NDArray[np.float32]:
        pooled = self._engine().pooled(grey, self._chain)
        self._check_cells(grey, len(pooled) // len(self.codebook_))
        return pooled

    def _check_cells(self, grey: Grey, n_cells: int) -> None:
        if n_cells != getattr(self, "n_cells_", n_cells):
            raise ImageError(
                f"an image of {grey.shape[0]}x{grey.shape[1]} pixels has {n_cells} cells where the "
                f"model has {self.n_cells_}: cells of a fixed size need images of one size"
            )

    def _project(self, pooled: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.projection_mean_ is not None:
            pooled = pooled - self.projection_mean_
        if sp.issparse(self.projection_):
            pooled = self._engine().project(pooled, self.projection_)
        elif self.projection_ is not None:
            pooled = pooled @ self.projection_
        return stages.unit_length(pooled)

    def _grey(self, images: Images, index: int) -> Grey:
        return images.grey(index, self.settings_["max_side"])

    def _checked_grey(self, images: Images, index: int) -> Grey:
        grey = self._grey(images, index)
        least = self.min_side
        if min(grey.shape) < least:
            raise ImageError(
                f"{images.name(index)} has {grey.shape[0]}x{grey.shape[1]} pixels, at least "
                f"{least}x{least} are needed: leave it out, or choose a smaller filter_size or window"
            )
        return grey

    def _n_threads(self) -> int:
        """All cores unless told otherwise; inside a joblib worker, that worker's share."""
        return int(joblib.effective_n_jobs(-1 if self.n_jobs is None else self.n_jobs))

    def _in_parallel(self, function: Callable[[int], T], indices: Iterable[int]) -> Iterator[T]:
        """function(i) for each i, in order, by threads."""
        return in_parallel(function, indices, self._n_threads())

    def _bars(self) -> Any:
        return progress_bars(self.verbose)


def _evenly(n: int, at_most: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """All of 0 .. n-1, or `at_most` of them drawn without replacement, in order."""
    return np.arange(n) if n <= at_most else np.sort(rng.choice(n, at_most, replace=False))
