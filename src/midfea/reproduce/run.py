"""Run a protocol: every method on every split; finished ones are kept and not computed again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from midfea.files import replacing
from midfea.progress import track
from midfea.reproduce.evaluate import evaluate_classes, evaluate_numbers
from midfea.reproduce.features import Features, content_key, raw_pixels, span_features
from midfea.reproduce.protocols import Indices, Method, Protocol, Split

Row = dict[str, Any]
Result = dict[str, Any]  # metrics of one method on one split


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
    found: dict[str, list[Result]] = {method.name: [] for method in chosen}
    images = content_key(list(loaded.images))
    for method, trial, split in track(work, name, len(work)):
        kept = None
        if cache is not None:
            what = content_key(name, images, _described(method), seed + trial, *split)
            kept = cache / "trials" / f"{what}.json"
        if kept is not None and kept.exists():
            found[method.name].append(json.loads(kept.read_text()))
            continue
        result = _one(protocol, method, loaded, split, seed + trial, cache)
        found[method.name].append(result)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            with replacing(kept) as temporary:
                temporary.write_text(json.dumps(result))
    rows = [row for method in chosen for row in _rows(name, protocol, method, found[method.name])]
    for layered in found:
        plain = layered.replace("MidFea-NS", "MidFea")
        if plain != layered and plain in found:
            less = Method(f"{layered} less {plain}", None)
            apart = [_less(*both) for both in zip(found[layered], found[plain], strict=True)]
            rows += _rows(name, protocol, less, apart)
    return rows, loaded.missing


def _less(layered: Result, plain: Result) -> Result:
    same = ("images of each person",)
    return {
        metric: value if metric in same else np.subtract(value, plain[metric]).tolist()
        for metric, value in layered.items()
    }


def _described(method: Method) -> dict[str, Any]:
    return {
        "settings": None if method.settings is None else dict(method.settings),
        "neurons": method.neurons,
        "selectivity": dict(method.selectivity),
        "kernel": method.kernel,
        "also": method.also,
    }


def _one(
    protocol: Protocol, method: Method, data: Any, split: Split, seed: int, cache: Path | None
) -> Result:
    train = split[0]
    if protocol.task == "numbers":
        # Each person is tested with all others known, so the span is that of all images.
        everyone = np.arange(len(data.images))
        x = _features(protocol, method, data, train, everyone, seed, cache)
        more = {
            "warped": lambda: raw_pixels(data.warped, None),
            "landmarks": lambda: _flat(data.landmarks),
        }
        parts = [x, *(more[name]() for name in method.also)]
        return evaluate_numbers(parts, data.target, data.groups, split, method, seed)
    x = _features(protocol, method, data, train, train, seed, cache)
    groups = data.groups if protocol.person_folds else None
    return evaluate_classes(
        x,
        data.target,
        groups,
        split,
        method,
        seed,
        most_tested=protocol.most_tested,
        uncounted=protocol.uncounted,
    )


def _features(
    protocol: Protocol,
    method: Method,
    data: Any,
    learn: Indices,
    span: Indices,
    seed: int,
    cache: Path | None,
) -> Features:
    if method.settings is None:
        return raw_pixels(data.images, protocol.size)
    return span_features(data.images, learn, method.settings, seed, cache, span=span)


def _flat(a: Any) -> Features:
    return np.asarray(a.reshape(len(a), -1), dtype=np.float32)


def _rows(name: str, protocol: Protocol, method: Method, found: list[Result]) -> list[Row]:
    """One row for each metric. Of ages: the mean absolute error, its deviation over the people."""
    values: dict[str, tuple[float, float]] = {}
    n_trials = len(found)
    if protocol.task == "numbers":
        errors = np.concatenate([f["error of each person"] for f in found])
        counts = np.concatenate([f["images of each person"] for f in found])
        mean = float(errors @ counts / counts.sum())
        values["MAE (years)"] = mean, float(np.std(errors))
        n_trials = len(errors)
    else:
        for metric in found[0]:
            each = [f[metric] for f in found]
            values[metric] = float(np.mean(each)), float(np.std(each))
    return [
        {
            "dataset": name,
            "method": method.name,
            "metric": metric,
            "mean": round(mean, 3),
            "std": round(deviation, 3),
            "trials": n_trials,
            "paper": method.paper,
        }
        for metric, (mean, deviation) in values.items()
    ]
