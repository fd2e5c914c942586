"""`FittedClassifier`: what a fitted `MidFeaClassifier` answers, and how it is saved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from midfea.estimators.base import MidFeaBase
from midfea.evidence import Explanation, explain
from midfea.learning.answer_table import NONE_OF_THESE
from midfea.learning.belonging import refused
from midfea.learning.parts import Answers, ClassifierParts
from midfea.model_file import SavedModel
from midfea.pictures.images import Images
from midfea.progress import counting_from, progress_bars

IMAGES_AT_ONCE = 2048  # whose features are in memory at one time in prediction


@dataclass(eq=False, repr=False, kw_only=True)
class FittedClassifier(ClassifierMixin, MidFeaBase):
    """Predictions, probabilities, belonging and explanations by the fitted parts."""

    unknown: float | None = None

    reads_files = False  # pictures will do: they are what it makes of files

    @property
    def parts_(self) -> ClassifierParts:
        """The fitted parts together."""
        return ClassifierParts(
            self._extractor(),
            self.ns_layer_,
            self.head_,
            self.network_,
            self.classes_,
            self.validation_,
            self.belonging_,
        )

    @property
    def lacks_network(self) -> bool:
        """Whether it was trained without the network that it would have had with PyTorch."""
        return self.settings_.get("finetune") == "auto" and self.network_ is None

    @property
    def rounded(self) -> bool:
        """Whether reduced images are rounded to 8 bits: models of file format 1."""
        return bool(hasattr(self, "extractor_") and self.extractor_.chain.rounded)

    @property
    def C_(self) -> float:
        """The penalty in force."""
        return self.head_.C

    @property
    def coef_(self) -> NDArray[np.float32]:
        """The SVM's weights."""
        return self.head_.coef

    @property
    def intercept_(self) -> NDArray[np.float32]:
        """The SVM's intercepts."""
        return self.head_.intercept

    def _answers(self, images: Any) -> Answers:
        check_is_fitted(self, "head_")
        checked, parts = Images(images), self.parts_
        blocks = []
        with progress_bars(self.verbose):
            for start in range(0, len(checked), IMAGES_AT_ONCE):
                block = checked.part(range(start, min(start + IMAGES_AT_ONCE, len(checked))))
                pictures = parts.extractor.pictures(block)
                with counting_from(start, len(block), len(checked)):
                    blocks.append(parts.answers(pictures, self._n_threads()))
        scores = np.concatenate([block.scores for block in blocks])
        known = [block.belonging for block in blocks if block.belonging is not None]
        return Answers(scores, np.concatenate(known) if known else None)

    def decision_function(self, images: Any) -> NDArray[Any]:
        """Decision values, (n, n_classes); for two classes (n,), positive for the second."""
        scores = self._answers(images).scores
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, images: Any) -> NDArray[Any]:
        """The label of each image; with `unknown`, `unknown_label_` for those of none of the classes."""
        scores, belonging = self._answers(images)
        labels = self.classes_[scores.argmax(axis=1)]
        if self.unknown is None or belonging is None:
            return labels
        label = self.unknown_label_
        labels = labels.astype(object) if label is None else labels
        return np.where(refused(belonging, self.unknown), label, labels)

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes), columns in the order of `classes_`."""
        return self.predict_all(images)[0]

    def belonging(self, images: Any) -> NDArray[np.float64]:
        """How much each image looks like images of the classes, (n,), above 0 and up to 1.

        At most a share a of the images of the classes have a belonging of at most a: whoever refuses
        images with a belonging of 0.01 and less refuses at most one in a hundred of them wrongly.
        NaN if there were too few validation images.
        """
        return self.predict_all(images)[1]

    def predict_all(self, images: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`predict_proba` and `belonging`, looking at each image once."""
        scores, belonging = self._answers(images)
        if belonging is None:
            belonging = np.full(len(scores), np.nan)
        return self.parts_.probabilities(scores), belonging

    def problem_with_unknown(self, unknown: float) -> str:
        """Why no image can be refused at this share of images of the classes; empty if some can."""
        return self.parts_.problem_with_unknown(unknown)

    @property
    def smallest_unknown(self) -> float | None:
        """The smallest share of images of the classes at which images can be refused, rounded up."""
        return None if self.belonging_ is None else math.ceil(1000 * self.belonging_.smallest) / 1000

    @property
    def unknown_label_(self) -> Any:
        """What `predict` says of images that are none of the classes: text, -1, or None."""
        kind = self.classes_.dtype.kind
        if kind in "iuf":
            return -1 if self.classes_[0] >= 0 else int(self.classes_[0]) - 1
        return NONE_OF_THESE if kind == "U" else None

    def explain(
        self, image: Any, label: Any = None, n_words: int = 8, training: Any = None
    ) -> Explanation:
        """Why this image gets its prediction: where in it the evidence lies, as arrays.

        Parameters
        ----------
        image : one image, an array or a file name
        label : the class to explain; None means the predicted one
        n_words : words to list for the class, and against it
        training : training images, or their feature matrix, to find the nearest of them

        Returns
        -------
        explanation : `midfea.evidence.Explanation`; its `evidence` (height, width) adds up, with the
            constants stated beside it, to the decision value
        """
        check_is_fitted(self, "head_")
        parts = self.parts_
        if training is not None and not (isinstance(training, np.ndarray) and training.ndim == 2):
            training = self.features(training)
        with progress_bars(self.verbose):
            picture = parts.extractor.pictures(Images([image]))[0]
            return explain(picture, parts, label, n_words, training)

    # -- files and notebooks ----------------------------------------------------------------------------

    def _saved(self) -> SavedModel:
        saved = super()._saved()
        saved.classifier = self.parts_
        return saved

    def set_parts(self, saved: SavedModel) -> None:
        """Take the fitted parts of a model file."""
        super().set_parts(saved)
        assert saved.classifier is not None
        parts = saved.classifier
        self.ns_layer_, self.head_, self.network_ = parts.ns_layer, parts.head, parts.network
        self.classes_, self.validation_ = parts.classes, parts.validation
        self.belonging_ = parts.belonging

    def _facts(self) -> list[str]:
        facts = [*super()._facts(), f"{len(self.classes_)} classes"]
        if len(self.validation_):
            facts.append(f"accuracy on new images {self.validation_.interval}")
        return facts
