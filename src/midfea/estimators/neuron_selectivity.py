"""`NeuronSelectivity`: features to activations of neurons that each respond to few classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from midfea.arrays import Array, namespace, to_numpy
from midfea.engines import EngineSettings, get_engine
from midfea.learning.ns_layer import NSLayer, centred
from midfea.learning.selectivity.dictionary import Decoder
from midfea.learning.selectivity.encoder import choose_ridge
from midfea.learning.selectivity.objective import Layer, Weights, class_blocks, class_means, encode
from midfea.learning.selectivity.rounds import Settings, Solver, rounds, warmed_up
from midfea.learning.selectivity.start import Init, make_start
from midfea.learning.svm import Put
from midfea.parallel import linear_algebra_threads
from midfea.progress import progress_bars, track

FLOAT_TYPES = (np.float64, np.float32)
MIN_CODE = 0.01  # root mean square of a class's codes, below which a neuron does not fire for it
MAX_SILENT_SHARE = 0.5  # of the classes: with more, the codes have collapsed


@dataclass(eq=False, repr=False)
class NeuronSelectivity(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Neurons that respond to one class, or a few, and stay silent for the others (Section 3).

    Minimises over D, H, W and b, the columns of D having unit length,

        |X - D H|^2 + alpha |H - sigmoid(W X + b 1^T)|^2
        + sum_c { lam |H_c|_{2,1} + beta |H_c - mean(H_c)|^2 + gamma |H_c^T H_{/c}|^2 }

    where X holds a standardised sample in each column and H_c the codes of class c. The objective
    weighs the samples' reconstruction against everything else, so their length matters: all are
    multiplied by one number that makes it `length`, the root of the mean of their squares. Centre and
    number are part of W_ and b_, so the unit of the samples does not matter.

    Parameters
    ----------
    n_neurons : int or None, default=None
        Number of neurons d; None means one for each class.
    alpha : float, default=0.9
        Factor of the encoder's error.
    beta : float, default=0.5
        Factor of the codes' variance within a class.
    gamma : float, default=2.0
        Factor of the codes' inner products between classes.
    lam : float, default=0.8
        Factor of the row norms, which silence neurons.
    length : float, default=1.0
        Length of the standardised samples. The paper's have length 1. Codes of longer samples use more
        of the sigmoid's range, and the penalties weigh less.
    center : bool, default=True
        Take the samples less their mean.
    init : {"kmeans", "similarity", "random"}, default="kmeans"
        The start; see `midfea.learning.selectivity.start.make_start`. "random" takes six more rounds,
        in which `lam` rises from zero.
    decoder : {"columns", "analytic"}, default="columns"
        How D is updated: "columns" takes each column in turn as the best one, "analytic" is the
        appendix's X H^T (H H^T)^-1 with columns brought to unit length, which is no minimum.
    solver : {"proximal", "by class", "plain"}, default="proximal"
        "proximal" moves all classes' codes at once, "by class" solves each class's convex problem in
        turn, "plain" makes the paper's gradient steps, which may raise the objective.
    max_iter : int, default=6
        Largest number of rounds; each updates H, then D, then W and b.
    tol : float, default=1e-3
        Stop after a round that lowers the objective by less than this share of it. The steps within a
        round use a tenth of it. The objective is not convex: a smaller value may end in another, even
        a higher, minimum.
    ridge : float or "auto", default="auto"
        L2 penalty in the logistic start of W and b (not part of the objective), relative to the
        samples' mean squared length: larger values make the encoder smoother. "auto" chooses 1e-5, 1e-4
        or 1e-3 by cross-validation on the samples.
    encoder_iter : int, default=0
        Squared-error steps for W and b in each round, after that start. The more of them, the closer
        the encoder fits the training codes, and the less it has to say of new samples.
    nonnegative : bool, default=True
        Keep the codes H at zero or above, as the paper says.
    warm_start : bool, default=False
        Go on from the previous solution, if its sizes fit.
    callback : callable or None, default=None
        Called with (round, terms) after each round, terms by name as in `objective_terms_`.
    engine : {"auto", "reference", "cpu", "torch"}, default="auto"
        Where to compute: "torch" for GPUs (extra `torch`); the others all mean NumPy. The
        same steps to the same objective: to 0.1 %, given as many samples and neurons as a real problem
        has.
    device : str or None, default=None
        Device of the torch engine, such as "cuda:1"; None means CUDA if there is a device.
    random_state : int, RandomState or None, default=None
        Seed of the start.
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    W_ : array (n_neurons, n_features)
    b_ : array (n_neurons,)
        The encoder.
    D_ : array (n_features, n_neurons)
        The decoder of standardised samples, columns of unit length.
    H_ : array (n_neurons, n_samples)
        The codes of the training samples.
    objective_ : array (n_iter_,)
        The objective's value after each round.
    objective_terms_ : dict of arrays (n_iter_,)
        The terms "reconstruction", "encoding", "sparsity", "cohesion" and "separation" with their
        factors; they add up to `objective_`.
    class_responses_ : array (n_neurons, n_classes)
        Mean activation of each neuron over each class's training samples.
    mean_ : array (n_features,)
        What is taken from the samples; zeros without `center`.
    scale_ : float
        What they are then multiplied by.
    classes_ : array (n_classes,)
        The labels, sorted.
    ridge_ : float
        The ridge used.
    n_iter_ : int
        Rounds made.
    n_features_in_ : int
        Features of a sample.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from midfea.estimators.neuron_selectivity import NeuronSelectivity
    >>> X, y = load_digits(return_X_y=True)
    >>> layer = NeuronSelectivity(random_state=0).fit(X[:500], y[:500])
    >>> layer.transform(X[500:]).shape
    (1297, 10)
    >>> int((layer.class_responses_.argmax(axis=0) == range(10)).sum()) >= 9  # digits with an own neuron
    True
    """

    n_neurons: int | None = None
    alpha: float = 0.9
    beta: float = 0.5
    gamma: float = 2.0
    lam: float = 0.8
    _: KW_ONLY
    length: float = 1.0
    center: bool = True
    init: Init = "kmeans"
    decoder: Decoder = "columns"
    solver: Solver = "proximal"
    max_iter: int = 6
    tol: float = 1e-3
    ridge: float | Literal["auto"] = "auto"
    encoder_iter: int = 0
    nonnegative: bool = True
    warm_start: bool = False
    callback: Callable[[int, dict[str, float]], None] | None = None
    engine: Literal["auto", "reference", "cpu", "torch"] = "auto"
    device: str | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_neurons": [Interval(Integral, 1, None, closed="left"), None],
        **{name: [Interval(Real, 0, None, closed="left")] for name in (*Weights._fields, "tol")},
        "length": [Interval(Real, 0, None, closed="neither")],
        "center": ["boolean"],
        "init": [StrOptions({"kmeans", "similarity", "random"})],
        "decoder": [StrOptions({"columns", "analytic"})],
        "solver": [StrOptions({"proximal", "by class", "plain"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "ridge": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "encoder_iter": [Interval(Integral, 0, None, closed="left")],
        "nonnegative": ["boolean"],
        "warm_start": ["boolean"],
        "callback": [callable, None],
        "engine": [StrOptions({"auto", "reference", "cpu", "torch"})],
        "device": [str, None],
        "random_state": ["random_state"],
        "verbose": ["boolean"],
    }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any) -> NeuronSelectivity:
        """Learn the layer from features X (n_samples, n_features) and class labels y."""
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=FLOAT_TYPES, ensure_min_samples=2)
        _check_labels(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        d = len(self.classes_) if self.n_neurons is None else self.n_neurons
        order = _canonical_order(X, numbers)
        blocks = class_blocks(numbers[order])
        weights = Weights(*map(float, (self.alpha, self.beta, self.gamma, self.lam)))
        history: list[dict[str, float]] = []
        engine = get_engine(self.engine, self.device)
        # One thread: sums made in another order would end in another layer.
        with progress_bars(self.verbose), linear_algebra_threads(1), engine.arrays() as put:
            columns = put(self._standardise(X[order]))
            ridge = choose_ridge(columns, numbers[order]) if self.ridge == "auto" else self.ridge
            self.ridge_ = float(ridge)
            given = {field.name: getattr(self, field.name) for field in fields(Settings)}
            settings = Settings(**given | {"ridge": self.ridge_})
            layer = self._previous(columns, d, order, put)
            if layer is None:
                rng = check_random_state(self.random_state)
                layer = make_start(self.init, columns, blocks, d, rng)
                if self.init == "random" and self.solver != "plain":
                    layer = warmed_up(columns, blocks, layer, weights, settings)
            steps = rounds(columns, blocks, layer, weights, settings)
            for reached, terms in track(steps, "neuron selectivity", self.max_iter):
                layer = reached
                history.append(terms)
                if self.callback is not None:
                    self.callback(len(history), terms)
            self.D_, H, W, b = map(to_numpy, layer)
            activations = to_numpy(encode(columns, layer.W, layer.b))
        self.W_ = (W * self.scale_).astype(X.dtype)
        self.b_ = (b - self.W_ @ self.mean_).astype(X.dtype)
        self.H_ = np.empty_like(H)
        self.H_[:, order] = H
        self.n_iter_ = len(history)
        self.objective_terms_ = {name: np.array([t[name] for t in history]) for name in history[0]}
        self.objective_ = np.sum(list(self.objective_terms_.values()), axis=0)
        self.class_responses_ = class_means(activations, blocks)
        _warn_of_collapse(H, blocks)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Activations sigmoid(X W^T + b), (n_samples, n_neurons)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOAT_TYPES, reset=False)
        kind = np.result_type(X, self.W_)
        arrays = (a.astype(kind, copy=False) for a in (X.T, self.W_, self.b_))
        with get_engine(self.engine, self.device).arrays() as put:
            activations = to_numpy(encode(*map(put, arrays)))
        return np.ascontiguousarray(activations.T).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Features of activations h, D h in the features' own unit: the top-down analysis."""
        check_is_fitted(self)
        h = check_array(X, dtype=FLOAT_TYPES)
        if h.shape[1] != len(self.W_):
            raise ValueError(f"activations of {len(self.W_)} neurons expected, got {h.shape[1]}")
        return np.asarray(h @ self.D_.T / self.scale_ + self.mean_, dtype=h.dtype)

    @property
    def _n_features_out(self) -> int:
        return len(self.W_)

    def _standardise(self, X: NDArray[Any]) -> NDArray[Any]:
        """Learn mean and scale from samples; those samples standardised, in columns."""
        centre = X.mean(axis=0, dtype=np.float64) if self.center else np.zeros(X.shape[1])
        shifted = X - centre
        largest, rounding = float(np.abs(shifted).max()), float(np.finfo(X.dtype).eps)
        self.mean_, self.scale_ = centre.astype(X.dtype), 1.0
        if largest > rounding * float(np.abs(X).max()):  # else all samples are equal
            relative = np.square(shifted / largest).sum(axis=1).mean() ** 0.5
            self.scale_ = float(self.length) / relative / largest
        limits = np.finfo(X.dtype)
        if not limits.tiny < self.scale_ < limits.max:
            raise ValueError(
                f"the samples are too small or too large for {X.dtype} (largest value "
                f"{np.abs(X).max():.3g}): give them in another unit"
            )
        return np.ascontiguousarray((shifted * self.scale_).T, dtype=X.dtype)

    def _previous(self, X: Array, d: int, order: NDArray[np.intp], put: Put) -> Layer | None:
        """For a warm start: the last solution, for the samples as they are standardised now."""
        if not self.warm_start or getattr(self, "W_", np.empty(0)).shape != (d, len(X)):
            return None
        asarray = partial(namespace(X).asarray, dtype=X.dtype)
        shifted = self.b_ + self.W_ @ self.mean_
        D, W, b = (asarray(put(a)) for a in (self.D_, self.W_ / self.scale_, shifted))
        known = self.H_.shape[1] == len(order)
        return Layer(D, asarray(put(self.H_[:, order])) if known else encode(X, W, b), W, b)

    def _check_parameters(self) -> None:
        self._validate_params()
        for name in ("n_neurons", "max_iter", "encoder_iter"):
            if isinstance(getattr(self, name), bool | np.bool_):  # an integer to Python
                raise ValueError(f"{name} must be a number, got {getattr(self, name)}")


def _canonical_order(X: NDArray[Any], numbers: NDArray[np.intp]) -> NDArray[np.intp]:
    """The samples by class, then by their values: neither the order they come in nor their unit matters.

    Floats sort as whole numbers do, once the sign bit is set for positive ones and all bits are turned
    for negative ones; with the highest byte first, whole rows sort as bytes.
    """
    unsigned = np.dtype(f"u{X.itemsize}")
    bits = (np.ascontiguousarray(X) + 0.0).view(unsigned)  # -0 becomes 0
    sign = unsigned.type(1 << (8 * X.itemsize - 1))
    sortable = np.where(bits & sign, ~bits, bits | sign).astype(unsigned.newbyteorder(">"))
    rows = sortable.view(np.dtype((np.void, sortable[0].nbytes))).ravel()
    by_value = np.argsort(rows, kind="stable")
    return by_value[np.argsort(numbers[by_value], kind="stable")]


def _check_labels(y: NDArray[Any]) -> None:
    kinds = sorted({type(label).__name__ for label in y}) if y.dtype == object else []
    if len(kinds) > 1:
        raise ValueError(
            f"labels of different types cannot be sorted ({', '.join(kinds)}): make them all strings, "
            "or all numbers"
        )
    check_classification_targets(y)


def _warn_of_collapse(H: NDArray[Any], blocks: list[slice]) -> None:
    levels = class_means(np.square(H, dtype=np.float64), blocks).max(axis=0) ** 0.5
    n_silent = int((levels < MIN_CODE).sum())
    if n_silent > MAX_SILENT_SHARE * len(blocks):
        warnings.warn(
            f"the codes have collapsed: no neuron fires for {n_silent} of {len(blocks)} classes. "
            'Use init="kmeans", a smaller lam, or a larger length',
            ConvergenceWarning,
            stacklevel=3,
        )


def responses_order(layer: NeuronSelectivity) -> NDArray[np.intp]:
    """The neurons by the class they serve (respond to most), the most responsive first in each."""
    responses = layer.class_responses_
    return np.lexsort((-responses.max(axis=1), responses.argmax(axis=1)))


def fit_ns_layer(
    selectivity: NeuronSelectivity,
    features: NDArray[np.float32],
    y: NDArray[np.intp],
    engine: EngineSettings,
    random_state: int | np.random.RandomState | None,
) -> NSLayer:
    """A layer with these settings, fitted to features and class numbers."""
    layer = clone(selectivity)
    if layer.random_state is None:
        layer.set_params(random_state=random_state)
    if layer.engine == "auto":
        layer.set_params(engine=engine.name, device=engine.device)
    center = features.mean(axis=0) if layer.center else np.zeros_like(features[0])
    layer.fit(centred(features, center), y)
    return NSLayer(layer.W_, layer.b_, layer.D_, layer.class_responses_, center)
