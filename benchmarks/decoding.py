"""How many decode processes feed one engine, and where the time goes.

    python benchmarks/decoding.py --device cuda [--jobs 1 2 4 8 16] [--images 20000] [--json FILE]
    python benchmarks/decoding.py --device cpu --images 400 --jobs 1 2

Coloured JPEG files of 500x375 pixels are drawn, and the same files in tar files. Measured are the decode
processes alone, the torch engine alone with pictures in memory, and both together as in
`midfea extract --engine torch`. The start of the processes is not counted. The model has the paper's
settings, or is that of --model.
"""

from __future__ import annotations

import argparse
import io
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from midfea.engines import EngineSettings
from midfea.pictures.picture import Picture
from midfea.provenance import Row, make_row, write_rows
from midfea.scale.children import CONTEXT
from midfea.scale.decoder import Decoder, Failure
from midfea.scale.decoding import decode_in_processes, images_in_part
from midfea.scale.handover import SHARED_BYTES, Sender, handover
from midfea.scale.local import DecodeProcesses
from midfea.scale.manifest import Manifest, write_manifest
from midfea.scale.shards import Results, ShardFolder, cut
from midfea.scale.worker import IMAGES_FOR_DEVICE, Job, PictureModel

WIDTH, HEIGHT, QUALITY = 500, 375, 90
N_DRAWN = 60  # different images; each is written many times
IMAGES_IN_TAR, SHARD_SIZE = 5000, 1000
PARTS = 200  # handed over


def drawn() -> list[bytes]:
    """The contents of some JPEG files: surfaces in different colours."""
    from midfea.datasets import load_surfaces

    contents = []
    for number, grey in enumerate(load_surfaces(n_per_class=10, size=WIDTH, random_state=0).images):
        tint = np.roll([1.0, 0.8, 0.6], number)
        file = io.BytesIO()
        Image.fromarray((grey[:HEIGHT, :, None] * tint).astype(np.uint8)).save(
            file, "JPEG", quality=QUALITY
        )
        contents.append(file.getvalue())
    return contents[:N_DRAWN]


def write_sources(folder: Path, n: int) -> dict[str, Path]:
    """Manifests of n JPEG files, and of as many in tar files."""
    contents = drawn()
    for kind in ("files", "tar"):
        (folder / kind).mkdir()
    for start in range(0, n, IMAGES_IN_TAR):
        with tarfile.open(folder / f"tar/{start:08}.tar", "w") as tar:
            for number in range(start, min(start + IMAGES_IN_TAR, n)):
                content = contents[number % len(contents)]
                (folder / f"files/{number:08}.jpg").write_bytes(content)
                about = tarfile.TarInfo(f"{number:08}.jpg")
                about.size = len(content)
                tar.addfile(about, io.BytesIO(content))
    manifests = {}
    for kind in ("files", "tar"):
        manifests[kind] = folder / f"{kind}.parquet"
        write_manifest([str(folder / kind)], manifests[kind])
    return manifests


def rate(items: Iterator[object], n_first: int) -> float:
    """Items a second, after the first ones."""
    for _ in range(n_first):
        next(items)
    begun = time.perf_counter()
    n = sum(1 for _ in items)
    return n / (time.perf_counter() - begun)


def decode_rate(decoder: Decoder, manifest: Path, n_jobs: int) -> float:
    """Of decode processes, if nothing is computed."""
    shards = cut(len(Manifest(manifest)), SHARD_SIZE)
    with closing(decode_in_processes(decoder, manifest, shards, n_jobs)) as decoded:
        return rate(decoded, n_jobs * images_in_part(decoder.view))


def engine_rate(model: PictureModel, pictures: list[Picture], n: int) -> float:
    """Of the engine and all else that is computed, with pictures in memory."""
    batch = (pictures * IMAGES_FOR_DEVICE)[:IMAGES_FOR_DEVICE]
    model.values(batch)
    n_batches = max(n // len(batch), 2)
    begun = time.perf_counter()
    for _ in range(n_batches):
        model.values(batch)
    return n_batches * len(batch) / (time.perf_counter() - begun)


def both_rate(job: Job, n_jobs: int) -> float:
    """Of processes that decode for the engine; shards are written."""
    ShardFolder(job.output, PictureModel(job).columns(job.dtype)).prepare()
    shards = cut(len(Manifest(job.manifest)), SHARD_SIZE)
    with closing(DecodeProcesses(n_jobs).run(job, shards)) as done:
        return rate(done, IMAGES_FOR_DEVICE + 1)  # when the first batch has been computed


def hand_over(sender: Sender, picture: Picture, n: int) -> None:
    """In a process: pictures that need no decoding."""
    planes = [picture.grey, *picture.colours]
    copies = [[plane.copy() for plane in planes] for _ in range(n)]
    part = [Picture(grey, tuple(colours)) for grey, *colours in copies]
    for _ in range(PARTS):
        sender.send(part)


def handover_seconds(picture: Picture, n_in_part: int, shared_bytes: int) -> tuple[float, float]:
    """Of an image, from one process to this one; and this one's processor time."""
    receiver, sender = handover(shared_bytes)
    process = CONTEXT.Process(target=hand_over, args=(sender, picture, n_in_part))
    process.start()
    sender.close()
    receiver.receive()
    begun, begun_here = time.perf_counter(), time.process_time()
    for _ in range(PARTS - 1):
        receiver.receive()
    n = (PARTS - 1) * n_in_part
    seconds, here = time.perf_counter() - begun, time.process_time() - begun_here
    process.join()
    receiver.close()
    return seconds / n, here / n


def write_seconds(model: PictureModel, folder: Path, pictures: list[Picture]) -> float:
    """Of an image, for writing the shard that it is in."""
    manifest = Manifest(folder / "files.parquet")
    (shard,) = cut(min(SHARD_SIZE, len(manifest)), SHARD_SIZE)
    features = model.values(pictures[:1]).features
    results = Results(manifest.rows(0, shard.n_images), [np.repeat(features, shard.n_images, axis=0)])
    (folder / "written").mkdir()
    shards = ShardFolder(folder / "written", model.columns("float32"))
    shards.prepare()
    begun = time.perf_counter()
    shards.write(shard, results)
    return (time.perf_counter() - begun) / shard.n_images


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", help="of the torch engine (default: a GPU if there is one)")
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[Row] = []

    def say(dataset: str, method: str, metric: str, value: float) -> None:
        rows.append(make_row(dataset, method, metric, [value]))
        print(f"{dataset:10} {method:45} {value:10,.1f} {metric}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        manifests = write_sources(folder, given.images)
        path = given.model or folder / "model.midfea"
        if given.model is None:
            from midfea import MidFea
            from midfea.datasets import load_surfaces

            images = load_surfaces(n_per_class=10, size=150, random_state=1).images
            MidFea(random_state=0).fit(images).save(path)
        engine = EngineSettings("torch", given.device)
        job = Job(manifests["files"], path, folder, "features", "float32", engine)
        model = PictureModel(job)
        first = [str(row.address) for row in Manifest(manifests["files"]).rows(0, N_DRAWN)]
        pictures = [Decoder(model.view).decode(address) for address in first]
        assert not any(isinstance(picture, Failure) for picture in pictures)
        shape = pictures[0].shape
        print(
            f"{given.images:,} JPEG files of {WIDTH}x{HEIGHT}, "
            f"pictures of {shape[1]}x{shape[0]}, {pictures[0].n_bytes / 1000:.0f} kB"
        )

        # First: torch's threads go on spinning for a while.
        for name, n_bytes in (("shared memory", SHARED_BYTES), ("a pipe alone", 1)):
            seconds, here = handover_seconds(pictures[0], images_in_part(model.view), n_bytes)
            say("in memory", f"handed over by {name}", "us/image", 1e6 * seconds)
            say("in memory", f"handed over by {name}: the receiver", "us/image", 1e6 * here)
        computed = engine_rate(model, pictures, given.images)
        say("in memory", f"engine torch, {engine.engine.device}", "images/s", computed)
        say("in memory", "written", "us/image", 1e6 * write_seconds(model, folder, pictures))
        for kind, manifest in manifests.items():
            alone = {}
            for n_jobs in given.jobs:
                alone[n_jobs] = decode_rate(Decoder(model.view), manifest, n_jobs)
                say(kind, f"{n_jobs} decode processes alone", "images/s", alone[n_jobs])
            for n_jobs in given.jobs:
                output = folder / f"{kind}-{n_jobs}"
                output.mkdir()
                together = both_rate(replace(job, manifest=manifest, output=output), n_jobs)
                say(kind, f"{n_jobs} decode processes and the engine", "images/s", together)
            fewest = min(given.jobs)
            needed = computed / (alone[fewest] / fewest)
            say(kind, "decode processes that feed the engine", "processes", needed)
    if given.json is not None:
        write_rows(rows, given.json, [0])


if __name__ == "__main__":
    main()
