"""One image through a fitted classifier, step by step: the paper's table of inference times.

The engine computes soft convolution and the pooling of its maps in one pass, and pair maxima with the
descriptors, so the paper's first three rows are two here.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from midfea import MidFeaClassifier, NeuronSelectivity
from midfea.bench.common import Image, Inputs, Measured, timed
from midfea.engines.cpu import kernels
from midfea.engines.cpu.engine import CpuChain
from midfea.learning.parts import ClassifierParts
from midfea.progress import track
from midfea.provenance import Row

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
MAX_FITTED = 200  # images: what the classifier predicts does not matter here


def measure(inputs: Inputs, **settings: int) -> Measured:
    """The section `stages` of `midfea bench`: median milliseconds of each stage on one core.

    The paper's system with an NS layer of one neuron for each class. The labels are made up.
    """
    layer = NeuronSelectivity(max_iter=1, ridge=1e-3)
    model = MidFeaClassifier(
        preset="paper", selectivity=layer, max_side=None, random_state=inputs.seed, **settings
    )
    images = inputs.squares
    fitted = images[:MAX_FITTED]
    model.fit(fitted, np.arange(len(fitted)) % max(2, len(fitted) // 4))
    with threadpool_limits(1):
        parts = model.parts_
        _one_image(parts, images[0])  # compiles
        times = np.array([_one_image(parts, image) for image in track(images, "stages", len(images))])
    feature, total = times[:, : len(FEATURE)].sum(axis=1), times.sum(axis=1)
    columns = [*times.T[: len(FEATURE)], feature, times[:, -1], total]
    names = (*FEATURE, "feature", CLASSIFIER, "total")
    rows: list[Row] = [
        {
            "stage": name,
            "ms_per_image": round(float(np.median(column)), 3),
            "threads": 1,
            "paper": PAPER[name],
        }
        for name, column in zip(names, columns, strict=True)
    ]
    return rows, [], []


def _one_image(parts: ClassifierParts, image: Image) -> list[float]:
    """Milliseconds of each stage, by the steps of the walk (`midfea.engines.walk`)."""
    prepared = parts.extractor.prepared
    assert isinstance(prepared, CpuChain)
    chain, scaled = prepared.chain, next(iter(prepared.scales(image)))
    described = prepared.describe(scaled)  # with what decides near ties of words
    maps, convolution = timed(prepared.pooled_maps, image)
    _, descriptor = timed(kernels.assemble, maps, chain.pairs, chain.window)
    codes, quantization = timed(prepared.encode, described)
    pooled, pooling = timed(prepared.pool, codes, scaled, None)
    features, projection = timed(prepared.project, pooled[None])
    _, classifier = timed(lambda: parts.head.scores(parts.head_inputs(features)).argmax(axis=1))
    return [convolution, descriptor, quantization, pooling, projection, classifier]
