"""Fine-tuning: the gradients, the network without torch, and the classifier that uses both."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import midfea
from midfea import MidFeaClassifier, load
from midfea.datasets import load_surfaces
from midfea.engines import get_engine
from midfea.engines.cpu import gradients, kernels
from midfea.extras import MissingExtra
from midfea.learning.network.head import SINGLE_IMAGE_WEIGHT, joint_weights
from midfea.learning.network.model import pooled
from midfea.learning.network.settings import NetworkSettings
from midfea.model_file import ModelFileError
from midfea.pictures.picture import NO_COLOUR, make_picture
from small import FEW_STEPS


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
    """What a GPU runs, and its gradient, are what the compiled loops compute."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network import module

    rng = np.random.RandomState(0)
    images = torch.as_tensor(rng.randint(256, size=(3, 1, 32, 30)).astype(np.float32))
    filters = torch.as_tensor(rng.normal(size=(5, 7, 7)).astype(np.float32)).requires_grad_()
    results = []
    for pooled_maps in (module.PooledMaps.apply, module.pooled_by_torch):
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


def test_other_light():
    """Brightness, contrast and colours within bounds; no colour where none is."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network.training import relit

    images = torch.full((200, 3, 8, 8), float(NO_COLOUR))
    images[:, 0, :4] = NO_COLOUR - 16
    images[100:, 1] += 20
    copies = relit(images, torch.Generator().manual_seed(0))
    assert (copies[:100, 1:] == NO_COLOUR).all()
    tints = (copies[100:, 1] - NO_COLOUR).mean(dim=(1, 2)) / 20
    contrasts = (copies[:, 0, 4:] - copies[:, 0, :4]).mean(dim=(1, 2)) / 16
    for factors in (tints, contrasts):
        assert 0.6 < factors.min() < 0.7 and 1.5 < factors.max() < 1.65  # e^-0.5 to e^0.5
    moved = (copies - images)[:, 0].mean(dim=(1, 2))
    assert -32 <= moved.min() < -25 and 25 < moved.max() <= 32
    assert relit(images * 1.9)[:, 0].max() <= 255
    contrasts = relit(images, torch.Generator().manual_seed(0), 1.0)[:, 0].std(dim=(1, 2)) / 8
    assert 0.36 < contrasts.min() < 0.45 and 2.4 < contrasts.max() < 2.75  # e^-1 to e^1


def test_light_from_a_side():
    """Brighter towards one border by as much as darker towards the other; colours stay."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network.training import shaded

    images = torch.full((200, 3, 64, 32), 100.0)
    copies = shaded(images, torch.Generator().manual_seed(0))
    assert (copies[:, 1:] == 100).all()
    logs = (copies[:, 0] / 100).log()
    torch.testing.assert_close(logs, -logs.flip((1, 2)))
    for across in (logs[:, -1].mean(dim=1), logs[:, :, -1].mean(dim=1)):  # to the bottom, to the right
        assert -0.5 <= across.min() < -0.45 and 0.45 < across.max() <= 0.5
    torch.testing.assert_close(logs[:, 0, 0], logs[:, 0].mean(dim=1) + logs[:, :, 0].mean(dim=1))
    hardly = shaded(images, torch.Generator().manual_seed(0), 0.05)
    torch.testing.assert_close((hardly[:, 0] / 100).log(), logs / 10)


def test_moves():
    """A spot lies farther from where it was, the more images are moved; never beyond all bounds."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network.training import moved

    images = torch.zeros(200, 1, 64, 64)
    images[:, :, 31:33, 31:33] = 255

    def distances(moves):
        copies = moved(images, False, torch.Generator().manual_seed(0), moves)
        places = copies[:, 0] / copies[:, 0].sum(dim=(1, 2), keepdim=True)
        middle = torch.arange(64) - 31.5
        down, right = (places.sum(dim=d) @ middle for d in (2, 1))
        return torch.hypot(down, right)

    assert distances(0.0).max() < 1e-3
    usual, still = distances(1.0), distances(0.2)
    assert 0.15 * usual.mean() < still.mean() < 0.25 * usual.mean()
    assert usual.max() < 64 * NetworkSettings().shift * 2**0.5 * 1.3  # scaled besides


def test_few_images_are_changed_more():
    assert [NetworkSettings().change(n) for n in (1, 2, 4, 6, 50)] == [3, 3, 1.5, 1, 1]


def test_joint_weights_stay_modest():
    """All correct: confident, but not more than so few images allow."""
    y = np.arange(60) % 3
    right = np.log(np.where(np.eye(3)[y] > 0, 0.8, 0.1))
    noise = np.random.RandomState(0).normal(size=(60, 3))
    svm, network, second = joint_weights([noise, right, noise[::-1]], y)
    assert max(svm, second) < 1 < network < 10


def test_joint_weights_of_few_images_are_the_usual_ones():
    """The SVM is right by chance, ten times; so many hundred times it is not."""
    y = np.arange(10) % 2
    svm = np.where(np.eye(2)[y] > 0, 0.01, -0.01)
    said = np.log(np.full((10, 2), 0.5))
    few = joint_weights([svm, said, said], y)
    often = [np.tile(each, (50, 1)) for each in (svm, said, said)]
    many = joint_weights(often, np.tile(y, 50))
    assert few[0] < 5 < many[0]


def test_joint_weights_of_few_groups_are_the_usual_ones():
    """One group in which the network is right and the SVM is not says less than forty such groups."""
    y = np.arange(40) % 2
    right = np.log(np.where(np.eye(2)[y] > 0, 0.9, 0.1))
    svm, said, other = np.eye(2)[1 - y] / 5, right, np.zeros_like(right)
    one, many = (
        joint_weights([svm, said, other], y, groups, logit_scale=10.0)
        for groups in (np.zeros(40), np.arange(40))
    )
    assert 10 > one[0] > 5 > many[0]
    assert many[1] > one[1] > 0.5


def test_the_network_looks_everywhere_where_images_are_aligned(surfaces):
    pytest.importorskip("torch")
    steps = [int(fit(surfaces, partition=cells).network_.network.step) for cells in ((2, 2), "pyramid")]
    assert steps == [1, 2]


@pytest.fixture(scope="module")
def surfaces():
    return load_surfaces(n_per_class=8, size=64, random_state=0)


def fit(surfaces, **settings):
    settings = {"finetune": True, "network": FEW_STEPS} | settings
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, **settings)
    return model.fit(surfaces.images, surfaces.target)


@pytest.fixture(scope="module")
def fine_tuned(surfaces):
    pytest.importorskip("torch")
    return fit(surfaces)


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
    with pytest.raises(MissingExtra, match=r"^fine-tuning needs PyTorch: "):
        fit(surfaces)


def test_best_goes_without_torch_and_says_so(surfaces, no_torch, tmp_path):
    model = MidFeaClassifier(preset="best", n_words=30, random_state=0)
    with pytest.warns(UserWarning, match="no fine-tuning.*PyTorch: .*pip install "):
        model.fit(surfaces.images, surfaces.target)
    assert model.network_ is None
    assert model.lacks_network
    model.save(tmp_path / "m.midfea")
    assert load(tmp_path / "m.midfea").lacks_network
    with pytest.raises(ValueError, match='finetune is True, False or "auto"'):
        model.set_params(finetune="always").fit(surfaces.images, surfaces.target)


def test_best_is_fine_tuned_where_torch_is(surfaces):
    pytest.importorskip("torch")
    model = MidFeaClassifier(preset="best", n_words=30, random_state=0, network=FEW_STEPS)
    assert model.fit(surfaces.images, surfaces.target).network_ is not None
    assert not model.lacks_network


@pytest.mark.parametrize("gain", [1e6, -1e6])
def test_mirrored_images_must_be_worth_it(surfaces, gain):
    pytest.importorskip("torch")
    model = fit(surfaces, network=replace(FEW_STEPS, min_mirror_gain=gain))
    assert model.network_.network.mirror == (gain < 0)


def test_one_image_of_each_class(surfaces):
    """Nothing can be held out; the linear head counts all the same."""
    pytest.importorskip("torch")
    first = np.unique(surfaces.target, return_index=True)[1]
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, finetune=True, network=FEW_STEPS)
    model.fit([surfaces.images[i] for i in first], surfaces.target[first])
    by_head = SINGLE_IMAGE_WEIGHT * len(first) ** 2
    np.testing.assert_allclose(model.network_.weights, [by_head, 0.5, 0.5])
    assert len(model.validation_) == 0
    joined = model.predict_proba(surfaces.images)
    model.network_.weights[0] = 0
    assert np.abs(model.predict_proba(surfaces.images) - joined).max() > 1e-3


@pytest.mark.parametrize(("n_planes", "aligned"), [(1, True), (3, False)])
def test_the_network_needs_no_torch_to_run(surfaces, n_planes, aligned):
    """What the torch module predicts after training, NumPy predicts too."""
    torch = pytest.importorskip("torch")
    from midfea.learning.network.module import NetworkModule, Start

    rng = np.random.RandomState(0)
    squares = rng.randint(256, size=(12, n_planes, 64, 64)).astype(np.float32)
    squares[:, 0] = surfaces.images[:12]
    start = Start(rng.normal(size=(6, 7, 7)).astype(np.float32), rng.rand(30, 96).astype(np.float32))
    module = NetworkModule(start, n_planes, 4, aligned, NetworkSettings())
    for name in ("pixels", "colours", "second", "third", "fourth"):
        layer = getattr(module, name)[1]
        layer.running_mean.uniform_(-1, 1)
        layer.running_var.uniform_(0.5, 2)
        layer.weight.data.uniform_(0.5, 2)
        layer.bias.data.uniform_(-1, 1)
    module.linear.weight.data.normal_()
    images = torch.as_tensor(squares).float()
    with torch.no_grad():
        heads = module.eval()(images)
        theirs = torch.log_softmax(torch.stack(heads, dim=1), dim=2).numpy()
    network = module.network([module], mirror=False, view_shift=0)

    def answers(network, squares, engine="cpu"):
        prepared = get_engine(engine).prepare(network.chain)
        return np.stack([network.log_probabilities_of_square(s, prepared) for s in squares])

    for engine in ("cpu", "reference"):
        mine = answers(network, squares, engine)
        np.testing.assert_allclose(mine, theirs, atol=2e-3)
    both = answers(replace(network, mirror=np.array(True)), squares)
    mirrored = answers(network, squares[..., ::-1])
    np.testing.assert_allclose(both, (mine + mirrored) / 2, atol=2e-3)
    framed = np.pad(squares, ((0, 0), (0, 0), (2, 2), (2, 2)), mode="reflect")
    shifted = [answers(network, framed[:, :, i : i + 64, i : i + 64]) for i in (0, 2, 4)]
    three = answers(replace(network, view_shift=np.array(2)), squares)
    np.testing.assert_allclose(three, np.mean(shifted, axis=0), atol=1e-5)
    assert np.abs(three - mine).max() > 1e-2


def test_each_of_few_images_is_held_out(surfaces, fine_tuned):
    """A quarter of 48 is few; and each prediction is that of its own image."""
    model = fine_tuned
    assert model.validation_.indices.tolist() == list(range(48))
    np.testing.assert_array_equal(model.validation_.labels, surfaces.target)
    assert set(model.validation_.folds) == set(range(4))
    one = fit(surfaces, network=replace(FEW_STEPS, min_validation_images=12))
    assert len(one.validation_) == 12 and len(set(one.validation_.folds)) == 1


def test_equal_images_are_never_on_both_sides(surfaces):
    """With a network, with neurons, with augmented images and with the SVM alone."""
    pytest.importorskip("torch")
    images = [*surfaces.images, *surfaces.images[:12]]
    y = np.concatenate([surfaces.target, surfaces.target[:12]])
    for settings in (
        {"finetune": True, "network": FEW_STEPS},
        {"selectivity": 6},
        {"augment": "shift"},
        {"C": "auto"},
    ):
        model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, **settings).fit(images, y)
        fold = dict(zip(model.validation_.indices, model.validation_.folds, strict=True))
        assert len(fold) == 60
        assert all(fold[i] == fold[48 + i] for i in range(12))


def test_training_learns(surfaces):
    pytest.importorskip("torch")
    from midfea.learning.network.module import Start
    from midfea.learning.network.training import Change, train

    squares = np.asarray(surfaces.images, dtype=np.float32)[:, None]
    y = np.unique(surfaces.target, return_inverse=True)[1]
    features = midfea.MidFea(
        n_filters=8, pairs=False, window=4, n_words=40, projection=None, random_state=0
    ).fit(squares[:, 0])
    start = Start(features.filters_, features.codebook_)

    def trained(n_seen, n_threads, moves=1.0):
        change = Change(moves=moves, mirror=True)
        weights, settings = np.ones(len(y), dtype=np.float32), NetworkSettings()
        return train(
            squares, y, weights, start, change, settings, n_seen=n_seen, seed=0, n_threads=n_threads
        )

    network = trained(4800, 2)
    scores = np.stack(
        [network.log_probabilities_of_square(square, network.prepared) for square in squares]
    )
    assert ((scores.argmax(axis=2) == y[:, None]).mean(axis=0) > 0.8).all()
    assert np.abs(network.filters - start.filters).max() > 1e-3  # the filters too
    one, three = (trained(200, n) for n in (1, 3))
    np.testing.assert_array_equal(one.weights, three.weights)
    hardly = trained(200, 2, moves=0.1)  # an image is looked at as augmented images were
    assert (three.view_shift, hardly.view_shift) == (NetworkSettings().view_shift, 0)


def test_finetuned_classifier(surfaces, fine_tuned, tmp_path):
    model = fine_tuned
    probabilities = model.predict_proba(surfaces.images)
    assert probabilities.shape == (48, 6)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(surfaces.images)).all()
    assert (model.network_.weights >= 0).all()
    assert 0 <= model.validation_.accuracy <= 1
    again = fit(surfaces).predict_proba(surfaces.images)
    np.testing.assert_allclose(again, probabilities, atol=1e-6)  # the same seed, the same model
    model.save(tmp_path / "model.midfea")
    loaded = midfea.load(tmp_path / "model.midfea")
    np.testing.assert_allclose(loaded.predict_proba(surfaces.images), probabilities, atol=1e-7)
    broken = replace(loaded.network_.network, bias=loaded.network_.network.bias[:-1])
    loaded.network_ = replace(loaded.network_, network=broken)
    loaded.save(tmp_path / "broken.midfea")
    with pytest.raises(ModelFileError, match="bias has shape"):
        midfea.load(tmp_path / "broken.midfea")


def test_colour_is_used_when_it_separates_the_classes(tmp_path):
    """The same grey pixels, some red and some blue: only colours separate them."""
    pytest.importorskip("torch")
    drawn = load_surfaces(n_per_class=6, size=64, random_state=0)
    grey = np.asarray(drawn.images, dtype=np.int16)
    coloured = np.stack([grey, grey, grey], axis=-1)
    y = np.arange(len(grey)) % 2
    coloured[y == 0, ..., 0] += 40
    coloured[y == 1, ..., 2] += 40
    images = list(np.clip(coloured, 0, 255).astype(np.uint8))
    budget = replace(FEW_STEPS, min_images_seen=1000)
    model = MidFeaClassifier(
        preset="fast", n_words=30, random_state=0, finetune=True, network=budget
    ).fit(images, y)
    assert model.network_.network.n_planes == 3
    assert model.score(images, y) == 1
    for i in range(4):
        Image.fromarray(images[i]).save(tmp_path / f"{i}.png")
    files = [tmp_path / f"{i}.png" for i in range(4)]
    from_files = model.decision_function(files)
    np.testing.assert_allclose(from_files, model.decision_function(images[:4]), atol=1e-6)
    kept = [make_picture(image, model.max_side) for image in images[:4]]
    np.testing.assert_allclose(from_files, model.decision_function(kept), atol=1e-6)


def test_images_seen():
    budget = NetworkSettings()
    least = budget.min_images_seen
    assert budget.images_seen(100, 6) == budget.images_seen(100, 10) == least
    assert budget.images_seen(100, 4) == 1.5 * least
    assert budget.images_seen(10, 1) == budget.images_seen(20, 2) == 2 * least
    assert budget.images_seen(2000, 10) == least < budget.images_seen(3060, 10)
    assert 4 * budget.images_seen_in_trial(100) == least


def test_two_classes(surfaces):
    pytest.importorskip("torch")
    two = np.isin(surfaces.target, np.unique(surfaces.target)[:2])
    images = [image for image, chosen in zip(surfaces.images, two, strict=True) if chosen]
    model = MidFeaClassifier(preset="fast", n_words=30, random_state=0, finetune=True, network=FEW_STEPS)
    model.fit(images, np.asarray(surfaces.target)[two])
    decisions = model.decision_function(images)
    assert decisions.shape == (len(images),)
    second = model.predict_proba(images)[:, 1]
    np.testing.assert_allclose(second, 1 / (1 + np.exp(-decisions)), atol=1e-6)
