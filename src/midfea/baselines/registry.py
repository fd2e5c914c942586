"""The systems of the paper's tables by name, each as a classifier of images.

Settings are the defaults of the classes, mostly the published ones (`docs/baselines.md` says where they
differ). Systems that take vectors get 32x32 pixels through a random matrix (`RandomFaces`), or the
features of a pyramid. Self-taught learning is not among them: it needs unlabelled images as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from midfea.baselines.fddl import FDDL
from midfea.baselines.feature_svm import FeatureSVM
from midfea.baselines.kspm import KSPM
from midfea.baselines.lcksvd import LCKSVD
from midfea.baselines.llc import LLC
from midfea.baselines.nbnn import NBNN
from midfea.baselines.principal import PrincipalComponents
from midfea.baselines.pyramid import SpatialPyramid
from midfea.baselines.random_faces import RandomFaces
from midfea.baselines.raw_pixels import RawPixels
from midfea.baselines.scspm import ScSPM
from midfea.baselines.src import SRC
from midfea.baselines.svm_knn import SVMKNN
from midfea.baselines.svm_raw import SVMRaw

SHAPE = (32, 32)  # pixels
N_RANDOM_FACES = 300
N_WORDS = 1000  # as in the paper, which gives all systems the same number


class ImageClassifier(Protocol):
    """What the comparisons need of a system."""

    def fit(self, X: Any, y: Any) -> Any:
        """Learn from images with labels."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each image."""


@dataclass(frozen=True)
class System:
    """How a table calls a system, and how it is made: from a seed and a number of threads."""

    title: str
    make: Callable[[int, int | None], ImageClassifier]


def on_random_faces(
    classifier: BaseEstimator,
    seed: int,
    shape: tuple[int, int] | None = SHAPE,
    n_components: int = N_RANDOM_FACES,
) -> Pipeline:
    """A classifier of vectors, given pixels through a random matrix."""
    return make_pipeline(RawPixels(shape), RandomFaces(n_components, random_state=seed), classifier)


def fit_images(model: ImageClassifier, images: Any, y: Any, groups: Any = None) -> None:
    """Fit; groups of images go to the validation of systems that choose something by it."""
    name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if groups is None or not has_fit_parameter(last, "groups"):
        model.fit(images, y)
    else:
        model.fit(images, y, **{f"{name}__groups" if name else "groups": groups})


def _svm_knn(seed: int, n_jobs: int | None) -> Pipeline:
    histograms = SpatialPyramid(encoding="hard", n_words=N_WORDS, n_jobs=n_jobs, random_state=seed)
    return make_pipeline(histograms, SVMKNN(metric="chi2", n_jobs=n_jobs, random_state=seed))


def _lc_ksvd(seed: int, n_jobs: int | None) -> Pipeline:
    features = SpatialPyramid(encoding="llc", n_words=N_WORDS, n_jobs=n_jobs, random_state=seed)
    dictionary = LCKSVD(30, alpha=1e-6, beta=1e-6, n_jobs=n_jobs, random_state=seed)
    return make_pipeline(features, PrincipalComponents(), dictionary)


def _handicapped_llc(seed: int, n_jobs: int | None) -> LLC:
    settings: dict[str, Any] = {"n_words": N_WORDS, "patch_sizes": (16,), "step": 6}
    return LLC(**settings, n_components=3000, n_jobs=n_jobs, random_state=seed)


SYSTEMS: dict[str, System] = {
    "pixels": System("raw pixels + SVM", lambda seed, n_jobs: SVMRaw(random_state=seed)),
    "hog": System("HOG + SVM", lambda seed, n_jobs: FeatureSVM("hog", n_jobs, seed)),
    "sift": System(
        "SIFT pyramid + SVM",
        lambda seed, n_jobs: LLC(
            n_words=N_WORDS, patch_sizes=(16,), step=6, n_jobs=n_jobs, random_state=seed
        ),
    ),
    "src": System("SRC", lambda seed, n_jobs: on_random_faces(SRC(n_jobs=n_jobs), seed)),
    "fddl": System(
        "FDDL", lambda seed, n_jobs: on_random_faces(FDDL(n_jobs=n_jobs, random_state=seed), seed)
    ),
    "lc-ksvd": System("LC-KSVD", _lc_ksvd),
    "kspm": System("KSPM", lambda seed, n_jobs: KSPM(n_jobs=n_jobs, random_state=seed)),
    "scspm": System("ScSPM", lambda seed, n_jobs: ScSPM(n_jobs=n_jobs, random_state=seed)),
    "llc": System("LLC", lambda seed, n_jobs: LLC(n_jobs=n_jobs, random_state=seed)),
    "llc-1000": System("LLC, 1000 words, projected to 3000", _handicapped_llc),
    "svm-knn": System("SVM-KNN", _svm_knn),
    "nbnn": System("NBNN", lambda seed, n_jobs: NBNN(n_jobs=n_jobs)),
}
