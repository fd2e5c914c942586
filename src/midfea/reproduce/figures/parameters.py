"""Accuracy against the parameters of the neuron-selectivity layer: Fig. 7.

One parameter at a time is changed, the others keep the layer's defaults; features and split stay the
same, and so does the SVM's C (see `evaluate`), so that a curve shows the layer and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.progress import track
from midfea.provenance import Row, write_rows
from midfea.reproduce.evaluate import evaluate_classes
from midfea.reproduce.features import span_features
from midfea.reproduce.figures.curves import draw_parameters
from midfea.reproduce.protocols import PROTOCOLS, Method
from midfea.view.style import save

FACTORS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)  # times the default; 0 leaves the term out
NEURONS = (2, 4, 6, 10, 20, 50)


def make(data: Path, output: Path, seed: int) -> list[Path]:
    rows = measure(data, seed)
    write_rows(rows, output / "parameters.json", [seed])
    return [*save(draw_parameters(rows), output, "parameters"), output / "parameters.json"]


def measure(
    data: Path, seed: int, factors: Sequence[float] = FACTORS, neurons: Sequence[int] = NEURONS
) -> list[Row]:
    """Rows {"task", "parameter", "value", "accuracy"}, factors also with "times default".

    Parameter None: the features without the layer.
    """
    faces, gender = _task("ar-face", data, seed), _task("ar-gender", data, seed)
    neurons_of_faces = next(m.neurons for m in PROTOCOLS["ar-face"].methods if m.neurons)
    rows: list[Row] = [
        {"task": task, "parameter": None, "value": None, "accuracy": measured(Method("MidFea"))}
        for task, measured in (("ar-face", faces), ("ar-gender", gender))
    ]
    defaults = NeuronSelectivity().get_params()
    points = [(name, factor) for name in ("alpha", "beta", "gamma", "lam") for factor in factors]
    for name, factor in track(points, "parameters", len(points)):
        value = float(f"{factor * defaults[name]:.6g}")
        accuracy = faces(Method("MidFea-NS", neurons=neurons_of_faces, selectivity={name: value}))
        row = {"task": "ar-face", "parameter": name, "value": value, "times default": factor}
        rows.append({**row, "accuracy": accuracy})
    for n in track(neurons, "numbers of neurons", len(neurons)):
        accuracy = gender(Method("MidFea-NS", neurons=n))
        rows.append({"task": "ar-gender", "parameter": "n_neurons", "value": n, "accuracy": accuracy})
    return rows


def _task(task: str, data: Path, seed: int) -> Callable[[Method], float]:
    """Accuracy (%) of a method on features computed once."""
    protocol = PROTOCOLS[task]
    ar = protocol.load(data)
    split = protocol.splits(ar, 1, seed)[0]
    settings = next(m.settings for m in protocol.methods if m.name == "MidFea")
    assert settings is not None
    x = span_features(ar.images, split[0], settings, seed, cache=None)
    groups = ar.groups if protocol.person_folds else None

    def accuracy(method: Method) -> float:
        return round(evaluate_classes(x, ar.target, groups, split, method, seed)["accuracy"], 2)

    return accuracy
