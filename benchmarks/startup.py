"""How long a new process takes, beside the imports it cannot do without; medians of seven.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        surfaces = load_surfaces(n_per_class=10)
        model, photo = Path(folder) / "model.midfea", Path(folder) / "photo.png"
        classifier = MidFeaClassifier(preset="paper", random_state=0)
        classifier.fit(surfaces.images, surfaces.target).save(model)
        Image.fromarray(np.asarray(surfaces.images[0], dtype=np.uint8)).save(photo)
        commands = {
            "import sklearn.svm": ["-c", "import sklearn.svm"],
            "import midfea": ["-c", "import midfea"],
            "import sklearn.svm, numba": ["-c", "import sklearn.svm, numba"],
            "midfea --help": ["-m", "midfea", "--help"],
            "midfea predict, one image": ["-m", "midfea", "predict", str(model), str(photo)],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(8):  # in turns, the first not counted
            for name, arguments in commands.items():
                begun = time.perf_counter()
                subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
                times[name].append(time.perf_counter() - begun)
    for name, seconds in times.items():
        print(f"{name:28} {np.median(seconds[1:]):.2f} s")
    ratio = np.median(times["midfea predict, one image"][1:]) / np.median(
        times["import sklearn.svm, numba"][1:]
    )
    print(f"predict is {ratio:.2f} times the imports of scikit-learn and numba")


if __name__ == "__main__":
    main()
