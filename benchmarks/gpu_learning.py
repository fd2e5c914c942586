"""Learning by the torch engine beside the cpu engine, for gpu.py: seconds, and how far they differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from common import some_of_each
from midfea import MidFea, MidFeaClassifier, NeuronSelectivity
from midfea.arrays import to_numpy
from midfea.engines import get_engine
from midfea.engines.torch.device import Device
from midfea.engines.torch.engine import TorchChain
from midfea.learning.head import fit_linear_head
from midfea.learning.ns_layer import centred
from midfea.learning.principal import principal_directions as principal_directions_of
from midfea.reproduce.evaluate import per_class

N_TRAINING = 30  # images of a class
rows: list[dict[str, Any]] = []


def say(what: str, value: float, unit: str, remark: str = "") -> None:
    rows.append({"what": what, "value": value, "unit": unit, "remark": remark})
    print(f"{what:<58} {value:>12,.4g} {unit:<10} {remark}", flush=True)


def once(work: Callable[[], Any]) -> float:
    """Seconds on the clock."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def wall(work: Callable[[], Any]) -> float:
    """Seconds the second time."""
    once(work)
    return once(work)


def differ(what: str, values: dict[str, float]) -> None:
    change = 100 * (values["torch"] / values["cpu"] - 1)
    say(f"{what}, torch against cpu", change, "%", f"{values['torch']:.6g}, {values['cpu']:.6g}")


def agreement(images: list[np.ndarray], model: MidFea, device: str) -> None:
    """Pooled codes of the cpu engine, and what differs elsewhere."""
    chain = model.extractor_.chain
    cpu = get_engine("cpu").prepare(chain)
    expected = np.stack([cpu.pooled(image) for image in images])
    ones = int(np.count_nonzero(expected))
    for name, prepared in (
        ("plain", TorchChain(chain, None, Device(device), True, None)),
        ("own kernels, exact", get_engine("torch", device, "exact").prepare(chain)),
        ("own kernels, fast", get_engine("torch", device, "fast").prepare(chain)),
    ):
        codes = prepared.features(images, len(images), projected=False)
        n_different = int((np.abs(codes - expected) > 1e-3).sum())
        remark = f"{len(images)} images of their own sizes"
        say(f"codes unlike the cpu engine's, {name}", n_different, f"of {ones}", remark)


def learning(greys: list[np.ndarray], y: np.ndarray, device: str) -> None:
    """Filters and words, PCA and the NS layer."""
    chosen = some_of_each(y, N_TRAINING, 0)
    greys, y = [greys[i] for i in chosen], y[chosen]
    engines = {"torch": {"engine": "torch", "device": device}, "cpu": {"engine": "cpu"}}
    models = {name: MidFea(**where, random_state=0) for name, where in engines.items()}
    for name, model in models.items():
        model.fit(greys[:10])  # compiles
        say(
            f"filters and 1000 words, {name}",
            once(partial(model.fit, greys)),
            "s",
            f"{len(greys)} images",
        )
    cpu = get_engine("cpu").prepare(models["cpu"].extractor_.chain)
    points = np.concatenate([cpu.descriptors(grey).reshape(-1, 144) for grey in greys[:20]])
    costs = {}
    for name, model in models.items():
        nearest = model.codebook_[get_engine("cpu").search(model.codebook_)(points)]
        costs[name] = float(((points - nearest) ** 2).sum(axis=1).mean())
    differ("  mean squared distance to the nearest word", costs)
    extractor = models["torch"].extractor_
    codes = extractor.prepared.features(greys, len(greys), projected=False)
    principal_directions(codes, device)
    neuron_selectivity(models["torch"].transform(greys), y, engines["torch"])


def principal_directions(codes: np.ndarray, device: str) -> None:
    n_components = min(1000, len(codes) // 2)
    directions: dict[str, np.ndarray] = {}

    def on_device() -> None:
        with get_engine("torch", device).arrays() as put:
            result = principal_directions_of(put(codes), n_components)[1]
            directions["torch"] = to_numpy(result)

    def on_cpu() -> None:
        directions["cpu"] = PCA(n_components, random_state=0).fit(codes).components_.T

    shape = f"{codes.shape[0]} x {codes.shape[1]} codes, {n_components} directions"
    say("PCA, torch", wall(on_device), "s", shape)
    say("PCA, cpu (scikit-learn)", once(on_cpu), "s", shape)
    central = codes - codes.mean(axis=0)
    seen = {name: float(np.square(central @ v).sum()) for name, v in directions.items()}
    differ("  variance seen", seen)


def neuron_selectivity(x: np.ndarray, y: np.ndarray, where: dict[str, Any]) -> None:
    """Six rounds, 20 neurons for each class."""
    inputs = centred(x, x.mean(axis=0))
    values: dict[str, float] = {}
    n_neurons = 20 * (int(y.max()) + 1)
    sizes = f"p={x.shape[1]} d={n_neurons} N={len(y)} C={y.max() + 1}"

    def fit(name: str, inputs: np.ndarray, **where: Any) -> float:
        layer = NeuronSelectivity(n_neurons, length=16, tol=1e-4, random_state=0, **where)
        spent = once(lambda: layer.fit(inputs, y))
        values[name] = float(layer.objective_[-1])
        return spent

    fit("torch", inputs, **where)  # to warm up
    say("NS layer, six rounds, torch", fit("torch", inputs, **where), "s", sizes)
    rng = np.random.RandomState(0)
    changes = []
    for _ in range(5):
        fit("changed", inputs * (1 + 1e-7 * rng.randn(*inputs.shape)).astype(np.float32), **where)
        changes.append(values.pop("changed") / values["torch"] - 1)
    say("  objective, inputs changed by 1e-7", 100 * max(changes, key=abs), "%", "the farthest of five")
    say("NS layer, six rounds, cpu", fit("cpu", inputs), "s", sizes)
    differ("  objective", values)


def best(greys: list[np.ndarray], y: np.ndarray, device: str) -> None:
    """The preset "best" and a linear SVM: features and SVM by each engine, one codebook."""
    train = np.isin(np.arange(len(y)), some_of_each(y, N_TRAINING, 0))
    training, testing = ([greys[i] for i in np.flatnonzero(part)] for part in (train, ~train))
    model = MidFea(preset="best", engine="torch", device=device, random_state=0)
    spent = once(lambda: model.fit(training))
    say("best: learning filters and words, torch", spent, "s", f"{train.sum()} images")
    agreement(greys[:8], model, device)
    tested = f"{train.sum()} images for training, {(~train).sum()} for testing"
    scores: dict[str, np.ndarray] = {}
    for name, times in (("torch", ("first time", "again")), ("cpu", ("",))):
        model.set_params(engine=name)
        for time_of in times:
            started = time.perf_counter()
            x = model.transform(greys)
            spent = time.perf_counter() - started
            say(f"best: {len(greys)} decoded images to features, {name} {time_of}", spent, "s")
        with get_engine(name, device if name == "torch" else None).arrays() as put:
            started = time.perf_counter()
            head = fit_linear_head(x[train], y[train], 10.0, 1.0, put)
            spent = time.perf_counter() - started
        say(f"linear SVM, {name}", spent, "s", f"{train.sum()} x {x.shape[1]}, {y.max() + 1} classes")
        scores[name] = head.scores(x[~train])
        correct = scores[name].argmax(axis=1) == y[~train]
        say(f"best: accuracy, {name}", 100 * correct.mean(), "%", tested)
        say(f"best: mean accuracy of the classes, {name}", per_class(correct, y[~train]), "%")
    say("  largest difference of a decision value", float(np.ptp([*scores.values()], axis=0).max()), "")
    whole = MidFeaClassifier(
        preset="best", finetune=False, engine="torch", device=device, random_state=0
    )
    spent = once(lambda: whole.fit(training, y[train]))
    say("best: MidFeaClassifier.fit, torch", spent, "s", tested)
    say("best: MidFeaClassifier.score, torch", 100 * whole.score(testing, y[~train]), "%")
