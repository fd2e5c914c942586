"""Trained models for other programs: one ONNX file from pixels to probabilities.

`to_onnx` makes it, `write_onnx` writes it, `runtime.OnnxClassifier` runs it. Needs
`pip install "midfea[onnx]"`: onnx to make a file, onnxruntime to run it.
"""

from __future__ import annotations

import os
from typing import Any


class MissingExtra(ImportError, ValueError):
    """A package of the extra is not there. As a ValueError the command tells it in one line."""

    def __init__(self, package: str) -> None:
        super().__init__(f'this needs {package}: pip install "midfea[onnx]"')


def to_onnx(model: Any) -> Any:
    """A fitted `MidFeaClassifier` or `MidFeaRegressor` as an ONNX model.

    The model takes "images", uint8 (n, height, width, 3), any number of any one size (grey images have
    three equal channels), and gives "probabilities", float32 (n, n_classes), or "numbers" (n,). It uses
    standard operators only. Its metadata hold a JSON description with the names of the classes.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> import onnx, midfea
    >>> from midfea.export import to_onnx
    >>> onnx.save(to_onnx(midfea.load("model.midfea")), "model.onnx")  # doctest: +SKIP
    """
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise MissingExtra("onnx") from None
    from midfea.export.model import build

    return build(model)


def write_onnx(model: Any, path: str | os.PathLike[str]) -> None:
    """Write `to_onnx(model)`; the file appears whole or not at all."""
    from midfea.files import replacing

    made = to_onnx(model)
    with replacing(path) as temporary:
        temporary.write_bytes(made.SerializeToString())
