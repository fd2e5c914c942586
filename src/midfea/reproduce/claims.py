"""What the paper says in words, measured: illumination, focus on the object, random projection.

- light (Section 2.1): the distance between the maps of one face under two lights, over the distance
  between two people's under one light. Below 1, people differ more than lights do.
- focus (Section 4.4): the mean of the averaged map within the outline of the object, over its mean in
  the whole image; 1 means attention spread evenly. Outlines come with FG-NET (68 landmarks on each
  face); Caltech-101's are not part of its image archive.
- projection (footnote in Section 4.4): accuracy with random projection to 300 .. 5000 dimensions,
  beside PCA and none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from midfea import MidFea, datasets
from midfea.baselines.local_features import hog_maps, sift_maps
from midfea.progress import track
from midfea.provenance import Row, make_row
from midfea.reproduce.evaluate import evaluate_classes
from midfea.reproduce.features import first_split
from midfea.reproduce.protocols import Method
from midfea.stages import unit_length

Maps = Callable[[NDArray[np.uint8]], NDArray[Any]]  # image -> (height, width, channel)

# Five lights from the left to the right, none so low that a face is black (Extended Yale B names).
LIGHTS = ("A-070E+00", "A-035E+15", "A+000E+00", "A+035E+15", "A+070E+00")
DIMENSIONS = (300, 1000, 2000, 3000, 5000)
MAX_PHOTOS = 200


def measure_claims(
    data: Path, *, seed: int = 0, only: Sequence[str] | None = None, cache: Path | None = None
) -> list[Row]:
    """Rows {"dataset", "method", "metric", "mean", "std", "trials", "paper"} of every claim."""
    known = {"light": light, "focus": focus, "projection": projection}
    for name in only or ():
        if name not in known:
            raise ValueError(f"no claim {name!r}: choose from {', '.join(known)}")
    return [
        row
        for name, measure in known.items()
        if only is None or name in only
        for row in measure(data, seed, cache)
    ]


def light(data: Path, seed: int, cache: Path | None) -> list[Row]:
    """Distances between lights over distances between people, for each kind of map."""
    faces = datasets.load_yale_b(data)
    names = [Path(path).stem for path in faces.paths]
    index = {(name[:7], name[-9:]): i for i, name in enumerate(names)}
    people = [p for p in faces.target_names if all((p, at) in index for at in LIGHTS)]
    model = MidFea(n_words=50, projection=None, random_state=seed).fit(faces.images[::20])
    metric = "one face, two lights / two faces, one light"
    return [
        make_row("light", name, metric, light_ratios(maps, faces.images, index, people))
        for name, maps in track(_kinds(model).items(), "light", 4)
    ]


def light_ratios(
    maps: Maps, images: list[Any], index: dict[tuple[str, str], int], people: list[str]
) -> list[float]:
    """Of each person |one face, two lights| / |two faces, one light|."""
    vectors = {
        (p, at): maps(images[index[p, at]]).ravel().astype(np.float32) for p in people for at in LIGHTS
    }

    def distance(a: tuple[str, str], b: tuple[str, str]) -> float:
        return float(np.linalg.norm(vectors[a] - vectors[b]))

    ratios: list[float] = []
    for p in people:
        lights = [distance((p, a), (p, b)) for a, b in combinations(LIGHTS, 2)]
        others = [distance((p, at), (q, at)) for at in LIGHTS for q in people if q != p]
        ratios.append(float(np.mean(lights) / np.mean(others)))
    return ratios


def focus(data: Path, seed: int, cache: Path | None) -> list[Row]:
    """Mean of the averaged map within the face's outline, over its mean in the whole photograph."""
    faces = datasets.load_fgnet(data, faces="photos", size=150)
    step = max(1, len(faces.images) // MAX_PHOTOS)
    photos = faces.images[::step]
    outlines = [
        face_outline(points, photo.shape)
        for points, photo in zip(faces.landmarks[::step], photos, strict=True)
    ]
    model = MidFea(n_words=50, projection=None, random_state=seed).fit(photos[::4])
    rows = []
    for name, maps in track(_kinds(model).items(), "focus", 4):
        if name == "raw pixels":
            continue  # brightness is not attention
        shares = [
            attention_share(maps(photo), outline)
            for photo, outline in zip(photos, outlines, strict=True)
        ]
        rows.append(make_row("focus", name, "averaged map, within the face / overall", shares))
    return rows


def face_outline(points: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """The pixels within the hull of the landmarks."""
    rows, columns = np.indices(shape)
    return Delaunay(points).find_simplex(np.stack([columns, rows], axis=-1)) >= 0


def attention_share(maps: NDArray[Any], outline: NDArray[np.bool_]) -> float:
    average = maps.astype(np.float64).mean(axis=2)
    rows = np.linspace(0, outline.shape[0] - 1, average.shape[0]).round().astype(int)
    columns = np.linspace(0, outline.shape[1] - 1, average.shape[1]).round().astype(int)
    inside = outline[np.ix_(rows, columns)]
    return float(average[inside].mean() / average.mean())


def projection(data: Path, seed: int, cache: Path | None) -> list[Row]:
    """Accuracy after random (Gaussian) projection, PCA, and neither.

    A Gaussian projection of features is one of their coordinates in the training samples' span, so the
    features kept for the tables serve.
    """
    rows = []
    metric = "mean per-class accuracy"
    for name in ("ar-face", "caltech101"):
        bunch, split, x = first_split(name, data, seed, cache)
        variants: dict[str, NDArray[Any]] = {"none": x}
        rng = np.random.RandomState(seed)
        for n in DIMENSIONS:
            matrix = rng.normal(size=(x.shape[1], n)).astype(np.float32)
            variants[f"random, {n}"] = unit_length(x @ matrix)
        centre = x[split[0]].mean(axis=0)
        directions = np.linalg.svd(x[split[0]] - centre, full_matrices=False)[2]
        for n in (300, 1000):
            if n < len(directions):
                variants[f"PCA, {n}"] = unit_length((x - centre) @ directions[:n].T)
        for kind, reduced in track(variants.items(), f"projection, {name}", len(variants)):
            metrics = evaluate_classes(reduced, bunch.target, None, split, Method("MidFea"), seed)
            rows.append(make_row(name, f"projection {kind}", metric, [metrics[metric]]))
    return rows


def _kinds(model: MidFea) -> dict[str, Maps]:
    """The kinds of maps that are compared."""
    return {
        "raw pixels": lambda image: image[:, :, None] / 255,
        "HOG": hog_maps,
        "SIFT": sift_maps,
        "MidFea (3D max pooling)": lambda image: model.feature_maps(image)["max_pool_3d"],
    }
