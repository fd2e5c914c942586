"""The systems that the paper compares with, as rows of its tables.

Settings are those of the systems' papers, with the paper's number of words; what these leave open was
chosen by cross-validation on training images. `published` is the number in the system's own paper: its
split, image size and features may differ from ours, so it is no target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from midfea.baselines.fddl import FDDL
from midfea.baselines.kspm import KSPM
from midfea.baselines.lcksvd import LCKSVD
from midfea.baselines.llc import LLC
from midfea.baselines.nbnn import NBNN
from midfea.baselines.registry import N_WORDS, SYSTEMS, ImageClassifier, on_random_faces
from midfea.baselines.scspm import ScSPM
from midfea.baselines.src import SRC


@dataclass(frozen=True)
class Compared:
    """A row of a table: a system, what the paper says of it, and what its own paper says.

    Attributes
    ----------
    make : a classifier of images from a seed
    paper : the number in the paper's table; published : in the system's own paper
    trials : most trials, for a slow one; max_tested : most test images of a class
    """

    name: str
    make: Callable[[int], ImageClassifier]
    paper: float | None = None
    published: float | None = None
    trials: int | None = None
    max_tested: int | None = None


def _of_faces(classifier: Callable[[int], Any], n_components: int = 300) -> Callable[[int], Any]:
    """A system that is given pixels through another random matrix for each seed."""
    return lambda seed: on_random_faces(classifier(seed), seed, None, n_components)


def _llc_of_faces(n_components: int | None) -> Callable[[int], LLC]:
    return lambda seed: LLC(
        n_words=500, patch_sizes=(16,), step=2, n_components=n_components, random_state=seed
    )


def _as_compared(name: str) -> Callable[[int], ImageClassifier]:
    """A system as `midfea compare` makes it."""
    return lambda seed: SYSTEMS[name].make(seed, None)


# Chosen in three folds of the training samples; LC-KSVD on faces by leaving out one kind of image.
FACES = (
    Compared("SRC", _of_faces(lambda seed: SRC(0.001)), 90.3, 94.7),
    Compared("LLC, 300-d", _llc_of_faces(300), 91.6),
    Compared("LLC", _llc_of_faces(None)),
    Compared("FDDL", _of_faces(lambda seed: FDDL(random_state=seed)), 92.0, 92.0),
    Compared(
        "LC-KSVD",
        _of_faces(lambda seed: LCKSVD(5, alpha=1e-4, beta=1e-4, n_iter=20, random_state=seed)),
        91.9,
        93.7,
    ),
)
GENDER = (
    Compared("SRC", _of_faces(lambda seed: SRC()), 92.1),
    Compared("LLC, 300-d", _llc_of_faces(300), 92.4),
    Compared("LLC", _llc_of_faces(None)),
    Compared(
        "FDDL", _of_faces(lambda seed: FDDL(n_atoms=25, decision="local", random_state=seed)), 93.7, 95.4
    ),
    Compared(
        "LC-KSVD",
        _of_faces(lambda seed: LCKSVD(100, sparsity=10, n_iter=20, random_state=seed)),
        93.4,
    ),
)
YALE = (
    Compared("SRC", _of_faces(lambda seed: SRC(0.001), 504), published=98.1),
    Compared("LC-KSVD", _of_faces(lambda seed: LCKSVD(random_state=seed), 504), published=95.0),
)
OBJECTS = (
    Compared("KSPM", lambda seed: KSPM(n_words=N_WORDS, step=6, random_state=seed), 64.6, 64.6),
    Compared("ScSPM", lambda seed: ScSPM(n_words=N_WORDS, random_state=seed), 73.2, 73.2, trials=1),
    Compared("LLC, 1000 words, 3000-d", _as_compared("llc-1000"), 73.4),
    Compared("LLC", _as_compared("llc"), 73.4, 73.4),
    Compared("LC-KSVD", _as_compared("lc-ksvd"), 73.6, 73.6, trials=1),
    Compared("SVM-KNN", _as_compared("svm-knn"), 66.2, 66.2),
    Compared("NBNN, at most 15 tested", lambda seed: NBNN(), 70.4, 70.4, trials=1, max_tested=15),
)
