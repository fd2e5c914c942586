"""The page of the report: its parts in order, how the result came about, and the file."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from midfea import __version__
from midfea.estimators.classifier import MidFeaClassifier
from midfea.estimators.presets import NO_NETWORK
from midfea.files import replacing
from midfea.learning.curve import LearningCurve
from midfea.learning.interval import Interval
from midfea.learning.predictions import Predictions
from midfea.learning.refusal import Refusal
from midfea.provenance import command_line
from midfea.report.gallery import Gallery, mistakes, script_data, stage_maps
from midfea.view import charts, confusion, decisions, inside
from midfea.view.markup import Part, facts, page, scrollable, static, text
from midfea.view.refusal import refusal_text

if TYPE_CHECKING:
    from midfea.export.runtime import Predictor

FOLDER = Path(__file__).parent
N_TIMED_IMAGES = 15
N_BEFORE_REFUSAL = 4  # parts of the page
DIALOG = (
    '<dialog id="images" aria-labelledby="images-title"><div class="top"><h2 id="images-title"></h2>'
    '<button type="button" id="images-close">Close</button></div><p id="images-note"></p>'
    '<div class="gallery" id="images-list"></div></dialog>'
)


@dataclass(frozen=True)
class Facts:
    """What a report says beside the predictions themselves.

    title : of the page
    interval : the accuracy and its interval
    how : a sentence on how the accuracy was measured
    learned : training images and time; empty if not known
    seed : of the command; None if it has none
    others : accuracies of other methods on the same images, by name
    skipped : files that were left out, each with the reason
    """

    title: str
    interval: Interval
    how: str
    learned: str = ""
    seed: int | None = None
    others: dict[str, float] = field(default_factory=dict)
    skipped: Sequence[tuple[str, str]] = ()


def write_report(
    path: str | os.PathLike[str],
    classifier: Predictor,
    predictions: Predictions,
    gallery: Gallery,
    about: Facts,
    curve: LearningCurve | None = None,
    refusal: Refusal | None = None,
) -> None:
    """Write how well a fitted classifier predicts labelled images, and what is inside it.

    Parameters
    ----------
    classifier : the inside of a `MidFeaClassifier` is shown, that of others is not known
    predictions : for images that the classifier, or one like it, did not learn from
    gallery : those images, in the same order
    curve : of the training images, if they are at hand
    refusal : how images of other things are refused, if that was measured
    """
    model = classifier if isinstance(classifier, MidFeaClassifier) else None
    parts = _parts(model, predictions, about.interval, gallery, curve)
    if refusal is not None:
        parts.insert(N_BEFORE_REFUSAL, Part("unknown", "None of these", refusal_text(refusal)))
    if about.skipped:
        rows = "".join(f"<tr><td>{text(f)}<td>{text(why)}" for f, why in about.skipped)
        listed = scrollable("Files left out", f"<table><tr><th>File<th>Why{rows}</table>")
        parts.append(Part("skipped", f"Files left out ({len(about.skipped)})", listed))
    parts.append(Part("how", "How this was made", _made(model, about)))
    links = "".join(f'<a href="#{part.name}">{text(part.title)}</a>' for part in parts)
    body = (
        f'<header class="card"><p class="over">midfea report</p><h1>{text(about.title)}</h1>'
        f"{_headline(classifier, predictions, gallery, about)}"
        f'<nav aria-label="Parts">{links}</nav></header>'
        f'<main class="parts">{"".join(part.markup() for part in parts)}</main>'
        f"<footer>midfea {__version__}, {datetime.now():%Y-%m-%d %H:%M}</footer>{DIALOG}"
        f"{script_data(predictions, gallery)}<script>{static('matrix.js')}"
        f"{(FOLDER / 'report.js').read_text(encoding='utf-8')}</script>"
    )
    with replacing(path) as temporary:
        whole = page(f"{about.title} – midfea report", body, FOLDER / "report.css")
        temporary.write_text(whole, encoding="utf-8", errors="backslashreplace")


def _parts(
    model: MidFeaClassifier | None,
    predictions: Predictions,
    interval: Interval,
    gallery: Gallery,
    curve: LearningCurve | None,
) -> list[Part]:
    parts = [
        Part("confusion", "Confusion matrix", confusion.matrix(predictions)),
        Part("pairs", "The most confused pairs", confusion.pairs(predictions), half=True),
        Part("classes", "Recall and precision", confusion.class_table(predictions), half=True),
        Part("decisions", "What can be decided", decisions.promises(predictions)),
        Part("mistakes", "Wrong predictions", mistakes(predictions, interval, gallery)),
    ]
    if curve is not None:
        alone = model is None or (model.ns_layer_ is None and model.network_ is None)
        note = "" if alone else "The curve is that of the SVM on the features alone."
        body = charts.learning_curve(curve, note)
        parts.append(Part("curve", "Would more images help?", body, half=True))
    if model is not None:
        body = inside.filters(model.filters_)
        parts.append(Part("filters", "Filters", body, half=curve is not None))
        body = stage_maps(model, predictions, gallery.images)
        parts.append(Part("stages", "What the stages see", body))
        if model.ns_layer_ is not None:
            body = inside.neurons(model.ns_layer_.class_responses, predictions.classes)
            parts.append(Part("neurons", "Neurons by class", body))
    return parts


def _headline(classifier: Predictor, predictions: Predictions, gallery: Gallery, about: Facts) -> str:
    n_images = len(predictions.labels)
    if not n_images:
        return "<p>The accuracy is not known: no image could be used for validation.</p>"
    tiles = {
        "images": f"{n_images:,}",
        "mistakes": f"{n_images - int(predictions.correct.sum()):,}",
        "mean recall of the classes": f"{predictions.mean_recall:.1%}",
        "time for an image": f"{milliseconds_per_image(classifier, gallery.images):.1f} ms",
    }
    if math.isnan(about.interval.accuracy):
        del tiles["mean recall of the classes"]
    tiles |= {name: f"{accuracy:.1%}" for name, accuracy in about.others.items()}
    large = charts.headlines(about.interval, predictions)
    return f"{large}<p>{text(about.how)}</p>{facts(tiles.items(), 'tiles')}"


def _made(model: MidFeaClassifier | None, about: Facts) -> str:
    rows = {"Command": command_line()}
    if about.learned:
        rows["Learned from"] = about.learned
    if model is not None and model.lacks_network:
        rows["Network"] = f"{NO_NETWORK}."
    if about.seed is not None:
        rows["Seed"] = str(about.seed)
    rows["Versions"] = ", ".join(f"{name} {number}" for name, number in _versions().items())
    rows["Time for an image"] = (
        "median over single images, already read and reduced, on the machine that made this report"
    )
    if model is None:
        return facts(rows.items(), "made")
    settings = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>'
        for name, value in sorted(model.settings_.items())
    )
    return (
        f"{facts(rows.items(), 'made')}<details><summary>All settings</summary>"
        f'<div class="scroll"><table class="plain">{settings}</table></div></details>'
    )


def _versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    numbers = {"midfea": __version__, "Python": platform.python_version()}
    numbers |= {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba", "pillow")}
    return numbers | {"system": f"{platform.system()} {platform.machine()}"}


def milliseconds_per_image(classifier: Predictor, images: Sequence[Any]) -> float:
    """The median time of a prediction, each image given alone; the first one does not count."""
    times = []
    for image in [images[0], *images[:N_TIMED_IMAGES]]:
        begun = time.perf_counter()
        classifier.predict_proba([image])
        times.append(1e3 * (time.perf_counter() - begun))
    return median(times[1:])
