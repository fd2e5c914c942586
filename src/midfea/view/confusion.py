"""Which classes are confused with which: the matrix, the pairs, recall and precision."""

from __future__ import annotations

import numpy as np

from midfea.learning.predictions import Predictions
from midfea.view.markup import bar, scrollable, shade, text

MIN_CLASSES_NARROW = 14  # from here on column names are turned, and cells are small


def matrix(predictions: Predictions) -> str:
    """A table whose cells are buttons: `data-cell` says which images are behind one."""
    names = [text(name) for name in predictions.classes]
    counts = predictions.confusion
    totals = np.maximum(counts.sum(axis=1), 1)
    rows = []
    for i, name in enumerate(names):
        cells = "".join(
            _cell(i, j, int(count), count / totals[i], name, names[j]) if count else "<td></td>"
            for j, count in enumerate(counts[i])
        )
        rows.append(f'<tr><th scope="row">{name}</th>{cells}</tr>')
    return (
        "<p>A row for each class, a column for each predicted class; the numbers are images. "
        "Choose a cell to see them.</p>"
        f"{class_columns('Confusion matrix', 'class / predicted', names, rows)}"
        '<p class="key"><span class="swatch correct"></span> correct '
        '<span class="swatch wrong"></span> predicted as another class; the stronger the colour, the '
        "larger the share of the row</p>"
    )


def class_columns(label: str, corner: str, names: list[str], rows: list[str]) -> str:
    """A table with a column for each class; names and rows are HTML."""
    head = "".join(f'<th scope="col"><span>{name}</span></th>' for name in names)
    narrow = " narrow" if len(names) >= MIN_CLASSES_NARROW else ""
    return scrollable(
        label,
        f'<table class="matrix{narrow}"><thead><tr><td class="corner">{corner}</td>{head}</tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table>",
    )


def _cell(i: int, j: int, count: int, share: float, name: str, predicted: str) -> str:
    kind = "correct" if i == j else "wrong"
    what = "predicted correctly" if i == j else f"predicted as {predicted}"
    return (
        f'<td><button type="button" class="{kind} {shade(share)}" data-cell="{i}-{j}" '
        f'aria-label="{count} of {name} {what}" title="{count} of {name} {what}">{count:,}</button></td>'
    )


def pairs(predictions: Predictions) -> str:
    """The most confused pairs, with bars."""
    most = predictions.confused_pairs()
    if not most:
        return "<p>No image was predicted as another class.</p>"
    items = []
    for pair in most:
        label, predicted = (text(predictions.classes[i]) for i in (pair.label, pair.predicted))
        items.append(
            f'<li><button type="button" data-cell="{pair.label}-{pair.predicted}"><b>{label}</b> '
            f"predicted as <b>{predicted}</b></button>{bar(pair.images / most[0].images)}"
            f'<span class="number">{pair.images:,} ({pair.share:.0%})</span></li>'
        )
    return f'<ol class="pairs">{"".join(items)}</ol>'


def class_table(predictions: Predictions) -> str:
    """The mean recall, what guessing brings, and recall and precision of each class."""
    beyond = "".join(f"<p>{text(sentence)}</p>" for sentence in predictions.beyond_accuracy)
    head = ("class", "images", "recall", "95 % interval", "precision")
    rows = []
    for row in predictions.per_class:
        interval = f"{row.interval.low:.0%} to {row.interval.high:.0%}" if row.images else ""
        values = (f"{row.images:,}", share(row.recall), interval, share(row.precision))
        cells = "".join(f"<td>{value}</td>" for value in values)
        rows.append(f'<tr><th scope="row">{text(row.name)}</th>{cells}</tr>')
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    table = (
        f'<table class="plain"><thead><tr>{columns}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )
    return beyond + scrollable("Recall and precision", table)


def share(value: float | None) -> str:
    """Recall or precision as text."""
    return "–" if value is None else f"{value:.1%}"
