"""`MidFeaClassifier`: images to labels."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from midfea.engines import get_engine
from midfea.estimators.documented import documented
from midfea.estimators.fitted_classifier import FittedClassifier
from midfea.estimators.neuron_selectivity import NeuronSelectivity, fit_ns_layer
from midfea.estimators.ns_choice import choose_layer
from midfea.estimators.plan import expected_steps
from midfea.learning.augmented import check_augment, choose_kinds, with_augmented
from midfea.learning.belonging import check_unknown, fit_belonging
from midfea.learning.choices import Trials
from midfea.learning.class_weights import ClassWeight, check_class_weight, make_class_weights
from midfea.learning.folds import Indices, join_duplicates, make_folds, n_folds_for
from midfea.learning.head import C_CANDIDATES, ValidatedC, fit_linear_head, validate_C
from midfea.learning.large_head import (
    HeldOut,
    fit_large_belonging,
    fit_large_head,
    rows_for_choices,
)
from midfea.learning.network.head import NetworkHead, NetworkTask
from midfea.learning.network.settings import NetworkSettings
from midfea.learning.ns_layer import NSLayer
from midfea.learning.samples import MappedSamples, Samples, take
from midfea.parallel import linear_algebra_threads
from midfea.progress import expect, progress_bars

N_FOLDS_OF_COSTLY_HEADS = 3  # where an NS layer is learned anew for each fold


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class MidFeaClassifier(FittedClassifier):
    """Images to labels: `MidFea` features and a linear SVM with calibrated probabilities.

    Parameters
    ----------
    C : penalty of the SVM's errors, or "auto" to choose 0.1, 1, 10 or 100 by validation on the
        training images.
    class_weight : how much the images of each class count: None, each image the same; "balanced", each
        class the same, so that rare classes are found too (presets "fast" and "best"); or a dict of
        weights by class. Probabilities are then those of classes that are as common as their weights
        make them: with "balanced", equally common.
    selectivity : a neuron-selectivity layer between features and SVM (Section 3): a
        `NeuronSelectivity`, or the number of its neurons, its settings chosen by validation. None: no
        layer.
    augment : train the SVM and the neurons also on augmented images: kinds of change among "mirror",
        "shift", "scale", "rotate" and "light", or "auto" to choose those that help in validation.
        None: no augmented images. Features are computed three times then, ten times and more for "auto".
    finetune : also train the chain as a network, with augmented images, and join its scores to the
        SVM's (needs torch for `fit`, not for `predict`): more accurate, a few minutes slower.
        "auto" (preset "best"): if torch is installed.
    network : shape and training budget of that network; None means the usual ones.
    unknown : share of the images of the classes that may be refused as none of them, such as 0.01; None:
        `predict` always names a class. See `belonging`.
    keep_features : keep the features of the training images as `training_features_`.

    Attributes
    ----------
    classes_ : the labels, sorted
    class_weights_ : the weight of each class in the last `fit` (not kept in model files)
    C_ : the penalty in force
    coef_, intercept_ : the SVM, (n_classes, n_features) and (n_classes,); one row for two classes
    validation_ : `Validation`, the predictions for training images by models trained without them, with
        `accuracy` and `interval`; it is kept in model files
    ns_layer_, head_, network_, belonging_ : the fitted parts; None for one that is not used
    selectivity_ : the settings of the NS layer, as given or chosen (not kept in model files)
    training_features_ : features of the training images, with `keep_features` (not kept in model files)
    training_groups_ : group of each training image; None if each was alone (not kept in model files)

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

    C: float | Literal["auto"] = 10.0
    class_weight: ClassWeight = None
    selectivity: NeuronSelectivity | int | None = None
    augment: tuple[str, ...] | Literal["auto"] | None = None
    finetune: bool | Literal["auto"] = False
    network: NetworkSettings | None = None
    keep_features: bool = False

    def fit(self, images: Any, y: Any, groups: Any = None, others: Any = None) -> MidFeaClassifier:
        """Learn the features from the images, then the heads from images and labels.

        Parameters
        ----------
        images : list of arrays, stack of arrays, or list of file names
        y : label of each image
        groups : group of each image (e.g. the person shown); a group is never split between training and
            validation. Equal images and near-duplicates are a group in any case.
        others : images of none of the classes, if there are any: refusing is learned from them too
        """
        self._check_parameters()
        kinds, tune = check_augment(self.augment), self.fine_tunes()  # errors now, and not after minutes
        pictures, strange = self._pictures(images), None if others is None else self._pictures(others)
        numbers = self._encode_labels(y, len(pictures))
        given = _check_groups(groups, numbers)
        with progress_bars(self.verbose):
            expect(lambda: expected_steps(self, len(pictures), len(self.classes_), pictures))
            joined = join_duplicates(pictures, given)
            self.training_groups_ = joined
            engine, seed = self._engine_settings(), self._seed()
            weights = self.class_weights_
            trials = Trials(pictures, numbers, joined, engine, self._n_threads(), seed, weights)
            choice = trials.choose(self.chain_settings())
            extractor, features = trials.learn(choice.settings, check_random_state(self.random_state))
            self._take_extractor(extractor, choice.settings)
            negatives = None if strange is None else extractor.transform(strange, trials.n_threads)
            self._keep(features)
            folds = make_folds(numbers, self._n_folds(numbers, tune), seed, joined)
            if kinds == "auto":
                kinds = choose_kinds(trials, extractor, features, folds)
            if kinds:
                features = with_augmented(trials, extractor, features, kinds)
            self.settings_["augment"] = kinds
            validated = self._fit_linear(features, numbers, folds, joined)
            features = features[: len(numbers)]
            if tune:
                groups = None if given is None else joined
                self._fit_network(trials, folds, groups, validated, choice.in_place)
            self._fit_belonging(features, folds, joined, negatives)
        return self

    def fit_head(
        self, features: Any, y: Any, groups: Any = None, others: Any = None
    ) -> MidFeaClassifier:
        """Fit the NS layer and the SVM anew on features of this model; the extractor stays as it is.

        Parameters
        ----------
        features : (n, n_features), as `features` returns them
        y : label of each row
        groups : as for `fit`; features do not show which images are duplicates: put these into groups
        others : features of images of none of the classes
        """
        check_is_fitted(self, "extractor_")
        features = np.asarray(features, dtype=np.float32)
        numbers = self._encode_labels(y, len(features))
        joined = _check_groups(groups, numbers)
        self.training_groups_ = joined
        names = ("C", "class_weight", "selectivity", "augment", "finetune", "network", "unknown")
        self.settings_ = self.settings_ | {name: getattr(self, name) for name in names}
        with progress_bars(self.verbose):
            self._keep(features)
            folds = make_folds(numbers, self._n_folds(numbers, False), self._seed(), joined)
            self._fit_linear(features, numbers, folds, joined)
            self._fit_belonging(features, folds, joined, others)
        return self

    def fit_large_head(self, samples: Samples, y: Any, groups: Any = None) -> MidFeaClassifier:
        """`fit_head` for features that do not fit into memory: they are read block by block.

        Settings, and the NS layer if there is one, are learned from some of the samples; the SVM from
        all. One fold is held out, for the validation.

        Parameters
        ----------
        samples : see `midfea.learning.samples.Samples`
        y, groups : as for `fit_head`
        """
        check_is_fitted(self, "extractor_")
        numbers = self._encode_labels(y, len(samples))
        classes = self.classes_
        weights = make_class_weights(self.class_weight, classes, numbers)
        joined, seed = _check_groups(groups, numbers), self._seed()
        with progress_bars(self.verbose):
            rows = rows_for_choices(numbers, seed)
            own = None if joined is None else joined[rows]
            self.fit_head(take(samples, rows, "some of the features"), classes[numbers[rows]], own)
            self.class_weights_, self.training_groups_ = weights, joined
            held_out = HeldOut.of(numbers, samples.n_features, seed, joined)
            layer, inputs = self.ns_layer_, samples
            if layer is not None:
                inputs = MappedSamples(samples, layer.activations, len(layer.b))
            with linear_algebra_threads(self._n_threads()):
                self.head_, self.validation_ = fit_large_head(
                    inputs, numbers, self.head_, weights, held_out, seed
                )
                self.belonging_ = fit_large_belonging(samples, self.validation_, held_out, seed)
        return self

    # -- the steps of fitting -----------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.C != "auto" and not (isinstance(self.C, int | float) and self.C > 0):
            raise ValueError(f'C must be above zero or "auto", got {self.C!r}')
        check_class_weight(self.class_weight)
        check_unknown(self.unknown)
        if self.finetune not in (True, False, "auto"):
            raise ValueError(f'finetune is True, False or "auto", got {self.finetune!r}')

    def fine_tunes(self) -> bool:
        """Whether `fit` trains a network: ImportError if `finetune=True` and PyTorch is missing."""
        if not self.finetune:
            return False
        try:
            importlib.import_module("midfea.learning.network.training")
        except ImportError as error:
            if self.finetune != "auto":
                raise
            message = f"no fine-tuning, the model will be less accurate: {error}"
            warnings.warn(message, stacklevel=3)
            return False
        return True

    def _encode_labels(self, y: Any, n_images: int) -> Indices:
        y = self._check_targets(y, n_images, "labels")
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all labels are {self.classes_[0]!r}: a classifier needs two classes or more, "
                "got one class"
            )
        self.class_weights_ = make_class_weights(self.class_weight, self.classes_, numbers)
        return numbers

    def _n_folds(self, numbers: Indices, tune: bool) -> int:
        if tune:
            return (self.network or NetworkSettings()).n_folds
        if self.selectivity is not None:
            return N_FOLDS_OF_COSTLY_HEADS
        return n_folds_for(len(numbers), len(self.classes_))

    def _keep(self, features: NDArray[np.float32]) -> None:
        if self.keep_features:
            self.training_features_ = features

    def _learn_layer(self, features: NDArray[np.float32], numbers: Indices) -> NSLayer:
        assert self.selectivity_ is not None
        engine = self._engine_settings()
        return fit_ns_layer(self.selectivity_, features, numbers, engine, self.random_state)

    def _choose_layer(
        self, features: NDArray[np.float32], numbers: Indices, folds: Indices
    ) -> NeuronSelectivity | None:
        """The settings of the NS layer, chosen if only its number of neurons is given."""
        if self.selectivity is None or isinstance(self.selectivity, NeuronSelectivity):
            return self.selectivity
        return choose_layer(
            (self.selectivity,),
            features,
            numbers,
            folds,
            penalties=self._penalties(),
            engine=self._engine_settings(),
            random_state=self.random_state,
            class_weights=self.class_weights_,
        ).layer

    def _penalties(self) -> tuple[float, ...]:
        return C_CANDIDATES if self.C == "auto" else (float(self.C),)

    def _fit_linear(
        self, features: NDArray[np.float32], numbers: Indices, folds: Indices, groups: Indices | None
    ) -> ValidatedC:
        """NS layer and SVM on all samples; C and the logit scale by validation."""
        candidates = self._penalties()
        self.selectivity_ = self._choose_layer(features[: len(numbers)], numbers, folds)
        layered = self.selectivity_ is not None
        learn = (lambda x, y: self._learn_layer(x, y).activations) if layered else None
        weights = self.class_weights_
        all_numbers = np.tile(numbers, len(features) // len(numbers))  # of augmented images too
        with self._engine_settings().engine.arrays() as put:
            validated = validate_C(features, numbers, candidates, folds, learn, put, weights)
            self.ns_layer_ = self._learn_layer(features, all_numbers) if layered else None
            inputs = features if self.ns_layer_ is None else self.ns_layer_.activations(features)
            chosen = validated.C, validated.logit_scale
            self.head_ = fit_linear_head(inputs, all_numbers, *chosen, put, weights)
        self.validation_ = validated.record(numbers, folds, groups)
        self.network_: NetworkHead | None = None
        return validated

    def _fit_network(
        self,
        trials: Trials,
        folds: Indices,
        groups: Indices | None,
        linear: ValidatedC,
        in_place: bool,
    ) -> None:
        engine = get_engine("torch", self.device) if self.engine == "torch" else None
        task = NetworkTask(
            pictures=trials.pictures,
            y=trials.y,
            folds=folds,
            groups=groups,
            linear_scores=linear.scores,
            logit_scale=linear.logit_scale,
            class_weights=self.class_weights_,
            aligned=not isinstance(self.extractor_.chain.partition, str),
            in_place=in_place,
            settings=self.network or NetworkSettings(),
            seed=self._seed(),
            n_threads=trials.n_threads,
            device="cpu" if engine is None else engine.device,  # type: ignore[attr-defined]
        )
        self.network_, validation = task.fit()
        if len(validation):
            self.validation_ = validation

    def _fit_belonging(
        self, features: NDArray[np.float32], folds: Indices, groups: Indices | None, others: Any
    ) -> None:
        """How much an image must look like those of the classes."""
        with linear_algebra_threads(self._n_threads()):
            self.belonging_ = fit_belonging(
                self.validation_, features, folds, groups, self._seed(), others
            )
        if self.unknown is not None:
            problem = self.problem_with_unknown(self.unknown)
            if problem:
                warnings.warn(f"no image will be refused: {problem}", stacklevel=3)


def _check_groups(groups: Any, numbers: Indices) -> Indices | None:
    """Groups as numbers."""
    if groups is None:
        return None
    checked = column_or_1d(groups)
    check_consistent_length(numbers, checked)
    return np.unique(checked, return_inverse=True)[1]
