"""What an exported file says of itself, and an exported classifier, run by onnxruntime.

The classifier answers like a `MidFeaClassifier`, without its library.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import joblib
import numpy as np
from numpy.typing import NDArray

from midfea import __version__
from midfea.export import MissingExtra
from midfea.parallel import in_parallel
from midfea.pictures.images import Images, too_small
from midfea.pictures.picture import Picture, to_grey
from midfea.pictures.reading import ImageError, over_white, read_image
from midfea.pictures.resize import scaled_shape
from midfea.progress import track

if TYPE_CHECKING:
    from midfea.estimators.classifier import MidFeaClassifier


FORMAT = 1
METADATA_KEY = "midfea"
CLASS_TYPES = {"U": str, "i": np.int64, "u": np.uint64, "f": np.float64, "b": bool, "O": object}
Predictor: TypeAlias = "MidFeaClassifier | OnnxClassifier"


@dataclass(frozen=True, eq=False)
class Description:
    """The metadata of an exported file."""

    estimator: Literal["MidFeaClassifier", "MidFeaRegressor"]
    max_side: int | None  # pixels: the file reduces larger images
    min_side: int  # pixels: smaller images cannot be used
    classes: NDArray[Any]  # the labels, in the order of the columns; none for a regressor

    def to_json(self) -> str:
        """As it is written into the file."""
        origin = {"format": FORMAT, "version": __version__, "class": self.estimator}
        sides = {"max_side": self.max_side, "min_side": self.min_side}
        classes = {"classes": self.classes.tolist(), "classes_kind": self.classes.dtype.kind}
        return json.dumps(origin | sides | classes)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """The description in a file; ValueError says why it cannot be used."""
        try:
            content = json.loads(text)
            written = content["format"]
        except (KeyError, TypeError, ValueError):
            message = "an ONNX model, but not one of midfea's: write one with midfea export"
            raise ValueError(message) from None
        if written != FORMAT:
            raise ValueError(
                f"written in format {written!r}, this midfea reads format {FORMAT}: "
                "install a newer midfea (pip install -U midfea)"
            )
        kind = CLASS_TYPES[content["classes_kind"]]
        classes: NDArray[Any] = np.array(content["classes"], dtype=kind)
        return cls(content["class"], content["max_side"], content["min_side"], classes)


class OnnxClassifier:
    """The classifier in a file that `midfea export` wrote.

    Parameters
    ----------
    path : the `.onnx` file
    n_jobs : threads, one image each; None means all cores

    Attributes
    ----------
    classes_ : the labels, sorted
    max_side, min_side : larger images are reduced, smaller ones are refused

    Examples
    --------
    >>> from midfea.export.runtime import OnnxClassifier
    >>> OnnxClassifier("model.onnx").predict(["photo.jpg"])  # doctest: +SKIP
    """

    rounded = False
    reads_files = True  # the file wants whole images: a `Picture` has been reduced already

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
        metadata = self._session.get_modelmeta().custom_metadata_map
        try:
            description = Description.from_json(metadata.get(METADATA_KEY, ""))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if description.estimator != "MidFeaClassifier":
            raise ValueError(f"{path}: holds a {description.estimator}, a classifier is needed")
        self.n_jobs = n_jobs
        self.classes_ = description.classes
        self.max_side, self.min_side = description.max_side, description.min_side

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes), columns in the order of `classes_`."""
        names, items = Images(images), list(images)

        def answer(index: int) -> NDArray[np.float64]:
            try:
                pixels = self._pixels(items[index])
            except ImageError as error:
                name, message = names.name(index), str(error)
                raise ImageError(message if message.startswith(name) else f"{name} {error}") from None
            result = self._session.run(["probabilities"], {"images": pixels[None]})[0][0]
            return np.asarray(result, dtype=np.float64)

        n_threads = int(joblib.effective_n_jobs(-1 if self.n_jobs is None else self.n_jobs))
        work = in_parallel(answer, range(len(items)), n_threads)
        return np.stack(list(track(work, "answers", len(items))))

    def predict(self, images: Any) -> NDArray[Any]:
        """The label of each image."""
        return self.classes_[self.predict_proba(images).argmax(axis=1)]

    def _pixels(self, item: Any) -> NDArray[np.uint8]:
        """An image as the file wants it, uint8 (height, width, 3); ImageError if it is too small."""
        if isinstance(item, Picture):
            raise ImageError("was reduced already: give the names of files")
        pixels = read_image(item) if isinstance(item, str | os.PathLike) else np.asarray(item)
        shape, longest = pixels.shape[:2], max(pixels.shape[:2])
        if self.max_side is not None and longest > self.max_side:
            shape = scaled_shape(shape, self.max_side / longest)
        if min(shape) < self.min_side:
            raise ImageError(too_small(pixels.shape[:2], shape, self.min_side))
        if pixels.dtype == np.uint8 and pixels.ndim == 3 and pixels.shape[2] > 1:
            return over_white(pixels) if pixels.shape[2] == 4 else pixels
        grey = to_grey(pixels)
        if grey.dtype != np.uint8:  # of more than 8 bits: the chain does not know their unit anyway
            white = max(float(grey.max()), 1e-12)
            grey = np.clip(np.rint(grey * (255 / white)), 0, 255).astype(np.uint8)
        return np.repeat(grey[:, :, None], 3, axis=2)
