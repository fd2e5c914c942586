"""`MidFeaClassifier`: images to labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from midfea.engines import arrays_on
from midfea.estimators.augmented import choose_kinds, kinds_of, with_copies
from midfea.estimators.base import MidFeaBase
from midfea.estimators.choices import choose, learn
from midfea.estimators.finetuned import fit_network, join, network_answers, small_copies, wanted
from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.estimators.selective import activations, fit_layer
from midfea.learning import svm as linear_svm
from midfea.learning.network.model import Network
from midfea.pictures.images import Images

if TYPE_CHECKING:
    from midfea.explain import Explanation

C_GRID = (0.1, 1.0, 10.0, 100.0)
N_FOLDS = 3


@dataclass(eq=False, repr=False, kw_only=True)
class MidFeaClassifier(ClassifierMixin, MidFeaBase):
    """Images to labels: `MidFea` features and a linear SVM with calibrated probabilities.

    Parameters
    ----------
    C : penalty of the SVM's errors, or "cv" to choose it among 0.1, 1, 10 and 100 by
        cross-validation on the training images.
    selectivity : a neuron-selectivity layer between features and SVM (Section 3): a
        `NeuronSelectivity`, or the number of its neurons. None: no layer.

    augment : learn the SVM and the neurons also from changed copies of the images: kinds of change among
        "mirror", "shift", "scale", "rotate" and "light", or "cv" to choose those that help on held-out
        images. None: no copies. Features are computed three times then, ten times and more for "cv".
    finetune : also train the chain as a network, with moved copies of the images, and join its answers
        to the SVM's (needs torch for `fit`, not for `predict`): more accurate, a few minutes slower.
        "auto" (preset "best"): if torch is installed.

    All other parameters are those of `MidFea`.

    Attributes
    ----------
    classes_ : the labels, sorted
    coef_, intercept_ : the SVM, (n_classes, n_features) and (n_classes,); one row for two classes
    C_ : the penalty in force
    cv_accuracy_ : share of the training images classified rightly by SVMs that did not see them
    held_out_predictions_ : what those SVMs said of each training image (not kept in model files)
    held_out_ : indices of the images that `cv_accuracy_` counts (not kept in model files)
    held_out_probabilities_ : of the classes for each training image when it was held out (not kept in
        model files)
    training_features_ : features of the training images, if `keep_features` was set (not kept in files)
    selectivity_ : the fitted `NeuronSelectivity`, or None
    temperature_ : factor that turns decision values into probabilities (softmax)
    network_ : the fine-tuned network, or None
    network_weights_ : factors of the SVM's and the network's two scores in the joint decision values

    and those of `MidFea`.

    Examples
    --------
    >>> from midfea import MidFeaClassifier
    >>> from midfea.datasets import load_surfaces
    >>> data = load_surfaces(n_per_class=20, random_state=0)
    >>> model = MidFeaClassifier(preset="fast", n_words=100, random_state=0)
    >>> model = model.fit(data.images[:80], data.target[:80])
    >>> model.score(data.images[80:], data.target[80:]) > 0.6
    True
    """

    C: float | Literal["cv"] = 10.0
    selectivity: NeuronSelectivity | int | None = None
    augment: tuple[str, ...] | Literal["cv"] | None = None
    finetune: bool | Literal["auto"] = False

    # Not a parameter: whoever goes on working with the training features sets it before `fit`.
    keep_features = False

    def fit(self, images: Any, y: Any, groups: Any = None) -> MidFeaClassifier:
        """Learn the features from the images, then the classifier from images and labels.

        groups : of each image, what it shares with others that new images will not share with any, such
            as the person or the part shown. What is chosen on held-out images is then chosen on groups
            held out, and `cv_accuracy_` speaks of new groups.
        """
        checked = Images(images)
        numbers = self._encode_labels(y, len(checked))
        if self.C != "cv" and not (isinstance(self.C, int | float) and self.C > 0):
            raise ValueError(f'C must be above zero or "cv", got {self.C!r}')
        together = None if groups is None else column_or_1d(groups)
        if together is not None:
            check_consistent_length(numbers, together)
        kinds = kinds_of(self.augment)
        tune = wanted(self.finetune)  # now, and not after minutes
        with self._bars():
            chosen = choose(self, checked, numbers, together)
            features = learn(self, checked, numbers, together, chosen.settings)
            if self.keep_features:
                self.training_features_ = features
            if kinds == "cv":
                kinds = choose_kinds(self, checked, features, numbers, together)
            self.settings_["augment"] = kinds
            if kinds:
                features = with_copies(self, checked, features, kinds)
            margins = self._fit_svm(features, numbers, together)
            del features  # fine-tuning needs the memory
            self.network_: Network | None = None
            self.network_weights_: NDArray[np.float64] | None = None
            if tune:
                self._fit_network(checked, numbers, margins, together, chosen.in_place)
        return self

    def _encode_labels(self, y: Any, n_images: int) -> NDArray[np.intp]:
        if y is None:
            raise ValueError(
                "labels are needed: MidFeaClassifier requires y to be passed, but the target y is None"
            )
        y = column_or_1d(y, warn=True)
        if len(y) != n_images:
            raise ValueError(
                f"got {n_images} images but {len(y)} labels: Found input variables with "
                f"inconsistent numbers of samples: [{n_images}, {len(y)}]"
            )
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all labels are {self.classes_[0]!r}: a classifier needs two classes or more, "
                "got one class"
            )
        return numbers

    def _fit_svm(
        self, features: NDArray[np.float32], numbers: NDArray[np.intp], groups: Any = None
    ) -> NDArray[Any]:
        """The SVM on all samples; its C and the temperature from samples held out in turn.

        Returns the decision values of the samples when they were held out.
        """
        candidates = C_GRID if self.C == "cv" else (float(self.C),)
        seed = self.random_state if isinstance(self.random_state, int) else 0
        layered = self.selectivity is not None
        learn_layer = self._learn_layer if layered else None
        with arrays_on(self.engine, self.device) as put:
            margins = linear_svm.held_out_margins(
                features, numbers, candidates, N_FOLDS, seed, learn_layer, put, groups
            )
        answers = [linear_svm.margins_to_scores(m).argmax(axis=1) for m in margins]
        held_out = np.isfinite(margins[0, :, 0])  # a class's only sample cannot be
        right = [(answer == numbers)[held_out] for answer in answers]
        best = int(np.argmax([r.sum() for r in right]))
        self.C_ = candidates[best]
        self.cv_accuracy_ = float(right[best].mean()) if held_out.any() else float("nan")
        self.held_out_predictions_ = self.classes_[answers[best]]
        self.held_out_ = np.flatnonzero(held_out)
        self.temperature_ = linear_svm.fit_temperature(margins[best], numbers)
        self.held_out_probabilities_ = linear_svm.probabilities(margins[best], self.temperature_)
        numbers = np.tile(numbers, len(features) // len(numbers))  # of the copies too
        self.selectivity_ = fit_layer(self, features, numbers) if layered else None
        inputs = activations(self, self.selectivity_, features)
        with arrays_on(self.engine, self.device) as put:
            weights, self.intercept_ = linear_svm.fit_linear_svm(inputs, numbers, self.C_, put)
        self.coef_ = np.ascontiguousarray(weights.T)
        return np.asarray(margins[best])

    def _fit_network(
        self,
        images: Images,
        numbers: NDArray[np.intp],
        margins: NDArray[np.float32],
        groups: Any,
        in_place: bool,
    ) -> None:
        scores = linear_svm.margins_to_scores(margins)
        seed = self.random_state if isinstance(self.random_state, int) else 0
        tuned = fit_network(self, images, numbers, scores, seed, groups, in_place)
        self.network_, self.network_weights_ = tuned.network, tuned.weights
        self.temperature_ = 1.0  # the weights see to it
        if len(tuned.held_out):
            answers = tuned.scores.argmax(axis=1)
            self.cv_accuracy_ = float((answers == numbers[tuned.held_out]).mean())
            self.held_out_predictions_[tuned.held_out] = self.classes_[answers]
            self.held_out_ = tuned.held_out
            self.held_out_probabilities_[tuned.held_out] = softmax(tuned.scores, axis=1)

    def _learn_layer(self, features: Any, numbers: Any) -> Callable[[Any], Any]:
        return partial(activations, self, fit_layer(self, features, numbers))

    def decision_function(self, images: Any) -> NDArray[Any]:
        """Decision values, (n, n_classes); for two classes (n,), positive for the second."""
        check_is_fitted(self, "coef_")
        checked = Images(images)
        with self._bars():
            margins = self._margins(self._features(checked))
            if self.network_ is None or self.network_weights_ is None:
                return margins
            answers = network_answers(self.network_, self, small_copies(self, checked))
        scores = join([linear_svm.margins_to_scores(margins), *answers], self.network_weights_)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def _margins(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        margins = activations(self, self.selectivity_, features) @ self.coef_.T + self.intercept_
        return margins[:, 0] if len(self.coef_) == 1 else margins

    def predict(self, images: Any) -> NDArray[Any]:
        """The label of each image."""
        scores = linear_svm.margins_to_scores(self.decision_function(images))
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes), columns in the order of `classes_`."""
        return linear_svm.probabilities(self.decision_function(images), self.temperature_)

    def explain(
        self, image: Any, label: Any = None, n_words: int = 8, training: Any = None
    ) -> Explanation:
        """Why this image gets its answer: where in it the evidence lies, as arrays.

        Parameters
        ----------
        image : one image, an array or a file name
        label : the class to explain; None means the answer
        n_words : words to list for the class, and against it
        training : training images, or their feature matrix, to find the nearest of them

        Returns
        -------
        explanation : `midfea.explain.Explanation`; its `evidence` (height, width) adds up, with the
            constants stated beside it, to the decision value
        """
        from midfea.explain import explain

        return explain(self, image, label, n_words, training)
