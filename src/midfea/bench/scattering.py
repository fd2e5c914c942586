"""kymatio's scattering transform, measured in an environment of its own.

kymatio 0.3 needs scipy < 1.17, so it cannot live beside midfea. A second interpreter runs
`scattering_process.py`; it waits between its rounds, so that they take turns with the other methods'.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from midfea.bench.timing import Image

INSTALL = "pip install kymatio 'scipy<1.17' torch"
KYMATIO_MISSING = (
    "scattering is not measured: in an environment of its own, "
    f"{INSTALL}, and then --kymatio THAT/bin/python"
)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def check_kymatio(python: str) -> None:
    """ValueError in one line, before any long work, if that interpreter cannot run kymatio."""
    command = [python, "-W", "ignore", "-c", "from kymatio.numpy import Scattering2D"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValueError(f"--kymatio {python}: {error.strerror}") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it failed"])[-1]
        raise ValueError(f"--kymatio {python}: kymatio does not run there ({reason}). Try {INSTALL}")


@contextmanager
def scattering(python: str | None, images: Sequence[Image]) -> Iterator[dict[str, Callable[[], float]]]:
    """The methods to measure, each one round; none without an interpreter."""
    if python is None:
        yield {}
        return
    script = Path(__file__).with_name("scattering_process.py").read_text()
    with tempfile.TemporaryDirectory() as folder, Path(folder, "errors").open("w+") as errors:
        np.save(Path(folder, "images.npy"), np.stack(images))
        process = subprocess.Popen(
            # The text, not the file: the file's folder would come first among that interpreter's.
            [python, "-W", "ignore", "-c", script, "images.npy"],
            cwd=folder,
            env=os.environ | ONE_THREAD,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

        def answer(question: str) -> Any:
            assert process.stdin is not None and process.stdout is not None  # both are pipes
            try:
                process.stdin.write(f"{question}\n")
                process.stdin.flush()
                return json.loads(process.stdout.readline())
            except (OSError, ValueError):
                errors.seek(0)
                reason = (errors.read().strip().splitlines() or ["it gave no answer"])[-1]
                raise ValueError(f"--kymatio {python}: {reason}") from None

        try:
            yield {name: partial(answer, name) for name in answer("names")}
        finally:
            process.communicate()  # it ends with its input
