"""Run a protocol: every method on every split; finished ones are kept and not computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from midfea.baselines.raw_pixels import raw_pixels
from midfea.progress import track
from midfea.provenance import Row, make_row
from midfea.reproduce.evaluate import (
    MILLISECONDS,
    SECONDS,
    evaluate_classes,
    evaluate_numbers,
    evaluate_system,
)
from midfea.reproduce.features import randomly_projected, span_features
from midfea.reproduce.protocols import Method, Protocol, Split
from midfea.reproduce.systems import Compared
from midfea.trials import Result, Trials, content_key


def run_protocol(
    name: str,
    protocol: Protocol,
    data: Path,
    *,
    trials: int | None = None,
    seed: int = 0,
    methods: Sequence[str] | None = None,
    cache: Path | None = None,
) -> tuple[list[Row], list[str]]:
    """The rows of the table, and what is missing from the data set.

    A row is {"dataset", "method", "metric", "mean", "std", "trials", "paper"}; of compared systems also
    "published", "seconds_to_train" and "ms_per_image". The last ones say what the NS layer is worth: the
    difference with it and without, of the same trials. `methods` names rows; None means ours and raw
    pixels. With `cache`, features and finished trials are kept in that folder and not computed again.
    """
    known: tuple[Method | Compared, ...] = (*protocol.methods, *protocol.compared)
    chosen = [
        m for m in (protocol.methods if methods is None else known) if not methods or m.name in methods
    ]
    loaded = protocol.load(data)
    splits = protocol.splits(loaded, protocol.trials if trials is None else trials, seed)
    # Split by split, so that what is finished when a run is broken off can be compared.
    work = [
        (method, trial, split)
        for trial, split in enumerate(splits)
        for method in chosen
        if isinstance(method, Method) or method.trials is None or trial < method.trials
    ]
    results: dict[str, list[Result]] = {method.name: [] for method in chosen}
    images = content_key([np.asarray(image) for image in loaded.images])
    finished = Trials(cache)
    for method, trial, split in track(work, name, len(work)):
        measure = partial(_one, protocol, method, loaded, split, seed + trial, cache)
        settings = _settings(method) if isinstance(method, Method) else method.name
        key = content_key(name, images, settings, seed + trial, *split)
        results[method.name].append(finished.result(key, measure))
    rows = [row for method in chosen for row in _rows(name, protocol, method, results[method.name])]
    return rows + _gains(name, protocol, results), loaded.missing


def _gains(name: str, protocol: Protocol, results: dict[str, list[Result]]) -> list[Row]:
    """What the NS layer, and its control, are worth trial by trial; "t" is Student's, of the pairs."""
    rows = []
    for layered in results:
        plain = layered.replace("-NS", "").replace("-subclasses", "")
        if plain != layered and plain in results:
            pairs = zip(results[layered], results[plain], strict=True)
            differences = [_difference(*pair) for pair in pairs]
            of_pair = _rows(name, protocol, Method(f"{layered} less {plain}"), differences)
            if protocol.task == "classes":
                for row in of_pair:
                    row["t"] = paired_t([difference[row["metric"]] for difference in differences])
            rows += of_pair
    return rows


def paired_t(differences: Sequence[float]) -> float | None:
    """Student's t of paired differences: their mean in standard errors; None if that cannot be said.

    Examples
    --------
    >>> from midfea.reproduce.run import paired_t
    >>> paired_t([1.0, 2.0, 3.0])
    3.46
    """
    if len(differences) < 2 or np.ptp(differences) == 0:
        return None
    error = np.std(differences, ddof=1) / len(differences) ** 0.5
    return round(float(np.mean(differences) / error), 2)


def _difference(layered: Result, plain: Result) -> Result:
    return {
        metric: value if metric.startswith("images") else np.subtract(value, plain[metric]).tolist()
        for metric, value in layered.items()
    }


def _settings(method: Method) -> dict[str, Any]:
    """Of a method, all that decides its result."""
    return {key: value for key, value in asdict(method).items() if key not in ("name", "paper")}


def _one(
    protocol: Protocol,
    method: Method | Compared,
    data: Any,
    split: Split,
    seed: int,
    cache: Path | None,
) -> Result:
    groups = data.groups if protocol.person_folds else None
    limits = protocol.most_tested, protocol.uncounted
    if isinstance(method, Compared):
        return evaluate_system(data.images, data.target, groups, split, method, seed, *limits)
    train = split[0]
    # Of ages each person is tested with all others known, so the span is that of all images.
    span = np.arange(len(data.images)) if protocol.task == "numbers" else train
    if method.settings is None:
        x = raw_pixels(data.images, protocol.size)
        if method.projected is not None:
            x = randomly_projected(x, method.projected, seed)
    else:
        x = span_features(data.images, train, method.settings, seed, cache, span=span)
    if protocol.task == "classes":
        return evaluate_classes(x, data.target, groups, split, method, seed, *limits)
    parts = [x]
    if method.shape:
        landmarks = data.landmarks.reshape(len(data.landmarks), -1).astype(np.float32)
        parts += [raw_pixels(data.warped, None), landmarks]
    return evaluate_numbers(parts, data.target, data.groups, split, method, seed)


def _rows(name: str, protocol: Protocol, method: Method | Compared, results: list[Result]) -> list[Row]:
    """One row for each metric. Of ages: the mean absolute error, its deviation over the people."""
    if protocol.task == "numbers":
        errors = np.concatenate([result["error of each person"] for result in results])
        counts = np.concatenate([result["images of each person"] for result in results])
        row = make_row(name, method.name, "MAE (years)", errors.tolist(), method.paper)
        return [{**row, "mean": round(float(errors @ counts / counts.sum()), 3)}]
    columns = {key: [result[key] for result in results] for key in results[0]}
    more: Row = {}
    if isinstance(method, Compared):
        times = {key: round(float(np.median(columns.pop(key))), 3) for key in (SECONDS, MILLISECONDS)}
        more = {"published": method.published, "max_tested": method.max_tested, **times}
    return [
        {**make_row(name, method.name, metric, values, method.paper), **more}
        for metric, values in columns.items()
    ]
