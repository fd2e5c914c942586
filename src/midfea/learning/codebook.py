"""Learning the chain from pictures without labels: filters, codebook, projection.

Filters and words are learned from a bounded sample. Nothing grows with images x descriptors x words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from midfea import stages
from midfea.arrays import to_numpy
from midfea.engines import Chain, EngineSettings, Projection, is_batched
from midfea.learning.colour import learn_colour_words, points_of
from midfea.learning.extractor import FeatureExtractor
from midfea.learning.kmeans import kmeans
from midfea.learning.principal import principal_directions
from midfea.learning.settings import ChainSettings
from midfea.parallel import in_parallel, linear_algebra_threads
from midfea.pictures.picture import Picture
from midfea.pictures.resize import Grey
from midfea.progress import track

MAX_IMAGES = 1000  # from which filters and words are learned
MAX_PATCHES = 50_000  # from which filters are learned
MAX_PCA_IMAGES = 4000
SEARCHED_AT_ONCE = 4096  # descriptors of one thread's search
LARGE_SIDE = 128  # pixels of the longer side from which a second scale, half the size, is worth it


def learn_extractor(
    pictures: Sequence[Picture],
    settings: ChainSettings,
    engine: EngineSettings,
    n_threads: int,
    rng: np.random.RandomState,
) -> FeatureExtractor:
    """All that the features need, for these settings, which hold no "auto" but for the scales."""
    sample = _sample(len(pictures), MAX_IMAGES, rng)
    greys, colours, weight = [], [], settings.without_auto().colour
    for i in track(sample, "reading", len(sample)):
        picture = pictures[i]
        greys.append(picture.grey)
        if weight is not None:
            colours.append(points_of(picture))
    scales = settings.scales
    if scales == "auto":
        large = np.median([max(grey.shape) for grey in greys]) >= LARGE_SIDE
        scales = (1.0, 0.5) if large else (1.0,)
    with linear_algebra_threads(1):  # the same filters for any number of threads
        for _ in track(range(1), "filters", 1):
            filters = stages.learn_filters(
                greys,
                settings.n_filters,
                settings.filter_size,
                settings.filter_method,
                n_patches=min(settings.n_samples, MAX_PATCHES),
                random_state=rng,
            )
    chain = make_chain(settings, filters, None, scales)
    codebook = _learn_codebook(greys, chain, settings, engine, n_threads, rng)
    chain = replace(chain, codebook=codebook)
    n_cells = chain.n_cells(chain.scaled_shapes(greys[0].shape)[0])
    extractor = FeatureExtractor(chain, Projection(), n_cells, settings.max_side, engine)
    projection = _learn_projection(extractor, pictures, settings, n_threads, rng)
    # Last, so that the rest does not depend on it.
    colour = None if weight is None else learn_colour_words(colours, float(weight), rng)
    return replace(extractor, projection=projection, colour=colour)


def make_chain(
    settings: ChainSettings,
    filters: NDArray[np.float32],
    codebook: NDArray[np.float32] | None,
    scales: tuple[float, ...],
    rounded: bool = False,
) -> Chain:
    """The chain of these settings."""
    resolved = settings.without_auto()
    shared = {f.name for f in fields(Chain)} & {f.name for f in fields(ChainSettings)} - {"scales"}
    given = {name: getattr(resolved, name) for name in shared} | {"floor": float(resolved.floor)}
    return Chain(filters=filters, codebook=codebook, scales=scales, rounded=rounded, **given)


def _learn_codebook(
    greys: list[Grey],
    chain: Chain,
    settings: ChainSettings,
    engine: EngineSettings,
    n_threads: int,
    rng: np.random.RandomState,
) -> NDArray[np.float32]:
    """k-means on descriptors from random places of the images, at every scale."""
    n_words = int(settings.without_auto().n_words)
    prepared = engine.engine.prepare(chain)
    n_per_image = -(-settings.n_samples // len(greys))
    seeds = rng.randint(2**31 - 1, size=len(greys))

    def sample(i: int) -> NDArray[np.float32]:
        parts = [prepared.descriptors(scaled.image) for scaled in chain.scaled(greys[i])]
        descriptors = np.concatenate([part.reshape(-1, chain.n_components) for part in parts])
        return descriptors[_sample(len(descriptors), n_per_image, np.random.RandomState(seeds[i]))]

    batched = is_batched(prepared)  # a device takes no two images at a time
    work = in_parallel(sample, range(len(greys)), 1 if batched else n_threads)
    samples = np.concatenate(list(track(work, "describing", len(greys))))
    if len(samples) < n_words:
        raise ValueError(
            f"n_words={n_words} words cannot be learned from {len(samples)} descriptors: "
            "give more or larger images, or fewer words"
        )

    def nearest(points: NDArray[np.float32], words: NDArray[np.float32]) -> NDArray[np.int32]:
        # Parts of one size, each by one thread: near ties fall the same way for any number of threads.
        search, starts = engine.engine.search(words), range(0, len(points), SEARCHED_AT_ONCE)
        n_workers = min(n_threads, len(starts))
        found = in_parallel(lambda i: search(points[i : i + SEARCHED_AT_ONCE]), starts, n_workers)
        return np.concatenate(list(found))

    with linear_algebra_threads(n_threads), engine.engine.arrays() as put:
        search = None if batched else nearest
        return to_numpy(kmeans(put(samples), n_words, random_state=rng, what="words", nearest=search))


def _learn_projection(
    extractor: FeatureExtractor,
    pictures: Sequence[Picture],
    settings: ChainSettings,
    n_threads: int,
    rng: np.random.RandomState,
) -> Projection:
    n_codes, kind = extractor.n_codes, settings.projection
    n_components = min(settings.n_components, n_codes)
    if kind is None or (n_components == n_codes and kind != "pca"):
        return Projection()  # as many components as codes would gain nothing and add noise
    if kind != "pca":
        random_kind = "sparse" if kind == "random" else kind
        return Projection(stages.projection_matrix(n_codes, n_components, random_kind, rng))
    rows = _sample(len(pictures), MAX_PCA_IMAGES, rng)
    work = extractor.pooled_codes([pictures[i] for i in rows], n_threads)
    codes = np.stack(list(track(work, "principal directions", len(rows))))
    n_components = min(n_components, *codes.shape)
    if is_batched(extractor.prepared):
        with extractor.engine.engine.arrays() as put:
            result = principal_directions(put(codes), n_components)
            mean, directions = (to_numpy(a).astype(np.float32) for a in result)
    else:
        from sklearn.decomposition import PCA  # not needed to predict

        with linear_algebra_threads(1):  # the same directions for any number of threads
            pca = PCA(n_components, random_state=rng).fit(codes)
        mean, directions = pca.mean_, pca.components_.T
    return Projection(np.ascontiguousarray(directions), mean)


def _sample(n: int, at_most: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """All of 0 .. n-1, or `at_most` of them drawn without replacement, in order."""
    return np.arange(n) if n <= at_most else np.sort(rng.choice(n, at_most, replace=False))
