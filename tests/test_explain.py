"""Explanations: they add up to the decision value, and name the descriptors that won."""

import itertools
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from command import fails_in_one_line, midfea
from midfea import MidFeaClassifier, NeuronSelectivity, stages
from midfea.engines import get_engine
from midfea.evidence.spread import to_pixels
from midfea.evidence.trace import trace
from midfea.learning.network.settings import NetworkSettings
from small import SMALL

PARTITIONS = ("pyramid", "overlapping pyramid", (2, 3), {"size": 16, "step": 8})
TINY_NETWORK = NetworkSettings(n_words=40, min_images_seen=192, images_seen_per_image=1, batch_size=16)
PROJECTIONS = ("random", "gaussian", "uniform", "pca", None)


@pytest.fixture(scope="module")
def few(surfaces):
    """Small parts of few images: there are many models to fit."""
    images, labels = surfaces
    return np.ascontiguousarray(images[:15, :40, :40]), labels[:15]


def adds_up(model, image, **wanted):
    """The explanation, checked against the model's own decision value."""
    found = model.explain(image, **wanted)
    values = np.atleast_1d(model.decision_function([image])[0])
    number = int(np.flatnonzero(model.classes_ == found.label)[0])
    expected = values[number] if len(values) > 1 else values[0] * (1 if number else -1)
    told = found.evidence.sum() + found.intercept + found.baseline + found.network_share
    assert told == pytest.approx(expected, abs=1e-4)  # without the remainder,
    assert told + found.remainder == pytest.approx(expected, abs=1e-9)  # and with it
    assert found.decision == pytest.approx(expected, abs=1e-9)
    assert found.evidence.shape == found.image.shape
    assert found.evidence.dtype == np.float64
    return found


@pytest.mark.parametrize("encoding", ["vq", "soft", "llc"])
@pytest.mark.parametrize("pooling", ["max", "sum"])
@pytest.mark.parametrize("partition", PARTITIONS, ids=["pyramid", "reaching", "grid", "overlapping"])
def test_evidence_adds_up(few, encoding, pooling, partition):
    images, labels = few
    settings = {"encoding": encoding, "pooling": pooling, "partition": partition, "window": 3}
    for projection in PROJECTIONS:
        model = MidFeaClassifier(**SMALL, **settings, projection=projection).fit(images, labels)
        found = adds_up(model, images[0])
        assert found.predicted == found.label == model.predict(images[:1])[0]
        np.testing.assert_allclose(found.probabilities, model.predict_proba(images[:1])[0])
        assert (found.baseline != 0) == (projection == "pca")


@pytest.mark.parametrize("scales", [(1.0, 0.71, 0.5), (1.5, 1.0)])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_scales_and_odd_sizes(few, mixed_images, scales, padding):
    images, labels = few
    settings = {"encoding": "llc", "scales": scales, "padding": padding, "pairs": False}
    model = MidFeaClassifier(**SMALL, **settings).fit(images, labels)
    for image in mixed_images[:4]:
        adds_up(model, image)


def test_both_signs_of_two_classes(few):
    images, labels = few
    chosen = labels != "pits"
    model = MidFeaClassifier(**SMALL).fit(images[chosen], labels[chosen])
    first, second = (adds_up(model, images[0], label=label) for label in model.classes_)
    np.testing.assert_allclose(first.evidence, -second.evidence)
    assert first.decision == -second.decision
    assert first.words_for[0].word == second.words_against[0].word


def test_an_explanation_is_a_line_where_it_is_printed(few):
    images, labels = few
    model = MidFeaClassifier(**SMALL).fit(images, labels)
    found = model.explain(images[0])
    best = found.words_for[0]
    start = f"<Explanation for {found.label} ({found.probabilities.max():.1%}); decision value "
    assert repr(found).startswith(f"{start}{found.decision:.3f}; words for ")
    assert f"words for {best.word} ({best.contribution:+.3f})" in repr(found)
    assert len(repr(found)) < 250 and "\n" not in repr(found)
    other = next(name for name in model.classes_ if name != found.label)
    about_other = repr(model.explain(images[0], label=other))
    assert about_other.startswith(f"<Explanation for {other} (")
    assert f"predicted {found.label} ({found.probabilities.max():.1%})" in about_other


@pytest.mark.parametrize("projection", ["random", "pca"])
def test_neurons(few, projection):
    images, labels = few
    layer = NeuronSelectivity(5, random_state=0)
    settings = {"projection": projection, "selectivity": layer}
    model = MidFeaClassifier(**SMALL, **settings).fit(images, labels)
    found = adds_up(model, images[0], label="scale")
    row = list(model.classes_).index("scale")
    told = found.neurons.activations @ model.coef_[row] + model.intercept_[row]
    assert told == pytest.approx(model.decision_function(images[:1])[0, row], abs=1e-4)
    assert found.neurons.serves.shape == (5,)
    usual = model.coef_[row] @ found.neurons.usual + found.neurons.contributions.sum()
    assert usual + found.intercept == pytest.approx(found.decision, abs=1e-4)


def joined(model, weights):
    """With other weights of its heads: after so little training a head may have none."""
    other = copy(model)
    other.network_ = replace(model.network_, weights=np.array(weights))
    return other


@pytest.mark.parametrize("n_classes", [2, 3])
def test_network_share_is_what_the_network_adds(few, n_classes):
    pytest.importorskip("torch")
    images, labels = few
    chosen = np.isin(labels, np.unique(labels)[:n_classes])
    images, labels = images[chosen], labels[chosen]
    assert MidFeaClassifier(**SMALL).fit(images, labels).explain(images[0]).network_share == 0
    model = MidFeaClassifier(**SMALL, finetune=True, network=TINY_NETWORK).fit(images, labels)
    with_network, without = (
        adds_up(joined(model, weights), images[0], label=labels[0])
        for weights in ([2.0, 0.5, 0.4], [2.0, 0.0, 0.0])
    )
    assert without.network_share == pytest.approx(0, abs=1e-6)
    share = with_network.decision - without.decision
    assert with_network.network_share == pytest.approx(share, abs=1e-6)
    assert abs(share) > 1e-3
    np.testing.assert_allclose(with_network.evidence, without.evidence)


@pytest.mark.parametrize("encoding", ["vq", "llc"])
def test_maxima_are_shared_among_the_places_that_reach_them(few, encoding):
    """By the plain stages and loops: each step up to a cell's maximum goes to those who reach so far."""
    images, labels = few
    settings = {"encoding": encoding, "partition": (2, 2), "projection": None}
    model = MidFeaClassifier(**SMALL, **settings).fit(images, labels)
    chain, image = model.extractor_.chain, images[0]
    maps = stages.soft_convolution(image, chain.filters, chain.padding)
    descriptors = stages.assemble_descriptors(stages.max_pool_3d(maps), chain.window)
    if encoding == "vq":
        words = stages.quantize(descriptors, model.codebook_)[..., None]
        weights = np.ones(words.shape)
    else:
        words, weights = stages.llc_codes(descriptors, model.codebook_)
    height, width = words.shape[:2]
    gradient = np.random.default_rng(0).standard_normal((4, 20))
    expected = np.zeros((height, width))
    edges = [0, height // 2, height], [0, width // 2, width]
    for cell, (i, j) in enumerate(itertools.product(range(2), range(2))):
        for word in range(20):
            ranked = []
            for y in range(edges[0][i], edges[0][i + 1]):
                for x in range(edges[1][j], edges[1][j + 1]):
                    ranked.append((weights[y, x][words[y, x] == word].max(initial=0), (y, x)))
            ranked.sort(reverse=True)
            for n, (weight, _) in enumerate(ranked, 1):
                step = weight - (ranked[n][0] if n < len(ranked) else 0)
                for _, place in ranked[:n]:
                    expected[place] += gradient[cell, word] * step / n
    codes = get_engine("reference").prepare(chain).codes_by_scale(image)
    traced = trace(codes, chain, gradient.ravel())
    np.testing.assert_allclose(traced[0].by_descriptor, expected, atol=1e-5)


def test_evidence_stays_in_what_a_descriptor_sees(few):
    images, labels = few
    model = MidFeaClassifier(**SMALL).fit(images, labels)
    chain = model.extractor_.chain
    rows, columns = chain.grid(images[0].shape)
    one = np.zeros((rows, columns))
    one[5, 6] = 1.0
    evidence = to_pixels(one, images[0], chain, images[0].shape)
    assert evidence.sum() == pytest.approx(1)
    assert (evidence >= 0).all()
    # 2 x 2 places of 2 x 2 pixels, and 3 pixels more on each side: 7 x 7 filters
    evidence[10 - 3 : 14 + 3, 12 - 3 : 16 + 3] = 0
    assert not evidence.any()


def test_words_and_their_places(few):
    images, labels = few
    model = MidFeaClassifier(**SMALL, projection=None).fit(images, labels)
    found = model.explain(images[0], label="pits", n_words=20)
    both = found.words_for + found.words_against
    assert both
    assert sum(w.contribution for w in both) == pytest.approx(found.evidence.sum(), abs=1e-6)
    for words, sign in ((found.words_for, 1), (found.words_against, -1)):
        sizes = [sign * w.contribution for w in words]
        assert sizes == sorted(sizes, reverse=True)
        assert all(size > 0 for size in sizes)
    seen_words = found.maps["words"]
    for word in found.words_for[:5]:
        y0, x0, y1, x1 = word.boxes[0]
        assert word.word in seen_words[y0 // 2 : y1 // 2 + 1, x0 // 2 : x1 // 2 + 1]
        assert (word.shares > 0).all()


def test_nearest_training_images(few):
    images, labels = few
    model = MidFeaClassifier(**SMALL).fit(images, labels)
    by_images = model.explain(images[4], training=images).nearest
    assert by_images.indices[0] == 4
    assert by_images.distances[0] == pytest.approx(0, abs=1e-5)
    assert (np.diff(by_images.distances) >= 0).all()
    by_features = model.explain(images[4], training=model.features(images)).nearest
    np.testing.assert_array_equal(by_images.indices, by_features.indices)
    with pytest.raises(ValueError, match="a feature matrix of 3 columns"):
        model.explain(images[4], training=np.ones((5, 3)))


def test_unknown_class_is_refused(few):
    images, labels = few
    model = MidFeaClassifier(**SMALL).fit(images, labels)
    with pytest.raises(ValueError, match="knows no class 'rust', only pits, scale, scratch"):
        model.explain(images[0], label="rust")


def test_large_images_are_explained_as_the_model_sees_them(few):
    images, labels = few
    model = MidFeaClassifier(**SMALL, max_side=32).fit(images, labels)
    assert adds_up(model, images[0]).evidence.shape == (32, 32)


def test_a_flat_image(few):
    images, labels = few
    model = MidFeaClassifier(**SMALL, floor=0.5).fit(images, labels)
    adds_up(model, np.full((64, 64), 90, dtype=np.uint8))


@pytest.fixture(scope="module")
def on_disk(few, tmp_path_factory):
    """A model file, the folder it was trained on, and an image."""
    root = tmp_path_factory.mktemp("explain")
    images, labels = few
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        (root / "photos" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(root / "photos" / label / f"{index}.png")
    Image.fromarray(images[0]).save(root / "new.png")
    MidFeaClassifier(**SMALL, selectivity=4).fit(images, labels).save(root / "model.midfea")
    return root


def test_command_writes_a_drawing_and_a_page(on_disk):
    for name in ("new.png.png", "page.html"):
        options = ("-o", on_disk / name, "--photos", on_disk / "photos", "--label", "pits")
        result = midfea("explain", on_disk / "model.midfea", on_disk / "new.png", *options)
        assert result.returncode == 0, result.stderr
        assert "Decision value for pits: " in result.stdout
    with Image.open(on_disk / "new.png.png") as drawing:
        assert drawing.format == "PNG"
        assert len(np.unique(np.asarray(drawing.convert("L")))) > 50
    page = (on_disk / "page.html").read_text()
    assert page.count("data:image/") > 10
    assert "Active neurons" in page
    assert "The most similar training images" in page
    assert "http" not in page
    assert "(0.00)" in page  # the image itself was among those of training


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["new.png", "-o", "answer.pdf"], ["must end in .png or .html"]),
        (["new.png", "-o", "missing/answer.html"], ["there is no folder"]),
        (["none.png", "-o", "answer.html"], ["none.png", "no such file"]),
        (["new.png", "-o", "answer.html", "--label", "rust"], ["rust", "pits, scale, scratch"]),
        (["new.png", "-o", "answer.html", "--photos", "none"], ["none: no such folder"]),
    ],
)
def test_command_refuses_in_one_line(on_disk, arguments, words):
    result = midfea("explain", "model.midfea", *arguments, cwd=on_disk)
    fails_in_one_line(result, *words)
    assert not (on_disk / "answer.html").exists()
