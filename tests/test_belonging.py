"""None of these: what is promised of images of the classes, and that others are told from them."""

import csv
import io

import numpy as np
import pytest
from PIL import Image

import midfea
from command import fails_in_one_line
from command import midfea as run
from midfea.learning.belonging import area_under_curve, fit_belonging, images_needed
from midfea.learning.folds import make_folds
from midfea.learning.refusal import SHARES, leave_classes_out
from midfea.learning.validation import Validation
from small import SMALL


def drawn(n, rng, n_classes=4, p=30, other=False):
    """Features, logits and labels of images of the classes; others have no class and other features."""
    y = rng.randint(n_classes, size=n)
    centres = np.random.RandomState(0).randn(n_classes, p)
    features = rng.randn(n, p) + (0 if other else centres[y])
    if other:
        features[:, 10:20] += 3 * rng.randn(n, 10)
    scores = features @ centres.T / 5 + 0.3 * rng.randn(n, n_classes)
    return features.astype(np.float32), scores, y


def fitted(n, rng, **others):
    features, scores, y = drawn(n, rng)
    y[:4] = range(4)
    folds = make_folds(y, 5, 0)
    record = Validation.of(np.arange(n), scores, y, folds, 5, None)
    return fit_belonging(record, features, folds, None, 0, **others)


@pytest.mark.parametrize(("n", "share"), [(60, 0.05), (150, 0.01), (400, 0.05)])
def test_no_more_images_of_the_classes_are_refused_than_promised(n, share):
    rng = np.random.RandomState(n)
    refused = []
    for _ in range(60):
        belonging = fitted(n, rng)
        features, scores, _ = drawn(500, rng)
        refused.append((belonging.of(scores, features) <= share).mean())
    mean, error = np.mean(refused), np.std(refused) / np.sqrt(len(refused))
    assert mean <= share + 2 * error
    assert mean > 0.3 * share  # and not by refusing nothing


def test_other_images_belong_less_and_learning_from_others_helps():
    rng = np.random.RandomState(1)
    plain = fitted(300, rng)
    features, scores, _ = drawn(200, rng)
    strange, their_scores, _ = drawn(200, rng, other=True)
    with_others = fitted(300, np.random.RandomState(1), others=drawn(100, rng, other=True)[0])
    areas = [
        area_under_curve(b.values(scores, features), b.values(their_scores, strange))
        for b in (plain, with_others)
    ]
    assert areas[0] > 0.8
    assert areas[1] > 0.8
    assert plain.smallest == 1 / 301
    assert images_needed(0.01) == 99 and images_needed(0.05) == 19


def test_too_few_images_say_nothing():
    rng = np.random.RandomState(2)
    features, scores, y = drawn(9, rng)
    folds = np.arange(9) % 3
    record = Validation.of(np.arange(9), scores, y, folds, 3, None)
    assert fit_belonging(record, features, folds, None, 0) is None


def test_the_area_under_the_curve_counts_pairs():
    assert area_under_curve([3, 4], [1, 2]) == 1
    assert area_under_curve([1, 2], [1, 2]) == 0.5
    assert area_under_curve([0], [1, 2, 3, -1]) == 0.25


def test_two_classes_and_refusing_by_them():
    rng = np.random.RandomState(3)
    y = np.arange(200) % 2
    scores = np.stack([1.0 - 2 * y, 2 * y - 1.0], axis=1) + 0.3 * rng.randn(200, 1) * [1, -1]
    features = (rng.randn(200, 12) + 2 * y[:, None]).astype(np.float32)
    folds = make_folds(y, 5, 0)
    belonging = fit_belonging(
        Validation.of(np.arange(200), scores, y, folds, 5, None), features, folds, None, 0
    )
    found = belonging.of(np.zeros((1, 2)), np.full((1, 12), 30.0, dtype=np.float32))
    assert found[0] == belonging.smallest  # undecided, and far away
    assert (belonging.of(scores, features) <= 0.05).mean() < 0.08


def test_classes_left_out_show_how_others_are_refused():
    rng = np.random.RandomState(4)
    y = np.repeat(np.arange(5), 40)
    features = (0.4 * rng.randn(200, 60) + np.eye(5, 60)[y] * 3).astype(np.float32)
    easy = leave_classes_out(features, y, 1.0, 0)
    assert easy.n_images == 200 and easy.area > 0.9
    assert len(easy.refused) == len(SHARES) and easy.refused[1] > 0.5
    noise = leave_classes_out(rng.randn(200, 60).astype(np.float32), y, 1.0, 0)
    assert noise.area < 0.65
    assert leave_classes_out(features[:80], y[:80], 1.0, 0) is None  # two classes


@pytest.fixture(scope="module")
def model(surfaces):
    images, labels = surfaces
    return midfea.MidFeaClassifier(**SMALL, unknown=0.1).fit(images, labels)


def test_predict_names_none_of_these(model, surfaces, tmp_path):
    flat = [np.full((64, 64), 90, dtype=np.uint8)] * 2
    belonging = model.belonging([*surfaces[0], *flat])
    assert ((belonging > 0) & (belonging <= 1)).all()
    assert (belonging[-2:] == model.belonging_.smallest).all()
    assert list(model.predict(flat)) == ["none of these"] * 2
    model.save(tmp_path / "m.midfea")
    loaded = midfea.load(tmp_path / "m.midfea")
    assert loaded.unknown == 0.1
    np.testing.assert_array_equal(loaded.belonging(surfaces[0]), model.belonging(surfaces[0]))
    explained = model.explain(flat[0])
    assert explained.belonging == model.belonging_.smallest
    numbers = midfea.MidFeaClassifier(**SMALL, unknown=0.1).fit(
        surfaces[0], np.unique(surfaces[1], return_inverse=True)[1]
    )
    assert list(numbers.predict(flat)) == [-1, -1]


def test_what_cannot_be_promised_is_said(surfaces):
    images, labels = surfaces
    few = midfea.MidFeaClassifier(**SMALL, unknown=0.01)
    with pytest.warns(UserWarning, match="no image will be refused: a share of 0.01 needs 99 valid"):
        few.fit(images, labels)
    assert "none of these" not in few.predict([np.full((64, 64), 90, dtype=np.uint8)])
    for unknown in (0, 1.0, -0.1, "0.1", True):
        with pytest.raises(ValueError, match="unknown is the share"):
            midfea.MidFeaClassifier(**SMALL, unknown=unknown).fit(images, labels)


def test_exported_models_know_what_belongs(model, surfaces, tmp_path):
    pytest.importorskip("onnxruntime")
    from midfea.export import write_onnx
    from midfea.export.runtime import OnnxClassifier

    images, labels = surfaces
    others = [np.full((64, 64), 90, dtype=np.uint8), images[0][::-1].copy()] * 6
    for each in (model, midfea.MidFeaClassifier(**SMALL).fit(images, labels, others=others)):
        write_onnx(each, tmp_path / "m.onnx")
        exported = OnnxClassifier(tmp_path / "m.onnx")
        step = each.belonging_.smallest  # rounding may move an image by one place
        found = exported.predict_all([*images, *others[:2]])[1]
        np.testing.assert_allclose(found, each.belonging([*images, *others[:2]]), atol=1.01 * step)


def test_the_command_refuses_and_says_why_it_cannot(model, surfaces, tmp_path):
    file = tmp_path / "m.midfea"
    plain = midfea.MidFeaClassifier(**SMALL).fit(*surfaces)
    plain.save(file)
    flat, own = tmp_path / "flat.png", tmp_path / "own.png"
    Image.fromarray(np.full((64, 64), 90, dtype=np.uint8)).save(flat)
    Image.fromarray(surfaces[0][0]).save(own)
    table = run("predict", file, flat, own, "--unknown", 0.1, "--format", "csv").stdout
    first, second = csv.DictReader(io.StringIO(table))
    assert first["class"] == "none of these"
    assert float(first["belonging"]) == pytest.approx(plain.belonging_.smallest, abs=1e-6)
    assert second["class"] in plain.classes_ and float(second["belonging"]) > 0.1
    assert "none of these" not in run("predict", file, flat).stdout
    refused = run("predict", file, flat, "--unknown", 0.001)
    fails_in_one_line(refused, "--unknown 0.001 would refuse no image", "needs 999 validation images")
