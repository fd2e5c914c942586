"""What one image costs one process: the rates from which `midfea plan` plans.

    ./dev run python benchmarks/rates.py [--sides 96 150 640] [--images 2000] [--json FILE]

For each side a classifier of preset `fast` is trained on drawn surfaces of that size, and drawn images
are written as JPEG files. Their rates are measured as by `midfea plan --model --sample`: of one process,
while one works on each core. Beside them is what `midfea extract` does between its first image and its
last, on all cores, divided by the cores: the steps must add up to it. The rows that midfea ships are
made by `--json src/midfea/scale/rates.json`, on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path

from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces
from midfea.parallel import n_threads
from midfea.provenance import about, write_rows
from midfea.scale.extract import extract
from midfea.scale.local import Processes
from midfea.scale.rates import Rates, measure
from midfea.scale.shards import Shard
from midfea.scale.worker import Job
from scale import draw

SEED = 0


class Timed:
    """Processes on all cores that notes the time from the first image to the last."""

    seconds = 0.0

    def __init__(self) -> None:
        self.n_processes = n_threads(None)

    def run(self, job: Job, shards: Sequence[Shard]) -> Generator[None, None, None]:
        with closing(Processes(self.n_processes).run(job, shards)) as done:
            next(done)
            begun = time.perf_counter()
            yield
            for _ in done:
                self.seconds = time.perf_counter() - begun
                yield


def prepare(side: int, n_images: int, folder: Path) -> None:
    """A model of preset fast for images of that side, and images."""
    data = load_surfaces(size=side, random_state=1)
    model = MidFeaClassifier(preset="fast", random_state=SEED).fit(data.images, data.target)
    model.save(folder / f"fast-{side}.midfea")
    draw(folder / f"photos-{side}", n_images, side)


def measured(side: int, n_images: int, folder: Path) -> tuple[Rates, float]:
    """Their rates, and extract's images a second of a core."""
    model, photos = folder / f"fast-{side}.midfea", folder / f"photos-{side}"
    rates = measure(model, str(photos), f"fast-{side}")
    timed = Timed()
    extract(photos, folder / f"features-{side}", model, executor=timed, shard_size=250)
    return rates, n_images / timed.seconds / timed.n_processes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", type=int, nargs="+", default=[96, 150, 640], help="pixels")
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to this file")
    given = parser.parse_args()
    print(
        f"{'name':>9} {'bytes':>8} {'read ms':>8} {'decode ms':>9} {'compute ms':>10} {'write ms':>8} "
        f"{'images/s':>8} {'of extract':>10} {'features':>8} {'MB':>5} {'start s':>7} {'core share':>10}"
    )
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for side in given.sides:
            prepare(side, given.images, Path(temporary))
        for side in given.sides:
            rates, of_extract = measured(side, given.images, Path(temporary))
            steps = (
                rates.read_seconds,
                rates.decode_seconds,
                rates.compute_seconds,
                rates.write_seconds,
            )
            read, decode, compute, write = (1000 * seconds for seconds in steps)
            print(
                f"{rates.name:>9} {rates.image_bytes:8.0f} {read:8.3f} {decode:9.3f} {compute:10.3f} "
                f"{write:8.3f} {1 / rates.image_seconds:8.1f} {of_extract:10.1f} {rates.n_features:8} "
                f"{rates.process_bytes / 1e6:5.0f} {rates.start_seconds:7.2f} {rates.core_share:10.3f}",
                flush=True,
            )
            extracted = {"extract_images_per_second": of_extract}
            rows.append({**rates.to_row(), **extracted, "about": about([SEED])})
    if given.json is not None:
        write_rows(rows, given.json, [SEED])


if __name__ == "__main__":
    main()
