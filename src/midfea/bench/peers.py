"""The whole learned feature beside other features, each on one core, one image at a time.

kymatio's scattering transform is measured in an environment of its own: kymatio 0.3 needs scipy < 1.17,
so it cannot live beside midfea. A second interpreter runs `scattering_process.py`; it waits between its
rounds, so that they take turns with the other methods'.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from midfea import MidFea
from midfea.baselines.local_features import SIFT_PATCH, require_cv2
from midfea.bench.common import ROUNDS, Image, Inputs, Measured, interleaved, per_image, timed
from midfea.extras import missing, why_not
from midfea.provenance import Row

FEATURE = "midfea feature"
BATCH = "midfea feature, many images"
# Patches of 16 pixels are what features are built on. A keypoint of size 16, which is easily written
# instead, makes OpenCV look at 96 pixels and costs thirty times as much.
SIFT_PATCHES = (SIFT_PATCH, 6 * SIFT_PATCH)
N_BATCH = 128  # at least so many images for the throughput
INSTALL = "pip install kymatio 'scipy<1.17' torch"
KYMATIO_MISSING = (
    "scattering is not measured: in an environment of its own, "
    f"{INSTALL}, and then --kymatio THAT/bin/python"
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def measure(inputs: Inputs, rounds: int = ROUNDS) -> Measured:
    """The section `peers` of `midfea bench`: milliseconds for each image by each method.

    In the rows "ratio" is the method's time to midfea's. The last ones are midfea's throughput on one
    core and on all, with "speedup".
    """
    images = inputs.squares
    model = MidFea(preset="paper", max_side=None, random_state=inputs.seed).fit(images)
    model.set_params(n_jobs=1)
    methods: dict[str, Callable[[], float]] = {
        FEATURE: partial(per_image, lambda image: model.transform([image]), images)
    }
    unmeasured, absent = [], missing("bench")
    if "scikit-image" not in absent:
        methods["HOG (scikit-image)"] = partial(per_image, _hog, images)
    else:
        unmeasured.append(f"HOG is not measured: {why_not('bench')}")
    if "OpenCV" not in absent:
        for patch in SIFT_PATCHES:
            for where, step, n in (("step 6", 6, 5), ("every pixel", 1, 1)):
                sift = _sift(images[0], step, patch)
                name = f"SIFT, {where}, {patch}-pixel patches (OpenCV)"
                methods[name] = partial(per_image, sift, images[:n])  # slow, and the same for all
    else:
        unmeasured.append(f"SIFT is not measured: {why_not('bench')}")
    if inputs.kymatio is None:
        unmeasured.append(KYMATIO_MISSING)
    with threadpool_limits(1), scattering(inputs.kymatio, images) as frontends:
        times = interleaved(methods | frontends, "peers", rounds)
    base = times[FEATURE]
    rows: list[Row] = [
        {"method": name, "ms_per_image": round(time, 3), "threads": 1, "ratio": round(time / base, 3)}
        for name, time in times.items()
    ]
    rows += _throughput(model, images, base, rounds)
    remark = f"{rows[-1]['threads']} cores: {rows[-1]['speedup']:.2f} times the throughput of one."
    return rows, [remark], unmeasured


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

    def on(n_jobs: int) -> float:
        model.set_params(n_jobs=n_jobs)
        return timed(model.transform, many)[1] / len(many)

    cores = int(joblib.effective_n_jobs(-1))
    times = interleaved(
        {str(threads): partial(on, threads) for threads in (1, cores)}, "throughput", rounds
    )
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


def check_kymatio(python: str) -> None:
    """ValueError in one line, before any long work, if that interpreter cannot run kymatio."""
    command = [python, "-W", "ignore", "-c", "from kymatio.numpy import Scattering2D"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValueError(f"--kymatio {python}: {error.strerror}") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise ValueError(f"--kymatio {python}: kymatio does not run there ({reason}). Try {INSTALL}")


@contextmanager
def scattering(python: str | None, images: Sequence[Image]) -> Iterator[dict[str, Callable[[], float]]]:
    """The methods to measure, each one round; none without an interpreter."""
    if python is None:
        yield {}
        return
    script = Path(__file__).with_name("scattering_process.py").read_text()
    with tempfile.TemporaryDirectory() as folder, Path(folder, "errors").open("w+") as errors:
        np.save(Path(folder, "images.npy"), np.stack(images))
        process = subprocess.Popen(
            # The text, not the file: the file's folder would come first among that interpreter's.
            [python, "-W", "ignore", "-c", script, "images.npy"],
            cwd=folder,
            env=os.environ | ONE_THREAD,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

        def answer(question: str) -> Any:
            assert process.stdin is not None and process.stdout is not None  # both are pipes
            try:
                process.stdin.write(f"{question}\n")
                process.stdin.flush()
                return json.loads(process.stdout.readline())
            except (OSError, ValueError):
                errors.seek(0)
                reason = (errors.read().strip().splitlines() or ["it gave no answer"])[-1]
                raise ValueError(f"--kymatio {python}: {reason}") from None

        try:
            yield {name: partial(answer, name) for name in answer("names")}
        finally:
            process.communicate()  # it ends with its input
