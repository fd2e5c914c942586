"""Training from the features of many images: seconds, peak memory, and the accuracy beside a reference.

    ./dev run python benchmarks/large_training.py [--rows 1000000] [--json FILE]

Drawn rows of 3000 features in ten classes are written as midfea extract writes them (12 GB for a
million rows, in --folder). Then midfea's training from features runs in a process of its own. Features
of a class vary around its mean, less in later features; 5 % of the labels are drawn anew, also in the
test rows, which are drawn alike. The reference is scikit-learn's LinearSVC with the same C on some of
the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.svm import LinearSVC

import midfea
from midfea.datasets import load_surfaces
from midfea.provenance import write_rows
from midfea.scale.extract import ABOUT, FORMAT, VERSION
from midfea.scale.manifest import Row, file_sha256
from midfea.scale.shards import Columns, Results, ShardFolder, cut

N_FEATURES, N_CLASSES = 3000, 10
LABEL_NOISE = 0.05
SHARD_SIZE = 1000
N_TEST = 200_000
RUN = """
import json, re, sys, time
from pathlib import Path
from midfea.scale.training import train_on_features
if __name__ == "__main__":
    folder, model = sys.argv[1:]
    begun = time.perf_counter()
    trained = train_on_features(folder, n_jobs=2)
    seconds = time.perf_counter() - begun
    trained.model.save(model)
    peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1e6
    validation = trained.model.validation_
    print(json.dumps({
        "seconds": seconds, "peak": peak, "C": trained.model.C_, "rows": trained.n_images,
        "said": [validation.accuracy, validation.interval.low, validation.interval.high],
    }))
"""


def draw(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """n rows and their class numbers."""
    means = np.random.default_rng(0).standard_normal((N_CLASSES, 40), dtype=np.float32)
    rng = np.random.default_rng([1, seed])
    y = rng.integers(N_CLASSES, size=n)
    x = rng.standard_normal((n, N_FEATURES), dtype=np.float32)
    x[:, :40] += 0.9 * means[y]
    x *= (1 + np.arange(N_FEATURES, dtype=np.float32) / 20) ** -1
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    anew = rng.random(n) < LABEL_NOISE
    y[anew] = rng.integers(N_CLASSES, size=int(anew.sum()))
    return x, y


def blocks(first: int, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """n rows, 1000 at a time, from seed number `first` on."""
    for number in range(n // SHARD_SIZE):
        yield draw(first + number, SHARD_SIZE)


def write(folder: Path, model: Path, n: int) -> None:
    """A folder as extract writes it."""
    folder.mkdir()
    columns = Columns(N_FEATURES, 0)
    shards = ShardFolder(folder, columns)
    shards.prepare()
    for shard, (x, y) in zip(cut(n, SHARD_SIZE), blocks(0, n), strict=True):
        rows = [Row(shard.first + i, f"{shard.first + i}.jpg", f"class {k}") for i, k in enumerate(y)]
        shards.write(shard, Results(rows, [x]))
    settings = {"model_sha256": file_sha256(model), "dtype": "float32", "shard_size": SHARD_SIZE}
    description = {"format": FORMAT, "version": VERSION, "settings": settings, "model": str(model)}
    description |= {"images": n, "n_features": N_FEATURES, "classes": []}
    (folder / ABOUT).write_text(json.dumps(description))


def accuracies(heads: list) -> list[float]:
    """Of each head on the test rows, as the drawn labels have it."""
    correct = np.zeros(len(heads))
    for x, y in blocks(10**6, N_TEST):
        correct += [(head(x).argmax(axis=1) == y).sum() for head in heads]
    return [float(100 * count / N_TEST) for count in correct]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--reference", type=int, default=50_000, help="rows of the reference")
    parser.add_argument("--folder", type=Path, help="where there is room for the rows")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
        folder = Path(temporary)
        data = load_surfaces(n_per_class=20, random_state=0)
        model = midfea.MidFeaClassifier(
            preset="paper", n_words=200, n_components=N_FEATURES, C="auto", random_state=0
        )
        model.fit(data.images, data.target).save(folder / "start.midfea")
        begun = time.perf_counter()
        write(folder / "features", folder / "start.midfea", given.rows)
        print(f"{given.rows:,} rows written in {time.perf_counter() - begun:.0f} s", flush=True)
        (folder / "run.py").write_text(RUN)
        line = [folder / "run.py", folder / "features", folder / "all.midfea"]
        done = subprocess.run([sys.executable, *map(str, line)], stdout=subprocess.PIPE, check=True)
        found = json.loads(done.stdout)
        print(
            f"trained in {found['seconds']:.0f} s, peak {found['peak']:.2f} GB, C {found['C']:g}, "
            "accuracy said {:.2%} ({:.2%} to {:.2%})".format(*found["said"]),
            flush=True,
        )
        head = midfea.load(folder / "all.midfea").head_
        some = list(blocks(0, min(given.reference, given.rows)))
        x, y = (np.concatenate(parts) for parts in zip(*some, strict=True))
        begun = time.perf_counter()
        reference = LinearSVC(C=found["C"], random_state=0).fit(x, y)
        seconds = time.perf_counter() - begun
        ours, theirs = accuracies([head.scores, reference.decision_function])
        print(
            f"accuracy on {N_TEST:,} test rows: {ours:.2f} %; LinearSVC on {len(x):,} rows "
            f"({seconds:.0f} s): {theirs:.2f} %"
        )
    if given.json is not None:
        row = {"rows": given.rows, "features": N_FEATURES, **found, "accuracy": ours}
        row |= {"reference_rows": len(x), "reference_accuracy": theirs, "cores": os.cpu_count()}
        write_rows([row], given.json, [0])


if __name__ == "__main__":
    main()
