"""`MidFeaClassifier`: images to labels."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from midfea.engines import get_engine
from midfea.estimators.base import MidFeaBase
from midfea.estimators.neuron_selectivity import NeuronSelectivity, fit_ns_layer
from midfea.evidence import Explanation, explain
from midfea.learning.augmented import check_augment, choose_kinds, with_augmented
from midfea.learning.choices import Trials
from midfea.learning.folds import Indices, join_duplicates, make_folds, n_folds_for
from midfea.learning.head import C_CANDIDATES, ValidatedC, fit_linear_head, validate_C
from midfea.learning.network.head import NetworkHead, NetworkTask
from midfea.learning.network.settings import NetworkSettings
from midfea.learning.ns_layer import NSLayer
from midfea.learning.parts import ClassifierParts
from midfea.model_file import SavedModel
from midfea.pictures.images import Images
from midfea.progress import progress_bars

N_FOLDS_OF_COSTLY_HEADS = 3  # where an NS layer is learned anew for each fold
IMAGES_AT_ONCE = 2048  # whose features are in memory at one time in prediction


@dataclass(eq=False, repr=False, kw_only=True)
class MidFeaClassifier(ClassifierMixin, MidFeaBase):
    """Images to labels: `MidFea` features and a linear SVM with calibrated probabilities.

    Parameters
    ----------
    C : penalty of the SVM's errors, or "auto" to choose 0.1, 1, 10 or 100 by validation on the
        training images.
    selectivity : a neuron-selectivity layer between features and SVM (Section 3): a
        `NeuronSelectivity`, or the number of its neurons. None: no layer.
    augment : train the SVM and the neurons also on augmented images: kinds of change among "mirror",
        "shift", "scale", "rotate" and "light", or "auto" to choose those that help in validation.
        None: no augmented images. Features are computed three times then, ten times and more for "auto".
    finetune : also train the chain as a network, with augmented images, and join its scores to the
        SVM's (needs torch for `fit`, not for `predict`): more accurate, a few minutes slower.
        "auto" (preset "best"): if torch is installed.
    network : shape and training budget of that network; None means the usual ones.
    keep_features : keep the features of the training images as `training_features_`.

    All other parameters are those of `MidFea`.

    Attributes
    ----------
    classes_ : the labels, sorted
    C_ : the penalty in force
    coef_, intercept_ : the SVM, (n_classes, n_features) and (n_classes,); one row for two classes
    validation_ : `Validation`, the predictions for training images by models trained without them, with
        `accuracy` and `interval`; it is kept in model files
    extractor_, ns_layer_, head_, network_ : the fitted parts; None for a part that is not used
    training_features_ : features of the training images, with `keep_features` (not kept in model files)

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

    C: float | Literal["auto"] = 10.0
    selectivity: NeuronSelectivity | int | None = None
    augment: tuple[str, ...] | Literal["auto"] | None = None
    finetune: bool | Literal["auto"] = False
    network: NetworkSettings | None = None
    keep_features: bool = False

    reads_files = False  # pictures will do: they are what it makes of files

    def fit(self, images: Any, y: Any, groups: Any = None) -> MidFeaClassifier:
        """Learn the features from the images, then the heads from images and labels.

        Parameters
        ----------
        images : list of arrays, stack of arrays, or list of file names
        y : label of each image
        groups : group of each image (e.g. the person shown); a group is never split between training and
            validation. Equal images are a group in any case.
        """
        self._check_parameters()
        kinds, tune = check_augment(self.augment), self.fine_tunes()  # errors now, and not after minutes
        pictures = self._pictures(images)
        numbers = self._encode_labels(y, len(pictures))
        given = _check_groups(groups, numbers)
        with progress_bars(self.verbose):
            joined = join_duplicates(pictures, given)
            engine, seed = self._engine_settings(), self._seed()
            trials = Trials(pictures, numbers, joined, engine, self._n_threads(), seed)
            choice = trials.choose(self.chain_settings())
            extractor, features = trials.learn(choice.settings, check_random_state(self.random_state))
            self._take_extractor(extractor, choice.settings)
            self._keep(features)
            folds = make_folds(numbers, self._n_folds(numbers, tune), seed, joined)
            if kinds == "auto":
                kinds = choose_kinds(trials, extractor, features, folds)
            if kinds:
                features = with_augmented(trials, extractor, features, kinds)
            self.settings_["augment"] = kinds
            validated = self._fit_linear(features, numbers, folds, joined)
            del features  # fine-tuning needs the memory
            if tune:
                groups = None if given is None else joined
                self._fit_network(trials, folds, groups, validated, choice.in_place)
        return self

    def fit_head(self, features: Any, y: Any, groups: Any = None) -> MidFeaClassifier:
        """Fit the NS layer and the SVM anew on features of this model; the extractor stays as it is.

        Parameters
        ----------
        features : (n, n_features), as `features` returns them
        y : label of each row
        groups : as for `fit`; features do not show which images are equal, so put these into groups
        """
        check_is_fitted(self, "extractor_")
        features = np.asarray(features, dtype=np.float32)
        numbers = self._encode_labels(y, len(features))
        joined = _check_groups(groups, numbers)
        names = ("C", "selectivity", "augment", "finetune", "network")
        self.settings_ = self.settings_ | {name: getattr(self, name) for name in names}
        with progress_bars(self.verbose):
            self._keep(features)
            folds = make_folds(numbers, self._n_folds(numbers, False), self._seed(), joined)
            self._fit_linear(features, numbers, folds, joined)
        return self

    # -- the steps of fitting -----------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.C != "auto" and not (isinstance(self.C, int | float) and self.C > 0):
            raise ValueError(f'C must be above zero or "auto", got {self.C!r}')
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
        assert self.selectivity is not None
        engine = self._engine_settings()
        return fit_ns_layer(self.selectivity, features, numbers, engine, self.random_state)

    def _fit_linear(
        self, features: NDArray[np.float32], numbers: Indices, folds: Indices, groups: Indices | None
    ) -> ValidatedC:
        """NS layer and SVM on all samples; C and the logit scale by validation."""
        candidates = C_CANDIDATES if self.C == "auto" else (float(self.C),)
        layered = self.selectivity is not None
        learn = (lambda x, y: self._learn_layer(x, y).activations) if layered else None
        all_numbers = np.tile(numbers, len(features) // len(numbers))  # of augmented images too
        with self._engine_settings().engine.arrays() as put:
            validated = validate_C(features, numbers, candidates, folds, learn, put)
            self.ns_layer_ = self._learn_layer(features, all_numbers) if layered else None
            inputs = features if self.ns_layer_ is None else self.ns_layer_.activations(features)
            self.head_ = fit_linear_head(inputs, all_numbers, validated.C, validated.logit_scale, put)
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

    # -- the fitted classifier ------------------------------------------------------------------------

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

    def _scores(self, images: Any) -> NDArray[Any]:
        check_is_fitted(self, "head_")
        checked, parts = Images(images), self.parts_
        blocks = []
        with progress_bars(self.verbose):
            for start in range(0, len(checked), IMAGES_AT_ONCE):
                block = checked.part(range(start, min(start + IMAGES_AT_ONCE, len(checked))))
                pictures = parts.extractor.pictures(block)
                blocks.append(parts.scores(pictures, self._n_threads()))
        return np.concatenate(blocks)

    def decision_function(self, images: Any) -> NDArray[Any]:
        """Decision values, (n, n_classes); for two classes (n,), positive for the second."""
        scores = self._scores(images)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, images: Any) -> NDArray[Any]:
        """The label of each image."""
        scores = self._scores(images)
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, images: Any) -> NDArray[np.float64]:
        """Probability of each class, (n, n_classes), columns in the order of `classes_`."""
        scores = self._scores(images)
        return self.parts_.probabilities(scores)

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

    def _facts(self) -> list[str]:
        facts = [*super()._facts(), f"{len(self.classes_)} classes"]
        if len(self.validation_):
            facts.append(f"accuracy on new images {self.validation_.interval}")
        return facts


def _check_groups(groups: Any, numbers: Indices) -> Indices | None:
    """Groups as numbers."""
    if groups is None:
        return None
    checked = column_or_1d(groups)
    check_consistent_length(numbers, checked)
    return np.unique(checked, return_inverse=True)[1]
