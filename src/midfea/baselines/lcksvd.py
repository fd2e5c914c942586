"""`LCKSVD`: a dictionary whose atoms belong to classes, and a linear classifier, learned together."""

from __future__ import annotations

from collections import deque
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.ksvd import ksvd
from midfea.baselines.labels import PredictsByScores
from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.sparse import omp_codes
from midfea.baselines.vectors import (
    COMMON_CONSTRAINTS,
    Floats,
    Indices,
    labelled_samples,
    new_samples,
)
from midfea.parallel import in_parallel, linear_algebra_threads, n_threads
from midfea.progress import track

RIDGE = 1.0  # of the regressions from codes to labels, as in the paper
SHORTEST = 1e-10  # of the part of a stacked atom that describes samples


@dataclass(eq=False, repr=False)
class LCKSVD(PredictsByScores, BaseEstimator):
    """Label-consistent K-SVD: codes that tell the class, and a linear classifier of them.

    Minimises over dictionary D, codes X with at most `sparsity` atoms each, A and W

        |Y - D X|^2 + alpha |Q - A X|^2 + beta |H - W X|^2,

    where the columns of Y are samples of unit length, Q is 1 where atom and sample have the same class,
    and the columns of H tell the classes. This is K-SVD on the three parts stacked. A new sample y gets
    the code x of `sparsity` atoms of D, by orthogonal matching pursuit, and the class with the largest
    entry of W x.

    Parameters
    ----------
    n_atoms : int, default=15
        Atoms of each class; a class of fewer samples gets one for each of them.
    sparsity : int, default=30
        Largest number of atoms in a code; never more than there are features or atoms.
    alpha : float, default=0.01
        Factor of the label consistency, for samples of length 1. It weighs the labels against the
        squared length of the samples: the authors' 16 for Extended Yale B suits much longer ones.
    beta : float, default=0.01
        Factor of the classifier's error, in variant 2.
    variant : {1, 2}, default=2
        1 leaves the classifier out of the objective: it is learned from the codes at the end.
    n_iter : int, default=50
        Rounds of K-SVD.
    n_start_iter : int, default=20
        Rounds of K-SVD on each class alone, where the atoms start.
    n_jobs : int or None, default=None
        Threads; None means all cores.
    memory_limit : int or None, default=None
        Bytes that `fit` may use, see MemoryError's message; None sets no limit.
    time_limit : float or None, default=None
        Seconds after which `fit` ends with TimeoutError; None sets no limit.
    random_state : int, RandomState or None, default=None
        Seed of the samples with which the atoms of a class start.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    dictionary_ : array (n_atoms, n_features)
        The atoms, at unit length, those of a class together.
    atom_classes_ : array (n_atoms,)
        The class number of each atom.
    consistency_ : array (n_atoms, n_atoms)
        The paper's A: consistency_ @ code is near 1 for the atoms of the sample's class, else near 0.
    coef_ : array (n_classes, n_atoms)
        The paper's W.
    gram_ : array (n_atoms, n_atoms)
        Inner products of the atoms.
    objective_ : array (n_iter,)
        The objective's value after each round.
    n_features_in_ : int
        Features of a sample.

    References
    ----------
    Jiang, Lin and Davis, "Label Consistent K-SVD: Learning a Discriminative Dictionary for Recognition",
    TPAMI 35(11), 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from midfea.baselines.lcksvd import LCKSVD
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LCKSVD(sparsity=5, n_iter=20, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:500], y[300:500]) > 0.85
    True
    """

    n_atoms: int = 15
    sparsity: int = 30
    alpha: float = 0.01
    beta: float = 0.01
    _: KW_ONLY
    variant: Literal[1, 2] = 2
    n_iter: int = 50
    n_start_iter: int = 20
    n_jobs: int | None = None
    memory_limit: int | None = None
    time_limit: float | None = None
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_atoms": [Interval(Integral, 1, None, closed="left")],
        "sparsity": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "variant": [Options(Integral, {1, 2})],
        "n_start_iter": [Interval(Integral, 0, None, closed="left")],
        "random_state": ["random_state"],
        **COMMON_CONSTRAINTS,
    }

    def fit(self, X: Any, y: Any) -> LCKSVD:
        """Learn from samples X (n_samples, n_features) with class labels y."""
        self._validate_params()
        X, self.classes_, numbers = labelled_samples(self, X, y)
        counts = np.minimum(np.bincount(numbers), self.n_atoms)
        self.atom_classes_ = np.repeat(np.arange(len(counts)), counts)
        self._check_memory(X)
        deadline = Deadline(self.time_limit, "LCKSVD")
        with linear_algebra_threads(1):  # whose number would change the rounding, and so the atoms
            start = self._start(X, numbers, deadline)
            stacked, targets = self._stack(X, numbers, start)
            owners, sparsity = self.atom_classes_, self._sparsity(X.shape[1])
            n = n_threads(self.n_jobs)
            rounds = ksvd(
                targets, stacked, sparsity, self.n_iter, labels=numbers, owners=owners, n_threads=n
            )
            objective = []
            for learned in track(rounds, "LCKSVD", self.n_iter):
                objective.append(learned.error)
                deadline.check()
            self._unstack(learned.atoms, X, numbers)
        self.objective_ = np.array(objective)
        return self

    def encode(self, X: Any) -> Floats:
        """Codes (n_samples, n_atoms) of samples."""
        check_is_fitted(self)
        X = new_samples(self, X)
        return self._codes(X)

    def _scores(self, X: Any) -> Floats:
        """W x of each sample."""
        return np.asarray(self.encode(X) @ self.coef_.T)

    def _sparsity(self, n_features: int) -> int:
        return min(self.sparsity, n_features, len(self.atom_classes_))

    def _codes(self, X: Floats) -> Floats:
        sparsity = self._sparsity(X.shape[1])
        n = n_threads(self.n_jobs)
        with linear_algebra_threads(n):
            return omp_codes(self.gram_, X @ self.dictionary_.T, sparsity, n_threads=n)

    def _check_memory(self, X: Floats) -> None:
        n, n_atoms = len(X), len(self.atom_classes_)
        stacked = X.shape[1] + n_atoms + len(self.classes_)
        numbers = 4 * n * stacked + 5 * n * n_atoms + 3 * n_atoms * stacked + 2 * n_atoms**2
        check_memory(X.itemsize * numbers, self.memory_limit, "LCKSVD")

    def _start(self, X: Floats, numbers: Indices, deadline: Deadline) -> Floats:
        """Atoms learned from each class alone, beginning with some of its samples."""
        rng = check_random_state(self.random_state)
        members = [np.flatnonzero(numbers == c) for c in range(len(self.classes_))]
        chosen = [rng.permutation(own)[: self.n_atoms] for own in members]

        def learn(c: int) -> Floats:
            deadline.check()
            atoms, samples = X[chosen[c]], X[members[c]]
            if len(atoms) == len(samples):  # each sample has its own atom
                return atoms
            rounds = ksvd(samples, atoms, self._sparsity(X.shape[1]), self.n_start_iter)
            last = deque(rounds, maxlen=1)
            return last[0].atoms if last else atoms

        work = in_parallel(learn, range(len(members)), n_threads(self.n_jobs))
        return np.concatenate(list(track(work, "LCKSVD start", len(members))))

    def _stack(self, X: Floats, numbers: Indices, atoms: Floats) -> tuple[Floats, Floats]:
        """Rows (D, sqrt(alpha) A, sqrt(beta) W) at unit length, and (Y, sqrt(alpha) Q, sqrt(beta) H)."""
        codes = omp_codes(
            atoms @ atoms.T, X @ atoms.T, self._sparsity(X.shape[1]), n_threads=n_threads(self.n_jobs)
        )
        Q = (self.atom_classes_ == numbers[:, None]).astype(np.float64)
        labels = [self.alpha**0.5 * Q]
        if self.variant == 2:
            labels.append(self.beta**0.5 * _class_columns(numbers))
        stacked = np.hstack([atoms, _ridge(codes, np.hstack(labels))])
        stacked /= np.maximum(np.linalg.norm(stacked, axis=1, keepdims=True), SHORTEST)
        return stacked, np.hstack([X, *labels])

    def _unstack(self, stacked: Floats, X: Floats, numbers: Indices) -> None:
        """D at unit length; A and W for codes that grow as its atoms shrink."""
        p, n_atoms = X.shape[1], len(stacked)
        lengths = np.linalg.norm(stacked[:, :p], axis=1, keepdims=True)
        stacked = stacked / np.maximum(lengths, SHORTEST)
        self.dictionary_ = np.ascontiguousarray(stacked[:, :p])
        self.gram_ = self.dictionary_ @ self.dictionary_.T
        self.consistency_ = stacked[:, p : p + n_atoms].T / self.alpha**0.5
        if self.variant == 2:
            self.coef_ = stacked[:, p + n_atoms :].T / self.beta**0.5
        else:
            self.coef_ = _ridge(self._codes(X), _class_columns(numbers)).T


def _class_columns(numbers: Indices) -> Floats:
    """1 in the column of each sample's class."""
    return np.eye(int(numbers.max()) + 1)[numbers]


def _ridge(codes: Floats, targets: Floats) -> Floats:
    """(n_atoms, n_targets) of ridge regression from codes (n, n_atoms) to targets (n, n_targets)."""
    penalised = codes.T @ codes + RIDGE * np.eye(codes.shape[1])
    return np.asarray(np.linalg.solve(penalised, codes.T @ targets))
