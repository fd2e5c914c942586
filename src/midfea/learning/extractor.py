"""`FeatureExtractor`: pictures to features, by a chain, a projection and an engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from midfea.engines import Chain, EngineSettings, PreparedChain, Projection, is_batched
from midfea.engines.reference import ReferenceChain
from midfea.learning.colour import ColourNotes, ColourWords
from midfea.parallel import in_parallel
from midfea.pictures.images import Images, Pictures
from midfea.pictures.picture import Picture
from midfea.pictures.reading import ImageError
from midfea.pictures.resize import Grey
from midfea.progress import track

PROJECTED_AT_ONCE = 64  # images: a dense matrix is too large to be read anew for each
READ_AT_ONCE = 8  # images read by one thread for an engine that takes many

T = TypeVar("T")
_preparing = threading.Lock()


@dataclass(frozen=True, eq=False)
class FeatureExtractor:
    """Fitted: all that turns pictures into features. It never changes.

    Attributes
    ----------
    chain : filters, codebook and how they are used
    projection : from pooled codes to features
    n_cells : cells in which codes are pooled
    max_side : larger images are reduced to so many pixels on their longer side; None: never
    engine : what computes
    colour : what adds a colour histogram to the features, or None
    """

    chain: Chain
    projection: Projection
    n_cells: int
    max_side: int | None
    engine: EngineSettings
    colour: ColourWords | None = None

    @property
    def n_codes(self) -> int:
        """Pooled codes of an image."""
        return self.n_cells * len(self.chain.words)

    @property
    def n_features(self) -> int:
        """Features of an image."""
        n_chain = self.projection.n_features(self.n_codes)
        return n_chain if self.colour is None else n_chain + self.colour.n_features

    @property
    def prepared(self) -> PreparedChain:
        """The chain as the engine needs it: made once, when it is first needed."""
        with _preparing:
            if "_prepared" not in self.__dict__:
                prepared = self.engine.engine.prepare(self.chain, self.projection)
                object.__setattr__(self, "_prepared", prepared)
            prepared = self.__dict__["_prepared"]
        return prepared

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_prepared"}

    def on(self, engine: EngineSettings) -> FeatureExtractor:
        """This extractor, computed by another engine."""
        return self if engine == self.engine else replace(self, engine=engine)

    def pictures(self, images: Images) -> Pictures:
        """Images as this extractor sees them."""
        return Pictures(images, self.max_side, self.chain.min_image_side, self.chain.rounded)

    def transform(self, pictures: Sequence[Picture], n_threads: int = 1) -> NDArray[np.float32]:
        """Features of pictures, (n, n_features), rows of unit length."""
        if self.colour is None and is_batched(self.prepared):
            greys = self._greys(pictures, "features", n_threads)
            return self.prepared.features(greys, len(pictures))
        features = np.empty((len(pictures), self.n_features), dtype=np.float32)
        if self.colour is None:
            self._put_features_of_chain(features, pictures, n_threads)
            return features
        notes = ColourNotes(pictures, self.colour)
        n_chain = self.projection.n_features(self.n_codes)
        self._put_features_of_chain(features[:, :n_chain], notes, n_threads)
        self.colour.join(features, notes.histograms)
        return features

    def features_of(
        self, picture: Picture, features_of_chain: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Features (n_features,) of a picture, if those of the chain are known."""
        if self.colour is None:
            return features_of_chain
        return self.colour.beside(features_of_chain[None], [picture])[0]

    def stage_outputs(self, picture: Picture) -> dict[str, NDArray[Any]]:
        """The outputs of every stage for one picture, by the plain stages."""
        outputs = ReferenceChain(self.chain, self.projection).all_outputs(picture.grey)
        if self.colour is not None:
            outputs["colour_histogram"] = self.colour.histogram(picture)
            outputs["features"] = self.features_of(picture, outputs["features"])
        return outputs

    def _put_features_of_chain(
        self, features: NDArray[np.float32], pictures: Sequence[Picture], n_threads: int
    ) -> None:
        """The features of the chain alone into the rows of `features`; each picture is read once."""
        prepared = self.prepared
        if is_batched(prepared):
            features[:] = prepared.features(self._greys(pictures, "features", n_threads), len(pictures))
            return
        if self.projection.dense is None:

            def row(picture: Picture) -> NDArray[np.float32]:
                return prepared.project(self.pooled(picture)[None])[0]

            for i, values in enumerate(map_pictures(row, pictures, n_threads, "features")):
                features[i] = values
            return
        pooled = map_pictures(self.pooled, pictures, n_threads, "features")
        for start in range(0, len(pictures), PROJECTED_AT_ONCE):
            stop = min(start + PROJECTED_AT_ONCE, len(pictures))
            # No more than there are: once `pooled` has ended, the linear algebra has all threads again.
            features[start:stop] = prepared.project(np.stack(list(islice(pooled, stop - start))))

    def pooled_codes(self, pictures: Sequence[Picture], n_threads: int) -> Iterator[NDArray[np.float32]]:
        """The pooled codes of each picture."""
        prepared = self.prepared
        if is_batched(prepared):
            greys = self._greys(pictures, "pooled codes", n_threads)
            return iter(prepared.features(greys, len(pictures), projected=False))
        return in_parallel(lambda i: self.pooled(pictures[i]), range(len(pictures)), n_threads)

    def pooled(self, picture: Picture) -> NDArray[np.float32]:
        """Pooled codes (n_codes,) of one picture."""
        self._check_cells(picture.grey)
        return self.prepared.pooled(picture.grey)

    def _greys(self, pictures: Sequence[Picture], what: str, n_threads: int) -> Iterator[Grey]:
        """Grey images for an engine that takes many: the next ones are read while it works."""

        def read(start: int) -> list[Grey]:
            return [picture.grey for picture in pictures[start : start + READ_AT_ONCE]]

        parts = in_parallel(read, range(0, len(pictures), READ_AT_ONCE), n_threads)
        for part in track(parts, what, -(-len(pictures) // READ_AT_ONCE)):
            for grey in part:
                self._check_cells(grey)
                yield grey

    def _check_cells(self, grey: Grey) -> None:
        if not isinstance(self.chain.partition, dict):
            return  # every image has as many
        n_cells = self.chain.n_cells(self.chain.scaled_shapes(grey.shape)[0])
        if n_cells != self.n_cells:
            raise ImageError(
                f"an image of {grey.shape[0]}x{grey.shape[1]} pixels has {n_cells} cells where the "
                f"model has {self.n_cells}: cells of a fixed size need images of one size"
            )


def map_pictures(
    function: Callable[[Picture], T], pictures: Sequence[Picture], n_threads: int, what: str
) -> Iterator[T]:
    """function(picture) for each picture, in order, by threads, with progress."""
    work = in_parallel(lambda i: function(pictures[i]), range(len(pictures)), n_threads)
    return track(work, what, len(pictures))
