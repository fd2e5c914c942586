"""`NeuronSelectivity`: features to activations of neurons that each respond to few classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from midfea.arrays import namespace, to_numpy
from midfea.engines import get_engine
from midfea.learning.selectivity.encoder import choose_ridge, encode
from midfea.learning.selectivity.fit import Init, Settings, Solver, make_start, rounds
from midfea.learning.selectivity.per_class import class_blocks, class_means
from midfea.learning.selectivity.updates import Layer, Weights
from midfea.progress import progress_bars, track

FLOATS = (np.float64, np.float32)


class NeuronSelectivity(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Neurons that respond to one class, or a few, and stay silent for the others (Section 3).

    Minimises over D, H, W and b, the columns of D having unit length,

        |X - D H|^2 + alpha |H - sigmoid(W X + b 1^T)|^2
        + sum_c { lam |H_c|_{2,1} + beta |H_c - mean(H_c)|^2 + gamma |H_c^T H_{/c}|^2 }

    where X holds a sample in each column and H_c the codes of class c. The objective weighs the
    samples' reconstruction against everything else, so their length matters: codes of samples of
    length 1 stay far below 1 and use little of the sigmoid's range. Centred samples of length about
    16 serve a classifier better; the image estimators see to that (`midfea.estimators.selective`).

    Parameters
    ----------
    n_neurons : the number of neurons d; None means one for each class.
    alpha, beta, gamma, lam : factors of the terms: the encoder's error, the codes' variance within
        a class, their inner products between classes, and the row norms that silence neurons.
    init : "kmeans", "similarity" or "random"; see `midfea.learning.selectivity.fit.make_start`.
    solver : "proximal" (all classes' codes at once), "by class" (each class's convex problem solved in
        turn) or "plain" (the paper's gradient steps, which may raise the objective).
    max_iter : rounds at most; each updates H, then D, then W and b.
    tol : stop after a round that lowers the objective by less than this share of it.
    ridge : L2 penalty in the logistic start of W and b (not part of the objective), relative to the
        samples' mean squared length: larger values make the encoder smoother. "cv" chooses 1e-5, 1e-4 or
        1e-3 by cross-validation on the samples.
    encoder_iter : squared-error steps for W and b in each round, after that start. The more of them, the
        closer the encoder fits the training codes, and the less it has to say of new samples.
    nonnegative : keep the codes H at zero or above, as the authors' programs do.
    warm_start : go on from the previous solution, if its sizes fit.
    callback : called with (round, terms) after each round, terms by name as in `objective_terms_`.
    engine : where to compute: "torch" for GPUs (pip install "midfea[torch]"); "auto", "cpu" and
        "reference" all mean NumPy. The same steps to the same objective: to 0.1 %, given as many samples
        and neurons as a real problem has.
    device : of the torch engine, such as "cuda:1"; None means CUDA if there is a device.
    random_state : seed of the start.
    verbose : show a progress bar.

    Attributes
    ----------
    W_, b_ : the encoder, (n_neurons, n_features) and (n_neurons,)
    D_ : the decoder, (n_features, n_neurons), columns of unit length
    H_ : the codes of the training samples, (n_neurons, n_samples)
    objective_ : its value after each round, (n_iter_,)
    objective_terms_ : dict of arrays (n_iter_,), the terms "reconstruction", "encoding", "sparsity",
        "cohesion" and "separation" with their factors; they add up to `objective_`
    class_responses_ : mean activation of each neuron over each class's training samples,
        (n_neurons, n_classes)
    classes_ : the labels, sorted
    ridge_ : the ridge used
    n_iter_ : rounds made
    n_features_in_ : features of a sample

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from midfea.estimators.neuron_selectivity import NeuronSelectivity
    >>> X, y = load_digits(return_X_y=True)
    >>> X = (X - X.mean(axis=0)) / 2  # lengths of about 17
    >>> layer = NeuronSelectivity(random_state=0).fit(X[:500], y[:500])
    >>> layer.transform(X[500:]).shape
    (1297, 10)
    >>> int((layer.class_responses_.argmax(axis=0) == range(10)).sum())  # digits with a neuron of their own
    9
    """

    def __init__(
        self,
        n_neurons: int | None = None,
        alpha: float = 0.9,
        beta: float = 0.5,
        gamma: float = 2.0,
        lam: float = 0.8,
        *,
        init: Init = "kmeans",
        solver: Solver = "proximal",
        max_iter: int = 6,
        tol: float = 1e-3,
        ridge: float | Literal["cv"] = "cv",
        encoder_iter: int = 0,
        nonnegative: bool = False,
        warm_start: bool = False,
        callback: Callable[[int, dict[str, float]], None] | None = None,
        engine: Literal["auto", "reference", "cpu", "torch"] = "auto",
        device: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_neurons = n_neurons
        self.alpha = alpha
        self.beta = beta
        self.gamma = gamma
        self.lam = lam
        self.init = init
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.ridge = ridge
        self.encoder_iter = encoder_iter
        self.nonnegative = nonnegative
        self.warm_start = warm_start
        self.callback = callback
        self.engine = engine
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any) -> NeuronSelectivity:
        """Learn the layer from features X (n_samples, n_features) and class labels y."""
        X, y = validate_data(self, X, y, dtype=FLOATS, ensure_min_samples=2)
        check_classification_targets(y)
        self._check_parameters()
        self.classes_, numbers = np.unique(y, return_inverse=True)
        d = len(self.classes_) if self.n_neurons is None else self.n_neurons
        order = np.argsort(numbers, kind="stable")
        blocks = class_blocks(numbers[order])
        columns = np.ascontiguousarray(X[order].T)
        weights = Weights(*map(float, (self.alpha, self.beta, self.gamma, self.lam)))
        history: list[dict[str, float]] = []
        with progress_bars(self.verbose), get_engine(self.engine, self.device).arrays() as put:
            there = put(columns)
            layer = self._start(there, blocks, d, order, put)
            chosen = choose_ridge(there, numbers[order]) if self.ridge == "cv" else self.ridge
            self.ridge_ = float(chosen)
            settings = Settings(
                solver=self.solver,
                max_iter=self.max_iter,
                tol=self.tol,
                ridge=self.ridge_,
                encoder_iter=self.encoder_iter,
                nonnegative=self.nonnegative,
            )
            made = rounds(there, blocks, layer, weights, settings)
            for reached, terms in track(made, "neuron selectivity", self.max_iter):
                layer = reached
                history.append(terms)
                if self.callback is not None:
                    self.callback(len(history), terms)
            self.D_, H, self.W_, self.b_ = map(to_numpy, layer)
            activations = to_numpy(encode(there, layer.W, layer.b))
        self.H_ = np.empty_like(H)
        self.H_[:, order] = H
        self.n_iter_ = len(history)
        self.objective_terms_ = {name: np.array([t[name] for t in history]) for name in history[0]}
        self.objective_ = np.sum(list(self.objective_terms_.values()), axis=0)
        self.class_responses_ = class_means(activations, blocks)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Activations sigmoid(X W^T + b), (n_samples, n_neurons)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        kind = np.result_type(X, self.W_)
        arrays = (a.astype(kind, copy=False) for a in (X.T, self.W_, self.b_))
        with get_engine(self.engine, self.device).arrays() as put:
            activations = to_numpy(encode(*map(put, arrays)))
        return np.ascontiguousarray(activations.T).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Features D h of activations h, (n_samples, n_features): the top-down analysis."""
        check_is_fitted(self)
        h = check_array(X, dtype=FLOATS)
        if h.shape[1] != len(self.W_):
            raise ValueError(f"activations of {len(self.W_)} neurons expected, got {h.shape[1]}")
        return np.asarray(h @ self.D_.T)

    @property
    def _n_features_out(self) -> int:
        return len(self.W_)

    def _start(self, X: Any, blocks: list[slice], d: int, order: NDArray[np.intp], put: Any) -> Layer:
        if self.warm_start and getattr(self, "W_", np.empty(0)).shape == (d, len(X)):
            asarray = partial(namespace(X).asarray, dtype=X.dtype)
            D, W, b = (asarray(put(a)) for a in (self.D_, self.W_, self.b_))
            known = self.H_.shape[1] == len(order)
            H = asarray(put(self.H_[:, order])) if known else encode(X, W, b)
            return Layer(D, H, W, b)
        return make_start(self.init, X, blocks, d, check_random_state(self.random_state))

    def _check_parameters(self) -> None:
        for name, choices in {
            "init": ("kmeans", "similarity", "random"),
            "solver": ("proximal", "by class", "plain"),
            "engine": ("auto", "reference", "cpu", "torch"),
        }.items():
            if getattr(self, name) not in choices:
                listed = ", ".join(map(repr, choices))
                raise ValueError(f"{name} must be one of {listed}, got {getattr(self, name)!r}")
        if self.ridge != "cv" and not (isinstance(self.ridge, Real) and self.ridge >= 0):
            raise ValueError(f"ridge must be 'cv' or a number, zero or more, got {self.ridge!r}")
        for name in ("alpha", "beta", "gamma", "lam", "tol", "encoder_iter"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be zero or more, got {getattr(self, name)!r}")
        for name in ("n_neurons", "max_iter"):
            value = getattr(self, name)
            if not (value is None and name == "n_neurons") and not (
                hasattr(value, "__index__") and value >= 1
            ):
                raise ValueError(f"{name} must be an integer of 1 or more, got {value!r}")


def selectivity_order(model: NeuronSelectivity) -> NDArray[np.intp]:
    """The neurons by the class they serve (respond to most), the most responsive first in each."""
    serves = model.class_responses_.argmax(axis=1)
    return np.lexsort((-model.class_responses_.max(axis=1), serves))


def selectivity_image(model: NeuronSelectivity) -> NDArray[np.uint8]:
    """`class_responses_` as a grey picture: a row for each neuron in `selectivity_order`, a column for each
    class; white is the strongest response of all."""
    sorted_rows = model.class_responses_[selectivity_order(model)]
    strongest = max(float(sorted_rows.max()), np.finfo(np.float32).tiny)
    return np.round(255 * sorted_rows / strongest).astype(np.uint8)
