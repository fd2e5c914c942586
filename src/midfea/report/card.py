"""The model card: a page of Markdown that goes with a model file."""

from __future__ import annotations

from datetime import date
from typing import Any

from midfea.learning.predictions import Predictions
from midfea.report.about import About, Measured
from midfea.view.confusion import share
from midfea.view.decisions import usual_promises

FEW_IMAGES = 50  # of a class in validation: its recall is hardly known
MAX_LISTED = 12
SECTIONS = (
    "Data",
    "How it was trained",
    "How good it is",
    "What can be decided",
    "Limits",
    "How to use it",
)


def card(about: About) -> str:
    """The card of a model file."""
    classes = f" of {len(about.classes)} classes" if about.classes else ""
    bodies = (
        _data(about),
        _training(about),
        _accuracy(about),
        _decisions(about),
        _limits(about),
        _use(about),
    )
    lines = [f"# Model card: {_plain(about.name)}", "", f"{about.what}{classes}, made by midfea."]
    for title, body in zip(SECTIONS, bodies, strict=True):
        if body:
            lines += ["", f"## {title}", "", *body]
    lines += ["", f"Written on {date.today()} by `midfea info {_plain(about.name)} --card`."]
    return "\n".join(lines) + "\n"


def _data(about: About) -> list[str]:
    lines = [f"- Images: {about.images}."]
    if about.classes:
        lines.insert(0, f"- Classes: {_listed(about.classes)}.")
    if about.measured is not None:
        lines.append(
            "- The table below counts the training images that were used for validation. The file does "
            "not hold the images, where they come from, or who labelled them: **write it here**."
        )
    return lines


def _training(about: About) -> list[str]:
    midfea = "" if about.midfea is None else f", by midfea {about.midfea}"
    lines = [f"- File: {about.n_bytes / 1e6:.1f} MB, format {about.format}{midfea}."]
    if about.sizes is not None:
        lines.append(f"- Learned: {about.sizes}.")
    if about.settings is not None:
        preset = f"preset `{about.preset}`" if about.preset else "no preset"
        values = ", ".join(f"`{name}={_value(value)}`" for name, value in (about.chosen or {}).items())
        lines.append(f"- Settings: {preset}{'; ' if values else ''}{values}.")
    else:
        lines.append("- The settings are in the `.midfea` file from which this file was exported.")
    return lines


def _accuracy(about: About) -> list[str]:
    if not about.classes:
        return []
    if about.measured is None:
        return [f"{unknown_accuracy(about)}."]
    predictions = about.measured.predictions
    lines = [f"Accuracy on new images of the same kind: **{about.measured.interval}**,"]
    lines += [f"{about.measured.how}.", "", *map(_plain, predictions.beyond_accuracy), ""]
    lines += ["| class | images | recall | 95 % interval | precision |", "|---|---:|---:|---:|---:|"]
    for row in predictions.per_class:
        interval = f"{row.interval.low:.0%} to {row.interval.high:.0%}" if row.images else ""
        cells = (_plain(row.name), f"{row.images:,}", share(row.recall), interval, share(row.precision))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def unknown_accuracy(about: About) -> str:
    """Why no accuracy is known, and how to get one."""
    if about.format.startswith("onnx"):
        return "The accuracy is in the .midfea file from which this file was exported, not in this file"
    return "The accuracy is not known: no image could be held out when the model was trained"


def _decisions(about: About) -> list[str]:
    if about.measured is None:
        return []
    return [f"- {_plain(sentence)}" for sentence in usual_promises(about.measured.predictions)]


def _limits(about: About) -> list[str]:
    if not about.classes:
        return []
    lines = [
        "It gives one answer for a whole image: not where something is, nor several things at once.",
        "It answers with one of its classes, also for an image of something else, unless it is asked to "
        "refuse such images (`--unknown`); images that are very like a class pass even then.",
        "It was tested on images like those it learned from, not on other cameras, places, light or "
        "times. Test it on such images with `midfea evaluate` before you rely on it.",
        "If images came in series that were not kept together, the accuracy is too high for new series.",
    ]
    if about.colour is False:
        lines.append("It does not see colours: red and green of the same brightness are the same.")
    if about.measured is not None:
        lines += _limits_of(about.measured)
    return [f"- {line}" for line in lines]


def _limits_of(measured: Measured) -> list[str]:
    lines, predictions = [], measured.predictions
    if predictions.unequal:
        rarest = predictions.rarest
        lines.append(
            "The classes are unequal: look at the mean recall, not at the accuracy. Of the rarest, "
            f"{_plain(rarest.name)}, {share(rarest.recall)} are found in validation."
        )
    few = _few(predictions)
    if few:
        lines.append(
            f"Few images: fewer than {FEW_IMAGES} in validation for {_listed(few)}. How well these are "
            "found is hardly known; see the intervals."
        )
    return lines


def _few(predictions: Predictions) -> list[str]:
    return [row.name for row in predictions.per_class if row.images < FEW_IMAGES]


def _use(about: About) -> list[str]:
    name = _plain(about.name)
    command = f"    midfea predict {name} PHOTOS" if about.classes else ""
    if about.format.startswith("onnx"):
        python = "from midfea.export.runtime import OnnxClassifier"
        made = f'model = OnnxClassifier("{name}")'
    else:
        python, made = "import midfea", f'model = midfea.load("{name}")'
    answer = "model.transform" if about.kind == "MidFea" else "model.predict"
    lines = ["```python", python, "", made, f'{answer}(["photo.jpg"])', "```"]
    return [command, "", *lines] if command else lines


def _listed(names: list[str]) -> str:
    shown = ", ".join(_plain(name) for name in names[:MAX_LISTED])
    more = len(names) - MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def _value(value: Any) -> str:
    return str(value).replace("`", "'")


def _plain(text: str) -> str:
    """On one line, and without what Markdown would take for a table, a link, or HTML."""
    words = " ".join(text.split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in words)
