"""Predictions for labelled images, counted: confusion, recall and precision, the mistakes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from midfea.learning.interval import Interval, wilson
from midfea.learning.validation import Validation

MAX_CLASS_RATIO = 3.0  # images of the largest class by those of the smallest; above, they are unequal


class ConfusedPair(NamedTuple):
    """Images of one class that were predicted as another; classes by number."""

    label: int
    predicted: int
    images: int
    share: float  # of the images of the class


class ClassScores(NamedTuple):
    """Recall and precision of one class; None where nothing can be divided by."""

    name: str
    images: int
    correct: int
    recall: float | None
    precision: float | None
    interval: Interval  # of the recall


class Baseline(NamedTuple):
    """Always predicting the largest class: how often that is correct."""

    name: str
    accuracy: float


@dataclass(frozen=True)
class Predictions:
    """Labelled images and what a classifier that did not learn from them predicted.

    Attributes
    ----------
    classes : (n_classes,) names
    labels, predicted : (n,) class numbers
    probabilities : (n, n_classes)
    independent : independent images by images, less than one where images come in groups
    worth : how many independent predictions one of these is worth in an interval
    """

    classes: NDArray[Any]
    labels: NDArray[np.intp]
    predicted: NDArray[np.intp]
    probabilities: NDArray[np.float64]
    independent: float = 1.0
    worth: float = 1.0

    @classmethod
    def of_validation(cls, validation: Validation, classes: NDArray[Any]) -> Predictions:
        """The predictions for training images by models trained without them."""
        return cls(
            classes,
            validation.labels,
            validation.predicted,
            validation.probabilities,
            validation.independent,
            validation.worth,
        )

    @classmethod
    def of_test_set(
        cls, labels: ArrayLike, probabilities: ArrayLike, classes: NDArray[Any]
    ) -> Predictions:
        """The probabilities (n, n_classes) of a test set, with its labels by name."""
        numbers = np.searchsorted(classes, np.asarray(labels))
        rows = np.asarray(probabilities, dtype=np.float64).reshape(len(numbers), len(classes))
        return cls(classes, numbers, rows.argmax(axis=1), rows)

    @cached_property
    def correct(self) -> NDArray[np.bool_]:
        """Of each image, whether its class was predicted."""
        return self.labels == self.predicted

    @cached_property
    def confusion(self) -> NDArray[np.intp]:
        """Numbers of images, (class, predicted class)."""
        return count_pairs(self.labels, self.predicted, len(self.classes))

    @cached_property
    def confidence(self) -> NDArray[np.float64]:
        """The probability of each predicted class."""
        return self.probabilities[np.arange(len(self.predicted)), self.predicted]

    @cached_property
    def per_class(self) -> list[ClassScores]:
        """Recall and precision of each class."""
        scores = []
        for i, name in enumerate(self.classes):
            images, predicted = int(self.confusion[i].sum()), int(self.confusion[:, i].sum())
            correct = int(self.confusion[i, i])
            recall = correct / images if images else None
            precision = correct / predicted if predicted else None
            interval = wilson(correct * self.worth, images * self.worth)
            scores.append(ClassScores(str(name), images, correct, recall, precision, interval))
        return scores

    @property
    def mean_recall(self) -> float:
        """Mean over the classes that have images; NaN if none has."""
        return self.mean_recall_interval.accuracy

    @cached_property
    def mean_recall_interval(self) -> Interval:
        """The mean recall on new images: 95 %.

        From the intervals of the classes by the method of variance estimates recovery (Zou and Donner,
        Statistics in Medicine 27, 2008): the distances of their ends are added as squares.
        """
        recalls = np.array([row.interval for row in self.per_class if row.images])
        if not len(recalls):
            return Interval(float("nan"), 0.0, 1.0)
        mean = recalls[:, 0].mean()
        below, above = (np.linalg.norm(recalls[:, 0] - recalls[:, end]) / len(recalls) for end in (1, 2))
        return Interval(float(mean), float(mean - below), float(mean + above))

    @property
    def baseline(self) -> Baseline | None:
        """What a model must beat; None without images."""
        images = self.confusion.sum(axis=1)
        if not images.sum():
            return None
        largest = int(images.argmax())
        return Baseline(str(self.classes[largest]), float(images[largest] / images.sum()))

    @property
    def unequal(self) -> bool:
        """Whether classes differ so much in size that the accuracy says little about the small ones."""
        images = self.confusion.sum(axis=1)
        return bool(images.any() and images.max() > MAX_CLASS_RATIO * images[images > 0].min())

    @property
    def rarest(self) -> ClassScores:
        """The class with the fewest images, of those that have some."""
        return min((row for row in self.per_class if row.images), key=lambda row: row.images)

    @property
    def beyond_accuracy(self) -> list[str]:
        """What to know beside the accuracy, in sentences; none without images."""
        if self.baseline is None:
            return []
        mean = f"Mean recall of the classes: {self.mean_recall_interval}"
        hint = "; the classes are unequal, so this is the number to look at" if self.unequal else ""
        guess = (
            f"Always guessing {self.baseline.name!r} would be correct for {self.baseline.accuracy:.1%}"
        )
        return [f"{mean}{hint}.", f"{guess}."]

    def worst_classes(self, n_classes: int) -> list[ClassScores]:
        """Those with the lowest recall, lowest first, of the classes that have images."""
        rows = [row for row in self.per_class if row.images]
        return sorted(rows, key=lambda row: row.recall or 0.0)[:n_classes]

    def confused_pairs(self, n_pairs: int = 10) -> list[ConfusedPair]:
        """The pairs of classes with the most mistakes, most first."""
        mistakes = self.confusion - np.diag(np.diag(self.confusion))
        images = np.maximum(self.confusion.sum(axis=1), 1)
        order = np.argsort(-mistakes, axis=None, kind="stable")[:n_pairs]
        pairs = [divmod(int(i), len(self.classes)) for i in order]
        return [
            ConfusedPair(a, b, int(mistakes[a, b]), float(mistakes[a, b] / images[a]))
            for a, b in pairs
            if mistakes[a, b]
        ]

    def cell(self, label: str, predicted: str) -> NDArray[np.intp]:
        """Images of one cell of the confusion matrix, classes by name, the most confident first."""
        of_label, of_predicted = (self.classes[numbers] for numbers in (self.labels, self.predicted))
        rows = np.flatnonzero((of_label == label) & (of_predicted == predicted))
        return rows[np.argsort(-self.confidence[rows], kind="stable")]

    def mistakes(self) -> NDArray[np.intp]:
        """Images with a wrong prediction, the most confident first."""
        wrong = np.flatnonzero(~self.correct)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")]


def count_pairs(
    labels: NDArray[np.intp], predicted: NDArray[np.intp], n_classes: int
) -> NDArray[np.intp]:
    """The confusion matrix of class numbers: a row for each class, a column for each prediction."""
    counts = np.bincount(labels * n_classes + predicted, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)
