"""`midfea export`: a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midfea.cli.mending import check_model
from midfea.cli.options import Model


def export(
    model: Model,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file to write. Default: the model's name, .onnx."),
    ] = None,
) -> None:
    """Write a model as an ONNX file: pixels in, probabilities out.

    It runs wherever onnxruntime does, also in a browser, without midfea, and
    gives the same predictions. midfea predict takes it too.

    Example: midfea export pets.midfea -o pets.onnx
    """
    from midfea.estimators.saved import load
    from midfea.estimators.transformer import MidFea
    from midfea.export import write_onnx
    from midfea.files import check_writable

    target = model.with_suffix(".onnx") if output is None else output
    check_writable(target)
    check_model(model)
    fitted = load(model)
    if isinstance(fitted, MidFea):
        raise ValueError(f"{model}: holds a MidFea, a classifier or a regressor is needed")
    write_onnx(fitted, target)
    print(f"Model: {target} ({target.stat().st_size / 1e6:.1f} MB)")
