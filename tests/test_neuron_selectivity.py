"""What the mathematics of the neuron-selectivity layer promises (Section 3 and first appendix)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit

from midfea.estimators.neuron_selectivity import NeuronSelectivity
from midfea.learning.newton import gram_product
from midfea.learning.selectivity.codes import shrink_rows, smooth_terms, update_H
from midfea.learning.selectivity.dictionary import analytic_D, update_D
from midfea.learning.selectivity.encoder import choose_ridge, logistic_regression, update_encoder
from midfea.learning.selectivity.objective import (
    Layer,
    Weights,
    class_blocks,
    encode,
    objective_terms,
)
from midfea.learning.selectivity.rounds import Settings, rounds, shortened
from midfea.learning.selectivity.start import make_start


def problem(seed=0, p=7, d=6, counts=(5, 4, 6), dtype=np.float64):
    """Unit-length samples of classes around their own directions, and random variables."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(counts), p))[y] + 0.5 * rng.normal(size=(len(y), p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    D = rng.normal(size=(p, d))
    D /= np.linalg.norm(D, axis=0)
    layer = Layer(D, rng.normal(size=(d, len(y))), rng.normal(size=(d, p)), rng.normal(size=d))
    return X.T.astype(dtype).copy(), y, Layer(*(a.astype(dtype) for a in layer))


def formula(X, y, D, H, W, b, alpha=0.9, beta=0.5, gamma=2.0, lam=0.8):
    """The paper's objective, written as it stands."""
    total = np.sum((X - D @ H) ** 2)
    total += alpha * np.sum((H - expit(W @ X + b[:, None])) ** 2)
    for c in np.unique(y):
        own, others = H[:, y == c], H[:, y != c]
        total += lam * np.sqrt((own**2).sum(axis=1)).sum()
        total += beta * np.sum((own - own.mean(axis=1, keepdims=True)) ** 2)
        total += gamma * np.sum((own.T @ others) ** 2)
    return total


# -- the objective ----------------------------------------------------------------------------------


def test_terms_add_up_to_the_formula():
    X, y, layer = problem()
    terms = objective_terms(X, class_blocks(y), layer, Weights())
    assert set(terms) == {"reconstruction", "encoding", "sparsity", "cohesion", "separation"}
    assert_allclose(sum(terms.values()), formula(X, y, *layer), rtol=1e-12)


ONE_TERM = {
    "reconstruction": Weights(0, 0, 0, 0),
    "encoding": Weights(0.9, 0, 0, 0),
    "cohesion": Weights(0, 0.5, 0, 0),
    "separation": Weights(0, 0, 2.0, 0),
    "all": Weights(lam=0),
}


def gradient_by_H(X, blocks, layer, weights):
    """Of the smooth terms, as the code step computes it."""
    smooth = smooth_terms(X, blocks, layer, weights)
    smooth.value(layer.H)
    return smooth.derivatives(layer.H)[0]


@pytest.mark.parametrize("term", ONE_TERM)
def test_gradient_agrees_with_finite_differences(term):
    X, y, layer = problem()
    blocks, weights = class_blocks(y), ONE_TERM[term]
    gradient = gradient_by_H(X, blocks, layer, weights)
    numeric = np.empty_like(layer.H)
    step = 1e-5
    for index in np.ndindex(layer.H.shape):
        sides = []
        for sign in (1, -1):
            moved = layer.H.copy()
            moved[index] += sign * step
            terms = objective_terms(X, blocks, layer._replace(H=moved), weights)
            sides.append(sum(terms.values()))
        numeric[index] = (sides[0] - sides[1]) / (2 * step)
    assert np.linalg.norm(gradient - numeric) <= 1e-6 * max(np.linalg.norm(numeric), 1e-3)


@pytest.mark.parametrize("solver", ["proximal", "by class", "plain"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_recorded_objective_is_that_of_the_returned_variables(solver, dtype):
    X, y, _ = problem(3, p=12, counts=(8, 9, 7), dtype=dtype)
    shuffle = np.random.RandomState(0).permutation(len(y))
    model = NeuronSelectivity(6, solver=solver, max_iter=3, tol=0, random_state=0)
    model.fit(X.T[shuffle], y[shuffle])
    D, H, W, b, mean = (
        a.astype(np.float64) for a in (model.D_, model.H_, model.W_, model.b_, model.mean_)
    )
    inside = (X[:, shuffle] - mean[:, None]) * model.scale_
    expected = formula(inside, y[shuffle], D, H, W / model.scale_, b + W @ mean)
    assert_allclose(model.objective_[-1], expected, rtol=1e-10 if dtype == np.float64 else 1e-5)
    assert len(model.objective_) == model.n_iter_ == 3
    assert_allclose(sum(model.objective_terms_.values()), model.objective_)


# -- every step goes down ---------------------------------------------------------------------------


def random_problem(seed, dtype=np.float64):
    rng = np.random.RandomState(seed)
    counts = rng.randint(1, 9, size=rng.randint(1, 6))
    counts[0] += 2
    X, y, _ = problem(seed, p=rng.randint(2, 40), counts=counts, dtype=dtype)
    X *= rng.choice([1, 3, 10])
    weights = Weights(*rng.choice([0.1, 1.0, 5.0], size=4).tolist())
    return X, class_blocks(y), rng.randint(1, 15), weights, rng


@pytest.mark.parametrize("seed", range(20))
def test_no_block_step_raises_the_objective(seed):
    X, blocks, d, weights, rng = random_problem(seed)
    start = make_start(["kmeans", "similarity", "random"][seed % 3], X, blocks, d, rng)
    solver = ["proximal", "by class"][seed // 3 % 2]
    settings = Settings(solver=solver, max_iter=8, tol=0, encoder_iter=3 * (seed % 2))
    values = [sum(objective_terms(X, blocks, start, weights).values())]
    steps = []

    def on_step(block, terms):
        steps.append(block)
        values.append(sum(terms.values()))

    for layer, terms in rounds(X, blocks, start, weights, settings, on_step):
        assert_allclose(np.linalg.norm(layer.D, axis=0), 1, atol=1e-6)
        assert values[-1] == sum(terms.values())
    assert steps[:3] == ["H", "D", "W, b"]
    assert (np.diff(values) <= 0).all()
    assert values[-1] < 0.9 * values[0]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_go_down_by_themselves(seed, dtype):
    """Without the rounds' refusal of steps that go up, up to rounding."""
    X, blocks, d, weights, rng = random_problem(100 + seed, dtype)
    layer = make_start("random", X, blocks, d, rng)
    slack = 1e-12 if dtype == np.float64 else 3e-6

    def value():
        return sum(objective_terms(X, blocks, layer, weights).values())

    for by_class, in_turn in ((False, True), (True, False)):
        before = value()
        layer = layer._replace(H=update_H(X, blocks, layer, weights, by_class=by_class))
        after_H = value()
        layer = layer._replace(D=update_D(X, layer, in_turn=in_turn))
        after_D = value()
        W, b = update_encoder(X, layer.H, layer.W, layer.b, max_iter=5)
        layer = layer._replace(W=W, b=b)
        assert all(a.dtype == dtype for a in layer)
        assert after_H <= before * (1 + slack)
        assert after_D <= after_H * (1 + slack)
        assert value() <= after_D * (1 + slack)


def test_a_step_that_goes_too_far_is_shortened():
    X, y, layer = problem()
    blocks, weights = class_blocks(y), Weights()
    before = objective_terms(X, blocks, layer, weights)
    downhill = -gradient_by_H(X, blocks, layer, weights)
    too_far = layer._replace(H=layer.H + downhill)
    assert sum(objective_terms(X, blocks, too_far, weights).values()) > sum(before.values())
    nearer, after = shortened(X, blocks, layer, too_far, before, weights)
    assert sum(after.values()) < sum(before.values())
    assert after == objective_terms(X, blocks, nearer, weights)
    uphill = layer._replace(H=layer.H - downhill)
    assert shortened(X, blocks, layer, uphill, before, weights) == (layer, before)


def test_both_dictionary_steps_reach_a_stationary_point():
    X, _, layer = problem(4, p=9, d=4)
    for in_turn in (True, False):
        D = update_D(X, layer, in_turn=in_turn, max_iter=5000, tol=0)
        gradient = (D @ layer.H - X) @ layer.H.T
        tangent = gradient - D * (D * gradient).sum(axis=0)  # what the unit sphere leaves of it
        assert np.abs(tangent).max() < 1e-6 * np.abs(gradient).max()


def test_analytic_decoder_solves_the_least_squares():
    X, _, layer = problem(4, p=9, d=4)
    D = analytic_D(X, layer)
    unconstrained = np.linalg.lstsq(layer.H.T, X.T, rcond=None)[0].T
    assert_allclose(D, unconstrained / np.linalg.norm(unconstrained, axis=0), atol=1e-9)
    # Singular: twice the same neuron, and a silent one, whose column stays.
    H = np.vstack([layer.H[:2], layer.H[:1], np.zeros_like(layer.H[:1])])
    D = analytic_D(X, layer._replace(H=H))
    assert_allclose(np.linalg.norm(D, axis=0), 1)
    assert_allclose(D[:, 0], D[:, 2], atol=1e-4)
    assert_allclose(D[:, 3], layer.D[:, 3])


# -- the fixed point --------------------------------------------------------------------------------


def independent_solution(smooth, shape, lam):
    """min smooth(H) + lam sum_j |row j| by BFGS on a growing set of rows, where the norm is smooth.

    The result is certified by the optimality conditions.
    """
    H = np.zeros(shape)
    for _ in range(10 * len(H)):
        gradient = smooth(H)[1]
        excess = np.where(H.any(axis=1), 0, np.linalg.norm(gradient, axis=1) - lam)
        worst = excess.argmax()
        if excess[worst] <= 0:
            break
        H[worst] = -1e-3 * gradient[worst]
        kept = H.any(axis=1)

        def function(flat, kept=kept):
            Z = np.zeros(shape)
            Z[kept] = flat.reshape(-1, shape[1])
            value, gradient = smooth(Z)
            norms = np.linalg.norm(Z[kept], axis=1, keepdims=True)
            return value + lam * norms.sum(), (gradient[kept] + lam * Z[kept] / norms).ravel()

        options = {"gtol": 1e-9, "maxiter": 20_000}
        solution = minimize(function, H[kept].ravel(), jac=True, method="BFGS", options=options)
        H[kept] = solution.x.reshape(-1, shape[1])
        H[np.linalg.norm(H, axis=1) < 1e-7] = 0
    kept = H.any(axis=1)
    gradient = smooth(H)[1]
    norms = np.linalg.norm(H[kept], axis=1, keepdims=True)
    assert np.abs(gradient[kept] + lam * H[kept] / norms).max() < 1e-6
    assert (np.linalg.norm(gradient[~kept], axis=1) <= lam).all()
    return H


@pytest.mark.parametrize("by_class", [False, True])
def test_codes_of_each_class_solve_their_convex_problem(by_class):
    X, y, _ = problem(1, p=10, d=6, counts=(6, 5, 7))
    X *= 2
    blocks, weights = class_blocks(y), Weights()
    settings = Settings(solver="proximal", max_iter=5, tol=0, nonnegative=False)
    start = make_start("kmeans", X, blocks, 6, np.random.RandomState(0))
    *_, (layer, _) = rounds(X, blocks, start, weights, settings)
    for _ in range(40 if by_class else 1):
        layer = layer._replace(
            H=update_H(X, blocks, layer, weights, by_class=by_class, max_iter=3000, tol=0)
        )
    S = encode(X, layer.W, layer.b)
    silent = 0
    for c in blocks:
        others = np.delete(layer.H, np.arange(len(y))[c], axis=1)

        def smooth(H, c=c, others=others):
            residual, spread = layer.D @ H - X[:, c], H - H.mean(axis=1, keepdims=True)
            value = np.sum(residual**2) + weights.alpha * np.sum((H - S[:, c]) ** 2)
            value += weights.beta * np.sum(spread**2)
            value += 2 * weights.gamma * np.sum((H.T @ others) ** 2)
            gradient = 2 * layer.D.T @ residual + 2 * weights.alpha * (H - S[:, c])
            gradient += 2 * weights.beta * spread
            return value, gradient + 4 * weights.gamma * others @ (others.T @ H)

        expected = independent_solution(smooth, layer.H[:, c].shape, weights.lam)
        assert np.abs(layer.H[:, c] - expected).max() < 1e-6
        silent += (~expected.any(axis=1)).sum()
    assert silent > 0  # otherwise the easy case alone was tried


@pytest.mark.parametrize("nonnegative", [False, True])
def test_shrinkage_is_the_proximal_operator(nonnegative):
    rng = np.random.RandomState(0)
    H, blocks, amount = rng.normal(size=(4, 6)), [slice(0, 2), slice(2, 6)], 0.7
    best = shrink_rows(H, blocks, amount, nonnegative)

    def value(Z):
        norms = sum(np.linalg.norm(Z[:, c], axis=1).sum() for c in blocks)
        return ((Z - H) ** 2).sum() / 2 + amount * norms

    assert not nonnegative or (best >= 0).all()
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(200):
            other = best + size * rng.normal(size=H.shape)
            assert value(np.maximum(other, 0) if nonnegative else other) >= value(best)


# -- what the penalties promise ---------------------------------------------------------------------


def converged_codes(**changed):
    X, y, _ = problem(2, p=10, d=6, counts=(6, 5, 7))
    blocks = class_blocks(y)
    layer = make_start("similarity", X, blocks, 6, np.random.RandomState(0))
    weights = Weights()._replace(**changed)
    return update_H(X, blocks, layer, weights, max_iter=3000, tol=0), blocks


def test_rows_vanish_as_lam_grows():
    silent = []
    for lam in (0.0, 0.1, 0.5, 1.0, 2.0, 50.0):
        H, blocks = converged_codes(lam=lam)
        silent.append(sum((~H[:, c].any(axis=1)).sum() for c in blocks))
    assert silent[0] == 0
    assert silent[-1] == 18
    assert (np.diff(silent) >= 0).all()
    assert 0 < silent[2] < 18


def test_classes_separate_as_gamma_grows():
    inner = []
    for gamma in (0.0, 1.0, 1e2, 1e4, 1e6):
        H, blocks = converged_codes(gamma=gamma, lam=0.05)
        products = H.T @ H
        for c in blocks:
            products[c, c] = 0
        inner.append(np.abs(products).max())
        assert np.abs(H).max() > 0.05
    assert (np.diff(inner) < 0).all()
    assert inner[-1] < 1e-4 * inner[0]


def test_codes_of_a_class_agree_as_beta_grows():
    H, blocks = converged_codes(beta=1e6)
    for c in blocks:
        assert np.abs(H[:, c] - H[:, c].mean(axis=1, keepdims=True)).max() < 1e-4


# -- the encoder ------------------------------------------------------------------------------------


def test_logistic_regression_solves_its_problem():
    X, _, layer = problem(5, p=4, d=3, counts=(20, 20))
    H, ridge = expit(layer.H), 1e-2
    A, Z = logistic_regression(gram_product(X.T), H, ridge, balance=0.0, max_iter=100, tol=1e-9)
    assert_allclose(Z, A @ (X.T @ X + 1), atol=1e-8)
    for j in range(3):

        def loss(w, j=j):
            z = w[:-1] @ X + w[-1]
            return (np.logaddexp(0, z) - H[j] * z).mean() + ridge / 2 * w @ w

        best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-7}).x
        assert_allclose(np.append(A[j] @ X.T, A[j].sum()), best, atol=1e-5)


def test_encoder_does_not_collapse_on_rare_targets():
    """100 classes: each neuron's target is zero for 99 % of the samples."""
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(100), 5)
    X = rng.normal(size=(100, 300))[y] + 0.7 * rng.normal(size=(500, 300))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    model = NeuronSelectivity(100, length=8, random_state=0).fit(X, y)
    assert (model.class_responses_.max(axis=0) > 0.3).all()  # each class has a neuron that fires
    assert (model.transform(X).argmax(axis=1) == model.class_responses_.argmax(axis=0)[y]).all()


@pytest.mark.parametrize("p", [5, 200])
def test_encoder_fits_what_can_be_fitted(p):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(p, 50))
    H = expit(2 * rng.normal(size=(4, p)) @ X / np.sqrt(p) - 1)
    W, b = update_encoder(X, H, np.zeros((4, p)), np.zeros(4), max_iter=100)
    assert np.abs(encode(X, W, b) - H).max() < 1e-2


def test_ridge_is_chosen_by_validation():
    """Noise in many dimensions wants a smooth encoder; clean samples want none of it."""
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(20), 12)
    centres = rng.normal(size=(20, 150))
    noisy = centres[y] + 4 * rng.normal(size=(len(y), 150))
    assert choose_ridge(noisy.T, y) == 1e-3
    # Classes apart in a direction that is faint beside another, common one: only a small ridge sees it.
    faint = np.hstack([100 * rng.normal(size=(len(y), 1)), centres[y]])
    assert choose_ridge(faint.T, y) == 1e-5
    assert choose_ridge(noisy.T, np.arange(len(y))) == 1e-5  # nothing can be held out
    model = NeuronSelectivity(20, random_state=0).fit(noisy, y)
    assert model.ridge_ > 1e-5
    assert NeuronSelectivity(20, ridge=1e-2, random_state=0).fit(noisy, y).ridge_ == 1e-2
