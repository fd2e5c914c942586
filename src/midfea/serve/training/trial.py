"""A trial of a model file in a process of its own: `python -m midfea.serve.training.trial FILE SECONDS`.

A file from elsewhere can hold a model that keeps every rule and yet takes hours or all memory for one
image. Only a model that has predicted two images here comes into the server.
"""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from midfea.pictures.images import Images
from midfea.pictures.limits import ImageError
from midfea.serve.errors import Refused
from midfea.serve.store.model_file import load_classifier

SIZES = ((64, 64), (200, 300))  # pixels
MAX_MEMORY_BYTES = 4 << 30  # of the process, where the system can limit it


def try_model(path: Path, max_seconds: float) -> None:
    """`Refused`, with the reason, unless the model predicts images in time."""
    command = [sys.executable, "-P", "-m", "midfea.serve.training.trial", str(path), str(max_seconds)]
    try:
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=max_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"too slow: two small images took the model more than {max_seconds:g} s") from None
    if result.returncode:
        lines = result.stderr.strip().splitlines()
        raise Refused(lines[-1] if lines else "the model ended the process that tried it")


def main() -> None:
    """Predict images of noise with the model of the file."""
    path, max_seconds = Path(sys.argv[1]), float(sys.argv[2])
    _limit(max_seconds)
    try:
        _predict(path)
    except Exception as error:  # whatever a model can be made to do; also MemoryError
        reason = str(error).removeprefix(f"{path}: ") or type(error).__name__
        print(" ".join(reason.split())[:500], file=sys.stderr)
        sys.exit(1)


def _predict(path: Path) -> None:
    model = load_classifier(path)
    model.n_jobs = 1
    random, n_predicted = np.random.RandomState(0), 0
    for size in SIZES:
        noise = random.randint(0, 256, size).astype(np.uint8)
        try:
            picture = model.extractor_.pictures(Images([noise]))[0]
        except ImageError:  # too small for this model
            continue
        probabilities = model.explain(picture).probabilities
        if not np.isfinite(probabilities).all():
            raise ValueError("the model gives probabilities that are no numbers")
        n_predicted += 1
    if not n_predicted:
        raise ValueError("the model takes no image of {}x{} pixels".format(*SIZES[-1]))


def _limit(max_seconds: float) -> None:
    """Limits that hold also when the server is gone."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    signal.alarm(math.ceil(max_seconds) + 1)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))


if __name__ == "__main__":
    main()
