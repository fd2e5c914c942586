"""The exact search for the nearest words beside brute force: its speed, and that it finds the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from midfea.baselines.local_features import sample_descriptors
from midfea.bench.common import Image, Inputs, Measured, timed
from midfea.engines import get_engine
from midfea.engines.cpu.search import WordIndex
from midfea.learning.codebook import make_chain
from midfea.learning.kmeans import kmeans
from midfea.learning.settings import ChainSettings
from midfea.progress import track
from midfea.provenance import Row
from midfea.stages import learn_filters

Points = NDArray[np.float32]
Words = NDArray[np.integer[Any]]
Search = Callable[[Points, int], Words]  # descriptors and k to the k nearest words, nearest first

OURS, BRUTE_FORCE = "midfea search", "BLAS product"
BLOCK = 512  # descriptors in one product: the scores stay in the cache
TIE = 1e-5  # squared distances, of descriptors of unit length, that differ by less count as equal
N_SAMPLES = 50_000  # descriptors from which the words are learned


def measure(
    inputs: Inputs, n_words: Sequence[int] = (1000, 4096), neighbours: Sequence[int] = (1, 5)
) -> Measured:
    """The section `search` of `midfea bench`.

    Milliseconds for each image on one core, and how many answers differ from brute force.

    The searches take turns at every image, so that a busy machine slows all of them. Preparing the
    words is not counted: it is done once for all images.

    In the rows "ratio" is the method's time to midfea's. "different" counts the descriptors for which
    brute force found other words, "beyond_ties" those of them whose words are not equally near.
    """
    images, seed = inputs.squares, inputs.seed
    describe = describer(images, seed)
    points = sample_descriptors(images, describe, N_SAMPLES, np.random.RandomState(seed))
    rows, missing = [], []
    if not find_spec("faiss"):
        missing.append("faiss is not measured: pip install faiss-cpu")
    for n in n_words:
        if n > len(points):
            missing.append(f"{n} words need more descriptors than {len(points)}: give more images")
            continue
        with threadpool_limits(1):
            words = kmeans(points, n, max_iter=5, random_state=seed, what=f"{n} words", nearest=nearest)
            for k in neighbours:
                rows += _compare(images, describe, words, k)
    return rows, [], missing


def describer(images: Sequence[Image], seed: int) -> Callable[[Image], Points]:
    """A function from an image to its descriptors (n, 144), with nine filters learned on the images.

    The settings are the paper's.
    """
    filters = learn_filters(images, n_patches=10_000, random_state=seed)
    chain = make_chain(ChainSettings(), filters, None, (1.0,))
    prepared = get_engine("cpu").prepare(chain)
    return lambda image: prepared.descriptors(image).reshape(-1, chain.n_components)


def nearest(points: Points, words: Points) -> NDArray[np.int32]:
    """The engine's search, as k-means wants it."""
    return get_engine("cpu").search(words)(points)


def brute_force(words: Points) -> Search:
    """One product of matrices for all scores x.c - |c|^2 / 2, as one would write it in NumPy."""
    half = np.einsum("ij,ij->i", words, words) / 2
    buffer = np.empty((BLOCK, len(words)), dtype=np.float32)

    def search(points: Points, k: int) -> Words:
        nearest = np.empty((len(points), k), dtype=np.int32)
        for start in range(0, len(points), BLOCK):
            block = points[start : start + BLOCK]
            scores = np.matmul(block, words.T, out=buffer[: len(block)])
            scores -= half
            if k == 1:
                nearest[start : start + BLOCK, 0] = scores.argmax(axis=1)
                continue
            best = np.argpartition(scores, -k, axis=1)[:, -k:]
            order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
            nearest[start : start + BLOCK] = np.take_along_axis(best, order, axis=1)
        return nearest

    return search


def _faiss(words: Points) -> Search:
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(words.shape[1])
    index.add(words)
    return lambda points, k: index.search(points, k)[1]


def _compare(
    images: Sequence[Image], describe: Callable[[Image], Points], words: Points, k: int
) -> list[Row]:
    searches: dict[str, Search] = {OURS: WordIndex(words).nearest, BRUTE_FORCE: brute_force(words)}
    if find_spec("faiss"):
        searches["faiss flat"] = _faiss(words)
    times: dict[str, list[float]] = {name: [] for name in searches}
    counts = {name: np.zeros(3, dtype=int) for name in searches}
    first = describe(images[0])
    for search in searches.values():
        search(first, k)  # compiles
    for image in track(images, f"{len(words)} words, {k} nearest", len(images)):
        points = describe(image)
        words_of: dict[str, Words] = {}
        for name, search in searches.items():
            words_of[name], spent = timed(search, points, k)
            times[name].append(spent)
        for name, mine in words_of.items():
            counts[name] += len(points), *differences(points, words, mine, words_of[BRUTE_FORCE])
    medians = {name: float(np.median(values)) for name, values in times.items()}
    return [
        {
            "method": name,
            "words": len(words),
            "k": k,
            "ms_per_image": round(medians[name], 3),
            "threads": 1,
            "ratio": round(medians[name] / medians[OURS], 3),
            "compared": int(counts[name][0]),
            "different": int(counts[name][1]),
            "beyond_ties": int(counts[name][2]),
        }
        for name in searches
    ]


def differences(points: Points, words: Points, mine: Words, theirs: Words) -> tuple[int, int]:
    """How many descriptors have other words, and how many of them at other distances (in float64)."""
    rows = np.flatnonzero((mine != theirs).any(axis=1))
    exact = points[rows, None].astype(np.float64)
    distances = [np.square(exact - words[indices[rows]]).sum(axis=-1) for indices in (mine, theirs)]
    return len(rows), int((np.abs(distances[0] - distances[1]) > TIE).any(axis=1).sum())
