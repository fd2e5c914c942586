"""kill -9 while a model is saved, trained, exported or taught: the old file is there, or the new."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import midfea
from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces
from midfea.export.runtime import OnnxClassifier
from midfea.files import ENDING
from serving import teach_and_kill

Row = dict[str, Any]
MAX_SAVE_SECONDS = 0.05


def kills(folder: Path, n_saves: int, n_trains: int, n_exports: int, n_servers: int) -> list[Row]:
    """A row for each kind of work."""
    data = load_surfaces(n_per_class=6, size=48, random_state=0)
    names = np.array(data.target_names)[data.target]
    models = []
    for seed in range(2):
        models.append(MidFeaClassifier(preset="fast", random_state=seed).fit(data.images, names))
    rows = [_while_saving(folder, models, data.images[:2], n_saves)]
    photos = _photos(folder / "photos", data)
    target = folder / "trained.midfea"
    models[0].save(target)
    command = ["train", str(photos), "-o", str(target), "--preset", "fast"]
    rows.append(_while_running("train", command, target, n_trains))
    exported = folder / "exported.onnx"
    models[0].save(folder / "source.midfea")
    command = ["export", str(folder / "source.midfea"), "-o", str(exported)]
    rows.append(_while_running("export", command, exported, n_exports))
    n_images, n_training = teach_and_kill(folder / "workspace", n_servers, seed=3)
    # It raises if anything is lost or half.
    rows.append({"while": "serve", "kills": n_servers, "in training": n_training, "images": n_images})
    return rows


def _while_saving(folder: Path, models: list[Any], images: Any, n_kills: int) -> Row:
    """A process that saves two models in turn, without end."""
    target, chosen = folder / "saved.midfea", random.Random(0)
    answers = [model.predict_proba(images) for model in models]
    models[0].save(target)
    found = [0, 0]
    half = 0
    for _ in range(n_kills):
        process = multiprocessing.get_context("fork").Process(target=_save_on, args=(models, target))
        process.start()
        time.sleep(0.02 + chosen.uniform(0, MAX_SAVE_SECONDS))
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        try:
            given = midfea.load(target).predict_proba(images)
            found[next(i for i, known in enumerate(answers) if np.array_equal(given, known))] += 1
        except (ValueError, OSError, StopIteration):
            half += 1
    left = len(list(folder.glob(f".*{ENDING}")))
    return {"while": "save", "kills": n_kills, "one": found[0], "other": found[1], "half": half,
            "unfinished files left": left}  # fmt: skip


def _save_on(models: list[Any], target: Path) -> None:
    while True:
        for model in models:
            model.save(target)


def _while_running(name: str, arguments: list[str], target: Path, n_kills: int) -> Row:
    """A command, killed in turn at any moment of its time, and within milliseconds of its writing."""
    read = _reader(target)
    command = [sys.executable, "-m", "midfea", *arguments]
    begun = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    takes, chosen = time.monotonic() - begun, random.Random(1)
    counts = {"old": 0, "new": 0, "half": 0, "while writing": 0, "ended before": 0}
    for kill in range(n_kills):
        before, known = target.stat(), _unfinished(target.parent)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if kill % 2:
            _wait_for_writing(process, target.parent, known, takes / 3)
            time.sleep(chosen.uniform(0, 0.003))
        else:
            time.sleep(takes * chosen.uniform(0, 1))
        counts["ended before"] += process.poll() is not None
        process.kill()
        process.wait()
        counts["while writing"] += _unfinished(target.parent) > known
        after = target.stat()
        same = (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
        try:
            read(target)
            counts["old" if same else "new"] += 1
        except (ValueError, OSError):
            counts["half"] += 1
    return {"while": name, "kills": n_kills, "seconds": round(takes, 1), **counts}


def _wait_for_writing(
    process: subprocess.Popen[bytes], folder: Path, known: set[str], first: float
) -> None:
    """Until there is a new unfinished file; an early one only tries whether one can be written."""
    time.sleep(first)
    while process.poll() is None and not _unfinished(folder) > known:
        pass


def _unfinished(folder: Path) -> set[str]:
    return {entry.name for entry in os.scandir(folder) if entry.name.endswith(ENDING)}


def _reader(target: Path) -> Callable[[Path], Any]:
    return OnnxClassifier if target.suffix == ".onnx" else midfea.load


def _photos(folder: Path, data: Any) -> Path:
    for i, (image, kind) in enumerate(zip(data.images, data.target, strict=True)):
        label = folder / data.target_names[kind]
        label.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(np.uint8)).save(label / f"{i}.png")
    return folder
