"""What the torch engine does on one CUDA device, beside the floor and beside the cpu engine.

    python benchmarks/gpu.py [--photos FILE.npz] [--json FILE] [--only PART] [--quick]

Without photos the images are drawn (`load_surfaces`). The file holds JPEGs: "data", all their bytes,
"ends", where each one ends, and "labels". Everything runs with the paper's settings (150x150 pixels, 9
filters, 1000 words, 1-2-4 pyramid, mirrored borders) unless it says "best". Learning and "best" take
30 images of each class, drawn once; the others are for testing.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.decomposition import PCA

from midfea import MidFea, MidFeaClassifier, NeuronSelectivity
from midfea.arrays import to_numpy
from midfea.datasets import load_surfaces
from midfea.engines import arrays_on, get_engine
from midfea.engines.torch import plain
from midfea.engines.torch.engine import TorchEngine, exact_products
from midfea.estimators.selective import centred
from midfea.learning.principal import principal_directions
from midfea.learning.svm import fit_linear_svm
from midfea.pictures.images import Images, resize

SIDE = 150
TRAINING = 30  # images of a class
PARTS = ("learning", "best", "throughput", "files")
rows: list[dict[str, Any]] = []


def say(what: str, value: float, unit: str, remark: str = "") -> None:
    rows.append({"what": what, "value": value, "unit": unit, "remark": remark})
    print(f"{what:<58} {value:>12,.4g} {unit:<10} {remark}", flush=True)


def seconds(work: Callable[[], Any], repeats: int = 7) -> float:
    """Of the device, the median of several runs after two for warming up."""
    times = []
    for i in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end) / 1000)
    return statistics.median(times)


def read_photos(path: Path | None, folder: Path) -> tuple[list[str], np.ndarray]:
    """JPEG files, written to `folder`, and their class numbers."""
    if path is None:
        drawn = load_surfaces(n_per_class=60, size=256, random_state=0)
        blobs, labels = [], drawn.target
        for image in drawn.images:
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "JPEG", quality=90)
            blobs.append(buffer.getvalue())
    else:
        file = np.load(path)
        blobs, labels = np.split(file["data"], file["ends"][:-1]), file["labels"]
    files = [folder / f"{i:05}.jpg" for i in range(len(blobs))]
    for target, blob in zip(files, blobs, strict=True):
        target.write_bytes(bytes(blob))
    return [str(file) for file in files], np.unique(labels, return_inverse=True)[1]


def read(files: list[str], n_threads: int) -> list[np.ndarray]:
    images = Images(files)
    with ThreadPoolExecutor(n_threads) as threads:
        return list(threads.map(lambda i: images.grey(i, SIDE), range(len(images)), chunksize=8))


def ceilings() -> tuple[float, float]:
    """Bytes per second of a copy (read and written), float16 operations per second of a product."""
    data = torch.randn(2**30, device="cuda")
    copied = torch.empty_like(data)
    copy = 2 * data.nbytes / seconds(lambda: copied.copy_(data))
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    product = 2 * 8192**3 / seconds(lambda: a @ b)
    say("copy, measured", copy / 1e12, "TB/s")
    say("float16 product 8192^3, measured", product / 1e12, "TFLOP/s")
    return copy, product


def device_resident(stack: np.ndarray, model: MidFea, copy: float, product: float) -> None:
    """From 8-bit pixels to pooled codes, all on the device."""
    from midfea.engines.torch import fused

    chain, n = model._chain, len(stack)
    pixels = torch.as_tensor(stack, device="cuda")
    filters, words = (torch.as_tensor(a, device="cuda") for a in (chain.filters, chain.words()))
    shape = chain.grid((SIDE, SIDE))
    n_codes = plain.n_cells(chain.partition, shape) * len(words)
    descriptors = shape[0] * shape[1]
    operations = 2 * descriptors * chain.n_components * len(words)
    moved = SIDE * SIDE + 4 * n_codes
    floor = max(operations / product, moved / copy)
    say("floor, all scores at the measured float16 rate", 1 / floor, "images/s",
        f"{operations / 1e9:.2f} GFLOP, {moved / 1e3:.0f} kB each")  # fmt: skip

    some = pixels[:256]
    with exact_products():
        rate_plain = 256 / seconds(lambda: plain.pooled_codes(some, filters, words, chain))
    say("plain torch, float32", rate_plain, "images/s")
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = "tf32"
    rate = 256 / seconds(lambda: plain.pooled_codes(some, filters, words, chain))
    say("plain torch, tf32", rate, "images/s")
    rate_compiled = compiled(some, filters, words, chain)
    for switch, value in zip(switches, before, strict=True):
        switch.fp32_precision = value

    prepared = fused.prepare(chain, "cuda")
    cells = fused.cells_of(chain, shape, shape, "cuda")
    table = torch.zeros((n, n_codes), device="cuda")
    for exact in (True, False):

        def run(exact: bool = exact) -> Any:
            return fused.pooled_codes(pixels, filters, prepared, cells, chain, table.zero_(), exact)

        time_all = seconds(run)
        name = "exact" if exact else "fast"
        say(f"own kernels, {name}", n / time_all, "images/s",
            f"{n / time_all / rate_plain:.1f} x plain, {n / time_all / rate_compiled:.1f} x compiled, "
            f"{n * floor / time_all:.0%} of the floor's rate")  # fmt: skip
        if exact:
            share = int(run()) / (n * descriptors)
            say("  descriptors compared again", 100 * share, "%")
    flat = plain.flat_of(pixels, filters, chain, SIDE)
    maps = fused.pooled_maps(pixels, flat, prepared, chain)
    say("  flat", 1e6 * seconds(lambda: plain.flat_of(pixels, filters, chain, SIDE)) / n, "us/image")
    time_maps = seconds(lambda: fused.pooled_maps(pixels, flat, prepared, chain))
    say("  soft convolution, pooled", 1e6 * time_maps / n, "us/image")
    for exact in (True, False):
        spent = seconds(lambda: fused.mark_words(maps, prepared, chain, cells, table, exact))  # noqa: B023
        say(f"  assembling, words, cells ({'exact' if exact else 'fast'})", 1e6 * spent / n, "us/image",
            f"{n * operations / spent / 1e12:.0f} TFLOP/s, {n * operations / spent / product:.0%} "
            "of the measured product")  # fmt: skip


def compiled(pixels: Any, filters: Any, words: Any, chain: Any) -> float:
    """The plain path under torch.compile."""

    def work(pixels: Any, filters: Any, words: Any) -> Any:
        return plain.pooled_codes(pixels, filters, words, chain)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = torch.compile(work)
        rate = len(pixels) / seconds(lambda: fast(pixels, filters, words))
    say("plain torch, tf32, torch.compile", rate, "images/s")
    return rate


def agreement(images: list[np.ndarray], model: MidFea) -> None:
    """Pooled codes of the cpu engine, and what differs elsewhere."""
    chain = model._chain
    theirs = np.stack([get_engine("cpu").pooled(image, chain) for image in images])
    ones = int(np.count_nonzero(theirs))
    for name, precision, own in (("plain", "exact", False), ("own kernels, exact", "exact", True),
                                 ("own kernels, fast", "fast", True)):  # fmt: skip
        engine = TorchEngine(model.device, precision)
        if not own:
            engine._fused = None
        codes = engine.pooled_many(images, chain)
        say(f"codes unlike the cpu engine's, {name}", int((np.abs(codes - theirs) > 1e-3).sum()),
            f"of {ones}", f"{len(images)} images of their own sizes")  # fmt: skip


def once(work: Callable[[], Any]) -> float:
    """Seconds on the clock."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def wall(work: Callable[[], Any]) -> float:
    """Seconds the second time."""
    once(work)
    return once(work)


def end_to_end(files: list[str], model: MidFea) -> None:
    """From JPEG files to projected features: read while the device works, and read before it does."""
    some, n = files[:512], len(files)
    model.set_params(engine="cpu")
    say(
        "JPEG files to features, engine cpu", len(some) / wall(lambda: model.transform(some)), "images/s"
    )
    greys = read(files, 2)
    model.set_params(engine="torch").transform(greys)
    for n_jobs in (2, 4):
        model.set_params(n_jobs=n_jobs)
        reading = once(lambda: read(files, n_jobs))  # noqa: B023
        computing = once(lambda: model.transform(greys))
        together = once(lambda: model.transform(files))
        say(f"JPEG files read, {n_jobs} threads", n / reading, "images/s")
        say("  read images to features, engine torch", n / computing, "images/s", "mixed sizes")
        say("  one after the other", n / (reading + computing), "images/s")
        say("  JPEG files to features, pipelined", n / together, "images/s")
    model.set_params(n_jobs=None)


def large(model: MidFea) -> None:
    """One image that does not fit at once: strips of rows."""
    rng = np.random.RandomState(0)
    image = rng.randint(256, size=(10_000, 10_000)).astype(np.uint8)
    engine = TorchEngine("cuda")
    torch.cuda.reset_peak_memory_stats()
    spent = wall(lambda: engine.pooled(image, model._chain))
    say(
        "10,000 x 10,000 pixels", spent, "s", f"{torch.cuda.max_memory_allocated() / 1e9:.0f} GB at most"
    )


# -- learning ---------------------------------------------------------------------------------------


def split(y: np.ndarray) -> np.ndarray:
    """Which images are for training: at most `TRAINING` of each class, seed 0."""
    rng = np.random.RandomState(0)
    train = np.zeros(len(y), dtype=bool)
    for c in range(y.max() + 1):
        train[rng.permutation(np.flatnonzero(y == c))[:TRAINING]] = True
    return train


def learning(greys: list[np.ndarray], y: np.ndarray, device: str) -> None:
    """k-means, PCA and the NS layer: seconds here and there, and how far apart the results are."""
    there = {"engine": "torch", "device": device}
    model = MidFea(**there, random_state=0)
    say(
        "learning filters and words, first time",
        once(lambda: model.fit(greys)),
        "s",
        f"{len(greys)} images",
    )
    words = {}
    for name, where in (("torch", there), ("cpu", {"engine": "cpu"})):
        model.set_params(**where)

        def learn(name: str = name) -> None:
            words[name] = model._learn_codebook(greys[:1000], np.random.RandomState(0))

        say(f"k-means and describing, {name}", once(learn), "s", "1000 words, 100,000 descriptors")
    points = np.concatenate(
        [
            get_engine("cpu").describe(g, model._chain).reshape(-1, words["cpu"].shape[1])
            for g in greys[:20]
        ]
    )
    costs = {}
    for name, centres in words.items():
        nearest = centres[get_engine("cpu").search(centres)(points)]
        costs[name] = float(((points - nearest) ** 2).sum(axis=1).mean())
    differ("  mean squared distance to the nearest word", costs)

    model.set_params(**there)
    codes = model._engine().pooled_many(greys, model._chain)
    n_components = min(1000, len(codes) // 2)
    found: dict[str, np.ndarray] = {}

    def on_device() -> None:
        with arrays_on("torch", device) as put:
            found["torch"] = to_numpy(principal_directions(put(codes), n_components)[1])

    def on_cpu() -> None:
        found["cpu"] = PCA(n_components, random_state=0).fit(codes).components_.T

    shape = f"{codes.shape[0]} x {codes.shape[1]} codes, {n_components} directions"
    say("PCA, torch", wall(on_device), "s", shape)
    say("PCA, cpu (scikit-learn)", once(on_cpu), "s", shape)
    central = codes - codes.mean(axis=0)
    differ("  variance seen", {name: float(np.square(central @ v).sum()) for name, v in found.items()})
    neuron_selectivity(model.transform(greys), y, there)


def neuron_selectivity(x: np.ndarray, y: np.ndarray, there: dict[str, Any]) -> None:
    """Six rounds, 20 neurons for each class."""
    inputs = centred(x, x.mean(axis=0))
    values: dict[str, float] = {}
    n_neurons = 20 * (int(y.max()) + 1)
    sizes = f"p={x.shape[1]} d={n_neurons} N={len(y)} C={y.max() + 1}"

    def fit(name: str, inputs: np.ndarray, **where: Any) -> float:
        layer = NeuronSelectivity(n_neurons, tol=1e-4, random_state=0, **where)
        spent = once(lambda: layer.fit(inputs, y))
        values[name] = float(layer.objective_[-1])
        return spent

    fit("torch", inputs, **there)  # to warm up
    say("NS layer, six rounds, torch", fit("torch", inputs, **there), "s", sizes)
    rng = np.random.RandomState(0)
    nudged = []
    for _ in range(5):
        fit("nudged", inputs * (1 + 1e-7 * rng.randn(*inputs.shape)).astype(np.float32), **there)
        nudged.append(values.pop("nudged") / values["torch"] - 1)
    say("  objective, inputs changed by 1e-7", 100 * max(nudged, key=abs), "%", "the farthest of five")
    say("NS layer, six rounds, cpu", fit("cpu", inputs), "s", sizes)
    differ("  objective", values)


def differ(what: str, values: dict[str, float]) -> None:
    ratio = values["torch"] / values["cpu"]
    say(
        f"{what}, torch against cpu",
        100 * (ratio - 1),
        "%",
        f"{values['torch']:.6g}, {values['cpu']:.6g}",
    )


def best(greys: list[np.ndarray], y: np.ndarray, device: str) -> None:
    """The preset "best" and a linear SVM: features and SVM by each engine, one codebook."""
    there = {"engine": "torch", "device": device}
    train = split(y)
    training = [greys[i] for i in np.flatnonzero(train)]
    model = MidFea(preset="best", **there, random_state=0)
    spent = once(lambda: model.fit(training))
    say("best: learning filters and words, torch", spent, "s", f"{train.sum()} images")
    agreement(greys[:8], model)
    tested = f"{train.sum()} images for training, {(~train).sum()} for testing"
    sizes = f"{len({image.shape for image in greys})} sizes"
    features: dict[str, np.ndarray] = {}
    margins: dict[str, np.ndarray] = {}
    for name, where, times in (
        ("torch", there, ("first time", "again")),
        ("cpu", {"engine": "cpu"}, ("",)),
    ):
        model.set_params(**where)

        def transform(name: str = name) -> None:
            features[name] = model.transform(greys)

        for time_of in times:
            say(
                f"best: {len(greys)} decoded images to features, {name} {time_of}",
                once(transform),
                "s",
                sizes,
            )
        x = features.pop(name)
        with arrays_on(name, device) as put:
            started = time.perf_counter()
            weights, intercepts = fit_linear_svm(x[train], y[train], 10.0, put)
            spent = time.perf_counter() - started
        say(f"linear SVM, {name}", spent, "s", f"{train.sum()} x {x.shape[1]}, {y.max() + 1} classes")
        margins[name] = x[~train] @ weights + intercepts
        hits = margins[name].argmax(axis=1) == y[~train]
        by_class = [hits[y[~train] == c].mean() for c in np.unique(y[~train])]
        say(f"best: accuracy, {name}", 100 * hits.mean(), "%", tested)
        say(f"best: mean accuracy of the classes, {name}", 100 * np.mean(by_class), "%")
    say("  largest difference of a decision value", float(np.ptp([*margins.values()], axis=0).max()), "")
    whole = MidFeaClassifier(preset="best", finetune=False, **there, random_state=0)
    say("best: MidFeaClassifier.fit, torch", once(lambda: whole.fit(training, y[train])), "s", tested)
    say("best: MidFeaClassifier.score, torch",
        100 * whole.score([greys[i] for i in np.flatnonzero(~train)], y[~train]), "%")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given several times")
    parser.add_argument("--device", default="cuda", help='"cpu" will do for learning and best')
    parser.add_argument("--quick", action="store_true", help="a tenth of the classes, or of the images")
    arguments = parser.parse_args()
    parts = arguments.only or PARTS
    device = arguments.device
    if device == "cuda":
        print(torch.cuda.get_device_name(), "torch", torch.__version__)
    with tempfile.TemporaryDirectory() as folder:
        files, y = read_photos(arguments.photos, Path(folder))
        greys = read(files, 2)
        chosen = np.flatnonzero(y <= y.max() // 10) if arguments.quick else np.arange(len(y))
        if "learning" in parts:
            train = chosen[split(y[chosen])]
            learning([greys[i] for i in train], y[train], device)
        if "best" in parts:
            best([greys[i] for i in chosen], y[chosen], device)
        if "throughput" in parts or "files" in parts:
            some = greys[:: max(1, len(greys) // 256)]
            model = MidFea(engine="torch", device=device, random_state=0).fit(some)
        if "throughput" in parts:
            copy, product = ceilings()
            stack = np.stack([resize(some[i % len(some)], (SIDE, SIDE)) for i in range(512)])
            device_resident(stack, model, copy, product)
            agreement(some[:40], model)
            large(model)
        if "files" in parts:
            end_to_end([files[i] for i in chosen], model)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
