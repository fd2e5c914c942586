"""Peak memory and time of fitting many images.

    ./dev run python benchmarks/memory.py [--images 20000] [--side 150]

The images are made here, on disk, and read back as files would be: one at a time.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from midfea import MidFea, MidFeaClassifier
from midfea.datasets import load_surfaces


def make_images(path: Path, n: int, side: int) -> np.ndarray:
    """A memory-mapped stack (n, side, side): drawn surfaces, shifted and mirrored at random."""
    stack = np.lib.format.open_memmap(path, "w+", np.uint8, (n, side, side))
    drawn = load_surfaces(n_per_class=20, size=side, random_state=0).images
    rng = np.random.RandomState(0)
    for i in range(n):
        shifted = np.roll(drawn[i % len(drawn)], rng.randint(side, size=2), axis=(0, 1))
        stack[i] = shifted[:, :: rng.choice([-1, 1])]
    stack.flush()
    return np.load(path, mmap_mode="r")


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--side", type=int, default=150)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        images = make_images(Path(folder) / "images.npy", arguments.images, arguments.side)
        labels = np.arange(len(images)) % 120 // 20
        print(
            f"{len(images)} images of {arguments.side}x{arguments.side}, "
            f"{images.nbytes / 1e9:.2f} GB on disk"
        )
        for model in (
            MidFea(random_state=0, verbose=True),
            MidFeaClassifier(random_state=0, verbose=True),
        ):
            started = time.perf_counter()
            model.fit(images, labels)
            seconds = time.perf_counter() - started
            print(
                f"{type(model).__name__}.fit: {seconds:.0f} s, peak {peak_gigabytes():.2f} GB so far",
                flush=True,
            )


if __name__ == "__main__":
    main()
