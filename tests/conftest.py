"""Shared inputs: small drawn images, and the real ones where MIDFEA_DATA names their folder."""

import os
import subprocess
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # they share the cores; numpy and torch read this
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np
import pytest

from midfea.datasets import load_surfaces

HIDING = """
import sys

class Hiding:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hiding())
"""


@pytest.fixture(scope="session")
def surfaces():
    """A few drawn images of three kinds, labelled with their names."""
    data = load_surfaces(n_per_class=12, size=64, random_state=3)
    chosen = np.isin(data.target, (0, 3, 5))  # scratches, pits, scale: easy to tell apart
    return data.images[chosen], np.array(data.target_names)[data.target[chosen]]


@pytest.fixture(scope="session")
def mixed_images():
    """Images of different shapes, odd sizes among them, one flat in part."""
    drawn = load_surfaces(n_per_class=2, size=80, random_state=1).images
    shapes = [(80, 80), (51, 64), (64, 33), (47, 79), (80, 41), (60, 60)]
    images = [
        np.ascontiguousarray(image[:height, :width])
        for image, (height, width) in zip(drawn, shapes, strict=False)
    ]
    images[0] = images[0].copy()
    images[0][10:50, 10:50] = 200
    return images


@pytest.fixture(scope="session")
def data_dir():
    folder = os.environ.get("MIDFEA_DATA")
    if not folder:
        pytest.skip("MIDFEA_DATA is not set: the real images are not part of the project")
    path = Path(folder)
    assert path.is_dir(), f"MIDFEA_DATA={folder} is no folder"
    return path


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 kB in memory, soon full; skipped where it cannot be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", folder]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def without(tmp_path_factory, monkeypatch):
    """Packages that processes started from here on do not find, as if they were not installed."""

    def hide(*modules):
        folder = tmp_path_factory.mktemp("site")
        (folder / "sitecustomize.py").write_text(HIDING.format(modules=modules))
        path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
        monkeypatch.setenv("PYTHONPATH", path)

    return hide
