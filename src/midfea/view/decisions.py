"""Which thresholds keep a promise, and what they cost: sentences for all, tables for pages."""

from __future__ import annotations

from midfea.learning.decisions import (
    Called,
    Decided,
    MissTarget,
    PrecisionTarget,
    Target,
    Threshold,
    percent,
)
from midfea.learning.predictions import Predictions
from midfea.view.markup import scrollable, text

PRECISIONS = tuple(map(PrecisionTarget, (0.99, 0.95, 0.9)))  # that are tried where nobody asks for one
MISSED_SHARES = (0.05, 0.01)
ALWAYS_MOST_PROBABLE = 0.5  # a class with this probability is the answer anyway


def promise(target: Target, predictions: Predictions) -> str:
    """What can be promised on new images, from validation, in a sentence."""
    threshold = target.threshold(predictions)
    if threshold.value is None:
        return f"{_capital(target)} cannot be promised: {threshold.reason}."
    if isinstance(target, MissTarget):
        cost = called_words(target.name, target.measure(predictions, threshold.value))
    elif threshold.value:
        decided = target.measure(predictions, threshold.value)
        cost = f"{decided.share:.0%} of the images can be decided so; look at the rest."
    else:
        return f"{_capital(target)} holds if all images are decided."
    return f"{_capital(target)}: {rule(target, threshold.value)}. {cost}"


def usual_promises(predictions: Predictions) -> list[str]:
    """Those of the usual precisions, and where classes are unequal what it costs to find the rarest."""
    targets: list[Target] = [*PRECISIONS]
    if predictions.unequal:
        targets.append(MissTarget(predictions.rarest.name, MISSED_SHARES[0]))
    return [promise(target, predictions) for target in targets]


def measured(target: Target, threshold: Threshold, predictions: Predictions) -> str:
    """What a threshold that was chosen on other images does with these, in a sentence."""
    if threshold.value is None:
        return f"{_capital(target)} cannot be promised: {threshold.reason}."
    if isinstance(target, MissTarget):
        words = called_words(target.name, target.measure(predictions, threshold.value))
    else:
        words = decided_words(target.measure(predictions, threshold.value))
    return f"{_capital(target)}: {rule(target, threshold.value)}. {words}"


def rule(target: Target, threshold: float) -> str:
    """The threshold in words."""
    if isinstance(target, MissTarget):
        if threshold >= ALWAYS_MOST_PROBABLE:
            return "the usual answers keep that"
        return f"answer {target.name!r} wherever its probability is {threshold:g} or more"
    return f"decide where the probability is {threshold:g} or more" if threshold else "decide all images"


def decided_words(decided: Decided) -> str:
    """What a threshold for the confidence did with labelled images."""
    if not decided.decided:
        return f"None of these {decided.images:,} images is decided."
    interval = decided.precision
    return (
        f"Of these images {decided.decided:,} of {decided.images:,} ({decided.share:.1%}) are decided, "
        f"{interval.accuracy:.1%} of them correctly (95 % interval {100 * interval.low:.1f} to "
        f"{100 * interval.high:.1f} %)."
    )


def called_words(name: str, called: Called) -> str:
    """What a threshold for the probability of a class did with labelled images."""
    found = f"{called.found:,} of {called.class_images:,} images of {name!r} are found"
    if called.class_images:
        found += f" ({called.recall.accuracy:.1%})"
    alarms = f"{called.alarms_per_100:.1f} of 100 other images are called {name!r} too"
    precision = (
        "" if called.precision is None else f", so {called.precision:.0%} of what is called so is"
    )
    return f"{found}, and {alarms}{precision}."


def best_promise(predictions: Predictions) -> tuple[PrecisionTarget, float] | None:
    """The highest of the usual precisions that can be promised, and its threshold."""
    for target in PRECISIONS:
        threshold = target.threshold(predictions)
        if threshold.value is not None:
            return target, threshold.value
    return None


def promises(predictions: Predictions) -> str:
    """The usual promises, as HTML."""
    items = "".join(f"<li>{text(promise(target, predictions))}</li>" for target in PRECISIONS)
    return (
        "<p>On new images of the same kind, with 95 % confidence:</p>"
        f"<ul>{items}</ul>{_miss_table(predictions)}"
    )


def _miss_table(predictions: Predictions) -> str:
    """What it costs to miss few images of a class, a row for each class and share."""
    rows, left_out = [], 0
    for scores in predictions.per_class:
        cells = [_miss_cells(MissTarget(scores.name, share), predictions) for share in MISSED_SHARES]
        left_out += not any(cells)
        rows += [f'<tr><th scope="row">{text(scores.name)}</th>{cell}</tr>' for cell in cells if cell]
    fewest = round(1 / max(MISSED_SHARES)) - 1
    words = "<p>To miss few images of a class, answer it wherever its probability reaches a threshold"
    few = f"{left_out:,} of {len(predictions.classes):,} classes"
    note = f" (not for {few}: at least {fewest} images are needed)"
    if not rows:
        return f"{words}: the classes have too few images for that, at least {fewest} are needed.</p>"
    head = ("class", "missed at most", "probability from", "other images called so", "precision")
    columns = "".join(f'<th scope="col">{name}</th>' for name in head)
    table = (
        f'<table class="plain"><thead><tr>{columns}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )
    return f"{words}{note if left_out else ''}:</p>{scrollable('To miss few images of a class', table)}"


def _miss_cells(target: MissTarget, predictions: Predictions) -> str:
    threshold = target.threshold(predictions).value
    if threshold is None:
        return ""
    called = target.measure(predictions, threshold)
    precision = "–" if called.precision is None else f"{called.precision:.0%}"
    wherever = "usual answers" if threshold >= ALWAYS_MOST_PROBABLE else f"{threshold:g}"
    values = (percent(target.share), wherever, f"{called.alarms_per_100:.1f} of 100", precision)
    return "".join(f"<td>{value}</td>" for value in values)


def _capital(target: Target) -> str:
    words = str(target)
    return words[0].upper() + words[1:]
