"""Exported models beside the library: the same answers? And how long does an image take?

    python benchmarks/exported.py --data DIR [--set sign_digits] [--only fast best | --every] [--engines]

200 images train each model; 200 others, cut and
enlarged at random so that their sizes differ, are answered by the library and by onnxruntime, on one
thread each. "other" counts images whose probabilities differ by more than 1e-4; "engines", slow, those
on which the library's own engines, cpu and reference, differ so: where two words are equally near to a
descriptor, to what float32 can tell, only cpu decides exactly. `--every` is every encoding with every
partition and projection, with neurons and without, on few words.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from common import add_set, class_folder, make_parser
from midfea import MidFeaClassifier
from midfea.datasets.folder import find_images
from midfea.export import write_onnx
from midfea.export.runtime import OnnxClassifier

SETTINGS: dict[str, dict[str, Any]] = {
    "fast": {"preset": "fast"},
    "best": {"preset": "best", "finetune": False},
    "paper": {"preset": "paper"},
    "soft": {"encoding": "soft"},
    "llc": {"encoding": "llc"},
    "3x3 cells": {"partition": (3, 3)},
    "gaussian": {"n_words": 300, "projection": "gaussian", "n_components": 1000},
    "uniform": {"n_words": 300, "projection": "uniform", "n_components": 1000},
    "pca": {"n_words": 300, "projection": "pca"},
    "no projection": {"projection": None},
    "paper + neurons": {"preset": "paper", "selectivity": 30},
    "fast + neurons": {"preset": "fast", "selectivity": 30},
    "overlapping": {"partition": {"size": 40, "step": 20}},  # images of one size
    "finetuned": {"preset": "fast", "finetune": True},
}
CHOICES: dict[str, dict[str, Any]] = {
    "encoding": {"vq": "vq", "soft": "soft", "llc": "llc"},
    "partition": {"pyramid": "pyramid", "3x3": (3, 3), "overlap": {"size": 40, "step": 20}},
    "projection": {name or "none": name for name in ("random", "gaussian", "uniform", "pca", None)},
    "selectivity": {"": None, "neurons": 15},
}
EVERY: dict[str, dict[str, Any]] = {
    " ".join(names): {
        "n_words": 120,
        "n_components": 400,
        "n_samples": 20_000,
        **{option: CHOICES[option][name] for option, name in zip(CHOICES, names, strict=True)},
    }
    for names in itertools.product(*CHOICES.values())
}


def main() -> None:
    parser = make_parser(__doc__)
    add_set(parser)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--engines", action="store_true", help="compare the library's engines too")
    given = parser.parse_args()
    rng = np.random.RandomState(0)
    paths = find_images([class_folder(given)])
    paths = [paths[i] for i in rng.permutation(len(paths))[:400]]
    known, labels = paths[:200], [path.parent.name for path in paths[:200]]
    mixed = [cut(path, rng) for path in paths[200:]]
    print(f"{'':29} {'classes':>7} {'median':>8} {'most':>8} {'other':>5} {'engines':>7} "
          f"{'midfea':>9} {'ONNX':>9} {'file':>9}")  # fmt: skip
    chosen = EVERY if given.every else {name: SETTINGS[name] for name in given.only}
    for name, settings in chosen.items():
        model = MidFeaClassifier(**settings, random_state=0)
        images = mixed
        if "partition" in settings and isinstance(settings["partition"], dict):
            fixed = [np.asarray(Image.open(path).convert("RGB").resize((96, 96))) for path in paths]
            model.fit(fixed[:200], labels)
            images = fixed[200:]
        else:
            model.fit(known, labels)
        print(f"{name:29} {compare(model, images, given.engines)}", flush=True)


def compare(model: MidFeaClassifier, images: list[NDArray[np.uint8]], with_engines: bool) -> str:
    """One row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        write_onnx(model, path)
        size = path.stat().st_size
        exported = OnnxClassifier(path, n_jobs=1)
    model.n_jobs = 1
    answers, times = [], []
    for classifier in (model, exported):
        classifier.predict_proba(images[:1])
        started = time.perf_counter()
        answers.append(classifier.predict_proba(images))
        times.append((time.perf_counter() - started) / len(images))
    engines = "-"
    if with_engines:
        reference = copy(model).set_params(engine="reference", n_jobs=None)
        differences = np.abs(reference.predict_proba(images) - answers[0]).max(axis=1)
        engines = str((differences > 1e-4).sum())
    same = (answers[0].argmax(axis=1) == answers[1].argmax(axis=1)).sum()
    differences = np.abs(answers[0] - answers[1]).max(axis=1)
    return (
        f"{same:3}/{len(images)} {np.median(differences):8.1e} {differences.max():8.1e} "
        f"{(differences > 1e-4).sum():5} "
        f"{engines:>7} {1e3 * times[0]:6.1f} ms {1e3 * times[1]:6.1f} ms {size / 1e6:6.1f} MB"
    )


def cut(path: Path, rng: np.random.RandomState) -> NDArray[np.uint8]:
    """A part of a photo, every third one enlarged."""
    photo = Image.open(path).convert("RGB")
    left, top = rng.randint(photo.width // 3), rng.randint(photo.height // 3)
    part = photo.crop((left, top, photo.width, photo.height))
    if rng.randint(3) == 0:
        part = part.resize((rng.randint(100, 400), rng.randint(100, 400)))
    return np.asarray(part)


if __name__ == "__main__":
    main()
