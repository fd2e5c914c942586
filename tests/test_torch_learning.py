"""What is learned on a device is what numpy learns: NS layer, k-means, principal directions, SVM.

One code serves both (`midfea.arrays`), so what is tested is that it does, step by step and as a whole.
"""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

import midfea
from midfea import MidFeaClassifier, MidFeaRegressor, NeuronSelectivity, stages
from midfea.arrays import to_numpy
from midfea.engines import get_engine
from midfea.extras import install_line
from midfea.learning import svm as linear_svm
from midfea.learning.folds import make_folds
from midfea.learning.head import validation_scores
from midfea.learning.kmeans import kmeans
from midfea.learning.principal import principal_directions
from midfea.learning.selectivity.codes import smooth_terms, update_H
from midfea.learning.selectivity.dictionary import update_D
from midfea.learning.selectivity.encoder import choose_ridge, update_encoder
from midfea.learning.selectivity.objective import (
    Layer,
    Weights,
    class_blocks,
    encode,
    objective_terms,
)
from midfea.learning.selectivity.start import make_start
from small import SMALL_FAST as SMALL

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def put(device):
    with get_engine("torch", device).arrays() as put:
        yield put


def samples(p=40, counts=(5, 12, 7, 1, 20), seed=0, noise=0.5, dtype=np.float64):
    """Of classes around their own directions, at length 8."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    X = rng.normal(size=(len(counts), p))[y] + noise * rng.normal(size=(len(y), p))
    return (8 * X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype), y


def layers(put, init="similarity", n_neurons=9, **options):
    """A start, here and there."""
    X, y = samples(**options)
    X, blocks = X.T.copy(), class_blocks(y)
    starts = [make_start(init, x, blocks, n_neurons, np.random.RandomState(0)) for x in (X, put(X))]
    return X, put(X), blocks, *starts


# -- the NS layer -----------------------------------------------------------------------------------


@pytest.mark.parametrize("init", ["kmeans", "similarity", "random"])
@pytest.mark.parametrize("n_neurons", [3, 9])
def test_same_start_value_and_gradient(put, init, n_neurons):
    X, there, blocks, start, moved = layers(put, init, n_neurons)
    for mine, theirs in zip(moved, start, strict=True):
        assert_allclose(to_numpy(mine), theirs, atol=1e-10)
    terms = objective_terms(there, blocks, moved, Weights())
    for name, value in objective_terms(X, blocks, start, Weights()).items():
        assert isinstance(terms[name], float)
        assert terms[name] == pytest.approx(value, rel=1e-10)
    found = []
    for columns, layer in ((there, moved), (X, start)):
        smooth = smooth_terms(columns, blocks, layer, Weights())
        found.append([smooth.value(layer.H), *smooth.derivatives(layer.H)])
    for mine, theirs in zip(*found, strict=True):
        assert_allclose(mine.cpu(), theirs, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_same_codes(put, by_class, nonnegative):
    X, there, blocks, start, moved = layers(put)
    options = {"by_class": by_class, "nonnegative": nonnegative, "max_iter": 4}
    theirs = update_H(X, blocks, start, Weights(), **options)
    assert_allclose(to_numpy(update_H(there, blocks, moved, Weights(), **options)), theirs, atol=1e-9)
    assert np.abs(theirs - start.H).max() > 0.1


@pytest.mark.parametrize("in_turn", [True, False])
def test_same_dictionary(put, in_turn):
    X, there, _, start, moved = layers(put)
    theirs = update_D(X, start, in_turn=in_turn)
    assert_allclose(to_numpy(update_D(there, moved, in_turn=in_turn)), theirs, atol=1e-9)


@pytest.mark.parametrize("p", [40, 8])  # with and without the samples' Gram matrix
def test_same_encoder(put, p):
    X, there, _, start, moved = layers(put, "kmeans", p=p)
    theirs = update_encoder(X, start.H, start.W, start.b, max_iter=3)
    mine = update_encoder(there, moved.H, moved.W, moved.b, max_iter=3)
    assert_allclose(to_numpy(encode(there, *mine)), encode(X, *theirs), atol=1e-3)


def test_same_ridge(put):
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(20), 12)
    noisy = rng.normal(size=(20, 150))[y] + 4 * rng.normal(size=(len(y), 150))
    assert choose_ridge(put(noisy.T), y) == choose_ridge(noisy.T, y) == 1e-3


@pytest.mark.parametrize("solver", ["proximal", "by class", "plain"])
@pytest.mark.parametrize(("dtype", "agree"), [(np.float64, 1e-6), (np.float32, 1e-3)])
def test_same_objective(device, solver, dtype, agree):
    X, y = samples(200, (10, 12, 9, 1, 8, 10, 12), noise=1.0, dtype=dtype)
    options = {"solver": solver, "tol": 1e-5, "length": 4, "random_state": 0}
    theirs = NeuronSelectivity(12, **options).fit(X, y)
    mine = NeuronSelectivity(12, **options, engine="torch", device=device).fit(X, y)
    assert mine.objective_[-1] == pytest.approx(theirs.objective_[-1], rel=agree)
    arrays = Layer(mine.D_, mine.H_, mine.W_ / mine.scale_, mine.b_ + mine.W_ @ mine.mean_)
    inside = ((X - mine.mean_) * mine.scale_).T.astype(dtype)
    terms = objective_terms(inside, class_blocks(y), arrays, Weights())  # y is sorted: H_ too
    assert mine.objective_[-1] == pytest.approx(sum(terms.values()), rel=agree)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitted_arrays_are_numpy_and_work_everywhere(device, dtype):
    X, y = samples(dtype=dtype)
    layer = NeuronSelectivity(7, engine="torch", device=device, random_state=0).fit(X, y)
    assert (np.diff(layer.objective_) <= 0).all()
    h = layer.transform(X)
    for array in (h, layer.W_, layer.b_, layer.D_, layer.H_, layer.class_responses_):
        assert isinstance(array, np.ndarray)
        assert array.dtype == dtype
    assert_allclose(layer.set_params(engine="cpu").transform(X), h, atol=1e-5)
    mixed = layer.set_params(engine="torch").transform(X.astype(np.float64))
    assert_allclose(mixed, h, atol=1e-5)
    reached = layer.objective_[-1]
    layer.set_params(warm_start=True).fit(X, y)
    assert layer.objective_[0] <= reached * (1 + 1e-5)


# -- k-means, principal directions, SVM -------------------------------------------------------------


def cloud(n=5000, seed=0):
    """Points around twelve places."""
    rng = np.random.RandomState(seed)
    return (rng.randn(12, 16)[rng.randint(12, size=n)] + 0.3 * rng.randn(n, 16)).astype(np.float32)


def test_same_centres(put):
    points = cloud()
    theirs = stages.kmeans(points, 12, random_state=0)
    mine = kmeans(put(points), 12, random_state=0)
    assert_allclose(to_numpy(mine), theirs, atol=1e-5)


def test_centres_as_good(put):
    """More centres than places: a tie decided the other way moves some of them."""
    points = cloud()

    def cost(centres):
        nearest = centres[stages.quantize(points, centres)]
        return ((points - nearest) ** 2).sum()

    theirs = stages.kmeans(points, 40, random_state=0)
    mine = to_numpy(kmeans(put(points), 40, random_state=0))
    assert cost(mine) == pytest.approx(cost(theirs), rel=2e-3)


def test_same_centres_where_clusters_become_empty(put):
    points = np.repeat(np.arange(4.0), 25)[:, None].astype(np.float32)
    theirs = stages.kmeans(points, 8, random_state=0)
    assert_array_equal(to_numpy(kmeans(put(points), 8, random_state=0)), theirs)


@pytest.mark.parametrize("shape", [(60, 25), (25, 60), (30, 30)])
def test_same_principal_directions(put, shape):
    rng = np.random.RandomState(0)
    codes = (rng.randn(*shape) * np.linspace(1, 5, shape[1])).astype(np.float32)
    pca = PCA(8, svd_solver="full").fit(codes)
    for kind in (np.asarray, put):
        mean, directions = map(to_numpy, principal_directions(kind(codes), 8))
        assert_allclose(mean, pca.mean_, atol=1e-5)
        assert_allclose(directions.T, pca.components_, atol=1e-4)


def test_as_many_directions_as_samples(put):
    """Ten samples differ in nine directions: the tenth is none."""
    codes = np.random.RandomState(0).randn(10, 30)
    directions = to_numpy(principal_directions(put(codes), 10)[1])
    assert_allclose(directions.T @ directions, np.diag([1] * 9 + [0]), atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("p", [400, 20])  # with and without the Gram matrix
def test_same_scores(put, n_classes, p):
    X, y = samples(p, (30,) * n_classes, noise=1.5, dtype=np.float32)
    X /= 8
    weights, intercepts = linear_svm.fit_linear_svm(X, y, 10.0)
    mine = linear_svm.fit_linear_svm(X, y, 10.0, put)
    assert_allclose(X @ mine[0] + mine[1], X @ weights + intercepts, atol=1e-2)
    folds = make_folds(y, 3, 0)
    theirs = validation_scores(X, y, (0.1, 10.0), folds)
    assert_allclose(validation_scores(X, y, (0.1, 10.0), folds, put=put), theirs, atol=1e-2)


# -- inside the image estimators --------------------------------------------------------------------


def engines_of_layers(monkeypatch):
    """A list that grows by (engine, device) of each layer fitted."""
    seen, fit = [], NeuronSelectivity.fit
    monkeypatch.setattr(
        NeuronSelectivity,
        "fit",
        lambda self, *a: seen.append((self.engine, self.device)) or fit(self, *a),
    )
    return seen


def test_classifier_learns_where_its_engine_works(device, surfaces, tmp_path, monkeypatch):
    images, labels = surfaces
    theirs = MidFeaClassifier(**SMALL, selectivity=6).fit(images, labels)
    model = MidFeaClassifier(**SMALL, selectivity=6, engine="torch", device=device)
    seen = engines_of_layers(monkeypatch)
    model.fit(images, labels)
    assert set(seen) == {("torch", device)}
    assert abs(model.score(images, labels) - theirs.score(images, labels)) < 0.1
    # The layer follows the model: a file written here runs on another engine.
    model.save(tmp_path / "m.midfea")
    again = midfea.load(tmp_path / "m.midfea").set_params(engine="cpu", device=None)
    assert_allclose(again.predict_proba(images), model.predict_proba(images), atol=2e-2)


def test_layer_with_an_engine_of_its_own(surfaces, monkeypatch):
    images, labels = surfaces
    seen = engines_of_layers(monkeypatch)
    layer = NeuronSelectivity(6, engine="torch", device="cpu")
    model = MidFeaRegressor(**SMALL, selectivity=layer).fit(
        images, np.unique(labels, return_inverse=True)[1]
    )
    assert set(seen) == {("torch", "cpu")}
    assert np.isfinite(model.predict(images)).all()


# -- without torch, without CUDA --------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_no_cuda_is_said():
    with pytest.raises(RuntimeError, match=r'device="cpu"'):
        NeuronSelectivity(engine="torch", device="cuda").fit(*samples())


def test_torch_is_needed_for_nothing_else():
    code = (
        "import sys, numpy as np\n"
        "from midfea import NeuronSelectivity\n"
        "X, y = np.random.RandomState(0).rand(12, 5), np.arange(12) % 3\n"
        "NeuronSelectivity().fit(X, y).transform(X)\n"
        "print('torch' in sys.modules)\n"
        "sys.modules['torch'] = None\n"
        "try: NeuronSelectivity(engine='torch').fit(X, y)\n"
        "except ImportError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == [
        "False",
        f'engine="torch" needs PyTorch: {install_line("torch")}',
    ]
