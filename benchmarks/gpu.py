"""Images per second of the torch engine on one CUDA device, beside the floor and beside the cpu engine.

    python benchmarks/gpu.py [--photos FILE.npz] [--json FILE] [--quick]

Without photos the images are drawn (`load_surfaces`). The file holds JPEGs: "data", all their bytes, and
"ends", where each one ends. Everything runs with the paper's settings (150x150 pixels, 9 filters, 1000
words, 1-2-4 pyramid, mirrored borders) unless it says "best".
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

from midfea import MidFea
from midfea.datasets import load_surfaces
from midfea.engines import get_engine
from midfea.engines.torch import TorchEngine, exact_products, fused, plain
from midfea.images import Images, resize

SIDE = 150
CALTECH101 = 9144  # images in the set
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


def read_photos(path: Path | None, folder: Path) -> list[Path]:
    """JPEG files, written to `folder`."""
    if path is None:
        drawn = load_surfaces(n_per_class=60, size=256, random_state=0).images
        blobs = []
        for image in drawn:
            buffer = io.BytesIO()
            Image.fromarray(image).save(buffer, "JPEG", quality=90)
            blobs.append(buffer.getvalue())
    else:
        file = np.load(path)
        blobs = [part.tobytes() for part in np.split(file["data"], file["ends"][:-1])]
    files = [folder / f"{i:05}.jpg" for i in range(len(blobs))]
    for target, blob in zip(files, blobs, strict=True):
        target.write_bytes(blob)
    return files


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
        engine = TorchEngine("cuda", precision)
        if not own:
            engine._fused = None
        codes = engine.pooled_many(images, chain)
        say(f"codes unlike the cpu engine's, {name}", int((np.abs(codes - theirs) > 1e-3).sum()),
            f"of {ones}", f"{len(images)} images of their own sizes")  # fmt: skip


def wall(work: Callable[[], Any]) -> float:
    work()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def end_to_end(files: list[Path], greys: list[np.ndarray], model: MidFea) -> None:
    """From JPEG files to projected features, by the estimator."""
    names = [str(file) for file in files]
    for engine in ("cpu", "torch"):
        model.set_params(engine=engine)
        for what, images, remark in (
            ("JPEG files", names, "reading included"),
            ("decoded images", greys, "mixed sizes"),
        ):
            chosen = images if engine == "torch" else images[:256]
            spent = wall(lambda: model.transform(chosen))  # noqa: B023
            say(f"{what} to features, engine {engine}", len(chosen) / spent, "images/s", remark)


def best(greys: list[np.ndarray], quick: bool) -> None:
    """The preset "best" on as many decoded images as Caltech-101 has."""
    model = MidFea(preset="best", engine="torch", random_state=0)
    started = time.perf_counter()
    model.fit(greys[::3])
    say(
        "best: learning filters and words",
        time.perf_counter() - started,
        "s",
        f"{len(greys[::3])} images",
    )
    agreement(greys[:8], model)
    n = 1000 if quick else CALTECH101
    many = (greys * (n // len(greys) + 1))[:n]
    for time_of in ("first time", "again"):
        started = time.perf_counter()
        model.transform(many)
        say(f"best: {n} decoded images to features, {time_of}", time.perf_counter() - started, "s",
            f"{len({image.shape for image in greys})} sizes")  # fmt: skip


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    with tempfile.TemporaryDirectory() as folder:
        files = read_photos(arguments.photos, Path(folder))
        images = Images([str(file) for file in files])
        with ThreadPoolExecutor() as threads:
            greys = list(threads.map(lambda i: images.grey(i, SIDE), range(len(images))))
        some = greys[:: max(1, len(greys) // 256)]
        started = time.perf_counter()
        model = MidFea(engine="torch", random_state=0).fit(some)
        say("learning filters and words", time.perf_counter() - started, "s", f"{len(some)} images")
        copy, product = ceilings()
        stack = np.stack([resize(some[i % len(some)], (SIDE, SIDE)) for i in range(512)])
        device_resident(stack, model, copy, product)
        agreement(some[:40], model)
        large(model)
        end_to_end(files, greys, model)
        best(greys, arguments.quick)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
