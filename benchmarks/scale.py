"""Images a second and peak memory of `midfea extract`, for growing numbers of images.

    ./dev run python benchmarks/scale.py [--images 2000 10000] [--jobs 1 2] [--model model.midfea]

Images of 96x96 pixels are drawn and written as JPEG files, 1 % of them corrupt in five ways. Each run
is a process of its own. Without --model a classifier of preset `fast` is trained on the drawn surfaces.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces

SIDE = 96  # pixels
ONE_IN = 100  # images is corrupt
RUN = r"""
import json, re, resource, sys, time
from pathlib import Path
from midfea.scale.extract import extract
from midfea.scale.local import Processes
if __name__ == "__main__":
    source, output, model, n_jobs, shard_size = sys.argv[1:]
    begun = time.perf_counter()
    done = extract(source, output, model, executor=Processes(int(n_jobs)), shard_size=int(shard_size))
    seconds = time.perf_counter() - begun
    # Not from getrusage, which counts the memory of the process that started this one.
    peak = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1000
    of_worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print(json.dumps([seconds, peak, of_worker, done.counts.rows, done.counts.errors]))
"""


def draw(folder: Path, n: int) -> None:
    """n files in six class folders: drawn surfaces, shifted and mirrored at random."""
    data = load_surfaces(n_per_class=20, size=SIDE, random_state=0)
    rng = np.random.RandomState(0)
    for number in range(n):
        kind = data.target[number % len(data.images)]
        shifted = np.roll(data.images[number % len(data.images)], rng.randint(SIDE, size=2), axis=(0, 1))
        file = io.BytesIO()
        Image.fromarray(shifted[:, :: rng.choice([-1, 1])]).save(file, "JPEG", quality=90)
        content = file.getvalue()
        if number % ONE_IN == ONE_IN - 1:
            content = corrupt(content, number // ONE_IN)
        place = folder / data.target_names[kind]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:07}.jpg").write_bytes(content)


def corrupt(content: bytes, way: int) -> bytes:
    """No image any more: empty, cut, text, noise behind a JPEG's start, no start."""
    ways = (b"", content[: len(content) // 4], b"no image", content[:3] + content[400:], content[20:])
    return ways[way % len(ways)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shard-size", type=int, default=1000)
    parser.add_argument("--model", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = given.model or folder / "model.midfea"
        if given.model is None:
            data = load_surfaces(size=SIDE, random_state=1)
            MidFeaClassifier(preset="fast", random_state=0).fit(data.images, data.target).save(model)
        (folder / "run.py").write_text(RUN)
        print(f"{'images':>8} {'jobs':>4} {'s':>7} {'images/s':>8} {'MB':>6} {'MB of a worker':>14}")
        for n in given.images:
            photos = folder / f"photos-{n}"
            draw(photos, n)
            for jobs in given.jobs:
                output = folder / f"features-{n}-{jobs}"
                line = [folder / "run.py", photos, output, model, jobs, given.shard_size]
                done = subprocess.run(
                    [sys.executable, *map(str, line)], stdout=subprocess.PIPE, check=True
                )
                seconds, peak, child, rows, errors = json.loads(done.stdout)
                assert (rows, errors) == (n - n // ONE_IN, n // ONE_IN)
                of_worker = f"{child:.0f}" if jobs > 1 else "-"
                rate = n / seconds
                print(
                    f"{n:8,} {jobs:4} {seconds:7.1f} {rate:8.0f} {peak:6.0f} {of_worker:>14}", flush=True
                )


if __name__ == "__main__":
    begun = time.monotonic()
    main()
    print(f"({time.monotonic() - begun:.0f} s in all)")
