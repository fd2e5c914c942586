"""How time and memory grow with the pixels, the words, the filters and the number of images.

Every point is measured in a process of its own, because a process's peak memory never falls. The peak
is the whole process's (Linux's VmHWM: interpreter, libraries, model, images and all), beside what it was
before the work, with everything loaded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from midfea import MidFea
from midfea.bench.common import Image, Inputs, Measured, square_images, timed
from midfea.extras import require
from midfea.files import check_writable, replacing
from midfea.progress import track
from midfea.provenance import Row

SWEEPS: dict[str, tuple[int, ...]] = {
    "pixels": tuple(side**2 for side in (64, 128, 256, 512, 1024)),
    "words": (256, 512, 1024, 2048, 4096, 8192),
    "filters": (9, 16, 24, 32),
    "images": (100, 300, 1000, 3000, 10_000),
}
SIDE = 128  # pixels, unless the size grows
SMALL_SIDE = 64  # pixels, where there are many images
N_SAMPLES = 20_000  # descriptors for the words: these need only be like real ones
ROUNDS = 3
N_IMAGES = 8  # at each point, unless their number grows


def measure(inputs: Inputs) -> Measured:
    """The section `growth` of `midfea bench`: every point of `SWEEPS`, then the exponents.

    Milliseconds for each image on one core, and peak memory. The paper's settings, except that filters
    grow without pairs: n filters make n (n - 1) / 2 pairs, so that the descriptor's length would grow as
    their square, whatever the engine does.
    """
    seed = inputs.seed

    def squares(side: int) -> list[Image]:
        return square_images(inputs.photos, side, N_IMAGES, seed)

    usual, small = squares(SIDE), squares(SMALL_SIDE)
    base = _fitted(usual, seed)
    points = [(what, value) for what, values in SWEEPS.items() for value in values]
    rows: list[Row] = []
    for what, value in track(points, "growth", len(points)):
        model, images = base, usual
        if what == "pixels":
            images = squares(round(value**0.5))
        elif what == "words":
            model = _fitted(usual, seed, n_words=value)
        elif what == "filters":
            model = _fitted(usual, seed, n_filters=value, pairs=False)
        else:
            images = [small[i % len(small)] for i in range(value)]
        rows.append({"growth": what, "value": value, **in_own_process(model, images), "threads": 1})
    exponents = {what: exponent(what, rows) for what in SWEEPS}
    rows += [{"growth": what, "exponent": power} for what, power in exponents.items()]
    powers = ", ".join(f"{what}^{power:.2f}" for what, power in exponents.items())
    return rows, [f"Time grows as {powers}."], []


def exponent(what: str, rows: Sequence[Row]) -> float:
    """The power of the value with which time grows, by least squares; of images, the time for all."""
    points = [row for row in rows if row["growth"] == what]
    values = np.array([row["value"] for row in points], dtype=float)
    times = np.array([row["ms_per_image"] for row in points]) * (values if what == "images" else 1)
    return round(float(np.polyfit(np.log(values), np.log(times), 1)[0]), 3)


def in_own_process(model: MidFea, images: list[Image]) -> Row:
    """`measure_here` in a fresh interpreter: not forked, so that nothing of ours is counted."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(measure_here, model, images).result()


def measure_here(model: MidFea, images: list[Image]) -> Row:
    """Time and memory of `transform` on one core, all images in one call."""
    model.set_params(n_jobs=1)
    with threadpool_limits(1):
        model.transform([images[0][:SMALL_SIDE, :SMALL_SIDE]])  # loads the compiled code
        before = peak_mb()
        times = [timed(model.transform, images)[1] / len(images) for _ in range(ROUNDS)]
    return {
        "ms_per_image": round(float(np.median(times)), 3),
        "peak_mb": peak_mb(),
        "start_mb": before,
    }


def peak_mb() -> float | None:
    """This process's largest memory so far in MB; None where there is no /proc to ask.

    `resource.getrusage` would do elsewhere, but what it says of a new process includes its parent's.
    """
    try:
        match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        match = None
    return round(int(match[1]) / 1e3, 1) if match else None


def _fitted(images: list[Image], seed: int, **settings: int) -> MidFea:
    model = MidFea(preset="paper", max_side=None, n_samples=N_SAMPLES, random_state=seed, **settings)
    return model.fit(images)


def check_plot(path: Path) -> None:
    """ValueError or OSError, before any long work, if the picture could not be made."""
    require("plot", "--plot")
    check_writable(path)


def plot_growth(rows: Sequence[Row], path: Path) -> None:
    """A panel for each thing that grows: measured times and the fitted power, into a PNG file."""
    from matplotlib.ticker import LogLocator

    from midfea.view.style import COLOURS, looks, new_figure

    exponents = {row["growth"]: row["exponent"] for row in rows if "exponent" in row}
    with looks():
        figure = new_figure(3.2 * len(exponents), 3.0)
        panels = figure.subplots(1, len(exponents), squeeze=False)[0]
        for axes, (what, power) in zip(panels, exponents.items(), strict=True):
            points = [row for row in rows if row.get("growth") == what and "value" in row]
            x = np.array([row["value"] for row in points], dtype=float)
            y = np.array([row["ms_per_image"] for row in points])
            if what == "images":
                y = y * x / 1e3
            line = np.exp(np.mean(np.log(y) - power * np.log(x))) * x**power
            axes.loglog(x, line, color=COLOURS[-1], linestyle="--")
            axes.loglog(x, y, color=COLOURS[0], marker="o", linestyle="none")
            axes.set_ylim(y.min() / 2, y.max() * 2)  # a tick or two, however little grows
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.set_xticks(x, [f"{value:,.0f}" for value in x], rotation=30)
            axes.minorticks_off()
            unit = "seconds for all" if what == "images" else "milliseconds per image"
            axes.set(xlabel=what, ylabel=unit, title=f"time grows as {what}^{power:.2f}")
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
