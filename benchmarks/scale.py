"""Images a second and peak memory of `midfea extract`, for growing numbers of images.

    ./dev run python benchmarks/scale.py [--images 2000 10000] [--jobs 1 2] [--model model.midfea]
        [--ray [--kill]] [--kills 10] [--json FILE]

Images of 96x96 pixels are drawn and written as JPEG files, 1 % of them corrupt in five ways. Each run
is a process of its own. Without --model a classifier of preset `fast` is trained on the drawn surfaces.

With --ray the runs of the most processes are also done by workers of a Ray cluster in this machine, and
must give the same files. What that costs shows in two columns: the seconds before the first image and
after the last one, and a worker's milliseconds for each image between them. With --kill one worker is
killed when half of the images are done.

With --kills N each run of several processes is done again, killed (kill -9) N times at random moments,
and must end with the same files. Each image must have one row, or one error.
"""

from __future__ import annotations

import argparse
import filecmp
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.dataset as pads
from PIL import Image

from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces
from midfea.provenance import write_rows

SIDE = 96  # pixels
ONE_IN = 100  # images is corrupt
RUN = r"""
import json, os, re, resource, signal, sys, time
from contextlib import closing
from pathlib import Path
from midfea.scale.extract import extract
from midfea.scale.local import Processes

class Timed:
    def __init__(self, executor, kill):
        self.executor, self.kill = executor, kill
        self.first = self.last = time.perf_counter()

    def run(self, job, shards):
        half = sum(shard.n_images for shard in shards) // 2
        with closing(self.executor.run(job, shards)) as done:
            for number, _ in enumerate(done):
                if number == 0:
                    self.first = time.perf_counter()
                if number == half and self.kill:
                    os.kill(self.a_worker(), signal.SIGKILL)
                self.last = time.perf_counter()
                yield

    def a_worker(self):
        for path in Path("/proc").glob("[0-9]*"):
            number = int(path.name)
            if (path / "cmdline").read_bytes().startswith(b"ray::RemoteWorker"):
                if os.getsid(number) == os.getsid(0):
                    return number

if __name__ == "__main__":
    source, output, model, n_jobs, shard_size, on, kill = sys.argv[1:]
    executor = Processes(int(n_jobs))
    if on == "ray":
        from midfea.scale.cluster.executor import RayCluster
        executor = RayCluster("local", int(n_jobs))
    timed = Timed(executor, kill == "True")
    begun = time.perf_counter()
    done = extract(source, output, model, executor=timed, shard_size=int(shard_size))
    seconds = time.perf_counter() - begun
    # Not from getrusage, which counts the memory of the process that started this one.
    peak = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) / 1000
    of_worker = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
    print(json.dumps({
        "seconds": seconds,
        "between": timed.last - timed.first,
        "peak": peak,
        "of_worker": of_worker,
        "counts": [done.counts.rows, done.counts.errors],
    }))
"""


def draw(folder: Path, n: int, side: int = SIDE) -> None:
    """n files in six class folders: drawn surfaces, shifted and mirrored at random."""
    data = load_surfaces(n_per_class=20, size=side, random_state=0)
    rng = np.random.RandomState(0)
    for number in range(n):
        kind = data.target[number % len(data.images)]
        shifted = np.roll(data.images[number % len(data.images)], rng.randint(side, size=2), axis=(0, 1))
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


def measure(folder: Path, n: int, jobs: int, on: str, given: argparse.Namespace) -> Path:
    """Run extract in a process of its own, and print what it took; returns its output."""
    output = folder / f"features-{n}-{jobs}-{on}"
    kill = on == "ray" and given.kill
    line = [
        folder / "run.py",
        folder / f"photos-{n}",
        output,
        given.model,
        jobs,
        given.shard_size,
        on,
        kill,
    ]
    done = subprocess.run(
        [sys.executable, *map(str, line)], stdout=subprocess.PIPE, check=True, start_new_session=True
    )
    found = json.loads(done.stdout.splitlines()[-1])  # Ray tells there of workers that died
    assert found["counts"] == [n - n // ONE_IN, n // ONE_IN]
    assert_each_image_once(output, n)
    of_worker = f"{found['of_worker']:.0f}" if jobs > 1 and on == "processes" else "-"
    seconds, between = found["seconds"], found["between"]
    print(
        f"{n:8,} {jobs:4} {on:>9} {seconds:7.1f} {n / seconds:8.0f} {seconds - between:13.1f} "
        f"{1000 * jobs * between / n:8.2f} {found['peak']:6.0f} {of_worker:>14}",
        flush=True,
    )
    given.found.append({"images": n, "jobs": jobs, "on": on, "killed": int(kill), **found})
    return output


def interrupted(folder: Path, n: int, jobs: int, given: argparse.Namespace) -> Path:
    """Run extract, and kill it at random moments, until it has come to its end."""
    output = folder / f"features-{n}-{jobs}-interrupted"
    line = [folder / "run.py", folder / f"photos-{n}", output, given.model, jobs, given.shard_size]
    command = [sys.executable, *map(str, line), "processes", "False"]
    seconds = given.found[-1]["seconds"]
    rng, moments = np.random.RandomState(0), []
    while len(moments) < given.kills:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            process.wait(2 + rng.uniform(0, 1.5 * seconds / given.kills))
            break
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            moments.append(len(list((output / "done").glob("*.json"))))
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    assert_each_image_once(output, n)
    print(f"{n:8,} {jobs:4} killed {len(moments)} times, after {moments} shards: the same files")
    given.found.append({"images": n, "jobs": jobs, "on": "processes", "killed after shards": moments})
    return output


def assert_each_image_once(output: Path, n: int) -> None:
    """A row or an error for each; errors for the corrupt ones."""
    rows, errors = (
        np.sort(pads.dataset(output / kind).to_table(["id"])["id"].to_numpy())
        for kind in ("rows", "errors")
    )
    assert len(errors) == n // ONE_IN
    assert np.array_equal(np.sort(np.concatenate([rows, errors])), np.arange(n))
    addresses = pads.dataset(output / "errors").to_table(["address"])["address"].to_pylist()
    assert all(int(Path(address).stem) % ONE_IN == ONE_IN - 1 for address in addresses)


def assert_same_files(output: Path, other: Path) -> None:
    for kind in ("rows", "errors"):
        names = sorted(path.name for path in (output / kind).iterdir())
        assert filecmp.cmpfiles(output / kind, other / kind, names, shallow=False)[0] == names


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shard-size", type=int, default=1000)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--ray", action="store_true", help="also on a Ray cluster of this machine")
    parser.add_argument("--kill", action="store_true", help="kill one of its workers")
    parser.add_argument("--kills", type=int, default=0, help="kill -9 at so many random moments")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    given.found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if given.model is None:
            given.model = folder / "model.midfea"
            data = load_surfaces(size=SIDE, random_state=1)
            fitted = MidFeaClassifier(preset="fast", random_state=0).fit(data.images, data.target)
            fitted.save(given.model)
        (folder / "run.py").write_text(RUN)
        print(
            f"{'images':>8} {'jobs':>4} {'on':>9} {'s':>7} {'images/s':>8} {'start + end s':>13} "
            f"{'ms/image':>8} {'MB':>6} {'MB of a worker':>14}"
        )
        for n in given.images:
            draw(folder / f"photos-{n}", n)
            for jobs in given.jobs:
                output = measure(folder, n, jobs, "processes", given)
                if given.kills and jobs > 1:
                    assert_same_files(interrupted(folder, n, jobs, given), output)
                if given.ray and jobs == max(given.jobs):
                    assert_same_files(measure(folder, n, jobs, "ray", given), output)
                if given.json is not None:
                    write_rows(given.found, given.json, [0])


if __name__ == "__main__":
    begun = time.monotonic()
    main()
    print(f"({time.monotonic() - begun:.0f} s in all)")
