"""Fine-tuning: the gradients, the network without torch, and the classifier that uses both."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import midfea
from midfea import MidFeaClassifier
from midfea.datasets import load_surfaces
from midfea.engines import get_engine
from midfea.engines.cpu import engine as cpu
from midfea.engines.cpu import gradients, kernels
from midfea.estimators import finetuned
from midfea.learning.network.model import pooled
from midfea.model_file.v1 import ModelFileError
from midfea.pictures.images import NEUTRAL, picture


@pytest.mark.parametrize(("shape", "same"), [((20, 23), True), ((24, 16), False), ((13, 40), True)])
@pytest.mark.parametrize("rectify", [True, False])
def test_gradient_of_the_filters(shape, same, rectify):
    """Against small changes of single weights; float32 leaves three digits."""
    rng = np.random.RandomState(0)
    image = rng.randint(256, size=shape).astype(np.float32)
    filters = rng.normal(size=(5, 7, 7)).astype(np.float32)
    slopes = rng.normal(size=cpu_maps(image, filters, same, rectify).shape).astype(np.float32)
    found = gradients.filters_gradient(image, filters, same, rectify, 1e-3, slopes)
    for f, y, x in ((0, 0, 0), (2, 3, 3), (4, 6, 1)):
        values = []
        for step in (-1e-3, 1e-3):
            moved = filters.copy()
            moved[f, y, x] += step
            maps = cpu_maps(image, moved, same, rectify)
            values.append(float((maps.astype(float) * slopes).sum()))
        assert found[f, y, x] == pytest.approx((values[1] - values[0]) / 2e-3, rel=0.02, abs=0.02)


def cpu_maps(image, filters, same, rectify):
    return kernels.soft_convolution_pooled(image, filters, same, rectify, 1e-3, 0.0)


def test_gradient_on_a_device():
    """What a GPU runs, and its slopes, are what the compiled loops compute."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network import training as finetune

    rng = np.random.RandomState(0)
    images = torch.as_tensor(rng.randint(256, size=(3, 1, 32, 30)).astype(np.float32))
    filters = torch.as_tensor(rng.normal(size=(5, 7, 7)).astype(np.float32)).requires_grad_()
    results = []
    for pooled_maps in (finetune._PooledMaps.apply, finetune.pooled_by_torch):
        maps = pooled_maps(filters, images)
        if not results:
            slopes = torch.as_tensor(rng.normal(size=maps.shape).astype(np.float32))
        results.append((maps.detach(), *torch.autograd.grad((maps * slopes).sum(), filters)))
    for compiled, plain in zip(*results, strict=True):
        torch.testing.assert_close(compiled, plain, atol=2e-4, rtol=2e-3)


def test_cells_of_the_network():
    maps = np.zeros((15, 15, 1), dtype=np.float32)
    maps[14, 0] = 3  # the last row of fine cells, the first column
    found = pooled(maps)
    assert found.shape == (21,)
    assert np.flatnonzero(found).tolist() == [0, 1 + 2, 5 + 12]


def test_relit_copies():
    """Brightness, contrast and colours within bounds; no colour where none is."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network import training as finetune

    images = torch.full((200, 3, 8, 8), float(NEUTRAL))
    images[:, 0, :4] = NEUTRAL - 16
    images[100:, 1] += 20
    copies = finetune.relit(images, torch.Generator().manual_seed(0))
    assert (copies[:100, 1:] == NEUTRAL).all()
    tints = (copies[100:, 1] - NEUTRAL).mean(dim=(1, 2)) / 20
    contrasts = (copies[:, 0, 4:] - copies[:, 0, :4]).mean(dim=(1, 2)) / 16
    for factors in (tints, contrasts):
        assert 0.6 < factors.min() < 0.7 and 1.5 < factors.max() < 1.65  # e^-0.5 to e^0.5
    moved = (copies - images)[:, 0].mean(dim=(1, 2))
    assert -32 <= moved.min() < -25 and 25 < moved.max() <= 32
    assert finetune.relit(images * 1.9)[:, 0].max() <= 255
    contrasts = finetune.relit(images, torch.Generator().manual_seed(0), 2.0)[:, 0].std(dim=(1, 2)) / 8
    assert 0.36 < contrasts.min() < 0.45 and 2.4 < contrasts.max() < 2.75  # e^-1 to e^1


def test_copies_lit_from_a_side():
    """Brighter towards one border by as much as darker towards the other; colours stay."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network import training as finetune

    images = torch.full((200, 3, 64, 32), 100.0)
    copies = finetune.shaded(images, torch.Generator().manual_seed(0))
    assert (copies[:, 1:] == 100).all()
    logs = (copies[:, 0] / 100).log()
    torch.testing.assert_close(logs, -logs.flip((1, 2)))
    for across in (logs[:, -1].mean(dim=1), logs[:, :, -1].mean(dim=1)):  # to the bottom, to the right
        assert -0.5 <= across.min() < -0.45 and 0.45 < across.max() <= 0.5
    torch.testing.assert_close(logs[:, 0, 0], logs[:, 0].mean(dim=1) + logs[:, :, 0].mean(dim=1))
    hardly = finetune.shaded(images, torch.Generator().manual_seed(0), 0.1)
    torch.testing.assert_close((hardly[:, 0] / 100).log(), logs / 10)


def test_moved_copies():
    """A spot lies farther from where it was, the more copies are moved; never beyond all bounds."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network import training as finetune

    images = torch.zeros(200, 1, 64, 64)
    images[:, :, 31:33, 31:33] = 255

    def distances(moves):
        copies = finetune.augmented(images, False, torch.Generator().manual_seed(0), moves)
        places = copies[:, 0] / copies[:, 0].sum(dim=(1, 2), keepdim=True)
        middle = torch.arange(64) - 31.5
        down, right = (places.sum(dim=d) @ middle for d in (2, 1))
        return torch.hypot(down, right)

    assert distances(0.0).max() < 1e-3
    usual, still = distances(1.0), distances(0.2)
    assert 0.15 * usual.mean() < still.mean() < 0.25 * usual.mean()
    assert usual.max() < 64 * finetune.SHIFT * 2**0.5 * 1.3  # scaled besides


def test_few_images_are_changed_more():
    assert [finetuned.how_changed(n) for n in (1, 2, 4, 6, 50)] == [3, 3, 1.5, 1, 1]


def test_joint_weights_stay_modest():
    """Nothing told wrong: sure, but not surer than so few images allow."""
    y = np.arange(60) % 3
    right = np.log(np.where(np.eye(3)[y] > 0, 0.8, 0.1))
    noise = np.random.RandomState(0).normal(size=(60, 3))
    svm, network, second = finetuned.joint_weights([noise, right, noise[::-1]], y)
    assert max(svm, second) < 1 < network < 10


def test_joint_weights_of_few_images_are_the_usual_ones():
    """The SVM is right by chance, ten times; so many hundred times it is not."""
    y = np.arange(10) % 2
    svm = np.where(np.eye(2)[y] > 0, 0.01, -0.01)
    said = np.log(np.full((10, 2), 0.5))
    few = finetuned.joint_weights([svm, said, said], y)
    often = [np.tile(each, (50, 1)) for each in (svm, said, said)]
    many = finetuned.joint_weights(often, np.tile(y, 50))
    assert few[0] < 5 < many[0]


def test_joint_weights_of_few_groups_are_the_usual_ones():
    """One group in which the network is right and the SVM is not says less than forty such groups."""
    y = np.arange(40) % 2
    right = np.log(np.where(np.eye(2)[y] > 0, 0.9, 0.1))
    svm, said, other = np.eye(2)[1 - y] / 5, right, np.zeros_like(right)
    one, many = (
        finetuned.joint_weights([svm, said, other], y, groups, temperature=10.0)
        for groups in (np.zeros(40), np.arange(40))
    )
    assert 10 > one[0] > 5 > many[0]
    assert many[1] > one[1] > 0.5


def test_the_network_looks_everywhere_where_images_are_aligned(surfaces, few_steps):
    pytest.importorskip("torch")
    steps = [int(fit(surfaces, partition=cells).network_.step) for cells in ((2, 2), "pyramid")]
    assert steps == [1, 2]


@pytest.fixture(scope="module")
def surfaces():
    return load_surfaces(n_per_class=8, size=64, random_state=0)


def fit(surfaces, **settings):
    settings = {"finetune": True} | settings
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, **settings)
    return model.fit(surfaces.images, surfaces.target)


@pytest.fixture
def no_torch(monkeypatch):
    """As where it is not installed. (None in its place would confuse SciPy.)"""

    class Absent:
        def find_spec(self, name, *_):
            if name == "torch":
                raise ImportError(name)

    for name in ("torch", "midfea.learning.network.training"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Absent(), *sys.meta_path])


def test_without_torch_it_says_what_to_install(surfaces, no_torch):
    with pytest.raises(ImportError, match=r"pip install .midfea\[torch\]"):
        fit(surfaces)


def test_best_goes_without_torch_and_says_so(surfaces, no_torch):
    model = MidFeaClassifier(preset="best", n_words=30, random_state=0)
    with pytest.warns(UserWarning, match=r"no fine-tuning.*pip install .midfea\[torch\]"):
        model.fit(surfaces.images, surfaces.target)
    assert model.network_ is None
    with pytest.raises(ValueError, match='finetune is True, False or "auto"'):
        model.set_params(finetune="always").fit(surfaces.images, surfaces.target)


def test_best_is_fine_tuned_where_torch_is(surfaces, few_steps):
    pytest.importorskip("torch")
    model = MidFeaClassifier(preset="best", n_words=30, random_state=0)
    assert model.fit(surfaces.images, surfaces.target).network_ is not None


@pytest.mark.parametrize("worth", [1e6, -1e6])
def test_mirrored_copies_must_be_worth_it(surfaces, few_steps, monkeypatch, worth):
    pytest.importorskip("torch")
    monkeypatch.setattr(finetuned, "MIRROR_WORTH", worth)
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, finetune=True)
    assert model.fit(surfaces.images, surfaces.target).network_.mirror == (worth < 0)


def test_one_image_of_each_class(surfaces, few_steps):
    """Nothing can be held out; the SVM counts all the same."""
    first = np.unique(surfaces.target, return_index=True)[1]
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, finetune=True)
    model.fit([surfaces.images[i] for i in first], surfaces.target[first])
    by_svm = finetuned.SINGLE * len(first) ** 2
    np.testing.assert_allclose(model.network_weights_, [by_svm, 0.5, 0.5])
    joined = model.predict_proba(surfaces.images)
    model.network_weights_[0] = 0
    assert np.abs(model.predict_proba(surfaces.images) - joined).max() > 1e-3


@pytest.mark.parametrize(("n_planes", "aligned"), [(1, True), (3, False)])
def test_the_network_needs_no_torch_to_run(surfaces, n_planes, aligned):
    """What the torch module answers after training, NumPy answers too."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network import training as finetune

    rng = np.random.RandomState(0)
    squares = rng.randint(256, size=(12, n_planes, 64, 64)).astype(np.uint8)
    squares[:, 0] = surfaces.images[:12]
    start = finetune.Start(
        rng.normal(size=(6, 7, 7)).astype(np.float32), rng.rand(30, 96).astype(np.float32)
    )
    module = finetune._Module(start, n_planes, 4, aligned)
    for name in ("pixels", "colours", "second", "third", "fourth"):
        layer = getattr(module, f"{name}_norm")
        layer.running_mean.uniform_(-1, 1)
        layer.running_var.uniform_(0.5, 2)
        layer.weight.data.uniform_(0.5, 2)
        layer.bias.data.uniform_(-1, 1)
    module.linear.weight.data.normal_()
    images = torch.as_tensor(squares).float()
    with torch.no_grad():
        heads = module.eval()(images)
        theirs = torch.log_softmax(torch.stack(heads, dim=1), dim=2).numpy()
    network = module.network([module], mirror=False, moved=0)
    for engine in ("cpu", "reference"):
        mine = network.log_probabilities(squares, get_engine(engine).describe)
        np.testing.assert_allclose(mine, theirs, atol=2e-3)
    both = replace(network, mirror=np.array(True)).log_probabilities(squares, cpu.describe)
    mirrored = network.log_probabilities(squares[..., ::-1], cpu.describe)
    np.testing.assert_allclose(both, (mine + mirrored) / 2, atol=2e-3)
    framed = np.pad(squares, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    moved = [
        network.log_probabilities(framed[:, :, i : i + 64, i : i + 64], cpu.describe) for i in (0, 2, 4)
    ]
    three = replace(network, moved=np.array(2)).log_probabilities(squares, cpu.describe)
    np.testing.assert_allclose(three, np.mean(moved, axis=0), atol=1e-5)
    assert np.abs(three - mine).max() > 1e-2


def test_each_of_few_images_is_held_out(surfaces, few_steps, monkeypatch):
    """A quarter of 48 is few; and each answer is that of its own image."""
    pytest.importorskip("torch")

    def nothing(network, model, squares):
        return np.zeros((2, len(squares), 6))

    monkeypatch.setattr(finetuned, "network_answers", nothing)
    by_svm = fit(surfaces, finetune=False).held_out_predictions_
    model = fit(surfaces)
    assert model.held_out_.tolist() == list(range(48))
    np.testing.assert_array_equal(model.held_out_predictions_, by_svm)
    monkeypatch.setattr(finetuned, "FEW", 12)
    assert len(fit(surfaces).held_out_) == 12


def test_training_learns(surfaces):
    pytest.importorskip("torch")
    from midfea.learning.network import training as finetune

    squares = np.asarray(surfaces.images, dtype=np.uint8)[:, None]
    y = np.unique(surfaces.target, return_inverse=True)[1]
    features = midfea.MidFea(
        n_filters=8, pairs=False, window=4, n_words=40, projection=None, random_state=0
    ).fit(squares[:, 0])
    start = finetune.Start(features.filters_, features.codebook_)
    settings = {"mirror": True, "seed": 0}
    network = finetune.train(squares, y, start, n_seen=4800, n_threads=2, **settings)
    answers = network.log_probabilities(squares, cpu.describe).argmax(axis=2)
    assert ((answers == y[:, None]).mean(axis=0) > 0.8).all()
    assert np.abs(network.filters - start.filters).max() > 1e-3  # the filters too
    one, three = (finetune.train(squares, y, start, n_seen=200, n_threads=n, **settings) for n in (1, 3))
    np.testing.assert_array_equal(one.weights, three.weights)
    hardly = finetune.train(squares, y, start, n_seen=200, n_threads=2, moves=0.1, **settings)
    assert (three.moved, hardly.moved) == (finetune.MOVED, 0)  # an image is looked at as copies were


def test_finetuned_classifier(surfaces, few_steps, tmp_path):
    pytest.importorskip("torch")
    model = fit(surfaces)
    probabilities = model.predict_proba(surfaces.images)
    assert probabilities.shape == (48, 6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(surfaces.images)).all()
    assert (model.network_weights_ >= 0).all()
    assert 0 <= model.cv_accuracy_ <= 1
    again = fit(surfaces).predict_proba(surfaces.images)
    np.testing.assert_allclose(again, probabilities, atol=1e-6)  # the same seed, the same model
    model.save(tmp_path / "model.midfea")
    loaded = midfea.load(tmp_path / "model.midfea")
    np.testing.assert_allclose(loaded.predict_proba(surfaces.images), probabilities, atol=1e-7)
    object.__setattr__(model.network_, "bias", model.network_.bias[:-1])
    model.save(tmp_path / "broken.midfea")
    with pytest.raises(ModelFileError, match="bias has shape"):
        midfea.load(tmp_path / "broken.midfea")


def test_colour_is_used_when_it_tells_the_classes(few_steps, monkeypatch, tmp_path):
    """The same grey pixels, some red and some blue: only colours can tell them."""
    pytest.importorskip("torch")
    monkeypatch.setattr(finetuned, "LEAST", 2000)
    drawn = load_surfaces(n_per_class=6, size=64, random_state=0)
    grey = np.asarray(drawn.images, dtype=np.int16)
    coloured = np.stack([grey, grey, grey], axis=-1)
    y = np.arange(len(grey)) % 2
    coloured[y == 0, ..., 0] += 40
    coloured[y == 1, ..., 2] += 40
    images = list(np.clip(coloured, 0, 255).astype(np.uint8))
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, finetune=True).fit(images, y)
    assert model.network_.n_planes == 3
    assert model.score(images, y) == 1
    for i in range(4):
        Image.fromarray(images[i]).save(tmp_path / f"{i}.png")
    files = [tmp_path / f"{i}.png" for i in range(4)]
    from_files = model.decision_function(files)
    np.testing.assert_allclose(from_files, model.decision_function(images[:4]), atol=1e-6)
    kept = [picture(image, model.max_side) for image in images[:4]]
    np.testing.assert_allclose(from_files, model.decision_function(kept), atol=1e-6)


def test_copies_seen():
    assert finetuned.copies_seen(100) == finetuned.copies_seen(100, 10) == finetuned.LEAST
    assert finetuned.copies_seen(100, 4) == 1.5 * finetuned.LEAST
    assert finetuned.copies_seen(10, 1) == finetuned.copies_seen(20, 2) == 2 * finetuned.LEAST
    assert finetuned.copies_seen(2000) == finetuned.LEAST < finetuned.copies_seen(3060)


def test_two_classes(surfaces, few_steps):
    pytest.importorskip("torch")
    two = np.isin(surfaces.target, np.unique(surfaces.target)[:2])
    images = [image for image, chosen in zip(surfaces.images, two, strict=True) if chosen]
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, finetune=True)
    model.fit(images, np.asarray(surfaces.target)[two])
    decisions = model.decision_function(images)
    assert decisions.shape == (len(images),)
    second = model.predict_proba(images)[:, 1]
    np.testing.assert_allclose(second, 1 / (1 + np.exp(-decisions)), atol=1e-6)
