"""What an exported file says of itself, and the packages that writing and running it need."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from midfea import __version__

FORMAT = 1
METADATA_KEY = "midfea"
CLASS_TYPES = {"U": str, "i": np.int64, "u": np.uint64, "f": np.float64, "b": bool, "O": object}


class MissingExtra(ImportError, ValueError):
    """A package of the extra is not installed. As a ValueError the command reports it in one line."""

    def __init__(self, package: str) -> None:
        super().__init__(f'this needs {package}: pip install "midfea[onnx]"')


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
