"""Trained models for other programs: one ONNX file from pixels to probabilities.

`to_onnx` makes it, `write_onnx` writes it, `runtime.OnnxClassifier` runs it. Needs
the extra `onnx`: onnx to make a file, onnxruntime to run it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.estimators.regressor import MidFeaRegressor


def to_onnx(model: MidFeaClassifier | MidFeaRegressor) -> onnx.ModelProto:
    """A fitted `MidFeaClassifier` or `MidFeaRegressor` as an ONNX model.

    The model takes "images", uint8 (n, height, width, 3), any number of any one size (grey images have
    three equal channels). It gives "probabilities", float32 (n, n_classes), and "belonging" (n,), how
    much each image looks like images of the classes; or "numbers" (n,). It uses standard operators
    only. Its metadata hold a JSON description with the names of the classes.

    Examples
    --------
    >>> import onnx, midfea
    >>> from midfea.export import to_onnx
    >>> onnx.save(to_onnx(midfea.load("model.midfea")), "model.onnx")  # doctest: +SKIP
    """
    from sklearn.utils.validation import check_is_fitted

    from midfea.estimators.classifier import MidFeaClassifier
    from midfea.estimators.regressor import MidFeaRegressor
    from midfea.extras import require

    require("onnx", "an ONNX file")
    from midfea.export.model import build

    if not isinstance(model, MidFeaClassifier | MidFeaRegressor):
        raise TypeError(
            f"{type(model).__name__} cannot be exported: only MidFeaClassifier and MidFeaRegressor can"
        )
    check_is_fitted(model, "extractor_")
    return build(model.parts_)


def write_onnx(model: MidFeaClassifier | MidFeaRegressor, path: str | os.PathLike[str]) -> None:
    """Write `to_onnx(model)`; the file appears whole or not at all."""
    from midfea.files import replacing

    content = to_onnx(model).SerializeToString()
    with replacing(path) as temporary:
        temporary.write_bytes(content)
