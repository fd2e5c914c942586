"""`Worker`: the images of a shard to rows and errors. A bad image never ends it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from midfea.engines import EngineSettings
from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.saved import load
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.parts import ClassifierParts
from midfea.parallel import linear_algebra_threads
from midfea.pictures.picture import Picture
from midfea.scale.decoder import Decoded, Decoder, Failure, View
from midfea.scale.manifest import Manifest, Row
from midfea.scale.shards import Columns, Results, Shard, ShardFolder

WHAT = ("features", "scores", "both")
DTYPES = ("float32", "float16")  # of features
IMAGES_AT_ONCE, BYTES_AT_ONCE = 64, 2**26  # computed together
IMAGES_FOR_DEVICE = 256  # in their place, for an engine that gains from many


@dataclass(frozen=True)
class Job:
    """All that a worker must know; it can be sent to another process.

    Attributes
    ----------
    manifest, model, output : two files and the folder of shards
    what : one of WHAT
    dtype : of features, one of DTYPES
    engine : computes the features
    """

    manifest: Path
    model: Path
    output: Path
    what: str
    dtype: str
    engine: EngineSettings


class Executor(Protocol):
    """Who computes shards: processes of this machine, or a cluster."""

    def run(self, job: Job, shards: Sequence[Shard]) -> Generator[None, None, None]:
        """Compute shards and write them; yields once for each image that is done."""


class Values(NamedTuple):
    """What is computed of some pictures, a row each; None for what is not wanted.

    belonging : comes with scores; NaN if the model does not know it
    """

    features: NDArray[Any] | None
    scores: NDArray[Any] | None
    belonging: NDArray[Any] | None


class PictureModel:
    """The model of a job, for features and scores of pictures."""

    def __init__(self, job: Job) -> None:
        model = load(job.model)
        self.what = job.what
        self.extractor: FeatureExtractor = model.extractor_
        self.parts: ClassifierParts | None = None
        if isinstance(model, MidFeaClassifier):
            self.parts = model.parts_
            self.extractor = self.parts.extractor
        elif job.what != "features":
            name = type(model).__name__
            raise ValueError(f"{job.model}: holds a {name}, which has no scores: type --what features")
        self.extractor = self.extractor.on(job.engine)

    def columns(self, dtype: str) -> Columns:
        """The columns of its rows."""
        n_features = 0 if self.what == "scores" else self.extractor.n_features
        return Columns(n_features, len(self.classes) if self.what != "features" else 0, dtype)

    @property
    def classes(self) -> list[str]:
        """The classes, in the order of the scores; empty without a classifier."""
        return [] if self.parts is None else [str(label) for label in self.parts.classes]

    @property
    def view(self) -> View:
        """How it sees images; without colours if nothing that is computed looks at them."""
        chain = self.extractor.chain
        network = None if self.parts is None or self.what == "features" else self.parts.network
        coloured = self.extractor.colour is not None or network is not None
        return View(self.extractor.max_side, chain.min_image_side, chain.rounded, coloured)

    def values(self, pictures: Sequence[Picture]) -> Values:
        """Features, and scores with belonging, by one thread."""
        with linear_algebra_threads(1):
            features = self.extractor.transform(pictures)
            if self.parts is None or self.what == "features":
                return Values(features, None, None)
            scores = self.parts.scores(features, pictures)
            belonging = self.parts.belonging_of(scores, features)
        if belonging is None:
            belonging = np.full(len(pictures), np.nan)
        return Values(None if self.what == "scores" else features, scores, belonging)


class Worker:
    """Computes shards, one after the other.

    decoder : reads its images, here or in other processes
    """

    def __init__(self, job: Job) -> None:
        self._model = PictureModel(job)
        self._images_at_once = IMAGES_FOR_DEVICE if job.engine.name == "torch" else IMAGES_AT_ONCE
        self._manifest = Manifest(job.manifest)
        self._shards = ShardFolder(job.output, self._model.columns(job.dtype))
        self.decoder = Decoder(self._model.view)

    def close(self) -> None:
        """Close the archives that it has read."""
        self.decoder.close()

    def run(self, shard: Shard) -> Iterator[None]:
        """Read the images of a shard, compute it and write it; yields once for each image.

        OSError if the shard cannot be written.
        """
        rows = self._manifest.rows(shard.first, shard.n_images)
        yield from self.compute(shard, (Decoded(row, self.decoder.decode(row.address)) for row in rows))

    def compute(self, shard: Shard, images: Iterable[Decoded]) -> Iterator[None]:
        """`run`, if others have decoded the images of the shard; they come in its order."""
        results, waiting, n_bytes = Results(), list[tuple[Row, Picture]](), 0
        for row, picture in images:
            if isinstance(picture, Failure):
                results.fail(row, *picture)
            else:
                waiting.append((row, picture))
                n_bytes += picture.n_bytes
            if len(waiting) == self._images_at_once or n_bytes > BYTES_AT_ONCE:
                self._compute(waiting, results)
                waiting, n_bytes = [], 0
            yield
        self._compute(waiting, results)
        self._shards.write(shard, results)

    def _compute(self, waiting: Sequence[tuple[Row, Picture]], results: Results) -> None:
        """Add the rows of some pictures; if that fails, each alone, to see which one it is."""
        if not waiting:
            return
        rows, pictures = zip(*waiting, strict=True)
        try:
            _add(results, rows, self._model.values(pictures))
        except Exception as error:
            if len(waiting) == 1:
                results.fail(rows[0], *Failure.of(error))
                return
            for pair in waiting:
                self._compute([pair], results)


def _add(results: Results, rows: Sequence[Row], values: Values) -> None:
    results.rows += rows
    if values.features is not None:
        results.features.append(values.features)
    if values.scores is not None:
        results.scores.append(values.scores)
    if values.belonging is not None:
        results.belonging.append(values.belonging)
