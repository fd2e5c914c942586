"""Classifiers of vectors by sparse codes: what their mathematics promises."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from midfea.baselines.fddl import FDDL
from midfea.baselines.fisher import Problem, update_atoms, update_codes
from midfea.baselines.ksvd import ksvd
from midfea.baselines.lcksvd import LCKSVD
from midfea.baselines.random_faces import RandomFaces
from midfea.baselines.src import SRC
from midfea.baselines.vectors import unit_length
from midfea.parallel import linear_algebra_threads
from midfea.progress import reporting_to

N_CLASSES, PER_CLASS, DIM = 5, 8, 40


CHECKED = [
    SRC(n_jobs=1),
    FDDL(n_jobs=1, n_atoms=5, n_iter=2, random_state=0),
    LCKSVD(n_jobs=1, n_iter=3, n_start_iter=2, random_state=0),
    RandomFaces(n_components=3),
]


ON_A_PLANE = (
    "asks for a good fit to points of a plane; at unit length they lie on a circle, where any two atoms "
    "code every sample, whatever its class"
)


def left_out(estimator):
    return {} if isinstance(estimator, SRC) else {"check_classifiers_train": ON_A_PLANE}


@parametrize_with_checks(CHECKED, expected_failed_checks=left_out)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def subspaces():
    """Training and new samples, each class on a plane of its own: what sparse codes assume."""
    rng = np.random.RandomState(0)
    planes = rng.normal(size=(N_CLASSES, 2, DIM))

    def draw(n):
        y = np.repeat(np.arange(N_CLASSES), n)
        weights = rng.uniform(0.2, 1, size=(len(y), 1, 2))
        X = (weights @ planes[y])[:, 0] + 0.05 * rng.normal(size=(len(y), DIM))
        return X, y

    return *draw(PER_CLASS), *draw(4)


def test_src_recovers_a_planted_subject(subspaces):
    X, y, new, labels = subspaces
    model = SRC().fit(X, y)
    np.testing.assert_array_equal(model.predict(new), labels)
    assert (model.concentration(new) > 0.7).all()


def test_src_rejects_noise(subspaces):
    X, y, new, labels = subspaces
    noise = np.random.RandomState(1).normal(size=(20, DIM))
    names = np.array(["a", "b", "c", "d", "e"])
    model = SRC(reject=0.6).fit(X, names[y])
    np.testing.assert_array_equal(model.predict(new), names[labels])
    assert (model.predict(noise) == "").mean() >= 0.9
    numbers = clone(model).fit(X, y)
    assert (numbers.predict(noise) == -1).mean() >= 0.9
    assert set(numbers.set_params(rejected_label=99, reject=1.0).predict(noise)) == {99}
    with pytest.raises(ValueError, match="rejected_label=3 is one of the classes"):
        SRC(reject=0.5, rejected_label=3).fit(X, y)
    with pytest.raises(ValueError, match="rejected_label=3 is of another type than the labels"):
        SRC(reject=0.5, rejected_label=3).fit(X, names[y])


def test_src_concentration_is_one_for_a_training_sample_alone():
    model = SRC().fit(np.eye(4), [0, 0, 1, 1])
    np.testing.assert_allclose(model.concentration([[3.0, 0, 0, 0], [1, 0, 1, 0]]), [1, 0], atol=1e-9)
    assert model.concentration(np.zeros((1, 4))) == [0]
    # The code of a training sample is 1 - penalty times that sample.
    np.testing.assert_allclose(model.residuals([[3.0, 0, 0, 0]]), [[0.01, 1]], atol=1e-9)


def test_src_does_not_depend_on_lengths_nor_on_order(subspaces):
    X, y, new, _ = subspaces
    rng = np.random.RandomState(2)
    order = rng.permutation(len(X))
    scaled = X * rng.uniform(0.1, 1e6, size=(len(X), 1))
    expected = SRC().fit(X, y).residuals(new)
    np.testing.assert_allclose(
        SRC().fit(scaled[order], y[order]).residuals(7 * new), expected, atol=1e-6
    )


def test_random_faces_are_gaussian_and_fixed_by_the_seed():
    X = np.random.RandomState(0).normal(size=(6, 500))
    faces = RandomFaces(n_components=200, random_state=1).fit(X)
    np.testing.assert_allclose(np.linalg.norm(faces.components_, axis=1), 1)
    assert abs(faces.components_.mean() * 500**0.5) < 0.02
    np.testing.assert_allclose(faces.transform(X), X @ faces.components_.T)
    np.testing.assert_array_equal(clone(faces).fit_transform(X), faces.transform(X))
    assert faces.transform(X.astype(np.float32)).dtype == np.float32
    assert list(faces.get_feature_names_out()[:2]) == ["randomfaces0", "randomfaces1"]


def test_ksvd_never_raises_its_error(subspaces):
    X, _, _, _ = subspaces
    rounds = list(ksvd(X, unit_length(X[::2]), 3, 8))
    errors = [learned.error for learned in rounds]
    assert (np.diff(errors) <= 1e-9).all()
    assert errors[-1] < 0.9 * errors[0]
    atoms, codes, error = rounds[-1]
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1)
    assert ((codes != 0).sum(axis=1) <= 3).all()
    assert error == pytest.approx(np.square(X - codes @ atoms).sum())


def test_ksvd_replaces_an_atom_that_no_signal_uses():
    signals = np.eye(4)[[0, 0, 1, 2]]
    atoms = np.eye(4)[[0, 3, 3]]  # the last two explain nothing
    learned = list(ksvd(signals, atoms, 1, 2))[-1]
    assert learned.error == pytest.approx(0)


@pytest.mark.parametrize("variant", [1, 2])
def test_lcksvd_codes_tell_the_class(subspaces, variant):
    X, y, new, labels = subspaces
    settings = {"n_atoms": 4, "sparsity": 3, "n_iter": 20, "variant": variant, "random_state": 0}
    model = LCKSVD(**settings).fit(X, y)
    assert (np.diff(model.objective_) <= 1e-9).all()
    assert model.objective_[-1] < 0.8 * model.objective_[0]
    assert (model.predict(new) == labels).mean() >= 0.95
    np.testing.assert_allclose(np.linalg.norm(model.dictionary_, axis=1), 1)
    consistency = model.encode(new) @ model.consistency_.T
    wanted = model.atom_classes_ == labels[:, None]  # Q
    assert consistency[wanted].mean() > 0.8
    assert abs(consistency[~wanted].mean()) < 0.1


def test_lcksvd_classes_of_unequal_size_and_labels_of_any_kind(subspaces):
    X, y, new, labels = subspaces
    kept = np.concatenate([[0, 1], np.arange(PER_CLASS, len(y))])  # two samples of the first class
    names = np.array(["e", "d", "c", "b", "a"])
    for model in (LCKSVD(n_atoms=4, sparsity=3, random_state=0), FDDL(n_atoms=4, random_state=0)):
        model.fit(X[kept], names[y[kept]])
        assert np.bincount(model.atom_classes_).tolist() == [4, 4, 4, 4, 2]
        assert (model.predict(new) == names[labels]).mean() >= 0.9


def test_lcksvd_agrees_with_dictlearn(subspaces):
    classification = pytest.importorskip("dictlearn.classification")
    X, y, new, labels = subspaces
    X, new = unit_length(X), unit_length(new)
    # Its alpha is the factor of the labels, our beta.
    theirs = classification.LCDLClassifier(
        4, alpha=4.0, beta=16.0, n_nonzero_coefs=3, init_method="trained", max_iter=20, random_state=0
    )
    ours = LCKSVD(n_atoms=4, sparsity=3, alpha=16.0, beta=4.0, n_iter=20, random_state=0)
    np.testing.assert_array_equal(theirs.fit(X, y).predict(new), labels)
    np.testing.assert_array_equal(ours.fit(X, y).predict(new), labels)
    errors = [
        np.abs(labels[:, None] == np.arange(N_CLASSES) - scores).mean()
        for scores in (theirs.decision_function(new), ours.decision_function(new))
    ]
    assert errors[1] <= 1.2 * errors[0]


def fisher_objective(problem, atoms, codes):
    """As in the paper, class by class."""
    value = (
        problem.lambda1 * np.abs(codes).sum() + problem.lambda2 * problem.eta * np.square(codes).sum()
    )
    for i in np.unique(problem.labels):
        A, X = problem.samples[problem.labels == i], codes[problem.labels == i]
        value += np.square(A - X @ atoms).sum()
        for j in np.unique(problem.owners):
            part = X[:, problem.owners == j] @ atoms[problem.owners == j]
            value += np.square(part - A if i == j else part).sum()
        within, between = X - X.mean(axis=0), X.mean(axis=0) - codes.mean(axis=0)
        value += problem.lambda2 * (np.square(within).sum() - len(X) * np.square(between).sum())
    return value


@pytest.fixture(params=[(0.05, 1.0), (0.1, 0.5)], ids=["convex", "not convex"])
def problem(subspaces, request):
    X, y, _, _ = subspaces
    kept = np.arange(len(y)) % PER_CLASS < 5 + (y > 2)  # classes of unequal size
    X, y = unit_length(X[kept]), y[kept]
    return Problem(X, y, y[::2], 0.01, *request.param), X[::2]


def test_fddl_objective_is_the_definition(problem):
    problem, atoms = problem
    codes = np.random.RandomState(3).normal(size=(len(problem.samples), len(atoms)))
    expected = fisher_objective(problem, atoms, codes)
    assert problem.objective(codes, *problem.products(atoms)) == pytest.approx(expected)


def test_fddl_steps_never_raise_the_objective(problem):
    problem, atoms = problem
    codes = np.random.RandomState(4).normal(size=(len(problem.samples), len(atoms)))
    values = [fisher_objective(problem, atoms, codes)]
    for _ in range(5):
        codes = update_codes(problem, atoms, codes)
        values.append(fisher_objective(problem, atoms, codes))
        atoms = update_atoms(problem, atoms, codes)
        values.append(fisher_objective(problem, atoms, codes))
    assert (np.diff(values) <= 1e-9).all()
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1)


def test_fddl_codes_reach_a_point_without_descent(problem):
    """There finite differences in any coefficient find no way down."""
    problem, atoms = problem
    codes = np.zeros((len(problem.samples), len(atoms)))
    for _ in range(200):
        codes = update_codes(problem, atoms, codes)
    value, step = fisher_objective(problem, atoms, codes), 1e-4
    rng = np.random.RandomState(5)
    for i, k in zip(rng.randint(len(codes), size=60), rng.randint(len(atoms), size=60), strict=True):
        for sign in (-1, 1):
            moved = codes.copy()
            moved[i, k] += sign * step
            assert fisher_objective(problem, atoms, moved) >= value - 1e-7


@pytest.mark.parametrize("decision", ["global", "local"])
def test_fddl_predicts_planted_classes(subspaces, decision):
    X, y, new, labels = subspaces
    model = FDDL(n_atoms=4, decision=decision, random_state=0).fit(X, y)
    assert (np.diff(model.objective_) <= 1e-9).all()
    np.testing.assert_array_equal(model.predict(new), labels)
    own = model.atom_classes_ == np.arange(N_CLASSES)[:, None]
    assert np.abs(model.means_[own]).mean() > 5 * np.abs(model.means_[~own]).mean()


MODELS = [SRC(), FDDL(n_atoms=4, n_iter=3, random_state=0), LCKSVD(4, 3, n_iter=5, random_state=0)]
ids = [type(model).__name__ for model in MODELS]


@pytest.mark.parametrize("model", MODELS, ids=ids)
def test_pickle_and_threads(subspaces, model):
    X, y, new, _ = subspaces
    model = clone(model).set_params(n_jobs=1).fit(X, y)
    again = clone(model).set_params(n_jobs=3).fit(X, y)
    with linear_algebra_threads(2):
        other = clone(model).set_params(n_jobs=2).fit(X, y)
    for same in (again, other):
        np.testing.assert_array_equal(same.dictionary_, model.dictionary_)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new), model.predict(new))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


@pytest.mark.parametrize("model", MODELS, ids=ids)
def test_limits(subspaces, model):
    X, y, new, _ = subspaces
    name = type(model).__name__
    with pytest.raises(MemoryError, match=f"{name} needs about .* MB, memory_limit allows 0 MB"):
        clone(model).set_params(memory_limit=1000).fit(X, y)
    with pytest.raises(TimeoutError, match=f"{name} took longer than time_limit=1e-09 s"):
        clone(model).set_params(time_limit=1e-9).fit(X, y).predict(new)
    assert len(clone(model).set_params(memory_limit=10**8, time_limit=60).fit(X, y).predict(new))


@pytest.mark.parametrize("model", MODELS, ids=ids)
def test_progress_is_reported(subspaces, model):
    X, y, new, _ = subspaces
    steps = []
    with reporting_to(lambda what, done, total: steps.append((what, done, total))):
        clone(model).fit(X, y).predict(new)
    whole = [(what, total) for what, done, total in steps if done == total]
    assert any(type(model).__name__ in what for what, _ in whole)


def test_grid_search(subspaces):
    X, y, _, _ = subspaces
    search = GridSearchCV(SRC(n_jobs=1), {"penalty": [0.01, 0.1]}, cv=2).fit(X, y)
    assert search.best_score_ == 1
    search = GridSearchCV(FDDL(n_iter=2, n_jobs=1), {"decision": ["global", "local"]}, cv=2).fit(X, y)
    assert search.best_score_ == 1
    search = GridSearchCV(LCKSVD(4, n_iter=3, n_jobs=1), {"sparsity": [2, 3]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.9


def test_labels_that_cannot_be_used(subspaces):
    X, y, _, _ = subspaces
    mixed = np.array([0, "one"] * (len(y) // 2), dtype=object)
    with pytest.raises(ValueError, match=r"different types cannot be sorted \(int, str\)"):
        SRC().fit(X, mixed)
    with pytest.raises(ValueError, match="samples of 2 classes or more are needed, got 1 class"):
        SRC().fit(X, np.zeros(len(y)))
