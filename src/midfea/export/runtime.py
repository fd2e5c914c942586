"""What an exported file says of itself, and an exported classifier, run by onnxruntime.

The classifier answers like a `MidFeaClassifier`, without its library.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from midfea import __version__, checksum
from midfea.extras import require
from midfea.files import open_regular
from midfea.model_file.schema import ModelFileError, Number, read_classes, written_classes
from midfea.parallel import in_parallel, n_threads
from midfea.pictures.images import Images, too_small
from midfea.pictures.picture import Picture, to_grey
from midfea.pictures.reading import ImageError, over_white, read_image
from midfea.pictures.resize import scaled_shape
from midfea.progress import track

if TYPE_CHECKING:
    import onnx
    import onnxruntime

    from midfea.estimators.classifier import MidFeaClassifier


FORMAT = 2  # 1 had no checksum
METADATA_KEY = "midfea"
OUTPUTS = ("probabilities", "belonging")  # the second is missing in older files
MAX_SIDE_PIXELS = 1_000_000
LOOPS = ("Loop", "SequenceMap")  # a file of ours has none: each image is looked at once (Scan)
Predictor: TypeAlias = "MidFeaClassifier | OnnxClassifier"


@dataclass(frozen=True, eq=False)
class Description:
    """The metadata of an exported file."""

    estimator: Literal["MidFeaClassifier", "MidFeaRegressor"]
    max_side: int | None  # pixels: the file reduces larger images
    min_side: int  # pixels: smaller images cannot be used
    classes: NDArray[Any]  # the labels, in the order of the columns; none for a regressor
    format: int = FORMAT
    midfea: str = __version__  # that wrote it

    def to_json(self) -> str:
        """As it is written into the file, which is sealed afterwards (`midfea.checksum`)."""
        origin = {"checksum": checksum.EMPTY, "format": FORMAT, "version": __version__}
        sides = {"class": self.estimator, "max_side": self.max_side, "min_side": self.min_side}
        classes = {"classes": written_classes(self.classes), "classes_kind": self.classes.dtype.kind}
        return json.dumps(origin | sides | classes)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """The description in a file; ModelFileError says why it cannot be used."""
        try:
            content = json.loads(text)
            written = content["format"]
        except (KeyError, TypeError, ValueError, RecursionError):
            message = "an ONNX model, but not one of midfea's: write one with midfea export"
            raise ModelFileError(message) from None
        if written not in (1, FORMAT):
            raise ModelFileError(
                f"written in format {written!r:.20}, this midfea reads formats 1 and {FORMAT}: "
                "install a newer midfea (pip install -U midfea)"
            )
        try:
            estimator, side = content["class"], Number(1, MAX_SIDE_PIXELS, whole=True)
            max_side = (
                None if content["max_side"] is None else side.check("max_side", content["max_side"])
            )
            min_side = side.check("min_side", content["min_side"])
            classes = np.array([]) if estimator == "MidFeaRegressor" else read_classes(content)
            midfea = str(content["version"]) if "version" in content else "unknown"
            return cls(estimator, max_side, min_side, classes, written, midfea)
        except ModelFileError:
            raise
        except Exception as error:  # whatever a description can be made to do
            raise ModelFileError(f"the model's description is damaged ({error!r:.200})") from None


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
    description : what the file says of itself

    Examples
    --------
    >>> from midfea.export.runtime import OnnxClassifier
    >>> OnnxClassifier("model.onnx").predict(["photo.jpg"])  # doctest: +SKIP
    """

    unknown: float | None = None  # no image is refused unless it is asked for
    rounded = False
    reads_files = True  # the file wants whole images: a `Picture` has been reduced already

    def __init__(self, path: str | os.PathLike[str], n_jobs: int | None = None) -> None:
        content = _content(path)
        try:
            self._session, self.description = _open(content)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from None
        given = {output.name for output in self._session.get_outputs()}
        self._outputs = [name for name in OUTPUTS if name in given]
        self.n_jobs = n_jobs
        self.classes_ = self.description.classes
        self.max_side, self.min_side = self.description.max_side, self.description.min_side

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes), columns in the order of `classes_`."""
        return self.predict_all(images)[0]

    def predict_all(self, images: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`predict_proba`, and how much each image looks like images of the classes, (n,).

        See `MidFeaClassifier.belonging`; NaN if the file does not say.
        """
        names, items = Images(images), list(images)

        def answer(index: int) -> tuple[NDArray[np.float64], float]:
            try:
                pixels = self._pixels(items[index])
            except ImageError as error:
                name, message = names.name(index), str(error)
                raise ImageError(message if message.startswith(name) else f"{name} {error}") from None
            results = self._session.run(self._outputs, {"images": pixels[None]})
            if not all(np.isfinite(result).all() for result in results):
                raise ModelFileError("the exported model gives NaN or infinity: export it again")
            belonging = float(results[1][0]) if len(results) > 1 else float("nan")
            return np.asarray(results[0][0], dtype=np.float64), belonging

        work = in_parallel(answer, range(len(items)), n_threads(self.n_jobs))
        probabilities, belonging = zip(*track(work, "answers", len(items)), strict=True)
        return np.stack(probabilities), np.array(belonging)

    def problem_with_unknown(self, unknown: float) -> str:
        """Why no image can be refused; empty if that is not known."""
        return (
            "" if "belonging" in self._outputs else "the file does not hold what is needed: export again"
        )

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


def describe(path: str | os.PathLike[str]) -> Description:
    """What an exported file says of itself; ModelFileError if it is damaged or not one of ours."""
    content = _content(path)
    try:
        return _described(content)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open_regular(path) as file:
            return file.read()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such model file") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror or error})") from None


def _described(content: bytes) -> Description:
    """What a file says of itself; ModelFileError if it is not what `midfea export` wrote."""
    require("onnx", "an ONNX file")
    import onnx

    try:
        model = onnx.ModelProto.FromString(content)
        description = Description.from_json(_metadata(model))
        if description.format > 1 and checksum.is_sound(content) is not True:
            raise ModelFileError(
                "damaged: its checksum does not agree with its content; export it again"
            )
        if any(name in LOOPS for name in _operators(model.graph)):
            raise ModelFileError("holds loops, which no file of midfea has: export it again")
    except ModelFileError:
        raise
    except Exception as error:  # protobuf raises kinds of its own
        raise _not_a_model(error) from None
    return description


def _open(content: bytes) -> tuple[onnxruntime.InferenceSession, Description]:
    """A session and what the file says of itself; ModelFileError if it is not a classifier of ours."""
    description = _described(content)
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # images go side by side instead
    options.log_severity_level = 4  # errors come as exceptions
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        shape = session.get_outputs()[0].shape
    except Exception as error:  # onnxruntime raises kinds of its own
        raise _not_a_model(error) from None
    if description.estimator != "MidFeaClassifier":
        raise ModelFileError(f"holds a {description.estimator!r:.50}, a classifier is needed")
    if shape[1:] != [len(description.classes)]:
        raise ModelFileError(f"gives {shape[1:]} numbers for {len(description.classes)} classes")
    return session, description


def _not_a_model(error: Exception) -> ModelFileError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return ModelFileError(
        f"not an ONNX model, or damaged, or cut short ({reason:.200}): export it again"
    )


def _metadata(model: onnx.ModelProto) -> str:
    return next((str(entry.value) for entry in model.metadata_props if entry.key == METADATA_KEY), "")


def _operators(graph: onnx.GraphProto) -> Iterator[str]:
    """The operators of a graph and of the graphs inside them."""
    for node in graph.node:
        yield node.op_type
        for attribute in node.attribute:
            for inside in (attribute.g, *attribute.graphs):
                yield from _operators(inside)
