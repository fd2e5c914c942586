"""Writes reference.md from the docstrings: python docs/reference.py"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import midfea
from midfea import baselines, datasets, evidence, export, plot, stages

PLACE = Path(__file__).with_suffix(".md")
METHODS = (
    "fit", "transform", "predict", "predict_proba", "decision_function", "score", "explain",
    "feature_maps", "save",
)  # fmt: skip


def page() -> str:
    """The whole reference."""
    lines = [
        "# Reference",
        "",
        "Made from the docstrings by `python docs/reference.py`. What users of scikit-learn expect of",
        "an estimator (`get_params`, `set_params`, `clone`, pipelines) is there too.",
        "",
    ]
    lines += ["## midfea", ""]
    for name in ("MidFea", "MidFeaClassifier", "MidFeaRegressor", "NeuronSelectivity"):
        lines += _class(getattr(midfea, name))
    lines += _function("midfea.load", midfea.load)
    lines += ["## midfea.baselines", "", inspect.getdoc(baselines) or "", ""]
    for name in baselines.__all__:
        if inspect.isclass(getattr(baselines, name)):
            lines += _class(getattr(baselines, name))
    for module in (stages, datasets, evidence, export, plot):
        lines += [f"## {module.__name__}", "", inspect.getdoc(module) or "", ""]
        names = getattr(module, "__all__", None) or [
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
        ]
        for name in names:
            value = getattr(module, name)
            if inspect.isfunction(value):
                lines += _function(f"{module.__name__}.{name}", value)
            elif inspect.isclass(value) and value.__doc__:
                lines += [f"### {module.__name__}.{name}", "", *_text(value), ""]
    return "\n".join(lines).rstrip() + "\n"


def _class(kind: Any) -> list[str]:
    lines = [f"### {kind.__name__}", "", *_text(kind), ""]
    for name in METHODS:
        method = getattr(kind, name, None)
        if method is not None and (inspect.getmodule(method) or midfea).__name__.startswith("midfea"):
            lines += [f"**{name}**`{_signature(method)}`", "", *_text(method), ""]
    return lines


def _function(name: str, value: Any) -> list[str]:
    return [f"### {name}", "", f"`{_signature(value)}`", "", *_text(value), ""]


def _signature(value: Any) -> str:
    return str(inspect.signature(value)).replace("'", "")


def _text(value: Any) -> list[str]:
    """A docstring as it is: numpydoc reads well in a block of its own."""
    first, *rest = (inspect.getdoc(value) or "").split("\n")
    body = "\n".join(rest).strip("\n")
    return [first, *(["", "```text", body, "```"] if body else [])]


if __name__ == "__main__":
    PLACE.write_text(page(), encoding="utf-8")
