"""Ways to classify a folder of images, each with its features and a linear SVM, on the same splits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from midfea import MidFeaClassifier
from midfea.baselines.local_features import hog_maps, sift_maps
from midfea.learning import svm as linear_svm
from midfea.learning.kmeans import kmeans
from midfea.parallel import in_parallel, linear_algebra_threads
from midfea.pictures.images import Grey, resize
from midfea.pictures.thumbnails import eight_bits
from midfea.progress import track
from midfea.stages import llc_codes, pool_cells, unit_length

Features = NDArray[np.float32]
Extract = Callable[[Grey], Features]
Answer = Callable[[Sequence[Grey]], NDArray[Any]]
Row = dict[str, Any]

C_GRID = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
N_FOLDS = 3
PIXELS_SIDE = 32
HOG_SIDE = 96  # pixels: 11x11 blocks of 2x2 cells
SIFT_STEP = 6
N_WORDS = 1000
N_SAMPLES = 50_000  # descriptors from which words are learned


def missing_for(method: str) -> str:
    """What to type before a method can be used; empty if it can."""
    return "pip install 'midfea[bench]'" if method == "sift" and not find_spec("cv2") else ""


def compare_methods(
    images: Sequence[Grey],
    labels: NDArray[Any],
    methods: Sequence[str],
    *,
    n_splits: int = 3,
    held_out: float = 0.5,
    seed: int = 0,
    n_jobs: int | None = None,
) -> list[Row]:
    """A row for each method: its accuracy in percent, mean and deviation over random splits, its times.

    Parameters
    ----------
    methods : names of `METHODS`
    held_out : share of the images that test; the same ones for every method

    Returns
    -------
    rows : "mean", "std", "trials" of the "accuracy", "seconds_to_train" (mean) and "ms_per_image"
        (median over the splits, all test images in one call), and "n_test".
    """
    n_threads = int(joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs))
    found: dict[str, list[tuple[float, float, float]]] = {method: [] for method in methods}
    steps = [(split, method) for split in range(n_splits) for method in methods]
    for split, method in track(steps, "methods", len(steps)):
        train, test = _split(labels, held_out, seed + split)
        begun = time.perf_counter()
        answer = METHODS[method][1]([images[i] for i in train], labels[train], seed + split, n_threads)
        trained = time.perf_counter()
        answers = answer([images[i] for i in test])
        ended = time.perf_counter()
        accuracy = 100 * float((answers == labels[test]).mean())
        found[method].append((accuracy, trained - begun, 1e3 * (ended - trained) / len(test)))
    return [
        {
            "dataset": "",  # the caller knows
            "method": METHODS[method][0],
            "metric": "accuracy",
            "mean": round(float(np.mean(accuracies)), 3),
            "std": round(float(np.std(accuracies)), 3),
            "trials": n_splits,
            "paper": None,
            "seconds_to_train": round(float(np.mean(seconds)), 2),
            "ms_per_image": round(float(np.median(milliseconds)), 3),
            "n_test": len(_split(labels, held_out, seed)[1]),
        }
        for method in methods
        for accuracies, seconds, milliseconds in [zip(*found[method], strict=True)]
    ]


def _split(labels: NDArray[Any], held_out: float, seed: int) -> list[NDArray[np.intp]]:
    """Indices of the images to learn from and to test with, the same share of every class."""
    names, counts = np.unique(labels, return_counts=True)
    if len(names) < 2 or counts.min() < 2:
        raise ValueError(
            "to compare methods, two classes or more are needed, each with two images or more; got "
            + ", ".join(f"{n!r}: {c}" for n, c in zip(names.tolist(), counts, strict=True))
        )
    try:
        return list(
            train_test_split(
                np.arange(len(labels)), test_size=held_out, stratify=labels, random_state=seed
            )
        )
    except ValueError as error:  # fewer images than classes on one side
        raise ValueError(f"too few images for --held-out {held_out}: {error}") from None


def _midfea(preset: Any) -> Callable[..., Answer]:
    """As `midfea train` does."""

    def learn(images: list[Grey], labels: NDArray[Any], seed: int, n_threads: int) -> Answer:
        model = MidFeaClassifier(preset=preset, C="cv", random_state=seed, n_jobs=n_threads)
        answer: Answer = model.fit(images, labels).predict
        return answer

    return learn


def with_svm(make: Callable[[list[Grey], int], Extract]) -> Callable[..., Answer]:
    """Features that `make` learns from the training images, and a linear SVM."""

    def learn(images: list[Grey], labels: NDArray[Any], seed: int, n_threads: int) -> Answer:
        with linear_algebra_threads(n_threads):
            extract = make(images, seed)
        features = _all(extract, images, n_threads)
        classes, y = np.unique(labels, return_inverse=True)
        with linear_algebra_threads(n_threads):
            margins = linear_svm.held_out_margins(features, y, C_GRID, N_FOLDS, seed)
            right = [(linear_svm.margins_to_scores(m).argmax(axis=1) == y).sum() for m in margins]
            C = C_GRID[int(np.argmax(right))]
            weights, intercepts = linear_svm.fit_linear_svm(features, y, C)

        def answer(others: Sequence[Grey]) -> NDArray[Any]:
            scores = _all(extract, others, n_threads) @ weights + intercepts
            return np.asarray(classes[linear_svm.margins_to_scores(scores).argmax(axis=1)])

        return answer

    return learn


def _all(extract: Extract, images: Sequence[Grey], n_threads: int) -> Features:
    return np.stack(list(in_parallel(lambda i: extract(images[i]), range(len(images)), n_threads)))


def _pixels(images: list[Grey], seed: int) -> Extract:
    def extract(image: Grey) -> Features:
        small = resize(image, (PIXELS_SIDE, PIXELS_SIDE))
        return eight_bits(small).ravel().astype(np.float32) / np.float32(255)

    return extract


def _hog(images: list[Grey], seed: int) -> Extract:
    def extract(image: Grey) -> Features:
        return unit_length(hog_maps(eight_bits(resize(image, (HOG_SIDE, HOG_SIDE)))).ravel())

    return extract


def _sift(images: list[Grey], seed: int) -> Extract:
    """Dense SIFT, LLC codes, maxima in the cells of the 1-2-4 pyramid."""

    def describe(image: Grey) -> Features:
        return sift_maps(image, SIFT_STEP)

    rng = np.random.RandomState(seed)
    each = -(-N_SAMPLES // len(images))
    samples = []
    for image in track(images, "SIFT", len(images)):
        found = describe(image).reshape(-1, 128)
        samples.append(found[rng.choice(len(found), min(each, len(found)), replace=False)])
    points = np.concatenate(samples)
    words = kmeans(points, min(N_WORDS, len(points)), random_state=rng, what="SIFT words")

    def extract(image: Grey) -> Features:
        names, weights = llc_codes(describe(image), words, min(5, len(words)))
        return unit_length(pool_cells(names, len(words), weights=weights))

    return extract


# Titles and ways to learn, by name: (images, labels, seed, threads) -> a function from images to labels.
METHODS: dict[str, tuple[str, Callable[..., Answer]]] = {
    "pixels": ("raw pixels + SVM", with_svm(_pixels)),
    "hog": ("HOG + SVM", with_svm(_hog)),
    "sift": ("SIFT pyramid + SVM", with_svm(_sift)),
    "paper": ("midfea paper", _midfea("paper")),
    "fast": ("midfea fast", _midfea("fast")),
    "best": ("midfea best", _midfea("best")),
}
