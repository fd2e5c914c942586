"""One image through a fitted classifier, step by step: the paper's table of inference times.

The engine computes soft convolution and the pooling of its maps in one pass, and pair maxima with the
descriptors, so the paper's first three rows are two here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from midfea import MidFeaClassifier, NeuronSelectivity
from midfea.bench.photos import Inputs, Measured
from midfea.bench.timing import Image
from midfea.engines.cpu import engine as cpu
from midfea.engines.cpu import kernels
from midfea.learning.svm import margins_to_scores
from midfea.progress import track
from midfea.provenance import Row
from midfea.stages.pooling import partition_levels

FEATURE = (
    "soft convolution and 3D max pooling",
    "local descriptor",
    "vector quantization",
    "spatial pooling",
    "random projection",
)
CLASSIFIER = "NS layer and classifier"
# Milliseconds in the paper's table, whose caption says seconds.
PAPER = dict(zip((*FEATURE, CLASSIFIER), (147, 45, 174, 114, 128, 260), strict=True))
PAPER |= {"feature": 608, "total": 868}  # sums
MAX_FIT = 200  # the classifier's answer does not matter here, nor does it need many images


def measure(inputs: Inputs) -> Measured:
    """The section `stages` of `midfea bench`."""
    return time_stages(fit_classifier(inputs.squares, inputs.seed), inputs.squares), [], []


def fit_classifier(images: Sequence[Image], seed: int = 0, **settings: int) -> MidFeaClassifier:
    """The paper's system with an NS layer of one neuron for each class. The labels are made up."""
    model = MidFeaClassifier(
        preset="paper",
        selectivity=NeuronSelectivity(max_iter=1, ridge=1e-3),
        max_side=None,
        random_state=seed,
        **settings,
    )
    images = images[:MAX_FIT]
    return model.fit(list(images), np.arange(len(images)) % max(2, len(images) // 4))


def time_stages(model: MidFeaClassifier, images: Sequence[Image]) -> list[Row]:
    """Median milliseconds of each stage on one core, over the images."""
    with threadpool_limits(1):
        _one_image(model, images[0])  # compiles
        times = np.array([_one_image(model, image) for image in track(images, "stages", len(images))])
    feature, total = times[:, : len(FEATURE)].sum(axis=1), times.sum(axis=1)
    columns = [*times.T[: len(FEATURE)], feature, times[:, -1], total]
    names = (*FEATURE, "feature", CLASSIFIER, "total")
    return [
        {
            "stage": name,
            "ms_per_image": round(float(np.median(column)), 3),
            "threads": 1,
            "paper": PAPER[name],
        }
        for name, column in zip(names, columns, strict=True)
    ]


def _one_image(model: MidFeaClassifier, image: Image) -> list[float]:
    """Milliseconds of each stage. The estimators do the same, but nobody can stop a watch in them."""
    chain = model._chain
    marks = [time.perf_counter()]

    def done() -> None:
        marks.append(time.perf_counter())

    maps = cpu.pooled_maps(image, chain)
    done()
    descriptors = kernels.assemble(maps, chain.pairs, chain.window)
    done()
    codes = cpu.encode(descriptors, chain)
    done()
    levels = partition_levels(chain.partition, codes[0].shape, codes[0].shape[:2])
    pooled = cpu.pool_codes(codes, levels, chain)
    done()
    features = model._project(pooled[None])
    done()
    margins_to_scores(model._margins(features)).argmax(axis=1)
    done()
    return [1e3 * float(step) for step in np.diff(marks)]
