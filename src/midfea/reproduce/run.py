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
from midfea.reproduce.evaluate import evaluate_classes, evaluate_numbers
from midfea.reproduce.features import span_features
from midfea.reproduce.protocols import Method, Protocol, Split
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

    A row is {"dataset", "method", "metric", "mean", "std", "trials", "paper"}. The last ones say what
    the NS layer is worth: the difference with it and without, of the same trials. With `cache`, features
    and finished trials are kept in that folder and not computed again.
    """
    chosen = [m for m in protocol.methods if methods is None or m.name in methods]
    loaded = protocol.load(data)
    splits = protocol.splits(loaded, protocol.trials if trials is None else trials, seed)
    # Split by split, so that what is finished when a run is broken off can be compared.
    work = [(method, trial, split) for trial, split in enumerate(splits) for method in chosen]
    results: dict[str, list[Result]] = {method.name: [] for method in chosen}
    images = content_key([np.asarray(image) for image in loaded.images])
    finished = Trials(cache)
    for method, trial, split in track(work, name, len(work)):
        measure = partial(_one, protocol, method, loaded, split, seed + trial, cache)
        key = content_key(name, images, _settings(method), seed + trial, *split)
        results[method.name].append(finished.result(key, measure))
    rows = [row for method in chosen for row in _rows(name, protocol, method, results[method.name])]
    return rows + _gains(name, protocol, results), loaded.missing


def _gains(name: str, protocol: Protocol, results: dict[str, list[Result]]) -> list[Row]:
    """What the NS layer is worth, trial by trial."""
    rows = []
    for layered in results:
        plain = layered.replace("MidFea-NS", "MidFea")
        if plain != layered and plain in results:
            pairs = zip(results[layered], results[plain], strict=True)
            method = Method(f"{layered} less {plain}")
            rows += _rows(name, protocol, method, [_difference(*pair) for pair in pairs])
    return rows


def _difference(layered: Result, plain: Result) -> Result:
    return {
        metric: value if metric.startswith("images") else np.subtract(value, plain[metric]).tolist()
        for metric, value in layered.items()
    }


def _settings(method: Method) -> dict[str, Any]:
    """Of a method, all that decides its result."""
    return {key: value for key, value in asdict(method).items() if key not in ("name", "paper")}


def _one(
    protocol: Protocol, method: Method, data: Any, split: Split, seed: int, cache: Path | None
) -> Result:
    train = split[0]
    # Of ages each person is tested with all others known, so the span is that of all images.
    span = np.arange(len(data.images)) if protocol.task == "numbers" else train
    if method.settings is None:
        x = raw_pixels(data.images, protocol.size)
    else:
        x = span_features(data.images, train, method.settings, seed, cache, span=span)
    if protocol.task == "classes":
        groups = data.groups if protocol.person_folds else None
        limits = protocol.most_tested, protocol.uncounted
        return evaluate_classes(x, data.target, groups, split, method, seed, *limits)
    parts = [x]
    if method.shape:
        landmarks = data.landmarks.reshape(len(data.landmarks), -1).astype(np.float32)
        parts += [raw_pixels(data.warped, None), landmarks]
    return evaluate_numbers(parts, data.target, data.groups, split, method, seed)


def _rows(name: str, protocol: Protocol, method: Method, results: list[Result]) -> list[Row]:
    """One row for each metric. Of ages: the mean absolute error, its deviation over the people."""
    if protocol.task == "numbers":
        errors = np.concatenate([result["error of each person"] for result in results])
        counts = np.concatenate([result["images of each person"] for result in results])
        row = make_row(name, method.name, "MAE (years)", errors.tolist(), method.paper)
        return [{**row, "mean": round(float(errors @ counts / counts.sum()), 3)}]
    return [
        make_row(name, method.name, metric, [result[metric] for result in results], method.paper)
        for metric in results[0]
    ]
