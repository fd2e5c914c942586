"""The page: its parts in order, and the file."""

from __future__ import annotations

import math
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from midfea import __version__
from midfea.files import replacing
from midfea.learning.validation import learning_curve
from midfea.report import confusion, curve, inside
from midfea.report.answers import Answers
from midfea.report.facts import Facts, command_line, milliseconds_per_image, versions
from midfea.view.markup import Part, text

HERE = Path(__file__).parent


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    answers: Answers,
    facts: Facts,
    training_labels: Any = None,
) -> None:
    """Write what a fitted classifier says of labelled images, and what is inside it.

    Parameters
    ----------
    answers : for images that the classifier, or one like it, did not learn from
    training_labels : of the images that the model was fitted to with `keep_features` set, for the
        learning curve
    """
    parts = [
        Part("confusion", "Which classes are taken for which", confusion.matrix(answers)),
        Part("pairs", "The most confused pairs", confusion.pairs(answers), half=True),
        Part("classes", "Class by class", confusion.classes(answers), half=True),
        Part("mistakes", "Surely wrong", confusion.mistakes(answers)),
    ]
    if training_labels is not None:
        body = _learning_curve(model, training_labels)
        parts.append(Part("curve", "Would more images help?", body, half=True))
    if hasattr(model, "filters_"):  # a model of another kind, such as ONNX's, shows no inside
        half = training_labels is not None
        parts.append(Part("filters", "What it looks for", inside.filters(model), half))
        parts.append(Part("stages", "What it sees", inside.stage_maps(model, answers)))
    if getattr(model, "selectivity_", None) is not None:
        body = inside.neurons(model.selectivity_, model.classes_)
        parts.append(Part("neurons", "Which neurons fire for which class", body))
    parts.append(Part("how", "How this was made", _made(model, facts)))
    links = "".join(f'<a href="#{part.name}">{text(part.title)}</a>' for part in parts)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(facts.title)} – midfea report</title><style>{_read('page.css')}</style></head>"
        "<body>"
        f'<header><p class="over">midfea report</p><h1>{text(facts.title)}</h1>'
        f"{_headline(model, answers, facts)}<nav aria-label='Parts'>{links}</nav></header>"
        f"<main>{''.join(part.markup() for part in parts)}</main>"
        f"<footer>midfea {__version__}, {datetime.now():%Y-%m-%d %H:%M}</footer>"
        '<dialog id="images" aria-labelledby="images-title"><div class="top"><h2 id="images-title"></h2>'
        '<button id="images-close">Close</button></div><p id="images-note"></p>'
        '<div class="gallery" id="images-list"></div></dialog>'
        f"{confusion.gallery_data(answers)}<script>{_read('page.js')}</script></body></html>\n"
    )
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _headline(model: Any, answers: Answers, facts: Facts) -> str:
    found = facts.interval
    if math.isnan(found.accuracy):
        return "<p>How good the model is cannot be said: nothing could be held out.</p>"
    per_class = [answers.right[answers.shown == k].mean() for k in np.unique(answers.shown)]
    tiles = {
        "images answered": f"{len(answers.labels):,}",
        "told wrongly": f"{int((~answers.right).sum()):,}",
        "mean over classes": f"{np.mean(per_class):.1%}",
        "time for an image": f"{milliseconds_per_image(model, answers.images):.1f} ms",
    }
    tiles |= {name: f"{accuracy:.1%}" for name, accuracy in facts.others.items()}
    shown = "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in tiles.items())
    step = next(s for s in (0.02, 0.05, 0.1, 0.2) if found.low >= 1 - 5 * s)
    n_steps = math.ceil((1 - found.low) / step - 1e-9) or 1
    low = 1 - n_steps * step

    def place(share: float) -> float:
        return 100 * (share - low) / (1 - low)

    levels = [low + i * step for i in range(n_steps + 1)]
    marks = "".join(f'<span style="left:{place(v):.1f}%">{100 * v:.0f} %</span>' for v in levels)
    return (
        f'<div class="headline"><div><p class="accuracy">{found.accuracy:.1%}</p><p>right, '
        "95 % interval "
        f"<b>{100 * found.low:.1f} to {100 * found.high:.1f} %</b></p></div>"
        f'<div class="scale" aria-hidden="true"><i style="left:{place(found.low):.1f}%;'
        f'right:{100 - place(found.high):.1f}%"></i><b style="left:{place(found.accuracy):.1f}%"></b>'
        f'{marks}</div></div><p>{text(facts.how)}</p><dl class="tiles">{shown}</dl>'
    )


def _learning_curve(model: Any, labels: Any) -> str:
    y = np.searchsorted(model.classes_, np.asarray(labels))
    found = learning_curve(model.training_features_, y, model.C_, model.random_state or 0)
    if not found.sizes:
        return f"<p>{curve.verdict(found)}</p>"
    beside = ""
    if model.selectivity_ is not None or model.network_ is not None:
        beside = " The curve is that of the SVM on the features alone."
    return (
        f"<p>{text(curve.verdict(found))}{beside}</p>{curve.drawing(found)}<p class='key'>Accuracy on "
        "quarters held out in turn, learned from parts of the rest; lines: deviation over the quarters. "
        "The largest part is three quarters of the images, so the model itself is a little better.</p>"
    )


def _made(model: Any, facts: Facts) -> str:
    rows = {"Command": command_line()}
    if facts.learned:
        rows["Learned from"] = facts.learned
    if facts.seed is not None:
        rows["Seed"] = str(facts.seed)
    rows["Versions"] = ", ".join(f"{name} {number}" for name, number in versions().items())
    rows["Time for an image"] = (
        "measured: median over single images already read and reduced, on the machine of this report"
    )
    table = "".join(f"<div><dt>{k}</dt><dd>{text(v)}</dd></div>" for k, v in rows.items())
    settings = getattr(model, "settings_", {})
    listed = "".join(
        f'<tr><th scope="row">{text(k)}</th><td>{text(v)}</td></tr>' for k, v in sorted(settings.items())
    )
    more = (
        f'<details><summary>All settings</summary><div class="scroll"><table class="plain">{listed}'
        "</table></div></details>"
    )
    return f'<dl class="made">{table}</dl>{more if settings else ""}'
