"""The page of the report: its parts in order, and the file."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from midfea import __version__
from midfea.files import replacing
from midfea.learning.curve import LearningCurve
from midfea.learning.predictions import Predictions
from midfea.report import inside as inside_parts
from midfea.report.facts import Facts, command_line, milliseconds_per_image, versions
from midfea.report.gallery import Gallery, mistakes, script_data
from midfea.report.inside import Classifier, Inside
from midfea.view import charts, confusion
from midfea.view import inside as inside_view
from midfea.view.markup import Part, facts, page, static, text

FOLDER = Path(__file__).parent
DIALOG = (
    '<dialog id="images" aria-labelledby="images-title"><div class="top"><h2 id="images-title"></h2>'
    '<button type="button" id="images-close">Close</button></div><p id="images-note"></p>'
    '<div class="gallery" id="images-list"></div></dialog>'
)


def write_report(
    path: str | os.PathLike[str],
    classifier: Classifier,
    predictions: Predictions,
    gallery: Gallery,
    about: Facts,
    curve: LearningCurve | None = None,
) -> None:
    """Write how well a fitted classifier predicts labelled images, and what is inside it.

    Parameters
    ----------
    predictions : for images that the classifier, or one like it, did not learn from
    gallery : those images, in the same order
    curve : of the training images, if they are at hand
    """
    inside = Inside.of(classifier)
    parts = _parts(inside, predictions, gallery, curve)
    parts.append(Part("how", "How this was made", _made(inside, about)))
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
        temporary.write_text(whole, encoding="utf-8")


def _parts(
    inside: Inside | None, predictions: Predictions, gallery: Gallery, curve: LearningCurve | None
) -> list[Part]:
    parts = [
        Part("confusion", "Confusion matrix", confusion.matrix(predictions)),
        Part("pairs", "The most confused pairs", confusion.pairs(predictions), half=True),
        Part("classes", "Recall and precision", confusion.class_table(predictions), half=True),
        Part("mistakes", "Confident mistakes", mistakes(predictions, gallery)),
    ]
    if curve is not None:
        alone = inside is None or inside.features_only
        note = "" if alone else "The curve is that of the SVM on the features alone."
        body = charts.learning_curve(curve, note)
        parts.append(Part("curve", "Would more images help?", body, half=True))
    if inside is not None:
        body = inside_view.filters(inside.filters)
        parts.append(Part("filters", "Filters", body, half=curve is not None))
        body = inside_parts.stage_maps(inside, predictions, gallery.images)
        parts.append(Part("stages", "What the stages see", body))
        if inside.class_responses is not None:
            body = inside_view.neurons(inside.class_responses, predictions.classes)
            parts.append(Part("neurons", "Neurons by class", body))
    return parts


def _headline(classifier: Classifier, predictions: Predictions, gallery: Gallery, about: Facts) -> str:
    n_images = len(predictions.labels)
    if not n_images:
        return "<p>The accuracy is not known: no image could be used for validation.</p>"
    tiles = {
        "images": f"{n_images:,}",
        "mistakes": f"{n_images - int(predictions.correct.sum()):,}",
        "mean recall of the classes": f"{predictions.mean_recall:.1%}",
        "time for an image": f"{milliseconds_per_image(classifier, gallery.images):.1f} ms",
    }
    tiles |= {name: f"{accuracy:.1%}" for name, accuracy in about.others.items()}
    return f"{charts.headline(about.interval)}<p>{text(about.how)}</p>{facts(tiles.items(), 'tiles')}"


def _made(inside: Inside | None, about: Facts) -> str:
    rows = {"Command": command_line()}
    if about.learned:
        rows["Learned from"] = about.learned
    if about.seed is not None:
        rows["Seed"] = str(about.seed)
    rows["Versions"] = ", ".join(f"{name} {number}" for name, number in versions().items())
    rows["Time for an image"] = (
        "median over single images, already read and reduced, on the machine that made this report"
    )
    if inside is None:
        return facts(rows.items(), "made")
    settings = "".join(
        f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>'
        for name, value in sorted(inside.settings.items())
    )
    return (
        f"{facts(rows.items(), 'made')}<details><summary>All settings</summary>"
        f'<div class="scroll"><table class="plain">{settings}</table></div></details>'
    )
