"""Accuracy beside self-taught learning (ST, Raina et al. 2007) on AR faces: Fig. 3.

ST learns a dictionary from unlabelled faces; the sparse codes of a labelled face over it are its
features. As in the paper the faces are coded whole, so that there are as many features as bases, and
without unlabelled faces the dictionary is random. Faces are reduced to 30x22 pixels, without mean and of
unit length. Sparse codes lose what tells people apart: the sparser, the lower the accuracy.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import MiniBatchDictionaryLearning, sparse_encode
from sklearn.exceptions import ConvergenceWarning

from midfea.learning.folds import make_folds
from midfea.learning.folds import split as split_at
from midfea.pictures.picture import to_grey
from midfea.pictures.reading import read_image
from midfea.pictures.resize import resize
from midfea.progress import track
from midfea.provenance import Row, write_rows
from midfea.reproduce.evaluate import evaluate_classes
from midfea.reproduce.features import raw_pixels, span_features
from midfea.reproduce.figures.curves import draw_self_taught
from midfea.reproduce.protocols import PROTOCOLS, Method
from midfea.view.style import save

COUNTS = (0, 500, 2000, 8000)
BASES = (200, 600)
SIZE = (30, 22)  # half of AR's height and width
LEARNING_PENALTY = 0.05  # of codes that are not zero
CODING_PENALTIES = (0.005, 0.02)  # to choose from on the training faces
Faces = NDArray[Any]  # (n, pixels); float64, in float32 the lasso does not quite converge


def make(data: Path, output: Path, seed: int) -> list[Path]:
    rows = measure(data, seed)
    write_rows(rows, output / "self_taught.json", [seed])
    return [*save(draw_self_taught(rows), output, "self_taught"), output / "self_taught.json"]


def measure(
    data: Path, seed: int, counts: Sequence[int] = COUNTS, bases: Sequence[int] = BASES
) -> list[Row]:
    """A row for each point: method, number of unlabelled faces (None: uses none), accuracy in %."""
    protocol = PROTOCOLS["ar-face"]
    ar = protocol.load(data)
    split = protocol.splits(ar, 1, seed)[0]
    known = {method.name: method for method in protocol.methods}
    neurons, selectivity = known["MidFea-NS"].neurons, known["MidFea-NS"].selectivity

    def row(name: str, x: Faces, *, layer: bool = False, unlabelled: int | None = None) -> Row:
        method = Method(name, neurons=neurons, selectivity=selectivity) if layer else Method(name)
        result = evaluate_classes(x, ar.person, None, split, method, seed)
        return {"method": name, "unlabelled": unlabelled, "accuracy": round(result["accuracy"], 2)}

    settings = known["MidFea"].settings
    assert settings is not None
    features = span_features(ar.images, split[0], settings, seed, cache=None)
    rows = [
        row("raw pixels", raw_pixels(ar.images, None)),
        row("MidFea", features),
        row("MidFea-NS", features, layer=True),
    ]
    labelled = small_faces(ar.images)
    unlabelled = unlabelled_faces(data, max(counts), seed)
    points = [(k, n) for k in bases for n in counts]
    for k, n in track(points, "self-taught learning", len(points)):
        dictionary = learn_dictionary(unlabelled[:n], k, labelled.shape[1], seed)
        penalty = choose_penalty(labelled[split[0]], ar.person[split[0]], dictionary, seed)
        codes = sparse_codes(labelled, dictionary, penalty)
        for name, layer in ((f"ST ({k})", False), (f"ST-NS ({k})", True)):
            rows.append(row(name, codes, layer=layer, unlabelled=n) | {"penalty": penalty})
    return rows


def unlabelled_faces(data: Path, n: int, seed: int) -> Faces:
    """So many of the unlabelled faces, in random order, cut to the shape of AR's."""
    folder = data / "unlabelled_faces"
    paths = sorted(folder.glob("*.jpg"))
    if len(paths) < n:
        raise ValueError(
            f"{folder}: {n} unlabelled faces (00000.jpg, ...) are needed, found {len(paths)}"
        )
    chosen = np.random.RandomState(seed).permutation(len(paths))[:n]
    images = []
    for i in track(chosen, "unlabelled faces", n):
        image = to_grey(read_image(paths[i]))
        height, width = image.shape
        margin = max(0, (width - round(height * SIZE[1] / SIZE[0])) // 2)
        images.append(image[:, margin : width - margin])
    return small_faces(images)


def small_faces(images: Sequence[NDArray[Any]]) -> Faces:
    """The images at `SIZE` as rows without mean and of unit length."""
    rows = np.zeros((len(images), SIZE[0] * SIZE[1]))
    for row, image in zip(rows, images, strict=True):
        row[:] = resize(image, SIZE).ravel()
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def learn_dictionary(faces: Faces, n_bases: int, n_pixels: int, seed: int) -> Faces:
    """Bases as rows of unit length, from one pass over the faces; random ones if there are none."""
    if not len(faces):
        bases = np.random.RandomState(seed).normal(size=(n_bases, n_pixels))
        return np.asarray(bases / np.linalg.norm(bases, axis=1, keepdims=True))
    model = MiniBatchDictionaryLearning(
        n_bases,
        alpha=LEARNING_PENALTY,
        max_iter=1,
        batch_size=128,
        fit_algorithm="cd",
        transform_max_iter=100,
        random_state=seed,
    )
    with warnings.catch_warnings():  # codes need not be exact while the bases still change
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(model.fit(faces).components_)


def choose_penalty(faces: Faces, people: NDArray[Any], dictionary: Faces, seed: int) -> float:
    """The penalty with the best accuracy on a third of the faces, learned from the others."""
    split = split_at(make_folds(np.unique(people, return_inverse=True)[1], 3, seed), 0)

    def validation_accuracy(penalty: float) -> float:
        codes = sparse_codes(faces, dictionary, penalty)
        return evaluate_classes(codes, people, None, split, Method("ST"), seed)["accuracy"]

    return max(CODING_PENALTIES, key=validation_accuracy)


def sparse_codes(faces: Faces, dictionary: Faces, penalty: float) -> Faces:
    """The lasso's coefficients of each face over the bases."""
    with warnings.catch_warnings():  # the last digits do not matter to the SVM
        warnings.simplefilter("ignore", ConvergenceWarning)
        codes = sparse_encode(faces, dictionary, algorithm="lasso_cd", alpha=penalty, max_iter=300)
    return np.asarray(codes, dtype=np.float32)
