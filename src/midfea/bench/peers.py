"""The whole learned feature beside other features, each on one core, one image at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any

import joblib
from threadpoolctl import threadpool_limits

from midfea import MidFea
from midfea.baselines.local_features import SIFT_PATCH, require_cv2
from midfea.bench.photos import Inputs, Measured
from midfea.bench.scattering import KYMATIO_MISSING, scattering
from midfea.bench.timing import ROUNDS, Image, interleaved, milliseconds, per_image
from midfea.provenance import Row

FEATURE = "midfea feature"
BATCH = "midfea feature, many images"
# Patches of 16 pixels are what features are built on. A keypoint of size 16, which is easily written
# instead, makes OpenCV look at 96 pixels and costs thirty times as much.
SIFT_PATCHES = (SIFT_PATCH, 6 * SIFT_PATCH)
N_BATCH = 128  # at least so many images for the throughput


def measure(inputs: Inputs) -> Measured:
    """The section `peers` of `midfea bench`."""
    model = MidFea(preset="paper", max_side=None, random_state=inputs.seed).fit(inputs.squares)
    rows, missing = time_peers(model, inputs.squares, kymatio=inputs.kymatio)
    remark = f"{rows[-1]['threads']} cores: {rows[-1]['speedup']:.2f} times the throughput of one."
    return rows, [remark], missing


def time_peers(
    model: MidFea, images: Sequence[Image], *, kymatio: str | None = None, rounds: int = ROUNDS
) -> tuple[list[Row], list[str]]:
    """Milliseconds for each image by each method, and a line for each method that is missing.

    Parameters
    ----------
    model : fitted
    images : of one size
    kymatio : a Python interpreter that has kymatio

    Returns
    -------
    rows : "ratio" is the method's time to midfea's; the last rows are midfea's throughput on one core
        and on all, with "speedup"
    missing : what could not be measured, and how to get it
    """
    model.set_params(n_jobs=1)
    methods: dict[str, Callable[[], float]] = {
        FEATURE: partial(per_image, lambda image: model.transform([image]), images)
    }
    missing = []
    if find_spec("skimage"):
        methods["HOG (scikit-image)"] = partial(per_image, _hog, images)
    else:
        missing.append("HOG is not measured: pip install 'midfea[bench]'")
    if find_spec("cv2"):
        for patch in SIFT_PATCHES:
            for where, step, n in (("step 6", 6, 5), ("every pixel", 1, 1)):
                sift = _sift(images[0], step, patch)
                name = f"SIFT, {where}, {patch}-pixel patches (OpenCV)"
                methods[name] = partial(per_image, sift, images[:n])  # slow, and the same for all
    else:
        missing.append("SIFT is not measured: pip install 'midfea[bench]'")
    if kymatio is None:
        missing.append(KYMATIO_MISSING)
    with threadpool_limits(1), scattering(kymatio, images) as frontends:
        times = interleaved(methods | frontends, "peers", rounds)
    base = times[FEATURE]
    rows: list[Row] = [
        {"method": name, "ms_per_image": round(time, 3), "threads": 1, "ratio": round(time / base, 3)}
        for name, time in times.items()
    ]
    return rows + _throughput(model, images, base, rounds), missing


def _hog(image: Image) -> Any:
    from skimage.feature import hog

    return hog(image, pixels_per_cell=(8, 8), cells_per_block=(2, 2))


def _sift(image: Image, step: int, patch: int) -> Callable[[Image], Any]:
    """SIFT at every step-th pixel of images of this size; making the grid is not counted."""
    cv2: Any = require_cv2()
    cv2.setNumThreads(1)
    # OpenCV draws a descriptor from 4x4 squares whose side is 3/2 of the keypoint's size.
    points = [
        cv2.KeyPoint(float(x), float(y), patch / 6, 0)
        for y in range(0, image.shape[0], step)
        for x in range(0, image.shape[1], step)
    ]
    sift = cv2.SIFT_create()
    return lambda image: sift.compute(image, points)


def _throughput(model: MidFea, images: Sequence[Image], latency: float, rounds: int) -> list[Row]:
    """Many images in one call, on one core and on all."""
    many = [images[i % len(images)] for i in range(max(N_BATCH, len(images)))]

    def on(n_jobs: int | None) -> float:
        model.set_params(n_jobs=n_jobs)
        return milliseconds(model.transform, many) / len(many)

    cores = int(joblib.effective_n_jobs(-1))  # what n_jobs=None comes to
    if cores == 1:
        times = interleaved({"1": lambda: on(1)}, "throughput", rounds)
    else:
        times = interleaved({"1": lambda: on(1), str(cores): lambda: on(None)}, "throughput", rounds)
    return [
        {
            "method": BATCH,
            "ms_per_image": round(time, 3),
            "threads": int(threads),
            "ratio": round(time / latency, 3),
            "speedup": round(times["1"] / time, 3),
        }
        for threads, time in times.items()
    ]
