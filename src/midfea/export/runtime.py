"""An exported classifier, run by onnxruntime: answers like a `MidFeaClassifier`, without its library."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from midfea.export import MissingExtra
from midfea.parallel import in_parallel
from midfea.pictures.images import ImageError, Images, scaled_shape, to_grey
from midfea.progress import track

FORMAT = 1
KINDS = {"U": str, "i": np.int64, "u": np.uint64, "f": np.float64, "b": bool, "O": object}


class OnnxClassifier:
    """The classifier in a file that `midfea export` wrote.

    Parameters
    ----------
    path : the `.onnx` file
    n_jobs : threads, one image each; None means all cores

    Attributes
    ----------
    classes_ : the labels, sorted

    Examples
    --------
    >>> from midfea.export.runtime import OnnxClassifier
    >>> OnnxClassifier("model.onnx").predict(["photo.jpg"])  # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike[str], n_jobs: int | None = None) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingExtra("onnxruntime") from None
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path}: no such model file")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # images go side by side instead
        options.log_severity_level = 4  # errors come as exceptions
        try:
            self._session = onnxruntime.InferenceSession(
                os.fspath(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime raises kinds of its own
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"{path}: not an ONNX model, or damaged, or cut short ({reason}): export it again"
            ) from None
        about = _description(self._session, path)
        self.n_jobs = n_jobs
        self.classes_: NDArray[Any] = np.array(about["classes"], dtype=KINDS[about["classes_kind"]])
        self.settings_ = {"max_side": about["max_side"]}
        self.min_side = int(about["min_side"])
        self.reads_files = self._colour = bool(about["colour"])  # reduced copies have lost the colours

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes), columns in the order of `classes_`."""
        checked = Images(images)
        n_threads = int(joblib.effective_n_jobs(-1 if self.n_jobs is None else self.n_jobs))
        work = in_parallel(lambda i: self._of_image(checked, i), range(len(checked)), n_threads)
        return np.stack(list(track(work, "answers", len(checked))))

    def predict(self, images: Any) -> NDArray[Any]:
        """The label of each image."""
        return self.classes_[self.predict_proba(images).argmax(axis=1)]

    def _of_image(self, images: Images, index: int) -> NDArray[np.float64]:
        pixels = images[index]
        if self._colour and pixels.ndim == 2 and images.opponents(index):
            raise ImageError(f"{images.name(index)} was reduced already: give the names of files")
        shape, max_side = pixels.shape[:2], self.settings_["max_side"]
        if max_side is not None and max(shape) > max_side:
            shape = scaled_shape(shape, max_side / max(shape))
        if min(shape) < self.min_side:
            raise ImageError(
                f"{images.name(index)} has {shape[0]}x{shape[1]} pixels, at least "
                f"{self.min_side}x{self.min_side} are needed: leave it out"
            )
        try:
            batch = _three_channels(pixels)[None]
        except ImageError as error:
            raise ImageError(f"{images.name(index)} {error}") from None
        answer = self._session.run(["probabilities"], {"images": batch})[0][0]
        return np.asarray(answer, dtype=np.float64)


def _three_channels(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """As the model wants an image: uint8 (height, width, 3)."""
    if pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] == 3:
        return pixels
    grey = to_grey(pixels)
    if grey.dtype != np.uint8:  # of more than 8 bits: the chain does not know their unit anyway
        top = max(float(grey.max()), 1e-12)
        grey = np.clip(np.rint(grey * (255 / top)), 0, 255).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def _description(session: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        about = json.loads(session.get_modelmeta().custom_metadata_map["midfea"])
        written, kind = about["format"], about["class"]
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{path}: an ONNX model, but not one of midfea's: write one with midfea export"
        ) from None
    if written != FORMAT:
        raise ValueError(
            f"{path}: written in format {written!r}, this midfea reads format {FORMAT}: "
            "install a newer midfea (pip install -U midfea)"
        )
    if kind != "MidFeaClassifier":
        raise ValueError(f"{path}: holds a {kind}, a classifier is needed")
    return dict(about)
