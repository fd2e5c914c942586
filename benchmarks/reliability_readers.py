"""What reads the damaged files of `reliability.py`: midfea and its peers, each as one function.

A function that makes a reader is called in the process that reads; what it needs lies in the folder of
the environment variable MIDFEA_RELIABILITY.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from guarded import Work

FOLDER = "MIDFEA_RELIABILITY"
SAME, OTHER, REFUSED, ERROR = "same answer", "other answer", "refused", "error"


def folder() -> Path:
    """Where the whole files and the inputs lie."""
    return Path(os.environ[FOLDER])


def _answering(
    read: Callable[[str], Any], answer: Callable[[Any], Any], name: str, *refusals: type
) -> Work:
    """A reader of model files that compares the answer with that of the whole file."""
    right = answer(read(str(folder() / name)))

    def work(path: str) -> str:
        try:
            given = np.asarray(answer(read(path)), dtype=np.float64)
        except refusals:
            return REFUSED
        except Exception:
            return ERROR
        return SAME if np.array_equal(given, right) else OTHER

    return work


def midfea_model() -> Work:
    """`midfea.load`, and the probabilities of some images."""
    import midfea
    from midfea.model_file import ModelFileError

    images = list(np.load(folder() / "images.npy"))
    return _answering(
        midfea.load, lambda model: model.predict_proba(images), "whole.midfea", ModelFileError
    )


def midfea_onnx() -> Work:
    """An exported file through `OnnxClassifier`."""
    from midfea.export.runtime import OnnxClassifier

    images = list(np.load(folder() / "images.npy"))
    return _answering(
        lambda path: OnnxClassifier(path, n_jobs=1),
        lambda model: model.predict_proba(images),
        "whole.onnx",
        ValueError,
    )


def _features() -> Any:
    return np.load(folder() / "features.npy")


def with_pickle() -> Work:
    """The fitted LinearSVC, pickled."""
    features = _features()
    return _answering(
        lambda path: pickle.loads(Path(path).read_bytes()),
        lambda svm: svm.decision_function(features),
        "svm.pickle",
    )


def with_joblib() -> Work:
    """The same by joblib."""
    import joblib

    features = _features()
    return _answering(joblib.load, lambda svm: svm.decision_function(features), "svm.joblib")


def with_skops() -> Work:
    """The same by skops."""
    import skops.io

    features = _features()
    return _answering(skops.io.load, lambda svm: svm.decision_function(features), "svm.skops")


def with_safetensors() -> Work:
    """Its coefficients as a safetensors file."""
    from safetensors.numpy import load_file

    features = _features()
    return _answering(
        load_file, lambda arrays: features @ arrays["coef"].T + arrays["intercept"], "svm.safetensors"
    )


def with_onnx() -> Work:
    """The same as one ONNX node, run by onnxruntime."""
    import onnxruntime

    features = _features()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4

    def read(path: str) -> Any:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    return _answering(read, lambda session: session.run(["scores"], {"x": features})[0], "svm.onnx")


MODEL_READERS: dict[str, tuple[str, Callable[[], Work]]] = {  # the whole file, and its reader
    "midfea": ("whole.midfea", midfea_model),
    "pickle": ("svm.pickle", with_pickle),
    "joblib": ("svm.joblib", with_joblib),
    "skops": ("svm.skops", with_skops),
    "safetensors": ("svm.safetensors", with_safetensors),
    "onnxruntime": ("svm.onnx", with_onnx),
}


def _picturing(read: Callable[[str], Any]) -> Work:
    def work(path: str) -> str:
        try:
            pixels = read(path)
            if pixels is None:
                return ERROR
            pixels = np.asarray(pixels)
            if pixels.dtype.kind == "O" or not pixels.size:
                return "read, but no pixels"
            return "read" if np.isfinite(pixels).all() else "read, not finite"
        except Exception:
            return ERROR

    return work


def midfea_image() -> Work:
    """midfea's door."""
    from midfea.pictures.picture import make_picture
    from midfea.pictures.reading import read_image

    return _picturing(lambda path: make_picture(read_image(path), 150).grey)


def with_pillow() -> Work:
    """Pillow as most people use it."""
    from PIL import Image

    def read(path: str) -> Any:
        with Image.open(path) as image:
            return np.asarray(image)

    return _picturing(read)


def with_opencv() -> Work:
    """OpenCV."""
    import cv2

    return _picturing(lambda path: cv2.imread(path, cv2.IMREAD_UNCHANGED))


def with_skimage() -> Work:
    """scikit-image."""
    import skimage.io

    return _picturing(skimage.io.imread)


IMAGE_READERS: dict[str, Callable[[], Work]] = {
    "midfea": midfea_image,
    "pillow": with_pillow,
    "opencv": with_opencv,
    "scikit-image": with_skimage,
}
