"""The paper's table of inference times: KSPM, ScSPM and LLC step by step beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from midfea.baselines.coders import finest_cells
from midfea.baselines.kspm import intersection_kernel
from midfea.baselines.local_features import grey_images
from midfea.baselines.pyramid import Encoding, SpatialPyramid
from midfea.bench import stages
from midfea.bench.common import Inputs, Measured, timed
from midfea.engines import Projection
from midfea.pictures.resize import Grey
from midfea.progress import track
from midfea.provenance import Row
from midfea.stages import projection_matrix

N_CLASSES, N_TRAINING = 102, 3060  # of the paper's Caltech-101: the size of the classifiers
N_COMPONENTS = 3000
N_ROUNDS = 10  # of learning words, whose quality hardly changes the times
ENCODINGS: dict[str, Encoding] = {"KSPM": "hard", "ScSPM": "sparse", "LLC": "llc"}
STEPS = ("dense SIFT", "VQ or SC", "spatial pooling", "random projection", "classifier")
# Milliseconds in the paper's table, whose caption says seconds and whose first cell says milliseconds.
PAPER: dict[str, tuple[float, ...]] = {
    "KSPM": (19_420, 460, 114, 128, 750),
    "ScSPM": (19_420, 29_720, 114, 128, 630),
    "LLC": (19_420, 47_060, 114, 128, 630),
}
OURS = dict(zip(stages.FEATURE[2:], STEPS[1:4], strict=True)) | {stages.CLASSIFIER: STEPS[4]}
Scores = Callable[[NDArray[np.float32]], Any]


def measure(inputs: Inputs, **settings: int) -> Measured:
    """The section `paper-table` of `midfea bench`: median milliseconds of each step on one core."""
    own = {row["stage"]: row for row in stages.measure(inputs, **settings)[0]}
    columns: dict[str, dict[str, float]] = {"midfea": {}}
    paper: dict[str, dict[str, float]] = {"midfea": {}}
    for stage, row in own.items():
        if stage not in ("feature", "total"):
            columns["midfea"][OURS.get(stage, stage)] = row["ms_per_image"]
            paper["midfea"][OURS.get(stage, stage)] = row["paper"]
    for column in (columns, paper):  # of medians, as for the others
        column["midfea"]["total"] = sum(column["midfea"].values())
    n_words = settings.get("n_words", 1000)
    common: dict[str, Any] = {"n_words": n_words, "n_rounds": N_ROUNDS, "n_jobs": 1}
    common["random_state"] = inputs.seed
    greys = grey_images(inputs.squares)
    with threadpool_limits(1):
        for name, encoding in ENCODINGS.items():
            times = _times(name, SpatialPyramid(encoding=encoding, **common), greys)
            columns[name] = dict(zip(STEPS, times, strict=True)) | {"total": sum(times)}
            paper[name] = dict(zip(STEPS, PAPER[name], strict=True))
            paper[name]["total"] = sum(PAPER[name])
    steps = [*stages.FEATURE[:2], *STEPS, "total"]
    rows: list[Row] = [_row(step, columns, paper) for step in steps]
    return rows, _ratios(columns), []


def _times(name: str, pyramid: SpatialPyramid, greys: Sequence[Grey]) -> list[float]:
    """Of each step, the median over the images; SIFT of patches of 16 pixels at every sixth pixel."""
    pyramid.fit(greys)
    rng = np.random.RandomState(0)
    n_codes = pyramid.transform(greys[:1]).shape[1]
    projection = Projection(projection_matrix(n_codes, N_COMPONENTS, "sparse", rng))
    scores = _kernel_scores(pyramid, greys, rng) if name == "KSPM" else _linear_scores(rng)
    _one_image(pyramid, projection, scores, greys[0], name)  # compiles
    work = track(greys, name, len(greys))
    return np.median([_one_image(pyramid, projection, scores, grey, name) for grey in work], 0).tolist()


def _one_image(
    pyramid: SpatialPyramid, projection: Projection, scores: Scores, grey: Grey, name: str
) -> list[float]:
    coder = pyramid.coder_
    (descriptors, places), sift = timed(pyramid.describe, grey)
    codes, coding = timed(coder.codes, descriptors)
    pooled, pooling = timed(lambda: coder.pool(codes, finest_cells(places, grey.shape)))
    projected, projecting = timed(projection.apply, pooled[None])
    # The intersection kernel needs histograms: it takes them as they are.
    _, classifying = timed(scores, pooled[None] if name == "KSPM" else projected)
    return [sift, coding, pooling, projecting, classifying]


def _kernel_scores(pyramid: SpatialPyramid, greys: Sequence[Grey], rng: np.random.RandomState) -> Scores:
    """Kernels with as many training histograms as in the paper, the images' own many times over."""
    own = pyramid.transform(greys)
    samples = own[np.arange(N_TRAINING) % len(own)]
    coef = rng.normal(size=(N_TRAINING, N_CLASSES)).astype(np.float32)
    return lambda x: (intersection_kernel(x, samples) @ coef).argmax(axis=1)


def _linear_scores(rng: np.random.RandomState) -> Scores:
    coef = rng.normal(size=(N_COMPONENTS, N_CLASSES)).astype(np.float32)
    return lambda x: (x @ coef).argmax(axis=1)


def _row(step: str, columns: dict[str, dict[str, float]], paper: dict[str, dict[str, float]]) -> Row:
    row: Row = {"step": step, "threads": 1}
    for name, column in columns.items():
        value = column.get(step)
        row[name] = None if value is None else round(value, 3)
        row[f"{name}, paper"] = paper[name].get(step)
    return row


def _ratios(columns: dict[str, dict[str, float]]) -> list[str]:
    own = columns["midfea"]["total"]
    ratios = [
        f"{name} {column['total'] / own:.1f}" for name, column in columns.items() if name != "midfea"
    ]
    return [f"Times midfea's total (below 1: faster): {', '.join(ratios)}."]
