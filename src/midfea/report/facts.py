"""How a result came about: the command, the versions, the settings, and how fast the model is."""

from __future__ import annotations

import platform
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from midfea import __version__
from midfea.learning.interval import Interval

if TYPE_CHECKING:
    from midfea.export.runtime import Predictor

N_TIMED_IMAGES = 15


@dataclass(frozen=True)
class Facts:
    """What a report says beside the predictions themselves.

    title : of the page
    interval : the accuracy and its interval
    how : a sentence on how the accuracy was measured
    learned : training images and time; empty if not known
    seed : of the command; None if it has none
    others : accuracies of other methods on the same images, by name
    """

    title: str
    interval: Interval
    how: str
    learned: str = ""
    seed: int | None = None
    others: dict[str, float] = field(default_factory=dict)


def command_line() -> str:
    """What the user typed, as a shell would take it."""
    program = Path(sys.argv[0]).name
    name = "midfea" if program in ("-c", "__main__.py") else program
    return shlex.join([name, *sys.argv[1:]])


def versions() -> dict[str, str]:
    """Of everything that the numbers depend on."""
    numbers = {"midfea": __version__, "Python": platform.python_version()}
    numbers |= {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba", "pillow")}
    return numbers | {"system": f"{platform.system()} {platform.machine()}"}


def milliseconds_per_image(classifier: Predictor, images: Sequence[Any]) -> float:
    """The median time of a prediction, each image given alone; the first one does not count."""
    times = []
    for image in [images[0], *images[:N_TIMED_IMAGES]]:
        begun = time.perf_counter()
        classifier.predict_proba([image])
        times.append(1e3 * (time.perf_counter() - begun))
    return median(times[1:])
