"""What the torch engine does on one CUDA device, beside the floor and beside the cpu engine.

    python benchmarks/gpu.py [--data DIR] [--json FILE] [--only PART] [--quick]

With --data the photographs are those of Caltech-101, without it drawn ones (`load_surfaces`). Everything
runs with the paper's settings (150x150 pixels, 9 filters, 1000 words, 1-2-4 pyramid, mirrored borders)
unless it says "best". Learning and "best" (gpu_learning.py) take 30 images of each class; the others are
for testing.
"""

from __future__ import annotations

import statistics
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import gpu_learning
from common import CLASSES_INSIDE, make_parser
from gpu_learning import agreement, once, rows, say, wall
from midfea import MidFea
from midfea.datasets import load_surfaces
from midfea.datasets.folder import find_images
from midfea.engines import get_engine
from midfea.engines.torch import plain
from midfea.engines.torch.device import exact_products
from midfea.pictures.images import Images
from midfea.pictures.resize import resize
from midfea.provenance import write_rows

SIDE = 150
PARTS = ("learning", "best", "throughput", "files")


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


def find_photos(data: Path | None, folder: Path) -> tuple[list[str], np.ndarray]:
    """JPEG files and their class numbers; drawn ones are written to `folder`."""
    if data is not None:
        files = find_images([data / CLASSES_INSIDE["caltech101"]])
        labels = [file.parent.name for file in files]
    else:
        drawn = load_surfaces(n_per_class=60, size=256, random_state=0)
        files, labels = [folder / f"{i:05}.jpg" for i in range(len(drawn.images))], drawn.target
        for file, image in zip(files, drawn.images, strict=True):
            Image.fromarray(image).save(file, "JPEG", quality=90)
    return [str(file) for file in files], np.unique(labels, return_inverse=True)[1]


def read(files: list[str], n_threads: int) -> list[np.ndarray]:
    images = Images(files)
    with ThreadPoolExecutor(n_threads) as threads:
        indices = range(len(images))
        return list(threads.map(lambda i: images.picture(i, SIDE, 1).grey, indices, chunksize=8))


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
    chain = model.extractor_.chain
    pixels = torch.as_tensor(stack, device="cuda")
    filters, words = (torch.as_tensor(a, device="cuda") for a in (chain.filters, chain.words))
    shape = chain.grid((SIDE, SIDE))
    n_codes = plain.n_cells(chain.partition, shape) * len(words)
    operations = 2 * shape[0] * shape[1] * chain.n_components * len(words)
    n_bytes = SIDE * SIDE + 4 * n_codes
    floor = max(operations / product, n_bytes / copy)
    say("floor, all scores at the measured float16 rate", 1 / floor, "images/s",
        f"{operations / 1e9:.2f} GFLOP, {n_bytes / 1e3:.0f} kB each")  # fmt: skip
    rates = plain_rates(pixels[:256], filters, words, chain)
    own_kernels(pixels, filters, chain, n_codes, floor, operations, product, rates)


def plain_rates(pixels: Any, filters: Any, words: Any, chain: Any) -> tuple[float, float]:
    """Images per second of torch's own operations: in float32, and compiled with tf32."""

    def work(pixels: Any, filters: Any, words: Any) -> Any:
        return plain.pooled_codes(pixels, filters, words, chain)

    n = len(pixels)
    with exact_products():
        rate = n / seconds(lambda: work(pixels, filters, words))
    say("plain torch, float32", rate, "images/s")
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv)
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = "tf32"
    say("plain torch, tf32", n / seconds(lambda: work(pixels, filters, words)), "images/s")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = torch.compile(work)
        compiled = n / seconds(lambda: fast(pixels, filters, words))
    say("plain torch, tf32, torch.compile", compiled, "images/s")
    for switch, value in zip(switches, before, strict=True):
        switch.fp32_precision = value
    return rate, compiled


def own_kernels(
    pixels: Any,
    filters: Any,
    chain: Any,
    n_codes: int,
    floor: float,
    operations: int,
    product: float,
    rates: tuple[float, float],
) -> None:
    """The same by our own kernels, and its parts."""
    from midfea.engines.torch import fused

    n, shape = len(pixels), chain.grid((SIDE, SIDE))
    prepared = fused.prepare(chain, "cuda")
    cells = fused.cells_of(chain, shape, shape, "cuda")
    table = torch.zeros((n, n_codes), device="cuda")
    for exact in (True, False):

        def run(exact: bool = exact) -> Any:
            return fused.pooled_codes(pixels, filters, prepared, cells, chain, table.zero_(), exact)

        time_all = seconds(run)
        say(f"own kernels, {'exact' if exact else 'fast'}", n / time_all, "images/s",
            f"{n / time_all / rates[0]:.1f} x plain, {n / time_all / rates[1]:.1f} x compiled, "
            f"{n * floor / time_all:.0%} of the floor's rate")  # fmt: skip
        if exact:
            share = int(run()) / (n * shape[0] * shape[1])
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


def end_to_end(files: list[str], model: MidFea) -> None:
    """From JPEG files to projected features: read while the device works, and read before it does."""
    first, n = files[:512], len(files)
    model.set_params(engine="cpu")
    rate = len(first) / wall(lambda: model.transform(first))
    say("JPEG files to features, engine cpu", rate, "images/s")
    greys = read(files, 2)
    model.set_params(engine="torch").transform(greys)
    for n_jobs in (2, 4):
        model.set_params(n_jobs=n_jobs)
        reading = once(lambda: read(files, n_jobs))  # noqa: B023
        computing = once(lambda: model.transform(greys))
        pipelined = once(lambda: model.transform(files))
        say(f"JPEG files read, {n_jobs} threads", n / reading, "images/s")
        say("  read images to features, engine torch", n / computing, "images/s", "mixed sizes")
        say("  one after the other", n / (reading + computing), "images/s")
        say("  JPEG files to features, pipelined", n / pipelined, "images/s")
    model.set_params(n_jobs=None)


def large(model: MidFea) -> None:
    """One image that does not fit at once: strips of rows."""
    image = np.random.RandomState(0).randint(256, size=(10_000, 10_000)).astype(np.uint8)
    prepared = get_engine("torch", "cuda").prepare(model.extractor_.chain)
    torch.cuda.reset_peak_memory_stats()
    spent = wall(lambda: prepared.pooled(image))
    peak = f"{torch.cuda.max_memory_allocated() / 1e9:.0f} GB at most"
    say("10,000 x 10,000 pixels", spent, "s", peak)


def main() -> None:
    parser = make_parser(__doc__, needs_data=False)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=PARTS, action="append", help="may be given several times")
    parser.add_argument("--device", default="cuda", help='"cpu" will do for learning and best')
    parser.add_argument("--quick", action="store_true", help="a tenth of the classes, or of the images")
    given = parser.parse_args()
    parts, device = given.only or PARTS, given.device
    if device == "cuda":
        print(torch.cuda.get_device_name(), "torch", torch.__version__)
    with tempfile.TemporaryDirectory() as folder:
        files, y = find_photos(given.data, Path(folder))
        chosen = np.flatnonzero(y <= y.max() // 10) if given.quick else np.arange(len(y))
        files, y = [files[i] for i in chosen], y[chosen]
        greys = read(files, 2)
        if "learning" in parts:
            gpu_learning.learning(greys, y, device)
        if "best" in parts:
            gpu_learning.best(greys, y, device)
        if "throughput" in parts or "files" in parts:
            sample = greys[:: max(1, len(greys) // 256)]
            model = MidFea(engine="torch", device=device, random_state=0).fit(sample)
        if "throughput" in parts:
            copy, product = ceilings()
            squares = [resize(sample[i % len(sample)], (SIDE, SIDE)) for i in range(512)]
            device_resident(np.stack(squares).round().astype(np.uint8), model, copy, product)
            agreement(sample[:40], model, device)
            large(model)
        if "files" in parts:
            end_to_end(files, model)
    if given.json:
        write_rows(rows, given.json, [0])


if __name__ == "__main__":
    main()
