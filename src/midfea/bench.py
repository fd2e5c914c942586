"""Time per stage of one image through a fitted classifier, beside other local features.

The engine computes soft convolution and the pooling of its maps in one pass, and pair maxima with the
descriptors, so the paper's first three rows are two here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from midfea import MidFeaClassifier
from midfea.engines import cpu, kernels
from midfea.images import Images
from midfea.learning.linear_svm import margins_to_scores
from midfea.progress import track
from midfea.stages.pooling import partition_levels

Row = dict[str, Any]
PAPER = {
    "soft convolution and 3D max pooling": 147.0,
    "local descriptor": 45.0,
    "vector quantization": 174.0,
    "spatial pooling": 114.0,
    "random projection": 128.0,
    "NS layer and classifier": 260.0,
    "total": 868.0,
}  # milliseconds: the paper's table of inference times, whose caption says seconds


def time_stages(model: MidFeaClassifier, images: Sequence[NDArray[np.uint8]]) -> list[Row]:
    """Median milliseconds of each stage on one core, over the images."""
    chain = model._chain
    names = [*PAPER][:-1]
    times: dict[str, list[float]] = {name: [] for name in names}
    with threadpool_limits(1):
        _one_image(model, chain, images[0], {name: [] for name in names})  # compiles
        for image in track(images, "stages", len(images)):
            _one_image(model, chain, image, times)
    rows = [_row("stage", name, float(np.median(times[name])), 1, PAPER[name]) for name in names]
    totals = np.sum([times[name] for name in names], axis=0)
    return [*rows, _row("stage", "total", float(np.median(totals)), 1, PAPER["total"])]


def _one_image(model: Any, chain: Any, image: NDArray[np.uint8], times: dict[str, list[float]]) -> None:
    clock = _Clock(times)
    pixels, least = cpu.padded(image, chain)
    maps = kernels.soft_convolution_pooled(pixels, chain.filters, chain.rectify, least, chain.floor)
    clock.stop("soft convolution and 3D max pooling")
    descriptors = kernels.assemble(maps, chain.pairs, chain.window)
    clock.stop("local descriptor")
    codes = cpu.encode(descriptors, chain)
    clock.stop("vector quantization")
    levels = partition_levels(chain.partition, codes[0].shape, codes[0].shape[:2])
    pooled = cpu.pool_codes(codes, levels, chain)
    clock.stop("spatial pooling")
    features = model._project(pooled[None])
    clock.stop("random projection")
    margins_to_scores(model._margins(features)).argmax(axis=1)
    clock.stop("NS layer and classifier")


class _Clock:
    def __init__(self, times: dict[str, list[float]]) -> None:
        self.times, self.begun = times, time.perf_counter()

    def stop(self, name: str) -> None:
        now = time.perf_counter()
        self.times[name].append(1e3 * (now - self.begun))
        self.begun = time.perf_counter()


def time_throughput(model: MidFeaClassifier, images: Sequence[NDArray[np.uint8]]) -> list[Row]:
    """Milliseconds for each image of `predict` over all of them, on one core and on all."""
    rows = []
    cores = model._n_threads()
    for n in sorted({1, cores}):
        model.set_params(n_jobs=n)
        model.predict(Images(list(images[:2])))
        begun = time.perf_counter()
        model.predict(list(images))
        rows.append(_row("method", "midfea", _each(begun, len(images)), n, None))
    model.set_params(n_jobs=None)
    return rows


def time_peers(images: Sequence[NDArray[np.uint8]]) -> list[Row]:
    """Other local features on one core, those that are installed."""
    peers: dict[str, Callable[[NDArray[np.uint8]], Any]] = {}
    if find_spec("skimage"):
        from skimage.feature import hog

        peers["HOG (scikit-image)"] = lambda image: hog(image, cells_per_block=(2, 2))
    if find_spec("cv2"):
        import cv2

        from midfea.reproduce.local_features import sift_maps

        cv2.setNumThreads(1)
        peers["SIFT, step 6 (OpenCV)"] = lambda image: sift_maps(image, step=6)
        peers["SIFT, every pixel (OpenCV)"] = lambda image: sift_maps(image, step=1)
    rows = []
    with threadpool_limits(1):
        for name, feature in track(peers.items(), "peers", len(peers)):
            feature(images[0])
            some = images[:3] if "every" in name else images
            begun = time.perf_counter()
            for image in some:
                feature(image)
            rows.append(_row("method", name, _each(begun, len(some)), 1, None))
    return rows


def _each(begun: float, n: int) -> float:
    return 1e3 * (time.perf_counter() - begun) / n


def _row(kind: str, name: str, milliseconds: float, threads: int, paper: float | None) -> Row:
    row = {kind: name, "ms_per_image": round(milliseconds, 3), "threads": threads}
    return row if paper is None else row | {"paper": paper}
