"""What checking costs: milliseconds to predict an image file of 150x150 pixels, and to load a model.

    python benchmarks/doors.py [--turns 15]

Images are drawn, one core. Runs on older commits too: `side_by_side.py --only doors` compares.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from midfea import MidFeaClassifier, load
from midfea.datasets import load_surfaces

N_FILES = 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    turns = parser.parse_args().turns
    data = load_surfaces(n_per_class=20, size=150, random_state=0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"{i}.jpg" for i in range(N_FILES)]
        for image, file in zip(data.images, files, strict=False):
            Image.fromarray(image).convert("RGB").save(file, quality=90)
        for preset in ("fast", "paper"):
            path = folder / f"{preset}.midfea"
            MidFeaClassifier(preset=preset, random_state=0).fit(data.images, data.target).save(path)
            model = load(path)
            model.n_jobs = 1
            model.predict(files[:2])
            predicting, loading = [], []
            for _ in range(turns):
                begun = time.perf_counter()
                model.predict(files)
                predicting.append((time.perf_counter() - begun) / N_FILES)
                begun = time.perf_counter()
                load(path)
                loading.append(time.perf_counter() - begun)
            print(f"predict a file, {preset}   {1e3 * np.median(predicting):.3f} ms")
            print(f"load a model, {preset}   {1e3 * np.median(loading):.3f} ms")


if __name__ == "__main__":
    main()
