"""Small models to be damaged and asked: those kept for the tests, and some fitted in a moment."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
import midfea
import scratch
from harness import one_line
from midfea import MidFea, MidFeaClassifier, MidFeaRegressor, checksum
from midfea.datasets import load_surfaces
from midfea.pictures.reading import ImageError
from small import SMALL

KEPT = Path(__file__).resolve().parents[1] / "tests" / "data"
Estimator = MidFea | MidFeaClassifier | MidFeaRegressor
IMAGE = np.random.RandomState(0).randint(0, 256, (48, 48, 3)).astype(np.uint8)


class ModelParts(NamedTuple):
    """What a model file holds: its JSON description, and its arrays."""

    description: dict[str, Any]
    arrays: dict[str, NDArray[Any]]

    def sealed(self) -> bytes:
        """As a file, with a checksum that agrees if it has one."""
        description = self.description
        if "checksum" in description:
            description = description | {"checksum": checksum.EMPTY}
        content = save(self.arrays, {"midfea": json.dumps(description)})
        return checksum.seal(content) if checksum.EMPTY.encode() in content else content


def parts_of(content: bytes) -> ModelParts:
    """Of a model file."""
    n_bytes = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + n_bytes])["__metadata__"]
    return ModelParts(json.loads(metadata["midfea"]), load(content))


def small_classifier() -> MidFeaClassifier:
    """One that was trained long ago, and answers in a millisecond."""
    model = midfea.load(KEPT / "fast-v2.midfea")
    assert isinstance(model, MidFeaClassifier)
    model.n_jobs = 1
    return model


@cache
def model_files() -> list[bytes]:
    """Files of all three estimators, of all formats, with all kinds of heads."""
    old = [(KEPT / name).read_bytes() for name in ("fast-v2.midfea", "finetuned-v1.midfea")]
    return old + [_saved(model) for model in _models()]


def _models() -> list[Any]:
    data = load_surfaces(n_per_class=4, size=48, random_state=0)
    images, y = data.images, np.array(data.target_names)[data.target]
    kept = [midfea.load(KEPT / name) for name in ("finetuned-v1.midfea", "paper-v1.midfea")]
    return [
        small_classifier(),
        *kept,
        MidFeaClassifier(**SMALL, encoding="llc", partition={"size": 16, "step": 8}).fit(images, y),
        MidFeaRegressor(**SMALL, preset="fast").fit(images, np.arange(len(images), dtype=float)),
        MidFea(**SMALL, projection="pca", encoding="soft").fit(images),
    ]


def _saved(model: Estimator) -> bytes:
    path = scratch.folder() / "made.midfea"
    model.save(path)
    return path.read_bytes()


def check_answer(model: Estimator, image: Any = IMAGE) -> None:
    """A fitted estimator gives numbers, a classifier probabilities; or it has no use for the image."""
    model.n_jobs, model.verbose = 1, False
    try:
        _check_answer(model, image)
    except ImageError as error:
        one_line(error)


def _check_answer(model: Estimator, image: Any) -> None:
    if isinstance(model, MidFeaClassifier):
        check_probabilities(model.predict_proba([image]), 1, len(model.classes_))
    else:
        answers = model.transform([image]) if isinstance(model, MidFea) else model.predict([image])
        assert np.isfinite(answers).all(), "not finite"


def check_probabilities(answers: NDArray[np.float64], n: int, n_classes: int) -> None:
    """Numbers from 0 to 1, which sum to 1 for each image."""
    assert answers.shape == (n, n_classes), answers.shape
    assert np.isfinite(answers).all(), f"not finite: {answers!r:.200}"
    assert (answers >= 0).all() and np.allclose(answers.sum(axis=1), 1, atol=1e-4), answers
