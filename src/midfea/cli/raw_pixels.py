"""The baseline that a method has to beat: a linear SVM on the pixels themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from midfea.learning import svm as linear_svm


def raw_pixel_accuracy(
    images: NDArray[Any], y: Any, test_images: NDArray[Any], test_y: Any, seed: int
) -> float:
    """Accuracy on the test images, C chosen by cross-validation on the training images."""
    classes, numbers = np.unique(y, return_inverse=True)
    features = images.reshape(len(images), -1).astype(np.float32) / 255
    Cs = (0.001, 0.01, 0.1, 1.0)
    margins = linear_svm.held_out_margins(features, numbers, Cs, 3, seed)
    right = [(linear_svm.margins_to_scores(m).argmax(axis=1) == numbers).mean() for m in margins]
    C = Cs[int(np.argmax(right))]
    weights, intercepts = linear_svm.fit_linear_svm(features, numbers, C)
    test = test_images.reshape(len(test_images), -1).astype(np.float32) / 255
    scores = linear_svm.margins_to_scores(test @ weights + intercepts)
    return float((classes[scores.argmax(axis=1)] == np.asarray(test_y)).mean())
