"""`FDDL`: a dictionary for each class, learned so that codes of a class are alike and classes apart."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from midfea.baselines.fisher import Problem, class_means, update_atoms, update_codes
from midfea.baselines.labels import PredictsByScores
from midfea.baselines.limits import Deadline, check_memory
from midfea.baselines.sparse import lasso_codes
from midfea.baselines.vectors import (
    COMMON_CONSTRAINTS,
    Floats,
    Indices,
    labelled_samples,
    new_samples,
)
from midfea.parallel import linear_algebra_threads, n_threads
from midfea.progress import track


@dataclass(eq=False, repr=False)
class FDDL(PredictsByScores, BaseEstimator):
    """Fisher discrimination dictionary learning.

    Learns atoms of unit length for each class, and codes of the training samples, such that the atoms
    of a class alone explain its samples, those of other classes add nothing, and the codes have little
    scatter within classes and much between (see `midfea.baselines.fisher` for the objective). Codes and
    atoms take turns, and the objective never rises.

    Parameters
    ----------
    lambda1 : float, default=0.005
        Factor of the codes' absolute sum.
    lambda2 : float, default=0.05
        Factor of the Fisher term: scatter within classes, less scatter between, plus eta |X|^2.
    eta : float, default=1.0
        Factor of |X|^2 in the Fisher term; from 1 on the problem of the codes is convex.
    n_atoms : int or None, default=None
        Atoms of each class; None, or more than a class has samples, means one for each sample.
    decision : {"global", "local"}, default="global"
        "global" codes a new sample over all atoms, and a class is judged by what its part of the code
        leaves and by how near the code is to the class's mean: for many small classes. "local" codes it
        over the atoms of each class alone: for few large classes.
    gamma : float, default=0.005
        Factor of the absolute sum in the code of a new sample.
    weight : float, default=0.5
        Factor of the squared distance from a class's mean code in the decision.
    n_iter : int, default=15
        Rounds, each over codes and atoms.
    n_jobs : int or None, default=None
        Threads; None means all cores.
    memory_limit : int or None, default=None
        Bytes that `fit` may use, see MemoryError's message; None sets no limit.
    time_limit : float or None, default=None
        Seconds after which `fit` ends with TimeoutError; None sets no limit.
    random_state : int, RandomState or None, default=None
        Seed of the samples with which the atoms start, where there are fewer atoms than samples.

    Attributes
    ----------
    classes_ : array (n_classes,)
        The labels, sorted.
    dictionary_ : array (n_atoms, n_features)
        The atoms, those of a class together.
    atom_classes_ : array (n_atoms,)
        The class number of each atom.
    means_ : array (n_classes, n_atoms)
        The mean code of each class.
    objective_ : array (n_iter,)
        The objective's value after each round.
    n_features_in_ : int
        Features of a sample.

    References
    ----------
    Yang, Zhang, Feng and Zhang, "Fisher Discrimination Dictionary Learning for Sparse Representation",
    ICCV 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from midfea.baselines.fddl import FDDL
    >>> X, y = load_digits(return_X_y=True)
    >>> model = FDDL(n_atoms=8, n_iter=3, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:500], y[300:500]) > 0.85
    True
    """

    lambda1: float = 0.005
    lambda2: float = 0.05
    eta: float = 1.0
    n_atoms: int | None = None
    _: KW_ONLY
    decision: Literal["global", "local"] = "global"
    gamma: float = 0.005
    weight: float = 0.5
    n_iter: int = 15
    n_jobs: int | None = None
    memory_limit: int | None = None
    time_limit: float | None = None
    random_state: int | np.random.RandomState | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lambda1": [Interval(Real, 0, None, closed="neither")],
        "lambda2": [Interval(Real, 0, None, closed="left")],
        "eta": [Interval(Real, 0, None, closed="left")],
        "n_atoms": [Interval(Integral, 1, None, closed="left"), None],
        "decision": [StrOptions({"global", "local"})],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "weight": [Interval(Real, 0, None, closed="left")],
        "n_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        **COMMON_CONSTRAINTS,
    }

    def fit(self, X: Any, y: Any) -> FDDL:
        """Learn from samples X (n_samples, n_features) with class labels y."""
        self._validate_params()
        X, self.classes_, numbers = labelled_samples(self, X, y)
        chosen = self._first_atoms(numbers)
        self._check_memory(X, len(chosen))
        deadline = Deadline(self.time_limit, "FDDL")
        self.atom_classes_ = numbers[chosen]
        problem = Problem(X, numbers, self.atom_classes_, self.lambda1, self.lambda2, self.eta)
        atoms, codes = X[chosen], np.zeros((len(X), len(chosen)))
        objective = []
        with linear_algebra_threads(1):  # whose number would change the rounding
            for _ in track(range(self.n_iter), "FDDL", self.n_iter):
                codes = update_codes(problem, atoms, codes, n_threads(self.n_jobs), deadline.check)
                atoms = update_atoms(problem, atoms, codes)
                objective.append(problem.objective(codes, *problem.products(atoms)))
                deadline.check()
        self.dictionary_, self.means_ = atoms, class_means(codes, numbers)
        self.objective_ = np.array(objective)
        return self

    def _scores(self, X: Any) -> Floats:
        """Less what speaks against each class: |y - D_i x_i|^2 + weight |x - m_i|^2.

        x is the code of sample y and m_i the mean code of class i; the local decision, whose codes are
        of that class alone, adds gamma |x|_1.
        """
        check_is_fitted(self)
        X = new_samples(self, X)
        with linear_algebra_threads(n_threads(self.n_jobs)):
            return -(self._against(X) if self.decision == "global" else self._against_locally(X))

    def _first_atoms(self, numbers: Indices) -> Indices:
        """Samples with which the atoms start, class by class."""
        rng = check_random_state(self.random_state)
        members = (np.flatnonzero(numbers == c) for c in range(len(self.classes_)))
        return np.concatenate([np.sort(rng.permutation(own)[: self.n_atoms]) for own in members])

    def _check_memory(self, X: Floats, n_atoms: int) -> None:
        numbers = 12 * len(X) * n_atoms + 3 * n_atoms**2 + 4 * X.size
        check_memory(X.itemsize * numbers, self.memory_limit, "FDDL")

    def _against(self, X: Floats) -> Floats:
        D = self.dictionary_
        # The paper's |y - D x|^2 has no 1/2, so gamma is halved.
        codes = lasso_codes(D @ D.T, X @ D.T, self.gamma / 2, n_threads=n_threads(self.n_jobs))
        against = np.empty((len(X), len(self.classes_)))
        for c, mean in enumerate(self.means_):
            own = self.atom_classes_ == c
            against[:, c] = np.square(X - codes[:, own] @ D[own]).sum(axis=1)
            against[:, c] += self.weight * np.square(codes - mean).sum(axis=1)
        return against

    def _against_locally(self, X: Floats) -> Floats:
        against = np.empty((len(X), len(self.classes_)))
        for c, mean in enumerate(self.means_):
            own = self.atom_classes_ == c
            D, m = self.dictionary_[own], mean[own]
            gram, pull = D @ D.T + self.weight * np.eye(len(D)), X @ D.T + self.weight * m
            codes = lasso_codes(gram, pull, self.gamma / 2, n_threads=n_threads(self.n_jobs))
            against[:, c] = np.square(X - codes @ D).sum(axis=1) + self.gamma * np.abs(codes).sum(axis=1)
            against[:, c] += self.weight * np.square(codes - m).sum(axis=1)
        return against
